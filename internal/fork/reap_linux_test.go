package fork

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A process that has executed nothing leaves no zombie. (The other tests of this package wait for their processes, too.)
func TestFailedStartLeavesNoZombie(t *testing.T) {
	if _, err := Start(&Attr{Path: "/nowhere", Argv: []string{"x"}, Umask: -1}); err == nil {
		t.Fatal("/nowhere was executed")
	}
	var ws syscall.WaitStatus
	if pid, err := syscall.Wait4(-1, &ws, unix.WNOHANG, nil); err != unix.ECHILD {
		t.Errorf("there is a child: %d, status %#x, %v", pid, ws, err)
	}
}
