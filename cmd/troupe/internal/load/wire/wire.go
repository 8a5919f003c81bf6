// Package wire is a client of the exec-server wire for the oracle. A Conn hides nothing: events, repeated events and ends of connections
// reach the caller unchanged. The client works with our server and with the peer's server.
package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

const (
	// MaxPending bounds the requests without an answer.
	MaxPending = 4096
	// MaxQueued bounds the bytes of messages that the kernel has not taken yet. A single message may be larger.
	MaxQueued = 8 << 20

	// A larger buffer is not kept for reuse.
	keptBuffer = 256 << 10

	// readBuffer is the read buffer of a connection. It is small because a load has thousands of connections. Larger reads bypass the
	// buffer.
	readBuffer = 16 << 10
)

// ErrBusy means that MaxPending requests wait for their answers, or that MaxQueued bytes wait for the kernel. The server or the link is
// slower than the caller.
var ErrBusy = errors.New("the connection takes no more requests now: too many requests or bytes wait; try again later")

// ErrClosed is the end of a connection after Close.
var ErrClosed = errors.New("this side closed the connection")

// A ViolationError reports a forbidden message of the server. The connection ends.
type ViolationError struct{ What string }

func (e *ViolationError) Error() string { return "the server broke the protocol: " + e.What }

// An EvictedError is the end of a connection whose session ended or was taken over by another client.
type EvictedError struct{ Reason string }

func (e *EvictedError) Error() string { return "the server gave the session away: " + e.Reason }

// Options say how to open a Conn and where to deliver events.
type Options struct {
	Encoding string // json or msgpack. The peer's server speaks JSON only: for msgpack, Dial fails there with an error.

	// Transport is for transport.Dial; nil: its defaults. Dial sets Subprotocols itself, and a ReadBuffer of 16 KiB unless there is one.
	// At unix+frames://PATH, Initialize sends the bearer token of Header.
	Transport *transport.DialOptions

	// Event gets the events of processes in their order, on the reading goroutine; nil: not called. The Event and its Data are valid until Event returns.
	// Every server sends output, exited and closed. Our server also sends evicted, and restarted, gap and ready if InitializeParams ask for them.
	Event func(process string, e *oracle.Event, at time.Time)

	// Ended gets the end of the connection, once, on the reading goroutine, after all calls of done; nil: not called.
	Ended func(error)
}

// A Conn is a connection. Any goroutine may call any method. A Conn has a reading goroutine, and while messages are queued also a writing
// goroutine: a slow server delays neither callers nor reading.
type Conn struct {
	// Fixed by Dial.
	conn  transport.Conn
	codec protocol.Codec
	event func(process string, e *oracle.Event, at time.Time)
	ended func(error)
	token string // for initialize, at a socket of frames

	closed atomic.Bool
	room   chan struct{} // has a token when a Call waiting for room should try again

	mu      sync.Mutex
	err     error // why the connection ended; nil: the connection is open
	lastID  int64
	pending map[protocol.ID]func(payload []byte, err error)
	out     queue // messages to write
	writing bool  // the writing goroutine runs
	unsent  error // of the writing goroutine: why writing failed

	// Owned by the reading goroutine.
	output  protocol.OutputNotification
	e       oracle.Event
	ids     map[string]string // known ids of processes, so that an output allocates no id
	evicted *EvictedError     // session/evicted has come
	wrong   *ViolationError   // a Call could not read its answer; nil: none
}

// lastWords is how long the reading goroutine may still read the server's last messages after the server closed its side.
const lastWords = 2 * time.Second

// A queue holds messages in their order: their bytes one after the other, and the end of each message.
type queue struct {
	bytes []byte
	ends  []int
}

