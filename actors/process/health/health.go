// Package health decides whether a run of a process is ready, and whether it lives.
//
// # Where to look
//
//   - health.go: the pure machine: what it is told, and what it asks for
//   - lines.go: the line that makes a run ready
//   - look.go: one look at a port, a socket, a file or a URL
//
// A Health has no clock, no goroutine and no actor. Its owner, the shell, reports each event with an input (Begin, Heard, Probed, …), does
// the actions of Next, and calls Tick at Wake.
package health

import (
	"cmp"
	"fmt"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// readyTime is how long a run may take to be ready, unless its start says.
	readyTime            = time.Minute
	defaultProbeEvery    = 10 * time.Second
	defaultProbeFailures = 3
)

// Health is the readiness and liveness of the current run. Without a condition a run is ready at once. The zero Health is that of no run.
// A single goroutine at a time may use a Health.
type Health struct {
	wants *protocol.Ready    // nil: no condition
	keeps *protocol.Liveness // nil: nobody asks whether the run lives

	ready    bool
	lines    lines
	heard    time.Time     // the time of the last output, or of the begin of the run
	held     time.Duration // Now.Held at heard
	granted  time.Duration // by how much readyAt was put off, for time excused
	ours     error         // why the server could not look, or probe, the last time; nil: the server could
	failures uint64        // failed probes in a row
	probes   int           // how many were asked for, in all runs

	readyAt, silenceAt, probeAt time.Time // zero: nothing is due

	pending []Action
}

// Now has the facts around the process for an input.
type Now struct {
	Time time.Time
	// Runs: the exit of the run is not in the log. Lives: besides, its program has not ended.
	Runs, Lives bool
	// Ending: the run is being ended already.
	Ending bool
	// Probing: a probe goes on, perhaps of an older run.
	Probing bool
	// Held is for how long the server has held back the output of the run: in this time the program could not write.
	Held time.Duration
	// Holds: the server holds the output back now.
	Holds bool
	// Blind is for how long the server could not look whether the run is ready.
	Blind time.Duration
	// Least is the least time between two probes.
	Least time.Duration
}

// excused returns how much time of the run does not count.
func (n Now) excused() time.Duration { return n.Held + n.Blind }

// An Action is an instruction to the shell, about the current run.
type Action any

type (
	// Look looks, again and again, whether the run is ready. Found follows, or End.
	Look struct{}
	// Match looks for a line that makes the run ready. Matched follows. Until then the log gets no more output.
	Match struct{ Lines [][]byte }
	// Say says that the run is ready. The log gets an event if Logged.
	Say struct{ Logged bool }
	// Probe probes once. Probed follows. N counts the probes of the process.
	Probe struct{ N int }
	// Blame ends the run for a failure of the program.
	Blame struct{ Fault string }
	// Warn tells the operator that the server cannot look, or probe.
	Warn struct {
		Ready bool // it is about readiness
		Err   error
	}
)

// New returns the health of a process before its first run. Both may be nil.
func New(wants *protocol.Ready, keeps *protocol.Liveness) Health {
	return Health{wants: wants, keeps: keeps}
}

// Next returns the oldest pending action; ok is false if there is none. A pending action survives a panic of the shell.
func (h *Health) Next() (a Action, ok bool) {
	if len(h.pending) == 0 {
		return nil, false
	}
	return h.pending[0], true
}

// Done removes the oldest pending action. The shell calls Done right after the effect.
func (h *Health) Done() {
	h.pending[0] = nil
	if h.pending = h.pending[1:]; len(h.pending) == 0 {
		h.pending = nil
	}
}

func (h *Health) do(a Action) { h.pending = append(h.pending, a) }

