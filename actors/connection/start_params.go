package connection

import (
	"cmp"
	"os"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/policy"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/protocol"
)

// startParams and groupParams apply each envPolicy here, on the goroutine that reads the
// connection: many patterns on many names take long, and only who sent them is to wait.
func startParams(c protocol.Codec, payload []byte) (protocol.ProcessStartParams, *protocol.Error) {
	p, err := params[protocol.ProcessStartParams](c, payload)
	if err != nil {
		return p, err
	}
	work := int64(0)
	err = applyPolicy(&p, &work)
	return p, err
}

func groupParams(c protocol.Codec, payload []byte) (protocol.GroupStartParams, *protocol.Error) {
	group, err := params[protocol.GroupStartParams](c, payload)
	if err != nil {
		return group, err
	}
	work := int64(0)
	for i := range group.Processes {
		if err := applyPolicy(&group.Processes[i], &work); err != nil {
			return group, protocol.Errorf(err.Code, "process %s of the group: %s", wireerr.Clip(group.Processes[i].ProcessID), err.Message)
		}
	}
	return group, nil
}

// applyPolicy puts into Env what the policy makes of the environment. work is that of
// the policies in the message so far.
func applyPolicy(p *protocol.ProcessStartParams, work *int64) *protocol.Error {
	if p.EnvPolicy == nil {
		return nil
	}
	server := os.Environ()
	*work += child.MatchingWork(p.EnvPolicy, server)
	if err := cmp.Or(policy.CheckEnv(p.EnvPolicy), policy.CheckEnvWork(*work)); err != nil {
		return err
	}
	p.Env = child.Variables(p.EnvPolicy, server, p.Env)
	p.EnvPolicy = nil
	return nil
}
