package screen

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// dumped is the state of a terminal. The reference prints it as JSON.
type dumped struct {
	History           []string
	Main              []string
	Alt               []string
	X, Y              int
	Top, Bottom       int
	MainTop           int
	MainBottom        int
	Tabs              []int
	Saved, MainSaved  savedState
	Pen               string
	Charset, G        string
	GL                int
	Title             string
	Colors            []string // of text, background and cursor
	Hidden            bool
	Shape             string
	Blink             bool
	Mouse, Encoding   string
	ApplicationCursor bool
	ApplicationKeypad bool
	BracketedPaste    bool
	FocusEvents       bool
	Origin            bool
	Autowrap          bool
	ReverseWrap       bool
	Synchronized      bool
	Insert            bool
	NewLine           bool
	Keyboard          string // and margins; xterm.js has none
}

type savedState struct {
	X, Y    int
	Charset string
	Style   string
}

// stateOf returns the state of our terminal, in the words of the reference.
func stateOf(s *Screen) dumped {
	t := &s.t
	m := &t.modes
	rows := func(lines []line) []string {
		all := []string{}
		for i := range lines {
			all = append(all, rowText(t, &lines[i]))
		}
		return all
	}
	history := []string{}
	for i := range t.history.len() {
		l := t.history.line(i, t.cols)
		history = append(history, rowText(t, &l))
	}
	st := dumped{
		History: history, Main: rows(t.main.lines),
		X: t.buf.x, Y: t.buf.y, Top: t.buf.top, Bottom: t.buf.bottom, MainTop: t.main.top, MainBottom: t.main.bottom,
		Tabs: []int{}, Saved: savedOf(t, t.buf), MainSaved: savedOf(t, &t.main),
		Pen: styleText(t, &t.pen), Charset: string(rune(t.charsets.g[t.charsets.level])), G: string(t.charsets.g[:]), GL: t.charsets.level,
		Title: t.title, Colors: []string{t.redefined(colorForeground), t.redefined(colorBackground), t.redefined(colorCursor)}, Hidden: m.cursorHidden, Shape: t.shape(), Blink: t.blinks(),
		Mouse:             map[int]string{0: "NONE", 9: "X10", 1000: "VT200", 1002: "DRAG", 1003: "ANY"}[m.mouse],
		Encoding:          map[int]string{0: "DEFAULT", 1006: "SGR", 1016: "SGR_PIXELS"}[m.encoding],
		ApplicationCursor: m.applicationCursor, ApplicationKeypad: m.applicationKeypad, BracketedPaste: m.bracketedPaste,
		FocusEvents: m.focusEvents, Origin: m.origin, Autowrap: !m.noAutowrap, ReverseWrap: m.reverseWrap, Synchronized: m.synchronized,
		Insert: m.insert, NewLine: m.newLine, Keyboard: fmt.Sprint(t.buf.keyboard, t.main.keyboard, m.modifyOtherKeys, m.leftRight, t.buf.left, t.buf.right, t.buf.full),
	}
	if t.buf == &t.alt {
		st.Alt = rows(t.alt.lines)
	}
	for i := range t.cols {
		if t.buf.tabs[i] {
			st.Tabs = append(st.Tabs, i)
		}
	}
	return st
}

func savedOf(t *terminal, b *buffer) savedState {
	c := b.saved.pen
	c.char |= 'x'
	style := strings.Join(strings.Split(styleText(t, &c), "|")[:min(3, strings.Count(styleText(t, &c), "|")+1)], "|")
	if style == "||" {
		style = ""
	}
	if c.fg&underlineMask != 0 {
		style += "|u"
	}
	return savedState{b.saved.x, b.saved.y, string(rune(b.saved.charsets.g[b.saved.charsets.level])), style}
}

func rowText(t *terminal, l *line) string {
	b := []byte(" :")
	if l.wrapped {
		b = []byte("W:")
	}
	last := ""
	for i := range l.cells {
		c := &l.cells[i]
		if c.width() == 0 {
			continue
		}
		if l.cut(i) {
			c = &cell{char: narrow, bg: c.bg}
		}
		if s := styleText(t, c); s != last {
			b = append(b, "<"+s+">"...)
			last = s
		}
		b = t.appendCell(b, c)
	}
	if last == "" {
		return strings.TrimRight(string(b), " ")
	}
	return string(b)
}

