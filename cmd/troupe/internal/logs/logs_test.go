package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testbuf"
)

var start = time.Unix(1_800_000_000, 0).UTC()

// log is the log of a process on a fake server. An entry is output, or else an event.
type log struct {
	mu      sync.Mutex
	entries []any // protocol.Chunk or protocol.ReadEvent; entries[i] has seq i+1
	times   []int64
	first   uint64 // the oldest seq held
	closed  bool
	err     error
	grown   chan struct{} // closed when something is added
}

func newLog() *log { return &log{first: 1, grown: make(chan struct{})} }

func (l *log) add(at time.Duration, entry any) *log {
	l.mu.Lock()
	defer l.mu.Unlock()
	seq := uint64(len(l.entries)) + 1
	switch e := entry.(type) {
	case string:
		entry = protocol.Chunk{Seq: seq, Stream: protocol.Stdout, Chunk: []byte(e)}
	case protocol.Chunk:
		e.Seq = seq
		entry = e
	case protocol.ReadEvent:
		e.Seq, e.AtMs = seq, start.Add(at).UnixMilli()
		l.closed = l.closed || e.Kind == protocol.EventClosed
		entry = e
	}
	l.entries, l.times = append(l.entries, entry), append(l.times, start.Add(at).UnixMilli())
	close(l.grown)
	l.grown = make(chan struct{})
	return l
}

func stderr(text string) protocol.Chunk {
	return protocol.Chunk{Stream: protocol.Stderr, Chunk: []byte(text)}
}

func (l *log) close() *log { return l.add(0, protocol.ReadEvent{Kind: protocol.EventClosed}) }

// read answers with two entries at most.
func (l *log) read(ctx context.Context, o *client.ReadOptions) (protocol.ProcessReadResult, error) {
	for deadline := time.After(o.Wait); ; {
		l.mu.Lock()
		r := protocol.ProcessReadResult{FirstSeq: l.first, Closed: l.closed, NextSeq: max(o.After, l.first-1) + 1}
		for ; r.NextSeq <= uint64(len(l.entries)) && r.NextSeq <= max(o.After, l.first-1)+2; r.NextSeq++ {
			switch e := l.entries[r.NextSeq-1].(type) {
			case protocol.Chunk:
				r.Chunks, r.TimesMs = append(r.Chunks, e), append(r.TimesMs, l.times[r.NextSeq-1])
			case protocol.ReadEvent:
				r.Events = append(r.Events, e)
			}
		}
		grown, err := l.grown, l.err
		l.mu.Unlock()
		if err != nil || r.NextSeq > o.After+1 || r.Closed || o.Wait == 0 {
			return r, err
		}
		select {
		case <-grown:
		case <-deadline:
			return r, nil
		case <-ctx.Done():
			return r, ctx.Err()
		}
	}
}

