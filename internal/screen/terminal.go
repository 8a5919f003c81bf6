package screen

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// terminal is the state that the program has made. Controls and sequences have the effect of xterm.js, and otherwise of xterm, by ECMA-48
// and its ctlseqs; docs/decisions/0041-screen.md lists the differences.
type terminal struct {
	rows, cols int
	main, alt  buffer
	buf        *buffer // main or alt
	history    history // of main

	pen      cell // the style of the next character
	charsets charsets
	modes    modes
	last     lastPrint

	title  string
	titles []string // pushed
	link   string   // of the pen
	extras extras
	colors map[int]uint32 // that the program has redefined; see palette.go
	cursor int            // the parameter of DECSCUSR
	blink  bool
}

// lastPrint is the character before the cursor, if no control or sequence came since. Combining characters join it, and REP repeats it.
type lastPrint struct {
	width int  // 0: none
	raw   rune // before its translation by a character set
}

type charsets struct {
	g     [4]byte // 'B' is ASCII, '0' line drawing, 'A' British
	level int     // in use
}

type modes struct {
	applicationCursor, applicationKeypad    bool
	bracketedPaste, focusEvents             bool
	origin, noAutowrap, insert, newLine     bool
	reverseWrap, reverseVideo, synchronized bool
	cursorHidden                            bool
	mouse                                   int  // 0, 9, 1000, 1002 or 1003
	encoding                                int  // 0, 1005, 1006, 1015 or 1016
	modifyOtherKeys                         int  // CSI > 4 ; n m
	leftRight                               bool // DECLRMM
}

func (t *terminal) init(rows, cols, scrollback int) {
	t.rows, t.cols = rows, cols
	t.history.limit = scrollback
	t.reset()
}

// reset is RIS.
func (t *terminal) reset() {
	t.main.reset(t.rows, t.cols, cell{char: narrow})
	t.main.saved = unsaved
	t.alt = buffer{saved: unsaved}
	t.buf = &t.main
	t.history.clear()
	t.pen, t.charsets, t.modes, t.last = cell{char: narrow}, newCharsets(), modes{}, lastPrint{}
	t.link, t.extras = "", extras{}
	t.cursor, t.blink = 0, false
}

func newCharsets() charsets { return charsets{g: [4]byte{'B', 'B', 'B', 'B'}} }

// eraser is a blank cell in the background of the pen.
func (t *terminal) eraser() cell { return cell{char: narrow, bg: t.pen.bg & colorMask} }

func (t *terminal) row() *line { return &t.buf.lines[t.buf.y] }

// ---- characters

// printASCII prints narrow characters.
func (t *terminal) printASCII(b []byte) {
	set := t.charsets.g[t.charsets.level]
	if set != 'B' || t.modes.insert || t.modes.noAutowrap || t.modes.leftRight {
		for _, c := range b {
			t.print(rune(c))
		}
		return
	}
	t.last = lastPrint{1, rune(b[len(b)-1])}
	for len(b) > 0 {
		if t.buf.x >= t.cols {
			t.wrap()
		}
		l := t.row()
		x := t.buf.x
		l.part(x, t.pen.blank())
		n := min(len(b), t.cols-x)
		cells := l.cells[x : x+n]
		c := t.pen
		for i := range cells {
			c.char = uint32(b[i]) | narrow
			cells[i] = c
		}
		x += n
		if x < t.cols && l.cells[x].width() == 0 {
			l.cells[x] = t.pen.blank()
		}
		t.buf.x = x
		b = b[n:]
	}
}

func (t *terminal) print(r rune) {
	raw := r
	if r < 0x7f {
		r = t.charsets.translate(r)
	}
	w := runeWidth(r)
	if w == 0 {
		t.combine(r)
		return
	}
	b := t.buf
	blank := t.pen.blank()
	edge := t.edge()
	t.row().part(b.after(), blank)
	if b.x+w > edge || b.full {
		switch {
		case !t.modes.noAutowrap:
			l := t.row()
			l.split(edge)
			for x := b.x; x < edge && !b.full; x++ {
				l.cells[x] = blank
			}
			t.wrap()
			t.row().part(b.x, blank)
			edge = t.edge()
		case w == 2:
			b.x = edge - 1
			t.last = lastPrint{} // dropped
			return
		default:
			b.x = edge - 1
			t.row().part(b.x, blank)
		}
	}
	l := t.row()
	if t.modes.insert {
		if l.cells[b.x].width() == 0 {
			l.cells[b.x] = blank
		}
		t.part(edge).insert(b.x, w, blank)
	}
	c := t.pen
	c.char = uint32(r) | uint32(w)<<widthShift
	l.cells[b.x] = c
	b.x++
	if w == 2 {
		c.char = 0
		l.cells[b.x] = c
		b.x++
	}
	if b.x < t.cols && l.cells[b.x].width() == 0 {
		l.cells[b.x] = blank
	}
	if b.full = b.x == edge && edge < t.cols; b.full {
		b.x--
	}
	t.last = lastPrint{w, raw}
}

