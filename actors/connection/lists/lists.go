// Package lists gathers answers to process/list and session/list. Many processes and sessions tell their parts.
//
// A Listing is a pure machine without actor, clock, goroutine or I/O. The owner asks whom Next names, passes the answers to Answer, and sends
// the client what Done returns.
//
//	Next ─▶ asked ─ Answer ─▶ … ─▶ Done
package lists

import (
	"cmp"
	"slices"
	"strings"

	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// askedAtOnce is how many processes are asked at the same time for a session/list. Each may have a goroutine
	// that reads the files of its cgroup.
	askedAtOnce = 64
	// maxBytes bounds the processes in an answer to session/list, in bytes of memory. Sessions for which there
	// is no room come without their processes.
	maxBytes = 8 << 20
)

// Ask is a question to To: a process, a session, or whoever knows all sessions.
type Ask[A any] struct {
	To   A
	What What
	Name string // of a process: names sort as the processes were made

	session *session[A] // of the process; nil: the list has processes alone
}

// What says which facts somebody is asked for.
type What int

const (
	Sessions    What = iota // all: which sessions there are. The answer is []A
	Summary                 // a session: about itself. Summarized, or nil if it is not listed
	Description             // a process: about itself. protocol.ProcessInfo
	Inspection              // a process: everything about itself. protocol.ProcessInfoResult
	Nodes                   // the other nodes of the cluster: their sessions. Elsewhere
)

// Summarized is the answer of a session.
type Summarized[A any] struct {
	protocol.SessionSummary
	Processes []Ask[A] // its processes, To and Name alone
}

// Elsewhere is the answer of the other nodes of a cluster.
type Elsewhere protocol.SessionDetailsResult

// process is the answer of a process.
type process struct {
	name string
	info protocol.ProcessInfo
	more *protocol.ProcessInfoResult // nil: only info was asked for
}

func byName(a, b process) int { return strings.Compare(a.name, b.name) }

// session is a session in a listing.
type session[A any] struct {
	protocol.SessionSummary
	ask  []Ask[A]  // processes to ask
	list []process // nil: none are listed
	told bool      // another node has told everything
}

// Listing is a process/list or a session/list.
type Listing[A any] struct {
	ofProcesses bool
	states      map[string]bool // of process/list: the states in its params; empty: all
	group       string          // of process/list: the group in its params; "": all
	detail      protocol.Detail // of session/list: what it tells of processes; "": nothing
	size        func(any) int   // the memory of a value, in bytes

	ask       []Ask[A] // whom to ask next
	left      int      // who were asked and have not answered
	err       *protocol.Error
	processes []process
	sessions  []*session[A]
	silent    []string // nodes that did not answer
	turn      int      // of sessions: whose processes are asked now; -1: sessions are being asked
	bytes     int      // of the processes of sessions that have had their turn
	done      bool
}

// OfProcesses returns the Listing of a process/list that asks these processes.
func OfProcesses[A any](p protocol.ProcessListParams, processes []Ask[A]) *Listing[A] {
	l := &Listing[A]{ofProcesses: true, group: p.Group, states: make(map[string]bool), turn: -1, ask: processes}
	for _, state := range p.States {
		l.states[string(state)] = true
	}
	l.goOn()
	return l
}

// OfSessions returns the Listing of a session/list. all knows which sessions there are, and in a cluster the other nodes know theirs. size returns about how much memory a value takes, in bytes.
func OfSessions[A any](p protocol.SessionListParams, all A, cluster bool, size func(any) int) *Listing[A] {
	l := &Listing[A]{detail: p.Detail, size: size, turn: -1, ask: []Ask[A]{{To: all, What: Sessions}}}
	if cluster {
		l.ask = append(l.ask, Ask[A]{What: Nodes})
	}
	return l
}

// Next returns whom to ask now, if there is anybody.
func (l *Listing[A]) Next() (a Ask[A], ok bool) {
	if len(l.ask) == 0 || l.turn >= 0 && l.left >= askedAtOnce {
		return a, false
	}
	a, l.ask = l.ask[0], l.ask[1:]
	l.left++
	return a, true
}

// Answer takes the answer to an Ask of Next.
func (l *Listing[A]) Answer(a Ask[A], answer any, err *protocol.Error) {
	switch answer := answer.(type) {
	case protocol.ProcessInfo:
		l.add(a, process{name: a.Name, info: answer})
	case protocol.ProcessInfoResult:
		l.add(a, process{name: a.Name, more: &answer})
	case Summarized[A]:
		l.sessions = append(l.sessions, &session[A]{SessionSummary: answer.SessionSummary, ask: answer.Processes})
	case Elsewhere:
		l.elsewhere(answer)
	case []A:
		for _, to := range answer {
			l.ask = append(l.ask, Ask[A]{To: to, What: Summary})
		}
	}
	if err != nil && err.Code == protocol.CodeInternal {
		l.err = err
	}
	l.left--
	l.goOn()
}