// Dial connects to a URL, as transport.Dial does, and sends no message. The caller calls Close.
func Dial(ctx context.Context, url string, o Options) (*Conn, error) {
	var t transport.DialOptions
	if o.Transport != nil {
		t = *o.Transport
	}
	if t.ReadBuffer == 0 {
		t.ReadBuffer = readBuffer
	}
	c := &Conn{
		event:   o.Event,
		ended:   o.Ended,
		room:    make(chan struct{}, 1),
		pending: make(map[protocol.ID]func([]byte, error)),
		ids:     make(map[string]string),
	}
	switch o.Encoding {
	case protocol.JSON.Name():
		c.codec, t.Subprotocols = protocol.JSON, []string{transport.SubprotocolJSON}
	case protocol.Msgpack.Name():
		c.codec, t.Subprotocols = protocol.Msgpack, []string{transport.SubprotocolMsgpack}
	default:
		return nil, fmt.Errorf("unknown encoding %q: use %s or %s", o.Encoding, protocol.JSON.Name(), protocol.Msgpack.Name())
	}
	if strings.HasPrefix(url, "unix+frames://") {
		c.token, _ = strings.CutPrefix(t.Header.Get("Authorization"), "Bearer ")
	}
	conn, err := transport.Dial(ctx, url, &t)
	if err != nil {
		return nil, err
	}
	if c.codec == protocol.Msgpack && conn.Subprotocol() != transport.SubprotocolMsgpack {
		conn.Close(transport.CloseNormal, "")
		return nil, fmt.Errorf("the server at %s does not speak msgpack: use the encoding json", url)
	}
	c.conn = conn
	go c.read()
	return c, nil
}

// Initialize opens a session, or resumes the session of params, and sends initialized.
func (c *Conn) Initialize(ctx context.Context, params protocol.InitializeParams) (protocol.InitializeResult, error) {
	if params.Token == "" {
		params.Token = c.token
	}
	var result protocol.InitializeResult
	if err := c.Call(ctx, protocol.MethodInitialize, &params, &result); err != nil {
		return protocol.InitializeResult{}, err
	}
	return result, c.Notify(protocol.MethodInitialized, protocol.Empty{})
}

// Call sends a request and waits for its answer, the end of the connection, or ctx. A refusal is a *protocol.Error. If too many requests
// wait, Call waits for room. params and result are values for protocol.Codec; a nil result drops the answer.
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	var (
		failure error
		answer  = make(chan struct{})
		settled atomic.Bool // by the answer or by the end of ctx, whichever is first
	)
	done := func(payload []byte, err error) {
		if !settled.CompareAndSwap(false, true) {
			return
		}
		if err == nil && result != nil {
			if wrong := c.codec.Unmarshal(payload, result); wrong != nil {
				c.wrong = &ViolationError{fmt.Sprintf("the answer to %s is not readable: %v", method, wrong)}
				err = c.wrong
			}
		}
		failure = err
		close(answer)
	}
	for {
		err := c.Go(method, params, done)
		if err == nil {
			break
		}
		if !errors.Is(err, ErrBusy) {
			c.roomLeft() // this Call may have taken the token of another waiting Call
			return err
		}
		select {
		case <-c.room:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", method, context.Cause(ctx))
		}
	}
	select {
	case <-answer:
	case <-ctx.Done():
		if settled.CompareAndSwap(false, true) {
			return fmt.Errorf("%s: no answer: %w", method, context.Cause(ctx))
		}
		<-answer
	}
	return failure
}

// Go sends a request and does not wait. done is called once, on the reading goroutine, with the payload or with an error. The payload is
// valid until done returns. Go keeps no part of params. If too many requests wait, Go's error wraps ErrBusy. After an error of Go, done is
// not called.
func (c *Conn) Go(method string, params any, done func(payload []byte, err error)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) >= MaxPending {
		return fmt.Errorf("%s: %w", method, ErrBusy)
	}
	id := protocol.IntID(c.lastID + 1)
	err := c.send(method, func(b []byte) ([]byte, error) { return c.codec.AppendRequest(b, id, method, params) })
	if err != nil {
		return err
	}
	c.lastID++
	c.pending[id] = done
	return nil
}

// Notify sends a notification, such as session/ack. Its errors are the errors of Go.
func (c *Conn) Notify(method string, params any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.send(method, func(b []byte) ([]byte, error) { return c.codec.AppendNotification(b, method, params) })
}