// combine adds a character without width to the last character.
func (t *terminal) combine(r rune) {
	b := t.buf
	if t.last.width == 0 || b.after() == 0 {
		return
	}
	x := b.after() - 1
	l := t.row()
	if l.cells[x].width() == 0 {
		x--
	}
	if x < 0 {
		return
	}
	c := &l.cells[x]
	if !c.written() {
		return
	}
	e := t.extras.get(c.ext)
	if len(e.combining) >= maxCombining {
		return
	}
	e.combining += string(r)
	c.ext = t.intern(e)
}

// wrap goes to the beginning of the next row, as a continuation of the present row.
func (t *terminal) wrap() {
	b := t.buf
	if b.y == b.bottom {
		t.scroll(true)
	} else {
		b.y = min(b.y+1, t.rows-1)
		b.lines[b.y].wrapped = !t.modes.leftRight
	}
	b.x, b.full = b.left, false
}

// scroll moves the region up by a line. A line that leaves the top of the main screen becomes history.
func (t *terminal) scroll(wrapped bool) {
	b := t.buf
	if b.narrow() {
		if b.inside() {
			t.scrollRegion(b.top, 1, t.eraser())
		}
		return
	}
	if b == &t.main && b.top == 0 {
		t.history.push(&b.lines[0])
	}
	first := b.lines[b.top]
	copy(b.lines[b.top:b.bottom], b.lines[b.top+1:b.bottom+1])
	first.fill(t.eraser(), false)
	first.wrapped = wrapped
	b.lines[b.bottom] = first
}

func (c *charsets) translate(r rune) rune {
	switch c.g[c.level] {
	case '0':
		if r >= '`' && r <= '~' {
			return drawing[r-'`']
		}
	case 'A':
		if r == '#' {
			return '£'
		}
	}
	return r
}

var drawing = [...]rune{'◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─', '⎼', '⎽', '├', '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·'}

// ---- controls

// control obeys a control of C0 or C1.
func (t *terminal) control(c rune) {
	t.last = lastPrint{}
	switch c {
	case '\n', '\v', '\f':
		t.lineFeed()
	case '\r':
		t.carriage()
	case '\b':
		t.backspace()
	case '\t':
		t.tab(1)
	case 0x0e:
		t.charsets.level = 1
	case 0x0f:
		t.charsets.level = 0
	case 0x84:
		t.index()
	case 0x85:
		t.index()
		t.carriage()
	case 0x88:
		t.setTab()
	case 0x8d:
		t.reverseIndex()
	}
}

func (t *terminal) setTab() {
	if t.buf.x < t.cols {
		t.buf.tabs[t.buf.x] = true
	}
}

func (t *terminal) lineFeed() {
	b := t.buf
	b.full = false
	if t.modes.newLine {
		t.carriage()
	}
	switch {
	case b.y == b.bottom:
		t.scroll(false)
	case b.y < t.rows-1:
		b.y++
		b.lines[b.y].wrapped = false
	}
	b.x = min(b.x, t.cols-1)
}

func (t *terminal) index() {
	t.restrict(t.cols - 1)
	b := t.buf
	if b.y == b.bottom {
		t.scroll(false)
	} else {
		b.y = min(b.y+1, t.rows-1)
	}
	t.restrict(t.cols - 1)
}

func (t *terminal) reverseIndex() {
	t.restrict(t.cols - 1)
	b := t.buf
	if b.y == b.top {
		if b.inside() {
			t.scrollRegion(b.top, -1, t.eraser())
		}
	} else {
		b.y--
		t.restrict(t.cols - 1)
	}
}

