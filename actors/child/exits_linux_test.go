package child

import (
	"context"
	"log/slog"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
)

// If the system has no room for the pidfd of a running child, or no room for the pidfd in the epoll
// set, the exit is still reported and the tree can still be killed.
func TestExitIsPolled(t *testing.T) {
	for name, lose := range map[string]func(h *Host){
		"before the start": func(h *Host) { h.exits.set.Close() },
		"after the start":  func(*Host) {},
	} {
		for _, mode := range []Containment{ContainCgroup, ContainMarker, ContainGroup} {
			t.Run(name+" "+string(mode), func(t *testing.T) {
				h := newHost(t, HostConfig{Containment: mode})
				lose(h)
				w := start(t, h, piped(script("read line; (setsid sh -c 'echo there; exec sleep 1000' &); read line; exit 3")))
				w.Write([]byte("\n")) // the script waits for this line, so the start is over and the child has its tag
				w.untilOutput(protocol.Stdout, "there\n")
				if name == "after the start" {
					closeExits(h)
					h.exits.watch(w.Handle.(*process))
				}
				w.Write([]byte("\n"))
				w.until(w.has(FactExited))
				if err := w.killTree(); err != nil {
					t.Error(err)
				}
				if err := w.release(); err != nil {
					t.Error(err)
				}
				if w.status.ExitCode != 3 {
					t.Errorf("the child ended with %+v, want exit code 3", w.status)
				}
			})
		}
	}
}

// closeExits closes the epoll set when no start is under way: a start watches its child, too, and holds the lock of the child meanwhile.
func closeExits(h *Host) {
	h.starts.Wait()
	h.exits.set.Close()
}

// The warning about polling is logged without the lock of the process. A slow log handler thus
// delays no call to the process.
func TestExitIsPolledWithoutLock(t *testing.T) {
	asked := make(chan bool, 10)
	var w *watched
	h := newHost(t, HostConfig{Log: slog.New(handlerFunc(func(slog.Record) {
		if w == nil {
			return
		}
		p := w.Handle.(*process)
		free := p.mu.TryLock()
		if free {
			p.mu.Unlock()
		}
		asked <- free
	}))})
	w = start(t, h, script("exec sleep 1000"))
	closeExits(h)
	h.exits.watch(w.Handle.(*process))
	if !<-asked {
		t.Error("the process is locked while a line is logged")
	}
	if err := w.killTree(); err != nil {
		t.Error(err)
	}
}

type handlerFunc func(slog.Record)

func (handlerFunc) Enabled(context.Context, slog.Level) bool { return true }
func (f handlerFunc) Handle(_ context.Context, r slog.Record) error {
	f(r)
	return nil
}
func (f handlerFunc) WithAttrs([]slog.Attr) slog.Handler { return f }
func (f handlerFunc) WithGroup(string) slog.Handler      { return f }
