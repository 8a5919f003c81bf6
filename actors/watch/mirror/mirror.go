// Package mirror has the newest known state of all sessions, and the place of each viewer in its changes.
//
// A Mirror is a pure machine without actor, goroutine or I/O. The owner asks whom Next names, passes the answers to Session and Process, passes on who has changed
// to Noticed, and sends each viewer the result of Piece.
//
//	Noticed ─▶ queued ─ Next ─▶ asked ─ Session, Process ─▶ changes ─ Piece ─▶
//	 rounds ─────▶
//
// # Where to look
//
//   - mirror.go: who is looked at, and when
//   - state.go: changes, and numbers too small to be a change
//   - viewer.go: the pieces for a viewer
package mirror

import (
	"container/list"
	"time"

	"github.com/b6f6fdd7/troupe/internal/fifo"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// askedAtOnce is how many sessions and processes are asked at the same time. Each process may have a goroutine for the files of its cgroup.
	askedAtOnce = 64
	// Pause is the shortest time between two looks at the same board, and between two differences for a viewer.
	Pause = 50 * time.Millisecond
	// rest is the longest time between two looks at numbers without a change.
	rest = 30 * time.Second
	// silence is how long the answer to a look may take. Then the look is over.
	silence = 10 * time.Second
	// gathering is how long viewers wait for silent processes in the beginning.
	gathering = 2 * time.Second
	// share: rounds take a quarter of the time at most.
	share = 4
)

// A Look is a question to To.
type Look[A any] struct {
	To      A
	Session bool // To is a session, and else a process
	Usage   bool // of a process: with its usage

	at    *subject[A]
	token uint64
}

// A Notice tells of a change of a session or a process.
type Notice[A any] struct {
	Session string // the id of the session
	Process string // the name of the actor of the process; "": the session
	To      A      // the actor
	Of      A      // the actor of the session
	Soon    bool   // more than numbers has changed
	Gone    bool   // the actor has ended
}

// A Mirror has the newest known state. New makes one.
type Mirror[A any] struct {
	every    time.Duration // between two rounds: the shortest of all viewers; 0: there is no viewer
	sessions map[string]*session[A]
	viewers  map[*Viewer]bool

	// Changes and births, both in order. Elements are items.
	serial  uint64
	changes list.List
	births  list.List

	// Looks.
	begun    bool                     // Sessions has come
	gathered bool                     // everybody has answered once
	soon     fifo.Queue[*subject[A]]  // have changed
	numbers  fifo.Queue[*subject[A]]  // of a round
	asked    map[*subject[A]]struct{} // have not answered
	urgent   int                      // of soon and asked: looks for more than numbers
	token    uint64
	round    uint64    // the number of the last round
	roundAt  time.Time // when the last round began, or the machine
	going    bool      // a round is under way
	nextAt   time.Time // of the next round
}

// A subject is a session or a process under observation.
type subject[A any] struct {
	to      A
	session *session[A] // itself, or the session of the process
	process *process[A] // nil: the subject is the session
	gone    bool

	queued bool      // waits for a look
	urgent bool      // waits in soon, or is asked because of soon
	again  bool      // has changed since the question
	news   bool      // and not only its numbers
	token  uint64    // of the look under way; 0: none is
	at     time.Time // of the question

	due, wait uint64 // the next round with a look, and its distance from the last look, in rounds
}

// session is a session with its state.
type session[A any] struct {
	subject[A]
	item
	id        string
	summary   protocol.SessionSummary // without an id: the session has not answered yet
	processes map[string]*process[A]  // by the names of their actors
	groups    map[string]*group[A]    // by id
}

// process is a process with its state.
type process[A any] struct {
	subject[A]
	item
	name   string // of the actor
	info   protocol.ProcessInfoResult
	facts  protocol.ProcessInfoResult // of info: without numbers
	seenAt time.Time                  // when info was true
}

// group is a group with its state.
type group[A any] struct {
	item
	session *session[A]
	info    protocol.GroupInfo
}

// item is a place in the changes. A new item has no elements.
type item struct {
	born, changed uint64 // serials
	birth, change *list.Element
}

