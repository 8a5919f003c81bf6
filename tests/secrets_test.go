package tests

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// TestSecrets: programs get no secret of the server, unless a client passes the secret on.
func TestSecrets(t *testing.T) {
	t.Parallel()
	secrets := func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, "DB_PASSWORD=hush", "DATABASE_URL=hush", "MYSQL_PWD=hush", "PWD=/", "PASSAGE=way")
	}
	s := startServerWith(t, secrets)
	c := s.session(nil)
	for i, policy := range []obj{
		{"inherit": "all", "ignoreDefaultExcludes": false, "exclude": []string{}, "set": obj{}, "includeOnly": []string{}},
		{"inherit": "all", "ignoreDefaultExcludes": true, "exclude": []string{}, "set": obj{}, "includeOnly": []string{}},
	} {
		_, out := c.start(nth("env", i), obj{"argv": []string{"/usr/bin/env"}, "env": obj{"MY_TOKEN": "given"}, "envPolicy": policy}).awaitClosed()
		if n := strings.Count(out, "hush"); n != 4*i || !strings.Contains(out, "MY_TOKEN=given") || !strings.Contains(out, "PWD=/\n") || !strings.Contains(out, "PASSAGE=way") {
			t.Errorf("with %v: %s", policy, out)
		}
	}
	out := fmt.Sprint(c.call("command/exec", obj{"command": []string{"/usr/bin/env"}, "env": obj{"MY_TOKEN": "given"}})["stdout"])
	if strings.Contains(out, "hush") || !strings.Contains(out, "MY_TOKEN=given") || !strings.Contains(out, "EDITOR=ed") {
		t.Errorf("command/exec: %s", out)
	}
}

// TestServerIsHidden: a program of the same user cannot look into the server, and the server works as
// usual.
func TestServerIsHidden(t *testing.T) {
	s := startAsNobody(t, openDir(t), "--verbose")
	c := s.session(nil)
	pid := s.cmd.Process.Pid
	for _, file := range []string{"environ", "mem", "fd", "maps"} {
		code, _ := c.start(file, obj{"argv": sh(fmt.Sprintf("exec head -c 1 /proc/%d/%s", pid, file))}).awaitClosed()
		if file == "fd" {
			code, _ = c.start("ls", obj{"argv": sh(fmt.Sprintf("exec ls /proc/%d/fd", pid))}).awaitClosed()
		}
		if code == 0 {
			t.Errorf("a program has read %s of the server", file)
		}
	}
	if _, out := c.start("self", obj{"argv": sh("cat /proc/self/environ | wc -c; id -u")}).awaitClosed(); !strings.Contains(out, fmt.Sprint(nobody)) || strings.HasPrefix(out, "0\n") {
		t.Errorf("a program about itself: %s", out)
	}
	limits := obj{"nofile": 77}
	if _, out := c.start("limits", obj{"argv": sh("ulimit -n"), "limits": limits, "tty": false}).awaitClosed(); out != "77\n" {
		t.Errorf("with limits: %q", out)
	}
	c.call("session/close", obj{})
	if log := s.stderr.String(); strings.Contains(log, "each start copies") || strings.Contains(log, "can read the server's") {
		t.Errorf("the server lacks something:\n%s", log)
	}
}
