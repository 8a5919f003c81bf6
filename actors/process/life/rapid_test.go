package life

import (
	"errors"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
	"pgregory.net/rapid"
)

// world is a model of the shell and of the system. world does the actions of a Life, and fails the
// test if an action breaks an invariant.
type world struct {
	t      *rapid.T
	config Config
	l      Life
	now    time.Time

	run      int // of the current or last child; 0: there was no child
	child    bool
	exited   bool // the program has
	took     bool // Exited was said
	ended    bool // StreamsEnded was said
	gone     bool // TreeGone was said, without an error
	killing  bool // KillTree was asked for
	finished bool // Finish was
	spawning int  // the run of the last Spawn, until the answer; 0: none
	retry    int  // the run of the last NotStarted, until the next Spawn or Reopen; 0: none
	begun    time.Time
	probing  bool
	full     bool
	paced    time.Time
	watched  bool
	served   bool
	trees    bool

	asking     bool // the input is a request to end the run
	signals    int  // stop signals of this run
	cause      bool // somebody wants this run to end
	ending     int  // the run of the newest order to end; 0: none
	rejoins    int
	terminated bool // and no Restart followed
	stopped    bool
	exits      map[int]bool // runs whose exit is logged
	log        []Action
	over       bool // StopActor
}

func newWorld(t *rapid.T) *world {
	ms := func(name string, min, max int) time.Duration {
		return time.Duration(rapid.IntRange(min, max).Draw(t, name)) * time.Millisecond
	}
	w := &world{t: t, now: time.Unix(0, 0), served: true, exits: map[int]bool{}}
	w.config = Config{KillGrace: ms("kill grace", 0, 20), Timeout: ms("timeout", 0, 50), Keep: ms("keep", 0, 50)}
	w.config.Grouped = rapid.Bool().Draw(t, "grouped")
	if w.config.Grouped || rapid.Bool().Draw(t, "restart") {
		w.config.Restart = w.policy()
	}
	w.config.AfterEnd = rapid.Bool().Draw(t, "after the end")
	w.l = New(w.config)
	w.l.Start()
	w.settle()
	return w
}

func (w *world) policy() *supervision.Restart {
	return &supervision.Restart{
		Policy:    rapid.SampledFrom([]supervision.Policy{supervision.Temporary, supervision.Transient, supervision.Permanent}).Draw(w.t, "policy"),
		Backoff:   supervision.Backoff{Initial: time.Millisecond, Max: 20 * time.Millisecond, Factor: 2},
		Intensity: supervision.Intensity{Restarts: rapid.IntRange(0, 20).Draw(w.t, "restarts"), Period: time.Second},
	}
}

func (w *world) seen() Now {
	return Now{
		Time: w.now, Child: w.child, Exited: w.exited, Ready: true, Probing: w.probing, Full: w.full, Paced: w.paced, Watched: w.watched,
		Served: w.served, Trees: w.trees, TreeEmpty: !w.child || w.gone,
	}
}

func (w *world) must(ok bool, a Action, why string) {
	if !ok {
		w.t.Fatalf("%T%+v: %s\n%+v\nlog %+v", a, a, why, w.l, w.log)
	}
}

func (w *world) check(err error) {
	if err != nil {
		w.t.Fatal(err)
	}
}

// settle is advance of the shell. Now and then the actor fails over an action.
func (w *world) settle() {
	for more := true; more; {
		for a, ok := w.l.Next(); ok; a, ok = w.l.Next() {
			if rapid.IntRange(0, 30).Draw(w.t, "fault") == 30 {
				w.l.Resume(w.seen())
				continue
			}
			w.do(a)
			w.l.Done()
		}
		w.check(w.l.Tick(w.seen()))
		_, more = w.l.Next()
	}
	w.asking = false
	if idle := w.l; idle.Idle() {
		now := w.seen()
		now.Full, now.Watched, now.Served, now.Probing, now.TreeEmpty = !now.Full, !now.Watched, !now.Served, !now.Probing, !now.TreeEmpty
		w.check(idle.Tick(now))
		if a, more := idle.Next(); more {
			w.t.Fatalf("it was idle, and Tick asks for %T%+v", a, a)
		}
	}
	if at := w.l.Wake(); !at.IsZero() && !at.After(w.now) {
		w.t.Fatalf("it is to be woken at %v, and now is %v", at, w.now)
	}
}

// clear reports whether everything of the last run is over.
func (w *world) clear() bool { return !w.child || w.took && w.ended && w.gone && !w.probing }

