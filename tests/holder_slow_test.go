//go:build slow

package tests

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestIdleAndStoppedServer: the holder takes neither a server without clients for one that hangs, nor a stopped one. The test waits for the real times of
// the binary: a server that gives no answer for half a minute is killed.
func TestIdleAndStoppedServer(t *testing.T) {
	t.Parallel()
	h := startHeld(t, nil)
	server := h.running()
	if err := syscall.Kill(server, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(37 * time.Second)
	if err := syscall.Kill(server, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	time.Sleep(37 * time.Second)
	h.session(nil).call("process/list", obj{})
	if log := h.stderr.String(); h.running() != server || strings.Contains(log, "hangs") {
		t.Errorf("the server is process %d, and was %d; the log:\n%s", h.running(), server, log)
	}
}
