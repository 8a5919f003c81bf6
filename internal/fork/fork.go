//go:build linux

// Package fork starts processes. A process sets its limits, its user, its capabilities and its namespaces itself, before it
// executes its program.
//
// There are two ways. A process of Start shares the memory of this program until the exec, as with vfork(2): the cost does not grow
// with the memory, and the thread of the caller waits. A process of Begin has a copy of the memory: copying takes a millisecond for
// each few hundred MiB, and nobody waits for a process that hangs in its exec.
//
// # Where to look
//
//   - attr.go, user.go: what a process is started with
//   - fork.go: the start; share_linux_*.s: the system call of a process that shares the memory
//   - thread.go, desk.go: starts whose cost does not grow with the number of open files
package fork

import (
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/kernel"
)

// Package syscall calls these functions around a fork. Other packages may call them, too.
//
//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// atCwd is AT_FDCWD as a register has it.
const atCwd = ^uintptr(-unix.AT_FDCWD - 1)

// cloneArgs is struct clone_args up to Linux 5.7. (clone(2))
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// start makes the system call, and runs the child's steps in the child. The parent returns at once; run calls afterFork.
//
// The child may share all memory with this program, whose other threads go on. The child may neither allocate, nor grow
// the stack, nor call Go functions other than assembly and nosplit functions. It may write to p.report and p.mounted alone.
//
//go:noinline
//go:norace
//go:nocheckptr
func (p *process) start(trap, a1, a2, a3 uintptr) (pid uintptr, errno syscall.Errno) {
	var (
		i    int
		fd   uintptr
		step Step
	)
	beforeFork() // from here on no stack may grow
	pid, errno = clone(trap, a1, a2, a3)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	// In the child.
	step = StepSession
	if p.session {
		if _, _, errno = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); errno != 0 {
			goto failed
		}
	}
	if !p.cleared {
		afterForkInChild() // no handler of this program runs in the child
	}
	if p.mounts {
		step = StepMount
		if pid, _, errno = syscall.RawSyscall(unix.SYS_OPEN_TREE, atCwd, uintptr(unsafe.Pointer(p.path)), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC); errno != 0 {
			goto failed
		}
		p.mounted = int(pid)
		if _, _, errno = syscall.RawSyscall6(unix.SYS_MOUNT_SETATTR, pid, uintptr(unsafe.Pointer(&p.empty)), unix.AT_EMPTY_PATH,
			uintptr(unsafe.Pointer(&p.attributes)), unsafe.Sizeof(p.attributes), 0); errno != 0 {
			goto failed
		}
		for {
			syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	step = StepOther
	if p.leaves > 0 { // before any change of the table
		if _, _, errno = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, p.leaves, math.MaxUint32, unix.CLOSE_RANGE_UNSHARE); errno != 0 {
			goto failed
		}
	}
	if p.deathSignal {
		if _, _, errno = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0); errno != 0 {
			goto failed
		}
		// In a new PID namespace the parent is 0, and whoever waits there finds out by a socket.
		if pid, _, _ = syscall.RawSyscall(unix.SYS_GETPPID, 0, 0, 0); pid != 0 && pid != p.parent {
			goto failed
		}
	}
	for i = 0; i < len(p.files); i++ {
		if p.files[i] == uintptr(i) { // dup3(2) refuses this
			_, _, errno = syscall.RawSyscall(unix.SYS_FCNTL, uintptr(i), unix.F_SETFD, 0)
		} else {
			_, _, errno = syscall.RawSyscall(unix.SYS_DUP3, p.files[i], uintptr(i), 0)
		}
		if errno != 0 {
			goto failed
		}
	}
	// The exec closes all others, also those that this program has inherited itself.
	if _, _, errno = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, p.above, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); errno != 0 {
		for i = int(p.above); i < p.most; i++ { // Linux before 5.11, or a filter
			syscall.RawSyscall(unix.SYS_FCNTL, uintptr(i), unix.F_SETFD, unix.FD_CLOEXEC)
		}
	}
	if p.terminal {
		step = StepTerminal
		if _, _, errno = syscall.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 1); errno != 0 {
			goto failed
		}
	}
	if p.umask >= 0 {
		syscall.RawSyscall(unix.SYS_UMASK, uintptr(p.umask), 0, 0) // never fails
	}
	if len(p.score) > 0 { // before the limits, which may leave no descriptor
		step = StepOOMScoreAdj
		if fd, _, errno = syscall.RawSyscall6(unix.SYS_OPENAT, 0, uintptr(unsafe.Pointer(&oomScoreAdj[0])), unix.O_WRONLY|unix.O_CLOEXEC, 0, 0, 0); errno != 0 {
			goto failed
		}
		if _, _, errno = syscall.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&p.score[0])), uintptr(len(p.score))); errno != 0 {
			goto failed
		}
	}
	if p.nice != nil {
		step = StepNice
		if _, _, errno = syscall.RawSyscall(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, uintptr(*p.nice)); errno != 0 {
			goto failed
		}
	}
	for i = 0; i < len(p.limits); i++ {
		step = StepLimit + Step(p.limits[i].Resource)
		if _, _, errno = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, uintptr(p.limits[i].Resource), uintptr(unsafe.Pointer(&p.limits[i].Limit)), 0, 0, 0); errno != 0 {
			goto failed
		}
	}
	if p.user != nil {
		step = StepGroups
		if _, _, errno = syscall.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(p.user.Groups)), uintptr(unsafe.Pointer(unsafe.SliceData(p.user.Groups))), 0); errno != 0 {
			goto failed
		}
		step = StepGID
		if _, _, errno = syscall.RawSyscall(unix.SYS_SETRESGID, uintptr(p.user.GID), uintptr(p.user.GID), uintptr(p.user.GID)); errno != 0 {
			goto failed
		}
		step = StepUID
		if _, _, errno = syscall.RawSyscall(unix.SYS_SETRESUID, uintptr(p.user.UID), uintptr(p.user.UID), uintptr(p.user.UID)); errno != 0 {
			goto failed
		}
		step = StepCapabilities
		if p.user.UID != 0 { // a program with capabilities and another user than root keeps them in setresuid(2)
			if _, _, errno = syscall.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&p.capHeader)), uintptr(unsafe.Pointer(&p.caps[0])), 0); errno != 0 {
				goto failed
			}
		}
		step = StepOther
		if p.deathSignal { // a change of ids forgets it
			if _, _, errno = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0); errno != 0 {
				goto failed
			}
			if pid, _, _ = syscall.RawSyscall(unix.SYS_GETPPID, 0, 0, 0); pid != p.parent {
				goto failed
			}
		}
	}
	if p.noNewPrivs {
		step = StepNoNewPrivs
		if _, _, errno = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
			goto failed
		}
	}
	step = StepDir // as the user: a directory closed to the user is refused
	if p.dirFile > 0 {
		if _, _, errno = syscall.RawSyscall(unix.SYS_FCHDIR, p.dirFile, 0, 0); errno != 0 {
			goto failed
		}
	} else if p.dir != nil {
		if _, _, errno = syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(p.dir)), 0, 0); errno != 0 {
			goto failed
		}
	}
	step = StepCapabilities
	for i = 0; i < 64 && p.notAmbient != 0; i++ {
		if p.notAmbient&(1<<i) != 0 {
			syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_LOWER, uintptr(i), 0, 0, 0) // fails before Linux 4.3, which has none
		}
	}
	if p.ambient != 0 {
		if _, _, errno = syscall.RawSyscall(unix.SYS_CAPGET, uintptr(unsafe.Pointer(&p.capHeader)), uintptr(unsafe.Pointer(&p.caps[0])), 0); errno != 0 {
			goto failed
		}
		p.caps[0].Inheritable = uint32(p.ambient)
		p.caps[1].Inheritable = uint32(p.ambient >> 32)
		if _, _, errno = syscall.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&p.capHeader)), uintptr(unsafe.Pointer(&p.caps[0])), 0); errno != 0 {
			goto failed
		}
		for i = 0; i < 64; i++ {
			if p.ambient&(1<<i) == 0 {
				continue
			}
			if _, _, errno = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(i), 0, 0, 0); errno != 0 {
				goto failed
			}
		}
	}
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&p.blocked)), 0, unsafe.Sizeof(p.blocked), 0, 0)
	step = StepExec
	if p.binary > 0 {
		_, _, errno = syscall.RawSyscall6(unix.SYS_EXECVEAT, p.binary, uintptr(unsafe.Pointer(&p.empty)), uintptr(unsafe.Pointer(&p.argv[0])), uintptr(unsafe.Pointer(&p.env[0])), unix.AT_EMPTY_PATH, 0)
		goto failed
	}
	_, _, errno = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(p.path)), uintptr(unsafe.Pointer(&p.argv[0])), uintptr(unsafe.Pointer(&p.env[0])))
