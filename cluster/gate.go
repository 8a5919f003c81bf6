package cluster

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/actors/connection/greeting"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/internal/nodeid"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

const (
	// reachTime is how long another node may take to take a client.
	reachTime = 3 * time.Second
	// firstPause is the time between the first two attempts to reach a node. Each further pause is twice as long.
	firstPause = 50 * time.Millisecond
	// syncTime is how long a client waits for the first news of the membership.
	syncTime = 5 * time.Second
	// maxReason is the length of the longest answer of another node that is passed on, in bytes.
	maxReason = 1 << 10
)

// Accept serves a connection of a client: by this server, or by the node of the session that the client names, or by a node with room for a new one.
func (c *Cluster) Accept(conn transport.Conn) {
	relayable, ok := conn.(transport.Relayable)
	if !ok {
		c.own.Accept(conn, conn.About())
		return
	}
	codec, about := protocol.CodecOf(conn.Subprotocol()), conn.About()
	frame, err := relayable.Peek(protocol.MaxGreeting)
	if err != nil {
		conn.Close(transport.CloseLost, "") // Peek has sent the reason
		return
	}
	g, wrong := greeting.Read(codec, frame, &about, c.o.Dialect)
	if wrong != nil { // the answer is the same on each node
		c.own.Accept(conn, about)
		return
	}
	c.route(relayable, g, about, func(e *protocol.Error) { refuse(conn, codec, frame, e) })
}

// refuse answers initialize with an error.
func refuse(conn transport.Conn, codec protocol.Codec, frame []byte, e *protocol.Error) {
	m, err := codec.Decode(frame)
	if err == nil {
		var answer []byte
		if answer, err = codec.AppendFailure(nil, m.ID, e); err == nil {
			conn.WriteMessage(answer, codec == protocol.Msgpack)
			conn.Flush()
		}
	}
	conn.Close(transport.CloseTryLater, e.Message)
}

// route finds the node for a client, and has the client served there.
func (c *Cluster) route(conn transport.Relayable, g greeting.Greeting, about identity.About, refuse func(*protocol.Error)) {
	session, token := "", ""
	if g.ResumeSessionID != nil {
		session = *g.ResumeSessionID
	}
	if guest := about.Identity.Guest; guest != nil {
		session, token = guest.Session, guest.Token
	}
	intro := introduction{Remote: conn.RemoteAddr() + " by " + c.o.Name, About: about, Token: token, Opens: g.ResumeSessionID == nil && about.Identity.Guest == nil}
	if !intro.Opens {
		switch node, why := c.nodeFor(nodeid.Of(session)); {
		case why != "":
			c.o.Log.Info("nobody knows the node of a session now", "session", session, "reason", why)
			conn.Close(transport.CloseTryLater, why)
		case node.ID == "":
			c.own.Accept(conn, about)
		default:
			c.resume(conn, node, session, intro)
		}
		return
	}
	wish, here := wishOf(g)
	order, err := []Node{{ID: c.id}}, (*protocol.Error)(nil)
	if !here {
		order, err = c.choose(wish)
	}
	if err != nil {
		c.counts.Refused.Add(1)
		refuse(err)
		return
	}
	for _, node := range order {
		if node.ID == c.id {
			c.sent(node.ID)
			c.own.Accept(conn, about)
			return
		}
		to, err := c.reach(conn, node, intro)
		if err == nil {
			c.sent(node.ID)
			c.relay(conn, node, "", to)
			return
		}
		c.o.Log.Info("a node takes no new session", "node", node.ID, "err", err)
	}
	c.counts.Refused.Add(1)
	conn.Close(transport.CloseTryLater, "no node with room answered: connect again")
}

