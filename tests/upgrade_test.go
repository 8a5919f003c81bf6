package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// upgradeCommand runs troupe server upgrade about the server.
func upgradeCommand(t *testing.T, s *server) (code int, stdout, stderr string) {
	t.Helper()
	p := startTroupe(t, nil, "server", "upgrade", "--url", s.url)
	return p.exitCode(), p.stdout.String(), p.stderr.String()
}

// theProcess returns what process/list tells of the only process of a session.
func theProcess(c *conn) obj {
	c.t.Helper()
	return c.call("process/list", obj{})["processes"].([]any)[0].(obj)
}

// TestServerUpgrade: troupe server upgrade replaces the server by the binary that is at its path then, and no program notices. It returns when the next server
// serves, with the versions and the time without a server. A binary that is missing or does not run, and a configuration that is wrong, replace nothing, and the command
// says why. Without a holder it says what to do, and nothing ends.
func TestServerUpgrade(t *testing.T) {
	t.Parallel()
	const rules = "* cwd /\n* run /**"
	path, policy := filepath.Join(t.TempDir(), "troupe"), newPolicy(t, rules)
	built, err := troupeBinary()
	if err != nil {
		t.Fatal(err)
	}
	troupe, err := os.ReadFile(built)
	if err != nil {
		t.Fatal(err)
	}
	install := func(b []byte) (inode os.FileInfo) {
		t.Helper()
		if err := os.WriteFile(path+".new", b, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		inode, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return inode
	}
	install(troupe)
	h := startHolder(t, func(cmd *exec.Cmd) { // its binary was written just now, so its pages stay
		cmd.Path, cmd.Args[0] = path, path
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // with a terminal, SIGHUP would be the end of the terminal
	}, "--policy-file", policy.path)
	refused := func(want string) {
		t.Helper()
		serves := h.running()
		if code, out, errs := upgradeCommand(t, h.server); code != 1 || out != "" || !strings.Contains(errs, want) || h.running() != serves {
			t.Errorf("exit code %d, stdout %q, stderr %q, want %s; the server is process %d, and was %d", code, out, errs, want, h.running(), serves)
		}
	}
	c := h.session(nil)
	p := c.start("p", obj{"argv": sh("while read line; do echo got $line; done; exit 7"), "pipeStdin": true})
	pid := p.pid()
	for i := range 2 {
		p.write(fmt.Sprintln(i))
		p.awaitOutput("stdout", fmt.Sprintf("got %d\n", i))
		seq := p.lastSeq()

		os.Remove(path)
		refused("no upgrade: open " + path + ": no such file")
		install([]byte("no program"))
		refused("no upgrade: run ")
		inode := install(append(troupe, byte(i))) // what follows an ELF file means nothing
		policy.write("nonsense")
		refused("cannot serve (exit code 1)")
		policy.write(rules)
		if code, out, errs := upgradeCommand(t, h.server); code != 0 || !strings.HasPrefix(out, "upgraded "+h.url+": troupe devel → devel, and nobody served for ") {
			t.Errorf("exit code %d, stdout %q, stderr %q", code, out, errs)
		}
		if exe, err := os.Stat(fmt.Sprintf("/proc/%d/exe", h.running())); !os.IsPermission(err) && (err != nil || !os.SameFile(exe, inode)) { // only root may look
			t.Errorf("after an upgrade the server runs %v, %v", exe, err)
		}
		<-c.done
		c = h.session(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"p": seq}})
		p = c.process("p")
	}
	if p.pid() != pid {
		t.Errorf("the program is process %d, and was %d", p.pid(), pid)
	}
	c.call("process/closeStdin", obj{"processId": "p"})
	if code, _ := p.awaitClosed(); code != 7 {
		t.Errorf("exit code %d", code)
	}
	h.stop()
	if log := h.stderr.String(); strings.Contains(log, "has died") || !strings.Contains(log, "policy") {
		t.Errorf("the log: %s", log)
	}

	s := startServer(t, "--no-holder")
	c = s.session(nil)
	c.start("p", obj{"argv": sh("sleep 1000")})
	if code, out, errs := upgradeCommand(t, s); code != 1 || out != "" || !strings.Contains(errs, "the server was started with --no-holder") {
		t.Errorf("without a holder: exit code %d, stdout %q, stderr %q", code, out, errs)
	}
	if state := theProcess(c)["state"]; state != "running" {
		t.Errorf("the program is %v", state)
	}
}

