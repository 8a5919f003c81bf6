// Package screen has the actor of the screen of a process on a PTY: a terminal with all output of the process would look the same.
//
//	screen.go   takes the output of the process, as a viewer with a cursor of its own, and never holds output back
//	waits.go    answers process/screen, now or once its conditions hold
//	room.go     the memory of screens
//
// The actor is a child of the process, and may fail: the next instance draws all output of the log again. Package
// internal/screen emulates the terminal.
package screen

import (
	"bytes"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/internal/screen"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Messages to a screen from itself and from its goroutines. All other messages are in actors/message.
type (
	goOn     struct{} // itself; the rest of a Delivery is to be drawn
	waitsDue struct{} // its timer
	// unspooled is from the reader of the disk: the first Delivery has its output in memory.
	unspooled struct {
		work    int
		entries []outlog.Entry
	}
	// matched is from the goroutine that matches: whether the pattern of each request matches.
	matched struct {
		work int
		by   map[*wait]bool
	}
)

func (goOn) IgnoreDeadLetterLogging()      {}
func (waitsDue) IgnoreDeadLetterLogging()  {}
func (unspooled) IgnoreDeadLetterLogging() {}
func (matched) IgnoreDeadLetterLogging()   {}

const (
	pullBytes = 64 << 10             // of a Delivery
	piece     = 2 << 10              // bytes drawn between two looks at the clock
	turn      = 2 * time.Millisecond // how long the actor draws before other messages have their turn
	maxSizes  = 64                   // remembered sizes of the PTY
	idleAfter = time.Minute          // a screen made by a request ends so long after the last request
	resetting = "\x1bc"              // RIS: the terminal is as new
	cancelled = "\x18"               // CAN: ends an unfinished sequence
)

// Terminal keeps the state of a terminal. Any method may panic.
type Terminal interface {
	Write([]byte)
	Resize(rows, cols int)
	Snapshot(screen.Options) *screen.Snapshot
	Memory() int
}

// Options describe a new screen.
type Options struct {
	Process    message.ProcessRef
	Instance   string
	Scrollback int
	Sizes      []message.ScreenSize // of the PTY: the first counts from the begin of the log on
	Kept       bool                 // the screen stays although nobody asks for it
	Room       *Room                // the caller closes the Room when it ends the actor, or hears of its end

	// New returns a terminal; nil: a Screen of package internal/screen.
	New func(rows, cols, scrollback int) Terminal
}

// New returns the Props of the actor of a screen.
func New(e *env.Env, o Options) *actor.Props {
	if o.New == nil {
		o.New = func(rows, cols, scrollback int) Terminal { return screen.New(rows, cols, scrollback) }
	}
	r := &record{Options: o, env: e, sizes: slices.Clone(o.Sizes), lastAsk: time.Now()}
	return e.Props(func() actor.Actor { return &display{record: r} }, env.Escalated)
}

// record is the state that survives a restart of the actor, beside the log of the process.
type record struct {
	Options // fixed at spawn
	env     *env.Env

	// Owned by Receive.
	sizes   []message.ScreenSize // at most maxSizes
	waits   []*wait
	asked   uint64    // ScreenAsks
	lastAsk time.Time // of the last ScreenAsk, or of the spawn
	heardAt time.Time // of the newest output or begin of a run; zero: there was no run
	run     int       // as the process says; overtaken by the log
	exited  bool
	closed  bool
	full    *protocol.Error // the reason of a ScreenFull; nil: there is room
	work    int             // goroutines so far: only the newest has news
	within  bool            // a message is being handled, or its handler has panicked
}

// display is the actor of a screen.
type display struct {
	*record

	// Owned by Receive.
	term     Terminal
	resized  int                // so many of sizes count already
	got      uint64             // the last entry of all deliveries
	queue    []message.Delivery // to be drawn; several only from an ending process
	at       int                // the entry of queue[0] to be drawn next
	drawn    int                // drawn bytes of the entry at
	reading  bool               // the output of queue[0] is read from disk
	taken    uint64             // the last drawn entry
	shown    uint64             // the last drawn output
	whole    bool
	escaped  bool // the last drawn byte is ESC
	version  int  // changes with the screen
	matching bool // a goroutine matches: nothing is drawn
	alarm    env.Alarm
}

// Receive implements actor.Actor.
func (d *display) Receive(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *actor.Stopping:
		d.end(ctx)
	case *actor.Restarting:
		d.alarm.Stop()
	default:
		d.within = true
		d.receive(ctx)
		d.within = false
	}
}

