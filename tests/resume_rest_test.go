package tests

import (
	"maps"
	"strings"
	"syscall"
	"testing"
)

// TestResumeFromNamesSome: an owner that resumes with resumeFrom misses no output of the processes that resumeFrom does not
// name: their output comes from the position that the owner has acknowledged.
func TestResumeFromNamesSome(t *testing.T) {
	t.Parallel()
	// Each program writes "before", then as many lines as its retention can hold, then "after".
	program := func(t *testing.T) (obj, func()) {
		return behindGate(t, obj{"argv": []string{"/bin/sh", "-c", "seq 1 2000; echo after; exec cat"}, "pipeStdin": true}, "echo before")
	}
	for _, test := range []struct {
		name   string
		first  obj // params of the first connection
		second obj // further params of the second connection
		from   string
	}{
		{name: "acknowledged by Pongs", from: "1\n"},
		{name: "acknowledged by session/ack", first: obj{"capabilities": obj{"ack": true}}, second: obj{"capabilities": obj{"ack": true}}, from: "before\n"},
		{name: "named none", second: obj{"resumeFrom": obj{}}, from: "1\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := startServer(t)
			c := s.session(test.first)
			witness := s.observe(c.sessionID, nil)
			named, openNamed := program(t)
			other, openOther := program(t)
			c.start("named", named).awaitOutput("stdout", "before\n")
			c.start("other", other).awaitOutput("stdout", "before\n")
			if test.first == nil {
				eventually(t, "the output is acknowledged", func() bool {
					return num(witness.call("process/info", obj{"processId": "other"})["unackedBytes"]) == 0
				})
			}
			c.cutRST()
			eventually(t, "the owner is away", func() bool { return witness.call("session/info", obj{})["attached"] == false })
			openNamed()
			openOther()
			witness.process("named").awaitOutput("stdout", "after\n")
			witness.process("other").awaitOutput("stdout", "after\n")

			params := obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"named": 1}}
			maps.Copy(params, test.second)
			again := s.session(params)
			got := again.process("other").awaitOutput("stdout", "after\n")
			if !strings.HasPrefix(got, test.from) || strings.Count(got, "\n") < 2001 {
				t.Errorf("the process that resumeFrom does not name began with %.20q, want %q", got, test.from)
			}
			if named := again.process("named").lastSeq(); named == 0 && test.second["resumeFrom"] == nil {
				again.process("named").awaitOutput("stdout", "after\n")
			}
			again.call("process/signal", obj{"processId": "other", "signal": "kill"})
			if exited := again.process("other").awaitExit(); exited["signal"] != "SIGKILL" {
				t.Errorf("%s, want %v", jsonText(exited), syscall.SIGKILL)
			}
		})
	}
}
