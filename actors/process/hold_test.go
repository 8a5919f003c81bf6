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
		start := func() (pid *actor.PID, record *processRecord, waits func() bool) {
			params := protocol.ProcessStartParams{Retention: &protocol.Retention{OnFull: protocol.OnFullEvict, HoldMs: ms(5 * time.Second)}}
			pid, record, _ = fakeProcessOf(params, spawn, func(r *processRecord) { r.feed.Retention = retention })
			var wrote atomic.Int64
			go func() { // the program writes as much as it may, and a second is enough for that
				for n := int64(0); n < 4*retention; n = wrote.Load() {
					credit, ok := record.intake.Take(8 << 10)
					if !ok {
						return
					}
					record.intake.Put(protocol.Stdout, make([]byte, credit.N), nil, credit, 0)
					wrote.Add(int64(credit.N))
				}
			}()
			time.Sleep(time.Second)
			return pid, record, func() bool { synctest.Wait(); return wrote.Load() < 4*retention }
		}
		check := func(when string, record *processRecord, waits, want bool) {
			t.Helper()
			if first := record.feed.Log.First(); waits != want || (first == 1) != want {
				t.Errorf("%s the program waits: %t, want %t; the log begins at %d", when, waits, want, first)
			}
		}

		_, record, waits := start()
		check("before the time is over", record, waits(), true)
		time.Sleep(5 * time.Second)
		check("after the time", record, waits(), false)

		pid, record, waits := start()
		viewer := spawn(func() actor.Actor { return actor.ReceiveFunc(func(actor.Context) {}) })
		tell := func(m any) { system.Root.RequestWithCustomSender(pid, m, viewer); synctest.Wait() }
		tell(message.Subscribe{Hold: true})
		time.Sleep(time.Minute)
		check("with a viewer that asks for nothing", record, waits(), true)
		had := record.feed.Log.Written()
		tell(message.Pull{Bytes: retention})
		if now := record.feed.Log.Written(); now != had {
			t.Errorf("the viewer has been sent a part: %d bytes are written, before %d", now, had)
		}
		tell(message.Ack{To: 2})
		if now := record.feed.Log.Written(); now <= had || !waits() {
			t.Errorf("after the viewer has acknowledged a part, %d bytes are written, before %d; the program waits: %t", now, had, waits())
		}
		had = record.feed.Log.Written()
		system.Root.Send(pid, message.ViewerGone{PID: viewer})
		time.Sleep(4 * time.Second)
		if now := record.feed.Log.Written(); now > had+retention || !waits() {
			t.Errorf("4 s after the loss of the viewer, %d bytes are written, before %d; the program waits: %t", now, had, waits())
		}
		time.Sleep(2 * time.Second)
		if waits() {
			t.Error("the program waits for a viewer that has been gone for 6 s")
		}

		pid, _, waits = start()
		tell(message.Subscribe{Hold: true})
		system.Root.RequestWithCustomSender(pid, message.Subscribe{Hold: true, Pull: 1}, spawn(func() actor.Actor {
			return actor.ReceiveFunc(func(ctx actor.Context) {
				if m, ok := ctx.Message().(message.Delivery); ok {
					ctx.Request(pid, message.Ack{To: m.Entries[len(m.Entries)-1].Seq})
					ctx.Request(pid, message.Pull{Bytes: retention})
				}
			})
		}))
		system.Root.Send(pid, message.ViewerGone{PID: viewer})
		if waits() {
			t.Error("the program waits for a lost viewer, and another has come before the loss was known")
		}
	})
}
