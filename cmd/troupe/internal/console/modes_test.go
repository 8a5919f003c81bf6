package console

import (
	"strings"
	"testing"
)

// Control sequences and characters stay whole, in whatever parts they come; nothing is lost or added.
func TestScannerKeepsSequencesWhole(t *testing.T) {
	const text = "a\x1b[1;31mb\x1b]0;title\x07c\x1b]0;t\x1b\\d\x1b(Beü€😀f\x1bP+q544e\x1b\\g\x1b[?25l\x1b[Ah\xc3\x1b[mi\x80"
	for size := 1; size < len(text); size++ {
		var s scanner
		var got []byte
		for i := 0; i < len(text); i += size {
			got = s.feed(got, []byte(text[i:min(i+size, len(text))]), false)
			if cut := string(got); strings.HasSuffix(cut, "\x1b") || strings.HasSuffix(cut, "\x1b[1;3") || strings.HasSuffix(cut, "ü"[:1]) && !strings.Contains(cut, "h") {
				t.Errorf("parts of %d: passed on %q", size, cut)
			}
		}
		if got = s.flush(got); string(got) != text {
			t.Errorf("parts of %d: %q, want %q", size, got, text)
		}
	}
	// A string without an end goes on in parts, and then nothing may be written between them.
	var s scanner
	image := "\x1bPq" + strings.Repeat("#", 2*maxSequence)
	if got := s.feed(nil, []byte(image), false); string(got) != image || s.between() {
		t.Errorf("%d of %d bytes, between %v", len(got), len(image), s.between())
	}
	if got := s.feed(nil, []byte("\x1b\\x"), false); string(got) != "\x1b\\x" || !s.between() {
		t.Errorf("%q, between %v", got, s.between())
	}
	junk := "\x1b[" + strings.Repeat("1", 2*maxSequence)
	if got := s.feed(nil, []byte(junk), false); string(got) != junk || !s.between() {
		t.Errorf("%d of %d bytes, between %v", len(got), len(junk), s.between())
	}
}

// What vim sets is undone when the command leaves, and set again when it comes back.
func TestScannerModes(t *testing.T) {
	var s scanner
	s.feed(nil, []byte("\x1b[?1049h\x1b[22;0;0t\x1b[>4;2m\x1b[?1h\x1b=\x1b[?2004h\x1b[?1004h\x1b[?25l\x1b[?1004l"), false)
	if !s.alternateScreen() {
		t.Error("the other screen was not noticed")
	}
	if got, want := string(s.restore()), "\x1b[?25h\x1b[?2004l\x1b>\x1b[?1l\x1b[>4m\x1b[?1049l\x1b[0m"; got != want {
		t.Errorf("restore %q, want %q", got, want)
	}
	if got, want := string(s.again()), "\x1b[?1049h\x1b[>4;2m\x1b[?1h\x1b=\x1b[?2004h\x1b[?25l"; got != want {
		t.Errorf("again %q, want %q", got, want)
	}
	s.feed(nil, []byte("\x1b[?25h\x1b[?2004l\x1b>\x1b[?1l\x1b[>4m\x1b[?1049l"), false)
	if len(s.set) != 0 || s.alternateScreen() {
		t.Errorf("left: %q", s.set)
	}
	s.feed(nil, []byte("\x1b[?47h"), false) // as attach draws a screen
	if got, want := string(s.restore()), "\x1b[?47l\x1b[999H\r\n\x1b[0m"; got != want {
		t.Errorf("restore %q, want %q: a line of its own for what the shell prints next", got, want)
	}
	s.feed(nil, []byte("\x1b[?47l"), false)
	s.feed(nil, []byte("\x1b]4;1;#123\x07\x1b]4;2;#456\x1b\\\x1b]11;#123\x07\x1b]10;?\x07\x1b]2;4;1\x07\x1b[?69h"), false)
	if got, want := string(s.restore()), "\x1b[?69l\x1b]111\x1b\\\x1b]104\x1b\\\x1b[0m"; got != want {
		t.Errorf("restore %q, want %q", got, want)
	}
	if got, want := string(s.again()), "\x1b[?69h"; got != want {
		t.Errorf("again %q, want %q", got, want)
	}
}

// A terminal would answer the questions in old output, and the program would take the answers as keys.
func TestReplayAsksNothing(t *testing.T) {
	questions := []string{"\x1b[c", "\x1b[>c", "\x1b[0c", "\x1b[6n", "\x1b[?6n", "\x1b[?1$p", "\x1b[>q", "\x1b[?u", "\x1b[18t",
		"\x1b]11;?\x07", "\x1b]10;?\x1b\\", "\x1b]52;c;?\x07", "\x1bP+q544e\x1b\\", "\x1bP$q q\x1b\\", "\x1bZ", "\x05"}
	for _, q := range questions {
		var s scanner
		if got := s.feed(nil, []byte("a"+q+"b"), true); string(got) != "ab" {
			t.Errorf("%q in old output: %q", q, got)
		}
		if got := s.feed(nil, []byte("a"+q+"b"), false); string(got) != "a"+q+"b" {
			t.Errorf("%q in new output: %q", q, got)
		}
	}
	for _, keep := range []string{"\x1b[22;0;0t", "\x1b[2 q", "\x1b[!p", "\x1b[u", "\x1b]0;what?\x07", "\x1b[>4;2m", "\x1b[>4n"} {
		var s scanner
		if got := s.feed(nil, []byte(keep), true); string(got) != keep {
			t.Errorf("%q in old output: %q", keep, got)
		}
	}
}
