//go:build unix

// Package run runs a Plan against its servers.
//
// # Where to look
//
// The packages without a path are beside this one:
//
//   - plan, profile, program: what is run; profile is the side of the client, program that of the server. A new program is a Mode of package
//     program, with its client in profile and its name in plan
//   - chaos: links that are cut, slow or silent, inside this process
//   - internal/rpc of the module: the client of the wire, which drops nothing: repeats, holes and wrong orders reach the oracle
//   - stream, oracle: the bytes that must come, against those that came
//   - figures, hist, usage, result: what is measured
//   - live, report: the terminal; text, HTML and pictures
//   - command: a command many times, by package client
//
// # How a byte is checked
//
//  1. The seed of the plan, the session and the process make a key (stream.Of), which the program gets as an argument.
//  2. The program writes a hello with the number of its run, content, and an end with the count. Key, run and offset give each byte.
//  3. The server sends process/output with a seq. A cut may come before, within and after the message.
//  4. The Checker of the process compares each byte with the byte of its offset. It looks for the place of a wrong byte in the stream, which any 31 bytes
//     tell, says missing, doubled, reordered, altered or foreign, and goes on from there.
//  5. After a resume, the server may repeat events: each must be the same event with the same bytes. The Checker remembers the last 64 events. Of older
//     events, it compares the output of the present run.
//  6. A finding goes to figures, and with the events that show it to findings.jsonl. oracle.Replay needs only that file.
//
// Stdin goes the other way: the program knows the key, compares, and answers with the count and a digest.
package run

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/hold"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/chaos"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/figures"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/usage"
	"github.com/b6f6fdd7/troupe/internal/holder"
	"github.com/b6f6fdd7/troupe/transport"
)

// Access says how to reach the servers. Access is not part of the plan, because Access may have secrets.
type Access struct {
	Dial func(server string) (*transport.DialOptions, error) // TLS, the proxy and the token of each server; nil: none

	// Hard is done to stop at once: from then on nothing is ended or checked. nil: never.
	Hard context.Context

	// Version is the version of this troupe. A program of another version is refused. "": any version is good.
	Version string

	Stops *Stops // gets the servers that chaos stops; nil: nobody asks

	// Begin is called once the servers have answered, and the load begins when Begin returns. An error ends the run. nil: at once.
	Begin func(context.Context) error
}

const (
	maxDials = 128 // connections being opened at the same time

	// openFor is how long a run without a ramp waits for all its sessions before its first phase.
	openFor = time.Minute
	// endFor is how long programs may take to end after the last phase. A task gives its program up after two minutes.
	endFor = 3 * time.Minute

	onTheWay = 8 << 20 // bytes of output that a link and its sockets hold

	// A client notices a half-open connection by the silence. A server stopped by the chaos is silent, too, and must not count as half-open.
	deadAfter = 10 * time.Second // and twice the time of a stop
)

// An engine is a run.
type engine struct {
	// Fixed by Run.
	plan         *plan.Plan
	access       Access
	rec          *figures.Recorder
	runID        string
	began        time.Time     // when the recorder began: the times of findings count from then
	deadAfter    time.Duration // of silence
	goneWithin   time.Duration
	beginWithin  time.Duration
	answerWithin time.Duration // 0: a server may take as long as it likes
	plain        bool          // for tests: treat every server as a server without the extensions of troupe
	dials        chan struct{} // has a token for each connection being opened
	meters       []usage.Meter // of the servers; one goroutine at a time reads them

	phases []*phase
	seats  []*seat
	clocks map[string]time.Duration // by server; fixed before the first task
	kills  kills

	hard   context.Context // done: all sessions end at once
	stop   context.CancelCauseFunc
	living sync.WaitGroup // the goroutines of all sessions
}

// Run runs p, a complete plan, until its phases are over or ctx is done. Then Run ends everything started by the run, and checks that nothing is left. The
// error is the reason why the run was impossible. Faults of the server are in the figures.
func Run(ctx context.Context, p plan.Plan, a Access, r *figures.Recorder) error {
	e, err := newEngine(&p, a, r)
	if err != nil {
		return err
	}
	defer context.AfterFunc(cmp.Or(a.Hard, context.Background()), func() { e.stop(errStopped) })()
	defer func() {
		e.stop(errDone)
		e.living.Wait()
	}()

	servers, err := e.meet(ctx)
	if err != nil {
		return err
	}
	if a.Begin != nil {
		if err := a.Begin(ctx); err != nil {
			e.part(servers)
			return err
		}
	}
	before := e.rec.Use(e.meters) // with the control sessions, and after the first program: a server may keep what that needs
	steps := e.rec.Steps(e.meters)
	e.work(ctx)
	e.leave(servers)
	steps()
	e.leaveMeters(servers, before)
	e.part(servers)
	return nil
}

