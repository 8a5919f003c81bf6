package message

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
)

func TestLastName(t *testing.T) {
	for id, want := range map[string]string{
		"troupe/sessions/s/p-1": "p-1",
		"p-1":                   "p-1",
		"troupe/":               "",
	} {
		if got := LastName(actor.NewPID("here/there", id)); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
}
