package changes

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// maxPlaces is how many places all watches of a kind together may have; a place takes about 100 bytes.
	maxPlaces = 1 << 17
	// maxDirectories is how many directories all watches of fs/watch together may have.
	maxDirectories = 4096
	// maxLooks is how many watches may look at the disk at the same time, each on a thread of its
	// own. Starting watches do not count.
	maxLooks = 64
	// comesOrGoes are the events that may create or remove a path. The removal of a directory is
	// reported without asking, as IN_IGNORED.
	comesOrGoes = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVE_SELF
	// gone are the events of a directory that is no longer where it was.
	gone = unix.IN_IGNORED | unix.IN_MOVE_SELF
	// contents are the further events of a directory whose entries are told. Directories on the way to a file do without: others
	// may write there all the time.
	contents = unix.IN_MODIFY | unix.IN_ATTRIB
	// IN_MASK_ADD is needed for a directory already watched: without IN_MASK_ADD the kernel clears
	// the mask for a moment, and events in this moment are lost (inotify_update_existing_watch of
	// the kernel).
	watchFlags = unix.IN_ONLYDIR | unix.IN_MASK_ADD
)

// errFull means: the system watches no more directories.
var errFull = files.Fail(protocol.KindLimit, "fs.inotify.max_user_watches is reached: no more directories can be watched")

// Watcher has the watches of all connections. It uses a single instance of inotify(7), and a goroutine reading the instance. Both exist
// only while there are watches. The Watcher misses changes unknown to inotify: mounts, and changes of other machines to a network
// filesystem.
type Watcher struct {
	looks chan struct{} // a semaphore: each looking watch holds a slot

	// mu is never held for a system call: actors take mu.
	mu      sync.Mutex
	in      *inotify  // nil: there are no watches
	closing bool      // the function close runs
	gaveUp  sync.Cond // with mu: the kernel has given a directory up, or a follower has ended
	missing kind
	changes kind
}

// kind is what the watches of a kind have in common.
type kind struct {
	advice      string // after the refusal of more
	most        int    // limit for places
	directories int    // limit for directories; 0: none

	places int // of all watches; Watcher.mu guards it
}

// NewWatcher returns a Watcher without watches and without an inotify instance.
func NewWatcher() *Watcher {
	r := &Watcher{
		looks:   make(chan struct{}, maxLooks),
		missing: kind{most: maxPlaces},
		changes: kind{most: maxPlaces, directories: maxDirectories, advice: ": end another watch with fs/unwatch"},
	}
	r.gaveUp.L = &r.mu
	return r
}

// inotify is an inotify instance with the watches using it.
type inotify struct {
	file *os.File
	conn syscall.RawConn
	// Watcher.mu guards the fields below.
	all         map[*follower]bool
	directories map[int32]names // by watch descriptor
	changes     map[int32]int   // how many places of fs/watch a directory has
	ending      map[int32]bool  // directories without a place, while the kernel is told to give them up
}

// names has the watches of each name in a directory. The name "" stands for the directory itself and for everything in it.
type names map[string]map[*follower]bool

// place is a name in a directory.
type place struct {
	directory int32 // watch descriptor of the directory
	name      string
}

// follower is what watches of both kinds have: their places.
type follower struct {
	// watcher to event are fixed at the beginning.
	watcher *Watcher
	kind    *kind
	in      *inotify
	look    func() // looks at the disk
	// told gets an event of a place before the watch looks again; nil: the watch tells no events. name is in the directory; "": the event
	// is about the directory itself. The zero place: events were lost. The caller holds the lock, so told must not wait.
	told func(p place, mask uint32, name string)
	// broken ends the watch, and tells its client: no more events come.
	broken func()

	// Watcher.mu guards the fields below.
	places map[place]bool
	busy   bool // the watch looks, or is about to
	dirty  bool // events came while busy
	fresh  bool // there is a new place
	over   bool
}

// CanWatch reports whether the system permits watches.
func CanWatch() bool {
	in, err := newInotify()
	if err == nil {
		in.file.Close()
	}
	return err == nil
}

func newInotify() (*inotify, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	in := &inotify{
		file:        os.NewFile(uintptr(fd), "inotify"),
		all:         make(map[*follower]bool),
		directories: make(map[int32]names),
		changes:     make(map[int32]int),
		ending:      make(map[int32]bool),
	}
	in.conn, _ = in.file.SyscallConn() // fails for a nil file only
	// A file outside of the runtime's poller has no deadlines, and could not be waited for.
	if err := in.file.SetDeadline(time.Time{}); err != nil {
		in.file.Close()
		return nil, err
	}
	return in, nil
}

