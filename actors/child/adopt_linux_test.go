package child

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// leave starts a child on h, and keeps nothing of it but its plain data, as if its server had gone.
func leave(t *testing.T, h *Host, spec Spec) (b Born) {
	t.Helper()
	failed := make(chan error)
	h.enter(&spec, func(ctx context.Context, turn *turn, after time.Duration, answer func(func())) {
		h.start(ctx, turn, after, &spec, newWatched(t, 1<<20).in, func(born Born, _ *trees.Tree, err error) {
			b = born
			answer(func() { failed <- err })
		})
	}, func(err error) { failed <- err })
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	return b
}

// adopt has h take b over.
func adopt(t *testing.T, h *Host, b Born) *watched {
	t.Helper()
	w := newWatched(t, 1<<20)
	if h.found[b.Name] == nil { // the host has no holder that knows b
		h.found[b.Name] = &found{b, h.trees.Adopt(b.Trace, b.PID)}
	}
	w.Handle = h.Adopt(b.Name, w.in, nil)
	go w.take()
	return w
}

// TestAdopt: a host that has only the plain data of a child goes on with its streams, tells how the child ends, and kills
// what the child has left behind.
func TestAdopt(t *testing.T) {
	const text = `echo before; echo wrong >&2; setsid sleep 1000 >/dev/null 2>&1 & read line; echo "got $line"; exit 3`
	for _, mode := range []Containment{ContainCgroup, ContainMarker, ContainGroup} {
		for name, spec := range map[string]func() Spec{
			"pipes":    func() Spec { return piped(script(text)) },
			"terminal": func() Spec { return tty(script("stty -echo -onlcr; " + text)) },
			"jail":     func() Spec { return inJail(piped(script(text))) },
		} {
			t.Run(string(mode)+" "+name, func(t *testing.T) {
				if name == "jail" {
					needs.Namespaces(t, os.Getuid())
				}
				h := newHost(t, HostConfig{Containment: mode})
				w := adopt(t, h, leave(t, h, spec()))
				if n, err := w.Write([]byte("it\n")); n != 3 || err != nil {
					t.Errorf("stdin takes %d bytes, %v", n, err)
				}
				w.until(w.has(FactExited))
				out := string(w.out[protocol.Stdout]) + string(w.out[protocol.PTY])
				for _, want := range []string{"before\n", "got it\n"} {
					if !strings.Contains(out, want) {
						t.Errorf("the output is %q, without %q", out, want)
					}
				}
				if w.status.ExitCode != 3 || w.status.Rusage.MaxRSSBytes == 0 {
					t.Errorf("the status is %+v, want exit code 3", w.status)
				}
				if name != "jail" && w.TreeEmpty() {
					t.Error("a descendant is not seen")
				}
				if err := w.killTree(); err != nil {
					t.Error(err)
				}
				if err := w.release(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestAdoptAfterTheEnd: a child that ends while nobody waits for it keeps its status and its output until it is adopted.
func TestAdoptAfterTheEnd(t *testing.T) {
	h := newHost(t, HostConfig{})
	b := leave(t, h, script("echo last; exit 4"))
	untilExited(b.PID)
	w := adopt(t, h, b)
	w.untilClosed()
	wantOrder(t, w)
	if out := string(w.out[protocol.Stdout]); out != "last\n" || w.status.ExitCode != 4 {
		t.Errorf("%q, %+v", out, w.status)
	}
}
