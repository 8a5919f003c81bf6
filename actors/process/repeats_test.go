package process

import (
	"testing"
	"testing/synctest"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A process/terminate with tree is repeated, after its answer or before. The repetition gets the
// answer of the first: the program ran.
func TestTerminateTreeAgain(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		tree := make(chan struct{})
		it, record, c := fakeProcess(protocol.ProcessStartParams{}, spawn)
		c.Tree = tree
		var got []message.Reply
		client := func() *actor.PID {
			return spawn(func() actor.Actor {
				return actor.ReceiveFunc(func(ctx actor.Context) {
					if m, ok := ctx.Message().(message.Reply); ok {
						got = append(got, m)
					}
				})
			})
		}
		first, second := client(), client()
		terminate := func(from *actor.PID, token uint64) {
			params := protocol.ProcessTerminateParams{ProcessID: "p", Tree: true, Repeatable: protocol.Repeatable{RequestID: "end"}}
			system.Root.RequestWithCustomSender(it, message.Request{Token: token, Params: params}, from)
			synctest.Wait()
		}
		terminate(first, 1)
		system.Root.Send(it, message.ViewerGone{PID: first, Evicted: false})
		terminate(second, 2)
		terminate(second, 3)
		if len(got) > 0 || len(record.trees.waiting) != 1 {
			t.Errorf("%d answers before the tree is gone, %d wait; want 0 and 1", len(got), len(record.trees.waiting))
		}
		close(tree)
		synctest.Wait()
		terminate(second, 4)
		for i, want := range []uint64{3, 4} {
			if i >= len(got) || got[i].Token != want || got[i].Result != any(protocol.ProcessTerminateResult{Running: true}) {
				t.Fatalf("the answers are %+v, want 3 and 4, with running true", got)
			}
		}
	})
}

// The ids of a guest's requests mean nothing to the requests of others: a guest who guesses the ids of the
// owner stops nothing.
func TestIDsOfGuests(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		it, _, c := fakeProcessOf(protocol.ProcessStartParams{}, spawn, func(r *processRecord) { r.launch.Spec.TTY, r.launch.Spec.Stdin = true, true })
		client := spawn(func() actor.Actor { return actor.ReceiveFunc(func(actor.Context) {}) })
		request := func(guest string, params any) {
			system.Root.RequestWithCustomSender(it, message.Request{Params: params, Guest: guest}, client)
			synctest.Wait()
		}
		resize := func(guest string, rows uint16) {
			request(guest, protocol.ProcessResizeParams{ProcessID: "p", Size: protocol.Size{Rows: rows, Cols: 80}, Repeatable: protocol.Repeatable{RequestID: "1"}})
		}
		write := func(guest, text string) {
			request(guest, protocol.ProcessWriteParams{ProcessID: "p", WriteID: "1", Chunk: []byte(text)})
		}
		for _, step := range []struct {
			guest string
			rows  uint16
			want  uint16 // the last is a repeat of the second
		}{{"share:1", 1, 1}, {"", 2, 2}, {"share:1", 3, 3}, {"share:2", 4, 4}, {"", 5, 4}} {
			if resize(step.guest, step.rows); c.Size.Rows != step.want {
				t.Errorf("%+v: the size is %d", step, c.Size.Rows)
			}
		}
		for _, guest := range []string{"share:1", "share:2", "", "share:1", ""} {
			write(guest, "<"+guest+">")
		}
		if got := string(c.Stdin); got != "<share:1><share:2><>" {
			t.Errorf("stdin got %s", got)
		}
	})
}
