package logs

import (
	"fmt"
	"io"
	"time"

	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A Printer writes lines for people.
type Printer struct {
	Out        show.Out
	Notes      io.Writer // gets notes about the output
	Names      []string  // of the sources
	Raw        bool      // write the output unchanged
	Timestamps bool      // write the time before each line

	open place // of the last line, if written without an end; zero: the last line has an end
}

// A place is where a line comes from.
type place struct {
	source int // plus 1
	stream protocol.Stream
}

// prefixes are the styles of the prefixes of several sources, in turn.
var prefixes = []show.Style{"36", "33", "32", "35", "34", "31"}

// Print writes a line, and returns the error of the writer.
func (p *Printer) Print(source int, l Line) error {
	text := string(l.Text)
	if l.Stream == 0 {
		if err := p.End(); err != nil {
			return err
		}
		_, err := fmt.Fprintf(p.Notes, "%s: %s\n", show.Harmless(p.Names[source]), show.Harmless(text))
		return err
	}
	if !p.Raw {
		text = show.HarmlessText(trimCR(text))
	}
	from := place{source + 1, l.Stream}
	if p.open != from {
		if err := p.End(); err != nil {
			return err
		}
		text = p.prefix(source, l) + text
	}
	if p.open = (place{}); l.Open {
		p.open = from
	} else {
		text += "\n"
	}
	_, err := io.WriteString(p.Out, text)
	return err
}

// End ends a line without an end, unless the output of a single source is written unchanged.
func (p *Printer) End() error {
	if p.open == (place{}) || p.Raw && len(p.Names) == 1 {
		return nil
	}
	p.open = place{}
	_, err := io.WriteString(p.Out, "\n")
	return err
}

func (p *Printer) prefix(source int, l Line) string {
	text := ""
	if p.Timestamps {
		text += p.Out.Paint(show.Dim, l.At.Format("2006-01-02T15:04:05.000Z07:00")) + " "
	}
	if len(p.Names) == 1 {
		return text
	}
	width := 0
	for _, n := range p.Names {
		width = max(width, show.Width(show.Harmless(n)))
	}
	name := show.Harmless(p.Names[source])
	return text + p.Out.Paint(prefixes[source%len(prefixes)], fmt.Sprintf("%s%*s %s", name, width-show.Width(name), "", Mark(l.Stream))) + " "
}

// Mark returns what stands between the name of a process and a line of a stream.
func Mark(s protocol.Stream) string {
	if s == protocol.Stderr {
		return "!"
	}
	return "|"
}

// trimCR removes the carriage returns at the end of a line of a terminal.
func trimCR(text string) string {
	for len(text) > 0 && text[len(text)-1] == '\r' {
		text = text[:len(text)-1]
	}
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
	return 0, time.Time{}, fmt.Errorf("%q is no seq and no time: write a number such as 42, how long ago such as 10m, or a time such as 15:04 or 2026-01-31T15:04:05", text)
}
