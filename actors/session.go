package actors

import (
	"context"
	"path"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/session/lifetime"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/oklog/ulid/v2"
)

type (
	lifeDue struct{} // itself: the lifetime has something to do

)

// sessionRecord is what of a session survives its actor, whose Props close over
// it. One owner: Receive.
type sessionRecord struct {
	// Fixed at spawn.
	env        *env.Env
	id, name   string
	from       string // see Attach
	registry   *actor.PID
	supervisor *actor.PID
	first      *message.AttachRequest // who opened it; nil once attached

	// closes is done when the session closes: starts that have no child yet are given up.
	closes context.Context
	giveUp context.CancelCauseFunc

	attaching *actor.PID // whose Attach is under way, and who was not attached before; nil: nobody
	owner     *actor.PID // nil: detached
	observers map[message.Who]*actor.PID
	former    map[message.Who]*actor.PID // evicted owners that have not ended
	life      *lifetime.Life
	lifeAt    env.Alarm // life.Next
	told      standing  // as the registry knows it
	gauge     *message.Gauge
	processes map[string]*member    // by the client's id
	ids       map[string]string     // the client's id, by actor name: of those
	lingering map[string]*actor.PID // by actor name: retired, their trees not yet gone
	removed   []removal             // not long ago, the oldest first
	groups    map[string]*ensemble  // by the client's id
	groupIDs  map[string]string     // the client's id, by actor name: of those
	left      []error               // of processes that have ended: what was not seen gone
	answers   answers               // to requests that may be sent again
	closers   []request             // session/close
}

// member is a process in the session's table.
type member struct {
	name   string
	token  string                // startToken
	start  *message.SpawnRequest // nil once its actor has been asked for
	pid    *actor.PID            // nil while it is being started
	result protocol.ProcessStartResult
	asked  []request // who waits for the start
	ended  message.ProcessEnded
	group  string // name of the actor of its group; "": none
}

// request is whom to answer, and with which token.
type request struct {
	sender *actor.PID
	token  uint64
}

// session is the actor that owns one session: who is attached, which processes
// there are, and when it ends.
//
//	attached ⇄ detached ── TTL ──▶ closing ── no process left ──▶ gone
//	    └────────── session/close, drain ─────┘
type session struct{ *sessionRecord }

func (s *session) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		s.start(ctx)
	case *actor.Terminated:
		ctx.Send(ctx.Self(), message.Gone{Who: m.Who}) // Terminated overtakes what its sender said before; gone does not
	case message.Gone:
		s.terminated(ctx, m.Who)

	case message.Attach:
		s.attach(ctx, message.AttachRequest{Attach: m, Sender: ctx.Sender()})
	case message.Request:
		s.request(ctx, m)
	case message.ProcessStarted:
		s.processStarted(ctx, m)
	case message.ProcessRetired:
		s.processRetired(ctx, m)
	case message.ProcessEnded:
		s.ended(m)
	case message.GroupSpawned:
		if g := s.groups[s.groupIDs[m.Name]]; g != nil && g.name == m.Name {
			g.watched = true
			ctx.Watch(s.processPID(m.Name))
		}
	case message.GroupTold:
		s.groupTold(ctx, m)
	case lifeDue:
		s.lifeAt.Cancel() // the clock may have been set back: live sets it again
	case message.Abandoned:
		s.abandoned(ctx)
	case message.Evict:
		s.evict(ctx, m)
	case message.TellDetached:
		s.tellDetached(ctx)
		s.sinceAttached(ctx) // the registry before may have lost what an ephemeral session told it
	case message.Drain:
		s.drain(ctx)

	case message.BudgetLow: // is for the processes
	case *actor.DeadLetterResponse, actor.SystemMessage, actor.AutoReceiveMessage:
	default:
		s.env.Log.Warn("unexpected message", "actor", s.id, "message", m)
	}
	s.live(ctx)
}

