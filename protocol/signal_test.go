//go:build unix

package protocol

import (
	"strings"
	"syscall"
	"testing"
)

// A signal has three names, and the one that is printed is that of exit reports.
func TestSignalNames(t *testing.T) {
	for s, posix := range map[Signal]string{
		SignalInterrupt: "SIGINT", SignalTerminate: "SIGTERM", SignalKill: "SIGKILL", SignalHangup: "SIGHUP", SignalQuit: "SIGQUIT",
		SignalUsr1: "SIGUSR1", SignalUsr2: "SIGUSR2", SignalStop: "SIGSTOP", SignalContinue: "SIGCONT", SignalWinch: "SIGWINCH", SignalPipe: "SIGPIPE",
	} {
		number := signalNumbers[s]
		if got := SignalName(number); got != posix {
			t.Errorf("%s is %s, want %s", s, got, posix)
		}
		for _, name := range []string{string(s), strings.ToUpper(string(s)), posix, strings.ToLower(posix), strings.TrimPrefix(posix, "SIG")} {
			got, ok := ParseSignal(name)
			n, known := Signal(name).Number()
			if !ok || got != s || !known || n != number || Signal(name).Validate() != nil || Signal(name).Posix() != posix {
				t.Errorf("%q: %q, number %d, printed %s: want %q, %d, %s", name, got, n, Signal(name).Posix(), s, number, posix)
			}
		}
	}
	if len(Signals()) != 11 || len(signalNumbers) != 11 {
		t.Errorf("%d signals with %d numbers, want 11", len(Signals()), len(signalNumbers))
	}
	if got := SignalName(syscall.Signal(34)); got != "signal 34" {
		t.Errorf("a real-time signal is %q", got)
	}
	for _, name := range []Signal{"", "SIG", "SIGSEGV", "15", "TERMINATED", "SIGSIGTERM", " TERM"} {
		s, ok := ParseSignal(string(name))
		if _, known := name.Number(); ok || s != "" || known || name.Validate() == nil || name.Posix() != string(name) {
			t.Errorf("%q is %q", name, s)
		}
	}
}
