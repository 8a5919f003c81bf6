package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/compose"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/logs"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/pick"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// printer interleaves the lines of several processes, each with the name of its process. Any goroutine may use it.
type printer struct {
	mu     sync.Mutex
	out    show.Out
	width  int
	styles map[string]show.Style
	lines  map[string]*logs.Assembler // by process
	gone   bool                       // the server cannot be reached
	broken chan struct{}              // closed when nobody reads the output any more
	once   sync.Once
}

func newPrinter(out show.Out, units []compose.Unit) *printer {
	p := &printer{out: out, width: len("troupe"), styles: make(map[string]show.Style), lines: make(map[string]*logs.Assembler), broken: make(chan struct{})}
	colours := []show.Style{"36", "33", "32", "35", "34", "96", "93", "92", "95", "94"}
	for i, u := range units {
		p.width = max(p.width, len(u.ID))
		p.styles[u.ID], p.lines[u.ID] = colours[i%len(colours)], new(logs.Assembler)
	}
	return p
}

// line prints a line of a process. mark separates the name from the text. The caller holds mu.
func (p *printer) line(id, mark, text string) {
	if _, err := fmt.Fprintf(p.out, "%s %s\n", p.out.Paint(p.styles[id], fmt.Sprintf("%-*s %s", p.width, show.Harmless(id), mark)), text); err != nil {
		p.once.Do(func() { close(p.broken) })
	}
}

// output prints the finished lines of a stream.
func (p *printer) output(id string, stream protocol.Stream, data []byte) {
	p.each(id, func(lines *logs.Assembler, yield func(logs.Line)) { lines.Add(time.Time{}, stream, data, yield) })
}

// flush prints the unfinished lines of a process.
func (p *printer) flush(id string) { p.each(id, (*logs.Assembler).Flush) }

// hole prints the lines of a process that a hole in its output cuts.
func (p *printer) hole(id string) { p.each(id, (*logs.Assembler).Hole) }

// cut prints the lines of a process whose rest is missing. Output of another process under the id may follow.
func (p *printer) cut(id string) {
	p.hole(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines[id] = new(logs.Assembler)
}

// each prints the lines that do takes from the output of a process.
func (p *printer) each(id string, do func(*logs.Assembler, func(logs.Line))) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do(p.lines[id], func(l logs.Line) {
		p.line(id, logs.Mark(l.Stream), show.HarmlessText(strings.TrimSuffix(string(l.Text), "\r")))
	})
}

// event prints news of a process, between two of its lines.
func (p *printer) event(id, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line(id, "*", p.out.Paint(show.Dim, fmt.Sprintf(format, args...)))
}

// note prints news of troupe.
func (p *printer) note(format string, args ...any) { p.event("troupe", format, args...) }

// away prints a note when the connection is lost, and a note when the connection is back.
func (p *printer) away(is bool) {
	p.mu.Lock()
	news := p.gone != is
	p.gone = is
	p.mu.Unlock()
	switch {
	case news && is:
		p.note("%s; the programs go on", show.Lost)
	case news:
		p.note("%s", show.Again)
	}
}

func (p *printer) lost(error)                   { p.away(true) }
func (p *printer) resumed()                     { p.away(false) }
func (p *printer) silent(silence time.Duration) { p.away(silence > 0) }

// lastEnd is how a process ended for good.
type lastEnd struct {
	code int
	why  string
}

// follow shows the output until all processes have ended, or a person ends them.
func (u *upper) follow(ctx context.Context, signals <-chan os.Signal) error {
	u.printer.note("the programs go on when this terminal closes; ^C stops them")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		readers  sync.WaitGroup
		mu       sync.Mutex
		statuses = make(map[string]protocol.ExitStatus) // of the last run of each process
	)
	over := make(chan struct{}) // closed when the processes have ended: readers read the rest
	for _, unit := range u.wanted {
		readers.Go(func() {
			u.read(ctx, over, unit.ID, func(st protocol.ExitStatus) {
				mu.Lock()
				defer mu.Unlock()
				statuses[unit.ID] = st
			})
		})
	}
	done := make(chan map[string]lastEnd, 1)
	go func() { done <- u.await(ctx) }()
	var sig syscall.Signal
	var ends map[string]lastEnd
	var stopped <-chan error
	for ends == nil {
		select {
		case ends = <-done:
		case <-u.printer.broken:
			return exitError{exitSignal + int(syscall.SIGPIPE), nil}
		case err := <-stopped:
			if err != nil {
				return exitError{exitSignal + int(sig), fmt.Errorf("the programs were not stopped; troupe down --project %s stops them: %w", u.project.Name, err)}
			}
			stopped = nil
			if len(u.names)+len(u.namespaces) > 0 {
				ends = map[string]lastEnd{}
			}
		case got := <-signals:
			if got == syscall.SIGPIPE {
				continue
			}
			if sig != 0 {
				u.printer.note("killing")
				return u.kill(sig)
			}
			sig = got.(syscall.Signal)
			u.printer.note("stopping; ^C again kills")
			stopped = u.stopAll(ctx)
		}
	}
	close(over)
	readers.Wait()
	mu.Lock()
	defer mu.Unlock()
	code, first := 0, ""
	for _, unit := range u.wanted {
		st, ran := statuses[unit.ID]
		switch e, failed := ends[unit.ID]; {
		case ran && st.ExitCode != 0 && code == 0:
			code, first = st.ExitCode, unit.ID+": "+(&client.ExitError{ProcessID: unit.ID, Status: st}).Error()
		case !ran && failed && e.code != 0 && code == 0:
			code, first = e.code, unit.ID+": "+e.why
		}
	}
	if sig != 0 {
		u.closeIfEmpty()
		return exitError{exitSignal + int(sig), nil}
	}
	if code != 0 {
		return exitError{code, errors.New(show.Harmless(first))}
	}
	return nil
}

