package jail

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

const reaperName = "jail-test-reaper" // argv[0] of a process that reaps a program, which has asked to be traced

func init() {
	if os.Args[0] != reaperName {
		return
	}
	runtime.LockOSThread() // ptrace(2) counts threads
	program := exec.Command("/bin/sh", "-c", "exit 3")
	program.SysProcAttr = &syscall.SysProcAttr{Ptrace: true} // stops at the exec
	if err := program.Start(); err != nil {
		panic(err)
	}
	os.Exit(syscall.WaitStatus(reap(program.Process.Pid).Status).ExitStatus())
}

// A program that has its parent trace it (PTRACE_TRACEME of ptrace(2)) goes on in a jail, whose first process traces nobody.
func TestTracedProgramGoesOn(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = []string{reaperName}
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("%s, %v; %v", cmd.ProcessState, err, string(out))
	}
}
