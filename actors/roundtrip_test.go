package actors_test

import (
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	messages "github.com/b6f6fdd7/troupe/actors/message"
)

// A round trip waits for each actor that every client needs. It ends with the troupe.
func TestRoundTrip(t *testing.T) {
	within := func(t *testing.T, what string, c <-chan struct{}) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(limit):
			t.Fatal(what)
		}
	}
	for _, name := range []string{"troupe", "troupe/connections", "troupe/registry", "troupe/sessions"} {
		t.Run(name, func(t *testing.T) {
			here, free, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
			troupe := start(t, actors.WithFaults(actors.Config{}, func(self *actor.PID, m any) {
				if _, ok := m.(messages.RoundTrip); ok && self.Id == name {
					close(here)
					<-free
				}
			}, nil))
			go func() {
				troupe.RoundTrip()
				close(over)
			}()
			within(t, "the round trip does not pass the actor", here)
			select {
			case <-over:
				t.Error("the round trip does not wait for the actor")
			default:
			}
			close(free)
			within(t, "the round trip does not end", over)
			if err := troupe.Kill(); err != nil {
				t.Fatal(err)
			}
			troupe.RoundTrip()
		})
	}
}
