package screen

import "slices"

// Left and right margins (DECLRMM, DECSLRM), and operations on rectangles. xterm.js has neither: programs such as tmux use them if the
// terminal of the viewer says that it has them. Without DECLRMM the margins are the edges of the screen.

// narrow says whether a margin is within the screen.
func (b *buffer) narrow() bool { return b.left > 0 || b.right < len(b.lines[0].cells)-1 }

// inside says whether the cursor is between the margins.
func (b *buffer) inside() bool { return !b.narrow() || b.x >= b.left && b.x <= b.right }

// after returns the column after the last character.
func (b *buffer) after() int {
	if b.full {
		return b.x + 1
	}
	return b.x
}

// edge returns the column in which no character from the cursor on fits any more.
func (t *terminal) edge() int {
	if b := t.buf; b.x <= b.right {
		return b.right + 1
	}
	return t.cols
}

// part returns the row of the cursor up to edge.
func (t *terminal) part(edge int) *line {
	l := t.row()
	if edge == t.cols {
		return l
	}
	l.split(edge)
	return &line{cells: l.cells[:edge]}
}

// split makes blanks of a wide character whose halves are left and right of x.
func (l *line) split(x int) {
	if x > 0 && x < len(l.cells) && l.cells[x].width() == 0 {
		l.cells[x-1] = l.cells[x-1].blank()
		l.cells[x] = l.cells[x-1]
	}
}

// carriage is CR.
func (t *terminal) carriage() {
	b := t.buf
	if b.full = false; b.x >= b.left || t.modes.origin {
		b.x = b.left
	} else {
		b.x = 0
	}
}

// back is CUB.
func (t *terminal) back(n int) {
	t.restrict(t.cols - 1)
	if b := t.buf; b.x >= b.left {
		n = min(n, b.x-b.left)
	}
	t.move(-n, 0)
}

func (t *terminal) tab(n int) {
	b := t.buf
	b.full = false
	edge := t.edge()
	for ; n > 0 && b.x < edge; n-- {
		b.x = min(b.nextTab(b.x, t.cols), edge-1)
	}
}

// originLeft returns the column from which DECOM counts.
func (t *terminal) originLeft() int {
	if t.modes.origin {
		return t.buf.left
	}
	return 0
}

// setMargins is DECSLRM.
func (t *terminal) setMargins(p *params) {
	left, right := p.or1(0), p.at(1)
	if right == 0 || right > t.cols {
		right = t.cols
	}
	if left < right {
		t.buf.left, t.buf.right = left-1, right-1
		t.place(0, 0)
	}
}

// shift moves the cells between the margins from row y to the bottom up by n, or down if n is negative.
func (b *buffer) shift(y, n int, fill cell) {
	for i := y; i <= b.bottom; i++ {
		b.lines[i].split(b.left)
		b.lines[i].split(b.right + 1)
		b.lines[i].wrapped = false
	}
	part := func(i int) []cell { return b.lines[i].cells[b.left : b.right+1] }
	put := func(i int) {
		if from := i + n; from >= y && from <= b.bottom {
			copy(part(i), part(from))
			return
		}
		for x := range part(i) {
			part(i)[x] = fill
		}
	}
	for i := y; i <= b.bottom; i++ {
		if n > 0 {
			put(i)
		} else {
			put(b.bottom + y - i)
		}
	}
}

// forwardIndex is DECFI, and backIndex DECBI.
func (t *terminal) forwardIndex() {
	t.restrict(t.cols - 1)
	if b := t.buf; b.x == b.right && b.inside() {
		t.columns(b.left, 1, true)
	} else {
		t.move(1, 0)
	}
}

func (t *terminal) backIndex() {
	t.restrict(t.cols - 1)
	if b := t.buf; b.x == b.left {
		t.columns(b.left, 1, false)
	} else {
		t.move(-1, 0)
	}
}

// area is a rectangle of cells; the ends are not included.
type area struct{ top, left, bottom, right int }

// area reads top, left, bottom and right from the i-th parameter on. With DECOM they count from the region, and end at it.
func (t *terminal) area(p *params, i int) area {
	a, b := area{0, 0, t.rows, t.cols}, t.buf
	if t.modes.origin {
		a = area{b.top, b.left, b.bottom + 1, b.right + 1}
	}
	end := func(from, n, most int) int {
		if n == 0 {
			return most
		}
		return min(from+n, most)
	}
	return area{a.top + p.or1(i) - 1, a.left + p.or1(i+1) - 1, end(a.top, p.at(i+2), a.bottom), end(a.left, p.at(i+3), a.right)}
}

// rectangle is DECFRA, DECERA, DECSERA or DECCRA.
func (t *terminal) rectangle(final byte, p *params) {
	switch final {
	case 'x':
		if c := p.at(0); c >= 0x20 && c < 0x7f || c >= 0xa0 && c < 0x100 {
			fill := t.pen
			fill.char = uint32(c) | narrow
			t.fill(t.area(p, 1), fill, false)
		}
	case 'z', '{':
		t.fill(t.area(p, 0), t.eraser(), final == '{')
	case 'v':
		t.copy(t.area(p, 0), t.area(p, 5))
	}
}

// fill fills an area. With protect, protected cells stay.
func (t *terminal) fill(a area, c cell, protect bool) {
	for y := a.top; y < a.bottom && a.left < a.right; y++ {
		l := &t.buf.lines[y]
		l.split(a.left)
		l.split(a.right)
		part := line{cells: l.cells[a.left:a.right]}
		part.fill(c, protect)
	}
}

// copy copies an area. to has only its top, left and the bounds.
func (t *terminal) copy(from, to area) {
	var cells [][]cell
	for y := from.top; y < from.bottom && from.left < from.right; y++ {
		l := line{cells: slices.Clone(t.buf.lines[y].cells)}
		l.split(from.left)
		l.split(from.right)
		cells = append(cells, l.cells[from.left:from.right])
	}
	for i, part := range cells {
		y, right := to.top+i, min(to.left+len(part), t.cols)
		if y >= t.rows || to.left >= right {
			return
		}
		l := &t.buf.lines[y]
		l.split(to.left)
		l.split(right)
		copy(l.cells[to.left:right], part)
		if last := &l.cells[right-1]; last.width() == 2 {
			*last = last.blank() // its second half is beyond the edge
		}
	}
}
