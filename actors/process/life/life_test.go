package life

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/supervision"
)

// story is a Life with a clock, whose actions are all done at once.
type story struct {
	t *testing.T
	Life
	Now
	told supervision.End // by the last TellEnded
}

func begin(t *testing.T, c Config) *story {
	s := &story{t: t, Life: New(c), Now: Now{Time: time.Unix(100, 0), Served: true}}
	s.Start()
	return s
}

// want compares the names and runs of the actions until nothing more is possible.
func (s *story) want(want string) {
	s.t.Helper()
	var got []string
	for range 10 {
		for a, ok := s.Next(); ok; a, ok = s.Next() {
			text := strings.TrimPrefix(fmt.Sprintf("%T", a), "life.")
			switch a := a.(type) {
			case Spawn:
				text += fmt.Sprint(a.Run)
			case TellEnded:
				text += fmt.Sprint(a.Run)
				s.told = a.End
			case LogRestarted:
				text += fmt.Sprint(a.Run, " ", a.Delay)
			case AnswerTrees:
				if a.Err != nil {
					text += " " + a.Err.Error()
				}
			}
			got = append(got, text)
			s.Done()
		}
		if err := s.Tick(s.Now); err != nil {
			s.t.Fatal(err)
		}
	}
	if got := strings.Join(got, ", "); got != want {
		s.t.Errorf("it does\n\t%s, want\n\t%s", got, want)
	}
}

func (s *story) pass(d time.Duration) { s.Time = s.Time.Add(d) }

func (s *story) spawned() {
	s.Child, s.Now.Exited = true, false
	s.check(s.Spawned(s.Now))
}

// ends is the end of the program, of its streams and of its tree.
func (s *story) ends(code int) {
	s.exits(code)
	s.check(s.StreamsEnded(s.Now))
	s.TreeGone(s.Now, s.Run(), nil)
}

func (s *story) exits(code int) {
	s.Now.Exited, s.Now.Status = true, protocol.ExitStatus{ExitCode: code}
	s.check(s.Life.Exited(s.Now, s.Now.Status))
}

func (s *story) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Error(err)
	}
}

var again = &supervision.Restart{Policy: supervision.Permanent, Intensity: supervision.Intensity{Restarts: 100}}

func TestOneRun(t *testing.T) {
	s := begin(t, Config{Keep: time.Second})
	s.want("Spawn1")
	s.spawned()
	s.want("Announce, Begin")
	s.exits(3)
	s.want("Unwatch, LogExited")
	s.check(s.StreamsEnded(s.Now))
	s.want("LogClosed")
	s.pass(time.Second - 1)
	s.want("")
	s.pass(1)
	s.want("DropLog, TellRetired")
	s.TreeEmpty = true
	s.Forgotten(s.Now)
	s.want("StopActor")
}

func TestTransitions(t *testing.T) {
	s := begin(t, Config{})
	var wrong *TransitionError
	if err := s.Life.Exited(s.Now, protocol.ExitStatus{}); !errors.As(err, &wrong) {
		t.Errorf("an exit before the start: %v", err)
	}
	s.want("Spawn1")
	s.spawned()
	if err := s.StreamsEnded(s.Now); !errors.As(err, &wrong) || wrong.To != Closed {
		t.Errorf("the end of the streams before the exit: %v", err)
	}
	s.want("Announce, Begin")
	if s.Phase() != Running {
		t.Errorf("it is %v", s.Phase())
	}
}

// The time to kill a run ends with the run.
func TestKillOfAnOlderRun(t *testing.T) {
	s := begin(t, Config{KillGrace: time.Minute, Timeout: time.Hour, Restart: again})
	s.spawned()
	s.check(s.Restart(s.Now))
	s.want("Spawn1, Announce, Begin, Signal")
	s.pass(time.Second)
	s.ends(0)
	s.want("Unwatch, LogExited, Abandon, KillTree, AnswerTrees, LogRestarted2 0s, Finish, Spawn2")
	s.spawned()
	s.want("Begin")
	s.TreeGone(s.Now, 1, nil) // said again
	s.pass(time.Hour - time.Second)
	s.want("")
	s.pass(time.Second)
	s.want("Signal") // its own time is over
	s.pass(time.Minute)
	s.want("KillTree")
}