func styleText(t *terminal, c *cell) string {
	if !c.written() && c != &t.pen {
		if bg := t.colorText(c.bg); bg != "" {
			return "|" + bg + "|||"
		}
		return ""
	}
	flags := ""
	for _, f := range []struct {
		on     bool
		letter string
	}{
		{c.fg&attrBold != 0, "b"}, {c.bg&attrFaint != 0, "f"}, {c.bg&attrItalic != 0, "i"}, {c.fg&attrBlink != 0, "k"}, {c.fg&attrInverse != 0, "v"},
		{c.bg&attrHidden != 0, "h"}, {c.bg&attrStrike != 0, "s"}, {c.bg&attrOverline != 0, "o"}, {c.bg&attrProtected != 0, "p"},
	} {
		if f.on {
			flags += f.letter
		}
	}
	s := t.span(c)
	under := ""
	if s.Underline {
		under = fmt.Sprint(s.UnderlineStyle) + s.UnderlineColor
	}
	all := strings.Join([]string{s.Fg, s.Bg, flags, under, s.Link}, "|")
	if all == "||||" {
		return ""
	}
	return all
}

// A step of the reference; see reference/reference.mjs.
type step struct {
	New        string `json:"new,omitempty"`
	Write      string `json:"write,omitempty"`
	Resize     string `json:"resize,omitempty"`
	Dump       string `json:"dump,omitempty"`
	Widths     bool   `json:"widths,omitempty"`
	Rows       int    `json:"rows,omitempty"`
	Cols       int    `json:"cols,omitempty"`
	Scrollback int    `json:"scrollback"`
	Data       string `json:"data,omitempty"`
}

func data(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// reference is a running reference.mjs.
type reference struct {
	in  io.WriteCloser
	out *bufio.Reader
}

func newReference(t *testing.T) *reference {
	t.Helper()
	needs.Program(t, "node")
	if _, err := os.Stat(filepath.Join("reference", "node_modules")); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("internal/screen/reference has no node_modules: run .ci/screen, or npm ci there")
		}
		t.Skip("internal/screen/reference has no node_modules: run npm ci there")
	}
	cmd := exec.Command("node", "reference.mjs")
	cmd.Dir = "reference"
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	return &reference{in: in, out: bufio.NewReaderSize(out, 1<<20)}
}

func (r *reference) run(t *testing.T, steps []step) []json.RawMessage {
	t.Helper()
	b, err := json.Marshal(steps)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.in.Write(append(b, '\n')); err != nil {
		t.Fatal(err)
	}
	b, err = r.out.ReadBytes('\n')
	if err != nil {
		t.Fatal("the reference has ended: ", err)
	}
	var answers []json.RawMessage
	if err := json.Unmarshal(b, &answers); err != nil {
		t.Fatal(err)
	}
	return answers
}

