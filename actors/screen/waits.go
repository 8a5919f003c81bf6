package screen

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/internal/screen"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	maxWaits   = 64        // waiting requests of a screen
	maxMatched = 128 << 10 // bytes of the lines for a pattern
	maxAnswer  = 16 << 20  // bytes of an answer, about
	// patience is how long a request waits for output from before the request, beside its own time.
	patience = 10 * time.Second
)

// wait is a process/screen without an answer.
type wait struct {
	from    *actor.PID
	token   uint64
	params  protocol.ProcessScreenParams
	pattern *regexp.Regexp // nil: none
	upTo    uint64         // the screen must have this entry of the log
	came    time.Time
	until   time.Time // the end of its time
	checked int       // pattern does not match this version of the screen; 0: none
}

// ask takes a process/screen.
func (d *display) ask(ctx actor.Context, m message.ScreenAsk) {
	d.asked++
	now := time.Now()
	d.lastAsk = now
	d.run, d.exited, d.closed = m.Run, m.Exited, m.Closed
	if m.HeardAt.After(d.heardAt) {
		d.heardAt = m.HeardAt
	}
	params := m.Of.Params.(protocol.ProcessScreenParams)
	w := &wait{from: ctx.Sender(), token: m.Of.Token, params: params, upTo: m.UpTo, came: now, until: now.Add(min(protocol.FromMillis(params.WaitMs), math.MaxInt64/2))}
	if d.full != nil {
		d.reply(ctx, w, nil, d.full)
		return
	}
	if len(d.waits) >= maxWaits {
		d.reply(ctx, w, nil, protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidRequest, "%d requests wait for the screen of process %s: the limit is %d. Wait for their answers", len(d.waits), d.Process.ID, maxWaits))
		return
	}
	if params.WaitFor != "" {
		w.pattern = regexp.MustCompile(params.WaitFor) // checked by the decoder
	}
	d.waits = append(d.waits, w)
	d.look(ctx)
}

// forget drops the requests of somebody who has gone.
func (d *display) forget(pid *actor.PID) {
	key := message.KeyOf(pid)
	d.waits = slices.DeleteFunc(d.waits, func(w *wait) bool { return message.KeyOf(w.from) == key })
}

