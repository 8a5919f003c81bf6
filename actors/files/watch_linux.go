package files

import (
	"context"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// maxWatched is how many paths a single watch may have. allPlaces is how many places all
	// watches together may have; a place takes about 100 bytes.
	maxWatched = 64
	allPlaces  = 1 << 17
	// maxLooks is how many watches may look at the disk at the same time, each on a thread of its
	// own. Starting watches do not count.
	maxLooks = 64
	// watched are the events that may create or remove a path. The removal of a directory is
	// reported without asking, as IN_IGNORED.
	watched = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVE_SELF
	// IN_MASK_ADD is needed for a directory already watched: without IN_MASK_ADD the kernel clears
	// the mask for a moment, and events in this moment are lost (inotify_update_existing_watch of
	// the kernel).
	watchFlags = unix.IN_ONLYDIR | unix.IN_MASK_ADD
)

// Watcher waits for files to come and go. It uses a single instance of inotify(7), because a user
// may have few instances, and a goroutine reading the instance. Both exist only while there are
// watches. The Watcher misses changes unknown to inotify: mounts, and changes of other machines to
// a network filesystem.
type Watcher struct {
	looks chan struct{} // a semaphore: each looking watch holds a slot

	mu      sync.Mutex
	in      *inotify // nil: there are no watches
	closing bool     // close runs
	places  int      // of all watches
	most    int      // limit for places
}

// NewWatcher returns a Watcher without watches and without an inotify instance.
func NewWatcher() *Watcher {
	return &Watcher{looks: make(chan struct{}, maxLooks), most: allPlaces}
}

// inotify is an inotify instance with the watches using it.
type inotify struct {
	file *os.File
	conn syscall.RawConn

	// Watcher.mu guards all and directories.
	all         map[*Watch]bool
	directories map[int32]map[string]map[*Watch]bool // by watch descriptor, and name in the directory
}

// place is a name in a directory. An event for a place makes the watch look at its paths again.
type place struct {
	directory int32 // watch descriptor of the directory
	name      string
}

// Watch waits until a path comes into being, or a path vanishes.
type Watch struct {
	// watcher to missing are fixed at the beginning; so is release, once set.
	watcher *Watcher
	in      *inotify
	paths   []Place
	missing int // the first missing of paths do not exist, the others exist
	release func() bool

	// Watcher.mu guards the fields below.
	places  map[place]bool
	busy    bool // the watch looks, or is about to
	dirty   bool // events came while busy
	over    bool
	changed bool
	then    func()
}

// CanWatch reports whether the system permits watches.
func CanWatch() bool {
	in, err := newInotify()
	if err == nil {
		in.file.Close()
	}
	return err == nil
}

// Watch begins a watch. The watch ends when a path of missing exists, when a path of present does
// not exist (as os.Stat sees both), or when ctx is done. The watch may end at once. A change undone
// before the watch has looked may go unnoticed.
func (r *Watcher) Watch(ctx context.Context, missing, present []Place) (*Watch, error) {
	if n := len(missing) + len(present); n > maxWatched {
		return nil, refuse(protocol.KindLimit, "%d paths are to be watched, and a watch has at most %d", n, maxWatched)
	}
	w := &Watch{watcher: r, paths: append(missing[:len(missing):len(missing)], present...), missing: len(missing), places: make(map[place]bool), busy: true}
	if err := r.begin(w); err != nil {
		return nil, err
	}
	w.release = context.AfterFunc(ctx, func() { w.end(false) })
	if err := w.look(); err != nil {
		return nil, err
	}
	return w, nil
}

// Then sets f, which is called once, when the watch ends with a change. If there was a change
// before, Then calls f at once. f must not block.
func (w *Watch) Then(f func()) {
	w.watcher.mu.Lock()
	w.then = f
	changed := w.changed
	w.watcher.mu.Unlock()
	if changed {
		f()
	}
}

func (r *Watcher) begin(w *Watch) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.in == nil {
		if r.in, err = newInotify(); err != nil {
			return err
		}
		go r.read(r.in)
	}
	w.in = r.in
	w.in.all[w] = true
	return nil
}

