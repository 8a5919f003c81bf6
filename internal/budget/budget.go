// Package budget bounds the bytes a server holds for its clients. Output bounds the output of programs. A Pool
// bounds incoming messages, unanswered requests, and unwritten answers: all clients share a
// Pool; each holder has an Account with the Pool.
//
// # Who counts what
//
// A server has four parts of one budget. They are separate, so full logs never keep an acknowledgement out.
//
//   - Output, a half: the log of each process (its retention and an entry; after a resume without replay 512 KiB more, package feed), and the Intake of
//     each child. Each process has 64 KiB beside it.
//   - Clients, a quarter, an Account for each connection: a message while it is read (twice its buffer), decoded requests (4 times their bytes and
//     1 MiB), requests without an answer, answers about files, lists, screens and process/read, bodies of HTTP (plain and encoded), uploads, and paths of fs/changed (three times).
//   - Kept output, an eighth, an Account for each command: output that is kept for the final answer, three times; and an Account for each screen of a
//     process: its lines, those of the alternate screen, and the scrollback.
//   - Starts, an eighth, an Account for each session: arguments, environments, and states of shells.
//
// Other places have a constant bound for each holder: the stdin queue of a child, remembered ids and answers, the window of a connection, watches, shares,
// listings, the journal, and the queue of the audit log. The constant stands beside the field, such as maxQueued of package audit.
package budget

import (
	"errors"
	"sync"
	"time"
)

const (
	// Free is how many bytes each Account may hold outside the Pool. A request of this size is thus
	// read and answered even if the Pool is used up.
	Free = 64 << 10
	// large is a number of bytes held. An Account with more than large may not use the last eighth
	// of the Pool, so a few large messages leave room for many small messages.
	large = 1 << 20
	// Beyond is how many bytes an Account may hold at most when the Account goes beyond the Pool.
	// Beyond is enough for the largest message, both encoded and decoded.
	Beyond = 160 << 20
	// step is how many bytes an Account takes from the Pool at a time. Most requests thus do
	// without the Pool's lock.
	step = 64 << 10
)

// ErrFull means: the Pool had no room in time.
var ErrFull = errors.New("the server holds as much for its clients as it may (--memory-budget)")

// ErrClosed means: the Account was closed.
var ErrClosed = errors.New("budget: the account is closed")

// Pool is a number of bytes shared by many Accounts. Any goroutine may use a Pool. A nil Pool has
// no bound.
type Pool struct {
	mu      sync.Mutex
	max     int64
	used    int64
	changed chan struct{} // closed when bytes come back; nil: nobody waits
	beyond  *Account      // the Account allowed to go beyond the Pool until it holds nothing; nil: the next Account may
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

// take takes n bytes for a, if the Pool has enough. A single account at a time may take more than
// the Pool has. Without this exception, accounts each holding a part of their need would wait for
// each other forever. If ok is false, room is closed when a should try again.
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

// give takes n bytes back from a. left is how many bytes of the Pool a still has.
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

// Account is a holder's share of a Pool. Any goroutine may use an Account. A nil Account has no
// bound.
type Account struct {
	pool *Pool
	done chan struct{} // closed by Close

	mu      sync.Mutex
	held    int64
	charged int64 // bytes taken from the pool for held
	closed  bool
}

// Account returns a new Account, or nil for a nil Pool. The caller must close the Account.
func (p *Pool) Account() *Account {
	if p == nil {
		return nil
	}
	return &Account{pool: p, done: make(chan struct{})}
}

// due is how many bytes of the pool to charge for held bytes.
func due(held int64) int64 {
	if held <= Free {
		return 0
	}
	return (held - Free + step - 1) / step * step
}

// change adds n to held, if the pool has room.
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

// Take takes n bytes, and waits for them up to patience. The error is ErrFull or ErrClosed.
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

// Try takes n bytes without waiting, and reports whether there was room.
func (a *Account) Try(n int) bool {
	if a == nil {
		return true
	}
	_, ok, _ := a.change(int64(n), false)
	return ok
}

// Force takes n bytes regardless of room, because the caller already holds them.
func (a *Account) Force(n int) {
	if a != nil {
		a.change(int64(n), true)
	}
}

// Over reports whether the account holds more than Free, and more is taken from the pool than the
// pool has. If over is true, room is closed when the caller should ask again.
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

// Done is closed by Close. For a nil Account, Done is nil, a channel never closed.
func (a *Account) Done() <-chan struct{} {
	if a == nil {
		return nil
	}
	return a.done
}

// Give gives n bytes back. After Close, Give does nothing.
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

// Close gives all bytes back, ends every wait, and makes later calls of Take fail. Close may be
// repeated.
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
