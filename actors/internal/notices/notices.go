// Package notices has a board for notes of sessions and processes: each notes its changes, and actors/watch reads them.
package notices

import (
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// A Board has the notices since the last Take: at most one for each Mark. While nobody reads the Board, the Board takes none. Any goroutine may use a Board. The
// zero Board is ready.
type Board struct {
	on atomic.Bool

	mu      sync.Mutex
	changed []*Mark
	woken   bool   // wake was called since the last Take
	wake    func() // of the reader
}

// A Mark stands for an actor on the board. Only this actor passes the Mark to the Board.
type Mark struct {
	Session string     // the id of the session
	Process string     // the name of the actor of the process; "": the actor is the session
	PID     *actor.PID // of the actor
	Of      *actor.PID // of the session's actor

	news atomic.Int32 // on the board; changed under the lock of the board
}

// News of a Mark: the greater counts.
const (
	nothing int32 = iota
	numbers
	soon
	gone
)

// A Notice tells of a change of an actor.
type Notice struct {
	*Mark
	Soon bool // more than numbers has changed
	Gone bool // the actor has ended
}

// Read has the board take notices, from now on. The board calls wake once there is a Soon or a Gone, and again after the next Take. wake must not block. Another
// reader takes the place of the last one, and finds the board empty.
func (b *Board) Read(wake func()) {
	b.clear(wake)
	b.on.Store(true)
}

// Leave has the board take no notices any more.
func (b *Board) Leave() {
	b.on.Store(false)
	b.clear(nil)
}

func (b *Board) clear(wake func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.take()
	b.wake = wake
}

// take empties the board. The caller holds mu.
func (b *Board) take() (all []Notice) {
	for _, m := range b.changed {
		news := m.news.Swap(nothing)
		all = append(all, Notice{Mark: m, Soon: news == soon, Gone: news == gone})
	}
	b.changed, b.woken = nil, false
	return all
}

// On reports whether the board takes notices.
func (b *Board) On() bool { return b.on.Load() }

// Changed notes a change of the actor of m: of more than numbers if discrete.
func (b *Board) Changed(m *Mark, discrete bool) {
	if discrete {
		b.note(m, soon)
	} else {
		b.note(m, numbers)
	}
}

// Gone notes the end of the actor of m. m may be nil.
func (b *Board) Gone(m *Mark) {
	if m != nil {
		b.note(m, gone)
	}
}

func (b *Board) note(m *Mark, news int32) {
	if !b.On() || m.news.Load() >= news {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wake == nil {
		return
	}
	if m.news.Swap(news) == nothing {
		b.changed = append(b.changed, m)
	}
	if news > numbers && !b.woken {
		b.woken = true
		b.wake()
	}
}

// Take returns the notices since the last Take, the first first.
func (b *Board) Take() []Notice {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.take()
}
