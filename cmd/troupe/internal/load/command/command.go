//go:build unix

// Package command runs a command many times at once, on one server or several, and collects how each run of it ended.
package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/figures"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/usage"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	dialing    = 32                     // sessions that are opened at once
	lateAfter  = 100 * time.Millisecond // a start that the load generator begins so much later than planned counts as late
	stopGrace  = 2 * time.Second        // between SIGTERM and SIGKILL for commands that run when the time is over
	endTime    = 15 * time.Second       // for the ends of stopped commands, and for the end of the sessions
	hardTime   = 2 * time.Second        // for the end of the sessions of a run that is stopped at once
	minAgain   = 100 * time.Millisecond // from a start that failed to the next
	keptOutput = 4 << 10                // bytes of the end of the output, as result.Failure has them
)

// Access says how to reach the servers.
type Access struct {
	// Dial opens a session with o on a server of the plan, with the credentials of the person.
	Dial func(ctx context.Context, server string, o *client.Options) (*client.Client, error)
	// Hard is done to end the run at once: commands get no time to end. nil: never.
	Hard context.Context
	// Prepare sets, for example, the environment of a command. nil: nothing.
	Prepare func(server string, cmd *client.Cmd)
}

// Run runs the command of p and returns how each run ended. When ctx ends, Run stops the commands and waits for them. An error means that no
// command could run.
//
// Each of Sessions*Processes slots has a goroutine and the end of its command's output, so they bound the memory.
func Run(ctx context.Context, p plan.Plan, a Access, rec *figures.Recorder) (*result.Commands, error) {
	r := &runner{plan: p, access: a, hard: cmp.Or(a.Hard, context.Background()), rec: rec, rand: rand.New(rand.NewPCG(p.Seed, 0)), out: result.Commands{
		Argv: p.Command.Argv, Codes: map[string]int64{}, Failures: []result.Failure{}, Memory: []int64{}, CPU: []time.Duration{}, Output: []int64{},
	}}
	clients, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	defer r.close(clients)
	endSteps := rec.Steps(usage.Of(&p))

	running := ctx // until the time is over
	if p.Command.Again {
		timed, end := context.WithTimeout(ctx, time.Duration(p.Ramp)+p.Took())
		defer end()
		running = timed
	}
	began, slots := time.Now(), p.Sessions*p.Processes
	var all sync.WaitGroup
	for i := range slots {
		due := began.Add(time.Duration(float64(p.Ramp) * float64(i) / float64(slots)))
		all.Go(func() { r.slot(running, i, due, clients[i%len(clients)]) })
	}
	all.Wait()
	endSteps()
	return r.outcome(r.serversPeak(clients)), nil
}

type runner struct {
	plan   plan.Plan
	access Access
	rec    *figures.Recorder
	hard   context.Context // done: commands are not waited for

	mu    sync.Mutex // guards the fields below
	next  int        // how many runs have begun after the first of each slot
	rand  *rand.Rand
	out   result.Commands
	sums  bool // a run had a use of CPU or memory
	ended int  // runs that were started and have ended: each has a sample
}

// A member is a session and its server.
type member struct {
	*client.Client
	server string
	away   atomic.Bool // from a cut until the session is resumed
	lost   atomic.Bool // and counted as lost
}

// refused reports whether err is the refusal of a request by a server that has the session. A server may also refuse to resume a session: then
// the client ends, and each later request fails with the same error.
func (m *member) refused(err error) bool {
	_, refusal := errors.AsType[*protocol.Error](err)
	return refusal && !m.away.Load() && !errors.Is(err, client.ErrSessionGone)
}

// lost asks the server whether it has the session, and counts a lost session. After a cut, the answer waits for the resume. If ctx ends before
// the answer, lost returns false.
func (r *runner) lost(ctx context.Context, m *member) bool {
	_, err := m.Status(ctx)
	if err == nil || m.refused(err) || ctx.Err() != nil {
		return false
	}
	r.lose(m)
	return true
}

func (r *runner) lose(m *member) {
	if !m.lost.Swap(true) {
		r.rec.Add(result.LostSessions, 1)
	}
}

// open opens the sessions, dealt to the servers in turn.
func (r *runner) open(ctx context.Context) ([]*member, error) {
	placement, err := r.plan.Placement()
	if err != nil {
		return nil, err
	}
	clients := make([]*member, r.plan.Sessions)
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(dialing)
	for i := range clients {
		all.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			server := r.plan.Servers[i%len(r.plan.Servers)]
			m := &member{server: server}
			c, err := r.access.Dial(ctx, server, &client.Options{
				Name: "troupe-load", SessionName: fmt.Sprintf("load-%d", i), Placement: placement,
				Lost: func(error) { m.away.Store(true) },
				Resumed: func() {
					m.away.Store(false)
					r.rec.Add(result.Resumes, 1)
				},
			})
			if err != nil {
				return fmt.Errorf("session %d on %s: %w", i, server, err)
			}
			m.Client = c
			clients[i] = m
			r.rec.Add(result.Sessions, 1)
			r.rec.Gauge(figures.Sessions, 1)
			r.rec.Gauge(figures.Connections, 1)
			about := c.Server()
			r.rec.Server(result.Server{URL: server, Name: about.Name, Version: about.Version})
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		r.close(slices.DeleteFunc(clients, func(m *member) bool { return m == nil }))
		return nil, err
	}
	return clients, nil
}

