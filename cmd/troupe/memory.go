package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// unusedMost is how much larger than after the last look the heap may be, garbage and what was
	// freed included, in bytes.
	unusedMost = 48 << 20
	// unusedEvery is how often the heap is looked at; a large one is collected each unusedAnyway.
	unusedEvery  = 5 * time.Second
	unusedAnyway = 30 * time.Second
)

// giveBack gives memory back to the system, until ctx is done. The runtime does so by itself, but it
// looks for garbage only when half as much again was allocated, or after 2 minutes: a server that
// was busy and is idle would keep what one moment needed.
func giveBack(ctx context.Context) {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	heap := func() uint64 {
		metrics.Read(samples)
		return samples[0].Value.Uint64() + samples[1].Value.Uint64()
	}
	tick := time.NewTicker(unusedEvery)
	defer tick.Stop()
	after, at := uint64(0), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := heap(); now > after+unusedMost || now > unusedMost && time.Since(at) > unusedAnyway {
			debug.FreeOSMemory()
			after, at = heap(), time.Now()
		}
	}
}
