package outcome

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/actors/peer/command/dialect"
	"github.com/b6f6fdd7/troupe/protocol"
	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// program writes the log of a process.
type program struct {
	t   *testing.T
	o   *Outcome
	seq uint64
	now time.Time
}

func begin(t *testing.T, s dialect.Spec) *program {
	return &program{t: t, o: &Outcome{Spec: &s}, now: t0}
}

func (p *program) take(entries ...outlog.Entry) []Piece {
	p.t.Helper()
	for i := range entries {
		p.seq++
		entries[i].Seq = p.seq
	}
	pieces, ok := p.o.Take(p.now, entries)
	if !ok {
		p.t.Fatalf("entries up to %d were not taken", p.seq)
	}
	return pieces
}

func (p *program) writes(text string) []Piece {
	p.t.Helper()
	return p.take(outlog.Entry{Kind: outlog.Output, Stream: protocol.Stdout, Data: []byte(text)})
}

func (p *program) exits(code int) {
	p.t.Helper()
	p.take(outlog.Entry{Kind: outlog.Exited, Status: &protocol.ExitStatus{ExitCode: code}})
}

func (p *program) closes() {
	p.t.Helper()
	p.take(outlog.Entry{Kind: outlog.Closed})
}

func (p *program) wantEnd(want dialect.End) {
	p.t.Helper()
	if end, ok := p.o.End(); !ok || end != want {
		p.t.Errorf("the end is %+v (%v), want %+v", end, ok, want)
	}
	if _, ok := p.o.End(); ok {
		p.t.Error("the end was told twice")
	}
}

func (p *program) wantNoEnd() {
	p.t.Helper()
	if end, ok := p.o.End(); ok {
		p.t.Errorf("the end has come: %+v", end)
	}
}

// waits lets d pass less a nanosecond, and then that, in which Tick asks.
func (p *program) waits(d time.Duration) {
	p.t.Helper()
	if due := p.o.Due(); !due.Equal(p.now.Add(d)) {
		p.t.Errorf("due in %v, want %v", due.Sub(p.now), d)
	}
	if p.now = p.now.Add(d - 1); p.o.Tick(p.now) {
		p.t.Errorf("asked before %v", d)
	}
	if p.now = p.now.Add(1); !p.o.Tick(p.now) {
		p.t.Errorf("not asked after %v", d)
	}
	if p.o.Tick(p.now.Add(time.Hour)) || !p.o.Due().IsZero() {
		p.t.Error("asks twice")
	}
}

var buffered = dialect.Spec{Limit: 100, Most: 1000}

func TestTimedOut(t *testing.T) {
	p := begin(t, buffered)
	p.take(outlog.Entry{Kind: outlog.Exited, Status: &protocol.ExitStatus{ExitCode: 137, TimedOut: true}}, outlog.Entry{Kind: outlog.Closed})
	p.wantEnd(dialect.End{Code: 124})
}

// Descendants hold the output open: the end waits for drainTime, and then for what is there.
func TestDrain(t *testing.T) {
	p := begin(t, buffered)
	if !p.o.Due().IsZero() {
		t.Error("due before the exit")
	}
	p.exits(0)
	p.now = p.now.Add(time.Second)
	p.writes("late")
	p.waits(time.Second)
	p.wantNoEnd()
	p.o.LogEnds(p.seq + 2)
	p.writes(" there")
	p.wantNoEnd()
	p.writes(" too")
	p.writes(" no more")
	p.wantEnd(dialect.End{DrainTimedOut: true, Output: [2]string{"late there too", ""}})
	if p.o.Over() || !p.o.Wants(false) {
		t.Error("what descendants write is not read after the end")
	}
	if p.writes("dropped"); p.o.Held() != 2*len("late there too")+len(`""`) {
		t.Error("output was kept after the end")
	}
	if p.closes(); !p.o.Over() {
		t.Error("it is not over")
	}
}

