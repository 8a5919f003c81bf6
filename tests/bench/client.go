package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/b6f6fdd7/troupe/internal/rpc"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

const (
	subJSON    = transport.SubprotocolJSON
	subMsgpack = transport.SubprotocolMsgpack
)

// codecs are the client's codecs, by websocket subprotocol.
var codecs = map[string]protocol.Codec{subJSON: protocol.JSON, subMsgpack: protocol.Msgpack}

// client is a connection to a troupe server. The client must cost less than the server, or the bench
// would measure its client. So a client belongs to a single goroutine, and decodes output into the same
// memory again and again. (An rpc.Client never makes its caller wait, and has goroutines for that: with it, an
// echo took a quarter longer, and half as much CPU again.)
type client struct {
	*rpc.Conn
	free   func() bool // ends the wait for the bench's context
	server *program    // ends with the client; nil: others use the server, too
	writes int64       // of stdin
	output protocol.OutputNotification
}

// message is a message from the server. A message is valid until the next call of next.
type message struct {
	method  string // of a notification
	process string // of a notification about a process
	chunk   []byte // of process/output

	id      protocol.ID // of an answer
	payload []byte      // of an answer
}

// dial connects to url and requires the subprotocol sub.
func (b *bench) dial(url, sub string) (*client, error) {
	return b.dialWith(url, sub, transport.DialOptions{})
}

func (b *bench) dialWith(url, sub string, o transport.DialOptions) (*client, error) {
	codec, ok := codecs[sub]
	if !ok {
		return nil, skipped("this client does not speak " + sub)
	}
	conn, err := rpc.Dial(b.ctx, url, codec.Name(), &o)
	if errors.Is(err, rpc.ErrEncoding) {
		return nil, skipped(sub + " is not supported by this server")
	}
	if err != nil {
		return nil, err
	}
	c := &client{Conn: conn}
	c.free = context.AfterFunc(b.ctx, func() { conn.Close(transport.CloseGoingAway, "") })
	return c, nil
}

// session starts a server and opens a session.
func (b *bench) session(sub string) (*client, error) {
	s, err := b.serve()
	if err != nil {
		return nil, err
	}
	c, err := b.connect(s, sub)
	if err != nil {
		s.stop()
		return nil, err
	}
	c.server = s
	return c, nil
}

// connect opens a session.
func (b *bench) connect(s *program, sub string) (*client, error) {
	return b.connectWith(s, sub, transport.DialOptions{})
}

func (b *bench) connectWith(s *program, sub string, o transport.DialOptions) (*client, error) {
	c, err := b.dialWith(s.url, sub, o)
	if err != nil {
		return nil, err
	}
	if err := c.initialize(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *client) initialize() error {
	err := c.call(protocol.MethodInitialize, protocol.InitializeParams{ClientName: "bench"}, new(protocol.InitializeResult))
	if err != nil {
		return err
	}
	return c.Notify(protocol.MethodInitialized, nil)
}

// close ends the connection, and the server that session has started. A session ends with its server.
func (c *client) close() {
	c.free()
	c.Close(transport.CloseNormal, "")
	if c.server != nil {
		c.server.stop()
	}
}

// next reads a message. If the message is an error answer, next returns an error.
func (c *client) next() (message, error) {
	m, err := c.Next()
	if err != nil {
		return message{}, err
	}
	switch m.Kind {
	case protocol.Failure:
		return message{}, fmt.Errorf("request %s: %w", m.ID, m.Error)
	case protocol.Response:
		return message{id: m.ID, payload: m.Payload}, nil
	}
	switch m.Method {
	case protocol.NotifyOutput:
		o := &c.output
		err = c.Codec.Unmarshal(m.Payload, o)
		return message{method: m.Method, process: o.ProcessID, chunk: o.Chunk}, err
	case protocol.NotifyExited:
		var n protocol.ExitedNotification
		err = c.Codec.Unmarshal(m.Payload, &n)
		return message{method: m.Method, process: n.ProcessID}, err
	case protocol.NotifyClosed:
		var n protocol.ClosedNotification
		err = c.Codec.Unmarshal(m.Payload, &n)
		return message{method: m.Method, process: n.ProcessID}, err
	}
	return message{}, fmt.Errorf("unexpected %s: %s", m.Method, m.Payload)
}

// until drops messages until ok accepts a message.
func (c *client) until(ok func(message) bool) error {
	for {
		m, err := c.next()
		if err != nil || ok(m) {
			return err
		}
	}
}

// call sends a request, waits for the answer, and decodes the answer into result. call drops other
// messages.
func (c *client) call(method string, params, result any) error {
	id, err := c.Request(method, params)
	if err != nil {
		return err
	}
	for {
		m, err := c.next()
		if err != nil {
			return err
		}
		if m.id == id {
			return c.Codec.Unmarshal(m.payload, result)
		}
	}
}

// pipeline sends n requests, at most inFlight at a time. others gets the messages that are not answers.
func (c *client) pipeline(n, inFlight int, request func(i int) (method string, params any), others func(message) error) error {
	for sent, answered := 0, 0; answered < n; {
		if sent < n && sent-answered < inFlight {
			method, params := request(sent)
			if _, err := c.Request(method, params); err != nil {
				return err
			}
			sent++
			continue
		}
		m, err := c.next()
		switch {
		case err != nil:
		case m.method == "":
			answered++
		default:
			err = others(m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// closed drops messages until a process has closed.
func (c *client) closed(id string) error {
	return c.until(func(m message) bool { return m.method == protocol.NotifyClosed && m.process == id })
}

// startParams are the parameters of a program without input.
func startParams(id string, tty bool, argv ...string) protocol.ProcessStartParams {
	return protocol.ProcessStartParams{
		ProcessID: id, Argv: argv, Cwd: "file:///", TTY: tty,
		Env: map[string]string{"PATH": "/usr/bin:/bin"},
	}
}

// start starts a program and waits for the answer.
func (c *client) start(id string, tty bool, argv ...string) error {
	return c.call(protocol.MethodProcessStart, startParams(id, tty, argv...), new(protocol.ProcessStartResult))
}

// write writes to a process and does not wait for the answer.
func (c *client) write(id string, data []byte) error {
	c.writes++
	_, err := c.Request(protocol.MethodProcessWrite, &protocol.ProcessWriteParams{
		ProcessID: id, Chunk: data, WriteID: strconv.FormatInt(c.writes, 10),
	})
	return err
}
