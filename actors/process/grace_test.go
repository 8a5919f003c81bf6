package process

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/session/lifetime"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// TestGrace: every way to end a program gives the stop signal, and SIGKILL after the same grace: that of the start, else
// that of the server. process/terminate has a grace of its own.
func TestGrace(t *testing.T) {
	const server = 4 * time.Second
	request := func(params any) any { return message.Request{Params: params} }
	restart := &protocol.Restart{Policy: "permanent"}
	second := ms(time.Second)
	type way struct {
		name   string
		params protocol.ProcessStartParams
		tell   any           // a message to the process; nil: it is ended a second after its start
		after  time.Duration // from the start to the stop signal
		bound  time.Duration // the longest grace of this way; 0: none
		own    bool          // the grace of the start and of the server do not count
	}
	for _, w := range []way{
		{name: "timeout", params: protocol.ProcessStartParams{TimeoutMs: second}, after: time.Second},
		{name: "not ready", params: protocol.ProcessStartParams{Ready: &protocol.Ready{Line: "up", TimeoutMs: second}}, after: time.Second},
		{name: "silent", params: protocol.ProcessStartParams{Liveness: &protocol.Liveness{SilenceMs: 1000}}, after: time.Second},
		{name: "process/restart", params: protocol.ProcessStartParams{Restart: restart}, tell: request(protocol.ProcessRestartParams{ProcessID: "p"})},
		{name: "end of the session", tell: message.Stop{Reason: message.ReasonClosed, Shutdown: lifetime.OwnGrace}},
		{name: "shutdown", tell: message.Stop{Reason: message.ReasonShutdown, Shutdown: server}, bound: server},
		{name: "process/terminate", tell: request(protocol.ProcessTerminateParams{ProcessID: "p"}), own: true},
		{name: "process/terminate with tree", tell: request(protocol.ProcessTerminateParams{ProcessID: "p", Tree: true}), own: true},
	} {
		for _, asked := range []*uint64{nil, ms(0), ms(7 * time.Second)} {
			want := server
			switch {
			case w.own:
				want = 0
			case asked != nil:
				want = time.Duration(*asked) * time.Millisecond
			}
			if w.bound > 0 {
				want = min(want, w.bound)
			}
			name := w.name + ", default"
			if asked != nil {
				name = fmt.Sprintf("%s, killGraceMs %d", w.name, *asked)
			}
			t.Run(name, func(t *testing.T) {
				fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
					params := w.params
					params.KillGraceMs = asked
					pid, record, c := fakeProcessOf(params, spawn, func(r *processRecord) {
						r.env.KillGrace = server
						if params.Restart != nil {
							r.launch.Restart = &supervision.Restart{Policy: supervision.Permanent}
						}
					})
					if w.tell != nil {
						system.Root.RequestWithCustomSender(pid, w.tell, record.session)
					}
					time.Sleep(w.after)
					synctest.Wait()
					polite, _ := c.Was()
					if signalled := polite == 1; signalled != (want > 0) {
						t.Errorf("%d stop signals, with a grace of %v", polite, want)
					}
					time.Sleep(time.Minute)
					synctest.Wait()
					if _, killed := c.Was(); killed != w.after+want {
						t.Errorf("SIGKILL after %v, want %v", killed, w.after+want)
					}
				})
			})
		}
	}
}