// start attaches who opened the session. A later instance finds the record as
// the earlier one left it, and asks again for what it may have missed.
func (s *session) start(ctx actor.Context) {
	if s.processes == nil {
		s.processes = make(map[string]*member)
		s.ids = make(map[string]string)
		s.observers = make(map[message.Who]*actor.PID)
		s.former = make(map[message.Who]*actor.PID)
		s.lingering = make(map[string]*actor.PID)
		s.groups = make(map[string]*ensemble)
		s.groupIDs = make(map[string]string)
	}
	if first := s.first; first != nil {
		s.attach(ctx, *first)
		s.first = nil // not before: who opened it waits for the answer
		return
	}
	if half := s.attaching; half != nil { // the guard has told it that its Attach failed
		s.attaching = nil
		s.terminated(ctx, half)
	}
	s.lifeAt.Cancel() // a lifeDue may be lost
	// Watching what is gone is answered with Terminated.
	for _, pid := range s.attached() {
		ctx.Watch(pid)
	}
	for _, pid := range s.former {
		ctx.Watch(pid)
	}
	for _, m := range s.processes {
		if m.pid == nil {
			s.ask(ctx, m) // the supervisor tells if it goes before it is there
			continue
		}
		ctx.Watch(m.pid)
		ctx.Send(m.pid, message.Announce{})
	}
	for _, pid := range s.lingering {
		ctx.Watch(pid)
	}
	for _, g := range s.groups {
		if s.askGroup(ctx, g); !g.watched {
			continue // groupSpawned comes
		}
		ctx.Watch(s.processPID(g.name))
		ctx.Send(s.processPID(g.name), message.Report{})
		s.allAnnounced(ctx, g)
		s.stopNow(ctx, g)
	}
	s.sinceAttached(ctx)
	if _, closing := s.life.Closing(); closing {
		s.end(ctx)
	}
}

func (s *session) processPID(name string) *actor.PID {
	return actor.NewPID(s.supervisor.Address, s.supervisor.Id+"/"+name)
}

// attached are the owner, if there is one, and the observers.
func (s *session) attached() []*actor.PID {
	var all []*actor.PID
	if s.owner != nil {
		all = append(all, s.owner)
	}
	for _, pid := range s.observers {
		all = append(all, pid)
	}
	return all
}

func (s *session) tellAttached(ctx actor.Context, m any) {
	for _, pid := range s.attached() {
		ctx.Send(pid, m)
	}
}

func (s *session) attach(ctx actor.Context, m message.AttachRequest) {
	if !s.life.Admits() {
		ctx.Send(m.Sender, m.Failed(wireerr.UnknownSession(s.id)))
		return
	}
	role := m.Role
	if role == "" {
		role = protocol.RoleOwner
	}
	if role == protocol.RoleOwner {
		if s.owner != nil && !s.owner.Equal(m.Sender) {
			if !m.Takeover {
				ctx.Send(m.Sender, m.Failed(protocol.Errorf(protocol.CodeAlreadyAttached,
					"session %s is already attached to another connection: try again when that has ended, or with takeover true", s.id)))
				return
			}
			ctx.Send(s.owner, message.Evicted{Reason: "taken over by another connection"})
			s.viewerGone(ctx, message.ViewerGone{PID: s.owner, Evicted: true})
			s.former[message.WhoOf(s.owner)] = s.owner // still watched: it may yet have subscribed
		}
		if !m.Sender.Equal(s.owner) {
			s.attaching = m.Sender
		}
		s.owner = m.Sender
		s.env.At(ctx, env.OwnerSet)
	} else {
		if s.observers[message.WhoOf(m.Sender)] == nil {
			s.attaching = m.Sender
		}
		s.observers[message.WhoOf(m.Sender)] = m.Sender
	}
	s.sinceAttached(ctx)
	ctx.Watch(m.Sender)
	answer := message.Attached{Token: m.Token, SessionID: s.id, Session: ctx.Self(), Role: role}
	for id, p := range s.processes {
		if p.pid != nil {
			answer.Processes = append(answer.Processes, message.ProcessRef{ID: id, PID: p.pid})
		}
	}
	for _, r := range s.removed {
		answer.Removed = append(answer.Removed, r.ProcessRemoved)
	}
	ctx.Send(m.Sender, answer)
	s.attaching = nil
}

// terminated handles the end of one who was attached, or of a process.
func (s *session) terminated(ctx actor.Context, pid *actor.PID) {
	switch {
	case pid.Equal(s.owner): // not the other way round: a nil PID cannot be asked
		s.viewerGone(ctx, message.ViewerGone{PID: pid, Evicted: false})
		s.owner = nil
		s.env.At(ctx, env.OwnerGone)
		s.sinceAttached(ctx)
	case s.observers[message.WhoOf(pid)] != nil:
		s.viewerGone(ctx, message.ViewerGone{PID: pid, Evicted: false})
		delete(s.observers, message.WhoOf(pid))
		s.sinceAttached(ctx)
	case s.former[message.WhoOf(pid)] != nil:
		s.viewerGone(ctx, message.ViewerGone{PID: pid, Evicted: false})
		delete(s.former, message.WhoOf(pid))
	default:
		if _, ok := s.groupIDs[message.LastName(pid)]; ok {
			s.groupGone(ctx, message.LastName(pid))
			return
		}
		s.processGone(ctx, pid)
	}
}

func (s *session) viewerGone(ctx actor.Context, m message.ViewerGone) {
	if !m.Evicted {
		s.dropStops(m.PID)
	}
	asked := func(r request) bool { return !m.Evicted && m.PID.Equal(r.sender) }
	for _, p := range s.processes {
		p.asked = slices.DeleteFunc(p.asked, asked)
		if p.pid != nil {
			ctx.Send(p.pid, m)
		}
	}
	for _, g := range s.groups {
		g.asked = slices.DeleteFunc(g.asked, asked)
	}
}