func (r *reference) states(t *testing.T, steps []step) []dumped {
	t.Helper()
	var all []dumped
	for _, a := range r.run(t, steps) {
		var s dumped
		if err := json.Unmarshal(a, &s); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// difference describes the different fields of two states.
func difference(a, b dumped) string {
	var out []string
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		name := x.Type().Field(i).Name
		f, g := x.Field(i).Interface(), y.Field(i).Interface()
		if reflect.DeepEqual(f, g) {
			continue
		}
		l, ok := f.([]string)
		m, _ := g.([]string)
		if !ok || len(l) != len(m) {
			out = append(out, fmt.Sprintf("%s: %.600q, want %.600q", name, fmt.Sprint(f), fmt.Sprint(g)))
			continue
		}
		for i := range l {
			if l[i] != m[i] {
				out = append(out, fmt.Sprintf("%s[%d]:\n   %q, want\n   %q", name, i, l[i], m[i]))
				break
			}
		}
	}
	return strings.Join(out, "\n")
}

func TestGeneratedAgainstReference(t *testing.T) {
	r := newReference(t)
	seeds := generated(t)
	failed := 0
	for seed := range seeds {
		g := newGenerator(seed, 1)
		out, ends := g.output(60)
		ours := New(g.rows, g.cols, g.scrollback())
		steps := []step{{New: "a", Rows: g.rows, Cols: g.cols, Scrollback: g.scrollback()}}
		var mine []dumped
		last := 0
		for k := 9; k < len(ends); k += 10 {
			steps = append(steps, step{Write: "a", Data: data(out[last:ends[k]])})
			for last < ends[k] {
				cut := last + 1 + g.IntN(ends[k]-last)
				ours.Write(out[last:cut])
				last = cut
			}
			steps = append(steps, step{Dump: "a"})
			mine = append(mine, stateOf(ours))
		}
		for i, want := range r.states(t, steps) {
			g.same(&want, &mine[i])
			if d := difference(mine[i], want); d != "" {
				t.Errorf("seed %d (%d×%d): %s", seed, g.rows, g.cols, r.firstDifference(t, g, out, ends))
				failed++
				break
			}
		}
		if failed > 5 {
			t.FailNow()
		}
	}
}

// firstDifference writes a token at a time, and describes the first difference.
func (r *reference) firstDifference(t *testing.T, g *generator, out []byte, ends []int) string {
	ours := New(g.rows, g.cols, g.scrollback())
	steps := []step{{New: "a", Rows: g.rows, Cols: g.cols, Scrollback: g.scrollback()}}
	var mine []dumped
	last := 0
	for _, end := range ends {
		steps = append(steps, step{Write: "a", Data: data(out[last:end])}, step{Dump: "a"})
		ours.Write(out[last:end])
		mine = append(mine, stateOf(ours))
		last = end
	}
	for i, want := range r.states(t, steps) {
		g.same(&want, &mine[i])
		if d := difference(mine[i], want); d != "" {
			before, _ := json.Marshal(mine[max(i-1, 0)])
			return fmt.Sprintf("%s\nafter %q in %s\nof %q", d, out[max(0, ends[i]-20):ends[i]], before, out[:ends[i]])
		}
	}
	return "no difference in steps of a token"
}

// Characters that are newer than Unicode 11 have other widths here. Each other character has the width of xterm.js.
func TestWidthsAgainstReference(t *testing.T) {
	var widths string
	if err := json.Unmarshal(newReference(t).run(t, []step{{Widths: true}})[0], &widths); err != nil {
		t.Fatal(err)
	}
	different := 0
	for r := rune(0x20); r < 0x110000; {
		from := r
		ours, theirs := runeWidth(r), int(widths[r]-'0')
		for r++; r < 0x110000 && runeWidth(r) == ours && int(widths[r]-'0') == theirs; r++ {
		}
		if ours != theirs && !(from <= 0x9f && r > 0x7f) {
			different += int(r - from)
			t.Logf("%U to %U: %d, xterm.js has %d", from, r-1, ours, theirs)
		}
	}
	if different > 850 {
		t.Errorf("%d characters have other widths than in xterm.js", different)
	}
}

func TestRestoreOfGeneratedOutput(t *testing.T) {
	r := newReference(t)
	seeds := generated(t)
	failed := 0
	for seed := range seeds {
		g := newGenerator(seed, 2)
		out, ends := g.output(40)
		cut := g.IntN(len(out) + 1)
		// Within a token with settle, the two terminals differ.
		for i := range ends {
			if begin := ends[max(i-1, 0)]; ends[i] >= cut && bytes.Contains(out[begin:ends[i]], []byte(settle)) {
				cut = ends[i]
			}
			if ends[i] >= cut {
				break
			}
		}
		ours := New(g.rows, g.cols, g.scrollback())
		ours.Write(out[:cut])
		restore := ours.Snapshot(Options{Scrollback: 100, Restore: true}).Restore
		s := r.states(t, []step{
			{New: "a", Rows: g.rows, Cols: g.cols, Scrollback: g.scrollback()}, {Write: "a", Data: data(out[:cut])}, {Dump: "a"},
			{Write: "a", Data: data(out[cut:])}, {Dump: "a"},
			{New: "b", Rows: g.rows, Cols: g.cols, Scrollback: g.scrollback()}, {Write: "b", Data: data(restore)}, {Dump: "b"},
			{Write: "b", Data: data(out[cut:])}, {Dump: "b"},
		})
		for i := range s {
			// A first line cannot continue another line.
			first := &s[i].Main[0]
			if len(s[i].History) > 0 {
				first = &s[i].History[0]
			}
			*first = strings.TrimPrefix(strings.TrimPrefix(*first, " :"), "W:")
			if len(s[i].Alt) > 0 {
				s[i].Alt[0] = strings.TrimPrefix(strings.TrimPrefix(s[i].Alt[0], " :"), "W:")
			}
			s[i].Saved.X, s[i].MainSaved.X = min(s[i].Saved.X, g.cols-1), min(s[i].MainSaved.X, g.cols-1)
			if g.scrolls {
				s[i].Saved.Y, s[i].MainSaved.Y = 0, 0
			}
		}
		d := difference(s[2], s[0])
		if d == "" {
			d = difference(s[3], s[1])
		}
		if d != "" {
			t.Errorf("seed %d (%d×%d): %s\nafter %q\n%q\nrest %q", seed, g.rows, g.cols, d, out[:cut], restore, out[cut:])
			if failed++; failed > 5 {
				t.FailNow()
			}
		}
	}
}

// same removes known differences.
func (g *generator) same(a, b *dumped) {
	a.G = b.G // DECRC restores all four
	a.Keyboard, b.Keyboard = "", ""
	if g.scrolls {
		a.Saved.Y, a.MainSaved.Y = b.Saved.Y, b.MainSaved.Y // scrolls with the text
	}
}

// generated is how many outputs a test generates.
func generated(t *testing.T) int {
	if n, err := strconv.Atoi(os.Getenv("SCREEN_SEEDS")); err == nil {
		return n
	}
	if testing.Short() {
		return 40
	}
	return 300
}

// Both terminals change their size between parts of the output.
func TestResizesAgainstReference(t *testing.T) {
	r := newReference(t)
	failed := 0
	for seed := range generated(t) {
		g := newGenerator(2*seed+1, 3) // without scrollback, xterm.js loses rows
		g.resizes = true
		out, ends := g.output(50)
		ours := New(g.rows, g.cols, 200)
		steps := []step{{New: "a", Rows: g.rows, Cols: g.cols, Scrollback: 200}}
		var mine []dumped
		last := 0
		trace := ""
		for k := 9; k < len(ends); k += 10 {
			// xterm.js keeps the cells to the right of a smaller alternate screen, and shows them again.
			part := append(out[last:ends[k]:ends[k]], "\x1b[?47l"...)
			steps = append(steps, step{Write: "a", Data: data(part)})
			ours.Write(part)
			trace += fmt.Sprintf("%q ", part)
			steps = append(steps, step{Dump: "a"})
			mine = append(mine, stateOf(ours))
			last = ends[k]
			for range 1 + g.IntN(2) {
				rows, cols := 2+g.IntN(10), 2+g.IntN(40)
				if g.IntN(3) == 0 {
					cols = ours.t.cols
				}
				trace += fmt.Sprintf("%d×%d ", rows, cols)
				ours.Resize(rows, cols)
				steps = append(steps, step{Resize: "a", Rows: rows, Cols: cols}, step{Dump: "a"})
				mine = append(mine, stateOf(ours))
			}
		}
		for i, want := range r.states(t, steps) {
			g.same(&want, &mine[i])
			want.Saved.Y, want.MainSaved.Y = mine[i].Saved.Y, mine[i].MainSaved.Y
			if d := difference(mine[i], want); d != "" {
				t.Errorf("seed %d (%d×%d), dump %d: %s\nof %s\nours before %q %q %d\nours after %q %q %d\nwant %q %q %d", seed, g.rows, g.cols, i, d, trace, mine[max(i-1, 0)].History, mine[max(i-1, 0)].Main, mine[max(i-1, 0)].Y, mine[i].History, mine[i].Main, mine[i].Y, want.History, want.Main, want.Y)
				failed++
				break
			}
		}
		if failed > 5 {
			t.FailNow()
		}
	}
}
