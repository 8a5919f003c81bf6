//go:build slow

package tests

import "testing"

// TestManyCutsOfOutput does the same with ten times as many cuts.
func TestManyCutsOfOutput(t *testing.T) { testCutsOfOutput(t, 200) }

// TestManyCutsOfInput does the same with ten times as much input.
func TestManyCutsOfInput(t *testing.T) { testCutsOfInput(t, 4<<20) }

// TestMuchWhileAway does the same with ten times as much output.
func TestMuchWhileAway(t *testing.T) { testAway(t, 20<<20) }

// TestManyStartsAcrossCuts does the same with five times as many starts.
func TestManyStartsAcrossCuts(t *testing.T) { testStartAcrossCut(t, 60) }

// TestAckOfMuch does the same with more output.
func TestAckOfMuch(t *testing.T) {
	onEveryWire(t, func(t *testing.T, s *server) { testAck(t, s, 10<<20) })
}
