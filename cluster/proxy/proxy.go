// Package proxy lets the actors of a host use sessions of other nodes: the actor of New behaves as the actor of actors.Troupe.PID does. A
// host sends actors.Attach and gets actors.Attached with PIDs. Behind these PIDs is a connection to the node of the session, and
// no message shows the connection: actors.Follow works on a process of another node.
//
// Over a cut the proxy connects again, and the session goes on: requests without an answer are repeated and done once, and viewers get every
// entry once and in order. When the session is gone, or cannot be reached for Options.ReconnectFor, the host gets actors.Evicted, and the
// PIDs of the session and its processes stop. When a host stops, it is detached.
//
// # Memory
//
// A process of which nobody pulls costs the proxy at most Options.Buffer. The node sends an owner no more than the retention of the process
// without an Ack, and then the program waits. Entries that the buffer has dropped are read again. A session sends the rest of its output at its end:
// if the rest does not fit into the buffer, the last Delivery to a slow viewer has a Gap in place of the oldest entries.
//
// # Differences from a troupe
//
//   - Attach: From and Identity must be zero. Who the host is for the other node, Options.Dial says. OpenToken holds as long as the
//     proxy: a restart of the proxy detaches all hosts.
//   - Attached: Starting and Removed are empty. An Attach of the same actor for the same session is answered with another Attached.
//   - Request: Guest must be "". SummaryRequest and SessionListRequest are not supported. At most 7/8 of the node's limit for a connection
//     (Limits.MaxPendingRequests) wait for an answer at a time. An empty StartToken or RequestID becomes a random token.
//   - Subscribe: Acked is not supported. Ack: the entries from From are acknowledged only with those before.
//   - ProcessStarting comes together with ProcessAdded. An older node does not tell of processes that others start or that are forgotten: the proxy
//     asks each Options.LookEvery. The Reason of ProcessRemoved may be the proxy's.
//   - Resubscribe is never sent. A Delivery with Cut may have output. AtMs of a live event is when the proxy got the event.
//
// A request that is not supported is answered with the kind protocol.KindUnsupported.
package proxy

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// Options are the options of New.
type Options struct {
	// Dial opens a connection to the node of a session, or for "" to a node for a new session. The proxy calls Dial again after
	// each cut. Dial runs on a goroutine, and returns soon after the end of ctx.
	Dial func(ctx context.Context, session string) (transport.Conn, error)

	// Log gets cuts and resumes. Nil: nothing is logged.
	Log *slog.Logger

	// Buffer is how much output of a process the proxy holds for its viewers, in bytes. Each entry counts 128 bytes beside its
	// output. Zero: 1 MiB, as the default retention of a process.
	Buffer int

	// ReconnectFor is how long the proxy tries to reach the session after a cut. Zero: 45 s.
	ReconnectFor time.Duration

	// DialFor is how long Attach may take. Zero: 10 s.
	DialFor time.Duration

	// LookEvery is how often the proxy asks for the processes of a session, besides when the node tells of a change. Zero: 30 s.
	LookEvery time.Duration
}

// New returns the Props of a proxy.
func New(o Options) *actor.Props {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.Buffer = cmp.Or(o.Buffer, 1<<20)
	o.DialFor = cmp.Or(o.DialFor, 10*time.Second)
	o.LookEvery = cmp.Or(o.LookEvery, 30*time.Second)
	return actor.PropsFromProducer(func() actor.Actor { return &proxy{o: &o} }, atOnce)
}

// atOnce has a child stop when the child fails: its watchers hear of the stop, and attach again.
var atOnce = actor.WithSupervisor(actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.StopDirective }))

// proxy spawns a session for each Attach.
type proxy struct {
	o *Options

	// Owned by Receive.
	sessions []attached
	letters  func() // ends the subscription to dead letters
}

// attached is a session with its host.
type attached struct {
	session, host *actor.PID
	token, id     string // the OpenToken, and the id of the session; "": none, or not known yet
}

// Messages to the proxy.
type (
	// opened is from a session: its id is known.
	opened struct{ id string }
)