// follow passes on what comes after a seq until the end, or until l.err is set.
func (l *log) follow(ctx context.Context, after uint64, to Viewer) error {
	for {
		l.mu.Lock()
		first, entries, grown, closed, err := l.first, l.entries, l.grown, l.closed, l.err
		l.mu.Unlock()
		switch {
		case err != nil:
			return err
		case after+1 < first:
			to.Gap(client.GapError{FromSeq: after + 1, ToSeq: first - 1, Reason: "dropped"})
			after = first - 1
		case after < uint64(len(entries)):
			after++
			switch e := entries[after-1].(type) {
			case protocol.Chunk:
				if err := to.Output(time.UnixMilli(l.times[after-1]), e.Stream, e.Chunk); err != nil {
					return err
				}
			case protocol.ReadEvent:
				to.News(e)
			}
		case closed:
			return nil
		default:
			select {
			case <-grown:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// text prints the logs of some processes. The names of the processes are a, b and so on.
func text(t *testing.T, o Options, p *Printer, logs ...*log) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), &out, o, p, logs...); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func run(ctx context.Context, out io.Writer, o Options, p *Printer, logs ...*log) error {
	var sources []Source
	for i, l := range logs {
		l.mu.Lock()
		sources = append(sources, Source{Read: l.read, Follow: l.follow, Last: uint64(len(l.entries))})
		l.mu.Unlock()
		p.Names = append(p.Names, string(rune('a'+i)))
	}
	p.Out.Writer, p.Notes = out, notes{out}
	err := Merge(ctx, sources, o, p, func(source int, err error) { fmt.Fprintf(out, "%s failed: %v\n", p.Names[source], err) })
	return errors.Join(err, p.End())
}

// printer returns a Printer for the process a.
func printer(out io.Writer) *Printer {
	return &Printer{Out: show.Out{Writer: out}, Notes: notes{out}, Names: []string{"a"}}
}

// failing is a Writer that fails.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// notes marks the text for stderr.
type notes struct{ io.Writer }

func (n notes) Write(p []byte) (int, error) { fmt.Fprintf(n.Writer, "# %s", p); return len(p), nil }

var all = Options{Tail: -1}

func TestOne(t *testing.T) {
	l := func() *log {
		return newLog().add(1*time.Second, "one\ntw").add(2*time.Second, stderr("err\n")).add(3*time.Second, "o\nthree").
			add(4*time.Second, protocol.ReadEvent{Kind: protocol.EventExited, Status: &protocol.ExitStatus{ExitCode: 3}}).
			add(5*time.Second, protocol.ReadEvent{Kind: protocol.EventRestarted, Run: 2, Reason: "exit code 3"}).
			add(6*time.Second, "four\n").close()
	}
	for _, c := range []struct {
		name string
		o    Options
		p    *Printer
		want string
	}{
		{"all", all, &Printer{}, "one\nerr\ntwo\nthree\n# a: exited: exit code 3\n# a: run 2 begins: exit code 3\nfour\n"},
		{"follow", Options{Tail: -1, Follow: true}, &Printer{}, "one\nerr\ntwo\nthree\n# a: exited: exit code 3\n# a: run 2 begins: exit code 3\nfour\n"},
		{"raw", Options{Tail: -1, Chunks: true}, &Printer{Raw: true}, "one\ntwerr\no\nthree# a: exited: exit code 3\n# a: run 2 begins: exit code 3\nfour\n"},
		{"tail", Options{Tail: 2}, &Printer{}, "# a: run 2 begins: exit code 3\nfour\n"},
		{"tail 0", Options{Tail: 0}, &Printer{}, ""},
		{"tail without notes", Options{Tail: 2, Bare: true}, &Printer{}, "three\nfour\n"},
		{"cut", Options{Tail: 2}, &Printer{Cut: 3, News: true}, "ru…\nfo…\n"},
		{"stderr", Options{Tail: -1, Stream: protocol.Stderr}, &Printer{}, "err\n# a: exited: exit code 3\n# a: run 2 begins: exit code 3\n"},
		{"since a time", Options{Tail: -1, Since: start.Add(3 * time.Second)}, &Printer{}, "three\n# a: exited: exit code 3\n# a: run 2 begins: exit code 3\nfour\n"},
		{"since a seq", Options{Tail: -1, After: 5}, &Printer{}, "four\n"},
		{"timestamps", Options{Tail: 1}, &Printer{Timestamps: true}, start.Add(6*time.Second).Local().Format("2006-01-02T15:04:05.000Z07:00") + " four\n"},
	} {
		if got := text(t, c.o, c.p, l()); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestHarmless(t *testing.T) {
	l := newLog().add(0, "a\x1b[2Jb\x1b[31mred\x1b[0m\r\n\xe6\x97").add(0, "\xa5\n").close()
	if got := text(t, all, &Printer{}, l); got != "a\\x1b[2Jbred\n日\n" {
		t.Errorf("%q", got)
	}
	if got := text(t, Options{Tail: -1, Chunks: true}, &Printer{Raw: true}, l); got != "a\x1b[2Jb\x1b[31mred\x1b[0m\r\n日\n" {
		t.Errorf("raw: %q", got)
	}
}

// The tail of a long log is read from its end on: few reads however long the log.
func TestTailOfALongLog(t *testing.T) {
	l := newLog()
	for i := range 5000 {
		l.add(0, fmt.Sprintf("%d\nhalf", i))
		l.add(0, stderr("x"))
	}
	l.close()
	for _, c := range []struct {
		o     Options
		want  string
		reads int // each has two entries
	}{
		{Options{Tail: 1}, "xxx", 100},
		{Options{Tail: 3}, "half4999\nhalf\nxxx", 100},
		{Options{Tail: 3, Stream: protocol.Stdout}, "half4998\nhalf4999\nhalf", 100},
		{Options{Tail: 1, Stream: protocol.Stderr}, strings.Repeat("x", 5000), 12000},
		{Options{Tail: 400, Stream: protocol.Stdout}, "half4601\n", 3000},
	} {
		reads := 0
		read := func(ctx context.Context, o *client.ReadOptions) (protocol.ProcessReadResult, error) {
			reads++
			return l.read(ctx, o)
		}
		var out bytes.Buffer
		err := Merge(t.Context(), []Source{{Read: read, Last: uint64(len(l.entries))}}, c.o, printer(&out), func(_ int, err error) { t.Error(err) })
		if text := out.String(); err != nil || !strings.HasPrefix(text, c.want) || reads > c.reads {
			t.Errorf("%+v: %.40q after %d reads, %v; want %.40q after %d at most", c.o, text, reads, err, c.want, c.reads)
		}
	}
}

// With Reach, the tail of a log without lines is read from near its end alone, and a line that begins before has a mark.
func TestReach(t *testing.T) {
	l := newLog()
	for i := range 5000 {
		l.add(0, fmt.Sprintf("\r%4d %%", i))
	}
	l.add(0, "\nlast\n").close()
	for _, c := range []struct {
		reach, reads int // each has two entries
		want         string
	}{
		{1, 10, "…\\r4994 %"},
		{100_000, 500, "…\\r48"},
		{4 << 20, 8000, "\\r   0 %"},
		{0, 8000, "\\r   0 %"},
	} {
		reads := 0
		read := func(ctx context.Context, o *client.ReadOptions) (protocol.ProcessReadResult, error) {
			if reads++; c.reach > 0 && o.MaxBytes > uint64(c.reach) {
				t.Errorf("reach %d: a read asks for %d bytes", c.reach, o.MaxBytes)
			}
			return l.read(ctx, o)
		}
		var out bytes.Buffer
		err := Merge(t.Context(), []Source{{Read: read, Last: uint64(len(l.entries))}}, Options{Tail: 2, Reach: c.reach}, printer(&out), func(_ int, err error) { t.Error(err) })
		if text := out.String(); err != nil || !strings.HasPrefix(text, c.want) || !strings.HasSuffix(text, "\\r4999 %\nlast\n") || reads > c.reads {
			t.Errorf("reach %d: %.40q after %d reads, %v; want %q after %d at most", c.reach, text, reads, err, c.want, c.reads)
		}
	}
}

// Without Follow, Merge ends also if the program writes faster than Merge reads.
func TestFlood(t *testing.T) {
	l := newLog().add(0, "old\n")
	flooded := func(ctx context.Context, o *client.ReadOptions) (protocol.ProcessReadResult, error) {
		l.add(0, "x\n").add(0, "y\n").add(0, "z\n")
		return l.read(ctx, o)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := Merge(ctx, []Source{{Read: flooded, Last: 1}}, all, printer(io.Discard), func(_ int, err error) { t.Error(err) }); err != nil {
		t.Error(err)
	}
}

// Lines of several processes come in the order of their times, with prefixes.
func TestSeveral(t *testing.T) {
	a := newLog().add(1*time.Second, "a1\n").add(4*time.Second, "a4\na").add(6*time.Second, stderr("a6\n")).close()
	b := newLog().add(2*time.Second, "b2\n").add(3*time.Second, "b3\n").add(5*time.Second, "b5\n").add(9*time.Second, "b9").close()
	c := newLog().close()
	want := "a | a1\nb | b2\nb | b3\na | a4\nb | b5\na ! a6\na | a\nb | b9\n"
	got := text(t, all, &Printer{}, a, b, c)
	if lines := func(s string) []string { l := strings.Split(s, "\n"); slices.Sort(l); return l }; !slices.Equal(lines(got), lines(want)) || !strings.HasPrefix(got, want[:42]) {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := text(t, all, &Printer{Out: show.Out{Colour: true}}, a, b); !strings.Contains(got, "\x1b[36ma |\x1b[0m a1\n") || !strings.Contains(got, "\x1b[33mb |\x1b[0m b2\n") {
		t.Errorf("with colour: %q", got)
	}
}

// A line waits for the earliest line of all other processes, and not for that of the next one.
func TestThree(t *testing.T) {
	a := newLog().add(1*time.Second, "a1\n").add(4*time.Second, "a4\n").close()
	b := newLog().add(5*time.Second, "b5\n").close()
	c := newLog().add(3*time.Second, "c3\n").close()
	if got, want := text(t, all, &Printer{}, a, b, c), "a | a1\nc | c3\na | a4\nb | b5\n"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestGaps(t *testing.T) {
	l := newLog().add(1*time.Second, "1\n").add(2*time.Second, "2\n").add(3*time.Second, "3\n").close()
	l.first = 3
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"all", all, "# a: earlier output is no longer held\n3\n"},
		{"tail", Options{Tail: 5}, "3\n"},
		{"since a seq", Options{Tail: -1, After: 1}, "# a: output 2 to 2 is missing here: the server no longer holds it\n…3\n"},
		{"since a time that is held", Options{Tail: -1, Since: start.Add(3500 * time.Millisecond)}, ""},
		{"since a time that is not held", Options{Tail: -1, Since: start.Add(2 * time.Second)}, "# a: earlier output is no longer held\n3\n"},
	} {
		if got := text(t, c.o, &Printer{}, l); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Later output is shown at once, also a line without an end. A gap in later output has a note.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out testbuf.Buffer
		a, b := newLog().add(0, "old\n"), newLog()
		done := make(chan error, 1)
		go func() { done <- run(t.Context(), &out, Options{Tail: -1, Follow: true}, &Printer{}, a, b) }()
		expect := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := out.Take(); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		expect("a | old\n")
		time.Sleep(time.Hour)
		b.add(0, "new\npass")
		expect("b | new\n")
		b.add(0, "word")
		expect("")
		time.Sleep(openTime)
		expect("b | password")
		b.add(0, ": ok\n")
		expect(": ok\n")
		b.add(0, "?")
		time.Sleep(openTime)
		expect("b | ?")
		a.add(0, "x\n")
		expect("\na | x\n")
		a.add(0, "cu")
		expect("")
		a.mu.Lock()
		a.first = 6
		a.mu.Unlock()
		a.add(0, "t\n").add(0, "los").add(0, "t\nkept\n")
		expect("a | cu…\n# a: output 4 to 5 is missing here: dropped\na | …t\na | kept\n") // no line has parts of both sides
		b.close()
		expect("")
		a.mu.Lock()
		a.err = errors.New("the session is gone")
		a.mu.Unlock()
		a.add(0, "never shown\n")
		expect("a failed: the session is gone\n")
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A follower is told once that the program waits until its output is read, and again after more output.
func TestFollowOfAFullLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLog().add(0, "old\n")
		var asked atomic.Int32
		var free atomic.Bool
		var out testbuf.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- Merge(ctx, []Source{{Read: l.read, Follow: l.follow, Full: func(context.Context) string {
				if asked.Add(1); free.Load() {
					return ""
				}
				return "output full"
			}}}, Options{Tail: -1, Follow: true}, printer(&out), nil)
		}()
		time.Sleep(time.Hour)
		l.add(0, "new\n")
		time.Sleep(time.Hour)
		synctest.Wait()
		free.Store(true)
		l.add(0, "newer\n")
		time.Sleep(time.Hour)
		cancel()
		<-done
		const note = "# a: the program waits: output full\n"
		if got, want := out.String(), "old\n"+note+"new\n"+note+"newer\n"; got != want || asked.Load() != 3 {
			t.Errorf("%q after asking %d times, want %q", got, asked.Load(), want)
		}
	})
}

// A closed pipe ends Merge, and so does the end of ctx.
func TestMergeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken pipe")
		err := Merge(t.Context(), []Source{{Read: newLog().add(0, "x\ny\n").read}, {Read: newLog().read}}, Options{Tail: -1, Follow: true}, printer(failing{broken}), nil)
		if err != broken {
			t.Errorf("%v, want the error of the Writer", err)
		}
		follow := func(_ context.Context, _ uint64, to Viewer) error {
			return to.Output(start, protocol.Stdout, []byte("x\n"))
		}
		if err := Merge(t.Context(), []Source{{Read: newLog().read, Follow: follow}, {Read: newLog().read, Follow: newLog().follow}}, Options{Tail: -1, Follow: true}, printer(failing{broken}), nil); err != broken {
			t.Errorf("following: %v, want the error of the Writer", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		if err := Merge(ctx, []Source{{Read: newLog().read, Follow: newLog().follow}}, Options{Tail: -1, Follow: true}, printer(io.Discard), nil); err != context.Canceled {
			t.Errorf("%v, want that of ctx", err)
		}
	})
}

// Another process with the name is another process: a follower does not go on in it.
func TestAnotherProcess(t *testing.T) {
	gone := fmt.Errorf("%w: another has the id", client.ErrProcessGone)
	l := newLog().add(0, "one\n").add(0, "two\nthr")
	lost := func(ctx context.Context, after uint64, to Viewer) error {
		if after != 2 {
			t.Errorf("followed after %d, want 2", after)
		}
		return gone
	}
	reads := 0
	lostBefore := func(ctx context.Context, o *client.ReadOptions) (protocol.ProcessReadResult, error) {
		if reads++; reads == 1 {
			return l.read(ctx, &client.ReadOptions{})
		}
		return protocol.ProcessReadResult{}, gone
	}
	for _, source := range []Source{{Read: l.read, Follow: lost}, {Read: lostBefore, Follow: lost}} {
		var out bytes.Buffer
		var failure error
		p := printer(&out)
		err := Merge(t.Context(), []Source{source}, Options{Tail: -1, Follow: true}, p, func(_ int, err error) { failure = err })
		if want := "one\ntwo\nthr\n"; errors.Join(err, p.End()) != nil || out.String() != want || failure != errGone {
			t.Errorf("%q, %v, %v; want %q and %v", out.String(), err, failure, want, errGone)
		}
	}
}

// However output is cut into chunks, its lines are the same.
func TestLinesDoNotDependOnChunks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		content := strings.Repeat("some line\nanother one, longer\n\n", rapid.IntRange(0, 9).Draw(rt, "n")) + rapid.SampledFrom([]string{"", "end"}).Draw(rt, "end")
		l := newLog()
		for rest := content; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(rt, "chunk")
			l.add(0, rest[:n])
			rest = rest[n:]
		}
		l.close()
		want := content
		if strings.HasSuffix(want, "end") {
			want += "\n"
		}
		if got := text(t, all, &Printer{}, l); got != want {
			rt.Fatalf("%q, want %q", got, want)
		}
	})
}