// A timeout of a run that is being ended sends no second stop signal, and bounds the grace.
func TestTimeoutWhileEnding(t *testing.T) {
	s := begin(t, Config{KillGrace: time.Second, Timeout: time.Minute})
	s.spawned()
	s.Terminate(s.Now, time.Hour, false)
	s.want("Spawn1, Announce, Begin, Signal")
	s.pass(time.Minute)
	s.want("")
	s.pass(time.Second)
	s.want("Kill")
	s.exits(137)
	if at := s.Wake(); !at.IsZero() {
		t.Errorf("it wakes at %v for a run that has ended", at)
	}
	if st := s.Life.Status(); st.TimedOut || st.Reason != reasonTerminated {
		t.Errorf("it ended with %+v", st)
	}
}

// A run starts once the probe of the last run is over, its tree gone, and its streams read.
func TestNextRunWaits(t *testing.T) {
	for _, last := range []string{"the probe", "the tree", "the streams", "the owner"} {
		s := begin(t, Config{Restart: again})
		s.spawned()
		s.want("Spawn1, Announce, Begin")
		s.Probing, s.Full = last == "the probe", last == "the owner"
		s.exits(0)
		if last != "the streams" {
			s.check(s.StreamsEnded(s.Now))
		}
		if last != "the tree" {
			s.TreeGone(s.Now, 1, nil)
			s.want("Unwatch, LogExited, Abandon, KillTree, AnswerTrees")
		} else {
			s.want("Unwatch, LogExited, Abandon, KillTree")
		}
		s.pass(time.Hour)
		s.want("")
		if s.Idle() && (s.Probing || s.Full) {
			t.Errorf("the shell need not look at the end of %s, for which the next run waits", last)
		}
		s.Probing, s.Full = false, false
		s.check(s.StreamsEnded(s.Now))
		if last == "the tree" {
			s.TreeGone(s.Now, 1, nil)
			s.want("AnswerTrees, LogRestarted2 0s, Finish, Spawn2")
		} else {
			s.want("LogRestarted2 0s, Finish, Spawn2")
		}
	}
}

// A run after the first waits for the rate of starts, also after process/restart.
func TestNextRunIsPaced(t *testing.T) {
	s := begin(t, Config{Restart: again})
	s.Paced = s.Time.Add(time.Hour)
	s.spawned()
	s.want("Spawn1, Announce, Begin")
	s.exits(0)
	s.check(s.StreamsEnded(s.Now))
	s.TreeGone(s.Now, 1, nil)
	s.want("Unwatch, LogExited, Abandon, KillTree, AnswerTrees, LogRestarted2 0s")
	s.check(s.Restart(s.Now))
	s.want("")
	if at := s.Wake(); at != s.Paced {
		t.Errorf("it wakes at %v, want %v", at, s.Paced)
	}
	s.pass(time.Hour - 1)
	s.want("")
	s.pass(1)
	s.want("Finish, Spawn2")
}

// A program that ends before its timeout has not timed out, although its exit waits for the owner.
func TestEndedIsNotTimedOut(t *testing.T) {
	s := begin(t, Config{Timeout: time.Second})
	s.spawned()
	s.want("Spawn1, Announce, Begin")
	s.Now.Exited = true
	s.pass(time.Second)
	s.want("")
	s.exits(3)
	if st := s.Life.Status(); st.TimedOut || st.Reason != "" || st.ExitCode != 3 {
		t.Errorf("it ended with %+v", st)
	}
}

// Survivors of a kill are reported, and no run starts beside survivors.
func TestSurvivors(t *testing.T) {
	s := begin(t, Config{Keep: time.Hour, Restart: again})
	s.spawned()
	s.exits(0)
	s.TreeGone(s.Now, 1, errors.New("12 left"))
	s.want("Spawn1, Announce, Begin, Unwatch, LogExited, Abandon, KillTree, AnswerTrees 12 left")
	s.Terminate(s.Now, 0, true)
	s.want("AnswerTrees 12 left")
	if err := s.Restart(s.Now); err != ErrEnded {
		t.Errorf("a restart beside the survivors: %v", err)
	}
	s.check(s.StreamsEnded(s.Now))
	s.want("AnswerTrees 12 left, LogClosed")
}

func (s *story) order(serial uint64, state supervision.MemberState, run int) {
	s.Order(s.Now, serial, supervision.MemberStatus{State: state, Run: run, Reason: "ordered"})
}

