package supervision

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// GroupStrategy says which other members run again after the end of a member, as in OTP. These members are told
// to end one after the other, the last started first. Then they run again in start order.
//
// Independent is not of OTP: a stopped group ends each member as soon as no member lives that depends on it. Nobody else runs again, the Intensity of each member counts, and a member that is given up
// leaves alone. If a member waits for another that has left and was not ready, the group goes on and the member waits.
// Only an Independent group can be extended.
type GroupStrategy string

const (
	OneForOne  GroupStrategy = "one_for_one"  // nobody
	OneForAll  GroupStrategy = "one_for_all"  // everybody
	RestForOne GroupStrategy = "rest_for_one" // the members after the ended member in start order

	Independent GroupStrategy = "independent" // nobody, and the group goes on without a member that was given up
)

// Member is a process in a Group.
type Member struct {
	ID string
	// After are the members that must be ready before each run of this member.
	After []string
	// With OnSuccess a member is ready once a run has succeeded, and stays ready. Without OnSuccess, Group.Ready
	// says when a run is ready, and the member is not ready between two runs.
	OnSuccess bool
}

// EndedByRequest is the Reason of a member that somebody has ended outside of its Group.
const EndedByRequest = "ended by request"

// MemberState is the state of a member of a Group.
type MemberState uint8

const (
	Waiting MemberState = iota // for its dependencies, its backoff, the end of others
	Running                    // told to run, and not ended yet
	Ending                     // told to end, and not ended yet
	Left                       // no run follows
)

func (s MemberState) String() string {
	return [...]string{"waiting", "running", "ending", "left"}[s]
}

// GroupState is the state of a Group as a whole.
type GroupState string

const (
	GroupStarting   GroupState = "starting"   // some member has never been ready
	GroupReady      GroupState = "ready"      // each member is ready or has left
	GroupRestarting GroupState = "restarting" // some member will run again
	GroupStopping   GroupState = "stopping"
	GroupEnded      GroupState = "ended" // each member has left
)

// MemberStatus is an instruction to a member. The owner of the Group repeats an instruction after each change,
// and may repeat an instruction at any time. A member decides by Run whether the instruction is new.
type MemberStatus struct {
	State MemberState
	Run   int // number of the current or last run, from 1; 0: no run yet
	Ready bool
	// Reason says why the member runs again, was told to end, or has left. Empty: no reason. GivenUp: the member
	// has left although its policy asks for another run.
	Reason  string
	GivenUp bool
	At      time.Time // while Waiting: not before
	// Rejoined is the number of the last Rejoin; 0: there was none.
	Rejoined int
}

type member struct {
	Member
	MemberStatus
	after   []int
	history History
}

// Group decides for several processes together, without a clock. The owner of a Group reports events, does for
// each member as Status says, and calls Tick at Wake. A single goroutine at a time may call methods.
type Group struct {
	// Fixed.
	strategy  GroupStrategy
	intensity Intensity
	given     []Member // as NewGroup and Extended got them
	members   []member // in start order
	index     map[string]int

	tally    Tally
	restarts int
	begun    bool // each member has been ready
	stopping bool
	reason   string // of stopping
	// The members from here on end and run again together, not before at. With len(members) no member does.
	from    int
	at      time.Time
	because string
}

