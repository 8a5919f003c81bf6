package screen

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/actors/spool"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/internal/screen"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// tape is a Terminal with a single line: all output, and sizes in brackets.
type tape struct{ text *strings.Builder }

func (t tape) Write(b []byte) {
	if strings.Contains(string(b), "PANIC") {
		panic("the emulator fails")
	}
	t.text.Write(b)
}
func (t tape) Resize(rows, cols int) { fmt.Fprintf(t.text, "[%dx%d]", rows, cols) }
func (t tape) Memory() int           { return t.text.Len() }
func (t tape) Snapshot(screen.Options) *screen.Snapshot {
	return &screen.Snapshot{Rows: 1, Cols: 1, Lines: []string{t.text.String()}}
}

// A pattern sees the lines up to the cursor, with the blanks before the cursor.
func TestTextOf(t *testing.T) {
	for _, tt := range []struct {
		lines    []string
		row, col int
		want     string
	}{
		{[]string{"a", ">", "", ""}, 1, 2, "a\n> "},
		{[]string{"a", "é", "", ""}, 1, 1, "a\né"},
		{[]string{"漢字"}, 0, 5, "漢字 "},
		{[]string{"a", "", "b", ""}, 0, 3, "a  \n\nb"},
		{[]string{"a", "", "", ""}, 2, 0, "a\n\n"},
		{[]string{"", ""}, 5, 5, "\n"},
	} {
		n := &screen.Snapshot{Lines: tt.lines, Cursor: screen.Cursor{Row: tt.row, Col: tt.col}}
		if got := textOf(n); got != tt.want {
			t.Errorf("%q with the cursor at %d, %d: %q, want %q", tt.lines, tt.row, tt.col, got, tt.want)
		}
	}
}

// A theater is a process with a screen, in fake time.
type theater struct {
	t      *testing.T
	system *actor.ActorSystem
	env    *env.Env

	mu      sync.Mutex
	log     []outlog.Entry
	first   uint64 // the oldest held entry
	cursor  uint64
	pulled  bool
	screen  *actor.PID
	idle    []uint64
	full    int
	gone    int // ended screens
	process *actor.PID
	made    int // terminals
}

func newTheater(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, o Options) *theater {
	h := &theater{t: t, system: system, first: 1}
	quiet := slog.New(slog.DiscardHandler)
	h.env = &env.Env{Config: config.Config{Log: quiet}.WithDefaults()}
	h.env.Strategy = &supervision.Strategy{Backoff: supervision.Backoff{Initial: time.Millisecond, Max: time.Millisecond, Factor: 1}, Intensity: supervision.Intensity{Restarts: 3, Period: time.Minute}, Log: quiet}
	o.New = func(rows, cols, _ int) Terminal {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.made++
		b := new(strings.Builder)
		fmt.Fprintf(b, "[%dx%d]", rows, cols)
		return tape{b}
	}
	if o.Sizes == nil {
		o.Sizes = []message.ScreenSize{{Size: protocol.Size{Rows: 24, Cols: 80}}}
	}
	h.process = system.Root.Spawn(h.env.Props(func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) {
			h.mu.Lock()
			defer h.mu.Unlock()
			switch m := ctx.Message().(type) {
			case *actor.Started:
				o.Process, o.Instance = message.ProcessRef{ID: "p", PID: ctx.Self()}, "i"
				h.screen = ctx.Spawn(New(h.env, o))
			case message.Subscribe:
				h.cursor, h.pulled = m.After, m.Pull > 0
				h.deliver(ctx)
			case message.Pull:
				h.pulled = true
				h.deliver(ctx)
			case message.ScreenIdle:
				h.idle = append(h.idle, m.Asked)
			case message.ScreenFull:
				h.full++
			case *actor.Terminated:
				h.gone++
			case string:
				h.deliver(ctx)
			case message.ScreenSize: // at once after the output
				h.deliver(ctx)
				ctx.Send(h.screen, m)
			}
		})
	}, env.Contained))
	synctest.Wait()
	return h
}

// deliver sends the entries for a Pull, with a gap for dropped entries.
func (h *theater) deliver(ctx actor.Context) {
	last := uint64(len(h.log))
	if !h.pulled || h.cursor >= last {
		return
	}
	m := message.Delivery{Process: "p"}
	if h.cursor+1 < h.first {
		m.Gap = outlog.Gap{From: h.cursor + 1, To: h.first - 1}
		h.cursor = h.first - 1
	}
	m.Entries = slices.Clone(h.log[h.cursor:])
	h.cursor, h.pulled = last, false
	ctx.Request(h.screen, m)
}

