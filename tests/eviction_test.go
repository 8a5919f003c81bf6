package tests

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// notice returns the reason of the notification with this method and without a process, or "".
func (c *conn) notice(method string) (reason string, inMs int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.other {
		if m["method"] == method {
			params := m["params"].(obj)
			reason, _ = params["reason"].(string)
			if params["inMs"] != nil {
				inMs = num(params["inMs"])
			}
		}
	}
	return reason, inMs
}

// awaitNoSession waits for the end of a session whose processes have the token. A request about the
// session would keep the session from being idle.
func (s *server) awaitNoSession(t *testing.T, id, token string) {
	t.Helper()
	awaitNoKin(t, token)
	eventually(t, "the session is unknown", func() bool {
		c := s.dial()
		defer c.close()
		answer := c.reply(c.request("initialize", obj{"clientName": "late", "resumeSessionId": id, "role": "observer"}))
		if e, failed := answer["error"].(obj); failed && e["message"] == "unknown session id "+id {
			return true
		}
		// An observer starts the idle time of a session anew: leave the session alone for longer than that.
		c.close()
		time.Sleep(3 * time.Second)
		return false
	})
}

// TestIdleSession: a session without connection and output ends. A session with output stays.
func TestIdleSession(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--detached-ttl", "-1s", "--idle-timeout", "1400ms") // many times the tick
	tokens := []string{newToken(t), newToken(t)}
	idle := s.session(nil)
	idle.start("p", obj{"argv": []string{"sleep", tokens[0]}})
	gate := filepath.Join(t.TempDir(), "gate")
	busy := s.session(nil)
	busy.start("p", obj{"argv": append(sh(`while [ ! -e $0 ]; do echo tick; sleep 0.05; done; exec sleep $1`), gate, tokens[1]), "retention": obj{"onFull": "evict"}})
	for _, c := range []*conn{idle, busy} {
		c.cutRST()
	}
	s.awaitNoSession(t, idle.sessionID, tokens[0])
	// The other session was as old at this time.
	again := s.session(obj{"resumeSessionId": busy.sessionID})
	if info := again.call("session/info", obj{}); num(info["idleMs"]) != 1400 || num(info["detachedTtlMs"]) != 0 {
		t.Errorf("session/info: %s", jsonText(info))
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	again.cutRST()
	s.awaitNoSession(t, busy.sessionID, tokens[1])
}

// TestResumeOfTheForgotten: if a process named in resumeFrom is forgotten between initialize and
// initialized, the client still hears of its end and of the missed output.
func TestResumeOfTheForgotten(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--closed-retention", "300ms")
	c := s.session(nil)
	gate := filepath.Join(t.TempDir(), "gate")
	p := c.start("p", obj{"argv": append(sh(`echo one; while [ ! -e $0 ]; do sleep 0.01; done; echo two`), gate)})
	p.awaitOutput("stdout", "one\n")
	o := s.dial()
	o.call("initialize", obj{"clientName": "o", "resumeSessionId": c.sessionID, "role": "observer", "resumeFrom": obj{"p": 1}, "capabilities": obj{"gap": true}})
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.awaitClosed()
	eventually(t, "it is forgotten", func() bool { return len(c.call("process/list", obj{})["processes"].([]any)) == 0 })
	o.notify("initialized", obj{})
	o.awaitFact("the end of p", func() bool { return o.proc("p").closed })
	if q := o.process("p"); len(q.gaps) != 1 || num(q.gaps[0]["fromSeq"]) != 2 {
		t.Errorf("gaps %s", jsonText(q.gaps))
	}
}
