package oracle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/stream"
	"github.com/b6f6fdd7/troupe/protocol"
)

// want fails the test unless exactly these kinds were found, in this order.
func (w *watch) want(t *testing.T, kinds ...Kind) {
	t.Helper()
	var got []Kind
	for _, f := range w.found {
		got = append(got, f.Kind)
	}
	if fmt.Sprint(got) != fmt.Sprint(kinds) {
		t.Errorf("found %v, want %v:\n%s", got, kinds, w.text())
	}
}

func (w *watch) at(seq uint64, e Event) {
	w.seq = seq - 1
	w.event(e)
}

// A row of events with a fault, and the expected findings.
func TestEvents(t *testing.T) {
	s := specs["plain"]
	s.Code = 3
	p := makeRun(s, 5, 2500)
	exited, closed := Event{Kind: "exited", Run: 1, Code: 3}, Event{Kind: "closed"}
	tests := map[string]struct {
		do   func(w *watch)
		want []Kind
	}{
		"right":        {func(w *watch) { w.output(p); w.event(exited); w.event(closed) }, nil},
		"another code": {func(w *watch) { w.output(p); w.event(Event{Kind: "exited", Code: 4}); w.event(closed) }, []Kind{Exit}},
		"a signal": {func(w *watch) {
			w.output(p)
			w.event(Event{Kind: "exited", Code: 3, Signal: "SIGSEGV"})
			w.event(closed)
		}, []Kind{Exit}},
		"a signal after a kill": {func(w *watch) {
			w.output(p[:300])
			w.Killed()
			w.event(Event{Kind: "exited", Signal: "SIGKILL"})
			w.event(closed)
		}, nil},
		"another code after a kill": {func(w *watch) {
			w.output(p[:300])
			w.Killed()
			w.event(Event{Kind: "exited", Code: 77})
			w.event(closed)
		}, []Kind{Exit}},
		"another signal after a kill": {func(w *watch) {
			w.output(p[:300])
			w.Killed()
			w.event(Event{Kind: "exited", Code: 137, Signal: "SIGSEGV"})
			w.event(closed)
		}, []Kind{Exit}},
		"a kill on a server that names no signals": {func(w *watch) {
			w.output(p[:300])
			w.Killed()
			w.Checker.spec.KilledCode = 137
			w.event(Event{Kind: "exited", Code: 137})
			w.event(closed)
		}, nil},
		"a kill that came too late": {func(w *watch) {
			w.output(p)
			w.Killed()
			w.event(exited)
			w.event(closed)
		}, nil},
		"a kill that came too late, and a missing end": {func(w *watch) {
			w.output(p[:300])
			w.Killed()
			w.event(exited)
			w.event(closed)
		}, []Kind{Missing}},
		"a kill after exited, and a missing end": {func(w *watch) {
			w.output(p[:300])
			w.event(exited)
			w.Killed()
			w.event(closed)
		}, []Kind{Missing}},
		"no exited":                 {func(w *watch) { w.output(p); w.event(closed) }, []Kind{LostExit}},
		"a lost exited":             {func(w *watch) { w.output(p); w.at(3, closed) }, []Kind{SeqHole, LostExit}},
		"no closed":                 {func(w *watch) { w.output(p); w.event(exited) }, []Kind{LostExit}},
		"nothing":                   {func(w *watch) {}, []Kind{Missing, LostExit}},
		"exited and closed swapped": {func(w *watch) { w.output(p); w.at(3, closed); w.at(2, exited) }, []Kind{SeqHole, SeqAgain, Order}},
		"their seqs, too":           {func(w *watch) { w.output(p); w.event(closed); w.event(exited) }, []Kind{Order}},
		"exited twice":              {func(w *watch) { w.output(p); w.event(exited); w.event(exited); w.event(closed) }, []Kind{Order}},
		"late output":               {func(w *watch) { w.output(p[:900]); w.event(exited); w.output(p[900:]); w.event(closed) }, []Kind{Order}},
		"output after closed":       {func(w *watch) { w.output(p); w.event(exited); w.event(closed); w.output([]byte("x")) }, []Kind{Order}},
		"a seq again": {func(w *watch) {
			w.output(p[:900])
			w.at(1, Event{Kind: "output", Stream: protocol.Stdout, Data: p[900:]})
			w.event(exited)
			w.event(closed)
		}, []Kind{SeqAgain}},
		"an event again": {func(w *watch) {
			w.output(p[:500])
			w.output(p[500:900])
			w.at(2, Event{Kind: "output", Stream: protocol.Stdout, Data: p[500:900]})
			w.output(p[900:])
			w.event(exited)
			w.event(closed)
		}, []Kind{SeqAgain, Doubled}},
		"an event lost": {func(w *watch) {
			w.output(p[:500])
			w.at(3, Event{Kind: "output", Stream: protocol.Stdout, Data: p[900:]})
			w.event(exited)
			w.event(closed)
		}, []Kind{SeqHole, Missing}},
		"no end":      {func(w *watch) { w.output(p[:len(p)-stream.EndSize]); w.event(exited); w.event(closed) }, []Kind{Missing}},
		"half an end": {func(w *watch) { w.output(p[:len(p)-9]); w.event(exited); w.event(closed) }, []Kind{Missing}},
		"an end by the server itself": {func(w *watch) {
			w.output(p[:300])
			w.Refused("the server refused stdin", began)
			w.event(Event{Kind: "exited", Signal: "SIGTERM", Code: 143, Reason: "timed out"})
			w.event(closed)
		}, nil},
		"a wrong byte before an end by the server itself": {func(w *watch) {
			q := bytes.Clone(p[:300])
			q[150] ^= 1
			w.output(q)
			w.event(Event{Kind: "exited", Signal: "SIGTERM", Code: 143, Reason: "timed out"})
			w.event(closed)
		}, []Kind{Altered}},
		"refused stdin": {func(w *watch) {
			w.Refused("the server refused stdin", began)
			w.output(p)
			w.event(exited)
			w.event(closed)
		}, []Kind{Answer}},
		"refused stdin, told after closed": {func(w *watch) {
			w.output(p)
			w.event(exited)
			w.event(closed)
			w.Refused("the server refused stdin", began)
		}, []Kind{Answer}},
		"a wrong stream": {func(w *watch) {
			w.event(Event{Kind: "output", Stream: protocol.Stderr, Data: p})
			w.output(p)
			w.event(exited)
			w.event(closed)
		}, []Kind{Foreign}},
		"marks of unknown bytes after the end": {func(w *watch) {
			w.output(append(bytes.Clone(p), aDigit, aHex, aLetter, nothing))
			w.event(exited)
			w.event(closed)
		}, []Kind{Foreign}},
		"nothing after the end": {func(w *watch) {
			w.output(append(bytes.Clone(p), nothing, nothing))
			w.event(exited)
			w.event(closed)
		}, []Kind{Foreign}},
		"restarted": {func(w *watch) {
			w.output(p)
			w.event(exited)
			w.event(Event{Kind: "restarted", Run: 2})
			w.output(makeRun(s, 6, 99))
			w.event(Event{Kind: "exited", Code: 3, Run: 2})
			w.event(closed)
		}, []Kind{Order}},
		"evicted": {func(w *watch) { w.output(p[:300]); w.event(Event{Kind: "evicted"}); w.event(closed) }, []Kind{Exit}},
		"bytes of a sister": {func(w *watch) {
			w.output(p[:500])
			w.output(makeRun(Spec{Seed: 7, Session: "s2", Process: "p1", Stdout: s.Stdout}, 9, 500)[100:300])
			w.output(p[500:])
			w.event(exited)
			w.event(closed)
		}, []Kind{Foreign}},
		"a gap": {func(w *watch) {
			w.output(p[:500])
			w.at(5, Event{Kind: "gap", From: 2})
			w.output(p[900:])
			w.event(exited)
			w.event(closed)
		}, []Kind{Missing, Missing}}, // that there is a gap, and its bytes
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := watchOf(t, s)
			test.do(w)
			w.End(began)
			w.want(t, test.want...)
			for _, f := range w.found {
				if f.Session != "s1" || f.Process != "p1" || f.Run != 1 {
					t.Errorf("the place of %+v", f)
				}
			}
		})
	}
}

