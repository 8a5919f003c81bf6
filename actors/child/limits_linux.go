package child

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/protocol"
)

// A cgroup enforces memoryBytes, pids and cpus. All other limits are limits of the process itself:
// they can only be set for an existing process, but must hold before its first instruction. The
// server cannot run code between fork and exec. So the child is traced: the kernel stops the child
// after the exec, the server sets the limits, and lets the child go on. (ptrace(2))

// ofProcess reports whether l has limits of the process itself, not enforced by a cgroup.
func ofProcess(l protocol.ProcessLimits) bool {
	l.MemoryBytes, l.PIDs, l.CPUs = nil, nil, nil
	return l != protocol.ProcessLimits{}
}

// forkStopped starts a child that stops after its exec. Only this thread can let the child go on,
// by calling confine; confine also restores the signal mask.
//
// Until confine the child has its signals blocked. A traced process stops for each signal it gets.
// If the child stopped before its exec, nobody could let it go on: this thread waits for the exec,
// and soon the whole program for this thread. SIGSTOP and SIGTRAP cannot be blocked; they could
// cause this deadlock, but only for some microseconds.
func forkStopped(path string, argv []string, attr *syscall.ProcAttr, m mark) (pid int, mask unix.Sigset_t, err error) {
	pid, mask, err = withSignalsBlocked(func() (int, error) {
		return m.fork(func() (int, error) { return syscall.ForkExec(path, argv, attr) })
	})
	return pid, mask, tracingError(path, err)
}

// withSignalsBlocked calls fork for a traced child. mask is the thread's usual signal mask.
func withSignalsBlocked(fork func() (int, error)) (pid int, mask unix.Sigset_t, err error) {
	var all unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	all.Val[0] &^= 1 << (unix.SIGTRAP - 1)
	unix.PthreadSigmask(unix.SIG_SETMASK, &all, &mask)
	defer unix.PthreadSigmask(unix.SIG_SETMASK, &mask, nil)
	pid, err = fork()
	return pid, mask, err
}

// tracingError explains an error in the fork or exec of a traced child.
func tracingError(path string, err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("%w are set with ptrace(2), but the system refuses ptrace or the execution of %q: %w (a seccomp filter, kernel.yama.ptrace_scope or a tracer of this server may forbid ptrace)", ErrLimitRefused, path, err)
	}
	return err
}

// confine sets the limits and the signal mask of a stopped child of forkStopped, and lets the child
// go on. The error is ESRCH if the child has ended.
func confine(pid int, mask *unix.Sigset_t, limits protocol.ProcessLimits) error {
	const size = 8 // of the kernel's sigset_t
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SETSIGMASK, uintptr(pid), size, uintptr(unsafe.Pointer(mask)), 0, 0)
	if errno != 0 {
		return errno
	}
	if err := setLimits(pid, limits); err != nil {
		return err
	}
	return unix.PtraceDetach(pid)
}

// awaitStop waits until a child of forkStopped has stopped, and returns false if the child has
// ended instead. awaitStop does not use wait(2), because other code in this program may take the
// result. It does not use ptrace(2) either: a seccomp filter that killed the child for ptrace would
// kill the server, too.
func awaitStop(pid int) bool {
	for {
		switch s, ok := readStat(pid); {
		case s.stopped:
			return true
		case s.zombie || !ok:
			return false
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 50_000}, nil) // time.Sleep takes a millisecond
	}
}

// traced reports whether the server sets limits of the child by tracing it. A child as another user sets
// its limits itself.
func (s *Spec) traced() bool { return s.User == nil && ofProcess(s.Limits) }

// namedLimit is a limit of setrlimit(2), with its name on the wire.
type namedLimit struct {
	name     string
	resource int
	value    uint64
}

func rlimitsOf(l protocol.ProcessLimits) (all []namedLimit) {
	for _, r := range []struct {
		name     string
		resource int
		value    *uint64
	}{
		{"nofile", unix.RLIMIT_NOFILE, l.NoFile},
		{"cpuSeconds", unix.RLIMIT_CPU, l.CPUSeconds},
		{"addressSpaceBytes", unix.RLIMIT_AS, l.AddressSpaceBytes},
		{"processes", unix.RLIMIT_NPROC, l.Processes},
		{"coreBytes", unix.RLIMIT_CORE, l.CoreBytes},
		{"fileSizeBytes", unix.RLIMIT_FSIZE, l.FileSizeBytes},
	} {
		if r.value != nil {
			all = append(all, namedLimit{r.name, r.resource, *r.value})
		}
	}
	return all
}

