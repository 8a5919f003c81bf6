package actors_test

import (
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/transport"
)

// leave opens a session, with a program if argv is given, and leaves the session for a day.
func leave(t *testing.T, troupe *actors.Troupe, argv ...string) (sessionID string) {
	t.Helper()
	s := newStiff(t, troupe)
	sessionID = s.open(`,"session":{"detachedTtlMs":86400000}`)
	if len(argv) > 0 {
		s.start("p", "", argv...)
	}
	s.conn.Close(transport.CloseNormal, "")
	waitFor(t, "the session to be without an owner", func() bool {
		o := newStiff(t, troupe)
		defer o.conn.Close(transport.CloseNormal, "")
		o.open(`,"role":"observer","resumeSessionId":"` + sessionID + `"`)
		o.send(`{"id":"info","method":"session/info"}`)
		return strings.Contains(string(o.answer(`"info"`).Result), `"attached":false`)
	})
	return sessionID
}

// exists reports whether a session can be resumed. The session stays without an owner.
func exists(t *testing.T, troupe *actors.Troupe, sessionID string) bool {
	t.Helper()
	o := newStiff(t, troupe)
	defer o.conn.Close(transport.CloseNormal, "")
	o.send(`{"id":1,"method":"initialize","params":{"clientName":"c","role":"observer","resumeSessionId":%q}}`, sessionID)
	return o.read().Error == nil
}

// Only a session without an owner and without a process makes room for a new session.
func TestLeftSessionsMakeRoom(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{MaxSessions: 4})
	attached := newStiff(t, troupe)
	kept := []string{attached.open(""), leave(t, troupe, "sleep", "1000")}
	first, second := leave(t, troupe), leave(t, troupe)
	for range 20 { // each takes the place of an earlier session
		third := leave(t, troupe)
		if exists(t, troupe, first) || !exists(t, troupe, second) {
			t.Fatal("the wrong session has made room")
		}
		first, second = second, third
	}
	for _, id := range kept {
		if !exists(t, troupe, id) {
			t.Errorf("session %s was evicted, which has an owner or a process", id)
		}
	}
	owners := []*stiff{newStiff(t, troupe), newStiff(t, troupe)}
	for _, o := range owners {
		o.open("")
	}
	refused := newStiff(t, troupe)
	refused.send(`{"id":1,"method":"initialize","params":{"clientName":"c"}}`)
	if m := refused.read(); m.Error == nil || !strings.Contains(m.Error.Message, "max-sessions is 4 here, and the server has 4 sessions") {
		t.Errorf("a fifth session: %+v", m)
	}
	// When the last program ends, a session without an owner makes room.
	owners[0].start("p", `,"pipeStdin":true`, "cat")
	owners[0].conn.Close(transport.CloseNormal, "")
	waitFor(t, "the session to make room", func() bool {
		refused.send(`{"id":2,"method":"initialize","params":{"clientName":"c"}}`)
		m := refused.read()
		if m.Error == nil {
			return true
		}
		owner := newStiff(t, troupe)
		defer owner.conn.Close(transport.CloseNormal, "")
		owner.send(`{"id":1,"method":"initialize","params":{"clientName":"c","resumeSessionId":%q}}`, kept[1])
		if owner.read().Error == nil {
			owner.send(`{"method":"initialized"}`)
			owner.send(`{"id":"end","method":"session/close"}`)
			owner.answer(`"end"`)
		}
		return false
	})
}

// Each address has a limit, and only sessions of the same address make room.
func TestSessionsOfOneAddress(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{MaxSessions: 10, MaxSessionsEach: 2})
	one := newStiff(t, troupe)
	one.open("")
	first := leave(t, troupe)
	second := leave(t, troupe) // all are of "pipe"
	if exists(t, troupe, first) || !exists(t, troupe, second) {
		t.Error("the wrong session has made room")
	}
	two := newStiff(t, troupe)
	two.open("")
	refused := newStiff(t, troupe)
	refused.send(`{"id":1,"method":"initialize","params":{"clientName":"c"}}`)
	if m := refused.read(); m.Error == nil || !strings.Contains(m.Error.Message, "max-sessions-each is 2 here, and pipe has as many sessions") {
		t.Errorf("a third session: %+v", m)
	}
}
