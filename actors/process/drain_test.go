package process

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A viewer of a stopped process that asks for more shortly before each StallTime is over gets all output within the drain timeout, and
// then events alone.
func TestViewerGoesOnReading(t *testing.T) {
	const pause = life.StallTime - time.Second
	for _, test := range []struct {
		drain time.Duration
		want  int // entries of output
	}{{30 * time.Second, 6}, {2*pause + time.Second, 3}} {
		fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
			pid, record, _ := fakeProcessOf(protocol.ProcessStartParams{}, spawn, func(r *processRecord) { r.env.DrainTimeout = test.drain })
			got, closed := 0, false
			viewer := spawn(func() actor.Actor {
				return actor.ReceiveFunc(func(ctx actor.Context) {
					m, is := ctx.Message().(message.Delivery)
					for _, e := range m.Entries {
						closed = closed || e.Kind == outlog.Closed
						if e.Kind == outlog.Output {
							got++
						}
					}
					if self := ctx.Self(); is && !m.Cut {
						time.AfterFunc(pause, func() { system.Root.RequestWithCustomSender(pid, message.Pull{Bytes: 1}, self) })
					}
				})
			})
			system.Root.RequestWithCustomSender(pid, message.Subscribe{Owner: true}, viewer)
			synctest.Wait()
			for range 6 {
				write(record, 100)
				time.Sleep(200 * time.Millisecond) // later output is an entry of its own
			}
			system.Root.RequestWithCustomSender(pid, message.Stop{Reason: message.ReasonClosed}, record.session)
			system.Root.RequestWithCustomSender(pid, message.Pull{Bytes: 1}, viewer)
			time.Sleep(time.Minute)
			synctest.Wait()
			if got != test.want || !closed {
				t.Errorf("with %v the viewer got %d entries of output, closed %v; want %d and the end", test.drain, got, closed, test.want)
			}
		})
	}
}
