package tests

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/term"

	"github.com/b6f6fdd7/troupe/tests/support/testrelay"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
)

// TestScripts uses the binary like a person at a shell. The scripts have these commands besides
// testscript's own:
//
//	status N PROGRAM ARGS…   runs it and wants exit code N; stdout and stderr as of exec
//	waitfile FILE            waits until the file exists
//	waitline FILE VAR        waits for its first line, and sets the variable to it
//	nokin, awaitnokin        no process with $TOKEN in its arguments is there: now, or soon
//	begin NAME PROGRAM ARGS… starts a program on the server at $URL, in a session of its own that lives on.
//	                         NAME:POLICY gives it a restart policy
//	awaitout TEXT PROGRAM…   runs PROGRAM until its stdout has TEXT
func TestScripts(t *testing.T) { runScripts(t, "testdata/script") }

func runScripts(t *testing.T, dir string) {
	bin, err := troupeBinary()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(bin)+":/usr/local/bin:/usr/bin:/bin")
			env.Setenv("TOKEN", newToken(env.T().(testing.TB)))
			env.Setenv(raceVar, raceOptions)
			return ownPlace(env, bin)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status":     scriptStatus,
			"waitfile":   scriptWaitFile,
			"waitline":   scriptWaitLine,
			"nokin":      scriptNoKin,
			"awaitnokin": scriptAwaitNoKin,
			"begin":      scriptBegin,
			"awaitout":   scriptAwaitOut,
		},
	})
}

// ownPlace gives a script a home, a config directory and a runtime directory of its own. A server that a command of
// the script has started on demand ends with the script.
func ownPlace(env *testscript.Env, bin string) error {
	runtime := testroot.Dir(env.T().(testing.TB), "") // the path of a socket is short
	env.Setenv("XDG_RUNTIME_DIR", runtime)
	env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, ".config"))
	env.Setenv("HOME", env.WorkDir)
	env.Defer(func() {
		stop := exec.Command(bin, "server", "stop", "--force")
		stop.Env = []string{"XDG_RUNTIME_DIR=" + runtime, raceVar + "=" + raceOptions}
		if out, err := stop.CombinedOutput(); err != nil {
			env.T().(testing.TB).Errorf("%s: %v: %s", stop, err, out)
		}
	})
	return nil
}

func scriptStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N PROGRAM ARGS…")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit, ok := err.(*exec.ExitError); ok {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// scriptFact polls for a fact without notification.
func scriptFact(ts *testscript.TestScript, what string, ok func() bool) {
	for deadline := time.Now().Add(factTimeout); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("not within %v: %s", factTimeout, what)
		}
	}
}

func scriptWaitFile(ts *testscript.TestScript, _ bool, args []string) {
	scriptFact(ts, "file "+args[0], func() bool { _, err := os.Stat(ts.MkAbs(args[0])); return err == nil })
}

func scriptWaitLine(ts *testscript.TestScript, _ bool, args []string) {
	scriptFact(ts, "a line in "+args[0], func() bool {
		data, _ := os.ReadFile(ts.MkAbs(args[0]))
		line, _, ok := strings.Cut(string(data), "\n")
		if ok {
			ts.Setenv(args[1], line)
		}
		return ok
	})
}

func scriptNoKin(ts *testscript.TestScript, _ bool, _ []string) {
	if left := describeKin(ts.Getenv("TOKEN")); left != "" {
		ts.Fatalf("there is still %s", left)
	}
}

func scriptAwaitNoKin(ts *testscript.TestScript, _ bool, _ []string) {
	scriptFact(ts, "no kin is left", func() bool { return len(kin(ts.Getenv("TOKEN"))) == 0 })
}

// --- troupe run on a terminal ---

// terminal is the terminal of a troupe run, with the text on its screen.
type terminal struct {
	t      *testing.T
	master *os.File
	screen *tap
	cmd    *exec.Cmd
	before *term.State
	ended  chan struct{}
}

func runOnTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	bin, err := troupeBinary()
	if err != nil {
		t.Fatal(err)
	}
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	x := &terminal{t: t, master: master, screen: &tap{}, ended: make(chan struct{})}
	x.resize(20, 70)
	if x.before, err = term.GetState(int(slave.Fd())); err != nil {
		t.Fatal(err)
	}
	x.cmd = exec.Command(bin, append([]string{"run"}, args...)...)
	x.cmd.Env = append(serverEnv[:len(serverEnv):len(serverEnv)], "TERM=dumb", "PS1=$ ")
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = slave, slave, slave
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { io.Copy(x.screen, master) })
	go func() { x.cmd.Wait(); close(x.ended) }()
	t.Cleanup(func() {
		x.cmd.Process.Kill()
		<-x.ended
		slave.Close() // the last descriptor: now the reader ends
		reading.Wait()
		master.Close()
		if t.Failed() {
			t.Logf("on the screen: %q", x.screen)
		}
	})
	return x
}

