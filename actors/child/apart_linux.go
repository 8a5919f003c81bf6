package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/fork"
)

// forkApart forks the child of j, which may hang before executing its program, or gets another user, and waits for the
// exec for its answerTime at most. The error ErrNoAnswer means: the child was killed, but has not
// ended.
func (h *Host) forkApart(f *forker, j *job, argv []string, attr *syscall.ProcAttr, m mark) (pid int, err error) {
	r, w, err := pipe()
	if err != nil {
		return 0, descriptorError(err)
	}
	status, err := ourFile(r, "status")
	if err != nil {
		unix.Close(w)
		return 0, err
	}
	defer status.Close()
	over := h.cutting(j, status)
	defer over(&err)

	h.forking.RLock()
	pid, err = f.begin(j.path, argv, attr, w, &j.spec, m)
	if err == nil {
		h.mu.Lock()
		h.unborn[pid] = struct{}{}
		h.mu.Unlock()
	}
	h.forking.RUnlock()
	unix.Close(w)
	if err != nil {
		return 0, err
	}
	buf := make([]byte, fork.ReportSize)
	n, err := io.ReadFull(status, buf)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		unix.Kill(pid, unix.SIGKILL)
		return pid, noAnswer(fmt.Sprintf("execution of %q in working directory %q", j.path, j.spec.Dir), j.answerTime)
	}
	if err = fork.Reported(buf[:n]); err != nil {
		err = stepError(err, &j.spec)
	} else {
		err = scoreLate(pid, &j.spec)
	}
	if err != nil {
		h.bury(pid)
		return 0, err
	}
	return pid, nil
}

// cutting limits the reads of status to the answerTime of j, and lets giveUp end them. The caller calls over with its result.
func (h *Host) cutting(j *job, status *os.File) (over func(*error)) {
	status.SetReadDeadline(time.Now().Add(j.answerTime))
	var why error
	h.mu.Lock()
	defer h.mu.Unlock()
	j.cut = func(err error) { // called with the lock
		why = err
		status.SetReadDeadline(time.Unix(1, 0))
	}
	if h.closing {
		j.cut(ErrClosed)
	} else if c := j.spec.Context; c != nil && c.Err() != nil {
		j.cut(context.Cause(c))
	}
	return func(err *error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		j.cut = nil
		if why != nil && errors.Is(*err, ErrNoAnswer) {
			*err = errors.Join(why, *err)
		}
	}
}

// buryLate waits for the end of a killed child, which may depend on a filesystem, kills what the child has left, reaps the
// child, removes its tree, and ends the turn of its job. A child may have executed its program just before the kill, and the
// program may have started others.
func (h *Host) buryLate(j *job, pid int, tree tree) {
	tree.started(pid)
	warned := false
	for wait := time.Millisecond; ; wait = min(2*wait, time.Second) {
		if s, ok := readStat(pid); !ok || s.zombie {
			break
		}
		if wait == time.Second && !warned { // a child whose start was given up ends sooner
			h.log.Warn("a killed child ends only when its filesystem answers", "pid", pid, "program", j.path, "dir", j.spec.Dir)
			warned = true
		}
		time.Sleep(wait)
	}
	h.killLeft(tree, j.spec.Name)
	unix.Wait4(pid, nil, 0, nil) // after the kills: the tree may know its members by the child's pid
	h.removeTree(tree, j.spec.Name)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.unborn, pid)
	h.leave(j)
}

// killLeft kills what a child without a Handle has left behind.
func (h *Host) killLeft(tree tree, name string) {
	empty, err := killUntilEmpty(func() (bool, error) { return tree.empty(false) }, tree.kill, (*backoff).wait)
	if !empty {
		h.log.Warn("a failed start has left processes", "name", name, "err", survivorsError(tree.members(), err))
	}
}
