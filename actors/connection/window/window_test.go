package window

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// source is a process as a connection sees the process, and the state of its stream in the model.
type source struct {
	name   string
	stream Stream[*source]

	cursor uint64 // of the process: the next delivery begins at cursor+1
	pulled bool   // the process may deliver

	began   uint64    // seq after which the client gets entries
	got     uint64    // the newest seq that the client got
	waits   *Delivery // accepted and not sent; nil: none
	skipped map[*source]int
	acked   uint64 // by the rule of a process: see ack
	ended   bool   // got is the end
}

func (s *source) GoString() string { return s.name }

// ack is how a process takes an Ack.
func (s *source) ack(from, to uint64) {
	if from <= s.acked {
		s.acked = max(s.acked, to)
	}
}

// asked is output sent before the Ping with this serial.
type asked struct {
	serial   uint64
	of       *source
	from, to uint64
	bytes    int64
}

// model is a connection around a Window. The model checks each answer of the Window.
type model struct {
	w       Window[*source]
	size    int64
	sources []*source
	sent    []asked // without a Pong, in order
	serial  uint64  // of the next Ping
	timed   bool
	largest int64 // of deliveries
	beyond  int64 // bytes in sent without a turn: of Take, and of answers
	reads   int   // answers to process/read without room
	lose    bool  // the next Ack is lost
}

// The Pong of the last Ping leaves nothing unread, whatever other Pings were due.
func TestLast(t *testing.T) {
	w := New[*source](1000)
	s := &source{}
	w.Sent(&s.stream, 0, 1, 300, 0) // a Ping is due
	w.Sent(&s.stream, 0, 2, 10, 0)
	serial := w.Last()
	if n := w.Unread(); n != 310 {
		t.Errorf("%d bytes are unread, want 310", n)
	}
	for _, ok := w.Pong(serial); ok; _, ok = w.Pong(serial) {
	}
	if n := w.Unread(); n != 0 || w.Due() != 0 {
		t.Errorf("after the last Pong %d bytes are unread", n)
	}
}

func newModel(size int64, sources int) *model {
	m := &model{w: New[*source](size), size: size, serial: 1}
	for i := range sources {
		s := &source{name: fmt.Sprint("s", i), pulled: true, skipped: make(map[*source]int)}
		s.stream.Of = s
		s.stream.Begin(0)
		m.sources = append(m.sources, s)
	}
	return m
}

func (m *model) unread() (n int64) {
	for _, a := range m.sent {
		n += a.bytes
	}
	return n
}

func (m *model) unasked() (n int64, some bool) {
	for _, a := range m.sent {
		if a.serial == m.serial {
			n, some = n+a.bytes, true
		}
	}
	return n, some
}

// offer has s deliver n entries after its cursor, with size bytes.
func (m *model) offer(t *rapid.T, s *source, n uint64, size, ackEvery int64, closed bool) {
	d := Delivery{First: s.cursor + 1, Last: s.cursor + n, Bytes: size, AckEvery: ackEvery, Closed: closed}
	s.cursor, s.pulled = d.Last, false
	ok := m.w.Offer(&s.stream, d)
	if want := d.First == s.got+1; ok != want {
		t.Fatalf("%s: Offer of %d to %d after %d: %v, want %v", s.name, d.First, d.Last, s.got, ok, want)
	}
	if ok {
		if s.waits == nil {
			clear(s.skipped)
		}
		s.waits = &d
		m.largest = max(m.largest, size)
		m.flush(t)
		return
	}
	m.resume(t, s)
}

// resume subscribes again, as a connection does.
func (m *model) resume(t *rapid.T, s *source) {
	after := s.stream.Resume(s.cursor)
	if after != s.got {
		t.Fatalf("%s: Resume: after %d, want after %d", s.name, after, s.got)
	}
	s.cursor, s.pulled, s.waits = after, true, nil
}

