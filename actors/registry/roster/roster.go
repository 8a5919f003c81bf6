// Package roster counts sessions, and chooses the one that ends when others need its place or its
// memory. It is arithmetic; the registry's actor owns the values.
package roster

import (
	"container/heap"
	"time"
)

// A Roster counts the sessions, in all and of each owner key. It knows the session that is worth the
// least: of those without an owner and without a process, the one that has been so for the longest.
// Every method takes O(log n).
type Roster struct {
	max  int // sessions
	each int // sessions of one owner key; 0: max alone bounds them

	// seats holds every session, by its id.
	seats map[string]*seat
	// owners holds every owner key that has a seat; the counts add up to len(seats).
	owners map[string]*share
	// idle holds the seats that may make room; each is also in the idle of its owner key.
	idle idleSeats
}

// seat is a session.
type seat struct {
	id, from string
	since    time.Time // when it lost its owner; only set while the seat is in the heaps
	at       [2]int    // where in the two heaps; -1: in none. Both or none are -1
}

// share is what belongs to one owner key.
type share struct {
	sessions int // at least 1
	idle     idleSeats
}

// New returns a Roster for at most max sessions, each of them for one owner key. If each is 0, only
// max counts.
func New(max, each int) *Roster {
	return &Roster{max: max, each: each, seats: make(map[string]*seat), owners: make(map[string]*share), idle: idleSeats{heap: 0}}
}

// Take gives a session a seat, which counts for the owner key from. A seat that counted for another
// owner key moves, and is busy afterwards.
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
}

// Leave frees the seat of a session, if it has one.
func (r *Roster) Leave(id string) {
	s := r.seats[id]
	if s == nil {
		return
	}
	r.Busy(id)
	delete(r.seats, id)
	if o := r.owners[s.from]; o.sessions > 1 {
		o.sessions--
	} else {
		delete(r.owners, s.from)
	}
}

// Idle says that a session has no process, and since when it has had no owner: it may make room.
func (r *Roster) Idle(id string, since time.Time) {
	r.Busy(id)
	if s := r.seats[id]; s != nil {
		s.since = since
		heap.Push(&r.idle, s)
		heap.Push(&r.owners[s.from].idle, s)
	}
}

// Busy says that a session has an owner or a process, or is ending: it makes no room.
func (r *Roster) Busy(id string) {
	if s := r.seats[id]; s != nil && s.at[0] >= 0 {
		heap.Remove(&r.idle, s.at[0])
		heap.Remove(&r.owners[s.from].idle, s.at[1])
	}
}

// Room reports whether there is a seat for one more session of the owner key from. If not, worth is
// the session that may be ended for it; "": none.
func (r *Roster) Room(from string) (worth string, ok bool) {
	idle := &r.idle
	if o := r.owners[from]; o != nil && r.each > 0 && o.sessions >= r.each {
		idle = &o.idle
	} else if len(r.seats) < r.max {
		return "", true
	}
	if idle.Len() == 0 {
		return "", false
	}
	return idle.seats[0].id, false
}

// idleSeats is a heap: the seat that has been idle the longest comes first.
type idleSeats struct {
	seats []*seat
	heap  int // which of seat.at belongs to this heap
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
