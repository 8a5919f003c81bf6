package env

import (
	"fmt"
	"slices"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
)

// An actor gets a message that was sent to its name while protoactor still made the actor. The message comes after Started, and
// before later ones.
func TestMailboxBeforeStart(t *testing.T) {
	system := actor.NewActorSystem()
	defer system.Shutdown()
	got := make(chan string, 10)
	e := new(Env)
	props := e.Props(func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) {
			if _, stop := ctx.Message().(*actor.Stopping); !stop {
				got <- fmt.Sprintf("%T", ctx.Message())
			}
		})
	}, Contained, actor.WithOnInit(func(ctx actor.Context) {
		for _, m := range []any{int8(1), int16(2)} {
			system.Root.Send(actor.NewPID(ctx.Self().Address, ctx.Self().Id), m)
		}
	}))
	pid, err := system.Root.SpawnNamed(props, "early")
	if err != nil {
		t.Fatal(err)
	}
	system.Root.Send(pid, int32(3))
	var all []string
	for range 4 {
		all = append(all, <-got)
	}
	if want := []string{"*actor.Started", "int8", "int16", "int32"}; !slices.Equal(all, want) {
		t.Errorf("the actor got %v, want %v", all, want)
	}
	if err := system.Root.StopFuture(pid).Wait(); err != nil {
		t.Error(err)
	}
}