// elsewhere adds the sessions of other nodes.
func (l *Listing[A]) elsewhere(e Elsewhere) {
	l.silent = e.Unanswered
	for _, is := range e.Sessions {
		s := &session[A]{SessionSummary: is.SessionSummary, told: true}
		if !is.ListOmitted {
			s.list = mapped(is.List, func(p protocol.ProcessInfoResult) process { return process{info: p.ProcessInfo, more: &p} })
		}
		l.sessions = append(l.sessions, s)
	}
}

// add adds a process, unless the params of a process/list do not choose it.
func (l *Listing[A]) add(a Ask[A], is process) {
	switch {
	case a.session != nil:
		a.session.list = append(a.session.list, is)
	case (len(l.states) == 0 || l.states[is.info.State]) && (l.group == "" || l.group == is.info.Group):
		l.processes = append(l.processes, is)
	}
}

// goOn goes on with the next session whose processes are listed, once everybody has answered.
func (l *Listing[A]) goOn() {
	for l.left == 0 && len(l.ask) == 0 && !l.done {
		l.done = l.detail == "" || l.err != nil || !l.nextSession()
	}
}

// nextSession has the processes of the next session asked, if there is one and room for them.
func (l *Listing[A]) nextSession() bool {
	if l.turn < 0 {
		l.sortSessions()
	} else if s := l.sessions[l.turn]; !s.told {
		slices.SortFunc(s.list, byName)
		l.bytes += l.size(s.list)
	}
	l.turn++
	if l.turn >= len(l.sessions) || l.bytes >= maxBytes {
		return false
	}
	s, what := l.sessions[l.turn], Description
	if l.detail == protocol.DetailInfo {
		what = Inspection
	}
	if s.told {
		l.bytes += l.size(s.list)
		return true
	}
	s.list = make([]process, 0, len(s.ask))
	for _, a := range s.ask {
		l.ask = append(l.ask, Ask[A]{a.To, what, a.Name, s})
	}
	return true
}

func (l *Listing[A]) sortSessions() {
	slices.SortFunc(l.sessions, func(a, b *session[A]) int {
		return cmp.Or(cmp.Compare(a.CreatedAtMs, b.CreatedAtMs), strings.Compare(a.SessionID, b.SessionID))
	})
}

// Detail is what the list tells of the processes of sessions; "": nothing.
func (l *Listing[A]) Detail() protocol.Detail { return l.detail }

// Done returns the result or the error for the client, once everybody has answered.
func (l *Listing[A]) Done() (result any, err *protocol.Error, ok bool) {
	if !l.done {
		return nil, nil, false
	}
	return l.result(), l.err, true
}

func (l *Listing[A]) result() any {
	switch {
	case l.ofProcesses:
		slices.SortFunc(l.processes, byName)
		return protocol.ProcessListResult{Processes: infos(l.processes)}
	case l.detail == protocol.DetailProcesses:
		return protocol.SessionProcessesResult{Unanswered: l.silent, Sessions: mapped(l.sessions, func(s *session[A]) protocol.SessionProcesses {
			return protocol.SessionProcesses{SessionSummary: s.SessionSummary, List: infos(s.list), ListOmitted: s.list == nil}
		})}
	case l.detail == protocol.DetailInfo:
		return protocol.SessionDetailsResult{Unanswered: l.silent, Sessions: mapped(l.sessions, func(s *session[A]) protocol.SessionDetails {
			list := mapped(s.list, func(p process) protocol.ProcessInfoResult { return *p.more })
			return protocol.SessionDetails{SessionSummary: s.SessionSummary, List: list, ListOmitted: s.list == nil}
		})}
	}
	l.sortSessions()
	return protocol.SessionListResult{Unanswered: l.silent, Sessions: mapped(l.sessions, func(s *session[A]) protocol.SessionSummary { return s.SessionSummary })}
}

func infos(list []process) []protocol.ProcessInfo {
	return mapped(list, func(p process) protocol.ProcessInfo { return p.info })
}

// mapped returns f of each element, and never nil.
func mapped[T, R any](list []T, f func(T) R) []R {
	all := make([]R, 0, len(list))
	for _, e := range list {
		all = append(all, f(e))
	}
	return all
}
