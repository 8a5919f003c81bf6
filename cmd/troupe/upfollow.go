package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
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

// newPrinter interleaves the lines of the processes, each with the name of its process, and news of troupe.
func newPrinter(out show.Out, units []compose.Unit) *logs.Printer {
	p := &logs.Printer{Out: out, Notes: os.Stderr, News: true}
	for _, u := range units {
		p.Names = append(p.Names, u.ID)
	}
	p.Names = append(p.Names, ofTroupe)
	return p
}

// ofTroupe is the name before news of troupe.
const ofTroupe = "troupe"

// event prints news of a process; of a process that this command does not show, news of troupe.
func (u *upper) event(id, format string, args ...any) {
	text, source := fmt.Sprintf(format, args...), slices.Index(u.printer.Names, id)
	if source < 0 {
		text, source = id+": "+text, len(u.printer.Names)-1
	}
	u.printer.Say(source, text)
}

// note prints news of troupe.
func (u *upper) note(format string, args ...any) { u.event(ofTroupe, format, args...) }

// silent takes for how long the server has not answered. If silent gets no 0 before shortCut has passed, a note says that the connection is lost, and
// another one that it is back.
func (u *upper) silent(d time.Duration) {
	u.link.Lock()
	defer u.link.Unlock()
	switch {
	case d > 0 && u.link.lost == nil:
		u.link.lost = time.AfterFunc(max(0, shortCut-d), func() {
			u.link.Lock()
			defer u.link.Unlock()
			if u.link.told = u.link.lost != nil; u.link.told {
				u.note("%s; the programs go on", show.Lost)
			}
		})
	case d == 0 && u.link.lost != nil:
		u.link.lost.Stop()
		if u.link.lost = nil; u.link.told {
			u.note("%s", show.Again)
		}
		u.link.told = false
	}
}

// follow shows the output until all processes have ended, or a person ends them.
func (u *upper) follow(ctx context.Context, signals <-chan os.Signal) error {
	u.note("the programs go on when this terminal closes; ^C stops them")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var readers sync.WaitGroup
	over := make(chan struct{}) // closed when the processes have ended: readers show the rest
	var views []*unitView
	for i, unit := range u.wanted {
		v := &unitView{View: logs.NewView(u.printer, i), Unit: unit, news: u.news, live: make(chan struct{}, 1)}
		views = append(views, v)
		readers.Go(func() { u.view(ctx, over, v) })
	}
	done := make(chan []error, 1)
	go func() { done <- u.await(ctx, views) }()
	var (
		sig     syscall.Signal
		stopped <-chan error
		vain    []error // why a process waits in vain, by the index of wanted; nil: not known
	)
	for running := true; running; {
		select {
		case vain = <-done:
			running = false
		case <-stdout.broken:
			return exitError{exitSignal + int(syscall.SIGPIPE), nil}
		case err := <-stopped:
			if err != nil {
				return exitError{exitSignal + int(sig), fmt.Errorf("could not stop the programs: %w; stop them with troupe down --project %s", err, u.project.Name)}
			}
			stopped, running = nil, !u.partly()
		case got := <-signals:
			switch {
			case got == syscall.SIGPIPE:
			case sig != 0:
				u.note("killing")
				return u.kill(sig)
			default:
				sig = got.(syscall.Signal)
				u.note("stopping; ^C again kills")
				stopped = u.stopAll(ctx)
			}
		}
	}
	close(over)
	readers.Wait()
	if sig != 0 {
		u.closeIfEmpty()
		return exitError{exitSignal + int(sig), nil}
	}
	for i, v := range views {
		if u.aborts != nil && u.aborts != v {
			continue // stopped because of that end
		}
		if st := v.status.Load(); st != nil && st.ExitCode != 0 {
			return exitError{st.ExitCode, errors.New(show.Harmless(v.ID + ": " + (&client.ExitError{ProcessID: v.ID, Status: *st}).Error()))}
		} else if st == nil && vain != nil && vain[i] != nil {
			return fmt.Errorf("%s: %w", show.Harmless(v.ID), vain[i])
		}
	}
	return nil
}

// partly reports whether the command is about a part of the project.
func (u *upper) partly() bool { return len(u.names)+len(u.namespaces) > 0 }

// await returns when no process of the command runs or will run: each has left its group, or waits for a process that has left, which is
// its error. Nil: the session has ended. With --abort-on-exit, the first end stops the others.
func (u *upper) await(ctx context.Context, views []*unitView) []error {
	var idle time.Time // since when nothing runs; zero: something does
	var before []protocol.GroupMember
	pause := upLook
	told := make([]string, len(views)) // for what each was said to wait
	for {
		g, err := groupOf(ctx, u.c)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, client.ErrSessionGone) {
			u.note("the session has ended with its programs: %s", show.Harmless(err.Error()))
			return nil
		}
		live := err != nil
		waits := make([]error, len(views))
		for i, v := range views {
			m := member(g.Processes, v.ID)
			switch {
			case m == nil: // the group may have yet to report a new process
				live = live || g.GroupID != "" && g.State != string(supervision.GroupEnded)
			case !stuck(m):
				live = true
				poke(v.live)
			case m.State == supervision.Waiting.String():
				waits[i] = errors.New(whyNot(m))
				if told[i] != whyNot(m) {
					told[i] = whyNot(m)
					u.event(v.ID, "waiting: %s", told[i])
				}
			case u.abort && u.aborts == nil && !(v.Program.Ready != nil && v.Program.Ready.Exit && m.Ready): // it has not only done the work for its dependents
				u.aborts = v
				u.note("%s has ended: stopping the others", v.ID)
				u.stopAll(ctx)
			}
		}
		switch {
		case live:
			idle = time.Time{}
		case idle.IsZero():
			idle = time.Now()
		}
		if !live && (u.stops.Load() || !u.mayGoOn(g.Processes) || time.Since(idle) >= upReplace) {
			return waits
		}
		if pause = min(2*pause, upIdle); !idle.IsZero() || !slices.Equal(g.Processes, before) {
			pause = upLook
		}
		before = g.Processes
		select {
		case <-ctx.Done():
		case <-u.news:
			sleep(ctx, upNews)
		case <-time.After(pause):
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

// A unitView is the View of a process.
type unitView struct {
	*logs.View
	compose.Unit
	news   chan<- struct{}
	live   chan struct{}                       // gets pokes while a process with the id runs
	status atomic.Pointer[protocol.ExitStatus] // of the last run; nil: none has ended
}

// News shows an event, and has await look at the group.
func (v *unitView) News(e protocol.ReadEvent) {
	if e.Status != nil {
		v.status.Store(e.Status)
	}
	v.View.News(e)
	poke(v.news)
}

// view shows a process, and others that get its id. After over, view shows the rest of what is there.
func (u *upper) view(ctx context.Context, over <-chan struct{}, v *unitView) {
	for at := u.from[v.ID]; ; {
		err := u.showFrom(ctx, over, v, &at)
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
		poke(u.news)
		select {
		case <-ctx.Done():
			return
		case <-over:
			return
		case <-v.live:
			sleep(ctx, upNews)
		}
	}
}

// showFrom shows a process from at until the process closes, and moves at. After over, showFrom shows what is there.
func (u *upper) showFrom(ctx context.Context, over <-chan struct{}, v *unitView, at *position) error {
	if at.instance == "" {
		info, err := u.watch.Process(v.ID).Info(ctx)
		if err != nil {
			return err
		}
		at.instance = info.Instance
	}
	p := u.watch.Process(v.ID).Of(at.instance)
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
		if !u.partly() {
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
