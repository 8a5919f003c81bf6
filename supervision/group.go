package supervision

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// GroupStrategy says who else is run again with a member that ended, as in OTP.
// Those in question are told to end, the last started first and one at a time, and
// are run again in the order of a start.
type GroupStrategy string

const (
	OneForOne  GroupStrategy = "one_for_one"  // nobody
	OneForAll  GroupStrategy = "one_for_all"  // everybody
	RestForOne GroupStrategy = "rest_for_one" // those that come after it in the start order
)

// Member is a process in a Group.
type Member struct {
	ID string
	// After are the members that must be ready before it is run, each time.
	After []string
	// OnSuccess: it is ready once it has ended well, and stays so. Else Ready says
	// when it is, and an end that another run follows that it is not.
	OnSuccess bool
}

// MemberState is where a member of a Group is.
type MemberState uint8

const (
	Waiting MemberState = iota // for its dependencies, its backoff, the end of others
	Running                    // it was told to run, and has not ended
	Ending                     // it was told to end, and has not
	Left                       // no run follows
)

func (s MemberState) String() string {
	return [...]string{"waiting", "running", "ending", "left"}[s]
}

// GroupState is how a Group does as a whole.
type GroupState string

const (
	GroupStarting   GroupState = "starting"   // not all have been ready yet
	GroupReady      GroupState = "ready"      // all that have not left are
	GroupRestarting GroupState = "restarting" // somebody is to be run again
	GroupStopping   GroupState = "stopping"
	GroupEnded      GroupState = "ended" // all have left
)

// MemberStatus is what a member is to do, which is said again whenever it changes,
// and may be said oftener: who hears it acts by Run.
type MemberStatus struct {
	State MemberState
	Run   int // the current or last one, from 1; 0: none yet
	Ready bool
	// Reason is why it is run again, told to end, or has left; "" for none. GivenUp:
	// it left although its policy asks for another run.
	Reason  string
	GivenUp bool
	At      time.Time // while Waiting: not before
}

type member struct {
	Member
	MemberStatus
	after   []int
	history History
}

// Group decides for several processes together. It has no clock: whoever has it
// reports what happened, and then does what Status says of each member, and calls
// Tick at Next. Not for several goroutines at once.
type Group struct {
	// Fixed.
	strategy  GroupStrategy
	intensity Intensity
	members   []member // in start order
	index     map[string]int

	tally    Tally
	restarts int
	begun    bool // all have been ready
	stopping bool
	reason   string // of stopping
	// The members from here on are ended and run again together: not before at.
	// len(members): none are.
	from    int
	at      time.Time
	because string
}

// NewGroup puts members in start order: each after those it depends on, and else as
// they come. More restarts of any of them than intensity allows end the group.
func NewGroup(strategy GroupStrategy, intensity Intensity, members []Member) (*Group, error) {
	g := &Group{strategy: strategy, intensity: intensity, index: make(map[string]int), from: len(members)}
	given := make(map[string]int)
	for i, m := range members {
		if _, twice := given[m.ID]; twice {
			return nil, fmt.Errorf("process %q is there twice", m.ID)
		}
		given[m.ID] = i
	}
	var (
		after   = make([][]int, len(members)) // whom each depends on, once
		before  = make([][]int, len(members)) // who depends on each
		waits   = make([]int, len(members))   // for how many that are not placed
		counted = make([]int, len(members))   // the last that was found to depend on each, + 1
		free    []int                         // those that may be placed, sorted
	)
	for i, m := range members {
		for _, id := range m.After {
			at, ok := given[id]
			if !ok {
				return nil, fmt.Errorf("process %q depends on %q, which is not in the group", m.ID, id)
			}
			if counted[at] != i+1 {
				counted[at] = i + 1
				after[i], before[at] = append(after[i], at), append(before[at], i)
			}
		}
		if waits[i] = len(after[i]); waits[i] == 0 {
			free = append(free, i)
		}
	}
	for len(free) > 0 {
		i := free[0]
		free = free[1:]
		m := member{Member: members[i]}
		m.After = nil
		for _, at := range after[i] {
			m.after = append(m.after, g.index[members[at].ID])
		}
		g.index[m.ID] = len(g.members)
		g.members = append(g.members, m)
		for _, next := range before[i] {
			if waits[next]--; waits[next] == 0 {
				at, _ := slices.BinarySearch(free, next)
				free = slices.Insert(free, at, next)
			}
		}
	}
	if len(g.members) < len(members) {
		left := slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return waits[given[m.ID]] == 0 })
		return nil, fmt.Errorf("processes depend on each other in a circle: %s", circle(left))
	}
	return g, nil
}

