package actors_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	messages "github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

// sessions returns how many sessions the troupe has.
func (h *host) sessions(t *testing.T) int {
	t.Helper()
	r := h.ask(t, h.troupe.PID(), messages.SessionListRequest{})
	list, _ := r.Result.([]*actor.PID)
	return len(list)
}

// A future is gone with the answer, so it becomes neither owner nor viewer.
func TestFutureIsNotAttached(t *testing.T) {
	t.Parallel()
	h := newHost(t, actors.Config{KillGrace: -1})
	is := h.attach(t, actors.Attach{})
	process := h.ask(t, is.Session, program("a")).Result.(actors.StartResult).Process.PID
	want := []string{"a future", "send the message with Request from an actor"}
	for _, m := range []actors.Attach{{}, {SessionID: is.SessionID, Takeover: true}, {SessionID: is.SessionID, Role: protocol.RoleObserver}} {
		answer, err := h.root.RequestFuture(h.troupe.PID(), m, limit).Result()
		if reply, ok := answer.(actors.Reply); err == nil && ok {
			wantRefused(t, "an Attach of a future", reply, want)
		} else {
			t.Errorf("%+v: %T, %v", m, answer, err)
		}
	}
	answer, err := h.root.RequestFuture(process, actors.Subscribe{Owner: true}, limit).Result()
	if refused, ok := answer.(actors.Refused); err == nil && ok {
		wantRefused(t, "a Subscribe of a future", actors.Reply{Err: refused.Err}, want)
	} else {
		t.Errorf("Subscribe: %T, %v", answer, err)
	}
	if n := h.sessions(t); n != 1 {
		t.Errorf("%d sessions", n)
	}
	if r := h.ask(t, is.Session, actors.SessionInfoRequest{}); r.Err != nil || r.Result.(protocol.SessionInfoResult).Role != protocol.RoleOwner {
		t.Errorf("the owner: %+v, %v", r.Result, r.Err)
	}
	// A future may ask for anything that ends with the answer.
	answer, err = h.root.RequestFuture(process, actors.Request{Params: actors.DescribeRequest{}}, limit).Result()
	if reply, ok := answer.(actors.Reply); err != nil || !ok || reply.Err != nil {
		t.Errorf("DescribeRequest: %+v, %v", answer, err)
	}
}

// The session of an owner that stopped before its Attach came is detached, and ends.
func TestDeadOwnerIsDetached(t *testing.T) {
	t.Parallel()
	h := newHost(t, actors.Config{KillGrace: -1, DetachedTTL: time.Millisecond})
	dead := h.root.Spawn(actor.PropsFromFunc(func(actor.Context) {}))
	stopAndWait(h.root, dead)
	h.root.RequestWithCustomSender(h.troupe.PID(), actors.Attach{}, dead)
	waitFor(t, "the session to end", func() bool { return h.sessions(t) == 0 })
}

// An owner may fail at any message, and its next instance goes on: in the same session, and without a hole or a double.
func TestRestartedOwnerKeepsItsSession(t *testing.T) {
	t.Parallel()
	h := newHost(t, actors.Config{KillGrace: -1})
	for at := 0; ; at++ {
		handled, done := 0, make(chan string, 1)
		fails := func(m any) {
			switch m.(type) {
			case *actor.Stopping, *actor.Stopped:
				return
			}
			if len(done) > 0 {
				return // the test stops the owner, and protoactor never ends an actor that fails now
			}
			if handled++; handled == at+1 {
				panic("injected")
			}
		}
		owner := h.root.Spawn(keeping(h.troupe, fails, done))
		waitFor(t, fmt.Sprintf("the end after a failure at message %d", at), func() bool { return len(done) > 0 })
		if t.Failed() {
			return
		}
		if n := h.sessions(t); n != at+1 {
			t.Fatalf("after a failure at message %d there are %d sessions more", at, n-at)
		}
		stopAndWait(h.root, owner)
		if said := <-done; said != "1\n2\n3\n" {
			t.Errorf("after a failure at message %d: %q", at, said)
		}
		if handled <= at {
			break // each message was failed at
		}
	}
}