// TestSystemWithoutHolder: where the system lacks something for a holder, the server serves without one, and says why.
func TestSystemWithoutHolder(t *testing.T) {
	t.Parallel()
	for lacks, command := range map[string][]string{
		"memfd_create": {"strace", "-D", "-f", "-o", os.DevNull, "-e", "inject=memfd_create:error=ENOSYS"},
		"RLIMIT_AS":    {"sh", "-c", `ulimit -v 8000000; exec "$0" "$@"`},
	} {
		t.Run(lacks, func(t *testing.T) {
			needs.Program(t, command[0])
			if lacks == "RLIMIT_AS" && underRace() {
				t.Skip("the race detector needs more address space")
			}
			t.Parallel()
			s := startServerWith(t, func(cmd *exec.Cmd) {
				path, _ := exec.LookPath(command[0])
				cmd.Args = append(append(slices.Clone(command), cmd.Path), cmd.Args[1:]...)
				cmd.Path = path
			})
			c := s.session(nil)
			h := c.call("server/info", obj{})["holder"].(obj)
			if why, _ := h["why"].(string); h["available"] != false || !strings.Contains(why, lacks) || s.pid() != s.cmd.Process.Pid {
				t.Errorf("%v", h)
			}
			if !strings.Contains(s.stderr.String(), "no holder") {
				t.Errorf("the log: %s", s.stderr)
			}
			c.start("p", obj{"argv": sh("echo up")}).awaitOutput("stdout", "up\n")
		})
	}
}

// TestTerminalIsNoUpgrade: a holder that takes SIGHUP for the end of a terminal says so.
func TestTerminalIsNoUpgrade(t *testing.T) {
	t.Parallel()
	h := startHolder(t, func(cmd *exec.Cmd) { // as nohup(1) starts programs
		cmd.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
	})
	serves := h.running()
	if code, _, errs := upgradeCommand(t, h.server); code != 1 || !strings.Contains(errs, "takes SIGHUP for the end of the terminal") || h.running() != serves {
		t.Errorf("exit code %d, stderr %q", code, errs)
	}
}

// TestReplacementIsTold: server/info and server/events say that a server was replaced, why, and how long nobody served. The events of before are there, each once,
// and the session goes on with them. Of its processes, those of ephemeral sessions say that they end with the server.
func TestReplacementIsTold(t *testing.T) {
	t.Parallel()
	h := startHolder(t, nil)
	told := func() obj { return h.session(nil).call("server/info", obj{})["holder"].(obj) }
	if got := told(); got["available"] != true || num(got["servers"]) != 1 || got["replaced"] != nil || got["why"] != nil {
		t.Errorf("the first server: %v", got)
	}
	c := h.session(nil)
	c.start("p", obj{"argv": sh("exit 7")}).awaitClosed()
	begin := c.call("server/events", obj{"afterUs": 0})
	for name, options := range map[string]obj{"kept": {}, "ephemeral": {"ephemeral": true}} {
		of := h.session(obj{"session": options})
		of.start("p", obj{"argv": sh("sleep 1000")})
		if ends := theProcess(of)["endsWithServer"] == true; ends != (name == "ephemeral") {
			t.Errorf("a process of a session that is %s: endsWithServer %v", name, ends)
		}
	}
	for range 2 {
		h.kill()
		<-c.done
		c = h.session(obj{"resumeSessionId": c.sessionID})
	}
	c.start("q", obj{"argv": sh("exit 7")}).awaitClosed()
	got := told()
	r, _ := got["replaced"].(obj)
	if got["available"] != true || num(got["servers"]) != 3 || r["reason"] != "killed by SIGKILL" || num(r["gapMs"]) < 1 || num(r["gapMs"]) > factTimeout.Milliseconds() || num(r["atMs"]) == 0 {
		t.Errorf("the third server: %v", got)
	}
	after := c.call("server/events", obj{"afterUs": 0})
	if was, is := begin["wholeUs"], after["wholeUs"]; num(was) != num(is) {
		t.Errorf("whole after %v, and before the kills after %v", is, was)
	}
	var gaps []int64
	var story []string
	for _, e := range after["events"].([]any) {
		e := e.(obj)
		if e["kind"] == "replaced" {
			if gaps = append(gaps, num(e["gapMs"])); e["reason"] != "killed by SIGKILL" || e["sessionId"] != "" {
				t.Errorf("the event is %v", e)
			}
		} else if e["sessionId"] == c.sessionID {
			story = append(story, fmt.Sprint(e["kind"], " ", e["processId"]))
		}
	}
	const again = "; detached <nil>; attached <nil>"
	if want := "opened <nil>; started p; exited p; closed p" + again + again + "; started q; exited q; closed q"; strings.Join(story, "; ") != want {
		t.Errorf("the events are %s, want %s", strings.Join(story, "; "), want)
	}
	if len(gaps) != 2 || gaps[1] != num(r["gapMs"]) {
		t.Errorf("the events are %v", after["events"])
	}
	plain := startServer(t, "--no-holder").session(nil)
	if got := plain.call("server/info", obj{}); got["holder"].(obj)["available"] != false || got["holder"].(obj)["why"] != "the server was started with --no-holder" || got["holderProcess"] != nil {
		t.Errorf("a server without a holder: %v", got)
	}
	plain.start("p", obj{"argv": sh("sleep 1000")})
	if theProcess(plain)["endsWithServer"] != nil {
		t.Error("all processes of a server without a holder end with it: none says so")
	}
}

