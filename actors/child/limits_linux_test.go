package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

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

// forkHere forks a child without files on the thread of the caller.
func forkHere(path string, argv []string, spec *Spec, m mark) (pid int, err error) {
	a, err := attrOf(&birth{spec: spec, path: path, argv: argv, tree: &search{given: m}})
	if err != nil {
		return 0, err
	}
	return fork.Start(a)
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
	if pid, err = forkHere(path, argv, spec, mark{}); err != nil {
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

		pid, err := forkLimited("/bin/sleep", []string{"sleep", "1000"}, protocol.ProcessLimits{CPUSeconds: new(uint64(100))})
		if err != nil {
			t.Error(err)
			return
		}
		if limit := around(unix.RLIMIT_CPU, 101, unix.Rlimit{Cur: 100, Max: 101}); limit != (unix.Rlimit{Cur: 101, Max: 101}) {
			t.Error("at the hard limit, there is a second between the signals:", limit)
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
