package tests

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// restarted has the capability required for process/restarted.
var restarted = obj{"capabilities": obj{"restarted": true, "gap": true}}

func restart(policy string, restarts int) obj {
	return obj{"policy": policy, "backoff": obj{"initialMs": 1, "maxMs": 4}, "intensity": obj{"restarts": restarts}}
}

// TestRestartPolicies runs real processes with every policy and every kind of end, and checks the order
// of the events. Two restarts are allowed.
func TestRestartPolicies(t *testing.T) {
	t.Parallel()
	const once, given = "exited, closed", "exited, restarted 2, exited, restarted 3, exited, evicted, closed"
	type end struct {
		name, script string
		params       obj
		status       string // of each run
		failed       bool
	}
	ends := []end{
		{"success", "exit 0", nil, "0", false},
		{"failure", "exit 1", nil, "1", true},
		{"killed", "kill -KILL $$", nil, "137 SIGKILL", true}, // also as the kernel kills because of a lack of memory
		{"timeout", "sleep 1000", obj{"timeoutMs": 20}, "143 SIGTERM timed out", true},
		{"not ready", "sleep 1000", obj{"ready": obj{"file": "file:///no/such/file", "timeoutMs": 20}}, "143 SIGTERM", true},
		{"silent", "sleep 1000", obj{"liveness": obj{"silenceMs": 20}}, "143 SIGTERM", true},
	}
	c := startServer(t).session(restarted)
	type row struct {
		*proc
		policy string
		end    end
	}
	var rows []row
	for _, policy := range []string{"temporary", "transient", "permanent"} {
		for _, end := range ends {
			for _, tty := range []bool{false, true} {
				if policy != "permanent" && (tty || end.failed && end.name != "failure" && end.name != "timeout") {
					continue // a terminal, or another kind of failure, changes how a run ends, not what a policy makes of the end
				}
				params := obj{"argv": sh(end.script), "tty": tty, "restart": restart(policy, 2)}
				maps.Copy(params, end.params)
				rows = append(rows, row{c.start(fmt.Sprintf("%s, %s, tty %v", policy, end.name, tty), params), policy, end})
			}
		}
	}
	for _, p := range rows {
		p.awaitClosed()
		want := once
		if p.policy == "permanent" || p.policy == "transient" && p.end.failed {
			want = given
		}
		if got := p.story(); got != want {
			t.Errorf("%s: %s, want %s", p.id, got, want)
		}
		for i, exited := range p.ends {
			if got := statusOf(exited); got != p.end.status || num(exited["run"]) != int64(i+1) {
				t.Errorf("%s: run %d ended with %s: %s, want %s", p.id, i+1, got, jsonText(exited), p.end.status)
			}
		}
		if reason, _ := p.evicted["reason"].(string); want == given && !strings.Contains(reason, "no more than 2 restarts") {
			t.Errorf("%s: evicted: %q, want a reason that says how many are allowed", p.id, reason)
		}
	}
}

// story returns the events of a process except its output.
func (p *proc) story() string {
	var told []string
	for i := range p.ends {
		told = append(told, "exited")
		if i < len(p.restarts) {
			told = append(told, fmt.Sprintf("restarted %v", p.restarts[i]["run"]))
		}
	}
	if p.evicted != nil {
		told = append(told, "evicted")
	}
	if p.closed {
		told = append(told, "closed")
	}
	return strings.Join(told, ", ")
}

func statusOf(exited obj) string {
	s := fmt.Sprint(exited["exitCode"])
	if signal, ok := exited["signal"]; ok {
		s += fmt.Sprintf(" %v", signal)
	}
	if exited["timedOut"] == true {
		s += " timed out"
	}
	return s
}

// countingScript returns a script that prints the number of its run and fails until the last run. Its
// argument is a file for the count.
func countingScript(runs int) string {
	return fmt.Sprintf(`n=$(cat $0); echo $((n+1)) >$0; echo "run $n"; [ $n = %d ] && exit 0; exit 1`, runs)
}

