package trees

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"
)

const (
	// KillTries bounds the tries of Kill: with the pauses between, they take some 10 s.
	KillTries = 110
	// maxRefused is how many kills in a row the system may refuse before Kill gives up. They
	// take some 2 s.
	maxRefused = 30
	// exitPauses is how many pauses a child may take to end before the next kill.
	exitPauses = 10
	// maxNamed bounds the survivors named in an error.
	maxNamed = 20
)

// Kill kills the child and all its descendants, and returns when they are seen gone. The error is as of Handle.KillTree.
func (t *Tree) Kill() error {
	empty, err := killUntilEmpty(func() (bool, error) { return t.Search(false) }, t.killOnce, func(pause *Backoff) {
		for i := 0; i < exitPauses && t.Status() == nil; i++ {
			pause.Wait()
		}
		pause.Wait()
	})
	if empty {
		return nil
	}
	return fmt.Errorf("process %d: %w", t.pid, survivorsError(t.tree.members(), err))
}

// BuryLate waits for the end of the killed child pid, which has not begun its program, and which may end only when a filesystem answers. It
// calls slow once if that takes long. Then BuryLate kills what the child has left, reaps the child, and removes the tree.
// A child may have executed its program just before the kill, and the program may have started others. left says what lives on.
func (t *Tree) BuryLate(pid int, slow func()) (left, err error) {
	t.tree.started(pid)
	for pause, told := time.Millisecond, false; !Ended(pid); pause = min(2*pause, time.Second) {
		if pause == time.Second && !told { // a child whose start was given up ends sooner
			slow()
			told = true
		}
		time.Sleep(pause)
	}
	if empty, err := killUntilEmpty(func() (bool, error) { return t.tree.empty(false) }, t.tree.kill, (*Backoff).Wait); !empty {
		left = survivorsError(t.tree.members(), err)
	}
	t.Bury(pid) // after the kills: the tree may know its members by the child's pid
	return left, t.Remove()
}

// killUntilEmpty kills until empty says so, KillTries times at most, or until the system refuses the kills. It rests after each
// kill. The error is that of the last try.
func killUntilEmpty(empty func() (bool, error), kill func() error, rest func(*Backoff)) (done bool, err error) {
	var pause Backoff
	var refused refusals
	for range KillTries {
		if done, err = empty(); done {
			return true, nil
		}
		err = errors.Join(err, kill())
		rest(&pause)
		if refused.enough(err) {
			break
		}
	}
	return false, err
}

// refusals counts kills in a row refused by the system, or refused with errStray.
type refusals int

// enough reports whether another try is useless. err is the result of the last try.
func (r *refusals) enough(err error) bool {
	if *r++; !errors.Is(err, syscall.EPERM) && !errors.Is(err, errStray) {
		*r = 0
	}
	return *r >= maxRefused
}

// killOnce sends SIGKILL to the child, wherever it has moved, and to all descendants found.
func (t *Tree) killOnce() error {
	t.mu.Lock()
	if t.status == nil {
		t.tree.running()
	}
	t.mu.Unlock()
	err := t.tree.kill() // kill the tree before the child: other members are found through the child
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status == nil {
		syscall.Kill(-t.pid, syscall.SIGKILL)
		if killErr := syscall.Kill(t.pid, syscall.SIGKILL); killErr != nil && !errors.Is(killErr, syscall.ESRCH) {
			err = errors.Join(err, fmt.Errorf("SIGKILL to %d: %w", t.pid, killErr))
		}
	}
	return err
}

// survivorsError names the survivors, or says why they are unknown.
func survivorsError(names []string, why error) error {
	text := "the survivors are unknown"
	if len(names) > 0 {
		text = strings.Join(names[:min(len(names), maxNamed)], ", ")
		if more := len(names) - maxNamed; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		text += " left"
	}
	if why != nil {
		// A failed kill has one line for each survivor; the first line is enough.
		reason, _, _ := strings.Cut(why.Error(), "\n")
		text += ": " + reason
	}
	return fmt.Errorf("%w: %s", ErrSurvivors, text)
}

// Backoff is the length of the last pause. Each pause is half as long again as the last.
type Backoff time.Duration

const (
	minBackoff = Backoff(200 * time.Microsecond)
	maxBackoff = Backoff(100 * time.Millisecond)
)

// Wait sleeps.
func (b *Backoff) Wait() {
	*b = min(max(*b*3/2, minBackoff), maxBackoff)
	time.Sleep(time.Duration(*b))
}
