package supervision

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// troop is a Group with helpers for a test that tells a story.
type troop struct {
	*Group
	now time.Time
}

var (
	permanent = Restart{Policy: Permanent, Backoff: Backoff{Initial: time.Second}}
	transient = Restart{Policy: Transient, Backoff: Backoff{Initial: time.Second}}
	often     = Intensity{Restarts: 100, Period: time.Hour}
)

func newTroop(t interface{ Fatal(...any) }, strategy GroupStrategy, in Intensity, members ...Member) *troop {
	g, err := NewGroup(strategy, in, members)
	if err != nil {
		t.Fatal(err)
	}
	return &troop{g, time.Unix(0, 0)}
}

func (s *troop) tick(d time.Duration) {
	s.now = s.now.Add(d)
	s.Tick(s.now)
}

func (s *troop) ready(ids ...string) {
	for _, id := range ids {
		s.Ready(s.now, id, s.Status(id).Run)
	}
}

func (s *troop) ended(id string, e End, r Restart) {
	s.Ended(s.now, id, s.Status(id).Run, e, r, 0)
}

func (s *troop) extend(t *testing.T, added ...Member) {
	t.Helper()
	next, err := s.Extended(added)
	if err != nil {
		t.Fatal(err)
	}
	s.Group = next
	s.tick(0)
}

// String returns the members in start order: the state of each, r if the member is ready, and the run.
func (s *troop) String() string {
	var all []string
	for _, id := range s.Order() {
		st := s.Status(id)
		text := fmt.Sprintf("%s %v %d", id, st.State, st.Run)
		if st.Ready {
			text += " r"
		}
		all = append(all, text)
	}
	state, _ := s.State()
	return fmt.Sprintf("%s: %s", state, strings.Join(all, ", "))
}

func (s *troop) want(t *testing.T, want string) {
	t.Helper()
	if got := s.String(); got != want {
		t.Fatalf("it is\n\t%s, want\n\t%s", got, want)
	}
}

func abc() []Member { return []Member{{ID: "a"}, {ID: "b"}, {ID: "c"}} }

func TestStartOrder(t *testing.T) {
	for _, c := range []struct {
		members []Member
		want    string
	}{
		{abc(), "a b c"},
		{[]Member{{ID: "a", After: []string{"c"}}, {ID: "b"}, {ID: "c", After: []string{"b"}}}, "b c a"},
		{[]Member{{ID: "a", After: []string{"b", "b"}}, {ID: "b"}}, "b a"},
		{[]Member{{ID: "a"}, {ID: "a"}}, `process "a" is there twice`},
		{[]Member{{ID: "a", After: []string{"x"}}}, `process "a" depends on "x", which is not in the group`},
		{[]Member{{ID: "a", After: []string{"a"}}}, "processes depend on each other in a circle: a → a"},
		{[]Member{{ID: "x", After: []string{"b"}}, {ID: "a", After: []string{"c"}}, {ID: "b", After: []string{"a"}}, {ID: "c", After: []string{"b"}}, {ID: "d"}},
			"processes depend on each other in a circle: b → a → c → b"},
	} {
		g, err := NewGroup(OneForOne, often, c.members)
		got := fmt.Sprint(err)
		if err == nil {
			got = strings.Join(g.Order(), " ")
		}
		if got != c.want {
			t.Errorf("%v: %s, want %s", c.members, got, c.want)
		}
	}
}

// The next in start order is always the first given whose dependencies are placed.
func TestStartOrderIsThatGiven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := make([]Member, rapid.IntRange(1, 8).Draw(t, "n"))
		for i := range members {
			members[i].ID = fmt.Sprint(i)
		}
		for range rapid.IntRange(0, 16).Draw(t, "edges") {
			i, j := rapid.IntRange(0, len(members)-1).Draw(t, "from"), rapid.IntRange(0, len(members)-1).Draw(t, "to")
			members[i].After = append(members[i].After, members[j].ID)
		}
		var want []string
		for left := slices.Clone(members); len(left) > 0; {
			i := slices.IndexFunc(left, func(m Member) bool {
				return !slices.ContainsFunc(m.After, func(id string) bool { return !slices.Contains(want, id) })
			})
			if i < 0 {
				want = nil
				break
			}
			want = append(want, left[i].ID)
			left = slices.Delete(left, i, i+1)
		}
		g, err := NewGroup(OneForOne, often, members)
		if (err != nil) != (want == nil) || err == nil && !slices.Equal(g.Order(), want) {
			t.Fatalf("%v: %v, %v; want the order %v", members, g, err, want)
		}
	})
}

