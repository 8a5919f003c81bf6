//go:build slow

package tests

import (
	"flag"
	"fmt"
	"testing"
)

// loadSeeds makes TestLoadFindsLies a long hunt:
//
//	go test -tags slow ./tests -run TestLoadFindsLies -v -load-seeds 20
var loadSeeds = flag.Int("load-seeds", 1, "with how many seeds TestLoadFindsLies tells each lie, with cuts and without")

// A proxy tells 11 kinds of lies between `troupe load` and a server. All of them are found, and their places are named. Nothing else is found.
func TestLoadFindsLies(t *testing.T) {
	for _, lies := range []struct {
		profile string
		faults  []string
	}{
		{"flood", []string{"none", "drop", "double", "swap", "flip", "gap"}},
		{"restart:size=256K:restarts=3", []string{"flip"}}, // two streams, and several runs
		{"spawn", []string{"lose exited", "swap exited"}},
		{"spawn:size=8K", []string{"a byte more"}},
		{"upload:life=300ms", []string{"none", "flip stdin", "drop stdin", "double stdin"}},
	} {
		for _, fault := range lies.faults {
			for n := range 2 * *loadSeeds {
				seed, cuts := uint64(3+n), n%2 == 1
				t.Run(fmt.Sprintf("%s/%s/seed %d", lies.profile, fault, seed), func(t *testing.T) {
					t.Parallel()
					loadWithLies(t, lies.profile, fault, seed, cuts)
				})
			}
		}
	}
}
