package message

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/protocol"
)

// ScreenAsk is from a process to its screen, on behalf of whoever asked the process: the screen answers Of.
type ScreenAsk struct {
	Of Request // its Params are protocol.ProcessScreenParams

	// What the process knows better than its log.
	UpTo           uint64 // the last entry of the log: the screen has it before it answers
	Run            int
	Exited, Closed bool
	HeardAt        time.Time // of the last output, or of the begin of the run; zero: there was no run
}

// Failed implements Answerable.
func (m ScreenAsk) Failed(err *protocol.Error) any { return m.Of.Failed(err) }

// Unheard implements Answerable.
func (m ScreenAsk) Unheard(*actor.PID) any {
	return m.Failed(protocol.Errorf(protocol.KindBusy, protocol.CodeInternal, "the screen has just ended: try again"))
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the screen may have ended.
func (ScreenAsk) IgnoreDeadLetterLogging() {}

// ScreenSize is from a process to its screen: the PTY has another size from after the entry Seq on.
type ScreenSize struct {
	Seq  uint64
	Size protocol.Size
}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the screen may have ended.
func (ScreenSize) IgnoreDeadLetterLogging() {}

// ScreenForget is from a process to its screen: whoever asked has gone, or has lost the session.
type ScreenForget struct{ PID *actor.PID }

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the screen may have ended.
func (ScreenForget) IgnoreDeadLetterLogging() {}

// ScreenIdle is from a screen to its process: nobody has asked for a while, after so many ScreenAsks.
type ScreenIdle struct{ Asked uint64 }

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the process may have ended.
func (ScreenIdle) IgnoreDeadLetterLogging() {}

// ScreenFull is from a screen to its process: there is no room for the screen any more, or its terminal is too large. The screen waits for its end.
type ScreenFull struct{}

// IgnoreDeadLetterLogging implements actor.IgnoreDeadLetterLogging: the process may have ended.
func (ScreenFull) IgnoreDeadLetterLogging() {}