func (t *terminal) backspace() {
	b := t.buf
	if !t.modes.reverseWrap {
		t.back(1)
		return
	}
	t.restrict(t.cols)
	if b.x > 0 {
		b.x--
	} else if b.y > b.top && b.y <= b.bottom && b.lines[b.y].wrapped {
		b.lines[b.y].wrapped = false
		b.y--
		b.x = t.cols - 1
		if c := &b.lines[b.y].cells[b.x]; c.width() == 1 && !c.written() {
			b.x-- // a wide character did not fit
		}
	}
	t.restrict(t.cols - 1)
}

const (
	maxRepeat = 1024
	maxTitles = 10 // as xterm.js and xterm
	// The stack of flags for keyboards.
	maxKeyboard = 8
)

// ---- the cursor

// restrict keeps the cursor on the screen, and with DECOM in the region.
func (t *terminal) restrict(maxX int) {
	b := t.buf
	b.x, b.full = min(max(b.x, 0), maxX), false
	if t.modes.origin {
		if t.modes.leftRight {
			b.x = min(max(b.x, b.left), b.right)
		}
		b.y = min(max(b.y, b.top), b.bottom)
	} else {
		b.y = min(max(b.y, 0), t.rows-1)
	}
}

// place sets the cursor. With DECOM, y counts from the region.
func (t *terminal) place(x, y int) {
	t.buf.x, t.buf.y = x, y
	if t.modes.origin {
		t.buf.x += t.buf.left
		t.buf.y += t.buf.top
	}
	t.restrict(t.cols - 1)
}

func (t *terminal) move(x, y int) {
	t.restrict(t.cols - 1)
	t.buf.x += x
	t.buf.y += y
	t.restrict(t.cols - 1)
}

func (t *terminal) up(n int) {
	if b := t.buf; b.y >= b.top {
		n = min(n, b.y-b.top)
	}
	t.move(0, -n)
}

func (t *terminal) down(n int) {
	if b := t.buf; b.y <= b.bottom {
		n = min(n, b.bottom-b.y)
	}
	t.move(0, n)
}

func (t *terminal) save() {
	t.buf.saved = saved{t.buf.x, t.buf.y, t.pen, t.charsets}
}

func (t *terminal) restoreCursor() {
	s := t.buf.saved
	t.buf.x, t.buf.y = s.x, s.y
	t.pen, t.charsets = s.pen, s.charsets
	t.penLink()
	t.restrict(t.cols - 1)
}

// ---- ESC

func (t *terminal) escape(collect uint32, final byte) {
	switch collect {
	case 0:
		t.plainEscape(final)
	case '(', ')', '*', '+', '-', '.':
		g := strings.IndexByte("()*+-.", byte(collect))
		if g > 3 {
			g -= 3
		}
		switch {
		case final == '0' || final == 'A' || final == 'B':
			t.charsets.g[g] = final
		case strings.IndexByte("4C5RQKYE6ZH7=", final) >= 0:
			t.charsets.g[g] = 'B' // national sets differ from ASCII in few characters
		}
	case '%':
		if final == '@' || final == 'G' {
			t.charsets.level, t.charsets.g[0] = 0, 'B'
		}
	case '#':
		if final == '8' {
			t.align()
		}
	}
}

func (t *terminal) plainEscape(final byte) {
	switch final {
	case '7':
		t.save()
	case '8':
		t.restoreCursor()
	case 'D':
		t.index()
	case 'E':
		t.index()
		t.carriage()
	case 'H':
		t.setTab()
	case 'M':
		t.reverseIndex()
	case '=':
		t.modes.applicationKeypad = true
	case '>':
		t.modes.applicationKeypad = false
	case 'c':
		t.reset()
	case '6':
		t.backIndex()
	case '9':
		t.forwardIndex()
	case 'n', '}':
		t.charsets.level = 2
	case 'o', '|':
		t.charsets.level = 3
	case '~':
		t.charsets.level = 1
	}
}

// align is DECALN.
func (t *terminal) align() {
	c := t.pen
	c.char, c.ext = 'E'|narrow, 0
	t.buf.left, t.buf.right = 0, t.cols-1
	t.place(0, 0)
	for y := range t.rows {
		t.buf.lines[y].fill(c, false)
		t.buf.lines[y].wrapped = false
	}
	t.place(0, 0)
}

