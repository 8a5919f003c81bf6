package session

import (
	"path"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/quota"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/process"
	"github.com/b6f6fdd7/troupe/actors/session/access"
	"github.com/b6f6fdd7/troupe/actors/session/members"
	"github.com/b6f6fdd7/troupe/protocol"
)

// maxLeft bounds the processes that a closing session names because they were not seen gone.
const maxLeft = 20

// startProcess handles process/start. A request with the startToken of a process gets the same answer again.
func (s *session) startProcess(ctx actor.Context, r request, params protocol.ProcessStartParams) (any, *protocol.Error) {
	p := s.processes.Get(params.ProcessID)
	var err *protocol.Error
	switch {
	case p == nil:
		p, err = s.beginProcess(ctx, r, params)
	case params.StartToken == "" || params.StartToken != p.Token:
		err = protocol.Errorf(protocol.KindExists, protocol.CodeInvalidRequest, "process %s already exists", params.ProcessID)
	case p.PID != nil:
		return message.StartResult{ProcessStartResult: p.Result, Process: message.ProcessRef{ID: p.ID, PID: p.PID}}, nil
	}
	if err != nil {
		return nil, s.refused(r, "", err, params)
	}
	return s.wait(r, p.Name)
}

// beginProcess starts a process, or returns why not.
func (s *session) beginProcess(ctx actor.Context, r request, params protocol.ProcessStartParams) (*members.Process, *protocol.Error) {
	s.makeRoom(ctx, 1)
	if err := s.mayStart(1); err != nil {
		return nil, err
	}
	places, err := s.env.Quotas.Start(s.from, 1, time.Now())
	if err != nil {
		return nil, err
	}
	start, err := process.New(s.env, s.processOptions(ctx, params, places[0]))
	if err != nil {
		places[0].Leave()
		return nil, err
	}
	p := memberOf(params.ProcessID, start)
	p.Token = params.StartToken
	s.processes.Add(p)
	s.tellOthers(ctx, []request{r}, message.ProcessStarting{ID: p.ID})
	s.ask(ctx, p)
	return p, nil
}

// makeRoom has the processes that closed first give way to n starts if these take more than three quarters of the places: two for each
// start, so that the processes become fewer.
func (s *session) makeRoom(ctx actor.Context, n int) {
	if s.processes.Len()+n <= s.env.MaxProcesses*3/4 {
		return
	}
	for range 2 * n {
		if p := s.processes.GiveWay(); p != nil {
			ctx.Send(p.PID, message.GiveWay{})
		}
	}
}

// mayStart refuses n more processes if the session is closing, or would have too many.
func (s *session) mayStart(n int) *protocol.Error {
	if reason, closing := s.life.Closing(); closing {
		return protocol.Errorf(protocol.KindEnded, protocol.CodeInvalidRequest, "session %s is closing: %s", s.id, reason)
	}
	if has := s.processes.Len(); n > s.env.MaxProcesses-has {
		return protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidRequest, "max-processes is %d here, and the session has %d: processes that closed count until their owner has read them, or else their retention is over", s.env.MaxProcesses, has).
			Exceeds("max-processes", float64(s.env.MaxProcesses), float64(has))
	}
	return nil
}

// memberOf returns the entry of a new process in the table.
func memberOf(id string, start message.SpawnRequest) *members.Process {
	return &members.Process{ID: id, Name: start.Name, Start: &start, Result: protocol.ProcessStartResult{ProcessID: id, SandboxType: protocol.SandboxTypeNone}}
}

// ask has the actor of a process spawned. Repeating ask does nothing.
func (s *session) ask(ctx actor.Context, m *members.Process) {
	s.env.At(ctx, env.Tabled)
	if m.Start != nil {
		ctx.Request(s.supervisor, *m.Start)
		m.Start = nil
	}
}

// processOptions returns the options of a process without a group, for the client that sent the message.
func (s *session) processOptions(ctx actor.Context, params protocol.ProcessStartParams, place *quota.Place) process.Options {
	o := s.options(ctx.Self(), place)
	o.Name, o.Params, o.By = message.NewName("p-"), params, s.clientOf(ctx.Sender())
	if owner := s.access.Owner(); o.Ephemeral && owner != (access.ID{}) {
		o.Owner = path.Dir(owner.Name) // the connection: all of its commands, each in a session of its own, count as one owner
	}
	return o
}

