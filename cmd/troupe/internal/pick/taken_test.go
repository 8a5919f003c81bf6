package pick

import (
	"fmt"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
)

// A name is taken by a process that runs, and by the session of a command that comes to its start first.
func TestTaken(t *testing.T) {
	started := func(id, name string, created int64, starting int, processes ...protocol.ProcessInfoResult) protocol.SessionDetails {
		s := protocol.SessionDetails{List: processes}
		s.SessionID, s.Name, s.CreatedAtMs, s.State, s.Processes = id, name, created, protocol.SessionAttached, len(processes)+starting
		return s
	}
	process := func(id string, state protocol.State) (p protocol.ProcessInfoResult) {
		p.ProcessID, p.State = id, string(state)
		return p
	}
	left := started("left", "web", 1, 0)
	left.State = protocol.SessionDetached
	mine := started("m", "web", 10, 0)
	for i, c := range []struct {
		other protocol.SessionDetails
		taken bool
	}{
		{started("a", "web", 1, 0, process("web", protocol.StateRunning)), true},
		{started("a", "shop", 20, 0, process("web", protocol.StateRestarting)), true}, // of a project
		{started("a", "web", 1, 0, process("web", protocol.StateClosed)), false},
		{started("a", "web", 1, 0, process("web", protocol.StateDraining)), false},
		{started("a", "web", 1, 0, process("db", protocol.StateRunning)), false},
		{started("a", "shop", 1, 0), false},
		{started("a", "web", 9, 0), true},   // it looks at the same moment, and is older
		{started("a", "web", 10, 0), true},  // as old: the ids count
		{started("z", "web", 10, 0), false}, //
		{started("a", "web", 11, 0), false}, // it finds this one
		{started("a", "web", 11, 1), true},  // it has looked before
		{left, false},                       // its command is gone
	} {
		by := Taken([]protocol.SessionDetails{c.other, mine}, "m", "web")
		if (by != nil) != c.taken || by != nil && by.SessionID != c.other.SessionID {
			t.Errorf("%d: taken by %v, want %v", i, by, c.taken)
		}
		// Of two that look at the same moment, one goes on.
		if c.other.Processes == 0 && c.other.Name == "web" && c.other.State == protocol.SessionAttached {
			if back := Taken([]protocol.SessionDetails{c.other, mine}, c.other.SessionID, "web"); (back != nil) == (by != nil) {
				t.Errorf("%d: both find the same: %v", i, back)
			}
		}
	}
	if by := Taken([]protocol.SessionDetails{mine}, "m", "web"); by != nil {
		t.Error(fmt.Sprint(by))
	}
}
