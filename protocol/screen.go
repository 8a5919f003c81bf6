package protocol

// Lines that a screen keeps after they have scrolled off.
const (
	DefaultScrollback = 1_000
	MaxScrollback     = 10_000
)

// StartScreen asks for a screen from the first byte on. (Ours.)
type StartScreen struct {
	// Scrollback is how many lines the screen keeps after they have scrolled off. Nil: 1,000 (DefaultScrollback). More than 10,000
	// (MaxScrollback) is 10,000.
	Scrollback *uint64 `json:"scrollback,omitempty"`
	// IfRoom starts the process without a screen if the server has no room for a screen. False: the start is then refused.
	IfRoom bool `json:"ifRoom,omitempty"`
}

// ProcessScreenParams asks for the screen of a process on a PTY, now or once a condition holds. Without AfterSeq, WaitFor and QuietMs the answer
// comes at once. With several of them, all must hold. (Ours.)
type ProcessScreenParams struct {
	ProcessID string `json:"processId" wire:"required"`

	Scrollback uint64 `json:"scrollback,omitempty"` // answer with the newest lines that have scrolled off, at most so many
	Spans      bool   `json:"spans,omitempty"`      // answer with colours and other attributes, too
	Restore    bool   `json:"restore,omitempty"`    // answer with bytes that draw the screen, too

	// AfterSeq holds once the screen has output with a greater seq. 0: holds.
	AfterSeq uint64 `json:"afterSeq,omitempty"`
	// WaitFor is a regular expression of RE2, of at most 1 KiB and 2,000 compiled steps. WaitFor holds while it matches Lines, joined with
	// newlines, up to the cursor or the last line that is not empty. The line of the cursor has blanks up to the cursor: "> $" matches a prompt. Of more than
	// 128 KiB only the first count. Empty: holds. ^ and $ match at each line only with (?m).
	WaitFor string `json:"waitFor,omitempty"`
	// QuietMs holds once the process has written nothing for this time, in milliseconds. 0: holds.
	QuietMs uint64 `json:"quietMs,omitempty"`

	// WaitMs is how long to wait until all of them hold, in milliseconds. The wait also ends with the process. The value may exceed the
	// range of time.Duration.
	WaitMs uint64 `json:"waitMs,omitempty"`

	OfInstance
}

// Process returns the ProcessID.
func (p ProcessScreenParams) Process() string { return p.ProcessID }

// Waits reports whether the params have a condition.
func (p ProcessScreenParams) Waits() bool { return p.AfterSeq > 0 || p.WaitFor != "" || p.QuietMs > 0 }

// Validate refuses an invalid WaitFor.
func (p ProcessScreenParams) Validate() error {
	if err := patternError(p.WaitFor); err != nil {
		return within("waitFor", err)
	}
	return nil
}

