package process

import (
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/internal/quota"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A process has its place until its log is closed, and again while descendants live.
func TestPlaceOfDescendants(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		q := quota.New(quota.Limits{Processes: 1}, nil, nil, nil)
		places, err := q.Start("alice", 1, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		taken := func(want bool) {
			t.Helper()
			synctest.Wait()
			p, err := q.Start("alice", 1, time.Now())
			if (err != nil) != want {
				t.Errorf("taken: %v, want %v", err, want)
			}
			if err == nil {
				p[0].Leave()
			}
		}
		tree := make(chan struct{})
		pid, _, c := fakeProcessOf(protocol.ProcessStartParams{}, spawn, func(r *processRecord) { r.place = places[0] })
		c.Mu.Lock()
		c.Tree = tree
		c.Mu.Unlock()
		taken(true)
		c.End()
		taken(false)
		time.Sleep(placePause)
		taken(true)
		time.Sleep(time.Second)
		taken(true)
		close(tree)
		time.Sleep(placePause)
		taken(false)
		system.Root.StopFuture(pid).Wait()
		taken(false)
	})
}

// found is the answer to a search for descendants.
type found struct {
	empty bool
	err   error
}

// searched has a closed process with a place. The test answers each search. The function free checks for a second whether
// another process could start.
func searched(t *testing.T, test func(free func(want bool, when string), answers chan<- found, root *actor.RootContext, pid *actor.PID, c *fake.Child)) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		q := quota.New(quota.Limits{Processes: 1}, nil, nil, nil)
		places, _ := q.Start("alice", 1, time.Now())
		pid, _, c := fakeProcessOf(protocol.ProcessStartParams{}, spawn, func(r *processRecord) { r.place = places[0] })
		answers := make(chan found)
		defer close(answers)
		c.Search = func() (bool, error) {
			a := <-answers
			return a.empty, a.err
		}
		c.End()
		test(func(want bool, when string) {
			t.Helper()
			for range time.Second / placePause {
				synctest.Wait()
				p, err := q.Start("alice", 1, time.Now())
				if (err == nil) != want {
					t.Fatalf("%s: %v, want free: %v", when, err, want)
				}
				if err == nil {
					p[0].Leave()
				}
				time.Sleep(placePause)
			}
		}, answers, system.Root, pid, c)
	})
}

// Only descendants that a search has found take the place of a closed process again. While a search goes on, and when the
// answer is unknown, the place stays as it is.
func TestPlaceWhileASearchGoesOn(t *testing.T) {
	searched(t, func(free func(bool, string), answers chan<- found, _ *actor.RootContext, _ *actor.PID, _ *fake.Child) {
		free(true, "before the first answer")
		answers <- found{err: child.ErrSurvivors}
		free(true, "unknown")
		answers <- found{}
		free(false, "a descendant lives")
		answers <- found{err: child.ErrSurvivors}
		free(false, "unknown, after a descendant was found")
		answers <- found{empty: true}
		free(true, "no descendant lives")
	})
}

// A search that began before the tree was killed takes no place.
func TestPlaceWhileTheTreeIsKilled(t *testing.T) {
	searched(t, func(free func(bool, string), answers chan<- found, root *actor.RootContext, pid *actor.PID, c *fake.Child) {
		free(true, "before the first answer")
		tree := make(chan struct{})
		c.Tree = tree
		root.Send(pid, message.Request{Params: protocol.ProcessTerminateParams{Tree: true}})
		synctest.Wait()
		answers <- found{}
		free(true, "while the tree is killed")
		close(tree)
		free(true, "after the tree was killed")
	})
}

// A process that ends before its log was closed gives its place back.
func TestPlaceOfTheStopped(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		q := quota.New(quota.Limits{Processes: 1}, nil, nil, nil)
		places, _ := q.Start("alice", 1, time.Now())
		pid, _, _ := fakeProcessOf(protocol.ProcessStartParams{}, spawn, func(r *processRecord) { r.place = places[0] })
		system.Root.StopFuture(pid).Wait()
		synctest.Wait()
		if _, err := q.Start("alice", 1, time.Now()); err != nil {
			t.Error(err)
		}
	})
}

// A process whose start fails gives its place back before the session hears of it: the client may start another at once.
func TestPlaceOfAFailedStart(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		q := quota.New(quota.Limits{Processes: 1}, nil, nil, nil)
		places, _ := q.Start("alice", 1, time.Now())
		told := 0
		fakeProcessOf(protocol.ProcessStartParams{}, spawn, func(r *processRecord) {
			r.place = places[0]
			r.env.StartChild = func(_ child.Spec, _ *child.Intake, done func(child.Handle, error)) { done(nil, exec.ErrNotFound) }
			r.session, _ = system.ProcessRegistry.Add(hears(func(m any) {
				if _, ok := m.(message.ProcessStarted); !ok {
					return
				}
				told++
				if _, err := q.Start("alice", 1, time.Now()); err != nil {
					t.Error(err)
				}
			}), "session")
		})
		if told != 1 {
			t.Errorf("the session was told %d times", told)
		}
	})
}

// hears is called with each message before Send returns.
type hears func(message any)

func (h hears) SendUserMessage(_ *actor.PID, m any) { h(actor.UnwrapEnvelopeMessage(m)) }
func (hears) SendSystemMessage(*actor.PID, any)     {}
func (hears) Stop(*actor.PID)                       {}

// A refused process/restart leaves the place to the descendants of a closed process.
func TestPlaceAfterARefusedRestart(t *testing.T) {
	searched(t, func(free func(bool, string), answers chan<- found, root *actor.RootContext, pid *actor.PID, _ *fake.Child) {
		free(true, "before the first answer")
		answers <- found{}
		free(false, "a descendant lives")
		root.Send(pid, message.Request{Params: protocol.ProcessRestartParams{}})
		free(false, "after the refusal")
	})
}
