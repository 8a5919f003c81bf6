package connection

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

func (c *connection) initialize(ctx actor.Context, in inbound, p protocol.InitializeParams) {
	if c.stage != opened {
		c.fail(in, protocol.Errorf(protocol.KindOrder, protocol.CodeInvalidRequest, "initialize may only be sent once per connection"))
		return
	}
	c.attach(ctx, in, p)
}

// initializeApp handles initialize of the app-server wire.
func (c *connection) initializeApp(ctx actor.Context, in inbound, p protocol.ClientInfoParams) {
	name := p.ClientInfo.Name
	control := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
	switch {
	case c.stage != opened:
		c.fail(in, protocol.Errorf(protocol.KindOrder, protocol.CodeInvalidRequest, "Already initialized"))
	case c.guest != "": // the app-server has no session that guests could share
		c.fail(in, protocol.Errorf(protocol.KindRole, protocol.CodeInvalidRequest, "the token of a share is not for clients of the app-server: send initialize with clientName"))
	case strings.ContainsFunc(name, control):
		// This error has no data, because clients compare all of it with the peer's.
		c.fail(in, &protocol.Error{
			Code:    protocol.CodeInvalidRequest,
			Message: fmt.Sprintf("Invalid clientInfo.name: '%s'. Must be a valid HTTP header value.", wireerr.Clip(name)),
		})
	default:
		params := protocol.InitializeParams{ClientName: name, Token: p.Token}
		p.Token = ""
		c.initApp = &p
		c.attach(ctx, in, params)
	}
}

// attach asks for a session.
func (c *connection) attach(ctx actor.Context, in inbound, p protocol.InitializeParams) {
	if p.Token != "" && !c.about.ReadsToken { // a client may think that the token says who it is
		err := protocol.WrongParams("token is only for length-prefixed frames on a socket: on a websocket send the header Authorization, and elsewhere no credential")
		if in.wire == appServer {
			err = wrongInApp(err)
		}
		c.fail(in, err)
		return
	}
	p.Token = "" // the transport has checked the token
	m := message.Attach{Role: p.Role, Takeover: p.Takeover, Options: p.Session, From: c.ownerKey(), Identity: c.about.Identity}
	if p.ResumeSessionID != nil {
		if m.SessionID = *p.ResumeSessionID; m.SessionID == "" {
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
	c.stage, c.init, c.initReq = attaching, &p, pending{id: in.id, weight: in.weight}
	ctx.Request(c.troupe, m)
	env.After(ctx, attachTime, attachDue{c.token})
}

// ownerKey names the owner of the sessions opened over the connection. Sessions are counted by owner.
// Without authentication the owner is the remote address.
func (c *connection) ownerKey() string {
	return cmp.Or(c.about.Identity.Name, c.about.Peer, c.conn.RemoteAddr())
}

func (c *connection) attachFailed(ctx actor.Context, err *protocol.Error) {
	c.recordNotAttached(err)
	c.stage, c.init, c.initApp = opened, nil, nil
	c.answer(c.initReq, nil, err)
	c.replayHeld(ctx)
}

// attachDue gives up on a session without an answer for attachTime.
func (c *connection) attachDue(ctx actor.Context, m attachDue) {
	if c.stage == attaching && m.token == c.token {
		c.attachFailed(ctx, protocol.Errorf(protocol.KindBusy, protocol.CodeInternal, "the session did not answer within %v, try again", attachTime))
	}
}

func (c *connection) replayHeld(ctx actor.Context) {
	held := c.held
	c.held = nil
	for _, in := range held {
		c.inbound(ctx, in)
	}
	c.mayClose(ctx)
}

func (c *connection) attached(ctx actor.Context, m message.Attached) {
	if c.stage != attaching || m.Token != c.token {
		// Too late: the client was told of a failure. To detach from the session, the
		// connection has to end.
		c.closeFor(ctx, protocol.CloseInternalError, "attached too late, resume again")
		return
	}
	c.stage = attached
	if socket, ok := c.conn.(message.Socket); ok {
		socket.Admit()
	}
	c.limit(0)
	c.session, c.sessionID = m.Session, m.SessionID
	c.role = m.Role
	c.acks = c.init.Capabilities.Ack
	c.writer.caps = c.init.Capabilities
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
	if c.init.Capabilities == (protocol.Capabilities{}) {
		result.ProtocolVersion = protocol.FirstVersion
	}
	if app := c.initApp; app != nil {
		c.stage = ready // the app-server waits for no initialized
		c.experimental = app.Capabilities.ExperimentalAPI
		c.writer.optOut(app.Capabilities.OptOutNotificationMethods)
		result.UserAgent = c.env.App.UserAgent(app.ClientInfo, c.env.Version)
		result.CodexHome = c.env.App.CodexHome
		result.PlatformFamily, result.PlatformOS = "unix", c.env.Info.PlatformOS
	}
	c.answer(c.initReq, result, nil)
	c.resume = make(map[string]uint64)
	for _, p := range m.Processes {
		after, named := c.init.ResumeFrom[p.ID]
		switch {
		case named:
			c.resume[p.ID] = after
			s := newStream(p) // replayed after initialized
			s.out.Begin(after)
			c.streams[p.ID] = s
		case c.init.ResumeFrom != nil && c.owns():
			c.unnamed = append(c.unnamed, p)
			s := newStream(p)
			s.acked = true
			s.out.BeginNow()
			c.streams[p.ID] = s
		case c.named():
			c.know(p)
		default:
			c.show(ctx, p, message.Subscribe{Now: true})
		}
	}
	for _, id := range m.Starting {
		c.startOf(id).told = true
	}
	for _, gone := range m.Removed {
		after, named := c.init.ResumeFrom[gone.ID]
		if !named {
			after = gone.Acked
		}
		if named || c.init.ResumeFrom != nil && c.owns() {
			c.resume[gone.ID] = after
			c.removedBefore = append(c.removedBefore, gone)
		}
	}
	c.init, c.initApp, c.initReq = nil, nil, pending{}
	c.replayHeld(ctx)
}

func (c *connection) initialized(ctx actor.Context, _ inbound, _ struct{}) {
	switch c.stage {
	case opened:
		c.violation(ctx, "initialized before a successful initialize")
	case attached:
		c.stage = ready
		c.replay(ctx)
	}
}

// replay sends the missed output of the processes in resumeFrom, and of the rest what the owner has not acknowledged.
func (c *connection) replay(ctx actor.Context) {
	for id, after := range c.resume {
		if s := c.streams[id]; s != nil && !s.shown {
			c.show(ctx, s.ref, message.Subscribe{After: after})
		}
	}
	for _, p := range c.unnamed {
		if s := c.streams[p.ID]; s != nil && s.ref.PID.Equal(p.PID) && !s.shown {
			c.show(ctx, p, message.Subscribe{Acked: true})
		}
	}
	for _, gone := range c.removedBefore {
		after := c.resume[gone.ID]
		if c.streams[gone.ID] == nil && after < gone.Last+2 { // else the client knows the end
			s := newStream(message.ProcessRef{})
			s.out.Begin(after)
			c.streams[gone.ID] = s
			c.removed(ctx, gone)
		}
	}
	c.resume, c.unnamed, c.removedBefore = nil, nil, nil
}

// limits returns the limits of the server, lowered to the limits of this connection.
func (c *connection) limits() protocol.Limits {
	l := c.env.Limits()
	if c.about.MaxMessage > 0 {
		l.MaxFrameBytes, l.MaxMessageBytes = int64(c.about.MaxMessage), int64(c.about.MaxMessage)
	}
	return l
}
