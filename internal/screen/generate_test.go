package screen

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// generator makes output with everything a program may send, and positions near the edges.
type generator struct {
	*rand.Rand
	rows, cols int
	resizes    bool // no combining characters (xterm.js mixes them up when lines are wrapped anew), and no tab stops
	margins    bool // also what xterm.js does not have: margins and rectangles
	scrolls    bool // there is scrollback, and therefore no DECSC: xterm.js lets the saved position scroll with the text
}

// settle sets the state that xterm.js and xterm restore in different ways at a DECRC: the character sets, the underline and the link.
const settle = "\x1b(B\x1b)B\x1b*B\x1b+B\x0f\x1b[24;58;5;0m\x1b]8;;\x07"

func (g *generator) number(n int) int {
	switch g.IntN(6) {
	case 0:
		return 0
	case 1:
		return n
	case 2:
		return n + g.IntN(3)
	}
	return 1 + g.IntN(n)
}

func (g *generator) pick(s ...string) string { return s[g.IntN(len(s))] }

func (g *generator) text() string {
	var b strings.Builder
	for n := 1 + g.IntN(1+g.IntN(g.cols)); n > 0; n-- {
		switch g.IntN(12) {
		case 0:
			b.WriteString(g.pick("漢", "字", "한", "🙂", "🚀", "ｗ"))
		case 1:
			b.WriteString(g.pick("é", "ß", "Ω", "→", "│", "я"))
		case 2:
			if g.resizes {
				continue
			}
			b.WriteString(g.pick("e\u0301", "a\u0308\u0323", "漢\u0301", "👩\u200d💻", "❤\ufe0f"))
		case 3:
			b.WriteByte(' ')
		default:
			b.WriteByte(byte('a' + g.IntN(26)))
		}
	}
	return b.String()
}

func (g *generator) sgr() string {
	var p []string
	for n := 1 + g.IntN(4); n > 0; n-- {
		switch g.IntN(9) {
		case 0:
			p = append(p, "0")
		case 1:
			p = append(p, fmt.Sprint(1+g.IntN(9)), fmt.Sprint(21+g.IntN(9)))
		case 2:
			p = append(p, g.pick("3", "4", "9", "10")+fmt.Sprint(g.IntN(8)))
		case 3:
			p = append(p, fmt.Sprintf("%s;5;%d", g.pick("38", "48", "58"), g.IntN(256)))
		case 4:
			p = append(p, fmt.Sprintf("%s;2;%d;%d;%d", g.pick("38", "48", "58"), g.IntN(256), g.IntN(256), g.IntN(256)))
		case 5:
			p = append(p, fmt.Sprintf("%s:2::%d:%d:%d", g.pick("38", "48", "58"), g.IntN(256), g.IntN(256), g.IntN(256)))
		case 6:
			p = append(p, fmt.Sprintf("4:%d", g.IntN(6)))
		case 7:
			p = append(p, g.pick("53", "55", "39", "49", ""))
		default:
			p = append(p, fmt.Sprint(1+g.IntN(9)))
		}
	}
	return "\x1b[" + strings.Join(p, ";") + "m"
}

