package tests

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/internal/system"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// --- kin: the processes of a test, with a token in their arguments ---

var lastToken atomic.Int64

// newToken returns a number that no other process on the machine has in its arguments. As an argument
// of sleep(1) the number is a very long time. The end of the test kills the remaining kin.
func newToken(t testing.TB) string {
	token := fmt.Sprintf("8%07d.%d", os.Getpid(), 1e6+lastToken.Add(1))
	t.Cleanup(func() {
		for _, pid := range kin(token) {
			killKin(pid, token)
		}
	})
	return token
}

// kin returns the processes with the token in their arguments; a zombie has no arguments.
func kin(token string) []int { return system.Kin(token) }

func killKin(pid int, token string) { system.KillKin(pid, token) }

// sleepers counts the kin that have become sleep. A child of the shell may be kin only until it runs
// another sleep, so the arguments are read after the name: exec(2) changes them before it.
func sleepers(token string) (n int) {
	for _, pid := range kin(token) {
		if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(name) != "sleep\n" {
			continue
		}
		if args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(args), token) {
			n++
		}
	}
	return n
}

func describeKin(token string) string {
	var all []string
	for _, pid := range kin(token) {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		all = append(all, fmt.Sprintf("%d %q", pid, args))
	}
	return strings.Join(all, ", ")
}

// wantNoKin checks that all kin are gone now, without waiting.
func wantNoKin(t testing.TB, when, token string) {
	t.Helper()
	if left := describeKin(token); left != "" {
		t.Errorf("%s, there is still %s", when, left)
	}
}

func awaitNoKin(t testing.TB, token string) {
	t.Helper()
	eventually(t, "no process with "+token+" is left", func() bool { return len(kin(token)) == 0 })
}

