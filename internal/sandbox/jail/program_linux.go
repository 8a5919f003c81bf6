package jail

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/fork"
)

// start starts the program, in the session and the process group of this process.
func start(plan *Plan) (pid int, err error) {
	attr := &fork.Attr{Path: plan.Program, Argv: plan.Argv, Env: plan.Env, Umask: -1, Limits: plan.Limits}
	if pid, err = fork.Start(attr); err == nil {
		return pid, nil
	}
	step, ok := errors.AsType[*fork.Error](err)
	switch {
	case !ok:
		return 0, failed("fork", err)
	case step.Step == fork.StepExec:
		return 0, failed(StageExec, step.Errno)
	case step.Step >= fork.StepLimit:
		return 0, failed(fmt.Sprintf("%s %d", StageLimit, step.Step-fork.StepLimit), step.Errno)
	}
	return 0, failed("fork", err)
}

// replace makes this process the program. replace returns only with an error.
func replace(plan *Plan) error {
	if err := unix.Chdir(plan.Dir); err != nil {
		return failed("working directory", err)
	}
	if err := checkDir(plan); err != nil {
		return err
	}
	if err := lockOnly(plan); err != nil {
		return err
	}
	// A single packet tells the server that the exec comes. If the exec fails, another packet follows.
	if !report(Report{}) {
		syscall.Exit(1)
	}
	for _, l := range plan.Limits {
		// No raw prlimit64(2): package syscall would restore the old RLIMIT_NOFILE at the exec.
		if err := syscall.Setrlimit(l.Resource, &syscall.Rlimit{Cur: l.Limit.Cur, Max: l.Limit.Max}); err != nil {
			return failed(fmt.Sprintf("%s %d", StageLimit, l.Resource), err)
		}
	}
	var none unix.Sigset_t
	unix.PthreadSigmask(unix.SIG_SETMASK, &none, nil) // fails for bad arguments only
	return failed(StageExec, syscall.Exec(plan.Program, plan.Argv, plan.Env))
}

// reap waits for the end of the program, and for all its orphans until then.
func reap(program int) *Exit {
	for {
		var status syscall.WaitStatus
		var usage syscall.Rusage
		pid, err := syscall.Wait4(-1, &status, unix.WALL, &usage)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			syscall.Exit(1) // there is no program: the server sees the status of this process
		case status.Stopped():
			// The program has asked its parent to trace it (PTRACE_TRACEME of ptrace(2)), and would wait here for ever.
			syscall.PtraceDetach(pid)
		case pid == program:
			return &Exit{Status: uint32(status), UserUs: usage.Utime.Nano() / 1e3, SystemUs: usage.Stime.Nano() / 1e3, MaxRSS: int64(usage.Maxrss)}
		}
	}
}

// forwarded are the signals that forward is for. The kernel or the runtime drops all others (Blocked, ignoreFaults).
var forwarded = []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM}

// forward sends signals of this process to the program, if the program has left the process group of this process.
// A program inside the group gets the signals itself. A shell with job control leaves the group.
func forward(signals <-chan os.Signal, program int) {
	for sig := range signals {
		if group, err := unix.Getpgid(program); err == nil && group > 0 && group != unix.Getpgrp() {
			unix.Kill(-group, sig.(unix.Signal))
		}
	}
}

// ignoreFaults makes the kernel drop the signals of a fault that another process sends. The runtime does not block them,
// and would end this process. A fault in this process still ends it. (Process 1 of a PID namespace has no default actions.)
func ignoreFaults() {
	var action [4]uint64 // struct sigaction of the kernel: SIG_DFL
	for _, sig := range []unix.Signal{unix.SIGILL, unix.SIGTRAP, unix.SIGABRT, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSTKFLT, unix.SIGSYS} {
		unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
	}
}
