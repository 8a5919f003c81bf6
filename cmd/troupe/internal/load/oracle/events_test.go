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

// play takes the steps in turn: bytes of output, events, and calls. An event with a seq has this seq.
func (w *watch) play(steps ...any) {
	for _, step := range steps {
		switch step := step.(type) {
		case []byte:
			w.output(step)
		case Event:
			if step.Seq > 0 {
				w.seq = step.Seq - 1
			}
			w.event(step)
		case func(*watch):
			step(w)
		}
	}
}

// A row of events with a fault, and the expected findings.
func TestEvents(t *testing.T) {
	s := specs["plain"]
	s.Code = 3
	p := makeRun(s, 5, 2500)
	exited, closed := Event{Kind: "exited", Run: 1, Code: 3}, Event{Kind: "closed"}
	exit := func(code int, signal, reason string) Event {
		return Event{Kind: "exited", Code: code, Signal: signal, Reason: reason}
	}
	at := func(seq uint64, e Event) Event { e.Seq = seq; return e }
	out := func(seq uint64, p []byte) Event {
		return Event{Kind: "output", Seq: seq, Stream: protocol.Stdout, Data: p}
	}
	after := func(p []byte, more ...byte) []byte { return append(bytes.Clone(p), more...) }
	flipped := after(p[:300])
	flipped[150] ^= 1
	killed, named := func(w *watch) { w.Killed() }, func(w *watch) { w.Checker.spec.KilledCode = 137 }
	refused := func(w *watch) { w.Refused("the server refused stdin", began) }
	for name, test := range map[string]struct {
		steps []any
		want  []Kind
	}{
		"right":                       {[]any{p, exited, closed}, nil},
		"another code":                {[]any{p, exit(4, "", ""), closed}, []Kind{Exit}},
		"a signal":                    {[]any{p, exit(3, "SIGSEGV", ""), closed}, []Kind{Exit}},
		"a signal after a kill":       {[]any{p[:300], killed, exit(0, "SIGKILL", ""), closed}, nil},
		"another code after a kill":   {[]any{p[:300], killed, exit(77, "", ""), closed}, []Kind{Exit}},
		"another signal after a kill": {[]any{p[:300], killed, exit(137, "SIGSEGV", ""), closed}, []Kind{Exit}},
		"a kill on a server that names no signals":     {[]any{p[:300], killed, named, exit(137, "", ""), closed}, nil},
		"a kill that came too late":                    {[]any{p, killed, exited, closed}, nil},
		"a kill that came too late, and a missing end": {[]any{p[:300], killed, exited, closed}, []Kind{Missing}},
		"a kill after exited, and a missing end":       {[]any{p[:300], exited, killed, closed}, []Kind{Missing}},
		"no exited":                                    {[]any{p, closed}, []Kind{LostExit}},
		"a lost exited":                                {[]any{p, at(3, closed)}, []Kind{SeqHole, LostExit}},
		"no closed":                                    {[]any{p, exited}, []Kind{LostExit}},
		"nothing":                                      {nil, []Kind{Missing, LostExit}},
		"exited and closed swapped":                    {[]any{p, at(3, closed), at(2, exited)}, []Kind{SeqHole, SeqAgain, Order}},
		"their seqs, too":                              {[]any{p, closed, exited}, []Kind{Order}},
		"exited twice":                                 {[]any{p, exited, exited, closed}, []Kind{Order}},
		"late output":                                  {[]any{p[:900], exited, p[900:], closed}, []Kind{Order}},
		"output after closed":                          {[]any{p, exited, closed, []byte("x")}, []Kind{Order}},
		"a seq again":                                  {[]any{p[:900], out(1, p[900:]), exited, closed}, []Kind{SeqAgain}},
		"an event again":                               {[]any{p[:500], p[500:900], out(2, p[500:900]), p[900:], exited, closed}, []Kind{SeqAgain, Doubled}},
		"an event lost":                                {[]any{p[:500], out(3, p[900:]), exited, closed}, []Kind{SeqHole, Missing}},
		"no end":                                       {[]any{p[:len(p)-stream.EndSize], exited, closed}, []Kind{Missing}},
		"half an end":                                  {[]any{p[:len(p)-9], exited, closed}, []Kind{Missing}},
		"an end by the server itself":                  {[]any{p[:300], refused, exit(143, "SIGTERM", "timed out"), closed}, nil},
		"a wrong byte before an end by the server itself": {[]any{flipped, exit(143, "SIGTERM", "timed out"), closed}, []Kind{Altered}},
		"refused stdin":                        {[]any{refused, p, exited, closed}, []Kind{Answer}},
		"refused stdin, told after closed":     {[]any{p, exited, closed, refused}, []Kind{Answer}},
		"a wrong stream":                       {[]any{Event{Kind: "output", Stream: protocol.Stderr, Data: p}, p, exited, closed}, []Kind{Foreign}},
		"marks of unknown bytes after the end": {[]any{after(p, aDigit, aHex, aLetter, nothing), exited, closed}, []Kind{Foreign}},
		"nothing after the end":                {[]any{after(p, nothing, nothing), exited, closed}, []Kind{Foreign}},
		"restarted":                            {[]any{p, exited, Event{Kind: "restarted", Run: 2}, makeRun(s, 6, 99), Event{Kind: "exited", Code: 3, Run: 2}, closed}, []Kind{Order}},
		"evicted":                              {[]any{p[:300], Event{Kind: "evicted"}, closed}, []Kind{Exit}},
		"bytes of a sister":                    {[]any{p[:500], makeRun(Spec{Seed: 7, Session: "s2", Process: "p1", Stdout: s.Stdout}, 9, 500)[100:300], p[500:], exited, closed}, []Kind{Foreign}},
		"a gap":                                {[]any{p[:500], Event{Kind: "gap", Seq: 5, From: 2}, p[900:], exited, closed}, []Kind{Missing, Missing}}, // that there is a gap, and its bytes
	} {
		t.Run(name, func(t *testing.T) {
			w := watchOf(t, s)
			w.play(test.steps...)
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
			for i := 0; i < 800; i += 100 {
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
		gap := func(seq, from, bytes uint64) Event { return Event{Kind: "gap", Seq: seq, From: from, Bytes: bytes} }
		for test, c := range map[string]struct {
			gaps []any
			want []Kind
		}{
			"right":                {[]any{gap(20, 2, 400)}, nil},
			"unknown":              {[]any{gap(20, 2, 0)}, nil},
			"two":                  {[]any{gap(20, 2, 100), gap(0, 0, 300)}, nil},
			"two, and one unknown": {[]any{gap(20, 2, 100), gap(0, 0, 0)}, nil},
			"less":                 {[]any{gap(20, 2, 10)}, []Kind{Missing}},
			"more":                 {[]any{gap(20, 2, 4000)}, []Kind{Order}},
			"of no event":          {[]any{gap(1, 2, 0)}, []Kind{Order}},
		} {
			w := watchOf(t, s)
			w.output(p[:900])
			w.play(c.gaps...)
			w.output(p[1300:])
			w.end()
			w.want(t, c.want...)
			if t.Failed() {
				t.Fatalf("%s: %s", name, test)
			}
			if len(w.found) == 1 && c.want[0] == Missing && (w.found[0].Offset != 910 || w.found[0].Bytes != 390) {
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