// nodeFor returns the node with an id; none: this server answers, also that there is no such session. why says why nobody can tell now.
func (c *Cluster) nodeFor(id string) (node Node, why string) {
	if id == c.id || id == "" {
		return Node{}, ""
	}
	select {
	case <-c.synced:
	case <-time.After(syncTime):
		return Node{}, "this node does not know the others yet: connect again"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m := c.known[id]; {
	case m == nil && c.failed != nil:
		return Node{}, "the node of the session may have joined, and nobody can be asked: connect again"
	case m == nil || m.isLost():
		return Node{}, ""
	default:
		return m.Node, ""
	}
}

// resume has a session's own node serve the client. If the node does not answer, resume tries again for reachTime: its server may be on the way, or the
// membership may be about to tell that the node is lost.
func (c *Cluster) resume(conn transport.Relayable, node Node, session string, intro introduction) {
	for begun, pause := time.Now(), firstPause; ; pause *= 2 {
		to, err := c.reach(conn, node, intro)
		if err == nil {
			c.relay(conn, node, session, to)
			return
		}
		c.o.Log.Info("a client cannot reach the node of its session", "node", node.ID, "err", err)
		if refused, ok := errors.AsType[*transport.RefusedError](err); ok && refused.Status != statusOther {
			conn.Close(transport.ClosePolicy, refused.Text)
			return
		} else if ok || errors.Is(err, syscall.ECONNREFUSED) && c.Problem() != "" {
			// Another incarnation answers at its address, or nobody: a holder keeps the socket as long as programs live. While the membership tells, it decides.
			c.gone(node.ID)
		}
		if c.awaitLoss(node.ID, pause) {
			c.own.Accept(conn, conn.About())
			return
		}
		if time.Since(begun) > reachTime || c.ctx.Err() != nil {
			conn.Close(transport.CloseTryLater, fmt.Sprintf("node %s does not answer: connect again", node.Name))
			return
		}
	}
}

// awaitLoss reports whether a node is lost, or becomes so within a time, or before Leave.
func (c *Cluster) awaitLoss(id string, within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	c.mu.Lock()
	m := c.known[id]
	c.mu.Unlock()
	if m == nil {
		return true
	}
	select {
	case <-m.lost:
		return true
	case <-c.ctx.Done():
		return false
	case <-timer.C:
		return false
	}
}

// gone records that a node is lost: another one is at its address, or nobody.
func (c *Cluster) gone(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.known[id]; m != nil {
		m.lose(time.Now())
		c.countAt(id, nil)
	}
}

// wishOf returns what a client asks of the node of its session. here: a look, or a command of a client, needs no room, and this node serves it.
func wishOf(g greeting.Greeting) (w Wish, here bool) {
	if p := g.Placement; p != nil {
		return Wish{Labels: p.Labels, Node: p.Node, Key: p.Key}, false
	}
	return Wish{}, g.Client == nil && g.Session.Ephemeral
}

// choose returns the nodes for a new session, the best first.
func (c *Cluster) choose(w Wish) ([]Node, *protocol.Error) {
	if err := w.Validate(); err != nil {
		return nil, protocol.WrongParams("placement: %v", err)
	}
	own := c.self()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) == 0 { // nobody has told yet
		return []Node{{ID: c.id}}, nil
	}
	nodes := make([]Node, 0, len(c.known))
	for _, m := range c.known {
		if !m.left.IsZero() {
			continue
		}
		n := m.Node
		if n.ID == c.id {
			n = own
		}
		nodes = append(nodes, n)
	}
	order, err := choose(nodes, w, c.id, func(id string) int64 { return c.known[id].sent }, mathrand.IntN)
	if err != nil {
		return nil, protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidRequest, "%v", err)
	}
	return order, nil
}

// sent counts a session that was sent to a node.
func (c *Cluster) sent(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.known[id]; m != nil {
		m.sent++
	}
}

// A reached is a connection to another node that takes a client.
type reached struct {
	*transport.TLSStream
	first []byte // what the node has sent already
}

// reach opens a connection to a node, and introduces a client.
func (c *Cluster) reach(conn transport.Conn, node Node, intro introduction) (*reached, error) {
	ctx, cancel := context.WithTimeout(context.Background(), reachTime)
	defer cancel()
	r, err := c.dial(ctx, conn.Subprotocol(), node, intro)
	if err != nil {
		c.counts.Failed.Add(1)
	}
	return r, err
}

