package tally

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// After any reports, the sums are those of the last report of each node.
func TestSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, model := new(Index), make(map[string]map[string]Account)
		names, small := rapid.SampledFrom([]string{"a", "b", "c"}), rapid.IntRange(0, 2)
		for range rapid.IntRange(1, 20).Draw(t, "reports") {
			report := make(map[string]Account)
			for range rapid.IntRange(0, 3).Draw(t, "accounts") {
				report[names.Draw(t, "key")] = Account{small.Draw(t, "sessions"), small.Draw(t, "processes"), small.Draw(t, "connections")}
			}
			node := names.Draw(t, "node")
			x.Set(node, report)
			model[node] = report
			sums := make(map[string]Elsewhere)
			for _, report := range model {
				for key, a := range report {
					sum := sums[key]
					sum.Sessions, sum.Processes, sum.Connections = sum.Sessions+a.Sessions, sum.Processes+a.Processes, sum.Connections+a.Connections
					if a.Sessions > 0 {
						sum.Nodes++
					}
					sums[key] = sum
				}
			}
			for _, key := range []string{"a", "b", "c", "nobody"} {
				if got := x.Of(key); got != sums[key] {
					t.Fatalf("%s: %+v, want %+v", key, got, sums[key])
				}
			}
		}
		for node := range model {
			x.Set(node, nil)
		}
		if len(x.sums)+len(x.nodes) != 0 {
			t.Fatalf("without nodes: %+v", x)
		}
	})
}

// If there are too many accounts, the largest used shares of a limit remain.
func TestHeaviest(t *testing.T) {
	all := map[string]Account{"idle": {Sessions: 1}, "runs": {Sessions: 1, Processes: 50}, "connects": {Connections: 3}, "opens": {Sessions: 4}, "zero": {}}
	each := Account{Sessions: 10, Processes: 100, Connections: 4}
	for n, want := range [][]string{{}, {"connects"}, {"connects", "runs"}, {"connects", "opens", "runs"}} {
		got := Heaviest(all, each, n)
		if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, want) || n > 1 && got["runs"] != all["runs"] {
			t.Errorf("%d: %v, want %v", n, got, want)
		}
	}
	if got := Heaviest(all, Account{Connections: 4}, 2); len(got) != 2 || got["connects"].Connections != 3 || got["idle"].Sessions != 1 {
		t.Errorf("a limit of 0 counts, or equal shares are not in the order of names: %v", got)
	}
	if got := Heaviest(all, each, 5); len(got) != 5 {
		t.Error(got)
	}
}

// A report of 256 accounts, as from each node every second.
func BenchmarkSet(b *testing.B) {
	x := new(Index)
	var reports [2]map[string]Account
	for i := range reports {
		reports[i] = make(map[string]Account)
		for k := range 256 {
			reports[i][fmt.Sprint("identity ", k)] = Account{Sessions: 1, Processes: i + k}
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		x.Set("node", reports[i%2])
	}
}
