package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

const (
	// MaxQueued bounds the bytes of messages of a Client that the kernel has not taken yet. A single message may be larger.
	MaxQueued = 8 << 20

	// A larger buffer is not kept for reuse.
	keptBuffer = 256 << 10

	// lastWords is how long the reading goroutine may still read the server's last messages after the server closed its side.
	lastWords = 2 * time.Second
)

// ErrBusy means that MaxQueued bytes wait for the kernel. The server or the link is slower than the caller.
var ErrBusy = errors.New("the connection takes no more messages now: too many bytes wait; try again later")

// ErrClosed is the end of a connection after Close.
var ErrClosed = errors.New("this side closed the connection")

// An EvictedError is the end of a connection whose session ended or was taken over by another client.
type EvictedError struct{ Reason string }

func (e *EvictedError) Error() string { return "the server gave the session away: " + e.Reason }

// Handlers get what comes on the connection of a Client, on its reading goroutine. Each may be nil.
type Handlers struct {
	// Notified gets the notifications, and when they came. The message is valid until Notified returns. An error means that the message is not
	// readable, and ends the connection as a violation.
	Notified func(m protocol.Message, at time.Time) error

	// Ended gets the end of the connection, once, after all calls of done.
	Ended func(error)
}

// A Client sends requests on a Conn, and hands out the answers. Any goroutine may call any method. A Client has a reading goroutine, and while
// messages are queued also a writing goroutine.
type Client struct {
	// Fixed by NewClient.
	conn     *Conn
	handlers Handlers

	closed atomic.Bool

	mu      sync.Mutex
	err     error // why the connection ended; nil: the connection is open
	lastID  int64
	pending map[protocol.ID]func(payload []byte, err error)
	out     queue // messages to write
	writing bool  // the writing goroutine runs
	lost    error // why this side gave the connection up: writing failed, or a Call could not read its answer

	evicted *EvictedError // session/evicted has come; owned by the reading goroutine
}

// A queue holds messages in their order: their bytes one after the other, and the end of each message.
type queue struct {
	bytes []byte
	ends  []int
}

// NewClient returns a Client, which owns conn from then on. The caller calls Close.
func NewClient(conn *Conn, h Handlers) *Client {
	c := &Client{conn: conn, handlers: h, pending: make(map[protocol.ID]func([]byte, error))}
	go c.read()
	return c
}

// Initialize opens a session, or resumes the session of params, and sends initialized.
func (c *Client) Initialize(ctx context.Context, params protocol.InitializeParams) (protocol.InitializeResult, error) {
	if params.Token == "" {
		params.Token = c.conn.token
	}
	var result protocol.InitializeResult
	if err := c.Call(ctx, protocol.MethodInitialize, &params, &result); err != nil {
		return protocol.InitializeResult{}, err
	}
	return result, c.Notify(protocol.MethodInitialized, protocol.Empty{})
}

// Call sends a request and waits for its answer, the end of the connection, or ctx. A refusal is a *protocol.Error. params and result are values
// for protocol.Codec; a nil result drops the answer. An answer that is not readable ends the connection as a violation.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	type answer struct {
		payload []byte
		err     error
	}
	answered := make(chan answer, 1)
	err := c.Go(method, params, func(payload []byte, err error) { answered <- answer{bytes.Clone(payload), err} })
	if err != nil {
		return err
	}
	select {
	case a := <-answered:
		if a.err != nil || result == nil {
			return a.err
		}
		if wrong := c.Unmarshal(a.payload, result); wrong != nil {
			err := &ViolationError{fmt.Sprintf("the answer to %s is not readable: %v", method, wrong)}
			c.lose(err)
			return err
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: no answer: %w", method, context.Cause(ctx))
	}
}

// Go sends a request and does not wait. done is called once, on the reading goroutine, with the payload or with an error. The payload is
// valid until done returns. Go keeps no part of params. If too many bytes wait for the kernel, Go's error wraps ErrBusy. After an error of Go,
// done is not called.
func (c *Client) Go(method string, params any, done func(payload []byte, err error)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := protocol.IntID(c.lastID + 1)
	err := c.send(method, func(b []byte) ([]byte, error) { return c.conn.Codec.AppendRequest(b, id, method, params) })
	if err != nil {
		return err
	}
	c.lastID++
	c.pending[id] = done
	return nil
}

// Notify sends a notification, such as session/ack. Its errors are the errors of Go.
func (c *Client) Notify(method string, params any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.send(method, func(b []byte) ([]byte, error) { return c.conn.Codec.AppendNotification(b, method, params) })
}

// Unmarshal decodes a payload of Go.
func (c *Client) Unmarshal(payload []byte, v any) error { return c.conn.Codec.Unmarshal(payload, v) }

