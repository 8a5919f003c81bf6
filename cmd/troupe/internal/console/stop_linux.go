package console

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A sigaction is at least as large as the kernel's struct sigaction. Zero: SIG_DFL, without flags and mask.
type sigaction [64]byte

// stop stops this process as ^Z would, and returns when the process continues. Without a shell that could continue the
// process (an orphaned process group), the kernel does not stop the process. Go keeps its handler of a signal after
// signal.Reset, so stop puts the default action in place of the handler itself.
func stop() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var handler, byDefault sigaction
	if setAction(&byDefault, &handler) != nil {
		return
	}
	// To this thread: the kernel delivers the signal before the call returns.
	unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGTSTP)
	setAction(&handler, nil)
}

// setAction sets the action of SIGTSTP.
func setAction(to, old *sigaction) error {
	const sizeOfMask = 8
	if _, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGTSTP), uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(old)), sizeOfMask, 0, 0); e != 0 {
		return e
	}
	return nil
}
