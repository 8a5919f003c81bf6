// Package process has the actor of a managed process, across all its runs.
//
// # Where to look
//
//   - new.go, retention.go: a new process
//   - launch: what to run, as whom, where, under which rules and in which sandbox; denial: what the sandbox may have denied
//   - process.go: the record (processRecord), which outlives the actor and the server; takes messages
//   - requests.go, info.go: answers clients
//   - life.go, life: starts, restarts, signals and ends: the pure machine life decides, and the actor acts
//   - runs.go: process/restart and process/setRestart
//   - output.go, feed: the log and its viewers, and which output may go: feed is a pure machine
//   - reads.go: process/read and process/wait
//   - input.go, stdin: what waits for stdin, and which part the programs have taken: stdin is a pure machine
//   - screen.go: the screen of its PTY, which package actors/screen keeps
//   - health.go, probe.go, health: readiness and liveness: health is a pure machine
//   - traced.go: the spans of a start
//   - place.go: what the place among the running processes of its owner bounds
//   - end.go, trees.go: the end of the tree, and who waits for it
//   - kept.go, revive.go: what outlives the server, and a process that an earlier server has left
package process

import (
	"log/slog"
	"path"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/journal"
	"github.com/b6f6fdd7/troupe/actors/internal/quota"
	"github.com/b6f6fdd7/troupe/actors/internal/repeat"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/process/denial"
	"github.com/b6f6fdd7/troupe/actors/process/launch"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/actors/spool"
)

// Messages to a process actor from its goroutines and timers. All other messages are in actors/message.
type (
	factsReady struct{} // the intake; also the actor itself, after its share of facts
	unspooled  struct{} // the goroutine that has read the disk for a process/read
	treeGone   struct { // KillTree of the run
		run int
		err error
	}
	treeSeen struct { // SearchTree of a closed process
		run   int
		empty bool
		err   error
	}

	wakeDue struct{} // the time of life.Wake
)

func (treeSeen) IgnoreDeadLetterLogging() {}

// turnBytes is how much output the actor logs before other messages have their turn.
const turnBytes = 128 << 10

// processRecord is the state of a process that survives a restart of its actor: the child, the log,
// and everything promised to clients. The Props of the actor close over the record. Receive owns the
// record.
type processRecord struct {
	// Fixed at spawn.
	env          *env.Env        `lost:"of this server"`
	id, name     string          // the client's, and the actor's
	launch       *launch.Launch  // what the process runs
	spool        *spool.File     `lost:"the estate has its file"` // nil: output beyond the retention waits
	session      *actor.PID      `lost:"of this server"`
	group        *actor.PID      `lost:"of this server"` // nil: the process has no group
	gauge        share           `lost:"counted again"`  // of the session
	events       *journal.Source `lost:"of this server"` // of the session; nil: nobody is told
	traced       *traced         `lost:"of this server"` // the start under way; nil: nobody traces, or its first output has come
	counted      string          `lost:"counted again"`  // its state in Meters.Processes; "": none yet; uncounted: no more
	noticed      noticed         `lost:"of this server"` // what the board of notices has
	place        *quota.Place    `lost:"taken again"`    // among the running processes of the owner key; nil: none is counted
	created      time.Time
	ownIntensity bool // its own restart.intensity counts: it has no group, or an independent one

	// Owned by Receive.
	life   life.Life   // decides; act does its actions
	acting bool        `lost:"the next actor begins to act"` // act is on the stack of this instance
	wakeAt env.Alarm   `lost:"of this server"`               // at wake
	run    run         // the present one, or else the last
	feed   processFeed // its log and its viewers

	health watch // readiness and liveness of the run
	trees  trees // process/terminate, and the descendants of the closed process

	reads   reads          `lost:"clients ask again"` // process/read and process/wait
	stdin   input          // process/write and process/closeStdin
	answers repeat.Answers // to requests with a requestId

	display *display // its screen; nil: nobody has asked for one, and the PTY has had one size

	kept   kept        // what outlives the server beside the record
	outbox *env.Outbox `lost:"of this server"` // nil: nothing of the process outlives the server
}

// A run is the child of one run of the program, with the intake of its facts.
type run struct {
	asked  int           // the number of the run whose child was asked for; 0: none was
	intake *child.Intake `lost:"of this server"`
	handle child.Handle  `lost:"adopted again"` // nil before FactStarted, after forgetChild, and if the run could not be started
	err    error         // why the run could not be started
	forgot bool          // forgetChild was called
	begun  bool          // server/events has its start
	logged *child.Intake `lost:"the intake is lost"` // its oldest fact is in the log, and not settled; nil: none

	// What stays known after the run, until the next one has a child.
	sandbox     *denial.Sandbox
	containment child.Containment // of a forgotten child; "": none
}

// answered reports whether the answer to the start of the run has been taken.
func (r *run) answered() bool { return r.handle != nil || r.err != nil || r.forgot }

// lives reports whether there is a child that has not ended.
func (r *run) lives() bool { return r.handle != nil && !r.handle.Exited() }