// The end of a run ends its timers, and says who ended the run.
func TestEndOfARun(t *testing.T) {
	s := begin(t, Config{KillGrace: time.Hour, Timeout: time.Hour, Restart: again})
	s.spawned()
	s.Stop(s.Now, "enough", -1)
	s.Now.Exited = true
	s.check(s.Life.Exited(s.Now, protocol.ExitStatus{OOMKilled: true}))
	if at := s.Wake(); !at.IsZero() {
		t.Errorf("it wakes at %v for a run that has ended", at)
	}
	if st := s.Life.Status(); st.OOMKilled || st.Reason != "enough" || s.Phase() != Exited {
		t.Errorf("%v: %+v", s.Phase(), st)
	}
}

// If a run ends by itself before the process is stopped, no run follows.
func TestStopAfterTheEnd(t *testing.T) {
	s := begin(t, Config{KillGrace: time.Hour, Restart: again})
	s.spawned()
	s.Now.Exited = true
	s.Stop(s.Now, "enough", -1)
	s.exits(1)
	if s.Phase() != Exited || s.Life.Status().Reason != "" {
		t.Errorf("%v: %+v", s.Phase(), s.Life.Status())
	}
}

// At the shutdown of the server, ShutdownGrace is the least grace, and the grace of the server the most.
func TestShutdownGrace(t *testing.T) {
	for _, test := range []struct{ kill, least, server, want time.Duration }{
		{0, time.Minute, time.Hour, time.Minute},
		{2 * time.Minute, time.Minute, time.Hour, 2 * time.Minute},
		{0, time.Minute, time.Second, time.Second},
		{0, time.Minute, -1, 0}, // no shutdown
	} {
		s := begin(t, Config{KillGrace: test.kill, ShutdownGrace: test.least})
		s.spawned()
		s.want("Spawn1, Announce, Begin")
		if s.Stop(s.Now, "shutdown", test.server); test.want == 0 {
			s.want("KillTree")
			continue
		}
		s.want("Signal")
		s.pass(test.want - 1)
		s.want("")
		s.pass(1)
		s.want("KillTree")
	}
}

// A repeated stop sends no second stop signal. A repeated stop may hasten the end, never delay the end.
func TestStopTwice(t *testing.T) {
	s := begin(t, Config{KillGrace: time.Hour, Keep: time.Hour, Drain: time.Hour})
	s.spawned()
	s.want("Spawn1, Announce, Begin")
	for _, shutdown := range []time.Duration{time.Minute, time.Second, time.Hour} {
		s.Stop(s.Now, "enough", shutdown)
	}
	s.want("Signal")
	s.pass(time.Second)
	s.want("KillTree")
	s.Now.Watched = true
	s.ends(137)
	s.want("Unwatch, LogExited, Abandon, LogClosed, AnswerTrees, Abandon")
	s.Stop(s.Now, "enough", time.Second) // no KillTree: its answer could come after the actor has stopped
	s.Terminate(s.Now, 0, true)
	s.want("AnswerTrees, Abandon, AnswerTrees, Abandon")
	s.pass(StallTime)
	s.Now.Watched = false
	s.want("Cut, StopActor")
}

// The viewers of a stopped process have StallTime from each time that they fetch something, but no more than Drain in all.
func TestDrain(t *testing.T) {
	for _, test := range []struct {
		drain   time.Duration
		fetches int // each shortly before the viewers would be cut off
		want    time.Duration
	}{
		{time.Hour, 0, StallTime},
		{time.Hour, 5, 5*(StallTime-1) + StallTime},
		{StallTime + time.Second, 5, StallTime + time.Second},
		{time.Second, 0, time.Second},
		{0, 0, 0},
	} {
		s := begin(t, Config{KillGrace: time.Hour, Keep: 24 * time.Hour, Drain: test.drain})
		s.spawned()
		s.Fetched(s.Time) // too early to count
		s.Stop(s.Now, "enough", -1)
		s.want("Spawn1, Announce, Begin, Signal")
		s.Now.Watched = true
		begun := s.Time
		s.ends(137)
		if end := "Unwatch, LogExited, Abandon, KillTree, LogClosed, AnswerTrees, Abandon"; test.drain > 0 {
			s.want(end)
		} else {
			s.want(end + ", Cut")
		}
		for range test.fetches {
			s.pass(StallTime - 1)
			s.Fetched(s.Time)
			if s.Time.Sub(begun) < test.want {
				s.want("")
			}
		}
		if test.drain > 0 {
			s.Time = begun.Add(test.want - 1)
			s.want("")
			s.pass(1)
			s.want("Cut")
		}
		s.Fetched(s.Time)
		s.Now.Watched = false
		s.want("StopActor")
	}
}