func counter(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runs")
	if err := os.WriteFile(path, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRestartsOverCuts: a viewer stays over 20 runs and 8 cuts, and sees a single sequence with every
// run in its place.
func TestRestartsOverCuts(t *testing.T) {
	t.Parallel()
	const runs, cuts = 20, 8
	s := startServer(t)
	c := s.session(restarted)
	p := c.start("p", obj{"argv": append(sh(countingScript(runs)), counter(t)), "restart": restart("transient", runs)})
	var stdout strings.Builder
	var ends, begun int
	last := int64(0)
	for cut := 0; ; cut++ {
		if cut < cuts {
			c.awaitFact("another run", func() bool { return p.closed || len(p.ends) > 0 })
			c.cutRST()
		} else {
			p.awaitClosed()
		}
		stdout.WriteString(p.outputSoFar("stdout"))
		ends, begun = ends+len(p.ends), begun+len(p.restarts)
		if p.first != 0 && p.first != last+1 {
			t.Fatalf("after seq %d came %d", last, p.first)
		}
		last = max(last, p.next-1)
		if p.closed {
			break
		}
		c = s.session(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"p": last}, "capabilities": restarted["capabilities"]})
		p = c.process("p")
	}
	var want strings.Builder
	for n := range runs {
		fmt.Fprintf(&want, "run %d\n", n+1)
	}
	if stdout.String() != want.String() || ends != runs || begun != runs-1 {
		t.Errorf("%d ends, %d restarts, stdout %q; want %d, %d and a line for each", ends, begun, stdout.String(), runs, runs-1)
	}
	again := s.session(obj{"resumeSessionId": c.sessionID, "takeover": true})
	if status := again.call("process/wait", obj{"processId": "p"})["status"].(obj); num(status["run"]) != runs || num(status["exitCode"]) != 0 {
		t.Errorf("wait: %s, want exit code 0 of run %d", jsonText(status), runs)
	}
}

// TestRestartStdin: input that the old run left unread is not given to the new run, and
// process/restarted says so. Input not yet accepted goes to the new run.
func TestRestartStdin(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(restarted)
	p := c.start("p", obj{"argv": sh(`head -n 1; exit 1`), "pipeStdin": true, "restart": restart("transient", 3)})
	// head reads everything in the pipe at once, but dd only the requested bytes.
	q := c.start("q", obj{"argv": sh(`dd bs=2 count=1 2>/dev/null; exit 1`), "pipeStdin": true, "restart": restart("transient", 3)})
	p.write("one\n")
	p.awaitOutput("stdout", "one\n")
	q.write("a\nbcd\n")
	c.awaitFact("a second run of each", func() bool { return len(p.restarts) == 1 && len(q.restarts) == 1 })
	if lost := num(q.restarts[0]["stdinLostBytes"]); lost != 4 {
		t.Errorf("%s: want 4 bytes of stdin lost", jsonText(q.restarts[0]))
	}
	if lost, said := p.restarts[0]["stdinLostBytes"]; said {
		t.Errorf("%v bytes of stdin lost, want none", lost)
	}
	q.write("e\n")
	if all := q.awaitOutput("stdout", "e\n"); all != "a\ne\n" {
		t.Errorf("stdout %q: what the first run left was given to the second", all)
	}
	// A repeated write has no effect, even if another run has begun.
	again := q.writeParams("f\n")
	for range 2 {
		c.awaitFact("the next run", func() bool { return len(q.restarts) >= 2 })
		if result := c.call("process/write", again); result["status"] != "accepted" {
			t.Errorf("write: %v", result)
		}
	}
	c.awaitFact("the last run", func() bool { return len(q.restarts) == 3 })
	if all := q.outputSoFar("stdout"); all != "a\ne\nf\n" {
		t.Errorf("stdout %q, want a, e and f", all)
	}
}

