package tests

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/internal/stream"
)

// TestWait: a wait is answered by the exit, by its own timeout, or at once after the exit.
func TestWait(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(nil)
	p := c.start("p", obj{"argv": sh("read x; exit 4"), "pipeStdin": true})
	for _, timeout := range []int{0, 20} {
		if result := c.call("process/wait", obj{"processId": "p", "timeoutMs": timeout}); result["exited"] != false || result["status"] != nil {
			t.Errorf("wait for %d ms while it runs: %s, want exited false and no status", timeout, jsonText(result))
		}
	}
	waiting := c.request("process/wait", obj{"processId": "p"})
	p.write("\n")
	for _, answer := range []obj{c.reply(waiting), c.reply(c.request("process/wait", obj{"processId": "p", "timeoutMs": 0}))} {
		result, _ := answer["result"].(obj)
		status, _ := result["status"].(obj)
		if result["exited"] != true || num(status["exitCode"]) != 4 {
			t.Errorf("wait: %s, want exited with 4", jsonText(answer))
		}
	}
}

// TestReadMuch: output too large for an answer comes with the next answer.
func TestReadMuch(t *testing.T) { onEveryWire(t, testReadMuch) }

func testReadMuch(t *testing.T, s *server) {
	const size = 9 << 20 // an answer has at most 8 MiB
	c := s.session(nil)
	p := c.start("p", streamProgram(t, obj{"retention": obj{"bytes": 32 << 20}}, "source", fmt.Sprint(size)))
	p.awaitClosed()
	if next := num(c.call("process/read", obj{"processId": "p", "maxBytes": 2 * size})["nextSeq"]); next >= p.lastSeq()-1 {
		t.Errorf("nextSeq %d: all of %d MiB came in one answer, as it was asked for", next, size>>20)
	}
	check, answers := stream.NewChecker(1), 0
	for after := int64(0); check.End() != nil; answers++ {
		result := c.call("process/read", obj{"processId": "p", "afterSeq": after})
		if next := num(result["nextSeq"]) - 1; next > after {
			after = next
		} else {
			t.Fatalf("nothing more comes after %d bytes: %v", check.Bytes(), check.End())
		}
		for _, chunk := range result["chunks"].([]any) {
			data, err := base64.StdEncoding.DecodeString(chunk.(obj)["chunk"].(string))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := check.Write(data); err != nil {
				t.Fatal(err)
			}
		}
	}
	if answers < 2 {
		t.Errorf("%d MiB came in one answer", size>>20)
	}
}

// TestSignals sends each signal by its name: to a program that prints the signal, and to a program
// without handlers.
func TestSignals(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(nil)
	// The shell is dash: bash 5.2 sometimes loses a trap between fork and wait.
	handler := `for s in INT TERM HUP QUIT USR1 USR2 WINCH PIPE CONT; do trap "echo got $s" $s; done; echo up; while :; do sleep 0.01; done`
	handles := c.start("handles", obj{"argv": sh(handler)})
	handles.awaitOutput("stdout", "up")
	for _, test := range []struct {
		name, short string
		exit        int64 // of a program without a handler
	}{
		{"interrupt", "INT", 130}, {"terminate", "TERM", 143}, {"hangup", "HUP", 129}, {"quit", "QUIT", 131},
		{"usr1", "USR1", 138}, {"usr2", "USR2", 140}, {"winch", "WINCH", 0}, {"pipe", "PIPE", 141}, {"kill", "", 137},
	} {
		if test.short != "" {
			c.call("process/signal", obj{"processId": "handles", "signal": test.name})
			handles.awaitOutput("stdout", "got "+test.short+"\n")
		}
		if test.exit == 0 {
			continue
		}
		for _, tty := range []bool{false, true} {
			id := fmt.Sprintf("%s, tty %v", test.name, tty)
			p := c.start(id, obj{"argv": []string{"/bin/sleep", newToken(t)}, "tty": tty})
			c.call("process/signal", obj{"processId": id, "signal": test.name})
			exited := p.awaitExit()
			if signal, _ := exited["signal"].(string); num(exited["exitCode"]) != test.exit || !strings.EqualFold(signal, "SIG"+test.short) && test.short != "" {
				t.Errorf("%s: %s, want exit code %d", id, jsonText(exited), test.exit)
			}
		}
	}

	// SIGSTOP does not end a program, and SIGCONT continues the program. The program is no shell:
	// during vfork a shell has another state.
	p := c.start("stopped", obj{"argv": []string{"/bin/sleep", newToken(t)}})
	pid := p.pid()
	c.call("process/signal", obj{"processId": "stopped", "signal": "stop"})
	eventually(t, "the process is stopped", func() bool { return state(pid) == "T" })
	c.call("process/signal", obj{"processId": "stopped", "signal": "continue"})
	eventually(t, "the process goes on", func() bool { return state(pid) == "S" })
	c.call("process/signal", obj{"processId": "handles", "signal": "continue"})
	handles.awaitOutput("stdout", "got CONT\n")

	if code, _ := c.callError("process/signal", obj{"processId": "handles", "signal": "SIGSEGV"}); code != -32602 {
		t.Errorf("an unknown name of a signal: code %d, want -32602", code)
	}
}

