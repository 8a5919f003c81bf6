package tests

import (
	"fmt"
	"strings"
	"testing"
)

// TestDetach: after any end of a connection, the session is there for the next connection. The client
// gets the missed output, and no output twice.
func TestDetach(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for name, end := range map[string]func(*conn){
		"reset":                         (*conn).cutRST,
		"end of TCP":                    (*conn).cutFIN,
		"Close frame":                   (*conn).close,
		"a request without its answer":  func(c *conn) { c.request("process/wait", obj{"processId": "p"}); c.cutRST() },
		"output that nobody has read":   func(c *conn) { c.request("process/write", c.process("p").writeParams("unread\n")); c.close() },
		"a protocol violation of ours":  func(c *conn) { c.notify("nonsense", nil); c.awaitEnd() },
		"a frame of which half arrived": func(c *conn) { c.tcp.Write(clientFrame(true, 1, message(1000))[:500]); c.cutFIN() },
	} {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			c := s.session(nil)
			p := c.start("p", obj{"argv": sh("cat; exit 7"), "pipeStdin": true})
			all := ""
			for i := range 3 {
				line := fmt.Sprintf("line %d\n", i)
				p.write(line)
				p.awaitOutput("stdout", line)
			}
			end(c)
			all += p.outputSoFar("stdout")
			resumed := s.session(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"p": p.lastSeq()}})
			again := resumed.process("p")
			again.write("after\n")
			all += again.awaitOutput("stdout", "after\n")
			resumed.call("process/closeStdin", obj{"processId": "p"})
			if code := num(again.awaitExit()["exitCode"]); code != 7 {
				t.Errorf("exit code %d, want 7", code)
			}
			again.awaitClosed()
			want := "line 0\nline 1\nline 2\nafter\n"
			if name == "output that nobody has read" {
				want = "line 0\nline 1\nline 2\nunread\nafter\n"
			}
			if all != want {
				t.Errorf("both connections together got %q, want %q", all, want)
			}
			if again.first != p.lastSeq()+1 {
				t.Errorf("the second connection began with seq %d, the first ended with %d", again.first, p.lastSeq())
			}
		})
	}
}

// TestLeft: session/list says since when a session has no owner, until when it lives, and how the owner has left if it has not closed
// its connection.
func TestLeft(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	looks := s.session(nil)
	for _, test := range []struct {
		name, left string
		leave      func(*conn)
	}{
		{"Close frame", "", (*conn).close},
		{"reset", "the connection was lost", (*conn).cutRST},
		{"end of TCP", "the connection was lost", (*conn).cutFIN},
		{"words", "gone to lunch", func(c *conn) {
			c.call("session/update", obj{"left": "gone to lunch"})
			c.cutRST()
		}},
	} {
		c := s.session(obj{"session": obj{"detachedTtlMs": 600_000}})
		summary := func() obj {
			for _, l := range looks.call("session/list", obj{})["sessions"].([]any) {
				if l := l.(obj); l["sessionId"] == c.sessionID {
					return l
				}
			}
			t.Fatalf("%s: the session is gone", test.name)
			return nil
		}
		attached := func(c *conn) {
			t.Helper()
			if l := summary(); l["left"] != nil || l["detachedAtMs"] != nil || l["endsAtMs"] != nil {
				t.Errorf("%s: with an owner: %s", test.name, jsonText(l))
			}
		}
		attached(c)
		test.leave(c)
		eventually(t, "a session without an owner", func() bool { return summary()["state"] == "detached" })
		l := summary()
		left, _ := l["left"].(string)
		if left != test.left || num(l["endsAtMs"])-num(l["detachedAtMs"]) != 600_000 {
			t.Errorf("%s: %s", test.name, jsonText(l))
		}
		attached(s.session(obj{"resumeSessionId": c.sessionID}))
		if code, text := looks.callError("session/update", obj{"left": strings.Repeat("x", 1025)}); code != -32602 {
			t.Errorf("%d %s", code, text)
		}
	}
}
