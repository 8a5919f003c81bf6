//go:build slow

package tests

import "testing"

// TestNoWritePassesALinkLong is TestNoWritePassesALink with ten times as many swaps and writes.
func TestNoWritePassesALinkLong(t *testing.T) {
	t.Parallel()
	noWritePassesALink(t, 100_000, 10_000)
}
