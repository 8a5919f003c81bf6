package main

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/slots"
	"github.com/b6f6fdd7/troupe/internal/testroot"
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

// TestAttacks makes the smoke attacks with small numbers.
func TestAttacks(t *testing.T) {
	makeAttacks(t, func(a *attack) bool { return a.smoke })
}

// makeAttacks makes attacks with small numbers. The attacks wait more than they work.
func makeAttacks(t *testing.T, which func(*attack) bool) {
	r, err := newRunner(t.Context(), testroot.Dir(t, ""), "", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	r.quick = true
	var mu sync.Mutex
	var lines strings.Builder
	out := table{&lines}
	out.header()
	t.Cleanup(func() { t.Logf("\n%s", lines.String()) })
	for _, a := range attacks {
		if !which(a) {
			continue
		}
		waits := slices.Contains(pending, a.name)
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			res := r.attack(t.Context(), a)
			mu.Lock()
			out.line(res)
			mu.Unlock()
			switch {
			case res.skipped != "":
				t.Skip(res.skipped)
			case len(res.wrong) == 0 && waits:
				t.Logf("%q is pending, and the server bears it: take it off the list", a.name)
			case len(res.wrong) > 0 && !waits:
				for _, err := range res.wrong {
					t.Error(err)
				}
			}
		})
	}
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
