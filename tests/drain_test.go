package tests

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/gorilla/websocket"
)

// TestSlowReaderAtTheEnd: a client that reads slowly, but reads, gets all output at the end of the server and of its session, the exit
// code, and then the Close frame, though the kernel has megabytes for the client when the server has nothing more to write. A client
// without the time for that gets a gap in place of the output, the exit code, and a Close frame that says how much is missing.
func TestSlowReaderAtTheEnd(t *testing.T) {
	t.Parallel()
	const size = 3_000_000 // 4 MB as text
	for _, test := range []struct {
		name  string
		close bool     // by session/close
		flags []string // of the server
		rate  int      // bytes a second that the client reads; without time less, so that the output ends long after the program
		code  int      // of the Close frame
	}{
		{"SIGTERM", false, nil, 1_200_000, websocket.CloseGoingAway},
		{"session/close", true, nil, 1_200_000, websocket.CloseNormalClosure},
		{"SIGTERM without time", false, []string{"--drain-timeout", "0"}, 200_000, websocket.CloseGoingAway},
		{"session/close without time", true, []string{"--drain-timeout", "0"}, 200_000, websocket.CloseNormalClosure},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, test.flags...)
			b := firm()
			b.rate = test.rate
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
			got, lost := len(p.output("stdout")), int64(0)
			for _, gap := range p.gaps {
				lost += num(gap["bytes"])
			}
			if int64(got)+lost != size || (lost > 0) != (test.flags != nil) {
				t.Errorf("%d bytes came, and %d were left out, of %d", got, lost, size)
			}
			if !p.closed || num(p.exited["exitCode"]) != 7 {
				t.Errorf("closed %v, exited %v, want 7", p.closed, p.exited)
			}
			if missing := fmt.Sprintf("; %d bytes of output were not sent", lost); code != test.code || strings.Contains(reason, missing) != (lost > 0) {
				t.Errorf("Close %d %q, want %d and %q", code, reason, test.code, missing)
			}
			if test.close && c.takeReply(c.lastID.Load()) == nil {
				t.Error("session/close has no answer")
			}
		})
	}
}
