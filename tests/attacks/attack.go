package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/b6f6fdd7/troupe/tests/internal/system"
)

// An attack does to a server what it should bear.
type attack struct {
	name string // a word or two
	does string // one sentence
	must string // what must hold beside what is always looked at

	// How long all may take. Zero: a minute. It is a bound, not a measurement.
	bound time.Duration
	// short is part of go test, smoke of go test -short, too.
	short, smoke bool

	// A server of its own is what it needs if one of these is set.
	flags     []string                       // of the server; DIR is the attack's directory
	configure func(*target, *exec.Cmd) error // changes the server's command
	own       bool                           // for any other reason
	mayEnd    bool                           // the attack ends the server itself
	mayUse    facts                          // beyond before; zero: mostUsed
	refusals  bool                           // new programs of the well-behaved client may be refused
	harms     func(error) bool               // errors of the well-behaved client that may be
	stale     time.Duration                  // how long what was used may take to be given back; zero: giveBackWithin
	skip      func() string                  // why it cannot be done here; "": it can
	run       func(context.Context, *target) error
}

// alone tells whether the attack needs a server of its own.
func (a *attack) alone() bool {
	return a.own || a.mayEnd || len(a.flags) > 0 || a.configure != nil
}

// mostUsed is how much more a server may use during an attack than before it, unless the
// attack says otherwise. What is 0 is not judged.
var mostUsed = facts{RSS: 768 << 20, Threads: 160}

// giveBackWithin is how long the server may take to give back what an attack made it use.
// Programs and sessions that ended may still be known for a while, as PROTOCOL.md says.
var giveBackWithin = 2 * time.Minute

// A skipped is the reason why an attack cannot be made here.
type skipped string

func (s skipped) Error() string { return string(s) }

// A target is what one attack has of a server. Any goroutine may call any method.
type target struct {
	server *server
	self   string   // this program, for its child modes; any user may run it
	binary string   // the server's
	args   []string // the server's flags
	dir    string   // for files; removed at the end
	token  string   // in the arguments of what the attack starts: a time to sleep
	quick  bool     // small numbers
	shared bool     // others attack the server, too: what it uses says nothing about this attack

	others *witness // nil: there is none

	mu       sync.Mutex
	ends     []func() // when the attack has ended
	releases []func() // when its server has, too
	sessions map[string]bool
	notes    []string
}

var lastToken atomic.Int64

// newToken is a number that no other process has in its arguments, and days to sleep.
func newToken() string { return fmt.Sprintf("7%07d.%d", os.Getpid(), 1e6+lastToken.Add(1)) }

// n is how many of something there are.
func (t *target) n(full, quick int) int {
	if t.quick {
		return quick
	}
	return full
}

// othersGoOn waits until the well-behaved client has done one more of each thing that it does.
func (t *target) othersGoOn(ctx context.Context) error { return t.others.goesOn(ctx) }

// note adds a figure to the table.
func (t *target) note(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// onEnd names what is done when the attack has ended, the latest first.
func (t *target) onEnd(end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ends = append(t.ends, end)
}

// onRelease names what is done when the server has ended as well, the latest first.
func (t *target) onRelease(release func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.releases = append(t.releases, release)
}

// opened remembers a session, to close it.
func (t *target) opened(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sessions == nil {
		t.sessions = make(map[string]bool)
	}
	t.sessions[id] = true
}

// end ends what the attack has begun outside of the server.
func (t *target) end() {
	t.mu.Lock()
	ends := t.ends
	t.ends = nil
	t.mu.Unlock()
	for i := range ends {
		ends[len(ends)-1-i]()
	}
}

// closeSessions closes the sessions that the attack has opened and that still exist.
func (t *target) closeSessions(ctx context.Context) error {
	t.mu.Lock()
	ids := make(chan string, len(t.sessions))
	for id := range t.sessions {
		ids <- id
	}
	t.sessions = nil
	t.mu.Unlock()
	close(ids)
	var closers sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for range 8 {
		closers.Go(func() {
			for id := range ids {
				if err := t.closeSession(ctx, id); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
				}
			}
		})
	}
	closers.Wait()
	return failed
}

// closeSession closes a session that may have no connection, or not exist any more.
func (t *target) closeSession(ctx context.Context, id string) error {
	p, err := t.dialOnce(ctx)
	if err != nil {
		return err
	}
	defer p.cut()
	go p.read()
	err = p.initialize(ctx, obj{"resumeSessionId": id, "takeover": true})
	if err == nil {
		err = p.call(ctx, "session/close", obj{}, nil)
	}
	if e := refusal(err); e != nil && strings.HasPrefix(e.Message, "unknown session id") {
		return nil
	}
	return err
}

// kin are the processes of the attack that still run.
func (t *target) kin() []int { return system.Kin(t.token) }

// awaitNoKin waits until no process of the attack runs.
func (t *target) awaitNoKin(ctx context.Context, wait time.Duration) error {
	return eventually(ctx, wait, func() error {
		if left := t.kin(); len(left) > 0 {
			return fmt.Errorf("%d programs still run", len(left))
		}
		return nil
	})
}

// eventually returns nil once ok does, and else, after wait, the error of ok.
func eventually(ctx context.Context, wait time.Duration, ok func() error) error {
	deadline := time.Now().Add(wait)
	for {
		err := ok()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %v: %w", wait, err)
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// parallel calls f for 0 to n-1, so many at a time, and returns the first error.
func parallel(n, atOnce int, f func(i int) error) error {
	var (
		workers sync.WaitGroup
		next    atomic.Int64
		once    sync.Once
		first   error
	)
	for range min(n, atOnce) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := f(int(i)); err != nil {
					once.Do(func() { first = err })
					return
				}
			}
		})
	}
	workers.Wait()
	return first
}

// hold waits, as long as ctx lets it.
func hold(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