// A process has several runs, and stderr beside stdout. Bytes of an earlier run in a later run are found.
func TestRuns(t *testing.T) {
	s := Spec{Seed: 7, Session: "s1", Process: "p1", Stdout: Content{Form: Lines, Body: 40}, Stderr: Content{Form: Plain, Bytes: 700}, Restarts: true}
	base := stream.Of(7, "s1", "p1", 0, "")
	for _, mixed := range []bool{false, true} {
		w := watchOf(t, s)
		var before []byte
		for run := 1; run <= 3; run++ {
			out := makeRun(s, uint64(run*77), 900)
			key := base.Run(uint64(run*77), "stderr")
			errs := appendContent(nil, s.Stderr, base, key, 700)
			w.event(Event{Kind: "output", Stream: protocol.Stderr, Data: errs[:300]}) // before the hello
			w.output(out[:400])
			w.event(Event{Kind: "output", Stream: protocol.Stderr, Data: errs[300:]})
			if mixed && run == 3 {
				w.output(before[200:300])
			}
			w.output(out[400:])
			before = out
			w.event(Event{Kind: "exited", Run: run})
			if run < 3 {
				w.event(Event{Kind: "restarted", Run: run + 1})
			}
		}
		w.event(Event{Kind: "closed"})
		w.End(began)
		if !mixed {
			w.want(t)
			continue
		}
		w.want(t, Foreign)
		if f := w.found[0]; f.Run != 3 || f.Offset != 400 || f.Bytes != 100 || !strings.Contains(f.Detail, "run before") {
			t.Errorf("found %+v", f)
		}
	}
}

