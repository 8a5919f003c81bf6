// Package logs turns the output of processes into lines, and shows the lines of several processes.
package logs

import (
	"bytes"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// maxLine is the length, in bytes, up to which a line is held until its end comes. A longer line is passed on in
// parts.
const maxLine = 1 << 20

// A Line is a line of output, a part of a line, or a note about the output.
type Line struct {
	At     time.Time       // when its first byte came, by the clock of the server; zero: unknown
	Stream protocol.Stream // zero: a note
	Text   []byte          // without its newline
	Open   bool            // the line has no newline yet
}

// An assembler makes lines of the output and the news of a process. Each stream has its own lines.
type assembler struct {
	// Fixed before the first chunk.
	stream protocol.Stream // only this stream; zero: all
	since  time.Time       // only lines of this time or later; zero: all
	chunks bool            // pass each chunk on at once
	all    bool            // as of News
	yield  func(Line)      // gets each line. The text of a line may be a part of a chunk

	open  map[protocol.Stream]*Line
	holed map[protocol.Stream]bool // the next line may have begun in a hole
}

// output adds a chunk, and passes on each line that is complete.
func (a *assembler) output(at time.Time, stream protocol.Stream, chunk []byte) {
	if a.stream != 0 && a.stream != stream {
		return
	}
	if a.chunks {
		a.pass(Line{At: at, Stream: stream, Text: chunk, Open: true})
		return
	}
	if a.open[stream] != nil || a.holed[stream] {
		chunk = a.goOn(at, stream, chunk)
	}
	for {
		end := bytes.IndexByte(chunk, '\n')
		if end < 0 || end > maxLine {
			break
		}
		a.pass(Line{At: at, Stream: stream, Text: chunk[:end]})
		chunk = chunk[end+1:]
	}
	for len(chunk) > 0 {
		chunk = a.goOn(at, stream, chunk)
	}
}

// goOn adds to the open line of a stream, which may begin here, until the line ends, and returns the rest of the chunk.
func (a *assembler) goOn(at time.Time, stream protocol.Stream, chunk []byte) (rest []byte) {
	l := a.open[stream]
	if l == nil {
		l = &Line{At: at, Stream: stream}
		if a.holed[stream] {
			delete(a.holed, stream)
			l.Text = []byte(Missing)
		}
		if a.open == nil {
			a.open = make(map[protocol.Stream]*Line)
		}
		a.open[stream] = l
	}
	text, rest, whole := bytes.Cut(chunk, []byte{'\n'})
	if room := maxLine - len(l.Text); len(text) > room {
		text, rest, whole = chunk[:room], chunk[room:], false
	}
	l.Text = append(l.Text, text...)
	if whole || len(l.Text) >= maxLine {
		l.Open = !whole
		delete(a.open, stream)
		a.pass(*l)
	}
	return rest
}

// pass passes on a line, unless it is too old.
func (a *assembler) pass(l Line) {
	if l.At.IsZero() || !l.At.Before(a.since) {
		a.yield(l)
	}
}

// news passes on a note about an event, if the event is news.
func (a *assembler) news(e protocol.ReadEvent) {
	if text := News(e, a.all); text != "" {
		a.flush() // no line has parts of two runs
		l := Line{Text: []byte(text)}
		if e.AtMs != 0 {
			l.At = time.UnixMilli(e.AtMs)
		}
		a.pass(l)
	}
}

// flush passes on the lines without an end.
func (a *assembler) flush() { a.end(true) }

func (a *assembler) end(open bool) {
	for _, stream := range []protocol.Stream{protocol.Stdout, protocol.Stderr, protocol.PTY} {
		if l := a.open[stream]; l != nil {
			l.Open = open
			delete(a.open, stream)
			a.pass(*l)
		}
	}
}

// Missing stands for the part of a line that lies in a hole.
const Missing = "…"

// hole passes on the lines that a hole cuts. The first line of each stream behind the hole may have begun within.
func (a *assembler) hole() {
	for _, l := range a.open {
		l.Text = append(l.Text, Missing...)
	}
	a.end(false)
	a.holed = map[protocol.Stream]bool{protocol.Stdout: true, protocol.Stderr: true, protocol.PTY: true}
}

// pending reports whether a line has no end yet.
func (a *assembler) pending() bool { return len(a.open) > 0 }

// A tail keeps the last lines.
type tail struct {
	most  int
	lines []Line
}

func (t *tail) add(l Line) {
	if t.most <= 0 {
		return
	}
	if len(t.lines) == t.most {
		copy(t.lines, t.lines[1:])
		t.lines = t.lines[:t.most-1]
	}
	t.lines = append(t.lines, l)
}
