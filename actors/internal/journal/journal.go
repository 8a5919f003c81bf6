// Package journal has the last events of the sessions of a server, for server/events.
package journal

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/internal/arena"
	"github.com/b6f6fdd7/troupe/internal/estate"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// maxPage bounds an answer, in bytes of JSON. A single event always fits.
	maxPage = 64 << 10
	// eventBytes is the JSON of an event without its texts, in bytes.
	eventBytes = 350
	// maxReplaced is how many servers before this one are remembered.
	maxReplaced = 32
)

// A Journal has the last events of a server. The events of each identity have a ring of their own, and the largest rings lose
// events first: who floods the journal costs nobody else an event. Any goroutine may use a Journal.
type Journal struct {
	now  func() time.Time
	most int          // events in all rings
	log  *slog.Logger // gets each event at slog.LevelDebug; nil: nothing

	mu       sync.Mutex
	replaced []protocol.ServerEvent // of no session: how the servers came, the newest maxReplaced
	rings    map[string]*ring       // by the identity that has opened the sessions
	total    int                    // events in all rings
	last     uint64                 // the newest time that was given out, in microseconds since the Unix epoch
	dropped  uint64                 // the time of the newest event that was lost with its ring; at first, the beginning of the journal
	waits    map[*wait]bool
	kept     kept
}

// A ring has the events of the sessions of an identity, the oldest first.
type ring struct {
	events  []protocol.ServerEvent
	dropped uint64       // the time of the newest event that the ring has lost; 0: none
	chain   *arena.Chain // has the events for the next server; nil: there is none
}

// A Question asks for events after a time, as protocol.ServerEventsParams does.
type Question struct {
	Who      identity.Identity // sees only the events that this client may observe
	AfterUs  uint64
	Instance string // of the only process whose events are asked for; "": all processes
	Last     uint64 // how many of the newest events are asked for; 0: all, the oldest first
}

// wants reports whether an event of a session that owner has opened is asked for, whatever its time.
func (q *Question) wants(owner string, e *protocol.ServerEvent) bool {
	return (q.Instance == "" || q.Instance == e.Instance) && q.Who.MayObserve(e.SessionID, owner)
}

// A wait is a client that waits for an event.
type wait struct {
	Question
	wake func()
}

// New returns a Journal that keeps so many events; without events if most is negative. The events outlive the server in its estate e, unless e is nil.
// log may be nil.
func New(most int, e *estate.Estate, log *slog.Logger) *Journal {
	j := newJournal(most, time.Now)
	j.log = log
	if most > 0 {
		j.keepIn(e)
	}
	return j
}

func newJournal(most int, now func() time.Time) *Journal {
	j := &Journal{now: now, most: max(most, 0), rings: make(map[string]*ring), waits: make(map[*wait]bool)}
	j.dropped = j.time()
	return j
}

// time returns the present time, in microseconds since the Unix epoch. Each call returns a later time than the call before, even if
// the clock is set back. The caller holds mu.
func (j *Journal) time() uint64 {
	j.last = max(uint64(j.now().UnixMicro()), j.last+1)
	return j.last
}

// put adds an event of a session that owner has opened, and wakes who waits for the event. The caller holds mu.
func (j *Journal) put(owner string, e protocol.ServerEvent) {
	e.AtUs = j.time()
	j.record(owner, &e)
	r := j.rings[owner]
	if r == nil {
		r = &ring{chain: j.kept.newChain()}
		j.rings[owner] = r
		j.keepRings()
	}
	r.events = append(r.events, e)
	r.keep(&e)
	if j.total++; j.total > j.most {
		j.makeRoom()
	}
	j.wake(func(w *wait) bool { return w.wants(owner, &e) })
}

// record logs an event of a session that owner has opened.
func (j *Journal) record(owner string, e *protocol.ServerEvent) {
	if j.log == nil || !j.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	about := []any{"session", e.SessionID}
	add := func(name string, value any, has bool) {
		if has {
			about = append(about, name, value)
		}
	}
	what := "session"
	switch {
	case e.ProcessID != "":
		what = "process"
	case e.GroupID != "":
		what = "group"
	}
	add("name", e.SessionName, e.SessionName != "")
	add("identity", owner, owner != "")
	add("process", e.ProcessID, e.ProcessID != "")
	add("group", e.GroupID, e.GroupID != "")
	add("run", e.Run, e.Run != 0)
	add("state", e.State, e.State != "")
	add("reason", e.Reason, e.Reason != "")
	if st := e.Status; st != nil {
		add("exitCode", st.ExitCode, true)
		add("signal", st.Signal, st.Signal != "")
		add("oomKilled", true, st.OOMKilled)
		add("ended", st.Reason, st.Reason != "")
	}
	j.log.Debug(what+" "+string(e.Kind), about...)
}

// wake wakes those who wait for an event. The caller holds mu.
func (j *Journal) wake(wants func(*wait) bool) {
	for w := range j.waits {
		if wants(w) {
			delete(j.waits, w)
			w.wake()
		}
	}
}