// Wake returns when Tick has something to do, if nothing happens before. Zero: never.
func (h *Health) Wake() (at time.Time) {
	for _, t := range [...]time.Time{h.readyAt, h.silenceAt, h.probeAt} {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	return at
}

// Ready reports whether the run is ready.
func (h *Health) Ready() bool { return h.ready }

// HeardAt returns the time of the last output, or of the begin of the run; zero: there was no run.
func (h *Health) HeardAt() time.Time { return h.heard }

// Ours returns why the server could not look, or probe, the last time; nil: the server could.
func (h *Health) Ours() error { return h.ours }

// Left returns how much time the run still has to be ready; 0: no time is set.
func (h *Health) Left(now Now) time.Duration {
	if h.readyAt.IsZero() {
		return 0
	}
	return max(h.readyAt.Sub(now.Time), 0) + max(now.excused()-h.granted, 0)
}

// Begin is the begin of a run. Begin may be repeated: then the run begins anew.
func (h *Health) Begin(now Now) {
	h.End()
	h.ready, h.failures, h.granted, h.ours = false, 0, 0, nil
	h.heard, h.held = now.Time, now.Held
	if h.keeps != nil && h.keeps.SilenceMs > 0 {
		h.silenceAt = now.Time.Add(protocol.FromMillis(h.keeps.SilenceMs))
	}
	r := h.wants
	switch {
	case r == nil:
		h.isReady(now)
		return
	case r.Exit:
		return
	case r.DelayMs != nil:
		h.readyAt = now.Time.Add(protocol.FromMillis(*r.DelayMs))
		return
	case r.Line != "":
		h.lines.begin(r.Stream)
	default:
		h.do(Look{})
	}
	if limit := h.limit(); limit > 0 {
		h.readyAt = now.Time.Add(limit)
	}
}

// limit returns how long a run may take to be ready; 0: no limit.
func (h *Health) limit() time.Duration {
	if h.wants.TimeoutMs != nil {
		return protocol.FromMillis(*h.wants.TimeoutMs)
	}
	return readyTime
}

// End is the end of the run.
func (h *Health) End() {
	h.lines = lines{}
	h.readyAt, h.silenceAt, h.probeAt = time.Time{}, time.Time{}, time.Time{}
	h.pending = nil
}

// Resume is the begin of another instance of the shell. Messages to the last one may be lost.
func (h *Health) Resume(now Now) {
	if h.lines.matching != nil {
		h.pending = nil // nothing else is pending during a match
		h.do(Match{h.lines.matching})
	}
	if _, waits := h.Next(); now.Runs && h.ready && !now.Probing && !waits && h.probeAt.IsZero() {
		h.probeLater(now)
	}
}

// Revive is the begin of the first shell in another server, before Resume: nobody looks for readiness any more, and no time is excused yet.
func (h *Health) Revive(now Now) {
	h.held, h.granted = now.Held, 0
	if now.Runs && !h.ready && h.looks() {
		h.do(Look{})
	}
}

// looks reports whether the server looks from outside whether a run is ready.
func (h *Health) looks() bool {
	return h.wants != nil && !h.wants.Exit && h.wants.DelayMs == nil && h.wants.Line == ""
}

// Found is news of Look: the run is ready.
func (h *Health) Found(now Now) { h.isReady(now) }

// Blinded is news of Look: the server cannot look; nil: the server can again. brief: the reason may last for a moment only.
func (h *Health) Blinded(err error, brief bool) {
	if h.ready {
		return
	}
	if h.ours = err; err != nil && !brief {
		h.do(Warn{true, err})
	}
}

// Exited is the end of the program with exit code 0, which nobody has asked for.
func (h *Health) Exited(now Now) {
	if h.wants != nil && h.wants.Exit {
		h.isReady(now)
	}
}

// isReady is said once of a run.
func (h *Health) isReady(now Now) {
	if h.ready || !now.Runs {
		return
	}
	h.ready, h.lines, h.readyAt = true, lines{}, time.Time{}
	h.do(Say{Logged: h.wants != nil})
	if l := h.keeps; l != nil && l.Probe != nil && l.Probe.DelayMs != nil {
		h.probeAt = now.Time.Add(protocol.FromMillis(*l.Probe.DelayMs))
		return
	}
	h.probeLater(now)
}

// Heard is output of the program at a time; held is Now.Held.
func (h *Health) Heard(at time.Time, held time.Duration, s protocol.Stream, data []byte) {
	h.heard, h.held = at, held
	if h.lines.add(s, data) {
		h.do(Match{h.lines.matching})
	}
}

// Matching reports whether a Match has no answer yet.
func (h *Health) Matching() bool { return h.lines.matching != nil }

// Matched is the answer to Match.
func (h *Health) Matched(now Now, ready bool) {
	if !h.Matching() {
		return // after NoMoreLines
	}
	h.lines.matching = nil
	if ready {
		h.isReady(now)
	}
}

// NoMoreLines ends the search for a line: the end of a killed run does not wait for an expression.
func (h *Health) NoMoreLines() { h.lines = lines{} }

// Probed is the answer to Probe, after the end of the probe with all its descendants. fault says why the probe failed; "": it succeeded.
// ours says why the server could not run the probe: then the probe does not count. held is Now.Held when the probe began: a
// failure does not count if the server has held the output back since.
func (h *Health) Probed(now Now, fault string, ours error, held time.Duration) {
	if !now.Lives || h.keeps == nil || h.keeps.Probe == nil {
		return
	}
	if ours != nil && h.ours == nil {
		h.do(Warn{false, ours})
	}
	h.ours = ours
	switch {
	case ours != nil, fault != "" && (now.Holds || now.Held > held):
	case fault == "":
		h.failures = 0
	default:
		if h.failures++; h.failures >= cmp.Or(h.keeps.Probe.Failures, defaultProbeFailures) {
			h.do(Blame{fmt.Sprintf("its probe failed %d times: %s", h.failures, fault)})
			return
		}
	}
	h.probeLater(now)
}

// probeLater sets the time of the next probe, if there are any.
func (h *Health) probeLater(now Now) {
	if h.keeps != nil && h.keeps.Probe != nil {
		every := cmp.Or(protocol.FromMillis(h.keeps.Probe.EveryMs), defaultProbeEvery)
		h.probeAt = now.Time.Add(max(every, now.Least))
	}
}

// Tick does what is due. Tick may be repeated.
func (h *Health) Tick(now Now) {
	if due(&h.readyAt, now.Time) {
		h.late(now)
	}
	if due(&h.silenceAt, now.Time) {
		h.silent(now)
	}
	// A probe that goes on sets the time of the next, when it ends.
	if due(&h.probeAt, now.Time) && now.Lives && !now.Ending && !now.Probing {
		h.probes++
		h.do(Probe{h.probes})
	}
}

// due reports whether a time has come, and forgets it then.
func due(at *time.Time, now time.Time) bool {
	if at.IsZero() || at.After(now) {
		return false
	}
	*at = time.Time{}
	return true
}

// late is when the time to be ready is over. Time that is excused does not count.
func (h *Health) late(now Now) {
	switch {
	case h.ready || !now.Lives:
	case h.wants.DelayMs != nil:
		h.isReady(now)
	case now.excused() > h.granted:
		h.readyAt = now.Time.Add(now.excused() - h.granted)
		h.granted = now.excused()
	default:
		h.do(Blame{fmt.Sprintf("not ready after %v", h.limit())})
	}
}

// silent is when the time without output may be over. Time in which the program could not write does not count.
func (h *Health) silent(now Now) {
	if !now.Lives {
		return
	}
	limit := protocol.FromMillis(h.keeps.SilenceMs)
	if left := limit - (now.Time.Sub(h.heard) - (now.Held - h.held)); left > 0 {
		h.silenceAt = now.Time.Add(left)
		return
	}
	h.do(Blame{fmt.Sprintf("no output for %v", limit)})
}