// state returns the letter of a process's state in /proc, or "".
func state(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	return string(stat[bytes.LastIndexByte(stat, ')')+2])
}

// TestResize: the program gets a signal, and then sees the new size.
func TestResize(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(nil)
	script := `trap 'stty size' WINCH; stty size; while :; do sleep 0.01; done`
	p := c.start("p", obj{"argv": sh(script), "tty": true, "size": obj{"rows": 11, "cols": 22}})
	p.awaitOutput("pty", "11 22\r\n")
	c.call("process/resize", obj{"processId": "p", "size": obj{"rows": 33, "cols": 44}})
	p.awaitOutput("pty", "33 44\r\n")
	unsized := c.start("unsized", obj{"argv": sh("stty size"), "tty": true})
	unsized.awaitOutput("pty", "24 80\r\n")

	c.start("pipe", obj{"argv": []string{"/bin/cat"}, "pipeStdin": true})
	if code, text := c.callError("process/resize", obj{"processId": "pipe", "size": obj{"rows": 1, "cols": 1}}); code != -32600 {
		t.Errorf("a process without a terminal: code %d, %s; want -32600", code, text)
	}
}

// TestCloseStdin: the program reads all written input, and then the end.
func TestCloseStdin(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(nil)
	pipe := c.start("pipe", obj{"argv": sh("wc -c; exit 3"), "pipeStdin": true})
	data := strings.Repeat("x", 200_000)
	var ids []int64
	var again obj
	for range 3 { // in flight together: the order stays
		again = pipe.writeParams(data)
		ids = append(ids, c.request("process/write", again))
	}
	c.call("process/closeStdin", obj{"processId": "pipe"})
	for _, id := range ids {
		if answer := c.reply(id); answer["result"].(obj)["status"] != "accepted" {
			t.Errorf("a write before the end: %s, want accepted", jsonText(answer))
		}
	}
	if result := c.call("process/write", pipe.writeParams("late")); result["status"] != "stdinClosed" {
		t.Errorf("a write after the end: %v, want stdinClosed", result)
	}
	if code, stdout := pipe.awaitClosed(); code != 3 || strings.TrimSpace(stdout) != "600000" {
		t.Errorf("the program exited with %d and had read %q bytes, want 3 and 600000", code, stdout)
	}
	if result := c.call("process/write", again); result["status"] != "accepted" {
		t.Errorf("an accepted write repeated after the end: %v, want accepted", result)
	}

}

// TestListDescribes: process/list describes each process and its state.
func TestListDescribes(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(nil)
	running := c.start("running", obj{"argv": []string{"/bin/cat"}, "pipeStdin": true, "cwd": "file:///usr"})
	running.write("hello")
	running.awaitOutput("stdout", "hello")
	c.start("ended", obj{"argv": sh("exit 7"), "tty": true}).awaitClosed()
	var ids []string
	for _, info := range c.call("process/list", obj{})["processes"].([]any) {
		info := info.(obj)
		ids = append(ids, info["processId"].(string))
		status, _ := info["status"].(obj)
		switch info["processId"] {
		case "running":
			if info["state"] != "running" || !alive(int(num(info["pid"]))) || info["cwd"] != "file:///usr" || info["tty"] != false || num(info["nextSeq"]) != 2 || status != nil {
				t.Errorf("running: %s", jsonText(info))
			}
		case "ended":
			if info["state"] != "closed" || info["tty"] != true || num(status["exitCode"]) != 7 || num(info["firstSeq"]) != 1 || num(info["nextSeq"]) != 3 {
				t.Errorf("ended: %s", jsonText(info))
			}
		}
	}
	slices.Sort(ids)
	if !slices.Equal(ids, []string{"ended", "running"}) {
		t.Errorf("process/list names %v", ids)
	}
}

