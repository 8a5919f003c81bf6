package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/hangfs"
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

// TestCredentialsReachNoProgram: the table of the peer has process/start, process/spawn and command/exec. This
// test has the programs of ours: members of groups, probes, and programs of troupe run.
func TestCredentialsReachNoProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() // removed after the end of the server, whose probe writes here
	credentials := []string{"TROUPE_TOKEN=mute", "troupe_shared_secret=mute", "NODE_REPL_AUTH_TOKEN=mute"}
	s := startServerWith(t, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, credentials...) })
	c := s.session(nil)
	look := func(file string) []string {
		return sh(fmt.Sprintf("env > %s/%s.new && mv %[1]s/%[2]s.new %[1]s/%[2]s", dir, file))
	}
	env := obj{"PATH": os.Getenv("PATH"), "TROUPE_TOKEN_FILE": "mute", "TROUPE_URL": "kept"}
	all := obj{"inherit": "all", "ignoreDefaultExcludes": true, "exclude": []string{}, "set": obj{}, "includeOnly": []string{}}
	c.start("probed", obj{"argv": sh("exec sleep 1000"), "env": env, "envPolicy": all, "liveness": obj{"probe": obj{"argv": look("probe"), "everyMs": 1}}})
	member := startParams("member", obj{"argv": look("member"), "env": env, "envPolicy": all})
	c.call("group/start", obj{"groupId": "g", "strategy": "one_for_one", "processes": []obj{member}})
	for _, file := range []string{"probe", "member"} {
		var text []byte
		eventually(t, "the environment of a "+file, func() (ok bool) {
			text, _ = os.ReadFile(filepath.Join(dir, file))
			return text != nil
		})
		if got := string(text); strings.Contains(got, "mute") || !strings.Contains(got, "TROUPE_URL=kept\n") {
			t.Errorf("the environment of a %s: %s", file, got)
		}
	}
	bin, err := troupeBinary()
	if err != nil {
		t.Fatal(err)
	}
	run := exec.Command(bin, "run", "--here", "--env", "NODE_REPL_AUTH_TOKEN=mute", "--env", "TROUPE_URL=kept", "--", "env")
	run.Env = append(os.Environ(), credentials...)
	if out, err := run.Output(); err != nil || strings.Contains(string(out), "mute") || !strings.Contains(string(out), "TROUPE_URL=kept\n") {
		t.Errorf("troupe run: %v, %s", err, out)
	}
}

// TestForkedChildIsHidden: until a child executes its program, its memory and environment are those of
// the server. Another program of the same user cannot read these either.
func TestForkedChildIsHidden(t *testing.T) {
	t.Parallel()
	fs := hangfs.Mount(t, map[string]string{"prog": "#!/bin/sh\n"})
	if err := os.Chmod(filepath.Dir(fs.Dir), 0o755); err != nil {
		t.Fatal(err)
	}
	s := startOrdinary(t, openDir(t))
	t.Cleanup(fs.Free) // before the wait for the server's end
	c := s.session(nil)
	fs.Hang(hangfs.Open)
	c.request("process/start", startParams("hangs", obj{"argv": []string{fs.Path("prog")}}))
	server := s.cmd.Process.Pid
	var child string
	eventually(t, "the child hangs in its exec", func() bool {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", server))
		for _, list := range lists {
			text, _ := os.ReadFile(list)
			for pid := range strings.FieldsSeq(string(text)) {
				if child = pid; child != fmt.Sprint(s.pid()) {
					return fs.Hanging() > 0
				}
			}
		}
		return false
	})
	if exe, err := os.Readlink("/proc/" + child + "/exe"); err != nil || filepath.Base(exe) != filepath.Base(s.cmd.Path) {
		t.Fatalf("process %s is %s already: %v", child, exe, err)
	}
	for _, file := range []string{"environ", "mem", "maps"} {
		if code, _ := c.start(file, obj{"argv": sh("exec head -c 1 /proc/" + child + "/" + file)}).awaitClosed(); code == 0 {
			t.Errorf("a program has read %s of process %s, which is a copy of the server", file, child)
		}
	}
	if code, out := c.start("own", obj{"argv": sh("exec head -c 1 /proc/$PPID/environ")}).awaitClosed(); code == 0 {
		t.Errorf("a program has read the environment of the server: %s", out)
	}
}
