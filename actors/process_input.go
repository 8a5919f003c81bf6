package actors

import (
	"crypto/sha256"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/protocol"
)

// writeIDs is how many of its latest writes a process remembers (exec-server wire
// §6).
const writeIDs = 4096

// acceptStdin takes what is parked, in the order in which it came, as far as
// there is room. Once nothing more can be written, all of it is answered.
func (p *process) acceptStdin(ctx actor.Context) {
	for len(p.stdin) > 0 {
		if p.life.Phase() == life.Restarting || p.life.Restartable() && p.life.Phase() == life.Running && p.handleNow().Exited() {
			return // it is for the next run, if there is one
		}
		r := p.stdin[0]
		if result, ok := p.stdinDone(r); ok {
			p.stdin = p.stdin[1:]
			p.reply(ctx, r, result, nil)
			continue
		}
		if open := p.life.Phase() < life.Exited && p.spec.Stdin && !p.stdinEnd; open && !p.applyStdin(ctx, r) {
			return // no room: the intake will say
		}
		p.shared.At(ctx, env.StdinTaken)
		var result any = protocol.Empty{}
		if w, ok := r.params.(protocol.ProcessWriteParams); ok {
			status := protocol.WriteAccepted
			if p.writeIDs.taken(w.WriteID) != whole {
				status = protocol.WriteStdinClosed
			}
			result = protocol.ProcessWriteResult{Status: status}
		}
		p.reply(ctx, r, result, nil)
		p.shared.At(ctx, env.StdinAnswered)
		p.stdin = p.stdin[1:]
	}
	p.stdin = nil
}

// stdinDone is the answer to a process/closeStdin that was done while it waited, or whose
// run has ended meanwhile.
func (p *process) stdinDone(r *parked) (result any, ok bool) {
	if reply, ok := p.answers.to(r.params, r.token); ok {
		return reply.Result, true
	}
	other, ok := p.otherRun(r.params)
	return other, ok
}

// applyStdin gives one write or close to the child; false: it has no room.
func (p *process) applyStdin(ctx actor.Context, r *parked) bool {
	w, ok := r.params.(protocol.ProcessWriteParams)
	if !ok {
		p.logErr("close stdin", p.handleNow().CloseStdin())
		p.stdinEnd = true
		return true
	}
	taken := p.writeIDs.taken(w.WriteID)
	if taken == whole {
		return true
	}
	taken = min(taken, len(w.Chunk)) // of another chunk under the same writeId
	n, err := p.handleNow().Write(w.Chunk[taken:])
	if taken += n; taken == len(w.Chunk) && err == nil {
		taken = whole
	}
	if taken != 0 {
		p.writeIDs.take(w.WriteID, taken)
	}
	if err != nil {
		return p.stdinRefused(ctx)
	}
	return taken == whole
}

// stdinTime is how long a child may yet take to end: one that has closed its stdin has most often ended, and the
// write is for the next run.
const stdinTime = 100 * time.Millisecond

// stdinRefused reports whether stdin is closed for good.
func (p *process) stdinRefused(ctx actor.Context) bool {
	if p.refused.IsZero() {
		p.refused = time.Now()
	}
	if left := stdinTime - time.Since(p.refused); p.life.Restartable() && left > 0 {
		p.stdinAt.Sooner(ctx, left, stdinDue{})
		return false
	}
	p.stdinEnd = true
	return true
}

func (p *process) resize(size protocol.Size) *protocol.Error {
	if !p.spec.TTY {
		return protocol.Errorf(protocol.CodeInvalidRequest, "process %s is not attached to a PTY: start it with tty true to resize it", p.id)
	}
	p.spec.Size = size // of later runs
	if p.life.Phase() != life.Running {
		return nil
	}
	if err := p.handleNow().Resize(size); err != nil {
		return protocol.Errorf(protocol.CodeInternal, "resize process %s to %d rows, %d cols: %v", p.id, size.Rows, size.Cols, err)
	}
	return nil
}

func (p *process) signal(s protocol.Signal) *protocol.Error {
	number, ok := s.Number()
	if !ok {
		return protocol.Errorf(protocol.CodeInvalidParams, "no signal %q here", s)
	}
	if p.life.Phase() != life.Running {
		return nil
	}
	if err := p.handleNow().Signal(number); err != nil {
		return protocol.Errorf(protocol.CodeInternal, "signal %s to process %s: %v", s, p.id, err)
	}
	return nil
}

// recent remembers the last writeIDs ids, by their hash, for an id may be long, and how
// much of each write the child's stdin has taken. A write larger than the queue is taken in
// parts, and a cut may come between two of them.
type recent struct {
	ring []idHash
	next int
	set  map[idHash]int
}

// whole is how much was taken of a write that was accepted.
const whole = -1

type idHash [16]byte

func hashID(id string) (h idHash) {
	sum := sha256.Sum256([]byte(id))
	copy(h[:], sum[:])
	return h
}

// taken is how many bytes of a write were taken, or whole.
func (r *recent) taken(id string) int { return r.set[hashID(id)] }

// take records that n bytes of a write were taken in all, or the whole of it.
func (r *recent) take(id string, n int) {
	if r.set == nil {
		r.set = make(map[idHash]int)
	}
	h := hashID(id)
	_, known := r.set[h]
	r.set[h] = n
	switch {
	case known:
	case len(r.ring) < writeIDs:
		r.ring = append(r.ring, h)
	default:
		delete(r.set, r.ring[r.next])
		r.ring[r.next] = h
		r.next = (r.next + 1) % writeIDs
	}
}

// nextRun has the next run get what the last one got in part, from its beginning.
func (r *recent) nextRun() {
	for h, n := range r.set {
		if n != whole {
			r.set[h] = 0
		}
	}
}