// TestGraceAndTree: when the program ends, its grace ends, and the remaining processes are killed at
// once: with tree all descendants, without tree the process group.
func TestGraceAndTree(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(nil)
	const (
		// The sleeper has its own session: only the kill of a tree finds the sleeper.
		polite = `trap 'exit 6' TERM; setsid sleep $0 & wait`
		deaf   = `trap '' TERM; setsid sleep $0 & while :; do sleep 0.01; done`
		hour   = 3_600_000
	)
	for _, test := range []struct {
		name, script string
		params       obj   // of the start
		terminate    obj   // nil: the timeout ends the process
		code         int64 // 0: SIGTERM may come before the script traps it
		left         int   // sleepers
	}{
		{name: "terminate with tree, in time", script: polite, terminate: obj{"graceMs": hour, "tree": true}, code: 6},
		{name: "terminate with tree, too late", script: deaf, terminate: obj{"graceMs": 1, "tree": true}, code: 137},
		{name: "terminate with tree, without grace", script: polite, terminate: obj{"graceMs": 0, "tree": true}, code: 137},
		{name: "timeout, in time", script: polite, params: obj{"timeoutMs": 500, "killGraceMs": hour}},
		{name: "timeout, too late", script: deaf, params: obj{"timeoutMs": 500, "killGraceMs": 1}},
		{name: "terminate without tree, in time", script: polite, terminate: obj{"graceMs": hour}, code: 6, left: 1},
		{name: "terminate without tree, too late", script: deaf, terminate: obj{"graceMs": 1}, code: 137, left: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			token := newToken(t)
			params := obj{"argv": []string{"/bin/sh", "-c", test.script, token}}
			maps.Copy(params, test.params)
			p := c.start(test.name, params)
			if test.terminate != nil {
				eventually(t, "the sleeper sleeps", func() bool { return sleepers(token) == 1 })
				test.terminate["processId"] = p.id
				c.call("process/terminate", test.terminate)
			}
			code, _ := p.awaitClosed()
			if test.code != 0 && code != test.code || (p.exited["timedOut"] == true) != (test.terminate == nil) {
				t.Errorf("it ended with %s, want exit code %d", jsonText(p.exited), test.code)
			}
			if test.left == 0 {
				awaitNoKin(t, token)
				return
			}
			if n := sleepers(token); n != test.left {
				t.Errorf("%d of the tree are left, want %d", n, test.left)
			}
			c.call("process/terminate", obj{"processId": p.id, "tree": true})
			awaitNoKin(t, token)
		})
	}
}

// TestTerminateWhatHasEnded: process/terminate does not count as the cause if the program has ended by
// itself, even if the exit waits after unread output.
func TestTerminateWhatHasEnded(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(nil)
	witness := s.observe(c.sessionID, nil)
	// The output is larger than the retention, and the rest fits into the pipe.
	const retention, size = 64 << 10, 96 << 10
	gated, open := behindGate(t, obj{
		"argv":      []string{"/usr/bin/head", "-c", fmt.Sprint(size), "/dev/zero"},
		"retention": obj{"bytes": retention},
	}, ":")
	pid := c.start("p", gated).pid()
	c.cutRST()
	eventually(t, "the owner is away", func() bool { return witness.call("session/info", obj{})["attached"] == false })
	open()
	eventually(t, "the program has ended", func() bool { return !alive(pid) })
	c = s.session(obj{"resumeSessionId": c.sessionID}) // without resumeFrom, the server keeps the missed output
	if result := c.call("process/terminate", obj{"processId": "p"}); result["running"] != false {
		t.Errorf("terminate: %s, want running false", jsonText(result))
	}
	if info := c.call("process/info", obj{"processId": "p"}); info["state"] != "draining" {
		t.Fatalf("info: %s: the exit is not behind output, and this tests nothing", jsonText(info))
	}
	if result := c.call("process/wait", obj{"processId": "p"}); result["exited"] != true || result["closed"] != false || num(result["status"].(obj)["exitCode"]) != 0 {
		t.Errorf("wait: %s, want the exit before its output is read", jsonText(result))
	}
	// Each read makes room for more of the output. The exit comes after all of it.
	ended := func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.proc("p").exited != nil }
	for after := int64(0); !ended(); {
		after = num(c.call("process/read", obj{"processId": "p", "afterSeq": after, "waitMs": 100})["nextSeq"]) - 1
	}
	exited := c.process("p").awaitExit()
	if exited["reason"] != nil || num(exited["exitCode"]) != 0 {
		t.Errorf("%s, want exit code 0 and no reason of ours", jsonText(exited))
	}
}

// TestMergeStderr: with mergeStderr both streams are a single stream, in the order of the writes, with
// a descriptor less. Restarts keep the setting.
func TestMergeStderr(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(knowing)
	want := ""
	for i := range 200 {
		want += fmt.Sprintf("out %d\nerr %d\n", i, i)
	}
	p := c.start("p", obj{"argv": sh(`i=0; while [ $i -lt 200 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done`), "mergeStderr": true, "restart": restart("permanent", 1)})
	p.awaitClosed()
	if got := p.output("stdout"); got != want+want {
		t.Errorf("%.300q, want the lines of both streams in turn, twice", got)
	}
	if got := p.output("stderr"); got != "" {
		t.Errorf("as stderr came %.300q", got)
	}

	const n = 40
	token := newToken(t)
	start := func(id string, merge bool) {
		startAll(c, id, n, obj{"argv": []string{"/bin/sleep", token}, "mergeStderr": merge})
	}
	none := s.openFiles()
	start("apart", false)
	apart := s.openFiles()
	start("merged", true)
	// Other descriptors are open for a moment.
	eventually(t, fmt.Sprintf("%d processes with one stream have %d files less than with two (%d and %d were open before)", n, n, none, apart), func() bool {
		return apart-none-(s.openFiles()-apart) >= n*9/10
	})
	c.call("session/close", obj{})
	wantNoKin(t, "after session/close", token)
}
