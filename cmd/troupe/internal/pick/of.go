package pick

import "github.com/b6f6fdd7/troupe/protocol"

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

// Of returns the sessions of Client.Sessions with protocol.DetailProcesses or more.
func Of(list []protocol.SessionDetails) []Session {
	all := make([]Session, len(list))
	for i, s := range list {
		all[i] = Session{ID: s.SessionID, Name: s.Name}
		for _, p := range s.List {
			all[i].Processes = append(all[i].Processes, Process{ID: p.ProcessID, Ended: Ended(&p.ProcessInfo), Started: p.StartedAtMs})
		}
	}
	return all
}
