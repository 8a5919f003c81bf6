package connection

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/protocol"
)

// watchServer handles server/watch.
func (c *connection) watchServer(_ actor.Context, in inbound, _ protocol.ServerWatchParams) {
	c.fail(in, protocol.Errorf(protocol.KindMethod, protocol.CodeMethodNotFound, "method %q is not implemented by this server", in.method))
}
