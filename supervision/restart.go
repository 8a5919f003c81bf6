package supervision

import (
	"fmt"
	"slices"
	"time"
)

// Policy says after which ends a process is run again, as restart in OTP.
type Policy string

const (
	Temporary Policy = "temporary" // after none; the zero Policy is this too
	Transient Policy = "transient" // when it failed
	Permanent Policy = "permanent" // always
)

// An End is how a run ended.
type End struct {
	ExitCode int
	Signal   string // "SIGSEGV"; "": it exited
	// Fault is why it was ended, if that is a failure of its own: "timed out".
	Fault string
	// Requested: somebody asked for this end. Then no policy runs it again, as OTP
	// does not what was terminated. Again: and for another run, whatever the policy.
	Requested, Again bool
}

// Failed reports whether the end is one after which Transient runs again.
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

// Deaths are ends that mean that another run would end the same, as the death tally
// of s6: Count of them within Period, and the process is given up. The zero Deaths
// matches nothing.
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

// Restart says when a process is run again. The zero Restart is Temporary.
type Restart struct {
	Policy    Policy
	Backoff   Backoff
	Intensity Intensity
	GiveUp    Deaths
}

// Verdict is what becomes of a process after a run.
type Verdict uint8

const (
	Over    Verdict = iota // its policy asks for no other run
	Again                  // it is run again, after Delay
	GivenUp                // its policy asks for one, but there were too many
)

// A Decision is a Verdict with what goes with it.
type Decision struct {
	Verdict Verdict
	Delay   time.Duration // of Again
	Reason  string        // of Again and GivenUp: for people
}

// History is what of the runs so far still counts. The zero History is that of a
// process in its first run.
type History struct{ restarts, deaths Tally }

// Ended records the end of a run at now and says what follows. chance is as in
// Backoff.Delay.
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
