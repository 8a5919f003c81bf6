package screen

// resize changes both screens as xterm.js does: the terminal of a viewer may follow the resize, and must stay equal. Wrapped lines of the
// main screen are wrapped anew, except the line of the cursor: the program will write this line again.
func (t *terminal) resize(rows, cols int) {
	if rows == t.rows && cols == t.cols {
		return
	}
	t.last = lastPrint{}
	if cols == t.cols {
		t.resizeRows(&t.main, rows, cols)
	} else {
		t.resizeMain(rows, cols)
	}
	if t.buf == &t.alt {
		for i := range t.alt.lines {
			t.alt.lines[i].resize(cols)
		}
		t.resizeRows(&t.alt, rows, cols)
	}
	t.rows, t.cols = rows, cols
}

// resizeRows adds rows from the history if the cursor is in the last row, and else below. It removes rows below the cursor first.
func (t *terminal) resizeRows(b *buffer, rows, cols int) {
	for len(b.lines) < rows {
		if b == &t.main && t.history.len() > 0 && b.y == len(b.lines)-1 {
			b.lines = append([]line{t.history.pop(cols)}, b.lines...)
			b.y++
			b.saved.y++
		} else {
			b.lines = append(b.lines, newLine(cols, cell{char: narrow}))
		}
	}
	for len(b.lines) > rows {
		if len(b.lines) > b.y+1 {
			b.lines = b.lines[:len(b.lines)-1]
			continue
		}
		if b == &t.main {
			t.history.push(&b.lines[0])
		}
		b.lines = b.lines[1:]
		b.y--
		b.saved.y = max(b.saved.y-1, 0)
	}
	b.finishResize(rows, cols)
}

func (b *buffer) finishResize(rows, cols int) {
	b.x, b.y = min(b.x, cols-1), min(b.y, rows-1)
	b.saved.x, b.saved.y = min(b.saved.x, cols-1), min(b.saved.y, rows-1)
	b.top, b.bottom = 0, rows-1
	b.left, b.right, b.full = 0, cols-1, false
	b.growTabs(cols)
}

// maxReflow is how many cells of the history are wrapped anew, the newest. Older lines keep their ends, and are cut if they are longer.
const maxReflow = 1 << 20

// reflow has all lines of the main screen while they are wrapped anew.
type reflow struct {
	lines      []line // the history, then the screen
	base       int    // where the screen begins
	y, savedY  int    // of the screen
	rows, cols int    // new
	limit      int    // of lines
	old        int    // the old cols
}

func (t *terminal) resizeMain(rows, cols int) {
	b := &t.main
	f := reflow{base: min(t.history.len(), maxReflow/max(cols, t.cols)), rows: rows, cols: cols, old: t.cols, limit: rows + t.history.limit}
	f.lines = make([]line, 0, f.base+len(b.lines))
	for i := t.history.len() - f.base; i < t.history.len(); i++ {
		f.lines = append(f.lines, t.history.line(i, t.cols))
	}
	t.history.shorten(f.base)
	f.lines = append(f.lines, b.lines...)
	if cols > t.cols {
		for i := range f.lines {
			f.lines[i].resize(cols)
		}
	}
	f.y, f.savedY = b.y, b.saved.y+f.base
	f.changeRows(t.rows)
	if cols > t.cols {
		f.larger()
	} else {
		f.smaller()
		for i := range f.lines {
			f.lines[i].resize(cols)
		}
	}
	for len(f.lines) < f.base+rows {
		f.lines = append(f.lines, newLine(cols, cell{char: narrow}))
	}
	f.base = len(f.lines) - rows
	for i := range f.base {
		t.history.push(&f.lines[i])
	}
	b.lines = append([]line(nil), f.lines[f.base:]...)
	b.y, b.saved.y = min(max(f.y, 0), rows-1), max(f.savedY-f.base, 0)
	b.finishResize(rows, cols)
}

// changeRows is resizeRows for all lines.
func (f *reflow) changeRows(old int) {
	for range f.rows - old {
		if f.base > 0 && len(f.lines) <= f.base+f.y+1 {
			f.base--
			f.y++
		} else {
			f.lines = append(f.lines, newLine(max(f.cols, f.old), cell{char: narrow}))
		}
	}
	for range old - f.rows {
		if len(f.lines) > f.base+f.y+1 {
			f.lines = f.lines[:len(f.lines)-1]
		} else {
			f.base++
			f.y--
		}
	}
	if n := len(f.lines) - f.limit; n > 0 {
		f.lines = f.lines[n:]
		f.base = max(f.base-n, 0)
		f.savedY = max(f.savedY-n, 0)
	}
	f.y = min(f.y, f.rows-1)
}

