// Package client runs programs on a troupe server. It is shaped like os/exec:
//
//	c, err := client.Dial(ctx, "ws://127.0.0.1:7000", nil)
//	if err != nil {
//		return err
//	}
//	defer c.CloseSession(ctx)
//	out, err := c.Command("make", "test").CombinedOutput(ctx)
//
// A connection that is lost is resumed without a word from the caller: every
// byte of output is delivered exactly once and in order, every byte of input is
// applied exactly once, and requests that had no answer are sent again.
//
// Memory is bounded. Output is acknowledged when it was written to the caller's
// Writer and not before, and the server sends of each process as much as its
// retention (1 MiB, unless the server or Cmd.Retention says otherwise) ahead of
// that: so much waits here at most. A Writer that stops stops its own process, as
// a full pipe would, and no other.
package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

var (
	// ErrClosed means that Close was called.
	ErrClosed = errors.New("client: closed")
	// ErrSessionGone means that the server no longer has the session, or that it
	// is another client's now. Its processes are out of reach; start a new one.
	ErrSessionGone = errors.New("client: the session is gone")
	// ErrOtherRun means that nothing was done, as the process has begun another run than
	// the one that was meant.
	ErrOtherRun = errors.New("client: the process is at another run")
	// ErrProcessGone means that the server no longer holds the process: it ended
	// and was forgotten while this client was away, or it never was.
	ErrProcessGone = errors.New("client: the server does not hold this process")
)

// An EvictedError means that the server took the session away from this
// connection, for example because another client took it over.
type EvictedError struct {
	Reason string // the server's
}

func (e *EvictedError) Error() string { return "client: evicted from the session: " + e.Reason }
func (e *EvictedError) Unwrap() error { return ErrSessionGone }

// Options of Dial. The zero value, or nil, opens a new session.
type Options struct {
	// Name tells the server's log who this is. Zero: "troupe-go".
	Name string

	// Session is the id of a session to resume, from Client.SessionID. Zero: a new
	// one. While another connection has it, Dial tries again, for ReconnectFor.
	Session string

	// Takeover takes the session from the connection that has it; its client is
	// told and does not come back. A session that this client has had once, it
	// always takes back after a cut: the server may not have noticed the cut yet.
	Takeover bool

	// Observe attaches beside the owner of Session: to see, not to change.
	Observe bool

	// DetachedTTL is how long a new session lives without a connection. Zero: the
	// server's default; negative: for ever, if the server allows it.
	DetachedTTL time.Duration

	// Dialer opens a connection, the first as well as those to resume. Nil dials
	// the url.
	Dialer func(context.Context) (transport.Conn, error)

	// JSON asks for JSON, to be read by people, where otherwise msgpack is asked for and
	// JSON taken from a server that has no other. Not for connections of Dialer.
	JSON bool

	// ReconnectFor is how long to try to resume after a cut. Zero: 45 s; negative:
	// not at all.
	ReconnectFor time.Duration

	// Lost is called when the connection was cut, and Resumed when the session is
	// attached again. They run on the client's own goroutine: they must not block,
	// nor call Close.
	Lost    func(error)
	Resumed func()

	// Log gets what the caller may want to know but need not act on. Nil: nothing.
	Log *slog.Logger
}

// A Client is one session on a server. Any goroutine may call any method.
type Client struct {
	// Fixed at Dial.
	opts     Options // with its defaults filled in
	ctx      context.Context
	cancel   context.CancelFunc // Close
	finished chan struct{}      // closed when run has returned
	wake     chan struct{}      // capacity 1: the writer has something to do

	mu        sync.Mutex // guards everything below, and every process and call
	hello     protocol.InitializeResult
	conn      transport.Conn // nil while disconnected
	err       error          // why the client ended; nil: it lives
	evicted   error          // set by the reader; the next thing run does is end
	recycle   bool           // a process waits to be named in the next resume
	progress  bool           // this connection has achieved something
	nextID    int64
	pending   map[protocol.ID]*call // not answered yet
	outbound  []*call               // those of pending that this connection has yet to send
	processes map[string]*process   // that may still send something
	acks      map[string]uint64     // process id → seq, not yet said
	ackBytes  int                   // delivered since the last ack
	ackDue    bool                  // acks are to be said now
	ackTimed  bool                  // a timer will make them due
	room      *sync.Cond            // a Writer has written, or ctx is done
}

