package tests

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/tests/support/testroot"
)

// shopArg as the first argument makes this test binary a program of docs/example/troupe.yaml: db, web, migrate or worker.
const shopArg = "shop"

// shopMain runs a program of the shop. It writes a line to the file $SHOP_LOG when it starts, and another when it is
// asked to stop.
func shopMain(args []string) {
	name := os.Getenv("TROUPE_PROCESS")
	say := func(what string) {
		f, err := os.OpenFile(os.Getenv("SHOP_LOG"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = fmt.Fprintf(f, "%s %s %d\n", what, name, os.Getpid())
			f.Close()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	say("start")
	switch args[0] {
	case "migrate":
		fmt.Println("migrated")
		return
	case "db", "web":
		http.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {})
		go func() {
			l, err := (&net.ListenConfig{Control: sharePort}).Listen(context.Background(), "tcp", "127.0.0.1:"+args[1])
			if err == nil {
				err = http.Serve(l, nil)
			}
			fmt.Println(err)
			os.Exit(4)
		}()
	}
	fmt.Println(name, "says", os.Getenv("GREETING"))
	<-stop
	say("stop")
}

// sharePort lets a socket have the port of keepPort.
func sharePort(_, _ string, c syscall.RawConn) error {
	var err error
	failed := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	return cmp.Or(failed, err)
}

// keepPort returns a port of 127.0.0.1 at which nobody can listen but a program of this user with sharePort. The socket that keeps the
// port does not listen, so connections to the port are refused until the program listens.
func keepPort(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := cmp.Or(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1), unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return name.(*unix.SockaddrInet4).Port
}

// TestExampleIsWhole: the programs that docs/example/troupe.yaml names are there, so the example runs as it is.
func TestExampleIsWhole(t *testing.T) {
	t.Parallel()
	example, err := os.ReadFile("../docs/example/troupe.yaml")
	if err != nil {
		t.Fatal(err)
	}
	programs := regexp.MustCompile(`\bbin/\w+`).FindAllString(string(example), -1)
	if len(programs) != 4 {
		t.Errorf("the example has the programs %q, want 4", programs)
	}
	for _, name := range programs {
		info, err := os.Stat("../docs/example/" + name)
		if err != nil || info.Mode()&0o111 != 0o111 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// A shop is a directory with the example and its programs.
type shop struct {
	t    *testing.T
	dir  string
	log  string
	env  []string
	args []string // after the command of troupe
}

func newShop(t *testing.T) *shop {
	t.Helper()
	dir := t.TempDir()
	s := &shop{t: t, dir: dir, log: filepath.Join(dir, "log")}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"db", "migrate", "web", "worker"} {
		script := fmt.Sprintf("#!/bin/sh\nexec '%s' %s %s \"$@\"\n", self, shopArg, name)
		if err := writeProgram(filepath.Join(dir, "bin", name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	example, err := os.ReadFile("../docs/example/troupe.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.write(string(example))
	ports := ""
	for _, name := range []string{"DB_PORT", "WEB_PORT"} {
		ports += fmt.Sprintf("%s=%d\n", name, keepPort(t))
	}
	if err := os.WriteFile(filepath.Join(dir, ".env"), []byte(ports), 0o600); err != nil {
		t.Fatal(err)
	}
	runtime := testroot.Dir(t, "") // the path of a socket is short
	s.env = append(os.Environ(), "XDG_RUNTIME_DIR="+runtime, "XDG_CONFIG_HOME="+dir, "HOME="+dir, "SHOP_LOG="+s.log, "TROUPE_URL=")
	t.Cleanup(func() {
		p := s.troupe("server", "stop", "--force")
		<-p.exited
	})
	return s
}

func (s *shop) write(content string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "troupe.yaml"), []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// troupe runs a command of troupe in the directory of the shop.
func (s *shop) troupe(args ...string) *program {
	s.t.Helper()
	return startTroupe(s.t, func(cmd *exec.Cmd) {
		cmd.Dir, cmd.Env = s.dir, s.env
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}, slices.Concat(args[:1], s.args, args[1:])...)
}

// run runs a command to its end.
func (s *shop) run(code int, args ...string) string {
	s.t.Helper()
	p := s.troupe(args...)
	if got := p.exitCode(); got != code {
		s.t.Fatalf("troupe %v exits with %d, want %d:\n%s%s", args, got, code, p.stdout, p.stderr)
	}
	return p.stdout.String()
}

// lines are the lines of the log: what has started and stopped.
func (s *shop) lines() []string {
	data, err := os.ReadFile(s.log)
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// started returns the names of all that have started, in that order, and the last pid of each.
func (s *shop) started() (names []string, pids map[string]int) {
	pids = make(map[string]int)
	for _, line := range s.lines() {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "start" {
			names = append(names, f[1])
			pids[f[1]], _ = strconv.Atoi(f[2])
		}
	}
	return names, pids
}

// stopped returns the names of all that were asked to stop, in that order.
func (s *shop) stopped() (names []string) {
	for _, line := range s.lines() {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "stop" {
			names = append(names, f[1])
		}
	}
	return names
}

func (s *shop) await(what string, ok func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(factTimeout); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("not within %v: %s; the log:\n%s", factTimeout, what, strings.Join(s.lines(), "\n"))
		}
	}
}

func (s *shop) awaitShown(p *program, text string) {
	s.t.Helper()
	is := regexp.MustCompile("(?m)^" + text)
	for deadline := time.Now().Add(factTimeout); !is.MatchString(p.stdout.String()); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("troupe up does not show %s:\n%s%s", text, p.stdout, p.stderr)
		}
	}
}

func shopLives(pid int) bool { return syscall.Kill(pid, 0) == nil }

// TestUp plays a day with the example: all starts in order; who is killed comes back, alone; a changed file restarts
// what changed; the programs outlive the terminal; ^C ends them in reverse order.
func TestUp(t *testing.T) {
	t.Parallel()
	t.Run("own server", func(t *testing.T) {
		t.Parallel()
		playShop(t, newShop(t))
	})
	t.Run("another server", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		server := startServerWith(t, func(cmd *exec.Cmd) { cmd.Dir, cmd.Env = s.dir, s.env })
		s.args = []string{"--url", server.url}
		playShop(t, s)
	})
}

func playShop(t *testing.T, s *shop) {
	names, workers := []string{"db", "migrate", "web"}, []string{"worker-1", "worker-2", "worker-3"}
	up := s.troupe("up")
	s.await("all have started", func() bool { all, _ := s.started(); return len(all) == 6 })
	all, pids := s.started()
	if last := slices.Sorted(slices.Values(all[3:])); !slices.Equal(all[:3], names) || !slices.Equal(last, workers) {
		t.Fatalf("they started in the order %v", all)
	}
	s.awaitShown(up, `migrate  \| migrated`)
	s.awaitShown(up, `web      \* ready`)
	s.awaitShown(up, `worker-3 \| worker-3 says`)

	for i, name := range []string{"worker-2", "web", "db"} {
		if err := syscall.Kill(pids[name], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		s.await(name+" is back", func() bool { all, _ := s.started(); return len(all) > 6+i })
		s.awaitShown(up, fmt.Sprintf(`%-8s \* run 2 begins: ended by SIGKILL`, name))
		again, now := s.started()
		if again[6+i] != name || len(again) != 7+i {
			t.Fatalf("%s was killed, and %v have started", name, again[6:])
		}
		pids = now
	}

	// A changed file restarts only what changed, and the output of the first troupe up goes on.
	content, err := os.ReadFile(filepath.Join(s.dir, "troupe.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.write(strings.Replace(string(content), "GREETING: hello", "GREETING: moin", 1))
	if out := s.run(0, "up", "--detach", "--wait"); !strings.Contains(out, "restart 1, 5 unchanged") {
		t.Fatalf("troupe up says\n%s", out)
	}
	s.awaitShown(up, `web      \| web says moin`)
	again, now := s.started()
	if !slices.Equal(again[9:], []string{"web"}) {
		t.Fatalf("web has changed, and %v have started", again[9:])
	}
	for name, pid := range now {
		if name != "migrate" && !shopLives(pid) {
			t.Errorf("%s, pid %d, is gone", name, pid)
		}
	}

	// Fewer replicas: one worker stops.
	s.write(strings.NewReplacer("GREETING: hello", "GREETING: moin", "replicas: 3", "replicas: 2").Replace(string(content)))
	if out := s.run(0, "up", "--detach", "--wait"); !strings.Contains(out, "stop 1, 5 unchanged") {
		t.Fatalf("troupe up says\n%s", out)
	}
	if got := s.stopped(); !slices.Equal(got, []string{"web", "worker-3"}) {
		t.Fatalf("%v were stopped", got)
	}

	// The terminal goes, and the programs go on.
	up.signal(syscall.SIGKILL)
	<-up.exited
	up = s.troupe("up")
	s.awaitShown(up, `troupe   \* project shop on .*: 5 unchanged`)
	s.awaitShown(up, `troupe   \* the programs go on`)
	if again, _ := s.started(); len(again) != 10 {
		t.Fatalf("after the loss of a terminal, %v have started", again[10:])
	}

	up.signal(syscall.SIGINT)
	if code := up.exitCode(); code != 130 {
		t.Fatalf("after ^C, troupe up exits with %d:\n%s%s", code, up.stdout, up.stderr)
	}
	if got := s.stopped()[2:]; len(got) != 4 || !slices.Equal(got[2:], []string{"web", "db"}) {
		t.Errorf("^C has stopped %v, want the workers, web, db", got)
	}
	for name, pid := range now {
		if shopLives(pid) {
			t.Errorf("%s, pid %d, is alive after ^C", name, pid)
		}
	}
	if out := s.run(0, "down"); !strings.Contains(out, "nothing runs for project shop") {
		t.Errorf("troupe down says %q", out)
	}
}

// A migration that fails keeps others from starting, and its exit code is that of troupe up. The others go on.
func TestUpWithoutSuccess(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.write(`
processes:
  migrate: {command: exit 7}
  web: {command: echo never; sleep 1000, depends_on: {migrate: {condition: process_completed_successfully}}}
`)
	up := s.troupe("up", "-p", "failing")
	if code := up.exitCode(); code != 7 {
		t.Errorf("exit code %d, want 7", code)
	}
	if out := up.stdout.String(); !strings.Contains(out, "web     * waiting: waits for migrate, which has ended and was not ready") || strings.Contains(out, "| never") {
		t.Errorf("troupe up says\n%s", out)
	}
	if out := s.run(1, "up", "-p", "failing", "-d", "--wait"); !strings.Contains(out, "start 1, 1 unchanged") {
		t.Errorf("once more, troupe up says\n%s", out)
	}
	if out := s.run(0, "down", "-p", "failing"); !strings.Contains(out, "stopped project failing") {
		t.Errorf("troupe down says %q", out)
	}
}

// ^C twice kills what does not stop, and --abort-on-exit stops the others.
func TestUpEnds(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.write(`
name: stubborn
processes:
  deaf: {command: "trap '' TERM; echo deaf; while :; do sleep 1; done", shutdown: {timeout: 1h}}
`)
	up := s.troupe("up")
	s.awaitShown(up, `deaf   \| deaf`)
	up.signal(syscall.SIGINT)
	s.awaitShown(up, `troupe \* stopping; \^C again kills`)
	up.signal(syscall.SIGINT)
	if code := up.exitCode(); code != 130 {
		t.Errorf("after ^C twice, the exit code is %d:\n%s%s", code, up.stdout, up.stderr)
	}

	s.write(`
name: brief
processes:
  first: {command: exec sleep 1000}
  short: {command: "exit $CODE"}
  last: {command: exec sleep 1000}
`)
	for _, code := range []int{5, 0} {
		s.env = append(s.env, fmt.Sprint("CODE=", code))
		if up = s.troupe("up", "--abort-on-exit"); up.exitCode() != code {
			t.Errorf("with --abort-on-exit, the exit code is %d, want %d:\n%s%s", up.exitCode(), code, up.stdout, up.stderr)
		}
	}
}

// The session of a project lives as long as its programs, and then ends with troupe down.
func TestUpKeepsItsSession(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.write("name: kept\nprocesses:\n  a: {command: exec sleep 1000}\n")
	server := startServer(t)
	s.args = []string{"--url", server.url}
	s.run(0, "up", "-d", "--wait")
	c := server.session(knowing)
	session := func() obj {
		for _, one := range c.call("session/list", obj{})["sessions"].([]any) {
			if one.(obj)["name"] == "kept" {
				return one.(obj)
			}
		}
		return nil
	}
	eventually(t, "the session is kept, without a connection", func() bool {
		got := session()
		if got == nil || got["keepRunning"] != true {
			t.Fatalf("the session is %s", jsonText(got))
		}
		return got["state"] == "detached"
	})
	s.run(0, "down", "--timeout", "1m")
	if got := session(); got != nil {
		t.Errorf("after troupe down, the session is %s", jsonText(got))
	}
}