// Many members, each behind the next: to look through all of them for each would take minutes.
func TestStartOrderOfMany(t *testing.T) {
	members := make([]Member, 100_000)
	for i := range members {
		members[i] = Member{ID: fmt.Sprint(i), After: []string{fmt.Sprint(i + 1)}}
	}
	last := &members[len(members)-1]
	last.After = []string{"0"}
	if _, err := NewGroup(OneForOne, often, members); err == nil || !strings.Contains(err.Error(), "in a circle: 0 → 1 → 2") {
		t.Errorf("a circle: %v", err)
	}
	last.After = nil
	g, err := NewGroup(OneForOne, often, members)
	if err != nil || g.Order()[0] != last.ID {
		t.Error(err)
	}
}

func TestDependencies(t *testing.T) {
	s := newTroop(t, OneForOne, often, Member{ID: "job", OnSuccess: true}, Member{ID: "web"}, Member{ID: "worker", After: []string{"web", "job"}})
	s.want(t, "starting: job waiting 0, web waiting 0, worker waiting 0")
	s.tick(0)
	s.want(t, "starting: job running 1, web running 1, worker waiting 0")
	s.ready("job", "web") // a job is not ready by a report
	s.want(t, "starting: job running 1, web running 1 r, worker waiting 0")
	s.ended("job", End{ExitCode: 1}, transient)
	s.want(t, "restarting: job waiting 1, web running 1 r, worker waiting 0")
	s.tick(time.Second)
	s.ended("job", End{}, transient)
	s.want(t, "starting: job left 2 r, web running 1 r, worker running 1")
	s.ready("worker")
	s.want(t, "ready: job left 2 r, web running 1 r, worker running 1 r")
	s.ended("web", End{}, permanent) // the worker goes on; after an end the worker would wait
	s.ended("worker", End{}, permanent)
	s.tick(time.Second)
	s.want(t, "restarting: job left 2 r, web running 2, worker waiting 1")
	s.ready("web")
	s.want(t, "restarting: job left 2 r, web running 2 r, worker running 2")
	s.Stop(s.now, "enough")
	s.want(t, "stopping: job left 2 r, web running 2 r, worker ending 2")
	s.ended("worker", End{ExitCode: 1}, permanent)
	s.want(t, "stopping: job left 2 r, web ending 2 r, worker left 2")
	s.ended("web", End{}, permanent)
	s.want(t, "ended: job left 2 r, web left 2 r, worker left 2")
}

func TestDependencyThatNeverIs(t *testing.T) {
	for _, end := range []func(*troop){
		func(s *troop) { s.ended("job", End{ExitCode: 3}, Restart{}) },
		func(s *troop) { s.Gone(s.now, "job", "", false) },
	} {
		s := newTroop(t, OneForOne, often, Member{ID: "other"}, Member{ID: "job", OnSuccess: true}, Member{ID: "web", After: []string{"job"}})
		s.tick(0)
		end(s)
		s.want(t, "stopping: other ending 1, job left 1, web waiting 0")
		s.ended("other", End{}, permanent)
		s.want(t, "ended: other left 1, job left 1, web left 0")
		if _, reason := s.State(); reason != "web waits for job, which has ended and was not ready" {
			t.Error(reason)
		}
	}
}

func TestOneForOne(t *testing.T) {
	s := newTroop(t, OneForOne, often, abc()...)
	s.tick(0)
	s.ready("a", "b", "c")
	s.ended("b", End{}, permanent)
	s.tick(time.Second - 1)
	s.want(t, "restarting: a running 1 r, b waiting 1, c running 1 r")
	if next := s.Wake(); next.Sub(s.now) != 1 {
		t.Errorf("the next Tick is due in %v", next.Sub(s.now))
	}
	s.tick(1)
	s.want(t, "restarting: a running 1 r, b running 2, c running 1 r")
	s.ready("b")
	s.ended("c", End{}, transient)
	s.want(t, "ready: a running 1 r, b running 2 r, c left 1 r")
}

