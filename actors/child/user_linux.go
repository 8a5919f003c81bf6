package child

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/user"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/fork"
)

// A child as another user changes its groups and its ids between fork and exec. Such a child has a copy of the server's
// memory: a change of ids makes memory undumpable, also the server's own if it were shared.

// becoming are the capabilities of a server that starts a child as another user: CAP_KILL ends the child,
// and CAP_CHOWN gives the child its terminal and pipes.
var becoming = []struct {
	bit  uint
	name string
}{
	{unix.CAP_SETUID, "CAP_SETUID"}, {unix.CAP_SETGID, "CAP_SETGID"}, {unix.CAP_KILL, "CAP_KILL"}, {unix.CAP_CHOWN, "CAP_CHOWN"},
}

// dropAmbient keeps the capabilities in becoming from children of this thread that do not change their user. A child
// inherits only ambient capabilities; the thread itself keeps the capabilities.
func dropAmbient() {
	for _, need := range becoming {
		unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_LOWER, uintptr(need.bit), 0, 0) // fails before Linux 4.3, which has none
	}
}

// notAmbient are the capabilities of dropAmbient, as fork.Attr has them.
func notAmbient() (set uint64) {
	for _, need := range becoming {
		set |= 1 << need.bit
	}
	return set
}

// mayBecome refuses u if this program lacks a capability.
func mayBecome(u *User) error {
	var data [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return fmt.Errorf("%w %s: capget: %w", ErrUser, u.Name, err)
	}
	var lacks []string
	for _, need := range becoming {
		if data[0].Effective&(1<<need.bit) == 0 {
			lacks = append(lacks, need.name)
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("%w %s: the server runs as uid %d and lacks %s: start the server as root or with these capabilities, or leave user out", ErrUser, u.Name, os.Geteuid(), strings.Join(lacks, ", "))
	}
	return nil
}

// ids is u for a fork; nil: the user of the server.
func (u *User) ids() *fork.User {
	if u == nil {
		return nil
	}
	return &fork.User{UID: u.UID, GID: u.GID, Groups: u.Groups}
}

// LookAs calls look with the file permissions of u. A nil u has the permissions of the server.
//
// Only the thread of look changes. The thread ends with look, and no other goroutine runs on it. Its real
// and effective ids stay, so u can neither signal nor trace the thread. look runs on another goroutine than its
// caller, and must not panic.
func LookAs(u *User, look func()) error {
	if u == nil {
		look()
		return nil
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != os.Getpid() {
			done <- lookHere(u, look)
			return // locked: the thread ends
		}
		// The main thread never ends, so another thread changes. The main thread waits, and cannot be that thread.
		defer runtime.UnlockOSThread()
		over := make(chan struct{})
		go func() {
			defer close(over)
			runtime.LockOSThread()
			done <- lookHere(u, look)
		}()
		<-over
	}()
	return <-done
}

func lookHere(u *User, look func()) error {
	if err := setGroups(u.Groups); err != nil {
		return fmt.Errorf("%w %s: setgroups: %w", ErrUser, u.Name, err)
	}
	// setfsuid(2) returns the id before the call, and never an error. A wrong id as argument changes nothing.
	const ask = math.MaxUint32
	unix.RawSyscall(unix.SYS_SETFSGID, uintptr(u.GID), 0, 0)
	unix.RawSyscall(unix.SYS_SETFSUID, uintptr(u.UID), 0, 0)
	gid, _, _ := unix.RawSyscall(unix.SYS_SETFSGID, ask, 0, 0)
	uid, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, ask, 0, 0)
	if uint32(uid) != u.UID || uint32(gid) != u.GID {
		return fmt.Errorf("%w %s: setfsuid: the system refuses %d:%d", ErrUser, u.Name, u.UID, u.GID)
	}
	look()
	return nil
}

// setGroups sets the groups of this thread only; syscall.Setgroups sets the groups of all threads.
func setGroups(groups []uint32) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(unsafe.SliceData(groups))), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// ttyGroup is the group of terminals, as of login(1); -1: the system has no such group.
var ttyGroup = sync.OnceValue(func() int {
	if g, err := user.LookupGroup("tty"); err == nil {
		if gid, err := strconv.Atoi(g.Gid); err == nil {
			return gid
		}
	}
	return -1
})

// give makes u the owner of the terminal or of the pipes of a child. A program that opens /dev/stderr
// needs that for pipes, too.
func (e *ends) give(u *User) error {
	if u == nil {
		return nil
	}
	for _, fd := range e.opened {
		gid, mode := int(u.GID), uint32(0o600)
		if e.tty != nil {
			if gid = ttyGroup(); gid >= 0 {
				mode = 0o620 // write(1) has the group tty
			}
		}
		// The mode first: fchmod(2) of the file of another user takes CAP_FOWNER.
		if err := unix.Fchmod(fd, mode); err != nil {
			return fmt.Errorf("%w %s: change the mode of its terminal or pipes: %w", ErrUser, u.Name, err)
		}
		if err := unix.Fchown(fd, int(u.UID), gid); err != nil {
			return fmt.Errorf("%w %s: change the owner of its terminal or pipes: %w", ErrUser, u.Name, err)
		}
	}
	return nil
}

// stepError explains which step of a child between fork and exec has failed. Errors of the fork and of the exec are left to startError.
func stepError(err error, spec *Spec) error {
	failed, ok := errors.AsType[*fork.Error](err)
	switch {
	case errors.Is(err, fork.ErrPanic):
		return fmt.Errorf("%w in a fork: %w", errInternal, err)
	case !ok:
		return err
	case failed.Step == fork.StepNoNewPrivs:
		return fmt.Errorf("%w: noNewPrivs: prctl: %w", ErrUser, failed.Errno)
	case failed.Step == fork.StepNice:
		return trees.NiceError(*spec.Limits.Nice, failed.Errno)
	case failed.Step == fork.StepOOMScoreAdj:
		return trees.ScoreError(*spec.Limits.OOMScoreAdj, failed.Errno)
	case spec.User != nil && slices.Contains([]fork.Step{fork.StepGroups, fork.StepGID, fork.StepUID, fork.StepCapabilities}, failed.Step):
		return fmt.Errorf("%w %s: %v: %w", ErrUser, spec.User.Name, failed.Step, failed.Errno)
	case failed.Step >= fork.StepLimit:
		for _, r := range trees.Rlimits(spec.Limits) {
			if r.Resource == int(failed.Step-fork.StepLimit) {
				return r.Error(failed.Errno)
			}
		}
		return fmt.Errorf("%w: %w", ErrLimitRefused, failed)
	}
	return failed.Errno
}