// A log that grows without end is taken for drainEntries more.
func TestDrainIsBounded(t *testing.T) {
	p := begin(t, dialect.Spec{Limit: 1 << 20, Most: 1 << 20})
	p.exits(0)
	p.waits(drainTime)
	p.o.LogEnds(p.seq + 100_000)
	for range 255 {
		p.writes("x")
	}
	p.wantNoEnd()
	p.writes("x")
	p.wantEnd(dialect.End{DrainTimedOut: true, Output: [2]string{strings.Repeat("x", 256), ""}})
}

func TestStreamed(t *testing.T) {
	p := begin(t, dialect.Spec{Stream: true, Limit: 5})
	want := func(pieces []Piece, text string, capReached bool) {
		t.Helper()
		if len(pieces) != 1 || string(pieces[0].Data) != text || pieces[0].CapReached != capReached {
			t.Errorf("%+v, want %q, %v", pieces, text, capReached)
		}
	}
	if p.o.Wants(false) || !p.o.Wants(true) {
		t.Error("output is wanted although the client takes none, or not although it does")
	}
	want(p.writes("abcd"), "abcd", false)
	want(p.writes("e"), "e", true)
	if pieces := p.writes("f"); len(pieces) > 0 {
		t.Errorf("after the limit: %+v", pieces)
	}
	p.exits(0)
	p.closes()
	p.wantEnd(dialect.End{CapReached: [2]bool{true, false}})
	if p.o.Held() != 0 {
		t.Error("room was taken for what was streamed")
	}

	p = begin(t, dialect.Spec{Stream: true, Limit: 5})
	want(p.writes("abcdefg"), "abcde", true)
	p = begin(t, dialect.Spec{Stream: true})
	want(p.writes("abcdefg"), "", true)
}

// Output for which the message with the end has no room is cut, and the outcome says so, though the limit allows the output.
func TestMessageIsFull(t *testing.T) {
	for _, row := range []struct {
		text, want string
		held       int // before the end
		cut        bool
	}{
		{"abcdef", "abcdef", 18, false},
		{"abcdefg", "abcdef", 21, true}, // the quotes need room, too
		{"abcdefghi", "abcdef", 24, true},
		{"abcd\n", "abcd\n", 15, false},
		{"abcde\n", "abcde", 18, true},
		{"\x00a", "\x00", 6, true},
	} {
		p := begin(t, dialect.Spec{Limit: 100, Most: 8})
		p.writes(row.text)
		if n, cut := p.o.Held(), len(row.text) > 8; n != row.held || p.o.Cut() != cut {
			t.Errorf("%q: %d bytes are held, cut: %v; want %d, %v", row.text, n, p.o.Cut(), row.held, cut)
		}
		p.exits(0)
		p.closes()
		if p.o.Cut() != row.cut {
			t.Errorf("%q: cut: %v", row.text, p.o.Cut())
		}
		p.wantEnd(dialect.End{Output: [2]string{row.want, ""}, CapReached: [2]bool{row.cut, false}})
	}
}

// TestOutcome states what holds of every command, whatever comes in whatever order.
func TestOutcome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := &dialect.Spec{
			Stream: rapid.Bool().Draw(t, "stream"),
			Limit:  rapid.Int64Range(0, 40).Draw(t, "limit"),
			Most:   rapid.Int64Range(2, 60).Draw(t, "most"),
		}
		m := &model{o: &Outcome{Spec: spec}, spec: spec, now: t0}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			m.step(t)
			m.check(t)
		}
		if m.o.Lost(); !m.closed {
			m.lost = true
		}
		m.check(t)
		m.end(t)
		m.check(t)
		if m.ends != 1 || !m.o.Over() {
			t.Fatalf("%d ends, over: %v", m.ends, m.o.Over())
		}
	})
}

// model is a program, its client, and what a test remembers of them.
type model struct {
	o    *Outcome
	spec *dialect.Spec
	now  time.Time

	seq      uint64
	exited   bool
	closed   bool // by the program
	lost     bool
	written  [2]string
	told     [2]string // streamed, or in the end
	capped   [2]bool   // said of a stream
	asks     int
	ends     int
	exitedAt time.Time

	known bool // the end is; these belong to it
	code  int
	late  bool
}

