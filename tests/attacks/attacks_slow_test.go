//go:build slow

package main

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/testroot"
)

// TestAttacks makes the short attacks with small numbers. The attacks wait more than they work.
func TestAttacks(t *testing.T) {
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
		if !a.short {
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