// ---- CSI

func (t *terminal) csi(prefix byte, collect uint32, final byte, p *params) {
	switch {
	case prefix == 0 && collect == 0:
		t.plainCSI(final, p)
	case prefix == '?' && collect == 0:
		switch final {
		case 'h', 'l':
			for i := range p.count {
				if !p.sub[i] {
					t.privateMode(int(p.n[i]), final == 'h')
				}
			}
		case 'J':
			t.eraseDisplay(p.at(0), true)
		case 'K':
			t.eraseLine(p.at(0), true)
		}
	case prefix == '>' && collect == 0 && final == 'm':
		if p.at(0) == 4 || p.at(0) == 0 {
			t.modes.modifyOtherKeys = min(p.at(1), 3)
		}
	case collect == 0 && final == 'u' && prefix != 0:
		t.buf.setKeyboard(prefix, p)
	case prefix != 0:
	case collect == '!' && final == 'p':
		t.softReset()
	case collect == ' ' && final == 'q':
		t.cursor = p.at(0)
		if t.cursor > 6 {
			t.cursor = 0
		}
	case collect == '"' && final == 'q':
		switch p.at(0) {
		case 1:
			t.pen.bg |= attrProtected
		case 0, 2:
			t.pen.bg &^= attrProtected
		}
	case collect == ' ' && final == '@':
		t.columns(t.buf.left, p.or1(0), true)
	case collect == ' ' && final == 'A':
		t.columns(t.buf.left, p.or1(0), false)
	case collect == '\'' && final == '}' && t.buf.inside():
		t.columns(t.buf.x, p.or1(0), false)
	case collect == '\'' && final == '~' && t.buf.inside():
		t.columns(t.buf.x, p.or1(0), true)
	case collect == '$':
		t.rectangle(final, p)
	}
}

// setKeyboard is CSI > flags u, CSI < number u and CSI = flags ; how u.
func (b *buffer) setKeyboard(prefix byte, p *params) {
	k := b.keyboard
	flags := uint8(p.at(0)) & 31
	switch prefix {
	case '>':
		if len(k) == maxKeyboard {
			k = slices.Delete(k, 0, 1)
		}
		k = append(k, flags)
	case '<':
		k = k[:len(k)-min(p.or1(0), len(k))]
	case '=':
		if len(k) == 0 {
			k = append(k, 0)
		}
		now := &k[len(k)-1]
		switch p.or1(1) {
		case 1:
			*now = flags
		case 2:
			*now |= flags
		case 3:
			*now &^= flags
		}
	}
	b.keyboard = k
}

func (t *terminal) plainCSI(final byte, p *params) {
	b := t.buf
	switch final {
	case '@':
		t.restrict(t.cols - 1)
		if b.inside() {
			t.part(t.edge()).insert(b.x, p.or1(0), t.eraser())
		}
	case 'A':
		t.up(p.or1(0))
	case 'B':
		t.down(p.or1(0))
	case 'C':
		t.restrict(t.cols - 1)
		t.move(min(p.or1(0), t.edge()-1-b.x), 0)
	case 'a':
		t.move(p.or1(0), 0)
	case 'D':
		t.back(p.or1(0))
	case 'E':
		t.down(p.or1(0))
		t.carriage()
	case 'F':
		t.up(p.or1(0))
		t.carriage()
	case 'G', '`':
		b.x = p.or1(0) - 1 + t.originLeft()
		t.restrict(t.cols - 1)
	case 'H', 'f':
		t.place(p.or1(1)-1, p.or1(0)-1)
	case 'I':
		t.tab(min(p.or1(0), t.cols))
	case 'J':
		t.eraseDisplay(p.at(0), false)
	case 'K':
		t.eraseLine(p.at(0), false)
	case 'L', 'M':
		t.restrict(t.cols - 1)
		if b.y < b.top || b.y > b.bottom || !b.inside() {
			return
		}
		n := p.or1(0)
		if final == 'L' {
			n = -n
		}
		t.scrollRegion(b.y, n, t.eraser())
		b.x = b.left
	case 'P':
		t.restrict(t.cols - 1)
		if b.inside() {
			t.part(t.edge()).remove(b.x, p.or1(0), t.eraser())
		}
	case 'S':
		t.scrollRegion(b.top, p.or1(0), t.eraser())
	case 'T':
		if p.count == 1 {
			t.scrollRegion(b.top, -p.or1(0), cell{char: narrow})
		}
	case 'X':
		t.restrict(t.cols - 1)
		t.row().erase(b.x, b.x+p.or1(0), t.eraser(), false)
	case 'Z':
		for n := min(p.or1(0), t.cols); n > 0 && b.x < t.cols; n-- {
			b.x = b.previousTab(b.x)
		}
	case 'b':
		t.repeat(p.or1(0))
	case 'd':
		t.place(min(b.x, t.cols-1)-t.originLeft(), p.or1(0)-1)
	case 'e':
		t.move(0, p.or1(0))
	case 'g':
		switch p.at(0) {
		case 0:
			if b.x < t.cols {
				b.tabs[b.x] = false
			}
		case 3:
			clear(b.tabs)
		}
	case 'h', 'l':
		for i := range p.count {
			switch p.n[i] {
			case 4:
				t.modes.insert = final == 'h'
			case 20:
				t.modes.newLine = final == 'h'
			}
		}
	case 'm':
		t.style(p)
	case 'r':
		top, bottom := p.or1(0), p.at(1)
		if bottom == 0 || bottom > t.rows {
			bottom = t.rows
		}
		if bottom > top {
			b.top, b.bottom = top-1, bottom-1
			t.place(0, 0)
		}
	case 's':
		if t.modes.leftRight {
			t.setMargins(p)
		} else {
			t.save()
		}
	case 'u':
		t.restoreCursor()
	case 't':
		t.window(p)
	}
}

