package stdin

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors/internal/repeat"
	"pgregory.net/rapid"
)

var start = time.Unix(1e9, 0)

func write(name, chunk string) Request[string] {
	return Request[string]{For: name, Write: true, ID: repeat.IDOf(name), Chunk: []byte(chunk)}
}

// The ids of guests are not those of other clients: the same id is another write. However much guests
// write, the queue remembers the writes of others, and few of the guests'.
func TestGuestsHaveTheirOwnIDs(t *testing.T) {
	var q Queue[string]
	state := State{Run: 1, Piped: true}
	took := func(r Request[string]) bool {
		t.Helper()
		q.Add(r)
		defer q.Answered()
		switch s := q.Next(state); s.Do {
		case Write:
			if !q.Wrote(len(s.Chunk)) || q.Next(state).Do != Accepted {
				t.Fatal("not accepted")
			}
			return true
		case Accepted:
			return false
		default:
			t.Fatalf("%+v", s)
		}
		return false
	}
	guest := func(name string) Request[string] {
		r := write(name, "x")
		r.Guest = true
		return r
	}
	if !took(guest("1")) || !took(write("1", "x")) || took(write("1", "x")) || took(guest("1")) {
		t.Error("the same id of a guest and of another client is one write")
	}
	for i := range 2 * maxWrites {
		took(guest(fmt.Sprint("g", i)))
	}
	if took(write("1", "x")) {
		t.Error("guests push the writes of others out")
	}
	if !took(guest("1")) || took(guest(fmt.Sprint("g", 2*maxWrites-maxGuestWrites+1))) {
		t.Errorf("the queue remembers other writes of guests than the newest %d", maxGuestWrites)
	}
}

// request is a request of a client. The client repeats the request until the answer comes.
type request struct {
	write bool
	chunk []byte
	run   int
}

// model is a client, and a process with its runs: what each program read is checked by what was
// sent.
type model struct {
	*rapid.T
	queue    Queue[int]
	state    State
	requests []request // by number
	sent     []int     // waiting requests, oldest first
	now      time.Time
	room     int          // how many bytes the program's stdin takes
	shut     bool         // the program has closed its stdin
	closed   bool         // we have
	part     int          // the write of which the run has had a part; -1: none
	partial  int          // how much
	whole    map[int]bool // writes of which a run got all
}

func (m *model) send(*rapid.T) {
	i := len(m.requests)
	r := request{write: rapid.IntRange(0, 9).Draw(m.T, "write") > 0, run: rapid.IntRange(0, 2).Draw(m.T, "of run")}
	if r.write {
		r.run, r.chunk = 0, bytes.Repeat([]byte{byte(i)}, rapid.IntRange(0, 20).Draw(m.T, "size"))
	}
	m.requests = append(m.requests, r)
	m.add(i)
}

func (m *model) add(i int) {
	r := m.requests[i]
	m.sent = append(m.sent, i)
	m.queue.Add(Request[int]{For: i, Write: r.write, ID: repeat.IDOf(string(rune('A' + i))), Chunk: r.chunk, Run: r.run})
}

// cut has the client repeat all unanswered requests, and some answered requests.
func (m *model) cut(*rapid.T) {
	m.queue.Drop(func(int) bool { return true })
	again := slices.Clone(m.sent)
	m.sent = nil
	for _, i := range again {
		m.add(i)
	}
	if len(m.requests) > 0 && len(again) == 0 && rapid.Bool().Draw(m.T, "answered") {
		if i := rapid.IntRange(0, len(m.requests)-1).Draw(m.T, "which"); m.requests[i].write {
			m.add(i)
		}
	}
}

// step does the steps of the queue, until the queue waits.
func (m *model) step(*rapid.T) {
	for range 1000 {
		s := m.queue.Next(m.state)
		if again := m.queue.Next(m.state); again.Do != s.Do || again.For != s.For || !bytes.Equal(again.Chunk, s.Chunk) {
			m.Fatalf("a step that was not done is %+v, and then %+v", s, again)
		}
		if s.Do == Wait {
			return
		}
		if len(m.sent) == 0 || s.For != m.sent[0] {
			m.Fatalf("the step is for %d, those that wait are %v", s.For, m.sent)
		}
		r := m.requests[s.For]
		if s.Do == Write || s.Do == Close {
			switch {
			case m.state.Between, m.state.Over, m.closed, m.state.Dead && m.state.Restarts:
				m.Fatalf("%d of request %d for a run that gets nothing more: %+v", s.Do, s.For, m.state)
			case r.run != 0 && r.run != m.state.Run:
				m.Fatalf("run %d gets a request for run %d", m.state.Run, r.run)
			}
		}
		switch s.Do {
		case Write:
			if !m.write(s) {
				return
			}
		case Close:
			m.closed = true
			m.queue.Closed()
		default:
			if rapid.IntRange(0, 9).Draw(m.T, "fails") > 0 { // else another instance answers again
				m.answer(s.For, s.Do)
			}
		}
	}
	m.Fatal("the queue never waits")
}