// An Attach with the OpenToken of a session attaches to it as long as it lives. Another sender, or another token, opens another session.
func TestOpenToken(t *testing.T) {
	t.Parallel()
	h := newHost(t, actors.Config{KillGrace: -1})
	first := h.attach(t, actors.Attach{Token: 1, OpenToken: "t"})
	if again := h.attach(t, actors.Attach{Token: 2, OpenToken: "t"}); again.SessionID != first.SessionID || again.Token != 2 {
		t.Errorf("again: %+v, want session %s", again, first.SessionID)
	}
	if other := h.attach(t, actors.Attach{OpenToken: "u"}); other.SessionID == first.SessionID {
		t.Error("another token opens the same session")
	}
	if plain := h.attach(t, actors.Attach{}); plain.SessionID == first.SessionID {
		t.Error("without a token, the same session is opened")
	}
	stranger := h.other(t)
	if other := stranger.attach(t, actors.Attach{OpenToken: "t"}); other.SessionID == first.SessionID {
		t.Error("another sender opens the same session")
	}
	for i := range 20 { // the repetition comes before the session is there
		for token := range uint64(2) {
			h.root.RequestWithCustomSender(h.troupe.PID(), actors.Attach{Token: token, OpenToken: fmt.Sprint(i)}, stranger.self)
		}
		one, two := take[actors.Attached](t, stranger.mailbox), take[actors.Attached](t, stranger.mailbox)
		if one.SessionID != two.SessionID || one.Token+two.Token != 1 {
			t.Fatalf("%+v and %+v", one, two)
		}
		stranger.ask(t, one.Session, protocol.SessionCloseParams{})
		waitFor(t, "the session to end", func() bool { return h.sessions(t) == 4 })
	}
	if n := h.sessions(t); n != 4 {
		t.Errorf("%d sessions", n)
	}
	if r := h.ask(t, first.Session, protocol.SessionCloseParams{}); r.Err != nil {
		t.Fatal(r.Err)
	}
	waitFor(t, "the troupe to forget the session", func() bool { return h.sessions(t) == 3 })
	if next := h.attach(t, actors.Attach{OpenToken: "t"}); next.SessionID == first.SessionID {
		t.Error("the session has ended, and the token opens no other")
	}
}

// An actor that takes its session back, after another owner had it, may use it again.
func TestOwnerComesBack(t *testing.T) {
	t.Parallel()
	h := newHost(t, actors.Config{KillGrace: -1})
	is := h.attach(t, actors.Attach{})
	process := h.ask(t, is.Session, program("a")).Result.(actors.StartResult).Process.PID
	other := h.other(t)
	other.attach(t, actors.Attach{SessionID: is.SessionID, Takeover: true})
	take[actors.Evicted](t, h.mailbox)
	h.attach(t, actors.Attach{SessionID: is.SessionID, Takeover: true})
	take[actors.Evicted](t, other.mailbox)
	if r := h.ask(t, process, protocol.ProcessWriteParams{WriteID: "w", Chunk: []byte("hello\n")}); r.Err != nil {
		t.Error(r.Err)
	}
	h.root.RequestWithCustomSender(process, actors.Subscribe{Owner: true, Pull: 1 << 10}, h.self)
	if d := take[actors.Delivery](t, h.mailbox); string(d.Entries[0].Data) != "hello\n" {
		t.Errorf("%+v", d)
	}
	if r := h.ask(t, is.Session, actors.SessionInfoRequest{}); r.Err != nil || r.Result.(protocol.SessionInfoResult).Role != protocol.RoleOwner {
		t.Errorf("%+v, %v", r.Result, r.Err)
	}
}