// Without a viewer, a stopped process does not wait until its output is read.
func TestStoppedAlone(t *testing.T) {
	s := begin(t, Config{KillGrace: time.Second, Keep: time.Hour, Drain: time.Hour})
	s.spawned()
	s.Stop(s.Now, "enough", -1)
	s.want("Spawn1, Announce, Begin, Signal")
	s.Now.Alone = true
	s.pass(time.Second) // the log is full: the exit waits after unread output
	s.want("KillTree")
	s.TreeGone(s.Now, s.Run(), nil)
	s.want("AnswerTrees, Abandon, Cut")
	s.exits(137)
	s.check(s.StreamsEnded(s.Now))
	s.want("Unwatch, LogExited, Abandon, AnswerTrees, Abandon, LogClosed, Cut, StopActor")
}

// A forgotten process stays until KillTree is answered, also if its tree was seen empty before.
func TestForgottenWhileKilled(t *testing.T) {
	s := begin(t, Config{})
	s.spawned()
	s.want("Spawn1, Announce, Begin")
	s.Terminate(s.Now, 0, true)
	s.want("KillTree")
	s.exits(137)
	s.check(s.StreamsEnded(s.Now))
	s.want("Unwatch, LogExited, Abandon, LogClosed, DropLog, TellRetired")
	s.TreeEmpty = true
	s.Forgotten(s.Now)
	s.want("")
	s.TreeGone(s.Now, 1, nil)
	s.pass(maxLinger)
	s.want("AnswerTrees, StopActor")
}

// If a process is terminated while its next run is being started, the run ends as soon as its child is there.
func TestTerminateWhileSpawning(t *testing.T) {
	s := begin(t, Config{Restart: again})
	s.spawned()
	s.ends(0)
	s.want("Spawn1, Announce, Begin, Unwatch, LogExited, Abandon, KillTree, AnswerTrees, LogRestarted2 0s, Finish, Spawn2")
	s.Child = false
	s.Terminate(s.Now, time.Minute, false)
	s.want("")
	s.spawned()
	s.want("Begin, KillTree")
}

// The next instance of a failed actor kills the tree again: the answer to KillTree may be lost.
func TestResume(t *testing.T) {
	s := begin(t, Config{})
	s.spawned()
	s.Terminate(s.Now, 0, true)
	s.want("Spawn1, Announce, Begin, KillTree")
	s.Resume(s.Now)
	s.want("KillTree")
	s.ends(137)
	s.Resume(s.Now)
	s.want("Unwatch, LogExited, Abandon, LogClosed, AnswerTrees, DropLog, TellRetired")
}

// If the server could not start a run, the next try has the same number.
func TestNotStarted(t *testing.T) {
	s := begin(t, Config{Restart: again})
	s.spawned()
	s.ends(0)
	s.want("Spawn1, Announce, Begin, Unwatch, LogExited, Abandon, KillTree, AnswerTrees, LogRestarted2 0s, Finish, Spawn2")
	s.Child = false
	for _, want := range []string{"Unstarted", ""} {
		s.NotStarted(s.Now, errors.New("no descriptors"))
		s.want(want)
		s.pass(StartRetry)
		s.want("Finish, Spawn2")
	}
	s.spawned()
	s.want("Begin")
}

// A second order to end the same run does nothing.
func TestOrderToEndOnce(t *testing.T) {
	s := begin(t, Config{Grouped: true, Restart: again})
	s.order(1, supervision.Running, 1)
	s.want("Announce, Spawn1")
	s.spawned()
	s.want("Begin")
	s.Terminate(s.Now, 0, false)
	s.exits(137)
	s.want("Kill, Unwatch, LogExited, Abandon")
	s.order(2, supervision.Ending, 1)
	s.TreeGone(s.Now, 1, nil)
	s.want("Abandon, KillTree, AnswerTrees")
	s.order(3, supervision.Ending, 1)
	s.want("")
}

// If the group orders the end of a run while the run is being started, the run ends after its start.
func TestOrderWhileSpawning(t *testing.T) {
	s := begin(t, Config{Grouped: true, Restart: again, KillGrace: time.Second})
	s.order(1, supervision.Running, 1)
	s.want("Announce, Spawn1")
	s.order(2, supervision.Ending, 1)
	s.want("")
	s.spawned()
	s.want("Begin, Signal")
	s.order(3, supervision.Ending, 1)
	s.want("")
}

