package sig

import (
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]protocol.Signal{
		"TERM": protocol.SignalTerminate, "SIGTERM": protocol.SignalTerminate, "term": protocol.SignalTerminate, "terminate": protocol.SignalTerminate,
		"15": protocol.SignalTerminate, " usr1 ": protocol.SignalUsr1, "sigcont": protocol.SignalContinue, "9": protocol.SignalKill, "WINCH": protocol.SignalWinch,
	} {
		if got, err := Parse(text); got != want || err != nil {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "SIG", "SEGV", "0", "-9", "TERMINATED"} {
		if got, err := Parse(text); err == nil || !strings.Contains(err.Error(), "HUP, INT") {
			t.Errorf("%q: %q, %v; want an error that names the signals", text, got, err)
		}
	}
}

// The numbers of the table are the numbers of Linux, and every signal of the protocol has a name.
func TestTable(t *testing.T) {
	for _, s := range signals {
		if n, ok := s.sig.Number(); !ok || int(n) != s.number || Posix(s.sig) != protocol.SignalName(syscall.Signal(s.number)) {
			t.Errorf("%s: number %d and name %s, want %d and %s", s.sig, s.number, Posix(s.sig), int(n), protocol.SignalName(n))
		}
	}
}
