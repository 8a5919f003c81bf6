//go:build unix

package profile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A watcher is an observer of a session that checks one process.
type watcher struct {
	*process
	checker *oracle.Checker // of the watcher's own events
	checked int64           // owned by the reading goroutine of the observer's connection
	closed  chan struct{}   // closed when the observer has seen the end of the process
	ended   <-chan struct{} // closed at the end of the connection
	stop    func()
}

// watch opens the observers of a process before the process begins. If an observer cannot be opened, the error is recorded.
func (p *process) watch(ctx context.Context) {
	spec := p.spec
	spec.Observer = true
	for i := range p.observers {
		w := &watcher{process: p, closed: make(chan struct{})}
		o := oracle.Options{Began: p.Began, Cuts: p.Session.Cuts, Line: p.line, Ended: p.ended, Found: func(f oracle.Finding) {
			f.Detail = fmt.Sprintf("observer %d: %s", i+1, f.Detail)
			p.Rec.Found(f)
		}}
		var err error
		if w.checker, err = oracle.New(spec, o); err == nil {
			w.stop, w.ended, err = p.Session.Observe(ctx, w.event)
		}
		if err != nil {
			if !errors.Is(err, ErrLost) && !over(ctx) {
				p.Rec.Error(err)
			}
			if _, refused := errors.AsType[*protocol.Error](err); refused {
				p.Rec.Problem("The server refused an observer, and nobody checked what the observer would have got: see the errors.")
			}
			continue
		}
		p.watchers = append(p.watchers, w)
	}
}

// over reports whether ctx has ended. A dialer notices the deadline of a phase a moment before ctx does.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// event takes an event of the session, on the reading goroutine of the observer's connection.
func (w *watcher) event(process string, e *oracle.Event, at time.Time) {
	if process != w.Name {
		return
	}
	w.starve(e)
	if !w.starved.Load() {
		w.checker.Event(e, at)
	}
	checked := w.checker.State().Checked
	w.Rec.Add(result.Events, 1)
	w.Rec.Add(result.CheckedBytes, checked-w.checked)
	w.checked = checked
	if e.Kind == "closed" {
		select {
		case <-w.closed:
		default:
			close(w.closed)
		}
	}
}

// awaitWatchers waits until all observers have seen the end of the process; the owner has seen the end already. An observer whose connection
// lives must see the end: otherwise there is a finding.
func (p *process) awaitWatchers() {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	late, cancel := context.WithTimeout(p.calls, viewersFor)
	defer cancel()
	for i := 0; i < len(p.watchers); {
		w := p.watchers[i]
		select {
		case <-w.closed:
			i++
		case <-w.ended:
			i++
		case <-look.C:
			if p.lost() {
				return
			}
		case <-late.Done():
			for _, w := range p.watchers[i:] {
				w.giveUp()
			}
			return
		}
	}
}

// giveUp ends the check of an observer that has not seen the end of the process in time.
func (w *watcher) giveUp() {
	select {
	case <-w.closed:
	case <-w.ended:
	default:
		w.checker.End(time.Now())
	}
}

// end ends the observer. An observer that has lost its connection, or whose session is lost, need not have seen the end of the process.
func (w *watcher) end() {
	w.stop()
	select {
	case <-w.closed:
		w.checker.End(time.Now())
	default:
		w.checker.Abandon(time.Now())
	}
}
