package actors

import (
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/spool"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// Messages to a process actor, beside those of messages.go.
type (
	spawned    struct{} // spawner goroutine: record has the handle or the error
	factsReady struct{} // intake, and the actor itself when it had its share

)

type (
	unspooled struct{} // the goroutine that read the disk for a process/read
	treeGone  struct { // KillTree, of that run
		run int
		err error
	}
)

type (
	timeoutDue struct{ run int } // timeoutMs has passed, of that run
	restartDue struct{}          // the backoff has passed
	killDue    struct{ run int } // grace has passed, of that run
	stdinDue   struct{}          // a child that closed its stdin has not ended
	retireDue  struct{}          // look whether the closed process may go

)

type (
	readDue  struct{ r *parked } // waitMs or timeoutMs has passed
	flushDue struct{}            // viewers had their time to get the end
	aheadDue struct{}            // the owner had its time to read what it missed

)

// turnBytes is how much output an actor logs before it looks at other messages.
const turnBytes = 128 << 10

// phase is where a process is in its life.
//
//	             restarting ── given up, terminated ──────────────▶ ┐
//	               ▲     │                                          ▼
//	starting ─▶ running ◀┘─ leader exits ─▶ exited ─ streams end ─▶ closed ─▶ retired
//	    └──────────┴─────────── stop: any of them, and then gone ────┴──────────┘
//
// restarting: a run has ended and its policy asks for another.
// retired: forgotten by its session, waiting for what it left behind to end.
type phase int

const (
	starting phase = iota
	running
	restarting
	exited
	closed
	retired
)

func (p phase) String() string {
	return [...]string{"starting", "running", "restarting", "exited", "closed", "retired"}[p]
}

// processRecord is what of a process survives its actor: the child and all that
// was promised about it. The Props of the actor close over it. Between restarts
// it has one owner, Receive; mu guards only what the spawner hands over.
type processRecord struct {
	// Fixed at spawn.
	shared   *env.Env
	id, name string // the client's, and the actor's
	params   protocol.ProcessStartParams
	spec     child.Spec
	spool    *spool.File // nil: what is beyond the retention waits
	session  *actor.PID
	group    *actor.PID     // nil: it is of none
	groupID  string         // the client's
	gauge    *message.Gauge // of the session
	created  time.Time
	// What spec and params keep to start it from.
	keptArgv, keptEnv hold

	mu       sync.Mutex
	handle   child.Handle // nil before it was spawned
	startErr error
	gone     bool // the actor has stopped: whoever gets a handle kills the child

	// Owned by Receive.
	phase     phase
	intake    *child.Intake
	asked     int                 // the run that the spawner was last asked for
	begun     int                 // the last run whose child was taken over: it is watched
	feed      processFeed         // its log and its viewers
	logged    *child.Intake       // its oldest fact is in the log, and not settled; nil: none
	exits     int                 // the last run whose exited is in the log, plus one
	status    protocol.ExitStatus // from exited on
	timedOut  bool
	endReason string // why it was killed, by us; "": it was not
	stopping  *message.Stop
	restart   *supervision.Restart // nil: it is run once
	history   supervision.History
	run       int       // the current or last one, from 1
	interval  *interval // while restarting
	// process/restart: the run that ends is followed by another; process/terminate:
	// none is.
	restartAsked, terminated bool
	// Of a process of a group:
	order      message.Order // the newest
	endOrdered bool          // it was told to end this run
	restartSet bool          // process/setRestart, since the last end
	unread     int           // the run whose end was told before its output was taken; 0: none
	leaving    string        // why it was given up, if not by the group

	fault     string // why it was ended, if that is its own failure
	health    health
	killRest  bool      // kill what the program leaves when it ends
	killing   bool      // KillTree runs
	treeDone  bool      // while stopping, the tree was seen empty, or could not be killed
	survivors error     // it could not: closed may never come
	trees     []*parked // process/terminate, until the tree was seen empty, or could not be killed
	forgotten bool      // the session has taken it from its table
	closedAt  time.Time
	lingers   time.Duration // before the last look whether the tree of a retired process has ended

	gauged   int64     // of gauge.held, what is of this process
	reads    []*parked // process/read and process/wait
	unspool  []*parked // process/read that waits for another's turn at the disk
	stdin    []*parked // process/write and process/closeStdin, in order
	stdinEnd bool
	// A goroutine reads the disk for a process/read: unspooled comes.
	unspooling bool
	refused    time.Time // since when this run's child has had its stdin closed; zero: it has not
	writeIDs   recent
	answers    answers // to requests that may be sent again

	killAt, timeoutAt, restartAt, stdinAt, retireAt, flushAt, aheadAt env.Alarm
}

// parked is a request that waits.
type parked struct {
	sender *actor.PID
	token  uint64
	params any
	timer  *time.Timer                     // nil: none
	tree   protocol.ProcessTerminateResult // of process/terminate, which waits for the end of the tree
}

// process is the actor that owns one managed process. It lives under the
// session's supervisor, beside the session: neither's failure touches the other.
type process struct{ *processRecord }

func (p *process) Receive(ctx actor.Context) {
	if from := ctx.Sender(); from != nil && p.feed.Barred(message.WhoOf(from)) {
		return
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		p.start(ctx)
	case *actor.Stopping:
		p.answerTrees(ctx, errUnseen)
		ctx.Send(p.session, message.ProcessEnded{Name: p.name, Last: p.feed.Last(), Closed: p.phase >= closed, Left: p.unseen()})
		for _, a := range []*env.Alarm{&p.killAt, &p.timeoutAt, &p.restartAt, &p.stdinAt, &p.retireAt, &p.flushAt, &p.aheadAt} {
			a.Stop()
		}
		p.unwatch()
		p.interval = nil // no other run
		p.leave()
	case *actor.Stopped: // again: it is harmless, and Stopping may have failed
		p.leave()

	case spawned:
		p.spawned(ctx)
	case message.Announce:
		p.announce(ctx)
	case factsReady:
		p.takeFacts(ctx)
	case message.Order:
		p.ordered(ctx, m)
	case message.Report:
		p.report(ctx)
	case message.Stop:
		p.stop(ctx, m)
	case treeGone:
		p.treeGone(ctx, m)

	case message.Request:
		p.request(ctx, m)
	case message.Subscribe:
		p.subscribe(ctx, m)
	case message.Pull:
		p.pulled(ctx, message.WhoOf(ctx.Sender()), m.Bytes)
	case message.Ack:
		p.acked(ctx, m)
	case message.Unsubscribe:
		p.removeViewer(ctx, ctx.Sender())
	case message.ViewerGone:
		if m.Evicted {
			p.feed.Bar(message.WhoOf(m.PID))
		} else {
			p.feed.Unbar(message.WhoOf(m.PID))
		}
		p.removeViewer(ctx, m.PID)
	case message.BudgetLow:
		p.held()

	case timeoutDue:
		if m.run == p.run {
			p.timeout(ctx)
		}
	case readyNow:
		if m.run == p.run {
			p.isReady(ctx)
		}
	case readyDue:
		if m.run == p.run {
			p.readyDue(ctx)
		}
	case silenceDue:
		if m.run == p.run {
			p.silence(ctx)
		}
	case probeDue:
		if m.run == p.run {
			p.probe(ctx)
		}
	case probed:
		p.probed(ctx, m)
	case matched:
		p.matched(ctx, m)
	case blinded:
		p.blinded(m)
	case killDue:
		if m.run == p.run {
			p.killNow(ctx)
		}
	case stdinDue:
		p.acceptStdin(ctx)
	case inspected:
		p.inspected(ctx, m)
	case unspooled:
		p.unspooled(ctx)
	case env.Crashed: // a goroutine of its health, or that read the disk
		panic(m)
	case restartDue: // below
	case readDue:
		p.answerParked(ctx, m.r)
	case retireDue:
		p.retire(ctx)
	case aheadDue:
		p.awaitAhead(ctx) // it may be of an earlier limit
		p.spread(ctx)
	case message.Forgotten:
		p.forgotten = true
		p.retire(ctx)
	case flushDue:
		p.feed.Dismiss()
		p.intake.Abort() // a pump that waits for a reader's credit waits in vain
		p.mayGo(ctx)

	case *actor.DeadLetterResponse, actor.SystemMessage, actor.AutoReceiveMessage:
	default:
		p.shared.Log.Warn("unexpected message", "actor", p.name, "message", m)
	}
	p.advance(ctx) // whatever it was that it waits for
}

// start asks for the child the first time; a later instance finds it as the
// earlier one left it.
func (p *process) start(ctx actor.Context) {
	if p.intake == nil { // nothing has begun
		if p.group != nil {
			p.join(ctx)
			return
		}
		p.run = 1
		p.spawn(ctx)
		return
	}
	// Whatever message was lost, and whatever the last instance had only begun: look at
	// everything again.
	if p.asked < p.run && (p.phase == starting || p.interval != nil && p.interval.spawning) {
		p.spawn(ctx)
	}
	p.feed.Each(func(v *viewer) { ctx.Send(v.To, message.Resubscribe{Process: p.ref(ctx), After: v.Seq()}) })
	p.feed.Dismiss()
	p.awaitAhead(ctx)
	p.killing = false
	p.announce(ctx)
	p.spawned(ctx)
	if p.phase == running && p.begun < p.run {
		p.begin(ctx)
	}
	if p.phase == exited {
		p.afterExit(ctx)
	}
	if p.stopping != nil {
		p.stop(ctx, *p.stopping)
	}
	if n := p.interval; n != nil && !n.treeGone {
		p.clearRun(ctx)
	}
	if len(p.trees) > 0 {
		p.killTree(ctx)
	}
	if p.group != nil {
		ctx.Send(p.group, message.MemberBack{ID: p.id})
		p.report(ctx)
	}
	p.rewatch(ctx)
	p.advance(ctx)
	p.acceptStdin(ctx)
	p.unspooled(ctx)
	p.takeFacts(ctx)
	if p.phase >= closed {
		p.retire(ctx)
	}
}

func (p *process) ref(ctx actor.Context) message.ProcessRef {
	return message.ProcessRef{ID: p.id, PID: ctx.Self()}
}

// spawned moves on from starting, if the spawner has answered.
func (p *process) spawned(ctx actor.Context) {
	p.mu.Lock()
	handle, err := p.handle, p.startErr
	p.mu.Unlock()
	respawned := p.interval != nil && p.interval.spawning
	switch {
	case p.phase != starting && !respawned, handle == nil && err == nil:
		return
	case respawned:
		p.respawned(ctx, handle, err)
		return
	case err != nil:
		p.announce(ctx)
		ctx.Stop(ctx.Self())
		return
	}
	if p.restart == nil {
		p.spec.Argv = nil // the child has them: the record is kept for long
		if l := p.params.Liveness; l == nil || l.Probe == nil {
			p.spec.Env = nil
			p.release()
		}
	}
	p.phase = running // before it is announced
	p.shared.At(ctx, env.RunningSet)
	p.announce(ctx)
	p.begin(ctx)
}

// begin begins a run that has a child. May be repeated.
func (p *process) begin(ctx actor.Context) {
	p.phase = running
	p.shared.At(ctx, env.RunBegun)
	p.unwatch()
	if t := p.params.TimeoutMs; t != nil && *t > 0 {
		p.timeoutAt.Set(ctx, env.FromMillis(*t), timeoutDue{p.run})
	}
	p.watch(ctx)
	if p.stopping != nil {
		p.stop(ctx, *p.stopping)
	}
	switch {
	case p.terminated: // while there was no child
		p.endReason, p.killRest = reasonTerminated, true
		p.killNow(ctx)
	case p.group != nil:
		p.obey(ctx) // it may be to end already
	}
	p.begun = p.run
}

// announce tells the session how the start went.
func (p *process) announce(ctx actor.Context) {
	p.mu.Lock()
	err := p.startErr
	p.mu.Unlock()
	switch {
	case p.phase > starting:
		err = nil // what a later run came to is another matter
	case err == nil:
		return // not known yet
	}
	ctx.Send(p.session, message.ProcessStarted{ID: p.id, Name: p.name, Ref: p.ref(ctx), Err: wireerr.From(err)})
}

// takeFacts logs what the child did, and passes it on. After its share it lets
// other messages in: a flood does not delay a signal.
func (p *process) takeFacts(ctx actor.Context) {
	if n := p.interval; n != nil && n.spawning {
		p.spawned(ctx) // whose facts they are
	}
	more, in := true, p.intake
	for n := 0; n < turnBytes && more && p.health.matching == nil; {
		var f child.Fact
		if f, more = in.Next(); !more {
			break
		}
		switch f.Kind {
		case child.FactOutput:
			switch {
			case p.logged == in: // by an instance that failed before it was settled
			case f.Spool != nil:
				p.feed.Log.AppendSpooled(f.Stream, f.Spool, f.At, len(f.Data))
			default:
				p.feed.Log.Append(f.Stream, f.Data, f.Slab)
			}
			p.logged = in
			p.shared.At(ctx, env.FactLogged)
			p.heard(ctx, f.Stream, f.Data)
			n += len(f.Data) + 1
		case child.FactExited:
			if p.phase < restarting { // not again, if we failed before it was settled
				p.exited(ctx, f.Status)
			}
		case child.FactClosed:
			switch {
			case p.interval != nil:
				p.interval.closed = true
			case p.phase < closed:
				p.close(ctx)
			}
		case child.FactStdinRoom:
			p.acceptStdin(ctx)
		}
		p.trim()
		in.Settle(p.holds())
		p.logged = nil
	}
	if more && p.health.matching == nil { // else matched goes on
		ctx.Send(ctx.Self(), factsReady{})
	}
	p.spread(ctx)
	p.advance(ctx)
}

// spread gives what is new in the log to those who wait for it.
func (p *process) spread(ctx actor.Context) {
	p.feed.Each(func(v *viewer) { p.deliver(ctx, v) })
	p.answerReads(ctx)
	p.mayGo(ctx)
}

// close ends the log. May be repeated.
func (p *process) close(ctx actor.Context) {
	p.feed.Log.AppendClosed()
	p.shared.At(ctx, env.CloseLogged)
	p.phase = closed
	p.closedAt = time.Now()
	p.shared.At(ctx, env.ClosePhase)
	p.spec.Argv, p.spec.Env, p.params.Liveness = nil, nil, nil // no run follows
	p.release()
	p.retireAt.Set(ctx, p.keeps(), retireDue{})
	p.acceptStdin(ctx) // nothing is: it has ended
	p.report(ctx)
}

// exited is the end of a run. May be repeated.
func (p *process) exited(ctx actor.Context, st protocol.ExitStatus) {
	st.Run = p.run
	st.TimedOut = p.timedOut
	st.Reason = p.endReason
	st.OOMKilled = st.OOMKilled && p.endReason == "" // else it was we who killed it
	p.killAt.Stop()
	p.timeoutAt.Stop()
	if r := p.params.Ready; r != nil && r.Exit && p.endReason == "" && st.ExitCode == 0 {
		p.isReady(ctx)
	}
	p.unwatch()
	p.logExit(ctx, st)
	if p.runEnded(ctx, st) {
		p.clearRun(ctx)
		return
	}
	p.phase = exited
	p.shared.At(ctx, env.ExitPhase)
	p.afterExit(ctx)
}

// logExit logs the end of the current run, once.
func (p *process) logExit(ctx actor.Context, st protocol.ExitStatus) {
	if p.status = st; p.exits <= p.run {
		p.feed.Log.AppendExited(st)
		p.exits = p.run + 1
	}
	p.shared.At(ctx, env.ExitLogged)
}

// afterExit does what follows the end of the last run. May be repeated.
func (p *process) afterExit(ctx actor.Context) {
	p.acceptStdin(ctx) // nothing is: it has ended
	if p.endReason != "" {
		// It was killed: descendants that still hold its streams do not keep it open.
		p.handleNow().Abandon()
	}
	if p.killRest || p.stopping != nil {
		p.killTree(ctx)
	}
}

// lives reports whether the program runs. It may have ended although its exit,
// behind output that nobody has read, is not in the log yet.
func (p *process) lives() bool { return p.phase == running && !p.handleNow().Exited() }

// handleNow is the handle of a process that is past starting; nil if its last run
// could not be started, or the next one is being.
func (p *process) handleNow() child.Handle {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.handle
}

func (p *process) request(ctx actor.Context, m message.Request) {
	switch p.phase {
	case starting: // only one who got its PID by other means than Started can be so early
		ctx.Respond(m.Failed(protocol.Errorf(protocol.CodeInvalidRequest, "process id %s is starting", p.id)))
		return
	case retired:
		ctx.Respond(m.Failed(wireerr.UnknownProcess(p.id)))
		return
	}
	if reply, ok := p.answers.to(m.Params, m.Token); ok {
		ctx.Respond(reply) // it was done before a cut
		return
	}
	r := &parked{sender: ctx.Sender(), token: m.Token, params: m.Params}
	if other, ok := p.otherRun(m.Params); ok {
		p.reply(ctx, r, other, nil)
		return
	}
	switch params := m.Params.(type) {
	case protocol.ProcessReadParams:
		// A client that reads after a seq has the output up to there (PROTOCOL.md).
		if p.feed.AckRead(time.Now(), message.WhoOf(r.sender), params.AfterSeq) {
			p.awaitAhead(ctx)
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
		if err := graceError("graceMs", params.GraceMs); err != nil {
			p.reply(ctx, r, nil, err)
			return
		}
		result := protocol.ProcessTerminateResult{Running: p.lives()}
		if params.Tree && (params.GraceMs == nil || *params.GraceMs == 0) {
			r.tree = result
			if again := p.parkTree(r); again {
				return
			}
		} else {
			p.reply(ctx, r, result, nil)
		}
		p.terminate(ctx, params)
	case message.KillTreeRequest:
		p.reply(ctx, r, protocol.ProcessTerminateResult{Running: p.lives()}, nil)
		p.terminate(ctx, protocol.ProcessTerminateParams{Tree: true})
	case protocol.ProcessRestartParams:
		p.reply(ctx, r, protocol.Empty{}, p.restartNow(ctx))
	case protocol.ProcessSetRestartParams:
		p.reply(ctx, r, protocol.Empty{}, p.setRestart(params.Restart))
	case protocol.ProcessInfoParams:
		p.inspect(ctx, r)
	case message.DescribeRequest:
		p.reply(ctx, r, p.describe(), nil)
	default:
		p.reply(ctx, r, nil, protocol.Errorf(protocol.CodeInternal, "a process does not answer %T", m.Params))
	}
}

func (p *process) reply(ctx actor.Context, r *parked, result any, err *protocol.Error) {
	reply := message.Reply{Token: r.token, Result: result, Err: err}
	p.answers.add(r.params, reply)
	ctx.Send(r.sender, reply)
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