func TestOneForAll(t *testing.T) {
	s := newTroop(t, OneForAll, often, append(abc(), Member{ID: "d"}, Member{ID: "e"})...)
	s.tick(0)
	s.ready("a", "b", "c", "d", "e")
	s.ended("e", End{}, transient) // its work is done
	s.ended("b", End{ExitCode: 1}, transient)
	s.want(t, "restarting: a running 1 r, b waiting 1, c running 1 r, d ending 1 r, e left 1 r")
	s.ended("a", End{}, transient) // without an order: a runs again with the others
	s.ended("d", End{}, Restart{}) // temporary: d does not run again
	s.ended("c", End{Signal: "SIGTERM"}, transient)
	s.want(t, "restarting: a waiting 1, b waiting 1, c waiting 1, d left 1 r, e left 1 r")
	if st := s.Status("c"); st.Reason != "b: exit code 1" {
		t.Errorf("c is run again because of %q", st.Reason)
	}
	if st := s.Status("b"); st.Reason != "exit code 1" {
		t.Errorf("b is run again because of %q", st.Reason)
	}
	s.tick(time.Second)
	s.want(t, "restarting: a running 2, b running 2, c running 2, d left 1 r, e left 1 r")
	if s.Restarts() != 1 {
		t.Errorf("%d restarts, want 1", s.Restarts())
	}
}

func TestRestForOne(t *testing.T) {
	s := newTroop(t, RestForOne, often, append(abc(), Member{ID: "d", After: []string{"b"}})...)
	s.tick(0)
	s.ready("a", "b", "c", "d")
	s.ended("c", End{}, permanent)
	s.want(t, "restarting: a running 1 r, b running 1 r, c waiting 1, d ending 1 r")
	s.tick(2 * time.Second) // d has not ended: c waits for d
	s.ended("b", End{}, permanent)
	s.ended("d", End{}, permanent)
	s.want(t, "restarting: a running 1 r, b waiting 1, c waiting 1, d waiting 1")
	s.tick(time.Second)
	s.want(t, "restarting: a running 1 r, b running 2, c running 2, d waiting 1")
	s.ready("b")
	s.want(t, "restarting: a running 1 r, b running 2 r, c running 2, d running 2")
}

// Members that run again together wait for the latest of their backoffs.
func TestLatestBackoffCounts(t *testing.T) {
	s := newTroop(t, RestForOne, often, append(abc(), Member{ID: "d"})...)
	s.tick(0)
	s.ended("c", End{ExitCode: 1}, Restart{Policy: Permanent, Backoff: Backoff{Initial: time.Minute}})
	s.ended("b", End{ExitCode: 1}, permanent) // after a second
	s.ended("d", End{}, permanent)
	s.tick(time.Minute - 1)
	s.want(t, "restarting: a running 1, b waiting 1, c waiting 1, d waiting 1")
	s.tick(1)
	s.want(t, "starting: a running 1, b running 2, c running 2, d running 2")
}

// A member whose backoff is over needs no Tick while it waits for another member.
func TestNoTickWhileADependencyIsNotReady(t *testing.T) {
	s := newTroop(t, OneForOne, often, Member{ID: "db"}, Member{ID: "web", After: []string{"db"}})
	s.tick(0)
	s.ready("db")
	s.ended("web", End{}, permanent)
	s.ended("db", End{}, Restart{Policy: Permanent, Backoff: Backoff{Initial: time.Minute}})
	if next := s.Wake(); !next.Equal(s.now.Add(time.Minute)) {
		t.Errorf("a Tick is due at %v, want in a minute, when db runs again", next)
	}
	s.tick(time.Minute)
	if next := s.Wake(); !next.IsZero() {
		t.Errorf("a Tick is due at %v although web waits for db", next)
	}
}

