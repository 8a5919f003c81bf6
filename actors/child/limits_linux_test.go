package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/fork"
	"github.com/b6f6fdd7/troupe/protocol"
)

// onThread runs f on a thread of its own, as a start does. Changes of f to the thread end with
// the thread.
func onThread(f func(tid int)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		f(unix.Gettid())
	}()
	<-done
}

// wantNoChild fails if a failed fork has left a child behind.
func wantNoChild(t *testing.T, tid int, when string) {
	t.Helper()
	if left, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", tid)); len(left) > 0 || err != nil {
		t.Errorf("%s there are children %q, %v", when, left, err)
	}
}

// forkLimited forks a program with limits on the thread of the caller.
func forkLimited(path string, argv []string, limits protocol.ProcessLimits) (pid int, err error) {
	spec := &Spec{Limits: limits}
	a, err := attrOf(&birth{spec: spec, path: path, argv: argv})
	if err != nil {
		return 0, err
	}
	if pid, err = fork.Start(a); err != nil {
		err = stepError(err, spec)
	}
	return pid, err
}

// A program has its limits from its first instruction on, and the usual signal mask.
func TestLimitsBeforeTheProgram(t *testing.T) {
	onThread(func(int) {
		script := `test $(ulimit -n) = 50 && test $(ulimit -t) = 100 && test $(nice) -ge 3 && grep -q "^SigBlk:.0*$" /proc/self/status`
		pid, err := forkLimited("/bin/sh", []string{"sh", "-c", script}, protocol.ProcessLimits{NoFile: new(uint64(50)), CPUSeconds: new(uint64(100)), Nice: new(max(3, niceHere(t)))})
		if err != nil {
			t.Error(err)
			return
		}
		var ws syscall.WaitStatus
		if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil || ws.ExitStatus() != 0 {
			t.Errorf("%v, status %#x", err, ws)
		}
	})
}

// The runtime of Go raises the limit of descriptors of this program. A child has the limit with which this program was started.
func TestChildrenHaveTheFirstLimit(t *testing.T) {
	const inside = "CHILD_TEST_LIMIT"
	if os.Getenv(inside) == "" {
		cmd := exec.Command("/bin/sh", "-c", `ulimit -Sn 300 && exec "$0" "$@"`, os.Args[0], "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), inside+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own); err != nil || own.Cur == 300 {
		t.Fatalf("this program has the limit %d, %v: the test shows nothing", own.Cur, err)
	}
	onThread(func(int) {
		pid, err := forkLimited("/bin/sh", []string{"sh", "-c", "test $(ulimit -Sn) = 300"}, protocol.ProcessLimits{})
		if err != nil {
			t.Error(err)
			return
		}
		var ws syscall.WaitStatus
		if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil || ws != 0 {
			t.Errorf("%v, status %#x", err, ws)
		}
	})
}

// niceHere is the niceness of this thread.
func niceHere(t *testing.T) int {
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Error(err)
	}
	return 20 - raw
}

// A server that may trace nothing sets limits, too.
func TestLimitsWithoutPtrace(t *testing.T) {
	onThread(func(int) {
		filter := []unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the system call
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PTRACE, Jf: 1},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_KILL_PROCESS},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		}
		program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			t.Error(err)
		}
		if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
			t.Error(err)
			return
		}
		pid, err := forkLimited("/bin/sh", []string{"sh", "-c", "test $(ulimit -n) = 50"}, protocol.ProcessLimits{NoFile: new(uint64(50))})
		if err != nil {
			t.Error(err)
			return
		}
		var ws syscall.WaitStatus
		if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil || ws != 0 {
			t.Errorf("%v, status %#x", err, ws)
		}
	})
}

// wantRefused wants a start to fail with an error beginning with text, and to leave nothing behind.
func wantRefused(t *testing.T, tid int, limits protocol.ProcessLimits, text string) {
	t.Helper()
	_, err := forkLimited("/bin/true", []string{"true"}, limits)
	if !errors.Is(err, ErrLimitRefused) || !strings.HasPrefix(err.Error(), text) {
		t.Errorf("%v, want %s", err, text)
	}
	wantNoChild(t, tid, "after a start that was refused")
}

// Without the permission to raise a limit, the error names the obstacle.
func TestLimitsNotToBeRaised(t *testing.T) {
	onThread(func(tid int) {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var caps [2]unix.CapUserData
		if err := unix.Capget(&header, &caps[0]); err != nil {
			t.Error(err)
		}
		caps[0].Effective &^= 1<<unix.CAP_SYS_RESOURCE | 1<<unix.CAP_SYS_NICE
		if err := unix.Capset(&header, &caps[0]); err != nil {
			t.Error(err)
		}
		raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // of this thread
		if err != nil {
			t.Error(err)
		}
		nice := max(5, 20-raw) // the test may itself run under nice(1), and may not undo that
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, nice); err != nil {
			t.Error(err)
		}
		_, hard, err := trees.NoFile()
		if err != nil {
			t.Error(err)
		}
		adj, err := os.ReadFile("/proc/self/oom_score_adj")
		if err != nil {
			t.Error(err)
		}
		wantRefused(t, tid, protocol.ProcessLimits{NoFile: new(hard + 1)}, fmt.Sprintf("limits.nofile is %d: the hard limit here is %d", hard+1, hard))
		wantRefused(t, tid, protocol.ProcessLimits{NoFile: new(uint64(50)), Nice: new(nice - 1)},
			fmt.Sprintf("limits.nice is %d: the least allowed here is %d (RLIMIT_NICE)", nice-1, nice))
		wantRefused(t, tid, protocol.ProcessLimits{OOMScoreAdj: new(-1000)}, fmt.Sprintf("limits.oomScoreAdj is -1000: the server has %s, and less takes CAP_SYS_RESOURCE", strings.TrimSpace(string(adj))))

		pid, err := forkLimited("/bin/sleep", []string{"sleep", "1000"}, protocol.ProcessLimits{CPUSeconds: new(uint64(100))})
		if err != nil {
			t.Error(err)
			return
		}
		if limit := trees.Around(unix.RLIMIT_CPU, 101, unix.Rlimit{Cur: 100, Max: 101}); limit != (unix.Rlimit{Cur: 101, Max: 101}) {
			t.Error("at the hard limit, there is a second between the signals:", limit)
		}
		syscall.Kill(pid, syscall.SIGKILL)
		syscall.Wait4(pid, nil, 0, nil)
	})
}

// Without a cgroup, a start with cgroup limits is refused rather than made without limits.
func TestNoCgroupLimits(t *testing.T) {
	for _, mode := range []Containment{ContainMarker, ContainGroup} {
		h := newHost(t, HostConfig{Containment: mode})
		spec := script("exec sleep 1000")
		spec.Limits.PIDs = new(uint64(5))
		_, err := tryStart(t, h, spec, 1<<20)
		if want := fmt.Sprintf("limits.pids needs the pids controller of cgroup v2, and this server contains its processes by %q", mode); !errors.Is(err, ErrLimitRefused) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
