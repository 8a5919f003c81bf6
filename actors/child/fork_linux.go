package child

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/fork"
)

// Package syscall calls these functions around a fork. Other packages may call them, too.
//
//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// cloneArgs is struct clone_args up to Linux 5.7. (clone(2))
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// forkApart is syscall.ForkExec for a child whose chdir or exec may hang. syscall.ForkExec uses
// vfork: the thread waits for the exec, and soon the whole program for the thread. A child of
// forkApart has a copy of our memory instead; copying takes a millisecond for each few hundred MiB.
//
// status is a pipe: the exec closes status, or the child writes its errno to it. nofile is the
// child's limit; nil: the server's limit. forkApart supports only the fields of attr used by Host.
func forkApart(path string, argv []string, attr *syscall.ProcAttr, status int, nofile *unix.Rlimit, spec *Spec, m mark) (pid int, err error) {
	a := &apart{
		traced: attr.Sys.Ptrace,
		tty:    attr.Sys.Setctty,
		status: status,
		nofile: nofile,
		self:   unix.Getpid(),
		mark:   m.limits,
		clone:  cloneArgs{exitSignal: uint64(unix.SIGCHLD)},
	}
	if err := a.steps(spec); err != nil {
		return 0, err
	}
	if a.path, err = syscall.BytePtrFromString(path); err != nil {
		return 0, err
	}
	if attr.Dir != "" {
		if a.dir, err = syscall.BytePtrFromString(attr.Dir); err != nil {
			return 0, err
		}
	}
	if a.argv, err = syscall.SlicePtrFromStrings(argv); err != nil {
		return 0, err
	}
	if a.env, err = syscall.SlicePtrFromStrings(attr.Env); err != nil {
		return 0, err
	}
	for i, fd := range attr.Files {
		a.files[i] = int(fd)
	}
	if attr.Sys.UseCgroupFD {
		a.clone.flags, a.clone.cgroup = unix.CLONE_INTO_CGROUP, uint64(attr.Sys.CgroupFD)
	}
	child, errno := a.fork()
	runtime.KeepAlive(a)
	if errno != 0 {
		return 0, errno
	}
	return int(child), nil
}

// apart holds everything needed in a child of forkApart. The child may neither allocate nor call Go
// functions other than assembly.
type apart struct {
	path, dir   *byte // dir is nil: keep the directory
	argv, env   []*byte
	files       [3]int // the child's 0, 1 and 2; all numbers are above 2
	status      int    // above 2
	tty, traced bool
	nofile      *unix.Rlimit
	self        int // the server's pid
	clone       cloneArgs

	mark       []fork.Limit
	umask      int // below 0: keep the mask
	noNewPrivs bool
	// The fields below are for a child as another user. user is nil for the server's own.
	user      *User
	rlimits   []fork.Limit
	nice      *int
	score     []byte // for oom_score_adj; empty: keep
	capHeader unix.CapUserHeader
	noCaps    [2]unix.CapUserData
}

// oomScoreAdj is a path with its NUL.
var oomScoreAdj = []byte("/proc/self/oom_score_adj\x00")