func (d *display) receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		d.begin(ctx)
	case message.Delivery:
		d.delivery(ctx, m)
	case unspooled:
		if d.reading && m.work == d.work {
			d.reading, d.queue[0].Entries = false, m.entries
			d.draw(ctx)
		}
	case goOn:
		d.draw(ctx)
	case message.ScreenSize:
		d.sized(ctx, m)
	case message.ScreenAsk:
		d.ask(ctx, m)
	case message.ScreenForget:
		d.forget(m.PID)
	case matched:
		d.matched(ctx, m)
	case waitsDue:
		d.alarm.Cancel()
		d.look(ctx)
	case message.Resubscribe:
		d.subscribe(ctx)
	case env.Crashed:
		panic(m)
	case message.Refused:
	default:
		d.env.Unexpected(ctx, "screen", m)
	}
}

// begin begins with a new terminal, and all that the log has.
func (d *display) begin(ctx actor.Context) {
	rows, cols := Size(d.sizes[0].Size)
	d.term, d.resized, d.whole, d.version = d.New(rows, cols, d.Scrollback), 1, true, 1
	d.resizeNow()
	for _, w := range d.waits {
		w.checked = 0
	}
	d.subscribe(ctx)
}

// end answers all waiting requests.
func (d *display) end(ctx actor.Context) {
	d.alarm.Stop()
	err := protocol.Errorf(protocol.KindEnded, protocol.CodeInvalidRequest, "process %s ends, and its screen with it", d.Process.ID)
	if d.within {
		err = ErrFailed
	}
	for _, w := range d.waits {
		d.reply(ctx, w, nil, err)
	}
	d.waits = nil
}

// subscribe asks for the entries after the last entry.
func (d *display) subscribe(ctx actor.Context) {
	ctx.Request(d.Process.PID, message.Subscribe{After: d.got, Explicit: true, Resumed: d.got > 0, Pull: pullBytes})
}

// delivery takes entries, and draws them.
func (d *display) delivery(ctx actor.Context, m message.Delivery) {
	first, last := m.Gap.From, m.Gap.To
	if n := len(m.Entries); n > 0 {
		if first == 0 {
			first = m.Entries[0].Seq
		}
		last = m.Entries[n-1].Seq
	}
	switch {
	case d.full != nil:
		m.Release()
		return
	case first != d.got+1: // of an earlier instance, or of a process after a failure
		m.Release()
		if last > d.got {
			d.subscribe(ctx)
		}
		return
	}
	d.got = last
	d.queue = append(d.queue, m)
	d.draw(ctx)
}

// draw draws the deliveries until its turn is over, and answers requests after each.
func (d *display) draw(ctx actor.Context) {
	begin := time.Now()
	for len(d.queue) > 0 && !d.matching && !d.reading {
		m := &d.queue[0]
		if d.at == 0 && d.drawn == 0 && d.readDisk(ctx, m) {
			return
		}
		d.gap(m)
		for d.at < len(m.Entries) {
			if d.entry(&m.Entries[d.at]) {
				d.at, d.drawn = d.at+1, 0
			}
			if time.Since(begin) >= turn && d.at < len(m.Entries) {
				ctx.Send(ctx.Self(), goOn{})
				return
			}
		}
		cut := m.Cut
		m.Release()
		d.queue, d.at = slices.Delete(d.queue, 0, 1), 0
		if err := d.Room.Hold(d.term.Memory()); err != nil {
			d.giveUp(ctx, err)
			return
		}
		if !cut {
			ctx.Request(d.Process.PID, message.Pull{Bytes: pullBytes})
		}
		if len(d.queue) == 0 {
			d.resizeNow()
		}
		d.look(ctx)
	}
}

