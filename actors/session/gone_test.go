package session

import (
	"log/slog"
	"slices"
	"testing"
	"time"
	"weak"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/session/lifetime"
	"github.com/b6f6fdd7/troupe/actors/session/members"
)

// A session forgets the requests of a client that has gone, even before the start has an answer.
func TestStartsOfTheGoneAreForgotten(t *testing.T) {
	gone, other := actor.NewPID("", "gone"), actor.NewPID("", "other")
	asked := func() []request {
		return []request{{Sender: gone, Token: 1}, {Sender: other, Token: 2}, {Sender: gone, Token: 3}}
	}
	p, g := &members.Process{Asked: asked()}, &group{asked: asked()}
	s := session{&sessionRecord{groups: map[string]*group{"g-1": g}}}
	s.processes.Add(p)
	s.forget(nil, message.ViewerGone{PID: gone})
	if want := []request{{Sender: other, Token: 2}}; !slices.Equal(p.Asked, want) || !slices.Equal(g.asked, want) {
		t.Errorf("a process and a group are asked for by %v and %v, want %v", p.Asked, g.asked, want)
	}
}

// Whoever names a stopped session keeps none of its memory.
func TestStoppedSessionIsCollected(t *testing.T) {
	life := lifetime.New(time.Now(), lifetime.Limits{})
	nobody := actor.NewPID("nonhost", "nobody")
	request := New(&env.Env{Config: config.Config{Log: slog.New(slog.DiscardHandler)}.WithDefaults()}, Options{
		ID: "s", Life: life, First: message.AttachRequest{Sender: nobody}, Registry: nobody,
	})
	fake.CollectedOnceStopped(t, "a stopped session", request.Props, weak.Make(life))
}
