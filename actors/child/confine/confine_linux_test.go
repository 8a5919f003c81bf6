package confine

import (
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/sandbox/jail"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// TestTry: the trial succeeds where a jail does, tells the level and what is missing, and leaves no process behind. If the
// sandbox must be complete, it is, or the trial fails.
func TestTry(t *testing.T) {
	needs.Namespaces(t, os.Getuid())
	for _, complete := range []bool{false, true} {
		s := Try(time.Minute, complete)
		refused := complete && level() != protocol.SandboxComplete
		if refused && (s.Err == nil || s.Level != "" || !strings.Contains(s.Err.Error(), "--require-sandbox=complete")) ||
			!refused && (s.Err != nil || s.Level != level()) {
			t.Errorf("complete %v: level %q, error %v", complete, s.Level, s.Err)
		}
		told := slices.ContainsFunc(s.Notes, func(note string) bool { return strings.Contains(note, "see the arguments") })
		if told != (s.Level == protocol.SandboxOldProc) {
			t.Errorf("complete %v: level %q has the notes %q", complete, s.Level, s.Notes)
		}
	}
	if err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); !errors.Is(err, unix.ECHILD) {
		t.Errorf("after the trial there is a child: %v", err)
	}
}

// TestTryWithoutSetfcap: root in a container without capabilities reads which one is missing.
func TestTryWithoutSetfcap(t *testing.T) {
	needs.Root(t)
	needs.Namespaces(t, os.Getuid())
	state := make(chan State)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var sets [2]unix.CapUserData
		if err := unix.Capget(&header, &sets[0]); err != nil {
			t.Error(err)
		}
		for _, set := range []*uint32{&sets[0].Effective, &sets[0].Permitted, &sets[0].Inheritable} {
			*set &^= 1 << unix.CAP_SETFCAP
		}
		if err := unix.Capset(&header, &sets[0]); err != nil {
			t.Error(err)
		}
		state <- Try(time.Minute, false)
	}()
	if s := <-state; !errors.Is(s.Err, unix.EPERM) || !strings.Contains(s.Err.Error(), "root without CAP_SETFCAP") {
		t.Errorf("level %q, error %v", s.Level, s.Err)
	}
}

// TestJailBinaryStaysWhileItStarts: a start keeps its binary while another start replaces a copy whose mode has changed.
// Otherwise the first start would execute whatever has the number of the descriptor by then.
func TestJailBinaryStaysWhileItStarts(t *testing.T) {
	own, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	copied, err := inMemory(own)
	if err != nil {
		t.Fatal(err)
	}
	binary := ownBinary{file: os.NewFile(uintptr(copied), "copy"), copy: true}
	defer binary.close()
	first, err := binary.open()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(first)
	if first == int(binary.file.Fd()) || first < 8 {
		t.Errorf("the start has the descriptor %d, the file of all starts %d", first, binary.file.Fd())
	}
	var before, after unix.Stat_t
	if err := unix.Fstat(first, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fchmod(first, 0o700); err != nil {
		t.Fatal(err)
	}
	second, secondErr := binary.open()
	if err := unix.Fstat(first, &after); err != nil || after.Dev != before.Dev || after.Ino != before.Ino {
		t.Errorf("the first start has lost its binary: %v, %d:%d, was %d:%d", err, after.Dev, after.Ino, before.Dev, before.Ino)
	}
	if secondErr != nil {
		needs.Namespaces(t, os.Getuid())
		t.Fatal(secondErr)
	}
	defer unix.Close(second)
	kept := binary.file
	third, err := binary.open()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(third)
	if binary.file != kept {
		t.Error("an intact binary is replaced")
	}
}

// The error of the system is in the text once, wherever the jail has put it, and errors.Is finds it.
func TestJailErrorSaysItOnce(t *testing.T) {
	for text, want := range map[string]string{
		"operation not permitted":                       "the sandbox cannot be made: new /proc: operation not permitted",
		"operation not permitted: see the advice":       "the sandbox cannot be made: new /proc: operation not permitted: see the advice",
		"open /x: operation not permitted (see advice)": "the sandbox cannot be made: new /proc: open /x: operation not permitted (see advice)",
		"no descriptor arrived":                         "the sandbox cannot be made: new /proc: no descriptor arrived: operation not permitted",
	} {
		err := new(Jail).Explain(&jail.Failure{Stage: "new /proc", Text: text, Errno: int(syscall.EPERM)}, 0)
		if err.Error() != want || !errors.Is(err, syscall.EPERM) || !errors.Is(err, ErrSandbox) {
			t.Errorf("%q, want %q", err, want)
		}
	}
}

// A jail whose runtime has no room for its threads cannot report that.
func TestJailWithoutThreads(t *testing.T) {
	if err := new(Jail).Explain(io.EOF, exitOfRuntime<<8); !errors.Is(err, ErrSandbox) || !strings.Contains(err.Error(), "RLIMIT_NPROC") {
		t.Error(err)
	}
	if err := new(Jail).Explain(io.EOF, syscall.WaitStatus(syscall.SIGKILL)); !errors.Is(err, ErrSandbox) || strings.Contains(err.Error(), "RLIMIT_NPROC") {
		t.Error(err)
	}
}

// A plan that cannot be sent is an error, so nobody waits for its jail.
func TestSendPlanToAClosedSocket(t *testing.T) {
	closed, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	open, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := sendPlan(closed, 0, nil); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	if err := sendPlan(open, 0, closed); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}

// A jail that serves files lives long and allocates, so it collects its memory. Every other jail allocates next to nothing
// after its start.
func TestServingJailCollectsMemory(t *testing.T) {
	for _, serve := range []bool{false, true} {
		env := jailEnv(&jail.Plan{Serve: serve})
		if slices.Contains(env, "GOGC=off") == serve {
			t.Errorf("the environment of a jail is %v; does it serve files: %v", env, serve)
		}
	}
}

// BenchmarkJailBinary opens the binary for jails: on the mount of this program, on a read-only mount of its own, and of its copy
// in memory.
func BenchmarkJailBinary(b *testing.B) {
	own, err := os.Open("/proc/self/exe")
	if err != nil {
		b.Fatal(err)
	}
	defer own.Close()
	for _, way := range []struct {
		name string
		open func(*os.File) (int, error)
	}{
		{"own", func(own *os.File) (int, error) { return unix.Dup(int(own.Fd())) }},
		{"mount", readOnly},
		{"memory", inMemory},
	} {
		b.Run(way.name, func(b *testing.B) {
			for b.Loop() {
				fd, err := way.open(own)
				if err != nil {
					b.Skip(err)
				}
				unix.Close(fd)
			}
		})
	}
}

// level is the level of sandboxes here.
func level() string {
	if needs.ProbeNewProc(os.Getuid()) != nil {
		return protocol.SandboxOldProc
	}
	return protocol.SandboxComplete
}
