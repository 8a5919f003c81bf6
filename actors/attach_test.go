package actors_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A client is not attached after its Attach has failed half-way: the client may open another session over
// the same connection, and anybody may attach to the first session.
func TestAttachFailsHalfWay(t *testing.T) {
	var armed atomic.Bool
	troupe := start(t, actors.WithFaults(actors.Config{KillGrace: -1}, func(self *actor.PID, m any) {
		if p, ok := m.(actors.Place); ok && p == "the session has an owner, who was not told" && armed.CompareAndSwap(true, false) {
			panic("injected")
		}
	}, nil))
	first := connect(t, troupe)
	id := first.open("")
	first.close()
	resume := func(p *peer) message {
		for {
			m := p.call("initialize", fmt.Sprintf(`{"clientName":"test","resumeSessionId":%q}`, id))
			if m.Error == nil || m.Error.Code != protocol.CodeAlreadyAttached {
				return m
			}
		}
	}
	armed.Store(true)
	second := connect(t, troupe)
	if m := resume(second); m.Error == nil || m.Error.Code != protocol.CodeInternal {
		t.Fatalf("with a failure half-way: %+v", m.Error)
	}
	if other := second.open(""); other == id {
		t.Fatal("a new session has the id of another")
	}
	if m := resume(connect(t, troupe)); m.Error != nil {
		t.Errorf("another client resumes the session: %+v", *m.Error)
	}
}
