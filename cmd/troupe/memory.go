//go:build unix

package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	cmap "github.com/orcaman/concurrent-map"
)

const (
	// garbagePercent is how much garbage a server makes until it is collected, in percent of the bytes that live (GOGC). Most memory belongs to
	// idle programs and sessions, and streaming output makes little garbage. Compared with 100, an idle program costs 13.7 instead of 14.3 KiB and
	// a session 25.2 instead of 28.0; output is as fast.
	garbagePercent = 50
	// garbageLeast is the least garbage to collect, in bytes. In a server of a few MiB, garbagePercent alone collects all the time while programs
	// start: with GOGC=200 a start took 5 % less of the server's CPU, and 15 % less with a holder.
	garbageLeast = 16 << 20
)

// collect has garbage collected as garbagePercent and garbageLeast say, unless the environment sets GOGC.
func collect() {
	if os.Getenv("GOGC") == "" {
		new(pacer).collected(nil)
	}
}

// A pacer sets GOGC at first and after each collection. Each call of collected asks for the next one, so a single goroutine at a time uses a pacer.
type pacer struct{ percent int }

// A cycle is garbage at once: its finalizer tells of the next collection.
type cycle struct{ _ *pacer }

// collected chooses GOGC for the bytes that have survived the last collection.
func (p *pacer) collected(*cycle) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	percent := max(garbagePercent, int(100*garbageLeast/max(live[0].Value.Uint64(), garbageLeast/4)))
	if off := percent - p.percent; off > p.percent/8 || off < -p.percent/8 { // to set it stops all goroutines
		p.percent = percent
		debug.SetGCPercent(percent)
	}
	runtime.SetFinalizer(&cycle{p}, p.collected)
}

const (
	// unusedEvery is the time between two looks at the heap.
	unusedEvery = 5 * time.Second
	// quietMost is how many bytes a server makes between two looks while it is quiet.
	quietMost = 1 << 20
	// unusedMost is how many bytes the heap may grow between two collections, counting garbage and
	// freed memory. A heap above unusedMost is collected at least every unusedAnyway.
	unusedMost   = 48 << 20
	unusedAnyway = 30 * time.Second
)

// giveBack gives memory back to the system until ctx is done. The runtime does this, too, but collects
// garbage only when the heap has grown (see pacer) or after 2 minutes: an idle server would keep
// the memory of its busiest moment.
func giveBack(ctx context.Context) {
	tick := time.NewTicker(unusedEvery)
	defer tick.Stop()
	u := unused{left: true} // by the start
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if u.look(time.Now(), readHeap()) {
			debug.FreeOSMemory()
			u.given(time.Now(), readHeap())
		}
	}
}

// A heap is how many bytes of it are in use, free, and were made in all.
type heap struct{ objects, free, made uint64 }

func readHeap() heap {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	return heap{samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64()}
}

// unused decides when memory is given back.
type unused struct {
	at   time.Time // when memory was last given back
	then heap      // what was left
	last heap      // at the last look
	left bool      // more than a quiet server makes was made since
}

// look reports whether memory is to be given back now: when the server has become quiet, and when the heap has grown much.
func (u *unused) look(now time.Time, h heap) bool {
	quiet := h.made-u.last.made < quietMost
	u.last = h
	u.left = u.left || !quiet || h.objects > u.then.objects+4*quietMost
	size, then := h.objects+h.free, u.then.objects+u.then.free
	return quiet && u.left || size > then+unusedMost || size > unusedMost && now.Sub(u.at) > unusedAnyway
}

func (u *unused) given(now time.Time, h heap) { *u = unused{at: now, then: h, last: h} }

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
		collect()
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
