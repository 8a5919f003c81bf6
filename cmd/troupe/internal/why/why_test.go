package why

import (
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

func TestQuiet(t *testing.T) {
	waits := func(w ...protocol.Wait) protocol.ProcessInfoResult { return protocol.ProcessInfoResult{WaitsFor: w} }
	ended := func(p protocol.ProcessInfoResult, s protocol.ExitStatus) protocol.ProcessInfoResult {
		p.Status = &s
		return p
	}
	for _, c := range []struct {
		p    protocol.ProcessInfoResult
		want string
	}{
		{waits(protocol.Wait{For: protocol.WaitItself}), ""},
		{protocol.ProcessInfoResult{QuietMs: 61_000, WaitsFor: []protocol.Wait{{For: protocol.WaitItself}}}, "quiet for 1m"},
		{protocol.ProcessInfoResult{QuietMs: 9_000, PendingWrites: 1, WaitsFor: []protocol.Wait{{For: protocol.WaitItself}}}, "does not read its stdin"},
		{waits(protocol.Wait{For: protocol.WaitOwner}, protocol.Wait{For: protocol.WaitEnd}), "output full: attach to read it"},
		{protocol.ProcessInfoResult{Viewers: []protocol.Viewer{{Role: protocol.RoleController, Hold: true}}, WaitsFor: []protocol.Wait{{For: protocol.WaitOwner}}}, "output full: its viewers have not read it"},
		{waits(protocol.Wait{For: protocol.WaitBudget}), "output full: the server's memory for output is used up"},
		{waits(protocol.Wait{For: protocol.WaitOwner, Limit: "spool-places"}), "output full (spool-places): attach to read it"},
		{waits(protocol.Wait{For: protocol.WaitBudget, Limit: "memory-budget"}), "output full (memory-budget): the server's memory for output is used up"},
		{waits(protocol.Wait{For: protocol.WaitRate}), "writes more than the server allows"},
		{waits(protocol.Wait{For: protocol.WaitStopped}), "stopped by a signal: continue it with troupe signal PROCESS CONT"},
		{waits(protocol.Wait{For: protocol.WaitEnd, InMs: 3000}), "ending: SIGKILL in 3s"},
		{waits(protocol.Wait{For: protocol.WaitEnd}), "ending"},
		{waits(protocol.Wait{For: protocol.WaitReady, Reason: "tcp 127.0.0.1:8080"}), "not ready yet: tcp 127.0.0.1:8080"},
		{waits(protocol.Wait{For: protocol.WaitBackoff, InMs: 3000, Reason: "exit code 1"}), "restarts in 3s (exit code 1)"},
		{waits(protocol.Wait{For: protocol.WaitGroup}), "waits for its group"},
		{waits(protocol.Wait{For: protocol.WaitGroup, InMs: 1 << 63}), "group restarts in 101806d"},
		{waits(protocol.Wait{For: protocol.WaitStart}), "starting"},
		{waits(protocol.Wait{For: "moon"}), "waits for moon"},
		{ended(waits(protocol.Wait{For: protocol.WaitDescendants}), protocol.ExitStatus{}), "exit code 0; descendants hold its output"},
		{ended(waits(), protocol.ExitStatus{ExitCode: 3}), "exit code 3"},
		{ended(waits(), protocol.ExitStatus{ExitCode: 137, Signal: "SIGKILL", OOMKilled: true}), "SIGKILL, out of memory"},
		{ended(waits(), protocol.ExitStatus{ExitCode: 143, Signal: "SIGTERM", TimedOut: true, Reason: "timeoutMs is over"}), "SIGTERM, timed out (timeoutMs is over)"},
		{waits(), ""},
	} {
		if got := Quiet(&c.p); got != c.want {
			t.Errorf("%+v: %q, want %q", c.p.WaitsFor, got, c.want)
		}
	}
}

func TestLeft(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	for _, c := range []struct {
		s    protocol.SessionSummary
		want string
	}{
		{protocol.SessionSummary{State: protocol.SessionAttached}, ""},
		{protocol.SessionSummary{DetachedAtMs: now.UnixMilli() - 61_000, EndsAtMs: now.UnixMilli() + 9000}, ""}, // it closed its connection
		{protocol.SessionSummary{DetachedAtMs: now.UnixMilli() - 61_000, Left: "detached"}, "client left 1m ago: detached"},
		{protocol.SessionSummary{DetachedAtMs: now.UnixMilli() - 61_000, EndsAtMs: now.UnixMilli() + 9000, Left: "lost"}, "client left 1m ago: lost; session ends in 9s unless somebody attaches"},
	} {
		if got := Left(&c.s, nil, now); got != c.want {
			t.Errorf("%+v: %q, want %q", c.s, got, c.want)
		}
	}
	ended := &protocol.ProcessInfo{State: string(protocol.StateClosed)}
	if got := Left(&protocol.SessionSummary{Left: "detached"}, ended, now); got != "" {
		t.Errorf("of an ended process: %q", got)
	}
	if got := Join("a", "") + Join("", "b") + Join("c", "d"); got != "abc; d" {
		t.Error(got)
	}
}

// A process has failed if its last run has, unless somebody has asked for the end.
func TestState(t *testing.T) {
	for want, c := range map[string]struct {
		state string
		last  *protocol.ExitStatus
	}{
		"running": {"running", &protocol.ExitStatus{ExitCode: 1}}, "exited": {"exited", &protocol.ExitStatus{ExitCode: 1}},
		"ended": {"closed", nil}, "ended ": {"closed", &protocol.ExitStatus{}}, "ended  ": {"closed", &protocol.ExitStatus{ExitCode: 143, Signal: "SIGTERM", Reason: "terminated by request"}},
		"failed": {"closed", &protocol.ExitStatus{ExitCode: 4}}, "failed ": {"left", &protocol.ExitStatus{ExitCode: 137, Reason: "no output for 5s"}},
	} {
		if got := State(c.state, c.last); got != strings.TrimSpace(want) {
			t.Errorf("%s after %+v: %q, want %q", c.state, c.last, got, want)
		}
	}
}