// Dial connects to the server at url, and opens or resumes a session. ctx bounds
// Dial only. The url is what transport.Dial takes; it is not used when
// Options.Dialer is set.
func Dial(ctx context.Context, url string, o *Options) (*Client, error) {
	c := &Client{
		finished:  make(chan struct{}),
		wake:      make(chan struct{}, 1),
		pending:   make(map[protocol.ID]*call),
		processes: make(map[string]*process),
		acks:      make(map[string]uint64),
	}
	if o != nil {
		c.opts = *o
	}
	c.opts.Name = cmp.Or(c.opts.Name, "troupe-go")
	c.opts.ReconnectFor = cmp.Or(c.opts.ReconnectFor, 45*time.Second)
	c.opts.Log = cmp.Or(c.opts.Log, slog.New(slog.DiscardHandler))
	if c.opts.Dialer == nil {
		c.opts.Dialer = func(ctx context.Context) (transport.Conn, error) {
			offer := []string{transport.SubprotocolMsgpack, transport.SubprotocolJSON}
			if c.opts.JSON {
				offer = offer[1:]
			}
			return transport.Dial(ctx, url, &transport.DialOptions{Subprotocols: offer})
		}
	}
	if c.opts.Observe && c.opts.Session == "" {
		return nil, errors.New("client: Observe without Session: set the id of the session to observe")
	}
	c.room = sync.NewCond(&c.mu)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	conn, err := c.first(ctx)
	if err != nil {
		c.cancel()
		return nil, err
	}
	go c.run(conn)
	return c, nil
}

// SessionID is what Options.Session takes to come back to this session.
func (c *Client) SessionID() string { return c.lastHello().SessionID }

// Server says who answered, as of the last time it was connected to.
func (c *Client) Server() protocol.ServerInfo { return c.lastHello().Server }

func (c *Client) lastHello() protocol.InitializeResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hello
}

// Close detaches from the session and returns when the client's goroutines have
// ended, but for those that a Writer or Reader of the caller holds up. The
// processes go on, until the server's detached TTL passes. Input that a StdinPipe
// took and the server did not may be lost. Every Wait that has not returned returns
// ErrClosed. It always returns nil.
func (c *Client) Close() error {
	c.cancel()
	<-c.finished
	return nil
}

// CloseSession ends the session and every process of it, and closes the client.
// The error is nil also when the session was gone already. If processes survived, the session has
// ended all the same, and the error names them. When ctx ended first, the session lives until its
// detached TTL.
func (c *Client) CloseSession(ctx context.Context) error {
	defer c.Close()
	err := c.call(ctx, protocol.MethodSessionClose, protocol.SessionCloseParams{}, nil)
	if errors.Is(err, ErrSessionGone) {
		return nil
	}
	return err
}

// Processes lists the processes of the session, in the server's order.
func (c *Client) Processes(ctx context.Context) ([]protocol.ProcessInfo, error) {
	var list protocol.ProcessListResult
	err := c.call(ctx, protocol.MethodProcessList, protocol.Empty{}, &list)
	return list.Processes, err
}

// A call is one request. It is sent again on the next connection when this one
// brought no answer. Start tokens, write ids and request ids (repeatable) have the server
// do it once.
type call struct {
	method string
	params any    // read with Client.mu held while the call is pending, and not after
	result any    // a pointer, or nil
	once   bool   // is about this connection, and goes with it
	done   func() // runs once, after err and result are set; must not block

	// Owned by the client.
	n    int64 // the order of sending
	id   protocol.ID
	sent bool // on this connection or an earlier one
	err  error
}

// call sends a request and waits for its answer, over any number of cuts. When
// ctx ends first, the answer will be ignored; the request may have been applied.
func (c *Client) call(ctx context.Context, method string, params, result any) error {
	answered := make(chan struct{})
	k := &call{method: method, params: params, result: result, done: func() { close(answered) }}
	c.send(k)
	select {
	case <-answered:
	case <-ctx.Done():
		if c.withdraw(k) {
			return fmt.Errorf("client: %s: %w", method, context.Cause(ctx))
		}
		<-answered
	}
	return k.err
}

// repeatable names a request, so that the server does it once however often it is sent.
func repeatable() protocol.Repeatable { return protocol.Repeatable{RequestID: rand.Text()} }

// send queues k, behind every request sent before it.
func (c *Client) send(k *call) {
	c.mu.Lock()
	if c.err != nil {
		k.err = c.err
		c.mu.Unlock()
		k.done()
		return
	}
	c.nextID++
	k.n, k.id, k.sent = c.nextID, protocol.IntID(c.nextID), false
	c.pending[k.id] = k
	if c.conn != nil { // else the next connection takes it from pending
		c.outbound = append(c.outbound, k)
	}
	c.mu.Unlock()
	c.kick()
}

// withdraw takes back a call; false: it was answered.
func (c *Client) withdraw(k *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[k.id] != k {
		return false
	}
	delete(c.pending, k.id)
	if i := slices.Index(c.outbound, k); i >= 0 {
		c.outbound = slices.Delete(c.outbound, i, i+1)
	}
	return true
}

// kick makes the writer look for something to send.
func (c *Client) kick() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