func TestLongLine(t *testing.T) {
	line := strings.Repeat("x", maxLine+10) + "\n"
	if got := text(t, all, &Printer{}, newLog().add(0, line).close()); got != line {
		t.Errorf("a line of %d bytes came as %d bytes in %d lines", len(line), len(got), strings.Count(got, "\n"))
	}
}

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for in, want := range map[string]string{
		"":                     "0 0001-01-01T00:00:00Z",
		"42":                   "41 0001-01-01T00:00:00Z",
		"0":                    "0 0001-01-01T00:00:00Z",
		"10m":                  "0 2026-01-31T11:50:00Z",
		"1h30m":                "0 2026-01-31T10:30:00Z",
		"11:30":                "0 2026-01-31T11:30:00Z",
		"13:30:10":             "0 2026-01-30T13:30:10Z",
		"2026-01-30":           "0 2026-01-30T00:00:00Z",
		"2026-01-30T10:00":     "0 2026-01-30T10:00:00Z",
		"2026-01-30 10:00:05":  "0 2026-01-30T10:00:05Z",
		"2026-01-30T10:00:00Z": "0 2026-01-30T10:00:00Z",
	} {
		after, since, err := ParseSince(in, now)
		if got := fmt.Sprint(after, " ", since.Format(time.RFC3339)); got != want || err != nil {
			t.Errorf("%q: %s, %v; want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"yesterday", "-5", "-5m", "25:00", "4x", "18446744073709551616"} {
		if _, _, err := ParseSince(in, now); err == nil || !strings.Contains(err.Error(), "10m") {
			t.Errorf("%q: %v, want an error with examples", in, err)
		}
	}
}
