package session

import (
	"log/slog"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/session/lifetime"
	"github.com/b6f6fdd7/troupe/internal/estate"
	"github.com/b6f6fdd7/troupe/tests/support/testholder"
)

// No program starts from the state of a shell before the next server would know the state.
func TestStateIsKnown(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	h := testholder.New(t)
	open := func() *estate.Estate {
		e, err := estate.Open(h, h.Next(), 16<<20, log)
		if err != nil {
			t.Error(err)
		}
		return e
	}
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }))
	t.Cleanup(system.Shutdown)
	nobody := system.Root.Spawn(actor.PropsFromFunc(func(actor.Context) {}))
	r := newRecord(&env.Env{Config: config.Config{Log: log}.WithDefaults(), Estate: open()}, Options{
		ID: "s", Life: lifetime.New(time.Now(), lifetime.Limits{TTL: -1}), First: message.AttachRequest{Sender: nobody}, Registry: nobody,
	})
	it := system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return &session{r} }))
	known := make(chan int, 1)
	system.Root.Send(it, message.Captured{Known: func() {
		n := 0
		for range open().Names(prefix) {
			n++
		}
		known <- n
	}})
	if n := <-known; n != 1 {
		t.Errorf("the next server would know %d sessions", n)
	}
	system.Root.StopFuture(it).Wait()
}
