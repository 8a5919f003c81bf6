// Package turns bounds the calls that may wait for a filesystem.
package turns

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// hangTime is how long a call may take before it counts as hanging.
const hangTime = 10 * time.Second

// Pool has the turns of all connections. A call holds a thread until its filesystem answers,
// even after the end of its connection, so a call needs a turn. Some turns are kept for
// connections without a call. A single filesystem gets at most half of the other turns. Any goroutine may
// call the methods of a Pool.
type Pool struct {
	// Fixed. A connection with calls under way gets a turn while fewer than all are running, and a
	// connection without calls while fewer than most are. At a filesystem, half of all may be.
	all, most, half int
	hangs           time.Duration // hangTime, or less in tests

	mu      sync.Mutex       // guards the fields below, and all rooms and turns
	threads room             // the calls that have a turn
	at      map[string]*room // by filesystem: the calls that are there, or wait to go there
}

// room counts calls at a filesystem, or at all filesystems.
type room struct {
	running int
	late    int       // running calls without an answer for Pool.hangs
	waiting []*Waiter // in the order of their coming
}

// Waiter stands for a connection or a call without a turn. Told says: perhaps there is a turn now, so try
// again. The Pool calls Told with a lock held, so Told only sends a message.
type Waiter struct{ Told func() }

// New returns a Pool with as many turns as threads, and with 3 at least.
func New(threads int) *Pool {
	most := max(threads, 3)
	all := most * 2 / 3
	return &Pool{all: all, most: most, half: max(all/2, 1), hangs: hangTime, at: make(map[string]*room)}
}

// Take takes a turn for a connection with under calls under way. Without a turn, ok is false, and w is
// told when to try again. If the calls of all turns hang, the result is an error, and w is not told.
func (t *Pool) Take(under int, w *Waiter) (ok bool, err *protocol.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	most := t.all
	if under == 0 {
		most = t.most
	}
	switch {
	case t.threads.running < most:
		t.threads.running++
		return true, nil
	case t.threads.late >= most:
		return false, protocol.Errorf(protocol.KindHangs, protocol.CodeInternal, "%d filesystem calls have had no answer for %v, which is the most: end what keeps their filesystems from answering", t.threads.late, t.hangs)
	}
	t.threads.waiting = append(t.threads.waiting, w)
	return false, nil
}

// Turn is the turn of a call under way.
type Turn struct {
	pool  *Pool
	timer *time.Timer // to the time when the call is late

	// Guarded by Pool.mu.
	held  bool
	late  bool
	began time.Time // when the turn was taken, or taken again
	at    []string  // the filesystems for which the call may wait
	over  bool
}

// Run makes a call that has a turn, and gives back the turn.
func (t *Pool) Run(call func(*Turn)) {
	turn := &Turn{pool: t, held: true, began: time.Now()}
	turn.timer = time.AfterFunc(t.hangs, turn.hangs)
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		turn.leave()
		turn.over = true
	}()
	call(turn)
}

// RunAnyway makes a call that cannot wait for a turn: closing files at the end of a connection.
func (t *Pool) RunAnyway(call func()) {
	t.mu.Lock()
	t.threads.running++
	t.mu.Unlock()
	t.Run(func(*Turn) { call() })
}

// Enter takes a place at a filesystem for the call. While too many calls are there, Enter waits without the turn. If these calls
// hang, or if ctx ends first, Enter returns an error; the call then keeps its turn and its other places, to clean up. Enter
// is for the goroutine of the call. After the end of the call, Enter does nothing.
func (turn *Turn) Enter(ctx context.Context, filesystem string) error {
	t := turn.pool
	t.mu.Lock()
	defer t.mu.Unlock()
	if turn.over || slices.Contains(turn.at, filesystem) {
		return nil
	}
	at := append(slices.Clone(turn.at), filesystem)
	for full, late := turn.full(at); full != nil; full, late = turn.full(at) {
		if late {
			return turn.refuse(at, protocol.Errorf(protocol.KindHangs, protocol.CodeInternal, "%d calls have had no answer of a filesystem for %v, which is the most for a single filesystem: end what keeps the filesystem from answering", t.half, t.hangs))
		}
		turn.leave()
		told := make(chan struct{})
		w := &Waiter{Told: func() { close(told) }}
		full.waiting = append(full.waiting, w)
		t.mu.Unlock()
		select {
		case <-told:
		case <-ctx.Done():
		}
		t.mu.Lock()
		if err := ctx.Err(); err != nil {
			full.forget(w)
			return turn.refuse(at, err)
		}
	}
	if turn.held {
		turn.count(-1)
	}
	turn.enter(at)
	return nil
}

