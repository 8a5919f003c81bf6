package process

import (
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// fakeParent is fakeProcess whose child has descendants, until the test closes tree.
func fakeParent(spawn func(actor.Producer) *actor.PID) (pid *actor.PID, record *processRecord, c *fake.Child, tree chan struct{}) {
	pid, record, c = fakeProcess(protocol.ProcessStartParams{}, spawn)
	tree = make(chan struct{})
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.Tree = tree
	return pid, record, c, tree
}

// A closed process forgets its child, with the files and the cgroup, once no descendant lives. The process
// still answers, and ends when its session does.
func TestClosedForgetsItsChild(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		pid, record, c, tree := fakeParent(spawn)
		has := func(want bool) {
			t.Helper()
			synctest.Wait()
			if has := record.run.handle != nil; has != want {
				t.Errorf("it has a child: %v, want %v", has, want)
			}
		}
		has(true)
		c.End()
		has(true)
		time.Sleep(time.Minute)
		has(true)
		close(tree)
		time.Sleep(treePause)
		has(false)

		replies := make(chan message.Reply, 2)
		client := spawn(func() actor.Actor {
			return actor.ReceiveFunc(func(ctx actor.Context) {
				if m, ok := ctx.Message().(message.Reply); ok {
					replies <- m
				}
			})
		})
		ask := func(params any) message.Reply {
			system.Root.RequestWithCustomSender(pid, message.Request{Params: params}, client)
			return <-replies
		}
		info, _ := ask(protocol.ProcessInfoParams{}).Result.(protocol.ProcessInfoResult)
		if info.Containment != "fake" || info.Status == nil || info.Status.ExitCode != 137 {
			t.Errorf("process/info: %+v", info)
		}
		read, _ := ask(protocol.ProcessReadParams{}).Result.(protocol.ProcessReadResult)
		if !read.Closed || read.ExitCode == nil || *read.ExitCode != 137 {
			t.Errorf("process/read: %+v", read)
		}
		if r := ask(protocol.ProcessTerminateParams{Tree: true}); r.Err != nil || r.Result != (protocol.ProcessTerminateResult{}) {
			t.Errorf("process/terminate: %+v", r)
		}
		system.Root.Send(pid, message.Stop{Reason: "test"})
		synctest.Wait()
		if _, lives := system.ProcessRegistry.Get(pid); lives {
			t.Error("it lives after Stop")
		}
	})
}

// A closed process keeps its child while its tree is being killed: the answer comes from the child.
func TestKilledKeepsItsChild(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		pid, record, c, tree := fakeParent(spawn)
		c.End()
		synctest.Wait()
		system.Root.Send(pid, message.Request{Params: protocol.ProcessTerminateParams{Tree: true}})
		synctest.Wait()
		handle := record.run.handle
		if handle == nil {
			t.Error("the child was forgotten while its tree lived")
		}
		close(tree)
		synctest.Wait()
		if record.run.handle != nil {
			t.Error("the child was not forgotten when its tree was gone")
		}
	})
}

// A closed process with afterEnd stays, until its session needs the place. Then its owner has as long to read the rest as the owner of any other.
func TestAfterEndGivesWay(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		owner := spawn(func() actor.Actor { return actor.ReceiveFunc(func(actor.Context) {}) })
		restart := &protocol.Restart{Policy: protocol.RestartTemporary, AfterEnd: true}
		pid, record, c := fakeProcessOf(protocol.ProcessStartParams{Restart: restart}, spawn, func(r *processRecord) {
			r.launch.Restart = &supervision.Restart{Policy: supervision.Temporary}
		})
		write(record, 100)
		system.Root.RequestWithCustomSender(pid, message.Subscribe{Now: true, Owner: true, Explicit: true}, owner)
		synctest.Wait()
		from := record.feed.Last()
		c.End()
		synctest.Wait()
		system.Root.RequestWithCustomSender(pid, message.Ack{From: from, To: record.feed.Last()}, owner)
		time.Sleep(time.Hour)
		synctest.Wait()
		if phase := record.life.Phase(); phase != life.Closed {
			t.Errorf("after an hour it is %v", phase)
		}
		system.Root.Send(pid, message.GiveWay{})
		time.Sleep(time.Minute)
		synctest.Wait()
		if phase := record.life.Phase(); phase != life.Retired {
			t.Errorf("it does not give way: it is %v", phase)
		}
	})
}

// Whoever names a stopped process keeps none of its memory.
func TestStoppedProcessIsCollected(t *testing.T) {
	record, err := newRecord(fake.Env(func() *fake.Child { return new(fake.Child) }), Options{Request: Request{
		Name:    "p-1",
		Params:  protocol.ProcessStartParams{ProcessID: "p", Argv: []string{"true"}, Cwd: "file:///"},
		Session: actor.NewPID("nonhost", "session"),
		Gauge:   new(message.Gauge),
	}})
	if err != nil {
		t.Fatal(err)
	}
	fake.CollectedOnceStopped(t, "a stopped process", record.request().Props, weak.Make(record))
}
