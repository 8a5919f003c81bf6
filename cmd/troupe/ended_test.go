package main

import (
	"testing"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/pick"
	"github.com/b6f6fdd7/troupe/protocol"
)

// ps, sessions and the names of processes agree on which processes have ended.
func TestEnded(t *testing.T) {
	for _, state := range []protocol.State{protocol.StateStarting, protocol.StateRunning, protocol.StateRestarting, protocol.StateWaiting, protocol.StateExited, protocol.StateClosed} {
		p := protocol.ProcessInfoResult{ProcessInfo: protocol.ProcessInfo{ProcessID: "web", State: string(state)}}
		session := protocol.SessionDetails{SessionSummary: protocol.SessionSummary{SessionID: "s", Processes: 1}, List: []protocol.ProcessInfoResult{p}}
		want, wantCell, wantRunning := state == protocol.StateClosed, string(state), 1
		if want {
			wantCell, wantRunning = "ended", 0
		}
		if got := pick.Ended(&p.ProcessInfo); got != want {
			t.Errorf("%s: a name finds the process as ended: %v", state, got)
		}
		if cell := stateCell(&p); cell.Text != wantCell {
			t.Errorf("%s: ps shows %q, want %q", state, cell.Text, wantCell)
		}
		if n := running(&session); n != wantRunning {
			t.Errorf("%s: sessions counts %d running, want %d", state, n, wantRunning)
		}
	}
}
