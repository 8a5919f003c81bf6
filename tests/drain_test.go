package tests

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/gorilla/websocket"
)

// TestSlowReaderAtTheEnd: a client that reads slowly, but reads, gets all output at the end of the server and of its session, the exit
// code, and then the Close frame, though the kernel has megabytes for the client when the server has nothing more to write.
func TestSlowReaderAtTheEnd(t *testing.T) {
	t.Parallel()
	const size = 3_000_000 // 4 MB as text
	for _, test := range []struct {
		name  string
		close bool // by session/close
		code  int  // of the Close frame
	}{
		{"SIGTERM", false, websocket.CloseGoingAway},
		{"session/close", true, websocket.CloseNormalClosure},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			b := firm()
			b.rate = 2_400_000
			slow := newResumer(t, s, true)
			slow.params = obj{"capabilities": obj{"gap": true}}
			c := slow.connect(b)
			p := c.start("p", obj{
				"argv":      sh(fmt.Sprintf("exec 2>/dev/null; trap 'exit 7' TERM; head -c %d /dev/zero; while :; do sleep 0.01; done", size)),
				"retention": obj{"bytes": 4_000_000},
			})
			other := s.observe(slow.sessionID, nil)
			eventually(t, "the program has written all", func() bool {
				return num(other.call("process/info", obj{"processId": "p"})["outputBytes"]) == size
			})
			if test.close {
				c.request("session/close", obj{})
			} else {
				s.signal(syscall.SIGTERM)
			}
			code, reason := c.awaitClose()
			if got := len(p.output("stdout")); got != size || len(p.gaps) > 0 {
				t.Errorf("%d bytes came of %d, and %d gaps", got, size, len(p.gaps))
			}
			if !p.closed || num(p.exited["exitCode"]) != 7 {
				t.Errorf("closed %v, exited %v, want 7", p.closed, p.exited)
			}
			if code != test.code || strings.Contains(reason, "were not sent") {
				t.Errorf("Close %d %q, want %d", code, reason, test.code)
			}
			if test.close && c.takeReply(c.lastID.Load()) == nil {
				t.Error("session/close has no answer")
			}
		})
	}
}
