package env

import (
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/internal/estate"
)

// An actor with an outbox is heard only when its record is kept, also after a panic. Without an estate there is no outbox.
func TestOutbox(t *testing.T) {
	system := actor.NewActorSystem()
	defer system.Shutdown()
	e := &Env{Config: config.Config{Log: slog.New(slog.DiscardHandler)}.WithDefaults(), Workers: actor.NewDefaultDispatcher(1000)}
	if e.NewOutbox(nil) != nil {
		t.Error("there is an outbox without an estate")
	}
	done := false
	if (*Outbox)(nil).Then(func() { done = true }); !done {
		t.Error("no outbox lets a function wait")
	}
	e.Estate = new(estate.Estate)
	var mu sync.Mutex
	var log []string
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		log = append(log, what)
	}
	heard := make(chan struct{}, 100)
	listener := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if m, ok := ctx.Message().(string); ok {
			note("heard " + m)
			heard <- struct{}{}
		}
	}))
	o := e.NewOutbox(func() { note("kept") })
	pid := system.Root.Spawn(e.Props(func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) {
			if m, ok := ctx.Message().(string); ok {
				ctx.Send(listener, "first")
				o.Then(func() { note("then") })
				ctx.RequestWithCustomSender(listener, "second", ctx.Self())
				time.Sleep(time.Millisecond) // a message that did not wait would be heard
				note("does")
				if m == "panic" {
					panic(m)
				}
			}
		})
	}, Contained, o.Props))
	for m, times := range map[string]int{"fine": 1, "panic": maxTries} { // the guard hands a message again to the actor
		mu.Lock()
		log = nil
		mu.Unlock()
		system.Root.Send(pid, m)
		for range 2 * times {
			<-heard
		}
		mu.Lock()
		got := slices.Clone(log)
		mu.Unlock()
		if does := slices.Index(got, "does"); does < 0 || got[does+1] != "kept" || slices.Index(got, "heard first") < does || slices.Index(got, "then") < does {
			t.Errorf("%s: %q", m, got)
		}
		if slices.Index(got, "heard second") < slices.Index(got, "heard first") {
			t.Errorf("%s: out of order: %q", m, got)
		}
	}
}