// readDisk has a goroutine read output on disk, because a disk may be slow, and reports whether there is such output.
func (d *display) readDisk(ctx actor.Context, m *message.Delivery) bool {
	if !slices.ContainsFunc(m.Entries, func(e outlog.Entry) bool { return e.Spooled != nil }) {
		return false
	}
	d.reading = true
	d.work++
	entries, work := slices.Clone(m.Entries), d.work
	self, root := ctx.Self(), ctx.ActorSystem().Root
	d.env.Run(root, self, "spool", func() {
		for i := range entries {
			if e := &entries[i]; e.Spooled != nil {
				e.Data, _ = e.Spooled.Read(nil)
				e.Spooled.Release()
				e.Spooled = nil
			}
		}
		root.Send(self, unspooled{work, entries})
	})
	return true
}

// gap notes lost output.
func (d *display) gap(m *message.Delivery) {
	if m.Gap.From > 0 {
		d.lost()
		d.taken, d.shown = m.Gap.To, m.Gap.To
		m.Gap = outlog.Gap{}
	}
}

func (d *display) lost() {
	d.resizeNow()
	d.term.Write([]byte(cancelled))
	d.whole, d.escaped, d.version = false, false, d.version+1
}

// entry draws an entry, or a piece of it, and reports whether the entry is done.
func (d *display) entry(e *outlog.Entry) (done bool) {
	if d.drawn == 0 {
		d.resizeNow()
	}
	switch e.Kind {
	case outlog.Output:
		if e.Data == nil {
			d.lost() // the disk did not give it back
		}
		next := e.Data[d.drawn:min(d.drawn+piece, len(e.Data))]
		d.term.Write(next)
		d.drawn += len(next)
		d.version++
		d.seeReset(next)
		if d.drawn < len(e.Data) {
			return false
		}
		d.shown = e.Seq
		d.hear(e.AtMs)
	case outlog.Exited:
		d.exited = true
	case outlog.Restarted:
		d.exited, d.closed, d.run = false, false, e.Restart.Run
		d.hear(e.AtMs)
	case outlog.Closed:
		d.exited, d.closed = true, true
	}
	d.taken = e.Seq
	return true
}

// hear notes when the process wrote something, or began a run.
func (d *display) hear(ms int64) {
	if at := time.UnixMilli(ms); at.After(d.heardAt) {
		d.heardAt = at
	}
}

// seeReset looks for a reset of the terminal by the program: earlier output then no longer counts. ESC c resets within any other sequence, too.
func (d *display) seeReset(b []byte) {
	if len(b) == 0 {
		return
	}
	if !d.whole {
		d.whole = d.escaped && b[0] == 'c' || bytes.Contains(b, []byte(resetting))
	}
	d.escaped = b[len(b)-1] == resetting[0]
}

// sized takes a new size of the PTY.
func (d *display) sized(ctx actor.Context, m message.ScreenSize) {
	if err := TooLarge(m.Size); err != nil {
		d.giveUp(ctx, err)
		return
	}
	d.resize(m)
	if len(d.queue) == 0 && !d.matching {
		d.resizeNow()
		d.look(ctx)
	}
}

// resize remembers a size. The size counts after all earlier output.
func (d *display) resize(m message.ScreenSize) {
	switch n := len(d.sizes); {
	case n < maxSizes:
	case d.resized > 1:
		d.sizes, d.resized = slices.Delete(d.sizes, 0, 1), d.resized-1
	default:
		d.sizes = d.sizes[:n-1] // a flood of sizes: the newest counts
	}
	d.sizes = append(d.sizes, m)
}

// resizeNow gives the screen the size of the PTY after the drawn entries.
func (d *display) resizeNow() {
	was := d.resized
	for d.resized < len(d.sizes) && d.sizes[d.resized].Seq <= d.taken {
		d.resized++
	}
	if d.resized == was {
		return
	}
	if size := d.sizes[d.resized-1].Size; TooLarge(size) != nil {
		d.whole = false // for a while the terminal had no screen
	} else {
		d.term.Resize(Size(size))
	}
	d.version++
}

// giveUp asks for the end: there is no room, or the terminal is too large.
func (d *display) giveUp(ctx actor.Context, err *protocol.Error) {
	d.full = err
	for _, w := range d.waits {
		d.reply(ctx, w, nil, err)
	}
	if d.reading {
		d.reading, d.queue = false, d.queue[1:] // the reader of the disk releases it
	}
	for i := range d.queue {
		d.queue[i].Release()
	}
	d.waits, d.queue, d.at, d.drawn = nil, nil, 0, 0
	ctx.Request(d.Process.PID, message.ScreenFull{})
}
