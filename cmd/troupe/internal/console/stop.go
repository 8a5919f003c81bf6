package console

import (
	"os/signal"
	"runtime"
	"syscall"
)

// stop stops this process as ^Z would, and returns when it continues. Without a shell that could continue it (an orphaned
// process group), the kernel does not stop it.
func stop() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	signal.Reset(syscall.SIGTSTP)
	stopThread() // of this thread: the kernel delivers the signal before the call returns
}