// newEngine returns the engine of a plan. If the plan does not name the program, newEngine adds the path of this program.
func newEngine(p *plan.Plan, a Access, r *figures.Recorder) (*engine, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	id := make([]byte, 8)
	rand.Read(id)
	e := &engine{
		plan:         p,
		access:       a,
		rec:          r,
		runID:        hex.EncodeToString(id),
		began:        r.Began(),
		deadAfter:    deadAfter,
		goneWithin:   goneWithin,
		beginWithin:  beginWithin,
		answerWithin: time.Duration(p.AnswerWithin),
		dials:        make(chan struct{}, maxDials),
		clocks:       make(map[string]time.Duration),
		meters:       usage.Of(p),
	}
	if p.Chaos.KillServer > 0 {
		for _, pid := range p.PIDs {
			if holder.ServerOf(pid) == 0 {
				return nil, fmt.Errorf("kill-server: process %d has no server below it: give the pid of a troupe serve without --%s", pid, hold.Flag)
			}
		}
	}
	e.hard, e.stop = context.WithCancelCause(context.Background())
	if c := &p.Chaos; c.Stall > 0 || c.Stop > 0 {
		e.deadAfter += 2 * time.Duration(c.StallFor)
	}
	c, wait := &p.Chaos, time.Duration(0)
	if c.HalfOpen > 0 || c.Waits() {
		wait = deadAfter + 2*time.Duration(c.StallFor)
	}
	e.beginWithin += wait
	if e.answerWithin > 0 {
		e.answerWithin += wait + 4*time.Duration(c.Delay)
		if c.Speed > 0 { // the answer comes after the output that is on its way
			e.answerWithin += time.Duration(float64(onTheWay) / float64(c.Speed) * float64(time.Second))
		}
	}
	if p.Program == "" {
		own, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("the path of this program is unknown (%w): give the path that it has on the server", err)
		}
		p.Program = own
	}
	for i := range p.Sessions {
		e.seats = append(e.seats, newSeat(e, i))
	}
	return e, nil
}

// sessionName is the name of a session on the server. The name has the id of the run, so a session that lost the answer to its initialize
// can be found.
func (e *engine) sessionName(name string) string { return "load " + e.runID + " " + name }

// newName returns the name of a session in the report.
func (e *engine) newName(seat, generation int) string {
	name := "s" + strconv.Itoa(seat)
	if generation > 0 {
		name += "." + strconv.Itoa(generation)
	}
	return name
}

// transport returns the options of a connection.
func (e *engine) transport(server string) (*transport.DialOptions, error) {
	var o transport.DialOptions
	if e.access.Dial != nil {
		own, err := e.access.Dial(server)
		if err != nil {
			return nil, err
		}
		if own != nil {
			o = *own
		}
	}
	o.HandshakeTimeout = longTimeout
	o.DeadAfter = e.deadAfter
	o.PingEvery = e.deadAfter / 4
	return &o, nil
}

