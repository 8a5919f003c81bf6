package process

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/process/launch"
	"github.com/b6f6fdd7/troupe/actors/screen"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// A watched is a process on a PTY, in fake time, and somebody who asks for its screen.
type watched struct {
	t      *testing.T
	system *actor.ActorSystem
	pid    *actor.PID
	record *processRecord
	client *actor.PID
	got    []message.Reply
}

func watchedProcess(t *testing.T, params protocol.ProcessStartParams, test func(*watched)) {
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		w := &watched{t: t, system: system}
		w.pid, w.record, _ = fakeProcessOf(params, spawn, func(r *processRecord) {
			r.launch.Spec.TTY = params.TTY
			r.env.Strategy = &supervision.Strategy{Log: slog.New(slog.DiscardHandler)}
			r.env.Budget, r.env.KeptBudget = 1<<30, budget.New(1<<20)
			if params.Screen != nil {
				r.display = new(display)
			}
		})
		w.client = spawn(func() actor.Actor {
			return actor.ReceiveFunc(func(ctx actor.Context) {
				if m, ok := ctx.Message().(message.Reply); ok {
					w.got = append(w.got, m)
				}
			})
		})
		test(w)
		if d := w.record.display; d != nil && d.pid != nil { // first: without the gate of an actor of the server, the process takes facts while it stops
			system.Root.StopFuture(d.pid).Wait()
			synctest.Wait()
		}
	})
}

// ask sends a request, and returns the answer.
func (w *watched) ask(params any) message.Reply {
	w.t.Helper()
	w.got = nil
	w.system.Root.RequestWithCustomSender(w.pid, message.Request{Token: 7, Params: params}, w.client)
	synctest.Wait()
	if len(w.got) != 1 || w.got[0].Token != 7 {
		w.t.Fatalf("%T: the answers are %+v", params, w.got)
	}
	return w.got[0]
}

// screen returns the screen.
func (w *watched) screen() protocol.ProcessScreenResult {
	w.t.Helper()
	r := w.ask(protocol.ProcessScreenParams{ProcessID: "p"})
	if r.Err != nil {
		w.t.Fatal(r.Err)
	}
	return r.Result.(protocol.ProcessScreenResult)
}

func (w *watched) prints(text string) {
	prints(w.record, protocol.PTY, text)
}

func (w *watched) resize(rows, cols uint16) {
	w.t.Helper()
	if r := w.ask(protocol.ProcessResizeParams{ProcessID: "p", Size: protocol.Size{Rows: rows, Cols: cols}}); r.Err != nil {
		w.t.Fatal(r.Err)
	}
}

// A screen made by the first request has what the log has, with the sizes that the PTY had meanwhile, and ends when nobody asks any more.
func TestScreenOnDemand(t *testing.T) {
	watchedProcess(t, protocol.ProcessStartParams{TTY: true}, func(w *watched) {
		w.prints("one\x1b[1;60Hx\r\n")                    // of the first size alone has a row 60 columns
		w.ask(protocol.ProcessReadParams{ProcessID: "p"}) // now the entry grows no more
		w.resize(5, 20)
		w.prints("\x1b[99;1Htwo") // in the last row of the new size
		if w.record.display == nil || w.record.display.pid != nil {
			t.Error("there is a screen although nobody has asked for one")
		}
		got := w.screen()
		if got.Rows != 5 || got.Cols != 20 || got.Lines[0] != "one" || got.Lines[2] != strings.Repeat(" ", 19)+"x" || got.Lines[4] != "two" || got.Seq != 2 || got.Run != 1 || !got.Whole || got.Instance != "1" {
			t.Errorf("%+v", got)
		}
		w.resize(6, 30)
		w.prints("!")
		if got := w.screen(); got.Rows != 6 || got.Cols != 30 || got.Seq != 3 {
			t.Errorf("%+v", got)
		}
		info := w.ask(protocol.ProcessInfoParams{ProcessID: "p"}).Result.(protocol.ProcessInfoResult)
		if len(info.Viewers) != 0 || !w.record.feed.Alone() || w.record.feed.Watched() {
			t.Errorf("the screen counts as a viewer: %+v", info.Viewers)
		}
		first := w.record.display.pid
		w.ask(protocol.ProcessInfoParams{ProcessID: "p"}) // for the race detector: the process goes on after these reads
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		n := 0
		w.record.feed.Each(func(*viewer) { n++ })
		if w.record.display.pid != nil || n != 0 || w.record.gauge.ScreenBytes.Load() != 0 || w.record.env.KeptBudget.Used() != 0 {
			t.Errorf("after two minutes there is a screen, %d viewers, or memory is taken", n)
		}
		if got := w.screen(); got.Rows != 6 || got.Lines[0] != "one" || w.record.display.pid.Id == first.Id {
			t.Errorf("the next screen: %+v", got)
		}
	})
}

