// Package budget bounds the bytes that clients make a server hold beside the output of
// programs: messages that are being read, requests without an answer, and answers that are
// not written. A Pool is what all of them share; each holder has an Account with it.
package budget

import (
	"errors"
	"sync"
	"time"
)

const (
	// Free is what each Account may hold beside the Pool, in bytes. So a request of that size is
	// read and answered however much others hold.
	Free = 64 << 10
	// large is what an Account holds, in bytes, when it may no longer use the last eighth of
	// the Pool: a few large messages do not keep the many others out.
	large = 1 << 20
	// Beyond is what an Account holds at most, in bytes, when it goes beyond the Pool: the
	// largest message that there is, as it is and as it is decoded or encoded.
	Beyond = 160 << 20
	// step is what an Account takes from the Pool at a time, in bytes: most requests do not come
	// to its lock.
	step = 64 << 10
)

// ErrFull means that the Pool had no room in time.
var ErrFull = errors.New("the server holds as much for its clients as it may (--memory-budget)")

// ErrClosed means that the Account was closed.
var ErrClosed = errors.New("budget: the account is closed")

// Pool is a number of bytes that many share. Any goroutine may use it. A nil Pool is one
// without a bound.
type Pool struct {
	mu      sync.Mutex
	max     int64
	used    int64
	changed chan struct{} // closed when some bytes come back; nil: nobody waits
	beyond  *Account      // may take more than there is, until it holds nothing; nil: the next may
}

// New returns a Pool of max bytes; 0 or less means no bound.
func New(max int64) *Pool { return &Pool{max: max} }

// Used is how many bytes are taken now.
func (p *Pool) Used() int64 {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// take takes n bytes for a, if there are so many. One account at a time may take more than
// there are: else many that each hold a part of what they need would wait for each other. If a
// may not, room is closed when it may.
func (p *Pool) take(a *Account, n int64, force bool) (room <-chan struct{}, ok bool) {
	if p == nil {
		return nil, true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	max := p.max
	if a.charged+n > large {
		max -= max / 8
	}
	if force || p.max <= 0 || p.used+n <= max || a.charged+n <= Beyond && p.goesBeyond(a) {
		p.used += n
		return nil, true
	}
	return p.wait(), false
}

func (p *Pool) goesBeyond(a *Account) bool {
	if p.beyond == nil {
		p.beyond = a
	}
	return p.beyond == a
}

func (p *Pool) wait() <-chan struct{} {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

// give takes n bytes back from a, which then has left.
func (p *Pool) give(a *Account, n, left int64) {
	if p == nil || n == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used -= n; left == 0 && p.beyond == a {
		p.beyond = nil
	}
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// Account is what one holder has of a Pool. Any goroutine may use it. A nil Account is one
// without a bound.
type Account struct {
	pool *Pool
	done chan struct{} // closed by Close

	mu      sync.Mutex
	held    int64
	charged int64 // of the pool, for held
	closed  bool
}

// Account returns a new Account, which is to be closed; nil for a nil Pool.
func (p *Pool) Account() *Account {
	if p == nil {
		return nil
	}
	return &Account{pool: p, done: make(chan struct{})}
}

// due is what the pool is to be charged for so many bytes.
func due(held int64) int64 {
	if held <= Free {
		return 0
	}
	return (held - Free + step - 1) / step * step
}

// change adds n bytes to what is held, if the pool has room for them.
func (a *Account) change(n int64, force bool) (room <-chan struct{}, ok bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, false, ErrClosed
	}
	if more := due(a.held+n) - a.charged; more > 0 {
		if room, ok := a.pool.take(a, more, force); !ok {
			return room, false, nil
		}
		a.charged += more
	}
	a.held += n
	return nil, true, nil
}

// Take takes n bytes, and waits for them as long as patience. The error is ErrFull or ErrClosed.
func (a *Account) Take(n int, patience time.Duration) error {
	if a == nil {
		return nil
	}
	var late <-chan time.Time
	for {
		room, ok, err := a.change(int64(n), false)
		if ok || err != nil {
			return err
		}
		if late == nil {
			timer := time.NewTimer(patience)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-room:
		case <-a.done:
		case <-late:
			return ErrFull
		}
	}
}

// Try takes n bytes if there are so many now, and reports whether.
func (a *Account) Try(n int) bool {
	if a == nil {
		return true
	}
	_, ok, _ := a.change(int64(n), false)
	return ok
}

// Force takes n bytes that are held already, whether there is room or not.
func (a *Account) Force(n int) {
	if a != nil {
		a.change(int64(n), true)
	}
}

// Over reports whether the account holds more than Free, and the pool more than it has. Then
// room is closed when that may have changed.
func (a *Account) Over() (room <-chan struct{}, over bool) {
	if a == nil {
		return nil, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.charged == 0 || a.closed {
		return nil, false
	}
	p := a.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.max <= 0 || p.used <= p.max || p.goesBeyond(a) {
		return nil, false
	}
	return p.wait(), true
}

// Done is closed by Close; nil, which never is, for a nil Account.
func (a *Account) Done() <-chan struct{} {
	if a == nil {
		return nil
	}
	return a.done
}

// Give gives n bytes back. After Close it does nothing.
func (a *Account) Give(n int) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.held -= int64(n)
	if less := a.charged - due(a.held); less > 0 {
		a.charged -= less
		a.pool.give(a, less, a.charged)
	}
}

// Close gives all back, ends every wait, and lets nothing more be taken. Any number of times.
func (a *Account) Close() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.closed = true
	close(a.done)
	a.pool.give(a, a.charged, 0)
	a.charged, a.held = 0, 0
}