// happens adds entries to the log: text is output.
func (h *theater) happens(what ...any) {
	h.mu.Lock()
	for _, w := range what {
		e := outlog.Entry{Seq: uint64(len(h.log) + 1), AtMs: time.Now().UnixMilli(), Kind: outlog.Output}
		switch w := w.(type) {
		case string:
			e.Data = []byte(w)
		case outlog.Kind:
			e.Kind = w
		case int: // another run
			e.Kind, e.Restart = outlog.Restarted, &outlog.Restart{Run: w}
		case protocol.Size:
			h.system.Root.Send(h.screen, message.ScreenSize{Seq: uint64(len(h.log)), Size: w})
			continue
		case nil: // lost on its disk
		}
		h.log = append(h.log, e)
	}
	h.mu.Unlock()
	h.system.Root.Send(h.process, "news")
	synctest.Wait()
}

// forgets drops the entries before a seq.
func (h *theater) forgets(first uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.first = first
}

// An asker is who asks for the screen.
type asker struct {
	pid    *actor.PID
	mu     sync.Mutex
	result *protocol.ProcessScreenResult
	err    *protocol.Error
	n      int
	at     time.Time
}

func (h *theater) ask(p protocol.ProcessScreenParams) *asker {
	a := new(asker)
	a.pid = h.system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if m, ok := ctx.Message().(message.Reply); ok {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.n, a.err, a.at = a.n+1, m.Err, time.Now()
			if r, ok := m.Result.(protocol.ProcessScreenResult); ok {
				a.result = &r
			}
		}
	}))
	h.mu.Lock()
	ask := message.ScreenAsk{Of: message.Request{Token: 1, Params: p}, UpTo: uint64(len(h.log)), Run: 1}
	if n := len(h.log); n > 0 && h.log[n-1].Kind == outlog.Closed {
		ask.Exited, ask.Closed = true, true
	}
	h.mu.Unlock()
	h.system.Root.RequestWithCustomSender(h.screen, ask, a.pid)
	synctest.Wait()
	return a
}

// want checks that there is one answer, with these lines.
func (h *theater) want(a *asker, line string, matched any) {
	h.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.n != 1 || a.result == nil:
		h.t.Errorf("%d answers, the last %+v, %v", a.n, a.result, a.err)
	case a.result.Lines[0] != line:
		h.t.Errorf("the screen has %q, want %q", a.result.Lines[0], line)
	case (a.result.Matched == nil) != (matched == nil) || matched != nil && *a.result.Matched != matched:
		h.t.Errorf("matched is not %v", matched)
	}
}

func (h *theater) wantNone(a *asker) {
	h.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n != 0 {
		h.t.Errorf("there is an answer already: %+v, %v", a.result, a.err)
	}
}

func (h *theater) wantError(a *asker, kind protocol.ErrorKind) {
	h.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n != 1 || a.err == nil || a.err.Kind() != kind {
		h.t.Errorf("%d answers, the last %+v, %v, want an error of kind %s", a.n, a.result, a.err, kind)
	}
}

// play runs a test with a theater.
func play(t *testing.T, o Options, test func(*theater)) {
	t.Parallel()
	fake.Time(t, func(t *testing.T, system *actor.ActorSystem, spawn func(actor.Producer) *actor.PID, _ func(string) int) {
		h := newTheater(t, system, spawn, o)
		test(h)
		system.Root.StopFuture(h.process).Wait()
	})
}

// The screen has the output, its seq and its run.
func TestScreenFollowsTheLog(t *testing.T) {
	play(t, Options{Kept: true}, func(h *theater) {
		h.want(h.ask(protocol.ProcessScreenParams{}), "[24x80]", nil)
		h.happens("one", outlog.Ready, "two", outlog.Exited, 2, "three")
		a := h.ask(protocol.ProcessScreenParams{})
		h.want(a, "[24x80]onetwothree", nil)
		if r := a.result; r.Seq != 6 || r.Run != 1 || !r.Whole || r.Exited || r.ProcessID != "p" || r.Instance != "i" {
			t.Errorf("%+v", r)
		}
		h.happens(outlog.Exited, outlog.Closed)
		a = h.ask(protocol.ProcessScreenParams{})
		if r := a.result; r.Seq != 6 || !r.Exited || !r.Closed {
			t.Errorf("seq %d, exited %v, closed %v: want 6, the last output, and true", r.Seq, r.Exited, r.Closed)
		}
	})
}

