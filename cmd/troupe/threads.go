package main

import (
	"runtime"
	"sync"
)

// threadsInHand is how many threads the server has from the start. The Go runtime keeps a thread
// that it has once made, and ends the program where the system gives it no more.
const threadsInHand = 16

// makeThreads has the runtime make n threads.
func makeThreads(n int) {
	var all, done sync.WaitGroup
	all.Add(n)
	for range n {
		done.Go(func() {
			runtime.LockOSThread() // until all have one
			defer runtime.UnlockOSThread()
			all.Done()
			all.Wait()
		})
	}
	done.Wait()
}