func TestGroupGivesUp(t *testing.T) {
	in := Intensity{Restarts: 2, Period: time.Minute}
	s := newTroop(t, OneForOne, in, abc()...)
	s.tick(0)
	for _, id := range []string{"a", "b", "c"} { // all of them count together
		s.ended(id, End{ExitCode: 1}, Restart{Policy: Permanent})
	}
	s.want(t, "stopping: a running 2, b ending 2, c left 1")
	state, reason := s.State()
	if want := "c was given up: exit code 1, and no more than 2 restarts in 1m0s are allowed of the group"; reason != want || !s.Status("c").GivenUp {
		t.Errorf("%s: %q, want %q", state, reason, want)
	}

	s = newTroop(t, OneForOne, in, abc()...)
	s.tick(0)
	s.ended("b", End{ExitCode: 9}, Restart{Policy: Permanent, GiveUp: Deaths{ExitCodes: []int{9}}})
	s.want(t, "stopping: a running 1, b left 1, c ending 1")

	s = newTroop(t, OneForAll, Intensity{}, abc()...)
	s.tick(0)
	for range 5 { // a requested end does not count, and concerns no other member
		s.ended("b", End{Again: true}, Restart{})
	}
	s.want(t, "starting: a running 1, b running 6, c running 1")
}

// A repeated or late report changes nothing.
func TestGroupRepetitions(t *testing.T) {
	s := newTroop(t, OneForOne, often, abc()...)
	s.tick(0)
	s.ended("a", End{}, Restart{Policy: Permanent})
	before := s.String()
	s.Ended(s.now, "a", 1, End{}, permanent, 0)
	s.Ready(s.now, "a", 1)
	s.Ended(s.now, "x", 1, End{}, permanent, 0)
	s.Gone(s.now, "x", "", true)
	s.Forget("x")
	s.want(t, before)
	s.Gone(s.now, "b", "", false)
	s.Gone(s.now, "b", "", true)
	s.Stop(s.now, "one")
	s.Stop(s.now, "two")
	s.ended("c", End{}, permanent)
	s.ended("a", End{}, permanent)
	s.want(t, "ended: a left 2, b left 1, c left 1")
	if _, reason := s.State(); reason != "one" {
		t.Errorf("stopped: %q", reason)
	}
}