// circle is one of those among members that all depend on others of them.
func circle(members []Member) string {
	left := make(map[string]bool)
	for _, m := range members {
		left[m.ID] = true
	}
	depends := make(map[string]string)
	for _, m := range members {
		for _, id := range m.After {
			if left[id] {
				depends[m.ID] = id
			}
		}
	}
	var path []string
	at := make(map[string]int) // in path
	for id := members[0].ID; ; id = depends[id] {
		if i, ok := at[id]; ok {
			return strings.Join(append(path[i:], id), " → ")
		}
		at[id] = len(path)
		path = append(path, id)
	}
}

// Order is the start order.
func (g *Group) Order() []string {
	ids := make([]string, len(g.members))
	for i := range g.members {
		ids[i] = g.members[i].ID
	}
	return ids
}

// Status of a member; the zero MemberStatus of one that is not there.
func (g *Group) Status(id string) MemberStatus {
	if i, ok := g.index[id]; ok {
		return g.members[i].MemberStatus
	}
	return MemberStatus{}
}

// Restarts is how many ends were answered with another run; those of Requests do
// not count, nor those that were run again with another.
func (g *Group) Restarts() int { return g.restarts }

// State of the whole, and why it is stopping or was stopped; "" if it was not.
func (g *Group) State() (GroupState, string) {
	left, ready, again := true, true, false
	for i := range g.members {
		m := &g.members[i]
		left = left && m.State == Left
		ready = ready && (m.State == Left || m.Ready)
		again = again || m.State == Waiting && m.Run > 0 || m.State == Ending
	}
	switch {
	case left:
		return GroupEnded, g.reason
	case g.stopping:
		return GroupStopping, g.reason
	case again:
		return GroupRestarting, ""
	case ready:
		return GroupReady, ""
	case g.begun:
		return GroupRestarting, ""
	}
	return GroupStarting, ""
}

// Next is when Tick is due; the zero Time: not until something happens.
func (g *Group) Next() (next time.Time) {
	if g.stopping {
		return next
	}
	for i := range g.members[:g.from] {
		if m := &g.members[i]; m.State == Waiting && !m.At.IsZero() && g.fed(m) && (next.IsZero() || m.At.Before(next)) {
			next = m.At
		}
	}
	return next
}

// Tick goes on with what time has brought. The first one starts the group.
func (g *Group) Tick(now time.Time) { g.advance(now) }

// Ready: the run of a member is ready.
func (g *Group) Ready(now time.Time, id string, run int) {
	if m := g.member(id); m != nil && m.Run == run && (m.State == Running || m.State == Ending) && !m.OnSuccess {
		m.Ready = true
		g.advance(now)
	}
}

// Ended: a run of a member has ended, which it was to be run by r, but for r's
// Intensity. Of a run that is over already it is a repetition, and nothing. chance
// is as in Backoff.Delay.
func (g *Group) Ended(now time.Time, id string, run int, e End, r Restart, chance float64) {
	m := g.member(id)
	if m == nil || m.Run != run || m.State != Running && m.State != Ending {
		return
	}
	i := g.index[id]
	switch together := m.State == Ending || i >= g.from; {
	case m.OnSuccess && !e.Requested && !e.Failed() && r.Policy != Permanent: // whatever was to be done with it
		m.Ready = true
		g.leave(m, "")
	case g.stopping:
		g.leave(m, g.reason)
	case together && (r.Policy == "" || r.Policy == Temporary):
		g.leave(m, g.because)
	case together:
		g.again(m, g.at, g.because)
	default:
		g.decide(now, i, e, r, chance)
	}
	g.advance(now)
}

