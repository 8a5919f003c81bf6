package confine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/fork"
	"github.com/b6f6fdd7/troupe/internal/kernel"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/internal/sandbox/jail"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Try starts and ends a jail, and says whether the jail worked. The jail does everything for a program in a sandbox,
// up to the exec. most bounds the wait for the answer, and again the wait for the end of the jail. complete: a sandbox of
// another level than protocol.SandboxComplete is an error.
func Try(most time.Duration, complete bool) State {
	s := State{Landlock: jail.LandlockABI()}
	s.Level, s.Err = tryJail(most, complete)
	if s.Level == protocol.SandboxOldProc {
		s.Notes = append(s.Notes, withOldProc)
	}
	switch {
	case s.Landlock < jail.MinLandlock:
		s.Notes = append(s.Notes, fmt.Sprintf("Landlock is missing (its ABI is %d, and %d is needed: Linux 5.19 with landlock in lsm= of the kernel's command line): "+
			"programs in a sandbox can write to FIFOs that their user may write; "+withoutScopes, s.Landlock, jail.MinLandlock))
	case s.Landlock < jail.FullLandlock:
		s.Notes = append(s.Notes, fmt.Sprintf("Landlock has only ABI %d, and %d (Linux 6.12) is needed to separate signals and abstract sockets a second time; "+withoutScopes, s.Landlock, jail.FullLandlock))
	}
	return s
}

const withoutScopes = "a program without the network, and with files as outside, can reach the network through the memory of another process of its user " +
	"(/proc/PID/mem), if the system lets it trace that process"

const withOldProc = "the system permits no new /proc, as in most containers, so sandboxes show the existing one, read-only: programs in a sandbox see the arguments " +
	"and the network connections of processes outside, though not their environment, memory and files; and programs that look for processes by number, such as ps and pgrep, fail or name others"

// tryJail returns the level of the sandbox of a trial; with an error, the level is empty.
func tryJail(most time.Duration, complete bool) (level string, err error) {
	// The program of the plan is a directory. So the jail fails at the exec if all before went well.
	plan := &jail.Plan{
		Policy:  sandbox.Policy{Files: true, Root: sandbox.Read},
		Program: "/", Argv: []string{"/"}, Dir: "/",
		Complete: complete,
	}
	var binary ownBinary // a server without jails keeps none open
	defer binary.close()
	j, err := newJail(plan, &binary)
	if err != nil {
		return "", err
	}
	defer j.Close()
	defer j.Socket.Close()
	j.Socket.SetDeadline(time.Now().Add(most))
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer null.Close()

	// The jail stays in the session of this program: a search for strangers leaves it alone.
	pid, err := startTrial(null, j)
	j.Forked()
	if err != nil {
		return "", j.ExplainFork(err)
	}
	defer func() {
		ended := make(chan struct{})
		go func() {
			trees.End(pid)
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(most): // the goroutine goes on, and reaps the jail
		}
	}()
	level, err = j.Enter(pid, nil)
	failure, ok := errors.AsType[*jail.Failure](err)
	switch {
	case ok && failure.Stage == jail.StageExec:
		return level, nil
	case err == nil:
		return "", errors.New("the jail has run a directory")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "", &Error{Stage: "start of the jail", Err: fmt.Errorf("no answer within %v", most)}
	}
	return "", j.Explain(err, 0)
}

func startTrial(null *os.File, j *Jail) (pid int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fd := null.Fd()
	return fork.Start(j.Attr([]uintptr{fd, fd, fd}))
}

// namespaceAdvice says why the kernel makes no namespaces, as far as files tell, and how to change this.
func namespaceAdvice(err error) string {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EUSERS):
		for _, kind := range []string{"user", "mnt", "pid", "ipc", "uts", "net", "cgroup"} {
			if file := "/proc/sys/user/max_" + kind + "_namespaces"; kernel.Number(file) == 0 {
				return fmt.Sprintf("%s is 0, so there can be no namespaces: raise it, such as with sysctl -w user.max_%s_namespaces=15000", file, kind)
			}
		}
		return "there are as many namespaces as /proc/sys/user/max_*_namespaces allow, here or in a namespace around this one, or 32 user namespaces within each other: raise the limit"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		var advice []string
		if kernel.Number("/proc/sys/kernel/unprivileged_userns_clone") == 0 {
			advice = append(advice, "kernel.unprivileged_userns_clone is 0: set it to 1")
		}
		if kernel.Number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") > 0 {
			advice = append(advice, "kernel.apparmor_restrict_unprivileged_userns is on: give the server's binary an AppArmor profile with the rule userns, or set it to 0")
		}
		if filtered() {
			advice = append(advice, "the server runs under a seccomp filter, as in a container or a sandbox: it must permit clone(2) and unshare(2) with CLONE_NEWUSER, as docs/seccomp/troupe.json of troupe does: docker run --security-opt seccomp=troupe.json (docs/SANDBOX.md, Containers)")
		}
		if len(advice) == 0 {
			advice = append(advice, "a process in a chroot(8), or one that a security module confines, may not make user namespaces")
		}
		return strings.Join(advice, "; ")
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		return "the kernel needs CONFIG_USER_NS, CONFIG_PID_NS, CONFIG_NET_NS, CONFIG_IPC_NS and CONFIG_UTS_NS; sandboxes need Linux 5.12, on amd64 or arm64"
	}
	return ""
}

// filtered reports whether this program runs under a seccomp filter.
func filtered() bool {
	mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	return err == nil && mode == unix.SECCOMP_MODE_FILTER
}
