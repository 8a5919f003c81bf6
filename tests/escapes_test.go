package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
	"golang.org/x/sys/unix"
)

// nobody is the uid of an ordinary user.
const nobody = 65534

// openDir returns a directory readable for every user, for programs that ordinary users run.
func openDir(t *testing.T) string {
	t.Helper()
	return testroot.Dir(t, "")
}

// install copies a program into dir.
func install(t *testing.T, dir, program string, mode os.FileMode) string {
	t.Helper()
	program = needs.Program(t, program)
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, filepath.Base(program))
	if err := writeProgram(path, data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// startOrdinary starts a server as an ordinary user: as the user of the test, and if this is root, as nobody.
func startOrdinary(t *testing.T, dir string, args ...string) *server {
	t.Helper()
	if os.Geteuid() != 0 {
		return startServer(t, args...)
	}
	bin, err := troupeBinary()
	if err != nil {
		t.Fatal(err)
	}
	bin = install(t, dir, bin, 0o755)
	return startServerWith(t, func(cmd *exec.Cmd) {
		cmd.Path = bin
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}, args...)
}

// TestLeaverOfItsCgroup: a program that moves to another cgroup, as root may, still ends with its
// session or process.
func TestLeaverOfItsCgroup(t *testing.T) {
	t.Parallel()
	leave := `echo $BASHPID >` + needs.Cgroup(t) + `/cgroup.procs || exit 9; `
	s := startServer(t, "--containment", "cgroup", "--closed-retention", "300ms")
	for _, l := range []litter{
		{name: "leader", script: leave + `sleep $0; :`, sleepers: 1},
		{name: "all", script: leave + `sleep $0 & setsid sleep $0 & sleep $0; :`, sleepers: 3},
		{name: "child", script: `(` + leave + `sleep $0; :) & sleep $0; :`, sleepers: 2},
		{name: "daemon", script: `(setsid env -i /bin/bash -c '` + leave + `trap "" TERM HUP; exec /bin/sleep $0 <&- >&- 2>&-' $0 &); sleep $0; :`, sleepers: 2},
	} {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			s := s.in(t)
			c := s.session(nil)
			_, token := l.drop(t, c)
			wantContainment(t, c, "cgroup")
			c.call("session/close", obj{})
			wantNoKin(t, "once session/close was answered", token)

			c = s.session(nil)
			p, token := l.drop(t, c)
			c.call("process/terminate", obj{"processId": p.id, "tree": true})
			p.awaitClosed()
			wantNoKin(t, "once terminate with tree was answered", token)

			token = newToken(t)
			p = c.start("times out", obj{"argv": []string{"/bin/bash", "-c", l.script, token}, "timeoutMs": 300})
			p.awaitClosed()
			awaitNoKin(t, token)

			// The leader ends and is forgotten. Its remaining descendants still end with the session.
			token = newToken(t)
			p = c.start("left alone", obj{"argv": []string{"/bin/bash", "-c", `exec </dev/null >/dev/null 2>&1; (` + strings.TrimSuffix(l.script, "; :") + `) & exit 5`, token}})
			p.awaitClosed()
			eventually(t, "the rest sleeps", func() bool { return sleepers(token) == l.sleepers })
			eventually(t, "the process is forgotten", func() bool {
				return !strings.Contains(jsonText(c.call("process/list", obj{})), p.id)
			})
			if n := sleepers(token); n != l.sleepers {
				t.Fatalf("%d sleep before the end of the session, want %d", n, l.sleepers)
			}
			c.call("session/close", obj{})
			wantNoKin(t, "once session/close was answered", token)
		})
	}
}

