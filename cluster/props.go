package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/b6f6fdd7/troupe/cluster/proxy"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/internal/nodeid"
	"github.com/b6f6fdd7/troupe/transport"
)

// A Host is a program whose actors use sessions of the cluster.
type Host struct {
	Identity identity.Identity // whose sessions they are, and reach; zero: those without an identity
	Wish     Wish              // for the nodes of new sessions
}

// Props returns the Props of an actor that behaves as that of actors.Troupe.PID does, for the sessions of all nodes. Where a session is, no message shows.
// Package proxy documents the differences.
func (c *Cluster) Props(h Host) *actor.Props {
	about := identity.About{Transport: "actors", Identity: h.Identity}
	return proxy.New(proxy.Options{Log: c.o.Log, Dial: func(ctx context.Context, session string) (transport.Conn, error) {
		return c.connect(ctx, session, about, h.Wish)
	}})
}

// connect opens a connection to the node of a session, or to one for a new session.
func (c *Cluster) connect(ctx context.Context, session string, about identity.About, w Wish) (transport.Conn, error) {
	if session != "" {
		node, why := c.nodeFor(nodeid.Of(session))
		if why != "" {
			return nil, errors.New(why)
		}
		return c.connectTo(ctx, node, about, false)
	}
	order, wrong := c.choose(w)
	if wrong != nil {
		return nil, wrong
	}
	var failed error
	for _, node := range order {
		conn, err := c.connectTo(ctx, node, about, true)
		if err == nil {
			c.sent(node.ID)
			return conn, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, fmt.Errorf("no node with room answered: %w", failed)
}

// connectTo opens a connection to a node. Without an id, and for this node, the connection is to the server of this process.
func (c *Cluster) connectTo(ctx context.Context, node Node, about identity.About, opens bool) (transport.Conn, error) {
	if node.ID == "" || node.ID == c.id {
		ours, theirs := transport.Pipe(transport.SubprotocolMsgpack)
		c.own.Accept(theirs, about)
		return ours, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	return c.open(ctx, node, introduction{Remote: "actors of " + c.o.Name, About: about, Opens: opens})
}
