package tests

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	neturl "net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/gorilla/websocket"
	"golang.org/x/sys/unix"
)

// spyArg as the first argument makes this test binary a spy. A spy is a hostile program: its other
// arguments are pid:PID, read:PATH, write:PATH and connect:URL. For each way into a process, and for each file, the spy
// prints a line with the argument, the way, and "got in" or the error. A spy that gets in changes nothing.
const spyArg = "spy"

const gotIn = "got in"

// waysInto are the ways into another process, and what the kernel checks.
var waysInto = []struct {
	name string
	try  func(pid int) error
}{
	// The kernel asks whether the spy may trace the process: see ptrace(2), "Ptrace access mode checking".
	{"list its descriptors", func(pid int) error { _, err := os.ReadDir(inProc(pid, "fd")); return err }},
	{"open its descriptors", openDescriptors},
	{"take its descriptors", takeDescriptor},
	{"read its environment", func(pid int) error { return tryOpen(inProc(pid, "environ"), unix.O_RDONLY) }},
	{"read its map", func(pid int) error { return tryOpen(inProc(pid, "maps"), unix.O_RDONLY) }},
	{"read its memory", func(pid int) error { return tryOpen(inProc(pid, "mem"), unix.O_RDONLY) }},
	{"write its memory", func(pid int) error { return tryOpen(inProc(pid, "mem"), unix.O_RDWR) }},
	{"copy from its memory", func(pid int) error { return copyMemory(pid, unix.ProcessVMReadv) }},
	{"copy to its memory", func(pid int) error { return copyMemory(pid, unix.ProcessVMWritev) }},
	{"see its program", func(pid int) error { _, err := os.Readlink(inProc(pid, "exe")); return err }},
	{"enter its root", func(pid int) error { _, err := os.ReadDir(inProc(pid, "root/")); return err }},
	{"trace it", trace},
	{"make it a victim of the OOM killer", rescore},
	// The kernel compares users.
	{"signal it", func(pid int) error { return unix.Kill(pid, 0) }},
	{"change its limits", relimit},
	{"change its priority", renice},
	{"change its processors", reschedule},
}

// ofUsers are the ways for which the kernel compares users.
var ofUsers = []string{"signal it", "change its limits", "change its priority", "change its processors"}

func inProc(pid int, file string) string { return fmt.Sprintf("/proc/%d/%s", pid, file) }

func tryOpen(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// openDescriptors opens standard error: every process of these tests has it.
func openDescriptors(pid int) error { return tryOpen(inProc(pid, "fd/2"), unix.O_WRONLY) }

func takeDescriptor(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	_, err = unix.PidfdGetfd(fd, 2, 0)
	return err
}

// copyMemory names an address that no process has: whoever gets so far may copy.
func copyMemory(pid int, by func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error)) error {
	b := make([]byte, 1)
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(1)
	_, err := by(pid, local, []unix.RemoteIovec{{Base: 1, Len: 1}}, 0)
	if errors.Is(err, unix.EFAULT) {
		return nil
	}
	return err
}

func trace(pid int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.PtraceSeize(pid); err != nil {
		return err
	}
	// The end of this thread detaches: a process that was never stopped cannot be detached otherwise.
	return nil
}

func rescore(pid int) error {
	score, err := os.ReadFile(inProc(pid, "oom_score_adj"))
	if err != nil {
		return err
	}
	return os.WriteFile(inProc(pid, "oom_score_adj"), score, 0)
}

func relimit(pid int) error {
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		return err
	}
	return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil)
}

func renice(pid int) error {
	priority, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
	if err != nil {
		return err
	}
	return unix.Setpriority(unix.PRIO_PROCESS, pid, 20-priority) // getpriority(2) returns 20 minus the nice level
}

func reschedule(pid int) error {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &set); err != nil {
		return err
	}
	return unix.SchedSetaffinity(pid, &set)
}

// connect opens a websocket without a credential. Status 401 is a refusal.
func connect(url string) error {
	u, err := neturl.Parse(url)
	if err != nil {
		return err
	}
	dialer := websocket.Dialer{NetDial: func(string, string) (net.Conn, error) {
		if u.Scheme == "unix" {
			return net.Dial("unix", u.Path)
		}
		return net.Dial("tcp", u.Host)
	}}
	c, response, err := dialer.Dial("ws://server/", nil)
	if err == nil {
		return c.Close()
	}
	if response != nil && response.StatusCode == http.StatusUnauthorized {
		return unix.EACCES
	}
	return err
}

