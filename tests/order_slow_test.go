//go:build slow

package tests

import (
	"errors"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// TestManyWritesWithoutReading: a client sends more than the server takes, and reads no answers. The
// server finally serves the client or closes the connection; after a resume the client has lost
// nothing.
func TestManyWritesWithoutReading(t *testing.T) {
	t.Parallel()
	rnd := random(t)
	r := newResumer(t, startServer(t), true)
	b := firm()
	c := r.connect(b)
	r.start(c, "p", obj{"argv": []string{"/bin/cat"}, "pipeStdin": true})
	in := &input{id: "p", size: 5 << 20, piece: 2 << 10, flight: 5000}
	b.hold()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		in.send(c, rnd)
	}()
	for before := int64(-1); ; time.Sleep(300 * time.Millisecond) { // until all is sent, or nothing moves
		up := b.up.Load()
		if up == before {
			break
		}
		before = up
	}
	b.release()
	<-sent
	var err error
	for err == nil && len(in.pending) > 0 {
		err = in.answered(c)
	}
	if err != nil {
		end, ok := errors.AsType[*websocket.CloseError](c.awaitEnd())
		if !ok || end.Code != websocket.ClosePolicyViolation {
			t.Fatalf("the connection ended with %v, want a Close frame with code 1008", c.end)
		}
		t.Logf("closed with %d writes unanswered: %s", len(in.pending), end.Text)
		r.absorb(c)
		c = r.connect(firm())
		in.flight = 64
		if err := in.run(c, rnd); err != nil {
			t.Fatal(err)
		}
	}
	c.call("process/closeStdin", obj{"processId": "p"})
	r.finish(c, "p stdout")
}
