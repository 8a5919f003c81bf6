package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/internal/needs"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/creack/pty"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// With asMain in its environment, the test binary runs as troupe.
const asMain = "TROUPE_TEST_AS_MAIN"

// With freeMainThread, the thread that the runtime keeps for signals is not the main thread. Otherwise it usually is.
const freeMainThread = "TROUPE_TEST_FREE_MAIN_THREAD"

func TestMain(m *testing.M) {
	// Commands start this binary without the variable, too: the user's own server, and programs under load. Without this
	// check the tests would run in themselves again and again.
	if os.Getenv(asMain) != "" || len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		os.Unsetenv(asMain)
		if os.Getenv(freeMainThread) != "" {
			runtime.LockOSThread()
			signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM)
			runtime.UnlockOSThread()
		}
		main()
		return
	}
	// Catch SIGHUP: under nohup(1) the programs of the tests would inherit the ignored signal. A caught
	// signal is not inherited.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	stop := ownPlace()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		stop()
		os.Exit(code)
	}))
}

// ownPlace gives the commands of the tests a server of their own, and returns what ends this server.
func ownPlace() (stop func()) {
	dir, err := os.MkdirTemp("/tmp", "troupe-cmd-") // the path of a socket must be short
	if err != nil {
		panic(err)
	}
	for name, value := range map[string]string{"XDG_RUNTIME_DIR": dir, "XDG_CONFIG_HOME": dir, "TROUPE_URL": ""} {
		os.Setenv(name, value)
	}
	return func() {
		if err := new(target.Flags).StopOwn(context.Background()); err != nil && !errors.Is(err, target.ErrNoServer) {
			fmt.Fprintln(os.Stderr, err)
		}
		os.RemoveAll(dir)
	}
}

// patience is the timeout for events that are sure to come.
const patience = 60 * time.Second

func troupe(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asMain+"=1")
	cmd.WaitDelay = patience
	return cmd
}

// startServer starts a server and returns its URL.
func startServer(t *testing.T, flags ...string) (url string, server *exec.Cmd) {
	t.Helper()
	return startServerWith(t, func(*exec.Cmd) {}, flags...)
}

func startServerWith(t *testing.T, configure func(*exec.Cmd), flags ...string) (url string, server *exec.Cmd) {
	t.Helper()
	server = troupe(t, append([]string{"serve", "--listen", "ws://127.0.0.1:0"}, flags...)...)
	configure(server)
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Signal(syscall.SIGTERM)
		server.Wait()
	})
	url, err = bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(url), server
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode()
	}
	t.Fatalf("did not exit: %v", err)
	return -1
}

func TestRun(t *testing.T) {
	t.Parallel()
	url, _ := startServer(t)
	plain := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, on := range []struct {
		name  string
		flags []string
	}{{"own", nil}, {"here", []string{"--here"}}, {"url", []string{"--url", url}}} {
		t.Run(on.name, func(t *testing.T) {
			for _, c := range []struct {
				flags  string
				script string // for sh; empty: flags has the argv
				stdin  string
				stdout string
				stderr string // a part of stderr
				code   int
			}{
				{script: "echo out; echo err >&2; exit 7", stdout: "out\n", stderr: "err\n", code: 7},
				{script: "cat; echo end", stdin: "some input", stdout: "some inputend\n"},
				{script: "kill -9 $$", code: 137},
				{script: "kill -TERM $$", code: 143},
				{flags: "--env A=b --env C=d", script: `echo "$A$C"`, stdout: "bd\n"},
				{flags: "--cwd /usr", script: "pwd", stdout: "/usr\n"},
				{flags: "--tty", script: "stty size; tty >/dev/null && echo tty", stdout: "24 80\r\ntty\r\n"},
				{flags: "--no-tty", script: "tty", stdout: "not a tty\n", code: 1},
				{flags: "-- nosuchbin", stderr: `no such program "nosuchbin"`, code: 127},
				{flags: "-- " + plain, stderr: "not executable", code: 126},
				{flags: "--cwd /nonexistent true", stderr: "/nonexistent", code: 125},
				{flags: "--bogus", stderr: "see troupe run --help", code: 125},
				{flags: "", stdin: "exit 3", stderr: "name a program", code: 125}, // with --url, this is the login shell
				{flags: "--tty --no-tty true", stderr: "choose one", code: 125},
				{flags: "--env =x true", stderr: "KEY=VALUE", code: 125},
			} {
				args := append([]string{"run"}, on.flags...)
				args = append(args, strings.Fields(c.flags)...)
				if c.script != "" {
					args = append(args, "--", "sh", "-c", c.script)
				}
				cmd := troupe(t, args...)
				var stdout, stderr bytes.Buffer
				cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(c.stdin), &stdout, &stderr
				code := exitCode(t, cmd.Run())
				if on.name == "url" && len(args) == len(on.flags)+1 {
					c.code, c.stderr = 3, ""
				}
				if code != c.code || stdout.String() != c.stdout || !strings.Contains(stderr.String(), c.stderr) {
					t.Errorf("%q: exit code %d, stdout %q, stderr %q", args[1:], code, stdout.String(), stderr.String())
				}
			}
		})
	}
}

