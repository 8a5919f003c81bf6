package env_test

import (
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// closedConn counts how often it is closed.
type closedConn struct {
	message.Conn
	closed atomic.Int64
}

func (c *closedConn) Close(int, string) error { c.closed.Add(1); return nil }

// Messages to the actors of these tests.
type (
	spawnChild struct{}
	wait       struct{ until chan struct{} } // block in Receive
	fail       struct{}                      // is not among those received
	stumble    struct{}                      // fails, too
	// ask is answered with a failed, and counts how often it was given back.
	ask    struct{ gaveBack *atomic.Int64 }
	failed struct{ text string }
)

func (ask) Failed(err *protocol.Error) any { return failed{err.Message} }
func (ask) Unheard(*actor.PID) any         { return nil }
func (m ask) GiveBack()                    { m.gaveBack.Add(1) }

// parent spawns a child for each spawnChild. The child takes until hold is closed to stop.
type parent struct {
	hold     chan struct{}
	received *[]string // what it got, in order
}

func (p parent) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started, *actor.Restarting:
		return
	case spawnChild:
		ctx.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
			if _, ok := ctx.Message().(*actor.Stopping); ok {
				<-p.hold
			}
		}))
	case wait:
		<-m.until
	case fail:
		panic("as it was told")
	case stumble, ask, message.Connect:
		*p.received = append(*p.received, fmt.Sprintf("%T", ctx.Message()))
		panic("as it was told")
	}
	*p.received = append(*p.received, fmt.Sprintf("%T", ctx.Message()))
}

// onGate runs a test in fake time with an actor that is made as those of the tree are.
func onGate(t *testing.T, strategy *supervision.Strategy, test func(t *testing.T, system *actor.ActorSystem, it *actor.PID, hold chan struct{}, received *[]string)) {
	synctest.Test(t, func(t *testing.T) {
		quiet := slog.New(slog.DiscardHandler)
		system := actor.NewActorSystem(
			actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
			actor.WithDeadLetterThrottleInterval(10*time.Millisecond))
		strategy.Log = quiet
		s := &env.Env{Config: config.Config{Log: quiet}.WithDefaults(), Strategy: strategy}
		hold, received := make(chan struct{}), new([]string)
		spawned := make(chan *actor.PID, 1)
		top := system.Root.Spawn(s.Props(func() actor.Actor {
			return actor.ReceiveFunc(func(ctx actor.Context) {
				if _, ok := ctx.Message().(*actor.Started); ok {
					spawned <- ctx.Spawn(s.Props(func() actor.Actor { return parent{hold, received} }, env.Escalated))
				}
			})
		}, env.Contained))
		end := s.WatchDeadLetters(system, top)
		test(t, system, <-spawned, hold, received)
		if err := system.Root.StopFuture(top).Wait(); err != nil {
			t.Errorf("stop what is above: %v", err)
		}
		end()
		system.Shutdown()
		time.Sleep(time.Minute) // what of its goroutines waits for a time
	})
}

// unanswered sends an actor what it should not handle, and returns a function that says whether
// all of it was answered and given back.
func unanswered(t *testing.T, system *actor.ActorSystem, it *actor.PID) (check func()) {
	var answers []message.Reply
	sender := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if m, ok := ctx.Message().(message.Reply); ok {
			answers = append(answers, m)
		}
	}))
	conn := new(closedConn)
	system.Root.Send(it, spawnChild{})
	system.Root.RequestWithCustomSender(it, message.Request{Token: 1, Params: message.SessionInfoRequest{}}, sender)
	system.Root.RequestWithCustomSender(it, message.Attach{Token: 2, SessionID: "s"}, sender)
	system.Root.Send(it, message.Connect{Conn: conn})
	return func() {
		t.Helper()
		synctest.Wait()
		var tokens []uint64
		for _, m := range answers {
			tokens = append(tokens, m.Token)
			if m.Err == nil || m.Err.Code != protocol.CodeInvalidRequest {
				t.Errorf("answered with %+v", m)
			}
		}
		if slices.Sort(tokens); !slices.Equal(tokens, []uint64{1, 2}) || conn.closed.Load() != 1 {
			t.Errorf("requests %v of 1 and 2 were answered, the connection was closed %d times", tokens, conn.closed.Load())
		}
		system.Root.StopFuture(sender).Wait()
	}
}