// Whatever happens, and in whatever order: the strategy alone says whose run goes on. No member runs before its
// dependencies are ready. Members end one after the other, the last first. The group ends at last.
func TestGroupInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "members")
		var members []Member
		for i := range n {
			m := Member{ID: string(rune('a' + i)), OnSuccess: rapid.IntRange(0, 4).Draw(t, "job") == 0}
			for j := range i {
				if rapid.IntRange(0, 3).Draw(t, "depends") == 0 {
					m.After = append(m.After, string(rune('a'+j)))
				}
			}
			members = append(members, m)
		}
		strategy := rapid.SampledFrom([]GroupStrategy{OneForOne, OneForAll, RestForOne}).Draw(t, "strategy")
		in := Intensity{Restarts: rapid.IntRange(0, 20).Draw(t, "restarts"), Period: time.Minute}
		s := newTroop(t, strategy, in, members...)
		order := s.Order()
		var counted []time.Time
		status := func() (all []MemberStatus) {
			for _, id := range order {
				all = append(all, s.Status(id))
			}
			return all
		}
		check := func(what string, before, after []MemberStatus) {
			ending := 0
			for i, st := range after {
				if st.State == Ending {
					ending++
					for j := range after[i+1:] {
						if o := after[i+1+j]; o.State == Running {
							t.Fatalf("%s: %s is ended before %s: %v", what, order[i], order[i+1+j], s)
						}
					}
				}
				if st.Run > before[i].Run {
					if before[i].State == Left || st.Run != before[i].Run+1 || s.now.Before(before[i].At) {
						t.Fatalf("%s: %s is run again out of turn: %v", what, order[i], s)
					}
					for _, id := range members[i].After {
						if !s.Status(id).Ready {
							t.Fatalf("%s: %s runs before %s is ready: %v", what, order[i], id, s)
						}
					}
				}
				if before[i].State == Left && st.State != Left {
					t.Fatalf("%s: %s came back", what, order[i])
				}
			}
			if ending > 1 {
				t.Fatalf("%s: %d members are being ended at once: %v", what, ending, s)
			}
		}
		s.tick(0)
		for step := range rapid.IntRange(0, 60).Draw(t, "steps") {
			before := status()
			calm := !slices.ContainsFunc(before, func(st MemberStatus) bool { return st.State == Ending })
			stateBefore, _ := s.State()
			i := rapid.IntRange(0, n-1).Draw(t, "who")
			id := order[i]
			what := fmt.Sprintf("step %d, %s ", step, id)
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0, 1, 2:
				what += "is ready"
				s.ready(id)
			case 3, 4, 5, 6:
				e := End{ExitCode: rapid.IntRange(0, 1).Draw(t, "code"), Again: rapid.IntRange(0, 9).Draw(t, "asked") == 0}
				r := rapid.SampledFrom([]Restart{{}, permanent, permanent, transient, transient}).Draw(t, "policy")
				what += fmt.Sprintf("ended: %+v under %+v", e, r.Policy)
				restarts := s.Restarts()
				s.ended(id, e, r)
				state, _ := s.State()
				if s.Restarts() > restarts && state != GroupStopping && state != GroupEnded {
					counted = append(counted, s.now)
					recent := slices.DeleteFunc(slices.Clone(counted), func(at time.Time) bool { return s.now.Sub(at) >= in.Period })
					if len(recent) > in.Restarts {
						t.Fatalf("%s: %d restarts in a period", what, len(recent))
					}
				}
				if before[i].State == Running && calm && stateBefore != GroupStopping && state == GroupRestarting && s.Restarts() > restarts {
					s.survivors(t, what, strategy, i, before)
				}
			case 7, 8:
				what = fmt.Sprintf("step %d, time passes", step)
				s.tick(time.Duration(rapid.IntRange(0, 40).Draw(t, "s")) * time.Second)
			default:
				if rapid.IntRange(0, 3).Draw(t, "really") == 0 {
					what += "is gone"
					s.Gone(s.now, id, EndedByRequest, false)
				}
			}
			check(what, before, status())
		}
		s.Stop(s.now, "the end")
		for range n {
			for _, id := range order {
				if s.Status(id).State == Ending {
					before := status()
					s.ended(id, End{}, permanent)
					check("stopping", before, status())
				}
			}
		}
		if state, _ := s.State(); state != GroupEnded || !s.Wake().IsZero() {
			t.Fatalf("stopped, and all have ended: %v", s)
		}
	})
}

// survivors checks whose run goes on after the end of member i, once all have done as
// they are told.
func (s *troop) survivors(t *rapid.T, what string, strategy GroupStrategy, i int, before []MemberStatus) {
	// On a copy, which ends whom it wants to.
	c := *s.Group
	c.members = slices.Clone(s.members)
	for range c.members {
		for j := range c.members {
			if m := &c.members[j]; m.State == Ending {
				c.Ended(s.now, m.ID, m.Run, End{}, permanent, 0)
			}
		}
	}
	for j := range c.members {
		keeps := strategy == OneForOne || strategy == RestForOne && j < i
		if m := &c.members[j]; j != i && before[j].State == Running && (m.State == Running && m.Run == before[j].Run) != keeps {
			t.Fatalf("%s, %s: %s kept its run: %v, want %v", strategy, what, m.ID, !keeps, keeps)
		}
	}
}

// A job that succeeds while others are ended is done. A job that was ended is not done.
func TestJobIsDoneMeanwhile(t *testing.T) {
	for _, r := range []Restart{{}, transient} {
		for _, told := range []bool{false, true} { // the job is told to end once the last has ended
			s := newTroop(t, OneForAll, often, Member{ID: "job", OnSuccess: true}, Member{ID: "bad"}, Member{ID: "last"})
			s.tick(0)
			s.ended("bad", End{ExitCode: 1}, permanent)
			if !told {
				s.ended("job", End{}, r)
			}
			s.ended("last", End{Requested: true}, permanent)
			if told {
				s.ended("job", End{}, r)
			}
			s.tick(time.Second)
			s.want(t, "starting: job left 1 r, bad running 2, last running 2")
		}
	}
	s := newTroop(t, OneForAll, often, Member{ID: "job", OnSuccess: true}, Member{ID: "bad"})
	s.tick(0)
	s.ended("bad", End{ExitCode: 1}, permanent)
	s.ended("job", End{Requested: true}, transient) // politely
	s.tick(time.Second)
	s.want(t, "starting: job running 2, bad running 2")
}

