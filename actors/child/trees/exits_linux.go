package trees

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// exits waits for the exits of all children, with one goroutine and no thread. A pidfd becomes
// readable at the exit (pidfd_open(2)), and an epoll set becomes readable when a member does
// (epoll(7)). wait(2) would hold a thread for each child; a goroutine for each child would hold 2.5
// KiB.
type exits struct {
	set  *os.File // in the runtime's poller
	conn syscall.RawConn
	// The goroutine begins with the first child, because a testing/synctest bubble cannot contain a
	// goroutine waiting for the system.
	start sync.Once
	runs  sync.WaitGroup

	mu      sync.Mutex
	waiting map[int32]func() // by pidfd
}

func newExits() (*exits, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, NoDescriptor(err)
	}
	e := &exits{waiting: make(map[int32]func())}
	if e.set, err = OurFile(fd, "exits"); err != nil {
		return nil, err
	}
	e.conn, _ = e.set.SyscallConn() // fails for a nil file only
	return e, nil
}

// close ends the goroutine. No child may be left.
func (e *exits) close() {
	e.set.Close()
	e.runs.Wait()
}

func (e *exits) run() {
	var events [64]unix.EpollEvent
	n := 0
	look := func(fd uintptr) bool {
		n, _ = unix.EpollWait(int(fd), events[:], 0) // the error is EINTR: look again
		return n != 0
	}
	for e.conn.Read(look) == nil { // until close
		for i := range max(n, 0) {
			e.mu.Lock()
			seen := e.waiting[events[i].Fd]
			delete(e.waiting, events[i].Fd)
			e.mu.Unlock()
			if seen != nil {
				go seen()
			}
		}
	}
}

// reserve makes a pidfd of the child pid, and adds the pidfd to the set, without waiting for the
// exit yet. If the system has no room for either, reserve returns -1: the child is running already,
// and watch will poll.
func (e *exits) reserve(pid int) (pidfd int) {
	e.start.Do(func() { e.runs.Go(e.run) })
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1
	}
	if err := e.control(unix.EPOLL_CTL_ADD, pidfd, 0); err != nil {
		unix.Close(pidfd)
		return -1
	}
	return pidfd
}

// watch calls seen once, on a new goroutine, when the child of t has exited.
func (e *exits) watch(t *Tree, seen func()) {
	if e.await(t, seen) {
		return
	}
	t.trees.log.Warn("the exit of a child is polled: the system has no room for a pidfd or an epoll member", "pid", t.pid)
	go func() {
		var pause Backoff
		for !t.Wait() {
			pause.Wait()
		}
		seen()
	}()
}

// await reports false if the set cannot watch the child of t.
func (e *exits) await(t *Tree, seen func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status != nil {
		return true // no wait is needed
	}
	if t.pidfd < 0 {
		return false
	}
	e.mu.Lock()
	e.waiting[int32(t.pidfd)] = seen
	e.mu.Unlock()
	err := e.control(unix.EPOLL_CTL_MOD, t.pidfd, unix.EPOLLIN|unix.EPOLLONESHOT)
	if err != nil {
		e.mu.Lock()
		delete(e.waiting, int32(t.pidfd))
		e.mu.Unlock()
	}
	return err == nil
}

func (e *exits) control(op, fd int, events uint32) (err error) {
	open := e.conn.Control(func(set uintptr) {
		err = unix.EpollCtl(int(set), op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
	})
	return errors.Join(open, err)
}