func (c *Cluster) dial(ctx context.Context, subprotocol string, node Node, intro introduction) (*reached, error) {
	conn, header, err := c.secure(ctx, node, intro)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	first, err := introduce(conn, subprotocol, node, header)
	if !stop() {
		err = fmt.Errorf("node %s: %w", node.ID, context.Cause(ctx))
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &reached{conn, first}, nil
}

// secure opens a connection with TLS to a node, and returns the value of headerClient that introduces a client on it.
func (c *Cluster) secure(ctx context.Context, node Node, intro introduction) (conn *transport.TLSStream, header string, err error) {
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", node.Address)
	if err != nil {
		return nil, "", fmt.Errorf("node %s: %w", node.ID, err)
	}
	if conn, err = transport.TLSClient(raw, c.credentials.client(node.Name)); err == nil {
		err = conn.HandshakeContext(ctx)
	}
	if err == nil {
		intro.From, intro.To = c.id, node.ID
		state := conn.ConnectionState()
		header, err = intro.seal(&state, c.credentials.now())
	}
	if err != nil {
		raw.Close()
		return nil, "", fmt.Errorf("node %s: %w", node.ID, err)
	}
	return conn, header, nil
}

// introduce makes a connection to a node that of a client, by a value of headerClient. It returns what the node has sent after its answer.
func introduce(conn *transport.TLSStream, subprotocol string, node Node, header string) ([]byte, error) {
	key := make([]byte, 16)
	rand.Read(key) // never fails
	var head strings.Builder
	fmt.Fprintf(&head, "GET / HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n", node.Name, base64.StdEncoding.EncodeToString(key))
	if subprotocol != "" {
		fmt.Fprintf(&head, "Sec-WebSocket-Protocol: %s\r\n", subprotocol)
	}
	fmt.Fprintf(&head, "%s: %s\r\n\r\n", headerClient, header)
	if _, err := io.WriteString(conn, head.String()); err != nil {
		return nil, fmt.Errorf("node %s: %w", node.ID, err)
	}
	in := bufio.NewReaderSize(conn, maxReason)
	answer, err := http.ReadResponse(in, nil)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", node.ID, err)
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, maxReason))
		return nil, fmt.Errorf("node %s: %w", node.ID, &transport.RefusedError{Status: answer.StatusCode, Text: strings.TrimSpace(string(text))})
	}
	first, _ := in.Peek(in.Buffered())
	return first, nil
}

// relay carries the bytes of a client to another node, until both have ended. relay does not wait for the end: the stack of the caller has grown with
// the handshake of TLS, and new goroutines have small ones.
func (c *Cluster) relay(conn transport.Relayable, node Node, session string, to *reached) {
	about := conn.About()
	c.o.Log.Debug("relays a client", "remote", conn.RemoteAddr(), "identity", about.Identity.Name, "node", node.ID)
	c.o.Audit.Put(audit.ConnectionRelayed{Who: audit.Who{Identity: about.Identity.Name, Account: about.Identity.Account()}, Remote: conn.RemoteAddr(), Node: node.ID, Asked: audit.Text(session)})
	stream, read := conn.HandOver()
	cable := &cable{client: stream, node: to.TLSStream, up: &c.counts.Up, down: &c.counts.Down, still: func() error {
		state := to.ConnectionState()
		return c.credentials.check(&state)
	}}
	c.mu.Lock()
	c.cables[cable] = node.ID
	m := c.known[node.ID]
	lost := m != nil && m.isLost() || c.ctx.Err() != nil // Leave may have looked for cables before
	c.mu.Unlock()
	c.counts.Relayed.Add(1)
	c.counts.Relays.Add(1)
	if lost {
		cable.cut()
	}
	_, err := to.Write(read)
	if err == nil && len(to.first) > 0 {
		_, err = stream.Write(to.first)
	}
	if err != nil {
		cable.cut()
	}
	go func() {
		cable.run()
		c.counts.Relays.Add(-1)
		c.mu.Lock()
		delete(c.cables, cable)
		c.mu.Unlock()
	}()
}
