//go:build slow

package tests

import (
	"strings"
	"testing"
)

// TestSessionAge: a session ends at its maximum age, with or without connections and output. The server
// warns its connections before.
func TestSessionAge(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--max-session-age", "5s")
	token := newToken(t)
	c := s.session(nil)
	c.start("p", obj{"argv": []string{"sleep", token}})
	short := s.session(obj{"session": obj{"maxAgeMs": 1000}})
	for _, c := range []*conn{short, c} {
		code, text := c.awaitClose()
		if code != 4001 || !strings.Contains(text, "maximum age") {
			t.Errorf("closed with %d %q", code, text)
		}
		if reason, _ := c.notice("session/evicted"); !strings.HasPrefix(reason, "session reached its maximum age of ") {
			t.Errorf("evicted: %q", reason)
		}
		// On a busy machine, the warning may come with less than 0.1 s left.
		if reason, in := c.notice("session/expiring"); c != short && !strings.HasPrefix(reason, "session reached its maximum age of ") || in < 0 || in > 500 {
			t.Errorf("warned: %q, in %d ms", reason, in)
		}
	}
	wantNoKin(t, "after its session's age", token)
	code, text := s.dial().callError("initialize", obj{"clientName": "greedy", "session": obj{"maxAgeMs": 0}})
	if code != -32602 || text != "session.maxAgeMs is 0, this server allows 1 to 5000 (max-session-age)" {
		t.Errorf("a greedy session: %d %s", code, text)
	}
}

// TestEvictForMemory: if the output held for absent clients leaves no room for present clients, the
// server evicts the session that has been absent the longest, and no other.
func TestEvictForMemory(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--evict-for-memory", "--memory-budget", "2500000", "--retention", "1200000")
	present := s.session(nil)
	leave := func(c *conn) {
		c.cutRST()
		eventually(t, "the session is detached", func() bool { return strings.Contains(sessionsOf(present)[c.sessionID], "detached") })
	}
	hoard := func() *conn {
		c := s.session(nil)
		p := c.start("p", obj{"argv": sh("read x; exec yes"), "pipeStdin": true})
		p.write("go\n")
		p.awaitOutput("stdout", "y\n")
		leave(c)
		return c
	}
	poor := s.session(nil) // absent the longest, holds nothing
	poor.start("p", obj{"argv": sh("echo up; exec sleep 1000")}).awaitOutput("stdout", "up\n")
	leave(poor)
	first := hoard()
	observer := s.observe(first.sessionID, nil)
	eventually(t, "the first holds what its program may write", func() bool { return num(describe(t, observer, "p")["retainedBytes"]) >= 1<<20 })
	second := hoard()
	watched := s.observe(second.sessionID, nil)
	code, text := observer.awaitClose()
	if code != 4001 || !strings.Contains(text, "2500000 bytes") {
		t.Errorf("the first was closed with %d %q", code, text)
	}
	if code, _ := s.dial().callError("initialize", obj{"clientName": "late", "resumeSessionId": first.sessionID}); code != -32600 {
		t.Errorf("the first was resumed: %d", code)
	}
	if info := describe(t, watched, "p"); info["state"] != "running" {
		t.Errorf("the second: %s", jsonText(info))
	}
	s.session(obj{"resumeSessionId": second.sessionID})
	s.session(obj{"resumeSessionId": poor.sessionID})
}
