// Package show prints for people and for programs: tables, JSON, colours, and texts that cannot harm a terminal.
package show

import (
	"encoding/json"
	"io"
	"os"

	"golang.org/x/term"
)

// An Out is where a command prints, and what can be shown there. Without a terminal, nothing is cut and nothing has
// a colour.
type Out struct {
	io.Writer
	Width  int  // of the terminal, in cells; 0: no limit
	Colour bool // escape sequences for colours may be written
}

// To returns an Out for w, which is often os.Stdout. Colours need a terminal other than "dumb", and an environment
// in which NO_COLOR is empty (https://no-color.org).
func To(w io.Writer) Out {
	f, ok := w.(*os.File)
	if of, is := w.(interface{ File() *os.File }); is {
		f, ok = of.File(), true
	}
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return Out{Writer: w}
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		width = 0
	}
	return Out{Writer: w, Width: width, Colour: colours(os.Getenv)}
}

func colours(env func(string) string) bool { return env("NO_COLOR") == "" && env("TERM") != "dumb" }

// JSON prints v for programs: a JSON value, indented, with a newline at its end.
func JSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// A Style is the look of a text. The zero Style is the terminal's own.
type Style string

// The styles have a meaning, so that all commands agree.
const (
	Plain Style = ""
	Bold  Style = "1"
	Dim   Style = "2"  // less important than the rest
	Good  Style = "32" // ready, running well
	Warn  Style = "33" // needs attention
	Bad   Style = "31" // failed
	Note  Style = "36" // names in running text
)

// Paint returns text in a style if o has colours.
func (o Out) Paint(s Style, text string) string {
	if !o.Colour || s == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}