func (m *model) write(s Step[int]) bool {
	r := m.requests[s.For]
	if m.whole[s.For] {
		m.Fatalf("write %d is given to run %d, and all of it was taken before", s.For, m.state.Run)
	}
	had := 0
	if m.part == s.For {
		had = m.partial
	} else if m.part >= 0 {
		m.Fatalf("write %d comes after a part of write %d", s.For, m.part)
	}
	if !bytes.Equal(s.Chunk, r.chunk[had:]) {
		m.Fatalf("run %d gets %d bytes of write %d, it has had %d of %d", m.state.Run, len(s.Chunk), s.For, had, len(r.chunk))
	}
	n := min(len(s.Chunk), m.room)
	if m.shut {
		n = 0
	}
	m.room -= n
	m.part, m.partial = s.For, had+n
	if m.shut {
		wait := m.queue.Refused(m.now, n, m.state.Restarts)
		if wait == 0 {
			m.closed = true
		}
		return wait == 0
	}
	all := m.queue.Wrote(n)
	if all != (m.partial == len(r.chunk)) {
		m.Fatalf("of write %d, %d bytes of %d were taken: all is %t", s.For, m.partial, len(r.chunk), all)
	}
	if all {
		m.whole[s.For], m.part = true, -1
	}
	return all
}

func (m *model) answer(i int, do Do) {
	r := m.requests[i]
	right := false
	switch {
	case !r.write && r.run != 0 && r.run != m.state.Run:
		right = do == OtherRun
	case !r.write:
		right = do == Accepted && (m.closed || m.state.Over || !m.state.Piped)
	case do == Accepted:
		right = m.whole[i]
	case do == Ended:
		right = !m.whole[i] && (m.closed || m.state.Over || !m.state.Piped)
	}
	if !right {
		m.Fatalf("request %d, %+v, is answered with %d: closed %t, whole %t, %+v", i, r, do, m.closed, m.whole[i], m.state)
	}
	m.queue.Answered()
	if m.part == i {
		m.part = -1
	}
	m.sent = m.sent[1:]
}

// progress of the program.
func (m *model) reads(*rapid.T) { m.room = rapid.IntRange(1, 30).Draw(m.T, "room") }
func (m *model) shuts(*rapid.T) { m.shut = true }
func (m *model) tick(*rapid.T) {
	m.now = m.now.Add(rapid.SampledFrom([]time.Duration{1, endTime}).Draw(m.T, "time"))
}

// ends is the end of the program, and then of its run, and perhaps the next run.
func (m *model) ends(*rapid.T) {
	switch {
	case m.state.Over:
	case !m.state.Dead && !m.state.Between:
		m.state.Dead, m.shut = true, true
	case !m.state.Restarts:
		m.state.Over = true
	case m.state.Dead:
		m.state.Dead, m.state.Between = false, true
	default:
		m.state.Between, m.state.Run = false, m.state.Run+1
		m.shut, m.closed, m.part, m.room = false, false, -1, 0
		m.queue.NextRun()
	}
}

func (m *model) check(*rapid.T) {
	if m.queue.Len() != len(m.sent) {
		m.Fatalf("%d requests wait, want %d", m.queue.Len(), len(m.sent))
	}
}

// Whatever happens in whatever order, a run gets each write at most once, from its beginning,
// without a hole and in order; no program that has ended gets any; and each request is answered
// in order, with what became of it.
func TestEachByteOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{T: t, now: start, part: -1, whole: make(map[int]bool), state: State{
			Run: 1, Piped: rapid.IntRange(0, 9).Draw(t, "piped") > 0, Restarts: rapid.Bool().Draw(t, "restarts"),
		}}
		t.Repeat(map[string]func(*rapid.T){
			"": m.check, "send": m.send, "cut": m.cut, "step": m.step, "reads": m.reads, "shuts": m.shuts, "tick": m.tick, "ends": m.ends,
		})
	})
}

// A program has some time to end after closing its stdin. Afterwards the program gets no write.
// A process without a policy has no next run to wait for.
func TestRefused(t *testing.T) {
	var q Queue[string]
	q.Add(write("a", "text"))
	s := State{Run: 1, Restarts: true, Piped: true}
	if wait := q.Refused(start, 1, true); wait != endTime {
		t.Errorf("it has %v to end, want %v", wait, endTime)
	}
	if step := q.Next(s); step.Do != Write || string(step.Chunk) != "ext" {
		t.Errorf("the next step is %+v, want to write the rest", step)
	}
	if wait := q.Refused(start.Add(endTime-1), 0, true); wait != 1 {
		t.Errorf("it has %v to end, want 1ns", wait)
	}
	dead := s
	dead.Dead = true
	if step := q.Next(dead); step.Do != Wait {
		t.Errorf("the next step is %+v although the program has ended", step)
	}
	if wait := q.Refused(start.Add(endTime), 0, true); wait != 0 {
		t.Errorf("it has %v to end, want 0", wait)
	}
	if step := q.Next(s); step.Do != Ended || step.For != "a" {
		t.Errorf("the next step is %+v, want an answer", step)
	}
	q.NextRun()
	if step := q.Next(s); step.Do != Write || string(step.Chunk) != "text" {
		t.Errorf("the next run gets %+v, want the write from its beginning", step)
	}
	if wait := q.Refused(start.Add(time.Hour), 0, true); wait != endTime {
		t.Errorf("the next run has %v to end, want %v", wait, endTime)
	}
	var once Queue[string]
	once.Add(write("a", "text"))
	if wait := once.Refused(start, 4, false); wait != 0 {
		t.Errorf("a process without a policy has %v to end", wait)
	}
	if step := once.Next(State{Run: 1, Piped: true}); step.Do != Ended {
		t.Errorf("the next step is %+v; all bytes were taken by a stdin that was closed over the last", step)
	}
}

