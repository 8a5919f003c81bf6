// Package live shows a load run in the terminal during the run. On a terminal, package live draws a view each second; elsewhere it prints a
// line every few seconds.
package live

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/internal/show"
)

// A Source has the figures until now, such as a *figures.Recorder. Follow calls Now once for each drawing.
type Source interface{ Now() *result.Result }

// Options say how Follow shows a run.
type Options struct {
	// Out gets the view, mostly show.To(os.Stderr). An Out.Width of 0 means: Out is no terminal, and Follow writes lines.
	Out show.Out
	// Size returns the width and the height of the terminal in cells, before each drawing. nil: Out.Width, and no limit of the height.
	Size func() (width, height int)
}

// Follow shows the run of src until ctx is done, and then removes the view. Follow reads no keys: ^C stays a signal.
func Follow(ctx context.Context, src Source, o Options) {
	terminal := o.Out.Width > 0
	every := 5 * time.Second
	if terminal {
		every = time.Second
	}
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	s := screen{out: o.Out}
	if terminal {
		s.draw(src, o)
	}
	for {
		select {
		case <-ctx.Done():
			s.remove()
			return
		case <-ticks.C:
		}
		switch {
		case ctx.Err() != nil: // both were ready
		case terminal:
			s.draw(src, o)
		default:
			fmt.Fprintln(o.Out, Line(src.Now()))
		}
	}
}

// A screen is the part of a terminal where the view is. The cursor is below the view.
type screen struct {
	out    show.Out
	widths []int // of the lines of the view
	width  int   // of the terminal, at the last drawing
}

func (s *screen) draw(src Source, o Options) {
	width, height := s.out.Width, 0
	if o.Size != nil {
		if w, h := o.Size(); w > 0 {
			width, height = w, h
		}
	}
	s.width = width
	lines := view(src.Now(), width)
	if height > 0 { // a view higher than the terminal could not be removed
		lines = lines[:min(len(lines), max(0, height-1))]
	}
	var b strings.Builder
	s.up(&b)
	s.widths = s.widths[:0]
	for _, l := range lines {
		text, cells := l.fit(s.out, width-1) // the last column stays empty, so no terminal wraps the line
		b.WriteString(text)
		b.WriteString("\x1b[K\n")
		s.widths = append(s.widths, cells)
	}
	b.WriteString("\x1b[J")
	fmt.Fprint(s.out, b.String())
}

// up moves the cursor to the begin of the view. A terminal that became narrower has wrapped the lines of the view.
func (s *screen) up(b *strings.Builder) {
	rows := 0
	for _, w := range s.widths {
		rows += max(1, (w+s.width-1)/max(s.width, 1))
	}
	if rows > 0 {
		fmt.Fprintf(b, "\x1b[%dA", rows)
	}
	b.WriteByte('\r')
}

// remove clears the view.
func (s *screen) remove() {
	if len(s.widths) == 0 {
		return
	}
	var b strings.Builder
	s.up(&b)
	s.widths = nil
	b.WriteString("\x1b[J")
	fmt.Fprint(s.out, b.String())
}