func wantReceived(t *testing.T, received *[]string, want ...string) {
	t.Helper()
	synctest.Wait()
	if !slices.Equal(*received, want) {
		t.Errorf("it received %v, want %v", *received, want)
	}
}

// An actor that waits for its children to stop begins nothing: a child spawned then would be
// stopped by nobody, and its parent would wait for it for ever.
func TestNothingBeginsWhileStopping(t *testing.T) {
	onGate(t, new(supervision.Strategy), func(t *testing.T, system *actor.ActorSystem, it *actor.PID, hold chan struct{}, received *[]string) {
		system.Root.Send(it, spawnChild{})
		synctest.Wait()
		system.Root.Stop(it)
		synctest.Wait()
		unanswered(t, system, it)()
		wantReceived(t, received, "env_test.spawnChild", "*actor.Stopping")
		close(hold)
		wantReceived(t, received, "env_test.spawnChild", "*actor.Stopping", "*actor.Terminated", "*actor.Stopped")
	})
}

// What is in the mailbox of an actor that stops is answered and given back.
func TestQueuedAtTheEnd(t *testing.T) {
	onGate(t, new(supervision.Strategy), func(t *testing.T, system *actor.ActorSystem, it *actor.PID, _ chan struct{}, received *[]string) {
		until := make(chan struct{})
		system.Root.Send(it, wait{until})
		synctest.Wait()
		check := unanswered(t, system, it)
		system.Root.Stop(it)
		close(until)
		check()
		wantReceived(t, received, "env_test.wait", "*actor.Stopping", "*actor.Stopped")
	})
}

// The same behind a message over which the actor failed for good: its mailbox is suspended.
func TestQueuedBehindAFailure(t *testing.T) {
	onGate(t, new(supervision.Strategy), func(t *testing.T, system *actor.ActorSystem, it *actor.PID, _ chan struct{}, received *[]string) {
		until := make(chan struct{})
		system.Root.Send(it, wait{until})
		system.Root.Send(it, fail{})
		check := unanswered(t, system, it)
		close(until)
		check()
		wantReceived(t, received, "env_test.wait", "*actor.Stopping", "*actor.Stopped")
	})
}

// What is sent to an actor that has gone is answered and given back.
func TestSentToTheDead(t *testing.T) {
	onGate(t, new(supervision.Strategy), func(t *testing.T, system *actor.ActorSystem, it *actor.PID, _ chan struct{}, received *[]string) {
		system.Root.Stop(it)
		synctest.Wait()
		unanswered(t, system, it)()
	})
}

// A troupe of the same name on another machine is none of ours.
func TestSentToAnotherMachine(t *testing.T) {
	onGate(t, new(supervision.Strategy), func(t *testing.T, system *actor.ActorSystem, it *actor.PID, _ chan struct{}, received *[]string) {
		answered := false
		sender := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
			_, reply := ctx.Message().(message.Reply)
			answered = answered || reply
		}))
		system.Root.RequestWithCustomSender(actor.NewPID("elsewhere:1", it.Id), message.Attach{Token: 1}, sender)
		synctest.Wait()
		if answered {
			t.Error("this troupe has answered for another one")
		}
		system.Root.StopFuture(sender).Wait()
	})
}

// An actor that fails, and is to stop before it is restarted, stops.
func TestNotRestartedOnceStopping(t *testing.T) {
	later := &supervision.Strategy{
		Backoff:   supervision.Backoff{Initial: time.Second, Max: time.Second, Factor: 1},
		Intensity: supervision.Intensity{Restarts: 5, Period: time.Minute},
	}
	onGate(t, later, func(t *testing.T, system *actor.ActorSystem, it *actor.PID, hold chan struct{}, received *[]string) {
		system.Root.Send(it, spawnChild{})
		system.Root.Send(it, fail{})
		check := unanswered(t, system, it)
		synctest.Wait()
		system.Root.Stop(it)
		check()
		time.Sleep(2 * time.Second) // for the restart, while its child has yet to stop
		close(hold)
		wantReceived(t, received, "env_test.spawnChild", "*actor.Stopping", "*actor.Terminated", "*actor.Stopped")
		if _, there := system.ProcessRegistry.GetLocal(it.Id); there {
			t.Error("it is still there")
		}
	})
}

