package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
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
	logs.Printer
	to      io.Writer
	sources map[string]int // by process; the last is troupe
	broken  chan struct{}  // closed when nobody reads the output any more
	once    sync.Once

	mu   sync.Mutex
	gone bool // the server cannot be reached
}

func newPrinter(out show.Out, units []compose.Unit) *printer {
	p := &printer{to: out.Writer, sources: make(map[string]int), broken: make(chan struct{})}
	out.Writer = p
	p.Printer = logs.Printer{Out: out, Notes: os.Stderr, News: true}
	for i, u := range units {
		p.sources[u.ID] = i
		p.Names = append(p.Names, u.ID)
	}
	p.Names = append(p.Names, "troupe")
	return p
}

// Write writes to stdout.
func (p *printer) Write(b []byte) (int, error) {
	n, err := p.to.Write(b)
	if err != nil {
		p.once.Do(func() { close(p.broken) })
	}
	return n, err
}

// say prints news between two lines.
func (p *printer) say(source int, text string) {
	_ = p.Print(source, logs.Line{Text: []byte(text)}) // Write tells of errors
	_ = p.Flush()
}

// event prints news of a process; of a process that this command does not show, news of troupe.
func (p *printer) event(id, format string, args ...any) {
	source, shown := p.sources[id]
	if !shown {
		format, args = "%s: "+format, append([]any{id}, args...)
		source = len(p.sources)
	}
	p.say(source, fmt.Sprintf(format, args...))
}

// note prints news of troupe.
func (p *printer) note(format string, args ...any) {
	p.say(len(p.sources), fmt.Sprintf(format, args...))
}

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
	over := make(chan struct{}) // closed when the processes have ended: readers show the rest
	lives := make(map[string]chan struct{})
	for _, unit := range u.wanted {
		id, live := unit.ID, make(chan struct{}, 1)
		lives[id] = live
		v := &unitView{View: logs.View{Printer: &u.printer.Printer, Source: u.printer.sources[id]}, news: u.news, exited: func(st protocol.ExitStatus) {
			mu.Lock()
			defer mu.Unlock()
			statuses[id] = st
		}}
		readers.Go(func() { u.view(ctx, over, live, id, v) })
	}
	done := make(chan map[string]lastEnd, 1)
	go func() { done <- u.await(ctx, lives) }()
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
				return exitError{exitSignal + int(sig), fmt.Errorf("could not stop the programs: %w; stop them with troupe down --project %s", err, u.project.Name)}
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
func (u *upper) await(ctx context.Context, lives map[string]chan struct{}) map[string]lastEnd {
	said := make(map[string]string)
	aborted := false
	var idle time.Time // since when nothing runs; zero: something does
	var before []protocol.GroupMember
	pause := upLook
	for {
		g, err := groupOf(ctx, u.c)
		if ctx.Err() != nil {
			return map[string]lastEnd{}
		}
		if errors.Is(err, client.ErrSessionGone) {
			u.printer.note("the session has ended with its programs: %s", show.Harmless(err.Error()))
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
					signalTo(lives[unit.ID])
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
		if pause = min(2*pause, upIdle); !idle.IsZero() || !slices.Equal(has, before) {
			pause = upLook
		}
		before = has
		select {
		case <-ctx.Done():
			return ends
		case <-u.news:
			sleep(ctx, upNews)
		case <-time.After(pause):
		}
	}
}

// signalTo sends a signal to a channel of capacity 1.
func signalTo(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
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

// A unitView is the View of a process.
type unitView struct {
	logs.View
	news   chan<- struct{}
	exited func(protocol.ExitStatus)
}

// News shows an event, and has await look at the group.
func (v *unitView) News(e protocol.ReadEvent) {
	if e.Status != nil {
		v.exited(*e.Status)
	}
	v.View.News(e)
	signalTo(v.news)
}

// view shows a process, and others that get its id. A signal of live says that a process with the id runs. After over, view
// shows the rest of what is there.
func (u *upper) view(ctx context.Context, over, live <-chan struct{}, id string, v *unitView) {
	for at := u.from[id]; ; {
		err := u.showFrom(ctx, over, id, &at, v)
		gone := errors.Is(err, client.ErrProcessGone)
		if lost := gone || errors.Is(err, client.ErrSessionGone); lost && at.instance != "" && !at.closed {
			u.printer.Tell(v.Source, fmt.Sprintf("output after %d may be missing here: another command has replaced or ended the process", at.after))
		}
		if gone && at.instance != "" {
			at = position{} // somebody applied another file
			continue
		}
		if err != nil && !gone {
			return
		}
		signalTo(u.news)
		select {
		case <-ctx.Done():
			return
		case <-over:
			return
		case <-live:
			sleep(ctx, upNews)
		}
	}
}

// showFrom shows a process from at until the process closes, and moves at. After over, showFrom shows what is there.
func (u *upper) showFrom(ctx context.Context, over <-chan struct{}, id string, at *position, v *unitView) error {
	if at.instance == "" {
		info, err := u.watch.Process(id).Info(ctx)
		if err != nil {
			return err
		}
		at.instance = info.Instance
	}
	p := u.watch.Process(id).Of(at.instance)
	cmd, err := logs.Attach(ctx, p, at.after, true, v)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- logs.Wait(ctx, cmd, v) }()
	select {
	case err = <-ended:
	case <-over:
		err = u.showRest(ctx, p, cmd, ended)
	}
	v.Flush()
	at.closed = err == nil || at.closed && cmd.Seq() == at.after
	at.after = cmd.Seq()
	return err
}

// showRest waits until all entries that p has now were shown.
func (u *upper) showRest(ctx context.Context, p *client.Process, cmd *client.Cmd, ended <-chan error) error {
	info, err := p.Info(ctx)
	if err != nil { // the session has ended meanwhile: cmd knows whether the process had closed
		return <-ended
	}
	for cmd.Seq()+1 < info.NextSeq {
		select {
		case err := <-ended:
			return err
		case <-time.After(upNews):
		}
	}
	return nil
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
		return exitError{exitSignal + int(sig), fmt.Errorf("could not kill all programs: %w; end them with troupe down --project %s", err, u.project.Name)}
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
