//go:build unix

package run

import (
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/chaos"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
)

func TestAbsences(t *testing.T) {
	var a absences
	at := func(seconds int) time.Time { return time.Unix(int64(1000+seconds), 0) }
	want := func(from, to int, away bool) {
		t.Helper()
		if a.overlap(at(from), at(to)) != away {
			t.Errorf("away from %d to %d: %v; absences %v", from, to, !away, a)
		}
	}
	want(1, 2, false)
	a.end(at(3)) // a resume after a cut
	want(1, 4, false)
	a.leave(at(10))
	want(5, 9, false)
	want(5, 12, true)
	want(11, 12, true)
	a.leave(at(15)) // again, before the resume
	a.end(at(20))
	want(5, 9, false)
	want(5, 12, true)
	want(15, 25, true)
	want(21, 25, false)
	a.end(at(27)) // a resume after a cut
	want(21, 28, false)
	want(19, 28, true)
	a.leave(at(30))
	want(21, 29, false)
	want(19, 29, true)
	want(21, 31, true)
}

// TestCutAfterLeave: the client is away from its Leave to the resume, and a later cut of the chaos is no absence.
func TestCutAfterLeave(t *testing.T) {
	for _, plain := range []bool{false, true} {
		url := serve(t, "ws")
		e := newTestEngine(t, testPlan(url, time.Second, plan.Part{Profile: plan.Idle, Weight: 1}))
		e.plain = plain
		s := openSession(t, e, url)
		resumed := func(n int64) func() bool {
			return func() bool { return e.rec.Now().Counts[result.Resumes] == n }
		}
		began := time.Now()
		s.Leave(time.Millisecond)
		if !s.Away(began, time.Now()) {
			t.Error("the client is not away")
		}
		await(t, "the return", resumed(1))
		back := time.Now()
		if !s.Away(began, back) {
			t.Error("the client was not away")
		}
		await(t, "a cut", func() bool { return s.dialer.Do(chaos.Act{Kind: chaos.RST}, 0) })
		await(t, "the resume", resumed(2))
		if s.Away(back, time.Now()) {
			t.Errorf("without extensions %v: the cut is an absence", plain)
		}
	}
}
