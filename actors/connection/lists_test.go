package connection

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

// crowd is a troupe, many sessions and all of their processes in actors of the test. Processes answer when the test
// lets them.
type crowd struct {
	sessions  []*actor.PID
	processes int // of each session
	argv      []string
	asked     []message.Request
	askers    []*actor.PID
}

func (w *crowd) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case message.Attach:
		owns(ctx, m, protocol.RoleOwner)
	case message.Request:
		switch m.Params.(type) {
		case message.SessionListRequest:
			ctx.Respond(message.Reply{Token: m.Token, Result: w.sessions})
		case message.InspectRequest:
			w.asked, w.askers = append(w.asked, m), append(w.askers, ctx.Sender())
		}
	}
}

// answer has all processes answer that were asked, and returns how many.
func (w *crowd) answer(root *actor.RootContext) int {
	asked, askers := w.asked, w.askers
	w.asked, w.askers = nil, nil
	for i, m := range asked {
		root.Send(askers[i], message.Reply{Token: m.Token, Result: protocol.ProcessInfoResult{ProcessInfo: protocol.ProcessInfo{ProcessID: "p", Argv: w.argv}}})
	}
	return len(asked)
}

// A session/list with detail asks 64 processes at a time, session by session. When the answer is long, later
// sessions come without their processes.
func TestDetailsAreBounded(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		w := &crowd{processes: 100, argv: []string{strings.Repeat("x", 50<<10)}}
		troupe := spawn(func() actor.Actor { return w })
		for i := range 4 {
			w.sessions = append(w.sessions, spawn(func() actor.Actor {
				return actor.ReceiveFunc(func(ctx actor.Context) {
					if m, ok := ctx.Message().(message.Request); ok {
						sum := message.Summary{SessionSummary: protocol.SessionSummary{SessionID: fmt.Sprint("s", i), CreatedAtMs: int64(10 - i)}}
						for range w.processes {
							sum.Started = append(sum.Started, message.ProcessRef{ID: "p", PID: troupe})
						}
						ctx.Respond(message.Reply{Token: m.Token, Result: sum})
					}
				})
			}))
		}
		client := connect(t, spawn, quiet(config.Config{}), troupe, nil)
		answers, _ := client.messages()
		client.open("")
		client.send(`{"id":2,"method":"session/list","params":{"detail":"info"}}`)
		<-answers // to initialize
		var batches []int
		for {
			synctest.Wait()
			n := w.answer(system.Root)
			if n == 0 {
				break
			}
			batches = append(batches, n)
		}
		if got := fmt.Sprint(batches); got != "[64 36 64 36]" { // 100 of 50 KiB: the second session crosses 8 MiB
			t.Errorf("asked %s processes at once", got)
		}
		var answer struct{ Result protocol.SessionDetailsResult }
		if err := json.Unmarshal([]byte(<-answers), &answer); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range answer.Result.Sessions {
			got = append(got, fmt.Sprint(s.SessionID, ":", len(s.List), " ", s.ListOmitted))
		}
		if want := "[s3:100 false s2:100 false s1:0 true s0:0 true]"; fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s", got, want)
		}
		client.leave()
	})
}