func (x *terminal) resize(rows, cols uint16) {
	x.t.Helper()
	if err := pty.Setsize(x.master, &pty.Winsize{Rows: rows, Cols: cols}); err != nil {
		x.t.Fatal(err)
	}
}

func (x *terminal) enter(keys string) {
	x.t.Helper()
	if _, err := io.WriteString(x.master, keys); err != nil {
		x.t.Fatal(err)
	}
}

func (x *terminal) await(text string) {
	x.t.Helper()
	if !x.screen.await(factTimeout, func() bool { return bytes.Contains(x.screen.data, []byte(text)) }) {
		x.t.Fatalf("%q is not on the screen after %v", text, factTimeout)
	}
}

// TestRunOnTerminal: a shell under troupe run works like a shell on this terminal.
func TestRunOnTerminal(t *testing.T) {
	t.Parallel()
	token := newToken(t)
	x := runOnTerminal(t, "--here", "--", "bash", "--norc", "--noprofile", "-i")
	x.enter("stty size\r")
	x.await("20 70\r\n")
	x.resize(33, 111)
	x.enter("until [ \"$(stty size)\" = '33 111' ]; do :; done; echo now-$((1+1))\r")
	x.await("now-2\r\n")

	// ^C goes to the program in the foreground, not to the shell or to troupe run.
	x.enter("sleep " + token + "\r")
	eventually(t, "sleep runs", func() bool { return sleepers(token) == 1 })
	x.enter("\x03")
	x.enter("echo code-$?\r")
	x.await("code-130\r\n")

	// ^Z stops the program. Jobs go to the background and come back.
	x.enter("sleep " + token + "\r")
	eventually(t, "sleep runs", func() bool { return sleepers(token) == 1 })
	x.enter("\x1a")
	x.await("Stopped")
	x.enter("bg; jobs; echo background-$((2+2))\r")
	x.await("background-4\r\n")
	x.await("Running")

	// The job still runs, and does not keep the terminal.
	x.enter("exit 9\r")
	<-x.ended
	if code := x.cmd.ProcessState.ExitCode(); code != 9 {
		t.Errorf("exit code %d, want 9", code)
	}
	wantNoKin(t, "when troupe run has ended", token)
	after, err := term.GetState(int(x.master.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if *after != *x.before {
		t.Errorf("the terminal is not as it was: %+v, was %+v", *after, *x.before)
	}
}

// --- troupe run over a connection with cuts ---

// cutter passes TCP on to a server, and resets connections in the middle of the output.
type cutter struct {
	*testrelay.Relay
	cuts atomic.Int32 // made so far
}

// newCutter returns a cutter that cuts so many times, each time after a number of bytes from the server.
func newCutter(t *testing.T, to string, cuts int, every int64) *cutter {
	t.Helper()
	c := new(cutter)
	c.Relay = testrelay.New(t, "tcp", to, func(l *testrelay.Link, n int, toClient bool) (int, testrelay.How) {
		left := every - l.ToClient
		if !toClient || int(c.cuts.Load()) >= cuts || int64(n) < left {
			return n, testrelay.Open
		}
		c.cuts.Add(1)
		return int(left), testrelay.RST
	})
	return c
}

// TestRunOverCuts: a program under troupe run gets its input unchanged, and so does whoever reads its output, over any number of cuts.
func TestRunOverCuts(t *testing.T) {
	t.Parallel()
	const size, cuts = 24 << 20, 5
	s := startServer(t)
	c := newCutter(t, strings.TrimPrefix(s.url, "ws://"), cuts, 3<<20)
	input := strings.NewReader(strings.Repeat(pattern, 1+size/len(pattern))[:size])
	p := startTroupe(t, func(cmd *exec.Cmd) { cmd.Stdin = input }, "run", "--url", "ws://"+c.Addr(), "--", "sh", "-c", "cat; exit 4")
	if code := p.exitCode(); code != 4 {
		t.Errorf("exit code %d, want 4", code)
	}
	c.Close()
	var check patternCheck
	if got := []byte(p.stdout.String()); !check.feed(got) || len(got) != size {
		t.Errorf("%d bytes came, want %d of the pattern; they differ behind byte %d", len(got), size, check.n)
	}
	if n := c.cuts.Load(); n != cuts {
		t.Errorf("%d connections were cut, want %d", n, cuts)
	}
}
