package pick

import "github.com/b6f6fdd7/troupe/protocol"

// Of returns the sessions of Client.Sessions with protocol.DetailProcesses or more.
func Of(list []protocol.SessionDetails) []Session {
	all := make([]Session, len(list))
	for i, s := range list {
		all[i] = Session{ID: s.SessionID, Name: s.Name}
		for _, p := range s.List {
			all[i].Processes = append(all[i].Processes, Process{ID: p.ProcessID, Ended: protocol.State(p.State) == protocol.StateClosed})
		}
	}
	return all
}