failed:
	p.report = uint64(step)<<32 | uint64(errno)
	if p.status > 0 {
		syscall.RawSyscall(unix.SYS_WRITE, p.status, uintptr(unsafe.Pointer(&p.report)), ReportSize)
	}
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 253, 0, 0)
	}
}

// process is everything that the child needs.
type process struct {
	path, dir *byte
	binary    uintptr // 0: path
	dirFile   uintptr // 0: dir
	argv, env []*byte
	empty     byte // the path of a descriptor itself

	mounts     bool // the child mounts path, and executes nothing
	attributes unix.MountAttr

	session, deathSignal, terminal, noNewPrivs bool

	parent   uintptr
	byParent bool // parent is the parent of this program
	slot     *uint32
	leaves   uintptr
	files    []uintptr
	above    uintptr // the first descriptor that the exec closes
	most     int     // how many descriptors this program may have
	umask    int
	limits   []Limit
	nice     *int
	score    []byte // of oomScoreAdj; empty: keep
	user     *User

	notAmbient, ambient uint64

	capHeader unix.CapUserHeader
	caps      [2]unix.CapUserData
	blocked   uint64

	cleared bool // no handler of this program is the child's

	status uintptr // a pipe for report; 0: the parent reads the shared memory

	// The child writes these.
	report  uint64 // 0: no step has failed
	mounted int
}

