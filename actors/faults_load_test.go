package actors_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/protocol"
)

// vandal panics at random messages of random actors while it is armed, about 20 times
// a second. Process actors may fail so often that they are given up; of the others it
// spares those that would be.
type vandal struct {
	armed atomic.Bool
	fired atomic.Int64
	pause time.Duration // between two panics, at most; 0: 100 ms

	mu     sync.Mutex
	next   time.Time
	recent map[string][]time.Time // by actor
}

func (v *vandal) message(self *actor.PID, m any) {
	if _, last := m.(*actor.Stopped); last {
		return // the second chance of whoever failed in Stopping: who has none lets go of nothing
	}
	if !v.armed.Load() || !v.chooses(self) {
		return
	}
	v.fired.Add(1)
	panic(fmt.Sprintf("vandalised over %T", m))
}

func (v *vandal) chooses(self *actor.PID) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	if now.Before(v.next) {
		return false
	}
	recent := v.recent[self.Id]
	for len(recent) > 0 && now.Sub(recent[0]) > 35*time.Second {
		recent = recent[1:]
	}
	if len(recent) >= 4 && kindOf(self) != "process" {
		return false
	}
	v.recent[self.Id] = append(recent, now)
	v.next = now.Add(time.Duration(rand.Int64N(int64(cmp.Or(v.pause, 100*time.Millisecond)))))
	return true
}

// TestVandalism: panics in random actors at random moments, during a load of 80
// processes: what each of them writes comes complete and once, or its client is told that
// it was given up; nothing is left of any; and the tree is as it is drawn.
func TestVandalism(t *testing.T) {
	t.Parallel()
	vandalism(t, 20, time.Second)
}

// vandalism has actors fail for some time, while each of four sessions has as many processes.
func vandalism(t *testing.T, processes int, length time.Duration) {
	v := &vandal{recent: make(map[string][]time.Time)}
	troupe := start(t, actors.WithFaults(actors.Config{Retention: 16 << 10, Window: 64 << 10, KillGrace: -1}, v.message, nil))
	token := fmt.Sprintf("%s-%d", t.Name(), os.Getpid()) // two tests of vandalism may run at a time
	stop := filepath.Join(t.TempDir(), "stop")

	const sessions = 4
	var resumers []*resumer
	for n := range sessions {
		r := newResumer(t, troupe, protocol.RoleOwner, "")
		r.mayEvict = true
		resumers = append(resumers, r)
		r.startGroup(filepath.Join(filepath.Dir(stop), fmt.Sprint("units", n)))
		for i := range processes {
			// Lines that count up, until the end is said: how many, only it knows.
			r.start(fmt.Sprintf("p%d", i), protocol.ProcessStartParams{Argv: []string{"sh", "-c",
				`n=0; while [ ! -e "$0" ]; do n=$((n+1)); echo $n; sleep 1; done; echo "all $n"; exit 7`, stop, token}})
		}
	}
	v.armed.Store(true)
	least := int64(length / (200 * time.Millisecond)) // however slow the machine
	go func() {
		time.Sleep(length)
		for v.fired.Load() < least {
			time.Sleep(time.Millisecond)
		}
		os.WriteFile(stop, nil, 0o600)
		v.armed.Store(false)
	}()
	var all sync.WaitGroup
	for _, r := range resumers {
		all.Go(func() {
			r.until(func() bool {
				for id, p := range r.processes {
					if id != "base" && id != "unit" && !p.closed {
						return false
					}
				}
				return true
			})
			r.mustCall("group/stop", protocol.GroupStopParams{GroupID: "g"})
			r.until(func() bool { return r.processes["base"].closed && r.processes["unit"].closed })
		})
	}
	all.Wait()

	evicted, lost := 0, 0
	for i, r := range resumers {
		lost += r.lost
		for id, p := range r.processes {
			if p.evicted != "" {
				evicted++
			}
			if p.evicted != "" || id == "base" || id == "unit" {
				continue
			}
			lines := strings.Split(strings.TrimSuffix(p.output.String(), "\n"), "\n")
			n := len(lines) - 1
			if p.code != 7 || p.output.String() != numbers(n)+fmt.Sprintf("all %d\n", n) {
				t.Errorf("session %d, %s: exit code %d, %d lines, the last %q", i, id, p.code, n, lines[n])
			}
		}
	}
	t.Logf("%d panics, %d processes given up, %d connections lost", v.fired.Load(), evicted, lost)
	if evicted > processes*sessions/2 {
		t.Errorf("%d processes were given up", evicted)
	}

	var info protocol.ServerInfoResult
	if err := json.Unmarshal(resumers[0].mustCall("server/info", protocol.Empty{}).Result, &info); err != nil {
		t.Fatal(err)
	}
	// One in a goroutine of a connection is passed on to its actor, and counts for both.
	if info.Panics < v.fired.Load() || info.Panics > 2*v.fired.Load() || info.ActorRestarts == 0 || info.ActorRestarts+info.ActorsGivenUp > info.Panics ||
		evicted > 0 && info.ActorsGivenUp == 0 || info.Sessions != sessions || info.Connections < sessions {
		t.Errorf("after %d panics and %d processes given up, server/info says %+v", v.fired.Load(), evicted, info)
	}

	// Everything goes on as before.
	for _, r := range resumers {
		r.start("after", protocol.ProcessStartParams{Argv: []string{"true"}})
		r.until(func() bool { return r.processes["after"].closed })
	}
	drawn := regexp.MustCompile(`^troupe(/registry|/watch|/connections(/c-[\w-]{36})?|/sessions(/[\w-]{36}(/session|/[pg]-[\w-]{36})?)?)?$`)
	seen := make(map[string]int)
	for _, id := range actorsOf(troupe) {
		if !drawn.MatchString(id) {
			t.Errorf("an actor that is not drawn: %s", id)
		}
		seen[kindOf(actor.NewPID("", id))]++
	}
	for kind, n := range map[string]int{"troupe": 1, "registry": 1, "sessions": 1, "connections": 1, "watch": 1, "supervisor": sessions, "session": sessions} {
		if seen[kind] != n {
			t.Errorf("%d actors of the kind %s, want %d", seen[kind], kind, n)
		}
	}
	if err := troupe.Shutdown(context.Background()); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if left := withArgument(token); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

// withArgument returns the processes with an argument.
func withArgument(arg string) (pids []string) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		if data, err := os.ReadFile(path); err == nil && strings.Contains("\x00"+string(data), "\x00"+arg+"\x00") {
			pids = append(pids, filepath.Base(filepath.Dir(path)))
		}
	}
	return pids
}

// actorsOf are the ids of all actors of a troupe.
func actorsOf(troupe *actors.Troupe) (ids []string) {
	for _, m := range troupe.System().ProcessRegistry.LocalPIDs.LocalPIDs {
		for id := range m.IterBuffered() {
			if strings.HasPrefix(id.Key, "troupe") {
				ids = append(ids, id.Key)
			}
		}
	}
	return ids
}