// Unmarshal decodes a payload of Go.
func (c *Conn) Unmarshal(payload []byte, v any) error { return c.codec.Unmarshal(payload, v) }

// Close ends the connection, and does not wait for Ended.
func (c *Conn) Close() {
	c.closed.Store(true)
	c.conn.Close(transport.CloseNormal, "")
}

// send queues a message. The caller holds c.mu.
func (c *Conn) send(method string, frame func([]byte) ([]byte, error)) error {
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
func (c *Conn) write() {
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
		c.roomLeft() // also after the message of a waiting Call: the next Call may have room, too
		var err error
		begin := 0
		for _, end := range now.ends {
			if err = c.conn.WriteMessage(now.bytes[begin:end], c.codec.Binary()); err != nil {
				break
			}
			begin = end
		}
		if err == nil {
			err = c.conn.Flush()
		}
		if err != nil {
			c.mu.Lock()
			first := c.unsent == nil
			if first {
				c.unsent = err
			}
			c.mu.Unlock()
			lose := func() { c.conn.Close(transport.CloseLost, "") } // ends the reader, also after a write timeout
			switch {
			case !errors.Is(err, syscall.EPIPE):
				lose()
			case first: // the server has closed its side: its last answers and the reason can still be read
				time.AfterFunc(lastWords, lose)
			}
		}
		if cap(now.bytes) > keptBuffer {
			now = queue{}
		}
	}
}

// roomLeft lets a Call waiting for room try again.
func (c *Conn) roomLeft() {
	select {
	case c.room <- struct{}{}:
	default:
	}
}

// read reads until the connection ends.
func (c *Conn) read() {
	err := c.messages()
	c.conn.Close(transport.CloseNormal, "")
	c.mu.Lock()
	_, wrong := errors.AsType[*ViolationError](err)
	switch {
	case wrong:
	case c.evicted != nil:
		err = c.evicted
	case c.closed.Load():
		err = ErrClosed
	case c.unsent != nil && errors.Is(err, net.ErrClosed):
		err = c.unsent
	}
	c.err = err
	pending := c.pending
	c.pending = nil
	c.mu.Unlock()
	for _, done := range pending {
		done(nil, err)
	}
	c.roomLeft()
	if c.ended != nil {
		c.ended(err)
	}
}

func (c *Conn) messages() error {
	for {
		frame, err := c.conn.ReadMessage()
		if err != nil {
			return err
		}
		at := time.Now()
		m, err := c.codec.Decode(frame)
		if err != nil {
			return &ViolationError{fmt.Sprintf("a message of %d bytes is not readable: %v", len(frame), err)}
		}
		switch m.Kind {
		case protocol.Response, protocol.Failure:
			err = c.answered(m)
		case protocol.Notification:
			if wrong := c.notified(m, at); wrong != nil {
				err = &ViolationError{fmt.Sprintf("%s is not readable: %v", m.Method, wrong)}
			}
		default:
			err = &ViolationError{"it sent the request " + m.Method}
		}
		if err != nil {
			return err
		}
	}
}

func (c *Conn) answered(m protocol.Message) error {
	c.mu.Lock()
	done := c.pending[m.ID]
	delete(c.pending, m.ID)
	full := len(c.pending) == MaxPending-1
	c.mu.Unlock()
	if full {
		c.roomLeft()
	}
	switch {
	case done == nil && m.Kind == protocol.Failure:
		return &ViolationError{fmt.Sprintf("it refused the request %s, which has no answer due: %v", m.ID, m.Error)}
	case done == nil:
		return &ViolationError{fmt.Sprintf("it answered the request %s, which has no answer due", m.ID)}
	case m.Kind == protocol.Failure:
		done(nil, m.Error)
	default:
		done(m.Payload, nil)
		if c.wrong != nil {
			return c.wrong
		}
	}
	return nil
}