// fork returns the pid of the child. In the child, fork does not return. If the child fails, the
// child writes 8 bytes to status.
//
//go:noinline
//go:norace
//go:nocheckptr
func (a *apart) fork() (pid uintptr, errno syscall.Errno) {
	var (
		i     int
		fd    uintptr
		step  uint64
		wrote uint64
	)
	beforeFork()
	if a.clone.flags != 0 || runtime.GOARCH == "s390x" { // on s390x clone(2) has other arguments
		pid, _, errno = syscall.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&a.clone)), unsafe.Sizeof(a.clone), 0)
	} else {
		pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	}
	if errno != 0 || pid != 0 {
		afterFork()
		return pid, errno
	}
	// In the child.
	if _, _, errno = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); errno != 0 {
		goto failed
	}
	afterForkInChild()
	if _, _, errno = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0); errno != 0 {
		goto failed
	}
	if pid, _, _ = syscall.RawSyscall(unix.SYS_GETPPID, 0, 0, 0); int(pid) != a.self {
		goto failed // the server died before the prctl
	}
	for i = range a.files {
		if _, _, errno = syscall.RawSyscall(unix.SYS_DUP3, uintptr(a.files[i]), uintptr(i), 0); errno != 0 {
			goto failed
		}
	}
	if a.tty {
		if _, _, errno = syscall.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 1); errno != 0 {
			goto failed
		}
	}
	if a.nofile != nil {
		syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(a.nofile)), 0, 0, 0)
	}
	for i = range a.mark {
		syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, uintptr(a.mark[i].Resource), uintptr(unsafe.Pointer(&a.mark[i].Limit)), 0, 0, 0)
	}
	if a.umask >= 0 {
		syscall.RawSyscall(unix.SYS_UMASK, uintptr(a.umask), 0, 0) // never fails
	}
	if a.user != nil {
		for i = range a.rlimits {
			if _, _, errno = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, uintptr(a.rlimits[i].Resource), uintptr(unsafe.Pointer(&a.rlimits[i].Limit)), 0, 0, 0); errno != 0 {
				step = uint64(stepLimit + i)
				goto failed
			}
		}
		if a.nice != nil {
			if _, _, errno = syscall.RawSyscall(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, uintptr(*a.nice)); errno != 0 {
				step = stepNice
				goto failed
			}
		}
		if len(a.score) > 0 {
			step = stepOOMScore
			if fd, _, errno = syscall.RawSyscall6(unix.SYS_OPENAT, 0, uintptr(unsafe.Pointer(&oomScoreAdj[0])), unix.O_WRONLY|unix.O_CLOEXEC, 0, 0, 0); errno != 0 {
				goto failed
			}
			if _, _, errno = syscall.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&a.score[0])), uintptr(len(a.score))); errno != 0 {
				goto failed
			}
			step = stepOther
		}
		if _, _, errno = syscall.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(a.user.Groups)), uintptr(unsafe.Pointer(unsafe.SliceData(a.user.Groups))), 0); errno != 0 {
			step = stepGroups
			goto failed
		}
		if _, _, errno = syscall.RawSyscall(unix.SYS_SETRESGID, uintptr(a.user.GID), uintptr(a.user.GID), uintptr(a.user.GID)); errno != 0 {
			step = stepGID
			goto failed
		}
		if _, _, errno = syscall.RawSyscall(unix.SYS_SETRESUID, uintptr(a.user.UID), uintptr(a.user.UID), uintptr(a.user.UID)); errno != 0 {
			step = stepUID
			goto failed
		}
		if a.user.UID != 0 { // a server with capabilities and another user than root keeps them in setresuid(2)
			if _, _, errno = syscall.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&a.capHeader)), uintptr(unsafe.Pointer(&a.noCaps[0])), 0); errno != 0 {
				step = stepCapabilities
				goto failed
			}
		}
		// A change of ids forgets the signal for the death of the server.
		if _, _, errno = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0); errno != 0 {
			goto failed
		}
		if pid, _, _ = syscall.RawSyscall(unix.SYS_GETPPID, 0, 0, 0); int(pid) != a.self {
			goto failed
		}
	}
	if a.noNewPrivs {
		if _, _, errno = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
			step = stepNoNewPrivs
			goto failed
		}
	}
	if a.dir != nil { // as the user: a directory closed to the user is refused
		if _, _, errno = syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(a.dir)), 0, 0); errno != 0 {
			goto failed
		}
	}
	if a.traced {
		if _, _, errno = syscall.RawSyscall(unix.SYS_PTRACE, unix.PTRACE_TRACEME, 0, 0); errno != 0 {
			goto failed
		}
	}
	_, _, errno = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(a.path)), uintptr(unsafe.Pointer(&a.argv[0])), uintptr(unsafe.Pointer(&a.env[0])))
failed:
	wrote = step<<32 | uint64(errno)
	syscall.RawSyscall(unix.SYS_WRITE, uintptr(a.status), uintptr(unsafe.Pointer(&wrote)), unsafe.Sizeof(wrote))
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 253, 0, 0)
	}
}