func (g *Group) decide(now time.Time, i int, e End, r Restart, chance float64) {
	m := &g.members[i]
	r.Intensity = g.intensity
	d := m.history.Ended(now, r, e, chance)
	if d.Verdict == Again && !e.Again {
		if _, exceeded := g.tally.Failed(now, g.intensity); exceeded {
			d = Decision{Verdict: GivenUp, Reason: fmt.Sprintf("%v, and %s of the group", e, g.intensity.exceeded())}
		} else {
			g.restarts++
		}
	}
	switch d.Verdict {
	case Over:
		g.leave(m, "")
	case GivenUp:
		m.GivenUp = true
		g.leave(m, d.Reason)
		g.stop(fmt.Sprintf("%s was given up: %s", m.ID, d.Reason))
	case Again:
		at := now.Add(d.Delay)
		g.again(m, at, d.Reason)
		if e.Again || g.strategy == OneForOne {
			return
		}
		from := i
		if g.strategy == OneForAll {
			from = 0
		}
		g.because = m.ID + ": " + d.Reason
		if g.from == len(g.members) || g.at.Before(at) {
			g.at = at
		}
		g.from = from                       // it was behind i
		for j := range g.members[g.from:] { // those who wait already wait as long
			if o := &g.members[g.from+j]; o.State == Waiting && o.Run > 0 && o.At.Before(g.at) {
				o.At = g.at
			}
		}
	}
}

func (g *Group) leave(m *member, reason string) {
	m.State, m.Reason, m.At = Left, reason, time.Time{}
}

func (g *Group) again(m *member, at time.Time, reason string) {
	m.State, m.Ready, m.At, m.Reason = Waiting, false, at, reason
}

// Gone: no run of the member follows, for a reason that is not this Group's: somebody
// ended it; or it was given up, and then the group is, too.
func (g *Group) Gone(now time.Time, id, reason string, givenUp bool) {
	m := g.member(id)
	if m == nil || m.State == Left {
		return
	}
	g.leave(m, reason)
	if givenUp {
		m.GivenUp = true
		g.stop(fmt.Sprintf("%s was given up: %s", m.ID, reason))
	}
	g.advance(now)
}

// Forget has the ends of a member so far no longer count for its backoff and its GiveUp.
func (g *Group) Forget(id string) {
	if m := g.member(id); m != nil {
		m.history = History{}
	}
}

// Stop ends the group: all members, the last started first.
func (g *Group) Stop(now time.Time, reason string) {
	g.stop(reason)
	g.advance(now)
}

func (g *Group) stop(reason string) {
	if !g.stopping {
		g.stopping, g.reason = true, reason
	}
}

func (g *Group) member(id string) *member {
	if i, ok := g.index[id]; ok {
		return &g.members[i]
	}
	return nil
}

// fed reports whether all that m depends on is ready.
func (g *Group) fed(m *member) bool {
	return !slices.ContainsFunc(m.after, func(i int) bool { return !g.members[i].Ready })
}

// advance does what is due.
func (g *Group) advance(now time.Time) {
	for i := range g.members {
		m := &g.members[i]
		for _, j := range m.after {
			if o := &g.members[j]; m.State == Waiting && o.State == Left && !o.Ready {
				g.stop(fmt.Sprintf("%s waits for %s, which has ended and was not ready", m.ID, o.ID))
			}
		}
	}
	if g.stopping {
		if g.end(0, g.reason) {
			for i := range g.members {
				if m := &g.members[i]; m.State == Waiting {
					g.leave(m, g.reason)
				}
			}
		}
		return
	}
	if g.end(g.from, g.because) {
		g.from = len(g.members)
	}
	for i := range g.members[:g.from] {
		if m := &g.members[i]; m.State == Waiting && !now.Before(m.At) && g.fed(m) {
			m.State, m.At = Running, time.Time{}
			m.Run++
		}
	}
	if state, _ := g.State(); state == GroupReady {
		g.begun = true
	}
}

// end ends the members from from on, the last first. It reports whether none of
// them lives.
func (g *Group) end(from int, reason string) bool {
	for i := len(g.members) - 1; i >= from; i-- {
		switch m := &g.members[i]; m.State {
		case Running:
			m.State, m.Reason = Ending, reason
			return false
		case Ending:
			return false
		}
	}
	return true
}