// scrollRegion moves the rows from y to the bottom of the region up by n, or down if n is negative.
func (t *terminal) scrollRegion(y, n int, fill cell) {
	b := t.buf
	height := b.bottom - y + 1
	n = min(max(n, -height), height)
	if b.narrow() {
		b.shift(y, n, fill)
		return
	}
	b.rotate(y, b.bottom, n)
	from, end := b.bottom+1-n, b.bottom+1
	if n < 0 {
		from, end = y, y-n
	}
	for i := from; i < end; i++ {
		b.lines[i].fill(fill, false)
		b.lines[i].wrapped = false
	}
}

// columns inserts or removes n columns of the region at x.
func (t *terminal) columns(x, n int, remove bool) {
	b := t.buf
	if b.y < b.top || b.y > b.bottom {
		return
	}
	x %= t.cols
	for i := b.top; i <= b.bottom; i++ {
		b.lines[i].split(b.right + 1)
		if l := (line{cells: b.lines[i].cells[:b.right+1]}); remove {
			l.remove(x, n, t.eraser())
		} else {
			l.insert(x, n, t.eraser())
		}
		b.lines[i].wrapped = false
	}
}

func (t *terminal) eraseDisplay(what int, protect bool) {
	t.restrict(t.cols)
	b := t.buf
	c := t.eraser()
	whole := func(from, end int) {
		for i := from; i < end; i++ {
			b.lines[i].fill(c, protect)
			b.lines[i].wrapped = false
		}
	}
	switch what {
	case 0:
		t.row().erase(b.x, t.cols, c, protect)
		if b.x == 0 {
			t.row().wrapped = false
		}
		whole(b.y+1, t.rows)
	case 1:
		t.row().erase(0, b.x+1, c, protect)
		t.row().wrapped = false
		if b.x+1 >= t.cols && b.y+1 < t.rows {
			b.lines[b.y+1].wrapped = false
		}
		whole(0, b.y)
	case 2:
		whole(0, t.rows)
	case 3:
		if b == &t.main {
			t.history.clear()
		}
	}
}

func (t *terminal) eraseLine(what int, protect bool) {
	t.restrict(t.cols)
	l, x := t.row(), t.buf.x
	switch what {
	case 0:
		l.erase(x, t.cols, t.eraser(), protect)
		if x == 0 {
			l.wrapped = false
		}
	case 1:
		l.erase(0, x+1, t.eraser(), protect)
	case 2:
		l.erase(0, t.cols, t.eraser(), protect)
		l.wrapped = false
	}
}