// options returns the part of the options that all processes of the session have. self is the session's actor.
func (r *sessionRecord) options(self *actor.PID, place *quota.Place) process.Options {
	return process.Options{
		Request: process.Request{
			Session:   self,
			Closes:    r.closes,
			Owner:     r.id,
			Identity:  r.identity,
			Gauge:     r.gauge,
			Ephemeral: r.commands,
			Shells:    r.shells,
		},
		EndsWithServer: r.estate == nil,

		MaxChunk: r.maxChunk,
		Events:   r.events,
		Place:    place,
	}
}

// processStarted takes the news that a process can be asked, or could not be started.
func (s *session) processStarted(ctx actor.Context, m message.ProcessStarted) {
	p, orphan := s.processes.Announced(m.Name)
	if orphan && m.Err == nil { // the session failed, and took the process for gone before it was spawned
		ctx.Send(m.Ref.PID, message.Stop{Reason: "given up by its session"})
	}
	if p == nil {
		return
	}
	// Tell first, then change the table: telling twice does no harm.
	if m.Err != nil {
		s.answer(ctx, p.Name, nil, m.Err)
		s.tellAttached(ctx, message.ProcessRemoved{ID: p.ID, Reason: m.Err.Message})
		s.env.At(ctx, env.StartTold)
		s.processes.Forget(p)
		s.leavesGroup(ctx, p)
		s.mayEnd(ctx)
		return
	}
	s.env.Watch(ctx, m.Ref.PID)
	p.Result.SandboxType = m.Sandbox
	s.processes.Touch(p)
	if s.processes.Named(p.Name) == nil { // an earlier server has retired the process, and its programs have not ended
		p.PID = m.Ref.PID
		if reason, closing := s.life.Closing(); closing {
			ctx.Send(p.PID, message.Stop{Reason: reason})
		}
		return
	}
	if p.Group == "" {
		s.tellOthers(ctx, s.waiting[p.Name], message.ProcessAdded{Process: m.Ref})
		s.answer(ctx, p.Name, message.StartResult{ProcessStartResult: p.Result, Process: m.Ref}, nil)
	}
	s.env.At(ctx, env.StartTold)
	p.PID, p.Began = m.Ref.PID, true // touched above
	s.announced(ctx, p)
	if reason, closing := s.life.Closing(); closing {
		ctx.Send(p.PID, message.Stop{Reason: reason, Shutdown: s.life.Grace()})
	}
}

// processRetired frees the id of a process whose retention is over.
func (s *session) processRetired(ctx actor.Context, m message.ProcessRetired) {
	if p := s.processes.Named(m.Name); p != nil {
		s.tellAttached(ctx, message.ProcessRemoved{ID: m.ID, Last: m.Last, Acked: m.Acked, Closed: true})
		s.env.At(ctx, env.RetiredTold)
		s.processes.Retire(p)
		if reason, closing := s.life.Closing(); closing {
			ctx.Send(p.PID, message.Stop{Reason: reason})
		}
	}
	ctx.Respond(message.Forgotten{}) // to every ProcessRetired: the first answer may be lost
}

// processGone forgets a process whose actor has stopped.
func (s *session) processGone(ctx actor.Context, name string) {
	p, live := s.processes.Gone(name)
	if live {
		reason, closing := s.life.Closing()
		if !closing {
			reason = reasonActorFailed
		}
		s.answer(ctx, p.Name, nil, protocol.Errorf(protocol.KindEnded, protocol.CodeInternal, "process %s ended before it had started: %s", p.ID, reason))
		removed := message.ProcessRemoved{ID: p.ID, Reason: reason, Last: p.Ended.Last, Acked: p.Ended.Acked, Closed: p.Ended.Closed}
		// A removal is remembered as long as a closed process is kept.
		s.processes.Remember(time.Now(), max(s.env.ClosedRetention, 0), removed)
		s.tellAttached(ctx, removed)
		s.env.At(ctx, env.GoneTold)
		s.processes.Forget(p)
	}
	if p != nil {
		s.leavesGroup(ctx, p)
	}
	s.mayEnd(ctx)
}

// ended records the last message of a process.
func (s *session) ended(m message.ProcessEnded) {
	if p := s.processes.Named(m.Name); p != nil {
		p.Ended = m
		s.processes.Touch(p)
	}
	s.leave(m.Left)
}

// captureOver takes the news that a capture of a shell's state has no programs any more.
func (s *session) captureOver(ctx actor.Context, m message.CaptureOver) {
	s.shells.Note()
	s.leave(m.Left)
	s.mayEnd(ctx)
}

// leave records programs that were not seen gone; nil: none.
func (s *session) leave(left error) {
	if left != nil && len(s.left) < maxLeft {
		s.left = append(s.left, left)
	}
}
