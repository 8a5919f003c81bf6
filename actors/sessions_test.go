package actors

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

// The registry reads its list of sessions while the actor that made the list goes on.
func TestSessionListStaysAsItIs(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
		actor.WithDeadLetterThrottleInterval(10*time.Millisecond))
	defer system.Shutdown()
	troupe, err := Start(system, config.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer troupe.Shutdown(context.Background())
	ask := func(pid *actor.PID, m any) any {
		t.Helper()
		answer, err := system.Root.RequestFuture(pid, m, time.Minute).Result()
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	sessions := actor.NewPID(troupe.PID().Address, troupe.PID().Id+"/sessions")
	list := func() []*actor.PID { return ask(sessions, message.ListSessions{}).(message.SessionList).Supervisors }
	attached := make(chan struct{}, 3)
	owner := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if _, ok := ctx.Message().(message.Attached); ok {
			attached <- struct{}{}
		}
	}))
	for range 3 {
		system.Root.RequestWithCustomSender(troupe.PID(), message.Attach{}, owner)
		<-attached
	}
	before := list()
	first := actor.NewPID(before[0].Address, before[0].Id+"/"+message.SessionName)
	copied := slices.Clone(before)
	ask(first, message.Request{Params: protocol.SessionCloseParams{}})
	for deadline := time.Now().Add(time.Minute); len(list()) != 2 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
	if !slices.Equal(before, copied) {
		t.Errorf("the list was %v, and is %v", copied, before)
	}
}
