//go:build slow

package tests

import "testing"

// TestManyCutsOfOutput does the same with ten times as many cuts.
func TestManyCutsOfOutput(t *testing.T) { testCutsOfOutput(t, 200) }

// TestManyCutsOfInput does the same with ten times as much input.
func TestManyCutsOfInput(t *testing.T) { testCutsOfInput(t, 4<<20) }
