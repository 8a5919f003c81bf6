package sig

import (
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]protocol.Signal{
		"TERM": protocol.SignalTerminate, "SIGTERM": protocol.SignalTerminate, "term": protocol.SignalTerminate, "terminate": protocol.SignalTerminate,
		"15": protocol.SignalTerminate, " usr1 ": protocol.SignalUsr1, "sigcont": protocol.SignalContinue, "9": protocol.SignalKill, "28": protocol.SignalWinch, "WINCH": protocol.SignalWinch,
	} {
		if got, err := Parse(text); got != want || err != nil {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "SIG", "SEGV", "0", "-9", "TERMINATED"} {
		if got, err := Parse(text); err == nil || !strings.Contains(err.Error(), "SIGHUP, SIGINT") {
			t.Errorf("%q: %q, %v; want an error that names the signals", text, got, err)
		}
	}
}
