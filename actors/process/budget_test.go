package process

import (
	"testing"
	"testing/synctest"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/spool"
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
			other.Hold(64<<10, 64<<10) // its reserve, unread
			credit, _ := other.Take(128 << 10)
			credit2, _ := other.Take(128 << 10)
			took <- credit.N + credit2.N
		}()
		synctest.Wait()
		if record.feed.Log.First() != 1 || len(took) > 0 {
			t.Fatalf("the log begins at %d, another took %d: this tests nothing", record.feed.Log.First(), len(took))
		}
		tell(message.Pull{Bytes: max})
		if record.feed.Log.Cost(0) > child.ShortLog || len(took) != 1 {
			t.Errorf("the log has %d bytes, %d others took some", record.feed.Log.Cost(0), len(took))
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

// A program whose log evicts, or whose owner has had everything, writes on although others have used up the budget, and
// however large the chunks were before. Its log keeps some of the newest output.
func TestNobodyWaitsForOthers(t *testing.T) {
	for _, test := range []struct {
		name   string
		onFull protocol.OnFull
		acks   bool
		max    int64 // of the budget
		hog    bool
		leaves int64 // of the budget, which is short
	}{
		{"evict", protocol.OnFullEvict, false, 8 << 20, true, 0},
		{"evict, and a little is left", protocol.OnFullEvict, false, 8 << 20, true, 200 << 10},
		{"evict alone", protocol.OnFullEvict, false, 62_500, false, 0},
		{"block", protocol.OnFullBlock, true, 8 << 20, true, 0},
		{"block alone", protocol.OnFullBlock, true, 62_500, false, 0},
		{"spool", protocol.OnFullSpool, true, 8 << 20, true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
				var pid *actor.PID
				all := budget.NewOutput(test.max, func() { system.Root.Send(pid, message.BudgetLow{}) })
				params := protocol.ProcessStartParams{Retention: &protocol.Retention{OnFull: test.onFull}}
				disk := spool.NewDisk(t.TempDir(), 1<<30, nil)
				pid, record, c := fakeProcessOf(params, spawn, func(r *processRecord) {
					r.env.OutputBudget, r.env.SpoolLimit = all, 1<<30
					r.spool = spoolOf(r.env, disk, params.Retention)
				})
				owner := spawn(func() actor.Actor { return actor.ReceiveFunc(func(actor.Context) {}) })
				tell := func(m any) {
					system.Root.RequestWithCustomSender(pid, m, owner)
					synctest.Wait()
				}
				tell(message.Subscribe{Owner: true, Explicit: true})
				other := child.NewIntake(1<<20, all, nil, func() {})
				defer other.Close()
				for i := range 60 {
					if i >= 30 && test.hog {
						all.Take(1, test.max-all.Used()-test.leaves, other) // for ever
						all.Take(test.max, test.max, other)                 // waits
					}
					took := make(chan child.Credit, 1)
					go func() {
						credit, _ := c.Intake.Take(128 << 10)
						took <- credit
					}()
					synctest.Wait()
					select {
					case credit := <-took:
						c.Intake.Put(protocol.Stdout, make([]byte, credit.N), nil, credit, 0)
						synctest.Wait()
					default:
						t.Errorf("it waits after %d chunks, its log holds %d bytes", i, record.feed.Log.Cost(0))
						c.Intake.Abort()
						return
					}
					if test.acks {
						tell(message.Pull{Bytes: 1 << 20})
						tell(message.Ack{To: record.feed.Log.Last()})
					}
				}
				if n := record.feed.Log.Cost(0); test.hog && (n < child.ShortLog/2 || n > child.ShortLog) {
					t.Errorf("its log holds %d bytes, want the newest within its reserve", n)
				}
			})
		})
	}
}

// Received output on disk stays, like output in memory, until somebody finds the disk full.
func TestReadOutputOnDiskGivesWay(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		const max = 2 << 20
		var pid *actor.PID
		disk := spool.NewDisk(t.TempDir(), max, func() { system.Root.Send(pid, message.BudgetLow{}) })
		pid, record, c := fakeProcessOf(protocol.ProcessStartParams{}, spawn, func(r *processRecord) { r.spool = disk.New(max) })
		owner := spawn(func() actor.Actor { return actor.ReceiveFunc(func(actor.Context) {}) })
		tell := func(m any) {
			system.Root.RequestWithCustomSender(pid, m, owner)
			synctest.Wait()
		}
		tell(message.Subscribe{Owner: true, Explicit: true})
		open := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		open(c.Intake.OpenSpool())
		for range 24 {
			credit, _ := c.Intake.Take(64 << 10)
			data, at := make([]byte, credit.N), int64(0)
			if credit.Spool != nil {
				var err error
				at, err = credit.Spool.Write(data)
				open(err)
			}
			c.Intake.Put(protocol.Stdout, data, nil, credit, at)
			synctest.Wait()
		}
		tell(message.Pull{Bytes: max})
		tell(message.Ack{To: record.feed.Log.Last()})
		if on := record.feed.Log.Spooled(); on < 256<<10 {
			t.Fatalf("%d bytes of received output are on disk: this tests nothing", on)
		}
		other := disk.New(max)
		defer other.Close()
		open(other.Open())
		for other.Reserve(max) > 0 {
			synctest.Wait()
		}
		synctest.Wait()
		if on := record.feed.Log.Spooled(); on > child.ShortLog {
			t.Errorf("%d bytes of received output are on disk, and another waits for the disk", on)
		}
	})
}
