package child

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/protocol"
)

// onThread runs f on a thread of its own, as a spawner does. Changes of f to the thread end with
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

// forkAttr is for a child without files.
func forkAttr() *syscall.ProcAttr { return &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: true}} }

// wantNoChild fails if a failed fork has left a child behind.
func wantNoChild(t *testing.T, tid int, when string) {
	t.Helper()
	if left, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", tid)); len(left) > 0 || err != nil {
		t.Errorf("%s there are children %q, %v", when, left, err)
	}
}

// Signals reaching a child before its program runs delay nobody. The program gets the usual signal
// mask.
func TestSignalsBeforeTheProgram(t *testing.T) {
	onThread(func(tid int) {
		stop, stopped := make(chan struct{}), make(chan struct{})
		defer func() { close(stop); <-stopped }()
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
				}
				children, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", tid))
				var pid int
				if n, _ := fmt.Sscan(string(children), &pid); n == 1 {
					syscall.Kill(pid, syscall.SIGWINCH) // SIGWINCH is ignored by default
				}
			}
		}()
		for range 40 {
			argv := []string{"grep", "-q", "^SigBlk:\t0*$", "/proc/self/status"}
			pid, err := forkHere("/bin/grep", argv, forkAttr(), protocol.ProcessLimits{NoFile: new(uint64(50))}, mark{})
			if err != nil {
				t.Error(err)
				return
			}
			var ws syscall.WaitStatus
			if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil || ws.ExitStatus() != 0 {
				t.Errorf("%v, status %x: the program has signals blocked", err, ws)
			}
		}
	})
}

// If a child is killed before its program runs, the start fails.
func TestKilledBeforeTheProgram(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		onThread(func(int) {
			attr := forkAttr()
			attr.Sys.Ptrace = true
			pid, mask, err := forkStopped("/bin/true", []string{"true"}, attr, mark{})
			if err != nil {
				t.Error(err)
				return
			}
			if stopped && !awaitStop(pid) {
				t.Error("it has not stopped")
			}
			syscall.Kill(pid, syscall.SIGKILL)
			if err := confine(pid, &mask, protocol.ProcessLimits{NoFile: new(uint64(50))}); !errors.Is(err, unix.ESRCH) {
				t.Errorf("stopped %v: %v, want %v", stopped, err, unix.ESRCH)
			}
			var ws syscall.WaitStatus
			if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil || ws.Signal() != syscall.SIGKILL {
				t.Errorf("stopped %v: %v, status %x", stopped, err, ws)
			}
		})
	}
}

// If ptrace is forbidden, a start with limits fails, a start without limits succeeds, and the
// server survives.
func TestNoPtrace(t *testing.T) {
	for _, tt := range []struct {
		action uint32
		text   string
	}{
		{unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM), `limits are set with ptrace(2), but the system refuses ptrace or the execution of "/bin/true": operation not permitted`},
		{unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS), `limits are set with ptrace(2), but the system refuses ptrace or the execution of "/bin/true": function not implemented`},
		{unix.SECCOMP_RET_KILL_PROCESS, `limits: SIGSYS ended the process before the server had set them`},
	} {
		onThread(func(tid int) {
			filter := []unix.SockFilter{
				{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the system call
				{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PTRACE, Jf: 1},
				{Code: unix.BPF_RET | unix.BPF_K, K: tt.action},
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
			wantRefused(t, tid, protocol.ProcessLimits{NoFile: new(uint64(50))}, tt.text)
			pid, err := forkHere("/bin/true", []string{"true"}, forkAttr(), protocol.ProcessLimits{PIDs: new(uint64(1))}, mark{})
			if err != nil {
				t.Error(err)
				return
			}
			syscall.Wait4(pid, nil, 0, nil)
		})
	}
}

// wantRefused wants a start to fail with an error beginning with text, and to leave nothing behind.
func wantRefused(t *testing.T, tid int, limits protocol.ProcessLimits, text string) {
	t.Helper()
	_, err := forkHere("/bin/true", []string{"true"}, forkAttr(), limits, mark{})
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
		_, hard, err := noFile()
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

		pid, err := forkHere("/bin/sleep", []string{"sleep", "1000"}, forkAttr(), protocol.ProcessLimits{CPUSeconds: new(uint64(100))}, mark{})
		if err != nil {
			t.Error(err)
			return
		}
		if err := setRlimit(pid, unix.RLIMIT_CPU, 101); err != nil { // without the second between the signals
			t.Error("at the hard limit:", err)
		}
		if err := setRlimit(pid, unix.RLIMIT_CPU, 102); err == nil || err.Error() != "the hard limit here is 101" {
			t.Error("above the hard limit:", err)
		}
		syscall.Kill(pid, syscall.SIGKILL)
		syscall.Wait4(pid, nil, 0, nil)
	})
}