// Without --url the program gets the environment of troupe; with --url, the server's environment and a
// few variables of the user.
func TestRunEnvironment(t *testing.T) {
	url, _ := startServer(t)
	cmd := troupe(t, "run", "--", "sh", "-c", `echo "$LC_TEST.$MINE.$TERM"`)
	cmd.Env = append(cmd.Env, "LC_TEST=x", "MINE=y", "TERM=z")
	if out, err := cmd.Output(); string(out) != "x.y.z\n" || err != nil {
		t.Errorf("own server: %q, %v", out, err)
	}
	for flag, want := range map[string]string{"--no-tty": "x..\n", "--tty": "x..z\r\n"} {
		cmd = troupe(t, "run", "--url", url, flag, "--", "sh", "-c", `echo "$LC_TEST.$MINE.${TERM#dumb}"`)
		cmd.Env = append(cmd.Env, "LC_TEST=x", "MINE=y", "TERM=z")
		out, err := cmd.Output()
		if flag == "--no-tty" && os.Getenv("TERM") != "" { // the server inherits TERM from this test
			want = "x.." + strings.TrimPrefix(os.Getenv("TERM"), "dumb") + "\n"
		}
		if string(out) != want || err != nil {
			t.Errorf("--url %s: %q, %v; want %q", flag, out, err, want)
		}
	}
}

// TestRunUser: the program has the user, the mask and the privileges of the flags, here and on a server.
func TestRunUser(t *testing.T) {
	needs.Root(t)
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte("* 54321:54322 nobody\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url, _ := startServer(t, "--users-file", users)
	t.Setenv("A_KEY", "passed")
	for name, flags := range map[string][]string{"here": {"--here"}, "url": {"--url", url}} {
		run := func(want string, args ...string) {
			t.Helper()
			out, err := troupe(t, append(append([]string{"run", "--cwd", "/"}, flags...), args...)...).CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != want {
				t.Errorf("%s: %q, %v, want %q", name, got, err, want)
			}
		}
		const script = "echo $(id -u) $(id -g) $(umask) $(grep NoNewPrivs /proc/self/status) $HOME $A"
		run("54321 54322 0027 NoNewPrivs: 1 / own", "--user", "54321:54322", "--umask", "027", "--no-new-privs", "--env", "A=own", "sh", "-c", script)
		run("65534 65534 0022 NoNewPrivs: 0 /mine", "--user", "nobody", "--umask", "022", "--env", "HOME=/mine", "sh", "-c", script)
		for arg, text := range map[string]string{"no-such-user": "no-such-user", "4294967295": "is not a number"} {
			if name == "url" {
				text = "not among the users"
			}
			out, err := troupe(t, append(append([]string{"run"}, flags...), "--user", arg, "true")...).CombinedOutput()
			if code := exitCode(t, err); code != exitFailed || !strings.Contains(string(out), text) {
				t.Errorf("%s --user %s: exit code %d, %s", name, arg, code, out)
			}
		}
	}
	if out, err := troupe(t, "run", "--here", "--cwd", "/", "--user", "54321", "sh", "-c", "echo $A_KEY").Output(); err != nil || string(out) != "passed\n" {
		t.Errorf("a variable of troupe's own environment: %q, %v", out, err)
	}
}

func TestRunSignals(t *testing.T) {
	cmd := troupe(t, "run", "--ephemeral", "--", "sh", "-c", `trap 'echo usr1' USR1; trap 'echo usr2' USR2; trap 'echo int' INT; trap 'echo quit' QUIT; trap 'echo hup' HUP
trap 'echo term; exit 9' TERM; echo ready; while :; do sleep 0.05; done`)
	stdout, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for _, step := range []struct {
		line string
		then syscall.Signal
	}{
		{"ready", syscall.SIGUSR1}, {"usr1", syscall.SIGUSR2}, {"usr2", syscall.SIGINT}, {"int", syscall.SIGQUIT},
		{"quit", syscall.SIGHUP}, {"hup", syscall.SIGTERM}, {"term", 0},
	} {
		if !lines.Scan() || lines.Text() != step.line {
			t.Fatalf("%q, want %q", lines.Text(), step.line)
		}
		if step.then != 0 {
			cmd.Process.Signal(step.then)
		}
	}
	if code := exitCode(t, cmd.Wait()); code != 9 {
		t.Errorf("exit code %d", code)
	}
}

// gone waits until process pid is gone.
func gone(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(pid))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); syscall.Kill(n, 0) == nil; time.Sleep(10 * time.Millisecond) {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n))
		if _, rest, ok := strings.Cut(string(stat), ") "); ok && rest[0] == 'Z' {
			return // dead, and a child of another process
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d is left", n)
		}
	}
}

