package cluster

import (
	"testing"
	"time"
)

func TestReportWorthy(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Node)
		since  time.Duration
		want   bool
	}{
		{"nothing", func(*Node) {}, time.Hour, false},
		{"a session", func(n *Node) { n.Load.Sessions++ }, reportEvery - 1, false},
		{"a session, later", func(n *Node) { n.Load.Sessions++ }, reportEvery, true},
		{"a process, later", func(n *Node) { n.Load.Processes++ }, reportEvery, true},
		{"some sessions", func(n *Node) { n.Load.Sessions += 19 }, 0, false},
		{"more sessions", func(n *Node) { n.Load.Sessions += 20 }, 0, true},
		{"fewer sessions", func(n *Node) { n.Load.Sessions -= 20 }, 0, true},
		{"some memory", func(n *Node) { n.Load.Memory += 19 }, 0, false},
		{"more memory", func(n *Node) { n.Load.Memory += 20 }, 0, true},
		{"some descriptors", func(n *Node) { n.Load.Files += 19 }, 0, false},
		{"more descriptors", func(n *Node) { n.Load.Files += 20 }, 0, true},
		{"some load", func(n *Node) { n.Load.CPU += 0.04 }, 0, false},
		{"more load", func(n *Node) { n.Load.CPU += 0.06 }, 0, true},
		{"less load", func(n *Node) { n.Load.CPU -= 0.06 }, 0, true},
		{"not full", func(n *Node) { n.Load.Sessions-- }, 0, false},
		{"more room", func(n *Node) { n.Load.MaxSessions++ }, 0, true},
		{"more room in memory", func(n *Node) { n.Load.MaxMemory++ }, 0, true},
		{"more room for descriptors", func(n *Node) { n.Load.MaxFiles++ }, 0, true},
		{"draining", func(n *Node) { n.Draining = true }, 0, true},
		{"a label", func(n *Node) { n.Labels = map[string]string{"a": "2"} }, 0, true},
		{"an account", func(n *Node) { n.Accounts = map[string]Account{"u": {Sessions: 2}} }, 0, true},
		{"no account", func(n *Node) { n.Accounts = nil }, 0, true},
		{"the address", func(n *Node) { n.Address = "b:1" }, 0, true},
		{"the version", func(n *Node) { n.Version = "2" }, 0, true},
		{"the id", func(n *Node) { n.ID = "a-2" }, 0, true},
		{"the name", func(n *Node) { n.Name = "b" }, 0, true},
	} {
		old := Node{ID: "a-1", Name: "a", Address: "a:1", Version: "1", Labels: map[string]string{"a": "1"}, Accounts: map[string]Account{"u": {Sessions: 1}},
			Load: Load{Sessions: 500, MaxSessions: 1000, Memory: 500, MaxMemory: 1000, Files: 500, MaxFiles: 1000, CPU: 0.5}}
		now := old
		c.change(&now)
		if got := reportWorthy(old, now, c.since); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	full := Node{Load: Load{Sessions: 1000, MaxSessions: 1000}}
	room := Node{Load: Load{Sessions: 999, MaxSessions: 1000}}
	if !reportWorthy(full, room, 0) || !reportWorthy(room, full, 0) {
		t.Error("nobody hears of a node that becomes full, or has room again")
	}
	if !reportWorthy(Node{}, full, 0) {
		t.Error("nobody hears of a new node")
	}
	if few := (Node{Load: Load{Sessions: 1, MaxSessions: 10}}); !reportWorthy(Node{Load: Load{MaxSessions: 10}}, few, 0) {
		t.Error("nobody hears of a session of ten")
	}
}
