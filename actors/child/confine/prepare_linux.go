package confine

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/fork"
	"github.com/b6f6fdd7/troupe/internal/kernel"
)

// prepare sets what a jail and its program have from outside.
func (j *Jail) prepare(pid int) error {
	if err := trees.AwaitOwner(pid); err != nil {
		return err
	}
	for _, r := range trees.Rlimits(j.Limits) {
		if err := raiseHardLimit(pid, r); err != nil {
			return r.Error(err)
		}
	}
	// The jail sets the limits of setrlimit(2) itself, for the program only.
	if nice := j.Limits.Nice; nice != nil {
		if err := unix.Setpriority(unix.PRIO_PROCESS, pid, *nice); err != nil {
			return trees.NiceError(*nice, err)
		}
	}
	if score := j.Limits.OOMScoreAdj; score != nil {
		if err := trees.SetScore(pid, *score); err != nil {
			return err
		}
	}
	if j.Limits.Processes == nil && j.Restrain != nil {
		j.Restrain(pid)
	}
	if !j.Plan.Policy.Files {
		return nil
	}
	return mapIDs(pid, j.Plan.User)
}

// mapIDs gives the user namespace of a jail the ids of the user; nil: of this program.
func mapIDs(pid int, user *fork.User) error {
	uid, gid, groups, deny := uint32(os.Geteuid()), uint32(os.Getegid()), []uint32(nil), true
	if u := user; u != nil {
		uid, gid, groups, deny = u.UID, u.GID, u.Groups, false
	}
	dir := "/proc/" + strconv.Itoa(pid)
	if deny {
		if err := kernel.WriteFile(dir+"/setgroups", "deny"); err != nil {
			return &Error{Stage: "groups of the user namespace", Err: err}
		}
	}
	if err := kernel.WriteFile(dir+"/uid_map", idMap(uid)); err != nil {
		if uid == 0 && errors.Is(err, unix.EPERM) && !mayMapRoot() {
			err = fmt.Errorf("%w (the server is root without CAP_SETFCAP, which the kernel demands for namespaces of root, from Linux 5.12 on: "+
				"give the container this capability, as with --cap-add=SETFCAP, or run the server as another user)", err)
		}
		return &Error{Stage: "user of the user namespace", Err: err}
	}
	if err := kernel.WriteFile(dir+"/gid_map", idMap(append([]uint32{gid}, groups...)...)); err != nil {
		return &Error{Stage: "group of the user namespace", Err: err}
	}
	return nil
}

// mayMapRoot reports whether this program has CAP_SETFCAP. (user_namespaces(7))
func mayMapRoot() bool {
	var sets [2]unix.CapUserData
	err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &sets[0])
	return err != nil || sets[0].Effective&(1<<unix.CAP_SETFCAP) != 0
}

// raiseHardLimit makes room for r in a jail, which cannot raise a limit itself: the jail has no capability for that outside of
// its user namespace.
func raiseHardLimit(pid int, r trees.NamedLimit) error {
	var now unix.Rlimit
	if err := unix.Prlimit(pid, r.Resource, nil, &now); err != nil {
		return err
	}
	limit := trees.Around(r.Resource, r.Value, now)
	if limit.Max <= now.Max {
		return nil
	}
	return unix.Prlimit(pid, r.Resource, &unix.Rlimit{Cur: now.Cur, Max: limit.Max}, nil)
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
