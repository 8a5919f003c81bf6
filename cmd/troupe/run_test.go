//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testleak"
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
	goleak.VerifyTestMain(testleak.Patient(m), goleak.Cleanup(func(code int) {
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

// does runs a command that must succeed, and returns all that it prints.
func does(t *testing.T, args ...string) string {
	t.Helper()
	out, err := troupe(t, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("troupe %q: %v: %s", args, err, out)
	}
	return string(out)
}

// await waits until done reports true. A failure tells what was seen last.
func await(t *testing.T, done func() (ok bool, seen any)) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		ok, seen := done()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %v", patience, seen)
		}
	}
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

// runOn runs a script on a server, and returns once the script has said that it is up.
func runOn(t *testing.T, url, script string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	cmd, stderr = troupe(t, "run", "--url", url, "--", "sh", "-c", script), new(bytes.Buffer)
	cmd.Stderr = stderr
	startUp(t, cmd)
	return cmd, stderr
}

// While the connection is lost, a signal ends troupe and not the program.
func TestRunInterruptedWhileLost(t *testing.T) {
	t.Parallel()
	url, server := startServer(t, "--no-holder")
	cmd, stderr := runOn(t, url, `trap '' INT; echo up; exec sleep 1000`)
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

// A user who waits in vain for a connection can leave, and the shell does not get the keys typed
// meanwhile.
func TestRunLeavesLostTerminal(t *testing.T) {
	t.Parallel()
	url, server := startServer(t, "--no-holder")
	d := atDesk(t, 30, 100, "run", "--url", url, "--", "sh", "-c", `echo ready; exec cat`)
	tty, err := os.OpenFile(d.slave.Name(), os.O_RDWR|syscall.O_NOCTTY, 0) // d closes its own
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	d.want(t, "ready")
	server.Process.Kill()
	d.want(t, "connection lost")
	for range 20 { // more than the client has writes in flight
		d.enter("touch leaked\r")
	}
	d.enter("\x03\x03")
	if code := awaitExit(t, d.ended); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	if n, err := unix.IoctlGetInt(int(tty.Fd()), toBeRead); err != nil || n != 0 {
		t.Errorf("%d bytes are left to be read, %v", n, err)
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
			await(t, func() (bool, any) {
				n, err := unix.IoctlGetInt(int(stdout.(*os.File).Fd()), toBeRead)
				return err == nil && n == full, fmt.Sprintf("%d bytes of output, %v", n, err)
			})
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
