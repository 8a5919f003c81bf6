package actors_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
)

// A failed command costs its program only, and the client is told the end of the program.
func TestCommandFails(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.WithFaults(actors.Config{}, func(self *actor.PID, m any) {
		if _, ok := m.(actors.Delivery); ok && kindOf(self) == "command" {
			panic("injected")
		}
	}, nil))
	p := connect(t, troupe)
	p.open("")
	dir := t.TempDir()
	for _, test := range []struct{ name, method, params, end string }{
		{"spawn", "process/spawn", `"processHandle":"h","cwd":"/","command":%s,"streamStdoutStderr":true,"timeoutMs":null`, "process/exited"},
		{"first", "command/exec", `"argv":%s,"cwd":"/","env":{"PATH":"/usr/bin:/bin"},"tty":false`, "command/exec/exited"},
		{"exec", "command/exec", `"command":%s,"disableTimeout":true`, ""},
	} {
		file := filepath.Join(dir, test.name)
		argv := fmt.Sprintf(`["/bin/sh","-c","echo $$ > %[1]s.new; mv %[1]s.new %[1]s; echo x; exec sleep 1000"]`, file)
		answer := p.call(test.method, "{"+fmt.Sprintf(test.params, argv)+"}")
		if failed := answer.Error != nil; failed != (test.end == "") {
			t.Errorf("%s: answered with %s, %+v", test.name, answer.Result, answer.Error)
		}
		for m := answer; test.end != "" && m.Method != test.end; {
			var ok bool
			if m, ok = p.next(); !ok {
				t.Fatalf("%s: the connection has ended", test.name)
			}
			if m.Method == test.end && m.Params.ExitCode != -1 {
				t.Errorf("%s: exit code %d", test.name, m.Params.ExitCode)
			}
		}
		var pid int
		text, err := os.ReadFile(file)
		if fmt.Sscan(string(text), &pid); err != nil || pid == 0 {
			t.Fatalf("%s: pid %q, %v", test.name, text, err)
		}
		for deadline := time.Now().Add(limit); alive(pid); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: its program runs on", test.name)
			}
		}
	}
	p.start("a", "", "echo", "beside")
	if output, code := p.untilClosed("a", 0); output != "beside\n" || code != 0 {
		t.Errorf("beside: %q, %d", output, code)
	}
}
