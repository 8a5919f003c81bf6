package life

import (
	"fmt"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// Spawned is the answer to Spawn: the run has a child.
func (l *Life) Spawned(now Now) error {
	if !l.Spawning() {
		return nil // said again
	}
	first := l.phase == Starting
	if err := l.enter(Running); err != nil {
		return err
	}
	l.between = nil
	if l.config.Timeout > 0 {
		l.timeoutAt = now.Time.Add(l.config.Timeout)
	}
	if first {
		l.do(Announce{})
	}
	l.do(Begin{l.run})
	if l.stopping != nil {
		l.stop(now)
	}
	switch {
	case l.terminated: // while there was no child
		l.ending.reason, l.ending.rest = reasonTerminated, true
		l.killNow(now)
	case l.config.Grouped:
		l.obey(now) // its end may have been ordered already
	}
	return nil
}

// StartFailed is the answer to Spawn: the command cannot be started. The failure counts as an end of the run.
func (l *Life) StartFailed(now Now, why error) {
	switch {
	case !l.Spawning():
		return
	case l.phase == Starting:
		l.do(Announce{}, StopActor{})
		return
	}
	text := why.Error()
	st := protocol.ExitStatus{ExitCode: 127, Run: l.run, Reason: reasonNotStarted + ": " + strings.ToValidUTF8(text[:min(len(text), maxReason)], "")}
	l.logExit(st)
	n := l.runEnded(now, st)
	if n == nil {
		n = l.between
		n.verdict, n.spawning = supervision.Over, false
	}
	n.treeGone, n.closed = true, true
	if n.end != nil {
		n.end.Fault = why.Error()
	}
	n.reason = fmt.Sprintf("%s: %v", n.reason, why)
	l.between = n
	if l.stopping != nil {
		l.stop(now)
	}
}

// NotStarted is the answer to Spawn: the server lacks descriptors or memory for a start. A lack is
// no failure of the program and does not count for its policy. The next try comes after StartRetry.
func (l *Life) NotStarted(now Now, why error) {
	if !l.Spawning() || l.phase == Starting {
		l.StartFailed(now, why)
		return
	}
	n := l.between
	if !n.unstarted {
		n.unstarted, n.because = true, n.reason
		l.do(Unstarted{l.run, why})
	}
	if n.verdict == supervision.Again {
		n.reason = fmt.Sprintf("%s; the server could not start it: %v", n.because, why)
	}
	n.at, n.spawning = now.Time.Add(StartRetry), false
	l.run = n.last
	if l.stopping != nil {
		l.stop(now)
	}
}

// Exited is the end of the program of the current run, after its last output. Exited may be repeated.
func (l *Life) Exited(now Now, st protocol.ExitStatus) error {
	switch {
	case l.phase > Running:
		return nil // said again
	case l.phase < Running:
		return &TransitionError{l.phase, Exited}
	}
	st = l.statusOf(st)
	l.ending.killAt, l.timeoutAt = time.Time{}, time.Time{}
	l.do(Unwatch{l.run})
	l.logExit(st)
	if n := l.runEnded(now, st); n != nil {
		l.between = n
		l.do(Abandon{l.run})
		l.killTree(now)
		return l.enter(Restarting)
	}
	if l.ending.reason != "" { // after a kill, nobody waits for descendants with open streams
		l.do(Abandon{l.run})
	}
	if l.ending.rest || l.stopping != nil {
		l.killTree(now)
	}
	return l.enter(Exited)
}

// statusOf completes the status of the current run.
func (l *Life) statusOf(st protocol.ExitStatus) protocol.ExitStatus {
	st.Run = l.run
	st.TimedOut = l.ending.timedOut
	st.Reason = l.ending.reason
	st.OOMKilled = st.OOMKilled && l.ending.reason == "" // else the server has killed the program
	return st
}

// Unread returns how the program has ended if its end is not said by Exited yet, because its last output waits for room, and no
// other run follows. ok is false if the program runs, if Exited was said, and if another run may follow.
func (l *Life) Unread(now Now) (st protocol.ExitStatus, ok bool) {
	if l.phase != Running || !now.Exited || l.ending.again || l.mayRunAgain() {
		return st, false
	}
	return l.statusOf(now.Status), true
}

// mayRunAgain reports whether the policy, or the group, may ask for another run after the present one.
func (l *Life) mayRunAgain() bool {
	r := l.config.Restart
	return r != nil && (r.Policy != supervision.Temporary || l.config.Grouped) && !l.terminated && l.stopping == nil
}

func (l *Life) logExit(st protocol.ExitStatus) {
	l.status = st
	l.do(LogExited{st})
}

// StreamsEnded says that all output of the current run is in the log. StreamsEnded may be repeated.
func (l *Life) StreamsEnded(now Now) error {
	switch {
	case l.between != nil:
		l.between.closed = true
		return nil
	case l.phase >= Closed:
		return nil
	}
	return l.close(now)
}

// close ends the log.
func (l *Life) close(now Now) error {
	if err := l.enter(Closed); err != nil {
		return err
	}
	l.closedAt = now.Time
	l.retireAt = now.Time.Add(l.Keep())
	l.do(LogClosed{})
	l.Report(now)
	return nil
}

// runEnded returns how to go on after a run; nil if no run follows and nothing went wrong.
func (l *Life) runEnded(now Now, st protocol.ExitStatus) *between {
	if l.config.Restart == nil || l.stopping != nil || l.terminated {
		return nil
	}
	end := l.endOf(st)
	if l.config.Grouped {
		n := &between{verdict: supervision.Again, ended: now.Time, held: true, end: &end}
		if l.ending.unread {
			n.told = l.run
		}
		return n
	}
	d := l.history.Ended(now.Time, *l.config.Restart, end, now.Chance)
	if d.Verdict == supervision.Over {
		return nil
	}
	return &between{verdict: d.Verdict, reason: d.Reason, ended: now.Time, delay: d.Delay, at: now.Time.Add(d.Delay)}
}

// endOf describes the end of the current run for supervision.
func (l *Life) endOf(st protocol.ExitStatus) supervision.End {
	return supervision.End{
		ExitCode:  st.ExitCode,
		Signal:    st.Signal,
		Fault:     l.ending.fault,
		Requested: l.ending.reason != "" && l.ending.fault == "",
		Again:     l.ending.again,
	}
}

// advance goes on between two runs as far as it can.
func (l *Life) advance(now Now) error {
	n := l.between
	if n == nil || n.spawning {
		return nil
	}
	n.waitAt = time.Time{}
	if !n.treeGone || !n.closed || now.Probing {
		return nil
	}
	if l.config.Grouped {
		l.obey(now)
	}
	if l.stopping != nil {
		n.verdict, n.reason = supervision.Over, l.stopping.reason
	}
	switch {
	case n.verdict != supervision.Again:
		return l.noOther(now)
	case n.held:
		l.tellEnded()
		return nil
	case now.Full:
		return nil
	}
	next := max(n.next, l.run+1)
	if !n.logged {
		n.logged = true
		l.do(LogRestarted{next, n.reason, n.delay})
	}
	at := n.at
	if l.run > 0 && now.Paced.After(at) { // the first run was paced when the client asked for it
		at = now.Paced
	}
	if at.After(now.Time) {
		n.waitAt = at
		return nil
	}
	if l.run > 0 {
		l.do(Finish{l.run})
	}
	n.last, l.run = l.run, next
	l.ending, n.spawning = ending{}, true
	l.do(Spawn{l.run})
	return nil
}

// noOther closes a process that waits for another run: no run follows.
func (l *Life) noOther(now Now) error {
	n := l.between
	l.do(AnswerTrees{n.left}) // there is no other tree
	switch {
	case n.verdict == supervision.GivenUp, n.logged && !n.ended.IsZero(), n.reopened:
		l.do(LogEvicted{n.reason})
	case n.ended.IsZero():
		l.logExit(protocol.ExitStatus{ExitCode: 127, Reason: "never run: " + n.reason})
	}
	if n.verdict == supervision.GivenUp {
		l.gaveUp = n.reason
	}
	l.between = nil
	return l.close(now)
}

// Restart is process/restart. Restart ends the current run first. With Config.AfterEnd, Restart runs an ended process again.
func (l *Life) Restart(now Now) error {
	n := l.between
	switch {
	case l.config.Restart == nil:
		return ErrOnce
	case l.config.AfterEnd && (l.phase == Exited || l.phase == Closed) && l.stopping == nil:
		return l.again(now)
	case l.phase >= Exited, l.stopping != nil, n != nil && n.left != nil:
		return ErrEnded
	case n != nil && n.held:
		return ErrHeld
	case n != nil:
		n.verdict, n.at = supervision.Again, now.Time
		l.terminated = false
	default:
		l.ending.again, l.terminated = true, false
		if l.lives(now) {
			l.ending.reason = reasonRestarted
		}
		l.kill(now, l.config.KillGrace)
	}
	return nil
}

// again has the process run again after its end, as if it had been started now: earlier ends no longer count. What the last
// run left is killed.
func (l *Life) again(now Now) error {
	n := &between{verdict: supervision.Again, reason: reasonRestarted, at: now.Time, ended: now.Time, closed: l.phase == Closed, treeGone: !now.Child}
	if n.closed {
		n.ended, n.reopened = l.closedAt, true
		l.do(Reopen{})
	} else {
		l.do(Abandon{l.run})
	}
	if l.config.Grouped {
		n.held = true
		l.rejoins++
		l.do(TellRejoins{int(l.rejoins)})
	}
	l.between = n
	l.killTree(now)
	l.history, l.terminated, l.gaveUp = supervision.History{}, false, ""
	l.closedAt, l.retireAt, l.lingers, l.gaveWay = time.Time{}, time.Time{}, 0, false
	return l.enter(Restarting)
}

// SetRestart is process/setRestart: ends so far no longer count.
func (l *Life) SetRestart(r supervision.Restart) error {
	if l.config.Restart == nil {
		return ErrOnce
	}
	l.config.Restart, l.history, l.anew = &r, supervision.History{}, true
	return nil
}
