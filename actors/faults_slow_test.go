//go:build slow

package actors_test

import "testing"

// TestFaultsEverywhere is TestFaults at all points that TestFaults leaves out.
func TestFaultsEverywhere(t *testing.T) {
	t.Parallel()
	faults(t, func(eighth uint32) bool { return eighth != 2 })
}
