// Package rpc is a raw client of the wire, for programs that test or measure a server. Package rpc hides nothing: it resumes no session, sorts no
// events, and drops no repeats. It works with our server and with the peer's server.
//
// A Conn belongs to the goroutine that uses it. A Client adds goroutines, so that neither its callers nor its reading wait for a slow server.
package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// ErrEncoding means that the server does not speak the encoding, or that there is no such encoding.
var ErrEncoding = errors.New("this encoding is not spoken")

// A Conn is a connection. A single goroutine sends, and a single goroutine calls Next.
type Conn struct {
	transport.Conn
	Codec protocol.Codec

	token  string // for initialize, at a socket of frames
	lastID int64
	frame  []byte // the last message of Request or Notify
}

// Dial connects to a URL as transport.Dial does, and sends no message. encoding is json or msgpack; the peer's server speaks JSON only. o may
// be nil; Dial sets Subprotocols itself. At unix+frames://PATH, Client.Initialize sends the bearer token of o.Header. The caller calls Close.
func Dial(ctx context.Context, url, encoding string, o *transport.DialOptions) (*Conn, error) {
	var t transport.DialOptions
	if o != nil {
		t = *o
	}
	c := new(Conn)
	switch encoding {
	case protocol.JSON.Name():
		c.Codec, t.Subprotocols = protocol.JSON, []string{transport.SubprotocolJSON}
	case protocol.Msgpack.Name():
		c.Codec, t.Subprotocols = protocol.Msgpack, []string{transport.SubprotocolMsgpack}
	default:
		return nil, fmt.Errorf("unknown encoding %q: use %s or %s: %w", encoding, protocol.JSON.Name(), protocol.Msgpack.Name(), ErrEncoding)
	}
	if strings.HasPrefix(url, "unix+frames://") {
		c.token, _ = strings.CutPrefix(t.Header.Get("Authorization"), "Bearer ")
	}
	var err error
	if c.Conn, err = transport.Dial(ctx, url, &t); err != nil {
		return nil, err
	}
	if c.Codec == protocol.Msgpack && c.Subprotocol() != transport.SubprotocolMsgpack {
		c.Close(transport.CloseNormal, "")
		return nil, fmt.Errorf("the server at %s does not speak msgpack: use the encoding json: %w", url, ErrEncoding)
	}
	return c, nil
}

// Send sends a message, as it is, in the opcode of the encoding.
func (c *Conn) Send(frame []byte) error { return c.WriteMessage(frame, c.Codec.Binary()) }

// Request sends a request and does not wait for its answer.
func (c *Conn) Request(method string, params any) (id protocol.ID, err error) {
	c.lastID++
	id = protocol.IntID(c.lastID)
	if c.frame, err = c.Codec.AppendRequest(c.frame[:0], id, method, params); err != nil {
		return id, err
	}
	return id, c.Send(c.frame)
}

// Notify sends a notification.
func (c *Conn) Notify(method string, params any) (err error) {
	if c.frame, err = c.Codec.AppendNotification(c.frame[:0], method, params); err != nil {
		return err
	}
	return c.Send(c.frame)
}

// Next returns the next message of the server. It is valid until the next call of Next.
func (c *Conn) Next() (protocol.Message, error) {
	frame, err := c.ReadMessage()
	if err != nil {
		return protocol.Message{}, err
	}
	return c.decode(frame)
}

func (c *Conn) decode(frame []byte) (protocol.Message, error) {
	m, err := c.Codec.Decode(frame)
	if err != nil {
		return m, &ViolationError{fmt.Sprintf("a message of %d bytes is not readable: %v", len(frame), err)}
	}
	return m, nil
}

// A ViolationError reports a forbidden message of the server.
type ViolationError struct{ What string }

func (e *ViolationError) Error() string { return "the server broke the protocol: " + e.What }
