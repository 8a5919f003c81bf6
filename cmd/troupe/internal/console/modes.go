package console

import (
	"slices"
	"strconv"
	"strings"
)

// maxSequence is how long a control sequence may be that the scanner holds back until its end. The scanner
// passes on longer sequences, such as images, in parts.
const maxSequence = 4 << 10

// modes are what a program has set in the terminal and what the shell does not expect. The numbers are those
// of DEC private modes (xterm, ctlseqs).
var modes = []string{"1", "9", "69", "1000", "1002", "1003", "1004", "1005", "1006", "1015", "2004", "47", "1047", "1049"}

// colours are the numbers of OSC with which a program redefines colours, and takes that back. A member of set begins with "]".
var colours = map[string]string{"4": "104", "10": "110", "11": "111", "12": "112"}

// alternate are the modes with another screen.
var alternate = []string{"47", "1047", "1049"}

const (
	keypad  = "=" // application keypad: ESC = and ESC >
	hidden  = "h" // the cursor is hidden: mode 25 is off
	keyCSI  = ">4"
	escByte = 0x1b
)

// A scanner reads the output of a program on its way to the terminal. It keeps control sequences whole, so that
// the console can write between two of them, and records what they set.
type scanner struct {
	set  []string // the modes that are set, in order: members of modes and colours, keypad, hidden, keyCSI
	keys string   // the sequence that set keyCSI

	part  []byte // an unfinished sequence or character
	long  bool   // part was longer than maxSequence and was passed on; its end has not come
	quote bool   // the unfinished sequence is a string (OSC, DCS, …)
}

// feed appends to dst the output that ends with a whole sequence. With replay, feed leaves out the questions to the
// terminal: the program asked them long ago, and the answers would reach it as keys.
func (s *scanner) feed(dst, output []byte, replay bool) []byte {
	for _, c := range output {
		if len(s.part) == 0 && !s.long && c != escByte && c < 0xc0 {
			if c != 0x05 || !replay { // ENQ
				dst = append(dst, c)
			}
			continue
		}
		if s.long {
			dst = append(dst, c)
			s.long = !s.ends(c, s.part)
			s.part = append(s.part[:0], c)
			if !s.long {
				s.part, s.quote = s.part[:0], false
			}
			continue
		}
		if c == escByte && len(s.part) > 0 && !s.quote { // the terminal drops the unfinished sequence, too
			dst, s.part = append(dst, s.part...), s.part[:0]
		}
		s.part = append(s.part, c)
		switch {
		case s.whole():
			if !s.note() || !replay {
				dst = append(dst, s.part...)
			}
			s.part, s.quote = s.part[:0], false
		case len(s.part) > maxSequence:
			dst, s.long = append(dst, s.part...), s.quote
			s.part = append(s.part[:0], c)
			if !s.long {
				s.part = s.part[:0]
			}
		}
	}
	return dst
}

// flush appends the unfinished sequence to dst.
func (s *scanner) flush(dst []byte) []byte {
	if !s.long {
		dst = append(dst, s.part...)
	}
	s.part, s.quote, s.long = nil, false, false
	return dst
}

// between reports whether the console may write to the terminal now.
func (s *scanner) between() bool { return !s.long }

// ends reports whether c ends a string after before.
func (s *scanner) ends(c byte, before []byte) bool {
	return c == 0x07 || c == '\\' && len(before) > 0 && before[len(before)-1] == escByte
}

// whole reports whether part is a whole sequence or character.
func (s *scanner) whole() bool {
	p := s.part
	last := p[len(p)-1]
	if p[0] != escByte { // UTF-8
		want := 2
		if p[0] >= 0xe0 {
			want = 3
		}
		if p[0] >= 0xf0 {
			want = 4
		}
		return len(p) >= want || len(p) > 1 && last&0xc0 != 0x80
	}
	switch {
	case len(p) == 1:
		return false
	case s.quote:
		return s.ends(last, p[:len(p)-1])
	case p[1] == '[':
		return len(p) > 2 && (last >= 0x40 && last < 0x7f || last < ' ')
	case len(p) == 2 && strings.IndexByte("]PX^_", p[1]) >= 0:
		s.quote = true
		return false
	}
	return last >= '0' // else an intermediate byte, as in ESC ( B
}

