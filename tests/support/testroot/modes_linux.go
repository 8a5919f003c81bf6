package testroot

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// ObeyModes makes the permissions of files count for the goroutine of the test, also for root. The goroutine stays on its thread, which
// ends with it.
func ObeyModes(t testing.TB) {
	t.Helper()
	runtime.LockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		t.Fatal(err)
	}
	caps[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
	if err := unix.Capset(&header, &caps[0]); err != nil {
		t.Fatal(err)
	}
}
