package proxy

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/session/access"
	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Messages to a session; wire.go has others.
type (
	// listed is the answer to process/list.
	listed struct {
		round int
		list  []protocol.ProcessInfo
		err   *protocol.Error
	}
	// started is the answer to process/start or group/start, together with the answer to process/list.
	started struct {
		sender *actor.PID
		token  uint64
		params any // of the request
		result any // a pointer to the result of the method
		list   []protocol.ProcessInfo
		err    *protocol.Error
	}
)

// session stands for a session of another node, for one host.
//
//	dialing ── dialed ─▶ listing ── listed ─▶ attached ── ended ─▶ over: stops after its processes
type session struct {
	// Fixed at spawn.
	o      *Options
	host   *actor.PID
	attach message.Attach

	// Owned by Receive.
	w         *wire
	cancel    context.CancelFunc // ends the dial
	look      *time.Timer
	connected bool // dialed has come
	attached  bool
	again     []message.Attach // of the host, without an answer
	news      []any            // for the host, before attached
	processes map[string]*known
	starting  map[string]int // ids in starts of the host without an answer
	round     int            // counts process/list
	listing   bool           // a process/list has no answer
	stale     bool           // and another process/list follows
	over      bool
}

// known is a process of the session.
type known struct {
	process *process
	pid     *actor.PID
	round   int // of the last process/list asked for before the process was known
}

func newSession(o *Options, host *actor.PID, m message.Attach) *session {
	return &session{o: o, host: host, attach: m, processes: make(map[string]*known), starting: make(map[string]int)}
}

func (s *session) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		s.start(ctx)
	case *actor.Stopping:
		s.cancel()
		s.look.Stop()
		ctx.Unwatch(s.host)
		s.w.close()
	case *actor.Terminated:
		s.terminated(ctx, m.Who)
	case message.Attach:
		if s.again = append(s.again, m); s.attached {
			s.welcome(ctx)
		}
	case message.Request:
		s.request(ctx, m)
	case dialed:
		s.dialed(ctx, m.err)
	case looks:
		s.list(ctx)
	case listed:
		s.listed(ctx, m)
	case started:
		s.started(ctx, m)
	case resumed:
		s.resumed(ctx)
	case ended:
		s.ended(ctx, m.err)
	case message.GroupChanged, message.Expiring:
		if !s.attached {
			s.news = append(s.news, m)
		} else if !s.over {
			ctx.Send(s.host, m)
		}
	}
}

func (s *session) start(ctx actor.Context) {
	ctx.Watch(s.host)
	s.w = &wire{o: s.o, attach: s.attach, root: ctx.ActorSystem().Root, session: ctx.Self(), ready: make(chan struct{}), streams: make(map[string]reader)}
	var dial context.Context
	dial, s.cancel = context.WithTimeout(context.Background(), s.o.DialFor)
	go s.w.dial(dial)
	self, root := ctx.Self(), s.w.root
	s.look = time.AfterFunc(s.o.LookEvery, func() { root.Send(self, looks{}) })
}

func (s *session) dialed(ctx actor.Context, err error) {
	s.cancel()
	if err != nil {
		s.refuse(ctx, err)
		return
	}
	s.connected = true
	ctx.Request(ctx.Parent(), opened{s.w.client.SessionID()})
	s.list(ctx)
}

// refuse answers Attach with an error.
func (s *session) refuse(ctx actor.Context, err error) {
	refusal, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		refusal = protocol.Errorf(protocol.KindBusy, protocol.CodeInternal, "no connection to a node for session %q: %v", s.attach.SessionID, err)
	}
	for _, m := range append(s.again, s.attach) {
		ctx.Send(s.host, m.Failed(refusal))
	}
	s.again, s.over = nil, true
	ctx.Poison(ctx.Self())
}

func (s *session) terminated(ctx actor.Context, who *actor.PID) {
	if who.Equal(s.host) {
		ctx.Stop(ctx.Self())
		return
	}
	for id, k := range s.processes { // the process has failed, or is over
		if k.pid.Equal(who) {
			delete(s.processes, id)
		}
	}
	s.mayEnd(ctx)
}

// list asks for the processes: listed follows.
func (s *session) list(ctx actor.Context) {
	if s.over || !s.connected {
		return
	}
	if s.listing {
		s.stale = true
		return
	}
	s.listing = true
	s.round++
	s.w.listed()
	self, root, round := ctx.Self(), s.w.root, s.round
	result := new(protocol.ProcessListResult)
	s.w.call(protocol.MethodProcessList, protocol.Empty{}, result, func(err *protocol.Error) {
		root.Send(self, listed{round, result.Processes, err})
	})
}

