package screen

import (
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A recording is the output of a program on a PTY, from testdata/record.
type recording struct {
	name       string
	rows, cols int
	out        []byte
}

func allRecordings(t testing.TB) []recording {
	t.Helper()
	names, err := filepath.Glob("testdata/recordings/*.gz")
	if err != nil || len(names) < 10 {
		t.Fatal("testdata/recordings lacks recordings: ", names, err)
	}
	var all []recording
	for _, name := range names {
		r := recording{name: strings.TrimSuffix(filepath.Base(name), ".gz")}
		if _, err := fmt.Sscanf(r.name[strings.LastIndexByte(r.name, '-')+1:], "%dx%d", &r.rows, &r.cols); err != nil {
			t.Fatal(name, err)
		}
		r.out = unzipped(t, name)
		all = append(all, r)
	}
	return all
}

func unzipped(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(name, err)
	}
	out, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(name, err)
	}
	return out
}

// tmux in a terminal that answers as xterm does, with shells side by side: seq 50 on the left, then seq 200 230 on the right. tmux scrolls
// them between margins. The text is that of tmux capture-pane.
func TestMarginsOfTmux(t *testing.T) {
	out := unzipped(t, "testdata/tmux-margins.gz")
	var want []string
	for i := range 23 {
		want = append(want, fmt.Sprintf("%-40d│%d", 28+i, 208+i))
	}
	want = append(want, fmt.Sprintf("%-40s│#", "#"))
	for cut := 0; cut <= len(out); cut += 61 {
		s, restored := New(24, 80, 0), New(24, 80, 0)
		s.Write(out[:cut])
		restored.Write(s.Snapshot(Options{Restore: true}).Restore)
		for _, s := range []*Screen{s, restored} {
			s.Write(out[cut:])
			if got := s.Text(); !slices.Equal(got, want) {
				t.Fatalf("cut %d:\n%s\nwant\n%s", cut, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
}

const recordedScrollback = 1000

// settled leaves out the differences of xterm.js and xterm, and state that no output can restore.
func settled(s dumped, cols int) dumped {
	s.G, s.Keyboard = "", ""
	s.Saved.Y, s.MainSaved.Y = 0, 0
	s.Saved.X, s.MainSaved.X = min(s.Saved.X, cols-1), min(s.MainSaved.X, cols-1)
	for _, rows := range [][]string{s.Main, s.Alt, s.History} {
		if len(rows) > 0 {
			rows[0] = " :" + strings.TrimPrefix(strings.TrimPrefix(rows[0], " :"), "W:")
		}
	}
	return s
}

func TestRecordingsAgainstReference(t *testing.T) {
	ref := newReference(t)
	cuts := 40
	if testing.Short() {
		cuts = 8
	}
	for _, r := range allRecordings(t) {
		t.Run(r.name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(1, 2))
			ours := New(r.rows, r.cols, recordedScrollback)
			steps := []step{{New: "a", Rows: r.rows, Cols: r.cols, Scrollback: recordedScrollback}}
			var mine []dumped
			for begin := 0; begin < len(r.out); {
				end := min(begin+1+rnd.IntN(2*len(r.out)/cuts), len(r.out))
				ours.Write(r.out[begin:end])
				mine = append(mine, stateOf(ours))
				steps = append(steps, step{Write: "a", Data: data(r.out[begin:end])}, step{Dump: "a"})
				begin = end
			}
			for i, want := range ref.states(t, steps) {
				if d := difference(settled(mine[i], r.cols), settled(want, r.cols)); d != "" {
					t.Fatalf("cut %d: %s", i, d)
				}
			}
		})
	}
}

func TestRestoreOfRecordings(t *testing.T) {
	ref := newReference(t)
	cuts := 20
	if testing.Short() {
		cuts = 4
	}
	for _, r := range allRecordings(t) {
		t.Run(r.name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(3, 4))
			for range cuts {
				cut := rnd.IntN(len(r.out))
				ours := New(r.rows, r.cols, recordedScrollback)
				ours.Write(r.out[:cut])
				restore := ours.Snapshot(Options{Scrollback: recordedScrollback, Restore: true}).Restore
				s := ref.states(t, []step{
					{New: "a", Rows: r.rows, Cols: r.cols, Scrollback: recordedScrollback}, {Write: "a", Data: data(r.out[:cut])}, {Dump: "a"},
					{Write: "a", Data: data(r.out[cut:])}, {Dump: "a"},
					{New: "b", Rows: r.rows, Cols: r.cols, Scrollback: recordedScrollback}, {Write: "b", Data: data(restore)}, {Dump: "b"},
					{Write: "b", Data: data(r.out[cut:])}, {Dump: "b"},
				})
				d := difference(settled(s[2], r.cols), settled(s[0], r.cols))
				if d == "" {
					d = difference(settled(s[3], r.cols), settled(s[1], r.cols))
				}
				if d != "" {
					t.Fatalf("cut %d: %s\n%q\nrestore %.2000q", cut, d, r.out[max(0, cut-100):cut], restore)
				}
			}
		})
	}
}

// The recorded program did not know of the resizes. Both terminals must show the same anyway.
func TestResizesOfRecordings(t *testing.T) {
	ref := newReference(t)
	for _, r := range allRecordings(t) {
		if r.name == "unicode-20x40" {
			continue // xterm.js mixes up combining characters when it wraps lines anew
		}
		t.Run(r.name, func(t *testing.T) {
			for _, size := range [][2]int{{r.rows, r.cols - 13}, {r.rows + 7, r.cols + 30}, {r.rows - 5, r.cols}, {r.rows + 9, r.cols - 20}} {
				cut := len(r.out) * 2 / 3
				ours := New(r.rows, r.cols, recordedScrollback)
				ours.Write(r.out[:cut])
				ours.Resize(size[0], size[1])
				mine := []dumped{stateOf(ours)}
				restore := ours.Snapshot(Options{Scrollback: recordedScrollback, Restore: true}).Restore
				ours.Write(r.out[cut:])
				mine = append(mine, stateOf(ours))
				s := ref.states(t, []step{
					{New: "a", Rows: r.rows, Cols: r.cols, Scrollback: recordedScrollback}, {Write: "a", Data: data(r.out[:cut])},
					{Resize: "a", Rows: size[0], Cols: size[1]}, {Dump: "a"}, {Write: "a", Data: data(r.out[cut:])}, {Dump: "a"},
					{New: "b", Rows: size[0], Cols: size[1], Scrollback: recordedScrollback}, {Write: "b", Data: data(restore)}, {Dump: "b"},
					{Write: "b", Data: data(r.out[cut:])}, {Dump: "b"},
				})
				for i, name := range []string{"after the resize", "at the end"} {
					if d := difference(settled(mine[i], size[1]), settled(s[i], size[1])); d != "" {
						t.Fatalf("%d×%d, %s: %s", size[0], size[1], name, d)
					}
					if d := difference(settled(s[2+i], size[1]), settled(s[i], size[1])); d != "" {
						t.Fatalf("%d×%d, restored, %s: %s", size[0], size[1], name, d)
					}
				}
			}
		})
	}
}
