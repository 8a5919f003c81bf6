package env_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/supervision"
)

// A watcher gets one Gone: when the actor stops, while the actor stops, and when the actor had stopped before. It gets none
// of an actor that restarts.
func TestWatchIsAnsweredByGone(t *testing.T) {
	onGate(t, many(), func(t *testing.T, system *actor.ActorSystem, it *actor.PID, hold chan struct{}, _ *[]string) {
		var got []string
		watcher := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
			if m, ok := ctx.Message().(message.Gone); ok && m.Who.Equal(it) {
				got = append(got, "gone")
			}
		}))
		want := func(n int, when string) {
			t.Helper()
			synctest.Wait()
			if len(got) != n {
				t.Fatalf("%d Gone %s, want %d", len(got), when, n)
			}
		}
		watch := func() { system.Root.RequestWithCustomSender(it, message.Watch{}, watcher) }
		watch()
		watch()
		system.Root.Send(it, fail{})
		time.Sleep(time.Minute) // the actor restarts
		want(0, "after a restart")
		system.Root.Send(it, spawnChild{})
		synctest.Wait()
		system.Root.Stop(it)
		want(0, "while the actor waits for its child")
		watch()
		want(1, "for a Watch of a stopping actor")
		close(hold)
		want(2, "when the actor has stopped")
		watch()
		want(3, "for a Watch of a stopped actor")
		system.Root.StopFuture(watcher).Wait()
	})
}

// TestAfterSendsNothingToStoppedActors: protoactor would log a dead letter for each timer that outlives its actor.
func TestAfterSendsNothingToStoppedActors(t *testing.T) {
	onGate(t, new(supervision.Strategy), func(t *testing.T, system *actor.ActorSystem, _ *actor.PID, _ chan struct{}, _ *[]string) {
		var got []string
		type due struct{}
		timed := func(stops bool) *actor.PID {
			return system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
				switch ctx.Message().(type) {
				case *actor.Started:
					env.After(ctx, time.Second, due{})
					if stops {
						ctx.Stop(ctx.Self())
					}
				case due:
					got = append(got, "due")
				}
			}))
		}
		letters := system.EventStream.Subscribe(func(event any) {
			got = append(got, fmt.Sprintf("%T", event))
		})
		defer system.EventStream.Unsubscribe(letters)
		timed(true)
		lives := timed(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !slices.Equal(got, []string{"due"}) {
			t.Errorf("%q", got)
		}
		system.Root.StopFuture(lives).Wait()
	})
}