// length is how many cells of the i-th line of a group belong to its text.
func (f *reflow) length(group []line, i int) int {
	l := &group[i]
	if i == len(group)-1 {
		return l.trimmed()
	}
	last := &l.cells[f.old-1]
	if !last.written() && last.width() == 1 && group[i+1].cells[0].width() == 2 {
		return f.old - 1 // a wide character did not fit
	}
	return f.old
}

// wrap distributes the text of a group to lines of the new width. If keep is set, a line keeps its cells from the second after the text on.
func (f *reflow) wrap(group []line, keep bool) []line {
	var text []cell
	for i := range group {
		l, n := &group[i], f.length(group, i)
		text = append(text, l.cells[:min(n, len(l.cells))]...)
		if n > len(l.cells) {
			text = append(text, cell{}) // the second half of a cut character
		}
	}
	out := []line{}
	for len(text) > 0 {
		n := min(f.cols, len(text))
		if text[n-1].width() == 2 {
			n-- // does not fit
		}
		l := newLine(f.cols, cell{char: narrow})
		if keep && len(out) < len(group) {
			copy(l.cells, group[len(out)].cells)
			if n < f.cols {
				l.cells[n] = cell{char: narrow}
			}
		}
		copy(l.cells, text[:n])
		l.wrapped = len(out) > 0
		out = append(out, l)
		text = text[n:]
	}
	if len(out) == 0 {
		out = append(out, newLine(f.cols, cell{char: narrow}))
	}
	out[0].wrapped = group[0].wrapped
	return out
}

// larger joins lines. The screen moves up in the list, and down on the terminal while there is no history.
func (f *reflow) larger() {
	cursor := f.base + f.y
	out := make([]line, 0, len(f.lines))
	removed := 0
	for i := 0; i < len(f.lines); {
		end := i + 1
		for end < len(f.lines) && f.lines[end].wrapped {
			end++
		}
		group := f.lines[i:end]
		if len(group) > 1 && (cursor < i || cursor >= end) {
			group = f.wrap(group, false)
			for len(group) > 1 && group[len(group)-1].trimmed() == 0 {
				group = group[:len(group)-1]
			}
			removed += end - i - len(group)
		}
		out = append(out, group...)
		i = end
	}
	f.lines = out
	for range removed {
		if f.base > 0 {
			f.base--
			continue
		}
		f.y = max(f.y-1, 0)
		if len(f.lines) < f.rows {
			f.lines = append(f.lines, newLine(f.cols, cell{char: narrow}))
		}
	}
	f.savedY = max(f.savedY-removed, 0)
}

// smaller splits lines, from the last one on.
func (f *reflow) smaller() {
	type insertion struct {
		at    int
		lines []line
	}
	var insertions []insertion
	inserted := 0
	all := f.lines // with the lines that are dropped from the bottom below, as in xterm.js
	for i := len(all) - 1; i >= 0; i-- {
		end := i + 1
		if !all[i].wrapped && all[i].trimmed() <= f.cols {
			continue
		}
		for all[i].wrapped && i > 0 {
			i--
		}
		if cursor := f.base + f.y; cursor >= i && cursor < end {
			continue
		}
		lines := f.wrap(all[i:end], true)
		n := end - i
		if len(lines) < n {
			continue
		}
		copy(all[i:end], lines)
		add := len(lines) - n
		if add > 0 {
			insertions = append(insertions, insertion{end, lines[n:]})
			inserted += add
		}
		dropped := max(0, len(f.lines)-f.limit+add)
		if f.base == 0 && f.y != len(f.lines)-1 {
			dropped = max(0, f.y-f.limit+add)
		}
		for range add - dropped {
			switch {
			case f.base == 0 && f.y < f.rows-1:
				f.y++
				f.lines = f.lines[:len(f.lines)-1]
			case f.base == 0 || f.base < min(f.limit, len(f.lines)+inserted)-f.rows:
				f.base++
			}
		}
		f.savedY = min(f.savedY+add, f.base+f.rows-1)
	}
	if inserted == 0 {
		return
	}
	out := make([]line, 0, len(f.lines)+inserted)
	k := len(insertions) - 1
	for i := 0; i <= len(f.lines); i++ {
		for ; k >= 0 && (insertions[k].at == i || i == len(f.lines)); k-- {
			out = append(out, insertions[k].lines...)
		}
		if i < len(f.lines) {
			out = append(out, f.lines[i])
		}
	}
	if n := len(out) - f.limit; n > 0 {
		out = out[n:]
	}
	f.lines = out
}
