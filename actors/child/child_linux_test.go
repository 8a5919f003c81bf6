package child

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/internal/pace"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testleak"
)

func TestMain(m *testing.M) {
	if err := SealFiles(); err != nil { // else TestDescriptors would find the files of the caller
		panic(err)
	}
	endWithHolder := []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/b6f6fdd7/troupe/internal/holder.(*Server).listen"),
		goleak.IgnoreAnyFunction("github.com/b6f6fdd7/troupe/actors/child.endWithHolder"),
	}
	goleak.VerifyTestMain(testleak.Patient(m, endWithHolder...), endWithHolder...)
}

// watched is a child whose Facts are taken out and remembered, as by its actor.
type watched struct {
	Handle
	t    *testing.T
	in   *Intake
	told chan struct{}

	mu      sync.Mutex
	changed sync.Cond
	hold    bool // take out no Fact
	facts   []FactKind
	out     map[protocol.Stream][]byte
	before  int // bytes received before FactExited
	status  protocol.ExitStatus
	closed  bool
	rooms   int
	lost    int // bytes of FactLost
}

var names atomic.Uint64

// sh is the spec of a shell script.
func sh(name, script string) Spec {
	return Spec{Name: name, Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, StdinQueue: 64 << 10}
}

func script(text string) Spec { return sh(fmt.Sprintf("p-%d", names.Add(1)), text) }

func tty(s Spec) Spec { s.TTY = true; return s }

func piped(s Spec) Spec { s.Stdin = true; return s }

// newHost returns a host. At the end of the test, the host and all its children are closed.
func newHost(t *testing.T, cfg HostConfig) *Host {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if cfg.Containment == ContainCgroup {
		needs.Cgroup(t)
	}
	h, err := NewHost(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error("close:", err)
		}
		if n := h.Live(); n != 0 {
			t.Errorf("%d children live after close", n)
		}
	})
	return h
}

