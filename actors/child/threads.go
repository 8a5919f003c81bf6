package child

import "sync"

// A pool has the threads that fork.
type pool struct {
	free chan *forker // has room for all

	mu      sync.Mutex
	waiting []func(*forker) // for a thread, the oldest first: at most one for each start in flight
}

// use calls f with a free thread. If there is none, use returns at once, and a goroutine whose function has returned calls f: no
// goroutine is parked and woken for a start.
func (p *pool) use(f func(*forker)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(p.waiting, f)
	for len(p.waiting) > 0 {
		select {
		case thread := <-p.free:
			f := p.waiting[0]
			p.waiting[0] = nil
			p.waiting = p.waiting[1:]
			p.mu.Unlock()
			f(thread)
			p.mu.Lock()
			p.free <- thread
		default:
			return
		}
	}
}

// close ends the threads, once all are free.
func (p *pool) close() {
	for range cap(p.free) {
		f := <-p.free
		f.Close()
	}
}
