package actors

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// processOptions say what process to make, and for whom.
type processOptions struct {
	name      string // of the actor
	params    protocol.ProcessStartParams
	session   *actor.PID
	closes    context.Context // done when the session closes: a start that has no child yet is given up
	owner     string          // see child.Spec
	gauge     *message.Gauge  // of the session
	ephemeral bool            // the session forgets the process once that has had its end
	group     *actor.PID      // nil: none
	groupID   string          // the client's
	shares    environments    // of the processes that are started together; nil: of this one alone
}

// newProcess prepares a process, or says why it cannot be started, and makes the request for its
// actor. Until that is sent, whoever gives it up calls unused.
func newProcess(e *env.Env, o processOptions) (message.SpawnRequest, *protocol.Error) {
	if err := dependsError(o); err != nil {
		return message.SpawnRequest{}, err
	}
	params := o.params
	spec, err := specOf(e, params, o.name)
	if err != nil {
		return message.SpawnRequest{}, err
	}
	retention, err := retentionOf(e, params.Retention)
	if err != nil {
		return message.SpawnRequest{}, err
	}
	restart, err := restartOf(params.Restart)
	if err != nil {
		return message.SpawnRequest{}, err
	}
	if o.group != nil && restart == nil {
		restart = &supervision.Restart{Policy: supervision.Temporary}
	}
	spec.Owner, spec.Context = o.owner, o.closes
	// The spec has them: the record is kept for long.
	params.Env, params.EnvPolicy, params.Arg0, params.Metadata, params.DependsOn = nil, nil, nil, nil, nil
	params.Argv = clipArgv(params.Argv)
	params.Cwd = protocol.FileURI(spec.Dir) // as it came it may be far longer
	record := &processRecord{
		shared:  e,
		id:      params.ProcessID,
		name:    o.name,
		params:  params,
		spec:    spec,
		feed:    feedOf(params.Retention, retention, o.ephemeral),
		spool:   spoolOf(e, params.Retention),
		restart: restart,
		session: o.session,
		group:   o.group,
		groupID: o.groupID,
		gauge:   o.gauge,
		created: time.Now(),
	}
	if err := record.keep(o.shares); err != nil {
		record.unused()
		return message.SpawnRequest{}, err
	}
	return record.request(), nil
}

// dependsError refuses what only a process of a group may have, and what none of them may.
func dependsError(o processOptions) *protocol.Error {
	if o.group == nil {
		if len(o.params.DependsOn) > 0 {
			return protocol.Errorf(protocol.CodeInvalidParams, "dependsOn is for the processes of a group: use group/start, or leave it out")
		}
		return nil
	}
	if r := o.params.Restart; r != nil && r.Intensity != nil {
		return errGroupIntensity
	}
	for _, id := range o.params.DependsOn {
		if err := wireerr.LongName("dependsOn", id); err != nil {
			return err
		}
	}
	return nil
}

// request asks for the actor of a process.
func (r *processRecord) request() message.SpawnRequest {
	return message.SpawnRequest{
		Spawn: message.Spawn{
			Name:  r.name,
			Props: r.shared.Props(func() actor.Actor { return &process{r} }, env.Escalated),
			What:  "process " + r.id,
		},
		Refused: func(err *protocol.Error) any { return message.ProcessStarted{ID: r.id, Name: r.name, Err: err} },
		Ended:   protocol.Errorf(protocol.CodeInvalidRequest, "process %s was not started: the session has ended", wireerr.Clip(r.id)),
		Unused:  r.unused,
	}
}

// unused gives back what a process holds that has no actor.
func (r *processRecord) unused() {
	r.release()
	r.destroy()
}
