package show

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestHarmless(t *testing.T) {
	for _, c := range []struct{ in, name, text string }{
		{"plain", "plain", "plain"},
		{"grüße 日本 👩‍💻", "grüße 日本 👩‍💻", "grüße 日本 👩‍💻"},
		{"a\x1b]0;title\x07b", `a\x1b]0;title\x07b`, `a\x1b]0;title\x07b`},
		{"a\x1b[31mred\x1b[0m", `a\x1b[31mred\x1b[0m`, "ared"},
		{"\x1b[2Jgone\x1b[3", `\x1b[2Jgone\x1b[3`, `\x1b[2Jgone\x1b[3`},
		{"a\tb\r\nc\rd", `a\tb\r\nc\rd`, "a\tb\nc\\rd"},
		{"\u009b31m", `\x9b31m`, `\x9b31m`},
		{"\u202egnp.exe", `\u202egnp.exe`, `\u202egnp.exe`},
		{"a\u200bb\ufeff\u2028", `a\u200bb\ufeff\u2028`, `a\u200bb\ufeff\u2028`},
		{"\U000e0041", `\U000e0041`, `\U000e0041`},
		{"\xffa\xc3", `\xffa\xc3`, `\xffa\xc3`},
		{"\x00\x7f", `\x00\x7f`, `\x00\x7f`},
	} {
		if got := Harmless(c.in); got != c.name {
			t.Errorf("Harmless(%q) = %q, want %q", c.in, got, c.name)
		}
		if got := HarmlessText(c.in); got != c.text {
			t.Errorf("HarmlessText(%q) = %q, want %q", c.in, got, c.text)
		}
	}
}

// Nothing that a terminal obeys gets through, whatever the bytes.
func TestHarmlessAlways(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOf(rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte("\x1b[31m;\xc2\x9b\xe2\x80\xae")))).Draw(t, "bytes"))
		for _, out := range []string{Harmless(in), strings.NewReplacer("\n", "", "\t", "").Replace(HarmlessText(in))} {
			if !utf8.ValidString(out) {
				t.Fatalf("%q is no UTF-8", out)
			}
			for _, r := range out {
				if r != 0x200c && r != 0x200d && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
					t.Fatalf("%q has %q", out, r)
				}
			}
		}
	})
}

