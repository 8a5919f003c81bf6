// Package tally sums the use of identities on the other nodes of a cluster. The package is arithmetic: package cluster has the nodes.
package tally

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// An Account is the use of an identity on a node. Without credentials, addresses of clients take the place of identities.
type Account struct {
	Sessions    int `json:"sessions,omitempty"`
	Processes   int `json:"processes,omitempty"`   // running; 0 without --max-processes-each
	Connections int `json:"connections,omitempty"` // of clients to the node, wherever their sessions are; 0 without --max-connections-each
}

// plus returns the sum of a and times b.
func (a Account) plus(times int, b Account) Account {
	return Account{a.Sessions + times*b.Sessions, a.Processes + times*b.Processes, a.Connections + times*b.Connections}
}

// share returns the largest used share of the limits each. 0 means no limit.
func (a Account) share(each Account) float64 {
	of := func(used, limit int) float64 {
		if limit <= 0 {
			return 0
		}
		return float64(used) / float64(limit)
	}
	return max(of(a.Sessions, each.Sessions), of(a.Processes, each.Processes), of(a.Connections, each.Connections))
}

// Elsewhere is the use of an identity on all other nodes of a cluster together, by their last reports.
type Elsewhere struct {
	Account
	Nodes int // with sessions of the identity
}

// An Index has the use of identities on the other nodes. The zero Index knows no node. Any goroutine may call the methods. A call waits for one report
// at most.
type Index struct {
	mu    sync.Mutex
	nodes map[string]map[string]Account // the last report of each node, by key
	sums  map[string]Elsewhere          // of nodes, by key; no sum is zero
}

// Set replaces the report of a node. Nil: the node counts no more. The caller must not change the report afterwards.
func (x *Index) Set(node string, report map[string]Account) {
	x.mu.Lock()
	defer x.mu.Unlock()
	last := x.nodes[node]
	for key, a := range last {
		if report[key] != a {
			x.add(-1, key, a)
		}
	}
	for key, a := range report {
		if last[key] != a {
			x.add(1, key, a)
		}
	}
	if len(report) == 0 {
		delete(x.nodes, node)
		return
	}
	if x.nodes == nil {
		x.nodes = make(map[string]map[string]Account)
	}
	x.nodes[node] = report
}

// add adds an account to the sum of a key, or takes it away. The caller holds mu.
func (x *Index) add(times int, key string, a Account) {
	sum := x.sums[key]
	sum.Account = sum.plus(times, a)
	if a.Sessions > 0 {
		sum.Nodes += times
	}
	if sum == (Elsewhere{}) {
		delete(x.sums, key)
		return
	}
	if x.sums == nil {
		x.sums = make(map[string]Elsewhere)
	}
	x.sums[key] = sum
}

// Of returns the use of an identity on the other nodes.
func (x *Index) Of(key string) Elsewhere {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sums[key]
}

// Heaviest returns at most n accounts, with the largest used share of the limits each.
func Heaviest(all map[string]Account, each Account, n int) map[string]Account {
	if len(all) <= n {
		return all
	}
	keys := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(all[b].share(each), all[a].share(each)), cmp.Compare(a, b))
	})
	most := make(map[string]Account, n)
	for _, key := range keys[:n] {
		most[key] = all[key]
	}
	return most
}
