package shellstate

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	maxCached   = 16 // Captures of a session
	maxAttempts = 3  // Captures of a Key
	// retryAfter is how long after a failure the next Capture of a Key begins.
	retryAfter = time.Second
)

// Key tells starts with different states apart.
type Key [sha256.Size]byte

// KeyOf returns the Key of a start. user is what the client asks for: the user itself is chosen later, and the
// Capture compares that user. The variables of the start's own env are no part of the Key.
func KeyOf(s *protocol.ShellSnapshot, user string, spec child.Spec) Key {
	all, err := json.Marshal([]any{s.ScopeID, s.Shell.Name, s.Shell.Path, s.EnvPolicy(), spec.Dir, user, spec.Umask, spec.NoNewPrivs, spec.Limits, spec.Sandbox.JSON()})
	if err != nil {
		panic(err) // strings, numbers, lists and maps of strings can be encoded
	}
	return sha256.Sum256(all)
}

// Cache has the Captures of a session. The actor of the session owns the Cache; only Running may be
// called by others.
type Cache struct {
	entries []*entry     `lost:"kept has the states"` // the longest unused is the first
	running atomic.Int64 `lost:"counted again"`
	kept    []kept       // as of the last Note
	version uint64       `lost:"of this server"` // counts the calls of Note
}

type entry struct {
	key      Key
	attempts int
	capture  *Capture
}

// kept is a State that the next server knows.
type kept struct {
	Key   Key
	State *State
	User  *child.User // as whom the shell ran; nil: the user of the server
	Child string      // the name of the child whose programs live on; "": none does
}

// Version implements record.Versioned. A nil Cache has version 0.
func (c *Cache) Version() uint64 {
	if c == nil {
		return 0
	}
	return c.version
}

// Note notes for the next server which States there are, and which programs live on.
func (c *Cache) Note() {
	c.version++
	c.kept = nil
	for _, e := range c.entries {
		if a := e.capture; a.state.Load() != nil {
			k := kept{Key: e.key, State: a.state.Load(), User: a.user}
			if !a.ended.Load() {
				k.Child = a.child
			}
			c.kept = append(c.kept, k)
		}
	}
}

// Revive makes Captures of what an earlier server has noted, as far as there is memory, and returns the names of their children. Resume follows.
func (c *Cache) Revive(account *budget.Account) (children []string) {
	for _, k := range c.kept {
		a := newCapture(c, account)
		if !a.charge(k.State.bytes) {
			continue
		}
		a.begin.Do(func() { a.begun.Store(true) })
		a.user, a.child, a.left = k.User, k.Child, k.Child
		a.state.Store(k.State)
		close(a.done)
		c.entries = append(c.entries, &entry{key: k.Key, attempts: 1, capture: a})
		if a.child != "" {
			children = append(children, a.child)
		}
	}
	return children
}

// Resume adopts the children of Revive, and ends each when its Capture has no user, or when ctx is done. session gets a CaptureOver for each.
func (c *Cache) Resume(ctx context.Context, e *env.Env, root *actor.RootContext, session *actor.PID) {
	for _, k := range c.entries {
		if a := k.capture; a.left != "" {
			a.left = ""
			a.attend(e, root, session, func() error { return a.resume(ctx, e) })
		}
	}
}

// Look returns the Capture for a start. The caller must call Release once, when no run of the process
// follows. Look returns nil if the start must run the startup files itself, because all Captures
// of the Cache are under way.
func (c *Cache) Look(now time.Time, key Key, account *budget.Account) *Capture {
	i := slices.IndexFunc(c.entries, func(e *entry) bool { return e.key == key })
	var e *entry
	if i < 0 {
		if !c.room() {
			return nil
		}
		e = &entry{key: key, attempts: 1, capture: newCapture(c, account)}
	} else {
		e = c.entries[i]
		c.entries = slices.Delete(c.entries, i, i+1)
		if e.attempts < maxAttempts && e.capture.failedBefore(now.Add(-retryAfter)) {
			e.capture.Release()
			e.attempts, e.capture = e.attempts+1, newCapture(c, account)
		}
	}
	c.entries = append(c.entries, e)
	e.capture.uses.Add(1)
	return e.capture
}

// room makes room for an entry, if a Capture is not under way.
func (c *Cache) room() bool {
	if len(c.entries) < maxCached {
		return true
	}
	i := slices.IndexFunc(c.entries, func(e *entry) bool { return e.capture.over() || e.capture.idle() })
	if i < 0 {
		return false
	}
	c.entries[i].capture.Release()
	c.entries = slices.Delete(c.entries, i, i+1)
	return true
}

// Running reports whether a Capture may still have programs.
func (c *Cache) Running() bool { return c.running.Load() > 0 }

// Capture is a State that was captured, is being captured, or could not be captured. Any goroutine may
// use a Capture.
type Capture struct {
	cache   *Cache
	account *budget.Account
	begin   sync.Once
	begun   atomic.Bool
	done    chan struct{}         // closed when the state may be used, or the capture has failed
	state   atomic.Pointer[State] // nil: the capture is under way, or has failed
	failed  time.Time             // set before done is closed
	user    *child.User           // as whom the shell ran; nil: the user of the server. Set before state and done
	child   string                // the name of the shell. Set before state and done
	ended   atomic.Bool           // no program of the capture is left
	left    string                // the child of an earlier server, until Resume; "": none. Owned by the session

	uses   atomic.Int64
	unused chan struct{} // closed when nobody uses the Capture

	mu      sync.Mutex
	charged int // bytes taken from account
}

// newCapture returns a Capture with the cache as its only user.
func newCapture(c *Cache, account *budget.Account) *Capture {
	n := &Capture{cache: c, account: account, done: make(chan struct{}), unused: make(chan struct{})}
	n.uses.Store(1)
	return n
}

// Release ends a use of the Capture.
func (c *Capture) Release() {
	if c.uses.Add(-1) > 0 {
		return
	}
	close(c.unused)
	c.charge(0)
}

// charge sets how many bytes are taken from the account, and reports whether there was room. Nothing is
// taken for a Capture without a user.
func (c *Capture) charge(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.uses.Load() <= 0 {
		n = 0
	}
	if more := n - c.charged; more > 0 && !c.account.Try(more) {
		return false
	} else if more < 0 {
		c.account.Give(-more)
	}
	c.charged = n
	return true
}

// idle reports whether the Capture was not begun, and no process may begin it.
func (c *Capture) idle() bool { return !c.begun.Load() && c.uses.Load() == 1 }

func (c *Capture) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (c *Capture) failedBefore(t time.Time) bool {
	return c.over() && c.state.Load() == nil && !c.failed.After(t)
}

// fail ends the wait for the Capture: there is no state.
func (c *Capture) fail() {
	c.charge(0)
	c.failed = time.Now()
	close(c.done)
}
