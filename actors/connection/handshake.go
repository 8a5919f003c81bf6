package connection

import (
	"cmp"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/connection/greeting"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/internal/tracing"
	"github.com/b6f6fdd7/troupe/protocol"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// attachment is the session of the client.
type attachment struct {
	arriving      *arriving       // nil except in the stage attaching
	removedBefore []removedBefore // told after initialized
	session       *actor.PID
	sessionID     string
	role          protocol.Role // "" until attached
	guest         string        // the identity of a client with the token of a share; "": another client
	acks          bool          // the client acknowledges by session/ack
}

// arriving is a client that waits for its session.
type arriving struct {
	greeting.Greeting
	in   inbound    // initialize, without its params
	held []inbound  // what has come since: bounded by the admission
	span trace.Span // of a resume; nil: nobody traces, or the client opens a session
}

// traceResume begins the span of a client that comes back to a session.
func (c *connection) traceResume(t *protocol.TraceContext, session string) trace.Span {
	if c.env.Tracer == nil || session == "" {
		return nil
	}
	_, span := c.env.Tracer.Start(tracing.Under(t), "resume", trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attribute.String("troupe.session", session)))
	return span
}

// resumed ends the span of a resume: the client has a role in the session, or err is why not.
func (a *arriving) resumed(role protocol.Role, err *protocol.Error) {
	if a.span == nil {
		return
	}
	if err != nil {
		a.span.SetStatus(codes.Error, err.Message)
	} else {
		a.span.SetAttributes(attribute.String("troupe.role", string(role)))
	}
	a.span.End()
	a.span = nil
}

// removedBefore is a process that was removed before the client attached. The client has read it up to the seq after.
type removedBefore struct {
	message.ProcessRemoved
	after uint64
}

// initialize asks for a session.
func (c *connection) initialize(ctx actor.Context, in inbound, g greeting.Greeting) {
	if c.stage != opened {
		err := protocol.Errorf(protocol.KindOrder, protocol.CodeInvalidRequest, "initialize may only be sent once per connection")
		if in.wire == dialect {
			err = c.table.dialect.Again()
		}
		c.fail(in, err)
		return
	}
	if err := g.Check(&c.about, c.table.dialect); err != nil {
		c.fail(in, err)
		return
	}
	if g.Placement != nil && c.env.Cluster == nil && g.ResumeSessionID == nil {
		c.fail(in, protocol.WrongParams("placement is for a cluster, and this server is alone: leave placement out"))
		return
	}
	m := message.Attach{Role: g.Role, Takeover: g.Takeover, Options: g.Session, From: c.ownerKey(), Identity: c.about.Identity}
	if g.ResumeSessionID != nil {
		if m.SessionID = *g.ResumeSessionID; m.SessionID == "" {
			c.fail(in, wireerr.UnknownSession(""))
			return
		}
	}
	if why := c.about.OnlyResumes; why != "" && m.SessionID == "" && c.guest == "" {
		c.admit.release(in.weight)
		c.closeFor(ctx, protocol.CloseTryLater, why)
		return
	}
	c.token++
	m.Token = c.token
	g.Token = "" // the transport has checked the token
	in.params = nil
	c.stage, c.arriving = attaching, &arriving{in: in, Greeting: g, span: c.traceResume(in.trace, m.SessionID)}
	ctx.Request(c.troupe, m)
	env.After(ctx, attachTime, attachDue{c.token})
}

// ownerKey names the owner of the sessions opened over the connection. Sessions are counted by owner.
// Without authentication the owner is the remote address.
func (c *connection) ownerKey() string {
	return cmp.Or(c.about.Identity.Name, c.about.Peer, c.conn.RemoteAddr())
}

func (c *connection) attachFailed(ctx actor.Context, err *protocol.Error) {
	a := c.arriving
	c.recordNotAttached(a.Greeting, err)
	a.resumed("", err)
	c.stage, c.arriving = opened, nil
	c.fail(a.in, err)
	c.again(ctx, a.held)
}

// attachDue gives up on a session without an answer for attachTime.
func (c *connection) attachDue(ctx actor.Context, m attachDue) {
	if c.stage == attaching && m.token == c.token {
		c.attachFailed(ctx, protocol.Errorf(protocol.KindBusy, protocol.CodeInternal, "the session did not answer within %v, try again", attachTime))
	}
}