func (s *session) listed(ctx actor.Context, m listed) {
	s.listing = false
	switch {
	case s.over:
		return
	case m.err != nil && !s.attached:
		s.refuse(ctx, m.err)
		return
	case m.err == nil:
		s.compare(ctx, m)
	}
	if !s.attached {
		s.attached = true
		s.again = append(s.again, s.attach)
		s.welcome(ctx)
		for _, m := range s.news {
			ctx.Send(s.host, m)
		}
		s.news = nil
	}
	s.look.Reset(s.o.LookEvery)
	if s.stale {
		s.stale = false
		s.list(ctx)
	}
}

// compare takes a list of all processes.
func (s *session) compare(ctx actor.Context, m listed) {
	listed := make(map[string]bool, len(m.list))
	for i := range m.list {
		info := &m.list[i]
		listed[info.ProcessID] = true
		if s.starting[info.ProcessID] == 0 { // else the answer to the start says whose process it is
			s.adopt(ctx, info, nil)
		}
	}
	for id, k := range s.processes {
		if !listed[id] && k.round < m.round && s.starting[id] == 0 {
			s.forget(ctx, id)
		}
	}
}

// adopt returns the process of info. Unless the host has started it, with params, the host is told of a new one.
func (s *session) adopt(ctx actor.Context, info *protocol.ProcessInfo, params *protocol.ProcessStartParams) *known {
	id := info.ProcessID
	k := s.processes[id]
	if k != nil && k.process.instance != info.Instance {
		s.forget(ctx, id)
		k = nil
	}
	if k == nil {
		k = s.spawn(ctx, info, params)
		if s.attached && params == nil {
			ctx.Send(s.host, message.ProcessStarting{ID: id})
			ctx.Send(s.host, message.ProcessAdded{Process: k.ref()})
		}
	}
	k.process.stream.knows(info.NextSeq-1, info.State == string(protocol.StateClosed))
	return k
}

func (k *known) ref() message.ProcessRef {
	return message.ProcessRef{ID: k.process.id, PID: k.pid}
}

// minRetention is the least retention of a process, in bytes.
const minRetention = 4 << 10

func (s *session) spawn(ctx actor.Context, info *protocol.ProcessInfo, params *protocol.ProcessStartParams) *known {
	retention := uint64(minRetention) // a process of somebody else may have as little
	if params != nil {
		retention = uint64(s.w.client.Limits().RetentionBytes)
		if params.Retention != nil && params.Retention.Bytes != nil {
			retention = *params.Retention.Bytes
		}
	}
	p := &process{
		w:        s.w,
		id:       info.ProcessID,
		instance: info.Instance,
		stream:   &stream{most: s.o.Buffer},
		ackEvery: int64(retention / 4),
		viewers:  make(map[message.Key]*viewer),
	}
	pid, err := ctx.SpawnNamed(actor.PropsFromProducer(func() actor.Actor { return p }), message.NewName("p-"))
	if err != nil {
		panic(err) // no other actor has the name
	}
	s.w.route(p.id, reader{p.stream, pid})
	s.processes[p.id] = &known{process: p, pid: pid, round: s.round}
	return s.processes[p.id]
}

// forget ends a process after the node has forgotten the process, and tells the host.
func (s *session) forget(ctx actor.Context, id string) {
	k := s.processes[id]
	delete(s.processes, id)
	ctx.Send(k.pid, end{gone: true})
	if s.attached {
		ctx.Send(s.host, k.process.stream.removed(id))
	}
}

// welcome answers every Attach of the host.
func (s *session) welcome(ctx actor.Context) {
	if s.over {
		return
	}
	role := s.attach.Role
	if role == "" {
		role = protocol.RoleOwner
	}
	for _, m := range s.again {
		a := message.Attached{Token: m.Token, SessionID: s.w.client.SessionID(), Session: ctx.Self(), Role: role}
		for _, k := range s.processes {
			a.Processes = append(a.Processes, k.ref())
		}
		ctx.Send(s.host, a)
	}
	s.again = nil
}

// resumed is for the end of a cut.
func (s *session) resumed(ctx actor.Context) {
	message.ToChildren(ctx, resumed{})
	s.list(ctx)
}

