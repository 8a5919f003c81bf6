package actors_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testbuf"
)

// A host that sends a message without a sender, or a pointer to a message, ends nothing with it, and learns what was wrong.
func TestMistakesOfAHost(t *testing.T) {
	t.Parallel()
	log := &testbuf.Buffer{}
	h := newHost(t, actors.Config{Log: slog.New(slog.NewTextHandler(log, nil)), KillGrace: -1})
	troupe, session := h.troupe, h.attach(t, actors.Attach{}).Session
	process := h.ask(t, session, program("a")).Result.(actors.StartResult).Process.PID
	lives := func() {
		t.Helper()
		if r := h.ask(t, process, actors.DescribeRequest{}); r.Err != nil || r.Result.(protocol.ProcessInfo).State != string(protocol.StateRunning) {
			t.Errorf("the process: %+v, %v", r.Result, r.Err)
		}
	}

	for _, row := range []struct {
		to *actor.PID
		m  any
	}{
		{troupe.PID(), actors.Attach{}},
		{session, actors.Request{Params: actors.SessionInfoRequest{}}},
		{session, actors.Request{Params: protocol.SessionCloseParams{}}},
		{process, actors.Request{Params: actors.DescribeRequest{}}},
		{process, actors.Request{Params: protocol.ProcessTerminateParams{ProcessID: "a"}}},
		{process, actors.Subscribe{Owner: true}},
		{process, actors.Pull{Bytes: 1}},
		{process, actors.Ack{To: 1}},
		{process, actors.Unsubscribe{}},
	} {
		said := fmt.Sprintf("actor=%s message=%T", row.to.Id, row.m)
		before := strings.Count(log.String(), said)
		h.root.Send(row.to, row.m)
		waitFor(t, said, func() bool { return strings.Count(log.String(), said) == before+1 })
	}
	lives()
	if strings.Contains(log.String(), "panic") {
		t.Errorf("a panic: %s", log)
	}

	for to, mistake := range map[*actor.PID]any{troupe.PID(): &actors.Attach{}, session: &actors.Request{Token: 9}, process: &actors.Subscribe{}} {
		h.root.RequestWithCustomSender(to, mistake, h.self)
		if r := take[actors.Reply](t, h.mailbox); r.Err == nil || !strings.Contains(r.Err.Message, "send the value, not a pointer") {
			t.Errorf("%s answers %T with %+v", to.Id, mistake, r)
		}
	}
	lives()
}
