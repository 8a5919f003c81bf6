package client

import (
	"context"

	"github.com/b6f6fdd7/troupe/transport"
)

// InProcess is Dial for a troupe in the same program: nothing listens, and messages pass through
// memory. accept gets the other end of each connection, and must not block:
//
//	c, err := client.InProcess(ctx, func(conn transport.Conn) { troupe.Accept(conn) }, nil)
//
// In all other respects the client is the same. Several clients may use the same session one after the
// other, or a client beside observers. Options.Dialer and Options.JSON have no effect.
func InProcess(ctx context.Context, accept func(transport.Conn), o *Options) (*Client, error) {
	var own Options
	if o != nil {
		own = *o
	}
	own.Dialer = func(context.Context) (transport.Conn, error) {
		ours, theirs := transport.Pipe(transport.SubprotocolMsgpack)
		accept(theirs)
		return ours, nil
	}
	return Dial(ctx, "", &own)
}
