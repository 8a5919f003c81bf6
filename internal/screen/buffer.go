package screen

import "slices"

// A cell is 16 bytes. Its character is a code point (21 bits, 0: nothing was written) and a width: a wide character has
// width 2, and width 0 in the cell after.
type cell struct {
	char   uint32
	fg, bg uint32 // a color, and attributes from attrBold, attrItalic on
	ext    uint32 // an index in terminal.extras, 0 for most cells
}

const (
	widthShift = 21
	runeMask   = 1<<widthShift - 1
	narrow     = 1 << widthShift
	wide       = 2 << widthShift

	colorIndexed = 1 << 24 // the low 8 bits are a color of the palette
	colorRGB     = 2 << 24 // the low 24 bits are the color
	colorMask    = 1<<26 - 1

	// Attributes in cell.fg.
	attrBold       = 1 << 26
	attrBlink      = 1 << 27
	attrInverse    = 1 << 28
	underlineShift = 29 // 3 bits: the style of the underline
	underlineMask  = 7 << underlineShift

	// Attributes in cell.bg.
	attrItalic    = 1 << 26
	attrFaint     = 1 << 27
	attrHidden    = 1 << 28
	attrStrike    = 1 << 29
	attrOverline  = 1 << 30
	attrProtected = 1 << 31
)

func (c *cell) rune() rune    { return rune(c.char & runeMask) }
func (c *cell) width() int    { return int(c.char >> widthShift) }
func (c *cell) written() bool { return c.char&runeMask != 0 }

// blank returns an empty cell in the style of c. An empty cell was never written; a blank is an empty cell or a space.
func (c cell) blank() cell { return cell{char: narrow, fg: c.fg, bg: c.bg, ext: c.ext} }

// A line is a row of a screen.
type line struct {
	cells   []cell
	wrapped bool // continues the line above
}

func newLine(cols int, fill cell) line {
	l := line{cells: make([]cell, cols)}
	l.fill(fill, false)
	return l
}

func (l *line) fill(c cell, protect bool) {
	if !protect {
		for i := range l.cells {
			l.cells[i] = c
		}
		return
	}
	for i := range l.cells {
		if l.cells[i].bg&attrProtected == 0 {
			l.cells[i] = c
		}
	}
}

// trimmed returns the number of cells without the empty cells at the end.
func (l *line) trimmed() int {
	for i := len(l.cells) - 1; i >= 0; i-- {
		if l.cells[i].written() {
			return i + l.cells[i].width()
		}
	}
	return 0
}

// cut says whether the cell at x is a wide character without its second half, because the screen became narrower. Viewers see a blank. The
// character is whole again once the line is wrapped anew.
func (l *line) cut(x int) bool { return x == len(l.cells)-1 && l.cells[x].width() == 2 }

// part replaces the first half of a wide character left of x: its second half is about to change.
func (l *line) part(x int, c cell) {
	if x > 0 && x <= len(l.cells) && l.cells[x-1].width() == 2 {
		l.cells[x-1] = c
	}
}

// insert moves the cells from x on to the right, by n.
func (l *line) insert(x, n int, c cell) {
	l.part(x, c)
	n = min(n, len(l.cells)-x)
	copy(l.cells[x+n:], l.cells[x:])
	for i := x; i < x+n; i++ {
		l.cells[i] = c
	}
	if x+n < len(l.cells) && l.cells[x+n].width() == 0 {
		l.cells[x+n].char = narrow
	}
	l.part(len(l.cells), c)
}

// remove moves the cells from x+n on to the left, by n.
func (l *line) remove(x, n int, c cell) {
	n = min(n, len(l.cells)-x)
	copy(l.cells[x:], l.cells[x+n:])
	for i := len(l.cells) - n; i < len(l.cells); i++ {
		l.cells[i] = c
	}
	l.part(x, c)
	if l.cells[x].width() == 0 {
		l.cells[x] = c
	}
}

// erase makes the cells from x up to end blank.
func (l *line) erase(x, end int, c cell, protect bool) {
	end = min(end, len(l.cells))
	if x >= end {
		if !protect {
			l.part(x, c)
		}
		return
	}
	kept := func(i int) bool { return protect && l.cells[i].bg&attrProtected != 0 }
	if x > 0 && l.cells[x-1].width() == 2 && !kept(x-1) {
		l.cells[x-1] = c
	}
	if end < len(l.cells) && l.cells[end-1].width() == 2 && !kept(end) {
		l.cells[end] = c
	}
	for i := x; i < end; i++ {
		if !kept(i) {
			l.cells[i] = c
		}
	}
}

func (l *line) resize(cols int) {
	if cols <= len(l.cells) {
		l.cells = l.cells[:cols:cols]
		return
	}
	n := len(l.cells)
	l.cells = append(slices.Grow(l.cells, cols-n), make([]cell, cols-n)...)
	for i := n; i < cols; i++ {
		l.cells[i] = cell{char: narrow}
	}
}

// saved is the state for DECSC and DECRC.
type saved struct {
	x, y     int
	pen      cell
	charsets charsets
}

// unsaved is for a DECRC without a DECSC.
var unsaved = saved{pen: cell{char: narrow}, charsets: newCharsets()}

// A buffer is the main or the alternate screen.
type buffer struct {
	lines       []line
	x, y        int  // x is cols while a wrap is pending
	top, bottom int  // the scroll region, both included
	left, right int  // its margins, both included; see margins.go
	full        bool // the next character wraps at right
	tabs        []bool
	saved       saved
	keyboard    []uint8 // flags of the kitty keyboard protocol: the program's stack, the present flags last
}

func (b *buffer) reset(rows, cols int, fill cell) {
	*b = buffer{lines: b.lines, bottom: rows - 1, right: cols - 1, saved: b.saved}
	if len(b.lines) != rows || len(b.lines[0].cells) != cols {
		cells := make([]cell, rows*cols)
		b.lines = make([]line, rows)
		for i := range b.lines {
			b.lines[i].cells = cells[i*cols : (i+1)*cols : (i+1)*cols]
		}
	}
	for i := range b.lines {
		b.lines[i].fill(fill, false)
		b.lines[i].wrapped = false
	}
	b.tabs = make([]bool, cols)
	for i := 0; i < cols; i += 8 {
		b.tabs[i] = true
	}
}

// growTabs adds the default stops from the last stop on, if there are more columns.
func (b *buffer) growTabs(cols int) {
	if n := cols - len(b.tabs); n > 0 {
		b.tabs = append(b.tabs, make([]bool, n)...)
	}
	i := min(cols, len(b.tabs)) - 1
	for i > 0 && !b.tabs[i] {
		i--
	}
	for ; i < cols; i += 8 {
		b.tabs[i] = true
	}
}

func (b *buffer) nextTab(x, cols int) int {
	for x++; x < cols && !b.tabs[x]; x++ {
	}
	return min(x, cols-1)
}

func (b *buffer) previousTab(x int) int {
	for x--; x > 0 && !b.tabs[x]; x-- {
	}
	return max(x, 0)
}

// rotate moves the lines from top to bottom up by n, or down if n is negative. Lines that come in still have their old content.
func (b *buffer) rotate(top, bottom, n int) {
	part := b.lines[top : bottom+1]
	if n > 0 {
		slices.Reverse(part[:n])
		slices.Reverse(part[n:])
	} else {
		slices.Reverse(part[:len(part)+n])
		slices.Reverse(part[len(part)+n:])
	}
	slices.Reverse(part)
}
