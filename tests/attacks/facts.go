package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/tests/internal/system"
)

// facts are the resources used by a server.
type facts struct {
	RSS        int64 // bytes
	Files      int64
	Threads    int64
	Goroutines int64 // -1: unknown, because server/info does not say
	Heap       int64 // bytes
	Held       int64 // bytes of output

	Connections, Sessions, Children int64
	Cgroups                         int64
}

// serverInfo is the server's own report.
type serverInfo struct {
	Connections, Sessions, Children, HeldBytes int64
	Goroutines                                 *int64
	HeapBytes                                  int64
	Panics, ActorRestarts, ActorsGivenUp       int64
	Containment                                string
}

// most keeps the greater value of each fact.
func (f *facts) most(g facts) {
	f.RSS = max(f.RSS, g.RSS)
	f.Files = max(f.Files, g.Files)
	f.Threads = max(f.Threads, g.Threads)
	f.Goroutines = max(f.Goroutines, g.Goroutines)
	f.Heap = max(f.Heap, g.Heap)
	f.Held = max(f.Held, g.Held)
	f.Connections = max(f.Connections, g.Connections)
	f.Sessions = max(f.Sessions, g.Sessions)
	f.Children = max(f.Children, g.Children)
	f.Cgroups = max(f.Cgroups, g.Cgroups)
}

// The verdict about a server comes from the kernel, from server/info and from the well-behaved client, never from a look into the
// server: each known fault had passed the tests of its package, and the failing part was never the attacked part.

// slack is how much more a server may use after an attack than before.
var slack = facts{
	RSS:        64 << 20, // the runtime keeps some free memory, and caches fill
	Files:      2,        // connections of the well-behaved client that are just ending
	Threads:    128,      // the runtime keeps the threads of blocking system calls: file calls have 96
	Goroutines: 24,       // 16 idle workers of actors/internal/env; the well-behaved client has a few of its own
	Held:       4 << 20,  // the well-behaved client's stream flows on
}

// leftovers returns an error for each resource above before plus slack; nil: none.
func (f facts) leftovers(before facts) error {
	var left []error
	for _, l := range []struct {
		what            string
		now, was, slack int64
		unit            string
		per             int64
	}{
		{"memory", f.RSS, before.RSS, slack.RSS, " MiB", 1 << 20},
		{"descriptors", f.Files, before.Files, slack.Files, "", 1},
		{"threads", f.Threads, before.Threads, slack.Threads, "", 1},
		{"goroutines", f.Goroutines, before.Goroutines, slack.Goroutines, "", 1},
		{"held output", f.Held, before.Held, slack.Held, " MiB", 1 << 20},
		{"connections", f.Connections, before.Connections, 0, "", 1},
		{"sessions", f.Sessions, before.Sessions, 0, "", 1},
		{"children", f.Children, before.Children, 0, "", 1},
		{"cgroups", f.Cgroups, before.Cgroups, 0, "", 1},
	} {
		if l.now > l.was+l.slack {
			left = append(left, fmt.Errorf("left: %s %d%s, before %d%s", l.what, l.now/l.per, l.unit, l.was/l.per, l.unit))
		}
	}
	return errors.Join(left...)
}

// A monitor asks a server for server/info on a separate connection. If the connection is lost, the
// monitor opens another.
type monitor struct {
	t       *target
	asking  sync.Mutex
	control *peer

	mu     sync.Mutex
	latest serverInfo // the last answer
	peak   facts
}

// ask sends server/info and returns the answer.
func (m *monitor) ask(ctx context.Context) (info serverInfo, err error) {
	m.asking.Lock()
	defer m.asking.Unlock()
	if m.control != nil && m.control.ended() != nil {
		m.control = nil
	}
	if m.control == nil {
		if m.control, err = m.t.open(ctx, obj{"session": obj{"detachedTtlMs": 1000}}, nil); err != nil {
			m.control = nil
			return info, err
		}
	}
	if err = m.control.call(ctx, "server/info", obj{}, &info); err == nil {
		m.mu.Lock()
		m.latest = info
		m.mu.Unlock()
	}
	return info, err
}

// outside returns the facts known to the kernel.
func (m *monitor) outside() (f facts, err error) {
	pid := m.t.server.pid()
	if f.RSS, err = rssOf(pid); err != nil {
		return f, err
	}
	if f.Threads, err = system.Number(pid, "status", "Threads"); err != nil {
		return f, err
	}
	files, err := system.Files(pid)
	f.Files = int64(files)
	f.Goroutines = -1
	return f, err
}

// sample returns the server's facts now.
func (m *monitor) sample(ctx context.Context) (facts, error) {
	info, err := m.ask(ctx)
	if err != nil {
		return facts{}, err
	}
	f, err := m.outside()
	if err != nil {
		return f, err
	}
	if info.Goroutines != nil {
		f.Goroutines = *info.Goroutines
	}
	f.Heap, f.Held = info.HeapBytes, info.HeldBytes
	f.Connections, f.Sessions, f.Children = info.Connections, info.Sessions, info.Children
	dirs, err := system.Cgroups(m.t.server.holder())
	f.Cgroups = int64(len(dirs))
	m.mu.Lock()
	m.peak.most(f)
	m.mu.Unlock()
	return f, err
}

// watch takes samples until ctx is done: of the kernel's facts often, and of the server's facts as
// often as the server answers.
func (m *monitor) watch(ctx context.Context) {
	var watchers sync.WaitGroup
	every := func(d time.Duration, look func()) {
		watchers.Go(func() {
			tick := time.NewTicker(d)
			defer tick.Stop()
			for m.t.server.alive() {
				select {
				case <-tick.C:
					look()
				case <-ctx.Done():
					return
				}
			}
		})
	}
	every(20*time.Millisecond, func() {
		if f, err := m.outside(); err == nil {
			m.mu.Lock()
			m.peak.most(f)
			m.mu.Unlock()
		}
	})
	every(250*time.Millisecond, func() { m.sample(ctx) })
	watchers.Wait()
}

// settled returns a sample once the facts stay the same for a while, or the last sample after 10 s.
func (m *monitor) settled(ctx context.Context) (last facts, err error) {
	for quiet, n := 0, 0; ; n++ {
		now, err := m.sample(ctx)
		if err != nil {
			return now, err
		}
		quiet++
		if now.Goroutines != last.Goroutines || now.Files != last.Files || now.Sessions != last.Sessions || now.Connections != last.Connections {
			quiet = 0
		}
		last = now
		if quiet == 5 || n == 200 {
			return last, nil
		}
		select {
		case <-ctx.Done():
			return last, context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// rssOf returns the resident memory of a process in bytes.
func rssOf(pid int) (int64, error) {
	n, err := system.Number(pid, "status", "VmRSS")
	return n * 1024, err
}