// flush sends each delivery that Next returns.
func (m *model) flush(t *rapid.T) {
	for m.reads > 0 && !m.w.Full() {
		m.reads--
		m.read(t, m.sources[0], 100)
	}
	for {
		full := m.unread() >= m.size
		s, ask, ok := m.w.Next(false)
		if !ok {
			if !full {
				for _, s := range m.sources {
					if s.waits != nil {
						t.Fatalf("%s waits, and the window has room", s.name)
					}
				}
			}
			return
		}
		if full {
			t.Fatalf("%s was sent with %d of %d bytes unread", s.name, m.unread(), m.size)
		}
		for _, other := range m.sources {
			if other.waits != nil && other != s {
				if other.skipped[s]++; other.skipped[s] > 1 {
					t.Fatalf("%s has had two turns, and %s none", s.name, other.name)
				}
			}
		}
		m.send(t, s, ask)
		s.pulled = true
	}
}

// send checks a delivery that the window has let go.
func (m *model) send(t *rapid.T, s *source, ask Ask) {
	d := s.waits
	if d == nil || d.First != s.got+1 {
		t.Fatalf("%s: sent %+v after %d", s.name, d, s.got)
	}
	s.waits, s.got, s.ended = nil, d.Last, d.Closed
	if s.stream.Last() != s.got || !s.stream.Placed() || s.stream.Closed() != s.ended {
		t.Fatalf("%s: Last is %d after %d", s.name, s.stream.Last(), s.got)
	}
	m.count(t, asked{m.serial, s, s.began, s.got, d.Bytes}, d.AckEvery, ask)
}

// read is an answer to process/read: the newest entry once more.
func (m *model) read(t *rapid.T, s *source, n int64) {
	a := asked{m.serial, s, s.got - min(s.got, 1), s.got, n}
	m.beyond += n
	m.count(t, a, 0, m.w.Sent(&s.stream, a.from, a.to, n, 0))
}

func (m *model) count(t *rapid.T, a asked, ackEvery int64, ask Ask) {
	m.sent = append(m.sent, a)
	most := m.size / 8
	if ackEvery > 0 {
		most = min(most, ackEvery)
	}
	unasked, _ := m.unasked()
	want := Ask{}
	switch {
	case unasked >= most:
		want.Ping = m.serial
		m.serial++
	case !m.timed:
		want.Wait, m.timed = true, true
	}
	if ask != want {
		t.Fatalf("with %d of %d bytes unasked: %+v, want %+v", unasked, most, ask, want)
	}
}

func (m *model) due(t *rapid.T) {
	want := uint64(0)
	if _, some := m.unasked(); some {
		want = m.serial
		m.serial++
	}
	m.timed = false
	if got := m.w.Due(); got != want {
		t.Fatalf("Due: %d, want %d", got, want)
	}
}

func (m *model) pong(t *rapid.T, serial uint64) {
	var freed int64
	for a, ok := m.w.Pong(serial); ok; a, ok = m.w.Pong(serial) {
		// An Ack may be for several deliveries in a row.
		n := 0
		for ; n < len(m.sent) && m.sent[n].serial == m.sent[0].serial && m.sent[n].serial <= serial && serial < m.serial && m.sent[n].of == a.Of && m.sent[n].from == a.From && m.sent[n].to <= a.To; n++ {
			freed += m.sent[n].bytes
		}
		if n == 0 || m.sent[n-1].to != a.To {
			t.Fatalf("Pong %d: Ack of %s from %d to %d, without a Ping that asked for it", serial, a.Of.name, a.From, a.To)
		}
		m.sent = m.sent[n:]
		if !m.lose {
			a.Of.ack(a.From, a.To)
		}
		m.lose = false
	}
	if len(m.sent) > 0 && m.sent[0].serial <= serial && serial < m.serial {
		t.Fatalf("Pong %d gives no Ack for %+v", serial, m.sent[0])
	}
	m.beyond = min(m.beyond, m.unread())
	m.flush(t)
}

func (m *model) check(t *rapid.T) {
	unasked, _ := m.unasked()
	if m.w.unread != m.unread() || m.w.unasked != unasked {
		t.Fatalf("unread %d, unasked %d, want %d and %d", m.w.unread, m.w.unasked, m.unread(), unasked)
	}
	if m.w.unread >= m.size+m.largest+m.beyond && m.w.unread > 0 {
		t.Fatalf("unread %d with a window of %d, a delivery of %d, and %d beyond", m.w.unread, m.size, m.largest, m.beyond)
	}
	if n := m.w.queue.Len(); n > len(m.sources) {
		t.Fatalf("%d turns for %d streams", n, len(m.sources))
	}
	for _, s := range m.sources {
		if s.acked > s.got {
			t.Fatalf("%s: acknowledged up to %d, and sent up to %d", s.name, s.acked, s.got)
		}
	}
}