// ended tells the host that the session is out of reach, and ends the processes.
func (s *session) ended(ctx actor.Context, err error) {
	switch {
	case s.over:
		return
	case !s.attached:
		s.refuse(ctx, err)
		return
	}
	s.over = true
	evicted := message.Evicted{Reason: err.Error(), Over: errors.Is(err, client.ErrSessionGone)}
	if taken, ok := errors.AsType[*client.EvictedError](err); ok {
		evicted = message.Evicted{Reason: taken.Reason, Over: taken.Reason != access.TakenOver}
	} else if err == client.ErrClosed { // the session was closed by the host
		evicted = message.Evicted{Reason: message.ReasonClosed, Over: true}
	}
	ctx.Send(s.host, evicted)
	message.ToChildren(ctx, end{gone: evicted.Over})
	s.mayEnd(ctx)
}

// mayEnd stops the actor when the session is over and its processes have stopped.
func (s *session) mayEnd(ctx actor.Context) {
	if s.over && len(ctx.Children()) == 0 {
		ctx.Poison(ctx.Self())
	}
}

func (s *session) request(ctx actor.Context, m message.Request) {
	sender := ctx.Sender()
	if sender == nil {
		return
	}
	how, ok := ofSession[reflect.TypeOf(m.Params)]
	err := m.Wrong()
	var ids []string
	switch params := m.Params.(type) {
	case protocol.ProcessStartParams:
		ids, ok = []string{params.ProcessID}, true
		how = of[protocol.ProcessStartResult](protocol.MethodProcessStart)
	case protocol.GroupStartParams:
		for i := range params.Processes {
			ids = append(ids, params.Processes[i].ProcessID)
		}
		how, ok = of[protocol.GroupStartResult](protocol.MethodGroupStart), true
	}
	switch {
	case m.Guest != "":
		err = unsupported("Guest is %q: what a guest asks goes over the connection of the guest", m.Guest)
	case !ok:
		err = unsupported("a session of another node does not answer %T", m.Params)
	}
	switch root := s.w.root; {
	case err != nil:
		ctx.Respond(m.Failed(err))
	case ids != nil:
		s.startAll(ctx, m, how, ids)
	default:
		s.w.ask(m, how, filled(m.Params, ""), func(r message.Reply) { root.Send(sender, r) })
	}
}

// startAll starts processes: started follows.
func (s *session) startAll(ctx actor.Context, m message.Request, how method, ids []string) {
	for _, id := range ids {
		s.starting[id]++
	}
	w, self := s.w, ctx.Self()
	a := started{sender: ctx.Sender(), token: m.Token, params: m.Params}
	w.ask(m, how, filled(m.Params, ""), func(r message.Reply) {
		if a.result, a.err = r.Result, r.Err; a.err != nil {
			w.root.Send(self, a)
			return
		}
		list := new(protocol.ProcessListResult)
		w.call(protocol.MethodProcessList, protocol.ProcessListParams{ProcessIDs: ids}, list, func(err *protocol.Error) {
			a.list, a.err = list.Processes, err
			w.root.Send(self, a)
		})
	})
}

func (s *session) started(ctx actor.Context, m started) {
	starts := []protocol.ProcessStartParams{}
	switch params := m.params.(type) {
	case protocol.ProcessStartParams:
		starts = append(starts, params)
	case protocol.GroupStartParams:
		starts = params.Processes
	}
	reply := message.Reply{Token: m.token, Err: m.err}
	var refs []message.ProcessRef
	for i := range starts {
		id := starts[i].ProcessID
		if s.starting[id]--; s.starting[id] == 0 {
			delete(s.starting, id)
		}
		for j := range m.list {
			if m.err == nil && !s.over && m.list[j].ProcessID == id {
				refs = append(refs, s.adopt(ctx, &m.list[j], &starts[i]).ref())
			}
		}
	}
	switch result := m.result.(type) {
	case protocol.ProcessStartResult:
		if len(refs) == 1 {
			reply.Result = message.StartResult{ProcessStartResult: result, Process: refs[0]}
		} else if reply.Err == nil {
			reply.Err = protocol.Errorf(protocol.KindUnknownProcess, protocol.CodeInvalidRequest, "the process was started, and is forgotten already")
		}
	case protocol.GroupStartResult:
		reply.Result = message.GroupStarted{GroupStartResult: result, Processes: refs}
	}
	if reply.Err != nil {
		reply.Result = nil
	}
	ctx.Send(m.sender, reply)
	if m.err != nil {
		s.list(ctx) // an id may name a process of somebody else
	}
}