func TestRunLeavesNothing(t *testing.T) {
	url, _ := startServer(t)
	for _, flags := range [][]string{nil, {"--here"}, {"--url", url}} {
		args := append(append([]string{"run"}, flags...), "--", "sh", "-c", `setsid sleep 1000 >/dev/null 2>&1 & echo $!; exit 3`)
		out, err := troupe(t, args...).Output()
		if code := exitCode(t, err); code != 3 {
			t.Errorf("exit code %d", code)
		}
		gone(t, string(out))
	}
}

// A program that has ended has ended, also if its output or its input could not be copied: nothing is left, and nobody is
// told to come back.
func TestRunCannotCopy(t *testing.T) {
	url, _ := startServer(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	needs.Feature(t, err)
	defer full.Close()
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for _, c := range []struct {
		want string
		code int
		set  func(*exec.Cmd)
	}{
		{"write /dev/stdout: no space left on device", exitFailure, func(cmd *exec.Cmd) { cmd.Stdout = full }},
		{"is a directory", exitFailed, func(cmd *exec.Cmd) { cmd.Stdin = dir }},
	} {
		file := filepath.Join(t.TempDir(), "pid")
		var stderr bytes.Buffer
		cmd := troupe(t, "run", "--url", url, "--", "sh", "-c", "trap '' PIPE; sleep 1000 >/dev/null 2>&1 & echo $! >"+file+"; echo out; cat; exit 0")
		cmd.Stderr = &stderr
		c.set(cmd)
		code := exitCode(t, cmd.Run())
		if code != c.code || !strings.Contains(stderr.String(), c.want) || strings.Contains(stderr.String(), "goes on") {
			t.Errorf("code %d, stderr %q; want %d and %q", code, stderr.String(), c.code, c.want)
		}
		pid, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		gone(t, strings.TrimSpace(string(pid)))
	}
}

func TestRunBrokenPipe(t *testing.T) {
	cmd := troupe(t, "run", "--", "sh", "-c", `echo $$; exec yes`)
	stdout, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	stdout.Close()
	if code := exitCode(t, cmd.Wait()); code != 141 {
		t.Errorf("exit code %d", code)
	}
	gone(t, pid)
}

// A screen collects the output to a terminal until a test asks for it.
type screen struct {
	lines  chan string
	text   string // not looked at yet
	before string // looked at
}

func watchScreen(r io.Reader) *screen {
	s := &screen{lines: make(chan string)}
	go func() {
		defer close(s.lines)
		b := make([]byte, 4096)
		for {
			n, err := r.Read(b)
			if err != nil {
				return // EIO: the other end is closed
			}
			s.lines <- string(b[:n])
		}
	}()
	return s
}

// want waits for text, and drops the output up to the end of text.
func (s *screen) want(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		if head, rest, ok := strings.Cut(s.text, text); ok {
			s.before += head + text
			s.text = rest
			return
		}
		select {
		case more, ok := <-s.lines:
			if !ok {
				t.Fatalf("the terminal was closed, and showed %q and not %q", s.text, text)
			}
			s.text += more
		case <-deadline:
			t.Fatalf("the terminal showed %q and not %q", s.text, text)
		}
	}
}

