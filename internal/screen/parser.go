package screen

import "unicode/utf8"

// parser is the state machine of https://vt100.net/emu/dec_ansi_parser, after a decoder of UTF-8. As in xterm.js, invalid bytes are skipped.
type parser struct {
	state   state
	prefix  byte   // < = > ? of a CSI
	collect uint32 // intermediate bytes
	params  params
	osc     []byte // payload of an OSC, up to MaxSequence
	oscLong bool   // the payload was longer

	partial  [4]byte // the beginning of a character, from the last Write
	partials int

	// The unfinished sequence after the last Write, from its introducer on, for Restore.
	pending     []byte
	pendingLong bool // there were more than MaxSequence
	start       int  // index of the first byte of the present Write beyond pending
}

type state uint8

const (
	ground state = iota
	escape
	escapeIntermediate
	csiEntry
	csiParam
	csiIntermediate
	csiIgnore
	dcsEntry // up to the final byte
	dcsPassthrough
	oscString
	sosString // SOS, PM and APC
)

func (p *parser) write(t *terminal, b []byte) {
	p.start = 0
	i := 0
	for i < len(b) {
		c := b[i]
		if p.partials == 0 {
			switch {
			case c < utf8.RuneSelf && p.state == ground && c >= 0x20 && c != 0x7f:
				n := i + 1
				for n < len(b) && b[n] >= 0x20 && b[n] < 0x7f {
					n++
				}
				t.printASCII(b[i:n])
				i = n
				continue
			case c < utf8.RuneSelf:
				i++
				p.code(t, rune(c), i)
				continue
			}
			if r, n := utf8.DecodeRune(b[i:]); r != utf8.RuneError || n > 1 {
				i += n
				if r != '\uFEFF' {
					p.code(t, r, i)
				}
				continue
			}
		}
		i += p.slow(t, c, i+1)
	}
	if p.state == ground {
		p.pending = p.pending[:0]
		return
	}
	more := b[p.start:]
	if len(p.pending)+len(more) > MaxSequence {
		p.pendingLong = true
		more = more[:MaxSequence-len(p.pending)]
	}
	p.pending = append(p.pending, more...)
}

// slow takes a byte of a character in two Writes, or of invalid UTF-8. A result of 0 means: look at the byte again.
func (p *parser) slow(t *terminal, c byte, next int) int {
	if p.partials == 0 {
		if c >= 0xc0 && c < 0xf8 {
			p.partial[0], p.partials = c, 1
		}
		return 1
	}
	if c&0xc0 != 0x80 {
		p.partials = 0 // not continued: skipped
		return 0
	}
	p.partial[p.partials] = c
	p.partials++
	lead, want := p.partial[0], 2
	switch {
	case lead >= 0xf0:
		want = 4
	case lead >= 0xe0:
		want = 3
	}
	if p.partials < want {
		return 1
	}
	r, n := utf8.DecodeRune(p.partial[:p.partials])
	p.partials = 0
	if n == want && r != '\uFEFF' {
		p.code(t, r, next)
	}
	return 1
}

// begin begins a sequence. Its introducer ends before b[next].
func (p *parser) begin(s state, introducer string, next int) {
	p.state, p.start = s, next
	p.pending, p.pendingLong = append(p.pending[:0], introducer...), false
	p.prefix, p.collect = 0, 0
	p.params.reset()
	p.osc, p.oscLong = p.osc[:0], false
}

// code takes the character before b[next].
func (p *parser) code(t *terminal, c rune, next int) {
	switch {
	case c == 0x1b:
		p.finish(t)
		p.begin(escape, "\x1b", next)
		return
	case c == 0x18 || c == 0x1a:
		t.last = lastPrint{}
		p.state = ground
		return
	case c >= 0x80 && c < 0xa0:
		p.c1(t, c, next)
		return
	}
	switch p.state {
	case ground:
		switch {
		case c < 0x20:
			t.control(c)
		case c != 0x7f:
			t.print(c)
		}
	case escape, escapeIntermediate:
		p.escapeCode(t, c)
	case csiEntry, csiParam, csiIntermediate, csiIgnore:
		p.csiCode(t, c)
	case dcsEntry:
		switch {
		case c >= 0x80:
			p.state = ground
		case c >= 0x40 && c != 0x7f:
			p.state = dcsPassthrough
		}
	case oscString:
		if c == 0x07 {
			p.finish(t)
			p.state = ground
		} else if c >= 0x20 {
			if len(p.osc)+utf8.UTFMax > MaxSequence {
				p.oscLong = true
			} else {
				p.osc = utf8.AppendRune(p.osc, c)
			}
		}
	}
}

