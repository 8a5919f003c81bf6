package process

import (
	"fmt"
	"log/slog"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/internal/repeat"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/actors/spool"
	"github.com/b6f6fdd7/troupe/internal/arena"
	"github.com/b6f6fdd7/troupe/internal/estate"
	rate "github.com/b6f6fdd7/troupe/internal/pace"
	"github.com/b6f6fdd7/troupe/internal/record"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testholder"
)

// Each field of the record outlives the server, or says why not.
func TestRecordIsKept(t *testing.T) {
	if err := record.Check(reflect.TypeFor[processRecord]()); err != nil {
		t.Error(err)
	}
}

// nextEstate returns the estate of the next server of a holder.
func nextEstate(t testing.TB, h *testholder.Holder) *estate.Estate {
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
		request, name, err := Revive(second, second.Estate.Revivers()[0], o)
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
		if _, _, err := Revive(third, third.Estate.Revivers()[0], o); err != nil { // that estate was opened before the end
			t.Error(err)
		}
		third.Estate = nextEstate(t, h)
		if _, _, err := Revive(third, third.Estate.Revivers()[0], o); err == nil {
			t.Error("a process that has ended is there")
		}
	})
}

// A server dies when it has dropped the log of a process whose retention is over, and the record does not say so yet. The next server names the same last seq.
func TestReviveDroppedLog(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		h := testholder.New(t)
		first := nextEstate(t, h)
		sessionOf := func() (*actor.PID, <-chan message.ProcessRetired) {
			retired := make(chan message.ProcessRetired, 1)
			return spawn(func() actor.Actor {
				return actor.ReceiveFunc(func(ctx actor.Context) {
					if m, ok := ctx.Message().(message.ProcessRetired); ok && len(retired) == 0 {
						retired <- m
					}
				})
			}), retired
		}
		session, retired := sessionOf()
		it, r, c := fakeProcessOf(protocol.ProcessStartParams{ProcessID: "p"}, spawn, func(r *processRecord) {
			r.env.Estate, r.session = first, session
			r.outbox = r.env.NewOutbox(r.keep)
			r.launch.Spec.Name = "p-1"
		})
		print(r.run.intake, 0, "one")
		system.Root.RequestWithCustomSender(it, message.Subscribe{Owner: true}, session)
		c.End()
		synctest.Wait()
		system.Root.RequestWithCustomSender(it, message.Ack{To: 3}, session)
		synctest.Wait()
		r.keep()
		system.Root.RequestWithCustomSender(it, message.Ack{To: 3}, session) // the actor goes on after keep, and not beside it
		want := <-retired                                                    // after the retention
		if first := r.kept.first(); want.Last != 3 || first == 1 {
			t.Fatalf("the last seq is %d, and the log begins with %d", want.Last, first)
		}

		second := fake.Env(nil)
		second.Estate = nextEstate(t, h)
		second.AdoptChild = func(string, *child.Intake, *rate.Meter) child.Handle { return nil }
		session, retired = sessionOf()
		request, _, err := Revive(second, second.Estate.Revivers()[0], Options{Request: Request{Name: "p-1", Session: session, Gauge: new(message.Gauge)}})
		if err != nil {
			t.Fatal(err)
		}
		second.Estate.DropRest()
		if _, err := system.Root.SpawnNamed(request.Props, "again"); err != nil {
			t.Fatal(err)
		}
		select {
		case m := <-retired:
			if m != want {
				t.Errorf("the next server says %+v, want %+v", m, want)
			}
		case <-time.After(time.Hour):
			t.Error("the next server keeps the process")
		}
	})
}

