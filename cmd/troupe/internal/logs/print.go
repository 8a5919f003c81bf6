package logs

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A Printer writes lines for people. Any goroutine may call its methods.
type Printer struct {
	// Fixed before the first line.
	Out        show.Out
	Notes      io.Writer // gets notes about the output
	Names      []string  // of the sources
	Raw        bool      // write the output unchanged
	Timestamps bool      // write the time before each line
	News       bool      // notes are lines of Out, with the mark *; holes go to Notes in any case
	Cut        int       // a line has at most so many cells, with its time; zero: any number. Not with Raw

	mu       sync.Mutex
	buf      []byte           // not yet written to Out
	open     place            // of the last line, if written without an end; zero: the last line has an end
	prefixes map[place]string // without times
	err      error            // the first error of Out
}

// A place is where a line comes from.
type place struct {
	source int // plus 1
	stream protocol.Stream
}

// styles are the styles of the names of several sources, in turn.
var styles = []show.Style{"36", "33", "32", "35", "34", "31", "96", "93", "92", "95", "94"}

// timestamp is the layout of Printer.Timestamps.
const timestamp = "2006-01-02T15:04:05.000Z07:00"

// fullBuffer is the size of Printer.buf, in bytes, from which Print writes.
const fullBuffer = 64 << 10

// Print adds lines of a source, which come to Out at the latest with Flush, and returns the first error of Out.
func (p *Printer) Print(source int, lines ...Line) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range lines {
		if p.add(source, &lines[i]); len(p.buf) >= fullBuffer {
			p.write()
		}
	}
	return p.err
}

// Flush writes all lines to Out, and returns the first error of Out.
func (p *Printer) Flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write()
	return p.err
}

// Say prints news of a source after the lines before. A later call returns an error of Out.
func (p *Printer) Say(source int, text string) {
	_ = p.Print(source, Line{Text: []byte(text)})
	_ = p.Flush()
}

// Tell writes a note about the output of a source to Notes, after the lines before.
func (p *Printer) Tell(source int, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tell(source, text)
}

func (p *Printer) tell(source int, text string) {
	p.end()
	p.write()
	fmt.Fprintf(p.Notes, "%s: %s\n", show.Harmless(p.Names[source]), show.Harmless(text))
}

func (p *Printer) add(source int, l *Line) {
	if l.Stream == 0 && !p.News {
		p.tell(source, string(l.Text))
		return
	}
	from := place{source + 1, l.Stream}
	if p.open != from || l.Stream == 0 {
		p.end()
		if p.Timestamps {
			p.buf = append(append(p.buf, p.Out.Paint(show.Dim, l.At.Format(timestamp))...), ' ')
		}
		p.buf = append(p.buf, p.prefix(from)...)
	}
	switch {
	case l.Stream == 0:
		p.buf = append(p.buf, p.Out.Paint(show.Dim, p.cut(show.Harmless(string(l.Text))))...)
	case p.Raw:
		p.buf = append(p.buf, l.Text...)
	case p.Cut > 0:
		p.buf = append(p.buf, p.cut(show.Harmless(string(bytes.TrimRight(l.Text, "\r"))))...)
	default:
		p.buf = show.AppendHarmless(p.buf, bytes.TrimRight(l.Text, "\r"))
	}
	if p.open = (place{}); l.Open {
		p.open = from
	} else {
		p.buf = append(p.buf, '\n')
	}
}

// cut returns the text of a line, and leaves out what does not fit beside its time.
func (p *Printer) cut(text string) string {
	room := p.Cut
	if room == 0 {
		return text
	}
	if p.Timestamps {
		room -= len(timestamp) + 1
	}
	return show.Cut(text, max(room, 1))
}

func (p *Printer) write() {
	if len(p.buf) > 0 && p.err == nil {
		_, p.err = p.Out.Write(p.buf)
	}
	p.buf = p.buf[:0]
}

// End ends a line without an end, unless the output of a single source is written unchanged, and writes all lines.
func (p *Printer) End() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end()
	p.write()
	return p.err
}

func (p *Printer) end() {
	if p.open != (place{}) && !(p.Raw && len(p.Names) == 1) {
		p.open = place{}
		p.buf = append(p.buf, '\n')
	}
}

// prefix returns the name of a source, and the mark between the name and a line.
func (p *Printer) prefix(of place) string {
	if len(p.Names) == 1 {
		return ""
	}
	text, known := p.prefixes[of]
	if known {
		return text
	}
	if p.prefixes == nil {
		p.prefixes = make(map[place]string)
	}
	width := 0
	for _, n := range p.Names {
		width = max(width, show.Width(show.Harmless(n)))
	}
	name := show.Harmless(p.Names[of.source-1])
	mark := map[protocol.Stream]string{0: "*", protocol.Stderr: "!"}[of.stream]
	text = p.Out.Paint(styles[(of.source-1)%len(styles)], fmt.Sprintf("%s%*s %s", name, width-show.Width(name), "", cmp.Or(mark, "|"))) + " "
	p.prefixes[of] = text
	return text
}

// ParseSince reads the value of --since: a seq, a time, or how long ago. now is the time of the caller.
func ParseSince(text string, now time.Time) (after uint64, since time.Time, err error) {
	if text == "" {
		return 0, time.Time{}, nil
	}
	var seq uint64
	if n, err := fmt.Sscanf(text, "%d", &seq); n == 1 && err == nil && fmt.Sprint(seq) == text {
		return max(seq, 1) - 1, time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return 0, now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return 0, at, nil
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			at = time.Date(now.Year(), now.Month(), now.Day(), at.Hour(), at.Minute(), at.Second(), 0, now.Location())
			if at.After(now) {
				at = at.AddDate(0, 0, -1) // the last time when a clock showed this
			}
			return 0, at, nil
		}
	}
	return 0, time.Time{}, fmt.Errorf("%q is neither an event number nor a time: write a number such as 42, how long ago such as 10m, or a time such as 15:04 or 2026-01-31T15:04:05", text)
}