// Replaced adds the event that this server has taken the place of another one. A server calls Replaced once. Everybody sees the event.
func (j *Journal) Replaced(r protocol.Replacement) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.replaced = append(j.replaced[max(0, len(j.replaced)+1-maxReplaced):], protocol.ServerEvent{
		AtUs: j.time(), Kind: protocol.ServerReplaced, Reason: cut(r.Reason, maxText), GapMs: r.GapMs,
	})
	j.keepRings()
	j.wake(func(w *wait) bool { return w.Instance == "" })
}

// ofServer returns the events of no session that a question asks for.
func (j *Journal) ofServer(q *Question) []protocol.ServerEvent {
	if q.Instance != "" {
		return nil
	}
	first := slices.IndexFunc(j.replaced, func(e protocol.ServerEvent) bool { return e.AtUs > q.AfterUs })
	if first < 0 {
		return nil
	}
	return j.replaced[first:]
}

// makeRoom drops the older halves of rings, of the largest first, until an eighth of the room is free. The caller holds mu.
func (j *Journal) makeRoom() {
	owners := slices.SortedFunc(maps.Keys(j.rings), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(j.rings[b].events), len(j.rings[a].events)), cmp.Compare(j.rings[a].events[0].AtUs, j.rings[b].events[0].AtUs))
	})
	for _, owner := range owners {
		if j.total <= j.most*7/8 {
			return
		}
		r := j.rings[owner]
		n := (len(r.events) + 1) / 2
		j.total -= n
		r.dropped = r.events[n-1].AtUs
		r.forget()
		r.events = slices.Clone(r.events[n:]) // a copy: the memory of the others is free
		if len(r.events) == 0 {
			delete(j.rings, owner)
			j.dropped = max(j.dropped, r.dropped)
			j.keepRings()
			r.free()
		}
	}
}

// Read returns the events of a question, the oldest or the newest, as many as an answer may have. Without events in the answer,
// every later event is after the NextUs of the answer.
func (j *Journal) Read(q Question) protocol.ServerEventsResult {
	j.mu.Lock()
	defer j.mu.Unlock()
	result := protocol.ServerEventsResult{Events: append([]protocol.ServerEvent{}, j.ofServer(&q)...), WholeUs: j.dropped, NextUs: j.time()}
	for owner, r := range j.rings {
		if sees(q.Who, owner) {
			result.WholeUs = max(result.WholeUs, r.dropped)
			result.Events = append(result.Events, r.answer(&q, owner)...)
		}
	}
	slices.SortFunc(result.Events, func(a, b protocol.ServerEvent) int { return cmp.Compare(a.AtUs, b.AtUs) })
	if q.Last > 0 {
		result.Events = newest(result.Events, q.Last)
		return result
	}
	room := maxPage
	for i := range result.Events {
		if room -= size(&result.Events[i]); room < 0 && i > 0 {
			result.Events, result.NextUs = result.Events[:i], result.Events[i-1].AtUs
			break
		}
	}
	return result
}

// newest returns the newest events, most of them at most, and as many as an answer may have.
func newest(events []protocol.ServerEvent, most uint64) []protocol.ServerEvent {
	room, n := maxPage, 0
	for uint64(n) < most && n < len(events) {
		if room -= size(&events[len(events)-n-1]); room < 0 && n > 0 {
			break
		}
		n++
	}
	return events[len(events)-n:]
}

// sees reports whether a client may see sessions of an identity. A guest may see one of them.
func sees(who identity.Identity, owner string) bool {
	if who.Guest != nil {
		return who.Guest.Host == owner
	}
	return who.MayObserve("", owner)
}

// answer returns the events of the ring that a question asks for, the oldest or the newest, at most as many as an answer may have.
func (r *ring) answer(q *Question, owner string) (events []protocol.ServerEvent) {
	first, found := slices.BinarySearchFunc(r.events, q.AfterUs, func(e protocol.ServerEvent, at uint64) int { return cmp.Compare(e.AtUs, at) })
	if found {
		first++
	}
	after := slices.All(r.events[first:])
	if q.Last > 0 {
		after = slices.Backward(r.events[first:])
	}
	for _, e := range after {
		if len(events) > maxPage/eventBytes || q.Last > 0 && uint64(len(events)) >= q.Last {
			break
		}
		if q.wants(owner, &e) {
			events = append(events, e)
		}
	}
	return events
}

// size returns the JSON of an event, in bytes, about.
func size(e *protocol.ServerEvent) int {
	n := eventBytes + len(e.SessionID) + len(e.SessionName) + len(e.ProcessID) + len(e.GroupID) + len(e.Reason)
	for _, arg := range e.Argv {
		n += len(arg) + 3
	}
	return n
}

// Wait calls wake once there is an event for a question, perhaps before Wait returns. wake must not wait, and not
// use the Journal. After cancel, wake is not called any more. Whoever waits calls cancel in the end.
func (j *Journal) Wait(q Question, wake func()) (cancel func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	there := len(j.ofServer(&q)) > 0
	for owner, r := range j.rings {
		there = there || sees(q.Who, owner) && len(r.answer(&q, owner)) > 0
	}
	if there {
		wake()
		return func() {}
	}
	w := &wait{q, wake}
	j.waits[w] = true
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.waits, w)
	}
}

// Waiting returns how many clients wait, for tests.
func (j *Journal) Waiting() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.waits)
}
