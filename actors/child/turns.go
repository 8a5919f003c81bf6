package child

import (
	"context"
	"fmt"
	"time"
)

// Before a fork the program and the working directory are looked up, on goroutines: that may
// wait for a filesystem that does not answer, which nothing can end. So it has a deadline, each
// owner has a few turns, and a look-up that hangs keeps its turn. So does a child that hangs
// before its first instruction.
const (
	defaultAnswerTime = 10 * time.Second
	turnsEach         = 8  // of one owner
	turnsAll          = 32 // of all; beyond it an owner without one may have one,
	turnsMost         = 48 // up to this; with less room for threads all are fewer
)

// job is a start, from Start until done was called. Host.mu guards what is not fixed.
type job struct {
	spec Spec
	in   *Intake
	done func(Handle, error)

	path     string      // of the program; "": the look-up has not ended
	apart    bool        // the child may hang before it runs
	step     string      // what the look-up is at
	deadline *time.Timer // of the look-up
	unwatch  func() bool // of spec.Context
	over     bool        // done was called, or will be by who set this
	turn     *owner      // whose turn it has; nil: none
	late     bool        // the turn counts as one that hangs
	cut      func(error) // ends the wait for its exec; nil: it does not wait
}

// owner is those of one Spec.Owner that have a turn, or wait for one.
type owner struct {
	waiting       []*job
	running, late int // late ones run, too
}

// turns are the turns of all owners. Host.mu guards them.
type turns struct {
	each, all, most int // fixed
	owners          map[string]*owner
	running, late   int
	waiting         int
}

// newTurns are so many that they hold no more than a quarter of the threads that are kept.
func newTurns(kept int) turns {
	most := max(min(turnsMost, kept/4), 3)
	return turns{each: min(turnsEach, (most+2)/3), all: most * turnsAll / turnsMost, most: most, owners: make(map[string]*owner)}
}

// Start starts a child and calls done with it, or with the reason why not,
// before anything of the child reaches in. done must not
// block. Start never blocks either: it is for the caller to have one start
// outstanding for each process.
func (h *Host) Start(spec Spec, in *Intake, done func(Handle, error)) {
	j := &job{spec: spec, in: in, done: done}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		go done(nil, ErrClosed)
		return
	}
	h.starts[j] = struct{}{}
	if spec.Context != nil {
		j.unwatch = context.AfterFunc(spec.Context, func() { h.giveUp(j, context.Cause(spec.Context)) })
	}
	o := h.turns.owners[spec.Owner]
	if o == nil {
		o = new(owner)
		h.turns.owners[spec.Owner] = o
	}
	o.waiting = append(o.waiting, j)
	h.turns.waiting++
	h.take(spec.Owner, o)
}

// take gives turns to who waits of an owner, and refuses those that wait for what hangs.
func (h *Host) take(name string, o *owner) {
	t := &h.turns
	for len(o.waiting) > 0 {
		free := o.running < t.each && (t.running < t.all || o.running == 0 && t.running < t.most)
		hopeless := o.late >= t.each || t.late >= t.all && o.late > 0 || t.late >= t.most
		if !free && !hopeless {
			return
		}
		j := o.waiting[0]
		o.waiting[0] = nil
		o.waiting = o.waiting[1:]
		t.waiting--
		switch {
		case j.over:
		case free:
			o.running++
			t.running++
			j.turn = o
			j.deadline = time.AfterFunc(h.answerTime, func() { h.overdue(j) })
			go h.lookUp(j)
		default:
			h.end(j, fmt.Errorf("%w: %d starts of this session and %d in all wait for theirs", ErrNoAnswer, o.late, t.late))
		}
	}
	if o.running == 0 {
		delete(t.owners, name)
	}
}

// leave ends the turn of a job, if it has one.
func (h *Host) leave(j *job) {
	o, t := j.turn, &h.turns
	if o == nil {
		return
	}
	full := t.running >= t.all
	j.turn = nil
	o.running--
	t.running--
	if j.late {
		o.late--
		t.late--
	}
	h.take(j.spec.Owner, o)
	if full && t.waiting > 0 {
		for name, o := range t.owners {
			h.take(name, o)
		}
	}
}

// hangs counts the turn of a job as one that hangs.
func (h *Host) hangs(j *job) {
	if j.turn == nil || j.late {
		return
	}
	j.late = true
	j.turn.late++
	h.turns.late++
	h.take(j.spec.Owner, j.turn)
	if h.turns.late >= h.turns.all {
		for name, o := range h.turns.owners {
			h.take(name, o)
		}
	}
}

// lookUp finds what a job needs, and passes it to the spawners.
func (h *Host) lookUp(j *job) {
	path, apart, err := h.tryLookUp(j)
	h.mu.Lock()
	defer h.mu.Unlock()
	j.deadline.Stop()
	if !apart || err != nil || j.over {
		h.leave(j)
	}
	if j.over {
		return
	}
	if err != nil {
		h.end(j, err)
		return
	}
	j.path, j.apart = path, apart
	h.jobs = append(h.jobs, j)
	h.work.Broadcast()
}

// overdue fails a start whose look-up hangs. It keeps its turn.
func (h *Host) overdue(j *job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if j.turn == nil || j.path != "" {
		return
	}
	h.hangs(j)
	if !j.over {
		h.end(j, h.noAnswer(j.step))
	}
}

func (h *Host) noAnswer(what string) error {
	return fmt.Errorf("%w: the %s took longer than %v", ErrNoAnswer, what, h.answerTime)
}

// giveUp fails a start, unless its child is there or about to be.
func (h *Host) giveUp(j *job, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !j.over:
		h.end(j, err)
	case j.cut != nil:
		j.cut(err)
	}
}

// end fails a start that no spawner has.
func (h *Host) end(j *job, err error) {
	j.over = true
	go func() {
		j.done(nil, err)
		h.forgetStart(j)
	}()
}

// forgetStart is after the call of done.
func (h *Host) forgetStart(j *job) {
	if j.unwatch != nil {
		j.unwatch()
	}
	h.mu.Lock()
	delete(h.starts, j)
	h.work.Broadcast()
	h.mu.Unlock()
}