// oomScoreAdj is a path with its NUL.
var oomScoreAdj = []byte("/proc/self/oom_score_adj\x00")

// ReportSize is the size of a report on the pipe of Begin, in bytes.
const ReportSize = 8

// reported returns the *Error of a report; nil: there is none.
func reported(report uint64) error {
	if report == 0 {
		return nil
	}
	return &Error{Step: Step(report >> 32), Errno: syscall.Errno(uint32(report))}
}

// Reported returns the error of a process of Begin. b is everything that its pipe had: nothing, if the program was executed.
func Reported(b []byte) error {
	if len(b) < ReportSize {
		return nil
	}
	return reported(binary.NativeEndian.Uint64(b))
}

// Start starts a. Start returns when the program is executed, or could not be. Start takes no lock, and blocks its thread until
// the exec. If the error is an *Error, a process was made, has ended, and was reaped. With Attr.Parent only the parent can reap the process:
// the error comes with its pid.
func Start(a *Attr) (pid int, err error) {
	if !sharing {
		return startCopy(a)
	}
	if a.User != nil {
		return 0, errUser
	}
	p, err := prepare(a)
	if err != nil {
		return 0, err
	}
	child, err := p.run(a.Namespaces, a.Cgroup, true)
	if err != nil {
		return 0, err
	}
	if err := reported(p.report); err != nil {
		if a.Parent != 0 {
			return child, err
		}
		reap(child)
		return 0, err
	}
	return child, nil
}

var errUser = errors.New("fork: a process that shares the memory of this program keeps its user")

// Begin starts a with a copy of the memory of this program, and does not wait for the exec. The exec closes the pipe status of the
// process. If a step fails, the process writes to the pipe for Reported, and ends; the caller reaps it. status is above 2.
func Begin(a *Attr, status int) (pid int, err error) {
	p, err := prepare(a)
	if err != nil {
		return 0, err
	}
	p.status = uintptr(status)
	return p.run(a.Namespaces, a.Cgroup, false)
}

// startCopy is Start where memory cannot be shared.
func startCopy(a *Attr) (pid int, err error) {
	if a.Namespaces != 0 { // nobody has tried it
		return 0, syscall.ENOSYS
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return 0, err
	}
	defer unix.Close(pipe[0])
	pid, err = Begin(a, pipe[1])
	unix.Close(pipe[1])
	if err != nil {
		return 0, err
	}
	report := make([]byte, ReportSize)
	n, _ := kernel.Retry(func() (int, error) { return unix.Read(pipe[0], report) })
	if err := Reported(report[:max(n, 0)]); err != nil {
		if a.Parent != 0 {
			return pid, err
		}
		reap(pid)
		return 0, err
	}
	return pid, nil
}

