package child

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/nonblock"
)

// order knows which of two streams of a child became readable first. epoll(7) returns the members of a set in this order. The
// poller of the runtime wakes goroutines in another order: of two members that it finds together, the last one first.
//
// Nobody waits for the set: a pump looks at the set before it reads.
type order struct {
	set int // -1: no order is known

	mu      sync.Mutex
	members map[int32]*stream // by descriptor
	newest  uint64            // the greatest stream.readable
	events  [64]unix.EpollEvent
}

func newOrder() *order {
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		set = -1 // the order is worth no failure
	}
	return &order{set: set, members: make(map[int32]*stream)}
}

// close is called once, and after it nothing else. No member is left.
func (o *order) close() { unix.Close(o.set) }

// add makes s a member. If the system has no room for a member, nothing is known of s.
func (o *order) add(s *stream) {
	nonblock.Control(s.file, func(fd uintptr) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if unix.EpollCtl(o.set, unix.EPOLL_CTL_ADD, int(fd), &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)}) == nil {
			o.members[int32(fd)] = s
		}
	})
}

// remove is called before the descriptor of s is closed. s need not be a member.
func (o *order) remove(s *stream) {
	nonblock.Control(s.file, func(fd uintptr) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.members[int32(fd)] == s {
			unix.EpollCtl(o.set, unix.EPOLL_CTL_DEL, int(fd), nil)
			delete(o.members, int32(fd))
		}
	})
}

// first reports whether a is to be read before b, which is about to be read: a has got output since the last read of a, and
// before b has. From now on all output of b counts as read.
func (o *order) first(a, b *stream) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for n := len(o.events); n == len(o.events); {
		n, _ = unix.EpollWait(o.set, o.events[:], 0)
		for i := range max(n, 0) {
			if s := o.members[o.events[i].Fd]; s != nil {
				o.newest++
				s.readable = o.newest
			}
		}
	}
	before := a.readable > a.seen && a.readable < b.readable
	if before {
		a.seen = a.readable
	}
	b.seen = b.readable
	return before
}
