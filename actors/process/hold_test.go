package process

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A log that evicts drops nothing after a start until a viewer with Hold has come, or for HoldMs. From then on the log drops
// nothing that the viewer has not acknowledged, and the program waits, until the viewer is gone for HoldMs.
func TestHold(t *testing.T) {
	const retention = 64 << 10
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		// A program is one that writes as much as it may.
		type program struct {
			pid  *actor.PID
			look func() (waits bool, written, dropped uint64)
		}
		start := func() program {
			params := protocol.ProcessStartParams{Retention: &protocol.Retention{OnFull: protocol.OnFullEvict, HoldMs: ms(5 * time.Second)}}
			pid, record, _ := fakeProcessOf(params, spawn, func(r *processRecord) { r.feed.Retention = retention })
			var wrote atomic.Int64
			go func() {
				for n := int64(0); n < 4*retention; n = wrote.Load() {
					credit, ok := record.run.intake.Take(8 << 10)
					if !ok {
						return
					}
					record.run.intake.Put(protocol.Stdout, make([]byte, credit.N), nil, credit, 0)
					wrote.Add(int64(credit.N))
				}
			}()
			return program{pid, func() (waits bool, written, dropped uint64) {
				synctest.Wait()
				written, dropped = record.feed.Log.Written(), record.feed.Log.Dropped()
				system.Root.Send(pid, message.BudgetLow{}) // what the actor writes from now on comes after this read
				return wrote.Load() < 4*retention, written, dropped
			}}
		}
		check := func(when string, p program, want bool) (written uint64) {
			t.Helper()
			waits, written, dropped := p.look()
			if waits != want || (dropped == 0) != want {
				t.Errorf("%s the program waits: %t, want %t; %d bytes are dropped", when, waits, want, dropped)
			}
			return written
		}

		p := start()
		check("before the time is over", p, true)
		time.Sleep(6 * time.Second)
		check("after the time", p, false)

		p = start()
		viewer := spawn(func() actor.Actor { return actor.ReceiveFunc(func(actor.Context) {}) })
		tell := func(m any) { system.Root.RequestWithCustomSender(p.pid, m, viewer); synctest.Wait() }
		tell(message.Subscribe{Hold: true})
		time.Sleep(time.Minute)
		had := check("with a viewer that asks for nothing", p, true)
		tell(message.Pull{Bytes: retention})
		if now := check("with a viewer that has been sent a part", p, true); now != had {
			t.Errorf("the viewer has acknowledged nothing: %d bytes are written, before %d", now, had)
		}
		tell(message.Ack{To: 2})
		waits, now, _ := p.look()
		if now <= had || !waits {
			t.Errorf("after the viewer has acknowledged a part, %d bytes are written, before %d; the program waits: %t", now, had, waits)
		}
		system.Root.Send(p.pid, message.ViewerGone{PID: viewer})
		time.Sleep(4 * time.Second)
		if waits, _, _ := p.look(); !waits {
			t.Error("the program does not wait 4 s after the loss of the viewer")
		}
		time.Sleep(2 * time.Second)
		check("6 s after the loss of the viewer", p, false)

		p = start()
		tell(message.Subscribe{Hold: true})
		system.Root.RequestWithCustomSender(p.pid, message.Subscribe{Hold: true, Pull: 1}, spawn(func() actor.Actor {
			return actor.ReceiveFunc(func(ctx actor.Context) {
				if m, ok := ctx.Message().(message.Delivery); ok {
					ctx.Request(p.pid, message.Ack{To: m.Entries[len(m.Entries)-1].Seq})
					ctx.Request(p.pid, message.Pull{Bytes: retention})
				}
			})
		}))
		system.Root.Send(p.pid, message.ViewerGone{PID: viewer})
		if waits, _, _ := p.look(); waits {
			t.Error("the program waits for a lost viewer, and another has come before the loss was known")
		}
	})
}
