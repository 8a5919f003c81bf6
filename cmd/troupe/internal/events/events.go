// Package events finds the events of the sessions and processes of a server by comparing two looks at the server.
package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/pick"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/why"
	"github.com/b6f6fdd7/troupe/protocol"
)

// An Event is an event of a session, a process or a group. The JSON of an Event is a line of troupe events --json.
type Event struct {
	At          time.Time            `json:"at"`
	SessionID   string               `json:"sessionId"`
	SessionName string               `json:"sessionName,omitempty"`
	ProcessID   string               `json:"processId,omitempty"` // empty: about the session, or a group
	GroupID     string               `json:"groupId,omitempty"`
	Kind        Kind                 `json:"kind"`
	Run         int                  `json:"run,omitempty"`
	Reason      string               `json:"reason,omitempty"`
	Status      *protocol.ExitStatus `json:"status,omitempty"` // of exited
}

// Kind is the kind of an Event.
type Kind string

const (
	Opened   Kind = "opened"   // a session has its first process
	Attached Kind = "attached" // a session has an owner again
	Detached Kind = "detached" // a session has no owner any more
	Closing  Kind = "closing"  // the server ends the processes of a session
	Gone     Kind = "gone"     // a session has ended, with all its processes

	Started   Kind = "started"
	Ready     Kind = Kind(protocol.EventReady)
	Exited    Kind = Kind(protocol.EventExited)
	Restarted Kind = Kind(protocol.EventRestarted)
	Evicted   Kind = Kind(protocol.EventEvicted)
	Closed    Kind = Kind(protocol.EventClosed)

	Group Kind = "group" // a group has the state in Reason
)

// Text describes the event in words.
func (e *Event) Text() string {
	switch e.Kind {
	case Exited:
		if e.Status != nil {
			return fmt.Sprintf("exited: run %d, %s", e.Run, why.Ended(e.Status))
		}
	case Restarted, Ready:
		return reason(fmt.Sprintf("%s: run %d", e.Kind, e.Run), e.Reason)
	case Group:
		return reason("group "+e.GroupID, e.Reason)
	case Evicted:
		return reason("given up", e.Reason)
	case Opened, Attached, Detached, Closing, Gone:
		return "session " + string(e.Kind)
	}
	return reason(string(e.Kind), e.Reason)
}

func reason(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + ": " + reason
}

// A Server answers the questions of a Watcher.
type Server interface {
	Sessions(context.Context) ([]protocol.SessionDetails, error)
	// Events reads the events of a process after a seq.
	Events(ctx context.Context, r pick.Ref, after uint64) (protocol.ProcessReadResult, error)
	Groups(ctx context.Context, session string) ([]protocol.GroupInfo, error)
}

// A Watcher compares a look at a server with the look before.
type Watcher struct {
	// Past makes the first look return all events still known to the server.
	Past bool

	begun    bool
	sessions map[string]*session
}

// A session is a session at the last look.
type session struct {
	name, state string
	processes   map[string]process
	groups      map[string]string // the state of each, with its reason
}

// A process is a process at the last look.
type process struct {
	started int64  // differs from an earlier process with the same id
	seq     uint64 // its events up to this seq were told
	mark    mark
}

// A mark differs if an event may have happened.
type mark struct {
	state        string
	run          int
	ready, ended bool
}

func markOf(p *protocol.ProcessInfo) mark { return mark{p.State, p.Run, p.Ready, p.Status != nil} }

// Look asks the server, and returns the events since the last look, in the order of their times. An event without a
// time from the server gets the time now.
func (w *Watcher) Look(ctx context.Context, s Server, now time.Time) ([]Event, error) {
	list, err := s.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	l := look{Watcher: w, server: s, now: now, tell: w.begun || w.Past}
	there := make(map[string]*session)
	for i := range list {
		if known, err := l.session(ctx, &list[i]); err != nil {
			return nil, err
		} else if known != nil {
			there[list[i].SessionID] = known
		}
	}
	for id, known := range w.sessions {
		if there[id] == nil {
			l.events = append(l.events, Event{At: now, SessionID: id, SessionName: known.name, Kind: Gone})
		}
	}
	w.sessions, w.begun = there, true
	slices.SortStableFunc(l.events, func(a, b Event) int { return a.At.Compare(b.At) })
	return l.events, nil
}