// await returns when no process of the command runs or will run: each has left its group, or waits for a process that
// has left. With --abort-on-exit, the first end stops the others.
func (u *upper) await(ctx context.Context) map[string]lastEnd {
	said := make(map[string]string)
	aborted := false
	var idle time.Time // since when nothing runs; zero: something does
	for {
		g, err := groupOf(ctx, u.c)
		if ctx.Err() != nil {
			return map[string]lastEnd{}
		}
		if errors.Is(err, client.ErrSessionGone) {
			u.printer.note("the programs were ended by somebody else: %s", show.Harmless(err.Error()))
			return map[string]lastEnd{}
		}
		has, goesOn := g.Processes, g.GroupID != "" && g.State != string(supervision.GroupEnded)
		ends, live := make(map[string]lastEnd), err != nil
		for _, unit := range u.wanted {
			known := false
			for _, m := range has {
				if m.ProcessID != unit.ID {
					continue
				}
				known = true
				if !stuck(m) {
					live = true
					continue
				}
				e := lastEnd{0, whyNot(m)}
				if m.State == supervision.Waiting.String() {
					e.code = 1
				}
				ends[unit.ID] = e
				if m.State == supervision.Waiting.String() && said[unit.ID] != e.why { // of an end, the reader tells after the output
					said[unit.ID] = e.why
					u.printer.event(unit.ID, "waiting: %s", e.why)
				}
				if u.abort && !aborted && m.State == supervision.Left.String() && !u.completed(unit, m) {
					aborted = true
					u.printer.note("%s has ended: stopping the others", unit.ID)
					u.stopAll(ctx)
				}
			}
			live = live || !known && goesOn // the group has yet to report a new process
		}
		switch {
		case live:
			idle = time.Time{}
		case idle.IsZero():
			idle = time.Now()
		}
		if !live && (u.stops.Load() || !u.mayGoOn(has) || time.Since(idle) >= upReplace) {
			return ends
		}
		select {
		case <-ctx.Done():
			return ends
		case <-time.After(upLook):
		}
	}
}

// mayGoOn reports whether another process may follow a wanted one, which somebody else has ended: troupe up of a changed
// file, for example.
func (u *upper) mayGoOn(has []protocol.GroupMember) bool {
	return slices.ContainsFunc(has, func(m protocol.GroupMember) bool {
		return m.State == supervision.Left.String() && m.Reason == supervision.EndedByRequest && slices.ContainsFunc(u.wanted, func(w compose.Unit) bool { return w.ID == m.ProcessID })
	})
}

// completed reports whether a process has done the work for its dependents.
func (u *upper) completed(unit compose.Unit, m protocol.GroupMember) bool {
	return unit.Program.Ready != nil && unit.Program.Ready.Exit && m.Ready
}

