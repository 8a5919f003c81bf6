package show

import (
	"errors"
	"testing"
	"time"
)

func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		Count(0, "process"):              "0 processes",
		Count(1, "process"):              "1 process",
		Count(2, "session"):              "2 sessions",
		LostFor(3500 * time.Millisecond): "connection lost, reconnecting (3 s)",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestErrorWords(t *testing.T) {
	for text, want := range map[string]string{
		"client: session/share: this server has no shares":                    "this server has no shares",
		"the tree of web: client: process/terminate: the session is gone":     "the tree of web: the session is gone",
		"client: the context ended":                                           "the context ended",
		"open session/share: no such file":                                    "open session/share: no such file",
		"no process is named a/b: troupe ps lists those of this server":       "no process is named a/b: troupe ps lists those of this server",
		"client: process web: start: exec: \"./web\": permission denied":      "process web: start: exec: \"./web\": permission denied",
		"ended by somebody else: client: client: process/read: no such thing": "ended by somebody else: no such thing",
	} {
		if got := Words(errors.New(text)); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
