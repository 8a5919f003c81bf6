//go:build slow && unix

package profile

import (
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
)

// TestSlowOutput: the end of a program may come late, since all output comes before it: over a slow link, or from a server with a limit of output.
func TestSlowOutput(t *testing.T) {
	before := patience
	patience = 10 * time.Second // between two events, also on a busy machine; all of them take longer
	defer func() { patience = before }()
	s := newFake(t)
	s.change = func(e oracle.Event) []oracle.Event {
		time.Sleep(250 * time.Millisecond)
		return []oracle.Event{e}
	}
	r := runTask(t, t.Context(), newTask(t, s, plan.Part{Profile: plan.Flood, Life: lifetime(200 * time.Millisecond)}))
	wantCounts(t, r, map[string]int64{result.Ends: 1, result.CheckedBytes: -60_000})
}
