package client

import (
	"crypto/rand"
	"errors"
	"io"
	"slices"
	"strconv"

	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	maxStdinChunk   = 32 << 10 // bytes of a write
	firstStdinChunk = 4 << 10  // bytes of a write until the Reader has filled a whole buffer
	stdinWrites     = 4        // writes in flight at once; each waits while the program's stdin is full
)

// A stdinWrite is a process/write request in flight, with its buffer.
type stdinWrite struct {
	call
	params protocol.ProcessWriteParams
	result protocol.ProcessWriteResult
	buf    []byte
}

// feed copies r to the program's stdin until r or the process ends.
func (p *process) feed(r io.Reader) {
	free := make(chan *stdinWrite, stdinWrites)
	for range stdinWrites {
		free <- &stdinWrite{}
	}
	size := firstStdinChunk
	id := rand.Text() // unique among all who write to the process
	for n := 1; ; n++ {
		w := p.answered(free)
		if w == nil {
			return
		}
		if len(w.buf) < size {
			w.buf = make([]byte, size)
		}
		got, err := r.Read(w.buf)
		if got == len(w.buf) {
			size = maxStdinChunk
		}
		if got > 0 {
			w.params = protocol.ProcessWriteParams{ProcessID: p.id, Chunk: w.buf[:got], WriteID: id + "-" + strconv.Itoa(n)}
			w.call = call{method: protocol.MethodProcessWrite, params: &w.params, result: &w.result}
			w.done = func() {
				p.inputRefused(r, w.refusal())
				free <- w
			}
			p.c.send(&w.call)
		} else {
			free <- w
		}
		if err == nil {
			continue
		}
		if err == io.ErrClosedPipe && p.owns(r) {
			return // inputRefused has closed the pipe and recorded why, or the process has ended
		}
		if err != io.EOF {
			p.c.mu.Lock()
			p.input = errorf("Stdin: %w", err)
			p.c.mu.Unlock()
		}
		// The close goes after the writes. The server refuses only if the process has ended, so the
		// error is ignored.
		_ = p.CloseStdin(p.c.ctx)
		return
	}
}

// refusal returns why the server has not taken the write; nil: it has.
func (w *stdinWrite) refusal() error {
	if w.err == nil && w.result.Status != "" && w.result.Status != protocol.WriteAccepted {
		return ErrStdinClosed
	}
	return w.err
}

// answered waits for the answer to a write and returns the write for reuse. nil: another write would be
// useless.
func (p *process) answered(free <-chan *stdinWrite) *stdinWrite {
	select {
	case w := <-free:
		if w.refusal() == nil {
			return w
		}
	case <-p.done:
	}
	return nil
}

// owns reports whether r is this client's end of StdinPipe.
func (p *process) owns(r io.Reader) bool {
	own, ok := r.(*io.PipeReader)
	return ok && slices.Contains(p.cmd.pipes, pipe(own))
}

// inputRefused ends the pipe of StdinPipe, if r is its other end, because the server takes no more input. Like os/exec,
// Wait tells why, unless the program has closed its stdin or has ended, or the caller may only watch.
func (p *process) inputRefused(r io.Reader, why error) {
	if why == nil {
		return
	}
	if p.owns(r) {
		r.(*io.PipeReader).CloseWithError(why)
	}
	if errors.Is(why, ErrStdinClosed) || errors.Is(why, ErrProcessGone) || errors.Is(why, ErrSessionGone) ||
		slices.Contains([]protocol.ErrorKind{protocol.KindEnded, protocol.KindRole}, Kind(why)) {
		return
	}
	p.c.mu.Lock()
	p.input = errorf("Stdin: %w", why)
	p.c.mu.Unlock()
}
