// Package screen keeps the state of a terminal: the picture of a program on a PTY, and everything that the terminal of a viewer needs to
// continue in the middle of the output.
//
//	screen.go    the API, and the result of a look
//	parser.go    bytes to characters, controls and sequences
//	terminal.go  the effect of each; buffer.go: rows of cells
//	history.go   lines above the screen, encoded
//	reflow.go    a terminal of another width
//	palette.go   colors that the program has redefined
//	restore.go   bytes to make another terminal equal
//
// The package has no goroutine, no lock and no clock. It writes nothing to the program: questions of the program (DSR, DA, colours) are
// for the terminal of the viewer. Other packages know only Screen: another emulator can take its place.
package screen

// Limits of a screen. A hostile program reaches them, an ordinary program does not.
const (
	MaxScrollback      = 10_000  // lines
	MaxScrollbackBytes = 8 << 20 // encoded lines; the oldest go first
	MaxCells           = 1 << 19 // of a screen, rows × cols; a larger screen is cut
	MaxSide            = 4096    // rows, and cols
	MaxTitle           = 1 << 10 // bytes
	MaxSequence        = 4 << 10 // bytes of an unfinished sequence; a longer OSC has no effect
)

// Screen is a terminal without a window. One goroutine at a time may use it. No method fails, but the caller must contain a panic: a
// panic is a bug of the emulator, and the screen is then unusable.
type Screen struct {
	t terminal
	p parser
}

// New returns a blank screen with room for scrollback lines. A rows or cols of 0 means 24 or 80. The least is 1 row and 2 columns.
// MaxCells and MaxSide limit the size.
func New(rows, cols, scrollback int) *Screen {
	s := &Screen{}
	rows, cols = size(rows, cols)
	s.t.init(rows, cols, min(max(scrollback, 0), MaxScrollback))
	return s
}

func size(rows, cols int) (int, int) {
	if rows <= 0 {
		rows = 24
	}
	if cols <= 0 {
		cols = 80
	}
	cols = min(max(cols, 2), MaxSide)
	return min(rows, MaxSide, MaxCells/cols), cols
}

// Write takes output of the program. It keeps no reference to p.
func (s *Screen) Write(p []byte) { s.p.write(&s.t, p) }

// Resize changes the size as xterm.js does: wrapped lines of the main screen are wrapped anew, except the line of the cursor. The size is
// limited as that of New.
func (s *Screen) Resize(rows, cols int) {
	rows, cols = size(rows, cols)
	s.t.resize(rows, cols)
}

// Memory estimates the size of the screen in bytes.
func (s *Screen) Memory() int { return s.t.memory() + cap(s.p.pending) + cap(s.p.osc) + 1024 }

// Text returns the visible rows. Blanks at the end of a row are cut.
func (s *Screen) Text() []string {
	lines := make([]string, s.t.rows)
	var b []byte
	for i := range lines {
		b = s.t.appendText(b[:0], &s.t.buf.lines[i])
		lines[i] = string(b)
	}
	return lines
}

// Options of a Snapshot. Zero: the text, the cursor and the modes.
type Options struct {
	Scrollback int  // how many of the newest lines above the screen, for Scrollback and Restore
	Spans      bool // also Spans
	Restore    bool // also Restore
}

// Snapshot is a screen at one moment.
type Snapshot struct {
	Rows, Cols int
	Lines      []string // a row each; blanks at the end are cut
	Spans      [][]Span // nil unless asked for; blanks of the default style at the end are cut
	Cursor     Cursor
	// The colors that the program has given to the default text and background: "#rrggbb", or "" for those of the terminal.
	Foreground, Background string
	Title                  string
	AltScreen              bool
	Modes                  Modes
	Scrollback             []string // the newest lines above the main screen, oldest first
	ScrollbackLines        int      // how many there are
	// Restore makes a cleared terminal of Rows × Cols equal. If the output has ended in the middle of a character or of an escape sequence,
	// Restore ends with its beginning.
	Restore []byte
}

// A Span is a part of a row in a single style. A color is "#rrggbb", or the decimal number of a color of the palette that the program has not
// redefined, or "" for the default.
type Span struct {
	Text                                                                     string
	Fg, Bg                                                                   string
	UnderlineColor                                                           string
	Bold, Faint, Italic, Underline, Blink, Inverse, Hidden, Strike, Overline bool
	UnderlineStyle                                                           int // 0 none, 1 single, 2 double, 3 curly, 4 dotted, 5 dashed
	Link                                                                     string
}

// Cursor is where the next character goes. Row and Col count from 0. Col is Cols-1 also while a wrap is pending.
type Cursor struct {
	Row, Col    int
	PendingWrap bool // the next character begins the next row
	Visible     bool
	Shape       string // "block", "underline" or "bar"
	Blink       bool
	Color       string // "#rrggbb" if the program has set it
}

// Modes are set by the program. The keyboard and the mouse of a viewer must follow them.
type Modes struct {
	ApplicationCursor, ApplicationKeypad bool
	BracketedPaste, FocusEvents          bool
	Mouse                                string // "none", "x10", "press", "button" or "any"
	MouseEncoding                        string // "default", "utf8", "sgr", "urxvt" or "sgrPixels"
	Origin, Autowrap, Insert, NewLine    bool
	ReverseWrap, ReverseVideo            bool
	SynchronizedOutput                   bool // the program is in the middle of a picture
	Keyboard                             int  // flags of the kitty keyboard protocol
	ModifyOtherKeys                      int  // of xterm, 0 to 3
}

// Snapshot returns the present state.
func (s *Screen) Snapshot(o Options) *Snapshot {
	t := &s.t
	n := &Snapshot{
		Rows: t.rows, Cols: t.cols, Lines: s.Text(), Title: t.title, AltScreen: t.buf == &t.alt, Modes: t.publicModes(),
		Cursor: Cursor{
			Row: t.buf.y, Col: min(t.buf.x, t.cols-1), PendingWrap: t.buf.x >= t.cols,
			Visible: !t.modes.cursorHidden, Shape: t.shape(), Blink: t.blinks(), Color: t.redefined(colorCursor),
		},
		Foreground: t.redefined(colorForeground), Background: t.redefined(colorBackground), ScrollbackLines: t.history.len(),
	}
	if o.Spans {
		n.Spans = make([][]Span, t.rows)
		for i := range n.Spans {
			n.Spans[i] = t.spans(&t.buf.lines[i])
		}
	}
	scrollback := min(max(o.Scrollback, 0), t.history.len())
	var b []byte
	for i := t.history.len() - scrollback; i < t.history.len(); i++ {
		l := t.history.line(i, t.cols)
		b = t.appendText(b[:0], &l)
		n.Scrollback = append(n.Scrollback, string(b))
	}
	if o.Restore {
		n.Restore = s.restore(scrollback)
	}
	return n
}