// work runs the phases.
func (e *engine) work(ctx context.Context) {
	interrupted := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unhook := context.AfterFunc(e.hard, func() { cancel(context.Cause(e.hard)) })
	defer unhook()

	var seats sync.WaitGroup
	begin := make(chan struct{})
	ready := make(chan bool, len(e.seats)) // for each seat: the first attempt to open a session has succeeded
	for _, s := range e.seats {
		seats.Go(func() { s.run(ctx, begin, ready) })
	}
	if e.plan.Ramp == 0 {
		e.awaitSessions(ctx, ready)
	}
	start := time.Now()
	e.rec.Loading()
	e.phases = makePhases(ctx, e, start)
	for _, ph := range e.phases {
		defer ph.over()
	}
	close(begin)

	var others sync.WaitGroup
	over, end := context.WithDeadline(ctx, e.phases[len(e.phases)-1].end)
	defer end()
	for i, ph := range e.phases {
		if ph.moments != nil {
			others.Go(func() { ph.deal(e) })
		}
		if i > 0 {
			others.Go(func() {
				if sleep(over, time.Until(ph.begin)) == nil {
					e.rec.Gauge(figures.Phase, 1)
				}
			})
		}
	}
	others.Go(func() { e.disturb(over, start) })

	all := make(chan struct{})
	go func() {
		seats.Wait()
		close(all)
	}()
	<-over.Done()
	e.rec.Unloading()
	t := time.NewTimer(endFor)
	defer t.Stop()
	select {
	case <-all:
	case <-t.C:
		e.rec.Problem(fmt.Sprintf("the programs had not ended %v after the last phase: their sessions were cut off", endFor))
		cancel(errStopped)
		for _, s := range e.seats {
			s.abandon(errStopped)
		}
		<-all
	}
	others.Wait()
	if interrupted.Err() == nil && e.hard.Err() == nil {
		e.tellNeverOpen()
	}
}

// tellNeverOpen reports the sessions that were never open.
func (e *engine) tellNeverOpen() {
	failed, late := 0, 0
	for _, s := range e.seats {
		switch tried, failures := s.neverOpen(); {
		case failures:
			failed++
		case tried:
			late++
		}
	}
	if failed > 0 {
		e.rec.Problem(fmt.Sprintf("%d of %d sessions were never open, and checked nothing: the table of errors says why", failed, len(e.seats)))
	}
	if late > 0 {
		e.rec.Problem(fmt.Sprintf("%d of %d sessions were not open before the phases ended, and checked nothing: choose a shorter ramp, or more time", late, len(e.seats)))
	}
}

// awaitSessions waits until every seat has opened its session or has failed to.
func (e *engine) awaitSessions(ctx context.Context, ready <-chan bool) {
	began := time.Now()
	t := time.NewTimer(openFor)
	defer t.Stop()
	open := 0
	for late, i := false, 0; i < len(e.seats) && !late; i++ {
		select {
		case ok := <-ready:
			if ok {
				open++
			}
		case <-ctx.Done():
			return
		case <-t.C:
			late = true
		}
	}
	if open < len(e.seats) {
		e.rec.Note(fmt.Sprintf("only %d of %d sessions were open when the phases began, after %v", open, len(e.seats), time.Since(began).Round(time.Second)))
	}
}

// disturb carries out the acts of the chaos until ctx is done.
func (e *engine) disturb(ctx context.Context, start time.Time) {
	acts := chaos.Acts(e.plan.Chaos, e.plan.Seed)
	if acts == nil {
		return
	}
	stops := cmp.Or(e.access.Stops, new(Stops))
	defer stops.proceed()
	for a := range acts {
		if sleep(ctx, time.Until(start.Add(a.At))) != nil {
			return
		}
		e.act(a, stops)
	}
}

// act applies an act of the chaos to the first candidate, beginning with the victim, that can take the act.
func (e *engine) act(a chaos.Act, stops *Stops) {
	n, stallFor := uint64(len(e.seats)), time.Duration(e.plan.Chaos.StallFor)
	switch a.Kind {
	case chaos.KillServer:
		e.kills.kill(e.plan.PIDs, e.rec)
	case chaos.Stop:
		stops.stop(e.plan.PIDs, stallFor, e.rec)
	case chaos.Kill, chaos.Freeze:
		n *= uint64(e.plan.Processes)
		for i := range n {
			v := (a.Victim%n + i) % n
			if e.seats[v/uint64(e.plan.Processes)].slots[v%uint64(e.plan.Processes)].act(a) {
				return
			}
		}
	default:
		for i := range n {
			s := e.seats[(a.Victim%n+i)%n].now()
			if s == nil {
				continue
			}
			switch {
			case a.Kind == chaos.Takeover && !s.Ours():
				e.rec.LeftOut("takeovers: " + s.server + " has none")
				continue
			case a.Kind == chaos.Takeover:
				s.takeOverSoon()
				return
			case !s.dialer.Do(a, stallFor):
				continue
			case a.Kind == chaos.Stall:
				e.rec.Add(result.Stalls, 1)
			}
			return
		}
	}
}
