package actors_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A client is not attached after its Attach has failed half-way: the client may open another session over
// the same connection, and anybody may attach to the first session.
func TestAttachFailsHalfWay(t *testing.T) {
	t.Parallel()
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

// A token that no transport has read is refused: the client may think that the token says who it is. The
// refusal does not repeat the token, and the client may try again without.
func TestTokenThatNobodyReads(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{KillGrace: -1})
	for params, code := range map[string]int{
		`{"clientName":"test","token":"hush"}`:                                            protocol.CodeInvalidParams,
		`{"clientInfo":{"name":"test","version":"1"},"token":"hush"}`:                     protocol.CodeInvalidRequest,
		`{"clientName":"test","resumeSessionId":"of somebody else","token":"hush"}`:       protocol.CodeInvalidParams,
		`{"clientName":"test","token":"hush","role":"observer","resumeSessionId":"none"}`: protocol.CodeInvalidParams,
	} {
		p := connect(t, troupe)
		m := p.call("initialize", params)
		if m.Error == nil || m.Error.Code != code || !strings.Contains(m.Error.Message, "token is only for length-prefixed frames") || strings.Contains(fmt.Sprint(m.Error), "hush") {
			t.Errorf("%s: %+v", params, m.Error)
		}
		if again := strings.Replace(params, `"hush"`, `""`, 1); !strings.Contains(params, "resume") {
			if m := p.call("initialize", again); m.Error != nil {
				t.Errorf("%s: %+v", again, m.Error)
			}
		}
	}
}
