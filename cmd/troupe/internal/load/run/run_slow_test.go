//go:build slow && unix

package run

import (
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
)

// TestRun: a run with cuts, takeovers, kills and stalls finds nothing wrong with a correct server, and leaves nothing behind.
func TestRun(t *testing.T) {
	for _, scheme := range []string{"ws", "unix+frames"} {
		t.Run(scheme, func(t *testing.T) {
			p := testPlan(serve(t, scheme), 10*time.Second,
				plan.Part{Profile: plan.Spawn, Weight: 2}, plan.Part{Profile: plan.Echo, Weight: 1, Every: plan.Duration(10 * time.Millisecond), Life: plan.Duration(time.Second)},
				plan.Part{Profile: plan.Lines, Weight: 1, Life: plan.Duration(time.Second)})
			p.Sessions, p.Processes = 4, 3
			p.Chaos = plan.Chaos{FIN: 3, RST: 5, MidFrame: 3, Handshake: 2, Resume: 3, Takeover: 3, Kill: 10, Stall: 1, StallFor: plan.Duration(50 * time.Millisecond)}
			r := runPlan(t.Context(), t, p, Access{}, nil)
			wantRight(t, r)
			c := r.Counts
			if c[result.Sessions] != 4 || c[result.Cuts] == 0 || c[result.Resumes] == 0 || c[result.Takeovers] == 0 || c[result.Kills] == 0 || c[result.Operations] == 0 || c[result.CheckedBytes] == 0 {
				t.Errorf("counts: %v", c)
			}
		})
	}
}

// TestRampTooLong: of sessions that begin only at the end of the phases, no error says why they were never open.
func TestRampTooLong(t *testing.T) {
	p := testPlan(serve(t, "ws"), 10*time.Second, plan.Part{Profile: plan.Idle, Weight: 1})
	p.Ramp = plan.Duration(30 * time.Second)
	r := runPlan(t.Context(), t, p, Access{}, nil)
	wantSaid(t, "problems", r.Problems, "1 of 2 sessions were not open before the phases ended, and checked nothing: choose a shorter ramp, or more time")
	if len(r.Errors) > 0 {
		t.Errorf("errors %v", r.Errors)
	}
}
