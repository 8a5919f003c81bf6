package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/compose"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/why"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// upSettle is how long a run without a readiness probe must go on before troupe up --wait takes the run for ready: a
// program that fails as it starts has failed by then.
const upSettle = time.Second

// A waiter finds out whether the processes of a project are ready, for troupe up --wait. The zero value has seen nothing.
type waiter struct {
	runs map[string]sighting // by process
}

// A sighting is when the waiter has seen a run first.
type sighting struct {
	run int
	at  time.Time
}

// look returns how many of the processes wanted are not ready yet, and why one of them will not be. ended has the
// processes whose program has ended.
func (w *waiter) look(wanted []compose.Unit, members []protocol.GroupMember, ended map[string]protocol.ExitStatus, now time.Time) (waiting int, problem error) {
	if w.runs == nil {
		w.runs = make(map[string]sighting)
	}
	for _, unit := range wanted {
		m := member(members, unit.ID)
		if m == nil {
			continue // somebody has ended the whole group
		}
		if seen := w.runs[unit.ID]; seen.run != m.Run || seen.at.IsZero() {
			w.runs[unit.ID] = sighting{m.Run, now}
		}
		status, hasEnded := ended[unit.ID]
		probed := unit.Program.Ready != nil
		switch {
		case m.State == supervision.Left.String() && hasEnded && status.ExitCode != 0:
			reason := cmp.Or(m.Reason, why.Ended(&status)) // of the group, such as: too many restarts
			problem = fmt.Errorf("%s has failed: %s", unit.ID, show.Harmless(reason))
		case stuck(m) && !m.Ready:
			problem = fmt.Errorf("%s is not ready: %s", unit.ID, whyNot(m))
		case !m.Ready, m.State == supervision.Running.String() && !probed && now.Sub(w.runs[unit.ID].at) < upSettle:
			waiting++
		}
	}
	return waiting, problem
}