func (w *world) do(action Action) {
	w.must(!w.closed() || !logs(action), action, "closed is not last")
	switch a := action.(type) {
	case Spawn:
		w.must(w.clear() && (w.finished || !w.child), a, "the last run is not over")
		w.must(!w.terminated && !w.stopped, a, "it was terminated or stopped")
		w.must(w.run == 0 || !w.paced.After(w.now), a, "it is sooner than the rate of starts allows")
		w.must(a.Run > w.run && (w.retry == 0 || a.Run == w.retry || w.config.Grouped && a.Run > w.retry) && w.spawning == 0, a, "one run at a time, in order")
		w.spawning, w.retry = a.Run, 0
		w.child = false
		w.killing, w.signals, w.cause = false, 0, false
	case Begin:
		w.must(a.Run == w.run && w.child && !w.took, a, "it is of another run")
	case Unwatch:
		w.must(a.Run == w.run && w.took, a, "it is of another run")
	case Finish:
		w.must(a.Run == w.run || !w.child, a, "it is of another run")
		w.must(w.clear(), a, "the run is not over")
		w.finished = true
	case Signal:
		w.must(a.Run == w.run && w.child && w.cause, a, "nobody wants this run to end")
		w.must(w.signals == 0 || w.asking, a, "a second stop signal that nobody asked for")
		w.signals++
		if rapid.Bool().Draw(w.t, "polite") {
			w.exited = true
		}
	case Kill:
		w.must(a.Run == w.run && w.child && w.cause, a, "nobody wants this run to end")
		w.exited = true
	case KillTree:
		w.must(a.Run == w.run && w.child && (w.cause || w.took || w.trees), a, "nobody wants this run to end")
		w.killing = true
	case Abandon:
		w.must(a.Run == w.run && w.child, a, "it is of another run")
	case LogExited:
		run := a.Status.Run
		w.must(!w.exits[run], a, "a run has exited twice")
		w.must(!a.Status.TimedOut || w.now.Sub(w.begun) >= w.config.Timeout, a, "its time is not over")
		w.exits[run] = true
		w.log = append(w.log, a)
	case LogRestarted:
		w.must(w.clear(), a, "the last run is not over")
		w.log = append(w.log, a)
	case LogEvicted:
		w.log = append(w.log, a)
	case LogClosed:
		w.must(w.exits[w.run] || !w.child, a, "closed comes before exited")
		w.must(w.ended || !w.child, a, "the streams have not ended")
		w.log = append(w.log, a)
	case Reopen:
		w.must(w.closed() && w.config.AfterEnd, a, "it has not closed, or nothing is kept")
		w.retry = 0 // a run that was never started has no number to keep
		w.log = append(w.log, a)
	case TellRejoins:
		w.must(w.config.Grouped && a.N == w.rejoins, a, "it is not back")
	case AnswerTrees:
		w.must(a.Err != nil || !w.trees || !w.child || w.gone, a, "the tree is not gone")
		w.trees = false
	case TellEnded:
		w.must(a.Run != w.run || !w.child || w.gone, a, "something of the run is left")
	case TellGone:
		w.must(w.closed(), a, "it has not closed")
		w.must(!w.killing, a, "its tree is being killed: a process with its id would begin beside it")
	case Cut:
		w.watched = false
	case DropLog:
		w.must(w.closed() && w.served && !w.trees, a, "its owner has not had it, or a request waits")
	case StopActor:
		w.over = true
	}
}

func logs(a Action) bool {
	switch a.(type) {
	case LogExited, LogRestarted, LogEvicted, LogClosed, Spawn:
		return true
	}
	return false
}

func (w *world) closed() bool {
	if len(w.log) == 0 {
		return false
	}
	_, ok := w.log[len(w.log)-1].(LogClosed)
	return ok
}

// The events.

func (w *world) answerSpawn(how int) {
	if w.spawning == 0 {
		return
	}
	run := w.spawning
	w.spawning = 0
	switch how {
	case 0:
		w.l.StartFailed(w.seen(), errors.New("no such program"))
	case 1:
		w.retry = run
		w.l.NotStarted(w.seen(), errors.New("no descriptors"))
	default:
		w.run, w.begun, w.cause = run, w.now, w.stopped || w.terminated || w.ending == run
		w.child, w.exited, w.took, w.ended, w.gone, w.finished = true, false, false, false, false, false
		w.check(w.l.Spawned(w.seen()))
		w.check(w.l.Spawned(w.seen()))
	}
}

func (w *world) takeExit() {
	if w.child && w.exited && !w.took {
		w.took = true
		st := protocol.ExitStatus{ExitCode: rapid.IntRange(0, 1).Draw(w.t, "code")}
		w.check(w.l.Exited(w.seen(), st))
		w.check(w.l.Exited(w.seen(), st))
	}
}

func (w *world) endStreams() {
	if w.child && w.took && !w.ended {
		w.ended = true
		w.check(w.l.StreamsEnded(w.seen()))
		w.check(w.l.StreamsEnded(w.seen()))
	}
}