// A look is a Look under way.
type look struct {
	*Watcher
	server Server
	now    time.Time
	tell   bool
	events []Event
}

func (l *look) add(e Event) {
	if l.tell {
		l.events = append(l.events, e)
	}
}

// session returns the new state of a session. nil: the session never had a process, like the session of a command,
// and has no events.
func (l *look) session(ctx context.Context, s *protocol.SessionDetails) (*session, error) {
	about := Event{At: l.now, SessionID: s.SessionID, SessionName: s.Name}
	old := l.sessions[s.SessionID]
	switch {
	case old == nil && len(s.List) == 0:
		return nil, nil
	case old == nil:
		old = &session{}
		opened := about
		opened.At, opened.Kind = time.UnixMilli(s.CreatedAtMs), Opened
		l.add(opened)
	case old.state != s.State:
		changed := about
		changed.Kind = map[string]Kind{protocol.SessionAttached: Attached, protocol.SessionDetached: Detached, protocol.SessionClosing: Closing}[s.State]
		l.add(changed)
	}
	now := &session{name: s.Name, state: s.State, processes: make(map[string]process), groups: old.groups}
	changed, grouped := false, false
	for i := range s.List {
		p := &s.List[i].ProcessInfo
		grouped = grouped || p.Group != ""
		before, known := old.processes[p.ProcessID]
		if known && before.started != p.StartedAtMs {
			before, known = process{}, false
		}
		if known && before.mark == markOf(p) {
			now.processes[p.ProcessID] = before
			continue
		}
		changed = true
		after, err := l.process(ctx, about, p, before, known)
		if err != nil {
			return nil, err
		}
		now.processes[p.ProcessID] = after
	}
	if grouped && changed {
		if err := l.groups(ctx, about, now); err != nil {
			return nil, err
		}
	}
	return now, nil
}

// process tells the events of a process, and returns its new state.
func (l *look) process(ctx context.Context, about Event, p *protocol.ProcessInfo, before process, known bool) (process, error) {
	about.ProcessID = p.ProcessID
	now := process{started: p.StartedAtMs, seq: before.seq, mark: markOf(p)}
	if !l.tell {
		now.seq = p.NextSeq - 1
		return now, nil
	}
	if !known {
		started := about
		started.Kind, started.Reason = Started, strings.Join(p.Argv, " ")
		if p.StartedAtMs > 0 {
			started.At = time.UnixMilli(p.StartedAtMs)
		}
		l.add(started)
	}
	for {
		r, err := l.server.Events(ctx, pick.Ref{Session: about.SessionID, Process: p.ProcessID}, now.seq)
		if errors.Is(err, client.ErrSessionGone) || errors.Is(err, client.ErrProcessGone) {
			return now, nil // the next look does not find the process
		}
		if err != nil {
			return now, err
		}
		for _, e := range r.Events {
			event := about
			event.At, event.Kind, event.Run, event.Reason, event.Status = time.UnixMilli(e.AtMs), Kind(e.Kind), e.Run, e.Reason, e.Status
			l.add(event)
		}
		if r.NextSeq-1 <= now.seq || len(r.Events) == 0 {
			now.seq = max(now.seq, r.NextSeq-1)
			return now, nil
		}
		now.seq = r.NextSeq - 1
	}
}

// groups tells the groups of a session whose state has changed.
func (l *look) groups(ctx context.Context, about Event, s *session) error {
	list, err := l.server.Groups(ctx, about.SessionID)
	if errors.Is(err, client.ErrSessionGone) {
		return nil
	}
	if err != nil {
		return err
	}
	before := s.groups
	s.groups = make(map[string]string)
	for _, g := range list {
		state := reason(g.State, g.Reason)
		s.groups[g.GroupID] = state
		if before[g.GroupID] != state {
			changed := about
			changed.Kind, changed.GroupID, changed.Reason = Group, g.GroupID, state
			l.add(changed)
		}
	}
	return nil
}
