package screen

// resize changes both screens. (Lines are not wrapped anew yet.)
func (t *terminal) resize(rows, cols int) {
	if rows == t.rows && cols == t.cols {
		return
	}
	t.resizeBuffer(&t.main, rows, cols)
	if t.buf == &t.alt {
		t.resizeBuffer(&t.alt, rows, cols)
	}
	t.rows, t.cols = rows, cols
}

func (t *terminal) resizeBuffer(b *buffer, rows, cols int) {
	for i := range b.lines {
		b.lines[i].resize(cols)
	}
	for len(b.lines) < rows {
		if b == &t.main && t.history.len() > 0 && b.y == len(b.lines)-1 {
			b.lines = append([]line{t.history.pop(cols)}, b.lines...)
			b.y++
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
	}
	b.x = min(b.x, cols-1)
	b.saved.x = min(b.saved.x, cols-1)
	b.top, b.bottom = 0, rows-1
	b.growTabs(cols)
}
