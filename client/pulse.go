package client

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

const (
	defaultPingEvery = transport.DefaultPingEvery
	defaultDeadAfter = transport.DefaultDeadAfter
)

// A pulse notices that the server of a connection has fallen silent. A half-open connection looks like an
// idle one: no FIN and no RST comes when the network drops the packets, or when the server's machine
// hangs.
//
// At each beat the client asks the server for a sign of life. If nothing has come since the last beat, the
// server has left a question unanswered for PingEvery, and the pulse calls Silent. After DeadAfter the
// pulse cuts the connection.
//
// A pulse counts beats and does not look at the clock. So a sleep of this machine costs a single beat,
// however long the sleep.
type pulse struct {
	// Fixed by listen.
	c        *Client
	conn     link
	arrivals interface{ Heard() uint64 } // counts what the transport reads; nil: only whole messages and pongs count

	heard atomic.Uint64 // messages and pongs

	mu      sync.Mutex // held during a beat
	timer   *time.Timer
	last    uint64 // sum of heard and arrivals at the last beat
	away    bool   // the client did not read at the last beat
	missed  int    // beats in a row before which nothing was heard
	told    bool   // Silent was called, and the server has not been heard since
	stopped bool
	dead    error // set when the pulse cuts the connection
}

// listen begins the pulse of conn before the first ReadMessage.
func (c *Client) listen(conn link) *pulse {
	p := &pulse{c: c, conn: conn}
	p.arrivals, _ = conn.Conn.(interface{ Heard() uint64 })
	conn.SetPongHandler(func([]byte) { p.heard.Add(1) })
	if c.opts.PingEvery > 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.last = p.total()
		p.timer = time.AfterFunc(c.opts.PingEvery, p.beat)
		c.wantSign()
	}
	return p
}

// end stops the pulse, and returns the reason if the pulse has cut the connection. After end, the pulse
// calls no function of the caller.
func (p *pulse) end() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if p.timer != nil {
		p.timer.Stop()
	}
	return p.dead
}

func (p *pulse) total() uint64 {
	n := p.heard.Load()
	if p.arrivals != nil {
		n += p.arrivals.Heard()
	}
	return n
}

func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	o := &p.c.opts
	total := p.total()
	p.c.wantSign() // after total, because the answer counts for the next beat
	was, is := p.away, p.c.away.Load()
	p.away = is
	if total != p.last || was || is { // a client that did not read cannot tell whether the server is silent
		p.last, p.missed = total, 0
		if p.told {
			p.told = false
			o.Silent(0)
		}
		p.timer.Reset(o.PingEvery)
		return
	}
	p.missed++
	silence := time.Duration(p.missed) * o.PingEvery
	switch {
	case o.DeadAfter > 0 && silence >= o.DeadAfter:
		p.dead = errorf("nothing came from the server for %v, although the client asked: %w", silence, transport.ErrDead)
		go p.conn.Close(transport.CloseLost, "nothing came: the client connects again")
		return
	case o.Silent != nil:
		p.told = true
		o.Silent(silence)
	}
	p.timer.Reset(o.PingEvery)
}

// wantSign makes the writer ask the server for a sign of life.
func (c *Client) wantSign() {
	c.mu.Lock()
	c.askDue = true
	c.mu.Unlock()
	c.kick()
}

// askIfDue makes the server send something: a pong, or the answer to a cheap request if the transport has
// no pings. Only the writer calls askIfDue.
func (c *Client) askIfDue(conn link) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.askDue {
		return nil
	}
	c.askDue = false
	c.mu.Unlock()
	err := conn.Ping([]byte("alive?"))
	c.mu.Lock()
	if !errors.Is(err, transport.ErrNoPing) {
		return err
	}
	if c.question != nil && c.pending[c.question.id] == c.question {
		return nil // the server has not answered the last one
	}
	c.question = &call{method: protocol.MethodEnvironmentStatus, params: protocol.Empty{}, once: true}
	c.number(c.question)
	c.outbound = append([]*call{c.question}, c.outbound...) // the answer to an earlier request may take long
	return nil
}
