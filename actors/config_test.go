package actors

import (
	"testing"

	"github.com/b6f6fdd7/troupe/actors/config"
)

func TestSmallestBudget(t *testing.T) {
	for given, want := range map[int64]int64{-1: -1, 0: 1 << 30, 1: 8, 7: 8, 8: 8, 9: 9} {
		if got := (config.Config{Budget: given}).WithDefaults().Budget; got != want {
			t.Errorf("Budget %d becomes %d, want %d", given, got, want)
		}
	}
}
