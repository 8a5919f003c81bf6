package actors

import (
	"container/heap"
	"time"
)

// A roster counts the sessions, in all and of each owner, and knows which of them is worth the
// least: without an owner and without a process, for the longest. Every method takes O(log n).
// Pure: the registry owns it.
type roster struct {
	max  int // sessions
	each int // sessions of one owner key; 0: max alone bounds them

	seats  map[string]*seat  // by session id
	owners map[string]*share // by owner key
	idle   idleSeats
}

// seat is a session.
type seat struct {
	id, from string
	since    time.Time // when it lost its owner
	at       [2]int    // where in the two heaps; -1: in none
}

// share is what belongs to one owner key.
type share struct {
	sessions int
	idle     idleSeats
}

func newRoster(max, each int) *roster {
	return &roster{max: max, each: each, seats: make(map[string]*seat), owners: make(map[string]*share), idle: idleSeats{heap: 0}}
}

// take gives a session a seat, which counts for the owner key from.
func (r *roster) take(id, from string) {
	if s := r.seats[id]; s != nil {
		if s.from == from {
			return
		}
		r.leave(id)
	}
	r.seats[id] = &seat{id: id, from: from, at: [2]int{-1, -1}}
	o := r.owners[from]
	if o == nil {
		o = &share{idle: idleSeats{heap: 1}}
		r.owners[from] = o
	}
	o.sessions++
}

// leave frees the seat of a session, if it has one.
func (r *roster) leave(id string) {
	s := r.seats[id]
	if s == nil {
		return
	}
	r.busy(id)
	delete(r.seats, id)
	if o := r.owners[s.from]; o.sessions > 1 {
		o.sessions--
	} else {
		delete(r.owners, s.from)
	}
}

// idles says that a session has neither an owner, since then, nor a process.
func (r *roster) idles(id string, since time.Time) {
	r.busy(id)
	if s := r.seats[id]; s != nil {
		s.since = since
		heap.Push(&r.idle, s)
		heap.Push(&r.owners[s.from].idle, s)
	}
}

// busy says that a session has an owner or a process, or is ending: it makes no room.
func (r *roster) busy(id string) {
	if s := r.seats[id]; s != nil && s.at[0] >= 0 {
		heap.Remove(&r.idle, s.at[0])
		heap.Remove(&r.owners[s.from].idle, s.at[1])
	}
}

// room reports whether there is a seat for one more session of the owner key from. If not, worth is
// the session that may be ended for it; "": none.
func (r *roster) room(from string) (worth string, ok bool) {
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

// idleSeats is a heap, the one that is idle for the longest first.
type idleSeats struct {
	seats []*seat
	heap  int // which of the two a seat is in
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
