package trees

import (
	"context"
	"log/slog"
	"testing"
)

// If the system has no room for the pidfd of a running child, or no room for the pidfd in the epoll
// set, the exit is still reported and the tree can still be killed.
func TestExitIsPolled(t *testing.T) {
	for name, lose := range map[string]func(h *Trees){
		"before the start": func(h *Trees) { h.exits.set.Close() },
		"after the start":  func(*Trees) {},
	} {
		for _, mode := range []Containment{ContainCgroup, ContainMarker, ContainGroup} {
			t.Run(name+" "+string(mode), func(t *testing.T) {
				h := newTrees(t, Config{Containment: mode})
				lose(h)
				w := start(t, h, "read line; (setsid sh -c 'echo there; exec sleep 1000' &); read line; exit 3")
				w.stdin.WriteString("\n") // the script waits for this line, so the start is over and the child has its tag
				w.out.ReadString('\n')
				if name == "after the start" {
					h.exits.set.Close()
					h.exits.watch(w.Tree, w.seen)
				}
				w.stdin.WriteString("\n")
				w.untilExited()
				if err := w.Kill(); err != nil {
					t.Error(err)
				}
				if err := w.release(); err != nil {
					t.Error(err)
				}
				if w.Status().ExitCode != 3 {
					t.Errorf("the child ended with %+v, want exit code 3", w.Status())
				}
			})
		}
	}
}

// The warning about polling is logged without the lock of the process. A slow log handler thus
// delays no call to the process.
func TestExitIsPolledWithoutLock(t *testing.T) {
	asked := make(chan bool, 10)
	var w *watched
	h := newTrees(t, Config{Log: slog.New(handlerFunc(func(slog.Record) {
		if w == nil {
			return
		}
		free := w.mu.TryLock()
		if free {
			w.mu.Unlock()
		}
		asked <- free
	}))})
	w = start(t, h, "exec sleep 1000")
	h.exits.set.Close()
	h.exits.watch(w.Tree, w.seen)
	if !<-asked {
		t.Error("the process is locked while a line is logged")
	}
	if err := w.Kill(); err != nil {
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
