//go:build slow

package actors_test

import (
	"flag"
	"testing"
	"time"
)

var vandalismFlag = flag.Duration("vandalism", 15*time.Second, "how long TestLongVandalism has actors fail")

// TestLongVandalism is TestVandalism with a load of 200 processes, and for longer.
func TestLongVandalism(t *testing.T) {
	t.Parallel()
	vandalism(t, 50, *vandalismFlag)
}
