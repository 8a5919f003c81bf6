package main

import (
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/compose"
	"github.com/b6f6fdd7/troupe/protocol"
)

// up --wait waits for readiness, and for a second of each run without a probe. A program that has failed is never ready.
func TestWaiter(t *testing.T) {
	probed := &compose.Program{Ready: &protocol.Ready{}}
	wanted := []compose.Unit{{ID: "a", Program: &compose.Program{}}, {ID: "b", Program: probed}}
	now := time.Unix(1_800_000_000, 0)
	var w waiter
	for _, step := range []struct {
		name    string
		after   time.Duration
		a, b    protocol.GroupMember
		ended   map[string]protocol.ExitStatus
		waiting int
		problem string
	}{
		{"begun", 0, protocol.GroupMember{State: "running", Run: 1, Ready: true}, protocol.GroupMember{State: "waiting"}, nil, 2, ""},
		{"b has a probe", 0, protocol.GroupMember{State: "running", Run: 1, Ready: true}, protocol.GroupMember{State: "running", Run: 1, Ready: true}, nil, 1, ""},
		{"a runs again", time.Second / 2, protocol.GroupMember{State: "running", Run: 2, Ready: true, Reason: "exit code 5"}, protocol.GroupMember{State: "running", Run: 1, Ready: true}, nil, 1, ""},
		{"not for a second", time.Second - 1, protocol.GroupMember{State: "running", Run: 2, Ready: true}, protocol.GroupMember{State: "running", Run: 1, Ready: true}, nil, 1, ""},
		{"for a second", 1, protocol.GroupMember{State: "running", Run: 2, Ready: true}, protocol.GroupMember{State: "running", Run: 1, Ready: true}, nil, 0, ""},
		{"done", 0, protocol.GroupMember{State: "left", Run: 2, Ready: true}, protocol.GroupMember{State: "running", Run: 1, Ready: true},
			map[string]protocol.ExitStatus{"a": {}}, 0, ""},
		{"failed", 0, protocol.GroupMember{State: "left", Run: 2, Ready: true}, protocol.GroupMember{State: "running", Run: 1, Ready: true},
			map[string]protocol.ExitStatus{"a": {ExitCode: 5}}, 0, "a has failed: exit code 5"},
		{"given up", 0, protocol.GroupMember{State: "left", Run: 2, Ready: true, Reason: "exit code 5, and no more than 3 restarts are allowed"}, protocol.GroupMember{State: "running", Run: 1, Ready: true},
			map[string]protocol.ExitStatus{"a": {ExitCode: 5}}, 0, "a has failed: exit code 5, and no more than 3 restarts are allowed"},
		{"never", 0, protocol.GroupMember{State: "running", Run: 2, Ready: true}, protocol.GroupMember{State: "waiting", Reason: "waits for a, which has left"}, nil, 0, "b is not ready: waits for a, which has left"},
	} {
		now = now.Add(step.after)
		step.a.ProcessID, step.b.ProcessID = "a", "b"
		waiting, problem := w.look(wanted, []protocol.GroupMember{step.a, step.b}, step.ended, now)
		text := ""
		if problem != nil {
			text = problem.Error()
		}
		if waiting != step.waiting || text != step.problem {
			t.Errorf("%s: %d wait, %q; want %d, %q", step.name, waiting, text, step.waiting, step.problem)
		}
	}
}
