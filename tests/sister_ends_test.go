package tests

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestCommandBackground: background programs of a command go on until the connection ends, even if they
// hold no output open. A command without background programs leaves no session.
func TestCommandBackground(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c, other := s.session(nil), s.session(nil)
	const script = "sleep 1000 </dev/null >/dev/null 2>&1 & echo $!"
	var pids []int
	pidIn := func(out any) {
		pid, err := strconv.Atoi(strings.TrimSpace(fmt.Sprint(out)))
		if err != nil {
			t.Fatal(out)
		}
		pids = append(pids, pid)
	}
	pidIn(c.call("command/exec", obj{"command": sh(script)})["stdout"])
	c.spawn("p", obj{"command": sh(script)})
	pidIn(c.spawnExited("p")["stdout"])
	for range 10 {
		c.call("command/exec", obj{"command": sh("true")})
	}
	eventually(t, "the sessions of those that left nothing to end", func() bool { return num(other.call("server/info", obj{})["sessions"]) == 4 })
	for _, pid := range pids {
		if !alive(pid) {
			t.Errorf("%d has ended", pid)
		}
	}
	c.hangUp()
	for _, pid := range pids {
		eventually(t, "what was left behind to end with the connection", func() bool { return !alive(pid) })
	}
	eventually(t, "their sessions to end", func() bool { return num(other.call("server/info", obj{})["sessions"]) <= 2 })
}

// TestCommandNameIsTakenUntilItsEnd: a name is taken until the end was reported, so the next command
// with this name is never confused with the old command.
func TestCommandNameIsTakenUntilItsEnd(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(nil)
	c.mutePongs.Store(true)
	const size = 512 << 10 // the window
	c.spawn("b", obj{"command": sh(atOnce(size) + "; exit 3"), "streamStdoutStderr": true})
	c.awaitDeltas(size)
	eventually(t, "the command to be gone", func() bool { return num(c.call("server/info", obj{})["sessions"]) == 1 })
	if !c.hasOther("process/exited", "processHandle", "b") {
		c.wantAnswers([]answerRow{
			{"process/spawn", obj{"processHandle": "b", "cwd": "/", "command": sh("true")}, `-32600 duplicate active process handle: "b"`},
			{"process/kill", obj{"processHandle": "b"}, `-32600 no active process for process handle "b"`},
		})
	}
	c.unmute()
	if e := c.spawnExited("b"); num(e["exitCode"]) != 3 {
		t.Errorf("the end: %s", jsonText(e))
	}
	c.spawn("b", obj{"command": sh("true")})
}

// TestCommandStdinIsClosedOnce: after the client has closed stdin, writes are refused, and the program
// goes on.
func TestCommandStdinIsClosedOnce(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(nil)
	c.spawn("p", obj{"command": sh("cat; echo done; exec sleep 1000"), "streamStdin": true, "streamStdoutStderr": true, "timeoutMs": nil})
	exec := c.request("command/exec", obj{"command": sh("cat; exec sleep 1000"), "processId": "e", "streamStdin": true, "disableTimeout": true})
	c.wantAnswers([]answerRow{
		{"process/writeStdin", obj{"processHandle": "p", "deltaBase64": "eA==", "closeStdin": true}, `{}`},
		{"process/writeStdin", obj{"processHandle": "p", "deltaBase64": "eA=="}, "-32600 stdin is already closed"},
		{"process/writeStdin", obj{"processHandle": "p", "closeStdin": true}, `{}`},
		{"command/exec/write", obj{"processId": "e", "closeStdin": true}, `{}`},
		{"command/exec/write", obj{"processId": "e", "deltaBase64": ""}, "-32600 stdin is already closed"},
		{"command/exec/terminate", obj{"processId": "e"}, `{}`},
	})
	c.reply(exec)
	c.awaitDelta("p", "xdone")
	c.wantAnswers([]answerRow{{"process/kill", obj{"processHandle": "p"}, `{}`}})
	c.spawnExited("p")
}

// TestCommandsHaveTheirGrace: a stopping server gives commands the same grace as other programs.
func TestCommandsHaveTheirGrace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServer(t, "--kill-grace", "1m")
	c := s.session(nil)
	script := func(name string) []string {
		return sh(fmt.Sprintf(`trap 'sleep 0.1; touch %[1]s.end; exit 0' TERM; touch %[1]s; while :; do sleep 0.01; done`, dir+"/"+name))
	}
	c.spawn("p", obj{"command": script("spawn"), "timeoutMs": nil})
	c.request("command/exec", obj{"command": script("exec"), "disableTimeout": true})
	for _, name := range []string{"spawn", "exec"} {
		eventually(t, name, func() bool { _, err := os.Stat(dir + "/" + name); return err == nil })
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.exitCode()
	for _, name := range []string{"spawn", "exec"} {
		if _, err := os.Stat(dir + "/" + name + ".end"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCommandRefusals: a start is refused if the server does not understand the sandbox that is requested.
func TestCommandRefusals(t *testing.T) {
	t.Parallel()
	startServer(t).session(nil).wantAnswers([]answerRow{
		{"command/exec", obj{"command": sh("true"), "sandboxPolicy": obj{"type": "read-only"}}, "~-32602 unknown variant `read-only`"},
		{"command/exec", obj{"command": sh("true"), "sandboxPolicy": obj{"type": "readOnly", "tYpe": "dangerFullAccess"}}, "~-32602 unknown field `tYpe`"},
		{"command/exec", obj{"command": sh("true"), "sandboxPolicy": obj{"type": "readOnly", "denyReadPaths": []string{"/"}}}, "~-32602 unknown field `denyReadPaths`"},
		{"command/exec", obj{"command": sh("true"), "permissionProfile": ":mine"}, "~-32602 permissionProfile \":mine\" is not supported"},
		{"command/exec", obj{"command": sh("true"), "sandboxPolicy": obj{"type": "dangerFullAccess"}}, `{"exitCode":0,"stderr":"","stdout":""}`},
	})
}