// TestDescriptorsOfPrograms: neither a server nor its holder needs more descriptors for a program than troupe doctor says.
func TestDescriptorsOfPrograms(t *testing.T) {
	needs.Descriptors(t)
	t.Parallel()
	const n, each = 20, 5 // filesEach of package doctor
	for _, params := range []obj{{"pipeStdin": true}, {"tty": true}} {
		h := startHolder(t, nil)
		c := h.session(nil)
		start := func(i int) {
			p := obj{"argv": sh("sleep 1000")}
			for k, v := range params {
				p[k] = v
			}
			c.start(fmt.Sprint("p", i), p)
		}
		start(n) // with what a server opens for its first program
		holder, server := h.program.descriptors(), descriptorsOf(t, h.running())
		for i := range n {
			start(i)
		}
		for _, kills := range []int{0, 1} {
			for range kills {
				h.kill()
			}
			more, here := 0, 0
			eventually(t, "few descriptors", func() bool {
				more, here = h.program.descriptors()-holder, descriptorsOf(t, h.running())-server
				return more <= each*n && here <= each*n
			})
			t.Logf("%v, after %d kills: %d more in the holder, %d in the server", params, kills, more, here)
		}
	}
}

// TestToldOverKills: troupe events has an event for the server that was replaced, and goes on. So does troupe top, which says so.
func TestToldOverKills(t *testing.T) {
	t.Parallel()
	h := startHolder(t, nil)
	h.session(nil).start("before", obj{"argv": sh("sleep 1000")})
	events := startTroupe(t, nil, "events", "--url", h.url, "--since", "start", "--json")
	await := func(want string) {
		t.Helper()
		events.stdout.await(factTimeout, func() bool { return strings.Contains(string(events.stdout.data), want) })
	}
	await(`"processId":"before"`)
	x := startTop(t, h.url)
	x.await("before ")
	h.kill()
	await(`"kind":"replaced","sessionId":"","reason":"killed by SIGKILL","gapMs":`)
	x.await("the server was replaced after its death (killed by SIGKILL) ")
	h.session(nil).start("after", obj{"argv": sh("sleep 1000")})
	await(`"processId":"after"`)
	x.await("after ")
	ps := startTroupe(t, nil, "ps", "--url", h.url)
	info := startTroupe(t, nil, "info", "--url", h.url, "before")
	if code := ps.exitCode(); code != 0 || strings.Contains(ps.stdout.String(), "nobody served") {
		t.Errorf("exit code %d: only a person at a terminal is told by ps: %s", code, ps.stdout)
	}
	if code := info.exitCode(); code != 0 || !strings.Contains(info.stdout.String(), "\nserver       the process outlives it") {
		t.Errorf("exit code %d: %s%s", code, info.stdout, info.stderr)
	}
}
