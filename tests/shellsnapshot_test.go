package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// snapshotHome returns a home with a .bashrc that counts its runs in the file captures, and then runs text.
func snapshotHome(t *testing.T, text string) (home string) {
	home = t.TempDir()
	if err := os.WriteFile(home+"/.bashrc", []byte("printf x >>$HOME/captures\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return home
}

// fromSnapshot are params of a command that starts from the state of bash.
func fromSnapshot(home, command string) obj {
	return obj{
		"argv": []string{"/bin/bash", "-lc", command}, "cwd": "file://" + home, "env": obj{"HOME": home, "PATH": "/usr/bin:/bin"},
		"shellSnapshot": obj{"scopeId": "s", "shell": obj{"name": "bash", "path": "/bin/bash"}},
	}
}

func captures(t *testing.T, home string) string {
	text, err := os.ReadFile(filepath.Join(home, "captures"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The end of a session ends a capture under way, and everything that captures have left behind. The answer
// to session/close comes after.
func TestSnapshotsEndWithTheirSession(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for _, c := range []struct {
		name, profile string
		hangs         bool
	}{
		{"under way", "setsid sleep %s & sleep %s", true},
		{"helper", "setsid sleep %s >/dev/null 2>&1 &", false},
		{"helper with the stdout of the capture", "setsid sleep %s &", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			token := newToken(t)
			home := snapshotHome(t, "sleeping="+token+"\n"+strings.ReplaceAll(c.profile, "%s", "$sleeping"))
			conn := s.in(t).session(nil)
			if c.hangs {
				conn.request("process/start", startParams("p", fromSnapshot(home, "true")))
				eventually(t, "the profile runs", func() bool { return sleepers(token) == 2 })
			} else {
				conn.start("p", fromSnapshot(home, "true")).awaitClosed()
				eventually(t, "the helper runs", func() bool { return len(kin(token)) == 1 })
			}
			conn.call("session/close", obj{})
			if left := describeKin(token); left != "" {
				t.Error(left)
			}
		})
	}
}

// Each run of a process and each process of a group starts from the state.
func TestSnapshotsOfRunsAndGroups(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(obj{"capabilities": obj{"restarted": true}})
	home := snapshotHome(t, "greet() { echo hi; }")
	p := fromSnapshot(home, "greet; exit 1")
	p["restart"] = obj{"policy": "transient", "backoff": obj{"initialMs": 1}, "intensity": obj{"restarts": 2, "periodMs": 60_000}}
	if _, out := c.start("p", p).awaitClosed(); out != "hi\nhi\nhi\n" {
		t.Errorf("%q", out)
	}
	c.call("group/start", obj{"groupId": "g", "processes": []any{startParams("q", fromSnapshot(home, "greet"))}})
	if _, out := c.process("q").awaitClosed(); out != "hi\n" {
		t.Errorf("%q", out)
	}
	if n := captures(t, home); n != "x" {
		t.Errorf("captures: %s", n)
	}
}
