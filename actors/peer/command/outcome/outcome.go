// Package outcome decides what the client of a command is told: the output up to a limit, and the end,
// once. The package is pure: the log of a process and the time go in, output and end come out.
package outcome

import (
	"time"

	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/actors/peer/command/dialect"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// drainTime is how long the end waits after the exit, if descendants hold the output open.
	drainTime = 2 * time.Second
	// drainEntries bounds the entries taken after drainTime.
	drainEntries = 256
	// copies is how many times a byte of kept output is in memory when the program ends, if the output is plain text: as
	// written, as text, and in the message.
	copies = 3
)

// Outcome follows the log of a process. The zero Outcome with a Spec is at the start of the log.
//
//	running ─ exited ─▶ draining ─ closed ─────────────────▶ end ─▶ told
//	                        └─ Tick asks ─ LogEnds ─ there ──▲
//	Lost: from any state to the end
type Outcome struct {
	Spec *dialect.Spec // fixed

	last    uint64    // seq of the last entry taken; Take leaves no entry out
	streams [2]stream // stdout, stderr
	held    int       // see Held
	cut     bool      // see Cut

	exited  bool
	code    int       // once exited
	drainAt time.Time // drainTime after the exit; zero before
	asked   bool      // Tick has asked how far the log goes, which happens once
	until   uint64    // the end comes with this entry; 0: not known. Only LogEnds sets it.
	closed  bool      // the log has ended

	end  *dialect.End // nil: not yet known. Made once.
	told bool         // End has returned end
}

// stream is the output of stdout or stderr.
type stream struct {
	data []byte // the first n bytes, unless they were streamed
	n    int64  // at most Spec.Limit
	full bool   // n has reached Spec.Limit or Spec.Most; the rest is dropped
}

// Piece is output to be streamed. Data belongs to the entry.
type Piece struct {
	Stream     protocol.Stream
	Data       []byte
	CapReached bool // no Piece of this stream follows
}

// Last returns the seq of the last entry taken.
func (o *Outcome) Last() uint64 { return o.last }

// Exited reports whether the program has exited.
func (o *Outcome) Exited() bool { return o.exited }

// Take takes entries of the log, and returns the pieces to stream. If the entries do not continue the log,
// Take does nothing, and ok is false.
func (o *Outcome) Take(now time.Time, entries []outlog.Entry) (pieces []Piece, ok bool) {
	if len(entries) == 0 || entries[0].Seq != o.last+1 {
		return nil, false
	}
	for i := range entries {
		e := &entries[i]
		o.last = e.Seq
		switch e.Kind {
		case outlog.Output:
			if p, ok := o.output(e); ok {
				pieces = append(pieces, p)
			}
		case outlog.Exited:
			o.exited, o.code, o.drainAt = true, e.Status.ExitCode, now.Add(drainTime)
			if e.Status.TimedOut {
				o.code = dialect.TimedOutCode
			}
		case outlog.Closed:
			o.closed = true
		}
	}
	o.mayEnd()
	return pieces, true
}

func (o *Outcome) output(e *outlog.Entry) (Piece, bool) {
	p := Piece{Stream: protocol.Stdout, Data: e.Data}
	if e.Stream == protocol.Stderr { // the output of a PTY counts as stdout
		p.Stream = protocol.Stderr
	}
	s := &o.streams[p.Stream-protocol.Stdout]
	if s.full || o.end != nil {
		return Piece{}, false
	}
	if left := o.Spec.Limit - s.n; int64(len(p.Data)) >= left {
		p.Data, s.full = p.Data[:left], true
	}
	if o.Spec.Stream {
		s.n += int64(len(p.Data))
		p.CapReached = s.full
		return p, true
	}
	if left := o.Spec.Most - s.n; int64(len(p.Data)) > left {
		p.Data, s.full, o.cut = p.Data[:left], true, true
	}
	s.n += int64(len(p.Data))
	o.held += copies * len(p.Data)
	s.data = append(s.data, p.Data...)
	return Piece{}, false
}

// Due returns when to call Tick; zero: never.
func (o *Outcome) Due() time.Time {
	if !o.exited || o.asked || o.end != nil {
		return time.Time{}
	}
	return o.drainAt
}

// Tick reports whether to ask the process for the last seq of its log: descendants hold the output
// open, and the end no longer waits for them. LogEnds is the answer.
func (o *Outcome) Tick(now time.Time) (ask bool) {
	if due := o.Due(); due.IsZero() || now.Before(due) {
		return false
	}
	o.asked = true
	return true
}

// LogEnds says that last is the last seq of the log now: the end comes after this entry, and after at
// most drainEntries. Zero: the process did not say.
func (o *Outcome) LogEnds(last uint64) {
	o.until = max(o.last, min(last, o.last+drainEntries))
	o.mayEnd()
}

// Lost ends the log at Last: nobody can read on.
func (o *Outcome) Lost() {
	if o.end == nil {
		if !o.exited {
			o.code = dialect.LostCode
		}
		o.makeEnd()
	}
	o.closed = true
}

func (o *Outcome) mayEnd() {
	if o.end == nil && (o.closed || o.until > 0 && o.last >= o.until) {
		o.makeEnd()
	}
}

func (o *Outcome) makeEnd() {
	o.end, o.held = &dialect.End{Code: o.code, DrainTimedOut: !o.closed}, 0
	for i := range o.streams {
		s := &o.streams[i]
		if len(s.data) > 0 {
			all := text(s.data, s.full)
			fits, size := protocol.FitString(all, int(o.Spec.Most))
			if len(fits) < len(all) {
				s.full, o.cut = true, true
			}
			o.end.Output[i] = fits
			o.held += len(all) + size
		}
		o.end.CapReached[i] = s.full
		s.data = nil
	}
}

// End returns the end, once. ok is false before the end is known, and after the first time.
func (o *Outcome) End() (end dialect.End, ok bool) {
	if o.end == nil || o.told {
		return dialect.End{}, false
	}
	end, o.told = *o.end, true
	o.end.Output = [2]string{}
	return end, true
}

// Cut reports whether output is missing because the message with the end has no room for it.
func (o *Outcome) Cut() bool { return o.cut }

// Held returns how many bytes of memory the output takes that is kept for the end. Before the end is known, Held counts the text
// and the message that the output will become.
func (o *Outcome) Held() int { return o.held }

// Ended reports whether the end is known.
func (o *Outcome) Ended() bool { return o.end != nil }

// Wants reports whether to ask the process for more. canStream: the client takes a Piece now.
// After the end, the output of descendants is read and dropped, and descendants go on.
func (o *Outcome) Wants(canStream bool) bool {
	return !o.closed && (canStream || o.told || !o.Spec.Stream)
}

// Over reports whether nothing is left to read or to tell.
func (o *Outcome) Over() bool { return o.closed && o.told }