func (s *session) request(ctx actor.Context, m message.Request) {
	switch params := m.Params.(type) {
	case protocol.ProcessStartParams:
		s.startProcess(ctx, request{ctx.Sender(), m.Token}, params)
	case protocol.GroupStartParams:
		s.startGroup(ctx, request{ctx.Sender(), m.Token}, params)
	case protocol.GroupStopParams:
		s.stopGroup(ctx, m, params)
	case message.GroupListRequest:
		s.listGroups(ctx, m)
	case message.SessionInfoRequest:
		limits := s.life.Limits()
		ctx.Respond(message.Reply{Token: m.Token, Result: protocol.SessionInfoResult{
			SessionID:     s.id,
			Name:          s.name,
			CreatedAtMs:   s.life.Created().UnixMilli(),
			Role:          s.roleOf(ctx.Sender()),
			Attached:      s.owner != nil,
			Observers:     len(s.observers),
			Processes:     len(s.processes),
			DetachedTTLMs: env.Milliseconds(limits.TTL),
			IdleMs:        env.Milliseconds(limits.Idle),
			MaxAgeMs:      env.Milliseconds(limits.Age),
		}})
	case protocol.SessionCloseParams:
		s.closers = append(s.closers, request{ctx.Sender(), m.Token}) // before it ends
		s.close(ctx, message.ReasonClosed)
	default:
		ctx.Respond(m.Failed(protocol.Errorf(protocol.CodeInternal, "a session does not answer %T", m.Params)))
	}
}

func (s *session) roleOf(pid *actor.PID) protocol.Role {
	if s.observers[message.WhoOf(pid)] != nil {
		return protocol.RoleObserver
	}
	return protocol.RoleOwner
}

func (s *session) startProcess(ctx actor.Context, r request, params protocol.ProcessStartParams) {
	refuse := func(err *protocol.Error) { ctx.Send(r.sender, message.Reply{Token: r.token, Err: err}) }
	if m := s.processes[params.ProcessID]; m != nil {
		switch {
		case params.StartToken == "" || params.StartToken != m.token:
			refuse(protocol.Errorf(protocol.CodeInvalidRequest, "process %s already exists", params.ProcessID))
		case m.pid == nil:
			m.asked = append(m.asked, r)
		default:
			ctx.Send(r.sender, message.Reply{Token: r.token, Result: message.Started{ProcessStartResult: m.result, Process: message.ProcessRef{ID: params.ProcessID, PID: m.pid}}})
		}
		return
	}
	if err := s.mayStart(1); err != nil {
		refuse(err)
		return
	}
	start, err := newProcess(s.env, s.processOptions(ctx, params))
	if err != nil {
		refuse(err)
		return
	}
	m := &member{token: params.StartToken, asked: []request{r}}
	s.add(params.ProcessID, start, m)
	s.ask(ctx, m)
}

// mayStart refuses n more processes where there is no place for them.
func (s *session) mayStart(n int) *protocol.Error {
	if reason, closing := s.life.Closing(); closing {
		return protocol.Errorf(protocol.CodeInvalidRequest, "session %s is closing: %s", s.id, reason)
	}
	if has := len(s.processes); n > s.env.MaxProcesses-has {
		return protocol.Errorf(protocol.CodeInvalidRequest, "session has %d processes, the limit is %d: those that closed count until their retention is over", has, s.env.MaxProcesses)
	}
	return nil
}

// add puts a process into the table. ask follows.
func (s *session) add(id string, start message.SpawnRequest, m *member) {
	s.removed = slices.DeleteFunc(s.removed, func(r removal) bool { return r.ID == id })
	m.name, m.start = start.Name, &start
	m.result = protocol.ProcessStartResult{ProcessID: id, SandboxType: "none"}
	s.ids[m.name] = id
	s.processes[id] = m
}

// ask has the actor of a process spawned, once.
func (s *session) ask(ctx actor.Context, m *member) {
	s.env.At(ctx, env.Tabled)
	if m.start != nil {
		ctx.Request(s.supervisor, *m.start)
		m.start = nil
	}
}

// processOptions are those of a process that is in no group.
func (s *session) processOptions(ctx actor.Context, params protocol.ProcessStartParams) processOptions {
	o := processOptions{
		name:      "p-" + ulid.Make().String(),
		params:    params,
		session:   ctx.Self(),
		closes:    s.closes,
		owner:     s.id,
		gauge:     s.gauge,
		ephemeral: s.life.Limits().Ephemeral,
	}
	if o.ephemeral && s.owner != nil {
		o.owner = path.Dir(s.owner.Id) // the connection: each of its commands has a session
	}
	return o
}

