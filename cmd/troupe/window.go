package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/client"
	emulator "github.com/b6f6fdd7/troupe/internal/screen"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	frameTime  = 50 * time.Millisecond // between two pictures of a window
	windowWait = time.Second           // until a window asks for the screen although there is no output
)

// A window shows a program whose terminal keeps its size: the output while the viewer's terminal has the same size, and otherwise the
// screen that the server draws, or the part of it around the cursor. Any goroutine may call its methods.
type window struct {
	viewer  *viewer
	process *client.Process
	to      io.Writer // the viewer's terminal

	mu     sync.Mutex
	screen *protocol.ProcessScreenResult // the newest
	over   bool                          // nothing is drawn any more
	draws  bool                          // the sizes were different once; from then on the screen is drawn
	rows   []string                      // that the terminal shows; nil: unknown
	text   *emulator.Screen              // for the last screen: the session may end with the program, and then the server has none
}

func newWindow(v *viewer, p *client.Process, to io.Writer, r *protocol.ProcessScreenResult) *window {
	return &window{viewer: v, process: p, to: to, screen: r, text: emulator.New(int(r.Rows), int(r.Cols), 0)}
}

// emulate has f use text. After a panic of the emulator there is no last screen. w.mu is held.
func (w *window) emulate(f func(*emulator.Screen)) {
	defer func() {
		if recover() != nil {
			w.text = nil
		}
	}()
	if w.text != nil {
		f(w.text)
	}
}

// Write passes on the drawn screen, and output of the program.
func (w *window) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.emulate(func(s *emulator.Screen) { s.Write(b) })
	if w.draws {
		return len(b), nil
	}
	return w.to.Write(b)
}

// follow shows the screen until the viewer leaves or the process ends.
func (w *window) follow() {
	for {
		select {
		case <-w.viewer.ctx.Done():
			return
		case <-time.After(frameTime):
		}
		r, err := w.process.Screen(w.viewer.ctx, &client.ScreenOptions{Spans: true, After: w.screen.Seq, Wait: windowWait})
		if err != nil {
			return // Wait of the Cmd says what is wrong
		}
		w.show(&r)
		if r.Closed {
			return
		}
	}
}

// again shows the screen once more: the viewer's terminal has another size, or has shown something else.
func (w *window) again() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rows = nil
	w.draw()
}

// show shows a newer screen.
func (w *window) show(r *protocol.ProcessScreenResult) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.screen = r
	w.emulate(func(s *emulator.Screen) { s.Resize(int(r.Rows), int(r.Cols)) })
	w.draw()
}

// draw draws the screen if the sizes are, or were, different. w.mu is held.
func (w *window) draw() {
	r, size := w.screen, w.viewer.con.Size()
	if !w.draws && size == (protocol.Size{Rows: r.Rows, Cols: r.Cols}) || size == (protocol.Size{}) || w.over || w.viewer.ctx.Err() != nil {
		return
	}
	out := "\x1b[?2026h\x1b[?25l"
	if !w.draws {
		// The program may have set the modes.
		out += "\x1b[!p\x1b[?1;9;47;1000;1002;1003;1004;1005;1006;1015;1047;2004l\x1b>\x1b[?7h\x1b[?1049h"
		w.draws = true
	}
	rows, row, col := picture(r, size)
	if len(w.rows) != len(rows) {
		out += "\x1b[m\x1b[H\x1b[2J"
		w.rows = make([]string, len(rows))
	}
	for i, text := range rows {
		if w.rows[i] != text {
			out += fmt.Sprintf("\x1b[%dH\x1b[K%s", i+1, text)
		}
	}
	w.rows = rows
	out += fmt.Sprintf("\x1b[%d;%dH", row+1, col+1)
	if r.Cursor.Visible {
		out += "\x1b[?25h"
	}
	_, _ = io.WriteString(w.to, out+"\x1b[?2026l") // the next write fails, too
}

// end ends the pictures, and returns the text of the last screen, if a picture was all that the viewer had of it; else "".
func (w *window) end() (text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.emulate(func(s *emulator.Screen) {
		if n := s.Snapshot(emulator.Options{}); w.draws && !n.AltScreen {
			for _, line := range n.Lines {
				text += show.Harmless(line) + "\n"
			}
			text = strings.TrimRight(text, "\n") + "\n"
		}
	})
	return text
}

// picture returns the rows that a terminal of a size shows of a screen, and where the cursor is. If the screen is larger, the last row says so.
func picture(r *protocol.ProcessScreenResult, size protocol.Size) (rows []string, row, col int) {
	height, width := int(size.Rows), int(size.Cols)
	part := r.Rows > size.Rows || r.Cols > size.Cols
	if part && height > 2 {
		height--
	}
	row, col = int(r.Cursor.Row), int(r.Cursor.Col)
	top, left := offset(row, height, int(r.Rows)), offset(col, width, int(r.Cols))
	rows = make([]string, size.Rows)
	for i := range min(height, len(r.Spans)-top) {
		rows[i] = painted(clip(r.Spans[top+i], left, width))
	}
	if height < len(rows) {
		text := fmt.Sprintf("part of %d×%d, around the cursor", r.Rows, r.Cols)
		rows[height] = painted([]protocol.Span{{Text: show.Cut(text, width), Inverse: true}})
	}
	return rows, row - top, col - left
}

// offset returns the first of n rows or columns for a window with size of them that has the cursor.
func offset(cursor, size, n int) int {
	if cursor < size {
		return 0
	}
	return min(cursor-size/2, n-size)
}

// clip returns the characters of a row in width columns from left on. Half of a wide character becomes a blank.
func clip(row []protocol.Span, left, width int) []protocol.Span {
	row = slices.Clone(row)
	x := -left // of the next character
	for i := range row {
		var text strings.Builder
		for _, r := range row[i].Text {
			w := show.Width(string(r))
			switch {
			case x >= 0 && x+w <= width && (w > 0 || x > 0):
				text.WriteRune(r)
			case x < 0 && x+w > 0, x < width && x+w > width:
				text.WriteByte(' ')
			}
			x += w
		}
		row[i].Text = text.String()
	}
	return slices.DeleteFunc(row, func(s protocol.Span) bool { return s.Text == "" })
}
