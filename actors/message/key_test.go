package message

import (
	"slices"
	"strings"
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

// Lists of processes are sorted by the names of actors, so names have the order in which they were made.
func TestNamesSortAsTheyWereMade(t *testing.T) {
	names := make([]string, 10_000)
	for i := range names {
		names[i] = NewName("p-")
	}
	if !slices.IsSorted(names) || len(slices.Compact(names)) != cap(names) {
		t.Error("the names are not sorted, or some are equal")
	}
	if !strings.HasPrefix(names[0], "p-") {
		t.Errorf("%q does not begin with the prefix", names[0])
	}
}
