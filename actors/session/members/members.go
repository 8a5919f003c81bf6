// Package members has the table of a session's processes. The package is a data structure: the session's
// actor owns the table, and sends the messages.
package members

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Process is a process of the session, from its start until its actor has stopped or it retires.
type Process struct {
	ID, Name string                // the client's id, and the name of its actor
	Token    string                // startToken
	Start    *message.SpawnRequest `lost:"asked for again"` // nil once its actor has been asked for
	PID      *actor.PID            `lost:"of this server"`  // nil while it is being started
	Result   protocol.ProcessStartResult
	Ended    message.ProcessEnded
	Group    string // the name of its group; "": none
	Began    bool   // its actor has announced itself
	Closed   bool   // no program of it runs; set by Table.Close
}

// maxRemoved is how many removals a Table remembers.
const maxRemoved = 1000

// removal records when a process was given up.
type removal struct {
	message.ProcessRemoved
	at time.Time
}

// Table holds the processes of one session. The zero Table is empty.
type Table struct {
	// live has the names of the processes known to clients, by the client's id. A client may use an id
	// again once its process is not live.
	live map[string]string
	// known holds all processes whose actors have not stopped, by the names of the actors: the live ones, and
	// the lingering ones since their retirement.
	known map[string]*Process
	// closed counts the live processes that are Closed.
	closed int
	// stay has the names of the Closed live processes that GiveWay has not returned, the first to close first.
	stay []string
	// removed holds processes that were given up, the oldest first: at most maxRemoved, and no
	// id twice. An id that a client uses again is not among them.
	removed []removal

	follow  bool            `lost:"of this server"` // Follow was called
	touched map[string]bool `lost:"told already"`   // names of processes that News has to tell
	used    []string        `lost:"told already"`   // ids of new processes
	fresh   []removal       `lost:"told already"`   // removals that News has to tell
}

// Add puts a process into the table. No live process has its id.
func (t *Table) Add(p *Process) {
	t.make()
	if t.follow {
		t.used = append(t.used, p.ID)
	}
	used := func(r removal) bool { return r.ID == p.ID }
	t.removed, t.fresh = slices.DeleteFunc(t.removed, used), slices.DeleteFunc(t.fresh, used)
	t.live[p.ID], t.known[p.Name] = p.Name, p
	t.Touch(p)
}

func (t *Table) make() {
	if t.live == nil {
		t.live, t.known = make(map[string]string), make(map[string]*Process)
	}
}

// Drop takes a process of an earlier server from the table: there will be no actor for the process.
func (t *Table) Drop(p *Process) {
	if t.isLive(p) {
		t.Forget(p)
	}
	delete(t.known, p.Name)
	t.Touch(p)
}

// Get returns the live process with the client's id; nil: there is none.
func (t *Table) Get(id string) *Process { return t.known[t.live[id]] }

// Named returns the live process whose actor has the name; nil: there is none.
func (t *Table) Named(name string) *Process {
	if p := t.known[name]; p != nil && t.isLive(p) {
		return p
	}
	return nil
}

func (t *Table) isLive(p *Process) bool { return t.live[p.ID] == p.Name }

// Find returns the process whose actor has the name, live or lingering; nil: there is none.
func (t *Table) Find(name string) *Process { return t.known[name] }

// Len returns how many processes are live.
func (t *Table) Len() int { return len(t.live) }

// Close records that a process has closed. Close may be repeated, and come late.
func (t *Table) Close(name string) {
	if p := t.Named(name); p != nil && !p.Closed {
		p.Closed = true
		t.Touch(p)
		t.closed++
		t.stay = append(t.stay, name)
	}
}

// Reopen takes Close back: a program of the process may run again. Reopen may be repeated, and come late.
func (t *Table) Reopen(name string) {
	if p := t.Named(name); p != nil && p.Closed {
		p.Closed = false
		t.Touch(p)
		t.closed--
		t.stay = slices.DeleteFunc(t.stay, func(other string) bool { return other == name })
	}
}

// GiveWay returns the live process that closed first and was not returned before; nil: there is none.
func (t *Table) GiveWay() *Process {
	if len(t.stay) == 0 {
		return nil
	}
	name := t.stay[0]
	t.stay = slices.Delete(t.stay, 0, 1)
	return t.known[name]
}

// Running reports whether a live process has not closed.
func (t *Table) Running() bool { return len(t.live) > t.closed }

// Empty reports whether no process is live, and none lingers.
func (t *Table) Empty() bool { return len(t.known) == 0 }

// All are the live processes, in no order.
func (t *Table) All() iter.Seq[*Process] {
	return func(yield func(*Process) bool) {
		for name := range maps.Values(t.live) {
			if !yield(t.known[name]) {
				return
			}
		}
	}
}

// Known are the live and the lingering processes, in no order.
func (t *Table) Known() iter.Seq[*Process] { return maps.Values(t.known) }

// Lingering are the retired processes, in no order.
func (t *Table) Lingering() iter.Seq[*Process] {
	return func(yield func(*Process) bool) {
		for _, p := range t.known {
			if !t.isLive(p) && !yield(p) {
				return
			}
		}
	}
}

// Announced returns the live process that waits for the start of the actor with the name. If there
// is none, orphan says that the table does not know the actor at all: nobody would ever stop it.
func (t *Table) Announced(name string) (p *Process, orphan bool) {
	if p = t.known[name]; p == nil || p.PID == nil {
		return p, p == nil
	}
	return nil, false // announced once more than needed
}

// Retire makes a live process linger: its id is free, and its actor has yet to stop.
func (t *Table) Retire(p *Process) {
	t.Forget(p)
	t.known[p.Name] = p // Forget has touched it
}

// Forget takes a live process from the table.
func (t *Table) Forget(p *Process) {
	if p.Closed && t.isLive(p) {
		t.closed--
		if i := slices.Index(t.stay, p.Name); i >= 0 { // near the beginning: who closes first mostly goes first
			t.stay = slices.Delete(t.stay, i, i+1)
		}
	}
	delete(t.known, p.Name)
	delete(t.live, p.ID)
	t.Touch(p)
}

// Gone records that the actor with the name has stopped, and returns its process; nil: there is none. If the process is live, Remember and
// Forget follow.
func (t *Table) Gone(name string) (p *Process, live bool) {
	p, live = t.known[name], t.Named(name) != nil
	if p != nil && !live {
		delete(t.known, name)
		t.Touch(p)
	}
	return p, live
}

// Remember keeps a removal for so long, unless maxRemoved newer ones come: who attaches by then hears
// of it.
func (t *Table) Remember(now time.Time, keep time.Duration, m message.ProcessRemoved) {
	t.removed = slices.DeleteFunc(t.removed, func(r removal) bool { return now.Sub(r.at) > keep })
	r := removal{m, now}
	t.remember(r)
	if t.follow {
		t.fresh = append(t.fresh, r)
	}
}

func (t *Table) remember(r removal) {
	t.removed = slices.DeleteFunc(t.removed, func(old removal) bool { return old.ID == r.ID })
	if len(t.removed) == maxRemoved {
		t.removed = slices.Delete(t.removed, 0, 1)
	}
	t.removed = append(t.removed, r)
}

// Removed returns the remembered removals, the oldest first.
func (t *Table) Removed() (all []message.ProcessRemoved) {
	for _, r := range t.removed {
		all = append(all, r.ProcessRemoved)
	}
	return all
}