// repeat is REP. A program may not make a server work for hours with a few bytes.
func (t *terminal) repeat(n int) {
	x := t.buf.after() - t.last.width
	if t.last.width == 0 || x < 0 {
		return
	}
	c := t.row().cells[x]
	if !c.written() {
		return
	}
	combining := t.extras.get(c.ext).combining // now: the first copy may move the extras
	sets := t.charsets
	t.charsets = newCharsets() // the cell has the translated character
	for range min(n, maxRepeat) {
		t.print(c.rune())
		for _, r := range combining {
			t.combine(r)
		}
	}
	t.charsets = sets
}

func (t *terminal) softReset() {
	b := t.buf
	m := &t.modes
	*m = modes{
		mouse: m.mouse, encoding: m.encoding, reverseVideo: m.reverseVideo, modifyOtherKeys: m.modifyOtherKeys,
		newLine: m.newLine, // as xterm.js
	}
	b.top, b.bottom = 0, t.rows-1
	b.left, b.right, b.full = 0, t.cols-1, false
	t.pen, t.charsets, t.link = cell{char: narrow}, newCharsets(), ""
	b.saved = unsaved
	t.cursor = 0
}

func (t *terminal) privateMode(n int, on bool) {
	m := &t.modes
	switch n {
	case 1:
		m.applicationCursor = on
	case 2:
		if on {
			t.charsets.g = newCharsets().g
		}
	case 5:
		m.reverseVideo = on
	case 6:
		m.origin = on
		t.place(0, 0)
	case 7:
		m.noAutowrap = !on
	case 12:
		t.blink = on
	case 25:
		m.cursorHidden = !on
	case 45:
		m.reverseWrap = on
	case 66:
		m.applicationKeypad = on
	case 69:
		m.leftRight = on
		t.buf.left, t.buf.right, t.buf.full = 0, t.cols-1, false
	case 9, 1000, 1002, 1003:
		m.mouse = 0
		if on {
			m.mouse = n
		}
	case 1004:
		m.focusEvents = on
	case 1005, 1006, 1015, 1016:
		m.encoding = 0
		if on {
			m.encoding = n
		}
	case 47, 1047, 1049:
		if on {
			if n == 1049 {
				t.save()
			}
			t.alternate()
		} else {
			t.normal()
			if n == 1049 {
				t.restoreCursor()
			}
		}
	case 1048:
		if on {
			t.save()
		} else {
			t.restoreCursor()
		}
	case 2004:
		m.bracketedPaste = on
	case 2026:
		m.synchronized = on
	}
}

func (t *terminal) alternate() {
	if t.buf == &t.alt {
		return
	}
	t.alt.reset(t.rows, t.cols, t.eraser())
	t.alt.x, t.alt.y = t.main.x, t.main.y
	t.alt.left, t.alt.right = t.main.left, t.main.right // as in xterm; the region is that of the alternate screen, as in xterm.js
	t.buf = &t.alt
}

func (t *terminal) normal() {
	if t.buf == &t.main {
		return
	}
	t.main.x, t.main.y = t.alt.x, t.alt.y
	t.main.left, t.main.right, t.main.full = t.alt.left, t.alt.right, false
	t.alt = buffer{saved: t.alt.saved} // gives the memory back
	t.buf = &t.main
}

// window has only the stack of titles: a viewer's window is not the program's.
func (t *terminal) window(p *params) {
	if what := p.at(1); what != 0 && what != 2 {
		return
	}
	switch p.at(0) {
	case 22:
		if len(t.titles) == maxTitles {
			t.titles = t.titles[1:]
		}
		t.titles = append(t.titles, t.title)
	case 23:
		if n := len(t.titles); n > 0 {
			t.title, t.titles = t.titles[n-1], t.titles[:n-1]
		}
	}
}

// ---- SGR

