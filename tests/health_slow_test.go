//go:build slow

package tests

import (
	"fmt"
	"testing"
)

// TestHeldBackIsNotLate: a program blocked in write because its owner is away does not count as late,
// however long this lasts.
func TestHeldBackIsNotLate(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(knowing)
	token := newToken(t)
	c.start("q", obj{"argv": append(sh("echo first $0; yes | head -c 4000000; echo; echo up; exec sleep 1000"), token), "restart": restart("permanent", 100),
		"ready": obj{"line": "^up$", "timeoutMs": 6000}})
	c.process("q").awaitOutput("stdout", token)
	c.cutRST()
	for i := range 3 { // for longer than that
		s.session(nil).start(fmt.Sprint("r", i), obj{"argv": []string{"sleep", "1000"}, "ready": obj{"line": "never", "timeoutMs": 2400}}).awaitClosed()
	}
	again := s.session(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"q": 0}, "capabilities": knowing["capabilities"]})
	q := again.process("q")
	q.awaitOutput("stdout", "\nup\n")
	again.awaitFact("it is ready", func() bool { return len(q.readies) == 1 })
	if len(q.restarts) > 0 || num(q.readies[0]["run"]) != 1 {
		t.Errorf("it was restarted: %s", jsonText(q.restarts))
	}
}

// TestBlockedIsNotSilent: a program blocked in write because nobody reads is not silent. Here nobody is attached to its session.
func TestBlockedIsNotSilent(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(knowing)
	token := newToken(t)
	q := c.start("q", obj{"argv": append(sh("yes $0"), token), "liveness": obj{"silenceMs": 5_000}})
	pid := q.pid()
	c.cutRST()
	s.session(nil).start("r", obj{"argv": []string{"sleep", "1000"}, "liveness": obj{"silenceMs": 6_000}}).awaitClosed() // waits this long
	again := s.session(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"q": 0}})
	again.process("q").awaitOutput("stdout", token)
	if !alive(pid) {
		t.Error("it was taken for silent")
	}
}
