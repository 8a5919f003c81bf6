// Package roster counts sessions, and chooses the session that gives way when others need its place or its
// memory. The package is arithmetic: the registry's actor owns the values.
package roster

import (
	"container/heap"
	"time"
)

// A Roster counts the sessions, in all and of each owner key. An idle session has neither an owner nor a
// process; the session that has been idle the longest is worth the least. Every method takes O(log n).
type Roster struct {
	max  int // sessions in all
	each int // sessions of an owner key; 0: no bound but max

	changed func(from string, sessions int)

	// seats holds every session, by its id.
	seats map[string]*seat
	// owners holds every owner key with a seat; the counts add up to len(seats).
	owners map[string]*share
	// idle holds the seats of idle sessions; each is also in the idle of its owner key.
	idle idleSeats
}

// seat is a session.
type seat struct {
	id, from string
	since    time.Time // when the session lost its owner; only set while the seat is in the heaps
	at       [2]int    // places in the two heaps; both are -1 while the session is not idle
}

// share counts the sessions of an owner key.
type share struct {
	sessions int // at least 1
	idle     idleSeats
}

// New returns a Roster for at most max sessions, and at most each sessions of an owner key. If each is 0,
// only max counts. changed gets each new number of sessions of an owner key; nil: nobody wants to know.
func New(max, each int, changed func(from string, sessions int)) *Roster {
	if changed == nil {
		changed = func(string, int) {}
	}
	return &Roster{max: max, each: each, changed: changed, seats: make(map[string]*seat), owners: make(map[string]*share), idle: idleSeats{heap: 0}}
}

// Take gives a session a seat of the owner key from. If the session has a seat of another owner key, the
// seat moves, and is busy afterwards.
func (r *Roster) Take(id, from string) {
	if s := r.seats[id]; s != nil {
		if s.from == from {
			return
		}
		r.Leave(id)
	}
	r.seats[id] = &seat{id: id, from: from, at: [2]int{-1, -1}}
	o := r.owners[from]
	if o == nil {
		o = &share{idle: idleSeats{heap: 1}}
		r.owners[from] = o
	}
	o.sessions++
	r.changed(from, o.sessions)
}

// From returns the owner key of a session; "" if the session has no seat.
func (r *Roster) From(id string) string {
	if s := r.seats[id]; s != nil {
		return s.from
	}
	return ""
}

// Leave frees the seat of a session, if it has one.
func (r *Roster) Leave(id string) {
	s := r.seats[id]
	if s == nil {
		return
	}
	r.Busy(id)
	delete(r.seats, id)
	o := r.owners[s.from]
	if o.sessions--; o.sessions == 0 {
		delete(r.owners, s.from)
	}
	r.changed(s.from, o.sessions)
}

// Sessions returns how many sessions an owner key has.
func (r *Roster) Sessions(from string) int {
	if o := r.owners[from]; o != nil {
		return o.sessions
	}
	return 0
}

// Idle records that a session has had no owner since then, and has no process.
func (r *Roster) Idle(id string, since time.Time) {
	r.Busy(id)
	if s := r.seats[id]; s != nil {
		s.since = since
		heap.Push(&r.idle, s)
		heap.Push(&r.owners[s.from].idle, s)
	}
}

// Busy records that a session has an owner or a process, or is ending.
func (r *Roster) Busy(id string) {
	if s := r.seats[id]; s != nil && s.at[0] >= 0 {
		heap.Remove(&r.idle, s.at[0])
		heap.Remove(&r.owners[s.from].idle, s.at[1])
	}
}

// AllIdle reports whether every session is idle.
func (r *Roster) AllIdle() bool { return r.idle.Len() == len(r.seats) }

// Room reports whether there is a seat for another session of the owner key from, which has more sessions elsewhere. If not, worth is
// the session that may give way to it; "": none.
func (r *Roster) Room(from string, elsewhere int) (worth string, ok bool) {
	idle := &r.idle
	if r.each > 0 && r.Sessions(from)+elsewhere >= r.each {
		o := r.owners[from]
		if o == nil {
			return "", false
		}
		idle = &o.idle
	} else if len(r.seats) < r.max {
		return "", true
	}
	if idle.Len() == 0 {
		return "", false
	}
	return idle.seats[0].id, false
}

// idleSeats is a heap: the seat of the session that has been idle the longest comes first.
type idleSeats struct {
	seats []*seat
	heap  int // the index of this heap in seat.at
}

func (h *idleSeats) Len() int           { return len(h.seats) }
func (h *idleSeats) Less(i, j int) bool { return h.seats[i].since.Before(h.seats[j].since) }
func (h *idleSeats) Swap(i, j int) {
	h.seats[i], h.seats[j] = h.seats[j], h.seats[i]
	h.seats[i].at[h.heap], h.seats[j].at[h.heap] = i, j
}

func (h *idleSeats) Push(x any) {
	s := x.(*seat)
	s.at[h.heap] = len(h.seats)
	h.seats = append(h.seats, s)
}

func (h *idleSeats) Pop() any {
	last := len(h.seats) - 1
	s := h.seats[last]
	h.seats[last] = nil
	h.seats = h.seats[:last]
	s.at[h.heap] = -1
	return s
}