func prepare(a *Attr) (p *process, err error) {
	p = &process{
		session: a.Session, deathSignal: a.DeathSignal, terminal: a.Terminal, noNewPrivs: a.NoNewPrivs,
		parent: uintptr(unix.Getpid()), slot: a.PIDSlot, leaves: uintptr(a.leaves), files: a.Files, umask: a.Umask, limits: a.Limits, nice: a.Nice, user: a.User,
		notAmbient: a.NotAmbient, ambient: a.Ambient, blocked: a.Blocked,
		capHeader: unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3},
	}
	if a.Parent != 0 {
		p.parent, p.byParent = uintptr(a.Parent), true
	}
	if p.path, err = syscall.BytePtrFromString(a.Path); err != nil {
		return nil, err
	}
	if a.Dir != "" {
		if p.dir, err = syscall.BytePtrFromString(a.Dir); err != nil {
			return nil, err
		}
	}
	if a.Binary > 0 {
		p.binary = uintptr(a.Binary)
	}
	if a.DirFile > 0 {
		p.dirFile = uintptr(a.DirFile)
	}
	if a.OOMScoreAdj != nil {
		p.score = strconv.AppendInt(nil, int64(*a.OOMScoreAdj), 10)
	}
	if p.above = uintptr(len(a.Files)); p.above == 0 {
		p.above = 3
	}
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil {
		p.most = int(min(files.Cur, 1<<20))
	}
	if p.argv, err = syscall.SlicePtrFromStrings(a.Argv); err != nil {
		return nil, err
	}
	if p.env, err = syscall.SlicePtrFromStrings(a.Env); err != nil {
		return nil, err
	}
	return p, nil
}

// run makes the child. If the child shares the memory, run returns when the child has executed its program, or has ended.
func (p *process) run(flags uintptr, cgroup int, share bool) (child int, err error) {
	if share {
		flags |= unix.CLONE_VM | unix.CLONE_VFORK
	}
	if p.leaves > 0 {
		flags |= unix.CLONE_FILES
	}
	signal := uintptr(unix.SIGCHLD)
	if p.byParent {
		flags |= unix.CLONE_PARENT
		signal = 0 // clone3(2) demands that; the kernel sends the signal of this program's own end
	}
	if p.slot != nil {
		flags |= unix.CLONE_PARENT_SETTID
	}
	args := &cloneArgs{flags: uint64(flags), exitSignal: uint64(signal), parentTID: uint64(uintptr(unsafe.Pointer(p.slot)))}
	trap, a1, a2, a3 := uintptr(unix.SYS_CLONE), flags|signal, uintptr(0), uintptr(unsafe.Pointer(p.slot))
	if cgroup > 0 {
		// One flag in place of a system call for each signal. Linux has it since 5.5, and CLONE_INTO_CGROUP since 5.7.
		p.cleared = true
		args.flags |= unix.CLONE_INTO_CGROUP | unix.CLONE_CLEAR_SIGHAND
		args.cgroup = uint64(cgroup)
	}
	if cgroup > 0 || runtime.GOARCH == "s390x" { // there clone(2) has other arguments
		trap, a1, a2 = unix.SYS_CLONE3, uintptr(unsafe.Pointer(args)), unsafe.Sizeof(*args)
	}
	pid, errno := p.start(trap, a1, a2, a3)
	afterFork()
	runtime.KeepAlive(p)
	runtime.KeepAlive(args)
	if errno != 0 {
		return 0, errno
	}
	return int(pid), nil
}

func reap(child int) {
	var ws syscall.WaitStatus
	kernel.Retry(func() (int, error) { return syscall.Wait4(child, &ws, 0, nil) })
}

// ReadOnly returns a descriptor of the file on a mount of its own, which is read-only and in no directory. A process that
// executes the descriptor (Attr.Binary) can change the file neither by /proc/self/exe, nor its mode or times. The mount lives as
// long as the descriptor and such processes. ReadOnly needs the right to make namespaces, no other. The caller checks that path
// still leads to the file that it means. If the error is no *Error, the system made no namespaces.
func ReadOnly(path string) (fd int, err error) {
	if !sharing {
		return -1, syscall.ENOSYS
	}
	p := &process{
		mounts: true, mounted: -1, parent: uintptr(unix.Getpid()), umask: -1,
		attributes: unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV},
	}
	if p.path, err = syscall.BytePtrFromString(path); err != nil {
		return -1, err
	}
	// The child shares the descriptors of this program: the mount is one of them.
	child, err := p.run(unix.CLONE_NEWUSER|unix.CLONE_NEWNS|unix.CLONE_FILES, 0, true)
	if err != nil {
		return -1, err
	}
	reap(child)
	if err := reported(p.report); err != nil {
		if p.mounted >= 0 {
			unix.Close(p.mounted)
		}
		return -1, err
	}
	return p.mounted, nil
}