func (s *session) processStarted(ctx actor.Context, m message.ProcessStarted) {
	p := s.processes[m.ID]
	switch {
	case p != nil && p.name == m.Name && p.pid != nil || s.lingering[m.Name] != nil:
		return // announced once more than needed
	case p == nil || p.name != m.Name:
		if m.Err == nil { // we failed, and took it for gone before it was spawned
			ctx.Send(m.Ref.PID, message.Stop{Reason: "given up by its session"})
		}
		return
	}
	// Tell first, then change the table: to tell twice does no harm.
	if m.Err != nil {
		for _, r := range p.asked {
			ctx.Send(r.sender, message.Reply{Token: r.token, Err: m.Err})
		}
		s.env.At(ctx, env.StartTold)
		s.notAnnounced(ctx, m.ID, p)
		s.forget(m.ID)
		s.mayEnd(ctx)
		return
	}
	ctx.Watch(m.Ref.PID)
	told := make(map[message.Who]bool)
	for _, r := range p.asked {
		told[message.WhoOf(r.sender)] = true
		ctx.Send(r.sender, message.Reply{Token: r.token, Result: message.Started{ProcessStartResult: p.result, Process: m.Ref}})
	}
	if p.group == "" {
		for _, pid := range s.attached() {
			if !told[message.WhoOf(pid)] {
				ctx.Send(pid, message.ProcessAdded{Process: m.Ref})
			}
		}
	}
	s.env.At(ctx, env.StartTold)
	p.pid, p.asked = m.Ref.PID, nil
	if p.group != "" {
		s.announced(ctx, m.ID, p.group)
	}
	if reason, closing := s.life.Closing(); closing {
		ctx.Send(p.pid, message.Stop{Reason: reason, Shutdown: s.life.Grace()})
	}
}

func (s *session) processRetired(ctx actor.Context, m message.ProcessRetired) {
	if p := s.processes[m.ID]; p != nil && p.name == m.Name {
		s.tellAttached(ctx, message.ProcessRemoved{ID: m.ID, Last: m.Last, Closed: true})
		s.env.At(ctx, env.RetiredTold)
		s.forget(m.ID)
		s.lingering[m.Name] = p.pid
		if reason, closing := s.life.Closing(); closing {
			ctx.Send(p.pid, message.Stop{Reason: reason})
		}
	}
	ctx.Respond(message.Forgotten{}) // however often it asks
}

// processGone forgets a process whose actor has stopped.
func (s *session) processGone(ctx actor.Context, pid *actor.PID) {
	name := message.LastName(pid)
	delete(s.lingering, name)
	if id, ok := s.ids[name]; ok {
		p := s.processes[id]
		reason, closing := s.life.Closing()
		if !closing {
			reason = "its actor failed too often"
		}
		for _, r := range p.asked {
			ctx.Send(r.sender, message.Reply{Token: r.token, Err: protocol.Errorf(protocol.CodeInternal, "process %s ended before it had started: %s", id, reason)})
		}
		s.remember(message.ProcessRemoved{ID: id, Reason: reason, Last: p.ended.Last, Closed: p.ended.Closed})
		s.tellAttached(ctx, s.removed[len(s.removed)-1].ProcessRemoved)
		s.env.At(ctx, env.GoneTold)
		s.notAnnounced(ctx, id, p)
		s.forget(id)
	}
	s.mayEnd(ctx)
}

// ended notes the last word of a process.
func (s *session) ended(m message.ProcessEnded) {
	if p := s.processes[s.ids[m.Name]]; p != nil && p.name == m.Name {
		p.ended = m
	}
	if m.Left != nil && len(s.left) < maxLeft {
		s.left = append(s.left, m.Left)
	}
}

// maxLeft is how many processes a session names that were not seen gone.
const maxLeft = 20

// removal is a process that was given up, and when.
type removal struct {
	message.ProcessRemoved
	at time.Time
}

// maxRemoved bounds how many of them are remembered.
const maxRemoved = 1000

// remember keeps a removal for as long as the end of a process is kept that closed in
// good order: whoever comes back is to hear of it.
func (s *session) remember(m message.ProcessRemoved) {
	now := time.Now()
	s.removed = slices.DeleteFunc(s.removed, func(r removal) bool {
		return r.ID == m.ID || now.Sub(r.at) > max(s.env.ClosedRetention, 0)
	})
	if len(s.removed) == maxRemoved {
		s.removed = slices.Delete(s.removed, 0, 1)
	}
	s.removed = append(s.removed, removal{m, now})
}

// forget takes a process from the table.
func (s *session) forget(id string) {
	delete(s.ids, s.processes[id].name)
	delete(s.processes, id)
}
