package child

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/kernel"
	"github.com/b6f6fdd7/troupe/internal/sandbox/jail"
)

// prepareJail sets what a jail and its program have from outside.
func (h *Host) prepareJail(pid int, spec *Spec, plan *jail.Plan) error {
	if err := awaitOwner(pid); err != nil {
		return err
	}
	for _, r := range rlimitsOf(spec.Limits) {
		if err := raiseHardLimit(pid, r); err != nil {
			return limitError(r, err)
		}
	}
	// The jail sets the limits of setrlimit(2) itself, for the program only.
	if nice := spec.Limits.Nice; nice != nil {
		if err := unix.Setpriority(unix.PRIO_PROCESS, pid, *nice); err != nil {
			return niceError(*nice, err)
		}
	}
	if score := spec.Limits.OOMScoreAdj; score != nil {
		if err := setScore(pid, *score); err != nil {
			return err
		}
	}
	if spec.Limits.Processes == nil {
		h.trees.Restrain(pid)
	}
	if !plan.Policy.Files {
		return nil
	}
	return mapIDs(pid, spec.User)
}

// mapIDs gives the user namespace of a jail the ids of the user; nil: of this program.
func mapIDs(pid int, user *User) error {
	uid, gid, groups, deny := uint32(os.Geteuid()), uint32(os.Getegid()), []uint32(nil), true
	if u := user; u != nil {
		uid, gid, groups, deny = u.UID, u.GID, u.Groups, false
	}
	dir := "/proc/" + strconv.Itoa(pid)
	if deny {
		if err := kernel.WriteFile(dir+"/setgroups", "deny"); err != nil {
			return &SandboxError{Stage: "groups of the user namespace", Err: err}
		}
	}
	if err := kernel.WriteFile(dir+"/uid_map", idMap(uid)); err != nil {
		if uid == 0 && errors.Is(err, unix.EPERM) && !mayMapRoot() {
			err = fmt.Errorf("%w (the server is root without CAP_SETFCAP, which the kernel demands for namespaces of root, from Linux 5.12 on: "+
				"give the container this capability, as with --cap-add=SETFCAP, or run the server as another user)", err)
		}
		return &SandboxError{Stage: "user of the user namespace", Err: err}
	}
	if err := kernel.WriteFile(dir+"/gid_map", idMap(append([]uint32{gid}, groups...)...)); err != nil {
		return &SandboxError{Stage: "group of the user namespace", Err: err}
	}
	return nil
}

// mayMapRoot reports whether this program has CAP_SETFCAP. (user_namespaces(7))
func mayMapRoot() bool {
	var sets [2]unix.CapUserData
	err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &sets[0])
	return err != nil || sets[0].Effective&(1<<unix.CAP_SETFCAP) != 0
}

// awaitOwner waits until the files of a new jail in /proc belong to the user of the server. For a moment in the middle of
// execve(2), they belong to root: the parent in a vfork(2) goes on before the new memory of the child is marked as dumpable.
// The wait is bounded; after it the use of the files fails. The files of an ended process belong to root, too: then the
// error is io.EOF, as of a read of the jail's socket.
func awaitOwner(pid int) error {
	path := "/proc/" + strconv.Itoa(pid) + "/setgroups"
	for wait := 20 * time.Microsecond; wait < time.Second; wait *= 2 {
		if err := unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS); err != unix.EACCES {
			return nil
		}
		if trees.Ended(pid) {
			return io.EOF
		}
		time.Sleep(wait)
	}
	return nil
}

// raiseHardLimit makes room for r in a jail, which cannot raise a limit itself: it has no capability for that outside of
// its user namespace.
func raiseHardLimit(pid int, r namedLimit) error {
	var now unix.Rlimit
	if err := unix.Prlimit(pid, r.resource, nil, &now); err != nil {
		return err
	}
	limit := around(r.resource, r.value, now)
	if limit.Max <= now.Max {
		return nil
	}
	return unix.Prlimit(pid, r.resource, &unix.Rlimit{Cur: now.Cur, Max: limit.Max}, nil)
}

// idMap maps each id to itself, in the form of user_namespaces(7).
func idMap(ids ...uint32) string {
	var text strings.Builder
	seen := make(map[uint32]bool)
	for _, id := range ids {
		if !seen[id] {
			fmt.Fprintf(&text, "%d %d 1\n", id, id)
		}
		seen[id] = true
	}
	return text.String()
}