// With random events of processes, clients and timers: each entry is sent once and in order, without
// holes; the streams take turns; the unread bytes exceed the window by less than a delivery; each Ping
// is due in time; and a Pong acknowledges exactly the output before its Ping.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(int64(rapid.SampledFrom([]int{1, 100, 1000, 10_000}).Draw(t, "size")), rapid.IntRange(1, 4).Draw(t, "streams"))
		any := func(t *rapid.T) *source { return rapid.SampledFrom(m.sources).Draw(t, "stream") }
		entries, bytes := rapid.Uint64Range(1, 5), rapid.Int64Range(0, 2000)
		t.Repeat(map[string]func(*rapid.T){
			"": m.check,
			"deliver": func(t *rapid.T) {
				if s := any(t); s.pulled {
					m.offer(t, s, entries.Draw(t, "entries"), bytes.Draw(t, "bytes"), rapid.SampledFrom([]int64{0, 10, 1 << 20}).Draw(t, "ackEvery"), rapid.IntRange(0, 4).Draw(t, "end") == 4)
				}
			},
			"a delivery is lost": func(t *rapid.T) { any(t).cursor++ },
			"a delivery comes again": func(t *rapid.T) {
				s := any(t)
				s.cursor = s.got - min(s.got-s.began, rapid.Uint64Range(0, 3).Draw(t, "back"))
				m.offer(t, s, entries.Draw(t, "entries"), bytes.Draw(t, "bytes"), 0, false)
			},
			"the process is restarted": func(t *rapid.T) { m.resume(t, any(t)) },
			"the client resumes elsewhere": func(t *rapid.T) {
				s := any(t)
				s.got += rapid.Uint64Range(1, 5).Draw(t, "read elsewhere")
				s.began, s.cursor, s.acked, s.pulled, s.waits, s.ended = s.got, s.got, s.got, true, nil, false
				s.stream.Begin(s.got)
			},
			"the process goes": func(t *rapid.T) {
				s := any(t)
				ask, ok := m.w.Take(&s.stream)
				if ok != (s.waits != nil) {
					t.Fatalf("Take: %v, and waiting is %v", ok, s.waits)
				}
				if ok {
					m.beyond += s.waits.Bytes
					m.send(t, s, ask)
					s.pulled = true
				}
			},
			"read": func(t *rapid.T) {
				if m.w.Full() != (m.unread() >= m.size) {
					t.Fatalf("Full is %v with %d of %d bytes unread", m.w.Full(), m.unread(), m.size)
				}
				if m.reads++; !m.w.Full() {
					m.flush(t)
				}
			},
			"the timer": func(t *rapid.T) {
				if m.timed {
					m.due(t)
				}
			},
			"a Pong": func(t *rapid.T) { m.pong(t, rapid.Uint64Range(0, m.serial-1).Draw(t, "serial")) },
			"a Pong that nobody asked for": func(t *rapid.T) {
				serial := m.serial + rapid.Uint64Range(0, 3).Draw(t, "ahead")
				if a, ok := m.w.Pong(serial); ok {
					t.Fatalf("Pong %d gives %+v, and the newest Ping is %d", serial, a, m.serial-1)
				}
			},
			"an Ack is lost": func(*rapid.T) { m.lose = true },
		})
		// The client reads on, and everybody gets everything.
		m.lose = false
		for range 2 {
			for _, s := range m.sources {
				if s.waits == nil {
					m.resume(t, s)
					m.offer(t, s, 1, 1, 0, false) // its Ack makes good the lost Acks
				}
			}
			for m.w.unread > 0 || m.waiting() {
				m.due(t)
				m.pong(t, m.serial-1)
			}
		}
		m.due(t)
		m.pong(t, m.serial-1)
		m.check(t)
		if m.w.unread != 0 || m.w.sent.Len() != 0 || m.w.queue.Len() != 0 || m.reads != 0 {
			t.Fatalf("at the end: %+v, %d reads", m.w, m.reads)
		}
		for _, s := range m.sources {
			if s.acked != s.got {
				t.Fatalf("%s: acknowledged up to %d of %d", s.name, s.acked, s.got)
			}
		}
	})
}