func (m *model) step(t *rapid.T) {
	switch rapid.SampledFrom([]string{"output", "output", "output", "exit", "close", "tick", "answer", "lost", "end", "again"}).Draw(t, "what") {
	case "output":
		if !m.closed && !m.lost {
			i := rapid.IntRange(0, 1).Draw(t, "stream")
			text := rapid.StringN(1, 10, 20).Draw(t, "text")
			if !m.known {
				m.written[i] += text
			}
			m.take(t, i, outlog.Entry{Kind: outlog.Output, Stream: protocol.Stdout + protocol.Stream(i), Data: []byte(text)})
		}
	case "exit":
		if !m.exited && !m.closed && !m.lost {
			m.exited, m.exitedAt = true, m.now
			m.take(t, 0, outlog.Entry{Kind: outlog.Exited, Status: &protocol.ExitStatus{ExitCode: 7}})
		}
	case "close":
		if m.exited && !m.closed && !m.lost {
			m.closed = true
			m.take(t, 0, outlog.Entry{Kind: outlog.Closed})
		}
	case "tick":
		m.now = m.now.Add(rapid.SampledFrom([]time.Duration{0, 1, time.Second, drainTime}).Draw(t, "time"))
		due := m.o.Due()
		if ask := m.o.Tick(m.now); ask != (!due.IsZero() && !m.now.Before(due)) {
			t.Fatalf("due at %v, ask: %v at %v", due, ask, m.now)
		} else if ask {
			m.asks++
		}
	case "answer":
		if m.asks == 1 && m.o.until == 0 {
			last := rapid.SampledFrom([]uint64{0, m.seq, m.seq + 1, m.seq + 3}).Draw(t, "last") // 0: unknown
			if m.o.LogEnds(last); last <= m.seq && m.o.end == nil {
				t.Fatalf("the log ends at %d of %d, and there is no end", last, m.seq)
			}
		}
	case "lost":
		if rapid.IntRange(0, 9).Draw(t, "rarely") == 0 {
			m.o.Lost()
			m.lost = true
		}
	case "end":
		m.end(t)
	case "again":
		for _, seq := range []uint64{m.seq, m.seq + 2} {
			if _, ok := m.o.Take(m.now, []outlog.Entry{{Seq: seq, Kind: outlog.Closed}}); ok || m.o.Last() != m.seq {
				t.Fatalf("%d was taken after %d", seq, m.seq)
			}
		}
	}
}

func (m *model) take(t *rapid.T, stream int, e outlog.Entry) {
	m.seq++
	e.Seq = m.seq
	pieces, ok := m.o.Take(m.now, []outlog.Entry{e})
	if !ok {
		t.Fatalf("%d was not taken", m.seq)
	}
	for _, p := range pieces {
		i := int(p.Stream - protocol.Stdout)
		if m.capped[i] || !m.spec.Stream || m.ends > 0 {
			t.Fatalf("%+v after the limit, after the end, or of what is not streamed", p)
		}
		m.told[i] += string(p.Data)
		m.capped[i] = p.CapReached
	}
}

func (m *model) end(t *rapid.T) {
	end, ok := m.o.End()
	if !ok {
		return
	}
	m.ends++
	for i := range 2 {
		if m.spec.Stream && end.Output[i] != "" {
			t.Fatalf("streamed output is repeated: %q", end.Output[i])
		}
		if !m.spec.Stream {
			m.told[i] = end.Output[i]
		}
		m.capped[i] = end.CapReached[i]
		limit := int64(len(m.written[i])) >= m.spec.Limit && m.written[i] != ""
		if end.CapReached[i] != limit && !(end.CapReached[i] && m.o.Cut()) {
			t.Fatalf("cap reached: %v; %d bytes, limit %d, cut: %v", end.CapReached[i], len(m.written[i]), m.spec.Limit, m.o.Cut())
		}
		if b, _ := json.Marshal(end.Output[i]); int64(len(b)) > m.spec.Most {
			t.Fatalf("%s has %d bytes, want %d at most", b, len(b), m.spec.Most)
		}
		whole := min(int64(len(m.written[i])), m.spec.Limit)
		if n := int64(len(m.told[i])); m.spec.Stream && n != whole || n > whole || n < whole-utf8.UTFMax+1 && !m.o.Cut() {
			t.Fatalf("%d bytes were told of %d, limit %d, cut: %v", n, len(m.written[i]), m.spec.Limit, m.o.Cut())
		}
	}
	if end.Code != m.code || end.DrainTimedOut != m.late {
		t.Fatalf("%+v, want code %d, drain timed out: %v", end, m.code, m.late)
	}
}