// After a resume events may come again, and must be the same.
func TestRepeats(t *testing.T) {
	s := specs["plain"]
	p := makeRun(s, 5, 2500)
	for _, from := range []uint64{0, 1, 2, 4} {
		for _, wrong := range []int{-1, 620} { // the index of a wrong byte in a repeat
			w := watchOf(t, s)
			for i := 0; i < 400; i += 100 {
				w.output(p[i : i+100])
			}
			for i := 400; i < 800; i += 100 {
				w.output(p[i : i+100])
			}
			w.Event(&Event{Kind: "resumed", Seq: from}, began)
			w.seq = from
			for i := int(from) * 100; i < len(p); i += 100 {
				q := bytes.Clone(p[i:min(i+100, len(p))])
				if i <= wrong && wrong < i+100 {
					q[wrong-i] ^= 1
				}
				w.output(q)
			}
			w.end()
			if wrong < 0 {
				w.want(t)
				continue
			}
			w.want(t, Altered)
			if w.found[0].Offset != 620 {
				t.Errorf("found %+v", w.found[0])
			}
		}
	}
	w := watchOf(t, s)
	w.output(p[:100])
	w.output(p[100:200])
	w.Event(&Event{Kind: "resumed", Seq: 2}, began)
	w.at(4, Event{Kind: "output", Stream: protocol.Stdout, Data: p[300:]}) // the resume lost an event
	w.end()
	w.want(t, SeqHole, Missing)
}

// A gap says how many bytes are missing. A gap of nothing, or of another number of bytes, is found.
func TestGapBytes(t *testing.T) {
	for _, name := range []string{"plain", "lines"} {
		s := specs[name]
		s.Observer = true
		p := makeRun(s, 5, 2500)
		for test, do := range map[string]func(w *watch) (want []Kind){
			"right":   func(w *watch) []Kind { w.at(20, Event{Kind: "gap", From: 2, Bytes: 400}); return nil },
			"unknown": func(w *watch) []Kind { w.at(20, Event{Kind: "gap", From: 2}); return nil },
			"two": func(w *watch) []Kind {
				w.at(20, Event{Kind: "gap", From: 2, Bytes: 100})
				w.event(Event{Kind: "gap", Bytes: 300})
				return nil
			},
			"two, and one unknown": func(w *watch) []Kind {
				w.at(20, Event{Kind: "gap", From: 2, Bytes: 100})
				w.event(Event{Kind: "gap"})
				return nil
			},
			"less": func(w *watch) []Kind { w.at(20, Event{Kind: "gap", From: 2, Bytes: 10}); return []Kind{Missing} },
			"more": func(w *watch) []Kind { w.at(20, Event{Kind: "gap", From: 2, Bytes: 4000}); return []Kind{Order} },
			"of no event": func(w *watch) []Kind {
				w.Event(&Event{Kind: "gap", From: 2, Seq: 1}, began)
				return []Kind{Order}
			},
		} {
			w := watchOf(t, s)
			w.output(p[:900])
			want := do(w)
			w.output(p[1300:])
			w.end()
			w.want(t, want...)
			if t.Failed() {
				t.Fatalf("%s: %s", name, test)
			}
			if len(w.found) == 1 && want[0] == Missing && (w.found[0].Offset != 910 || w.found[0].Bytes != 390) {
				t.Errorf("found %s", w.text())
			}
		}
	}
}