// notified hands an event of a process to the caller, and remembers an eviction. Other notifications are ignored.
func (c *Conn) notified(m protocol.Message, at time.Time) error {
	var (
		e       = &c.e
		process string
		err     error
	)
	*e = oracle.Event{}
	switch m.Method {
	case protocol.NotifyOutput:
		o := &c.output
		o.ProcessID = c.known(m.Payload)
		err = c.codec.Unmarshal(m.Payload, o)
		process = o.ProcessID
		e.Kind, e.Seq, e.Stream, e.Data = "output", o.Seq, o.Stream, o.Chunk
	case protocol.NotifyExited:
		var n protocol.ExitedNotification
		err = c.codec.Unmarshal(m.Payload, &n)
		process = n.ProcessID
		e.Kind, e.Seq, e.Code, e.Signal, e.Run, e.Reason = "exited", n.Seq, n.ExitCode, n.Signal, n.Run, n.Reason
		if n.OOMKilled {
			e.Reason = cmp.Or(e.Reason, "out of memory")
		}
	case protocol.NotifyClosed:
		var n protocol.ClosedNotification
		err = c.codec.Unmarshal(m.Payload, &n)
		process = n.ProcessID
		e.Kind, e.Seq = "closed", n.Seq
		delete(c.ids, process)
	case protocol.NotifyRestarted:
		var n protocol.RestartedNotification
		err = c.codec.Unmarshal(m.Payload, &n)
		process = n.ProcessID
		e.Kind, e.Seq, e.Run = "restarted", n.Seq, n.Run
	case protocol.NotifyReady:
		var n protocol.ReadyNotification
		err = c.codec.Unmarshal(m.Payload, &n)
		process = n.ProcessID
		e.Kind, e.Seq, e.Run = "ready", n.Seq, n.Run
	case protocol.NotifyGap:
		var n protocol.GapNotification
		err = c.codec.Unmarshal(m.Payload, &n)
		process = n.ProcessID
		e.Kind, e.From, e.Seq, e.Bytes = "gap", n.FromSeq, n.ToSeq, n.Bytes
	case protocol.NotifyEvicted:
		var n protocol.EvictedNotification
		err = c.codec.Unmarshal(m.Payload, &n)
		process = n.ProcessID
		e.Kind, e.Seq = "evicted", n.Seq
	case protocol.NotifySessionEvicted:
		var n protocol.SessionEvictedNotification
		err = c.codec.Unmarshal(m.Payload, &n)
		c.evicted = &EvictedError{n.Reason}
		return err
	default:
		return nil
	}
	if err != nil {
		return err
	}
	if c.event != nil {
		c.event(process, e, at)
	}
	if cap(c.output.Chunk) > keptBuffer {
		c.output.Chunk = nil
	}
	return nil
}

// maxIDs bounds the number of process ids in Conn.ids.
const maxIDs = 4096

// known returns the process id in the params of an output, if the id comes first; all servers send the id first. Otherwise the result may be
// any string. The result is only a guess, and saves Unmarshal a copy of the id.
func (c *Conn) known(payload []byte) string {
	id := firstString(payload, c.codec.Binary())
	if id == nil {
		return ""
	}
	if s, ok := c.ids[string(id)]; ok {
		return s
	}
	if len(c.ids) >= maxIDs {
		clear(c.ids)
	}
	s := string(id)
	c.ids[s] = s
	return s
}

// firstString returns the value of the first member of a map or object if the value is a short string, else nil. In JSON the result may have
// escapes.
func firstString(payload []byte, msgpack bool) []byte {
	const key = "processId"
	if msgpack {
		const at = 2 + len(key) // a byte for the map, and one for the key
		if len(payload) <= at || string(payload[2:at]) != key || payload[at]&0xe0 != 0xa0 {
			return nil
		}
		n := int(payload[at] & 0x1f)
		if len(payload) < at+1+n {
			return nil
		}
		return payload[at+1 : at+1+n]
	}
	const begin = `{"` + key + `":"`
	if len(payload) < len(begin) || string(payload[:len(begin)]) != begin {
		return nil
	}
	rest := payload[len(begin):]
	for i, b := range rest {
		if b == '"' {
			return rest[:i]
		}
	}
	return nil
}