// finish ends a string, and obeys an OSC.
func (p *parser) finish(t *terminal) {
	if p.state == oscString && !p.oscLong {
		t.osc(p.osc)
	}
	if p.state == oscString || p.state == dcsPassthrough {
		t.last = lastPrint{}
	}
}

func (p *parser) c1(t *terminal, c rune, next int) {
	switch c {
	case 0x90:
		p.begin(dcsEntry, "\x1bP", next)
	case 0x98, 0x9e, 0x9f:
		p.begin(sosString, "\x1bX", next)
	case 0x9b:
		p.begin(csiEntry, "\x1b[", next)
	case 0x9c:
		p.finish(t)
		p.state = ground
	case 0x9d:
		p.begin(oscString, "\x1b]", next)
	default:
		p.state = ground
		t.control(c)
	}
}

func (p *parser) escapeCode(t *terminal, c rune) {
	switch {
	case c < 0x20:
		t.control(c)
		return
	case c == 0x7f:
		return
	case c < 0x30:
		p.collect = p.collect<<8 | uint32(c)
		p.state = escapeIntermediate
		return
	case c > 0x7f:
		p.state = ground
		return
	}
	if p.state == escape {
		switch c {
		case '[':
			p.state = csiEntry
			return
		case ']':
			p.state = oscString
			return
		case 'P':
			p.state = dcsEntry
			return
		case 'X', '^', '_':
			p.state = sosString
			return
		}
	}
	p.state = ground
	t.escape(p.collect, byte(c))
	t.last = lastPrint{}
}

func (p *parser) csiCode(t *terminal, c rune) {
	switch {
	case c < 0x20:
		t.control(c)
	case c == 0x7f:
	case c > 0x7f:
		if p.state != csiIgnore {
			p.state = ground
		}
	case c >= 0x40:
		ignore := p.state == csiIgnore
		p.state = ground
		if !ignore {
			t.csi(p.prefix, p.collect, byte(c), &p.params)
			t.last = lastPrint{}
		}
	case p.state == csiIgnore:
	case c < 0x30:
		p.collect = p.collect<<8 | uint32(c)
		p.state = csiIntermediate
	case p.state == csiIntermediate:
		p.state = csiIgnore
	case c >= 0x3c:
		if p.state == csiEntry {
			p.prefix = byte(c)
			p.state = csiParam
		} else {
			p.state = csiIgnore
		}
	default:
		p.state = csiParam
		p.params.add(byte(c))
	}
}

// params of a CSI. A missing parameter is 0. A parameter after a colon belongs to the parameter before, and is -1 if missing.
type params struct {
	n     [32]int32
	sub   [32]bool // after a colon
	count int
	full  bool // the others are dropped
}

func (p *params) reset() {
	p.n[0], p.sub[0], p.count, p.full = 0, false, 1, false
}

func (p *params) add(c byte) {
	switch {
	case p.full:
	case c == ';' || c == ':':
		if p.count == len(p.n) {
			p.full = true
			return
		}
		p.n[p.count], p.sub[p.count] = 0, c == ':'
		if c == ':' {
			p.n[p.count] = -1
		}
		p.count++
	default:
		n := &p.n[p.count-1]
		*n = min(max(*n, 0)*10+int32(c-'0'), 99_999_999)
	}
}

// at returns the i-th parameter, without those after colons, or 0.
func (p *params) at(i int) int {
	for k := range p.count {
		if p.sub[k] {
			continue
		}
		if i == 0 {
			return int(p.n[k])
		}
		i--
	}
	return 0
}

// or1 returns the i-th parameter, and 1 for 0.
func (p *params) or1(i int) int { return max(p.at(i), 1) }
