package protocol

import (
	"fmt"
	"strings"
	"syscall"
)

// Signal is a signal to a process group, by name, because numbers differ between systems.
// (exec-server knows interrupt only, exec-server wire §6; the others are ours.)
type Signal string

const (
	SignalInterrupt Signal = "interrupt" // SIGINT
	SignalTerminate Signal = "terminate" // SIGTERM
	SignalKill      Signal = "kill"      // SIGKILL
	SignalHangup    Signal = "hangup"    // SIGHUP
	SignalQuit      Signal = "quit"      // SIGQUIT
	SignalUsr1      Signal = "usr1"      // SIGUSR1
	SignalUsr2      Signal = "usr2"      // SIGUSR2
	SignalStop      Signal = "stop"      // SIGSTOP
	SignalContinue  Signal = "continue"  // SIGCONT
	SignalWinch     Signal = "winch"     // SIGWINCH
	SignalPipe      Signal = "pipe"      // SIGPIPE
)

// Number returns the signal's number on this system. ok is false if this system lacks the signal,
// or if s is none of the constants.
func (s Signal) Number() (syscall.Signal, bool) {
	n, ok := signalNumbers[s]
	return n, ok
}

// SignalName is a signal's name in exit reports, such as "SIGKILL". A real-time signal has no name
// and becomes "signal 34".
func SignalName(n syscall.Signal) string {
	if name := signalName(n); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(n))
}

// Validate refuses values other than the constants.
func (s Signal) Validate() error {
	return oneOf(s, SignalInterrupt, SignalTerminate, SignalKill, SignalHangup, SignalQuit,
		SignalUsr1, SignalUsr2, SignalStop, SignalContinue, SignalWinch, SignalPipe)
}

// oneOf fails, in the words of exec-server, if v is none of the variants.
func oneOf[T ~string](v T, variants ...T) error {
	names := make([]string, len(variants))
	for i, variant := range variants {
		if v == variant {
			return nil
		}
		names[i] = "`" + string(variant) + "`"
	}
	expected := "one of " + strings.Join(names, ", ")
	if len(names) == 2 {
		expected = names[0] + " or " + names[1]
	}
	return fmt.Errorf("unknown variant `%s`, expected %s", clip(v), expected)
}