// note records what the sequence in part sets, and reports whether it is a question to the terminal.
func (s *scanner) note() (question bool) {
	p := string(s.part)
	switch {
	case p == "\x1b=":
		s.mode(keypad, true)
	case p == "\x1b>":
		s.mode(keypad, false)
	case p == "\x1bc": // reset
		s.set = nil
	case p == "\x1bZ":
		return true
	case strings.HasPrefix(p, "\x1b]"), strings.HasPrefix(p, "\x1bP"):
		body := strings.TrimRight(p[2:], "\x07\\\x1b")
		if n, _, _ := strings.Cut(body, ";"); p[1] == ']' && colours[n] != "" && !strings.HasSuffix(body, ";?") {
			s.mode("]"+n, true)
		}
		return p[1] == ']' && strings.HasSuffix(body, ";?") || p[1] == 'P' && (strings.HasPrefix(body, "+q") || strings.HasPrefix(body, "$q"))
	case strings.HasPrefix(p, "\x1b["):
		return s.csi(p[2:len(p)-1], p[len(p)-1])
	}
	return false
}

func (s *scanner) csi(params string, final byte) (question bool) {
	private := strings.HasPrefix(params, "?")
	switch final {
	case 'h', 'l':
		if private {
			for n := range strings.SplitSeq(params[1:], ";") {
				switch {
				case n == "25":
					s.mode(hidden, final == 'l')
				case slices.Contains(modes, n):
					s.mode(n, final == 'h')
				}
			}
		}
	case 'm':
		if rest, ok := strings.CutPrefix(params, keyCSI); ok {
			_, level, _ := strings.Cut(rest, ";")
			s.mode(keyCSI, level != "" && level != "0")
			s.keys = "\x1b[" + params + "m"
		}
	case 'c':
		return true
	case 'n':
		return !strings.HasPrefix(params, ">")
	case 'p':
		return strings.HasSuffix(params, "$")
	case 'q':
		return strings.HasPrefix(params, ">")
	case 'u':
		return params == "?"
	case 't':
		first, _, _ := strings.Cut(params, ";")
		n, _ := strconv.Atoi(first)
		return n >= 11 && n <= 21
	}
	return false
}

func (s *scanner) mode(m string, on bool) {
	i := slices.Index(s.set, m)
	switch {
	case on && i < 0:
		s.set = append(s.set, m)
	case !on && i >= 0:
		s.set = slices.Delete(s.set, i, i+1)
	}
}

// alternateScreen reports whether the program shows another screen than the shell's, as editors do.
func (s *scanner) alternateScreen() bool {
	return slices.ContainsFunc(alternate, func(m string) bool { return slices.Contains(s.set, m) })
}

// sequence returns the sequence that sets a member of set, or unsets it.
func (s *scanner) sequence(m string, on bool) string {
	choose := func(set, unset string) string {
		if on {
			return set
		}
		return unset
	}
	if n, ok := strings.CutPrefix(m, "]"); ok {
		return choose("", "\x1b]"+colours[n]+"\x1b\\") // the colours are not known any more
	}
	switch m {
	case keypad:
		return choose("\x1b=", "\x1b>")
	case hidden:
		return choose("\x1b[?25l", "\x1b[?25h")
	case keyCSI:
		return choose(s.keys, "\x1b[>4m")
	}
	return "\x1b[?" + m + choose("h", "l")
}

// restore returns the sequences that undo what the program has set.
func (s *scanner) restore() (b []byte) {
	for _, m := range slices.Backward(s.set) {
		b = append(b, s.sequence(m, false)...)
		if m == "47" || m == "1047" { // unlike 1049, they leave the cursor where the program had it
			b = append(b, "\x1b[999H\r\n"...)
		}
	}
	return append(b, "\x1b[0m"...)
}

// again returns the sequences that set once more what restore undid.
func (s *scanner) again() (b []byte) {
	for _, m := range s.set {
		b = append(b, s.sequence(m, true)...)
	}
	return b
}