// Close ends the connection, and does not wait for Ended.
func (c *Client) Close() {
	c.closed.Store(true)
	c.conn.Close(transport.CloseNormal, "")
}

// send queues a message. The caller holds c.mu.
func (c *Client) send(method string, frame func([]byte) ([]byte, error)) error {
	if c.err != nil {
		return fmt.Errorf("%s: %w", method, c.err)
	}
	if len(c.out.bytes) >= MaxQueued {
		return fmt.Errorf("%s: %w", method, ErrBusy)
	}
	b, err := frame(c.out.bytes)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	c.out.bytes, c.out.ends = b, append(c.out.ends, len(b))
	if !c.writing {
		c.writing = true
		go c.write()
	}
	return nil
}

// write writes queued messages until the queue is empty. A goroutine of its own calls write. If the reading goroutine wrote, it would wait
// for ever for a server that stops reading until its client has read.
func (c *Client) write() {
	var now queue
	for {
		c.mu.Lock()
		if now, c.out = c.out, (queue{now.bytes[:0], now.ends[:0]}); len(now.ends) == 0 || c.err != nil {
			if c.writing = false; cap(now.bytes) > keptBuffer {
				now.bytes = nil
			}
			c.out = queue{now.bytes[:0], now.ends[:0]}
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		var err error
		begin := 0
		for _, end := range now.ends {
			if err = c.conn.Send(now.bytes[begin:end]); err != nil {
				break
			}
			begin = end
		}
		if err == nil {
			err = c.conn.Flush()
		}
		if err != nil {
			c.lose(err)
		}
		if cap(now.bytes) > keptBuffer {
			now = queue{}
		}
	}
}

// lose gives the connection up, also after a write timeout. The first error is the reason.
func (c *Client) lose(err error) {
	c.mu.Lock()
	first := c.lost == nil
	if first {
		c.lost = err
	}
	c.mu.Unlock()
	end := func() { c.conn.Close(transport.CloseLost, "") }
	switch {
	case !errors.Is(err, syscall.EPIPE):
		end()
	case first: // the server has closed its side: its last answers and the reason can still be read
		time.AfterFunc(lastWords, end)
	}
}

// read reads until the connection ends.
func (c *Client) read() {
	var err error
	for err == nil {
		err = c.next()
	}
	c.conn.Close(transport.CloseNormal, "")
	c.mu.Lock()
	_, wrong := errors.AsType[*ViolationError](err)
	_, ended := errors.AsType[*ViolationError](c.lost) // then the end of the connection is the client's, however the server takes it
	switch {
	case wrong:
	case c.evicted != nil:
		err = c.evicted
	case c.closed.Load():
		err = ErrClosed
	case ended, c.lost != nil && errors.Is(err, net.ErrClosed):
		err = c.lost
	}
	c.err = err
	pending := c.pending
	c.pending = nil
	c.mu.Unlock()
	for _, done := range pending {
		done(nil, err)
	}
	if c.handlers.Ended != nil {
		c.handlers.Ended(err)
	}
}

// next reads a message and hands it out.
func (c *Client) next() error {
	frame, err := c.conn.ReadMessage()
	if err != nil {
		return err
	}
	at := time.Now()
	m, err := c.conn.decode(frame)
	if err != nil {
		return err
	}
	switch m.Kind {
	case protocol.Response, protocol.Failure:
		return c.answered(m)
	case protocol.Notification:
		if err := c.notified(m, at); err != nil {
			return &ViolationError{fmt.Sprintf("%s is not readable: %v", m.Method, err)}
		}
		return nil
	}
	return &ViolationError{"it sent the request " + m.Method}
}

func (c *Client) answered(m protocol.Message) error {
	c.mu.Lock()
	done := c.pending[m.ID]
	delete(c.pending, m.ID)
	c.mu.Unlock()
	switch {
	case done == nil && m.Kind == protocol.Failure:
		return &ViolationError{fmt.Sprintf("it refused the request %s, which has no answer due: %v", m.ID, m.Error)}
	case done == nil:
		return &ViolationError{fmt.Sprintf("it answered the request %s, which has no answer due", m.ID)}
	case m.Kind == protocol.Failure:
		done(nil, m.Error)
	default:
		done(m.Payload, nil)
	}
	return nil
}

// notified remembers an eviction, and hands the other notifications to the handler.
func (c *Client) notified(m protocol.Message, at time.Time) error {
	switch {
	case m.Method == protocol.NotifySessionEvicted:
		var n protocol.SessionEvictedNotification
		err := c.Unmarshal(m.Payload, &n)
		c.evicted = &EvictedError{n.Reason}
		return err
	case c.handlers.Notified != nil:
		return c.handlers.Notified(m, at)
	}
	return nil
}