// many restarts an actor at once, more often than a message is tried.
func many() *supervision.Strategy {
	return &supervision.Strategy{Intensity: supervision.Intensity{Restarts: 100, Period: time.Minute}}
}

// A request over which its actor fails is answered, and gives back its resources. The actor does not get the
// request again: the sender may repeat it.
func TestFailedRequestIsAnswered(t *testing.T) {
	onGate(t, many(), func(t *testing.T, system *actor.ActorSystem, it *actor.PID, _ chan struct{}, received *[]string) {
		var answers []failed
		sender := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
			if m, ok := ctx.Message().(failed); ok {
				answers = append(answers, m)
			}
		}))
		gaveBack := new(atomic.Int64)
		system.Root.RequestWithCustomSender(it, ask{gaveBack}, sender)
		system.Root.Send(it, ask{gaveBack}) // nobody to answer
		wantReceived(t, received, "env_test.ask", "env_test.ask")
		want := []failed{{"internal error in env_test.ask; the request may or may not have taken effect, the session goes on"}}
		if !slices.Equal(answers, want) || gaveBack.Load() != 2 {
			t.Errorf("answered with %v, want %v; given back %d times, want 2", answers, want, gaveBack.Load())
		}
		system.Root.StopFuture(sender).Wait()
	})
}

// A message that is no request comes again, after the queued messages, and five times at most.
func TestFailedMessageComesAgain(t *testing.T) {
	onGate(t, many(), func(t *testing.T, system *actor.ActorSystem, it *actor.PID, _ chan struct{}, received *[]string) {
		until := make(chan struct{})
		system.Root.Send(it, wait{until})
		system.Root.Send(it, stumble{})
		system.Root.Send(it, wait{until})
		close(until)
		wantReceived(t, received, "env_test.wait", "env_test.stumble", "env_test.wait",
			"env_test.stumble", "env_test.stumble", "env_test.stumble", "env_test.stumble")
	})
}

// A connection whose actor could not be spawned is closed.
func TestFailedConnectionIsClosed(t *testing.T) {
	onGate(t, many(), func(t *testing.T, system *actor.ActorSystem, it *actor.PID, _ chan struct{}, received *[]string) {
		conn := new(closedConn)
		system.Root.Send(it, message.Connect{Conn: conn})
		wantReceived(t, received, "message.Connect")
		if n := conn.closed.Load(); n != 1 {
			t.Errorf("closed %d times, want once", n)
		}
	})
}

// heavy is an actor that does nothing, and takes 1 KiB.
type heavy [1 << 10]byte

func (*heavy) Receive(actor.Context) {}

// The PID of a stopped actor keeps nothing of the actor, although protoactor caches a pointer to the actor in the PID. A message that
// came too late for the queue of the actor is undelivered, and a watcher hears of the end.
func TestStoppedActorIsCollected(t *testing.T) {
	system := actor.NewActorSystem()
	defer system.Shutdown()
	e := new(env.Env)
	var held weak.Pointer[heavy]
	pid := system.Root.Spawn(e.Props(func() actor.Actor {
		a := new(heavy)
		held = weak.Make(a)
		return a
	}, env.Contained))
	system.Root.Send(pid, int8(1))
	late, _ := system.ProcessRegistry.Get(pid) // as a sender that found the actor just before its end
	if err := system.Root.StopFuture(pid).Wait(); err != nil {
		t.Fatal(err)
	}
	fake.Collected(t, "a stopped actor", held)

	gaveBack, ended := new(atomic.Int64), make(chan *actor.PID, 1)
	watcher := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if m, ok := ctx.Message().(*actor.Terminated); ok {
			ended <- m.Who
		}
	}))
	late.SendUserMessage(pid, ask{gaveBack})
	late.SendSystemMessage(pid, &actor.Watch{Watcher: watcher})
	if who := <-ended; !who.Equal(pid) || gaveBack.Load() != 1 {
		t.Errorf("%v has ended, want %v; a request was given back %d times, want once", who, pid, gaveBack.Load())
	}
	system.Root.StopFuture(watcher).Wait()
}
