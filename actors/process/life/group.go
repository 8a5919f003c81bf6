package life

import (
	"cmp"
	"time"

	"github.com/b6f6fdd7/troupe/supervision"
)

// A process of a group is between two runs until its group orders the next one. Orders have
// serials and name a run, so a repeated or late order does nothing.

// order is an order of the group.
type order struct {
	serial uint64
	supervision.MemberStatus
}

// Order is an order of the group. The order with the highest serial counts: after a failure an
// older one may come later.
func (l *Life) Order(now Now, serial uint64, status supervision.MemberStatus) {
	if l.order == nil || serial > l.order.serial {
		l.order = &order{serial, status}
		l.obey(now)
	}
}

// obey follows the newest order as far as possible now. obey may be repeated.
func (l *Life) obey(now Now) {
	m, n := l.order, l.between
	if m == nil || m.Rejoined < int(l.rejoins) { // none, or from before TellRejoins
		return
	}
	held := n != nil && n.held && n.verdict == supervision.Again
	switch m.State {
	case supervision.Waiting:
		if held {
			n.at, n.reason = m.At, m.Reason
		}
	case supervision.Running:
		if held && m.Run > max(l.run, n.told) { // a run that the group knows as over never begins
			n.next = m.Run // beyond l.run+1 if the group ended a run before its begin
			n.held, n.reason, n.at = false, m.Reason, time.Time{}
			n.delay = now.Time.Sub(n.ended)
		}
	case supervision.Ending:
		l.obeyEnding(now)
	case supervision.Left:
		if held {
			n.verdict, n.reason = supervision.Over, cmp.Or(m.Reason, "it has left its group")
			if m.GivenUp {
				n.verdict = supervision.GivenUp
			}
		}
	}
}

// obeyEnding ends the run of an order to end.
func (l *Life) obeyEnding(now Now) {
	m, n := l.order, l.between
	switch {
	case n != nil:
		if !n.spawning && n.verdict == supervision.Again && m.Run > l.run && n.told < m.Run { // run m.Run has not begun
			n.held, n.told = true, m.Run
			l.tellOver(m.Run)
		}
	case l.ending.unread:
		if m.Run > l.run {
			l.tellOver(m.Run)
		}
	case l.ending.ordered: // a second stop signal may mean something else
	case l.phase == Running && m.Run == l.run:
		l.ending.ordered = true
		l.endRun(now, m.Reason)
	case l.phase == Exited: // the program was terminated, and descendants hold its streams
		l.ending.ordered, l.ending.rest = true, true
		l.do(Abandon{l.run})
		l.killTree(now)
	}
}

// endRun ends a run, with its grace; the process goes on.
func (l *Life) endRun(now Now, reason string) {
	l.ending.rest = true
	if l.ending.reason != "" { // the run has had its stop signal
		l.hasten(now, l.config.KillGrace)
		return
	}
	if l.lives(now) {
		l.ending.reason = reason
	}
	l.kill(now, l.config.KillGrace)
}

// tellEnded tells the group the end of the last run, once.
func (l *Life) tellEnded() {
	n := l.between
	if n.end == nil || n.told >= l.run {
		return
	}
	n.told = l.run
	l.do(TellEnded{l.run, *n.end, *l.config.Restart, l.anew})
	l.anew = false
}

// endedUnread tells the group the end of a run although output of the run waits for the owner. The
// other members do not wait for the owner.
func (l *Life) endedUnread(now Now) {
	if !l.config.Grouped || !l.ending.ordered || l.phase != Running {
		return
	}
	l.ending.unread = true
	if now.Exited && l.ending.reason == "" { // the program ended by itself
		l.do(TellEnded{l.run, l.endOf(now.Status), *l.config.Restart, l.anew})
		return
	}
	l.tellOver(l.run)
}

// tellOver tells the group that a run is over, without its exit status.
func (l *Life) tellOver(run int) {
	l.do(TellEnded{Run: run, End: supervision.End{Requested: true}, Restart: *l.config.Restart})
}

// Report repeats to the group the news that may be lost.
func (l *Life) Report(now Now) {
	if !l.config.Grouped || l.over {
		return
	}
	switch n := l.between; {
	case l.phase >= Closed && l.ending.killing && now.Child && !l.leaving: // treeGone and Retire report
	case l.phase >= Closed:
		l.do(TellGone{l.gaveUp, l.gaveUp != ""})
	case n != nil && n.held && l.rejoins > 0 && (l.order == nil || l.order.Rejoined < int(l.rejoins)):
		l.do(TellRejoins{int(l.rejoins)})
	case n != nil && n.held && n.told > l.run: // the group ended run n.told before its begin
		l.tellOver(n.told)
	case n != nil && n.held:
		n.told = 0 // advance tells the end
	case l.phase != Running:
	case l.ending.unread:
		l.endedUnread(now)
	case now.Ready:
		l.do(TellReady{l.run})
	}
}