// The answer has all output from before the request, also while a long piece is being drawn.
func TestAnswersAreUpToDate(t *testing.T) {
	play(t, Options{Kept: true}, func(h *theater) {
		long := strings.Repeat("x", 3*pullBytes)
		h.mu.Lock()
		h.log = append(h.log, outlog.Entry{Seq: 1, Kind: outlog.Output, Data: []byte(long)})
		h.mu.Unlock()
		a := h.ask(protocol.ProcessScreenParams{}) // the screen has not heard of the output
		h.wantNone(a)
		h.happens()
		h.want(a, "[24x80]"+long, nil)
	})
}

// Sizes count between the output before and the output after them.
func TestSizesInOrder(t *testing.T) {
	size := func(n uint16) protocol.Size { return protocol.Size{Rows: n, Cols: n} }
	play(t, Options{Kept: true, Sizes: []message.ScreenSize{{Size: size(1)}, {Seq: 1, Size: size(2)}}}, func(h *theater) {
		h.happens("a", "b", size(3), "c", size(4))
		h.want(h.ask(protocol.ProcessScreenParams{}), "[1x1]a[2x2]b[3x3]c[4x4]", nil)
		for i := range uint16(maxSizes + 10) {
			h.happens(size(10 + i))
		}
		h.happens("d")
		a := h.ask(protocol.ProcessScreenParams{})
		if got := a.result.Lines[0]; !strings.HasSuffix(got, fmt.Sprintf("[%dx%[1]d]d", 10+maxSizes+9)) {
			t.Errorf("after many sizes: %q", got)
		}
	})
}

// Whole is false after a gap, and true again once the program has reset the terminal.
func TestWhole(t *testing.T) {
	play(t, Options{Kept: true}, func(h *theater) {
		whole := func(want bool) {
			t.Helper()
			if a := h.ask(protocol.ProcessScreenParams{}); a.result.Whole != want {
				t.Errorf("whole is %v after %q", a.result.Whole, a.result.Lines)
			}
		}
		h.happens("a")
		whole(true)
		h.mu.Lock()
		h.log = append(h.log, outlog.Entry{Seq: 2, Kind: outlog.Output, Data: []byte("lost")})
		h.mu.Unlock()
		h.forgets(3)
		h.happens("b\x1b[2J")
		whole(false)
		h.happens("c\x1b", "c")
		whole(true)
		h.happens(nil) // the disk did not give it back
		whole(false)
		h.happens("x\x1bcy")
		whole(true)
	})
	t.Run("from the begin", func(t *testing.T) {
		play(t, Options{Kept: true}, func(h *theater) {
			h.mu.Lock()
			h.log = append(h.log, outlog.Entry{Seq: 1, Kind: outlog.Output, Data: []byte("gone")}, outlog.Entry{Seq: 2, Kind: outlog.Output, Data: []byte("there")})
			h.mu.Unlock()
			h.forgets(2)
			h.happens()
			a := h.ask(protocol.ProcessScreenParams{})
			if h.want(a, "[24x80]\x18there", nil); a.result.Whole || a.result.Seq != 2 {
				t.Errorf("whole %v, seq %d", a.result.Whole, a.result.Seq)
			}
		})
	})
}

// A wait ends when all its conditions hold.
func TestWaits(t *testing.T) {
	play(t, Options{Kept: true}, func(h *theater) {
		const long = 1 << 62
		pattern := h.ask(protocol.ProcessScreenParams{WaitFor: "re+ady$", WaitMs: long})
		after := h.ask(protocol.ProcessScreenParams{AfterSeq: 1, WaitMs: long})
		both := h.ask(protocol.ProcessScreenParams{AfterSeq: 2, WaitFor: "ready", WaitMs: long})
		quiet := h.ask(protocol.ProcessScreenParams{WaitFor: "go", QuietMs: 500, WaitMs: long})
		h.happens("rea")
		h.wantNone(pattern)
		h.wantNone(after)
		h.happens("dy")
		h.want(pattern, "[24x80]ready", true)
		h.want(after, "[24x80]ready", true)
		h.wantNone(both)
		time.Sleep(time.Hour)
		h.happens("go")
		h.want(both, "[24x80]readygo", true)
		h.wantNone(quiet)
		time.Sleep(400 * time.Millisecond)
		h.happens("!")
		time.Sleep(499 * time.Millisecond)
		synctest.Wait()
		h.wantNone(quiet)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		h.want(quiet, "[24x80]readygo!", true)
		h.want(h.ask(protocol.ProcessScreenParams{QuietMs: 501}), "[24x80]readygo!", false) // without time it is not waited for
	})
}