func (m *model) check(t *rapid.T) {
	if m.o.Last() != m.seq {
		t.Fatalf("%d entries were taken, of %d", m.o.Last(), m.seq)
	}
	if all := m.closed || m.lost || m.o.until > 0 && m.seq >= m.o.until; all && m.o.end == nil && m.ends == 0 {
		t.Fatal("nothing more comes before the end, and there is none")
	}
	if m.o.end != nil && !m.known {
		m.known, m.late = true, !m.closed
		switch {
		case m.exited:
			m.code = 7
		case m.lost:
			m.code = dialect.LostCode
		}
		if m.late && !m.lost && m.asks == 0 {
			t.Fatal("the end is here, and nothing that brings it")
		}
	}
	for i := range 2 {
		if !strings.HasPrefix(m.written[i], m.told[i]) {
			t.Fatalf("%q was told of %q", m.told[i], m.written[i])
		}
	}
	if n := len(m.o.streams[0].data) + len(m.o.streams[1].data); m.o.end == nil && m.o.Held() != copies*n || m.spec.Stream && n > 0 {
		t.Fatalf("%d bytes are held for %d", m.o.Held(), n)
	}
	if m.asks > 1 || m.ends > 1 {
		t.Fatalf("%d asks, %d ends", m.asks, m.ends)
	}
	if due := m.o.Due(); !due.IsZero() && (!m.exited || due.After(m.exitedAt.Add(drainTime))) {
		t.Fatalf("due %v after the exit", due.Sub(m.exitedAt))
	}
	if m.o.Over() && m.o.Wants(true) {
		t.Fatal("it is over, and wants more")
	}
}

func TestText(t *testing.T) {
	for _, row := range []struct {
		in   string
		cut  bool
		want string
	}{
		{"", true, ""},
		{"plain", false, "plain"},
		{"a\xff\xfeb", false, "a\ufffd\ufffdb"},
		{"\xe2\x82", false, "\ufffd"}, // the begin of €
		{"\xe2\x82", true, ""},
		{"\xe2\x82a", true, "\ufffda"},
		{"ab\xe2\x82\xac", true, "ab€"},
		{"\xff", true, "\ufffd"},
		{"\xf0\x9f\x98", true, ""},
	} {
		if got := text([]byte(row.in), row.cut); got != row.want {
			t.Errorf("%q, cut: %v: %q, want %q", row.in, row.cut, got, row.want)
		}
	}
}

// Text that was cut anywhere is a prefix of the text, and lacks no whole character.
func TestTextIsCutBetweenCharacters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.String().Draw(t, "text")
		n := rapid.IntRange(0, len(whole)).Draw(t, "cut")
		got := text([]byte(whole[:n]), true)
		if !strings.HasPrefix(whole, got) || !utf8.ValidString(got) || n-len(got) >= utf8.UTFMax {
			t.Fatalf("%q cut at %d: %q", whole, n, got)
		}
	})
}

func FuzzText(f *testing.F) {
	f.Add([]byte("a\xe2\x82"), true)
	f.Fuzz(func(t *testing.T, b []byte, cut bool) {
		if s := text(b, cut); !utf8.ValidString(s) || utf8.Valid(b) && s != string(b) {
			t.Errorf("%q: %q", b, s)
		}
	})
}