// If a member is given up, the group ends. After setRestart earlier failures are forgotten.
func TestMemberIsGivenUp(t *testing.T) {
	s := newTroop(t, OneForOne, often, abc()...)
	s.tick(0)
	for range 3 {
		s.Forget("a")
		s.ended("a", End{}, permanent)
		if left := s.Status("a").At.Sub(s.now); left != time.Second {
			t.Errorf("it waits for %v, want 1 s each time", left)
		}
		s.tick(time.Minute)
	}
	s.Gone(s.now, "b", "it broke", true)
	s.want(t, "stopping: a running 4, b left 1, c ending 1")
	if _, reason := s.State(); reason != "b was given up: it broke" || !s.Status("b").GivenUp {
		t.Error(reason)
	}
}

// A member that has never run does not wait for the backoff of another.
func TestNeverRunIsNotDelayed(t *testing.T) {
	s := newTroop(t, RestForOne, often, Member{ID: "base"}, Member{ID: "fails"}, Member{ID: "late", After: []string{"base"}})
	s.tick(0)
	s.want(t, "starting: base running 1, fails running 1, late waiting 0")
	s.ended("fails", End{ExitCode: 1}, permanent)
	s.want(t, "restarting: base running 1, fails waiting 1, late waiting 0")
	s.ready("base")
	s.want(t, "restarting: base running 1 r, fails waiting 1, late running 1")
	s.tick(time.Second)
	s.want(t, "starting: base running 1 r, fails running 2, late running 1")
}

// In an independent group, each member counts its own restarts, and the others go on without a member that was given up.
func TestIndependentMembersGoOnAlone(t *testing.T) {
	s := newTroop(t, Independent, Intensity{}, Member{ID: "db"}, Member{ID: "web", After: []string{"db"}}, Member{ID: "worker"})
	own := Restart{Policy: Permanent, Intensity: Intensity{Restarts: 1}}
	s.tick(0)
	s.ready("db", "worker")
	s.ready("web")
	s.want(t, "ready: db running 1 r, web running 1 r, worker running 1 r")
	s.ended("worker", End{ExitCode: 1}, own)
	s.tick(0)
	s.ready("worker")
	s.ended("db", End{ExitCode: 1}, own)
	s.tick(0)
	s.want(t, "restarting: db running 2, web running 1 r, worker running 2 r") // the intensity of 0 restarts of the group does not count
	s.ended("db", End{ExitCode: 1}, own)
	s.want(t, "ready: db left 2, web running 1 r, worker running 2 r")
	if st := s.Status("db"); !st.GivenUp || st.Reason != "exit code 1, and no more than 1 restarts are allowed" {
		t.Errorf("db: %+v", st)
	}
	s.ended("web", End{ExitCode: 1}, own)
	s.tick(0)
	s.want(t, "restarting: db left 2, web waiting 1, worker running 2 r")
	if st := s.Status("web"); st.Reason != "waits for db, which has ended and was not ready" {
		t.Errorf("web waits: %q", st.Reason)
	}
	if s.Restarts() != 3 {
		t.Errorf("%d restarts, want 3", s.Restarts())
	}
}

// Independent members end together, but none before those that depend on it.
func TestIndependentMembersEnd(t *testing.T) {
	s := newTroop(t, Independent, Intensity{}, Member{ID: "disk"}, Member{ID: "db", After: []string{"disk"}}, Member{ID: "web", After: []string{"db"}}, Member{ID: "worker"})
	s.tick(0)
	s.ready("disk")
	s.ready("db")
	s.ready("web", "worker")
	s.Stop(s.now, "enough")
	s.want(t, "stopping: disk running 1 r, db running 1 r, web ending 1 r, worker ending 1 r")
	s.Gone(s.now, "worker", "enough", false)
	s.want(t, "stopping: disk running 1 r, db running 1 r, web ending 1 r, worker left 1 r")
	s.Gone(s.now, "web", "enough", false)
	s.want(t, "stopping: disk running 1 r, db ending 1 r, web left 1 r, worker left 1 r")
	s.Gone(s.now, "db", "enough", false)
	s.Gone(s.now, "disk", "enough", false)
	s.want(t, "ended: disk left 1 r, db left 1 r, web left 1 r, worker left 1 r")
}

