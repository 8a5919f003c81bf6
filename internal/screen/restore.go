package screen

import (
	"strconv"
	"unicode/utf8"
)

// restorer writes a state for a cleared terminal.
type restorer struct {
	t   *terminal
	b   []byte
	pen cell // the style of the other terminal
	set charsets
}

// defaults are for a terminal that has run something else.
const defaults = "\x1b[!p\x1b[?7h\x1b[?5;6;9;45;69;1000;1002;1003;1004;1006;2004l\x1b[4;20l\x1b[r\x1b[m\x1b(B\x1b)B\x1b*B\x1b+B\x0f\x1b[?25l\x1b[H"

func (s *Screen) restore(scrollback int) []byte {
	r := restorer{t: &s.t, pen: cell{char: narrow}, set: newCharsets()}
	t := &s.t
	r.add(defaults)
	r.content(&t.main, scrollback)
	if t.buf == &t.alt {
		r.state(&t.main)
		r.charsets(newCharsets())
		r.style(cell{char: narrow})
		r.csi("H", t.main.y+1, t.main.x+1) // where a resize finds the cursor
		r.add("\x1b[?47h\x1b[2J\x1b[H")
		r.content(&t.alt, 0)
	} else if t.alt.saved != unsaved {
		r.add("\x1b[?47h")
		r.saved(t.alt.saved)
		r.add("\x1b[?47l")
	}
	r.state(t.buf)
	r.colors()
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

// content writes rows from the top on, after lines of the history, which scroll off.
func (r *restorer) content(b *buffer, scrollback int) {
	t := r.t
	var above line
	for i := t.history.len() - scrollback; i < t.history.len(); i++ {
		l := t.history.line(i, t.cols)
		r.line(&above, &l)
		above = l
	}
	for i := range b.lines {
		r.line(&above, &b.lines[i])
		above = b.lines[i]
	}
}

// line writes l below above. The first line has an above without cells.
func (r *restorer) line(above, l *line) {
	cols := r.t.cols
	if len(above.cells) == 0 {
		r.cells(l, 0)
		return
	}
	if !l.wrapped || r.t.rows == 1 {
		r.style(cell{char: narrow})
		r.add("\r\n")
		r.cells(l, 0)
		return
	}
	last, first := above.cells[cols-1], l.cells[0]
	full := last.width() == 0 || last.width() == 1 && last.written()
	switch {
	case full && first.written():
		// The terminal wraps by itself.
	case !full && first.width() == 2 && last.bg&colorMask == first.bg&colorMask:
		r.csi("G", cols) // a wide character does not fit there
	default:
		// Something was erased since. A blank makes the terminal wrap, and is erased again.
		r.style(cell{char: narrow})
		if full {
			r.add(" \r\x1b[X")
		} else {
			r.csi("G", cols)
			r.add("  \x1b[A")
			r.csi("G", cols)
			r.style(background(&last))
			r.add("\x1b[X")
			r.style(cell{char: narrow})
			r.add("\x1b[B\r\x1b[X")
		}
		r.cells(l, 0)
		return
	}
	x := first.width()
	r.cell(&first)
	if first.bg&colorMask != 0 && x < cols {
		// New lines have the background of the pen.
		r.style(cell{char: narrow})
		r.add("\x1b[K")
	}
	r.cells(l, x)
}

// background returns the style for an empty cell. An empty cell has only a background, except in corners: half of a wide character was
// overwritten in an underlined or inverted style.
func background(c *cell) cell { return cell{char: narrow, bg: c.bg & colorMask} }

// cells writes the cells from x on, where the cursor is.
func (r *restorer) cells(l *line, x int) {
	end := len(l.cells)
	for end > 0 && !l.cells[end-1].written() && l.cells[end-1].width() == 1 && l.cells[end-1].bg&colorMask == 0 {
		end--
	}
	for x < end {
		c := &l.cells[x]
		if c.written() && !l.cut(x) {
			r.cell(c)
			x += c.width()
			if x < end && (c.rune() >= 0x10000 || r.t.extras.get(c.ext).combining != "") {
				r.csi("G", x+1) // terminals know different widths
			}
			continue
		}
		n := 1
		for x+n < end && !l.cells[x+n].written() && !l.cut(x) && l.cells[x+n].bg&colorMask == c.bg&colorMask {
			n++
		}
		if c.bg&colorMask != 0 {
			r.style(background(c))
			r.csi("X", n)
		}
		r.csi("C", n)
		x += n
	}
}

func (r *restorer) cell(c *cell) {
	r.style(*c)
	r.b = r.t.appendCell(r.b, c)
}

// state writes tabs, region and saved cursor of a buffer.
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
	if b.saved != unsaved {
		r.saved(b.saved)
	}
	for _, flags := range b.keyboard {
		r.add("\x1b[>" + strconv.Itoa(int(flags)) + "u")
	}
	if b.top != 0 || b.bottom != t.rows-1 {
		r.csi("r", b.top+1, b.bottom+1)
	}
}

func (r *restorer) saved(s saved) {
	r.charsets(s.charsets)
	r.style(s.pen)
	r.csi("H", s.y+1, s.x+1)
	r.add("\x1b7")
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
		r.pen.bg &^= attrProtected // by SGR 0 of xterm.js, but not of xterm
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
	for _, s := range t.titles {
		r.add("\x1b]2;" + s + "\x1b\\\x1b[22;2t")
	}
	if t.title != "" || len(t.titles) > 0 {
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
	if m.leftRight {
		r.add("\x1b[?69h")
		r.csi("s", t.buf.left+1, t.buf.right+1)
	}
}

// cursor is last. If the program has just printed a character, the other terminal prints the character again: a combining character may
// follow, or REP.
func (r *restorer) cursor() {
	t := r.t
	b := t.buf
	m := &t.modes
	top, left := 0, 0
	if m.origin {
		r.add("\x1b[?6h")
		top, left = b.top, b.left
	}
	place := func(x int) { r.csi("H", b.y-top+1, x-left+1) }
	cells := b.lines[b.y].cells
	before := b.after() - 1 // where the character before the cursor begins
	if before > 0 && cells[before].width() == 0 {
		before--
	}
	again := t.last.width > 0 && before >= 0 && cells[before].written()
	switch {
	case again:
	case b.x >= t.cols || b.full:
		// Nothing but a character brings the cursor past the end.
		r.charsets(newCharsets())
		place(before)
		r.cell(&cells[before])
	default:
		place(b.x)
	}
	if !m.cursorHidden {
		r.add("\x1b[?25h")
	}
	if m.synchronized {
		r.add("\x1b[?2026h")
	}
	r.style(t.pen)
	r.charsets(t.charsets)
	if again {
		place(before)
		if m.insert {
			r.csi("P", t.last.width) // makes room for itself again
		}
	}
	if m.insert {
		r.add("\x1b[4h")
	}
	if again {
		r.b = utf8.AppendRune(r.b, t.last.raw)
		r.add(t.extras.get(cells[before].ext).combining)
	} else if b.x >= t.cols || b.full {
		r.add("\x1b[7l") // no effect, but ends the character
	}
}

// unfinished appends the bytes of an unfinished sequence, without controls: the restored state has their effect.
func (p *parser) unfinished(b []byte) []byte {
	if p.pendingLong {
		switch p.state {
		case oscString:
			return append(b, "\x1b]9999;"...) // unknown everywhere
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
