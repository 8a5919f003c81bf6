package screen

import (
	"strconv"
	"strings"
)

// restorer writes what makes a cleared terminal equal.
type restorer struct {
	t   *terminal
	b   []byte
	pen cell // the style that the other terminal has
	set charsets
}

func (s *Screen) restore(scrollback int) []byte {
	r := restorer{t: &s.t, pen: cell{char: narrow}, set: newCharsets()}
	t := &s.t
	r.add("\x1b[!p\x1b[?7h\x1b[4l\x1b[20l\x1b[0m\x1b(B\x1b)B\x1b*B\x1b+B\x0f\x1b[?25l\x1b[H")
	r.content(&t.main, scrollback)
	if t.buf == &t.alt {
		r.state(&t.main)
		r.style(cell{char: narrow, bg: t.pen.bg & colorMask})
		r.add("\x1b[?47h\x1b[2J\x1b[H")
		r.style(cell{char: narrow})
		r.content(&t.alt, 0)
	}
	r.state(t.buf)
	r.modes()
	r.cursor()
	b := r.b
	if s.p.state == ground {
		return append(b, s.p.partial[:s.p.partials]...)
	}
	return s.p.unfinished(b)
}

func (r *restorer) add(s string) { r.b = append(r.b, s...) }

// csi adds a sequence with numbers.
func (r *restorer) csi(final string, n ...int) {
	r.add("\x1b[")
	for i, v := range n {
		if i > 0 {
			r.add(";")
		}
		r.b = strconv.AppendInt(r.b, int64(v), 10)
	}
	r.add(final)
}

// content writes rows from the top on, with lines of the history before them, which scroll off.
func (r *restorer) content(b *buffer, scrollback int) {
	t := r.t
	first := true
	write := func(l *line) {
		if !first && !l.wrapped {
			r.style(cell{char: narrow})
			r.add("\r\n")
		}
		first = false
		r.line(l)
	}
	lines := make([]line, 0, scrollback+len(b.lines))
	for i := t.history.len() - scrollback; i < t.history.len(); i++ {
		lines = append(lines, t.history.line(i, t.cols))
	}
	lines = append(lines, b.lines...)
	for i := range lines {
		l := lines[i]
		if i == 0 || !endsFull(&lines[i-1]) {
			l.wrapped = false // the other terminal cannot wrap here
		}
		write(&l)
	}
}

// endsFull says whether the cursor is past the end after all cells of l have been written.
func endsFull(l *line) bool {
	c := &l.cells[len(l.cells)-1]
	return c.written() || c.width() == 0
}

func (r *restorer) line(l *line) {
	end := len(l.cells)
	for end > 0 && l.cells[end-1] == (cell{char: narrow}) {
		end--
	}
	for x := 0; x < end; {
		c := &l.cells[x]
		if c.written() {
			r.style(*c)
			r.b = r.t.appendCell(r.b, c)
			x += max(c.width(), 1)
			continue
		}
		n := 1
		for x+n < end && l.cells[x+n] == *c {
			n++
		}
		if c.fg == 0 && c.ext == 0 && c.bg&^colorMask == 0 {
			r.style(*c)
			if c.bg != 0 {
				r.csi("X", n)
			}
			r.csi("C", n)
		} else {
			r.style(*c)
			r.add(strings.Repeat(" ", n))
		}
		x += n
	}
}

// state writes what a buffer has beside its content: tabs, region, saved cursor.
func (r *restorer) state(b *buffer) {
	t := r.t
	same := true
	for i := range t.cols {
		same = same && b.tabs[i] == (i%8 == 0)
	}
	if !same {
		r.add("\x1b[3g")
		for i := range t.cols {
			if b.tabs[i] {
				r.csi("G", i+1)
				r.add("\x1bH")
			}
		}
	}
	if s := b.saved; s != (saved{pen: cell{char: narrow}, charsets: newCharsets()}) && s != (saved{}) {
		r.charsets(s.charsets)
		r.style(s.pen)
		r.csi("H", s.y+1, s.x+1)
		r.add("\x1b7")
	}
	if b.top != 0 || b.bottom != t.rows-1 {
		r.csi("r", b.top+1, b.bottom+1)
	}
}

func (r *restorer) charsets(c charsets) {
	for i := range c.g {
		if c.g[i] != r.set.g[i] {
			r.add("\x1b" + "()*+"[i:i+1] + string(rune(c.g[i])))
		}
	}
	if c.level != r.set.level {
		r.add([]string{"\x0f", "\x0e", "\x1bn", "\x1bo"}[c.level])
	}
	r.set = c
}

