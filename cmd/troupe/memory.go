//go:build unix

package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	cmap "github.com/orcaman/concurrent-map"
)

const (
	// unusedMost is how many bytes the heap may grow between two collections, counting garbage and
	// freed memory.
	unusedMost = 48 << 20
	// unusedEvery is the time between two looks at the heap. A heap above unusedMost is collected at
	// least every unusedAnyway.
	unusedEvery  = 5 * time.Second
	unusedAnyway = 30 * time.Second
)

// giveBack gives memory back to the system until ctx is done. The runtime does this, too, but collects
// garbage only when the heap has grown by half (GOGC 50) or after 2 minutes: an idle server would keep
// the memory of its busiest moment.
func giveBack(ctx context.Context) {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	heap := func() uint64 {
		metrics.Read(samples)
		return samples[0].Value.Uint64() + samples[1].Value.Uint64()
	}
	tick := time.NewTicker(unusedEvery)
	defer tick.Stop()
	after, at := uint64(0), time.Now() // after is 0 at the first look: the start has left garbage
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := heap(); after == 0 || now > after+unusedMost || now > unusedMost && time.Since(at) > unusedAnyway {
			debug.FreeOSMemory()
			after, at = heap(), time.Now()
		}
	}
}

const (
	// calm is the time after the begin of a server that follows another: until then the processes read what the last server has left.
	calm = time.Second
	// calmMost is how many bytes the memory may grow meanwhile, until garbage is collected.
	calmMost = 128 << 20
)

// collectLater has garbage collected from calm on. A server that follows another one has collected none until it calls collectLater.
func collectLater() {
	most := debug.SetMemoryLimit(-1)
	used := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(used)
	debug.SetMemoryLimit(min(most, int64(used[0].Value.Uint64())+calmMost))
	time.AfterFunc(calm, func() {
		debug.SetMemoryLimit(most)
		setGC(gcPercent)
	})
}

// fewMaps has the registry of a new actor system keep its names in 32 maps. protoactor's 32,768 maps take 3 MiB when they are
// empty, and 12 MiB once each has had a name.
func fewMaps(system *actor.ActorSystem) {
	registry, all := system.ProcessRegistry.LocalPIDs, cmap.New()
	for _, names := range registry.LocalPIDs {
		names.IterCb(all.Set)
	}
	registry.LocalPIDs = []cmap.ConcurrentMap{all}
}
