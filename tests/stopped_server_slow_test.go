//go:build slow

package tests

import (
	"syscall"
	"testing"
	"time"
)

// TestStoppedServerBlamesNobody: a server stopped for longer than a connection may be silent blames no
// client for the silence. The test waits for the real timeout of the binary.
func TestStoppedServerBlamesNobody(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	idle, busy := s.session(nil), s.session(nil)
	p := busy.start("flood", flood(2<<30))
	p.awaitOutput("stdout", pattern)
	s.signal(syscall.SIGSTOP)
	time.Sleep(31 * time.Second)
	s.signal(syscall.SIGCONT)
	for range 2 { // by the second time the reader of each connection has met its deadline
		idle.call("process/list", obj{})
		busy.call("process/list", obj{})
		time.Sleep(time.Second)
	}
	busy.call("process/terminate", obj{"processId": "flood", "tree": true})
	p.awaitClosed()
}
