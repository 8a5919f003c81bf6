//go:build unix

package main

import (
	"runtime"
	"sync"
)

// threadsInHand is how many threads the server has from the start. The Go runtime keeps a thread
// forever, and ends the program if the system refuses a new thread.
const threadsInHand = 16

// makeThreads makes the runtime create n threads.
func makeThreads(n int) {
	var all, done sync.WaitGroup
	all.Add(n)
	for range n {
		done.Go(func() {
			runtime.LockOSThread() // holds a thread until all n goroutines have a thread
			defer runtime.UnlockOSThread()
			all.Done()
			all.Wait()
		})
	}
	done.Wait()
}
