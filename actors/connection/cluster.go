package connection

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/connection/lists"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/protocol"
)

// nodeTime is how long other nodes of a cluster may take to answer.
const nodeTime = 2 * time.Second

// maxDrainMs is the longest drain, in milliseconds.
const maxDrainMs = uint64(365 * 24 * time.Hour / time.Millisecond)

// alone refuses a request about a cluster, if the server is alone.
func (c *connection) alone(in inbound) bool {
	if c.env.Cluster == nil {
		c.fail(in, protocol.Errorf(protocol.KindOff, protocol.CodeMethodNotFound, "%s is for a cluster, and this server is alone: troupe serve --cluster joins one", in.method))
	}
	return c.env.Cluster == nil
}

// listNodes answers cluster/nodes.
func (c *connection) listNodes(_ actor.Context, in inbound, _ struct{}) {
	if !c.alone(in) {
		c.respond(in, c.env.Cluster.Members())
	}
}

// drainNode answers cluster/drain.
func (c *connection) drainNode(ctx actor.Context, in inbound, p protocol.ClusterDrainParams) {
	if c.alone(in) {
		return
	}
	if who := c.about.Identity; who.Name != "" && !who.Operator {
		c.fail(in, protocol.Errorf(protocol.KindRole, protocol.CodeObserver, "%s is for operators: a line NAME operator in the file of --auth-roles-file makes one", in.method))
		return
	}
	if p.Node == "" || p.ForMs > maxDrainMs {
		c.fail(in, protocol.WrongParams("node is %q and forMs %d, expected the name of a node, and at most %d, which is a year", wireerr.Clip(p.Node), p.ForMs, maxDrainMs))
		return
	}
	c.env.Audit.Put(audit.NodeDrain{Who: c.who(), Node: audit.Text(p.Node), DurationMs: p.ForMs, Cancel: p.Cancel})
	c.askCluster(ctx, in, func(cluster context.Context) error { return c.env.Cluster.Drain(cluster, p) }, func(c *connection, err error) {
		if err != nil {
			c.fail(in, wireerr.From(err))
			return
		}
		c.respond(in, protocol.Empty{})
	})
}

// askCluster has other nodes asked, on a goroutine of its own, and then answers the request.
func (c *connection) askCluster(ctx actor.Context, in inbound, ask func(context.Context) error, answer func(*connection, error)) {
	c.token++
	token := c.token
	c.pending[token] = pending{asked: in.asked, server: true}
	self, root := ctx.Self(), ctx.ActorSystem().Root
	go func() {
		limit, cancel := context.WithTimeout(context.Background(), nodeTime)
		defer cancel()
		err := ask(limit)
		root.Send(self, goOn{func(c *connection, ctx actor.Context) {
			delete(c.pending, token)
			c.finished++
			answer(c, err)
			c.mayClose(ctx)
		}})
	}()
}

// askNodes asks the other nodes for their part of a session/list.
func (c *connection) askNodes(ctx actor.Context, ask lists.Ask[answerer]) {
	of, about, detail := c.env.Cluster, c.about, c.lists.now.Detail()
	self, root := ctx.Self(), ctx.ActorSystem().Root
	go func() {
		limit, cancel := context.WithTimeout(context.Background(), nodeTime)
		defer cancel()
		result := of.Sessions(limit, about, detail)
		root.Send(self, goOn{func(c *connection, ctx actor.Context) {
			c.lists.now.Answer(ask, lists.Elsewhere(result), nil)
			c.goOnListing(ctx)
		}})
	}()
}
