package process

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/repeat"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/actors/process/stdin"
	"github.com/b6f6fdd7/troupe/protocol"
)

// input is what waits for stdin.
type input struct {
	stdin.Queue[*parked]
	at time.Time `lost:"asked again"` // the program has refused stdin, and has time to end until then; zero: it has not
}

// acceptStdin writes the waiting requests to the child's stdin as far as there is room, and answers.
func (p *process) acceptStdin(ctx actor.Context) {
	for {
		step := p.stdin.Next(p.stdinState())
		if step.Do == stdin.Wait {
			return
		}
		r := step.For
		var result any = protocol.Empty{}
		answer, again := p.answers.To(r.params) // the same closeStdin was done while this request waited
		switch {
		case again:
			result = answer.Result
		case step.Do == stdin.Write:
			if room := p.writeStdin(step.ID, step.Chunk); !room {
				return
			}
			continue
		case step.Do == stdin.Close:
			p.logErr("close stdin", p.run.handle.CloseStdin())
			if p.launch.Spec.TTY {
				p.stdin.Typed()
			} else {
				p.stdin.Closed()
			}
			continue
		case step.Do == stdin.OtherRun:
			result = protocol.OtherRun{Run: p.life.Run()}
		default:
			if _, ok := r.params.(protocol.ProcessWriteParams); ok {
				result = protocol.ProcessWriteResult{Status: writeStatus(step.Do)}
			}
		}
		p.env.At(ctx, env.StdinTaken)
		p.reply(ctx, r, result, nil)
		p.env.At(ctx, env.StdinAnswered)
		p.stdin.Answered() // after the reply: an instance that fails in between answers again
	}
}

func writeStatus(do stdin.Do) protocol.WriteStatus {
	if do == stdin.Accepted {
		return protocol.WriteAccepted
	}
	return protocol.WriteStdinClosed
}

// stdinState is the state of the process for the queue of stdin.
func (p *process) stdinState() stdin.State {
	return stdin.State{
		Run:      p.life.Run(),
		Between:  p.life.Phase() == life.Restarting,
		Over:     p.life.Phase() >= life.Exited,
		Restarts: p.life.Restartable(),
		Dead:     p.life.Restartable() && p.life.Phase() == life.Running && p.run.handle.Exited(),
		Piped:    p.launch.Spec.Stdin,
	}
}

// writeStdin gives the child a part of a write. room is false if the rest has to wait.
func (p *process) writeStdin(id repeat.ID, chunk []byte) (room bool) {
	n, err := p.run.handle.WriteAs(id, chunk)
	p.env.Meters.Stdin.Add(n)
	if err == nil {
		return p.stdin.Wrote(n) // else the intake says when there is room
	}
	wait := p.stdin.Refused(time.Now(), n, p.life.Restartable())
	if wait > 0 {
		p.stdin.at = earlier(p.stdin.at, time.Now().Add(wait))
	}
	return wait == 0
}

func (p *process) resize(ctx actor.Context, size protocol.Size) *protocol.Error {
	if !p.launch.Spec.TTY {
		return noTTY(p.id, "resize it")
	}
	if was := p.launch.Spec.Size; was != size {
		p.launch.Resize(size)
		p.resizeScreen(ctx, was)
	}
	if p.life.Phase() != life.Running {
		return nil
	}
	if err := p.run.handle.Resize(size); err != nil {
		return protocol.Errorf(protocol.KindSystem, protocol.CodeInternal, "resize process %s to %d rows, %d cols: %v", p.id, size.Rows, size.Cols, err)
	}
	return nil
}

func (p *process) signal(s protocol.Signal) *protocol.Error {
	number, ok := s.Number()
	if !ok {
		return protocol.Errorf(protocol.KindUnsupported, protocol.CodeInvalidParams, "no signal %q here", s)
	}
	if p.life.Phase() != life.Running {
		return nil
	}
	if err := p.run.handle.Signal(number); err != nil {
		return protocol.Errorf(protocol.KindSystem, protocol.CodeInternal, "signal %s to process %s: %v", s, p.id, err)
	}
	return nil
}