// A wait ends with its time.
func TestWaitsAreOver(t *testing.T) {
	play(t, Options{Kept: true}, func(h *theater) {
		h.happens("a")
		h.want(h.ask(protocol.ProcessScreenParams{WaitFor: "b"}), "[24x80]a", false)
		h.want(h.ask(protocol.ProcessScreenParams{WaitFor: "a"}), "[24x80]a", true)
		began := time.Now()
		late := h.ask(protocol.ProcessScreenParams{WaitFor: "b", WaitMs: 1000})
		time.Sleep(time.Second - 1)
		synctest.Wait()
		h.wantNone(late)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if h.want(late, "[24x80]a", false); late.at.Sub(began) != time.Second {
			t.Errorf("after %v", late.at.Sub(began))
		}
	})
}

// A wait ends with the process, before and after.
func TestWaitsEndWithTheProcess(t *testing.T) {
	play(t, Options{Kept: true}, func(h *theater) {
		const long = 1 << 40
		before := h.ask(protocol.ProcessScreenParams{WaitFor: "never", WaitMs: long})
		last := h.ask(protocol.ProcessScreenParams{WaitFor: "bye", WaitMs: long})
		h.happens(outlog.Exited)
		h.wantNone(before) // descendants may write
		h.happens("bye", outlog.Closed)
		h.want(before, "[24x80]bye", false)
		h.want(last, "[24x80]bye", true)
		h.want(h.ask(protocol.ProcessScreenParams{WaitFor: "never", WaitMs: long}), "[24x80]bye", false)
		h.want(h.ask(protocol.ProcessScreenParams{QuietMs: 1 << 30, WaitMs: long}), "[24x80]bye", false)
	})
}

// A request is answered although output from before does not come.
func TestRequestsNeverHang(t *testing.T) {
	play(t, Options{Kept: true}, func(h *theater) {
		h.mu.Lock()
		h.log = append(h.log, outlog.Entry{Seq: 1, Kind: outlog.Output, Data: []byte("a disk that hangs")})
		h.mu.Unlock()
		a := h.ask(protocol.ProcessScreenParams{})
		time.Sleep(patience)
		synctest.Wait()
		h.wantError(a, protocol.KindBusy)
	})
}

// A screen has a bounded number of waits, and forgets the waits of a lost viewer.
func TestWaitsAreBounded(t *testing.T) {
	play(t, Options{Kept: true}, func(h *theater) {
		var all []*asker
		for range maxWaits {
			all = append(all, h.ask(protocol.ProcessScreenParams{AfterSeq: 1, WaitMs: 1 << 40}))
		}
		h.wantError(h.ask(protocol.ProcessScreenParams{}), protocol.KindLimit)
		h.system.Root.Send(h.screen, message.ScreenForget{PID: all[0].pid})
		h.want(h.ask(protocol.ProcessScreenParams{}), "[24x80]", nil)
		h.happens("a", "b")
		h.wantNone(all[0])
		h.want(all[1], "[24x80]ab", true)
	})
}

// After a panic the screen is drawn again from the log, and requests go on waiting. After several it is over.
func TestPanics(t *testing.T) {
	play(t, Options{Kept: true}, func(h *theater) {
		waits := h.ask(protocol.ProcessScreenParams{WaitFor: "d", WaitMs: 1 << 40})
		h.happens("a", "PANIC", "c")
		h.forgets(3) // of the log, the bad part goes
		time.Sleep(time.Second)
		synctest.Wait()
		h.wantNone(waits)
		h.happens("d")
		if h.want(waits, "[24x80]\x18cd", true); waits.result.Whole {
			t.Error("the screen is whole after a panic, and after a gap")
		}
		late := h.ask(protocol.ProcessScreenParams{WaitFor: "never", WaitMs: 1 << 40})
		h.happens("PANIC")
		time.Sleep(time.Second)
		synctest.Wait()
		h.mu.Lock()
		gone, made := h.gone, h.made
		h.mu.Unlock()
		if h.wantError(late, protocol.KindInternal); gone != 1 || made < 4 {
			t.Errorf("%d screens have ended, and %d terminals were made", gone, made)
		}
	})
}

