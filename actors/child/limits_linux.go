package child

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Limits that are not of a cgroup can be set of a process that is there, and are to
// be in force before its first instruction. Between fork and exec runs nothing of
// ours, so such a child has itself traced: it stops when it has executed the program,
// gets its limits, and is let go. (ptrace(2))

// ofProcess reports whether there are limits that are not of a cgroup.
func ofProcess(l protocol.ProcessLimits) bool {
	l.MemoryBytes, l.PIDs, l.CPUs = nil, nil, nil
	return l != protocol.ProcessLimits{}
}

// forkStopped starts a child that stops, and that only this thread can let go on:
// with confine, which also gives it mask.
//
// Until then it has signals blocked. A traced process stops for each that reaches it,
// and before its exec nobody can let it go on: this thread waits for that exec, and
// soon the whole program for this thread. What cannot be blocked, SIGSTOP and the
// SIGTRAP that it stops with, would yet do that, for the microseconds it could.
func forkStopped(path string, argv []string, attr *syscall.ProcAttr, m mark) (pid int, mask unix.Sigset_t, err error) {
	pid, mask, err = withSignalsBlocked(func() (int, error) {
		return m.fork(func() (int, error) { return syscall.ForkExec(path, argv, attr) })
	})
	return pid, mask, tracingError(path, err)
}

// withSignalsBlocked calls fork for a child that is traced. mask is what the thread has else.
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

// tracingError is the error of the fork or exec of a child that is traced.
func tracingError(path string, err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("%w are set with ptrace(2), and that or the execution of %q is refused: %w (ptrace may be by a seccomp filter, kernel.yama.ptrace_scope, or a tracer of this server)", ErrLimitRefused, path, err)
	}
	return err
}

// confine sets limits and the signal mask of a child of forkStopped that has stopped, and lets it go
// on. The error is ESRCH if the child has ended.
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

// awaitStop waits until a child of forkStopped has stopped; it reports false if it has
// ended instead. It asks neither wait(2), of which another in this program may take
// what this one waits for, nor ptrace(2): a seccomp filter that has killed the child
// for that would kill us.
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

func setLimits(pid int, l protocol.ProcessLimits) error {
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
		if r.value == nil {
			continue
		}
		if err := setRlimit(pid, r.resource, *r.value); err != nil {
			return fmt.Errorf("%w.%s is %d: %w", ErrLimitRefused, r.name, *r.value, err)
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
	limit := unix.Rlimit{Cur: value, Max: value}
	if resource == unix.RLIMIT_CPU && value != now.Max {
		limit.Max++ // SIGKILL comes there, SIGXCPU before
	}
	err := unix.Prlimit(pid, resource, &limit, nil)
	if errors.Is(err, unix.EPERM) && value > now.Max {
		return fmt.Errorf("the hard limit here is %d", now.Max)
	}
	return err
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
	err := os.WriteFile(path, []byte(strconv.Itoa(value)), 0)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if text, readErr := os.ReadFile(path); readErr == nil {
		if now, _ := strconv.Atoi(strings.TrimSpace(string(text))); value < now {
			return fmt.Errorf("the server has %d, and less takes CAP_SYS_RESOURCE", now)
		}
	}
	return err
}

// setting is a file of a cgroup, and what a limit has in it.
type setting struct{ limit, file, value string }

func (s setting) controller() string {
	controller, _, _ := strings.Cut(s.file, ".")
	return controller
}

// cpuPeriod is what cpu.max counts in, in microseconds: the kernel's default.
const cpuPeriod = 100_000

// settings are those that the limits of a cgroup take.
func settings(l protocol.ProcessLimits) (all []setting) {
	if l.MemoryBytes != nil {
		all = append(all,
			setting{"memoryBytes", "memory.max", fmt.Sprint(*l.MemoryBytes)},
			setting{"memoryBytes", "memory.oom.group", "1"}) // the tree dies as one
	}
	if l.PIDs != nil {
		all = append(all, setting{"pids", "pids.max", fmt.Sprint(*l.PIDs)})
	}
	if l.CPUs != nil {
		all = append(all, setting{"cpus", "cpu.max", fmt.Sprintf("%.0f %d", *l.CPUs*cpuPeriod, cpuPeriod)})
	}
	return all
}