// The test writes the files of cgroup v2 into a plain directory, because the kernel may lack the
// controllers.
func TestCgroupLimits(t *testing.T) {
	own := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(own, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	wantFiles := func(dir string, want map[string]string) {
		t.Helper()
		entries, err := os.ReadDir(filepath.Join(own, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if got, _ := os.ReadFile(filepath.Join(own, dir, entry.Name())); !entry.IsDir() && string(got) != want[entry.Name()] {
				t.Errorf("%s of %q has %q, want %q", entry.Name(), dir, got, want[entry.Name()])
			}
			delete(want, entry.Name())
		}
		if len(want) > 0 {
			t.Errorf("%q lacks %v", dir, want)
		}
	}
	if err := os.Mkdir(filepath.Join(own, "troupe-x"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := &cgroups{kin: new(searches), dir: filepath.Join(own, "troupe-x")}
	all := protocol.ProcessLimits{NoFile: new(uint64(5)), MemoryBytes: new(uint64(1 << 40)), PIDs: new(uint64(7)), CPUs: new(1.5)}

	if err := c.enable(); err == nil {
		t.Error("controllers were enabled where there is no file of them")
	}
	write("troupe-x/cgroup.controllers", "hugetlb\n")
	if err := c.enable(); err != nil {
		t.Error(err)
	}
	wantFiles("troupe-x", map[string]string{"cgroup.controllers": "hugetlb\n"})
	refusal := `limits.memoryBytes needs the memory controller of cgroup v2, which is not delegated to this server: ` + own + `/cgroup.subtree_control has "hugetlb"`
	if err := c.allows(all); !errors.Is(err, ErrLimitRefused) || err.Error() != refusal {
		t.Errorf("%v, want %s", err, refusal)
	}

	write("troupe-x/cgroup.controllers", "cpuset cpu memory hugetlb\n")
	if err := c.enable(); err != nil {
		t.Error(err)
	}
	wantFiles("troupe-x", map[string]string{"cgroup.controllers": "cpuset cpu memory hugetlb\n", "cgroup.subtree_control": "+memory +cpu"})
	refusal = `limits.pids needs the pids controller of cgroup v2, which is not delegated to this server: ` + own + `/cgroup.subtree_control has "cpuset cpu memory hugetlb"`
	if err := c.allows(all); !errors.Is(err, ErrLimitRefused) || err.Error() != refusal {
		t.Errorf("%v, want %s", err, refusal)
	}

	write("troupe-x/cgroup.controllers", "cpu memory pids\n")
	if err := c.enable(); err != nil {
		t.Error(err)
	}
	if err := c.allows(all); err != nil {
		t.Error(err)
	}
	for name, tt := range map[string]struct {
		limits protocol.ProcessLimits
		want   map[string]string
	}{
		"all":  {all, map[string]string{"memory.max": "1099511627776", "memory.oom.group": "1", "pids.max": "7", "cpu.max": "150000 100000"}},
		"none": {protocol.ProcessLimits{NoFile: new(uint64(5))}, map[string]string{}},
		"cpus": {protocol.ProcessLimits{CPUs: new(0.01)}, map[string]string{"cpu.max": "1000 100000"}},
	} {
		tree, err := c.tree(name, tt.limits)
		if err != nil {
			t.Fatal(err)
		}
		tree.started(0)
		wantFiles("troupe-x/"+name, tt.want)
	}
	if err := os.Symlink("/dev/full", filepath.Join(own, "troupe-x/pids.max")); err != nil {
		t.Fatal(err)
	}
	l := &leaf{dir: c.dir}
	if err := l.limit(all); !errors.Is(err, ErrLimitRefused) || !strings.HasPrefix(err.Error(), "limits.pids is 7: ") {
		t.Errorf("a file that cannot be written: %v", err)
	}
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

// tree returns a tree whose leaf has its memory.events in dir.
type oomCgroups struct {
	containment
	dir string
}

type oomLeaf struct {
	tree
	events leaf
}

func (c oomCgroups) tree(name string, limits protocol.ProcessLimits) (tree, error) {
	t, err := c.containment.tree(name, limits)
	return &oomLeaf{t, leaf{dir: c.dir}}, err
}

func (l *oomLeaf) oomKilled() bool { return l.events.oomKilled() }

// If the kernel has killed for lack of memory in a child's cgroup, and the child was killed, the
// status says so.
func TestOOMKilled(t *testing.T) {
	h := newHost(t, HostConfig{Containment: ContainMarker})
	dir := t.TempDir()
	h.containment = oomCgroups{h.containment, dir}
	const events = "low 0\nhigh 0\nmax 12\noom 1\noom_kill %d\noom_group_kill 1\n"
	for _, tt := range []struct {
		events, script string
		want           bool
	}{
		{"", "kill -KILL $$", false},
		{fmt.Sprintf(events, 0), "kill -KILL $$", false},
		{fmt.Sprintf(events, 1), "kill -KILL $$", true},
		{fmt.Sprintf(events, 10), "kill -KILL $$", true},
		{fmt.Sprintf(events, 1), "kill -TERM $$", false},
		{fmt.Sprintf(events, 1), "exit 137", false},
	} {
		if tt.events != "" {
			if err := os.WriteFile(dir+"/memory.events", []byte(tt.events), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		w := start(t, h, script(tt.script))
		w.untilClosed()
		if w.status.OOMKilled != tt.want {
			t.Errorf("%q with %q: %+v, want oomKilled %v", tt.script, tt.events, w.status, tt.want)
		}
	}
}

// usage has the values of the files in the cgroup. Without a controller its value is missing.
func TestUsage(t *testing.T) {
	dir := t.TempDir()
	l := &leaf{dir: dir}
	if l.usage(true) != nil {
		t.Error("use of a cgroup that is gone")
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("cpu.stat", "usage_usec 5500000\nuser_usec 4000000\nsystem_usec 1500000\nnice_usec 0\n")
	if u := l.usage(true); *u != (protocol.Usage{Of: protocol.UsageOfTree, UserMs: 4000, SystemMs: 1500}) {
		t.Errorf("%+v", u)
	}
	own, ok := lookUse(os.Getpid())
	write("cgroup.procs", fmt.Sprintf("%d\n%d\n", os.Getpid(), os.Getpid()))
	if u := l.usage(true); !ok || u.MemoryBytes == nil || *u.MemoryBytes < own.bytes {
		t.Errorf("without the memory controller: %+v, want twice the %d bytes of this program", u, own.bytes)
	}
	write("memory.current", "4096\n")
	write("pids.current", "3\n")
	write("cpu.pressure", "some avg10=12.50 avg60=1.00 avg300=0.00 total=9\nfull avg10=99.00 avg60=0.00 avg300=0.00 total=0\n")
	if u := l.usage(true); *u.MemoryBytes != 4096 || *u.PIDs != 3 || u.CPUPressure != 12.5 || u.MemoryPressure != 0 {
		t.Errorf("%+v", u)
	}
	if u := l.usage(false); *u.MemoryBytes != 4096 || u.CPUPressure != 0 {
		t.Errorf("without pressures: %+v", u)
	}
}

// A leaf whose removal has told that it is empty is not removed again: its system call waits for a lock of
// the whole system.
func TestLeafIsRemovedOnce(t *testing.T) {
	l := &leaf{dir: filepath.Join(t.TempDir(), "leaf")}
	create := func() {
		if err := os.Mkdir(l.dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	create()
	if vacant, err := l.vacant(); !vacant || err != nil {
		t.Fatalf("an empty leaf: %v, %v", vacant, err)
	}
	create() // a second removal would take it
	if err := l.remove(); err != nil {
		t.Error(err)
	}
	if vacant, err := l.vacant(); !vacant || err != nil {
		t.Errorf("a removed leaf: %v, %v", vacant, err)
	}
	if _, err := os.Stat(l.dir); err != nil {
		t.Errorf("the leaf was removed again: %v", err)
	}
}