// cgroupsOf returns the cgroup directories of a server with this pid.
func cgroupsOf(t testing.TB, pid int) []string {
	dirs, err := system.Cgroups(pid)
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// --- litter: programs that leave processes behind ---

// litter is a shell script; $0 is the token. The script is at rest when a given number of its kin
// sleep.
type litter struct {
	name     string
	script   string
	tty      bool
	sleepers int
	more     obj // of the start
}

var litters = []litter{
	{name: "child", script: `sleep $0; :`, sleepers: 1},
	{name: "background jobs", script: `sleep $0 & sleep $0 & sleep $0 & wait`, sleepers: 3},
	{name: "double fork", script: `(sleep $0 & (sleep $0 &) ); sleep $0; :`, sleepers: 3},
	{name: "setsid", script: `setsid sleep $0 & setsid sh -c 'sleep $0 & wait' $0 & wait`, sleepers: 2},
	{name: "signals ignored", script: `trap '' TERM HUP INT QUIT; sleep $0 & sleep $0; sleep $0; :`, sleepers: 2},
	{name: "another environment", script: `env -i /bin/sh -c 'sleep $0 & wait' $0 & env -i /bin/sleep $0; :`, sleepers: 2},
	{name: "daemon", script: `(setsid sh -c 'trap "" TERM HUP; cd /; exec sleep $0 <&- >&- 2>&-' $0 &); sleep $0; :`, sleepers: 2},
	{name: "daemon with another environment", script: `(setsid env -i /bin/sh -c 'trap "" TERM HUP; exec sleep $0 <&- >&- 2>&-' $0 &); sleep $0; :`, sleepers: 2},
	{name: "terminal with job control", script: `set -m; sleep $0 & (trap "" HUP; sleep $0; :) & sleep $0; :`, tty: true, sleepers: 3},
	{name: "terminal and nohup", script: `nohup sleep $0 >/dev/null 2>&1 & setsid sleep $0 & trap "" HUP; sleep $0; :`, tty: true, sleepers: 3},
}

// drop starts the program and waits until the program is at rest.
func (l litter) drop(t testing.TB, c *conn) (p *proc, token string) {
	t.Helper()
	token = newToken(t)
	params := obj{"argv": []string{"/bin/bash", "-c", l.script, token}, "tty": l.tty}
	maps.Copy(params, l.more)
	p = c.start(l.name, params)
	eventually(t, fmt.Sprintf("%s: %d processes sleep", l.name, l.sleepers), func() bool { return sleepers(token) == l.sleepers })
	return p, token
}

// eachContainment runs the test in every containment that works on this machine.
func eachContainment(t *testing.T, test func(t *testing.T, containment string)) {
	for _, containment := range []string{"cgroup", "marker", "group"} {
		t.Run(containment, func(t *testing.T) {
			t.Parallel()
			if containment == "cgroup" {
				needs.Cgroup(t)
			}
			test(t, containment)
		})
	}
}

// wantContainment checks the containment in process/list.
func wantContainment(t testing.TB, c *conn, want string) {
	t.Helper()
	for _, info := range c.call("process/list", obj{})["processes"].([]any) {
		if got := info.(obj)["containment"]; got != want {
			t.Errorf("process/list says containment %v of %v, want %s", got, info.(obj)["processId"], want)
		}
	}
}

// TestNothingLeftOfSession: any end of a session or process ends its whole tree.
func TestNothingLeftOfSession(t *testing.T) {
	t.Parallel()
	eachContainment(t, func(t *testing.T, containment string) {
		s := startServer(t, "--containment", containment, "--detached-ttl", "300ms")
		for _, l := range litters {
			t.Run(l.name, func(t *testing.T) {
				s := s.in(t)

				c := s.session(nil)
				_, token := l.drop(t, c)
				wantContainment(t, c, containment)
				c.call("session/close", obj{})
				wantNoKin(t, "once session/close was answered", token)
				if code, reason := c.awaitClose(); code != 1000 {
					t.Errorf("after session/close: Close %d %q, want 1000", code, reason)
				}

				c = s.session(nil)
				p, token := l.drop(t, c)
				c.call("process/terminate", obj{"processId": p.id, "tree": true})
				p.awaitClosed()
				awaitNoKin(t, token)

				// The leader ends first, so only its descendants remain.
				l := l
				l.name += ", leader gone"
				p, token = l.drop(t, c)
				killKin(p.pid(), token)
				p.awaitExit()
				if result := c.call("process/terminate", obj{"processId": p.id, "tree": true}); result["running"] != false {
					t.Errorf("terminate after the leader's exit: %v, want running false", result)
				}
				wantNoKin(t, "once terminate with tree was answered", token)
				p.awaitClosed()

				if !strings.Contains(l.name, "daemon") {
					return // a session that expires ends as one that is closed
				}
				l.name += ", session expires"
				_, token = l.drop(t, c)
				id := c.sessionID
				c.cutRST()
				awaitNoKin(t, token)
				eventually(t, "the session is unknown", func() bool {
					c := s.dial()
					code, _ := c.callError("initialize", obj{"clientName": "tests", "resumeSessionId": id})
					return code == -32600
				})
			})
		}
		awaitNoZombies(t, s)
		s.stop()
		if dirs := cgroupsOf(t, s.cmd.Process.Pid); dirs != nil {
			t.Errorf("cgroups are left: %v", dirs)
		}
	})
}

// awaitNoZombies waits until every ended process is reaped, including orphans adopted by the server.
func awaitNoZombies(t testing.TB, s *server) {
	t.Helper()
	parent := fmt.Sprintf("\nPPid:\t%d\n", s.cmd.Process.Pid)
	eventually(t, "the server has no zombie", func() bool {
		all, _ := filepath.Glob("/proc/[0-9]*/status")
		return !slices.ContainsFunc(all, func(path string) bool {
			status, _ := os.ReadFile(path)
			return bytes.Contains(status, []byte(parent)) && bytes.Contains(status, []byte("\nState:\tZ"))
		})
	})
}

// TestBackgroundOutlivesItsProcess: background programs go on after the end of their process. Once the
// process is forgotten they belong to no process, but still end with the session.
func TestBackgroundOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	eachContainment(t, func(t *testing.T, containment string) {
		s := startServer(t, "--containment", containment, "--closed-retention", "500ms")
		c := s.session(nil)
		token := newToken(t)
		p := c.start("p", obj{"argv": []string{"/bin/sh", "-c", `sleep $0 </dev/null >/dev/null 2>&1 & exit 5`, token}})
		if code, _ := p.awaitClosed(); code != 5 {
			t.Errorf("exit code %d, want 5", code)
		}
		eventually(t, "the background process sleeps", func() bool { return sleepers(token) == 1 }) // the shell does not wait for it
		eventually(t, "the process is forgotten", func() bool {
			return len(c.call("process/list", obj{})["processes"].([]any)) == 0
		})
		// A new process may have the same id: the remaining programs of the old process do not belong
		// to the new process.
		p = c.start("p", obj{"argv": sh("exit 6")})
		c.awaitFact("exit code 6 of the second process", func() bool { return num(p.exited["exitCode"]) == 6 && p.closed })
		if n := sleepers(token); n != 1 {
			t.Fatalf("%d background processes live on before the end of the session, want 1", n)
		}
		c.call("session/close", obj{})
		wantNoKin(t, "once session/close was answered", token)
	})
}

// TestNothingLeftOfServer: on SIGTERM a server notifies its clients, ends all programs, and exits with
// 0.
func TestNothingLeftOfServer(t *testing.T) {
	t.Parallel()
	eachContainment(t, func(t *testing.T, containment string) { nothingLeftOfServer(t, containment, syscall.SIGTERM) })
	t.Run("SIGINT", func(t *testing.T) {
		t.Parallel()
		nothingLeftOfServer(t, "marker", syscall.SIGINT)
	})
}

