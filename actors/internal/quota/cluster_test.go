package quota

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/actors/spool"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/internal/tally"
	"pgregory.net/rapid"
)

// A node of a cluster whose reports the test carries.
type node struct {
	*Quotas
	seen    tally.Index // the reports of the others
	places  []*Place
	started int       // processes since the last report
	told    time.Time // when the last report was
}

// cluster returns nodes with the same limits.
func cluster(t testing.TB, n int, l Limits) []*node {
	nodes := make([]*node, n)
	for i := range nodes {
		n, l := &node{}, l
		l.Elsewhere, l.Short = n.seen.Of, func(string) {}
		n.Quotas = New(l, budget.NewOutput(0, nil), spool.NewDisk(t.TempDir(), 1<<30, nil), nil)
		nodes[i] = n
	}
	return nodes
}

// report has all other nodes know what is used on node i.
func report(nodes []*node, i int) {
	for j, n := range nodes {
		if j != i {
			n.seen.Set(fmt.Sprint(i), nodes[i].Accounts())
		}
	}
}

// left has node i count no more.
func left(nodes []*node, i int) {
	for _, n := range nodes {
		n.seen.Set(fmt.Sprint(i), nil)
	}
}

// Processes on other nodes count once they are reported, and no more once their node has left.
func TestProcessesInACluster(t *testing.T) {
	nodes, now := cluster(t, 3, Limits{Processes: 10}), time.Now()
	const advice = "end a process, or wait until one has ended"
	start(t, nodes[0].Quotas, "alice", 4, now, "", "")
	report(nodes, 0)
	there := start(t, nodes[1].Quotas, "alice", 6, now, "", "")
	start(t, nodes[1].Quotas, "alice", 1, now, "max-processes-each is 10 in this cluster, and alice runs 10: 6 here and 4 on other nodes; this start needs 1 more", advice)
	start(t, nodes[0].Quotas, "alice", 6, now, "", "") // the second has not reported
	start(t, nodes[2].Quotas, "alice", 6, now, "", "") // the first has reported 4
	report(nodes, 1)
	report(nodes, 0)
	for _, n := range nodes {
		start(t, n.Quotas, "alice", 1, now, "max-processes-each is 10 in this cluster, and alice runs", advice)
		start(t, n.Quotas, "bob", 1, now, "", "")
	}
	there[0].Leave()
	if there[0].TryReturn() == nil {
		t.Error("a process runs again beyond the limit of the cluster")
	}
	left(nodes, 0)
	start(t, nodes[1].Quotas, "alice", 5, now, "", "")
	start(t, nodes[1].Quotas, "alice", 1, now, "alice runs 10: 10 here and 0 on other nodes", advice)
}

// Whatever nodes start, an identity runs at most the limit, and what the other nodes have started since their last reports: a burst, and the rate until
// the report.
func TestOvershoot(t *testing.T) {
	const limit, rate, burst = 12, 4, 4
	rapid.Check(t, func(rt *rapid.T) {
		nodes := cluster(t, rapid.IntRange(2, 4).Draw(rt, "nodes"), Limits{Processes: limit, Starts: rate, Burst: burst})
		now := time.Now()
		for _, n := range nodes {
			n.told = now
		}
		any := rapid.IntRange(0, len(nodes)-1)
		running := func() (all int) {
			for _, n := range nodes {
				all += len(n.places)
			}
			return all
		}
		tell := func(i int) {
			report(nodes, i)
			nodes[i].started, nodes[i].told = 0, now
		}
		rt.Repeat(map[string]func(*rapid.T){
			"start": func(t *rapid.T) {
				i, processes := any.Draw(t, "node"), rapid.IntRange(1, burst).Draw(t, "processes")
				n := nodes[i]
				places, err := n.Start("alice", processes, now)
				if err != nil {
					return
				}
				n.places, n.started = append(n.places, places...), n.started+processes
				late := 0
				for j, other := range nodes {
					if j != i {
						late += other.started
					}
				}
				if all := running(); all > limit+late {
					t.Fatalf("%d processes, of which %d were not reported to the node of the last; the limit is %d", all, late, limit)
				}
				if most := burst + rate*now.Sub(n.told).Seconds(); float64(n.started) > most+0.001 {
					t.Fatalf("%d processes since the last report, want %v at most", n.started, most)
				}
			},
			"end": func(t *rapid.T) {
				if n := nodes[any.Draw(t, "node")]; len(n.places) > 0 {
					n.places[0].Leave()
					n.places = n.places[1:]
				}
			},
			"session": func(t *rapid.T) {
				nodes[any.Draw(t, "node")].Sessions("alice", rapid.IntRange(0, 2).Draw(t, "sessions"))
			},
			"report": func(t *rapid.T) { tell(any.Draw(t, "node")) },
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
				nodes[any.Draw(t, "node")].Divide(now)
			},
			"all": func(t *rapid.T) { // once all is reported, the limit is exact
				for i := range nodes {
					tell(i)
				}
				if all := running(); all >= limit {
					for _, n := range nodes {
						if _, err := n.Start("alice", 1, now.Add(time.Hour)); err == nil {
							t.Fatalf("another of %d processes", all)
						}
					}
				}
			},
		})
	})
}

// Rates and bytes are divided by the nodes on which an identity has sessions, and whole again when it has left the others.
func TestPartsOfACluster(t *testing.T) { synctest.Test(t, partsOfACluster) }