func TestRunTerminal(t *testing.T) {
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer slave.Close()
	setSize := func(rows, cols uint16) {
		if err := pty.Setsize(master, &pty.Winsize{Rows: rows, Cols: cols}); err != nil {
			t.Fatal(err)
		}
	}
	setSize(30, 90)
	before, err := unix.IoctlGetTermios(int(slave.Fd()), getTermios)
	if err != nil {
		t.Fatal(err)
	}
	s := watchScreen(master)
	cmd := troupe(t, "run", "--", "sh", "-c", `stty size; read line; echo "got $line"
trap 'stty size' WINCH; trap 'echo int; exit 5' INT; echo ready; while :; do sleep 0.05; done`)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.want(t, "30 90")
	if first, err := unix.IoctlGetTermios(int(slave.Fd()), getTermios); err != nil || first.Lflag&unix.ECHO != 0 {
		t.Errorf("the terminal echoes answers to the first output: %+v, %v", first, err)
	}
	io.WriteString(master, "hello\r")
	s.want(t, "got hello")
	s.want(t, "ready")
	setSize(40, 100)
	s.want(t, "40 100")
	during, err := unix.IoctlGetTermios(int(slave.Fd()), getTermios)
	if err != nil || during.Lflag&unix.ICANON != 0 {
		t.Errorf("the terminal is not raw: %+v, %v", during, err)
	}
	io.WriteString(master, "\x03") // ^C in the program's own terminal
	s.want(t, "int")
	if code := exitCode(t, cmd.Wait()); code != 5 {
		t.Errorf("exit code %d", code)
	}
	go func() {
		for range s.lines { // otherwise the reader of the screen would block
		}
	}()
	after, err := unix.IoctlGetTermios(int(slave.Fd()), getTermios)
	if err != nil || *after != *before {
		t.Errorf("the terminal was\n%+v and is\n%+v, %v", before, after, err)
	}
}

// A cutter is a TCP proxy that resets each connection after a number of bytes.
type cutter struct {
	net.Listener
	to    string
	conns sync.WaitGroup
	n     atomic.Int32
}

func newCutter(t *testing.T, url string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: l, to: strings.TrimPrefix(url, "ws://")}
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.n.Add(1)
			c.conns.Go(func() { c.proxy(conn) })
		}
	}()
	t.Cleanup(func() { l.Close(); <-accepted; c.conns.Wait() })
	return c
}

func (c *cutter) proxy(conn net.Conn) {
	server, err := net.Dial("tcp", c.to)
	if err != nil {
		conn.Close()
		return
	}
	budget := 100_000 + rand.Int64N(300_000) // bytes in each direction; a message has 44,000
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{conn, server}, {server, conn}} {
		both.Go(func() {
			io.CopyN(way[0], way[1], budget)
			for _, end := range way {
				end.(*net.TCPConn).SetLinger(0)
				end.Close()
			}
		})
	}
	both.Wait()
}

func TestRunResumes(t *testing.T) {
	t.Parallel()
	url, _ := startServer(t)
	c := newCutter(t, url)
	input := make([]byte, 3<<20)
	for i := range input {
		input[i] = byte(rand.Uint32())
	}
	cmd := troupe(t, "run", "--url", "ws://"+c.Addr().String(), "--", "sh", "-c", "cat; exit 4")
	cmd.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if code := exitCode(t, err); code != 4 || sha256.Sum256(out) != sha256.Sum256(input) {
		t.Errorf("exit code %d, %d of %d bytes; stderr %q", code, len(out), len(input), stderr.String())
	}
	c.Close()
	if c.n.Load() < 10 {
		t.Errorf("only %d connections", c.n.Load())
	}
}