// An extended group leaves the other members alone, and who waited for a lost member goes on after the new one.
func TestExtendedGroup(t *testing.T) {
	db, web := Member{ID: "db"}, Member{ID: "web", After: []string{"db"}}
	s := newTroop(t, Independent, Intensity{}, web, db, Member{ID: "worker"})
	s.tick(0)
	s.ready("worker")
	s.Gone(s.now, "db", EndedByRequest, false)
	s.want(t, "starting: db left 1, web waiting 0, worker running 1 r")
	db.After = []string{"disk"}
	disk := Member{ID: "disk", OnSuccess: true}
	s.extend(t, db, disk)
	s.want(t, "starting: worker running 1 r, disk running 1, db waiting 0, web waiting 0")
	if st := s.Status("web"); st.Reason != "" {
		t.Errorf("web still waits because: %q", st.Reason)
	}
	s.ended("disk", End{}, Restart{})
	s.ready("db")
	s.want(t, "starting: worker running 1 r, disk left 1 r, db running 1 r, web running 1")

	disk.After = []string{"web"}
	for _, wrong := range [][]Member{{disk}, {disk, disk}, {{ID: "late", After: []string{"nobody"}}}} {
		if _, err := s.Extended(wrong); err == nil {
			t.Errorf("%+v is not an error", wrong)
		}
	}
	s.want(t, "starting: worker running 1 r, disk left 1 r, db running 1 r, web running 1")

	s.Stop(s.now, "enough")
	s.extend(t, Member{ID: "late"})
	if st := s.Status("late"); st.State == Running {
		t.Errorf("a member runs in a stopped group: %+v", st)
	}
}

// A member that has left runs again: alone in a group that has ended, and whoever waited for the member goes on.
func TestRejoin(t *testing.T) {
	s := newTroop(t, Independent, Intensity{}, Member{ID: "db"}, Member{ID: "web", After: []string{"db"}}, Member{ID: "worker"})
	own := Restart{Policy: Permanent, Intensity: Intensity{Restarts: 1}, GiveUp: Deaths{ExitCodes: []int{2}}}
	s.tick(0)
	s.ready("worker")
	s.ended("db", End{ExitCode: 2}, own)
	s.Gone(s.now, "web", EndedByRequest, false)
	s.want(t, "ready: db left 1, web left 0, worker running 1 r")
	s.Rejoin(s.now, "web", 1)
	if st := s.Status("web"); st.Reason != "waits for db, which has ended and was not ready" {
		t.Errorf("web waits: %q", st.Reason)
	}
	for range 2 { // said again
		s.Rejoin(s.now, "db", 1)
		s.want(t, "restarting: db running 2, web waiting 0, worker running 1 r")
	}
	if st := s.Status("web"); st.Reason != "run again by request" && st.Reason != "" {
		t.Errorf("web waits: %q", st.Reason)
	}
	s.ready("db")
	s.want(t, "restarting: db running 2 r, web running 1, worker running 1 r")

	s.Stop(s.now, "enough")
	for _, id := range []string{"worker", "web", "db"} {
		s.Gone(s.now, id, "", false)
	}
	s.want(t, "ended: db left 2 r, web left 1, worker left 1 r")
	s.Rejoin(s.now, "worker", 1)
	s.want(t, "restarting: db left 2 r, web left 1, worker running 2")
	s.ended("worker", End{ExitCode: 1}, own)
	s.tick(0)
	s.want(t, "restarting: db left 2 r, web left 1, worker running 3")
	s.Gone(s.now, "worker", EndedByRequest, false)
	if state, reason := s.State(); state != GroupEnded || reason != "" {
		t.Errorf("%s because of %q, want no reason: nobody has stopped the group since", state, reason)
	}
}
