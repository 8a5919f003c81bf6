package trees

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/fork"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testleak"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv("TREES_TEST_SERVER"); mode != "" {
		serveUntilKilled(Containment(mode))
	}
	if os.Getenv(headlessVar) != "" {
		endMainThread()
	}
	goleak.VerifyTestMain(testleak.Patient(m))
}

// headlessVar is the environment variable of a program that ends its main thread.
const headlessVar = "TREES_TEST_HEADLESS"

func init() {
	if os.Getenv(headlessVar) != "" {
		runtime.LockOSThread() // an init runs on the main thread
	}
}

// endMainThread ends the main thread. Another thread prints the pid once the main thread has ended, and goes on.
func endMainThread() {
	go func() {
		own := "/proc/" + strconv.Itoa(os.Getpid()) + "/stat"
		for {
			text, _ := os.ReadFile(own)
			if bytes.Contains(text, []byte(") Z ")) {
				break
			}
			time.Sleep(time.Millisecond)
		}
		fmt.Println(os.Getpid())
		time.Sleep(time.Hour)
	}()
	unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
}

// newTrees returns Trees that end with the test, and with them all their children.
func newTrees(t *testing.T, cfg Config) *Trees {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if cfg.Containment == ContainCgroup {
		needs.Cgroup(t)
	}
	ts, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeTrees(t, ts) })
	return ts
}

func closeTrees(t *testing.T, ts *Trees) {
	ts.EndAll()
	ts.mu.Lock()
	all := slices.Collect(maps.Keys(ts.live))
	ts.mu.Unlock()
	for _, tree := range all {
		if err := tree.Kill(); err != nil {
			t.Error(err)
		}
		if err := tree.Remove(); err != nil {
			t.Error(err)
		}
	}
	if err := ts.StopReaper(); err != nil {
		t.Error(err)
	}
	if err := ts.Close(); err != nil {
		t.Error(err)
	}
}

// watched is a child whose exit is awaited, as by its host.
type watched struct {
	*Tree
	t      *testing.T
	stdin  *os.File
	out    *bufio.Reader
	exited chan struct{} // closed after the exit
	once   sync.Once     // a test may watch twice
}

var names atomic.Uint64

// start starts a shell script. Its output is for pids.
func start(t *testing.T, ts *Trees, script string) *watched {
	t.Helper()
	w, err := startIn(t, ts, script, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// startIn starts a shell script with more variables.
func startIn(t *testing.T, ts *Trees, script string, env []string) (*watched, error) {
	tree, err := ts.Make("t-"+strconv.FormatUint(names.Add(1), 10), protocol.ProcessLimits{})
	if err != nil {
		return nil, err
	}
	in, stdin, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	thread, _ := fork.NewThread()
	pid, err := ts.Fork(func() (int, error) {
		a := &fork.Attr{
			Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Env: append([]string{"PATH=/usr/local/bin:/usr/bin:/bin"}, env...),
			Files: []uintptr{in.Fd(), theirs.Fd(), 2}, Session: true, DeathSignal: true, Umask: -1,
		}
		tree.Mark(a)
		return thread.Start(a)
	})
	in.Close()
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{Tree: tree, t: t, stdin: stdin, out: bufio.NewReader(out), exited: make(chan struct{})}
	tree.Begin(pid)
	tree.Watch(w.seen)
	t.Cleanup(func() {
		tree.Kill()
		<-w.exited
		stdin.Close()
		out.Close()
		thread.Close() // ends its children
	})
	return w, nil
}

func (w *watched) seen() {
	if !w.Wait() {
		w.Watch(w.seen)
		return
	}
	w.once.Do(func() { close(w.exited) })
	w.SearchAtExit()
}

// pids reads n lines of the output, with a pid each.
func (w *watched) pids(n int) (pids []int) {
	for range n {
		line, err := w.out.ReadString('\n')
		if err != nil {
			w.t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			w.t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

func (w *watched) untilExited() { <-w.exited }

// release waits until the tree is empty, and forgets it.
func (w *watched) release() error {
	w.untilExited()
	for pause := Backoff(0); !w.Empty(); pause.Wait() {
	}
	return w.Remove()
}

// untilEnded waits until a process is a zombie or gone.
func untilEnded(pid int) {
	for pause := Backoff(0); !Ended(pid); pause.Wait() {
	}
}

func running(pid int) bool { return !Ended(pid) }
