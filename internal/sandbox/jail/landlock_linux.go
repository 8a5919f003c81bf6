//go:build amd64 || arm64

package jail

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rights of Landlock to change something. Reading is the business of the mounts.
const (
	fileRights = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

	writeRights = fileRights | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
)

// A ruleset is the Landlock rules of a plan. The zero ruleset restricts nothing: the kernel has no Landlock.
type ruleset struct {
	fd   int
	made bool
}

// handledBy returns the rights that Landlock of the given ABI refuses wherever no rule permits them.
func handledBy(abi int, network bool) unix.LandlockRulesetAttr {
	fs := uint64(writeRights)
	if abi < 3 {
		fs &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi < 5 {
		fs &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi >= 9 && !network { // no rule permits this: only sockets of the sandbox itself can be reached
		fs |= unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: fs}
	if abi >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL
		if !network {
			attr.Scoped |= unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
		}
	}
	return attr
}

// newRuleset makes the rules of a plan, by the paths as the thread sees them now.
//
// The mounts already keep the program from files it may not write. Landlock refuses writing a second time, and also where
// mounts do not: a FIFO or a device on a read-only mount. Landlock cannot make a path below a writable directory read-only, so
// such paths are protected by mounts alone. Besides, no program in a Landlock domain can mount anything, or trace a process
// outside.
func newRuleset(p *Plan) (r ruleset, err error) {
	abi := LandlockABI()
	if abi < MinLandlock {
		return ruleset{}, nil
	}
	attr := handledBy(abi, p.Policy.Network)
	r, err = makeRuleset(&attr)
	if err != nil {
		return ruleset{}, err
	}
	defer func() {
		if err != nil {
			r.close()
		}
	}()

	permitted := attr.Handled_access_fs & writeRights
	for _, path := range writable(p) {
		if err := r.allowBeneath(path, permitted); err != nil {
			return r, err
		}
	}
	for fd := range 3 {
		if err := r.allowStandard(fd, permitted&fileRights); err != nil {
			return r, err
		}
	}
	return r, nil
}

// scopeSockets restricts the calling thread to its own abstract sockets, and so to a Landlock domain of its own. Everything else
// stays permitted. A process in a domain can neither trace a process outside, nor open its memory or its descriptors in
// /proc. The kernel needs ABI 6.
//
// Landlock refuses renames across directories (EXDEV) as soon as one of several domains handles rights of files, and another
// domain has no rule that permits REFER. So this domain has one, for programs with rules of their own.
func scopeSockets() error {
	if LandlockABI() < 6 {
		return nil
	}
	r, err := makeRuleset(&unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, Handled_access_fs: unix.LANDLOCK_ACCESS_FS_REFER})
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.allowBeneath("/", unix.LANDLOCK_ACCESS_FS_REFER); err != nil {
		return err
	}
	return r.restrict()
}

func makeRuleset(attr *unix.LandlockRulesetAttr) (ruleset, error) {
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr), 0)
	if errno != 0 {
		return ruleset{}, failure("Landlock ruleset", errno, "")
	}
	return ruleset{int(fd), true}, nil
}

// allowBeneath permits rights at the path and everything below it. A path out of the thread's reach, or missing, needs no
// rule: the program may do less, and cannot reach the path either.
func (r ruleset) allowBeneath(path string, rights uint64) error {
	stage := "Landlock rule of " + path
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS, // a link could lead to a path outside the policy
	})
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EACCES):
		return nil
	case err != nil:
		return failure(stage, err, "")
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return failure(stage, err, "")
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights
	}
	if err := r.allow(fd, rights); err != nil {
		return failure(stage, err, "")
	}
	return nil
}

// allowStandard permits to open the descriptor again by its name in /proc/self/fd, if the program can write to it anyway. A
// terminal of the server is below no path of the view. Pipes and sockets need no rule.
func (r ruleset) allowStandard(fd int, rights uint64) error {
	stage := fmt.Sprintf("Landlock rule of descriptor %d", fd)
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	switch {
	case errors.Is(err, unix.EBADF):
		return nil
	case err != nil:
		return failure(stage, err, "")
	}
	if flags&unix.O_PATH != 0 || flags&unix.O_ACCMODE == unix.O_RDONLY {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return failure(stage, err, "")
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFCHR, unix.S_IFREG, unix.S_IFIFO:
	default:
		return nil
	}
	if err := r.allow(fd, rights); err != nil && !errors.Is(err, unix.EBADFD) { // EBADFD: a pipe, a memfd
		return failure(stage, err, "")
	}
	return nil
}

func (r ruleset) allow(fd int, rights uint64) error {
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// restrict puts the thread, and every process forked by the thread, under the rules, for ever. The thread must have
// no_new_privs.
func (r ruleset) restrict() error {
	if !r.made {
		return nil
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(r.fd), 0, 0); errno != 0 {
		return failure("Landlock", errno, "E2BIG means that the server itself is in 16 domains of Landlock")
	}
	return nil
}

func (r ruleset) close() {
	if r.made {
		unix.Close(r.fd)
	}
}
