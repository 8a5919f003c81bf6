package actors

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Messages to the sessions actor.
type (
	// registry, with the sender of the Attach as sender
	spawnSession struct{ record *sessionRecord }
)

func (m spawnSession) Failed(e *protocol.Error) any { return m.record.first.Failed(e) }

func (m spawnSession) Unheard(to *actor.PID) any { return m.record.first.Unheard(to) }

// sessions has a supervisor for each session under it. No logic: it only spawns.
type sessions struct{ *env.Env }

func (s *sessions) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case spawnSession:
		props := s.Props(func() actor.Actor { return &sessionSupervisor{record: m.record} }, env.Contained)
		if _, err := ctx.SpawnNamed(props, m.record.id); err != nil {
			ctx.Respond(m.Failed(protocol.Errorf(protocol.CodeInternal, "spawn session %s: %v", m.record.id, err)))
		}
	case message.SessionSpawned:
		ctx.Respond(m)
	case message.BudgetLow:
		toChildren(ctx, m)
	case message.ListSessions:
		ctx.Respond(message.SessionList{Supervisors: slices.Clone(ctx.Children())}) // ours changes with each child
	}
}

func toChildren(ctx actor.Context, m any) {
	for _, pid := range ctx.Children() {
		ctx.Send(pid, m)
	}
}

// spawnProcess is from the session.
type spawnProcess struct{ record *processRecord }

func (m spawnProcess) Failed(e *protocol.Error) any {
	return message.ProcessStarted{ID: m.record.id, Name: m.record.name, Err: e}
}

func (m spawnProcess) Unheard(*actor.PID) any {
	return m.Failed(protocol.Errorf(protocol.CodeInvalidRequest, "process %s was not started: the session has ended", wireerr.Clip(m.record.id)))
}

func (m spawnProcess) GiveBack() {
	m.record.release()
	m.record.destroy()
}

// spawnGroup is from the session, behind the spawnProcess of all its processes.
type spawnGroup struct{ record *groupRecord }

// sessionSupervisor holds one session and its processes side by side. No logic:
// it spawns, and ends when the session does, with all that is under it.
type sessionSupervisor struct{ record *sessionRecord }

func (s *sessionSupervisor) Receive(ctx actor.Context) {
	shared := s.record.shared
	switch m := ctx.Message().(type) {
	case *actor.Started:
		s.record.supervisor = ctx.Self()
		s.spawn(ctx, message.SessionName, func() actor.Actor { return &session{s.record} })
	case *actor.Stopped:
		s.record.gauge.Account.Close()
	case spawnProcess:
		if err := s.spawn(ctx, m.record.name, func() actor.Actor { return &process{m.record} }); err != nil {
			m.record.release()
			ctx.Respond(m.Failed(protocol.Errorf(protocol.CodeInternal, "spawn process %s: %v", m.record.id, err)))
		}
	case spawnGroup:
		if err := s.spawn(ctx, m.record.name, func() actor.Actor { return &group{groupRecord: m.record} }); err != nil {
			shared.Log.Error("spawn group", "group", m.record.id, "err", err)
		}
		ctx.Respond(message.GroupSpawned{Name: m.record.name}) // watching one that is not there tells
	case message.Drain, message.Evict, message.TellDetached, message.Abandoned:
		ctx.Send(actor.NewPID(ctx.Self().Address, ctx.Self().Id+"/"+message.SessionName), m)
	case message.BudgetLow:
		toChildren(ctx, m)
	case *actor.Terminated:
		shared.Strategy.Forget(m.Who)
		if session := actor.NewPID(ctx.Self().Address, ctx.Self().Id+"/"+message.SessionName); m.Who.Id == session.Id {
			ctx.Stop(ctx.Self()) // it has ended; or failed too often, and its processes go with it
		} else {
			ctx.Send(session, message.Gone{Who: m.Who}) // the session may not have heard of it yet
		}
	}
}

func (s *sessionSupervisor) spawn(ctx actor.Context, name string, produce actor.Producer) error {
	_, err := ctx.SpawnNamed(s.record.shared.Props(produce, env.Escalated), name)
	return err
}