// TestFalseGap: the server owes its client each byte, so bytes lost in a gap are missing, whatever the gap says of them. Bytes that a gap
// declares lost, and that come all the same, are wrong, too.
func TestFalseGap(t *testing.T) {
	for _, name := range []string{"plain", "lines", "short", "echo", "answers"} {
		s := specs[name]
		p := makeRun(s, 5, 2500)
		for _, told := range []uint64{0, 300, 400, 500} {
			for test, c := range map[string]struct {
				from, to int   // the lost bytes
				kill     bool  // the program, at the end of the gap
				want     int64 // wrong bytes
			}{
				"in the middle":   {900, 1300, false, 400},
				"of no byte":      {900, 900, false, int64(told)},
				"before the end":  {2300, len(p), false, int64(told)},
				"before the kill": {900, len(p), true, int64(told)},
			} {
				w := watchOf(t, s)
				w.output(p[:c.from])
				w.at(20, Event{Kind: "gap", From: 2, Bytes: told})
				w.output(p[c.to:])
				if c.kill {
					w.Killed()
					w.event(Event{Kind: "exited", Run: 1, Code: 137, Signal: "SIGKILL"})
					w.event(Event{Kind: "closed"})
				} else {
					w.event(Event{Kind: "exited", Run: 1})
					w.event(Event{Kind: "closed"})
				}
				w.End(began)
				if test == "in the middle" && told > 400 {
					c.want += int64(told) - 400 // which came all the same
				}
				got := int64(0)
				for _, f := range w.found {
					got += f.WrongBytes()
					if r := f.again(); !r.Found {
						t.Errorf("%s, a gap %s: a replay does not find %s at %d, %d bytes again", name, test, f.Kind, f.Offset, f.Bytes)
					}
				}
				if got != c.want {
					t.Errorf("%s, a gap %s of %d bytes that tells of %d: %d bytes are wrong, want %d:\n%s", name, test, c.to-c.from, told, got, c.want, w.text())
				}
			}
		}
	}
}

// After whole lines are missing, the begin of a line before them and the end of a line after them are no line.
func TestWholeLinesMissing(t *testing.T) {
	s := specs["lines"]
	line := stream.LineExtra + s.Stdout.Body
	p := makeRun(s, 5, 50*line)
	for at := stream.HelloSize + 10*line; at < stream.HelloSize+11*line; at++ {
		for _, gap := range []bool{false, true} {
			if !gap && (at-stream.HelloSize)%line >= line-10 {
				continue // nobody can tell that the rest of a check sum is of another line
			}
			s.Observer = gap
			w := watchOf(t, s)
			w.output(p[:at])
			want := []Kind{SeqHole, Missing}
			if gap {
				w.at(3, Event{Kind: "gap", From: 2, Bytes: uint64(2 * line)})
				want = nil
			} else {
				w.seq = 3
			}
			w.output(p[at+2*line:])
			w.end()
			w.want(t, want...)
			if t.Failed() {
				t.Fatalf("from %d on, gap %v", at, gap)
			}
		}
	}
}

