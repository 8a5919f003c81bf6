package child

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

func (p *process) KillTree(done func(error)) {
	go func() { done(p.killTree()) }()
}

func (p *process) killTree() error {
	empty, err := killUntilEmpty(func() (bool, error) { return p.search(false) }, p.killOnce, func(pause *backoff) {
		for i := 0; i < exitPauses && !p.Exited(); i++ {
			pause.wait()
		}
		pause.wait()
	})
	if empty {
		return nil
	}
	return fmt.Errorf("process %d: %w", p.pid, survivorsError(p.tree.members(), err))
}

// killUntilEmpty kills until empty says so, killTries times at most, or until the system refuses the kills. It rests after each
// kill. The error is that of the last try.
func killUntilEmpty(empty func() (bool, error), kill func() error, rest func(*backoff)) (done bool, err error) {
	var pause backoff
	var refused refusals
	for range killTries {
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
func (p *process) killOnce() error {
	p.mu.Lock()
	if p.status == nil {
		p.tree.running()
	}
	p.mu.Unlock()
	err := p.tree.kill() // kill the tree before the child: other members are found through the child
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status == nil {
		syscall.Kill(-p.pid, syscall.SIGKILL)
		if killErr := syscall.Kill(p.pid, syscall.SIGKILL); killErr != nil && !errors.Is(killErr, syscall.ESRCH) {
			err = errors.Join(err, fmt.Errorf("SIGKILL to %d: %w", p.pid, killErr))
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
