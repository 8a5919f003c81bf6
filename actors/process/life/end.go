package life

import (
	"time"

	"github.com/b6f6fdd7/troupe/supervision"
)

// lives reports whether the program runs. A program may have ended before its exit is logged.
func (l *Life) lives(now Now) bool { return l.phase == Running && now.Child && !now.Exited }

// Terminate is process/terminate: the run ends after grace, and no other follows. With tree, all
// descendants of the program end, too.
func (l *Life) Terminate(now Now, grace time.Duration, tree bool) {
	l.ending.rest = l.ending.rest || tree
	if l.lives(now) {
		l.ending.reason = reasonTerminated
	}
	l.ending.again, l.terminated = false, true
	if n := l.between; n != nil {
		n.verdict, n.reason = supervision.Over, reasonTerminated
		if n.treeGone && !n.spawning {
			l.do(AnswerTrees{n.left})
		}
		return
	}
	l.kill(now, grace)
}

// timeout ends a run after its timeoutMs.
func (l *Life) timeout(now Now) {
	switch {
	case !l.lives(now):
	case l.ending.reason != "": // a longer grace is cut, as if its end began now
		l.hasten(now, l.config.KillGrace)
	default:
		l.ending.timedOut = true
		l.Fault(now, "timed out")
	}
}

// Fault ends the current run for a failure of the program. A run that is being ended keeps its reason.
func (l *Life) Fault(now Now, fault string) {
	if l.phase == Running && l.ending.reason == "" {
		l.ending.fault, l.ending.reason, l.ending.rest = fault, fault, true
		l.kill(now, l.config.KillGrace)
	}
}

// kill sends the stop signal and kills after grace. An ended program gets no grace.
func (l *Life) kill(now Now, grace time.Duration) {
	if l.lives(now) && grace > 0 {
		l.do(Signal{l.run})
	}
	l.hasten(now, grace)
}

// hasten kills the current run after grace, unless an earlier kill is due. hasten sends no stop signal.
func (l *Life) hasten(now Now, grace time.Duration) {
	if !l.lives(now) || grace <= 0 {
		l.killNow(now)
		return
	}
	sooner(&l.ending.killAt, now.Time.Add(grace))
}

// killNow kills the program. With ending.rest or after Stop, killNow kills all descendants, too.
func (l *Life) killNow(now Now) {
	switch {
	case l.ending.rest || l.stopping != nil:
		l.killTree(now)
	case l.phase == Running:
		l.do(Kill{l.run})
	}
}

// killTree kills the child and all its descendants.
func (l *Life) killTree(now Now) {
	switch {
	case !now.Child:
		l.do(AnswerTrees{}) // no child was started
	case l.stopping != nil && l.stopping.treeDone && l.stopping.survivors == nil:
		l.treeGone(now, nil) // as before; the answer to another KillTree could come after the actor has stopped
	case !l.ending.killing:
		l.ending.killing = true
		l.do(KillTree{l.run})
	}
}

// TreeGone is the answer to KillTree of a run: the tree is gone, or could not be killed.
func (l *Life) TreeGone(now Now, run int, err error) {
	if run == l.run { // else KillTree was asked for twice, and the run is over
		l.treeGone(now, err)
	}
}

func (l *Life) treeGone(now Now, err error) {
	l.ending.killing = false
	l.do(AnswerTrees{err})
	if n := l.between; n != nil {
		n.treeGone, n.left = true, err
		if err != nil {
			n.verdict, n.reason = supervision.GivenUp, reasonTreeLeft
		}
	} else if err == nil {
		l.endedUnread(now)
	}
	if l.phase >= Closed {
		l.Report(now) // the group may give the id to another process now
	}
	if l.stopping == nil {
		return
	}
	l.stopping.treeDone, l.stopping.survivors = true, err
	if now.Child {
		l.do(Abandon{l.run})
	}
	if l.stopping.drained.IsZero() {
		l.stopping.drained = now.Time.Add(l.config.Drain)
	}
	l.stopping.cutAt = now.Time
	if !now.Alone {
		l.Fetched(now.Time)
	}
}

// Fetched says that a viewer asks for more at now: the viewers of a stopped process go on reading.
func (l *Life) Fetched(now time.Time) {
	if s := l.stopping; s != nil && !s.cutAt.IsZero() {
		s.cutAt = now.Add(StallTime)
		sooner(&s.cutAt, s.drained)
	}
}

// Stop ends the process with its whole tree, and then the actor. Stop may be repeated: the newest
// shutdown counts.
func (l *Life) Stop(now Now, reason string, shutdown time.Duration) {
	if l.stopping == nil {
		l.stopping = new(stopping)
	}
	l.stopping.reason, l.stopping.shutdown = reason, shutdown
	l.stop(now)
}

func (l *Life) stop(now Now) {
	if !now.Child {
		if l.phase > Starting && !l.Spawning() {
			l.treeGone(now, nil) // the last run could not be started: no tree is left
		}
		return // else Spawned stops the child
	}
	if l.lives(now) && l.ending.reason == "" {
		l.ending.reason = l.stopping.reason
	}
	grace := l.config.KillGrace
	if longest := l.stopping.shutdown; longest >= 0 {
		grace = min(max(grace, l.config.ShutdownGrace), longest)
	}
	if l.ending.stopped {
		l.hasten(now, grace)
		return
	}
	l.ending.stopped = true
	l.kill(now, grace)
}

// mayStop stops the actor, if Stop was called, the tree is gone, and the viewers have the end of
// the log or have had their time for it.
func (l *Life) mayStop(now Now) {
	s := l.stopping
	if s == nil || !s.treeDone || l.phase < Closed && s.survivors == nil || now.Probing || now.Watched || l.leaving {
		return
	}
	l.leaving = true
	l.do(StopActor{})
}

// Keep is how long the closed process can be read: Config.Keep, or 0 after GiveWay.
func (l *Life) Keep() time.Duration {
	if l.gaveWay {
		return 0
	}
	return l.config.Keep
}

// GiveWay ends the retention of a closed process. GiveWay may be repeated.
func (l *Life) GiveWay(now Now) {
	l.gaveWay = true
	l.Retire(now)
}

// Forgotten is the answer to TellRetired: no request can come any more.
func (l *Life) Forgotten(now Now) {
	l.forgotten = true
	l.Retire(now)
}

// Retire forgets a closed process once its time is over and its owner has had a chance to read.
// The actor stays until the tree is gone. If nobody but an owner can read the log, the shell calls
// Retire when this owner leaves. Tick does everything else.
func (l *Life) Retire(now Now) {
	if l.over || l.phase < Closed {
		return
	}
	if l.phase == Closed {
		over := l.closedAt.Add(l.Keep())
		switch {
		case now.Time.Before(over):
			l.retireAt = over
			return
		case now.Trees: // the answer needs the process
			l.retireAt = now.Time.Add(minLinger)
			return
		case !now.Served:
			l.retireAt = now.Time.Add(max(l.Keep(), time.Second))
			return
		}
		l.phase = Retired
		l.do(DropLog{})
	}
	switch {
	case !l.forgotten: // said again until the session has heard it
		l.do(TellRetired{})
	case now.TreeEmpty && !l.leaving && !(l.ending.killing && now.Child): // else treeGone follows
		l.leaving = true
		l.Report(now)
		l.do(StopActor{})
	}
	l.lingers = min(max(2*l.lingers, minLinger), maxLinger)
	l.retireAt = now.Time.Add(l.lingers)
}
