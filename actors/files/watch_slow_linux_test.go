//go:build slow

package files

import "testing"

// TestWatchRacesForLong is TestWatchRaces with more rounds.
func TestWatchRacesForLong(t *testing.T) { watchRaces(t, 500) }

// TestWatchesShareForLong is TestWatchesShare with more rounds.
func TestWatchesShareForLong(t *testing.T) { watchesShare(t, 500) }