// process is the actor of a managed process. The actor lives under the session's supervisor, beside
// the session: the failure of either does not touch the other.
type process struct{ *processRecord }

func (p *process) Receive(ctx actor.Context) {
	if from := ctx.Sender(); from != nil && p.feed.Barred(message.KeyOf(from)) {
		return
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		p.start(ctx)
	case *actor.Stopping:
		p.end(ctx)
	case *actor.Stopped: // again, because Stopping may have failed
		p.leave()
	case *actor.Restarting:
		return // the next instance goes on with the pending actions
	case env.Crashed: // a goroutine of readiness or liveness, or the reader of the disk
		panic(m)
	default:
		if !p.receiveLife(ctx) && !p.receiveHealth(ctx) && !p.receiveViewer(ctx) && !p.receiveScreen(ctx) {
			p.env.Unexpected(ctx, p.name, m)
		}
	}
	p.advance(ctx)
	p.count()
	p.notice(ctx)
}

// receiveLife handles the messages about the life of the process.
func (p *process) receiveLife(ctx actor.Context) bool {
	switch m := ctx.Message().(type) {
	case message.Announce:
		p.announce(ctx)
	case factsReady:
		p.takeFacts(ctx)
	case message.Order:
		p.life.Order(p.now(), m.Serial, m.Status)
	case message.Report:
		p.life.Report(p.now())
	case message.Stop:
		p.life.Stop(p.now(), m.Reason, m.Shutdown)
	case treeGone:
		p.treeGone(ctx, m)
	case message.GiveWay:
		p.life.GiveWay(p.now())
	case message.Forgotten:
		p.life.Forgotten(p.now())
	case treeSeen:
		if !p.life.Kills() && m.run == p.life.Run() && p.life.Phase() >= life.Closed { // else treeGone follows, or has come, or a run has: the look may be older
			p.treeSeen(ctx, m)
		}
	case wakeDue:
		p.wakeAt.Cancel() // advance does everything due, and sets the alarm again
	default:
		return false
	}
	return true
}

// receiveViewer handles the messages of viewers and clients.
func (p *process) receiveViewer(ctx actor.Context) bool {
	switch m := ctx.Message().(type) {
	case message.Request:
		p.request(ctx, m)
	case message.Subscribe:
		p.subscribe(ctx, m)
	case message.Pull:
		if !p.refuses(ctx, m.Wrong()) {
			if !p.isScreen(ctx.Sender()) { // nobody waits for the screen
				p.life.Fetched(time.Now())
			}
			p.pulled(ctx, message.KeyOf(ctx.Sender()), m.Bytes)
		}
	case message.Ack:
		p.acked(ctx, m)
	case message.Unsubscribe:
		p.removeViewer(ctx, ctx.Sender())
	case message.ViewerGone:
		if m.Evicted {
			p.feed.Bar(message.KeyOf(m.PID))
		} else {
			p.feed.Unbar(message.KeyOf(m.PID))
			if p.feed.HoldsAlone(message.KeyOf(m.PID)) {
				p.awaitHolder() // the client may come back
			}
		}
		p.removeViewer(ctx, m.PID)
	case message.BudgetLow:
		p.held()
	case inspected:
		p.inspected(ctx, m)
	case unspooled:
		p.unspooled(ctx)
	default:
		return false
	}
	return true
}

// start begins the life of the process. A later instance goes on where the last instance failed.
func (p *process) start(ctx actor.Context) {
	p.acting = false
	if !p.life.Begun() {
		p.keepChain()
		if p.group != nil { // requests come before the first run
			p.run.intake = p.newIntake(ctx)
		}
		p.life = life.New(p.lifeConfig())
		p.health = newWatch(p.launch.Params)
		p.life.Start()
		p.awaitHolder()
		p.resumeScreen(ctx)
		return
	}
	if p.run.intake == nil {
		p.revive(ctx)
	}
	// Whatever message was lost, and whatever the last instance had only begun: look at
	// everything again.
	p.wakeAt.Cancel()
	p.act(ctx)
	p.feed.Each(func(v *viewer) { ctx.Send(v.To, message.Resubscribe{Process: p.ref(ctx), After: v.Seq()}) })
	if p.feed.Holding() {
		p.awaitHolder()
	}
	p.feed.Dismiss()
	p.announce(ctx)
	p.life.Resume(p.now())
	p.spawned(ctx)
	if p.group != nil {
		ctx.Send(p.group, message.MemberBack{ID: p.id, Name: p.name})
		p.life.Report(p.now())
	}
	p.health.Resume(p.healthNow())
	p.actHealth(ctx)
	p.lookForTree(ctx)
	p.advance(ctx)
	p.acceptStdin(ctx)
	p.unspooled(ctx)
	p.resumeScreen(ctx)
	p.takeFacts(ctx)
}