// An order that comes after a later one does nothing.
func TestOlderOrder(t *testing.T) {
	s := begin(t, Config{Grouped: true, Restart: again})
	s.order(2, supervision.Ending, 1)
	s.want("Announce, TellEnded1")
	s.order(1, supervision.Running, 1)
	s.want("")
	s.order(4, supervision.Waiting, 1)
	s.order(3, supervision.Running, 2)
	s.want("")
	s.order(5, supervision.Running, 2)
	s.want("Spawn2")
}

// The log says for how long a member has not run. The log says nothing of a member that never ran.
func TestDelayOfMembers(t *testing.T) {
	s := begin(t, Config{Grouped: true, Restart: again})
	s.want("Announce")
	s.pass(time.Minute)
	s.order(1, supervision.Running, 1)
	s.want("Spawn1")
	s.spawned()
	s.want("Begin")
	s.ends(1)
	s.want("Unwatch, LogExited, Abandon, KillTree, AnswerTrees, TellEnded1")
	s.pass(time.Minute)
	s.order(2, supervision.Ending, 2) // run 2 has not begun
	s.want("TellEnded2")
	s.order(2, supervision.Running, 2) // late
	s.want("")
	s.pass(time.Second)
	s.order(3, supervision.Running, 3)
	s.want("LogRestarted3 1m1s, Finish, Spawn3")

	s = begin(t, Config{Grouped: true, Restart: again})
	s.order(1, supervision.Ending, 1)
	s.want("Announce, TellEnded1")
	s.order(2, supervision.Running, 2)
	s.want("Spawn2")
}

// A run that the group has ended before its begin stays over, and so do the runs before that run.
func TestOrderOfARunThatIsOver(t *testing.T) {
	s := begin(t, Config{Grouped: true, Restart: again})
	s.order(1, supervision.Running, 2)
	s.want("Announce, Spawn2")
	s.NotStarted(s.Now, errors.New("no descriptors"))
	s.want("Unstarted")
	s.order(2, supervision.Ending, 2)
	s.want("TellEnded2")
	for run := range 3 {
		s.order(uint64(3+run), supervision.Running, run)
		s.want("")
	}
	s.order(6, supervision.Running, 3)
	s.want("Spawn3")
}

// After TellEnded of a run whose output waits for the owner, the group may order a later run while
// the shell looks for the tree again.
func TestOrderWhileTreeIsKilled(t *testing.T) {
	s := begin(t, Config{Grouped: true, Restart: again})
	s.order(1, supervision.Running, 1)
	s.want("Announce, Spawn1")
	s.spawned()
	s.order(2, supervision.Ending, 1)
	s.want("Begin, KillTree")
	s.Now.Exited = true
	s.TreeGone(s.Now, 1, nil)
	s.want("AnswerTrees, TellEnded1")
	s.order(3, supervision.Ending, 2)
	s.want("TellEnded2")
	s.exits(137)
	s.order(4, supervision.Running, 3)
	s.want("Unwatch, LogExited, Abandon, KillTree")
	s.check(s.StreamsEnded(s.Now))
	s.TreeGone(s.Now, 1, nil)
	s.want("AnswerTrees, LogRestarted3 0s, Finish, Spawn3")
}

// A program that ended by itself before the order to end it came, is told as such, although its exit waits for the owner.
func TestOrderAfterAnUnreadEnd(t *testing.T) {
	for _, asked := range []bool{false, true} {
		s := begin(t, Config{Grouped: true, Restart: again})
		s.order(1, supervision.Running, 1)
		s.want("Announce, Spawn1")
		s.spawned()
		s.want("Begin")
		s.Now.Exited = !asked
		s.order(2, supervision.Ending, 1)
		s.want("KillTree")
		s.Now.Exited = true
		s.TreeGone(s.Now, 1, nil)
		s.want("AnswerTrees, TellEnded1")
		if s.told.Requested != asked {
			t.Errorf("asked to end before its end: %v, told %+v", asked, s.told)
		}
	}
}

// An action is pending until Done.
func TestPendingActions(t *testing.T) {
	s := begin(t, Config{})
	for range 2 {
		if a, ok := s.Next(); a != (Spawn{1}) || !ok {
			t.Errorf("the next action is %v", a)
		}
	}
	s.Done()
	if a, ok := s.Next(); ok {
		t.Errorf("%v is done again", a)
	}
}