// TestUndumpable: a daemon whose own user may not read its environment, such as ssh-agent, ends with
// its session.
func TestUndumpable(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	s := startOrdinary(t, dir, "--containment", "marker")
	sleep := install(t, dir, "sleep", 0o111) // an unreadable program is not dumpable
	for name, script := range map[string]string{
		"with its environment": `(setsid ` + sleep + ` $0 <&- >&- 2>&- &); exec sleep $0`,
		"without":              `(setsid env -i ` + sleep + ` $0 <&- >&- 2>&- &); exec sleep $0`,
	} {
		l := litter{name: "agent", script: script, sleepers: 2}
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			c := s.session(nil)
			bystander, other := l.drop(t, s.session(nil))
			p, token := l.drop(t, c)
			killKin(p.pid(), token)
			p.awaitExit()
			c.call("session/close", obj{})
			wantNoKin(t, "once session/close was answered", token)
			if n := sleepers(other); n != l.sleepers {
				t.Errorf("%d programs of another session sleep, want %d", n, l.sleepers)
			}
			bystander.c.call("session/close", obj{})
		})
	}
}

// TestKillsWithoutDescriptors: a server without free descriptors still ends sessions.
func TestKillsWithoutDescriptors(t *testing.T) {
	t.Parallel()
	eachContainment(t, func(t *testing.T, containment string) {
		s := startServer(t, "--containment", containment)
		for _, l := range litters {
			if l.name != "signals ignored" && l.name != "setsid" && l.name != "daemon" {
				continue
			}
			closed, ended := s.session(nil), s.session(nil)
			_, first := l.drop(t, closed)
			p, second := l.drop(t, ended)
			var limit unix.Rlimit
			if err := unix.Prlimit(s.pid(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 20_000}, &limit); err != nil {
				t.Fatal(err)
			}
			ended.call("process/terminate", obj{"processId": p.id, "tree": true})
			wantNoKin(t, l.name+": once terminate with tree was answered", second)
			closed.call("session/close", obj{})
			wantNoKin(t, l.name+": once session/close was answered", first)
			if err := unix.Prlimit(s.pid(), unix.RLIMIT_NOFILE, &limit, nil); err != nil {
				t.Fatal(err)
			}
			ended.call("session/close", obj{})
		}
		// The server also stops without free descriptors.
		c := s.session(nil)
		_, token := litters[0].drop(t, c)
		unix.Prlimit(s.pid(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 20_000}, nil)
		s.stop()
		wantNoKin(t, "when the server has ended", token)
	})
}

// TestStrays: a program may shed every mark of its session. If no other session can have started the
// program, it ends with its session. Otherwise the server answers that it cannot tell, and kills the
// program when the server ends.
func TestStrays(t *testing.T) {
	t.Parallel()
	eachContainment(t, func(t *testing.T, containment string) {
		leave := "ulimit -S -x 5 -R 5; "
		if containment == "cgroup" {
			leave += "echo $$ >" + needs.Cgroup(t) + "/cgroup.procs; "
		}
		l := litter{name: "stray", script: `(setsid env -i /bin/bash -c '` + leave + `exec /bin/sleep $0 <&- >&- 2>&-' $0 &); sleep $0; :`, sleepers: 2}
		s := startServer(t, "--containment", containment)
		c := s.session(nil)
		p, token := l.drop(t, c)
		killKin(p.pid(), token)
		p.awaitExit()
		later := s.session(nil)
		c.call("session/close", obj{})
		wantNoKin(t, "once session/close was answered", token)

		c = s.session(nil)
		_, token = litters[0].drop(t, later)
		p, stray := l.drop(t, c)
		killKin(p.pid(), stray)
		p.awaitExit()
		want := regexp.MustCompile(`\b\d+ \(sleep\): an unknown program of this server started it`)
		if code, text := c.callError("session/close", obj{}); code != -32603 || !want.MatchString(text) {
			t.Errorf("session/close: %d %q, want -32603 and %s", code, text, want)
		}
		if n := sleepers(token); n != litters[0].sleepers {
			t.Errorf("%d programs of another session sleep, want %d", n, litters[0].sleepers)
		}
		s.stop()
		wantNoKin(t, "when the server has ended", stray)
		wantNoKin(t, "when the server has ended", token)
	})
}