// read prints the output and the events of a process until its end. After over, read prints the rest without waiting.
func (u *upper) read(ctx context.Context, over <-chan struct{}, id string, exited func(protocol.ExitStatus)) {
	at, failures := u.from[id], 0
	for ctx.Err() == nil {
		last := false
		select {
		case <-over:
			last = true
		default:
		}
		o := client.ReadOptions{After: at.after, MaxBytes: 64 << 10, Detail: protocol.ReadTimes}
		if !last {
			o.Wait = time.Second
		}
		r, err := u.c.Process(id).Of(at.instance).Read(ctx, &o)
		if gone := errors.Is(err, client.ErrProcessGone) && at.instance != ""; gone || errors.Is(err, client.ErrSessionGone) {
			u.cut(id, at)
			if !gone {
				return
			}
			at = position{} // another process has the id: somebody applied another file
			continue
		}
		if err != nil {
			if failures++; last || errors.Is(err, client.ErrClosed) {
				return
			}
			sleep(ctx, upLook) // the process is being replaced, or was forgotten
			continue
		}
		if r.FirstSeq > at.after+1 {
			u.printer.hole(id)
			fmt.Fprintf(os.Stderr, "troupe up: %s: output %d to %d is missing here: the server no longer holds it\n", show.Harmless(id), at.after+1, r.FirstSeq-1)
		}
		u.show(id, r, exited)
		idle := len(r.Chunks)+len(r.Events) == 0
		at.instance, at.closed = r.Instance, at.closed && idle || slices.ContainsFunc(r.Events, func(e protocol.ReadEvent) bool { return e.Kind == protocol.EventClosed })
		if r.NextSeq > 0 {
			at.after = r.NextSeq - 1
		}
		if idle {
			if last {
				u.printer.flush(id)
				return
			}
			if at.closed {
				sleep(ctx, upLook) // a read of a closed process does not wait
			}
		}
	}
}

// cut ends the output of a process that the server has forgotten.
func (u *upper) cut(id string, at position) {
	if at.closed {
		u.printer.flush(id)
		return
	}
	u.printer.cut(id)
	fmt.Fprintf(os.Stderr, "troupe up: %s: output after %d may be missing here: another command has replaced or ended the process\n", show.Harmless(id), at.after)
}

// show prints chunks and events in the order of their seqs.
func (u *upper) show(id string, r protocol.ProcessReadResult, exited func(protocol.ExitStatus)) {
	events := r.Events
	upTo := func(seq uint64) {
		for len(events) > 0 && events[0].Seq < seq {
			switch e := events[0]; e.Kind {
			case protocol.EventReady:
				u.printer.event(id, "ready")
			case protocol.EventRestarted:
				u.printer.flush(id) // no line has parts of two runs
				u.printer.event(id, "restarted, run %d: %s", e.Run, show.Harmless(e.Reason))
			case protocol.EventEvicted:
				u.printer.event(id, "given up: %s", show.Harmless(e.Reason))
			case protocol.EventExited:
				if e.Status != nil {
					exited(*e.Status)
					u.printer.flush(id)
					u.printer.event(id, "%s", show.Harmless(endedText(id, *e.Status)))
				}
			}
			events = events[1:]
		}
	}
	for _, c := range r.Chunks {
		upTo(c.Seq)
		u.printer.output(id, c.Stream, c.Chunk)
	}
	upTo(1 << 63)
	if r.Failure != nil {
		u.printer.event(id, "%s", show.Harmless(*r.Failure))
	}
}

// endedText says how a run ended, or that there was none.
func endedText(id string, s protocol.ExitStatus) string {
	if why, never := strings.CutPrefix(s.Reason, "never run: "); never {
		return "never started: " + why
	}
	return "ended: " + (&client.ExitError{ProcessID: id, Status: s}).Error()
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// stopAll ends the processes of this command, the last started first. All are ended by their group; a part, one after
// the other.
func (u *upper) stopAll(ctx context.Context) <-chan error {
	u.stops.Store(true)
	stopped := make(chan error, 1)
	go func() {
		if len(u.names)+len(u.namespaces) == 0 {
			stopped <- u.c.StopGroup(ctx, upGroup)
			return
		}
		var steps []compose.Step
		for _, unit := range u.wanted {
			steps = append(steps, compose.Step{Action: compose.Restart, ID: unit.ID, Unit: unit})
		}
		stopped <- u.stopSteps(ctx, steps)
	}()
	return stopped
}

// kill ends the processes of this command at once.
func (u *upper) kill(sig syscall.Signal) error {
	ctx, cancel := context.WithTimeout(context.Background(), upKill)
	defer cancel()
	var wait sync.WaitGroup
	errs := make([]error, len(u.wanted))
	for i, unit := range u.wanted {
		wait.Go(func() {
			if _, err := u.c.Process(unit.ID).Kill(ctx); err != nil && !errors.Is(err, client.ErrProcessGone) && !errors.Is(err, client.ErrSessionGone) {
				errs[i] = err
			}
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return exitError{exitSignal + int(sig), fmt.Errorf("programs may go on; troupe down --project %s ends them: %w", u.project.Name, err)}
	}
	u.closeIfEmpty()
	return exitError{exitSignal + int(sig), nil}
}

// closeIfEmpty ends the session if all its programs have ended.
func (u *upper) closeIfEmpty() {
	ctx, cancel := context.WithTimeout(context.Background(), upKill)
	defer cancel()
	list, err := u.c.Processes(ctx)
	if err != nil {
		return
	}
	for _, p := range list {
		if !pick.ProgramEnded(&p) {
			return
		}
	}
	_ = u.c.CloseSession(ctx) // the programs have ended: an open session does no harm
}