func (p *proxy) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		p.letters = answerDead(ctx.ActorSystem(), ctx.Self())
	case *actor.Stopping, *actor.Restarting:
		p.letters()
	case message.Attach:
		p.attach(ctx, m)
	case opened:
		if i := p.index(ctx.Sender()); i >= 0 {
			p.sessions[i].id = m.id
		}
	case *actor.Terminated:
		if i := p.index(m.Who); i >= 0 {
			p.sessions = slices.Delete(p.sessions, i, i+1)
		}
	case message.Request:
		answer(ctx, m.Failed(unsupported("a proxy does not answer %T: send it to a session or to a process", m.Params)))
	}
}

func (p *proxy) index(session *actor.PID) int {
	return slices.IndexFunc(p.sessions, func(a attached) bool { return a.session.Equal(session) })
}

func (p *proxy) attach(ctx actor.Context, m message.Attach) {
	host := ctx.Sender()
	if host == nil {
		p.o.Log.Warn("an Attach without a sender was dropped: send it with Request")
		return
	}
	if err := cmp.Or(m.Wrong(), elsewhere(ctx, m)); err != nil {
		ctx.Respond(m.Failed(err))
		return
	}
	for _, a := range p.sessions {
		if a.host.Equal(host) && (m.SessionID != "" && a.id == m.SessionID || m.SessionID == "" && m.OpenToken != "" && a.token == m.OpenToken) {
			ctx.Forward(a.session)
			return
		}
	}
	pid, err := ctx.SpawnNamed(actor.PropsFromProducer(func() actor.Actor { return newSession(p.o, host, m) }, atOnce), message.NewName("s-"))
	if err != nil {
		ctx.Respond(m.Failed(protocol.Errorf(protocol.KindInternal, protocol.CodeInternal, "%v", err)))
		return
	}
	p.sessions = append(p.sessions, attached{session: pid, host: host, token: m.OpenToken, id: m.SessionID})
}

// elsewhere refuses an Attach that no other node could answer.
func elsewhere(ctx actor.Context, m message.Attach) *protocol.Error {
	switch {
	case m.From != "" || m.Identity.Name != "":
		return unsupported("Attach has From or Identity, and the other node knows who asks by its connection: leave both out")
	case m.SessionID == "" && m.Role != "" && m.Role != protocol.RoleOwner:
		return protocol.WrongParams("the role is %s, and no SessionID names a session: only an owner opens one", m.Role)
	}
	return message.FromFuture(ctx, ctx.Sender())
}

// unsupported refuses a request for something within a node only.
func unsupported(format string, a ...any) *protocol.Error {
	return protocol.Errorf(protocol.KindUnsupported, protocol.CodeInvalidRequest, format, a...)
}

// answer answers the sender, if there is one.
func answer(ctx actor.Context, m any) {
	if ctx.Sender() != nil {
		ctx.Respond(m)
	}
}

// answerDead answers requests to stopped sessions and processes under a proxy, until end is called.
func answerDead(system *actor.ActorSystem, proxy *actor.PID) (end func()) {
	under := proxy.Id + "/"
	letters := system.EventStream.Subscribe(func(event any) {
		e, ok := event.(*actor.DeadLetterEvent)
		if !ok || e.Sender == nil || !strings.HasPrefix(e.PID.GetId(), under) {
			return
		}
		if m, ok := e.Message.(message.Request); ok {
			system.Root.Send(e.Sender, m.Failed(over(e.PID, m.Params)))
		}
	})
	return func() { system.EventStream.Unsubscribe(letters) }
}

// over is the answer of a stopped session, or of a stopped process.
func over(who *actor.PID, params any) *protocol.Error {
	if strings.HasPrefix(message.LastName(who), "p-") {
		id := ""
		if about, ok := params.(protocol.AboutProcess); ok {
			id = about.Process()
		}
		return protocol.Errorf(protocol.KindUnknownProcess, protocol.CodeInvalidRequest, "unknown process id %s", id)
	}
	return protocol.Errorf(protocol.KindEnded, protocol.CodeInvalidRequest, "the session has ended, or this host is not attached any more")
}
