// Package candidates measures emulators for internal/screen: docs/decisions/0041-screen.md has the figures. With a go.mod of its own, the
// package adds no module to troupe.
//
//	cd internal/screen/candidates && go test -v .
package candidates

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/internal/screen"
	"github.com/charmbracelet/x/vt"
	"github.com/hinshun/vt10x"
)

// An emulator is the common part of all.
type emulator interface {
	io.Writer
	// look returns the rows, without blanks at the end, and the cursor.
	look() (rows []string, x, y int)
}

var emulators = []struct {
	name string
	make func(rows, cols, scrollback int) emulator
}{
	{"internal/screen", func(r, c, s int) emulator { return ours{screen.New(r, c, s)} }},
	{"charmbracelet/x/vt", func(r, c, s int) emulator {
		e := vt.NewEmulator(c, r)
		e.SetScrollbackSize(s)
		go io.Copy(io.Discard, e) // answers to the program
		return charm{e, r, c}
	}},
	{"hinshun/vt10x", func(r, c, _ int) emulator { return old{vt10x.New(vt10x.WithSize(c, r)), r, c} }},
}

type ours struct{ s *screen.Screen }

func (o ours) Write(p []byte) (int, error) { o.s.Write(p); return len(p), nil }
func (o ours) look() ([]string, int, int) {
	n := o.s.Snapshot(screen.Options{})
	return n.Lines, n.Cursor.Col, n.Cursor.Row
}

type charm struct {
	*vt.Emulator
	rows, cols int
}

func (c charm) look() ([]string, int, int) {
	var rows []string
	for y := range c.rows {
		var b strings.Builder
		for x := 0; x < c.cols; {
			cell := c.CellAt(x, y)
			if cell == nil || cell.Content == "" {
				b.WriteByte(' ')
				x++
				continue
			}
			b.WriteString(cell.Content)
			x += max(cell.Width, 1)
		}
		rows = append(rows, strings.TrimRight(b.String(), " "))
	}
	p := c.CursorPosition()
	return rows, p.X, p.Y
}

type old struct {
	vt10x.Terminal
	rows, cols int
}

func (o old) look() ([]string, int, int) {
	var rows []string
	for y := range o.rows {
		var b strings.Builder
		for x := range o.cols {
			if r := o.Cell(x, y).Char; r == 0 {
				b.WriteByte(' ')
			} else {
				b.WriteRune(r)
			}
		}
		rows = append(rows, strings.TrimRight(b.String(), " "))
	}
	return rows, o.Cursor().X, o.Cursor().Y
}

