package transport

import (
	"testing"
	"testing/synctest"
	"time"
)

// Connections that were opened at different times are pinged at the same times, each at least every pingEvery.
func TestPingsComeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const every = 15 * time.Second
		for range 200 {
			time.Sleep(137 * time.Millisecond)
			d := untilBeat(every)
			if at := time.Now().Add(d); at.UnixNano()%int64(every/beats) != 0 || d > every || d <= every-every/beats {
				t.Fatalf("a ping after %v is at %v: want a whole second, after more than 14 s and at most 15 s", d, at)
			}
		}
		if d := untilBeat(beats - 1); d != beats-1 {
			t.Errorf("a ping each 14 ns comes after %v", d)
		}
	})
}