// NewGroup puts members in start order: each member after the members in its After, and otherwise in the order
// given. If more members restart than intensity allows, the group ends.
func NewGroup(strategy GroupStrategy, intensity Intensity, members []Member) (*Group, error) {
	g := &Group{strategy: strategy, intensity: intensity, given: members, index: make(map[string]int), from: len(members)}
	given := make(map[string]int)
	for i, m := range members {
		if _, twice := given[m.ID]; twice {
			return nil, fmt.Errorf("process %q is there twice", m.ID)
		}
		given[m.ID] = i
	}
	var (
		after   = make([][]int, len(members)) // by member: its dependencies, each once
		before  = make([][]int, len(members)) // by member: the members depending on the member
		waits   = make([]int, len(members))   // by member: how many dependencies have no place yet
		counted = make([]int, len(members))   // by member: the last dependent member found, + 1
		free    []int                         // members that may be placed now, sorted
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

// circle returns a circle of dependencies. Each of members depends on another of members.
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

// Extended returns an Independent group with more members. An added member replaces the member with its ID, and begins
// anew: the caller replaces only members that have left. All others keep their status and their past. The caller goes on
// with the returned group, and calls Tick.
func (g *Group) Extended(added []Member) (*Group, error) {
	given, anew := slices.Clone(g.given), make(map[string]bool)
	for _, m := range added {
		if anew[m.ID] { // NewGroup would not notice if both replaced the same old member
			return nil, fmt.Errorf("process %q is there twice", m.ID)
		}
		anew[m.ID] = true
		if i := slices.IndexFunc(given, func(old Member) bool { return old.ID == m.ID }); i >= 0 {
			given[i] = m
		} else {
			given = append(given, m)
		}
	}
	next, err := NewGroup(g.strategy, g.intensity, given)
	if err != nil {
		return nil, err
	}
	for i := range next.members {
		m := &next.members[i]
		if old := g.member(m.ID); old != nil && !anew[m.ID] {
			m.MemberStatus, m.history = old.MemberStatus, old.history
		}
	}
	next.tally, next.restarts, next.begun, next.stopping, next.reason = g.tally, g.restarts, g.begun, g.stopping, g.reason
	return next, nil
}

// Strategy returns the strategy of the group.
func (g *Group) Strategy() GroupStrategy { return g.strategy }

// blocks is the reason of a member that waits for a member that has left.
const blocks = ", which has ended and was not ready"

// Order returns the members in start order.
func (g *Group) Order() []string {
	ids := make([]string, len(g.members))
	for i := range g.members {
		ids[i] = g.members[i].ID
	}
	return ids
}

// Status returns the status of a member. An unknown member has the zero MemberStatus.
func (g *Group) Status(id string) MemberStatus {
	if i, ok := g.index[id]; ok {
		return g.members[i].MemberStatus
	}
	return MemberStatus{}
}

// Restarts counts the ends after which a member was run again. Ends on request do not count, and neither do
// members that ran again together with another member.
func (g *Group) Restarts() int { return g.restarts }

// State returns the state of the group, and the reason for stopping. The reason is empty if the group was not
// stopped.
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

// Wake returns when Tick is due. The zero Time means: not before another event.
func (g *Group) Wake() (next time.Time) {
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

// Tick does everything due at now. The first Tick starts the group.
func (g *Group) Tick(now time.Time) { g.advance(now) }

// Ready reports a run of a member as ready.
func (g *Group) Ready(now time.Time, id string, run int) {
	if m := g.member(id); m != nil && m.Run == run && (m.State == Running || m.State == Ending) && !m.OnSuccess {
		m.Ready = true
		g.advance(now)
	}
}

// Ended reports the end of a run of a member. r is the restart policy of the member, and its Intensity is
// ignored. A repeated report changes nothing. chance is a number as in Backoff.Delay.
func (g *Group) Ended(now time.Time, id string, run int, e End, r Restart, chance float64) {
	m := g.member(id)
	if m == nil || m.Run != run || m.State != Running && m.State != Ending {
		return
	}
	i := g.index[id]
	switch together := m.State == Ending || i >= g.from; {
	case m.OnSuccess && !e.Requested && !e.Failed() && r.Policy != Permanent: // also while the member is told to end
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
	alone := g.strategy == Independent
	if !alone {
		r.Intensity = g.intensity
	}
	d := m.history.Ended(now, r, e, chance)
	if alone && d.Verdict == Again && !e.Again {
		g.restarts++
	} else if d.Verdict == Again && !e.Again {
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
		g.lost(m)
	case Again:
		at := now.Add(d.Delay)
		g.again(m, at, d.Reason)
		if e.Again || alone || g.strategy == OneForOne {
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
		g.from = from                       // from was after i
		for j := range g.members[g.from:] { // members already waiting wait as long
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

// Gone reports a member without a further run, for a reason outside of the Group. Somebody has ended the member,
// or the member was given up. If the member was given up, so is the group, unless the members are Independent.
func (g *Group) Gone(now time.Time, id, reason string, givenUp bool) {
	m := g.member(id)
	if m == nil || m.State == Left {
		return
	}
	g.leave(m, reason)
	if givenUp {
		m.GivenUp = true
		g.lost(m)
	}
	g.advance(now)
}

// Rejoin has a member that has left run again, with no past: the n-th time, from 1. A repeated Rejoin changes nothing. A
// group that has ended begins again with this member alone.
func (g *Group) Rejoin(now time.Time, id string, n int) {
	m := g.member(id)
	if m == nil || n <= m.Rejoined {
		return
	}
	if state, _ := g.State(); state == GroupEnded {
		g.stopping, g.reason = false, ""
	}
	m.Rejoined, m.GivenUp, m.history = n, false, History{}
	g.again(m, now, "run again by request")
	g.advance(now)
}

// lost ends the group after a member that was given up, unless the members are independent.
func (g *Group) lost(m *member) {
	if g.strategy != Independent {
		g.stop(fmt.Sprintf("%s was given up: %s", m.ID, m.Reason))
	}
}

// Forget clears the ends of a member so far: they no longer count for its backoff and its GiveUp.
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

// fed reports whether each dependency of m is ready.
func (g *Group) fed(m *member) bool {
	return !slices.ContainsFunc(m.after, func(i int) bool { return !g.members[i].Ready })
}

// advance does everything due at now.
func (g *Group) advance(now time.Time) {
	for i := range g.members {
		m := &g.members[i]
		if m.State == Waiting && strings.HasSuffix(m.Reason, blocks) {
			m.Reason = ""
		}
		for _, j := range m.after {
			if o := &g.members[j]; m.State == Waiting && o.State == Left && !o.Ready {
				reason := fmt.Sprintf("waits for %s%s", o.ID, blocks)
				if g.strategy == Independent {
					m.Reason = reason
				} else {
					g.stop(m.ID + " " + reason)
				}
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

// end tells living members from index from on to end, the last first, and reports whether no such member lives. An
// independent member ends as soon as no member lives that depends on it; others end one at a time.
func (g *Group) end(from int, reason string) bool {
	needed, over := make([]bool, len(g.members)), true
	for i := len(g.members) - 1; i >= from; i-- {
		m := &g.members[i]
		if m.State != Running && m.State != Ending {
			continue
		}
		if m.State == Running && !needed[i] {
			m.State, m.Reason = Ending, reason
		}
		if over = false; g.strategy != Independent {
			break
		}
		for _, j := range m.after {
			needed[j] = true
		}
	}
	return over
}