func setLimits(pid int, l protocol.ProcessLimits) error {
	for _, r := range rlimitsOf(l) {
		if err := setRlimit(pid, r.resource, r.value); err != nil {
			return fmt.Errorf("%w.%s is %d: %w", ErrLimitRefused, r.name, r.value, err)
		}
	}
	if l.Nice != nil {
		if err := setNice(pid, *l.Nice); err != nil {
			return fmt.Errorf("%w.nice is %d: %w", ErrLimitRefused, *l.Nice, err)
		}
	}
	if l.OOMScoreAdj != nil {
		if err := setOOMScoreAdj(pid, *l.OOMScoreAdj); err != nil {
			return fmt.Errorf("%w.oomScoreAdj is %d: %w", ErrLimitRefused, *l.OOMScoreAdj, err)
		}
	}
	return nil
}

func setRlimit(pid, resource int, value uint64) error {
	var now unix.Rlimit
	if err := unix.Prlimit(pid, resource, nil, &now); err != nil {
		return err
	}
	limit := around(resource, value, now)
	err := unix.Prlimit(pid, resource, &limit, nil)
	if errors.Is(err, unix.EPERM) && value > now.Max {
		return fmt.Errorf("the hard limit here is %d", now.Max)
	}
	return err
}

// around is the limit with a value for a process with the limit now.
func around(resource int, value uint64, now unix.Rlimit) unix.Rlimit {
	limit := unix.Rlimit{Cur: value, Max: value}
	if resource == unix.RLIMIT_CPU && value != now.Max {
		limit.Max++ // SIGXCPU comes at Cur, SIGKILL at Max
	}
	return limit
}

func setNice(pid, nice int) error {
	err := unix.Setpriority(unix.PRIO_PROCESS, pid, nice)
	if !errors.Is(err, unix.EACCES) {
		return err
	}
	kernels, err := unix.Getpriority(unix.PRIO_PROCESS, pid) // 1 to 40
	if err != nil {
		return err
	}
	var rlimit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NICE, nil, &rlimit); err != nil {
		return err
	}
	return fmt.Errorf("the least allowed here is %d (RLIMIT_NICE)", 20-max(kernels, int(rlimit.Cur)))
}

func setOOMScoreAdj(pid, value int) error {
	path := "/proc/" + strconv.Itoa(pid) + "/oom_score_adj"
	// Not os.WriteFile: under go test, package os writes the name to a file, and the thread of a forker does not have that file open.
	err := writeFile(path, strconv.Itoa(value))
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if text, readErr := readFile(path); readErr == nil {
		if now, _ := strconv.Atoi(strings.TrimSpace(string(text))); value < now {
			return fmt.Errorf("the server has %d, and less takes CAP_SYS_RESOURCE", now)
		}
	}
	return err
}

// setting is a file of a cgroup, with the value for a limit.
type setting struct{ limit, file, value string }

func (s setting) controller() string {
	controller, _, _ := strings.Cut(s.file, ".")
	return controller
}

// cpuPeriod is the period for cpu.max in microseconds: the kernel's default.
const cpuPeriod = 100_000

// settings are the cgroup files to write for limits l.
func settings(l protocol.ProcessLimits) (all []setting) {
	if l.MemoryBytes != nil {
		all = append(all,
			setting{"memoryBytes", "memory.max", fmt.Sprint(*l.MemoryBytes)},
			setting{"memoryBytes", "memory.oom.group", "1"}) // the tree is killed as a whole
	}
	if l.PIDs != nil {
		all = append(all, setting{"pids", "pids.max", fmt.Sprint(*l.PIDs)})
	}
	if l.CPUs != nil {
		all = append(all, setting{"cpus", "cpu.max", fmt.Sprintf("%.0f %d", *l.CPUs*cpuPeriod, cpuPeriod)})
	}
	return all
}
