package actors

import (
	"math"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

func fromMillis(ms uint64) time.Duration {
	return time.Duration(min(ms, uint64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}

// after sends m to the actor itself, later.
func after(ctx actor.Context, d time.Duration, m any) *time.Timer {
	self, root := ctx.Self(), ctx.ActorSystem().Root
	return time.AfterFunc(d, func() { root.Send(self, m) })
}

func milliseconds(d time.Duration) uint64 { return uint64(max(d, 0) / time.Millisecond) }
