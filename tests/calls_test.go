package tests

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/internal/stream"
)

// TestManyProcesses: far more processes than run at once, each with an end of its own.
func TestManyProcesses(t *testing.T) {
	t.Parallel()
	n := 2000
	if testing.Short() {
		n = 200
	}
	s := startServer(t)
	c := s.session(nil)
	callAll(c, "process/start", n, func(i int) obj {
		return startParams(nth("p", i), obj{"argv": sh(fmt.Sprintf("echo %d; exit %d", i, i%100))})
	})
	for i := range n {
		if code, stdout := c.process(nth("p", i)).awaitClosed(); code != int64(i%100) || stdout != fmt.Sprintln(i) {
			t.Fatalf("process %d: exit code %d and output %q, want %d and its number", i, code, stdout, i%100)
		}
	}
	listed := map[any]bool{}
	for _, info := range c.call("process/list", obj{})["processes"].([]any) {
		info := info.(obj)
		listed[info["processId"]] = true
		if info["state"] != "closed" {
			t.Errorf("process/list: %s, want closed", jsonText(info))
		}
	}
	if len(listed) != n {
		t.Errorf("process/list names %d processes, want %d", len(listed), n)
	}
}

// TestWait: a wait is answered by the exit, by its own timeout, and at once when
// there is nothing to wait for.
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

