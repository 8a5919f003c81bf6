package budget

import (
	"sync"
	"time"
)

// Output bounds the bytes of output that all processes of a server hold, in memory or on disk. Any goroutine may call
// its methods.
type Output struct {
	whole *Output // charged, too; nil: b is no share
	// short asks the logs to let go of output their owners have received. The budget calls short,
	// from any goroutine, when the budget becomes short, and every AskAgain while somebody waits.
	short func()

	mu      sync.Mutex
	max     int64
	used    int64
	low     bool                // the budget is short: from the moment it was used up until an eighth is free
	asking  bool                // a timer will call again
	waiting map[Waiter]struct{} // refused since the last Give
}

// A Waiter was refused. Wake tells the Waiter to try again. Wake does not block.
type Waiter interface{ Wake() }

// AskAgain is the time between two calls of short while somebody waits. A log that had nothing to
// let go of at the first call may have something at the next.
const AskAgain = time.Second

// NewOutput returns a budget of max bytes; 0 or less means no bound. Nil short: nobody is asked.
func NewOutput(max int64, short func()) *Output {
	if short == nil {
		short = func() {}
	}
	return &Output{short: short, max: max, waiting: make(map[Waiter]struct{})}
}

// Share returns a budget of max bytes within b. Whatever is charged to the share is charged to b, too. short is
// called when the share becomes short; when b does, only the short of b is called.
func (b *Output) Share(max int64, short func()) *Output {
	s := NewOutput(max, short)
	s.whole = b
	return s
}

// Change has the budget go on with another bound of max bytes; 0 or less means no bound. What is charged beyond it stays charged. The caller wakes the
// result once the caller holds no lock.
func (b *Output) Change(max int64) []Waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	more := max <= 0 || b.max > 0 && max > b.max
	b.max = max
	b.ease()
	if !more {
		return nil
	}
	return b.wake()
}

// ease ends the shortage once an eighth of the bytes is free. The caller holds mu.
func (b *Output) ease() { b.low = b.low && b.max > 0 && b.used > b.max-b.max/8 }

// Used is the number of bytes charged now.
func (b *Output) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Short reports whether the budget is short. While the budget is short, a log keeps little output that its
// owner has received.
func (b *Output) Short() bool {
	b.mu.Lock()
	low := b.low
	b.mu.Unlock()
	return low || b.whole != nil && b.whole.Short()
}

// Take charges up to most bytes, and returns how many. If fewer than least are left, Take returns 0, and w is woken
// when bytes come back.
func (b *Output) Take(least, most int64, w Waiter) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := most
	if b.max > 0 {
		n = min(most, b.max-b.used)
	}
	if n >= least {
		if b.whole != nil {
			n = b.whole.Take(least, n, w)
		}
		b.used += n
		return n
	}
	b.waiting[w] = struct{}{}
	if !b.low {
		b.low = true
		go b.short() // on another goroutine: the caller holds a lock
	}
	if !b.asking {
		b.asking = true
		time.AfterFunc(AskAgain, b.again)
	}
	return 0
}

// again runs when the timer fires. If somebody still waits, again calls short.
func (b *Output) again() {
	b.mu.Lock()
	b.asking = len(b.waiting) > 0
	asking := b.asking
	b.mu.Unlock()
	if asking {
		b.short()
		time.AfterFunc(AskAgain, b.again)
	}
}

// Charge charges n bytes, whatever is left.
func (b *Output) Charge(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += n
	if b.whole != nil {
		b.whole.Charge(n)
	}
}

// Give returns n bytes to the budget. The caller wakes the result once the caller holds no lock.
func (b *Output) Give(n int64) []Waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.ease()
	wake := b.wake()
	if b.whole != nil {
		wake = append(wake, b.whole.Give(n)...)
	}
	return wake
}

// Forget removes w, who waits no more. The caller wakes the result once the caller holds no lock.
func (b *Output) Forget(w Waiter) []Waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, w)
	wake := b.wake()
	if b.whole != nil {
		wake = append(wake, b.whole.Forget(w)...)
	}
	return wake
}

// wake empties waiting. A Waiter refused again waits again.
func (b *Output) wake() []Waiter {
	if len(b.waiting) == 0 {
		return nil
	}
	wake := make([]Waiter, 0, len(b.waiting))
	for w := range b.waiting {
		wake = append(wake, w)
	}
	clear(b.waiting)
	return wake
}

// Wake wakes each of ws. The caller holds no lock.
func Wake(ws []Waiter) {
	for _, w := range ws {
		w.Wake()
	}
}
