package quota

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/spool"
	"github.com/b6f6fdd7/troupe/internal/budget"
)

// start checks the answer to a start; want "": it is allowed.
func start(t *testing.T, q *Quotas, key string, n int, now time.Time, want, advice string) []*Place {
	t.Helper()
	places, err := q.Start(key, n, now)
	switch {
	case want == "" && err != nil:
		t.Fatal(err)
	case want != "" && (err == nil || err.Code != -32600 || !strings.Contains(err.Message, want) || err.Advice() != advice):
		t.Fatalf("%v, want %q and the advice %q", err, want, advice)
	}
	return places
}

func TestProcesses(t *testing.T) {
	q, now := New(Limits{Processes: 3}, nil, nil, nil), time.Now()
	const advice = "end a process, or wait until one has ended"
	first := start(t, q, "alice", 2, now, "", "")
	start(t, q, "alice", 2, now, "max-processes-each is 3 here, alice runs 2, and this start needs 2 more", advice)
	start(t, q, "bob", 3, now, "", "")
	third := start(t, q, "alice", 1, now, "", "")
	start(t, q, "alice", 1, now, "alice runs 3, and", advice)
	first[0].Leave()
	first[0].Leave()
	again := start(t, q, "alice", 1, now, "", "")
	start(t, q, "alice", 1, now, "alice runs 3, and", advice)
	for _, p := range []*Place{first[1], third[0], again[0], nil} {
		p.Leave()
	}
	first[1].Return()
	first[1].Return()
	start(t, q, "alice", 2, now, "", "")
	third[0].Return() // beyond the limit
	start(t, q, "alice", 1, now, "alice runs 4, and", advice)
	q.shares["alice"].running -= 2
	first[1].Leave()
	third[0].Leave()
	if len(q.shares) != 1 {
		t.Errorf("%d shares, want that of bob", len(q.shares))
	}
}

func TestStarts(t *testing.T) {
	q, now := New(Limits{Starts: 10, Burst: 3}, nil, nil, nil), time.Now()
	const used = "max-starts-each is 10 a second here, 3 at once, and alice has used them"
	for range 3 {
		start(t, q, "alice", 1, now, "", "")
	}
	start(t, q, "alice", 1, now, used, "try again in 101 ms")
	start(t, q, "bob", 1, now, "", "")
	now = now.Add(100*time.Millisecond - 1)
	start(t, q, "alice", 1, now, used, "try again in 1 ms")
	now = now.Add(1)
	start(t, q, "alice", 1, now, "", "")
	start(t, q, "alice", 2, now, used, "try again in 201 ms")
	now = now.Add(time.Hour) // the bucket holds no more than a burst
	start(t, q, "alice", 100, now, "", "")
	start(t, q, "alice", 1, now, used, "try again in 101 ms")
}

// A restart waits for the rate, and counts.
func TestRestartsArePaced(t *testing.T) {
	q, now := New(Limits{Starts: 10, Burst: 2}, nil, nil, nil), time.Now()
	p := start(t, q, "alice", 1, now, "", "")[0]
	for i, want := range []time.Duration{0, 100, 200, 300} {
		if got := p.Paced(now).Sub(now); got != want*time.Millisecond {
			t.Errorf("restart %d may begin after %v, want %d ms", i, got, want)
		}
		p.Restarted(now)
	}
	start(t, q, "alice", 1, now, "max-starts-each", "try again in 401 ms")
	if got := start(t, q, "bob", 1, now, "", "")[0].Paced(now); got != now {
		t.Errorf("bob waits for alice: %v", got)
	}
	processes := New(Limits{Processes: 1}, nil, nil, nil)
	free := start(t, processes, "alice", 1, now, "", "")[0]
	free.Restarted(now)
	free.Leave()
	free.Restarted(now)
	var none *Place
	none.Restarted(now)
	for _, p := range []*Place{free, none} {
		if got := p.Paced(now); got != now {
			t.Errorf("without a rate: %v", got)
		}
	}
}

// A key that uses nothing is forgotten, and one that has used starts is not forgotten too early.
func TestKeysAreForgotten(t *testing.T) {
	q, now := New(Limits{Starts: 1, Burst: 1}, nil, nil, nil), time.Now()
	for i := range 10_000 {
		now = now.Add(100 * time.Millisecond)
		start(t, q, fmt.Sprint(i), 1, now, "", "")[0].Leave()
		start(t, q, fmt.Sprint(i), 1, now, "max-starts-each", "try again in 1001 ms")
		if len(q.shares) > 2*minSweep {
			t.Fatalf("%d shares after %d keys", len(q.shares), i+1)
		}
	}
}

func TestNoLimits(t *testing.T) {
	if q := New(Limits{Burst: 3}, nil, nil, nil); q != nil {
		t.Error(q)
	}
	for _, p := range start(t, nil, "alice", 1000, time.Now(), "", "") {
		p.Leave()
	}
}

// A key is remembered while its output is held in memory or on disk, or while its rates are used up, also when
// no process runs.
func TestKeysWithOutput(t *testing.T) {
	disk := spool.NewDisk(t.TempDir(), 1<<20, nil)
	q := New(Limits{Processes: 1, OutputRate: 1 << 20, Retained: 1 << 20, Spooled: 1 << 20}, budget.NewOutput(0, nil), disk, nil)
	for name, use := range map[string]func(p *Place) (free func()){
		"memory": func(p *Place) func() {
			in := child.NewIntake(1<<20, p.Memory, nil, func() {})
			in.Hold(64<<10, 64<<10) // without a charge
			in.Take(64 << 10)
			return in.Close
		},
		"disk": func(p *Place) func() {
			f := p.Disk.New(100)
			if err := f.Open(); err != nil || f.Reserve(100) != 100 {
				t.Fatal(err)
			}
			return func() { f.Return(100); f.Close() }
		},
		"rate": func(p *Place) func() {
			f := p.Output.Flow(nil)
			n := f.Take(1 << 10)
			return func() { f.Give(n) }
		},
		"nothing": func(*Place) func() { return func() {} },
	} {
		p := start(t, q, name, 1, time.Now(), "", "")[0]
		free := use(p)
		p.Leave()
		if s := q.shares[name]; (s != nil) != (name != "nothing") || s != nil && s.memory != p.Memory {
			t.Errorf("%s: %v", name, s)
		}
		free()
		start(t, q, name, 1, time.Now(), "", "")[0].Leave()
		if q.shares[name] != nil {
			t.Errorf("%s: remembered for nothing", name)
		}
	}
	if disk.Used() != 0 {
		t.Errorf("%d bytes on disk", disk.Used())
	}
}
