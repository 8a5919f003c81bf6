package client

import (
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
func (c *Client) StartGroup(ctx context.Context, g *Group, cmds ...*Cmd) (err error) {
	if g == nil {
		return errors.New("client: StartGroup: the Group is nil: pass &Group{}, which gets an ID")
	}
	for _, cmd := range cmds {
		if cmd != nil && cmd.client != nil && cmd.client != c {
			return fmt.Errorf("client: StartGroup: the Cmd of %q is of another Client: make it with Command of this Client", cmd.Path)
		}
	}
	if g.ID == "" {
		g.ID = rand.Text()
	}
	params := &protocol.GroupStartParams{GroupID: g.ID, Strategy: g.Strategy, Intensity: g.Intensity, Processes: []protocol.ProcessStartParams{}, StartToken: rand.Text()}
	var registered []*process
	launched := false
	defer func() {
		if err == nil {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, p := range registered {
			p.fail(err)
			if !launched {
				p.forget()
			}
		}
	}()
	for _, cmd := range cmds {
		if err := cmd.prepare(); err != nil {
			return err
		}
	}
	for _, cmd := range cmds {
		p, err := cmd.params()
		if err != nil {
			return err
		}
		params.Processes = append(params.Processes, *p)
		if err := cmd.process.register(); err != nil {
			return err
		}
		registered = append(registered, cmd.process)
	}
	launched = true
	if err := c.launch(ctx, protocol.MethodGroupStart, params, registered...); err != nil {
		return err
	}
	for _, cmd := range cmds {
		if cmd.Stdin != nil {
			go cmd.process.feed(cmd.Stdin)
		}
	}
	return nil
}

// StopGroup ends the programs of a group, in reverse order of start, each with its KillGrace. StopGroup
// returns when all have ended.
func (c *Client) StopGroup(ctx context.Context, id string) error {
	return c.call(ctx, protocol.MethodGroupStop, protocol.GroupStopParams{GroupID: id, Repeatable: repeatable()}, nil)
}

// Groups lists the groups of the session.
func (c *Client) Groups(ctx context.Context) ([]protocol.GroupInfo, error) {
	var result protocol.GroupListResult
	err := c.call(ctx, protocol.MethodGroupList, protocol.Empty{}, &result)
	return result.Groups, err
}