// Before the program has started, a signal ends troupe.
func TestRunInterruptedBeforeTheStart(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	cmd := troupe(t, "run", "--url", "ws://"+silent.Addr().String(), "--", "true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cmd.Process.Signal(syscall.SIGTERM)
	if code := exitCode(t, cmd.Wait()); code != 143 {
		t.Errorf("exit code %d", code)
	}
}

// runOn runs a script on a server, and returns once the script has printed a line.
func runOn(t *testing.T, url, script string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	cmd, stderr = troupe(t, "run", "--url", url, "--", "sh", "-c", script), new(bytes.Buffer)
	stdout, _ := cmd.StdoutPipe()
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return cmd, stderr
}

// While the connection is lost, a signal ends troupe and not the program.
func TestRunInterruptedWhileLost(t *testing.T) {
	t.Parallel()
	url, server := startServer(t)
	cmd, stderr := runOn(t, url, `trap '' INT; echo ready; exec sleep 1000`)
	server.Process.Kill()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		cmd.Process.Signal(syscall.SIGINT) // the first signal may still be for the program
		select {
		case err := <-ended:
			if code := exitCode(t, err); code != 130 || !strings.Contains(stderr.String(), "interrupted") {
				t.Errorf("exit code %d, stderr %q", code, stderr.String())
			}
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// If another cause than the program ended the program, troupe prints the cause.
func TestRunEndedByServer(t *testing.T) {
	url, server := startServer(t)
	cmd, stderr := runOn(t, url, `echo ready; exec sleep 1000`)
	server.Process.Signal(syscall.SIGTERM)
	if code := exitCode(t, cmd.Wait()); code != 143 || !strings.Contains(stderr.String(), "server shutdown") {
		t.Errorf("exit code %d, stderr %q", code, stderr.String())
	}
}

// A user who waits in vain for a connection can leave, and the shell does not get the keys typed
// meanwhile.
func TestRunLeavesLostTerminal(t *testing.T) {
	t.Parallel()
	url, server := startServer(t)
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer slave.Close()
	s := watchScreen(master)
	cmd := troupe(t, "run", "--url", url, "--", "sh", "-c", `echo ready; exec cat`)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.want(t, "ready")
	server.Process.Kill()
	s.want(t, "connection lost")
	for range 20 { // more than the client has writes in flight
		io.WriteString(master, "touch leaked\r")
	}
	io.WriteString(master, "\x03\x03")
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	go func() {
		for range s.lines { // otherwise the reader of the screen would block
		}
	}()
	if code := exitCode(t, <-ended); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	if n, err := unix.IoctlGetInt(int(slave.Fd()), toBeRead); err != nil || n != 0 {
		t.Errorf("%d bytes are left to be read, %v", n, err)
	}
}

// The client sees a single process over all runs, with each restart at its place in the output.
func TestClientRestarts(t *testing.T) {
	url, _ := startServer(t)
	c, err := client.Dial(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var out bytes.Buffer
	cmd := c.Command("sh", "-c", `echo >>$0; n=$(wc -l <$0); echo "run $n"; [ $n = 3 ]`, filepath.Join(t.TempDir(), "runs"))
	cmd.Stdout = &out
	cmd.Restart = &protocol.Restart{Policy: "transient", Backoff: &protocol.Backoff{InitialMs: new(uint64(1))}}
	cmd.OnRestart = func(n protocol.RestartedNotification) { fmt.Fprintf(&out, "- %d after %s\n", n.Run, n.Reason) }
	if err := cmd.Run(t.Context()); err != nil {
		t.Error(err)
	}
	if want := "run 1\n- 2 after exit code 1\nrun 2\n- 3 after exit code 1\nrun 3\n"; out.String() != want {
		t.Errorf("it wrote %q, want %q", out.String(), want)
	}
	if st, ok := cmd.Status(); !ok || st.Run != 3 || st.ExitCode != 0 {
		t.Errorf("status %+v, want that of run 3", st)
	}
}

// A second signal ends the command if nobody reads its output, or if the program has ended and a descendant of it holds
// the output open. Else only SIGKILL would.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"unread":     "head -c 3000000 /dev/zero",
		"descendant": `setsid sh -c "while kill -0 $$; do sleep 0.01; done 2>/dev/null; head -c 65536 /dev/zero; exec sleep 1000" & exit 3`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := troupe(t, "run", "--name", name, "--", "sh", "-c", script)
			stdout, err := run.StdoutPipe() // nobody reads it
			if err != nil {
				t.Fatal(err)
			}
			defer stdout.Close()
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			defer troupe(t, "sessions", "close", name).Run()
			const full = 64 << 10 // bytes that a pipe holds
			for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
				if n, err := unix.IoctlGetInt(int(stdout.(*os.File).Fd()), toBeRead); err == nil && n == full {
					break
				} else if time.Now().After(deadline) {
					run.Process.Kill()
					t.Fatalf("%d bytes of output, %v", n, err)
				}
			}
			ended := make(chan error, 1)
			go func() { ended <- run.Wait() }()
			for deadline := time.Now().Add(patience); ; {
				run.Process.Signal(syscall.SIGTERM)
				select {
				case err := <-ended:
					if code := exitCode(t, err); code != 128+int(syscall.SIGTERM) {
						t.Errorf("exit code %d", code)
					}
					return
				case <-time.After(500 * time.Millisecond):
				}
				if time.Now().After(deadline) {
					run.Process.Kill()
					t.Fatal("the command ignores its signals")
				}
			}
		})
	}
}
