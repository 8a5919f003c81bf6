package child

import (
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
)

// A child that runs already cannot be refused. When the system has no room for its pidfd, or
// for the pidfd in the epoll set, its exit is told and its tree is killed all the same.
func TestExitIsPolled(t *testing.T) {
	for name, lose := range map[string]func(h *Host){
		"before the start": func(h *Host) { h.exits.set.Close() },
		"after the start":  func(*Host) {},
	} {
		for _, mode := range []Containment{ContainCgroup, ContainMarker, ContainGroup} {
			t.Run(name+" "+string(mode), func(t *testing.T) {
				h := newHost(t, HostConfig{Containment: mode})
				lose(h)
				w := start(t, h, piped(script("(setsid sh -c 'echo there; exec sleep 1000' &); read line; exit 3")))
				w.untilOutput(protocol.Stdout, "there\n")
				if name == "after the start" {
					h.exits.set.Close()
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
