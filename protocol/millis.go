package protocol

import (
	"math"
	"time"
)

// FromMillis converts milliseconds of the wire. A number too large for a Duration becomes the longest Duration.
func FromMillis(ms uint64) time.Duration {
	return time.Duration(min(ms, uint64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}
