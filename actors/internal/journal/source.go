package journal

import (
	"strings"

	"github.com/b6f6fdd7/troupe/protocol"
)

// maxText bounds the arguments of an event, and its reason, in bytes each. The rest is cut.
const maxText = 512

// A Source puts the events of a session into the journal. The session has its first event when its first process starts: a client that
// only looks at the server has a session without events. Any goroutine may use a Source. The nil Source does nothing.
type Source struct {
	journal        *Journal
	owner, session string

	// Guarded by the lock of the journal.
	name   string
	opened bool
	state  protocol.ServerEventKind // the last of attached, detached, closing and gone
}

// Source returns the source of a new session, which owner opens and owns. The nil Journal returns nil.
func (j *Journal) Source(owner, session, name string) *Source {
	if j == nil {
		return nil
	}
	return &Source{journal: j, owner: owner, session: session, name: name, state: protocol.ServerAttached}
}

// Owner returns the identity that owns the session; "": nobody was asked, or nobody knows.
func (s *Source) Owner() string {
	if s == nil {
		return ""
	}
	return s.owner
}

// Rename gives the session another name.
func (s *Source) Rename(name string) {
	if s != nil {
		s.journal.mu.Lock()
		defer s.journal.mu.Unlock()
		s.name = name
	}
}

// Put adds an event of a process or a group. What comes after the end of the session is left out.
func (s *Source) Put(e protocol.ServerEvent) {
	if s == nil {
		return
	}
	e.Argv, e.Reason = cutArgv(e.Argv), cut(e.Reason, maxText)
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	if s.state == protocol.ServerGone {
		return
	}
	if !s.opened {
		s.opened = true
		s.put(protocol.ServerEvent{Kind: protocol.ServerOpened})
		if s.state != protocol.ServerAttached {
			s.put(protocol.ServerEvent{Kind: s.state})
		}
	}
	s.put(e)
}

// Become adds the event that the session is attached, detached, closing or gone. A repetition, and what comes after gone, adds nothing.
func (s *Source) Become(state protocol.ServerEventKind, reason string) {
	if s == nil {
		return
	}
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	if state == s.state || s.state == protocol.ServerGone {
		return
	}
	if s.state = state; s.opened {
		s.put(protocol.ServerEvent{Kind: state, Reason: cut(reason, maxText)})
	}
}

func (s *Source) put(e protocol.ServerEvent) {
	e.SessionID, e.SessionName = s.session, s.name
	s.journal.put(s.owner, e)
}

// cutArgv returns a copy of the first maxText bytes of the arguments. A copy keeps no message of a client in memory.
func cutArgv(argv []string) (all []string) {
	left := maxText
	for _, arg := range argv {
		if left <= 0 {
			return append(all, "…")
		}
		all = append(all, cut(arg, left))
		left -= len(arg) + 1
	}
	return all
}

func cut(text string, most int) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strings.Clone(text)
}
