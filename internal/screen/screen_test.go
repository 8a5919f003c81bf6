package screen

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// grid fills a terminal of 4 rows and 10 columns. margins sets those of the columns 3 to 6, and goes there.
const (
	grid    = "0123456789mnopqrstuvMNOPQRSTUVwxyzABCDEF"
	margins = "\x1b[?69h\x1b[3;6s\x1b[1;3H"
)

// rows4 returns grid with another row.
func rows4(n int, row string) string {
	rows := []string{grid[:10], grid[10:20], grid[20:30], grid[30:]}
	if n >= 0 {
		rows[n] = row
	}
	return strings.Join(rows, "|")
}

// Sequences as ECMA-48 and the ctlseqs of xterm describe them, on a terminal of 4 rows and 10 columns. A row of the result without its
// blanks; "row,col" is the cursor, with "+" while a wrap is pending.
func TestSequences(t *testing.T) {
	for _, tt := range []struct{ name, out, want, cursor string }{
		{"text", "hello", "hello|||", "0,5"},
		{"CR LF", "a\r\nb", "a|b||", "1,1"},
		{"LF keeps the column", "ab\nc", "ab|  c||", "1,3"},
		{"pending wrap", "0123456789", "0123456789|||", "0,9+"},
		{"wrap", "0123456789x", "0123456789|x||", "1,1"},
		{"a movement ends the pending wrap", "0123456789\x1b[Cx", "012345678x|||", "0,9+"},
		{"DECAWM off", "\x1b[?7l0123456789xyz", "012345678z|||", "0,9+"},
		{"BS ends the pending wrap", "0123456789\bx", "01234567x9|||", "0,9"},
		{"BS stops at the margin", "a\b\b\bx", "x|||", "0,1"},
		{"tab", "a\tb", "a       b|||", "0,9"},
		{"tab stops at the last column", "\t\t\t\tx", "         x|||", "0,9+"},
		{"HTS, TBC", "\x1b[3g\x1b[4G\x1bH\r\tx\ty", "   x     y|||", "0,9+"},
		{"CBT", "\x1b[10G\x1b[Zx", "        x|||", "0,9"},
		{"scroll", "1\r\n2\r\n3\r\n4\r\n5", "2|3|4|5", "3,1"},
		{"CUP", "\x1b[3;4Hx", "||   x|", "2,4"},
		{"CUP is kept on the screen", "\x1b[99;99Hx", "|||         x", "3,9+"},
		{"CUP without params", "abc\x1b[Hx", "xbc|||", "0,1"},
		{"HVP", "\x1b[2;2fx", "| x||", "1,2"},
		{"CUU CUD CUF CUB", "\x1b[3B\x1b[5C\x1b[2A\x1b[1Dx", "|    x||", "1,5"},
		{"CNL CPL", "ab\x1b[2Ex\x1b[Fy", "ab|y|x|", "1,1"},
		{"CHA HPA VPA", "\x1b[5Gx\x1b[2`y\x1b[3dz", " y  x||  z|", "2,3"},
		{"HPR VPR", "\x1b[2ax\x1b[2ey", "  x||   y|", "2,4"},
		{"ED 0", "aaa\r\nbbb\r\nccc\x1b[2;2H\x1b[J", "aaa|b||", "1,1"},
		{"ED 1", "aaa\r\nbbb\r\nccc\x1b[2;2H\x1b[1J", "|  b|ccc|", "1,1"},
		{"ED 2 keeps the cursor", "aaa\r\nbbb\x1b[2J", "|||", "1,3"},
		{"EL 0", "abcdef\x1b[3G\x1b[K", "ab|||", "0,2"},
		{"EL 1", "abcdef\x1b[3G\x1b[1K", "   def|||", "0,2"},
		{"EL 2", "abcdef\x1b[3G\x1b[2K", "|||", "0,2"},
		{"EL of half a wide character", "漢字\x1b[2G\x1b[K", "|||", "0,1"},
		{"ICH", "abcdef\x1b[3G\x1b[2@", "ab  cdef|||", "0,2"},
		{"DCH", "abcdef\x1b[2G\x1b[3P", "aef|||", "0,1"},
		{"ECH", "abcdef\x1b[2G\x1b[3X", "a   ef|||", "0,1"},
		{"REP", "ab\x1b[3b", "abbbb|||", "0,5"},
		{"REP of nothing", "ab\r\x1b[3b", "ab|||", "0,0"},
		{"IL", "1\r\n2\r\n3\x1b[2;1H\x1b[L", "1||2|3", "1,0"},
		{"DL", "1\r\n2\r\n3\x1b[2;2H\x1b[M", "1|3||", "1,0"},
		{"IL outside of the region", "1\r\n2\r\n3\x1b[2;3r\x1b[1;1H\x1b[L", "1|2|3|", "0,0"},
		{"SU", "1\r\n2\r\n3\x1b[S", "2|3||", "2,1"},
		{"SD", "1\r\n2\r\n3\x1b[T", "|1|2|3", "2,1"},
		{"DECSTBM", "1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3;1H\nx", "1|3|x|4", "2,1"},
		{"DECSTBM homes the cursor", "abc\x1b[2;3rx", "xbc|||", "0,1"},
		{"DECSTBM of one row does nothing", "abc\x1b[2;2rx", "abcx|||", "0,4"},
		{"LF below the region", "\x1b[1;2r\x1b[4;1Ha\n\nb", "|||ab", "3,2"},
		{"DECOM", "\x1b[2;3r\x1b[?6h\x1b[1;1Hx\x1b[9;1Hy", "|x|y|", "2,1"},
		{"RI scrolls at the top", "1\r\n2\x1b[H\x1bM", "|1|2|", "0,0"},
		{"IND, NEL", "a\x1bDb\x1bEc", "a| b|c|", "2,1"},
		{"C1", "a\u0084b\u0085c\u009b1;5Hd", "a   d| b|c|", "0,5"},
		{"DECSC, DECRC", "ab\x1b7\r\ncd\x1b8x", "abx|cd||", "0,3"},
		{"DECSC saves the character set", "\x1b(0\x1b7\x1b(Bq\x1b8q", "─|||", "0,1"},
		{"SCOSC, SCORC", "ab\x1b[s\r\ncd\x1b[ux", "abx|cd||", "0,3"},
		{"IRM", "abc\r\x1b[4hx\x1b[4ly", "xybc|||", "0,2"},
		{"LNM", "\x1b[20hab\nc", "ab|c||", "1,1"},
		{"line drawing", "\x1b(0lqk\x1b(Bq", "┌─┐q|||", "0,4"},
		{"SO, SI", "\x1b)0\x0eq\x0fq", "─q|||", "0,2"},
		{"British", "\x1b(A#", "£|||", "0,1"},
		{"DECALN", "\x1b#8", "EEEEEEEEEE|EEEEEEEEEE|EEEEEEEEEE|EEEEEEEEEE", "0,0"},
		{"wide characters", "漢字x", "漢字x|||", "0,5"},
		{"a wide character that does not fit", "012345678漢", "012345678|漢||", "1,2"},
		{"over half of a wide character", "漢字\x1b[2Gx", " x字|||", "0,2"},
		{"combining", "e\u0301x", "e\u0301x|||", "0,2"},
		{"combining at the end of the row", "012345678e\u0301", "012345678e\u0301|||", "0,9+"},
		{"combining without a character", "\r\u0301x", "x|||", "0,1"},
		{"ZWJ", "👩\u200d💻x", "👩\u200d💻x|||", "0,5"},
		{"bytes that are no UTF-8", "a\xffb\xc3(\xe2\x82c", "ab(c|||", "0,4"},
		{"overlong and surrogates", "a\xc0\x80\xe0\x80\x80\xed\xa0\x80b", "ab|||", "0,2"},
		{"reverse wrap", "0123456789x\x1b[?45h\b\b\by", "01234567y9|x||", "0,9"},
		{"alternate screen", "main\x1b[?1049hother", "    other|||", "0,9"},
		{"back from the alternate screen", "main\x1b[?1049h\x1b[Hother\x1b[?1049l!", "main!|||", "0,5"},
		{"DECSED keeps protected cells", "a\x1b[1\"qb\x1b[0\"qc\x1b[?2J", " b|||", "0,3"},
		{"SL", "abc\x1b[2 @", "c|||", "0,3"},
		{"SR", "abc\x1b[2 A", "  abc|||", "0,3"},
		{"DECIC, DECDC", "abcd\x1b[2G\x1b['}\x1b[4G\x1b['~", "a bd|||", "0,3"},
		{"DECSTR ends the region", "\x1b[2;3r\x1b[!p\x1b[4;1H\n!", "|||!", "3,1"},
		{"RIS", "abc\x1b[?7l\x1bcx", "x|||", "0,1"},
		{"an answer is not for us", "\x1b[6n\x1b[c\x1b[>c\x1b]10;?\x07x", "x|||", "0,1"},
		{"a control within a sequence", "a\x1b[2\n;3Hx", "a|  x||", "1,3"},
		{"CAN ends a sequence", "a\x1b[3\x18x", "ax|||", "0,2"},
		{"ESC begins another sequence", "a\x1b[3\x1b[2;2Hx", "a| x||", "1,2"},
		{"unknown sequences", "a\x1b[?1;2x\x1b[1$y\x1b[=c\x1b[<1;2;3M\x1b(%5b", "ab|||", "0,2"},
		{"colon where none belongs", "a\x1b[:3mb", "ab|||", "0,2"},
		{"OSC, DCS, APC", "a\x1b]52;c;eA==\x07b\x1bPq#0\x1b\\c\x1b_G\x1b\\d\x1b^p\x1b\\e", "abcde|||", "0,5"},
		{"OSC ended by ESC", "a\x1b]2;t\x1b[Cb", "a b|||", "0,3"},
		{"XTWINOPS", "a\x1b[8;50;50tb", "ab|||", "0,2"},
		// Margins and rectangles, as the manuals of the VT420 and VT510 have them.
		{"DECSLRM wraps at the right margin", margins + "abcdefg", "  abcd|  efg||", "1,5"},
		{"DECSLRM, pending wrap", margins + "abcd", "  abcd|||", "0,5"},
		{"a style keeps the pending wrap at a margin", margins + "abcd\x1b[1me", "  abcd|  e||", "1,3"},
		{"a movement ends the pending wrap at a margin", margins + "abcd\x1b[Ce", "  abce|||", "0,5"},
		{"DECAWM off at a margin", margins + "\x1b[?7labcdef", "  abcf|||", "0,5"},
		{"a wide character does not fit before a margin", margins + "abc漢", "  abc|  漢||", "1,4"},
		{"a combining character at a margin", margins + "abcde\u0301\u0302\r\nabcd\u0301", "  abcd|  e\u0301\u0302|  abcd\u0301|", "2,5"},
		{"REP at a margin", margins + "abc\x1b[4b", "  abcc|  ccc||", "1,5"},
		{"right of the margins, text wraps at the edge", margins + "\x1b[1;8Hxyzabcde", "       xyz|  abcd|  e|", "2,3"},
		{"CR goes to the left margin", margins + "ab\rx", "  xb|||", "0,3"},
		{"CR left of the left margin", margins + "\x1b[1Gx\ry", "y|||", "0,1"},
		{"BS and CUB stop at the left margin", margins + "a\b\b\bx\x1b[9Dy", "  y|||", "0,3"},
		{"CUF and tab stop at the right margin", margins + "\x1b[99Cx\r\ty", "     y|||", "0,5"},
		{"LF scrolls between the margins", grid + margins + "\x1b[4;3H\nx", "01opqr6789|mnOPQRstuv|MNyzABSTUV|wxx   CDEF", "3,3"},
		{"LF outside of the margins does not scroll", grid + margins + "\x1b[4;9H\nx", rows4(3, "wxyzABCDxF"), "3,9"},
		{"RI", grid + margins + "\x1b[1;4H\x1bMx", "01 x  6789|mn2345stuv|MNopqrSTUV|wxOPQRCDEF", "0,4"},
		{"SU", grid + margins + "\x1b[S", "01opqr6789|mnOPQRstuv|MNyzABSTUV|wx    CDEF", "0,2"},
		{"SD", grid + margins + "\x1b[2T", "01    6789|mn    stuv|MN2345STUV|wxopqrCDEF", "0,2"},
		{"IL", grid + margins + "\x1b[2;4H\x1b[L", "0123456789|mn    stuv|MNopqrSTUV|wxOPQRCDEF", "1,2"},
		{"DL", grid + margins + "\x1b[2;4H\x1b[M", "0123456789|mnOPQRstuv|MNyzABSTUV|wx    CDEF", "1,2"},
		{"IL and DL outside of the margins", grid + margins + "\x1b[2;9H\x1b[L\x1b[M", rows4(-1, ""), "1,8"},
		{"ICH", grid + margins + "\x1b[4G\x1b[@", rows4(0, "012 346789"), "0,3"},
		{"DCH", grid + margins + "\x1b[4G\x1b[P", rows4(0, "01245 6789"), "0,3"},
		{"ICH and DCH outside of the margins", grid + margins + "\x1b[8G\x1b[@\x1b[P", rows4(-1, ""), "0,7"},
		{"IRM", grid + margins + "\x1b[4G\x1b[4hx", rows4(0, "012x346789"), "0,4"},
		{"DECIC, DECDC", grid + margins + "\x1b[4G\x1b['}\x1b[2'~", "0124  6789|mnoq  stuv|MNOQ  STUV|wxyA  CDEF", "0,3"},
		{"DECFI", grid + margins + "\x1b[2;3r\x1b[2;6H\x1b9", "0123456789|mnpqr stuv|MNPQR STUV|wxyzABCDEF", "1,5"},
		{"DECBI", grid + margins + "\x1b[2;3r\x1b[2;3H\x1b6", "0123456789|mn opqstuv|MN OPQSTUV|wxyzABCDEF", "1,2"},
		{"DECFI and DECBI move", "\x1b9\x1b9\x1b6x", " x|||", "0,2"},
		{"DECOM counts from the margins", margins + "\x1b[2;3r\x1b[?6h\x1b[2;2Hx\x1b[9;9Hy\x1b[3Gz\x1b[1dv", "|     v|   xzy|", "1,5"},
		{"half of a wide character at a margin", "1漢字漢字\r" + margins + "\x1b[2P", "1      字|||", "0,2"},
		{"DECSLRM of one column does nothing", "\x1b[?69hab\x1b[3;3sc", "abc|||", "0,3"},
		{"DECLRMM off", margins + "\x1b[?69labcdefghijk", "  abcdefgh|ijk||", "1,3"},
		{"DECSTR resets the margins", margins + "\x1b[!pabcdefghijk", "  abcdefgh|ijk||", "1,3"},
		{"CSI s without DECLRMM saves the cursor", "ab\x1b[scd\x1b[ux", "abxd|||", "0,3"},
		{"DECFRA", "\x1b[43;2;3;3;5$x", "|  +++|  +++|", "0,0"},
		{"DECFRA of a control does nothing", "\x1b[7;2;3;3;5$x", "|||", "0,0"},
		{"DECERA", grid + "\x1b[2;3;3;5$z", "0123456789|mn   rstuv|MN   RSTUV|wxyzABCDEF", "3,9+"},
		{"DECERA of all", grid + "\x1b[$z", "|||", "3,9+"},
		{"DECSERA", "a\x1b[1\"qb\x1b[2\"qc\x1b[1;1;1;3${", " b|||", "0,3"},
		{"DECCRA", grid + "\x1b[1;1;2;3;1;3;8$v", "0123456789|mnopqrstuv|MNOPQRS012|wxyzABCmno", "3,9+"},
		{"DECCRA over itself", grid + "\x1b[1;1;3;9;1;2;2$v", "0123456789|m012345678|Mmnopqrstu|wMNOPQRSTU", "3,9+"},
		{"DECCRA beyond the edge", grid + "\x1b[1;1;2;3;1;4;9$v", rows4(3, "wxyzABCD01"), "3,9+"},
		{"DECCRA with DECOM", grid + "\x1b[2;3r\x1b[?6h\x1b[1;1;1;2;1;2;5$v", rows4(2, "MNOPmnSTUV"), "1,0"},
		{"a rectangle through wide characters", "漢字漢字\x1b[1;2;1;3$z", "    漢字|||", "0,8"},
	} {
		s := New(4, 10, 10)
		s.Write([]byte(tt.out))
		split := New(4, 10, 10) // each byte in a Write
		for i := range len(tt.out) {
			split.Write([]byte{tt.out[i]})
		}
		for _, s := range []*Screen{s, split} {
			n := s.Snapshot(Options{})
			cursor := fmt.Sprintf("%d,%d%s", n.Cursor.Row, n.Cursor.Col, map[bool]string{true: "+"}[n.Cursor.PendingWrap])
			if got := strings.Join(n.Lines, "|"); strings.TrimRight(got, " ") != strings.TrimRight(tt.want, " ") && got != tt.want || cursor != tt.cursor {
				t.Errorf("%s: %q\n got %q, cursor %s\nwant %q, cursor %s", tt.name, tt.out, got, cursor, tt.want, tt.cursor)
			}
		}
	}
}

