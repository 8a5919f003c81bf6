//go:build unix

package profile

import (
	"errors"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/program"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/protocol"
)

// An operation is a typed keystroke or block.
type operation struct {
	end int64 // its end in stdin
	due time.Time
}

// answer takes an answer about stdin, during an event.
func (p *process) answer(bytes int64, _ bool, received time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered(bytes, received)
}

// answered ends the operations up to a position of stdin. p.mu is held.
func (p *process) answered(bytes int64, at time.Time) {
	n := 0
	for ; n < len(p.typed) && p.typed[n].end <= bytes; n++ {
		every := p.every
		if p.Moments != nil {
			every = 0
		}
		p.latency(p.operation, p.typed[n].due, at, every)
	}
	if n == 0 {
		return
	}
	p.typed = append(p.typed[:0], p.typed[n:]...)
	p.Rec.Add(result.Operations, int64(n))
	p.tell()
}

func (p *process) tell() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// mayType reports whether another operation may begin.
func (p *process) mayType() bool {
	if p.operation == "" {
		return false
	}
	select {
	case <-p.began:
	default:
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	limit := 1
	if p.Moments != nil {
		limit = maxTyped
	}
	return p.refused == nil && !p.killed && max(len(p.typed), p.writes) < limit
}

// missRest counts the operations that have no answer at the end of the task. A program killed by the client cannot answer.
func (p *process) missRest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.killed {
		p.miss(len(p.typed))
	}
}

// typeOn types the next bytes of stdin, as an operation that was due at a moment. typeOn returns false if Write failed.
func (p *process) typeOn(due time.Time) bool {
	n := int64(p.size)
	p.mu.Lock()
	at := p.position
	p.position += n
	p.typed = append(p.typed, operation{p.position, due})
	p.writes++
	p.mu.Unlock()
	if p.buf == nil {
		p.buf = make([]byte, n)
	}
	p.key.Run(0, "stdin").Fill(p.buf, at)
	err := p.Session.Write(p.Name, p.buf, func(err error) { p.written(n, err) })
	if err == nil {
		return true
	}
	p.mu.Lock()
	p.position, p.writes = at, p.writes-1
	if last := len(p.typed) - 1; last >= 0 && p.typed[last].end == at+n { // otherwise wrong output has answered the operation already
		p.typed = p.typed[:last]
	}
	p.miss(1)
	if errors.Is(err, ErrLost) {
		p.refused = err
	} else {
		p.Rec.Error(err)
	}
	p.mu.Unlock()
	return false
}

// written takes the outcome of a write of n bytes.
func (p *process) written(n int64, err error) {
	p.mu.Lock()
	p.writes--
	wrong := err != nil && p.refused == nil && !p.killed && !p.starved.Load() && !errors.Is(err, ErrLost) && !errors.Is(err, ErrAnswer)
	if err == nil {
		p.accepted += n
	} else if p.refused == nil {
		p.refused = err
	}
	accepted := p.accepted
	p.mu.Unlock()
	switch {
	case err == nil:
		p.checker.Typed(accepted)
		p.Rec.Add(result.StdinBytes, n)
	case wrong:
		p.checker.Refused("the server refused stdin of a running program: "+err.Error(), time.Now())
	}
	p.tell()
}

// typedAll waits until the server has accepted all typed bytes, and returns why the server will not accept them all. nil also means that nobody
// waits any more.
func (p *process) typedAll() error {
	for {
		p.mu.Lock()
		writes, refused := p.writes, p.refused
		p.mu.Unlock()
		if refused != nil || writes == 0 {
			return refused
		}
		select {
		case <-p.news:
		case <-p.closed:
			return nil
		case <-p.given:
			return nil
		}
	}
}

// endStdin ends stdin after all typed bytes. endStdin waits for no answer after finish has given up.
func (p *process) endStdin() error {
	if p.Session.Ours() {
		return p.call(protocol.MethodProcessCloseStdin, protocol.ProcessCloseStdinParams{ProcessID: p.Name}, nil)
	}
	p.Rec.LeftOut("process/closeStdin: this server has none, so programs that read stdin end at a byte (^D)")
	answer := make(chan error, 1)
	if err := p.Session.Write(p.Name, []byte{program.EOT}, func(err error) { answer <- err }); err != nil {
		return err
	}
	select {
	case err := <-answer:
		return err
	case <-p.given:
		return nil
	}
}
