package pick

import (
	"cmp"
	"strings"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Ended reports whether a process has ended for good, and only its output is left. While descendants hold the output of
// an ended program, the process has not ended.
func Ended(p *protocol.ProcessInfo) bool { return protocol.State(p.State) == protocol.StateClosed }

// ProgramEnded reports whether the last run of a process has ended. Descendants of the program may go on.
func ProgramEnded(p *protocol.ProcessInfo) bool {
	switch protocol.State(p.State) {
	case protocol.StateDraining, protocol.StateExited:
		return true
	}
	return Ended(p)
}

// Taken returns the session that has the name of a new process: a process with the name runs there, or a command is about to start the
// process. mine is the session of the new process, which has the name, too. Of two commands that call Taken at the same moment, each
// after it has opened its session, the younger session finds the older. nil: the name is free.
func Taken(list []protocol.SessionDetails, mine, name string) *protocol.SessionDetails {
	var own *protocol.SessionDetails
	for i := range list {
		if list[i].SessionID == mine {
			own = &list[i]
		}
	}
	for i := range list {
		s := &list[i]
		if s == own {
			continue
		}
		for _, p := range s.List {
			if p.ProcessID == name && !ProgramEnded(&p.ProcessInfo) {
				return s
			}
		}
		if own == nil || s.Name != name || s.State != protocol.SessionAttached {
			continue
		}
		starts, older := s.Processes > len(s.List), cmp.Or(cmp.Compare(s.CreatedAtMs, own.CreatedAtMs), strings.Compare(s.SessionID, mine)) < 0
		if starts || len(s.List) == 0 && older {
			return s
		}
	}
	return nil
}
