//go:build unix

package main

import (
	"log/slog"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"testing"
	"time"

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

// A large heap is collected when it has grown by half, and a small one later. Each collection decides anew.
func TestPaceOfCollections(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	want := func(what string, right func(percent uint64) bool) {
		t.Helper()
		percent := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		for end := time.Now().Add(time.Minute); ; {
			runtime.GC()
			if metrics.Read(percent); right(percent[0].Value.Uint64()) {
				return
			} else if time.Now().After(end) {
				t.Fatalf("%s: GOGC is %d", what, percent[0].Value.Uint64())
			}
		}
	}
	collect()
	large := make([]byte, 3*garbageLeast)
	want("a large heap", func(percent uint64) bool { return percent == garbagePercent })
	runtime.KeepAlive(large)
	want("a small heap", func(percent uint64) bool { return percent > garbagePercent && percent <= 400 })
}

// Memory is given back once when a server has become quiet, and while a heap grows.
func TestUnusedMemory(t *testing.T) {
	const kib, mib = 1 << 10, 1 << 20
	start := time.Now()
	u := unused{left: true}
	for i, look := range []struct {
		made, objects, free uint64
		want                bool
	}{
		{20 * mib, 10 * mib, 0, false},
		{20*mib + 100*kib, 10 * mib, 0, true}, // what the start has left
		{20*mib + 200*kib, 5 * mib, 0, false},
		{60 * mib, 20 * mib, 0, false}, // busy
		{90 * mib, 50 * mib, 10 * mib, true},
		{120 * mib, 50 * mib, 0, false},
		{120*mib + kib, 50 * mib, 0, true},
		{120*mib + 2*kib, 49 * mib, 0, false},
		{120*mib + 3*kib, 49*mib + 900*kib, 0, false},
		{121 * mib, 54 * mib, 0, false}, // slowly
		{121*mib + kib, 54*mib + kib, 0, true},
	} {
		h := heap{look.objects, look.free, look.made}
		now := start.Add(time.Duration(i) * unusedEvery)
		if got := u.look(now, h); got != look.want {
			t.Fatalf("look %d: %t", i, got)
		}
		if look.want {
			u.given(now, h)
		}
	}
	if h := (heap{unusedMost + 1, 0, 900 * mib}); u.look(start.Add(time.Hour), h) != true {
		t.Error("a large heap of a busy server is never given back")
	}
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