func (t *terminal) style(p *params) {
	c := &t.pen
	for i := 0; i < p.count; i++ {
		if p.sub[i] {
			continue
		}
		switch n := p.n[i]; {
		case n == 0:
			e := t.extras.get(c.ext)
			e.underline = 0
			*c = cell{char: narrow, ext: t.intern(e)}
		case n == 1:
			c.fg |= attrBold
		case n == 2:
			c.bg |= attrFaint
		case n == 3:
			c.bg |= attrItalic
		case n == 4:
			style := uint32(1)
			if i+1 < p.count && p.sub[i+1] && p.n[i+1] >= 0 && p.n[i+1] <= 5 {
				style = uint32(p.n[i+1])
			}
			c.fg = c.fg&^underlineMask | style<<underlineShift
		case n == 5:
			c.fg |= attrBlink
		case n == 7:
			c.fg |= attrInverse
		case n == 8:
			c.bg |= attrHidden
		case n == 9:
			c.bg |= attrStrike
		case n == 21:
			c.fg = c.fg&^underlineMask | 2<<underlineShift
		case n == 22:
			c.fg &^= attrBold
			c.bg &^= attrFaint
		case n == 23:
			c.bg &^= attrItalic
		case n == 24:
			c.fg &^= underlineMask
		case n == 25:
			c.fg &^= attrBlink
		case n == 27:
			c.fg &^= attrInverse
		case n == 28:
			c.bg &^= attrHidden
		case n == 29:
			c.bg &^= attrStrike
		case n >= 30 && n <= 37:
			c.fg = c.fg&^colorMask | colorIndexed | uint32(n-30)
		case n == 39:
			c.fg &^= colorMask
		case n >= 40 && n <= 47:
			c.bg = c.bg&^colorMask | colorIndexed | uint32(n-40)
		case n == 49:
			c.bg &^= colorMask
		case n == 53:
			c.bg |= attrOverline
		case n == 55:
			c.bg &^= attrOverline
		case n == 59:
			e := t.extras.get(c.ext)
			e.underline = 0
			c.ext = t.intern(e)
		case n >= 90 && n <= 97:
			c.fg = c.fg&^colorMask | colorIndexed | uint32(n-90+8)
		case n >= 100 && n <= 107:
			c.bg = c.bg&^colorMask | colorIndexed | uint32(n-100+8)
		case n == 38 || n == 48 || n == 58:
			color, ok, used := p.color(i)
			i += used
			if !ok {
				continue
			}
			switch n {
			case 38:
				c.fg = c.fg&^colorMask | color
			case 48:
				c.bg = c.bg&^colorMask | color
			case 58:
				e := t.extras.get(c.ext)
				e.underline = color
				c.ext = t.intern(e)
			}
		}
	}
}

// color reads the color after the 38, 48 or 58 at i: 38;5;n, 38;2;r;g;b, 38:5:n, 38:2::r:g:b and 38:2:r:g:b.
func (p *params) color(i int) (color uint32, ok bool, used int) {
	var v [6]int32
	n := 0
	colons := i+1 < p.count && p.sub[i+1]
	for k := i + 1; k < p.count && n < len(v) && p.sub[k] == colons; k++ {
		v[n] = max(p.n[k], 0)
		n++
		if !colons && (v[0] == 5 && n == 2 || v[0] == 2 && n == 4) {
			break
		}
	}
	rgb := v[1:4]
	if colons && n >= 5 {
		rgb = v[2:5] // after the color space
	}
	switch {
	case n > 0 && v[0] == 5:
		return colorIndexed | uint32(v[1])&0xff, true, n
	case n > 0 && v[0] == 2:
		return colorRGB | uint32(rgb[0])&0xff<<16 | uint32(rgb[1])&0xff<<8 | uint32(rgb[2])&0xff, true, n
	}
	return 0, false, n
}

// ---- OSC

func (t *terminal) osc(b []byte) {
	number, text, _ := bytes.Cut(b, []byte{';'})
	switch string(number) {
	case "0", "2":
		t.title = cut(text, MaxTitle)
	case "4", "104", "10", "11", "12", "110", "111", "112":
		t.setColors(string(number), text)
	case "8":
		params, uri, ok := bytes.Cut(text, []byte{';'})
		switch {
		case !ok:
		case len(uri) > 0:
			t.link = string(text)
			t.penLink()
		case len(bytes.TrimSpace(params)) == 0:
			t.link = ""
			t.penLink()
		}
	}
}

// cut returns the first n bytes of b, without a broken character at the end.
func cut(b []byte, n int) string {
	if len(b) > n {
		for n > 0 && !utf8.RuneStart(b[n]) {
			n--
		}
		b = b[:n]
	}
	return string(b)
}

// penLink gives the pen the present link.
func (t *terminal) penLink() {
	e := t.extras.get(t.pen.ext)
	if e.link != t.link {
		e.link = t.link
		t.pen.ext = t.intern(e)
	}
}
