package cluster

import (
	"maps"
	"math"
	"reflect"
	"time"
)

const (
	// worth is the change of a used share from which on a node reports: a finer balance is not worth the messages to all other nodes.
	worth = 0.02
	// worthCPU is worth for the CPU, whose load changes without a cause.
	worthCPU = 0.05
	// reportEvery is when a node reports smaller changes.
	reportEvery = 10 * time.Second
)

// reportWorthy says whether the other nodes should hear of a change from old, reported since ago, to now. A new node is always worth a report.
func reportWorthy(old, now Node, since time.Duration) bool {
	a, b := old.Load, now.Load
	switch {
	case old.Draining != now.Draining, a.full() != b.full(), !maps.Equal(old.Labels, now.Labels), !maps.Equal(old.Accounts, now.Accounts):
		return true
	case old.ID != now.ID, old.Name != now.Name, old.Address != now.Address, old.Version != now.Version:
		return true
	case a.MaxSessions != b.MaxSessions, a.MaxMemory != b.MaxMemory, a.MaxFiles != b.MaxFiles:
		return true
	case differ(shareOf(a.Sessions, a.bound()), shareOf(b.Sessions, b.bound()), worth), differ(a.CPU, b.CPU, worthCPU),
		differ(shareOf(a.Memory, a.MaxMemory), shareOf(b.Memory, b.MaxMemory), worth), differ(shareOf(a.Files, a.MaxFiles), shareOf(b.Files, b.MaxFiles), worth):
		return true
	}
	return since >= reportEvery && !reflect.DeepEqual(old, now)
}

func differ(a, b, worth float64) bool { return math.Abs(a-b) >= worth }