func TestStyles(t *testing.T) {
	for _, tt := range []struct {
		out  string
		want Span
	}{
		{"", Span{}},
		{"\x1b[1;2;3;4;5;7;8;9;53m", Span{Bold: true, Faint: true, Italic: true, Underline: true, UnderlineStyle: 1, Blink: true, Inverse: true, Hidden: true, Strike: true, Overline: true}},
		{"\x1b[1;2;3;4;5;7;8;9;53m\x1b[22;23;24;25;27;28;29;55m", Span{}},
		{"\x1b[1;31m\x1b[m", Span{}},
		{"\x1b[31;42m", Span{Fg: "1", Bg: "2"}},
		{"\x1b[91;102m", Span{Fg: "9", Bg: "10"}},
		{"\x1b[38;5;200;48;5;16m", Span{Fg: "200", Bg: "16"}},
		{"\x1b[38;2;1;2;3;48;2;255;254;253m", Span{Fg: "#010203", Bg: "#fffefd"}},
		{"\x1b[38:5:200;48:2::1:2:3m", Span{Fg: "200", Bg: "#010203"}},
		{"\x1b[38:2:1:2:3m", Span{Fg: "#010203"}},
		{"\x1b[31;42m\x1b[39;49m", Span{}},
		{"\x1b[4:3;58;5;7m", Span{Underline: true, UnderlineStyle: 3, UnderlineColor: "7"}},
		{"\x1b[4:3;58:2::1:2:3m\x1b[59m", Span{Underline: true, UnderlineStyle: 3}},
		{"\x1b[4m\x1b[4:0m", Span{}},
		{"\x1b[21m", Span{Underline: true, UnderlineStyle: 2}},
		{"\x1b[38;5m\x1b[1m", Span{Fg: "0", Bold: true}},
		{"\x1b]8;id=a;http://example.com/;x\x1b\\", Span{Link: "http://example.com/;x"}},
		{"\x1b]8;;http://example.com\x07\x1b]8;;\x07", Span{}},
		{"\x1b]8;;http://example.com\x07\x1b[31m\x1b[0m", Span{Link: "http://example.com"}},
		{"\x1b7\x1b[1;31m\x1b8", Span{}},
	} {
		s := New(2, 10, 0)
		s.Write([]byte(tt.out + "x"))
		tt.want.Text = "x"
		if got := s.Snapshot(Options{Spans: true}).Spans[0]; len(got) != 1 || got[0] != tt.want {
			t.Errorf("%q:\n got %+v\nwant %+v", tt.out, got, tt.want)
		}
	}
	// Blanks with a background belong to the row; blanks in the default style at its end do not.
	s := New(1, 10, 0)
	s.Write([]byte("a  \x1b[41m\x1b[1Kb\x1b[m c  "))
	got := s.Snapshot(Options{Spans: true}).Spans[0]
	if want := []Span{{Text: "   b", Bg: "1"}, {Text: " c"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("spans are %+v", got)
	}
}

// OSC 4, 10, 11, 12 and their resets: what a span, the snapshot and a restored terminal have of them.
func TestColors(t *testing.T) {
	for _, tt := range []struct{ out, want string }{ // the colors of 1 and 2 of the palette, of text, background and cursor
		{"", "1 2   "},
		{"\x1b]4;1;rgb:12/34/56\x07", "#123456 2   "},
		{"\x1b]4;1;rgb:12/34/56;2;#abcdef\x1b\\", "#123456 #abcdef   "},
		{"\x1b]4;1;rgb:f/ffff/0\x07", "#ffff00 2   "}, // parts of the greatest value
		{"\x1b]4;1;#fed\x07", "#f0e0d0 2   "},         // the upper bits
		{"\x1b]4;1;#123456789abc\x07", "#12569a 2   "},
		{"\x1b]4;1;#123;1;?;1;rgb:1/2;1;rgb:12345/1/1;1;#12;1;x;2\x07", "#102030 2   "},
		{"\x1b]4;256;#123;-1;#123;999;#123\x07", "1 2   "},
		{"\x1b]4;1;#123;2;#123\x07\x1b]104;1\x07", "1 #102030   "},
		{"\x1b]4;1;#123;2;#123\x07\x1b]10;#456\x07\x1b]104\x07", "1 2 #405060  "},
		{"\x1b]10;#111111;#222222;#333333;#444444\x07", "1 2 #111111 #222222 #333333"},
		{"\x1b]11;#222222;#333333\x07", "1 2  #222222 #333333"},
		{"\x1b]10;#111111;?;#333333\x07\x1b]110\x07\x1b]111\x07", "1 2   #333333"},
		{"\x1b]10;#111111;#222222;#333333\x07\x1b]111\x07\x1b]112\x07", "1 2 #111111  "},
	} {
		s := New(2, 10, 0)
		s.Write([]byte("\x1b[31mx\x1b[32my\x1b[m" + tt.out))
		restored := New(2, 10, 0)
		restored.Write(s.Snapshot(Options{Restore: true}).Restore)
		for _, s := range []*Screen{s, restored} {
			n := s.Snapshot(Options{Spans: true})
			if got := fmt.Sprintf("%s %s %s %s %s", n.Spans[0][0].Fg, n.Spans[0][1].Fg, n.Foreground, n.Background, n.Cursor.Color); got != tt.want {
				t.Errorf("%q: got %q, want %q", tt.out, got, tt.want)
			}
		}
	}
}

func TestModesAndTitle(t *testing.T) {
	s := New(2, 10, 0)
	first := s.Snapshot(Options{})
	if want := (Modes{Mouse: "none", MouseEncoding: "default", Autowrap: true}); first.Modes != want || first.Cursor != (Cursor{Visible: true, Shape: "block"}) {
		t.Errorf("at first %+v %+v", first.Modes, first.Cursor)
	}
	s.Write([]byte("\x1b[?1h\x1b=\x1b[?2004h\x1b[?1004h\x1b[?1002;1006h\x1b[?6h\x1b[?7l\x1b[4h\x1b[20h\x1b[?45h\x1b[?5h\x1b[?2026h\x1b[?25l\x1b[5 q\x1b]0;one\x07\x1b[22t\x1b]2;two ☎\x1b\\"))
	n := s.Snapshot(Options{})
	if want := (Modes{ApplicationCursor: true, ApplicationKeypad: true, BracketedPaste: true, FocusEvents: true, Mouse: "button", MouseEncoding: "sgr", Origin: true, Insert: true, NewLine: true, ReverseWrap: true, ReverseVideo: true, SynchronizedOutput: true}); n.Modes != want {
		t.Errorf("modes are %+v", n.Modes)
	}
	if want := (Cursor{Shape: "bar", Blink: true}); n.Cursor != want || n.Title != "two ☎" {
		t.Errorf("cursor %+v, title %q", n.Cursor, n.Title)
	}
	s.Write([]byte("\x1b[23t\x1b[?1049h"))
	if n := s.Snapshot(Options{}); n.Title != "one" || !n.AltScreen {
		t.Errorf("title %q, alternate screen %v", n.Title, n.AltScreen)
	}
	for _, tt := range []struct {
		out  string
		want int
	}{{"\x1b[>5u", 5}, {"\x1b[>1u", 1}, {"\x1b[=2;2u", 3}, {"\x1b[=1;3u", 2}, {"\x1b[<u", 5}, {"\x1b[<9u", 0}, {"\x1b[=8u", 8}, {strings.Repeat("\x1b[>1u", 50), 1}, {"\x1b[?47l", 0}, {"\x1b[>4;2m", 0}} {
		s.Write([]byte(tt.out))
		if n := s.Snapshot(Options{}); n.Modes.Keyboard != tt.want {
			t.Errorf("after %q the keyboard has %d, want %d", tt.out, n.Modes.Keyboard, tt.want)
		}
	}
	if n := s.Snapshot(Options{}); n.Modes.ModifyOtherKeys != 2 {
		t.Errorf("modifyOtherKeys is %d", n.Modes.ModifyOtherKeys)
	}
	s.Write([]byte("\x1bc"))
	if n := s.Snapshot(Options{}); n.Modes != first.Modes || n.Cursor != first.Cursor || n.AltScreen {
		t.Errorf("after RIS %+v", n)
	}
}

func TestScrollback(t *testing.T) {
	s := New(2, 10, 3)
	for i := range 7 {
		s.Write(fmt.Appendf(nil, "\r\n%d", i))
	}
	n := s.Snapshot(Options{Scrollback: 2})
	if n.ScrollbackLines != 3 || !reflect.DeepEqual(n.Scrollback, []string{"3", "4"}) || !reflect.DeepEqual(n.Lines, []string{"5", "6"}) {
		t.Errorf("%+v", n)
	}
	s.Write([]byte("\x1b[?1049h\r\na\r\nb\r\nc"))
	if n := s.Snapshot(Options{Scrollback: 10}); n.ScrollbackLines != 3 || n.Scrollback[2] != "4" {
		t.Errorf("the alternate screen has scrolled into %+v", n)
	}
	s.Write([]byte("\x1b[?1049l\x1b[3J"))
	if n := s.Snapshot(Options{Scrollback: 10}); n.ScrollbackLines != 0 || n.Scrollback != nil {
		t.Errorf("ED 3 leaves %+v", n)
	}
	if n := New(2, 10, MaxScrollback+5).t.history.limit; n != MaxScrollback {
		t.Errorf("a screen keeps %d lines", n)
	}
}

func TestResize(t *testing.T) {
	s := New(3, 10, 10)
	s.Write([]byte("0123456789abcde\r\nx\r\ny"))
	for _, tt := range []struct {
		rows, cols int
		want       string
	}{
		{3, 20, "0123456789abcde|x|y"},
		{3, 5, "abcde|x|y"}, // 01234 and 56789 are in the scrollback
		{2, 5, "x|y"},
		{5, 5, "01234|56789|abcde|x|y"},
		{5, 10, "0123456789|abcde|x|y|"},
	} {
		s.Resize(tt.rows, tt.cols)
		if got := strings.Join(s.Text(), "|"); got != tt.want {
			t.Errorf("%d×%d: %q, want %q", tt.rows, tt.cols, got, tt.want)
		}
	}
	s = New(3, 10, 10)
	s.Write([]byte("aaaaaaaaaaaabbb")) // the program will write the line of the cursor again
	s.Resize(3, 5)
	if got := strings.Join(s.Text(), "|"); got != "aaaaa|aabbb|" {
		t.Errorf("the line of the cursor is %q", got)
	}
	for _, tt := range [][4]int{{0, 0, 24, 80}, {-1, -1, 24, 80}, {1, 1, 1, 2}, {65535, 65535, MaxCells / MaxSide, MaxSide}, {65535, 2, MaxSide, 2}} {
		s.Resize(tt[0], tt[1])
		if rows, cols := s.t.rows, s.t.cols; rows != tt[2] || cols != tt[3] {
			t.Errorf("%d×%d becomes %d×%d, want %d×%d", tt[0], tt[1], rows, cols, tt[2], tt[3])
		}
	}
}

// A wide character that is cut stays wide on its way through the history: in a row that is narrow again it has no room again.
func TestCutInHistory(t *testing.T) {
	s := New(2, 4, 10)
	s.Write([]byte("ab漢"))
	s.Resize(2, 3) // the row of the cursor is cut, not wrapped anew
	s.Write([]byte("\r\n\r\n"))
	s.Resize(2, 6)
	s.Write([]byte("\x1b[2;1H"))
	s.Resize(3, 6)
	if got := s.Text(); got[0] != "ab漢" {
		t.Errorf("wide again: %q", got)
	}
	s.Write([]byte("\x1b[1;1H")) // in this row
	s.Resize(3, 3)
	if got := s.Text(); got[0] != "ab" {
		t.Errorf("narrow again: %q", got)
	}
}

// Restore of any state makes an equal state. (TestRestoreOfGeneratedOutput asks xterm.js.)
func TestRestore(t *testing.T) {
	for seed := range 900 {
		g := newGenerator(seed, 4)
		g.margins = seed%3 > 0
		out, _ := g.output(40)
		cut := g.IntN(len(out) + 1)
		a, b := New(g.rows, g.cols, 20), New(g.rows, g.cols, 20)
		a.Write(out[:cut])
		restore := a.Snapshot(Options{Scrollback: 20, Restore: true}).Restore
		b.Write(restore)
		for _, more := range [][]byte{nil, out[cut:]} {
			a.Write(more)
			b.Write(more)
			check(t, a)
			if d := difference(settledOurs(b), settledOurs(a)); d != "" {
				t.Fatalf("seed %d (%d×%d): %s\nafter %q\nrestored by %q\nand then %q", seed, g.rows, g.cols, d, out[:cut], restore, more)
			}
		}
	}
}

func settledOurs(s *Screen) dumped {
	d := stateOf(s)
	saved, main := d.Saved.Y, d.MainSaved.Y
	keyboard := d.Keyboard
	d = settled(d, s.t.cols)
	d.Keyboard = keyboard
	d.Saved.Y, d.MainSaved.Y = saved, main
	d.G = string(s.t.charsets.g[:])
	return d
}

// A sequence or a character goes on in the restored terminal.
func TestRestoreInTheMiddle(t *testing.T) {
	for _, out := range []string{
		"\x1b", "\x1b[", "\x1b[3", "\x1b[38;2;1;", "\x1b[?10", "\x1b(", "\x1b[!", "\x1b]2;title", "\x1b]2;title\x1b", "\x1bP1$q", "\x1b_Gabc", "\u009b3", "\u009d2;ti", "\xe6", "\xe6\xbc", "\xf0\x9f\x99",
		"\x1b]2;" + "\xe6\xbc", "e", "\x1b[5\n", "\x1b[>4;",
	} {
		for _, rest := range []string{"1mx", "\x07x", "\x1b\\x", "\xa2x", "\x82x", "0x", "\u0301x", "\x1b[3bx"} {
			a, b := New(4, 10, 0), New(4, 10, 0)
			a.Write([]byte("before" + out))
			b.Write(a.Snapshot(Options{Restore: true}).Restore)
			a.Write([]byte(rest))
			b.Write([]byte(rest))
			if d := difference(settledOurs(b), settledOurs(a)); d != "" {
				t.Errorf("%q, then %q: %s", out, rest, d)
			}
		}
	}
}

// A sequence longer than MaxSequence has no effect, and its rest is not text: not here, and not in a restored terminal.
func TestEndlessSequences(t *testing.T) {
	for _, begin := range []string{"\x1b]2;", "\x1bPq", "\x1b_G", "\x1bX", "\x1b[1", "\x1b]8;;"} {
		a, b := New(4, 10, 0), New(4, 10, 0)
		a.Write([]byte(begin))
		for range 100 {
			a.Write([]byte(strings.Repeat("1", 1000)))
		}
		if n := cap(a.p.pending) + cap(a.p.osc); n > 4*MaxSequence {
			t.Errorf("%q: %d bytes are kept", begin, n)
		}
		restore := a.Snapshot(Options{Restore: true}).Restore
		if len(restore) > 1000 {
			t.Errorf("%q: Restore has %d bytes", begin, len(restore))
		}
		b.Write(restore)
		for name, s := range map[string]*Screen{"ours": a, "restored": b} {
			s.Write([]byte("1111m\x07\x1b\\ok"))
			if text := strings.Join(s.Text(), "|"); !strings.HasSuffix(strings.TrimRight(text, "|"), "ok") || strings.Contains(text, "1") || s.Snapshot(Options{}).Title != "" {
				t.Errorf("%q, %s: %q, title %q", begin, name, text, s.Snapshot(Options{}).Title)
			}
		}
	}
}

func TestLimits(t *testing.T) {
	s := New(24, 80, MaxScrollback)
	s.Write([]byte("\x1b]2;" + strings.Repeat("漢", 1000) + "\x07"))
	if n := len(s.Snapshot(Options{}).Title); n > MaxTitle || n < MaxTitle-3 {
		t.Errorf("a title has %d bytes", n)
	}
	for range 100 {
		s.Write([]byte("\x1b[22t"))
	}
	if n := len(s.t.titles); n > maxTitles {
		t.Errorf("%d titles are pushed", n)
	}
	s.Write([]byte("a" + strings.Repeat("\u0301", 10_000)))
	if n := len(s.Text()[0]); n > 1+maxCombining {
		t.Errorf("a cell has %d bytes", n)
	}
	for i := range 25_000 {
		s.Write(fmt.Appendf(nil, "\x1b]8;;http://example.com/%d/%s\x07x", i, strings.Repeat("y", 200)))
	}
	if s.t.extras.bytes > maxExtrasBytes || len(s.t.extras.list) > maxExtras {
		t.Errorf("%d extras with %d bytes", len(s.t.extras.list), s.t.extras.bytes)
	}
	// When the cells are gone, there is room for others.
	s.Write([]byte("\x1b[3J\x1b[2J\x1b[H"))
	for i := range 10_000 {
		s.Write(fmt.Appendf(nil, "\x1b[H\x1b]8;;http://example.org/%d\x07x", i))
	}
	if got := s.Snapshot(Options{Spans: true}).Spans[0][0].Link; got != "http://example.org/9999" {
		t.Errorf("the link is %q", got)
	}
	// A line takes most memory if each cell has another style.
	s = New(24, 1000, MaxScrollback)
	for i := range 3000 {
		for k := range 100 {
			s.Write(fmt.Appendf(nil, "\x1b[38;2;%d;%d;%dmx\x1b[48;2;%d;9;9mx", i%256, k, k, k))
		}
		s.Write([]byte("\r\n"))
	}
	if s.t.history.bytes > MaxScrollbackBytes {
		t.Errorf("the history has %d bytes", s.t.history.bytes)
	}
	s.Write([]byte("x\x1b[99999999b\x1b[99999999;99999999H\x1b[99999999L\x1b[99999999@\x1b[99999999S\x1b[99999999T\x1b[99999999I\x1b[99999999Z\x1b[99999999'}\x1b[99999999X\x1b[99999999P\x1b[99999999M"))
}

// REP repeats combining characters even if the first copy moves the extras.
func TestRepeatMovesExtras(t *testing.T) {
	s := New(2, 10, 0)
	s.Write([]byte("\x1b]8;;gone\x07x\r\x1b]8;;gone, too\x07x\r\x1b]8;;" + strings.Repeat("l", 200) + "\x07"))
	s.t.extras.bytes = maxExtrasBytes - 100 // no room for another cell with the link
	s.Write([]byte("e\u0301\u0308"))
	s.t.extras.since = 1024 + s.t.extras.live // the next new extra drops those that are gone
	s.Write([]byte("\x1b[3b"))
	if got := s.Text()[0]; got != strings.Repeat("e\u0308", 4) || s.t.extras.since > 1024 {
		t.Errorf("the row is %q, and %d extras are new", got, s.t.extras.since)
	}
}

func FuzzScreen(f *testing.F) {
	for seed := range 20 {
		g := newGenerator(seed, 5)
		g.margins = true
		out, _ := g.output(30)
		f.Add(out, uint8(g.rows), uint8(g.cols))
	}
	f.Fuzz(func(t *testing.T, out []byte, rows, cols uint8) {
		s := New(int(rows%60)+1, int(cols)+1, 50)
		for i := 0; i < len(out); {
			n := min(len(out)-i, int(out[i])+1)
			s.Write(out[i : i+n])
			if i += n; n > 100 {
				s.Resize(int(out[i-1]%60)+1, int(out[i-2])+1)
			}
		}
		check(t, s)
		n := s.Snapshot(Options{Scrollback: 50, Spans: true, Restore: true})
		o := New(n.Rows, n.Cols, 50)
		o.Write(n.Restore)
		check(t, o)
		m := o.Snapshot(Options{Scrollback: 50})
		if a, b := strings.Join(n.Lines, "\n"), strings.Join(m.Lines, "\n"); a != b {
			t.Fatalf("restored %q, want %q, by %q", b, a, n.Restore)
		}
		if n.Cursor != m.Cursor || n.Modes != m.Modes || n.Title != m.Title || n.AltScreen != m.AltScreen {
			t.Fatalf("restored %+v, want %+v, by %q", m, n, n.Restore)
		}
	})
}

// check fails for an impossible state.
func check(t *testing.T, s *Screen) {
	t.Helper()
	b := s.t.buf
	if b.x < 0 || b.x > s.t.cols || b.y < 0 || b.y >= s.t.rows || b.top < 0 || b.bottom >= s.t.rows || b.top > b.bottom || len(b.lines) != s.t.rows {
		t.Fatalf("%d×%d: cursor %d,%d, region %d to %d, %d lines", s.t.rows, s.t.cols, b.y, b.x, b.top, b.bottom, len(b.lines))
	}
	for _, l := range b.lines {
		if len(l.cells) != s.t.cols {
			t.Fatalf("a line has %d cells, want %d", len(l.cells), s.t.cols)
		}
		for x := range l.cells {
			if c := &l.cells[x]; c.width() == 2 && !l.cut(x) && l.cells[x+1].width() != 0 {
				t.Fatalf("a wide character without its second half at %d", x)
			}
			if l.cells[x].width() == 0 && (x == 0 || l.cells[x-1].width() != 2) {
				t.Fatalf("half of a wide character at %d", x)
			}
		}
	}
	if len(s.t.extras.list) > maxExtras || len(s.p.pending) > MaxSequence || len(s.t.title) > MaxTitle || s.t.history.len() > 50 {
		t.Fatal("a limit is passed")
	}
}
