//go:build slow

package main

import (
	"strings"
	"sync"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/testroot"
)

// TestAttacks makes the attacks with small numbers. The attacks wait more than they work.
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
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			res := r.attack(t.Context(), a)
			mu.Lock()
			out.line(res)
			mu.Unlock()
			if res.skipped != "" {
				t.Skip(res.skipped)
			}
			for _, err := range res.wrong {
				t.Error(err)
			}
		})
	}
}