func start(t *testing.T, h *Host, spec Spec) *watched {
	t.Helper()
	w, err := tryStart(t, h, spec, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func tryStart(t *testing.T, h *Host, spec Spec, limit int64) (*watched, error) {
	w := newWatched(t, limit)
	if os.Getenv("CHILD_TEST_JAIL") != "" && spec.policy == nil {
		spec.policy = &sandbox.Policy{Files: true, Root: sandbox.Write, Network: true}
	}
	return w, w.start(h, spec)
}

// start starts the child of w, whose facts are taken from then on.
func (w *watched) start(h *Host, spec Spec) error {
	started := make(chan error)
	h.Start(spec, w.in, func(handle Handle, err error) {
		w.Handle = handle
		started <- err
	})
	err := <-started
	if err == nil {
		go w.take()
	}
	return err
}

// newWatched returns a watched child that its caller starts.
func newWatched(t *testing.T, limit int64) *watched {
	w := &watched{t: t, out: map[protocol.Stream][]byte{}, told: make(chan struct{}, 1)}
	w.changed.L = &w.mu
	w.in = NewIntake(limit, budget.NewOutput(0, func() {}), nil, func() {
		select {
		case w.told <- struct{}{}:
		default:
		}
	})
	return w
}

func (w *watched) take() {
	for range w.told {
		w.mu.Lock()
		for w.hold {
			w.changed.Wait()
		}
		for f, ok := w.in.Next(); ok; f, ok = w.in.Next() {
			if w.closed {
				w.t.Errorf("fact %v after closed", f.Kind)
			}
			w.facts = append(w.facts, f.Kind)
			switch f.Kind {
			case FactOutput:
				if len(f.Data) < handOver && cap(f.Data) == bufferSize {
					w.t.Errorf("%d bytes hold a whole buffer", len(f.Data))
				}
				w.out[f.Stream] = append(w.out[f.Stream], f.Data...)
			case FactExited:
				w.status = f.Status
				for _, out := range w.out {
					w.before += len(out)
				}
			case FactStdinRoom:
				w.rooms++
			case FactLost:
				w.lost += f.Lost
			case FactClosed:
				w.closed = true
			}
			w.in.Settle(0, 0)
		}
		closed := w.closed
		w.changed.Broadcast()
		w.mu.Unlock()
		if closed {
			return
		}
	}
}

// until waits for a fact. If the fact never comes, -timeout ends the test.
func (w *watched) until(is func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !is() {
		w.changed.Wait()
	}
}

func (w *watched) has(kind FactKind) func() bool {
	return func() bool {
		for _, k := range w.facts {
			if k == kind {
				return true
			}
		}
		return false
	}
}

func (w *watched) untilClosed() { w.until(func() bool { return w.closed }) }

func (w *watched) untilOutput(s protocol.Stream, text string) {
	w.until(func() bool { return bytes.Contains(w.out[s], []byte(text)) })
}

// pids waits for n lines with a pid each.
func (w *watched) pids(s protocol.Stream, n int) (pids []int) {
	w.until(func() bool { return bytes.Count(w.out[s], []byte("\n")) >= n })
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, field := range strings.Fields(string(w.out[s])) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			w.t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

func (w *watched) killTree() error {
	done := make(chan error)
	w.KillTree(func(err error) { done <- err })
	return <-done
}

// release waits until the whole tree is gone.
func (w *watched) release() error {
	for w.untilClosed(); !w.TreeEmpty(); time.Sleep(time.Millisecond) {
	}
	return w.Release()
}

func (w *watched) set(hold bool) {
	w.mu.Lock()
	w.hold = hold
	w.changed.Broadcast()
	w.mu.Unlock()
}

func wantOrder(t *testing.T, w *watched) {
	t.Helper()
	n := len(w.facts)
	if n < 2 || w.facts[n-2] != FactExited || w.facts[n-1] != FactClosed {
		t.Errorf("facts %v do not end with exited, closed", w.facts)
	}
}

func TestOutputThenExitThenClosed(t *testing.T) {
	for mode, n := range map[Containment]int{ContainCgroup: 200, ContainMarker: 40, ContainGroup: 40} {
		t.Run(string(mode), func(t *testing.T) { outputThenExitThenClosed(t, mode, n) })
	}
}

func outputThenExitThenClosed(t *testing.T, mode Containment, n int) {
	h := newHost(t, HostConfig{Containment: mode})
	slots := make(chan struct{}, 16)
	var all sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			spec := script(fmt.Sprintf("echo out%d; echo err%d >&2; exit %d", i, i, i%256))
			if i%4 == 3 {
				spec = tty(spec)
			}
			w := start(t, h, spec)
			w.untilClosed()
			wantOrder(t, w)
			out, errs := fmt.Sprintf("out%d\n", i), fmt.Sprintf("err%d\n", i)
			if spec.TTY {
				if got, want := string(w.out[protocol.PTY]), strings.ReplaceAll(out+errs, "\n", "\r\n"); got != want {
					t.Errorf("pty: %q, want %q", got, want)
				}
			} else if got := string(w.out[protocol.Stdout]) + string(w.out[protocol.Stderr]); got != out+errs {
				t.Errorf("output %q, want %q", got, out+errs)
			}
			if w.status.ExitCode != i%256 || w.status.Signal != "" {
				t.Errorf("status %+v, want exit code %d", w.status, i%256)
			}
			if err := w.release(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if h.Live() != 0 {
		t.Errorf("%d live after all were released", h.Live())
	}
	if dir := cgroupOf(t, h); dir != "" {
		if left, _ := os.ReadDir(dir); hasDir(left) {
			t.Error("a released child has left its cgroup")
		}
	}
}

// All output written before the exit comes before Exited, even if credit is missing for long and a
// descendant holds the streams open.
func TestExitWaitsForWhatWasWritten(t *testing.T) {
	const size = 60000 // fits into a pipe
	h := newHost(t, HostConfig{})
	for _, tt := range []struct {
		name string
		spec Spec
		want int
	}{
		{"pipe", script(`sleep 1000 & head -c 60000 /dev/zero`), size},
		// A PTY's buffers are too small: the rest is read while the program runs.
		{"tty", tty(script(`stty -opost; trap "" HUP; sleep 1000 & head -c 60000 /dev/zero`)), size},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 10 {
				spec := tt.spec
				spec.Name = script("").Name
				w, err := tryStart(t, h, spec, 16<<10)
				if err != nil {
					t.Fatal(err)
				}
				w.set(true)
				if !spec.TTY {
					untilExited(w.PID())
				}
				w.set(false)
				w.until(w.has(FactExited))
				w.mu.Lock()
				if w.before != tt.want {
					t.Errorf("%d bytes before exited, want %d", w.before, tt.want)
				}
				if w.closed {
					t.Error("closed while a descendant holds the streams")
				}
				w.mu.Unlock()
				if w.TreeEmpty() || !errors.Is(w.Release(), ErrInUse) {
					t.Error("could be released with a descendant running")
				}
				if err := w.killTree(); err != nil {
					t.Error(err)
				}
				w.untilClosed()
				if err := w.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// untilExited waits until a process is a zombie or gone.
func untilExited(pid int) {
	var pause trees.Backoff
	for running(pid) {
		pause.Wait()
	}
}

func running(pid int) bool { return !trees.Ended(pid) }

// exists reports whether a process runs or is a zombie.
func exists(pid int) bool { return syscall.Kill(pid, 0) == nil }

// cgroupOf returns the directory in which the children of h have their cgroups; empty: they have none.
func cgroupOf(t *testing.T, h *Host) string {
	t.Helper()
	tree, err := h.trees.Make(script("").Name, protocol.ProcessLimits{})
	if err != nil {
		t.Fatal(err)
	}
	dir := tree.Trace().Cgroup
	if err := tree.Remove(); err != nil {
		t.Error(err)
	}
	if dir == "" {
		return ""
	}
	return filepath.Dir(dir)
}

// A descendant writing without end delays neither the exit nor, after Abandon, the end.
func TestFloodingDescendant(t *testing.T) {
	for _, spec := range []Spec{script(`yes & exit 3`), tty(script(`trap "" HUP; yes & exit 3`))} {
		h := newHost(t, HostConfig{})
		w := start(t, h, spec)
		w.until(w.has(FactExited))
		if w.status.ExitCode != 3 {
			t.Errorf("exit code %d, want 3", w.status.ExitCode)
		}
		w.Abandon()
		w.untilClosed()
	}
}

// Abandon takes the bytes in the pipe, even if credit comes only later, and drops later bytes.
func TestAbandonTakesWhatThePipeHolds(t *testing.T) {
	h := newHost(t, HostConfig{})
	w, err := tryStart(t, h, script(`head -c 50000 /dev/zero; exec sleep 1000`), 16<<10)
	if err != nil {
		t.Fatal(err)
	}
	w.set(true)
	var pause trees.Backoff
	for name := ""; name != "sleep\n"; pause.Wait() {
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", w.PID()))
		name = string(comm)
	}
	w.Abandon()
	w.set(false)
	w.until(func() bool { return len(w.out[protocol.Stdout]) == 50000 })
	w.Kill()
	w.untilClosed()
	wantOrder(t, w)
}

func TestAbandonKeepsWhatIsThere(t *testing.T) {
	h := newHost(t, HostConfig{})
	w := start(t, h, script(`sleep 1000 & echo $!; head -c 50000 /dev/zero >&2`))
	w.until(w.has(FactExited))
	w.Abandon()
	w.untilClosed()
	if got := len(w.out[protocol.Stderr]); got != 50000 {
		t.Errorf("%d bytes, want 50000", got)
	}
	if w.TreeEmpty() {
		t.Error("the descendant is not seen")
	}
	pid := w.pids(protocol.Stdout, 1)[0]
	if err := w.killTree(); err != nil {
		t.Error(err)
	}
	if running(pid) {
		t.Error("the descendant runs after KillTree")
	}
	if err := w.Release(); err != nil {
		t.Error(err)
	}
}

// The end of a stream takes no credit: a program is seen to end even if nobody reads its output.
// The same holds for a TTY.
func TestEndTakesNoCredit(t *testing.T) {
	h := newHost(t, HostConfig{})
	for _, spec := range []Spec{script(`sleep 0.05`), tty(script(`sleep 0.05`))} {
		w, err := tryStart(t, h, spec, 4<<10)
		if err != nil {
			t.Fatal(err)
		}
		w.in.Hold(0, 4<<10)
		w.untilClosed()
	}
}

// Abort ends a pump waiting for credit.
func TestAbortEndsWhatWaitsForCredit(t *testing.T) {
	h := newHost(t, HostConfig{})
	w, err := tryStart(t, h, script(`exec yes`), 4<<10)
	if err != nil {
		t.Fatal(err)
	}
	w.set(true)
	w.in.Hold(0, 4<<10)
	w.in.Abort()
	w.set(false)
	w.until(w.has(FactExited)) // killed by SIGPIPE: nobody reads
	w.untilClosed()
	if w.status.Signal != "SIGPIPE" || w.status.ExitCode != 128+int(syscall.SIGPIPE) {
		t.Errorf("status %+v, want SIGPIPE", w.status)
	}
}

func TestKillTree(t *testing.T) {
	const (
		escaped = `(setsid sh -c 'trap "" TERM HUP; echo $$; exec sleep 1000' &); `
		grouped = `trap "" TERM; (sh -c 'echo $$; exec sleep 1000' &); setsid sh -c 'echo $$; exec sleep 1000' & `
	)
	for _, tt := range []struct {
		mode   Containment
		script string
		pids   int
	}{
		{ContainCgroup, escaped, 1},
		{ContainMarker, escaped, 1},
		{ContainGroup, grouped, 2}, // ContainGroup finds no more
	} {
		for _, end := range []string{"wait; sleep 1000", "wait $!"} {
			leader := "runs"
			if end == "wait $!" {
				leader = "has exited"
				if tt.mode == ContainGroup {
					tt.script, tt.pids, end = `(sh -c 'echo $$; exec sleep 1000' &); `, 1, "sleep 0.1"
				} else {
					end = "sleep 0.1"
				}
			}
			t.Run(string(tt.mode)+", leader "+leader, func(t *testing.T) {
				h := newHost(t, HostConfig{Containment: tt.mode})
				w := start(t, h, script(tt.script+end))
				if got := w.Containment(); got != tt.mode {
					t.Fatalf("containment %q, want %q", got, tt.mode)
				}
				pids := w.pids(protocol.Stdout, tt.pids)
				if leader == "has exited" {
					w.until(w.has(FactExited))
				}
				if !exists(w.PID()) && tt.mode == ContainGroup {
					t.Error("the leader was reaped, and its pid may become another's, with its group alive")
				}
				bystander := start(t, h, script("exec sleep 1000"))
				if err := w.killTree(); err != nil {
					t.Fatal(err)
				}
				for _, pid := range append(pids, w.PID()) {
					if running(pid) {
						t.Errorf("%d runs after KillTree", pid)
					}
				}
				if !running(bystander.PID()) {
					t.Error("another child was killed too")
				}
				w.untilClosed()
				if !w.TreeEmpty() {
					t.Error("the tree is not seen empty")
				}
				if err := w.Release(); err != nil {
					t.Error(err)
				}
				if exists(w.PID()) {
					t.Error("the leader was not reaped")
				}
			})
		}
	}
}

// Containment adds nothing to the environment of a program, and takes nothing from it.
func TestEnvironmentIsExact(t *testing.T) {
	for _, mode := range []Containment{ContainCgroup, ContainMarker, ContainGroup} {
		t.Run(string(mode), func(t *testing.T) {
			h := newHost(t, HostConfig{Containment: mode})
			for _, umask := range []*uint32{nil, new(uint32(0o22))} { // the second is a fork of another kind
				spec := script("")
				spec.Argv, spec.Env, spec.Umask = []string{"/usr/bin/env"}, []string{"A=b", "TROUPE_PROCESS=web"}, umask
				if got, want := start(t, h, spec).output(), "A=b\nTROUPE_PROCESS=web\n"; got != want {
					t.Errorf("the environment is %q, want %q", got, want)
				}
			}
		})
	}
}

func hasDir(entries []os.DirEntry) bool { return slices.ContainsFunc(entries, os.DirEntry.IsDir) }

// A subreaper adopts orphans without a marker: they are reaped when they end, and killed when the
// host closes.
func TestSubreaper(t *testing.T) {
	h := newHost(t, HostConfig{Containment: ContainMarker, Subreaper: true})
	w := start(t, h, script(`(setsid env -i sh -c 'echo $$; exec sleep 1000' &); (setsid sh -c 'echo $$' &); sleep 0.1`))
	w.until(w.has(FactExited))
	pids := w.pids(protocol.Stdout, 2)
	var pause trees.Backoff
	gone := 0
	for gone == 0 {
		pause.Wait()
		for _, pid := range pids {
			if !exists(pid) {
				gone = pid
			}
		}
	}
	w.Abandon()
	w.untilClosed()
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if exists(pid) {
			t.Errorf("orphan %d is there after close", pid)
		}
	}
}

func TestSignals(t *testing.T) {
	h := newHost(t, HostConfig{})
	w := start(t, h, script(`sh -c 'trap "echo inner; exit" INT; echo ready; while :; do sleep 0.01; done' & trap "wait; exit 7" INT; wait`))
	// A shell has its background children ignore SIGINT; in dash, trap resets this only for the
	// shell itself.
	w.untilOutput(protocol.Stdout, "ready")
	if err := w.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	w.untilClosed() // waits for the child of the shell, too, because it holds the pipes
	if w.status.ExitCode != 143 || w.status.Signal != "SIGTERM" {
		t.Errorf("status %+v, want 143 and SIGTERM", w.status)
	}
	if w.status.Rusage.MaxRSSBytes == 0 {
		t.Error("no rusage")
	}
	if err := w.Signal(syscall.SIGTERM); err != nil {
		t.Error("signal after the exit:", err)
	}
	w = start(t, h, tty(script(`trap "echo caught; exit 5" INT; echo ready; while :; do sleep 0.01; done`)))
	w.untilOutput(protocol.PTY, "ready")
	if err := w.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	w.untilClosed()
	if w.status.ExitCode != 5 {
		t.Errorf("status %+v, want 5", w.status)
	}
	w = start(t, h, script(`exec sleep 1000`))
	w.Kill()
	w.untilClosed()
	if w.status.ExitCode != 137 || w.status.Signal != "SIGKILL" {
		t.Errorf("status %+v, want 137 and SIGKILL", w.status)
	}
}

func TestResize(t *testing.T) {
	h := newHost(t, HostConfig{})
	spec := tty(script(`stty size; trap 'stty size; exit' WINCH; while :; do sleep 0.01; done`))
	w := start(t, h, spec)
	w.untilOutput(protocol.PTY, "24 80\r\n")
	w.untilOutput(protocol.PTY, "\n")
	var pause trees.Backoff
	for done := false; !done; { // the trap may not be set yet
		w.Resize(protocol.Size{Rows: 50, Cols: uint16(100 + pause%2)})
		pause.Wait()
		pause++
		w.mu.Lock()
		done = bytes.Contains(w.out[protocol.PTY], []byte("50 10"))
		w.mu.Unlock()
	}
	w.untilClosed()
	if err := w.Resize(protocol.Size{Rows: 1, Cols: 1}); err != nil {
		t.Error("resize after closed:", err)
	}
	spec = tty(script(`stty size`))
	spec.Size = protocol.Size{Rows: 7, Cols: 123}
	w = start(t, h, spec)
	w.untilClosed()
	if got := string(w.out[protocol.PTY]); got != "7 123\r\n" {
		t.Errorf("size %q, want 7 123", got)
	}
	w = start(t, h, script(`:`))
	if err := w.Resize(protocol.Size{Rows: 1, Cols: 1}); !errors.Is(err, ErrNoTTY) {
		t.Errorf("resize of a pipe: %v", err)
	}
}

// feed writes all of data as an actor does: when the queue is full, feed waits for room.
func (w *watched) feed(data []byte) {
	for len(data) > 0 {
		n := min(len(data), 3000)
		w.mu.Lock()
		rooms := w.rooms
		w.mu.Unlock()
		took, err := w.Write(data[:n])
		if err != nil {
			w.t.Error(err)
			return
		}
		if data = data[took:]; took == n {
			continue
		}
		w.until(func() bool { return w.rooms > rooms })
	}
}

func TestStdin(t *testing.T) {
	lines := bytes.Repeat([]byte("0123456789012345678901234567890123456789012345678901234567890123456789\n"), 5000)
	h := newHost(t, HostConfig{})
	t.Run("pipe", func(t *testing.T) {
		spec := piped(script(`sleep 0.1; exec cat`))
		spec.StdinQueue = 8 << 10
		w := start(t, h, spec)
		w.feed(lines)
		w.CloseStdin()
		if _, err := w.Write([]byte("x")); !errors.Is(err, ErrStdinClosed) {
			t.Errorf("write after close: %v", err)
		}
		w.untilClosed()
		if !bytes.Equal(w.out[protocol.Stdout], lines) {
			t.Errorf("%d bytes came back, not the %d written", len(w.out[protocol.Stdout]), len(lines))
		}
		if w.rooms == 0 {
			t.Error("stdin was never full")
		}
	})
	t.Run("a queue of no size", func(t *testing.T) {
		spec := piped(script(`exec cat`))
		spec.StdinQueue = 0
		w := start(t, h, spec)
		if n, err := w.Write([]byte("all")); n != 3 || err != nil {
			t.Errorf("%d bytes were taken, %v", n, err)
		}
		w.CloseStdin()
		w.untilClosed()
		if got := string(w.out[protocol.Stdout]); got != "all" {
			t.Errorf("%q came back", got)
		}
	})
	t.Run("tty", func(t *testing.T) {
		spec := tty(script(`stty -echo -opost; echo ready; sleep 0.1; exec cat`))
		spec.StdinQueue = 8 << 10
		w := start(t, h, spec)
		w.untilOutput(protocol.PTY, "ready\n")
		w.feed(lines)
		w.feed([]byte("partial"))
		w.CloseStdin()
		w.untilClosed()
		if got, want := w.out[protocol.PTY], "ready\n"+string(lines)+"partial"; string(got) != want {
			t.Errorf("%d bytes came back, want %d", len(got), len(want))
		}
		if w.rooms == 0 {
			t.Error("stdin was never full")
		}
	})
	t.Run("one VEOF at the start of a line", func(t *testing.T) {
		spec := tty(script(``))
		spec.Argv = []string{"bash", "-c", `stty -echo; echo ready; cat; if read -t 0; then echo another end; else echo one end; fi`}
		w := start(t, h, spec)
		w.untilOutput(protocol.PTY, "ready")
		w.feed([]byte("line\n"))
		w.CloseStdin()
		w.untilClosed()
		if got, want := string(w.out[protocol.PTY]), "ready\r\nline\r\none end\r\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
	t.Run("larger than the queue", func(t *testing.T) {
		spec := piped(script(`sleep 0.1; exec wc -c`))
		spec.StdinQueue = 1000
		w := start(t, h, spec)
		for range 2 {
			for left := make([]byte, 300000); len(left) > 0; {
				w.mu.Lock()
				rooms := w.rooms
				w.mu.Unlock()
				n, err := w.Write(left)
				if err != nil {
					t.Fatal(err)
				}
				s := &w.Handle.(*process).stdin
				s.mu.Lock()
				queued := len(s.queue)
				s.mu.Unlock()
				if queued > spec.StdinQueue {
					t.Fatalf("%d bytes are queued, the limit is %d", queued, spec.StdinQueue)
				}
				if left = left[n:]; len(left) > 0 {
					w.until(func() bool { return w.rooms > rooms })
				}
			}
		}
		w.CloseStdin()
		w.untilClosed()
		if got := strings.TrimSpace(string(w.out[protocol.Stdout])); got != "600000" || w.rooms == 0 {
			t.Errorf("child read %s bytes, want 600000; refused: %v", got, w.rooms > 0)
		}
	})
	t.Run("closed by the child", func(t *testing.T) {
		spec := piped(script(`exec <&-; echo closed; exec sleep 1000`))
		spec.StdinQueue = 100
		w := start(t, h, spec)
		w.untilOutput(protocol.Stdout, "closed")
		if _, err := w.Write([]byte("x")); !errors.Is(err, ErrStdinClosed) {
			t.Errorf("write: %v", err)
		}
	})
	t.Run("refused, then ended", func(t *testing.T) {
		spec := piped(script(`exec sleep 1000`))
		spec.StdinQueue = 100
		w := start(t, h, spec)
		if n, _ := w.Write(make([]byte, 1<<20)); n < 100 {
			t.Fatalf("an empty queue took %d", n)
		}
		if n, err := w.Write(make([]byte, 100)); n > 0 || err != nil {
			t.Fatalf("a full queue took %d, %v", n, err)
		}
		w.Kill()
		w.until(func() bool { return w.rooms == 1 })
		if _, err := w.Write([]byte("x")); !errors.Is(err, ErrStdinClosed) {
			t.Errorf("write: %v", err)
		}
		w.untilClosed()
	})
	t.Run("a rate", func(t *testing.T) {
		lines := lines[:100_000]
		spec := piped(script(`exec cat`))
		spec.StdinRate, spec.StdinQueue = pace.NewMeter(64<<10), 1<<20
		w := start(t, h, spec)
		w.feed(lines)
		n, err := w.Write(lines) // in parts, although it fits into the queue
		if n == len(lines) || err != nil {
			t.Errorf("%d bytes at once, %v", n, err)
		}
		w.feed(lines[n:])
		w.CloseStdin()
		w.untilClosed()
		if got := w.out[protocol.Stdout]; !bytes.Equal(got[:min(len(got), len(lines))], lines) || !bytes.Equal(got[len(got)/2:], lines) {
			t.Errorf("%d bytes came back, not the %d written", len(got), 2*len(lines))
		}
		if w.rooms == 0 {
			t.Error("no write waited")
		}
	})
	t.Run("a rate, then ended", func(t *testing.T) {
		spec := piped(script(`exec sleep 1000`))
		spec.StdinRate = pace.NewMeter(pace.MinRate)
		w := start(t, h, spec)
		for range 100 { // each but the first waits its turn, of a second
			spec.StdinRate.Flow(func() {}).Take(pace.MinRate)
		}
		if n, err := w.Write([]byte("x")); n > 0 || err != nil {
			t.Fatalf("beyond the rate: %d, %v", n, err)
		}
		w.Kill()
		w.until(func() bool { return w.rooms > 0 && w.closed })
		if _, err := w.Write([]byte("x")); !errors.Is(err, ErrStdinClosed) {
			t.Errorf("write: %v", err)
		}
	})
	t.Run("none", func(t *testing.T) {
		w := start(t, h, script(`cat; echo end`))
		if _, err := w.Write([]byte("x")); !errors.Is(err, ErrStdinClosed) {
			t.Errorf("write: %v", err)
		}
		if err := w.CloseStdin(); err != nil {
			t.Error(err)
		}
		w.untilOutput(protocol.Stdout, "end")
	})
}

// The child may end at any moment of a write to its stdin. The unwritten bytes are dropped, and no
// writer panics.
func TestStdinEndsWhileWritten(t *testing.T) {
	var log bytes.Buffer
	h := newHost(t, HostConfig{Log: slog.New(slog.NewTextHandler(&log, nil))})
	w := start(t, h, piped(script(`exec sleep 1000`)))
	s := &w.Handle.(*process).stdin
	conn := &pausedWrite{RawConn: s.conn, taken: make(chan struct{}), goOn: make(chan struct{})}
	s.conn = conn
	w.Write(make([]byte, 1<<10))
	<-conn.taken
	s.shut()
	close(conn.goOn)
	for writing := true; writing; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		writing = s.writing
		s.mu.Unlock()
	}
	if strings.Contains(log.String(), "panic") {
		t.Errorf("the writer panicked: %s", &log)
	}
	w.Kill()
	w.untilClosed()
}

// pausedWrite takes nothing in the first Write, and pauses after the first bytes taken.
type pausedWrite struct {
	syscall.RawConn
	calls       int
	taken, goOn chan struct{}
}

func (c *pausedWrite) Write(f func(fd uintptr) bool) error {
	if c.calls++; c.calls == 1 {
		return nil
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	defer write.Close()
	f(write.Fd())
	close(c.taken)
	<-c.goOn
	return nil
}

// A child has its three descriptors, in blocking mode, and inherits no other descriptor of the
// server or of other children.
func TestDescriptors(t *testing.T) {
	before := openFiles(t)
	h, err := NewHost(HostConfig{})
	if err != nil {
		t.Fatal(err)
	}
	others := []*watched{start(t, h, piped(script("exec cat"))), start(t, h, tty(script("exec cat")))}
	for _, spec := range []Spec{script(""), piped(script("")), tty(script(""))} {
		spec.Argv = []string{"/bin/sh", "-c", `ls /proc/self/fd; for i in 0 1 2; do sed -n 's/flags:/flags/p' /proc/self/fdinfo/$i; done`}
		w := start(t, h, spec)
		w.untilClosed()
		list, flags, _ := strings.Cut(string(w.out[protocol.Stdout])+string(w.out[protocol.PTY]), "flags")
		fds := strings.Fields(list)
		for _, field := range strings.Fields(strings.ReplaceAll(flags, "flags", "")) {
			if flags, err := strconv.ParseInt(field, 8, 64); err != nil || flags&syscall.O_NONBLOCK != 0 {
				t.Errorf("a descriptor of the child does not block: flags %s, %v", field, err)
			}
		}
		if got := strings.Join(fds, " "); got != "0 1 2 3" { // 3 belongs to ls
			t.Errorf("descriptors %s, want 0 1 2 3; tty %v", got, spec.TTY)
		}
		if err := w.release(); err != nil {
			t.Error(err)
		}
	}
	for _, w := range others {
		w.Kill()
		w.untilClosed()
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := openFiles(t); after > before+2 { // the poller's descriptors may be new
		t.Errorf("%d files open, %d before", after, before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

func TestThreads(t *testing.T) {
	h := newHost(t, HostConfig{})
	for range 50 {
		start(t, h, script("exec sleep 1000"))
		start(t, h, tty(script("exec sleep 1000")))
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "Threads:")
	if n, _ := strconv.Atoi(strings.Fields(rest)[0]); n > 30 {
		t.Errorf("%d threads for 100 children", n)
	}
}

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := dir + "/" + name
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := write("plain", "no program", 0o644)
	garbage := write("garbage", "no program", 0o755)
	orphan := write("orphan", "#!/no/such/interpreter\n", 0o755)
	loop := dir + "/loop"
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	nul := "a\x00b"
	env := func(e ...string) Spec { return Spec{Argv: []string{"nosuchbin"}, Env: e} }

	h := newHost(t, HostConfig{})
	before := openFiles(t)
	for _, tt := range []struct {
		spec Spec
		is   error
		text string
	}{
		{env("PATH=/usr/bin:/bin"), ErrNoProgram, `no such program "nosuchbin" in PATH "/usr/bin:/bin"`},
		{env(), ErrNoProgram, `no such program "nosuchbin" in the default PATH "/bin:/usr/bin": the environment sets none`},
		{Spec{Argv: []string{"/no/such"}}, ErrNoProgram, `no such program "/no/such"`},
		{Spec{Argv: []string{"./no"}, Dir: dir}, ErrNoProgram, `no such program "./no" in working directory "` + dir + `"`},
		{Spec{Argv: []string{plain + "/x"}}, ErrNoProgram, `no such program "` + plain + `/x": a part of its path is not a directory`},
		{Spec{Argv: []string{loop}}, ErrNoProgram, `no such program "` + loop + `": stat ` + loop + `: too many levels of symbolic links`},
		{Spec{Argv: []string{"/bin/true"}, Dir: loop}, ErrDir, `working directory "` + loop + `": stat ` + loop + `: too many levels of symbolic links`},
		{Spec{Argv: []string{orphan}}, ErrNoProgram, `no such program: the interpreter named by "` + orphan + `"`},
		{Spec{Argv: []string{plain}}, ErrPermission, `permission denied: program "` + plain + `" is not executable`},
		{Spec{Argv: []string{"plain"}, Env: []string{"PATH=" + dir}}, ErrPermission, `permission denied: program "` + plain + `" is not executable`},
		{Spec{Argv: []string{dir}}, ErrPermission, `permission denied: program "` + dir + `" is a directory`},
		{Spec{Argv: []string{garbage}}, ErrExecFormat, `exec format error: "` + garbage + `" is neither a program of this machine nor a script with a #! line`},
		{Spec{Argv: []string{"/bin/true"}, Dir: "/no/such"}, ErrDir, `working directory "/no/such" does not exist`},
		{Spec{Argv: []string{"/bin/true"}, Dir: plain}, ErrDir, `working directory "` + plain + `" is not a directory`},
		{Spec{}, ErrArgument, `invalid argument: argv[0] is empty, it must name a program`},
		{Spec{Argv: []string{""}}, ErrArgument, `invalid argument: argv[0] is empty, it must name a program`},
		{Spec{Argv: []string{"/bin/true", nul}}, ErrArgument, `invalid argument: argv[1] contains a NUL byte`},
		{Spec{Argv: []string{"/bin/true"}, Arg0: &nul}, ErrArgument, `invalid argument: arg0 contains a NUL byte`},
		{Spec{Argv: []string{"/bin/true"}, Env: []string{"X=" + nul}}, ErrArgument, `invalid argument: environment variable "X" contains a NUL byte`},
		{Spec{Argv: []string{"/bin/true"}, Dir: nul}, ErrArgument, `invalid argument: working directory "a\x00b" contains a NUL byte`},
		{Spec{Argv: []string{"/bin/true"}, Name: "../x"}, ErrArgument, `invalid argument: name "../x" of the process is not a file name`},
		{Spec{Argv: []string{"/bin/true", strings.Repeat("x", 4<<20)}}, ErrArgument, `invalid argument: argv and environment are too long for the system: 2 strings, the longest of 4194304 bytes (execve(2): Linux takes 131,071 in one)`},
	} {
		for _, tty := range []bool{false, true} {
			tt.spec.TTY = tty
			if tt.spec.Name == "" {
				tt.spec.Name = script("").Name
			}
			_, err := tryStart(t, h, tt.spec, 1<<20)
			if !errors.Is(err, tt.is) || err.Error() != tt.text {
				t.Errorf("%v\nwant %s", err, tt.text)
			}
		}
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d files open, %d before", after, before)
	}
	if dir := cgroupOf(t, h); dir != "" {
		if left, _ := os.ReadDir(dir); hasDir(left) {
			t.Error("a failed start has left its cgroup")
		}
	}
	if h.Live() != 0 {
		t.Errorf("%d live", h.Live())
	}
}

// A directory of PATH that the user may not search is skipped. A path to a program is refused for it.
func TestLookupInClosedDirectory(t *testing.T) {
	dir := t.TempDir()
	closed, open := dir+"/closed", dir+"/open"
	for path, mode := range map[string]os.FileMode{filepath.Dir(dir): 0o755, dir: 0o755, closed: 0, open: 0o755} {
		if err := cmp.Or(os.MkdirAll(path, 0o755), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{"plain": 0o644, "good": 0o755} {
		if err := cmp.Or(os.WriteFile(open+"/"+name, nil, mode), os.Chmod(open+"/"+name, mode)); err != nil {
			t.Fatal(err)
		}
	}
	var user *User
	if os.Geteuid() == 0 {
		user = &User{UID: 54321, GID: 54321}
	}
	for _, tt := range []struct {
		name, want string
		is         error
	}{
		{"good", open + "/good", nil},
		{"plain", "", ErrPermission},
		{"nowhere", "", ErrNoProgram},
		{closed + "/nowhere", closed + "/nowhere", ErrPermission},
	} {
		spec := &Spec{Name: "p", Argv: []string{tt.name}, Env: []string{"PATH=" + closed + ":" + open}}
		var got string
		var err error
		if refused := LookAs(user, func() { got, err = program(spec, func(string) {}) }); refused != nil {
			t.Fatal(refused)
		}
		if got != tt.want || !errors.Is(err, tt.is) {
			t.Errorf("%s: %q, %v, want %q, %v", tt.name, got, err, tt.want, tt.is)
		}
	}
}

func TestLookup(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/bin", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dir + "/here", dir + "/bin/there"} {
		if err := os.WriteFile(name, []byte("#!/bin/sh\necho \"$0 $1 in $(pwd)\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h := newHost(t, HostConfig{})
	for _, tt := range []struct{ program, path, want string }{
		{"./here", "/bin", "./here"},
		{"bin/there", "/bin", "bin/there"},
		{"here", ":/bin", "./here"},
		{"there", "/nowhere:bin:/bin", "bin/there"},
		{"there", dir + "/bin", dir + "/bin/there"},
	} {
		w := start(t, h, Spec{Name: script("").Name, Argv: []string{tt.program, "arg"}, Dir: dir, Env: []string{"PATH=" + tt.path}})
		w.untilClosed()
		if got, want := string(w.out[protocol.Stdout]), tt.want+" arg in "+dir+"\n"; got != want {
			t.Errorf("%s in %s: %q, want %q", tt.program, tt.path, got, want)
		}
	}
	arg0 := "-login"
	w := start(t, h, Spec{Name: script("").Name, Argv: []string{"sh", "-c", "echo $0"}, Arg0: &arg0})
	w.untilClosed()
	if got := string(w.out[protocol.Stdout]); got != "-login\n" {
		t.Errorf("arg0 %q", got)
	}
}

// A start is refused before the program runs out of descriptors for its own use.
func TestDescriptorLimit(t *testing.T) {
	h := newHost(t, HostConfig{})
	start(t, h, script(":")).untilClosed() // afterwards the poller has its descriptors
	soft, hard, err := RaiseNoFile()
	if err != nil || soft != hard {
		t.Fatalf("soft %d, hard %d, %v", soft, hard, err)
	}
	low := uint64(openFiles(t) + fdReserve + 8)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: low, Max: hard}); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: soft, Max: hard})
	for i := 0; ; i++ {
		_, err := tryStart(t, h, script("exec sleep 1000"), 1<<20)
		if err == nil {
			if i > 8 {
				t.Fatal("never refused")
			}
			continue
		}
		if !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), fmt.Sprintf("RLIMIT_NOFILE is %d", low)) {
			t.Errorf("refused with %v", err)
		}
		break
	}
	if n := openFiles(t) - 2; uint64(n) > low-fdReserve { // minus the last pidfd, and the descriptor used by openFiles
		t.Errorf("%d of %d files open: the reserve of %d is used", n, low, fdReserve)
	}
	// Other code has used the reserve, too.
	open, before := openFiles(t)-1, filesBesideProc(t)
	for left := range 4 {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(open + left), Max: hard}); err != nil {
			t.Fatal(err)
		}
		for _, tty := range []bool{false, true} {
			spec := script(":")
			spec.TTY = tty
			if _, err := tryStart(t, h, spec, 1<<20); !errors.Is(err, ErrLimit) {
				t.Errorf("with %d descriptors left, tty %v: %v", left, tty, err)
			}
		}
	}
	for deadline := time.Now().Add(time.Minute); !slices.Equal(filesBesideProc(t), before); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after starts that were refused these files are open: %q, before: %q", filesBesideProc(t), before)
		}
	}
}

// filesBesideProc returns the descriptors of this process with their files. Files in /proc are left out: a census opens them for a moment.
func filesBesideProc(t *testing.T) (files []string) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err == nil && to != "/proc" && !strings.HasPrefix(to, "/proc/") {
			files = append(files, fd.Name()+" "+to)
		}
	}
	return files
}

// A single panic in a loop loses no byte. A repeated panic ends the stream.
func TestPanics(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcde\n"), 20000)
	for _, tty := range []bool{false, true} {
		var calls [3]atomic.Uint64
		h := newHost(t, HostConfig{Fault: func(point string) {
			n := calls[map[string]int{"pump": 0, "waiter": 1, "stdin": 2}[point]].Add(1)
			if n%3 != 0 {
				panic("injected")
			}
		}})
		spec := piped(script(`stty -echo -opost 2>/dev/null; echo ready; exec cat`))
		spec.TTY = tty
		spec.StdinQueue = 4 << 10
		w := start(t, h, spec)
		s := protocol.Stdout
		if tty {
			s = protocol.PTY
		}
		w.untilOutput(s, "ready\n")
		w.feed(data)
		w.CloseStdin()
		w.untilClosed()
		wantOrder(t, w)
		if got := w.out[s]; string(got) != "ready\n"+string(data) {
			t.Errorf("tty %v: %d bytes came back, not the %d written", tty, len(got), len(data)+6)
		}
		for i := range calls {
			if calls[i].Load() < 3 {
				t.Errorf("fault point %d was passed %d times", i, calls[i].Load())
			}
		}
	}
	h := newHost(t, HostConfig{Fault: func(point string) {
		if point != "waiter" {
			panic("injected")
		}
	}})
	w := start(t, h, piped(script(`exec cat`)))
	w.Write(make([]byte, 1<<20))
	w.untilClosed() // nobody reads its output, nobody writes its stdin
}

func TestClose(t *testing.T) {
	h := newHost(t, HostConfig{})
	var all []*watched
	for i := range 8 {
		spec := script(`trap "" TERM; (setsid sleep 1000 &); yes`)
		spec.TTY = i%2 == 0
		w, err := tryStart(t, h, spec, 8<<10)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Close(done); !errors.Is(err, context.Canceled) {
		t.Errorf("close with a done context: %v", err)
	}
	for range 2 {
		if err := h.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range all {
		w.untilClosed()
		if running(w.PID()) {
			t.Error("a child runs after close")
		}
		if err := w.killTree(); err != nil {
			t.Error("KillTree after close:", err)
		}
	}
	if _, err := tryStart(t, h, script("exec true"), 1<<20); !errors.Is(err, ErrClosed) {
		t.Errorf("start after close: %v", err)
	}
}

// A start drops the variables for no child, also where the child is forked apart, and leaves the
// list of the caller as it is.
func TestWithheldVariables(t *testing.T) {
	h := newHost(t, HostConfig{})
	spec := script("env | cut -d= -f1 | sort")
	spec.Env = append(spec.Env, "TROUPE_TOKEN=a", "node_repl_auth_token=b", "OPENAI_IDENTITY_TOKEN_FILE=c=d", "MY_TOKEN=e")
	before := slices.Clone(spec.Env)
	w := start(t, h, spec)
	w.untilClosed()
	got := string(w.out[protocol.Stdout])
	for _, name := range []string{"MY_TOKEN", "PATH"} {
		if !strings.Contains(got, name+"\n") {
			t.Errorf("%s is missing: %q", name, got)
		}
	}
	if upper := strings.ToUpper(got); strings.Contains(upper, "TROUPE_TOKEN") || strings.Contains(upper, "AUTH") || strings.Contains(upper, "IDENTITY") {
		t.Errorf("the child has %q", got)
	}
	if !slices.Equal(spec.Env, before) {
		t.Errorf("the list of the caller is now %q", spec.Env)
	}
}

// After Abort nobody makes room for output: what is left of it is counted.
func TestAbortCountsTheRest(t *testing.T) {
	h := newHost(t, HostConfig{})
	for _, tty := range []bool{false, true} {
		const size = 4000
		spec := script(fmt.Sprintf("head -c %d /dev/zero", size))
		spec.TTY = tty
		w, err := tryStart(t, h, spec, 1<<10)
		if err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		w.hold = true // the pump gets credit for 1 KiB at most, beyond what was taken out before
		w.mu.Unlock()
		for !w.Exited() {
			time.Sleep(time.Millisecond)
		}
		w.Abandon()
		w.in.Abort()
		w.mu.Lock()
		w.hold = false
		w.changed.Broadcast()
		w.mu.Unlock()
		w.untilClosed()
		if got := len(w.out[protocol.Stdout]) + len(w.out[protocol.PTY]); w.lost == 0 || got+w.lost != size {
			t.Errorf("tty %v: %d bytes came, and %d were lost, of %d", tty, got, w.lost, size)
		}
	}
}
