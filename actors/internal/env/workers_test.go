package env

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// All that is scheduled is run, also by those that are running; few wait for more; and
// when it is over none does.
func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := runtime.NumGoroutine()
		over := make(chan struct{})
		w := NewWorkers(over)
		const atOnce, rounds = 4 * idleWorkers, 50
		var ran, blocked sync.WaitGroup
		ran.Add(atOnce * rounds)
		blocked.Add(atOnce)
		for range atOnce {
			round := 0
			var run func()
			run = func() {
				if round++; round == 1 { // none of them waits for another to end
					blocked.Done()
					blocked.Wait()
				}
				if round < rounds {
					w.Schedule(run)
				}
				ran.Done()
			}
			w.Schedule(run)
		}
		ran.Wait()
		synctest.Wait()
		// Those that have ended may still be counted, and a few are the runtime's or of another test.
		const few = idleWorkers / 2
		waiting := func(most int) (n int) {
			for range 10_000 {
				if n = runtime.NumGoroutine() - before; n <= most {
					break
				}
				runtime.Gosched()
			}
			return n
		}
		if n := waiting(idleWorkers); n > idleWorkers+few || n < idleWorkers-few {
			t.Errorf("%d goroutines wait, want %d", n, idleWorkers)
		}
		ran.Add(1)
		w.Schedule(ran.Done)
		ran.Wait()
		close(over)
		synctest.Wait()
		if n := waiting(0); n > few {
			t.Errorf("%d goroutines are left", n)
		}
		ran.Add(1)
		w.Schedule(ran.Done)
		ran.Wait()
	})
}

func BenchmarkSchedule(b *testing.B) {
	over := make(chan struct{})
	defer close(over)
	w := NewWorkers(over)
	deep := func(done chan struct{}) { // as deep as an actor's Receive
		var frame [4 << 10]byte
		runtime.KeepAlive(&frame)
		done <- struct{}{}
	}
	for name, schedule := range map[string]func(func()){"workers": w.Schedule, "goroutines": func(run func()) { go run() }} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			done := make(chan struct{})
			run := func() { deep(done) }
			for b.Loop() {
				schedule(run)
				<-done
			}
		})
	}
}
