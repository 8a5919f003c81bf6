//go:build unix

package protocol

import (
	"strings"
	"testing"
)

// A signal has three names, and the one that is printed is that of exit reports.
func TestSignalNames(t *testing.T) {
	for s, number := range signalNumbers {
		posix := SignalName(number)
		for _, name := range []string{string(s), strings.ToUpper(string(s)), posix, strings.ToLower(posix), strings.TrimPrefix(posix, "SIG")} {
			got, ok := ParseSignal(name)
			n, known := Signal(name).Number()
			if !ok || got != s || !known || n != number || Signal(name).Validate() != nil || Signal(name).Posix() != posix {
				t.Errorf("%q: %q, number %d, printed %s: want %q, %d, %s", name, got, n, Signal(name).Posix(), s, number, posix)
			}
		}
	}
	if len(Signals()) != len(signalNumbers) {
		t.Errorf("%d signals, want %d", len(Signals()), len(signalNumbers))
	}
	for _, name := range []Signal{"", "SIG", "SIGSEGV", "15", "TERMINATED", "SIGSIGTERM", " TERM"} {
		s, ok := ParseSignal(string(name))
		if _, known := name.Number(); ok || s != "" || known || name.Validate() == nil || name.Posix() != string(name) {
			t.Errorf("%q is %q", name, s)
		}
	}
}