func (m *model) waiting() bool {
	for _, s := range m.sources {
		if s.waits != nil {
			return true
		}
	}
	return m.reads > 0
}

// A stream that begins with its first delivery may begin at any seq.
func TestBeginsWithTheFirstDelivery(t *testing.T) {
	w := New[string](1000)
	s := Stream[string]{Of: "a"}
	if !w.Offer(&s, Delivery{First: 8, Last: 9, Bytes: 1}) || w.Offer(&s, Delivery{First: 9, Last: 9, Bytes: 1}) {
		t.Error("the first delivery is accepted, and one that does not continue it is not")
	}
	if of, _, ok := w.Next(false); !ok || of != "a" {
		t.Errorf("Next: %q, %v", of, ok)
	}
	w.Due()
	if a, ok := w.Pong(1); !ok || a != (Ack[string]{"a", 7, 9}) {
		t.Errorf("Pong: %+v, %v", a, ok)
	}
	if after := s.Resume(3); after != 9 {
		t.Errorf("Resume: after %d", after)
	}
	s.BeginNow()
	if after := s.Resume(3); after != 3 {
		t.Errorf("Resume of one that nothing came of: after %d", after)
	}
}

// A closed stream goes on with the next seq: the process is run again.
func TestAfterTheEnd(t *testing.T) {
	w := New[int](1000)
	var s Stream[int]
	w.Offer(&s, Delivery{First: 1, Last: 2, Bytes: 1, Closed: true})
	w.Next(false)
	if after := s.Resume(0); after != 2 || !s.Closed() {
		t.Errorf("a closed stream resumes after %d, closed %v", after, s.Closed())
	}
	if w.Offer(&s, Delivery{First: 4, Last: 4, Bytes: 1}) || !w.Offer(&s, Delivery{First: 3, Last: 3, Bytes: 1}) {
		t.Error("a hole is accepted, or the next seq is not")
	}
	if w.Next(false); s.Closed() {
		t.Error("the stream is closed, and has gone on")
	}
}

// A stream without numbers has no holes, and is acknowledged from 0.
func TestUnnumbered(t *testing.T) {
	w := New[int](1000)
	var s Stream[int]
	for _, last := range []uint64{5, 5, 9} {
		if !w.Offer(&s, Delivery{Last: last, Bytes: 10}) {
			t.Errorf("%d was refused", last)
		}
		if _, _, ok := w.Next(false); !ok {
			t.Errorf("%d has no turn", last)
		}
	}
	w.Due()
	if a, ok := w.Pong(1); !ok || a.From != 0 || a.To != 9 {
		t.Errorf("Pong: %+v, %v", a, ok)
	}
}

// With force, a full window sends.
func TestForce(t *testing.T) {
	w := New[int](10)
	var a, b Stream[int]
	for _, s := range []*Stream[int]{&a, &b} {
		w.Offer(s, Delivery{First: 1, Last: 1, Bytes: 10})
	}
	w.Next(false)
	if _, _, ok := w.Next(false); ok || !w.Full() {
		t.Error("a full window sends")
	}
	if _, _, ok := w.Next(true); !ok {
		t.Error("a full window does not send with force")
	}
	if _, _, ok := w.Next(true); ok {
		t.Error("something is sent twice")
	}
}

// BenchmarkCycle offers, sends and acknowledges a delivery.
func BenchmarkCycle(b *testing.B) {
	w := New[*int](512 << 10)
	var streams [3]Stream[*int]
	var seq [3]uint64
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		i := n % len(streams)
		seq[i]++
		if !w.Offer(&streams[i], Delivery{First: seq[i], Last: seq[i], Bytes: 128 << 10}) {
			b.Fatal("refused")
		}
		for _, ask, ok := w.Next(false); ok; _, ask, ok = w.Next(false) {
			for _, more := w.Pong(ask.Ping); more; _, more = w.Pong(ask.Ping) {
			}
		}
	}
	if w.unread != 0 {
		b.Errorf("unread %d", w.unread)
	}
}
