package screen

import (
	"strings"
	"unicode/utf8"
	"unsafe"
)

// appendText appends the text of a row. An empty cell is a space. Spaces at the end are cut.
func (t *terminal) appendText(b []byte, l *line) []byte {
	begin := len(b)
	for i := range l.cells {
		if l.cut(i) {
			break
		}
		b = t.appendCell(b, &l.cells[i])
	}
	for len(b) > begin && b[len(b)-1] == ' ' {
		b = b[:len(b)-1]
	}
	return b
}

func (t *terminal) appendCell(b []byte, c *cell) []byte {
	switch {
	case c.width() == 0:
		return b
	case !c.written():
		return append(b, ' ')
	}
	b = utf8.AppendRune(b, c.rune())
	if c.ext != 0 {
		b = append(b, t.extras.get(c.ext).combining...)
	}
	return b
}

// sameStyle says whether two cells have the same style and link.
func (t *terminal) sameStyle(a, b *cell) bool {
	if a.fg != b.fg || a.bg != b.bg {
		return false
	}
	if a.ext == b.ext {
		return true
	}
	x, y := t.extras.get(a.ext), t.extras.get(b.ext)
	return x.underline == y.underline && x.link == y.link
}

func (t *terminal) spans(l *line) []Span {
	cells := l.cells
	end := len(cells)
	if l.cut(end - 1) {
		end--
	}
	for end > 0 {
		c := &cells[end-1]
		if c.rune() != 0 && c.rune() != ' ' || c.width() != 1 || c.fg != 0 || c.bg != 0 || c.ext != 0 {
			break
		}
		end--
	}
	spans := []Span{}
	var b []byte
	for i := 0; i < end; {
		c := &cells[i]
		b = b[:0]
		for i < end && t.sameStyle(c, &cells[i]) {
			b = t.appendCell(b, &cells[i])
			i++
		}
		s := t.span(c)
		s.Text = string(b)
		spans = append(spans, s)
	}
	return spans
}

func (t *terminal) span(c *cell) Span {
	e := t.extras.get(c.ext)
	_, uri, _ := strings.Cut(e.link, ";")
	under := c.fg >> underlineShift
	return Span{
		Fg: t.colorText(c.fg), Bg: t.colorText(c.bg), UnderlineColor: t.colorText(e.underline),
		Bold: c.fg&attrBold != 0, Faint: c.bg&attrFaint != 0, Italic: c.bg&attrItalic != 0,
		Underline: under != 0, UnderlineStyle: int(under), Blink: c.fg&attrBlink != 0, Inverse: c.fg&attrInverse != 0,
		Hidden: c.bg&attrHidden != 0, Strike: c.bg&attrStrike != 0, Overline: c.bg&attrOverline != 0,
		Link: uri,
	}
}

func (t *terminal) shape() string {
	switch t.cursor {
	case 3, 4:
		return "underline"
	case 5, 6:
		return "bar"
	}
	return "block"
}

func (t *terminal) blinks() bool {
	if t.cursor == 0 {
		return t.blink
	}
	return t.cursor%2 == 1
}

func (t *terminal) publicModes() Modes {
	m := &t.modes
	keyboard := 0
	if k := t.buf.keyboard; len(k) > 0 {
		keyboard = int(k[len(k)-1])
	}
	return Modes{
		Keyboard: keyboard, ModifyOtherKeys: m.modifyOtherKeys,
		ApplicationCursor: m.applicationCursor, ApplicationKeypad: m.applicationKeypad,
		BracketedPaste: m.bracketedPaste, FocusEvents: m.focusEvents,
		Mouse:         map[int]string{0: "none", 9: "x10", 1000: "press", 1002: "button", 1003: "any"}[m.mouse],
		MouseEncoding: map[int]string{0: "default", 1005: "utf8", 1006: "sgr", 1015: "urxvt", 1016: "sgrPixels"}[m.encoding],
		Origin:        m.origin, Autowrap: !m.noAutowrap, Insert: m.insert, NewLine: m.newLine,
		ReverseWrap: m.reverseWrap, ReverseVideo: m.reverseVideo, SynchronizedOutput: m.synchronized,
	}
}

func (t *terminal) memory() int {
	n := len(t.title) + len(t.link) + t.extras.bytes + len(t.extras.list)*100 + t.history.bytes + cap(t.history.ring)*24 + len(t.colors)*32
	for _, s := range t.titles {
		n += len(s)
	}
	for _, b := range []*buffer{&t.main, &t.alt} {
		n += len(b.tabs) + len(b.lines)*(t.cols*int(unsafe.Sizeof(cell{}))+int(unsafe.Sizeof(line{})))
	}
	return n
}