func (w *world) endTree(err error) {
	if w.child && w.killing {
		w.exited, w.killing = true, false
		w.gone = w.gone || err == nil
		w.l.TreeGone(w.seen(), w.run, err)
	}
}

func (w *world) wants() { w.cause, w.asking = true, true }

func (w *world) terminate(grace time.Duration, tree bool) {
	w.wants()
	w.terminated = true
	w.trees = w.trees || tree
	w.l.Terminate(w.seen(), grace, tree)
}

func (w *world) stop(shutdown time.Duration) {
	w.cause, w.asking = true, !w.stopped // once
	w.stopped = true
	w.l.Stop(w.seen(), "enough", shutdown)
}

func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	if w.child && w.config.Timeout > 0 && w.now.Sub(w.begun) >= w.config.Timeout {
		w.cause = true
	}
}

func (w *world) order(serial uint64) {
	st := supervision.MemberStatus{
		State:   supervision.MemberState(rapid.IntRange(0, 3).Draw(w.t, "state")),
		Run:     max(0, w.l.Run()+rapid.IntRange(-1, 2).Draw(w.t, "run")),
		GivenUp: rapid.IntRange(0, 5).Draw(w.t, "given up") == 0,
		Reason:  "ordered",

		Rejoined: rapid.IntRange(max(0, w.rejoins-1), w.rejoins).Draw(w.t, "rejoined"),
	}
	w.ending = 0
	if st.State == supervision.Ending && st.Rejoined == w.rejoins {
		w.cause, w.ending = true, st.Run
	}
	w.l.Order(w.seen(), serial, st)
}

func TestInvariants(t *testing.T) {
	for range 20 { // a check is 100 lives, some 10 ms
		rapid.Check(t, lives)
	}
}

func lives(t *rapid.T) {
	w := newWorld(t)
	grace := func() time.Duration { return time.Duration(rapid.IntRange(-1, 30).Draw(t, "grace")) * time.Millisecond }
	serial := uint64(0)
	for range 50 {
		if w.over {
			break
		}
		switch rapid.IntRange(0, 18).Draw(t, "event") {
		case 0, 1, 2:
			w.answerSpawn(rapid.IntRange(0, 5).Draw(t, "answer"))
		case 3, 4:
			w.exited = w.exited || w.child
		case 5, 6:
			w.takeExit()
		case 7:
			w.endStreams()
		case 8, 9:
			var err error
			if rapid.IntRange(0, 9).Draw(t, "survives") == 0 {
				err = errors.New("it survives")
			}
			w.endTree(err)
		case 10:
			w.l.TreeGone(w.seen(), w.l.Run()-1, nil) // late
		case 11:
			w.terminate(grace(), rapid.Bool().Draw(t, "tree"))
		case 12:
			w.asking = true
			ended := w.l.Phase() == Exited || w.l.Phase() == Closed
			if err := w.l.Restart(w.seen()); err == nil {
				w.must(!ended || w.config.AfterEnd, nil, "it is run after its end, and nothing is kept")
				w.terminated, w.cause = false, w.cause || w.l.Phase() == Running
				if ended && w.config.Grouped {
					w.rejoins++
				}
			}
		case 13:
			if w.config.Restart != nil {
				w.check(w.l.SetRestart(*w.policy()))
			}
		case 14:
			if rapid.IntRange(0, 3).Draw(t, "stop") == 0 {
				w.stop(grace())
			}
		case 15:
			if w.child && !w.took {
				w.cause = true
				w.l.Fault(w.seen(), "no output")
			}
		case 16:
			if w.config.Grouped {
				serial++
				w.order(serial)
				w.l.Report(w.seen())
			}
		case 17:
			w.probing = w.l.Phase() == Running && !w.exited && rapid.Bool().Draw(t, "probing")
			w.full, w.watched, w.served = rapid.Bool().Draw(t, "full"), rapid.Bool().Draw(t, "watched"), rapid.Bool().Draw(t, "served")
			w.paced = w.now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "paced")) * time.Millisecond)
		case 18:
			w.pass(time.Duration(rapid.IntRange(0, 2000).Draw(t, "pass")) * time.Millisecond)
		}
		w.settle()
	}
	w.comesToAnEnd()
}

// comesToAnEnd checks: a stopped life ends once its tree is gone.
func (w *world) comesToAnEnd() {
	if !w.over {
		w.stop(0)
		w.settle()
	}
	for range 20 {
		if w.over {
			return
		}
		w.probing = false
		w.answerSpawn(2)
		w.settle()
		w.endTree(nil)
		w.settle()
		w.takeExit()
		w.settle()
		w.endStreams()
		w.settle()
		w.asking = false
		if at := w.l.Wake(); !at.IsZero() {
			w.pass(max(0, at.Sub(w.now)))
			w.settle()
		}
	}
	w.t.Fatalf("it does not end: %+v\nlog %+v", w.l, w.log)
}