// An observer may miss the output of a gap, also at the begin, and nothing else.
func TestObserver(t *testing.T) {
	for _, name := range []string{"plain", "lines", "short"} {
		s := specs[name]
		s.Observer = true
		p := makeRun(s, 5, 2500)
		w := watchOf(t, s)
		w.output(p[:900])
		w.at(20, Event{Kind: "gap", From: 2})
		w.output(p[1300:1700])
		w.output(p[1700:])
		w.end()
		w.want(t)
		if st := w.State(); st.Checked < 1500 {
			t.Errorf("%s: %d bytes checked", name, st.Checked)
		}
		w = watchOf(t, s)
		w.at(6, Event{Kind: "gap", From: 1})
		w.output(p[333:900])
		w.output(p[900:])
		w.end()
		w.want(t)
		w = watchOf(t, s)
		w.at(2, Event{Kind: "output", Stream: protocol.Stdout, Data: p})
		w.end()
		w.want(t, SeqHole)
		garbage := bytes.Repeat([]byte("garbage "), 10000)
		w = watchOf(t, s)
		w.output(p[:900])
		w.at(20, Event{Kind: "gap", From: 2})
		w.output(garbage)
		w.end()
		w.want(t, Foreign)
		if len(w.found) != 1 || w.found[0].Bytes != int64(len(garbage)) {
			t.Errorf("%s: %d bytes without a place after a gap: found\n%s", name, len(garbage), w.text())
		}
		w = watchOf(t, s)
		w.output(p[:900])
		w.at(20, Event{Kind: "gap", From: 2})
		w.output(append(bytes.Clone(garbage[:100]), p[1300:]...))
		w.end()
		w.want(t, Foreign)
		if len(w.found) != 1 || w.found[0].Bytes != 100 || w.found[0].Offset != 1200 {
			t.Errorf("%s: 100 bytes after a gap, and before the bytes from 1300 on: found\n%s", name, w.text())
		}
		for n := range 300 { // the program is killed, and n bytes do not tell their place for certain
			for _, from := range []int{1000, len(p) - 200} {
				w = watchOf(t, s)
				w.output(p[:900])
				w.at(20, Event{Kind: "gap", From: 2})
				w.output(p[from:min(from+n, len(p))])
				w.Killed()
				w.event(Event{Kind: "exited", Run: 1, Code: 137, Signal: "SIGKILL"})
				w.event(Event{Kind: "closed"})
				w.End(began)
				w.want(t)
			}
		}
	}
}

// Faults in the stdin of the program.
func TestStdin(t *testing.T) {
	s := specs["answers"]
	p := makeRun(s, 5, 2500)
	var n int64
	w := watchOf(t, s)
	w.o.Answer = func(bytes int64, end bool, _ time.Time) { n = bytes }
	w.output(p)
	w.Typed(n)
	w.end()
	w.want(t)
	if n != 2900 {
		t.Errorf("%d bytes answered", n)
	}
	w = watchOf(t, s)
	w.output(p)
	w.Typed(n + 5)
	w.end()
	w.want(t, Stdin)
	if f := w.found[0]; f.Offset != n || f.Bytes != 5 {
		t.Errorf("found %+v", f)
	}
	key := stream.Of(7, "s1", "p1", 0, "").Run(5, "stdout")
	wrong := makeRun(s, 5, 1)[:stream.HelloSize]
	wrong = key.AppendAnswer(wrong, 0, began, stream.Answer{Bytes: 100, Digest: 5, Wrong: 42})
	w = watchOf(t, s)
	w.output(wrong)
	w.Abandon(began)
	w.want(t, Stdin)
	if f := w.found[0]; f.Offset != 42 {
		t.Errorf("found %+v", f)
	}
}

