//go:build slow

package changes

import "testing"

// TestMissingRacesForLong is TestMissingRaces with more rounds.
func TestMissingRacesForLong(t *testing.T) { missingRaces(t, 500) }

// TestMissingShareForLong is the row fs/watchMissing of TestWatchesShare with more rounds.
func TestMissingShareForLong(t *testing.T) { missingShare(t, 500) }
