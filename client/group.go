package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/b6f6fdd7/troupe/protocol"
)

// A Group says how programs run and end together (docs/PROTOCOL.md, Groups).
type Group struct {
	ID        string                 // unique among the session's groups; zero: a new random id
	Strategy  protocol.GroupStrategy // who runs again when a program of the group has ended; zero: nobody
	Intensity *protocol.Intensity    // limit on the restarts of all programs together; nil: 5 in a minute
}

// StartGroup starts the programs as a group, and returns when the server has accepted all of them. The
// server runs each program when its dependencies are ready. After StartGroup, each Cmd works like any
// other. If StartGroup fails, no program was started. If ctx ends first, programs started nevertheless
// are killed.
func (c *Client) StartGroup(ctx context.Context, g *Group, cmds ...*Cmd) error {
	if g == nil {
		return errors.New("client: StartGroup: the Group is nil: pass &Group{}, which gets an ID")
	}
	for _, cmd := range cmds {
		switch {
		case cmd == nil || cmd.client == nil:
			return errNoClient
		case cmd.client != c:
			return fmt.Errorf("client: StartGroup: the Cmd of %q is of another Client: make it with Command of this Client", cmd.Path)
		}
	}
	g.ID = cmp.Or(g.ID, rand.Text())
	return c.start(ctx, g, cmds...)
}

// StopGroup ends the programs of a group, in reverse order of start, each with its KillGrace. StopGroup
// returns when all have ended.
func (c *Client) StopGroup(ctx context.Context, id string) error {
	return c.call(ctx, protocol.MethodGroupStop, protocol.GroupStopParams{GroupID: id, Repeatable: repeatable()}, nil)
}

// Groups lists the groups of the session.
func (c *Client) Groups(ctx context.Context) ([]protocol.GroupInfo, error) {
	result, err := ask[protocol.GroupListResult](ctx, c, protocol.MethodGroupList, protocol.Empty{})
	return result.Groups, err
}