// close ends the sessions. A session without an answer within endTime is lost.
func (r *runner) close(clients []*member) {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	defer context.AfterFunc(r.hard, func() { time.AfterFunc(hardTime, cancel) })()
	var all errgroup.Group
	all.SetLimit(dialing)
	for _, c := range clients {
		all.Go(func() error {
			if !r.lost(ctx, c) && ctx.Err() != nil && (r.hard.Err() == nil || c.away.Load()) {
				r.lose(c)
			}
			if err := c.CloseSession(ctx); !errors.Is(err, errors.ErrUnsupported) { // another server ends the session later
				r.rec.Error(err)
			}
			r.rec.Gauge(figures.Sessions, -1)
			r.rec.Gauge(figures.Connections, -1)
			return nil
		})
	}
	all.Wait()
}

// slot runs the command from its due moment on: once, or again and again until ctx is done.
func (r *runner) slot(ctx context.Context, i int, due time.Time, m *member) {
	n := i
	for {
		wait := time.NewTimer(time.Until(due))
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
		if time.Since(due) > lateAfter {
			r.rec.Add(result.Late, 1)
		}
		started := r.once(ctx, n, m)
		if !r.plan.Command.Again || ctx.Err() != nil || m.lost.Load() {
			return
		}
		if due = time.Now(); !started {
			due = due.Add(minAgain)
		}
		n = r.number()
	}
}

// number returns the index of one more run.
func (r *runner) number() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	return r.plan.Sessions*r.plan.Processes + r.next - 1
}

// Argv returns the arguments of the command with number n.
func Argv(argv []string, n int) []string {
	all := make([]string, len(argv))
	for i, arg := range argv {
		all[i] = strings.ReplaceAll(arg, "{n}", strconv.Itoa(n))
	}
	return all
}

// once runs the command once and records how it ended. started is false if the server has not started it.
func (r *runner) once(ctx context.Context, i int, m *member) (started bool) {
	c := r.plan.Command
	f := result.Failure{N: 1 + i}
	argv := Argv(c.Argv, f.N)
	cmd := m.Command(argv[0], argv[1:]...)
	cmd.ID = "c" + strconv.Itoa(f.N)
	cmd.Dir, cmd.TTY, cmd.Timeout = c.Dir, r.plan.TTY, time.Duration(c.Timeout)
	out := &tail{rec: r.rec}
	cmd.Stdout, cmd.Stderr = out, out
	if cmd.TTY {
		cmd.Stderr = nil
	}
	if r.access.Prepare != nil {
		r.access.Prepare(m.server, cmd)
	}
	r.rec.Add(result.Operations, 1)
	begin := time.Now()
	if err := r.start(ctx, cmd); err != nil {
		if m.refused(err) {
			r.rec.Add(result.StartsRefused, 1)
		} else {
			r.lost(ctx, m)
		}
		r.rec.Error(err)
		f.Error = err.Error()
		r.failed(f, "not started")
		return false
	}
	r.rec.Add(result.Starts, 1)
	r.rec.Latency(result.Start, time.Since(begin), 0)
	r.rec.Gauge(figures.Processes, 1)
	defer r.rec.Gauge(figures.Processes, -1)
	err := cmd.Wait(ctx)
	stopped := ctx.Err() != nil && errors.Is(err, context.Cause(ctx))
	if stopped {
		err = r.stop(cmd)
	}
	f.Took = time.Since(begin)
	if _, exited := errors.AsType[*client.ExitError](err); err != nil && !exited && !stopped {
		r.lost(ctx, m)
	}
	r.end(cmd, out, f, stopped, err)
	return true
}

// start starts a command. If ctx ends meanwhile, start waits for the answer nevertheless, so it is known whether there was a command.
func (r *runner) start(ctx context.Context, cmd *client.Cmd) error {
	starting, cancel := context.WithCancel(r.hard)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(endTime, cancel) })()
	return cmd.Start(starting)
}

// stop ends a command and waits for its end. Whatever is left ends with the session.
func (r *runner) stop(cmd *client.Cmd) error {
	ctx, cancel := context.WithTimeout(r.hard, endTime)
	defer cancel()
	if err := cmd.Terminate(ctx, stopGrace); err != nil && ctx.Err() != nil {
		return err
	}
	return cmd.Wait(ctx)
}

