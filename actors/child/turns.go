package child

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Before a fork, a goroutine looks up the program and the working directory. A look-up may hang
// forever if a filesystem does not answer. So a look-up has a deadline, and needs a turn: each owner
// has a few turns, and a hanging look-up keeps its turn. A child hanging before its first
// instruction keeps its turn, too.
const (
	defaultAnswerTime = 10 * time.Second
	turnsEach         = 8 // of each owner
	// turnsAll is for all owners together. Beyond turnsAll, an owner without a turn may have one,
	// up to turnsMost. If fewer threads are available, newTurns shrinks all three.
	turnsAll  = 32
	turnsMost = 48
)

// turns counts the turns of all owners. Any goroutine may use turns.
type turns struct {
	each, all, most int // fixed

	mu            sync.Mutex // guards all that follows, and all owners and turns
	owners        map[string]*owner
	running, late int
	waiting       int
}

// owner has the turns of a Spec.Owner.
type owner struct {
	waiting []*turn
	running map[*turn]struct{}
	late    int // of those running
}

// turn is the permission of a start or of a question to make a call that may hang.
type turn struct {
	turns *turns
	name  string     // of the owner
	came  chan error // nil: the turn has come; otherwise there will be no turn
	// giveUp answers the start or question at once, with the reason for its failure. Fixed before call.
	giveUp func(why error)

	owner    *owner      // while the turn is taken; else nil
	unwanted bool        // nobody waits for the turn
	late     bool        // the turn counts as hanging
	givenUp  bool        // giveUp is called
	step     string      // the current step of the call
	deadline *time.Timer // of the call; nil: no call is being made
}

// newTurns returns turns for at most a quarter of the kept threads.
func newTurns(kept int) *turns {
	most := max(min(turnsMost, kept/4), 3)
	return &turns{each: min(turnsEach, (most+2)/3), all: most * turnsAll / turnsMost, most: most, owners: make(map[string]*owner)}
}

// enter queues for a turn.
func (ts *turns) enter(name string) *turn {
	t := &turn{turns: ts, name: name, came: make(chan error, 1)}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	o := ts.owners[name]
	if o == nil {
		o = &owner{running: make(map[*turn]struct{})}
		ts.owners[name] = o
	}
	o.waiting = append(o.waiting, t)
	ts.waiting++
	ts.take(name, o)
	return t
}

// take gives free turns to those waiting for owner o. If only hanging calls could free a turn, take
// refuses the waiting.
func (ts *turns) take(name string, o *owner) {
	for len(o.waiting) > 0 {
		free := len(o.running) < ts.each && (ts.running < ts.all || len(o.running) == 0 && ts.running < ts.most)
		hopeless := o.late >= ts.each || ts.late >= ts.all && o.late > 0 || ts.late >= ts.most
		if !free && !hopeless {
			return
		}
		t := o.waiting[0]
		o.waiting[0] = nil
		o.waiting = o.waiting[1:]
		ts.waiting--
		switch {
		case t.unwanted:
		case free:
			o.running[t] = struct{}{}
			ts.running++
			t.owner = o
			t.came <- nil
		default:
			t.came <- fmt.Errorf("%w: %d starts of this session and %d starts in all wait for an answer", ErrNoAnswer, o.late, ts.late)
		}
	}
	if len(o.running) == 0 {
		delete(ts.owners, name)
	}
}

// leave gives the turn back, or ends the wait for it; while a call is being made, leave does nothing. leave may be repeated.
func (t *turn) leave() {
	ts := t.turns
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.unwanted = true
	o := t.owner
	if o == nil || t.deadline != nil {
		return
	}
	full := ts.running >= ts.all
	t.owner = nil
	delete(o.running, t)
	ts.running--
	if t.late {
		o.late--
		ts.late--
	}
	ts.take(t.name, o)
	if full && ts.waiting > 0 {
		for name, o := range ts.owners {
			ts.take(name, o)
		}
	}
}

// hangs counts the turn as hanging.
func (t *turn) hangs() {
	t.turns.mu.Lock()
	defer t.turns.mu.Unlock()
	t.hangsLocked()
}

func (t *turn) hangsLocked() {
	ts := t.turns
	if t.owner == nil || t.late {
		return
	}
	t.late = true
	t.owner.late++
	ts.late++
	ts.take(t.name, t.owner)
	if ts.late >= ts.all {
		for name, o := range ts.owners {
			ts.take(name, o)
		}
	}
}

// errGivenUp ends a start that has its answer already.
var errGivenUp = errors.New("child: the start was given up")

// call waits for the turn, and makes a call that may hang. The call tells its steps. If the call takes longer than after, or if ctx is done
// first, t.giveUp gets the reason at once: an ErrNoAnswer that names the last step, or the cause of ctx. Then the call keeps the turn until
// the call returns, and the error is errGivenUp. Otherwise the caller has the turn.
func (t *turn) call(ctx context.Context, after time.Duration, call func(step func(what string)) error) error {
	select {
	case err := <-t.came:
		if err != nil {
			return err
		}
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		t.leave()
		return context.Cause(ctx)
	}
	ts := t.turns
	// giveUp is called with ts.mu.
	giveUp := func(why error) {
		if !t.givenUp {
			t.givenUp = true
			go t.giveUp(why)
		}
	}
	ts.mu.Lock()
	t.deadline = time.AfterFunc(after, func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		if t.deadline != nil {
			t.hangsLocked()
			giveUp(noAnswer(t.step, after))
		}
	})
	ts.mu.Unlock()
	stop := context.AfterFunc(ctx, func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		if t.deadline != nil {
			giveUp(context.Cause(ctx))
		}
	})
	err := call(func(step string) {
		ts.mu.Lock()
		t.step = step
		ts.mu.Unlock()
	})
	stop()
	ts.mu.Lock()
	t.deadline.Stop()
	t.deadline = nil
	ts.mu.Unlock()
	if t.givenUp { // constant from now on
		t.leave()
		return errGivenUp
	}
	return err
}

func noAnswer(what string, after time.Duration) error {
	return fmt.Errorf("%w: the %s took longer than %v", ErrNoAnswer, what, after)
}