// A write may come again under the same id with a shorter chunk. The program then gets the rest of
// the shorter chunk.
func TestOtherChunk(t *testing.T) {
	var q Queue[string]
	s := State{Run: 1, Piped: true}
	q.Add(write("a", "long text"))
	if q.Wrote(7) {
		t.Error("7 of 9 bytes are all")
	}
	q.Drop(func(string) bool { return true })
	q.Add(write("a", "short"))
	if step := q.Next(s); step.Do != Write || len(step.Chunk) != 0 {
		t.Errorf("the next step is %+v", step)
	}
	if !q.Wrote(0) || q.Next(s).Do != Accepted {
		t.Error("no bytes of nothing are not all")
	}
}

// Drop drops the requests of a client, and the other requests keep their order.
func TestDrop(t *testing.T) {
	var q Queue[string]
	for _, name := range []string{"a", "b", "c", "d"} {
		q.Add(write(name, ""))
	}
	q.Drop(func(name string) bool { return name == "a" || name == "c" })
	var got []string
	for q.Len() > 0 {
		got = append(got, q.Next(State{}).For)
		q.Answered()
	}
	if !slices.Equal(got, []string{"b", "d"}) {
		t.Errorf("left are %v, want b and d", got)
	}
}

// After a run took a whole write, no later run gets the write, although the client repeats it.
func TestWholeForOneRun(t *testing.T) {
	var q Queue[string]
	s := State{Run: 1, Restarts: true, Piped: true}
	q.Add(write("a", "text"))
	if !q.Wrote(4) {
		t.Error("4 bytes of 4 are not all")
	}
	q.Answered()
	q.NextRun()
	s.Run = 2
	q.Add(write("a", "text"))
	if step := q.Next(s); step.Do != Accepted {
		t.Errorf("the next step is %+v, want an answer", step)
	}
}

// The next run gets a write from its beginning if the last run took a part, whoever wrote.
func TestPartForTheNextRun(t *testing.T) {
	for _, guest := range []bool{false, true} {
		var q Queue[string]
		r := write("a", "text")
		r.Guest = guest
		q.Add(r)
		if q.Wrote(1) {
			t.Error("1 byte of 4 is all")
		}
		q.NextRun()
		if step := q.Next(State{Run: 2, Restarts: true, Piped: true}); step.Do != Write || string(step.Chunk) != "text" {
			t.Errorf("of a guest: %v: the next step is %+v, want all of the write", guest, step)
		}
	}
}

// A terminal whose end-of-file character was typed takes later writes.
func TestTyped(t *testing.T) {
	var q Queue[int]
	state := State{Run: 1, Piped: true}
	q.Add(Request[int]{For: 1})
	q.Add(Request[int]{For: 2, Write: true, ID: repeat.IDOf("w"), Chunk: []byte("\x03")})
	if s := q.Next(state); s.Do != Close || s.For != 1 {
		t.Fatalf("%+v", s)
	}
	q.Typed()
	if s := q.Next(state); s.Do != Accepted || s.For != 1 {
		t.Fatalf("%+v after Typed", s)
	}
	q.Answered()
	if s := q.Next(state); s.Do != Write || s.For != 2 {
		t.Errorf("%+v for a write after Typed", s)
	}
}

// A write that the program has taken before the server died is accepted when its client writes again, although the program has ended since, or another run of
// it goes on. A write of which the program has taken a part is not.
func TestFound(t *testing.T) {
	for _, last := range []bool{true, false} {
		var q Queue[string]
		q.Found(repeat.IDOf("1"), 3, last)
		q.Add(write("1", "all"))
		over := map[bool]Do{true: Accepted, false: Ended}[last]
		if got := q.Next(State{Run: 1, Piped: true, Over: true}); got.Do != over {
			t.Errorf("after the end, last %v: %+v", last, got)
		}
		q.NextRun()
		next := map[bool]Do{true: Accepted, false: Write}[last]
		if got := q.Next(State{Run: 2, Piped: true}); got.Do != next {
			t.Errorf("in the next run, last %v: %+v", last, got)
		}
	}
}