// The lag of each line is told, and findings can be replayed from their file.
func TestReplay(t *testing.T) {
	var file bytes.Buffer
	count := 0
	for name, s := range specs {
		for _, tamper := range tampers {
			p := makeRun(s, 5, contentOf(name))
			if len(p) < 1200 {
				continue
			}
			w := watchOf(t, s)
			for part := range slices.Chunk(tamper(p, 1000, 100), 300) {
				w.output(part)
			}
			w.at(w.seq+3, Event{Kind: "exited", Code: 9})
			w.event(Event{Kind: "exited", Code: 9})
			w.End(began)
			for _, f := range w.found {
				count++
				if err := json.NewEncoder(&file).Encode(f); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	w := watchOf(t, specs["plain"])
	w.output(makeRun(specs["plain"], 5, 2500))
	w.event(Event{Kind: "closed"})
	w.End(began)
	w.want(t, LostExit)
	count++
	if err := json.NewEncoder(&file).Encode(w.found[0]); err != nil {
		t.Fatal(err)
	}
	n := 0
	err := Replay(&file, func(i int, r Replayed) error {
		n++
		if !r.Found && r.Finding.Kind != Stdin {
			t.Errorf("finding %d, %s at %d of a %q: %s: %v", i, r.Finding.Kind, r.Finding.Offset, r.Finding.Spec.Stdout.Form, r.Why, len(r.Again))
		}
		return nil
	})
	if err != nil || n != count || n < 20 {
		t.Errorf("%d of %d findings, %v", n, count, err)
	}
	if err := Replay(strings.NewReader("{"), func(int, Replayed) error { return nil }); err == nil {
		t.Error("half a text is no error")
	}
}

// TestReplayOfRightBytes: with the right bytes in their place, the events of a finding show no fault, though they end before the stream does.
func TestReplayOfRightBytes(t *testing.T) {
	for name, s := range specs {
		for kind, tamper := range tampers {
			p := makeRun(s, 5, contentOf(name))
			if len(p) < 1200 {
				continue
			}
			w := watchOf(t, s)
			for part := range slices.Chunk(tamper(p, 1000, 100), 300) {
				w.output(part)
			}
			w.end()
			for _, f := range w.found {
				var at int64
				for i := range f.Replay {
					switch e := &f.Replay[i]; e.Kind {
					case replayBegin:
						at = e.Offset
					case "output":
						e.Data = p[at:min(at+int64(len(e.Data)), int64(len(p)))]
						at += int64(len(e.Data))
					}
				}
				if r := f.again(); f.Kind != Stdin && r.Found {
					t.Errorf("%s, %s: %s at %d is found again in right bytes: %+v", name, kind, f.Kind, f.Offset, r.Again)
				}
			}
		}
	}
}

func TestLag(t *testing.T) {
	var printed []time.Time
	s := specs["lines"]
	w := watchOf(t, s)
	w.o.Line = func(at, _ time.Time) { printed = append(printed, at) }
	w.output(makeRun(s, 5, 300))
	if len(printed) != 6 || !printed[2].Equal(began.Add(777777*time.Microsecond)) { // a hello, 4 lines, an end
		t.Errorf("lines were printed at %v", printed)
	}
}

func TestSpecsThatCannotBe(t *testing.T) {
	for _, s := range []Spec{
		{Stdout: Content{Form: "x"}}, {Stdout: Content{Form: Lines}}, {Stdout: Content{Form: Plain, Bytes: -1}},
		{Stderr: Content{Form: Echo}}, {TTY: true, Stderr: Content{Form: Plain}},
	} {
		if _, err := New(s, Options{}); err == nil {
			t.Errorf("New takes %+v", s)
		}
	}
}

func BenchmarkPlain(b *testing.B) { bench(b, Content{Form: Plain}, 64<<10) }
func BenchmarkSmall(b *testing.B) { bench(b, Content{Form: Plain}, 200) }
func BenchmarkLines(b *testing.B) { bench(b, Content{Form: Lines, Body: 80}, 64<<10) }

// bench checks a long content in events of a size.
func bench(b *testing.B, content Content, size int) {
	s := Spec{Seed: 7, Session: "s1", Process: "p1", Stdout: content}
	p := makeRun(s, 5, 16<<20)
	p = p[:len(p)-stream.EndSize]
	c, _ := New(s, Options{})
	e := Event{Kind: "output", Stream: protocol.Stdout}
	rest := p
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		if len(rest) < size {
			b.StopTimer()
			c, _ = New(s, Options{})
			e.Seq, rest = 0, p
			b.StartTimer()
		}
		e.Seq++
		e.Data = rest[:size]
		c.Event(&e, began)
		rest = rest[size:]
	}
	if c.State().Wrong > 0 {
		b.Fatal("something was found")
	}
}