func (g *generator) token() string {
	r, c := g.rows, g.cols
	csi := func(final string, n ...int) string {
		var p []string
		for _, v := range n {
			p = append(p, fmt.Sprint(v))
		}
		return "\x1b[" + strings.Join(p, ";") + final
	}
	if g.margins && g.IntN(8) == 0 {
		return g.pick("\x1b[?69h", "\x1b[?69h", "\x1b[?69l", "\x1b9", "\x1b6", csi("s", g.number(c), g.number(c)), csi("s", 1+g.IntN(c), 1+g.IntN(c)), csi("s", 1+g.IntN(c/2), c/2+g.IntN(c/2)),
			csi("$x", 65, g.number(r), g.number(c), g.number(r), g.number(c)), csi("$z", g.number(r), g.number(c), g.number(r), g.number(c)), csi("${", g.number(r), g.number(c), g.number(r), g.number(c)),
			csi("$v", g.number(r), g.number(c), g.number(r), g.number(c), 1, g.number(r), g.number(c)))
	}
	switch g.IntN(30) {
	case 0, 1, 2, 3, 4, 5:
		return g.text()
	case 6, 7, 8:
		return g.pick("\r\n", "\r\n", "\n", "\r", "\b", "\t", "\x0b", "\b\b\b")
	case 9, 10, 11:
		return g.sgr()
	case 12, 13:
		return csi(g.pick("H", "f"), g.number(r), g.number(c))
	case 14:
		return csi(g.pick("A", "B", "C", "D", "E", "F", "a", "e"), g.number(max(r, c)/2))
	case 15:
		return g.pick(csi("G", g.number(c)), csi("`", g.number(c)), csi("d", g.number(r)))
	case 16:
		return g.pick("\x1b[J", "\x1b[1G\x1b[1J", "\x1b[2J", "\x1b[K", "\x1b[1K", "\x1b[2K", "\x1b[?J", "\x1b[?1K", "\x1b[?K", "\x1b[1G\x1b[?1J", "\x1b[?2J")
	case 17:
		return csi(g.pick("L", "M", "S", "T"), g.number(r))
	case 18:
		return csi(g.pick("@", "P", "X"), g.number(c))
	case 19:
		return csi("r", g.number(r), g.number(r))
	case 20:
		if g.IntN(4) == 0 {
			// With DECOM, relative movements of xterm.js count the row from the region again.
			return "\x1b[?6h" + csi("H", g.number(r), g.number(c)) + g.text() + g.pick("\r\n", "\n", "\x1bM", "") + "\x1b[?6l"
		}
		return g.pick("\x1b[r", "\x1b[?6l", "\x1b[4h", "\x1b[4l", "\x1b[4l", "\r\x1b[?7l"+strings.Repeat("abcdé", 1+g.IntN(5))+"\x1b[?7h", "\x1b[?45h", "\x1b[?45l")
	case 21:
		if g.scrolls {
			return ""
		}
		return g.pick("\x1b7", "\x1b8"+settle, "\x1b[s", "\x1b[u"+settle)
	case 22:
		return g.pick("\x1bM", "\x1bD", "\x1bE", "\u0084", "\u0085")
	case 23:
		if g.scrolls {
			return g.pick("\x1b[?47h", "\x1b[?47l", "\x1b[?1047l")
		}
		return g.pick("\x1b[?1049h", "\x1b[?1049l"+settle, "\x1b[?47h", "\x1b[?47l", "\x1b[?1047h", "\x1b[?1047l")
	case 24:
		return g.pick("\x1b(0", "\x1b(B", "\x1b)0", "\x0e", "\x0f", "\x0f", "\x1b(A", "\x1b*0", "\x1bn", "\x1b~")
	case 25:
		if g.resizes {
			return g.pick("\t", "\x1b[2I", "\x1b[Z")
		}
		return g.pick("\x1b[g", "\x1b[3g", "\x1bH", "\x1b[2I", "\x1b[Z", "\x1b[2Z", "\x1bH")
	case 26:
		return g.pick("\x1b]0;a title\x07", "\x1b]2;another: 漢\x1b\\", "\x1b]8;;http://example.com/a;b\x1b\\", "\x1b]8;id=x;http://example.com\x07", "\x1b]8;;\x07",
			"\x1b[22;0t", "\x1b[23;0t", g.recolor(), "\x1bPq#0;2;0\x1b\\", "\x1b_Gapc\x1b\\", "\u009dignored\u009c")
	case 27:
		return g.pick("\x1b[?1h", "\x1b[?1l", "\x1b=", "\x1b>", "\x1b[?2004h", "\x1b[?2004l", "\x1b[?1000h", "\x1b[?1002h", "\x1b[?1003h", "\x1b[?1003l", "\x1b[?1006h",
			"\x1b[?1006l", "\x1b[?1004h", "\x1b[?1004l", "\x1b[?25l", "\x1b[?25h", "\x1b[?12h", "\x1b[?12l", "\x1b[2 q", "\x1b[5 q", "\x1b[0 q", "\x1b[?9h", "\x1b[20h", "\x1b[20l", "\x1b[20l",
			"\x1b[?2026h", "\x1b[?2026l")
	case 28:
		return g.text() + csi("b", g.number(c)) + g.pick("", "\x1b[1\"q", "\x1b[0\"q", "\x1b[m\x1b#8", csi(" @", g.number(3)), csi(" A", g.number(3)), csi("'}", g.number(3)), csi("'~", g.number(3)))
	default:
		return g.pick("\x1b[!p", "\x1b[6n\x1b[c\x1b]10;?\x07", "\x1b[?1;2;3;4;5;6x", "\x1b[999999999C", "\x1b[1;2;3;4;5;6;7;8;9;10;11;12;13;14;15;16;17;18;19;20;21;22;23;24;25;26;27;28;29;30;31;32;33;34m",
			"\x1b[1\x1bM", "\x1b[5\n;3H", "\x1b[3\x18x", "\x1b[<u", "\x1b[>1u", "\x1b[=5;2u", "\x1b[>4;2m", "\x1b[?u", "\xc3(", "\xf0\x9f\x98", "\x1b[?25h\x1b[?12l\x1b[20l\x1bc", "\x1b[3J", "\x1b[:3m", "\x1b[1$x", "\x1b%G", "\x1b(%5", "\x1b(1")
	}
}

// recolor redefines colors, or takes that back.
func (g *generator) recolor() string {
	spec := func() string {
		digits := 1 + g.IntN(4)
		d := func() string { return fmt.Sprintf("%0*x", digits, g.IntN(1<<(4*digits))) }
		return g.pick("?", "nocolor", "#"+d()+d()+d(), "rgb:"+d()+"/"+d()+"/"+d())
	}
	index := g.pick("0", "7", "12", "200", "255", "256", "x")
	end := g.pick("\x07", "\x1b\\")
	switch g.IntN(5) {
	case 0:
		return "\x1b]4;" + index + ";" + spec() + ";7;" + spec() + end
	case 1:
		return "\x1b]104" + g.pick("", ";7", ";0;12") + end
	case 2:
		return "\x1b]11" + g.pick("0", "1", "2") + end
	case 3:
		return "\x1b]1" + g.pick("0", "1", "2") + ";" + spec() + ";" + spec() + end
	}
	return "\x1b[38;5;" + g.pick("7", "12", "200") + "m"
}

func newGenerator(seed, kind int) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(uint64(seed), uint64(kind)))}
	g.rows, g.cols = 2+g.IntN(9), 2+g.IntN(30)
	g.scrolls = seed%2 == 1
	return g
}

func (g *generator) scrollback() int {
	if g.scrolls {
		return 20
	}
	return 0
}

// output returns the output of a program, and the ends of its tokens.
func (g *generator) output(tokens int) (b []byte, ends []int) {
	for range tokens {
		b = append(b, g.token()...)
		ends = append(ends, len(b))
	}
	return b, ends
}