// begin gives a follower an instance. The caller looks first.
func (r *Watcher) begin(f *follower) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.in == nil {
		if r.in, err = newInotify(); err != nil {
			return err
		}
		go r.read(r.in)
	}
	f.watcher, f.in, f.places, f.busy = r, r.in, make(map[place]bool), true
	f.in.all[f] = true
	return nil
}

// end ends a follower, and calls last under the lock; a second call does nothing. The end of the last follower closes the inotify
// instance, unless another instance is being closed: then close will do it.
func (f *follower) end(last func()) {
	r := f.watcher
	r.mu.Lock()
	if f.over {
		r.mu.Unlock()
		return
	}
	f.over = true
	r.gaveUp.Broadcast()
	gone := f.drop(nil)
	delete(f.in.all, f)
	closes := len(f.in.all) == 0
	if r.in == f.in {
		if closes = closes && !r.closing; closes {
			r.in, r.closing = nil, true
		}
	}
	last()
	r.mu.Unlock()
	if closes {
		go r.close(f.in)
	} else {
		f.in.remove(r, gone)
	}
}

// close closes an instance, and then the present instance if it has no watch. A close takes the kernel 10 ms, and
// until then the instance counts for its user. So a Watcher has two instances at most, also when watches come and
// go quickly.
func (r *Watcher) close(in *inotify) {
	for in != nil {
		in.file.Close()
		r.mu.Lock()
		if in, r.closing = nil, false; r.in != nil && len(r.in.all) == 0 {
			in, r.in, r.closing = r.in, nil, true
		}
		r.mu.Unlock()
	}
}

// read reads events until the instance is closed.
func (r *Watcher) read(in *inotify) {
	var buf [4096]byte // room for 15 events at least
	for {
		n, err := in.file.Read(buf[:])
		if err != nil {
			r.broke(in)
			return
		}
		r.mu.Lock()
		for events := buf[:n]; len(events) >= unix.SizeofInotifyEvent; {
			directory := int32(binary.NativeEndian.Uint32(events))
			mask := binary.NativeEndian.Uint32(events[4:])
			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[12:]))
			name, _, _ := strings.Cut(string(events[unix.SizeofInotifyEvent:end]), "\x00")
			events = events[end:]
			r.event(in, directory, mask, name)
		}
		r.mu.Unlock()
	}
}

// broke is called when an instance gives no more events. No watch is left if the instance was closed.
func (r *Watcher) broke(in *inotify) {
	r.mu.Lock()
	var left []*follower
	for f := range in.all {
		left = append(left, f)
	}
	broken := r.in == in
	if broken {
		r.in = nil
	}
	r.mu.Unlock()
	if broken && len(left) == 0 { // no watch will end, and close the instance
		in.file.Close()
	}
	for _, f := range left {
		f.broken()
	}
}

// event passes an event on to the watches concerned. The caller holds the lock.
func (r *Watcher) event(in *inotify, directory int32, mask uint32, name string) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		for f := range in.all {
			f.event(place{}, mask, "")
		}
		return
	}
	names := in.directories[directory]
	if mask&unix.IN_IGNORED != 0 {
		delete(in.directories, directory)
		delete(in.changes, directory)
	}
	if name != "" {
		for _, of := range []string{name, ""} {
			for f := range names[of] {
				f.event(place{directory, of}, mask, name)
			}
		}
		return
	}
	for of, followers := range names {
		for f := range followers {
			f.event(place{directory, of}, mask, "")
		}
	}
}

// add makes the kernel watch the directory for the events of mask, beside others asked for before, and adds the place to places and to
// the follower. The kernel may wait for a filesystem, so no lock is held for it.
func (f *follower) add(v files.View, directory, name string, mask uint32, places map[place]bool) (p place, err error) {
	in, r := f.in, f.watcher
	// Repeated until the descriptor stays the same: before keep registers it, the directory may vanish, or another watch's end may give
	// it up. A registered descriptor reports its events.
	for p.directory = -1; ; {
		wd, err := in.add(v, directory, mask)
		switch {
		case errors.Is(err, unix.ENOSPC):
			return p, errFull
		case err != nil:
			return p, err
		case wd == p.directory:
			places[p] = true
			return p, nil
		}
		r.mu.Lock()
		if in.ending[wd] {
			for in.ending[wd] && !f.over {
				r.gaveUp.Wait()
			}
			over := f.over
			r.mu.Unlock()
			if over {
				return p, context.Canceled
			}
			continue // the directory gets another descriptor
		}
		p = place{wd, name}
		err = f.keep(p)
		unused := in.directories[wd] == nil
		if unused {
			in.ending[wd] = true
		}
		r.mu.Unlock()
		if unused {
			in.remove(r, []int32{wd})
		}
		if err != nil {
			return p, err
		}
	}
}

