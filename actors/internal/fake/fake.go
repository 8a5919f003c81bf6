// Package fake runs tests of single actors in fake time, with a fake child.
package fake

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/protocol"
)

// TypeName returns the name of a message's type, without its package and with a lower-case
// first letter.
func TypeName(message any) string {
	name := fmt.Sprintf("%T", message)
	name = name[strings.LastIndexByte(name, '.')+1:]
	return strings.ToLower(name[:1]) + name[1:]
}

// Child is a child that is deaf: only SIGKILL ends it, and what it has written
// is behind what the test puts into its intake.
type Child struct {
	Mu     sync.Mutex
	Ended  bool
	polite int           // SIGTERMs
	Killed time.Duration // after birth; 0: not
	Born   time.Time
	Intake *child.Intake
	Size   protocol.Size
	Tree   chan struct{} // the rest of its tree is gone when this is closed; nil: there is none
}

func (c *Child) End() {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Ended {
		return
	}
	c.Ended, c.Killed = true, time.Since(c.Born)
	c.Intake.Exited(protocol.ExitStatus{ExitCode: 137})
	c.Intake.Closed()
}

func (c *Child) Signal(sig syscall.Signal) error {
	if sig == syscall.SIGKILL {
		c.End()
		return nil
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.polite++
	return nil
}

func (c *Child) Exited() bool {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.Ended
}

// Was is how often it was asked to end, and when it was killed.
func (c *Child) Was() (polite int, killed time.Duration) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.polite, c.Killed
}

func (c *Child) Kill() error { return c.Signal(syscall.SIGKILL) }

func (c *Child) KillTree(done func(error)) {
	c.End()
	go func() {
		if c.Tree != nil {
			<-c.Tree
		}
		done(nil)
	}()
}

func (c *Child) Finish(done func(error)) { c.KillTree(done) }

func (c *Child) PID() int { return 1 << 30 }

func (c *Child) Containment() child.Containment { return "fake" }

func (c *Child) Write(b []byte) (int, error) { return len(b), nil }

func (c *Child) CloseStdin() error { return nil }

func (c *Child) Resize(s protocol.Size) error { c.Size = s; return nil }

func (c *Child) Status() (st protocol.ExitStatus, ok bool) {
	return protocol.ExitStatus{ExitCode: 137}, c.Exited()
}

func (c *Child) Stopped() bool { return false }

func (c *Child) Usage(done func(*protocol.Usage)) { go done(nil) }

func (c *Child) Abandon() {}

func (c *Child) TreeEmpty() bool { return true }

func (c *Child) Release() error { return nil }

func (c *Child) StdinUnread() int64 { return 0 }

// Time runs a test in fake time, with an actor system. spawn spawns an actor that
// counts its messages; count is how many of a type there were.
func Time(t *testing.T, test func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, count func(message string) int)) {
	synctest.Test(t, func(t *testing.T) {
		quiet := slog.New(slog.DiscardHandler)
		system := actor.NewActorSystem(
			actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
			actor.WithDeadLetterThrottleInterval(10*time.Millisecond))
		var mu sync.Mutex
		seen := make(map[string]int)
		var spawned []*actor.PID
		test(t, system, func(produce actor.Producer) *actor.PID {
			pid := system.Root.Spawn(actor.PropsFromProducer(produce, actor.WithReceiverMiddleware(func(next actor.ReceiverFunc) actor.ReceiverFunc {
				return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
					mu.Lock()
					seen[TypeName(env.Message)]++
					mu.Unlock()
					next(ctx, env)
				}
			})))
			spawned = append(spawned, pid)
			return pid
		}, func(message string) int {
			mu.Lock()
			defer mu.Unlock()
			return seen[message]
		})
		for _, pid := range spawned {
			system.Root.StopFuture(pid).Wait()
		}
		system.Shutdown()
		time.Sleep(time.Minute) // what of its goroutines waits for a time
	})
}
