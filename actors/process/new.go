package process

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/journal"
	"github.com/b6f6fdd7/troupe/actors/internal/quota"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/process/denial"
	"github.com/b6f6fdd7/troupe/actors/process/launch"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Options describe a new process.
type Options struct {
	Request                  // New sets Grouped and StdinRate. Ephemeral means besides: the process is retired as soon as its owner has had the end
	MaxChunk *uint64         // as in protocol.SessionOptions
	Events   *journal.Source // of the session; nil: nobody is told
	Group    *actor.PID      // who decides for its group: the session; nil: it has no group
	// EndsWithServer means: the next server does not know the process.
	EndsWithServer bool
	// Independent: the group counts the restarts of this process alone.
	Independent bool
	Place       *quota.Place // nil: the server counts no places. New takes it over, unless New fails
}

// Request and Environments are what the session needs of package launch.
type (
	Request      = launch.Request
	Environments = launch.Environments
)

// New prepares a process and returns the request for its actor, or the reason why the process
// cannot be started. A caller who does not send the request calls its Unused.
func New(e *env.Env, o Options) (message.SpawnRequest, *protocol.Error) {
	record, err := newRecord(e, o)
	if err != nil {
		return message.SpawnRequest{}, err
	}
	if !o.EndsWithServer {
		record.outbox = e.NewOutbox(record.keep)
	}
	return record.request(), nil
}

func newRecord(e *env.Env, o Options) (*processRecord, *protocol.Error) {
	if err := dependsError(o); err != nil {
		return nil, err
	}
	retention, err := retentionOf(e, o.Params.Retention)
	if err != nil {
		return nil, err
	}
	request := o.Request
	request.Grouped = o.Group != nil
	if o.Place != nil {
		request.StdinRate = o.Place.Stdin
	}
	what, err := launch.New(e, request)
	if err != nil {
		return nil, err
	}
	display, err := displayFor(e, o.Gauge, what)
	if err != nil {
		what.Release()
		return nil, err
	}
	record := &processRecord{
		env:          e,
		id:           what.Params.ProcessID,
		name:         o.Name,
		launch:       what,
		run:          run{sandbox: denial.For(what.Spec.Sandbox)},
		feed:         feedOf(what.Params.Retention, retention, o.Ephemeral),
		session:      o.Session,
		group:        o.Group,
		ownIntensity: o.Group == nil || o.Independent,
		gauge:        share{Gauge: o.Gauge},
		display:      display,
		events:       o.Events,
		place:        o.Place,
		created:      time.Now(),
	}
	if o.MaxChunk != nil {
		record.feed.Log.MaxChunk = int(*o.MaxChunk)
	}
	record.spool = spoolOf(e, record.disk(), what.Params.Retention)
	return record, nil
}

// dependsError refuses dependsOn outside a group, and an intensity within a group.
func dependsError(o Options) *protocol.Error {
	if o.Group == nil {
		switch {
		case len(o.Params.DependsOn) > 0:
			return protocol.WrongParams("dependsOn is for the processes of a group: use group/start, or leave it out")
		case o.Params.Label != "":
			return protocol.WrongParams("label is for the processes of a group: use group/start, or leave it out")
		}
		return nil
	}
	if r := o.Params.Restart; r != nil && r.Intensity != nil && !o.Independent {
		return errGroupIntensity
	}
	if err := wireerr.BadName("label", o.Params.Label); err != nil {
		return err
	}
	for _, id := range o.Params.DependsOn {
		if err := wireerr.BadName("dependsOn", id); err != nil {
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
			Props: r.env.Props(func() actor.Actor { return &process{r} }, env.Escalated, r.outbox.Props),
			Label: "process " + r.id,
		},
		Refused: func(err *protocol.Error) any { return message.ProcessStarted{ID: r.id, Name: r.name, Err: err} },
		Ended:   protocol.Errorf(protocol.KindEnded, protocol.CodeInvalidRequest, "process %s was not started: the session has ended", wireerr.Clip(r.id)),
		Unused: func() {
			r.leaveScreen()
			r.launch.Release()
			r.destroy()
		},
	}
}
