package actors

import (
	"crypto/sha256"
	"math"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Messages to a process actor, beside those of messages.go.
type (
	spawned    struct{} // spawner goroutine: record has the handle or the error
	factsReady struct{} // intake, and the actor itself when it had its share
	forgotten  struct{} // session, to processRetired
	announce   struct{} // session, after a restart: say again that you have started
	treeGone   struct{ err error }

	// stop is from the session; our Terminated is the answer.
	stop struct {
		reason string
		// shutdown is the server's grace at its own end: the default, and the most,
		// between SIGTERM and SIGKILL. 0: only the process's own killGraceMs counts.
		shutdown time.Duration
	}
	// session: it has stopped; or it was evicted, and what it may still send comes
	// too late: its successor sends again what was not answered.
	viewerGone struct {
		pid     *actor.PID
		evicted bool
	}

	timeoutDue struct{}            // timeoutMs has passed
	killDue    struct{}            // grace has passed
	retireDue  struct{}            // look whether the closed process may go
	readDue    struct{ r *parked } // waitMs or timeoutMs has passed
	flushDue   struct{}            // viewers had their time to get the end
)

const (
	// turnBytes is how much output an actor logs before it looks at other messages.
	turnBytes = 128 << 10
	// maxRead is the most that one process/read returns, in bytes.
	maxRead = 8 << 20
	// writeIDs is how many of its latest writes a process remembers (exec-server
	// wire §6).
	writeIDs = 4096
	// flushTime is how long a process that is being stopped waits for its owner to
	// fetch the end of its output.
	flushTime = 2 * time.Second
	// lingerPoll is how often a retired process looks whether its tree has ended.
	lingerPoll = 10 * time.Second
)

// phase is where a process is in its life.
//
//	starting ─▶ running ─ leader exits ─▶ exited ─ streams end ─▶ closed ─▶ retired
//	    └────────────┴───────── stop: any of them, and then gone ──┴──────────┘
//
// retired: forgotten by its session, waiting for what it left behind to end.
type phase int

const (
	starting phase = iota
	running
	exited
	closed
	retired
)

func (p phase) String() string {
	return [...]string{"starting", "running", "exited", "closed", "retired"}[p]
}

// processRecord is what of a process survives its actor: the child and all that
// was promised about it. The Props of the actor close over it. Between restarts
// it has one owner, Receive; mu guards only what the spawner hands over.
type processRecord struct {
	// Fixed at spawn.
	shared    *shared
	id, name  string // the client's, and the actor's
	params    protocol.ProcessStartParams
	spec      child.Spec
	retention int64
	session   *actor.PID
	created   time.Time

	mu       sync.Mutex
	asked    bool         // the spawner has been asked
	handle   child.Handle // nil before it was spawned
	startErr error
	gone     bool // the actor has stopped: whoever gets a handle kills the child

	// Owned by Receive.
	phase     phase
	intake    *child.Intake
	log       outlog.Log
	status    protocol.ExitStatus // from exited on
	timedOut  bool
	endReason string // why it was killed, by us
	stopping  *stop
	killing   bool // KillTree runs
	treeDone  bool // while stopping, the tree was seen empty
	closedAt  time.Time
	forgotten bool // the session has taken it from its table

	owner    ownership
	viewers  map[string]*viewer // by PID
	evicted  map[string]bool    // by PID: owners that were, and have not ended yet
	reads    []*parked          // process/read and process/wait
	stdin    []*parked          // process/write and process/closeStdin, in order
	stdinEnd bool
	writeIDs recent
}

// viewer is one who watches: a cursor, and what it asked for.
type viewer struct {
	pid    *actor.PID
	cursor outlog.Cursor
	pull   int // bytes; 0: it has not asked
	owner  bool
}

// parked is a request that waits.
type parked struct {
	sender *actor.PID
	token  uint64
	params any
	timer  *time.Timer // nil: none
}

// ownership is how far the owner has come. What it has not had is kept.
type ownership struct {
	acked uint64 // all up to here
	// An owner that resumed without replay gets what comes after liveFrom, of that
	// it has had up to liveAcked; what lies between acked and liveFrom it must read.
	liveFrom, liveAcked uint64
	pid                 *actor.PID // nil: there is none
	since               time.Time  // it subscribed
}

// had reports whether the owner has had everything up to last; or what it gets by
// itself, and for so long the chance to read the rest.
func (o *ownership) had(last uint64, chance time.Duration) bool {
	return o.acked >= last || o.pid != nil && o.liveAcked >= last && time.Since(o.since) >= chance
}

// ack records that the owner has all after from up to to.
func (o *ownership) ack(from, to uint64) {
	switch {
	case from <= o.acked:
		o.acked = max(o.acked, to)
	case from <= o.liveAcked:
		o.liveAcked = max(o.liveAcked, to)
	}
	if o.acked >= o.liveFrom {
		o.acked = max(o.acked, o.liveAcked)
	}
}

// process is the actor that owns one managed process. It lives under the
// session's supervisor, beside the session: neither's failure touches the other.
type process struct{ *processRecord }

func (p *process) Receive(ctx actor.Context) {
	if from := ctx.Sender(); len(p.evicted) > 0 && from != nil && p.evicted[from.String()] {
		return
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		p.start(ctx)
	case *actor.Stopping, *actor.Stopped: // both: cleaning up is harmless twice
		p.destroy()

	case spawned:
		p.spawned(ctx)
	case announce:
		p.announce(ctx)
	case factsReady:
		p.takeFacts(ctx)
	case stop:
		p.stop(ctx, m)
	case treeGone:
		p.treeGone(ctx, m)

	case Request:
		p.request(ctx, m)
	case Subscribe:
		p.subscribe(ctx, m)
	case Pull:
		if v := p.viewers[ctx.Sender().String()]; v != nil {
			v.pull = m.Bytes
			p.deliver(ctx, v)
			p.mayGo(ctx)
		}
	case Ack:
		// Also of an owner that is no viewer, as long as it has to resubscribe.
		if v := p.viewers[ctx.Sender().String()]; v != nil && v.owner || ctx.Sender().Equal(p.owner.pid) {
			p.owner.ack(m.From, min(m.To, p.log.Last()))
			p.held()
		}
	case Unsubscribe:
		p.removeViewer(ctx, ctx.Sender())
	case viewerGone:
		if m.evicted {
			p.evicted[m.pid.String()] = true
		} else {
			delete(p.evicted, m.pid.String())
		}
		p.removeViewer(ctx, m.pid)
	case budgetLow:
		p.held()

	case timeoutDue:
		p.timeout(ctx)
	case killDue:
		if p.phase < exited {
			p.killTree(ctx)
		}
	case readDue:
		p.answerParked(ctx, m.r)
	case retireDue:
		p.retire(ctx)
	case forgotten:
		p.forgotten = true
		p.retire(ctx)
	case flushDue:
		clear(p.viewers)
		p.intake.Abort() // a pump that waits for a reader's credit waits in vain
		p.mayGo(ctx)

	case *actor.DeadLetterResponse, actor.SystemMessage, actor.AutoReceiveMessage:
	default:
		p.shared.Log.Warn("unexpected message", "actor", p.name, "message", m)
	}
}

// start asks for the child the first time; a later instance finds it as the
// earlier one left it.
func (p *process) start(ctx actor.Context) {
	self, root := ctx.Self(), ctx.ActorSystem().Root
	if p.intake == nil {
		p.intake = child.NewIntake(p.retention, p.shared.budget, func() { root.Send(self, factsReady{}) })
		p.viewers = make(map[string]*viewer)
		p.evicted = make(map[string]bool)
	}
	p.mu.Lock()
	first := !p.asked
	p.asked = true
	p.mu.Unlock()
	if first {
		r := p.processRecord
		p.shared.children.Start(p.spec, p.intake, func(h child.Handle, err error) {
			r.mu.Lock()
			r.handle, r.startErr = h, err
			gone := r.gone
			r.mu.Unlock()
			if gone {
				r.destroy()
			}
			root.Send(self, spawned{})
		})
		return
	}
	// Whatever message was lost: look at everything again.
	for _, v := range p.viewers {
		ctx.Send(v.pid, Resubscribe{p.ref(ctx), v.cursor.Seq})
	}
	clear(p.viewers)
	p.killing = false
	if p.phase == starting {
		p.spawned(ctx)
	}
	if p.stopping != nil {
		p.stop(ctx, *p.stopping)
	}
	p.acceptStdin(ctx)
	p.takeFacts(ctx)
	if p.phase >= closed {
		p.retire(ctx)
	}
}

func (p *process) ref(ctx actor.Context) ProcessRef { return ProcessRef{p.id, ctx.Self()} }

// spawned moves on from starting, if the spawner has answered.
func (p *process) spawned(ctx actor.Context) {
	p.mu.Lock()
	handle, err := p.handle, p.startErr
	p.mu.Unlock()
	if p.phase != starting || handle == nil && err == nil {
		return
	}
	if err != nil {
		p.announce(ctx)
		ctx.Stop(ctx.Self())
		return
	}
	p.phase = running
	p.announce(ctx)
	if t := p.params.TimeoutMs; t != nil && *t > 0 {
		after(ctx, fromMillis(*t), timeoutDue{})
	}
	if p.stopping != nil {
		p.stop(ctx, *p.stopping)
	}
}

// announce tells the session how the start went.
func (p *process) announce(ctx actor.Context) {
	p.mu.Lock()
	err := p.startErr
	p.mu.Unlock()
	if p.phase == starting && err == nil {
		return // not known yet
	}
	ctx.Send(p.session, processStarted{id: p.id, name: p.name, ref: p.ref(ctx), err: startError(err)})
}

// takeFacts logs what the child did, and passes it on. After its share it lets
// other messages in: a flood does not delay a signal.
func (p *process) takeFacts(ctx actor.Context) {
	more := true
	for n := 0; n < turnBytes && more; {
		var f child.Fact
		if f, more = p.intake.Next(); !more {
			break
		}
		switch f.Kind {
		case child.FactOutput:
			p.log.Append(f.Stream, f.Data)
			n += len(f.Data) + 1
		case child.FactExited:
			if p.phase < exited { // not again, if we failed before it was settled
				p.exited(ctx, f.Status)
			}
		case child.FactClosed:
			if p.phase >= closed {
				break
			}
			p.phase = closed
			p.closedAt = time.Now()
			p.log.AppendClosed()
			after(ctx, max(p.shared.ClosedRetention, 0), retireDue{})
		case child.FactStdinRoom:
			p.acceptStdin(ctx)
		}
		p.trim()
		p.intake.Settle(p.log.Cost(0), p.pinned())
	}
	if more {
		ctx.Send(ctx.Self(), factsReady{})
	}
	for _, v := range p.viewers {
		p.deliver(ctx, v)
	}
	p.answerReads(ctx)
	p.mayGo(ctx)
}

func (p *process) exited(ctx actor.Context, st protocol.ExitStatus) {
	st.Run = 1
	st.TimedOut = p.timedOut
	st.Reason = p.endReason
	p.status = st
	p.phase = exited
	p.log.AppendExited(st)
	p.acceptStdin(ctx) // nothing is: it has ended
	if p.endReason != "" {
		// It was killed: descendants that still hold its streams do not keep it open.
		p.handleNow().Abandon()
	}
	if p.stopping != nil {
		p.killTree(ctx)
	}
}

// handleNow is the handle of a process that is past starting.
func (p *process) handleNow() child.Handle {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.handle
}

// Output

// trim drops what need not be kept: what the owner has had, beyond the
// retention; with evict, whatever is beyond it.
func (p *process) trim() {
	keep, limit := p.pin(), p.retention
	if p.shared.budget.Short() {
		limit = 0
	}
	if p.evicts() && keep > 0 {
		keep-- // the newest stays, however little is kept: it is on its way to viewers
	}
	p.log.Drop(limit, keep)
}

// pin is the seq up to which the owner has had all: what follows is kept.
func (p *process) pin() uint64 {
	if p.evicts() {
		return p.log.Last()
	}
	keep := p.owner.acked
	for _, v := range p.viewers {
		if v.owner {
			keep = min(keep, v.cursor.Seq)
		}
	}
	return keep
}

// pinned is what is kept for the owner, in bytes.
func (p *process) pinned() int64 { return p.log.Cost(p.pin()) }

func (p *process) evicts() bool {
	return p.params.Retention != nil && p.params.Retention.OnFull == protocol.OnFullEvict
}

// held tells the pumps what the log holds, after that has become less.
func (p *process) held() {
	p.trim()
	p.intake.Hold(p.log.Cost(0), p.pinned())
}

func (p *process) subscribe(ctx actor.Context, m Subscribe) {
	v := &viewer{pid: ctx.Sender(), owner: m.Owner}
	if m.Now {
		m.After = p.log.Last()
	}
	v.cursor = p.log.At(m.After)
	p.viewers[v.pid.String()] = v
	if m.Owner {
		p.owner.pid, p.owner.since = v.pid, time.Now()
		if !m.Resumed {
			p.owner.liveFrom, p.owner.liveAcked = v.cursor.Seq, v.cursor.Seq
			if !m.Now {
				p.owner.ack(0, v.cursor.Seq) // who wants what follows has what comes before
			}
		}
		p.held()
	}
	v.pull = m.Pull
	p.deliver(ctx, v)
	p.mayGo(ctx)
}

func (p *process) deliver(ctx actor.Context, v *viewer) {
	if v.pull == 0 || v.cursor.Seq >= p.log.Last() {
		return
	}
	entries, gap := p.log.Read(&v.cursor, v.pull, nil)
	v.pull = 0
	ctx.Request(v.pid, Delivery{p.id, gap, entries})
}

func (p *process) removeViewer(ctx actor.Context, pid *actor.PID) {
	key := pid.String()
	delete(p.viewers, key)
	if pid.Equal(p.owner.pid) {
		p.owner.pid = nil
	}
	p.held()
	gone := func(r *parked) bool {
		if r.sender.String() != key {
			return false
		}
		r.stopTimer()
		return true
	}
	p.reads = slices.DeleteFunc(p.reads, gone)
	// Not answered, so not accepted: the client will write them again.
	p.stdin = slices.DeleteFunc(p.stdin, gone)
	p.acceptStdin(ctx)
	p.mayGo(ctx)
}

// Requests

func (p *process) request(ctx actor.Context, m Request) {
	switch p.phase {
	case starting: // only one who got its PID by other means than Started can be so early
		ctx.Respond(m.failed(protocol.Errorf(protocol.CodeInvalidRequest, "process id %s is starting", p.id)))
		return
	case retired:
		ctx.Respond(m.failed(unknownProcess(p.id)))
		return
	}
	r := &parked{sender: ctx.Sender(), token: m.Token, params: m.Params}
	switch params := m.Params.(type) {
	case protocol.ProcessReadParams:
		if v := p.viewers[r.sender.String()]; v != nil && v.owner {
			// Who wants what follows has what comes before (PROTOCOL.md).
			p.owner.ack(0, min(params.AfterSeq, p.log.Last()))
			p.held()
		}
		p.park(ctx, r, &params.WaitMs)
	case protocol.ProcessWaitParams:
		p.park(ctx, r, params.TimeoutMs)
	case protocol.ProcessWriteParams, protocol.ProcessCloseStdinParams:
		p.stdin = append(p.stdin, r)
		p.acceptStdin(ctx)
	case protocol.ProcessResizeParams:
		p.reply(ctx, r, protocol.Empty{}, p.resize(params.Size))
	case protocol.ProcessSignalParams:
		p.reply(ctx, r, protocol.Empty{}, p.signal(params.Signal))
	case protocol.ProcessTerminateParams:
		p.reply(ctx, r, protocol.ProcessTerminateResult{Running: p.phase < exited}, nil)
		p.terminate(ctx, params)
	case DescribeRequest:
		p.reply(ctx, r, p.describe(), nil)
	default:
		p.reply(ctx, r, nil, protocol.Errorf(protocol.CodeInternal, "a process does not answer %T", m.Params))
	}
}

func (p *process) reply(ctx actor.Context, r *parked, result any, err *protocol.Error) {
	ctx.Send(r.sender, Reply{Token: r.token, Result: result, Err: err})
}

// park answers r if it can be answered, else keeps it until it can, for at most
// ms milliseconds; nil means for ever.
func (p *process) park(ctx actor.Context, r *parked, ms *uint64) {
	if p.answer(ctx, r, ms != nil && *ms == 0) {
		return
	}
	if ms != nil {
		r.timer = after(ctx, fromMillis(*ms), readDue{r})
	}
	p.reads = append(p.reads, r)
}

// answerParked answers r, whose time is up.
func (p *process) answerParked(ctx actor.Context, r *parked) {
	for i := range p.reads {
		if p.reads[i] == r {
			p.reads = append(p.reads[:i], p.reads[i+1:]...)
			p.answer(ctx, r, true)
			return
		}
	}
}

func (p *process) answerReads(ctx actor.Context) {
	p.reads = slices.DeleteFunc(p.reads, func(r *parked) bool {
		done := p.answer(ctx, r, false)
		if done {
			r.stopTimer()
		}
		return done
	})
}

// answer answers a process/read or process/wait if there is something to say,
// or if it must be answered now.
func (p *process) answer(ctx actor.Context, r *parked, now bool) bool {
	if params, ok := r.params.(protocol.ProcessReadParams); ok {
		return p.read(ctx, r, params, now)
	}
	if p.phase < exited && !now {
		return false
	}
	res := protocol.ProcessWaitResult{Exited: p.phase >= exited, Closed: p.phase >= closed}
	if st := p.status; res.Exited {
		res.Status = &st
	}
	p.reply(ctx, r, res, nil)
	return true
}

// read is the algorithm of exec-server wire §5.
func (p *process) read(ctx actor.Context, r *parked, params protocol.ProcessReadParams, now bool) bool {
	last := p.log.Last()
	if params.AfterSeq >= last && p.phase < closed && !now {
		return false
	}
	limit := uint64(maxRead)
	if params.MaxBytes != nil {
		limit = min(limit, *params.MaxBytes)
	}
	cursor := p.log.At(params.AfterSeq)
	entries, _ := p.log.Read(&cursor, int(limit), nil)
	res := protocol.ProcessReadResult{
		Chunks:   []protocol.Chunk{},
		NextSeq:  last + 1,
		Exited:   p.phase >= exited,
		Closed:   p.phase >= closed,
		FirstSeq: p.log.First(),
	}
	for _, e := range entries {
		if e.Kind == outlog.Output {
			res.Chunks = append(res.Chunks, protocol.Chunk{Seq: e.Seq, Stream: e.Stream, Chunk: e.Data})
		}
	}
	if len(res.Chunks) > 0 && (params.MaxBytes != nil || cursor.Seq < last) {
		res.NextSeq = res.Chunks[len(res.Chunks)-1].Seq + 1
	}
	if code := p.status.ExitCode; res.Exited {
		res.ExitCode = &code
	}
	ctx.Send(r.sender, Reply{Token: r.token, Result: res, From: min(params.AfterSeq, last), To: res.NextSeq - 1})
	return true
}

// acceptStdin takes what is parked, in the order in which it came, as far as
// there is room. Once nothing more can be written, all of it is answered.
func (p *process) acceptStdin(ctx actor.Context) {
	for len(p.stdin) > 0 {
		r := p.stdin[0]
		if open := p.phase < exited && p.spec.Stdin && !p.stdinEnd; open && !p.applyStdin(r) {
			return // no room: the intake will say
		}
		p.stdin = p.stdin[1:]
		var result any = protocol.Empty{}
		if w, ok := r.params.(protocol.ProcessWriteParams); ok {
			status := protocol.WriteAccepted
			if !p.writeIDs.has(w.WriteID) {
				status = protocol.WriteStdinClosed
			}
			result = protocol.ProcessWriteResult{Status: status}
		}
		p.reply(ctx, r, result, nil)
	}
	p.stdin = nil
}

// applyStdin gives one write or close to the child; false: it has no room.
func (p *process) applyStdin(r *parked) bool {
	w, ok := r.params.(protocol.ProcessWriteParams)
	if !ok {
		p.logErr("close stdin", p.handleNow().CloseStdin())
		p.stdinEnd = true
		return true
	}
	if p.writeIDs.has(w.WriteID) {
		return true
	}
	room, err := p.handleNow().Write(w.Chunk)
	if err != nil {
		p.stdinEnd = true
		return true
	}
	if room {
		p.writeIDs.add(w.WriteID)
	}
	return room
}

func (p *process) resize(size protocol.Size) *protocol.Error {
	if !p.spec.TTY {
		return protocol.Errorf(protocol.CodeInvalidRequest, "process %s is not attached to a PTY: start it with tty true to resize it", p.id)
	}
	if p.phase >= exited {
		return nil
	}
	if err := p.handleNow().Resize(size); err != nil {
		return protocol.Errorf(protocol.CodeInternal, "resize process %s to %d rows, %d cols: %v", p.id, size.Rows, size.Cols, err)
	}
	return nil
}

func (p *process) signal(s protocol.Signal) *protocol.Error {
	number, ok := s.Number()
	if !ok {
		return protocol.Errorf(protocol.CodeInvalidParams, "no signal %q here", s)
	}
	if p.phase >= exited {
		return nil
	}
	if err := p.handleNow().Signal(number); err != nil {
		return protocol.Errorf(protocol.CodeInternal, "signal %s to process %s: %v", s, p.id, err)
	}
	return nil
}

// The end

func (p *process) terminate(ctx actor.Context, m protocol.ProcessTerminateParams) {
	if p.phase < exited {
		p.endReason = "terminated by request"
		if m.GraceMs != nil && *m.GraceMs > 0 {
			p.logErr("SIGTERM", p.handleNow().Signal(syscall.SIGTERM))
			after(ctx, fromMillis(*m.GraceMs), killDue{})
			return
		}
	}
	switch {
	case m.Tree:
		p.killTree(ctx)
	case p.phase < exited:
		p.logErr("SIGKILL", p.handleNow().Kill())
	}
}

func (p *process) timeout(ctx actor.Context) {
	if p.phase >= exited {
		return
	}
	p.timedOut = true
	p.endReason = "timed out"
	p.kill(ctx, p.killGrace())
}

// killGrace is the time between SIGTERM and SIGKILL that the client asked for;
// negative if it did not.
func (p *process) killGrace() time.Duration {
	if g := p.params.KillGraceMs; g != nil {
		return fromMillis(*g)
	}
	return -1
}

// kill ends the process after grace, and its tree with it.
func (p *process) kill(ctx actor.Context, grace time.Duration) {
	if p.phase >= exited || grace <= 0 {
		p.killTree(ctx)
		return
	}
	p.logErr("SIGTERM", p.handleNow().Signal(syscall.SIGTERM))
	after(ctx, grace, killDue{})
}

// stop ends the process with all of its tree, and then the actor.
func (p *process) stop(ctx actor.Context, m stop) {
	p.stopping = &m
	if p.phase == starting {
		return // spawned comes back to it
	}
	if p.phase < exited && p.endReason == "" {
		p.endReason = m.reason
	}
	grace := p.killGrace()
	if m.shutdown > 0 {
		if grace < 0 {
			grace = m.shutdown
		}
		grace = min(grace, m.shutdown)
	}
	p.kill(ctx, grace)
}

// killTree ends everything that descends from the child.
func (p *process) killTree(ctx actor.Context) {
	if p.killing {
		return
	}
	p.killing = true
	self, root := ctx.Self(), ctx.ActorSystem().Root
	p.handleNow().KillTree(func(err error) { root.Send(self, treeGone{err}) })
}

func (p *process) treeGone(ctx actor.Context, m treeGone) {
	p.logErr("kill tree", m.err)
	p.killing = false
	if p.stopping == nil {
		return
	}
	p.treeDone = true
	p.handleNow().Abandon()
	after(ctx, flushTime, flushDue{})
	p.mayGo(ctx)
}

// mayGo stops the actor if that was asked for, the tree is gone, and its owner
// has been given the end of the log or had its time for it.
func (p *process) mayGo(ctx actor.Context) {
	if p.stopping == nil || !p.treeDone || p.phase < closed {
		return
	}
	for _, v := range p.viewers {
		if v.owner && v.cursor.Seq < p.log.Last() {
			return
		}
	}
	ctx.Stop(ctx.Self())
}

// retire makes the session forget a closed process once its retention is over
// and its owner had a chance to read it; the actor stays until its tree is gone.
func (p *process) retire(ctx actor.Context) {
	if p.phase == closed {
		wait := max(p.shared.ClosedRetention, 0)
		if left := wait - time.Since(p.closedAt); left > 0 {
			after(ctx, left, retireDue{})
			return
		}
		if !p.evicts() && !p.owner.had(p.log.Last(), wait) {
			after(ctx, max(wait, time.Second), retireDue{})
			return
		}
		p.phase = retired
		p.log = outlog.Log{}
		p.intake.Hold(0, 0)
	}
	switch {
	case p.phase < closed:
		return
	case !p.forgotten: // said again until the session has heard it
		ctx.Request(p.session, processRetired{id: p.id, name: p.name})
	case p.handleNow().TreeEmpty():
		ctx.Stop(ctx.Self())
		return
	}
	after(ctx, lingerPoll, retireDue{})
}

// destroy leaves nothing behind, whatever the actor stops of. Any goroutine.
func (r *processRecord) destroy() {
	r.mu.Lock()
	r.gone = true
	handle := r.handle
	r.handle = nil
	r.mu.Unlock()
	if handle == nil {
		return
	}
	log, name := r.shared.Log, r.name
	handle.Finish(func(err error) {
		r.intake.Hold(0, 0) // the log goes with the record
		if err != nil {
			log.Error("finish", "actor", name, "err", err)
		}
	})
}

func (p *process) describe() protocol.ProcessInfo {
	info := protocol.ProcessInfo{
		ProcessID:   p.id,
		State:       p.phase.String(),
		Argv:        p.params.Argv,
		Cwd:         p.params.Cwd,
		TTY:         p.spec.TTY,
		StartedAtMs: p.created.UnixMilli(),
		FirstSeq:    p.log.First(),
		NextSeq:     p.log.Last() + 1,
		Retained:    p.log.Cost(0),
		Unacked:     p.pinned(),
	}
	if h := p.handleNow(); h != nil {
		if p.phase < exited {
			info.PID = h.PID()
		}
		info.Containment = string(h.Containment())
	}
	if st := p.status; p.phase >= exited {
		info.Status = &st
	}
	return info
}

func (p *process) logErr(what string, err error) {
	if err != nil {
		p.shared.Log.Warn(what, "actor", p.name, "err", err)
	}
}

func (r *parked) stopTimer() {
	if r.timer != nil {
		r.timer.Stop()
	}
}

func fromMillis(ms uint64) time.Duration {
	return time.Duration(min(ms, uint64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}

// after sends m to the actor itself, later.
func after(ctx actor.Context, d time.Duration, m any) *time.Timer {
	self, root := ctx.Self(), ctx.ActorSystem().Root
	return time.AfterFunc(d, func() { root.Send(self, m) })
}

// recent remembers the last writeIDs ids, by their hash: an id may be long.
type recent struct {
	ring []idHash
	next int
	set  map[idHash]struct{}
}

type idHash [16]byte

func hashID(id string) (h idHash) {
	sum := sha256.Sum256([]byte(id))
	copy(h[:], sum[:])
	return h
}

func (r *recent) has(id string) bool {
	_, ok := r.set[hashID(id)]
	return ok
}

func (r *recent) add(id string) {
	if r.set == nil {
		r.set = make(map[idHash]struct{})
	}
	h := hashID(id)
	r.set[h] = struct{}{}
	if len(r.ring) < writeIDs {
		r.ring = append(r.ring, h)
		return
	}
	delete(r.set, r.ring[r.next])
	r.ring[r.next] = h
	r.next = (r.next + 1) % writeIDs
}
