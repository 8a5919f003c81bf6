package compose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Action is the treatment of a process by up.
type Action int

const (
	Leave   Action = iota // the process runs or has completed, as in the file
	Start                 // the process does not run
	Restart               // the process runs with an older version of its entry
	Stop                  // the process runs, and the file has no such process any more
)

func (a Action) String() string { return [...]string{"leave", "start", "restart", "stop"}[a] }

// Step is the action for a process.
type Step struct {
	Action Action
	ID     string
	Unit   Unit // not of Stop
	Reason string
}

// Plan compares the file with the processes of a server. wanted are the programs to run, in start order; members is
// the group on the server, in its start order. With prune, Plan stops the processes missing in wanted. Plan returns
// the steps in start order, with stops last. The caller does the stops first, in the reverse order.
func (p *Project) Plan(wanted []*Program, members []protocol.GroupMember, prune bool) (steps []Step) {
	has := make(map[string]protocol.GroupMember)
	for _, m := range members {
		has[m.ProcessID] = m
	}
	ids := make(map[string]bool)
	for _, one := range wanted {
		for _, u := range one.Units() {
			ids[u.ID] = true
			m, there := has[u.ID]
			steps = append(steps, p.step(u, m, there))
		}
	}
	for _, m := range members {
		if ids[m.ProcessID] || m.State == "left" {
			continue
		}
		// A replica too many is stopped, even if the person named only some of the programs.
		extra := slices.ContainsFunc(wanted, func(one *Program) bool { return replicaOf(m.ProcessID, one.Name) && p.owner(m.ProcessID) == nil })
		if prune || extra {
			reason := "it is no longer in the file"
			if one := p.owner(m.ProcessID); one != nil && one.Disabled {
				reason = "it is disabled"
			}
			steps = append(steps, Step{Action: Stop, ID: m.ProcessID, Reason: reason})
		}
	}
	return steps
}

func (p *Project) step(u Unit, m protocol.GroupMember, there bool) Step {
	s := Step{ID: u.ID, Unit: u}
	digest, _, _ := strings.Cut(m.Label, " ")
	same := digest == p.Digest(u)
	switch {
	case !there:
		s.Action, s.Reason = Start, "it is new"
	case m.State == "left" && m.Ready && same && p.completes(u.Program):
		s.Reason = "it has completed, and did not change"
	case m.State == "left":
		s.Action, s.Reason = Start, "it had ended"
		if m.Reason != "" {
			s.Reason += ": " + m.Reason
		}
	case !same:
		s.Action, s.Reason = Restart, "it has changed"
	default:
		s.Reason = "it did not change"
	}
	return s
}

// owner returns the program of the file with a process; nil: there is none.
func (p *Project) owner(id string) *Program {
	for _, one := range p.Programs {
		for _, u := range one.Units() {
			if u.ID == id {
				return one
			}
		}
	}
	return nil
}

// replicaOf reports whether id is the name of a program, or of a replica of the program.
func replicaOf(id, name string) bool {
	if id == name {
		return true
	}
	var n int
	k, err := fmt.Sscanf(id, name+"-%d", &n)
	return err == nil && k == 1 && id == fmt.Sprintf("%s-%d", name, n)
}
