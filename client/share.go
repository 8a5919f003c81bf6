package client

import (
	"context"
	"fmt"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// ShareOptions are the options of Client.Share.
type ShareOptions struct {
	// Types lets guests write to stdin and resize terminals. Otherwise guests only watch.
	Types bool
	// ExpiresIn is how long the share lasts. Zero: an hour, or the server's maximum if that is less.
	ExpiresIn time.Duration
	// Name is for listings.
	Name string
}

// Share makes a token with which somebody else watches this session, or types in it. The server must ask
// for credentials. A guest passes the token to Dial in Options.Token; the guest needs neither the id of the
// session nor a credential of its own. The token works until the share expires, Unshare ends it, or the
// session ends. Nobody can get the token again: if the connection breaks before the answer, Shares may list
// a share whose token nobody has.
func (c *Client) Share(ctx context.Context, o *ShareOptions) (protocol.SessionShareResult, error) {
	params := protocol.SessionShareParams{Access: protocol.AccessRead}
	if o != nil {
		params.Name = o.Name
		if o.Types {
			params.Access = protocol.AccessType
		}
		if o.ExpiresIn < 0 {
			return protocol.SessionShareResult{}, fmt.Errorf("client: ShareOptions.ExpiresIn is %v: choose a positive time, or zero for the default", o.ExpiresIn)
		}
		if o.ExpiresIn > 0 {
			params.ExpiresInMs = new(millis(o.ExpiresIn))
		}
	}
	return ask[protocol.SessionShareResult](ctx, c, protocol.MethodSessionShare, params)
}

// Shares lists the shares of the session, the oldest first.
func (c *Client) Shares(ctx context.Context) ([]protocol.ShareInfo, error) {
	result, err := ask[protocol.SessionSharesResult](ctx, c, protocol.MethodSessionShares, protocol.Empty{})
	return result.Shares, err
}

// Unshare ends a share, and cuts its guests off at once. A share that has ended already is no error.
func (c *Client) Unshare(ctx context.Context, shareID string) error {
	return c.call(ctx, protocol.MethodSessionUnshare, protocol.SessionUnshareParams{ShareID: shareID}, nil)
}