func partsOfACluster(t *testing.T) {
	nodes, now := cluster(t, 3, Limits{Starts: 10, Burst: 5, OutputRate: 64 << 10, StdinRate: 32 << 10, Retained: 3 << 20, Spooled: 1 << 20}), time.Now()
	n := nodes[0]
	divide := func() {
		for i := range nodes {
			report(nodes, i)
		}
		n.Divide(now)
	}
	n.Sessions("alice", 1)
	nodes[1].Sessions("alice", 3)
	nodes[2].Sessions("bob", 1)
	divide()
	const used = "max-starts-each is 10 a second in this cluster: alice has sessions on 2 nodes, so 5 a second are for this one, 2 at once, and alice has used them"
	p := start(t, n.Quotas, "alice", 100, now, "", "")[0] // a group costs the whole burst at most, 5 starts
	start(t, n.Quotas, "alice", 1, now, used, "try again in 801 ms")
	start(t, nodes[2].Quotas, "bob", 5, now, "", "")
	start(t, nodes[2].Quotas, "bob", 1, now, "max-starts-each is 10 a second here, 5 at once, and bob has used them", "try again in 101 ms")
	if got := p.Paced(now).Sub(now); got != 800*time.Millisecond {
		t.Errorf("a restart may begin after %v, want 800 ms", got)
	}

	var w waiter
	wantParts := func(output, stdin, retained, spooled int64) {
		t.Helper()
		s := n.shares["alice"]
		out, in := p.Output.Flow(nil), p.Stdin.Flow(nil)
		moved := [2]int64{}
		for k := out.Take(1 << 10); k > 0; k = out.Take(1 << 10) {
			moved[0] += int64(k)
		}
		for k := in.Take(1 << 10); k > 0; k = in.Take(1 << 10) {
			moved[1] += int64(k)
		}
		out.Give(int(moved[0]))
		in.Give(int(moved[1]))
		out.Leave()
		in.Leave()
		if want := [2]int64{output, stdin}; moved != want {
			t.Errorf("%d bytes of output and stdin at once, want %d", moved, want)
		}
		if s.memory.Take(1, 1<<40, &w); s.memory.Used() != retained || s.memory.Take(1, 1, &w) != 0 {
			t.Errorf("%d bytes are held in memory, want %d", s.memory.Used(), retained)
		}
		if s.disk.Take(1, 1<<40, &w); s.disk.Used() != spooled || s.disk.Take(1, 1, &w) != 0 {
			t.Errorf("%d bytes are held on disk, want %d", s.disk.Used(), spooled)
		}
	}
	wantParts(32<<10, 16<<10, 3<<19, 1<<19)
	w = 0
	nodes[2].Sessions("alice", 1)
	divide()
	start(t, n.Quotas, "alice", 1, now, "alice has sessions on 3 nodes, so 3.33 a second are for this one, 1 at once", "try again in 1201 ms")
	if s := n.shares["alice"]; w != 0 || s.memory.Take(1, 1, &w) != 0 || s.memory.Used() != 3<<19 {
		t.Errorf("%d were woken for a smaller part, and %d bytes are held", w, s.memory.Used())
	}
	nodes[1].Sessions("alice", 0)
	left(nodes, 2)
	report(nodes, 1)
	n.Divide(now)
	if w != 2 {
		t.Errorf("%d were woken for a larger part, want 1 for memory and 1 for the disk", w)
	}
	if s := n.shares["alice"]; s.nodes != 1 || s.starts != (n.limits.starts(1)) {
		t.Errorf("%+v for a single node", s)
	}
	if s := n.shares["alice"]; s.memory.Take(1, 1<<40, &w) != 3<<19 || s.disk.Take(1, 1<<40, &w) != 1<<19 {
		t.Errorf("%d bytes in memory and %d on disk are held", s.memory.Used(), s.disk.Used())
	}
	start(t, n.Quotas, "alice", 3, now.Add(time.Second), "", "")
}

type waiter int

func (w *waiter) Wake() { *w++ }

// Other nodes hear of each identity with sessions, and of processes where they are limited. Whoever uses nothing is forgotten.
func TestAccounts(t *testing.T) {
	n, now := cluster(t, 1, Limits{Sessions: 3, Processes: 3})[0], time.Now()
	n.Sessions("alice", 2)
	n.Sessions("bob", 1)
	place := start(t, n.Quotas, "carol", 1, now, "", "")[0]
	start(t, n.Quotas, "alice", 2, now, "", "")
	if got := fmt.Sprint(n.Accounts()); got != "map[alice:{2 2 0} bob:{1 0 0} carol:{0 1 0}]" {
		t.Error(got)
	}
	n.Sessions("bob", 0)
	place.Leave()
	n.NoSessions()
	n.Sessions("alice", 1)
	if got := fmt.Sprint(n.Accounts(), len(n.shares)); got != "map[alice:{1 2 0}] 1" {
		t.Error(got)
	}
	only := New(Limits{Sessions: 1, Elsewhere: func(string) tally.Elsewhere { return tally.Elsewhere{} }}, nil, nil, nil)
	only.Sessions("alice", 1)
	start(t, only, "alice", 1, now, "", "")
	if got := fmt.Sprint(only.Accounts()); got != "map[alice:{1 0 0}]" {
		t.Error(got)
	}
	alone := New(Limits{Sessions: 1, Processes: 1}, nil, nil, nil)
	for _, q := range []*Quotas{New(Limits{Sessions: 1}, nil, nil, nil), alone} {
		q.Sessions("alice", 1)
		q.Divide(now)
		q.NoSessions()
		if got := q.Accounts(); got != nil {
			t.Errorf("%v without a cluster", got)
		}
	}
}