// style makes the other terminal's pen that of c.
func (r *restorer) style(c cell) {
	t := r.t
	if t.sameStyle(&r.pen, &c) {
		return
	}
	old, e := t.extras.get(r.pen.ext), t.extras.get(c.ext)
	if old.link != e.link {
		link := e.link
		if link == "" {
			link = ";"
		}
		r.add("\x1b]8;" + link + "\x1b\\")
	}
	if r.pen.fg != c.fg || r.pen.bg&^attrProtected != c.bg&^attrProtected || old.underline != e.underline {
		r.add("\x1b[0")
		for _, a := range []struct {
			on   bool
			code string
		}{
			{c.fg&attrBold != 0, ";1"}, {c.bg&attrFaint != 0, ";2"}, {c.bg&attrItalic != 0, ";3"}, {c.fg&attrBlink != 0, ";5"},
			{c.fg&attrInverse != 0, ";7"}, {c.bg&attrHidden != 0, ";8"}, {c.bg&attrStrike != 0, ";9"}, {c.bg&attrOverline != 0, ";53"},
		} {
			if a.on {
				r.add(a.code)
			}
		}
		switch u := c.fg >> underlineShift; u {
		case 0:
		case 1:
			r.add(";4")
		default:
			r.add(";4:" + strconv.Itoa(int(u)))
		}
		r.color(3, c.fg)
		r.color(4, c.bg)
		r.color(5, e.underline)
		r.add("m")
		r.pen.bg &^= attrProtected // SGR 0 of xterm.js; xterm keeps it
	}
	if (r.pen.bg^c.bg)&attrProtected != 0 {
		if c.bg&attrProtected != 0 {
			r.add("\x1b[1\"q")
		} else {
			r.add("\x1b[0\"q")
		}
	}
	r.pen = c
}

func (r *restorer) color(kind int, c uint32) {
	n := int(c & 0xff)
	switch c & colorMask &^ 0xffffff {
	case colorIndexed:
		switch {
		case n < 8 && kind < 5:
			r.add(";" + strconv.Itoa(kind*10+n))
		case n < 16 && kind < 5:
			r.add(";" + strconv.Itoa((kind+6)*10+n-8))
		default:
			r.add(";" + strconv.Itoa(kind) + "8;5;" + strconv.Itoa(n))
		}
	case colorRGB:
		r.add(";" + strconv.Itoa(kind) + "8;2;" + strconv.Itoa(int(c>>16&0xff)) + ";" + strconv.Itoa(int(c>>8&0xff)) + ";" + strconv.Itoa(n))
	}
}

func (r *restorer) modes() {
	t := r.t
	m := &t.modes
	if t.title != "" {
		r.add("\x1b]2;" + t.title + "\x1b\\")
	}
	for _, x := range []struct {
		on   bool
		code string
	}{
		{m.applicationCursor, "\x1b[?1h"}, {m.reverseVideo, "\x1b[?5h"}, {m.noAutowrap, "\x1b[?7l"}, {m.reverseWrap, "\x1b[?45h"},
		{m.applicationKeypad, "\x1b="}, {m.focusEvents, "\x1b[?1004h"}, {m.bracketedPaste, "\x1b[?2004h"}, {m.newLine, "\x1b[20h"},
		{t.blink, "\x1b[?12h"},
	} {
		if x.on {
			r.add(x.code)
		}
	}
	if m.mouse != 0 {
		r.add("\x1b[?" + strconv.Itoa(m.mouse) + "h")
	}
	if m.encoding != 0 {
		r.add("\x1b[?" + strconv.Itoa(m.encoding) + "h")
	}
	if m.modifyOtherKeys != 0 {
		r.add("\x1b[>4;" + strconv.Itoa(m.modifyOtherKeys) + "m")
	}
	if t.cursor != 0 {
		r.csi(" q", t.cursor)
	}
}

// cursor is last. A character that may still be joined by a combining one, or repeated, is written once more.
func (r *restorer) cursor() {
	t := r.t
	b := t.buf
	m := &t.modes
	top := 0
	if m.origin {
		r.add("\x1b[?6h")
		top = b.top
	}
	place := func(x int) { r.csi("H", b.y-top+1, x+1) }
	x := b.x
	l := &b.lines[b.y]
	// Where the character before the cursor begins.
	before := x - 1
	if before > 0 && l.cells[before].width() == 0 {
		before--
	}
	switch {
	case x >= t.cols:
		place(before)
		c := l.cells[before]
		r.style(c)
		r.b = t.appendCell(r.b, &c)
		r.add("\x1b[m")
		r.pen = cell{char: narrow, ext: r.pen.ext}
	default:
		place(x)
	}
	if m.insert {
		r.add("\x1b[4h")
	}
	if !m.cursorHidden {
		r.add("\x1b[?25h")
	}
	if m.synchronized {
		r.add("\x1b[?2026h")
	}
	r.style(t.pen)
	r.charsets(t.charsets)
}

// unfinished appends the bytes of the sequence that has begun. Controls within it have had their effect.
func (p *parser) unfinished(b []byte) []byte {
	if p.pendingLong {
		switch p.state {
		case oscString:
			return append(b, "\x1b]9999;"...) // no terminal knows it
		case dcsEntry, dcsPassthrough:
			return append(b, "\x1bP9999~"...)
		case sosString:
			return append(b, "\x1bX"...)
		}
		return append(b, "\x1b[0<"...) // ignored up to its end
	}
	for _, c := range p.pending {
		if c >= 0x20 && c != 0x7f || c == 0x1b {
			b = append(b, c)
		}
	}
	return b
}
