package process

import (
	"log/slog"
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/internal/repeat"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/internal/arena"
	"github.com/b6f6fdd7/troupe/internal/estate"
	rate "github.com/b6f6fdd7/troupe/internal/pace"
	"github.com/b6f6fdd7/troupe/internal/record"
	"github.com/b6f6fdd7/troupe/internal/testholder"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Each field of the record outlives the server, or says why not.
func TestRecordIsKept(t *testing.T) {
	if err := record.Check(reflect.TypeFor[processRecord]()); err != nil {
		t.Error(err)
	}
}

// nextEstate returns the estate of the next server of a holder.
func nextEstate(t *testing.T, h *testholder.Holder) *estate.Estate {
	t.Helper()
	e, err := estate.Open(h, h.Next(), 16<<20, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// print has the program of an intake write text after offset bytes.
func print(in *child.Intake, offset uint64, text string) {
	credit, _ := in.Take(len(text))
	room, _ := in.Reserve(protocol.Stdout, len(text))
	copy(room.Data(), text)
	in.PutKept(protocol.Stdout, room, offset, credit)
	in.Chain.Word(int(protocol.Stdout)).Store(offset + uint64(len(text)))
	synctest.Wait()
}

// A process goes on at the next server. Output that a viewer may have seen keeps its seq; output after the record was kept last is logged
// again. A repeated request gets its answer, and a write that the last server had accepted is not done again.
func TestRevive(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		h := testholder.New(t)
		first := nextEstate(t, h)
		it, r, _ := fakeProcessOf(protocol.ProcessStartParams{ProcessID: "p", PipeStdin: true}, spawn, func(r *processRecord) {
			r.env.Estate = first
			r.outbox = r.env.NewOutbox(r.keep)
			r.launch.Spec.Stdin, r.launch.Spec.Name = true, "p-1"
		})
		var got []message.Reply
		client := spawn(func() actor.Actor {
			return actor.ReceiveFunc(func(ctx actor.Context) {
				if m, ok := ctx.Message().(message.Reply); ok {
					got = append(got, m)
				}
			})
		})
		ask := func(to *actor.PID, params any) any {
			got = nil
			system.Root.RequestWithCustomSender(to, message.Request{Token: 1, Params: params}, client)
			synctest.Wait()
			if len(got) != 1 || got[0].Err != nil {
				t.Fatalf("%T: %+v", params, got)
			}
			return got[0].Result
		}
		read := func(to *actor.PID) (all []string, last uint64, closed bool) {
			result := ask(to, protocol.ProcessReadParams{ProcessID: "p"}).(protocol.ProcessReadResult)
			for _, c := range result.Chunks {
				if c.Seq != uint64(len(all))+1 {
					t.Errorf("chunk %d has the seq %d", len(all), c.Seq)
				}
				all = append(all, string(c.Chunk))
			}
			return all, result.NextSeq, result.Closed
		}

		print(r.run.intake, 0, "one")
		read(it) // now the entry grows no more
		print(r.run.intake, 3, "two")
		r.keep()
		read(it)
		print(r.run.intake, 6, "three") // the server dies before the record is kept
		id := repeat.IDOf("w")
		e, err := r.kept.input.Reserve(estate.IDSize + 2)
		if err != nil {
			t.Fatal(err)
		}
		copy(e.Data(), id[:])
		copy(e.Data()[estate.IDSize:], "hi")
		r.kept.input.Commit(e, estate.IDSize+2, arena.Header{Kind: estate.KindInput})

		second := fake.Env(nil)
		second.Estate = nextEstate(t, h)
		c := &fake.Child{}
		second.AdoptChild = func(name string, in *child.Intake, _ *rate.Meter) child.Handle {
			if name != "p-1" {
				t.Errorf("the child %q is adopted", name)
			}
			c.Intake = in
			return c
		}
		o := Options{Request: Request{Name: "p-1", Session: client, Gauge: new(message.Gauge)}}
		request, name, err := Revive(second, o)
		if err != nil || name != "p-1" {
			t.Fatal(name, err)
		}
		second.Estate.DropRest()
		again, err := system.Root.SpawnNamed(request.Props, "again")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if all, next, _ := read(again); !reflect.DeepEqual(all, []string{"one", "two", "three"}) || next != 4 {
			t.Errorf("the next server has %q, and seq %d follows", all, next)
		}
		if result := ask(again, protocol.ProcessWriteParams{ProcessID: "p", WriteID: "w", Chunk: []byte("hi")}); result != any(protocol.ProcessWriteResult{Status: protocol.WriteAccepted}) {
			t.Errorf("the write: %+v", result)
		}
		if len(c.Stdin) > 0 {
			t.Errorf("the program got %q again", c.Stdin)
		}
		print(c.Intake, 11, "four")
		c.End()
		synctest.Wait()
		if all, next, closed := read(again); !reflect.DeepEqual(all, []string{"one", "two", "three", "four"}) || !closed || next != 7 {
			t.Errorf("in the end there is %q, closed %v, and seq %d follows", all, closed, next)
		}

		third := fake.Env(nil)
		third.Estate = nextEstate(t, h)
		third.AdoptChild = func(string, *child.Intake, *rate.Meter) child.Handle { return nil }
		if err := system.Root.StopFuture(again).Wait(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Revive(third, o); err != nil { // that estate was opened before the end
			t.Error(err)
		}
		third.Estate = nextEstate(t, h)
		if _, _, err := Revive(third, o); err == nil {
			t.Error("a process that has ended is there")
		}
	})
}
