// Package fake runs tests of single actors in fake time, with a fake child.
package fake

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/protocol"
)

// TypeName returns the name of a message's type, without its package and with a lower-case
// first letter.
func TypeName(message any) string {
	name := fmt.Sprintf("%T", message)
	name = name[strings.LastIndexByte(name, '.')+1:]
	return strings.ToLower(name[:1]) + name[1:]
}

// Child is a child.Handle without an OS process. Only SIGKILL ends a Child. Its exit enters the
// intake after everything that the test has put there.
type Child struct {
	Mu     sync.Mutex // guards Ended, Killed, polite and Stdin
	Ended  bool
	Killed time.Duration // from Born to SIGKILL; 0: not killed
	polite int           // signals other than SIGKILL
	Born   time.Time     // set by the test, before the first call
	Intake *child.Intake // gets the exit and the end of the streams
	Size   protocol.Size // the last size that Resize set
	Stdin  []byte        // everything that Write took
	Deaf   bool          // stdin is closed: Write fails. Set before the first write
	Tree   chan struct{} // closed by the test when the descendants are gone; nil: there are none
	// Search is what SearchTree does, on a goroutine for each call; nil: it asks TreeEmpty. Set before the end.
	Search func() (empty bool, err error)
}

// End ends the child with exit code 137. Repeating End does nothing.
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

// Signal counts sig, and ends the child if sig is SIGKILL.
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

// Exited reports whether the child has ended.
func (c *Child) Exited() bool {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.Ended
}

// Was returns how many signals other than SIGKILL the child got, and how long after Born SIGKILL came.
func (c *Child) Was() (polite int, killed time.Duration) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.polite, c.Killed
}

// Kill sends SIGKILL.
func (c *Child) Kill() error { return c.Signal(syscall.SIGKILL) }

// KillTree ends the child, and calls done once Tree is closed.
func (c *Child) KillTree(done func(error)) {
	c.End()
	go func() {
		if c.Tree != nil {
			<-c.Tree
		}
		done(nil)
	}()
}

// Finish is KillTree.
func (c *Child) Finish(done func(error)) { c.KillTree(done) }

// PID returns a pid that no process has.
func (c *Child) PID() int { return 1 << 30 }

// Containment returns a name that no real containment has.
func (c *Child) Containment() child.Containment { return "fake" }

// WriteAs is Write.
func (c *Child) WriteAs(_ [16]byte, p []byte) (n int, err error) { return c.Write(p) }

// Write takes all of b.
func (c *Child) Write(b []byte) (int, error) {
	if c.Deaf {
		return 0, syscall.EPIPE
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.Stdin = append(c.Stdin, b...)
	return len(b), nil
}

// CloseStdin does nothing.
func (c *Child) CloseStdin() error { return nil }

// Resize records the size.
func (c *Child) Resize(s protocol.Size) error { c.Size = s; return nil }

// Status returns exit code 137; ok is false before the end.
func (c *Child) Status() (st protocol.ExitStatus, ok bool) {
	return protocol.ExitStatus{ExitCode: 137}, c.Exited()
}

// Stopped reports false: no signal stops the child.
func (c *Child) Stopped() bool { return false }

// Usage calls done with nil: the usage is unknown.
func (c *Child) Usage(_ bool, done func(*protocol.Usage)) { go done(nil) }

// Abandon does nothing: the child has no streams.
func (c *Child) Abandon() {}

// TreeEmpty reports whether the descendants are gone.
func (c *Child) TreeEmpty() bool {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	select {
	case <-c.Tree:
		return true
	default:
		return c.Tree == nil
	}
}

// SearchTree calls done with the result of Search; of TreeEmpty if Search is nil.
func (c *Child) SearchTree(done func(empty bool, err error)) {
	go func() {
		if c.Search == nil {
			done(c.TreeEmpty(), nil)
			return
		}
		done(c.Search())
	}()
}

// Release does nothing.
func (c *Child) Release() error { return nil }

// Sandbox returns "".
func (c *Child) Sandbox() (name, level string) { return "", "" }

// StdinUnread returns 0.
func (c *Child) StdinUnread() int64 { return 0 }

// Env returns an environment without a log, a budget and a Host: each child that an actor starts is the
// next one. The server's grace is 0, because a Child ends with SIGKILL alone.
func Env(next func() *Child) *env.Env {
	return &env.Env{
		Config:       config.Config{Log: slog.New(slog.DiscardHandler), KillGrace: -1}.WithDefaults(),
		OutputBudget: budget.NewOutput(0, func() {}),
		StartChild: func(_ child.Spec, in *child.Intake, done func(child.Handle, error)) {
			c := next()
			c.Intake = in
			done(c, nil)
		},
	}
}

// LogsUnknown checks that an actor logs a message without a case in its Receive, because the sender made a
// mistake, and that the actor logs nothing before.
func LogsUnknown(t *testing.T, produce func(*env.Env) actor.Actor) {
	Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		var log bytes.Buffer // slog locks the buffer, and the test reads when all is quiet
		e := &env.Env{Config: config.Config{Log: slog.New(slog.NewTextHandler(&log, nil))}.WithDefaults()}
		pid := spawn(func() actor.Actor { return produce(e) })
		synctest.Wait()
		if log.Len() > 0 {
			t.Fatalf("at the start: %s", &log)
		}
		system.Root.Send(pid, "nobody knows this")
		synctest.Wait()
		if !strings.Contains(log.String(), "nobody knows this") {
			t.Errorf("the log says %q", &log)
		}
	})
}

// Time runs a test in fake time, with an actor system. spawn spawns an actor whose messages are
// counted; count returns how many messages of a type (see TypeName) all spawned actors got.
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
		time.Sleep(time.Minute) // goroutines of the system that sleep end by then
	})
}

// Collected waits until the garbage collector has freed the memory of held. what names the memory.
func Collected[T any](t *testing.T, what string, held weak.Pointer[T]) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); held.Value() != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for the garbage collector to free %s", what)
		}
		runtime.GC()
	}
}

// CollectedOnceStopped spawns an actor, stops it, and waits until the garbage collector has freed the memory of held, although somebody
// still has a PID of the actor. what names the memory.
func CollectedOnceStopped[T any](t *testing.T, what string, props *actor.Props, held weak.Pointer[T]) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }))
	defer system.Shutdown()
	self := system.Root.Spawn(props)
	theirs := actor.NewPID(self.Address, self.Id) // the actor may use the PID self, and protoactor then notices the end
	if err := system.Root.StopFuture(theirs).Wait(); err != nil {
		t.Fatal(err)
	}
	Collected(t, what, held)
	runtime.KeepAlive(theirs)
}