// New returns an empty Mirror.
func New[A any](now time.Time) *Mirror[A] {
	return &Mirror[A]{sessions: make(map[string]*session[A]), viewers: make(map[*Viewer]bool), asked: make(map[*subject[A]]struct{}), roundAt: now}
}

// Sessions takes the list of all sessions: the actor of each, by id.
func (m *Mirror[A]) Sessions(all map[string]A) {
	m.begun = true
	for id, to := range all {
		m.want(&m.session(id, to).subject, true)
	}
}

// Noticed takes the news of a change.
func (m *Mirror[A]) Noticed(n Notice[A]) {
	switch s := m.sessions[n.Session]; {
	case n.Process == "" && n.Gone:
		m.sessionGone(s)
	case n.Process == "":
		m.want(&m.session(n.Session, n.To).subject, true)
	case !n.Gone:
		// A session that has not answered yet will name its processes. Until then nobody knows who may see them.
		if s = m.session(n.Session, n.Of); s.change != nil {
			m.want(&m.process(s, n.Process, n.To).subject, n.Soon)
		}
	case s != nil:
		m.processGone(s.processes[n.Process])
	}
}

// session returns the session with an id. A new session is looked at.
func (m *Mirror[A]) session(id string, to A) *session[A] {
	s := m.sessions[id]
	if s == nil {
		s = &session[A]{id: id, processes: make(map[string]*process[A]), groups: make(map[string]*group[A])}
		s.subject = subject[A]{to: to, session: s}
		m.sessions[id] = s
		m.want(&s.subject, true)
	}
	return s
}

// process returns the process of a session whose actor has a name.
func (m *Mirror[A]) process(s *session[A], name string, to A) *process[A] {
	p := s.processes[name]
	if p == nil {
		p = &process[A]{name: name}
		p.subject = subject[A]{to: to, session: s, process: p}
		s.processes[name] = p
	}
	return p
}

// want has a subject looked at: at once if urgent, and otherwise in the next round.
func (m *Mirror[A]) want(s *subject[A], urgent bool) {
	switch {
	case s.token != 0:
		s.again, s.news = true, s.news || urgent
	case !urgent:
		s.due, s.wait = m.round+1, 1
	case !s.urgent:
		s.queued, s.urgent = true, true
		m.urgent++
		m.soon.Push(s)
	}
}

// Next returns whom to ask now, if there is anybody.
func (m *Mirror[A]) Next(now time.Time) (l Look[A], ok bool) {
	for len(m.asked) < askedAtOnce {
		s, ok := m.soon.Pop()
		if !ok {
			s, ok = m.numbers.Pop()
		}
		if !ok {
			break
		}
		if s.gone || !s.queued { // of the two queues, the first had the subject too
			continue
		}
		m.token++
		s.queued, s.token, s.at = false, m.token, now
		m.asked[s] = struct{}{}
		l = Look[A]{To: s.to, Session: s.process == nil, at: s, token: m.token}
		// An event is told at once, and usage takes time. In the beginning, everything is told together.
		l.Usage = s.process != nil && (!s.urgent || !m.gathered)
		return l, true
	}
	return l, false
}

// Session takes the answer of a session: a summary, all groups, and the actors of started processes, by their names. summary is nil if
// the session is not there, or in no list.
func (m *Mirror[A]) Session(l Look[A], now time.Time, summary *protocol.SessionSummary, groups []protocol.GroupInfo, processes map[string]A) {
	if !m.answered(l) {
		return
	}
	s := l.at.session
	if summary == nil {
		m.sessionGone(s)
		return
	}
	for name, to := range processes {
		if s.processes[name] == nil {
			m.want(&m.process(s, name, to).subject, true)
		}
	}
	m.idle(l.at, m.tellSession(s, *summary, groups))
}