// look answers each request whose conditions hold, or whose time is over, and sets the alarm for the others.
func (d *display) look(ctx actor.Context) {
	if d.matching || d.reading || d.drawn > 0 || d.full != nil {
		return // whatever ends this looks again
	}
	now := time.Now()
	var next time.Time
	alarm := func(at time.Time) {
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	var match []*wait
	d.waits = slices.DeleteFunc(d.waits, func(w *wait) bool {
		p, settled := &w.params, d.taken >= w.upTo
		if !settled {
			late := w.came.Add(patience)
			if w.until.After(late) {
				late = w.until
			}
			if late.After(now) {
				alarm(late)
				return false
			}
			d.reply(ctx, w, nil, protocol.Errorf(protocol.KindBusy, protocol.CodeInternal, "the screen of process %s has not drawn all output within %v: try again", d.Process.ID, patience))
			return true
		}
		if !p.Waits() {
			d.answer(ctx, w, nil)
			return true
		}
		quietAt := d.heardAt.Add(protocol.FromMillis(p.QuietMs))
		holds := d.shown > p.AfterSeq || p.AfterSeq == 0
		if holds && p.QuietMs > 0 && quietAt.After(now) {
			holds = false
			alarm(quietAt)
		}
		switch over := d.closed || !w.until.After(now); {
		case holds && w.pattern == nil:
			d.answer(ctx, w, new(true))
			return true
		case holds && w.checked != d.version:
			match = append(match, w)
		case over:
			d.answer(ctx, w, new(false))
			return true
		}
		alarm(w.until)
		return false
	})
	if len(match) > 0 {
		d.match(ctx, match)
	}
	if !d.Kept && len(d.waits) == 0 {
		if idle := d.lastAsk.Add(idleAfter); idle.After(now) {
			alarm(idle)
		} else {
			ctx.Request(d.Process.PID, message.ScreenIdle{Asked: d.asked})
		}
	}
	d.alarm.SetTo(ctx, next, waitsDue{})
}

// match looks for the patterns on a goroutine: an expression of a client may take long. Until matched comes, nothing is drawn, so the
// answer has the matching screen.
func (d *display) match(ctx actor.Context, waits []*wait) {
	d.matching = true
	d.work++
	work := d.work
	text := textOf(d.term.Snapshot(screen.Options{}))
	self, root := ctx.Self(), ctx.ActorSystem().Root
	d.env.Run(root, self, "match", func() {
		by := make(map[*wait]bool, len(waits))
		for _, w := range waits {
			by[w] = w.pattern.MatchString(text)
		}
		root.Send(self, matched{work, by})
	})
}

// textOf returns the text for a pattern: the lines up to the cursor, or up to the last line with text. The line of the cursor has blanks up to
// the cursor, so "> $" matches a prompt.
func textOf(n *screen.Snapshot) string {
	lines, row := n.Lines, n.Cursor.Row
	end := len(lines)
	for end > row+1 && lines[end-1] == "" {
		end--
	}
	if row < end {
		if short := n.Cursor.Col - show.Width(lines[row]); short > 0 {
			lines[row] += strings.Repeat(" ", short)
		}
	}
	text := strings.Join(lines[:end], "\n")
	return text[:min(len(text), maxMatched)]
}

func (d *display) matched(ctx actor.Context, m matched) {
	if !d.matching || m.work != d.work {
		return
	}
	d.matching = false
	d.waits = slices.DeleteFunc(d.waits, func(w *wait) bool {
		if m.by[w] {
			d.answer(ctx, w, new(true))
			return true
		}
		if _, looked := m.by[w]; looked {
			w.checked = d.version
		}
		return false
	})
	if len(d.queue) == 0 {
		d.resizeNow()
	}
	d.look(ctx)
	d.draw(ctx)
}

func (d *display) reply(ctx actor.Context, w *wait, result any, err *protocol.Error) {
	ctx.Send(w.from, message.Reply{Token: w.token, Result: result, Err: err})
}

// answer answers with the present screen.
func (d *display) answer(ctx actor.Context, w *wait, matched *bool) {
	p := &w.params
	n := d.term.Snapshot(screen.Options{Scrollback: int(min(p.Scrollback, protocol.MaxScrollback)), Spans: p.Spans, Restore: p.Restore})
	r := resultOf(n)
	r.ProcessID, r.Instance, r.Run, r.Seq = d.Process.ID, d.Instance, d.run, d.shown
	r.Whole, r.Matched, r.Exited, r.Closed = d.whole, matched, d.exited, d.closed
	if size := r.Footprint(); size > maxAnswer {
		d.reply(ctx, w, nil, protocol.Errorf(protocol.KindTooLarge, protocol.CodeInternal,
			"the screen takes about %d bytes, and an answer has at most %d: ask for less scrollback, or without spans and restore", size, maxAnswer))
		return
	}
	d.reply(ctx, w, r, nil)
}

// underlines are the words for UnderlineStyle.
var underlines = [...]string{2: "double", 3: "curly", 4: "dotted", 5: "dashed"}

// resultOf returns the result for a snapshot.
func resultOf(n *screen.Snapshot) protocol.ProcessScreenResult {
	m := n.Modes
	r := protocol.ProcessScreenResult{
		Rows: uint16(n.Rows), Cols: uint16(n.Cols), Lines: n.Lines, Title: n.Title, AltScreen: n.AltScreen,
		Cursor:     protocol.ScreenCursor{Row: uint16(n.Cursor.Row), Col: uint16(n.Cursor.Col), Visible: n.Cursor.Visible, Shape: n.Cursor.Shape, Blink: n.Cursor.Blink, Color: n.Cursor.Color},
		Foreground: n.Foreground, Background: n.Background,
		Modes: protocol.ScreenModes{
			ApplicationCursor: m.ApplicationCursor, ApplicationKeypad: m.ApplicationKeypad, BracketedPaste: m.BracketedPaste, FocusEvents: m.FocusEvents,
			Mouse: m.Mouse, MouseEncoding: m.MouseEncoding, ReverseVideo: m.ReverseVideo,
		},
		Scrollback: n.Scrollback, ScrollbackLines: uint64(n.ScrollbackLines), Restore: n.Restore,
	}
	if n.Spans != nil {
		r.Spans = make([][]protocol.Span, len(n.Spans))
		for i, row := range n.Spans {
			r.Spans[i] = make([]protocol.Span, len(row))
			for k, s := range row {
				r.Spans[i][k] = protocol.Span{
					Text: s.Text, Fg: s.Fg, Bg: s.Bg, Bold: s.Bold, Faint: s.Faint, Italic: s.Italic, Underline: s.Underline,
					Blink: s.Blink, Inverse: s.Inverse, Hidden: s.Hidden, Strike: s.Strike, Link: s.Link,
					Overline: s.Overline, UnderlineStyle: underlines[s.UnderlineStyle], UnderlineColor: s.UnderlineColor,
				}
			}
		}
	}
	return r
}