func TestUnits(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 812: "812 B", 999: "999 B", 1000: "1.0 KiB", 1536: "1.5 KiB", 10 << 10: "10 KiB", 1023 << 10: "1.0 MiB", 34 << 20: "34 MiB",
		5 << 40: "5.0 TiB", 1<<63 - 1: "8.0 EiB", -1536: "-1.5 KiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
	if got := Bytes(uint64(1<<64 - 1)); got != "16 EiB" {
		t.Errorf("Bytes(max) = %q", got)
	}
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 59900 * time.Millisecond: "59s", time.Minute: "1m", 59 * time.Minute: "59m", time.Hour: "1h", 72 * time.Minute: "1h12m",
		13*time.Hour + 5*time.Minute: "13h", 25 * time.Hour: "1d1h", 48 * time.Hour: "2d", 90*24*time.Hour + time.Hour: "90d",
	} {
		if got := Age(d); got != want {
			t.Errorf("Age(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestNumber(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 812: "812", 1203: "1,203", -1203: "-1,203", -812: "-812", 123456: "123,456", 12004000: "12,004,000",
	} {
		if got := Number(n); got != want {
			t.Errorf("Number(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestLatency(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 1: "1 ns", 999: "999 ns", 1000: "1 µs", 999_600: "1 ms", 340_000: "340 µs", 1_236_000: "1.24 ms", 9_996_000: "10 ms", 12_420_000: "12.4 ms",
		99_960_000: "100 ms", 812_400_000: "812 ms", 999_600_000: "1 s", 1_500_000_000: "1.5 s", 90 * time.Second: "90 s", 100 * time.Second: "1m40s",
		time.Hour - 1: "1h0m", 65*time.Minute + 20*time.Second: "1h5m", -time.Millisecond: "-1 ms", -1 << 63: "-2562047h47m",
	} {
		if got := Latency(d); got != want {
			t.Errorf("Latency(%d) = %q, want %q", d, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	table := func() *Table {
		t := &Table{Columns: []Column{{Title: "ID", Shrink: 6}, {Title: "CPU", Right: true}, {Title: "STATE", Shrink: 5}}}
		t.Row("web", 3, Cell{"running", Good})
		t.Row("日本語サーバー", 1234, Cell{"exited\x1b[2J", Bad})
		t.Row("x")
		return t
	}
	for _, c := range []struct {
		name string
		out  Out
		want string
	}{
		{"no terminal", Out{}, "" +
			"ID               CPU  STATE\n" +
			"web                3  running\n" +
			"日本語サーバー  1234  exited\\x1b[2J\n" +
			"x                  -  -\n"},
		{"narrow", Out{Width: 24}, "" +
			"ID         CPU  STATE\n" +
			"web          3  running\n" +
			"日本語…   1234  exited\\…\n" +
			"x            -  -\n"},
		{"very narrow", Out{Width: 12}, "" +
			"ID       CPU\n" +
			"web        3\n" +
			"日本…   1234\n" +
			"x          -\n"},
		{"colours", Out{Colour: true}, "" +
			"\x1b[1mID\x1b[0m               \x1b[1mCPU\x1b[0m  \x1b[1mSTATE\x1b[0m\n" +
			"web                3  \x1b[32mrunning\x1b[0m\n" +
			"日本語サーバー  1234  \x1b[31mexited\\x1b[2J\x1b[0m\n" +
			"x                  -  -\n"},
	} {
		var b bytes.Buffer
		c.out.Writer = &b
		if err := table().Write(c.out); err != nil {
			t.Fatal(err)
		}
		if b.String() != c.want {
			t.Errorf("%s:\n%swant:\n%s", c.name, &b, c.want)
		}
	}
}

// No line of a table is wider than the terminal, whatever the cells.
func TestTableFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := Table{Columns: []Column{{Title: "A", Shrink: rapid.IntRange(0, 9).Draw(t, "shrink")}, {Title: "BÜ", Right: true}, {Title: "C", Shrink: 1}}}
		for range rapid.IntRange(1, 4).Draw(t, "rows") {
			table.Row(rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b"), rapid.String().Draw(t, "c"))
		}
		var b bytes.Buffer
		width := rapid.IntRange(1, 60).Draw(t, "width")
		if err := table.Write(Out{Writer: &b, Width: width}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if w := Width(strings.TrimSuffix(line, "\n")); w > width {
				t.Fatalf("a line of %d cells, want at most %d: %q", w, width, line)
			}
		}
		if n := strings.Count(b.String(), "\n"); n != table.Len()+1 {
			t.Fatalf("%d lines, want %d", n, table.Len()+1)
		}
	})
}

func TestColours(t *testing.T) {
	for _, c := range []struct {
		noColor, term string
		want          bool
	}{{"", "xterm", true}, {"", "", true}, {"1", "xterm", false}, {"", "dumb", false}} {
		env := map[string]string{"NO_COLOR": c.noColor, "TERM": c.term}
		if got := colours(func(k string) string { return env[k] }); got != c.want {
			t.Errorf("NO_COLOR=%q TERM=%q: colours %v, want %v", c.noColor, c.term, got, c.want)
		}
	}
	// What is no terminal gets no colours, and is not cut.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if o := To(w); o.Colour || o.Width != 0 || o.Paint(Bad, "x") != "x" {
		t.Errorf("a pipe has %+v", o)
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := JSON(&b, map[string]string{"a": "<&>"}); err != nil || b.String() != "{\n  \"a\": \"<&>\"\n}\n" {
		t.Errorf("%q, %v", &b, err)
	}
}

func TestNearest(t *testing.T) {
	for word, want := range map[string]string{"tokenfile": "token_file", "ulr": "url", "token_flie": "token_file", "xyz": "", "": "", "default": "default", "u": "", "SIGTREM": "SIGTERM"} {
		if got := Nearest(word, []string{"url", "token_file", "token_command", "default", "SIGTERM"}); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

// AppendHarmless is HarmlessText, wherever in a text an odd byte stands.
func TestAppendHarmless(t *testing.T) {
	for at := range 20 {
		for b := range 256 {
			text := []byte(strings.Repeat("a", 20))
			text[at] = byte(b)
			if got, want := string(AppendHarmless([]byte("x"), text)), "x"+HarmlessText(string(text)); got != want {
				t.Fatalf("byte %#x at %d: %q, want %q", b, at, got, want)
			}
		}
	}
}
