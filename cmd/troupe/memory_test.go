//go:build unix

package main

import (
	"log/slog"
	"runtime"
	"strconv"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
)

// The actor system of a server is small. It still has the actors that protoactor made.
func TestSystemIsSmall(t *testing.T) {
	before := heapInUse()
	system := newSystem(slog.New(slog.DiscardHandler))
	defer system.Shutdown()
	if kept := heapInUse() - before; kept > 1<<20 {
		t.Errorf("an actor system takes %d bytes, want 1 MiB at most", kept)
	}
	for _, name := range []string{"deadletter", "eventstream"} {
		if _, ok := system.ProcessRegistry.GetLocal(name); !ok {
			t.Errorf("the registry does not know %s", name)
		}
	}
	runtime.KeepAlive(system)
}

// heapInUse returns the bytes of live objects.
func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkNames spawns and stops actors, each with a name of its own, and reports the memory that the actor system keeps.
func BenchmarkNames(b *testing.B) {
	before := heapInUse()
	system := newSystem(slog.New(slog.DiscardHandler))
	defer system.Shutdown()
	props := actor.PropsFromFunc(func(actor.Context) {})
	n := 0
	for b.Loop() {
		pid, err := system.Root.SpawnNamed(props, "sessions/a/p-"+strconv.Itoa(n))
		if err != nil {
			b.Fatal(err)
		}
		if err := system.Root.StopFuture(pid).Wait(); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64(heapInUse()-before), "bytes-kept")
	runtime.KeepAlive(system)
}
