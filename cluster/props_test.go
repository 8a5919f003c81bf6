package cluster_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/cluster"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testrelay"
	"github.com/b6f6fdd7/troupe/transport"
)

// A host runs a program in a session, and follows it.
type host struct {
	sessions *actor.PID
	said     chan any // the id of the session, the output, and *protocol.Error
	out      bytes.Buffer
	session  *actor.PID
}

func (h *host) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		ctx.Request(h.sessions, actors.Attach{})
	case actors.Attached:
		h.said <- m.SessionID
		h.session = m.Session
		ctx.Request(m.Session, actors.Request{Params: protocol.ProcessStartParams{ProcessID: "p", Argv: []string{"seq", "200000"}, Cwd: protocol.FileURI("/"), Env: map[string]string{"PATH": "/usr/bin:/bin"}}})
	case actors.Reply:
		switch r := m.Result.(type) {
		case actors.StartResult:
			actors.Follow(ctx, r.Process, actors.Subscribe{Owner: true})
		default:
			h.said <- m.Err
		}
	case actors.Followed:
		for _, e := range m.Entries {
			if e.Kind == outlog.Output {
				h.out.Write(e.Data)
			}
			if e.Kind == outlog.Closed {
				h.said <- h.out.String()
			}
		}
		ctx.Respond(actors.FollowOn{})
	}
}

// Actors of a host on one node run and follow a program on another as on their own, over cuts of the link.
func TestHostOfAnotherNode(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	address := testrelay.Loopback() + ":7767"
	cuts := 0
	relay := testrelay.New(t, "tcp", address, func(link *testrelay.Link, n int, toClient bool) (int, testrelay.How) {
		if toClient && link.ToClient > 300_000 && cuts < 3 {
			cuts++
			return n / 2, testrelay.RST
		}
		return n, testrelay.Open
	})
	a, b := l.node("a"), l.node("b", func(o *cluster.Options, _ *actors.Config, _ *transport.ServerOptions) {
		o.Listen, o.Address = address, relay.Addr()
	})
	a.knows(2)
	var want bytes.Buffer
	for i := range 200_000 {
		fmt.Fprintln(&want, i+1)
	}
	for _, on := range []*node{a, b} {
		sessions := a.system.Root.Spawn(a.Props(cluster.Host{Wish: cluster.Wish{Node: on.ID()[:1]}}))
		h := &host{sessions: sessions, said: make(chan any, 10)}
		pid := a.system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return h }))
		if id := comes(t, "an answer", h.said).(string); id[:len(on.ID())] != on.ID() {
			t.Errorf("the session is %s, and not of %s", id, on.ID())
		}
		if got := comes(t, "an answer", h.said).(string); got != want.String() {
			t.Errorf("on %s: %d bytes, want %d", on.ID(), len(got), want.Len())
		}
		for _, p := range []*actor.PID{pid, sessions} {
			if err := a.system.Root.StopFuture(p).Wait(); err != nil {
				t.Error(err)
			}
		}
	}
	relay.Close()
	if cuts == 0 {
		t.Error("the link was never cut")
	}
	sessions := a.system.Root.Spawn(a.Props(cluster.Host{Wish: cluster.Wish{Node: "nowhere"}}))
	h := &host{sessions: sessions, said: make(chan any, 10)}
	pid := a.system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return h }))
	if err, _ := comes(t, "an answer", h.said).(*protocol.Error); err == nil {
		t.Error("a session on a node that does not exist")
	}
	for _, p := range []*actor.PID{pid, sessions} {
		a.system.Root.StopFuture(p).Wait()
	}
}