// Process takes the answer of a process. info is nil if there is no such process, or not yet.
func (m *Mirror[A]) Process(l Look[A], now time.Time, info *protocol.ProcessInfoResult) {
	if !m.answered(l) {
		return
	}
	switch {
	case info != nil:
		m.idle(l.at, m.tellProcess(l.at.process, now, *info, l.Usage))
	case l.at.again: // it may have started since
		m.idle(l.at, true)
	default:
		m.processGone(l.at.process)
	}
}

// Failed ends a look without an answer. The next round has another look.
func (m *Mirror[A]) Failed(l Look[A]) {
	if m.answered(l) {
		m.idle(l.at, true)
	}
}

// answered ends a look, and returns false if the answer comes too late.
func (m *Mirror[A]) answered(l Look[A]) bool {
	s := l.at
	if s.token != l.token {
		return false
	}
	m.over(s)
	return !s.gone
}

// over ends the look under way.
func (m *Mirror[A]) over(s *subject[A]) {
	delete(m.asked, s)
	s.token = 0
	if s.urgent {
		s.urgent = false
		m.urgent--
	}
}

// idle chooses the next look at a subject: in the next round after a change, and else after a longer pause than before.
func (m *Mirror[A]) idle(s *subject[A], changed bool) {
	most := max(uint64(rest/max(m.every, 1)), 1)
	if s.wait = min(max(2*s.wait, 1), most); changed || s.again {
		s.wait = 1
	}
	s.due = m.round + s.wait
	if s.wait > 2 { // not all in the same round
		s.due -= m.token % (s.wait / 2)
	}
	news := s.news
	if s.again, s.news = false, false; news {
		m.want(s, true)
	}
}

// drop has nobody look at a subject any more.
func (m *Mirror[A]) drop(s *subject[A]) {
	s.gone = true
	if s.urgent && s.token == 0 {
		s.urgent = false
		m.urgent--
	}
}

// Tick notes when everybody has answered once, begins a round if due, ends the round if over, and gives up looks without an answer. The owner calls Tick after
// answers and news, before Next, Piece and Wake.
func (m *Mirror[A]) Tick(now time.Time) {
	for s := range m.asked {
		if now.Sub(s.at) >= silence {
			m.over(s)
			if !s.gone {
				m.idle(s, true)
			}
		}
	}
	settled := m.soon.Len()+m.numbers.Len()+len(m.asked) == 0
	m.gathered = m.gathered || m.begun && (settled || now.Sub(m.roundAt) >= gathering)
	m.endRound(now)
	if !m.RoundDue(now) {
		return
	}
	m.round++
	m.going, m.roundAt = true, now
	look := func(s *subject[A]) {
		if s.due <= m.round && s.token == 0 && !s.queued {
			s.queued = true
			m.numbers.Push(s)
		}
	}
	for _, s := range m.sessions {
		look(&s.subject)
		for _, p := range s.processes {
			look(&p.subject)
		}
	}
	m.endRound(now) // nobody may be due
}

// RoundDue reports whether Tick would begin a round.
func (m *Mirror[A]) RoundDue(now time.Time) bool {
	return !m.going && m.gathered && m.every > 0 && !now.Before(m.nextAt)
}

// endRound ends the round, if everybody has answered: the viewers get the numbers together.
func (m *Mirror[A]) endRound(now time.Time) {
	if !m.going || m.numbers.Len() > 0 {
		return
	}
	for s := range m.asked {
		if !s.urgent {
			return
		}
	}
	m.going, m.nextAt = false, m.roundAt.Add(max(m.every, share*now.Sub(m.roundAt)))
	for v := range m.viewers {
		v.due = v.due || now.Sub(v.flushed) >= v.every*3/4
	}
}

// Wake returns when Tick has something to do; zero: not by itself.
func (m *Mirror[A]) Wake() (at time.Time) {
	sooner := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	for s := range m.asked {
		sooner(s.at.Add(silence))
	}
	switch {
	case len(m.viewers) == 0:
	case !m.gathered:
		sooner(m.roundAt.Add(gathering))
	case !m.going:
		sooner(m.nextAt)
	}
	for v := range m.viewers {
		if v.wants && v.stage == still && v.soon {
			sooner(m.soonAt(v))
		}
	}
	return at
}