// TestReadMuch: what does not fit into one answer comes with the next.
func TestReadMuch(t *testing.T) {
	t.Parallel()
	const size = 9 << 20 // one answer has 8 MiB at most
	c := startServer(t).session(nil)
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

// TestTimeout: timeoutMs ends a process with all that it started, after as much
// grace as killGraceMs allows.
func TestTimeout(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(nil)
	for _, test := range []struct {
		name, script string
		params       obj
		code         int64
		signal       any
		output       string
	}{
		{name: "at once", script: `trap 'echo polite; exit 0' TERM; (sleep $0 &); (setsid sleep $0 &); sleep $0 & wait`, params: obj{"killGraceMs": 0}, code: 137, signal: "SIGKILL"},
		{name: "terminal", script: `(sleep $0 &); sleep $0`, params: obj{"tty": true, "killGraceMs": 0}, code: 137, signal: "SIGKILL"},
		{name: "with grace", script: `trap 'echo polite; exit 9' TERM; sleep $0 & wait`, params: obj{"killGraceMs": 3_600_000}, code: 9, output: "polite\n"},
		{name: "grace used up", script: `trap '' TERM; sleep $0`, params: obj{"killGraceMs": 1}, code: 137, signal: "SIGKILL"},
	} {
		token := newToken(t)
		params := obj{"argv": []string{"/bin/sh", "-c", test.script, token}, "timeoutMs": 300}
		for k, v := range test.params {
			params[k] = v
		}
		p := c.start(test.name, params)
		exited := p.awaitExit()
		if exited["timedOut"] != true || num(exited["exitCode"]) != test.code || exited["signal"] != test.signal {
			t.Errorf("%s: %s, want timedOut, exit code %d, signal %v", test.name, jsonText(exited), test.code, test.signal)
		}
		if test.signal == nil {
			c.call("process/terminate", obj{"processId": p.id, "tree": true}) // polite ones may leave children
		}
		if _, stdout := p.awaitClosed(); stdout != test.output {
			t.Errorf("%s: output %q, want %q", test.name, stdout, test.output)
		}
		awaitNoKin(t, token)
	}
	if exited := c.start("in time", obj{"argv": sh("exit 2"), "timeoutMs": 3_600_000}).awaitExit(); num(exited["exitCode"]) != 2 || exited["timedOut"] != nil {
		t.Errorf("in time: %s, want exit code 2 and no timedOut", jsonText(exited))
	}
}

// TestTerminateWithGrace: SIGTERM first, and SIGKILL for who does not listen.
func TestTerminateWithGrace(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(nil)
	polite := c.start("polite", obj{"argv": sh(`trap 'exit 6' TERM; echo up; while :; do sleep 0.01; done`)})
	deaf := c.start("deaf", obj{"argv": sh(`trap '' TERM; echo up; while :; do sleep 0.01; done`)})
	for p, grace := range map[*proc]int{polite: 3_600_000, deaf: 1} {
		p.awaitOutput("stdout", "up")
		if result := c.call("process/terminate", obj{"processId": p.id, "graceMs": grace}); result["running"] != true {
			t.Errorf("terminate %q: %v, want running true", p.id, result)
		}
	}
	for p, want := range map[*proc]int64{polite: 6, deaf: 137} {
		if code, _ := p.awaitClosed(); code != want {
			t.Errorf("%s: exit code %d, want %d", p.id, code, want)
		}
	}
}

// TestSignals sends each signal by its name to a program that says which it got,
// and to one that handles none.
func TestSignals(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(nil)
	// dash, and not bash, which loses a trap now and then (5.2, between fork and wait).
	handler := `for s in INT TERM HUP QUIT USR1 USR2 WINCH CONT; do trap "echo got $s" $s; done; echo up; while :; do sleep 0.01; done`
	handles := c.start("handles", obj{"argv": sh(handler)})
	handles.awaitOutput("stdout", "up")
	for _, test := range []struct {
		name, short string
		exit        int64 // of one that does not handle it
	}{
		{"interrupt", "INT", 130}, {"terminate", "TERM", 143}, {"hangup", "HUP", 129}, {"quit", "QUIT", 131},
		{"usr1", "USR1", 138}, {"usr2", "USR2", 140}, {"winch", "WINCH", 0}, {"kill", "", 137},
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

	// Stopped is not ended, and what continues goes on. (Not a shell: while it is in
	// vfork its own state is another.)
	p := c.start("stopped", obj{"argv": []string{"/bin/sleep", newToken(t)}})
	pid := p.pid()
	c.call("process/signal", obj{"processId": "stopped", "signal": "stop"})
	eventually(t, "the process is stopped", func() bool { return state(pid) == "T" })
	c.call("process/signal", obj{"processId": "stopped", "signal": "continue"})
	eventually(t, "the process goes on", func() bool { return state(pid) == "S" })
	c.call("process/signal", obj{"processId": "handles", "signal": "continue"})
	handles.awaitOutput("stdout", "got CONT\n")

	if code, _ := c.callError("process/signal", obj{"processId": "handles", "signal": "SIGINT"}); code != -32602 {
		t.Errorf("an unknown name of a signal: code %d, want -32602", code)
	}
}

// state is the letter of a process's state in /proc, "" if there is none.
func state(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	return string(stat[bytes.LastIndexByte(stat, ')')+2])
}

// TestResize: the program is told, and finds the new size.
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

	for name, params := range map[string]obj{
		"no rows":       {"processId": "p", "size": obj{"rows": 0, "cols": 80}},
		"too many rows": {"processId": "p", "size": obj{"rows": 65536, "cols": 80}},
		"no size":       {"processId": "p"},
	} {
		if code, text := c.callError("process/resize", params); code != -32602 {
			t.Errorf("%s: code %d, %s; want -32602", name, code, text)
		}
	}
	c.start("pipe", obj{"argv": []string{"/bin/cat"}, "pipeStdin": true})
	if code, text := c.callError("process/resize", obj{"processId": "pipe", "size": obj{"rows": 1, "cols": 1}}); code != -32600 {
		t.Errorf("a process without a terminal: code %d, %s; want -32600", code, text)
	}
}

// TestCloseStdin: what was written comes first, then the end of the input.
func TestCloseStdin(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(nil)
	pipe := c.start("pipe", obj{"argv": sh("wc -c; exit 3"), "pipeStdin": true})
	data := strings.Repeat("x", 200_000)
	var ids []int64
	var again obj
	for range 3 { // in flight together: order is kept
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

	// A terminal has no end: the program reads ^D, within a line as at its start.
	for _, line := range []string{"whole\n", "half"} {
		pty := c.start(line, obj{"argv": sh("cat; exit 4"), "tty": true})
		pty.write(line)
		c.call("process/closeStdin", obj{"processId": line})
		if code, _ := pty.awaitClosed(); code != 4 {
			t.Errorf("a terminal whose input ends after %q: exit code %d, want 4", line, code)
		}
		if result := c.call("process/write", pty.writeParams("late")); result["status"] != "stdinClosed" {
			t.Errorf("a write after the end: %v, want stdinClosed", result)
		}
	}
}

// TestListDescribes: process/list tells of each process what it is and how it goes.
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
