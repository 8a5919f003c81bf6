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
	"github.com/b6f6fdd7/troupe/protocol"
)

// A session forgets the requests of a client that has gone, except those that the client may repeat after a cut.
func TestRequestsOfTheGoneAreForgotten(t *testing.T) {
	gone, other := actor.NewPID("", "gone"), actor.NewPID("", "other")
	s := session{&sessionRecord{waiting: map[string][]request{
		"p-1": {{sender: gone, token: 1}, {sender: other, token: 2}, {sender: gone, token: 3}},
		"g-1": {{sender: gone, token: 4, repeats: protocol.GroupStopParams{}}, {sender: gone, token: 5}},
	}}}
	s.forget(nil, message.ViewerGone{PID: gone, Evicted: true})
	if n := len(s.waiting["p-1"]) + len(s.waiting["g-1"]); n != 5 {
		t.Errorf("%d requests wait, want 5: an evicted client still waits", n)
	}
	s.forget(nil, message.ViewerGone{PID: gone})
	var tokens []uint64
	for _, r := range append(s.waiting["p-1"], s.waiting["g-1"]...) {
		tokens = append(tokens, r.token)
	}
	if want := []uint64{2, 4}; !slices.Equal(tokens, want) {
		t.Errorf("the requests %v wait, want %v", tokens, want)
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
