package placeholder

import (
	"math"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// as calls do with the file permissions of the owner of st, if the server is root and may; else as the server itself.
// setfsuid(2) is for this thread only.
func as(st *unix.Stat_t, do func() error) error {
	if os.Geteuid() != 0 || st.Uid == 0 {
		return do()
	}
	runtime.LockOSThread()
	gid, uid := setfs(unix.SYS_SETFSGID, st.Gid), setfs(unix.SYS_SETFSUID, st.Uid)
	defer func() {
		setfs(unix.SYS_SETFSUID, uid)
		setfs(unix.SYS_SETFSGID, gid)
		if setfs(unix.SYS_SETFSUID, math.MaxUint32) == uid && setfs(unix.SYS_SETFSGID, math.MaxUint32) == gid {
			runtime.UnlockOSThread() // else the thread ends with the goroutine
		}
	}()
	return do()
}

// setfs sets a file system id and returns the one before. The kernel ignores an id that it refuses.
func setfs(call uintptr, id uint32) uint32 {
	before, _, _ := unix.RawSyscall(call, uintptr(id), 0, 0)
	return uint32(before)
}