func recordings(t *testing.T) map[string][]byte {
	names, _ := filepath.Glob("../testdata/recordings/*.gz")
	all := map[string][]byte{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if all[strings.TrimSuffix(filepath.Base(name), ".gz")], err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// write contains a panic, and gives up after a while: the emulator is then lost.
func write(e emulator, b []byte, limit time.Duration) (took time.Duration, err error) {
	done := make(chan error, 1)
	begin := time.Now()
	go func() {
		defer func() {
			if r := recover(); r != nil {
				done <- fmt.Errorf("panic: %v", r)
			}
		}()
		e.Write(b)
		done <- nil
	}()
	select {
	case err = <-done:
	case <-time.After(limit):
		err = fmt.Errorf("hangs: not done after %v", limit)
	}
	return time.Since(begin), err
}

// Our screen equals xterm.js at each cut of the recordings (internal/screen, TestRecordingsAgainstReference), and is the measure here.
func TestCorrectness(t *testing.T) {
	for _, e := range emulators {
		cuts, wrong, cursors := 0, 0, 0
		bad := map[string]bool{}
		for name, out := range recordings(t) {
			var rows, cols int
			fmt.Sscanf(name[strings.LastIndexByte(name, '-')+1:], "%dx%d", &rows, &cols)
			want, got := ours{screen.New(rows, cols, 0)}, e.make(rows, cols, 0)
			for i := range 20 {
				part := out[len(out)*i/20 : len(out)*(i+1)/20]
				want.Write(part)
				if _, err := write(got, part, 10*time.Second); err != nil {
					t.Logf("%s: %s: %v", e.name, name, err)
					bad[name] = true
					break
				}
				a, x, y := want.look()
				b, v, w := got.look()
				cuts++
				if strings.Join(a, "\n") != strings.Join(b, "\n") {
					wrong++
					bad[name] = true
				} else if x != v || y != w {
					cursors++
					bad[name] = true
				}
			}
		}
		t.Logf("%-20s %d of %d screens differ in text, %d more in the cursor; %d of %d recordings never differ", e.name, wrong, cuts, cursors, len(recordings(t))-len(bad), len(recordings(t)))
	}
}

func workloads(t *testing.T) map[string][]byte {
	r := recordings(t)
	plain := bytes.Repeat([]byte("The quick brown fox jumps over the lazy dog, and goes on for a while.\r\n"), 20000)
	var sgr bytes.Buffer
	for i := range 40000 {
		fmt.Fprintf(&sgr, "\x1b[%d;38;5;%dmword\x1b[0m \x1b[48;2;%d;%d;%dm%d\x1b[m%s", i%8, i%256, i%256, i%200, i%100, i, []string{"", "\r\n"}[i%5/4])
	}
	return map[string][]byte{
		"plain": plain, "SGR": sgr.Bytes(), "vim": bytes.Repeat(r["vim-wide-50x160"], 30), "CJK": bytes.Repeat([]byte("漢字かな交じり文は全角文字を含み、折り返す。\r\n"), 20000),
	}
}

func TestSpeed(t *testing.T) {
	for _, name := range []string{"plain", "SGR", "vim", "CJK"} {
		out := workloads(t)[name]
		for _, e := range emulators {
			took := time.Hour
			for range 3 {
				em := e.make(50, 160, 1000)
				begin := time.Now()
				for b := out; len(b) > 0; {
					n := min(len(b), 32<<10)
					em.Write(b[:n])
					b = b[n:]
				}
				took = min(took, time.Since(begin))
			}
			t.Logf("%-6s %-20s %7.1f MB/s", name, e.name, float64(len(out))/1e6/took.Seconds())
		}
	}
}

func TestMemory(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for _, size := range []struct{ rows, cols, scrollback int }{{24, 80, 0}, {50, 200, 0}, {24, 80, 1000}, {24, 80, 10000}, {50, 200, 10000}} {
		line := []byte("\x1b[32m" + strings.Repeat("some text ", 6) + "\x1b[0m\r\n")
		for _, e := range emulators {
			if size.scrollback > 0 && e.name == "hinshun/vt10x" {
				continue // has none
			}
			const n = 4
			before := heap()
			var kept [n]emulator
			for i := range kept {
				kept[i] = e.make(size.rows, size.cols, size.scrollback)
				kept[i].Write(bytes.Repeat(line, size.rows+size.scrollback))
			}
			t.Logf("%2d×%3d, scrollback %5d: %-20s %9d bytes", size.rows, size.cols, size.scrollback, e.name, int64(heap()-before)/n)
			runtime.KeepAlive(kept)
		}
	}
}

func TestRobustness(t *testing.T) {
	const mb = 1 << 20
	hostile := []struct {
		name string
		out  []byte
	}{
		{"params of 9 digits", []byte(strings.Repeat("\x1b[999999999b\x1b[999999999L\x1b[999999999@\x1b[999999999S\x1b[999999999;999999999H", 100))},
		{"REP of 2147483647", []byte("x\x1b[2147483647b")},
		{"a million params", []byte("\x1b[" + strings.Repeat("1;", mb) + "m")},
		{"OSC without end", append([]byte("\x1b]2;"), bytes.Repeat([]byte("x"), 64*mb)...)},
		{"DCS without end", append([]byte("\x1bPq"), bytes.Repeat([]byte("x"), 64*mb)...)},
		{"combining characters", append([]byte("a"), bytes.Repeat([]byte("\u0301"), 2*mb)...)},
		{"links", []byte(func() string {
			var b strings.Builder
			for i := range 200000 {
				fmt.Fprintf(&b, "\x1b]8;;http://example.com/%d/%s\x07x", i, strings.Repeat("y", 100))
			}
			return b.String()
		}())},
		{"titles", bytes.Repeat([]byte("\x1b]2;"+strings.Repeat("t", 4000)+"\x07\x1b[22t"), 5000)},
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for _, h := range hostile {
		for _, e := range emulators {
			before := heap()
			em := e.make(24, 80, 1000)
			took, err := write(em, h.out, 10*time.Second)
			t.Logf("%-22s %-20s %10s %8.1f MB %v", h.name, e.name, took.Round(time.Millisecond), float64(int64(heap()-before))/1e6, err)
			runtime.KeepAlive(em)
		}
	}
}