// TestRestartByRequest restarts a process by request in every state, and changes its policy.
func TestRestartByRequest(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(restarted)
	slow := obj{"policy": "permanent", "backoff": obj{"initialMs": 3_600_000}}
	waiting := func(id string) *proc {
		p := c.start(id, obj{"argv": append(sh(`echo "run $(cat $0)"; [ $(cat $0) = 2 ] && exec sleep 1000; echo 2 >$0`), counter(t)), "restart": slow})
		eventually(t, "its policy waits", func() bool { return describe(t, c, id)["state"] == "restarting" })
		return p
	}

	p := waiting("restarted")
	if info := describe(t, c, p.id); num(info["restartInMs"]) < 2_800_000 || num(info["run"]) != 1 || info["pid"] != nil {
		t.Errorf("it is listed as %s", jsonText(info))
	}
	c.call("process/restart", obj{"processId": p.id})
	p.awaitOutput("stdout", "run 2\n")
	c.call("process/setRestart", obj{"processId": p.id, "restart": restart("permanent", 100)})
	c.call("process/restart", obj{"processId": p.id}) // while the process runs
	p.awaitOutput("stdout", "run 2\nrun 2\n")
	if reason, _ := p.ends[1]["reason"].(string); !strings.Contains(reason, "request") {
		t.Errorf("it ended with %s, want a reason", jsonText(p.ends[1]))
	}
	syscall.Kill(p.pid(), syscall.SIGKILL) // under the new policy
	p.awaitOutput("stdout", "run 2\nrun 2\nrun 2\n")

	p = waiting("terminated")
	c.call("process/terminate", obj{"processId": p.id})
	p.awaitClosed()
	if got := p.story(); got != "exited, restarted 2, evicted, closed" && got != "exited, closed" {
		t.Errorf("terminated while it waited: %s", got)
	}
	if code, text := c.callError("process/restart", obj{"processId": p.id}); code != -32600 {
		t.Errorf("restart of what has ended: %d %s", code, text)
	}
	c.start("once", obj{"argv": sh("exit 0")})
	for _, method := range []string{"process/restart", "process/setRestart"} {
		if code, text := c.callError(method, obj{"processId": "once", "restart": slow}); code != -32600 || !strings.Contains(text, "without restart") {
			t.Errorf("%s of what was started without: %d %s", method, code, text)
		}
	}

	waiting("closed")
	c.call("session/close", obj{})
}

func describe(t *testing.T, c *conn, id string) obj {
	t.Helper()
	for _, info := range c.call("process/list", obj{})["processes"].([]any) {
		if info.(obj)["processId"] == id {
			return info.(obj)
		}
	}
	t.Fatalf("process %q is not listed", id)
	return nil
}

// TestRestartLeavesNothing: with any containment, the remaining programs of a run end before the next
// run begins, and those of the last run with the session.
func TestRestartLeavesNothing(t *testing.T) {
	t.Parallel()
	needs.Program(t, "pgrep")
	eachContainment(t, func(t *testing.T, containment string) {
		c := startServer(t, "--containment", containment).session(restarted)
		token := newToken(t)
		script := `echo "run with $(pgrep -fc "^sleep $1")"; setsid sleep $1 </dev/null >/dev/null 2>&1 & sleep $1 </dev/null >/dev/null 2>&1 & sleep 0.05; ` + countingScript(4)
		if containment == "group" { // cannot find a program that called setsid
			script = strings.Replace(script, "setsid sleep", "sleep", 1)
		}
		p := c.start("p", obj{"argv": append(sh(script), counter(t), token), "restart": restart("transient", 10)})
		_, stdout := p.awaitClosed()
		if strings.Contains(strings.ReplaceAll(stdout, "run with 0\n", ""), "with") || strings.Count(stdout, "run with 0\n") != 4 {
			t.Errorf("stdout %q: want 4 runs that find no process of an older one", stdout)
		}
		c.call("session/close", obj{})
		wantNoKin(t, "after session/close", token)
	})
}

// TestRestartFails: if a program cannot be started again, this counts as an end like any other.
func TestRestartFails(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(restarted)
	program := filepath.Join(t.TempDir(), "program")
	if err := writeProgram(program, []byte("#!/bin/sh\nrm $0; exit 1"), 0o700); err != nil {
		t.Fatal(err)
	}
	gone := c.start("gone", obj{"argv": []string{program}, "restart": restart("transient", 2)})
	gone.awaitClosed()
	if got := gone.story(); got != "exited, restarted 2, exited, restarted 3, exited, evicted, closed" || !strings.Contains(jsonText(gone.evicted), "no such program") {
		t.Errorf("%s, evicted %s, want the reason of the start", got, jsonText(gone.evicted))
	}
	for run, exited := range gone.ends[1:] {
		if num(exited["exitCode"]) != 127 || !strings.HasPrefix(fmt.Sprint(exited["reason"]), "it could not be started: no such program") || num(exited["run"]) != int64(run+2) {
			t.Errorf("a run that could not be started ended with %s", jsonText(exited))
		}
	}

	fatal := restart("permanent", 100)
	fatal["giveUp"] = obj{"exitCodes": []int{3}, "signals": []string{"SIGSEGV"}}
	p := c.start("fatal", obj{"argv": sh("exit 3"), "restart": fatal})
	p.awaitClosed()
	if got := p.story(); got != "exited, evicted, closed" {
		t.Error(got)
	}
}
