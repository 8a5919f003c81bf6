package supervision

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Every policy with every way to end.
func TestPolicies(t *testing.T) {
	ends := []End{{}, {ExitCode: 1}, {ExitCode: 137, Signal: "SIGKILL"}, {Fault: "timed out"}, {Requested: true}, {ExitCode: 143, Signal: "SIGTERM", Requested: true}}
	for policy, want := range map[Policy][]Verdict{
		"":        {Over, Over, Over, Over, Over, Over},
		Temporary: {Over, Over, Over, Over, Over, Over},
		Transient: {Over, Again, Again, Again, Over, Over},
		Permanent: {Again, Again, Again, Again, Over, Over},
	} {
		for i, end := range ends {
			var h History
			r := Restart{Policy: policy, Intensity: Intensity{Restarts: 1}}
			if d := h.Ended(time.Unix(0, 0), r, end, 0); d.Verdict != want[i] {
				t.Errorf("%q after %+v: %v, want %v", policy, end, d, want[i])
			}
		}
	}
}

func TestGiveUp(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	often := Restart{Policy: Permanent, Intensity: Intensity{Restarts: 100}}
	fatal := often
	fatal.GiveUp = Deaths{ExitCodes: []int{2, 3}, Signals: []string{"SIGSEGV"}, Count: 2, Period: 10 * time.Second}
	first := often
	first.GiveUp = Deaths{ExitCodes: []int{2}}
	segv := End{ExitCode: 139, Signal: "SIGSEGV"}
	type death struct {
		at  int
		end End
	}
	for _, c := range []struct {
		name   string
		r      Restart
		deaths []death
		want   Verdict // after the last
		reason string
	}{
		{"no restart allowed", Restart{Policy: Permanent}, []death{{0, End{}}}, GivenUp, "exit code 0, and no more than 0 restarts are allowed"},
		{"too many", Restart{Policy: Transient, Intensity: Intensity{1, time.Minute}}, []death{{0, segv}, {59, segv}}, GivenUp, "ended by SIGSEGV, and no more than 1 restarts in 1m0s are allowed"},
		{"not in the period", Restart{Policy: Transient, Intensity: Intensity{1, time.Minute}}, []death{{0, segv}, {60, segv}}, Again, "ended by SIGSEGV"},
		{"the first is fatal", first, []death{{0, End{ExitCode: 2}}}, GivenUp, "exit code 2, which means to give up after 1 of them"},
		{"a second of either kind", fatal, []death{{0, segv}, {9, End{ExitCode: 3}}}, GivenUp, "exit code 3, which means to give up after 2 of them"},
		{"others do not count", fatal, []death{{0, segv}, {1, End{ExitCode: 1}}, {2, End{}}}, Again, "exit code 0"},
		{"nor do old ones", fatal, []death{{0, segv}, {10, segv}}, Again, "ended by SIGSEGV"},
		{"a code of 128 and more is not a signal", fatal, []death{{0, End{ExitCode: 139}}, {1, End{ExitCode: 139}}}, Again, "exit code 139"},
	} {
		var h History
		var d Decision
		for _, e := range c.deaths {
			d = h.Ended(at(e.at), c.r, e.end, 0)
		}
		if d.Verdict != c.want || d.Reason != c.reason {
			t.Errorf("%s: %+v, want %v: %s", c.name, d, c.want, c.reason)
		}
	}
}

// However and whenever a process ends: no run starts sooner than the backoff allows, no more runs start than the
// intensity allows, and no run follows a requested end.
func TestRestartsStayInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Restart{
			Policy:    rapid.SampledFrom([]Policy{Temporary, Transient, Permanent}).Draw(t, "policy"),
			Backoff:   Backoff{Initial: time.Second, Max: 8 * time.Second, Jitter: 0.5},
			Intensity: Intensity{Restarts: rapid.IntRange(0, 4).Draw(t, "restarts"), Period: 30 * time.Second},
			GiveUp:    Deaths{ExitCodes: []int{9}, Count: rapid.IntRange(0, 3).Draw(t, "count"), Period: time.Minute},
		}
		var h History
		var again []time.Time
		now := time.Unix(0, 0)
		for range rapid.IntRange(1, 40).Draw(t, "runs") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "lived")) * time.Second)
			end := End{
				ExitCode:  rapid.SampledFrom([]int{0, 1, 9}).Draw(t, "code"),
				Fault:     rapid.SampledFrom([]string{"", "timed out"}).Draw(t, "fault"),
				Requested: rapid.IntRange(0, 5).Draw(t, "requested") == 0,
			}
			d := h.Ended(now, r, end, rapid.Float64Range(0, 0.99).Draw(t, "chance"))
			if d.Verdict != Again {
				if d.Verdict == GivenUp && !r.Policy.again(end) {
					t.Fatalf("given up after %v, which %s does not run again", end, r.Policy)
				}
				return
			}
			if end.Requested || !r.Policy.again(end) {
				t.Fatalf("%s again after %+v", r.Policy, end)
			}
			again = append(again, now)
			recent := 0
			for _, at := range again {
				if now.Sub(at) < r.Intensity.Period {
					recent++
				}
			}
			if recent > r.Intensity.Restarts {
				t.Fatalf("%d restarts in %v, the limit is %d", recent, r.Intensity.Period, r.Intensity.Restarts)
			}
			longest := min(time.Second<<(recent-1), 8*time.Second)
			if d.Delay > longest || d.Delay < longest/2 {
				t.Fatalf("restart %d after %v, want %v to %v", recent, d.Delay, longest/2, longest)
			}
			now = now.Add(d.Delay)
		}
	})
}