// The end of a program is known before Exited if no other run can follow.
func TestUnread(t *testing.T) {
	s := begin(t, Config{})
	s.spawned()
	if st, ok := s.Unread(s.Now); ok {
		t.Errorf("it runs, and has ended with %+v", st)
	}
	s.Terminate(s.Now, 0, false)
	s.Now.Exited, s.Now.Status = true, protocol.ExitStatus{ExitCode: 137, OOMKilled: true}
	if st, ok := s.Unread(s.Now); !ok || st != (protocol.ExitStatus{ExitCode: 137, Run: 1, Reason: reasonTerminated}) {
		t.Errorf("%+v, %t", st, ok)
	}
	s.exits(137)
	if st, ok := s.Unread(s.Now); ok {
		t.Errorf("its exit was said, and it has ended with %+v", st)
	}

	s = begin(t, Config{Restart: again})
	s.spawned()
	s.Now.Exited = true
	if st, ok := s.Unread(s.Now); ok {
		t.Errorf("another run follows, and it has ended with %+v", st)
	}
	s.Stop(s.Now, "enough", 0)
	if _, ok := s.Unread(s.Now); !ok {
		t.Error("it was stopped, and goes on")
	}
}

// With AfterEnd a process that has ended is run again: its log goes on, and its past does not count.
func TestAgainAfterTheEnd(t *testing.T) {
	once := &supervision.Restart{Policy: supervision.Permanent, Intensity: supervision.Intensity{Restarts: 1}}
	s := begin(t, Config{Restart: once, AfterEnd: true, Keep: time.Hour})
	s.want("Spawn1")
	runs := func(want string) {
		t.Helper()
		s.spawned()
		s.ends(1)
		s.want(want)
	}
	runs("Announce, Begin, Unwatch, LogExited, Abandon, KillTree, AnswerTrees, LogRestarted2 0s, Finish, Spawn2")
	runs("Begin, Unwatch, LogExited, Abandon, KillTree, AnswerTrees, AnswerTrees, LogEvicted, LogClosed")
	s.Child = false // forgotten
	s.pass(time.Minute)
	s.check(s.Restart(s.Now))
	s.want("Reopen, AnswerTrees, LogRestarted3 0s, Finish, Spawn3")
	runs("Begin, Unwatch, LogExited, Abandon, KillTree, AnswerTrees, LogRestarted4 0s, Finish, Spawn4")
	s.spawned()
	s.Terminate(s.Now, time.Minute, false)
	s.want("Begin, Signal")
	s.exits(0)
	s.want("Unwatch, LogExited, Abandon")
	s.check(s.Restart(s.Now)) // a descendant holds the streams
	s.want("Abandon, KillTree")
	s.TreeGone(s.Now, 4, nil)
	s.check(s.StreamsEnded(s.Now))
	s.want("AnswerTrees, LogRestarted5 0s, Finish, Spawn5")
	s.spawned()
	s.Terminate(s.Now, 0, true)
	s.ends(0)
	s.want("Begin, KillTree, Unwatch, LogExited, Abandon, LogClosed, AnswerTrees")
	s.GiveWay(s.Now)
	s.want("DropLog, TellRetired")
	if err := s.Restart(s.Now); err != ErrEnded {
		t.Errorf("a forgotten process: %v", err)
	}
}

// A member of a group comes back to the group. Orders from before mean nothing.
func TestRejoins(t *testing.T) {
	s := begin(t, Config{Grouped: true, Restart: again, AfterEnd: true, Keep: time.Hour})
	s.order(1, supervision.Left, 0)
	s.want("Announce, AnswerTrees, LogExited, LogClosed, TellGone")
	s.check(s.Restart(s.Now))
	s.want("Reopen, TellRejoins, AnswerTrees")
	s.order(2, supervision.Left, 0)
	s.Report(s.Now)
	s.want("TellRejoins")
	if w, ok := s.Waits(); !ok || !w.Held {
		t.Errorf("it waits: %+v, %v", w, ok)
	}
	s.Order(s.Now, 3, supervision.MemberStatus{State: supervision.Running, Run: 1, Rejoined: 1})
	s.want("LogRestarted1 0s, Spawn1")
	s.spawned()
	s.want("Begin")
	s.Terminate(s.Now, 0, true)
	s.ends(0)
	s.want("KillTree, Unwatch, LogExited, Abandon, LogClosed, AnswerTrees, TellGone")
	s.check(s.Restart(s.Now))
	s.TreeGone(s.Now, 1, nil)
	s.want("Reopen, TellRejoins, KillTree, AnswerTrees")
	s.Terminate(s.Now, 0, true) // before the group has answered
	s.want("AnswerTrees, AnswerTrees, LogEvicted, LogClosed, TellGone")
}