// The output that a process has on disk is there at the next server, with its seqs, and so is output that was not in the log yet. The end of the
// process takes the file from the holder.
func TestReviveSpool(t *testing.T) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		h, dir := testholder.New(t), t.TempDir()
		first := nextEstate(t, h)
		params := protocol.ProcessStartParams{ProcessID: "p", Retention: &protocol.Retention{OnFull: protocol.OnFullSpool}}
		it, r, _ := fakeProcessOf(params, spawn, func(r *processRecord) {
			r.env.Estate, r.env.SpoolLimit = first, 1<<20
			r.outbox = r.env.NewOutbox(r.keep)
			r.launch.Spec.Name, r.feed.Retention = "p-1", 0 // all output goes to the disk
			r.spool = spoolOf(r.env, spool.NewDisk(dir, 0, nil), params.Retention)
		})
		if err := r.run.intake.OpenSpool(); err != nil {
			t.Fatal(err)
		}
		write := func(in *child.Intake, s protocol.Stream, offset uint64, text string) {
			t.Helper()
			credit, _ := in.Take(len(text))
			if credit.Spool == nil || credit.N != len(text) {
				t.Fatalf("the credit is %+v", credit)
			}
			e, err := in.Chain.Reserve(estate.PlaceSize + len(text))
			if err != nil {
				t.Fatal(err)
			}
			copy(e.Data()[estate.PlaceSize:], text)
			at, err := credit.Spool.Write([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			in.PutSpooled(s, e, len(text), at, offset, credit)
			in.Chain.Word(int(s)).Store(offset + uint64(len(text)))
			synctest.Wait()
		}
		logged := func() (all string) {
			var c outlog.Cursor
			entries, _ := r.feed.Log.Read(&c, 1<<20, nil)
			for _, e := range entries {
				b := e.Data
				if e.Spooled != nil {
					b, _ = e.Spooled.Read(nil)
				}
				all += fmt.Sprint(e.Seq, e.Kind, " ", string(b), "; ")
				e.Release()
			}
			return all
		}
		write(r.run.intake, protocol.Stdout, 0, "one")
		write(r.run.intake, protocol.Stdout, 3, "two")
		r.feed.Log.At(1) // somebody has read
		write(r.run.intake, protocol.Stderr, 0, "err")
		r.keep()
		if got, want := logged(), "1 output onetwo; 2 output err; "; got != want {
			t.Fatalf("the log is %q, want %q", got, want)
		}
		write(r.run.intake, protocol.Stdout, 6, "three") // the server dies before the record is kept
		e, err := r.run.intake.Chain.Reserve(estate.PlaceSize + 4)
		if err != nil {
			t.Fatal(err)
		}
		copy(e.Data()[estate.PlaceSize:], "full") // the disk is full
		r.run.intake.Chain.Commit(e, estate.PlaceSize+4, arena.Header{Kind: estate.KindSpooled, Stream: uint8(protocol.Stdout), Offset: 11})

		second := fake.Env(nil)
		second.Estate, second.SpoolLimit, second.Disk = nextEstate(t, h), 1<<20, spool.NewDisk(dir, 0, nil)
		c := &fake.Child{}
		second.AdoptChild = func(_ string, in *child.Intake, _ *rate.Meter) child.Handle { c.Intake = in; return c }
		o := Options{Request: Request{Name: "p-1", Session: it, Gauge: new(message.Gauge)}}
		request, _, err := Revive(second, second.Estate.Revivers()[0], o)
		if err != nil {
			t.Fatal(err)
		}
		second.Estate.DropRest()
		pid, err := system.Root.SpawnNamed(request.Props, "again")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		client := make(chan protocol.ProcessReadResult, 1)
		asker := spawn(func() actor.Actor {
			return actor.ReceiveFunc(func(ctx actor.Context) {
				if m, ok := ctx.Message().(message.Reply); ok {
					client <- m.Result.(protocol.ProcessReadResult)
				}
			})
		})
		system.Root.RequestWithCustomSender(pid, message.Request{Token: 1, Params: protocol.ProcessReadParams{ProcessID: "p"}}, asker)
		all := ""
		for _, c := range (<-client).Chunks {
			all += fmt.Sprint(c.Seq, " ", string(c.Chunk), "; ")
		}
		if want := "1 onetwo; 2 err; 3 three; 4 full; "; all != want {
			t.Errorf("the next server has %q, want %q", all, want)
		}
		if err := system.Root.StopFuture(pid).Wait(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if f := nextEstate(t, h).File("p-1"); f != nil {
			t.Error("the holder keeps the file of a process that has ended")
		}
	})
}