// again handles messages that were held back.
func (c *connection) again(ctx actor.Context, held []inbound) {
	for _, in := range held {
		c.inbound(ctx, in)
	}
	c.mayClose(ctx)
}

// attached takes the session, and answers initialize.
func (c *connection) attached(ctx actor.Context, m message.Attached) {
	if c.stage != attaching || m.Token != c.token {
		// Too late: the client was told of a failure. To detach from the session, the
		// connection has to end.
		c.closeFor(ctx, protocol.CloseInternalError, "attached too late, resume again")
		return
	}
	a := c.arriving
	c.stage, c.arriving = attached, nil
	a.resumed(m.Role, nil)
	if socket, ok := c.conn.(message.Socket); ok {
		socket.Admit()
	}
	c.limit(0)
	c.session, c.sessionID, c.role = m.Session, m.SessionID, m.Role
	c.acks, c.writer.caps = a.Capabilities.Ack, a.Capabilities
	c.env.Watch(ctx, m.Session)
	result := protocol.InitializeResult{
		SessionID:       m.SessionID,
		EnvironmentInfo: c.env.Info,
		Server:          protocol.ServerInfo{Name: "troupe", Version: c.env.Version},
		ProtocolVersion: protocol.Version,
		Limits:          c.limits(),
	}
	if c.guest != "" {
		result.EnvironmentInfo = nil // the directories of the machine are not for guests
	}
	if a.Capabilities == (protocol.Capabilities{}) {
		result.ProtocolVersion = protocol.FirstVersion
	}
	if a.in.wire == dialect {
		c.stage = ready
		c.table.dialect.Welcome(Request{c, ctx, a.in}, a.Greeting, &result)
	}
	c.respond(a.in, result)
	c.meet(ctx, m, a.ResumeFrom)
	c.again(ctx, a.held)
}

// meet shows the processes of the session, or notes which are shown once the client has sent initialized: those that resumeFrom names and,
// to an owner with resumeFrom, all others.
func (c *connection) meet(ctx actor.Context, m message.Attached, resumeFrom map[string]uint64) {
	all := resumeFrom != nil && c.owns()
	for _, p := range m.Processes {
		after, named := resumeFrom[p.ID]
		s := newStream(p)
		switch {
		case named:
			s.replay = &message.Subscribe{After: after}
			s.out.Begin(after)
		case all:
			s.replay = &message.Subscribe{Acked: true}
			s.acked = true
			s.out.BeginNow()
		case c.named():
			s.unnamed = true
		default:
			c.show(ctx, p, message.Subscribe{Now: true})
			continue
		}
		c.streams[p.ID] = s
	}
	for _, id := range m.Starting {
		c.startOf(id).told = true
	}
	for _, gone := range m.Removed {
		after, named := resumeFrom[gone.ID]
		if !named {
			after = gone.Acked
		}
		if (named || all) && after < gone.Last+2 { // else the client knows the end
			c.removedBefore = append(c.removedBefore, removedBefore{gone, after})
		}
	}
}

// initialized sends the missed output of the processes in resumeFrom, and of the rest what the owner has not acknowledged.
func (c *connection) initialized(ctx actor.Context, _ inbound, _ struct{}) {
	switch c.stage {
	case opened:
		c.violation(ctx, "initialized before a successful initialize")
		return
	case attached:
		c.stage = ready
	default:
		return
	}
	for _, s := range c.streams {
		if s.replay != nil && !s.shown {
			c.show(ctx, s.ref, *s.replay)
		}
	}
	for _, gone := range c.removedBefore {
		if c.streams[gone.ID] == nil {
			s := newStream(message.ProcessRef{})
			s.out.Begin(gone.after)
			c.streams[gone.ID] = s
			c.removed(ctx, gone.ProcessRemoved)
		}
	}
	c.removedBefore = nil
}

// limits returns the limits of the server, lowered to the limits of this connection.
func (c *connection) limits() protocol.Limits {
	l := c.env.Limits()
	if c.about.MaxMessage > 0 {
		l.MaxFrameBytes, l.MaxMessageBytes = int64(c.about.MaxMessage), int64(c.about.MaxMessage)
	}
	return l
}
