package connection

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/policy"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/protocol"
)

// startParams and groupParams apply each envPolicy here, on the goroutine that reads the
// connection: to match many patterns with many names takes long, and only the sender has to wait.
func startParams(c protocol.Codec, payload []byte, p *protocol.ProcessStartParams) *protocol.Error {
	if err := Params(c, payload, p); err != nil {
		// Clients of the peer compare what is wrong with a shellSnapshot.
		if text, member, ok := strings.Cut(err.Message, ", in `shellSnapshot"); ok {
			return err.Reword("%s", text).Advise("correct the member `shellSnapshot%s of the params", member)
		}
		return err
	}
	work := int64(0)
	return applyPolicy(p, &work)
}

func groupParams(c protocol.Codec, payload []byte, p *protocol.GroupStartParams) *protocol.Error {
	if err := Params(c, payload, p); err != nil {
		return err
	}
	work := int64(0)
	for i := range p.Processes {
		if err := applyPolicy(&p.Processes[i], &work); err != nil {
			return err.Reword("process %s of the group: %s", wireerr.Clip(p.Processes[i].ProcessID), err.Message)
		}
	}
	return nil
}

// applyPolicy applies EnvPolicy to the environment, and puts the result into Env. work is the work of
// all policies in the message so far.
func applyPolicy(p *protocol.ProcessStartParams, work *int64) *protocol.Error {
	if p.Snapshots() {
		p.ShellSnapshot.SetEnv(p.EnvPolicy, slices.Collect(maps.Keys(p.Env)))
	}
	if p.EnvPolicy == nil {
		return nil
	}
	server := os.Environ()
	*work += child.MatchingWork(p.EnvPolicy, server)
	if err := cmp.Or(policy.CheckEnv(p.EnvPolicy), policy.CheckEnvWork(*work)); err != nil {
		return err
	}
	p.SetOfUser(child.InheritedOfUser(p.EnvPolicy, p.Env))
	p.Env = child.Variables(p.EnvPolicy, server, p.Env)
	p.EnvPolicy = nil
	return nil
}
