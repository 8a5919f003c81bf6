package protocol

import (
	"fmt"
	"strings"
	"syscall"
)

// Signal is a signal to a process group, by name, because numbers differ between systems. ParseSignal says which names a
// signal has. (exec-server knows interrupt only, exec-server wire §6; the others are ours.)
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

// posixNames are the names of signals as in signal(7), without SIG, in the order of their numbers on Linux.
var posixNames = []struct {
	signal Signal
	name   string
}{
	{SignalHangup, "HUP"}, {SignalInterrupt, "INT"}, {SignalQuit, "QUIT"}, {SignalKill, "KILL"}, {SignalUsr1, "USR1"}, {SignalUsr2, "USR2"},
	{SignalPipe, "PIPE"}, {SignalTerminate, "TERM"}, {SignalContinue, "CONT"}, {SignalStop, "STOP"}, {SignalWinch, "WINCH"},
}

// ParseSignal returns the signal with a name such as "terminate", "SIGTERM" or "TERM", in any case. ok is false if no
// signal has the name.
func ParseSignal(name string) (s Signal, ok bool) {
	short := strings.TrimPrefix(strings.ToUpper(name), "SIG")
	for _, p := range posixNames {
		if short == p.name || strings.EqualFold(name, string(p.signal)) {
			return p.signal, true
		}
	}
	return "", false
}

// Signals returns the constants, in the order of their numbers on Linux.
func Signals() []Signal {
	var all []Signal
	for _, p := range posixNames {
		all = append(all, p.signal)
	}
	return all
}

// Posix returns the name for people, such as "SIGTERM"; s itself, if no signal has the name s.
func (s Signal) Posix() string {
	known, _ := ParseSignal(string(s))
	for _, p := range posixNames {
		if p.signal == known {
			return "SIG" + p.name
		}
	}
	return string(s)
}

// Number returns the signal's number on this system. ok is false if this system lacks the signal,
// or if no signal has the name s.
func (s Signal) Number() (syscall.Signal, bool) {
	known, _ := ParseSignal(string(s))
	n, ok := signalNumbers[known]
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

// Validate refuses names that no signal has.
func (s Signal) Validate() error {
	if _, ok := ParseSignal(string(s)); ok {
		return nil
	}
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
