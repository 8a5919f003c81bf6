package screen

import (
	"encoding/binary"
	"unicode/utf8"
)

// history has the lines above the main screen, oldest first. A line is encoded: a byte for wrapped, then runs of cells with equal style.
// A run is the number of cells, fg, bg and ext as uvarints, then the characters in UTF-8, NUL for an empty cell.
// Blank cells of the default style at the end are left out. A line of text takes a tenth of its cells.
type history struct {
	limit int
	ring  [][]byte // grows up to limit
	first int      // the oldest, once the ring is full
	bytes int
}

func (h *history) len() int { return len(h.ring) }

func (h *history) clear() { *h = history{limit: h.limit} }

func (h *history) at(i int) *[]byte { return &h.ring[(h.first+i)%len(h.ring)] }

func (h *history) push(l *line) {
	if h.limit == 0 {
		return
	}
	var b []byte
	if len(h.ring) == h.limit {
		b = *h.at(0)
		h.bytes -= cap(b)
		b = encode(b[:0], l)
		if cap(b) > 2*len(b)+64 {
			b = append(make([]byte, 0, len(b)), b...)
		}
		*h.at(0) = b
		h.first = (h.first + 1) % len(h.ring)
	} else {
		b = encode(make([]byte, 0, len(l.cells)+8), l)
		if cap(b) > len(b)+len(b)/4+16 {
			b = append(make([]byte, 0, len(b)), b...)
		}
		h.ring = append(h.ring, b)
	}
	h.bytes += cap(b)
	if h.bytes > MaxScrollbackBytes {
		h.drop()
	}
}

// drop forgets the oldest tenth.
func (h *history) drop() {
	n := h.len()
	kept := make([][]byte, 0, n)
	h.bytes = 0
	for i := n/10 + 1; i < n; i++ {
		b := *h.at(i)
		h.bytes += cap(b)
		kept = append(kept, b)
	}
	h.ring, h.first = kept, 0
}

// pop removes the newest line.
func (h *history) pop(cols int) line {
	l := h.line(h.len()-1, cols)
	h.shorten(1)
	return l
}

// shorten removes the n newest lines.
func (h *history) shorten(n int) {
	h.straighten()
	for ; n > 0; n-- {
		last := len(h.ring) - 1
		h.bytes -= cap(h.ring[last])
		h.ring[last] = nil
		h.ring = h.ring[:last]
	}
}

// straighten moves the oldest line to the front. Then the ring can shrink or grow.
func (h *history) straighten() {
	if h.first == 0 {
		return
	}
	h.ring = append(append(make([][]byte, 0, len(h.ring)), h.ring[h.first:]...), h.ring[:h.first]...)
	h.first = 0
}

// line decodes the i-th line.
func (h *history) line(i, cols int) line { return decode(*h.at(i), cols) }

func encode(b []byte, l *line) []byte {
	end := len(l.cells)
	for end > 0 && l.cells[end-1] == (cell{char: narrow}) {
		end--
	}
	b = append(b, 0)
	if l.wrapped {
		b[len(b)-1] = 1
	}
	for i := 0; i < end; {
		c := l.cells[i]
		n := i + 1
		for n < end && l.cells[n].fg == c.fg && l.cells[n].bg == c.bg && l.cells[n].ext == c.ext {
			n++
		}
		b = binary.AppendUvarint(b, uint64(n-i))
		b = binary.AppendUvarint(b, uint64(c.fg))
		b = binary.AppendUvarint(b, uint64(c.bg))
		b = binary.AppendUvarint(b, uint64(c.ext))
		for ; i < n; i++ {
			switch c := &l.cells[i]; {
			case c.char < utf8.RuneSelf|narrow && c.char >= narrow:
				b = append(b, byte(c.char))
			case c.width() == 0:
				b = append(b, 1) // the second half of a wide character
			default:
				b = utf8.AppendRune(b, c.rune())
			}
		}
	}
	return b
}

func decode(b []byte, cols int) line {
	l := line{cells: make([]cell, cols), wrapped: b[0] == 1}
	x := 0
	runs(b, func(fg, bg, ext uint32, text []byte) uint32 {
		for len(text) > 0 && x < cols {
			c := cell{narrow, fg, bg, ext}
			r, n := utf8.DecodeRune(text)
			switch {
			case r == 1:
				c.char = 0
			case runeWidth(r) == 2: // perhaps without its second half: see cut
				c.char = uint32(r) | wide
			default:
				c.char |= uint32(r)
			}
			text = text[n:]
			l.cells[x] = c
			x++
		}
		return ext
	})
	for ; x < cols; x++ {
		l.cells[x] = cell{char: narrow}
	}
	return l
}

// runs calls f for each run of an encoded line. If f returns another ext, runs returns the line with the new ext, and true.
func runs(b []byte, f func(fg, bg, ext uint32, text []byte) uint32) ([]byte, bool) {
	i := 1
	next := func() uint32 {
		v, n := binary.Uvarint(b[i:])
		i += n
		return uint32(v)
	}
	changed := b[:1:1]
	differs := false
	for i < len(b) {
		begin := i
		n, fg, bg := next(), next(), next()
		styled := i
		ext := next()
		text := i
		for ; n > 0; n-- {
			i++
			for i < len(b) && !utf8.RuneStart(b[i]) {
				i++
			}
		}
		if e := f(fg, bg, ext, b[text:i]); e != ext || differs {
			if !differs {
				differs = true
				changed = append(changed[:1:1], b[1:begin]...)
			}
			changed = append(changed, b[begin:styled]...)
			changed = binary.AppendUvarint(changed, uint64(e))
			changed = append(changed, b[text:i]...)
		}
	}
	return changed, differs
}

// moveExtras gives the cells new indices.
func (h *history) moveExtras(move func(uint32) uint32) {
	for i := range h.ring {
		b, differs := runs(h.ring[i], func(_, _, ext uint32, _ []byte) uint32 { return move(ext) })
		if differs {
			h.bytes += cap(b) - cap(h.ring[i])
			h.ring[i] = b
		}
	}
}