func spyMain(args []string) {
	say := func(arg, way string, err error) {
		result := gotIn
		if err != nil {
			result = err.Error()
			if errno, ok := errors.AsType[unix.Errno](err); ok {
				result = errno.Error()
			}
		}
		fmt.Printf("%s, %s: %s\n", arg, way, result)
	}
	for _, arg := range args {
		kind, value, _ := strings.Cut(arg, ":")
		switch kind {
		case "pid":
			var pid int
			fmt.Sscan(value, &pid)
			for _, w := range waysInto {
				say(arg, w.name, w.try(pid))
			}
		case "read":
			say(arg, "open it", tryOpen(value, unix.O_RDONLY))
		case "write":
			say(arg, "open it", tryOpen(value, unix.O_WRONLY))
		case "connect":
			say(arg, "connect", connect(value))
		}
	}
}

// spy returns the argv of a spy that every user may run.
func spy(t *testing.T, args ...string) []string {
	t.Helper()
	path, err := copyOfTests()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{path, spyArg}, args...)
}

// spied runs a spy and returns its results: for each argument, the ways that got in.
func spied(t *testing.T, c *conn, params obj, args ...string) map[string][]string {
	t.Helper()
	all := obj{"argv": spy(t, args...), "env": obj{raceVar: raceOptions}}
	maps.Copy(all, params)
	code, out := c.start("spy of "+strings.Join(args, " "), all).awaitClosed()
	if code != 0 {
		t.Fatalf("the spy exited with %d: %s", code, out)
	}
	got := make(map[string][]string)
	for line := range strings.Lines(strings.TrimSpace(out)) {
		arg, rest, _ := strings.Cut(strings.TrimSpace(line), ", ")
		way, result, _ := strings.Cut(rest, ": ")
		switch result {
		case gotIn:
			got[arg] = append(got[arg], way)
		case unix.EPERM.Error(), unix.EACCES.Error():
		default:
			t.Errorf("%s, %s: %s, which is neither success nor a refusal", arg, way, result)
		}
	}
	if n := strings.Count(out, "\n"); n < len(args) {
		t.Fatalf("the spy tried only %d ways: %s", n, out)
	}
	return got
}

func pidArg(pid int) string { return fmt.Sprint("pid:", pid) }

// uids returns users without an entry in the system's database that no other process has.
func uids(n int) (users []string) {
	for i := range n {
		uid := 1_000_000 + os.Getpid()*10 + i
		users = append(users, fmt.Sprintf("%d:%d", uid, uid))
	}
	return users
}