// A screen that the start asks for stays.
func TestScreenOfTheStart(t *testing.T) {
	watchedProcess(t, protocol.ProcessStartParams{TTY: true, Screen: &protocol.StartScreen{Scrollback: new(uint64(2))}}, func(w *watched) {
		time.Sleep(time.Hour)
		synctest.Wait()
		for range 30 {
			w.prints("line\r\n")
		}
		if w.record.display.made != 1 || w.record.display.pid == nil {
			t.Errorf("%d screens were made", w.record.display.made)
		}
		if got := w.screen(); got.ScrollbackLines != 2 || got.Scrollback != nil {
			t.Errorf("%d lines, %q", got.ScrollbackLines, got.Scrollback)
		}
	})
}

// A terminal that is too large has no screen, until it is smaller again.
func TestScreenTooLarge(t *testing.T) {
	watchedProcess(t, protocol.ProcessStartParams{TTY: true, Screen: &protocol.StartScreen{}}, func(w *watched) {
		w.screen()
		w.got = nil
		for token, params := range []any{
			protocol.ProcessScreenParams{ProcessID: "p", WaitFor: "never", WaitMs: 1 << 40},
			protocol.ProcessResizeParams{ProcessID: "p", Size: protocol.Size{Rows: 65535, Cols: 65535}},
		} {
			w.system.Root.RequestWithCustomSender(w.pid, message.Request{Token: uint64(token), Params: params}, w.client)
		}
		synctest.Wait()
		for _, r := range w.got {
			if waited := r.Token == 0; waited != (r.Err != nil) || waited && r.Err.Kind() != protocol.KindLimit {
				t.Errorf("%+v", r)
			}
		}
		if len(w.got) != 2 {
			t.Errorf("%d answers", len(w.got))
		}
		if r := w.ask(protocol.ProcessScreenParams{ProcessID: "p"}); r.Err == nil || r.Err.Kind() != protocol.KindLimit {
			t.Errorf("%+v", r)
		}
		w.resize(10, 10)
		if got := w.screen(); got.Rows != 10 {
			t.Errorf("%+v", got)
		}
	})
}

// A process without a PTY has no screen.
func TestScreenNeedsTTY(t *testing.T) {
	watchedProcess(t, protocol.ProcessStartParams{}, func(w *watched) {
		if r := w.ask(protocol.ProcessScreenParams{ProcessID: "p"}); r.Err == nil || r.Err.Kind() != protocol.KindNoTTY {
			t.Errorf("%+v", r)
		}
	})
	e := &env.Env{Config: config.Config{}.WithDefaults()}
	start := func(p protocol.ProcessStartParams) *protocol.Error {
		l := &launch.Launch{Params: &p}
		if p.Size != nil {
			l.Spec.Size = *p.Size
		}
		_, err := displayFor(e, new(message.Gauge), l)
		return err
	}
	if err := start(protocol.ProcessStartParams{Screen: &protocol.StartScreen{}}); err == nil || err.Kind() != protocol.KindNoTTY {
		t.Errorf("a start on pipes with a screen: %v", err)
	}
	large := protocol.Size{Rows: 10_000, Cols: 10_000}
	if err := start(protocol.ProcessStartParams{TTY: true, Size: &large, Screen: &protocol.StartScreen{}}); err == nil || err.Kind() != protocol.KindLimit {
		t.Errorf("a start with a screen that is too large: %v", err)
	}
	if err := start(protocol.ProcessStartParams{TTY: true, Size: &large, Screen: &protocol.StartScreen{IfRoom: true}}); err != nil {
		t.Errorf("a start with a screen if there is room: %v", err)
	}
}

// A screen that fails too often is an error of process/screen alone.
func TestScreenFails(t *testing.T) {
	watchedProcess(t, protocol.ProcessStartParams{TTY: true}, func(w *watched) {
		w.screen()
		w.system.Root.Stop(w.record.display.pid) // as the strategy does
		synctest.Wait()
		if r := w.ask(protocol.ProcessScreenParams{ProcessID: "p"}); r.Err == nil || r.Err != screen.ErrFailed {
			t.Errorf("%+v", r)
		}
		w.prints("it goes on")
		if r := w.ask(protocol.ProcessReadParams{ProcessID: "p"}); r.Err != nil || len(r.Result.(protocol.ProcessReadResult).Chunks) != 1 {
			t.Errorf("%+v", r)
		}
	})
}

// The requests of a viewer that has gone are forgotten.
func TestScreenForgetsViewers(t *testing.T) {
	watchedProcess(t, protocol.ProcessStartParams{TTY: true}, func(w *watched) {
		w.system.Root.RequestWithCustomSender(w.pid, message.Request{Params: protocol.ProcessScreenParams{ProcessID: "p", WaitFor: "x", WaitMs: 1 << 40}}, w.client)
		synctest.Wait()
		w.system.Root.Send(w.pid, message.ViewerGone{PID: w.client})
		w.prints("x")
		if len(w.got) != 0 {
			t.Errorf("somebody who has gone is answered: %+v", w.got)
		}
	})
}
