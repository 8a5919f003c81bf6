package show

import (
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
