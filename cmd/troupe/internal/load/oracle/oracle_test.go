package oracle

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/stream"
	"github.com/b6f6fdd7/troupe/protocol"
	"pgregory.net/rapid"
)

var began = time.Unix(1_800_000_000, 0)

// makeRun returns the stdout of a run: a hello, a content and an end.
func makeRun(s Spec, number uint64, content int) []byte {
	base := stream.Of(s.Seed, s.Session, s.Process, 0, "")
	key := base.Run(number, "stdout")
	p := base.AppendHello(nil, number, 4711, began)
	return appendContent(p, s.Stdout, base, key, content)
}

// appendContent appends content of about n bytes and its end.
func appendContent(p []byte, c Content, base, key stream.Key, n int) []byte {
	begin := len(p)
	switch c.Form {
	case Plain, Echo:
		from := key
		if c.Form == Echo {
			from = base.Run(0, "stdin")
		}
		body := make([]byte, n)
		from.Fill(body, 0)
		p = append(p, body...)
	case Lines:
		body := make([]byte, c.Body)
		for i := int64(0); len(p)-begin < n; i++ {
			key.FillBody(body, i)
			p = key.AppendLine(p, i, began.Add(time.Duration(i*777777777)), body)
		}
	case Answers:
		var d stream.Digest
		block := make([]byte, c.Block)
		i := int64(0)
		for ; len(p)-begin < n; i++ {
			base.Run(0, "stdin").Fill(block, i*c.Block)
			d = d.Add(block)
			p = key.AppendAnswer(p, i, began, stream.Answer{Bytes: (i + 1) * c.Block, Digest: d, Wrong: stream.NoneWrong})
		}
		p = key.AppendAnswer(p, i, began, stream.Answer{End: true, Bytes: i * c.Block, Digest: d, Wrong: stream.NoneWrong})
	}
	return key.AppendEnd(p, int64(len(p)-begin), began)
}

var specs = map[string]Spec{
	"plain":   {Seed: 7, Session: "s1", Process: "p1", Stdout: Content{Form: Plain}},
	"bounded": {Seed: 7, Session: "s1", Process: "p1", Stdout: Content{Form: Plain, Bytes: 3000}},
	"lines":   {Seed: 7, Session: "s1", Process: "p1", Stdout: Content{Form: Lines, Body: 60}},
	"short":   {Seed: 7, Session: "s1", Process: "p1", Stdout: Content{Form: Lines, Body: 9}},
	"echo":    {Seed: 7, Session: "s1", Process: "p1", Stdout: Content{Form: Echo}, TTY: true},
	"answers": {Seed: 7, Session: "s1", Process: "p1", Stdout: Content{Form: Answers, Block: 100}},
	"nothing": {Seed: 7, Session: "s1", Process: "p1"},
}

// A watch is a Checker with its findings.
type watch struct {
	*Checker
	found []Finding
	seq   uint64
	spec  Spec
}

func watchOf(t interface{ Fatal(...any) }, s Spec) *watch {
	w := &watch{spec: s}
	c, err := New(s, Options{Began: began, Found: func(f Finding) { w.found = append(w.found, f) }})
	if err != nil {
		t.Fatal(err)
	}
	w.Checker = c
	return w
}

func (w *watch) event(e Event) {
	w.seq++
	e.Seq = w.seq
	w.Event(&e, began.Add(time.Second))
}

func (w *watch) output(p []byte) {
	kind := protocol.Stdout
	if w.spec.TTY {
		kind = protocol.PTY
	}
	w.event(Event{Kind: "output", Stream: kind, Data: p})
}

func (w *watch) end() {
	w.event(Event{Kind: "exited", Run: 1})
	w.event(Event{Kind: "closed"})
	w.End(began.Add(2 * time.Second))
}

func (w *watch) text() (s string) {
	for _, f := range w.found {
		s += fmt.Sprintf("%s at %d, %d bytes, seq %d: want %s, got %s, %s\n", f.Kind, f.Offset, f.Bytes, f.Seq, f.Want, f.Got, f.Detail)
	}
	return s
}

func contentOf(name string) int {
	switch name {
	case "bounded":
		return 3000
	case "nothing":
		return 0
	}
	return 2500
}

// pieces cuts p as a server may.
func pieces(t *rapid.T, p []byte) (all [][]byte) {
	most := rapid.SampledFrom([]int{1, 20, 100, 1000, 100000}).Draw(t, "most")
	for len(p) > 0 {
		n := rapid.IntRange(1, min(most, len(p))).Draw(t, "n")
		all = append(all, p[:n])
		p = p[n:]
	}
	return all
}

// A right stream has no finding, in whatever pieces.
func TestRight(t *testing.T) {
	for name, s := range specs {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				p := makeRun(s, rapid.Uint64Range(1, 1<<63).Draw(t, "number"), contentOf(name))
				w := watchOf(t, s)
				for _, q := range pieces(t, p) {
					w.output(q)
				}
				w.end()
				if len(w.found) > 0 {
					t.Fatalf("found\n%s", w.text())
				}
				if st := w.State(); st.Checked != int64(len(p)) || !st.Closed || st.PID != 4711 {
					t.Fatalf("state %+v, want %d bytes checked", st, len(p))
				}
			})
		})
	}
}