// end records the end of a run.
func (r *runner) end(cmd *client.Cmd, out *tail, f result.Failure, stopped bool, err error) {
	status, known := cmd.Status()
	bytes, text := out.end()
	if known {
		r.rec.Add(result.Ends, 1)
		r.sample(status.Rusage, bytes)
	}
	exit, isExit := errors.AsType[*client.ExitError](err)
	switch {
	case stopped && (err == nil || isExit || r.hard.Err() != nil):
		r.rec.Add(result.Stopped, 1)
		r.count("stopped")
		return
	case err == nil:
		r.rec.Latency(result.Command, f.Took, 0)
		r.count("0")
		return
	case isExit:
		r.rec.Latency(result.Command, f.Took, 0)
		f.Code, f.Signal = exit.Status.ExitCode, exit.Status.Signal
		if exit.Status.TimedOut || exit.Status.OOMKilled || exit.Status.Reason != "" {
			f.Error = exit.Error()
		}
		f.Output = text
		r.failed(f, cmp.Or(f.Signal, strconv.Itoa(f.Code)))
		return
	}
	r.rec.Error(err)
	f.Error, f.Output = err.Error(), text
	r.failed(f, "no exit code")
}

func (r *runner) count(code string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out.Codes[code]++
}

func (r *runner) failed(f result.Failure, code string) {
	r.rec.Add(result.Failed, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out.Codes[code]++
	if len(r.out.Failures) < result.MaxFailures {
		r.out.Failures = append(r.out.Failures, f)
	}
}

// sample adds what a run has used. Of more than MaxSamples runs, each is kept with the same probability.
func (r *runner) sample(u protocol.Rusage, output int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended++
	memory, cpu := int64(u.MaxRSSBytes), time.Duration(u.UserMs+u.SystemMs)*time.Millisecond
	r.sums = r.sums || memory > 0
	if len(r.out.Output) < result.MaxSamples {
		r.out.Memory, r.out.CPU, r.out.Output = append(r.out.Memory, memory), append(r.out.CPU, cpu), append(r.out.Output, output)
	} else if at := r.rand.IntN(r.ended); at < result.MaxSamples {
		r.out.Memory[at], r.out.CPU[at], r.out.Output[at] = memory, cpu, output
	}
}

// serversPeak returns the greatest peak memory of a server that counts as the peak memory of its commands. A server on Linux starts a command
// with fork. Until execve the child uses the memory of the server, and execve adds the server's peak to the child's usage (setmax_mm_hiwater_rss in
// fs/exec.c). A server that has given memory back has the same peak. So a command that uses next to nothing shows the peak of the server. If it
// cannot run, the peak is unknown, and counts as endless.
func (r *runner) serversPeak(clients []*member) (peak int64) {
	ctx, cancel := context.WithTimeout(r.hard, endTime)
	defer cancel()
	unasked := map[string]bool{} // by server
	for _, m := range clients {
		unasked[m.server] = true
	}
	for _, m := range clients {
		if !unasked[m.server] || m.lost.Load() {
			continue
		}
		delete(unasked, m.server)
		cmd := m.Command("sh", "-c", ":")
		if r.access.Prepare != nil {
			r.access.Prepare(m.server, cmd)
		}
		if err := cmd.Run(ctx); err != nil {
			return math.MaxInt64
		}
		status, _ := cmd.Status()
		peak = max(peak, int64(status.Rusage.MaxRSSBytes))
	}
	if len(unasked) > 0 { // all sessions there are lost
		return math.MaxInt64
	}
	return peak
}

// outcome returns the outcome of all runs. The peak memory of a command is known if it is above the peak of the servers.
func (r *runner) outcome(serversPeak int64) *result.Commands {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended > 0 && !r.sums {
		r.rec.LeftOut("The server does not say what memory and CPU a command has used.")
		r.out.Memory, r.out.CPU = []int64{}, []time.Duration{}
	}
	slices.Sort(r.out.Memory)
	slices.Sort(r.out.CPU)
	all := len(r.out.Memory)
	r.out.Memory = slices.DeleteFunc(r.out.Memory, func(peak int64) bool { return peak <= serversPeak })
	if unknown := all - len(r.out.Memory); unknown > 0 {
		r.rec.Note(fmt.Sprintf("The peak memory of %d of %d commands is not known, and left out: it is not above the peak of their server, and Linux counts both as one.", unknown, all))
	}
	slices.Sort(r.out.Output)
	return &r.out
}

// A tail counts the output of a command and keeps its end.
type tail struct {
	rec *figures.Recorder

	mu    sync.Mutex
	bytes int64
	buf   []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.rec.Add(result.Output, int64(len(p)))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes += int64(len(p))
	keep := p[max(0, len(p)-keptOutput):]
	if over := len(t.buf) + len(keep) - keptOutput; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	t.buf = append(t.buf, keep...)
	return len(p), nil
}

// end returns how many bytes there were, and the last of them as text.
func (t *tail) end() (int64, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes, strings.ToValidUTF8(string(t.buf), "\uFFFD")
}