// TestHostileProgramAsUser: a program as a user of its own gets into no other process and to no file of
// the server. Two programs of the same user get into each other, whatever their sessions and identities.
func TestHostileProgramAsUser(t *testing.T) {
	needs.Root(t)
	dir := openDir(t)
	users := uids(3)
	own, shared, other := users[0], users[1], users[2]
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tokens := file("tokens", "alice token-of-alice-in-plain\nbob token-of-bob-in-plain\n")
	policy := file("users", fmt.Sprintf("alice @server %s %s\nbob @server %s %s\n", own, shared, shared, other))
	audit, spools := filepath.Join(dir, "audit"), filepath.Join(dir, "spools")
	if err := os.Mkdir(spools, 0o755); err != nil {
		t.Fatal(err)
	}
	roles := file("roles", "alice operator\n") // sees how much the server spools
	s := startServer(t, "--auth-token-file", tokens, "--auth-roles-file", roles, "--users-file", policy, "--audit", audit, "--spool-dir", spools)
	alice, bob := s.as("token-of-alice-in-plain", nil), s.as("token-of-bob-in-plain", nil)
	wait := func(c *conn, id, user string, more obj) *proc {
		params := obj{"argv": sh("tty; echo up; exec sleep 1000"), "user": user}
		maps.Copy(params, more)
		p := c.start(id, params)
		stream := "stdout"
		if params["tty"] == true {
			stream = "pty"
		}
		p.awaitOutput(stream, "up")
		return p
	}
	withTerminal := wait(bob, "terminal", other, obj{"tty": true})
	terminal, _, _ := strings.Cut(withTerminal.outputSoFar("pty"), "\r")
	others := map[string]int{
		"the server":                    s.pid(),
		"the holder":                    s.cmd.Process.Pid,
		"the server's user, own":        wait(alice, "root", "@server", nil).pid(),
		"the server's user, of bob":     wait(bob, "root", "@server", nil).pid(),
		"another user":                  wait(bob, "other", other, nil).pid(),
		"another user, with a terminal": withTerminal.pid(),
	}
	sameUser := pidArg(wait(bob, "shared", shared, nil).pid())
	if !strings.HasPrefix(terminal, "/dev/pts/") {
		t.Fatalf("tty(1) says %q", terminal)
	}
	// bob's program fills a spool, which bob does not read.
	bob.mutePongs.Store(true)
	bob.start("spools", obj{"user": other, "argv": []string{"/usr/bin/yes"}, "retention": obj{"bytes": 64 << 10, "onFull": "spool"}})
	eventually(t, "the server spools", func() bool { return spooled(t, alice) > 0 })

	files := []string{"read:" + tokens, "write:" + tokens, "read:" + audit, "write:" + audit, "read:" + policy, "write:" + policy, "read:" + terminal, "write:" + terminal}
	filepath.WalkDir(spools, func(path string, d os.DirEntry, err error) error {
		if path != spools {
			files = append(files, "read:"+path, "write:"+path)
		}
		return err
	})
	if cgroup := cgroupOf(t, others["another user"]); cgroup != "" {
		files = append(files, "write:"+cgroup+"/cgroup.procs", "write:"+cgroup+"/cgroup.kill", "write:"+cgroup+"/cgroup.freeze")
	}
	tries := append(files, "connect:"+s.url)
	for _, pid := range others {
		tries = append(tries, pidArg(pid))
	}
	got := spied(t, alice, obj{"user": own}, tries...)
	for name, pid := range others {
		if ways := got[pidArg(pid)]; len(ways) > 0 {
			t.Errorf("a program got into %s: %q", name, ways)
		}
		delete(got, pidArg(pid))
	}
	if len(got) > 0 {
		t.Errorf("a program opened %q", got)
	}
	t.Run("door", func(t *testing.T) {
		socket := "unix://" + filepath.Join(dir, "socket")
		startServer(t, "--users-file", usersFile(t, "* "+own), "--listen", socket)
		open := startServer(t, "--users-file", usersFile(t, "* "+own))
		got := spied(t, open.session(nil), obj{"user": own}, "connect:"+socket, "connect:"+open.url)
		if len(got["connect:"+socket]) > 0 {
			t.Error("a program of another user opened the socket")
		}
		if len(got["connect:"+open.url]) == 0 {
			t.Error("a program did not connect to a server that asks for no credential: docs/THREAT_MODEL.md says otherwise")
		}
	})
	t.Run("itself", func(t *testing.T) {
		wantSays(t, alice, "itself", `ls /proc/self/fd | wc -l; tr '\0' '\n' </proc/self/environ | grep -ciE 'token|troupe'; cat /proc/$PPID/environ`, "4\n0\ncat: /proc/"+fmt.Sprint(s.cmd.Process.Pid)+"/environ: Permission denied", obj{"user": own})
	})
	t.Run("kills", func(t *testing.T) {
		var list []string
		for _, pid := range others {
			list = append(list, fmt.Sprint(pid))
		}
		out := says(t, alice, "kills", "for pid in "+strings.Join(list, " ")+"; do kill -9 $pid; done", obj{"user": own})
		if n := strings.Count(out, "not permitted"); n != len(others) {
			t.Errorf("%d of %d kills were refused: %s", n, len(others), out)
		}
	})
	t.Run("the same user", func(t *testing.T) {
		// An operator who does not want this gives each identity a user of its own.
		if got := spied(t, alice, obj{"user": shared}, sameUser)[sameUser]; !slices.Contains(got, "signal it") || !slices.Contains(got, "read its environment") {
			t.Errorf("a program of the same user got in only by %q: docs/THREAT_MODEL.md says more", got)
		}
	})
	for name, pid := range others {
		if err := unix.Kill(pid, 0); err != nil {
			t.Errorf("%s has ended: %v", name, err)
		}
	}
}

