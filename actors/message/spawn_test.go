package message

import (
	"runtime"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// ballast is an actor that uses memory.
type ballast [1 << 16]byte

func (*ballast) Receive(actor.Context) {}

// The memory of ended children comes back while their parent lives.
func TestForgetEnded(t *testing.T) {
	const children = 200
	system := actor.NewActorSystem()
	defer system.Shutdown()
	collected, ended := make(chan struct{}, children), make(chan struct{})
	parent := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Started:
			for range children {
				ctx.Spawn(actor.PropsFromProducer(func() actor.Actor {
					b := new(ballast)
					runtime.AddCleanup(b, func(int) { collected <- struct{}{} }, 0)
					return b
				}))
			}
			for _, pid := range ctx.Children() {
				ctx.Stop(pid)
			}
		case *actor.Terminated:
			ForgetEnded(ctx)
			if len(ctx.Children()) == 0 {
				close(ended)
			}
		}
	}))
	<-ended
	deadline := time.After(time.Minute)
	for n := range children {
		for left := true; left; {
			select {
			case <-collected:
				left = false
			case <-time.After(time.Millisecond):
				runtime.GC()
			case <-deadline:
				t.Fatalf("%d of %d ended children are still held", children-n, children)
			}
		}
	}
	system.Root.Stop(parent)
}
