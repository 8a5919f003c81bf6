// Package greeting reads initialize, the first request of a client, without an actor: a gateway reads it before it chooses a node.
package greeting

import (
	"errors"

	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Greeting is an initialize.
type Greeting struct {
	protocol.InitializeParams
	Client Client // of a client that speaks a dialect; nil: the client speaks our wire
}

// Client is the params of a client of a dialect.
type Client interface {
	// Check returns why a server refuses the client, by its params and by what the transport knows; nil: the server does not.
	Check(about *identity.About) *protocol.Error
}

// Dialect is another wire, whose initialize has other params.
type Dialect interface {
	// Begins reports whether params of initialize are of the dialect.
	Begins(c protocol.Codec, params []byte) bool
	// Greeting decodes the params.
	Greeting(c protocol.Codec, params []byte, g *Greeting) *protocol.Error
	// Wrong returns the error of wrong params in the words of the dialect.
	Wrong(*protocol.Error) *protocol.Error
}

// Params decodes params of our wire.
func Params(c protocol.Codec, params []byte, g *Greeting) *protocol.Error {
	return asError(c.Unmarshal(params, &g.InitializeParams))
}

// Read reads the first frame of a client. The error answers the frame. d may be nil.
func Read(c protocol.Codec, frame []byte, about *identity.About, d Dialect) (g Greeting, err *protocol.Error) {
	m, wrong := c.Decode(frame)
	switch {
	case wrong != nil:
		return g, asError(wrong)
	case m.Kind != protocol.Request || m.Method != protocol.MethodInitialize:
		return g, protocol.Errorf(protocol.KindOrder, protocol.CodeInvalidRequest, "the first message of a client is not initialize")
	case d == nil || !d.Begins(c, m.Payload):
		err = Params(c, m.Payload, &g)
	default:
		if err = d.Greeting(c, m.Payload, &g); err != nil {
			err = d.Wrong(err)
		}
	}
	if err == nil {
		err = g.Check(about, d)
	}
	return g, err
}

// Check returns why a server refuses the greeting of a client, whatever sessions the server has; nil: the server does not. d is the dialect
// of the server; nil: there is none.
func (g *Greeting) Check(about *identity.About, d Dialect) *protocol.Error {
	if g.Client != nil {
		if err := g.Client.Check(about); err != nil {
			return err
		}
	}
	if g.Token == "" || about.ReadsToken {
		return nil
	}
	// A client may think that the token says who it is.
	err := protocol.WrongParams("token is only for length-prefixed frames on a socket: on a websocket send the header Authorization, and elsewhere no credential")
	if g.Client != nil {
		err = d.Wrong(err)
	}
	return err
}

func asError(err error) *protocol.Error {
	if err == nil {
		return nil
	}
	if wire, ok := errors.AsType[*protocol.Error](err); ok {
		return wire
	}
	return protocol.WrongParams("%v", err)
}