// keep registers the place: its events concern the follower. The caller holds the lock.
func (f *follower) keep(p place) error {
	in, k := f.in, f.kind
	switch {
	case f.over:
		return context.Canceled
	case f.places[p] && in.directories[p.directory][p.name][f]:
		return nil
	case k.directories > 0 && in.changes[p.directory] == 0 && len(in.changes) >= k.directories:
		return files.Refuse(protocol.KindLimit, "%d directories are watched for all connections, which is the most%s", k.directories, k.advice)
	case k.places >= k.most:
		return files.Refuse(protocol.KindLimit, "%d names in directories are watched for all connections, which is the most%s", k.most, k.advice)
	}
	if !f.places[p] {
		f.places[p] = true
		k.places++
	}
	f.fresh = true
	if k.directories > 0 {
		in.changes[p.directory]++
	}
	of := in.directories[p.directory]
	if of == nil {
		of = make(names)
		in.directories[p.directory] = of
	}
	if of[p.name] == nil {
		of[p.name] = make(map[*follower]bool)
	}
	of[p.name][f] = true
	return nil
}

// drop gives up all places except those in but, and returns the directories without any place left.
// The caller holds the lock, and then removes them.
func (f *follower) drop(but map[place]bool) (gone []int32) {
	in := f.in
	for p := range f.places {
		if but[p] {
			continue
		}
		delete(f.places, p)
		f.kind.places--
		of := in.directories[p.directory]
		if of == nil {
			continue // the kernel has given the directory up
		}
		if f.kind.directories > 0 {
			if in.changes[p.directory]--; in.changes[p.directory] == 0 {
				delete(in.changes, p.directory)
			}
		}
		delete(of[p.name], f)
		if len(of[p.name]) == 0 {
			delete(of, p.name)
		}
		if len(of) == 0 {
			delete(in.directories, p.directory)
			in.ending[p.directory] = true
			gone = append(gone, p.directory)
		}
	}
	return gone
}

// settle gives up all places except those that a look has found.
func (f *follower) settle(found map[place]bool) {
	f.watcher.mu.Lock()
	gone := f.drop(found)
	f.watcher.mu.Unlock()
	f.in.remove(f.watcher, gone)
}

// event tells an event of a place, and makes the watch look if its path may lead elsewhere now. The caller holds the lock.
func (f *follower) event(p place, mask uint32, name string) {
	if f.told != nil {
		f.told(p, mask, name)
	}
	switch {
	case name == "" && mask&gone != 0:
		f.fresh = true
		f.wake()
	case mask&unix.IN_Q_OVERFLOW != 0, name != "" && p.name != "" && mask&comesOrGoes != 0:
		f.wake()
	}
}

// wake makes the watch look. The caller holds the lock.
func (f *follower) wake() {
	switch {
	case f.over:
	case f.busy:
		f.dirty = true
	default:
		f.busy = true
		go func() {
			f.watcher.looks <- struct{}{}
			f.look()
			<-f.watcher.looks
		}()
	}
}

// again is called after a look, and reports whether the watch must look again.
func (f *follower) again() bool {
	f.watcher.mu.Lock()
	defer f.watcher.mu.Unlock()
	f.busy = f.dirty && !f.over
	f.dirty = false
	return f.busy
}

// add makes the kernel watch a directory. Events refer to the directory by the returned descriptor, which no other directory ever has.
func (in *inotify) add(v files.View, directory string, mask uint32) (wd int32, err error) {
	err = v.Pin(directory, func(path string) error {
		closed := in.conn.Control(func(fd uintptr) {
			n, e := unix.InotifyAddWatch(int(fd), path, mask|watchFlags)
			wd, err = int32(n), e
		})
		if err = cmp.Or(closed, err); err != nil {
			err = fmt.Errorf("watch %s: %w", directory, err)
		}
		return err
	})
	return wd, err
}

// remove ends the kernel's watches of directories. Errors about vanished directories are ignored.
func (in *inotify) remove(r *Watcher, directories []int32) {
	if len(directories) == 0 {
		return
	}
	in.conn.Control(func(fd uintptr) {
		for _, directory := range directories {
			unix.InotifyRmWatch(int(fd), uint32(directory))
		}
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, directory := range directories {
		delete(in.ending, directory)
	}
	r.gaveUp.Broadcast()
}
