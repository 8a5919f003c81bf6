package client

import (
	"context"

	"github.com/b6f6fdd7/troupe/transport"
)

// InProcess is Dial for a troupe of this program: nothing is listened at, and what is said
// passes through memory. accept takes the other end of a connection, and must not block:
//
//	c, err := client.InProcess(ctx, func(conn transport.Conn) { troupe.Accept(conn) }, nil)
//
// The client is the same in everything else. Two may have the same session one after the
// other, or one beside observers. Options.Dialer and JSON are not used.
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