// newIntake returns the intake of a run. The intake tells the actor when it has facts.
func (p *process) newIntake(ctx actor.Context) *child.Intake {
	self, root := ctx.Self(), ctx.ActorSystem().Root
	in := child.NewIntake(p.feed.Retention, p.memory(), p.spool, func() { root.Send(self, factsReady{}) })
	if n := p.feed.Log.MaxChunk; n > 0 {
		in.MaxChunk = n
	}
	in.Chain, in.Input, in.Waits = p.kept.chain, p.kept.input, &p.env.Meters.Waits
	if p.place != nil {
		in.Share(p.place.Output)
	}
	return in
}

// end handles Stopping: no action follows.
func (p *process) end(ctx actor.Context) {
	p.life.End()
	p.launch.RecordGivenUp(p.life.Run(), p.run.handle)
	p.answerTrees(ctx, errUnseen)
	ctx.Send(p.session, message.ProcessEnded{Name: p.name, Last: p.feed.Last(), Acked: p.feed.Acked(), Closed: p.life.Phase() >= life.Closed, Left: p.unseen()})
	p.wakeAt.Stop()
	p.health.end()
	p.leave()
}

func (p *process) ref(ctx actor.Context) message.ProcessRef {
	return message.ProcessRef{ID: p.id, PID: ctx.Self()}
}

// announce tells the session how the start went.
func (p *process) announce(ctx actor.Context) {
	err := p.run.err
	switch {
	case p.life.Phase() > life.Starting:
		err = nil // the first run has started; the error, if any, is of a later run
	case err == nil:
		return // not known yet
	default:
		p.place.Leave() // before the client is told, which may start another process at once
	}
	ctx.Send(p.session, message.ProcessStarted{ID: p.id, Name: p.name, Ref: p.ref(ctx), Err: wireerr.From(err), Sandbox: p.run.sandbox.Type()})
	// A failed session may have missed how things stand.
	if p.life.Phase() >= life.Closed {
		ctx.Send(p.session, message.ProcessClosed{Name: p.name})
	} else if p.launch.AfterEnd() {
		ctx.Send(p.session, message.ProcessReopened{Name: p.name})
	}
}

// takeFacts logs the facts of the child, and passes them on. After turnBytes, other messages have
// their turn: a flood does not delay a signal.
func (p *process) takeFacts(ctx actor.Context) {
	p.act(ctx)
	more, in := true, p.run.intake
	read := in.Told()
	for n := 0; n < turnBytes && more && !p.health.Matching(); {
		var f child.Fact
		if f, more = in.Next(); !more {
			break
		}
		if p.feed.Log.NowMs = f.AtMs; f.AtMs == 0 {
			p.feed.Log.NowMs = time.Now().UnixMilli()
		}
		switch f.Kind {
		case child.FactStarted:
			p.run.handle, p.run.err = f.Handle, f.Err
			p.spawned(ctx)
			p.act(ctx)
		case child.FactOutput:
			switch {
			case p.run.logged == in: // by an instance that failed before Settle
			case f.Spool != nil:
				p.feed.Log.AppendSpooled(f.Stream, f.Spool, f.At, len(f.Data))
			default:
				p.feed.Log.Append(f.Stream, f.Data, f.Slab)
			}
			if p.run.logged != in {
				p.run.sandbox.Output(f.Stream, f.Data)
				p.env.Meters.Output[f.Stream].Add(len(f.Data))
				p.tracedOutput()
				p.kept.number(f.Kept, p.feed.Log.Last())
			}
			p.run.logged = in
			p.env.At(ctx, env.FactLogged)
			p.heard(ctx, f.Stream, f.Data)
			n += len(f.Data) + 1
		case child.FactLost:
			p.feed.Log.AppendLost(f.Stream, f.Lost)
		case child.FactExited:
			p.exited(ctx, f.Status)
		case child.FactClosed:
			p.check(p.life.StreamsEnded(p.now()))
			p.act(ctx)
		case child.FactStdinRoom:
			p.acceptStdin(ctx)
		case child.FactEnded: // spread answers who waits for the end
		}
		in.Settle(p.holds())
		p.run.logged = nil
	}
	if more && !p.health.Matching() { // else matched goes on
		ctx.Send(ctx.Self(), factsReady{})
	}
	p.spread(ctx, read)
	p.held() // after spread: the waiting viewers have had the new entries
}

// spread sends new entries of the log to the waiting viewers, and answers the waiting reads. read is as in message.Delivery.
func (p *process) spread(ctx actor.Context, read time.Time) {
	p.feed.Each(func(v *viewer) { p.deliver(ctx, v, read) })
	p.answerReads(ctx)
}

// sessionID returns the id of the session, from the address of its actor.
func (p *process) sessionID() string { return path.Base(path.Dir(p.session.Id)) }

// log returns the log of the server, with the process that a line is about.
func (p *process) log() *slog.Logger {
	return p.env.Log.With("session", p.sessionID(), "process", p.id, "identity", p.events.Owner(), "actor", p.name)
}

func (p *process) logErr(what string, err error) {
	if err != nil {
		p.log().Warn(what, "err", err)
	}
}