// A killed run may stop anywhere.
func TestKilled(t *testing.T) {
	for name, s := range specs {
		t.Run(name, func(t *testing.T) {
			p := makeRun(s, 5, contentOf(name))
			for n := 0; n <= len(p); n++ {
				w := watchOf(t, s)
				w.output(p[:n])
				w.Killed()
				w.event(Event{Kind: "exited", Run: 1, Code: 137, Signal: "SIGKILL"})
				w.event(Event{Kind: "closed"})
				w.End(began)
				if len(w.found) > 0 {
					t.Fatalf("killed after %d bytes: found\n%s", n, w.text())
				}
			}
		})
	}
}

// tampers are the faults of bytes. Each changes p at from, with n bytes.
var tampers = map[Kind]func(p []byte, from, n int) []byte{
	Missing: func(p []byte, from, n int) []byte { return append(bytes.Clone(p[:from]), p[from+n:]...) },
	Doubled: func(p []byte, from, n int) []byte { return append(bytes.Clone(p[:from+n]), p[from:]...) },
	Altered: func(p []byte, from, n int) []byte {
		q := bytes.Clone(p)
		for i := range n {
			q[from+i] ^= byte(1 + i%2*2) // not the other byte of a pair
		}
		return q
	},
	Reordered: func(p []byte, from, n int) []byte {
		q := append(bytes.Clone(p[:from]), p[from+n:from+2*n]...)
		return append(append(q, p[from:from+n]...), p[from+2*n:]...)
	},
	Foreign: func(p []byte, from, n int) []byte {
		return append(append(bytes.Clone(p[:from]), bytes.Repeat([]byte{0xff}, n)...), p[from:]...)
	},
}

// Each fault is found, with its kind and its place.
func TestTampered(t *testing.T) {
	for name, s := range specs {
		for kind, tamper := range tampers {
			t.Run(name+"/"+string(kind), func(t *testing.T) {
				t.Parallel()
				p := makeRun(s, 5, contentOf(name))
				rapid.Check(t, func(t *rapid.T) {
					n := rapid.SampledFrom([]int{1, 2, 7, 40, 200, 700}).Draw(t, "bytes")
					if kind == Reordered {
						n = min(n, len(p)/2)
					}
					n = min(n, len(p))
					span := n
					if kind == Reordered {
						span = 2 * n
					}
					from := rapid.IntRange(0, len(p)-span).Draw(t, "from")
					q := tamper(p, from, n)
					if bytes.Equal(p, q) {
						return
					}
					w := watchOf(t, s)
					for _, piece := range pieces(t, q) {
						w.output(piece)
					}
					w.end()
					if len(w.found) == 0 {
						t.Fatalf("%s at %d, %d bytes: nothing found", kind, from, n)
					}
					if from < stream.HelloSize || from+span > len(p)-stream.EndSize {
						return // hellos and ends have unpredictable bytes: see TestHurtEnds
					}
					if !slices.ContainsFunc(w.found, func(f Finding) bool { return f.explains(s, kind, p, q, from, n) }) {
						t.Fatalf("%s at %d, %d bytes: found\n%s", kind, from, n, w.text())
					}
				})
			})
		}
	}
}

// TestDoubledDigits: the digits of line numbers look alike, so the doubled end of a number may have a place in later lines, too. The
// finding is about the doubled bytes all the same.
func TestDoubledDigits(t *testing.T) {
	for _, name := range []string{"lines", "short", "answers"} {
		s := specs[name]
		p := makeRun(s, 5, contentOf(name))
		line := int(watchOf(t, s).out.text.line)
		for begin := stream.HelloSize; begin+line <= len(p)-stream.EndSize; begin += line {
			for from := begin; from < begin+5; from += 2 {
				n := begin + 10 - from // the rest of the number
				w := watchOf(t, s)
				q := tampers[Doubled](p, from, n)
				w.output(q[:from])
				for i := from; i < from+2*n; i++ {
					w.output(q[i : i+1])
				}
				w.output(q[from+2*n:])
				w.end()
				if len(w.found) != 1 || !w.found[0].explains(s, Doubled, p, nil, from, n) || w.found[0].Kind != Doubled || w.found[0].Bytes != int64(n) {
					t.Errorf("%s: %d bytes doubled at %d: found\n%s", name, n, from, w.text())
				}
			}
		}
	}
}

// explains reports whether a finding names the fault that made q from p. If several faults have the same outcome, any of them is right.
func (f Finding) explains(s Spec, kind Kind, p, q []byte, from, n int) bool {
	off, bytesOff := int(f.Offset)-from, int(f.Bytes)-n
	if s.Stdout.Form == Lines || s.Stdout.Form == Answers {
		// The digits of times, check sums and answers look alike, so the place is the place of the line.
		return -110 <= off && off <= 110 && (f.Kind == kind || kind == Altered || kind == Reordered)
	}
	if f.Kind != kind {
		return false
	}
	switch kind {
	case Missing, Doubled:
		return bytes.Equal(tampers[kind](p, int(f.Offset), int(f.Bytes)), q)
	case Altered, Foreign:
		return off == 0 && bytesOff == 0
	}
	return -2 <= off && off <= 2
}
