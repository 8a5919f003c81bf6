package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/b6f6fdd7/troupe/transport"
)

// InProcess is Dial for a troupe in the same program: nothing listens, and messages pass through
// memory. accept gets the other end of each connection, and must not block:
//
//	c, err := client.InProcess(ctx, func(conn transport.Conn) { troupe.Accept(conn, conn.About()) }, nil)
//
// In all other respects the client is the same. Several clients may use the same session one after the
// other, or a client beside observers. Options.Dialer and Options.JSON have no effect. When the troupe stops,
// the session is gone (ErrSessionGone): no other troupe follows at the same place.
func InProcess(ctx context.Context, accept func(transport.Conn), o *Options) (*Client, error) {
	if accept == nil {
		return nil, errors.New("client: InProcess: accept is nil: pass a function that gives the connection to Troupe.Accept")
	}
	var own Options
	if o != nil {
		own = *o
	}
	own.Dialer = func(context.Context) (transport.Conn, error) {
		ours, theirs := transport.Pipe(transport.SubprotocolMsgpack)
		accept(theirs)
		return inProcess{ours}, nil
	}
	return Dial(ctx, "", &own)
}

// inProcess is a connection to a troupe in the same program.
type inProcess struct{ transport.Conn }

func (c inProcess) ReadMessage() ([]byte, error) {
	msg, err := c.Conn.ReadMessage()
	if closed, ok := errors.AsType[*transport.CloseError](err); ok && closed.Code == transport.CloseGoingAway {
		err = fmt.Errorf("%w: the troupe in this program has stopped: %w", ErrSessionGone, err)
	}
	return msg, err
}
