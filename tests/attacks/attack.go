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

// An attack is a hostile use of a server; the server must keep working.
type attack struct {
	name string // a word or two
	does string // a sentence about the attack
	must string // the rules that must hold besides the rules for every attack

	// bound is how long the whole attack may take. Zero: attackWithin.
	bound time.Duration
	// An attack with any of flags, configure or own gets a new server.
	flags     []string                       // flags of the server; DIR stands for the attack's directory
	configure func(*target, *exec.Cmd) error // changes the server's command
	own       bool                           // another reason for a new server
	door      door                           // the least exposed door at which the attack is possible
	mayUse    facts                          // how much more the server may use than before; zero: mostUsed
	refusals  bool                           // new programs of the well-behaved client may be refused
	harms     func(error) bool               // reports whether the well-behaved client may see this error
	skip      func() string                  // why the attack is impossible on this machine; "": the attack is possible
	run       func(context.Context, *target) error
}

// alone reports whether the attack needs a new server.
func (a *attack) alone() bool {
	return a.own || a.door > openDoor || len(a.flags) > 0 || a.configure != nil
}

// mostUsed is how much more a server may use during an attack than before, unless the attack sets
// mayUse. A fact of 0 is not checked.
var mostUsed = facts{RSS: 768 << 20, Threads: 160}

// giveBackWithin is how long the server may take to give back the resources used by an attack. For a
// while the server still remembers ended programs and sessions, as PROTOCOL.md says.
var giveBackWithin = 2 * time.Minute

// A target is the attacker's view of a server. Any goroutine may call any method.
type target struct {
	server *server
	self   string   // path of this program, for its child modes; any user may run it
	binary string   // path of the server
	args   []string // the server's flags
	dir    string   // temporary files; removed at the end
	tmp    string   // what the server sees as /tmp
	token  string   // an argument of every program of the attack, and a time to sleep
	keys   *keyring // for servers with the same door
	bearer string   // the attacker's right token; "": the server asks for none
	quick  bool     // small numbers

	others *witness // nil: no well-behaved client

	mu       sync.Mutex
	ends     []func() // called when the attack has ended
	sessions map[string]bool
	notes    []string
}

var lastToken atomic.Int64

// newToken returns a number that no other process has in its arguments. As an argument of sleep(1) the
// number means days.
func newToken() string { return fmt.Sprintf("7%07d.%d", os.Getpid(), 1e6+lastToken.Add(1)) }

// n returns full, or quick with small numbers.
func (t *target) n(full, quick int) int {
	if t.quick {
		return quick
	}
	return full
}

// othersGoOn waits until the well-behaved client has repeated each of its actions.
func (t *target) othersGoOn(ctx context.Context) error { return t.others.goesOn(ctx) }

// note adds a figure to the table.
func (t *target) note(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// onEnd adds a function for the end of the attack. The function added last runs first.
func (t *target) onEnd(end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ends = append(t.ends, end)
}

// opened remembers a session for closeSessions.
func (t *target) opened(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sessions == nil {
		t.sessions = make(map[string]bool)
	}
	t.sessions[id] = true
}

// end ends everything that the attack started outside of the server.
func (t *target) end() {
	t.mu.Lock()
	ends := t.ends
	t.ends = nil
	t.mu.Unlock()
	for i := range ends {
		ends[len(ends)-1-i]()
	}
}

// closeSessions closes the remaining sessions of the attack.
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

// closeSession closes a session. The session may have no connection, or may be gone.
func (t *target) closeSession(ctx context.Context, id string) error {
	var p *peer
	err := eventually(ctx, answerWithin, func() (err error) {
		p, err = t.as(operatorName).dialOnce(ctx) // an operator owns every session
		return err                                // perhaps a limit: try again
	})
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

// kin returns the running processes of the attack.
func (t *target) kin() []int { return system.Kin(t.token) }

// eventually returns nil as soon as ok does, or the error of ok after wait.
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

// parallel calls f for 0 to n-1, atOnce at a time, and returns the first error.
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

// hold sleeps for d or until ctx is done.
func hold(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
