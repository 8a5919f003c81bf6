package child

import (
	"sync"
	"time"
)

// Budget bounds the bytes of output held by all processes of a server, beyond the reserve of each
// process. Any goroutine may call its methods.
type Budget struct {
	whole *Budget // charged, too; nil: b is no share
	// short asks the logs to let go of output their owners have received. The budget calls short,
	// from any goroutine, when the budget becomes short, and every askAgain while an intake waits.
	short func()

	mu      sync.Mutex
	max     int64
	used    int64
	low     bool                 // the budget is short: from the moment it was used up until an eighth is free
	asking  bool                 // a timer will call again
	waiting map[*Intake]struct{} // intakes that were refused since the last give
}

// askAgain is the time between two calls of short while an intake waits. A log that had nothing to
// let go of at the first call may have something at the next.
const askAgain = time.Second

// NewBudget returns a budget of max bytes; 0 or less means no bound.
func NewBudget(max int64, short func()) *Budget {
	return &Budget{short: short, max: max, waiting: make(map[*Intake]struct{})}
}

// Share returns a budget of max bytes within b. Whatever is charged to the share is charged to b, too. short is
// called when the share becomes short; when b does, only the short of b is called.
func (b *Budget) Share(max int64, short func()) *Budget {
	s := NewBudget(max, short)
	s.whole = b
	return s
}

// Used is the number of bytes charged now.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Short reports whether the budget is short. While the budget is short, a log keeps no output its
// owner has received.
func (b *Budget) Short() bool {
	b.mu.Lock()
	low := b.low
	b.mu.Unlock()
	return low || b.whole != nil && b.whole.Short()
}

// take charges n bytes for in. If too few are left, take returns false and remembers in as waiting.
func (b *Budget) take(n int64, in *Intake) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.max <= 0 || b.used+n <= b.max {
		if b.whole != nil && !b.whole.take(n, in) {
			return false
		}
		b.used += n
		return true
	}
	b.waiting[in] = struct{}{}
	if !b.low {
		b.low = true
		go b.short() // on another goroutine: the caller holds a lock
	}
	if !b.asking {
		b.asking = true
		time.AfterFunc(askAgain, b.again)
	}
	return false
}

// again runs when the timer fires. If intakes still wait, again calls short.
func (b *Budget) again() {
	b.mu.Lock()
	b.asking = len(b.waiting) > 0
	asking := b.asking
	b.mu.Unlock()
	if asking {
		b.short()
		time.AfterFunc(askAgain, b.again)
	}
}

// give returns n bytes to the budget. The result is the intakes to wake.
func (b *Budget) give(n int64) []*Intake {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.low = b.low && b.used > b.max-b.max/8
	wake := b.wake()
	if b.whole != nil {
		wake = append(wake, b.whole.give(n)...)
	}
	return wake
}

// forget removes in, which is closed. The result is the intakes to wake.
func (b *Budget) forget(in *Intake) []*Intake {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, in)
	wake := b.wake()
	if b.whole != nil {
		wake = append(wake, b.whole.forget(in)...)
	}
	return wake
}

// wake empties waiting. An intake refused again waits again.
func (b *Budget) wake() []*Intake {
	if len(b.waiting) == 0 {
		return nil
	}
	wake := make([]*Intake, 0, len(b.waiting))
	for in := range b.waiting {
		wake = append(wake, in)
	}
	clear(b.waiting)
	return wake
}