// full returns the first room without room for the turn, and whether the calls in it hang; nil: the turn may go to all the
// filesystems. The caller holds mu, as for all that follow.
func (turn *Turn) full(at []string) (full *room, late bool) {
	t := turn.pool
	if !turn.held && t.threads.running >= t.most {
		return &t.threads, t.threads.late >= t.most
	}
	for _, name := range at {
		r := t.at[name]
		if r != nil && r.running >= t.half && !(turn.held && slices.Contains(turn.at, name)) {
			return r, r.late >= t.half
		}
	}
	return nil, false
}

// refuse returns err to a call without a new place. Other calls are told of the places instead.
func (turn *Turn) refuse(at []string, err error) error {
	for _, name := range at {
		turn.pool.tell(turn.pool.at[name], turn.pool.half)
	}
	if !turn.held {
		turn.enter(at[:len(at)-1])
	}
	return err
}

// enter takes the turn, and places at filesystems, whether they are full or not.
func (turn *Turn) enter(at []string) {
	turn.held, turn.late, turn.at, turn.began = true, false, at, time.Now()
	turn.timer.Reset(turn.pool.hangs)
	turn.count(1)
}

// Leave gives back the turn before the end of the call: the call waits for another process, and no longer for a filesystem on a
// thread of this program.
func (turn *Turn) Leave() {
	turn.pool.mu.Lock()
	defer turn.pool.mu.Unlock()
	turn.leave()
}

// leave gives back the turn, and its places.
func (turn *Turn) leave() {
	if !turn.held {
		return
	}
	t := turn.pool
	turn.timer.Stop()
	turn.count(-1)
	t.tell(&t.threads, t.most)
	for _, name := range turn.at {
		r := t.at[name]
		t.tell(r, t.half)
		if r.running == 0 && len(r.waiting) == 0 {
			delete(t.at, name)
		}
	}
	turn.held = false
}

// count adds n to the calls in the turn's rooms.
func (turn *Turn) count(n int) {
	for _, r := range turn.rooms() {
		r.running += n
		if turn.late {
			r.late += n
		}
	}
}

// rooms returns the threads, and the rooms of the turn's filesystems.
func (turn *Turn) rooms() []*room {
	rooms := []*room{&turn.pool.threads}
	for _, name := range turn.at {
		if turn.pool.at[name] == nil {
			turn.pool.at[name] = new(room)
		}
		rooms = append(rooms, turn.pool.at[name])
	}
	return rooms
}

// hangs counts the call as hanging, unless the turn was taken again meanwhile.
func (turn *Turn) hangs() {
	t := turn.pool
	t.mu.Lock()
	defer t.mu.Unlock()
	if !turn.held || turn.late || time.Since(turn.began) < t.hangs {
		return
	}
	turn.late = true
	for i, r := range turn.rooms() {
		most := t.half
		if i == 0 {
			most = t.all
		}
		if r.late++; r.late >= most { // the waiting calls are refused
			r.tell(len(r.waiting))
		}
	}
}

// tell tells as many of the waiting as fit into a room for most; r may be nil.
func (t *Pool) tell(r *room, most int) {
	if r != nil {
		r.tell(most - r.running)
	}
}

// Forget says that the connection of w will not take a turn: another connection is told instead.
func (t *Pool) Forget(w *Waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.threads.forget(w)
	t.tell(&t.threads, t.most)
}

func (r *room) forget(w *Waiter) {
	r.waiting = slices.DeleteFunc(r.waiting, func(other *Waiter) bool { return other == w })
}

// tell tells the first n of the waiting.
func (r *room) tell(n int) {
	for ; n > 0 && len(r.waiting) > 0; n-- {
		r.waiting[0].Told()
		r.waiting[0] = nil
		r.waiting = r.waiting[1:]
	}
}

// Hanging returns how many calls hang.
func (t *Pool) Hanging() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.threads.late
}