// ProcessScreenResult is the screen of a process: what a terminal that has had all output would show. (Ours.)
type ProcessScreenResult struct {
	ProcessID string `json:"processId"`
	Instance  string `json:"instance"` // as in ProcessInfo
	Run       int    `json:"run"`      // the run of Seq. A later run draws on the screen of the run before
	// Seq is of the last output on this screen. Whoever draws the screen, and then subscribes after Seq, has the terminal of the process.
	Seq  uint64 `json:"seq"`
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`

	Lines  []string     `json:"lines"`           // one for each row, without spaces at its end
	Spans  [][]Span     `json:"spans,omitempty"` // one list for each row; only with ProcessScreenParams.Spans
	Cursor ScreenCursor `json:"cursor"`
	// Foreground and Background are the defaults that the program has set (OSC 10 and 11), as "#rrggbb". Empty: those of the terminal.
	Foreground string `json:"foreground,omitempty"`
	Background string `json:"background,omitempty"`
	Title      string `json:"title,omitempty"` // of the window, as the program has set it
	// AltScreen: the program uses the alternate screen, as full-screen programs do. It has no scrollback.
	AltScreen bool        `json:"altScreen"`
	Modes     ScreenModes `json:"modes"`

	Scrollback      []string `json:"scrollback,omitempty"` // the newest lines that have scrolled off, the oldest first
	ScrollbackLines uint64   `json:"scrollbackLines"`      // how many lines the screen keeps that have scrolled off

	// Restore draws Scrollback and the screen on a cleared terminal of Rows and Cols, and sets cursor, modes and title. On a terminal of another
	// size the screen is cut or has room beside it. Only with ProcessScreenParams.Restore. Base64 in JSON.
	Restore []byte `json:"restore,omitempty"`

	// Whole: the screen has had all output that counts. False: output was no longer held when the screen began, or the screen has missed
	// some; lines, attributes and modes may be wrong until the program draws all anew.
	Whole bool `json:"whole"`
	// Matched says whether AfterSeq, WaitFor and QuietMs hold for this screen. Nil: the params had none of them.
	Matched *bool `json:"matched,omitempty"`
	Exited  bool  `json:"exited"` // the current state, as in ProcessReadResult
	Closed  bool  `json:"closed"` // the current state: nothing further comes
}

// Footprint is about how many bytes the result takes, as a value or encoded.
func (r *ProcessScreenResult) Footprint() int {
	n := 1<<10 + len(r.Title) + 2*len(r.Restore)
	for _, lines := range [][]string{r.Lines, r.Scrollback} {
		for _, line := range lines {
			n += 32 + len(line)
		}
	}
	for _, row := range r.Spans {
		for i := range row {
			n += 200 + len(row[i].Text) + len(row[i].Link)
		}
	}
	return n
}

// Span is a part of a line with the same attributes. The texts of a line's spans, one after the other, are the line, perhaps with
// more blanks at its end. (Ours.)
type Span struct {
	Text string `json:"text" wire:"required"`
	// Fg and Bg are colours: "0" to "255" of the palette, or "#rrggbb". Empty: the default. A colour of the palette that the program has
	// redefined (OSC 4) is "#rrggbb", too.
	Fg        string `json:"fg,omitempty"`
	Bg        string `json:"bg,omitempty"`
	Bold      bool   `json:"bold,omitempty"`
	Faint     bool   `json:"faint,omitempty"`
	Italic    bool   `json:"italic,omitempty"`
	Underline bool   `json:"underline,omitempty"` // of any style
	Blink     bool   `json:"blink,omitempty"`
	Inverse   bool   `json:"inverse,omitempty"`
	Hidden    bool   `json:"hidden,omitempty"`
	Strike    bool   `json:"strike,omitempty"`
	Overline  bool   `json:"overline,omitempty"`
	// UnderlineStyle is double, curly, dotted or dashed. Empty: single, or no underline.
	UnderlineStyle string `json:"underlineStyle,omitempty"`
	UnderlineColor string `json:"underlineColor,omitempty"` // as Fg; empty: the colour of the text
	Link           string `json:"link,omitempty"`           // the target of a hyperlink (OSC 8)
}

// ScreenCursor is the cursor of a screen. (Ours.)
type ScreenCursor struct {
	Row     uint16 `json:"row"` // from 0
	Col     uint16 `json:"col"` // from 0
	Visible bool   `json:"visible"`
	Shape   string `json:"shape"` // block, underline or bar; later servers may have others
	Blink   bool   `json:"blink"`
	Color   string `json:"color,omitempty"` // "#rrggbb" if the program has set it (OSC 12)
}

// ScreenModes are the modes of a terminal that say what the program expects as input, and how the screen looks. (Ours.)
type ScreenModes struct {
	ApplicationCursor bool   `json:"applicationCursor"`       // arrow keys send ESC O A, not ESC [ A (DECCKM)
	ApplicationKeypad bool   `json:"applicationKeypad"`       // keys of the keypad send sequences (DECKPAM)
	BracketedPaste    bool   `json:"bracketedPaste"`          // pasted text comes between ESC [ 200~ and ESC [ 201~
	FocusEvents       bool   `json:"focusEvents"`             // ESC [ I and ESC [ O tell of the focus
	Mouse             string `json:"mouse"`                   // which events are reported: none, x10, press, button (with moves while a button is held) or any
	MouseEncoding     string `json:"mouseEncoding,omitempty"` // of reports: default, utf8, sgr, urxvt or sgrPixels
	ReverseVideo      bool   `json:"reverseVideo"`            // the whole screen has its colours swapped (DECSCNM)
}