// A terminal that becomes too large ends the waits, also while output is read from disk.
func TestTooLargeWhileTheDiskIsRead(t *testing.T) {
	file := spool.NewDisk(t.TempDir(), 1<<20, nil).New(1 << 20)
	if err := file.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(file.Close)
	text := []byte("from disk")
	file.Reserve(int64(len(text)))
	at, err := file.Write(text)
	if err != nil {
		t.Fatal(err)
	}
	play(t, Options{Kept: true}, func(h *theater) {
		a := h.ask(protocol.ProcessScreenParams{WaitFor: "never", WaitMs: 1 << 40})
		h.mu.Lock()
		h.log = append(h.log, outlog.Entry{Seq: 1, Kind: outlog.Output, Spooled: file.Extent(at, len(text))})
		h.mu.Unlock()
		h.system.Root.Send(h.process, message.ScreenSize{Size: protocol.Size{Rows: 1000, Cols: 1000}})
		time.Sleep(time.Second)
		synctest.Wait()
		h.wantError(a, protocol.KindLimit)
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.full != 1 || h.made != 1 {
			t.Errorf("%d times full, and %d terminals were made", h.full, h.made)
		}
	})
}

// The end of the process ends the waits.
func TestStopAnswers(t *testing.T) {
	play(t, Options{Kept: true}, func(h *theater) {
		a := h.ask(protocol.ProcessScreenParams{WaitFor: "never", WaitMs: 1 << 40})
		h.system.Root.StopFuture(h.process).Wait()
		synctest.Wait()
		h.wantError(a, protocol.KindEnded)
	})
}

// A screen that nobody asks for any more says so, unless the start has asked for it.
func TestIdle(t *testing.T) {
	for _, kept := range []bool{false, true} {
		t.Run(fmt.Sprint(kept), func(t *testing.T) {
			play(t, Options{Kept: kept}, func(h *theater) {
				for range 2 {
					time.Sleep(idleAfter - 1)
					h.ask(protocol.ProcessScreenParams{})
				}
				h.mu.Lock()
				early := len(h.idle)
				h.mu.Unlock()
				time.Sleep(idleAfter)
				synctest.Wait()
				h.mu.Lock()
				defer h.mu.Unlock()
				if early != 0 || kept != (len(h.idle) == 0) || !kept && h.idle[0] != 2 {
					t.Errorf("idle: %v, and %d times early", h.idle, early)
				}
			})
		})
	}
}

// A screen that grows beyond its room says so, and answers with the limit.
func TestRoom(t *testing.T) {
	e := &env.Env{Config: config.Config{Budget: 16 * (base + 2000)}, KeptBudget: budget.New(1 << 20)}
	var gauge message.Gauge
	size := protocol.Size{Rows: 1, Cols: 10}
	room, err := NewRoom(e, &gauge, size, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewRoom(e, &gauge, size, 0); err == nil || err.Kind() != protocol.KindLimit {
		t.Errorf("another screen of the session: %v", err)
	}
	if _, err := NewRoom(e, new(message.Gauge), protocol.Size{Rows: 1000, Cols: 1000}, 0); err == nil || err.Kind() != protocol.KindLimit || !strings.Contains(err.Message, "1000") {
		t.Errorf("a large screen: %v", err)
	}
	play(t, Options{Kept: true, Room: room}, func(h *theater) {
		a := h.ask(protocol.ProcessScreenParams{WaitFor: "never", WaitMs: 1 << 40})
		h.happens(strings.Repeat("x", base+3000))
		h.wantError(a, protocol.KindLimit)
		h.wantError(h.ask(protocol.ProcessScreenParams{}), protocol.KindLimit)
		h.happens("y")
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.full != 1 {
			t.Errorf("%d times full", h.full)
		}
	})
	room.Close()
	room.Close()
	if err := room.Hold(base * 2); err != nil {
		t.Errorf("a screen that is about to end has no room: %v", err)
	}
	if gauge.ScreenBytes.Load() != 0 || e.KeptBudget.Used() != 0 {
		t.Errorf("%d bytes of the session, and %d of the server, are left over", gauge.ScreenBytes.Load(), e.KeptBudget.Used())
	}
}
