package process

import (
	"testing"
	"testing/synctest"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/protocol"
)

// When an owner reads acknowledged output again, the output is charged to the budget only until
// the owner has it: no acknowledgement follows, and somebody waits for the budget.
func TestHistoryReadAgainGivesWay(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		const max = 256 << 10
		var pid *actor.PID
		budget := budget.NewOutput(max, func() { system.Root.Send(pid, message.BudgetLow{}) })
		pid, record, c := fakeProcessOf(protocol.ProcessStartParams{}, spawn, func(r *processRecord) { r.env.OutputBudget = budget })
		owner := spawn(func() actor.Actor { return actor.ReceiveFunc(func(actor.Context) {}) })
		tell := func(m any) {
			system.Root.RequestWithCustomSender(pid, m, owner)
			synctest.Wait()
		}
		tell(message.Subscribe{Owner: true, Explicit: true, Pull: max})
		for range 3 {
			credit, _ := c.Intake.Take(64 << 10)
			c.Intake.Put(protocol.Stdout, make([]byte, credit.N), nil, credit, 0)
			synctest.Wait()
			tell(message.Pull{Bytes: max})
		}
		last := record.feed.Log.Last()
		tell(message.Ack{From: 0, To: last})
		tell(message.Subscribe{Owner: true, Explicit: true}) // from the beginning again

		other := child.NewIntake(1<<20, budget, nil, func() {})
		took := make(chan int, 1)
		go func() {
			other.Hold(64<<10, 0) // its reserve
			credit, _ := other.Take(128 << 10)
			credit2, _ := other.Take(128 << 10)
			took <- credit.N + credit2.N
		}()
		synctest.Wait()
		if record.feed.Log.First() != 1 || len(took) > 0 {
			t.Fatalf("the log begins at %d, another took %d: this tests nothing", record.feed.Log.First(), len(took))
		}
		tell(message.Pull{Bytes: max})
		if record.feed.Log.First() <= last || len(took) != 1 {
			t.Errorf("the log still begins at %d of %d, and who waits for the budget has nothing", record.feed.Log.First(), last)
		}
		other.Close()
	})
}

// A stopped process holds nothing of the budget, although its tree has not ended.
func TestStoppedHoldsNoBudget(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		budget := budget.NewOutput(1<<20, func() {})
		tree := make(chan struct{})
		pid, _, c := fakeProcessOf(protocol.ProcessStartParams{}, spawn, func(r *processRecord) { r.env.OutputBudget = budget })
		c.Tree = tree
		for range 3 {
			credit, _ := c.Intake.Take(64 << 10)
			c.Intake.Put(protocol.Stdout, make([]byte, credit.N), nil, credit, 0)
			synctest.Wait()
		}
		if budget.Used() == 0 {
			t.Fatal("nothing is charged: this tests nothing")
		}
		system.Root.Stop(pid)
		synctest.Wait()
		if used := budget.Used(); used != 0 {
			t.Errorf("%d bytes are charged for a process that has stopped", used)
		}
		close(tree)
	})
}
