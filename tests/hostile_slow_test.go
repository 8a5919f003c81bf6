//go:build slow

package tests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// TestFullLog: a program that nobody reads waits, and others go on.
func TestFullLog(t *testing.T) {
	needs.Root(t)
	user := uids(1)[0]
	s := startServer(t, "--users-file", usersFile(t, "* "+user))
	c, other := s.session(obj{"capabilities": obj{"gap": true}}), s.session(nil) // c reads nothing, and so gets a gap at the end
	before := s.rss()
	c.mutePongs.Store(true)
	c.speaks(t)
	for i := range 8 {
		c.start(nth("full", i), obj{"user": user, "argv": sh("yes; yes >&2")})
	}
	observer := s.observe(c.sessionID, nil)
	for i := range 8 {
		eventually(t, "it waits for its owner", func() bool {
			waits, _ := observer.waitsFor(nth("full", i))
			return slices.Contains(waits, "owner")
		})
	}
	wantSays(t, other, "other", "echo hello", "hello", obj{"user": user})
	info := other.call("server/info", nil)
	if held := num(info["heldBytes"]); held > 8*(1<<20+128<<10) {
		t.Errorf("%d bytes are held", held)
	}
	if grown := s.rss() - before; grown > 64<<20 {
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
	if lines := strings.Count(s.stderr.String(), "\n"); lines > 20 {
		t.Errorf("the server's own log has %d lines:\n%s", lines, s.stderr)
	}
	c.call("session/close", obj{})
}

// TestForksAsUser: the limit on processes of its user holds a fork bomb, and the end of its session ends
// the bomb. So does a program that forks and exits again and again.
func TestForksAsUser(t *testing.T) {
	needs.Root(t)
	perl := needs.Program(t, "perl")
	for _, containment := range []string{"auto", "marker"} {
		t.Run(containment, func(t *testing.T) {
			users := uids(2)
			s := startServer(t, "--containment", containment, "--users-file", usersFile(t, "* @server "+strings.Join(users, " ")))
			c, other := s.session(nil), s.session(nil)
			token := newToken(t)
			c.start("bomb", obj{"user": users[0], "argv": []string{perl, "-e", bomb, token}, "limits": obj{"processes": 50}}).awaitOutput("stdout", "full\n")
			if n := len(kin(token)); n > 51 {
				t.Errorf("the bomb has %d processes, the limit is 50", n)
			}
			wantSays(t, other, "another user", "echo $(echo hello)", "hello", obj{"user": users[1]})
			wantSays(t, other, "the server's user", "echo $(echo hello)", "hello", obj{"user": "@server"})
			c.call("session/close", obj{})
			wantNoKin(t, "after session/close", token)

			// The last process of 3,000 generations remains, and each has a session of its own.
			moving := `$| = 1; use POSIX; for (1 .. 3000) { fork and POSIX::_exit(0); POSIX::setsid(); print "moves\n" if $_ == 100 } sleep 1000`
			for range 8 {
				c, token = s.session(nil), newToken(t)
				c.start("moves", obj{"user": users[0], "argv": []string{perl, "-e", moving, token}}).awaitOutput("stdout", "moves\n")
				c.call("session/close", obj{})
				wantNoKin(t, "after session/close", token)
			}

			// Of a program that goes on for a minute, the zombies use up the limit.
			c, token = s.session(nil), newToken(t)
			moving = `$| = 1; use POSIX; my $n; my $end = time + 60; while (time < $end) { fork and POSIX::_exit(0); POSIX::setsid(); print "moves\n" if ++$n == 10 }`
			c.start("limited", obj{"user": users[1], "argv": []string{perl, "-e", moving, token}, "limits": obj{"processes": 50}}).awaitOutput("stdout", "moves\n")
			c.call("session/close", obj{})
			wantNoKin(t, "after session/close", token)
		})
	}
}

// TestClosedStreams: a program that closes its streams and goes on is still a process, and ends with its
// session.
func TestClosedStreams(t *testing.T) {
	needs.Root(t)
	user := uids(1)[0]
	s := startServer(t, "--users-file", usersFile(t, "* "+user))
	for name, tty := range map[string]bool{"pipes": false, "terminal": true} {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			c := s.session(nil)
			token := newToken(t)
			ready := filepath.Join(openDir(t), "ready")
			if err := os.Mkdir(ready, 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(ready, 0o777); err != nil {
				t.Fatal(err)
			}
			script := `trap "" HUP TERM; exec <&- >&- 2>&-; (trap "" HUP TERM; while [ -n "$0" ]; do sleep 0.1; done) & : >` + ready + `/up; while :; do sleep 0.1; done # $0`
			c.start("closed", obj{"user": user, "tty": tty, "argv": []string{"/bin/sh", "-c", script, token}})
			eventually(t, "the program has closed its streams", func() bool { _, err := os.Stat(ready + "/up"); return err == nil })
			if text := jsonText(c.call("process/list", obj{})); !strings.Contains(text, `"state":"running"`) {
				t.Errorf("process/list: %s", text)
			}
			if n := len(kin(token)); n < 2 {
				t.Errorf("%d processes run, want 2", n)
			}
			c.call("session/close", obj{})
			wantNoKin(t, "after session/close", token)
		})
	}
}
