package child

import (
	"context"
	"fmt"
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

// job is a start or a question, from Start or Ask until done was called. Host.mu guards all fields except spec, in and
// done, which are fixed; only the look-up changes spec.
type job struct {
	spec Spec
	in   *Intake
	done func(Handle, error)
	ask  func(step func(string)) error // see Host.Ask; nil: a start
	// answerTime is for the look-up, and then again until the child executes the program. Fixed by enter.
	answerTime time.Duration

	path     string      // of the program; "": the look-up has not ended, or has failed
	lookedUp bool        // the look-up has ended, and changes spec no more
	apart    bool        // the child may hang before it runs, or has steps of its own
	step     string      // the current step of the look-up
	deadline *time.Timer // of the look-up
	unwatch  func() bool // stops watching spec.Context
	over     bool        // done was called, or the goroutine that set over will call done
	turn     *owner      // the owner whose turn the job has; nil: none
	late     bool        // the turn counts as hanging
	cut      func(error) // ends the wait for the child's exec; nil: nobody waits
}

// owner counts the jobs of a Spec.Owner, running or waiting for a turn.
type owner struct {
	waiting       []*job
	running, late int // late jobs are running, too
}

// turns counts the turns of all owners. Host.mu guards all fields.
type turns struct {
	each, all, most int // fixed
	owners          map[string]*owner
	running, late   int
	waiting         int
}

// newTurns returns turns for at most a quarter of the kept threads.
func newTurns(kept int) turns {
	most := max(min(turnsMost, kept/4), 3)
	return turns{each: min(turnsEach, (most+2)/3), all: most * turnsAll / turnsMost, most: most, owners: make(map[string]*owner)}
}

// Start starts a child and calls done with the child, or with the reason for the failure. Nothing
// of the child reaches in before done is called. done must not block. Start never blocks either;
// the caller must have at most one outstanding start for each process.
func (h *Host) Start(spec Spec, in *Intake, done func(Handle, error)) {
	h.enter(&job{spec: spec, in: in, done: done})
}

// Ask calls ask, which may wait for files and for the database of users, and then done with the error of ask. The
// time and the turns of a start hold for ask: if ask hangs, done gets ErrNoAnswer, which names the step that ask has told last (at the
// beginning the look-up of the user). Ask uses spec.Owner and spec.Context alone. Neither Ask nor done may block.
func (h *Host) Ask(spec Spec, ask func(step func(what string)) error, done func(error)) {
	h.enter(&job{spec: Spec{Owner: spec.Owner, Context: spec.Context}, ask: ask, done: func(_ Handle, err error) { done(err) }})
}

// enter queues j for a turn.
func (h *Host) enter(j *job) {
	spec := &j.spec
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		go j.done(nil, ErrClosed)
		return
	}
	h.starts[j] = struct{}{}
	j.answerTime = h.answerTime
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

// take gives free turns to waiting jobs of owner o. If only hanging jobs could free a turn, take
// refuses the waiting jobs.
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
			j.deadline = time.AfterFunc(j.answerTime, func() { h.overdue(j) })
			go h.lookUp(j)
		default:
			h.end(j, fmt.Errorf("%w: %d starts of this session and %d starts in all wait for an answer", ErrNoAnswer, o.late, t.late))
		}
	}
	if o.running == 0 {
		delete(t.owners, name)
	}
}

// leave ends the turn of j, if j has a turn.
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

// hangs counts the turn of j as hanging.
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

// lookUp looks up the program of j and queues j for the spawners, or answers the question of j.
func (h *Host) lookUp(j *job) {
	path, apart, err := h.tryLookUp(j)
	h.mu.Lock()
	defer h.mu.Unlock()
	j.deadline.Stop()
	j.lookedUp = true
	if !apart || err != nil || j.over {
		h.leave(j)
	}
	if j.over {
		h.letGo(j)
		return
	}
	if err != nil || j.ask != nil {
		h.end(j, err)
		return
	}
	j.path, j.apart = path, apart
	h.jobs = append(h.jobs, j)
	h.work.Broadcast()
}

// overdue fails the start of j because the look-up hangs. The look-up keeps its turn.
func (h *Host) overdue(j *job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if j.turn == nil || j.path != "" {
		return
	}
	h.hangs(j)
	if !j.over {
		h.end(j, noAnswer(j.step, j.answerTime))
	}
}

func noAnswer(what string, after time.Duration) error {
	return fmt.Errorf("%w: the %s took longer than %v", ErrNoAnswer, what, after)
}

// giveUp fails a start, unless the child has executed its program or is about to.
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

// end fails a start that no spawner has taken, or answers a question.
func (h *Host) end(j *job, err error) {
	j.over = true
	go func() {
		j.done(nil, err)
		h.forgetStart(j)
	}()
}

// letGo closes the working directory that the rule has allowed, and releases the placeholders that no child has taken
// over, unless the look-up may still open either. letGo may be repeated. The caller holds Host.mu.
func (h *Host) letGo(j *job) {
	if !j.lookedUp {
		return
	}
	if j.spec.dir != nil {
		j.spec.dir.Close()
	}
	if held := j.spec.held; held != nil {
		j.spec.held = nil
		h.leaving.Go(held.Release)
	}
}

// forgetStart removes j after the call of done.
func (h *Host) forgetStart(j *job) {
	if j.unwatch != nil {
		j.unwatch()
	}
	h.mu.Lock()
	h.letGo(j)
	delete(h.starts, j)
	h.work.Broadcast()
	h.mu.Unlock()
}