// cgroupOf returns the directory in cgroup v2 of a process, or "".
func cgroupOf(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(inProc(pid, "cgroup"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok && strings.Contains(path, "troupe-") {
			return needs.Cgroup(t) + path
		}
	}
	return ""
}

// TestHostileProgramOfTheServersUser: without users, the server's memory, environment and descriptors are
// closed to its programs. Everything that belongs to the user is open to them: docs/THREAT_MODEL.md. The server works as usual.
func TestHostileProgramOfTheServersUser(t *testing.T) {
	dir := openDir(t)
	tokens := filepath.Join(dir, "tokens")
	if err := os.WriteFile(tokens, []byte("alice token-of-alice-in-plain\nbob token-of-bob-in-plain\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(tokens, nobody, nobody); err != nil && os.Geteuid() == 0 {
		t.Fatal(err)
	}
	s := startOrdinary(t, dir, "--auth-token-file", tokens, "--verbose")
	alice, bob := s.as("token-of-alice-in-plain", nil), s.as("token-of-bob-in-plain", nil)
	sibling := bob.start("sibling", obj{"argv": sh("echo up; exec sleep 1000")})
	sibling.awaitOutput("stdout", "up")
	server := pidArg(s.pid())
	got := spied(t, alice, nil, server, pidArg(sibling.pid()), "read:"+tokens)
	if !slices.Equal(got[server], ofUsers) {
		t.Errorf("a program gets into the server by %q, want %q", got[server], ofUsers)
	}
	scope, _ := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope") // 1 or more: only descendants can be traced
	if all := len(waysInto); len(got[pidArg(sibling.pid())]) < all && (len(scope) == 0 || scope[0] == '0') {
		t.Errorf("a program gets into one of the same user only by %q", got[pidArg(sibling.pid())])
	}
	if len(got["read:"+tokens]) == 0 {
		t.Error("a program cannot read a file of its own user")
	}
	wantSays(t, alice, "itself", "cat /proc/self/environ >/dev/null && id -u; ulimit -n", fmt.Sprint(procNumber(t, s.pid(), "Uid:"), "\n77"), obj{"limits": obj{"nofile": 77}})
	if log := s.stderr.String(); strings.Contains(log, "each start copies") || strings.Contains(log, "can read the server's") {
		t.Errorf("the server lacks something:\n%s", log)
	}
}

// TestNamesControlNoTerminal: names that a client or a program chooses reach the log, the audit log and
// troupe run without a character that a terminal obeys. On the wire, names stay as they are: whoever prints
// them must escape them.
func TestNamesControlNoTerminal(t *testing.T) {
	needs.Root(t)
	const evil = "\x1b[2J\x1b]0;title\x07\x7f\u009b31m\u202eevil"
	user := uids(1)[0]
	audit := filepath.Join(t.TempDir(), "audit")
	s := startServer(t, "--verbose", "--audit", audit, "--users-file", usersFile(t, "* "+user))
	c := s.session(obj{"clientName": evil, "session": obj{"name": evil}})
	other := s.session(obj{"clientName": evil})
	other.reply(other.request("initialize", obj{"clientName": evil, "resumeSessionId": evil}))
	c.start(evil, obj{"user": user, "argv": []string{"/bin/sh", "-c", "printf '" + `\033[2J` + "'; exit 3", evil}, "env": obj{evil: evil, "PATH": "/usr/bin:/bin"}}).awaitClosed()
	c.reply(c.request("process/start", startParams("missing", obj{"argv": []string{evil}, "cwd": "file:///"})))
	c.reply(c.request("process/start", startParams("nobody", obj{"argv": sh(""), "user": evil})))
	c.reply(c.request("fs/readFile", obj{"path": "file:///" + "%1b%5b2J"}))
	c.reply(c.request(evil, obj{}))
	if list := c.call("session/list", obj{}); !strings.Contains(jsonText(list), "title") {
		t.Errorf("session/list: %s", jsonText(list))
	}
	if list := c.call("process/list", obj{})["processes"].([]any); list[0].(obj)["processId"] != evil {
		t.Errorf("process/list: %q", list)
	}
	bad := s.dial()
	bad.request("initialize", obj{"clientName": evil, "role": evil})
	bad.notify(evil, obj{})
	<-bad.done
	c.call("session/close", obj{})
	s.stop()
	record, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(record), "evil") {
		t.Errorf("the audit log has none of the names: %s", record)
	}
	for where, text := range map[string]string{"log": s.stderr.String(), "audit log": string(record)} {
		for i, r := range text {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Errorf("the %s has %U: %+q", where, r, text[max(0, i-100):min(len(text), i+100)])
				break
			}
		}
	}
}
