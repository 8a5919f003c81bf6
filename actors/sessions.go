package actors

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Messages to the sessions actor.
type (
	// registry, with the sender of the Attach as sender
	spawnSession struct{ record *sessionRecord }
	// registry, behind each spawnSession: comes back
	sessionSpawned struct{ id string }
	listSessions   struct{} // registry, when it is new
	budgetLow      struct{} // budget; to every process: keep nothing that your owner has had
)

func (m spawnSession) failed(e *protocol.Error) any { return m.record.first.failed(e) }
func (listSessions) failed(*protocol.Error) any     { return sessionListFailed{} }

func (m spawnSession) unheard(to *actor.PID) any { return m.record.first.unheard(to) }
func (listSessions) unheard(*actor.PID) any      { return nil }

// sessions has a supervisor for each session under it. No logic: it only spawns.
type sessions struct{ *shared }

func (s *sessions) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case spawnSession:
		props := s.props(func() actor.Actor { return &sessionSupervisor{record: m.record} }, contained)
		if _, err := ctx.SpawnNamed(props, m.record.id); err != nil {
			ctx.Respond(m.failed(protocol.Errorf(protocol.CodeInternal, "spawn session %s: %v", m.record.id, err)))
		}
	case sessionSpawned:
		ctx.Respond(m)
	case budgetLow:
		toChildren(ctx, m)
	case listSessions:
		ctx.Respond(sessionList{slices.Clone(ctx.Children())}) // ours changes with each child
	}
}

func toChildren(ctx actor.Context, m any) {
	for _, pid := range ctx.Children() {
		ctx.Send(pid, m)
	}
}

// spawnProcess is from the session.
type spawnProcess struct{ record *processRecord }

func (m spawnProcess) failed(e *protocol.Error) any {
	return processStarted{id: m.record.id, name: m.record.name, err: e}
}

func (m spawnProcess) unheard(*actor.PID) any {
	return m.failed(protocol.Errorf(protocol.CodeInvalidRequest, "process %s was not started: the session has ended", wireerr.Clip(m.record.id)))
}

func (m spawnProcess) giveBack() {
	m.record.release()
	m.record.destroy()
}

// spawnGroup is from the session, behind the spawnProcess of all its processes.
type spawnGroup struct{ record *groupRecord }

// sessionName is the name of a session actor, under the supervisor that is named
// by the session's id.
const sessionName = "session"

// sessionSupervisor holds one session and its processes side by side. No logic:
// it spawns, and ends when the session does, with all that is under it.
type sessionSupervisor struct{ record *sessionRecord }

func (s *sessionSupervisor) Receive(ctx actor.Context) {
	shared := s.record.shared
	switch m := ctx.Message().(type) {
	case *actor.Started:
		s.record.supervisor = ctx.Self()
		s.spawn(ctx, sessionName, func() actor.Actor { return &session{s.record} })
	case *actor.Stopped:
		s.record.gauge.account.Close()
	case spawnProcess:
		if err := s.spawn(ctx, m.record.name, func() actor.Actor { return &process{m.record} }); err != nil {
			m.record.release()
			ctx.Respond(m.failed(protocol.Errorf(protocol.CodeInternal, "spawn process %s: %v", m.record.id, err)))
		}
	case spawnGroup:
		if err := s.spawn(ctx, m.record.name, func() actor.Actor { return &group{groupRecord: m.record} }); err != nil {
			shared.Log.Error("spawn group", "group", m.record.id, "err", err)
		}
		ctx.Respond(groupSpawned{m.record.name}) // watching one that is not there tells
	case drain, evict, tellDetached, abandoned:
		ctx.Send(actor.NewPID(ctx.Self().Address, ctx.Self().Id+"/"+sessionName), m)
	case budgetLow:
		toChildren(ctx, m)
	case *actor.Terminated:
		shared.strategy.Forget(m.Who)
		if session := actor.NewPID(ctx.Self().Address, ctx.Self().Id+"/"+sessionName); m.Who.Id == session.Id {
			ctx.Stop(ctx.Self()) // it has ended; or failed too often, and its processes go with it
		} else {
			ctx.Send(session, gone{m.Who}) // the session may not have heard of it yet
		}
	}
}

func (s *sessionSupervisor) spawn(ctx actor.Context, name string, produce actor.Producer) error {
	_, err := ctx.SpawnNamed(s.record.shared.props(produce, escalated), name)
	return err
}
