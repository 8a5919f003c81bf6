package supervision

import (
	"fmt"
	"slices"
	"time"
)

// Policy says after which ends a process runs again, as restart in OTP.
type Policy string

const (
	Temporary Policy = "temporary" // never; the zero Policy means the same
	Transient Policy = "transient" // after a failure
	Permanent Policy = "permanent" // always
)

// An End describes the end of a run.
type End struct {
	ExitCode int
	Signal   string // "SIGSEGV"; "": the process exited
	// Fault is the reason for a forced end, if the reason counts as a failure: "timed out".
	Fault string
	// Requested means: somebody asked for this end, so no policy starts another run (OTP does the same after a
	// terminate). Again means: somebody asked for this end and for another run, whatever the policy.
	Requested, Again bool
}

// Failed reports whether Transient starts another run after this end.
func (e End) Failed() bool { return e.ExitCode != 0 || e.Signal != "" || e.Fault != "" }

func (e End) String() string {
	switch {
	case e.Fault != "":
		return e.Fault
	case e.Signal != "":
		return "ended by " + e.Signal
	}
	return fmt.Sprintf("exit code %d", e.ExitCode)
}

// Deaths are exits after which a retry is pointless, as the death tally of s6. After Count such exits within
// Period the process is given up. The zero Deaths matches no exit.
type Deaths struct {
	ExitCodes []int
	Signals   []string      // "SIGSEGV"
	Count     int           // 1 or less: the first is enough
	Period    time.Duration // 0 or less: since the first run
}

func (d Deaths) match(e End) bool {
	if e.Signal != "" {
		return slices.Contains(d.Signals, e.Signal)
	}
	return slices.Contains(d.ExitCodes, e.ExitCode)
}

// Restart says when a process runs again. The zero Restart is Temporary.
type Restart struct {
	Policy    Policy
	Backoff   Backoff
	Intensity Intensity
	GiveUp    Deaths
}

// Verdict says how a process goes on after a run.
type Verdict uint8

const (
	Over    Verdict = iota // the policy asks for no other run
	Again                  // the process runs again, after Delay
	GivenUp                // the policy asks for another run, but there were too many
)

// A Decision is a Verdict with its delay and reason.
type Decision struct {
	Verdict Verdict
	Delay   time.Duration // of Again
	Reason  string        // of Again and GivenUp: for people
}

// History holds the past runs that still count. The zero History belongs to a process in its first run.
type History struct{ restarts, deaths Tally }

// Ended records the end of a run at now and returns the decision. chance is a number as in Backoff.Delay.
func (h *History) Ended(now time.Time, r Restart, e End, chance float64) Decision {
	if e.Again {
		return Decision{Verdict: Again, Reason: "restarted by request"}
	}
	if e.Requested || !r.Policy.again(e) {
		return Decision{Verdict: Over}
	}
	if r.GiveUp.match(e) {
		limit := Intensity{Restarts: max(r.GiveUp.Count, 1) - 1, Period: r.GiveUp.Period}
		if n, exceeded := h.deaths.Failed(now, limit); exceeded {
			return Decision{Verdict: GivenUp, Reason: fmt.Sprintf("%v, which means to give up after %d of them", e, n)}
		}
	}
	n, exceeded := h.restarts.Failed(now, r.Intensity)
	if exceeded {
		return Decision{Verdict: GivenUp, Reason: fmt.Sprintf("%v, and %s", e, r.Intensity.exceeded())}
	}
	return Decision{Verdict: Again, Delay: r.Backoff.Delay(n, chance), Reason: e.String()}
}

func (p Policy) again(e End) bool {
	return p == Permanent || p == Transient && e.Failed()
}

func (in Intensity) exceeded() string {
	if in.Period <= 0 {
		return fmt.Sprintf("no more than %d restarts are allowed", in.Restarts)
	}
	return fmt.Sprintf("no more than %d restarts in %v are allowed", in.Restarts, in.Period)
}
