//go:build slow

package tests

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
)

// TestRealClientMissesMuch: three commands write 3 MB each during an absence, more than the retention.
// The commands wait for their owner; on the peer's server all output would be lost. Another command
// ends during the absence, and the last command ends before the background process that it started
// writes on.
func TestRealClientMissesMuch(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := newRealClient(t, s)
	gate, open := c.gate(t)
	const last = 450_000
	var much []*command
	for i := range 3 {
		much = append(much, c.exec(fmt.Sprintf("echo up; read _ <%s; seq %d; echo e >&2; exit %d", gate, last, i), false))
	}
	ended := c.exec("echo up; read _ <"+gate+"; seq 2 1000; exit 5", false)
	orphan := c.exec("echo up; (read _ <"+gate+"; seq 2 1000) & exit 6", false)
	all := append(slices.Clone(much), ended, orphan)
	for _, p := range all {
		p.await("stdout", "up\n")
	}
	witness := s.observe(c.sessionID(), nil)
	back := c.cut()
	for range all {
		open()
	}
	for _, p := range much {
		eventually(t, "the command waits for its owner", func() bool { return unacked(witness, p.id) > nearlyFull })
	}
	witness.process(ended.id).awaitClosed()
	witness.process(orphan.id).awaitClosed()
	back()
	for i, p := range much {
		p.done(int64(i), map[string]string{"stdout": "up\n" + numbers(1, last), "stderr": "e\n"})
	}
	ended.done(5, map[string]string{"stdout": "up\n" + numbers(2, 1000)})
	orphan.done(6, map[string]string{"stdout": "up\n" + numbers(2, 1000)})
}

// TestRealClientServerRestarts: if the server is killed, its command fails; if the server stops, the
// client gets the end of the command. Afterwards the session is gone, and the next command runs in a
// new session.
func TestRealClientServerRestarts(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			// At another address than 127.0.0.1, nobody else gets the port between the two servers.
			s := startServer(t, "--listen", "ws://127.7.7.7:0", "--no-holder")
			c := newRealClient(t, s)
			p := c.exec("echo up; exec sleep 600", false)
			p.await("stdout", "up\n")
			s.signal(sig)
			s.exitCode()
			s = startServer(t, "--listen", s.url)
			c.awaitFact("the client has given up", func() bool { return c.failed != "" })
			c.mu.Lock()
			if want := "unknown session id " + c.session; c.failed != want {
				t.Errorf("the client gave up for %q, want %q", c.failed, want)
			}
			if sig == syscall.SIGKILL && p.failure != c.failed {
				t.Errorf("the command failed with %q, want %q", p.failure, c.failed)
			}
			if sig == syscall.SIGTERM && (!p.closed || *p.exit != 143) {
				t.Errorf("the command failed with %q, and exit code %v, want 143", p.failure, p.exit)
			}
			c.mu.Unlock()
			newRealClient(t, s).exec("echo again", false).done(0, map[string]string{"stdout": "again\n"})
		})
	}
}