// end ends a watch; a second call does nothing. The end of the last watch closes the inotify
// instance, unless another instance is being closed: then close will do it.
func (w *Watch) end(changed bool) {
	r := w.watcher
	r.mu.Lock()
	if w.over {
		r.mu.Unlock()
		return
	}
	w.over, w.changed = true, changed
	gone := w.drop(nil)
	delete(w.in.all, w)
	then := w.then
	last := len(w.in.all) == 0
	if r.in == w.in {
		if last = last && !r.closing; last {
			r.in, r.closing = nil, true
		}
	}
	r.mu.Unlock()
	if changed {
		w.release()
		if then != nil {
			then()
		}
	}
	if last {
		go r.close(w.in)
	} else {
		w.in.forget(gone)
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

// look looks at all paths, and again while events come. An error ends the watch like a change: the
// client will look at the path and get the error.
func (w *Watch) look() error {
	for {
		changed, err := w.differs()
		if changed || err != nil {
			w.end(true)
			return err
		}
		w.watcher.mu.Lock()
		again := w.dirty
		w.dirty = false
		w.busy = again
		w.watcher.mu.Unlock()
		if !again {
			return nil
		}
	}
}

// differs reports whether a path exists but should be missing, or the other way round. It watches
// the places of a path before it looks at the path, so later changes cause events.
func (w *Watch) differs() (bool, error) {
	places := make(map[place]bool)
	for i, place := range w.paths {
		err := w.find(place, places)
		if err != nil && !Absent(err) {
			return false, err
		}
		if (err != nil) != (i < w.missing) {
			return true, nil
		}
	}
	w.watcher.mu.Lock()
	gone := w.drop(places)
	w.watcher.mu.Unlock()
	w.in.forget(gone)
	return false, nil
}

// find watches the places of a path, and then looks at the path. An error of the look is as of os.Stat.
func (w *Watch) find(p Place, places map[place]bool) error {
	v, err := p.View()
	if err != nil {
		return err
	}
	defer v.Close()
	if _, err := Follow(v, p.Path, func(directory, name string) error { return w.add(v, directory, name, places) }); err != nil {
		return err
	}
	_, err = v.Stat(p.Path)
	return err
}

// add watches the directory, and adds the place to places and to the watch.
func (w *Watch) add(v View, directory, name string, places map[place]bool) error {
	// Repeated until the descriptor stays the same: another watch's end may have removed the
	// descriptor before keep registered it. A registered descriptor reports its events.
	for last := int32(-1); ; {
		wd, err := w.in.add(v, directory)
		if err != nil {
			return err
		}
		if wd == last {
			return nil
		}
		last = wd
		p := place{wd, name}
		places[p] = true
		if err := w.keep(p); err != nil {
			w.in.forget(w.watcher.unused(w.in, wd))
			return err
		}
	}
}

// keep registers the place: an event for the place makes the watch look.
func (w *Watch) keep(p place) error {
	r := w.watcher
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case w.over:
		return context.Canceled
	case w.places[p] && w.in.directories[p.directory][p.name][w]:
		return nil
	case r.places >= r.most:
		return refuse(protocol.KindLimit, "%d names in directories are watched for all connections, which is the most", r.most)
	}
	if !w.places[p] {
		w.places[p] = true
		r.places++
	}
	names := w.in.directories[p.directory]
	if names == nil {
		names = make(map[string]map[*Watch]bool)
		w.in.directories[p.directory] = names
	}
	if names[p.name] == nil {
		names[p.name] = make(map[*Watch]bool)
	}
	names[p.name][w] = true
	return nil
}

// drop gives up all places except those in but, and returns the directories without any place left.
// The caller holds the lock.
func (w *Watch) drop(but map[place]bool) (gone []int32) {
	for p := range w.places {
		if but[p] {
			continue
		}
		delete(w.places, p)
		w.watcher.places--
		names := w.in.directories[p.directory]
		delete(names[p.name], w)
		if len(names[p.name]) == 0 {
			delete(names, p.name)
		}
		if names != nil && len(names) == 0 {
			delete(w.in.directories, p.directory)
			gone = append(gone, p.directory)
		}
	}
	return gone
}

// unused returns the directory, unless a watch has a place in it.
func (r *Watcher) unused(in *inotify, directory int32) []int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if in.directories[directory] != nil {
		return nil
	}
	return []int32{directory}
}

// wake makes watches look. The caller holds the lock.
func (r *Watcher) wake(watches map[*Watch]bool) {
	for w := range watches {
		if w.busy {
			w.dirty = true
			continue
		}
		w.busy = true
		go func() {
			r.looks <- struct{}{}
			w.look()
			<-r.looks
		}()
	}
}
