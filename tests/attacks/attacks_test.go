package main

import (
	"os"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/slots"
)

// pending are the names of attacks that still succeed. Once the server withstands a pending attack, the
// test fails until the name is removed.
var pending []string

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		childMain(os.Args[2:])
	}
	slots.Widen()
	os.Exit(m.Run())
}

// TestAttacksExplain checks each attack for a unique name and a description.
func TestAttacksExplain(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range attacks {
		if a.name == "" || a.does == "" || a.must == "" || a.run == nil || seen[a.name] {
			t.Errorf("attack %q: it needs a name of its own, what it does, what must hold, and run", a.name)
		}
		seen[a.name] = true
	}
	for _, name := range pending {
		if !seen[name] {
			t.Errorf("%q is pending, and no attack", name)
		}
	}
}