func nothingLeftOfServer(t *testing.T, containment string, sig syscall.Signal) {
	s := startServer(t, "--containment", containment, "--kill-grace", "1h") // for polite
	c := s.session(nil)
	observer := s.session(obj{"resumeSessionId": c.sessionID, "role": "observer"})
	polite := c.start("polite", obj{"argv": sh(`trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.01; done`)})
	polite.awaitOutput("stdout", "up")
	var tokens []string
	for _, l := range litters {
		l.more = obj{"killGraceMs": 200}
		_, token := l.drop(t, c)
		tokens = append(tokens, token)
	}
	s.signal(sig)
	if code, stdout := polite.awaitClosed(); code != 3 || !strings.HasSuffix(stdout, "bye\n") {
		t.Errorf("a program that handles SIGTERM: exit code %d and output %q, want 3 and bye", code, stdout)
	}
	for who, c := range map[string]*conn{"owner": c, "observer": observer} {
		if code, reason := c.awaitClose(); code != 1001 {
			t.Errorf("the %s got Close %d %q, want 1001", who, code, reason)
		}
		var told []string
		for _, m := range c.other {
			told = append(told, m["method"].(string))
		}
		if want := []string{"session/expiring", "session/evicted"}; !slices.Equal(told, want) {
			t.Errorf("the %s was told %v, want %v", who, told, want)
		}
	}
	if code := s.exitCode(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	for _, token := range tokens {
		wantNoKin(t, "when the server has ended", token)
	}
	if dirs := cgroupsOf(t, s.cmd.Process.Pid); dirs != nil {
		t.Errorf("cgroups are left: %v", dirs)
	}
}

// TestShutdownBeforeTheFirstFrame: a client that has not shown its codec yet gets only a Close frame.
func TestShutdownBeforeTheFirstFrame(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	other := s.session(nil)
	c := s.dial()
	eventually(t, "the server has the connection", func() bool { return num(other.call("server/info", obj{})["connections"]) == 2 })
	s.signal(syscall.SIGTERM)
	if code, reason := c.awaitClose(); code != 1001 {
		t.Errorf("Close %d %q, want 1001", code, reason)
	}
	s.exitCode()
	if log := s.stderr.String(); strings.Contains(log, "panic") {
		t.Errorf("the server says\n%s", log)
	}
}

// TestDrain: during a drain a server opens no session and gives no program more time than its own
// grace. A second signal ends the drain.
func TestDrain(t *testing.T) {
	t.Parallel()
	deaf := func(c *conn, more obj) *proc {
		params := obj{"argv": sh(`trap '' TERM; echo up; while :; do sleep 0.01; done`)}
		for k, v := range more {
			params[k] = v
		}
		p := c.start("deaf", params)
		p.awaitOutput("stdout", "up")
		return p
	}
	t.Run("a second signal", func(t *testing.T) {
		t.Parallel()
		s := startServer(t, "--kill-grace", "1h")
		c := s.session(nil)
		pid := deaf(c, nil).pid()
		s.signal(syscall.SIGTERM)
		c.awaitFact("session/expiring", func() bool { return len(c.other) > 0 })
		if code, text := s.dial().callError("initialize", obj{"clientName": "late"}); code != -32600 {
			t.Errorf("a new session: %d %s, want -32600", code, text)
		}
		if !alive(pid) {
			t.Error("the program was not given its time")
		}
		s.signal(syscall.SIGTERM)
		s.exitCode()
	})
	t.Run("killGraceMs above the server's", func(t *testing.T) {
		t.Parallel()
		s := startServer(t, "--kill-grace", "1ms")
		deaf(s.session(nil), obj{"killGraceMs": 3_600_000})
		s.signal(syscall.SIGTERM)
		s.exitCode()
	})
	t.Run("no grace", func(t *testing.T) {
		t.Parallel()
		s := startServer(t, "--kill-grace", "0")
		c := s.session(nil)
		p := c.start("polite", obj{"argv": sh(`trap 'exit 3' TERM; echo up; while :; do sleep 0.01; done`)})
		p.awaitOutput("stdout", "up")
		s.signal(syscall.SIGTERM)
		if code, _ := p.awaitClosed(); code != 137 {
			t.Errorf("exit code %d, want 137", code)
		}
	})
}

// TestServerKilled: the programs of a killed server die with the server, also those with limits. The next server ends their
// remaining descendants.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	eachContainment(t, func(t *testing.T, containment string) {
		s := startServer(t, "--containment", containment)
		c := s.session(nil)
		leaders := map[string]int{} // token → pid
		all := litters
		if containment == "cgroup" {
			all = append(slices.Clone(all), litter{name: "leaver of its cgroup", sleepers: 2,
				script: `(setsid env -i /bin/sh -c 'echo $$ >` + needs.Cgroup(t) + `/cgroup.procs && exec /bin/sleep $0 <&- >&- 2>&-' $0 &); sleep $0; :`})
		}
		for i, l := range all {
			if i%2 == 0 {
				l.more = obj{"limits": obj{"nofile": 50, "nice": 19}}
			}
			p, token := l.drop(t, c)
			leaders[token] = p.pid()
		}
		s.signal(syscall.SIGKILL)
		s.exitCode()
		for token, pid := range leaders {
			eventually(t, fmt.Sprintf("leader %d is gone", pid), func() bool { return !system.IsKin(pid, token) })
		}
		startServer(t, "--containment", containment)
		for token := range leaders {
			wantNoKin(t, "when the next server is ready", token)
		}
		if dirs := cgroupsOf(t, s.cmd.Process.Pid); dirs != nil {
			t.Errorf("cgroups are left: %v", dirs)
		}
	})
}
