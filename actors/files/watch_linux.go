package files

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxWatched is how many paths a watch has at most; allPlaces is how many places all watches
	// have together, each 100 bytes or so.
	maxWatched = 64
	allPlaces  = 1 << 17
	// maxLooks is how many watches look at the disk at a time, each on a thread of its own, beside
	// those that begin.
	maxLooks = 64
	// watched is what may bring a path into being, or end it. That a directory is gone comes
	// unasked, as IN_IGNORED.
	watched = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVE_SELF
	// Without IN_MASK_ADD a directory that is watched already is watched for nothing for a
	// moment, and what happens then is lost (inotify_update_existing_watch of the kernel).
	watchFlags = unix.IN_ONLYDIR | unix.IN_MASK_ADD
)

// Watcher waits for files to come and go. It has one instance of inotify(7), of which a user
// may have few, and a goroutine that reads it, both only while there are watches. What is not told
// by inotify is not noticed: mounts, and what other machines do to a network filesystem.
type Watcher struct {
	looks chan struct{} // filled by those that look

	mu     sync.Mutex
	in     *inotify // nil: there are no watches
	places int      // of all watches
	most   int      // places
}

// NewWatcher returns a Watcher without watches. It holds no inotify instance yet.
func NewWatcher() *Watcher {
	return &Watcher{looks: make(chan struct{}, maxLooks), most: allPlaces}
}

// inotify is one instance, with all directories in which something is looked for.
type inotify struct {
	file *os.File
	conn syscall.RawConn

	// Guarded by Watcher.mu.
	all         map[*Watch]bool
	directories map[int32]map[string]map[*Watch]bool // by watch descriptor, and name in the directory
}

// place is where a change matters to a watch: a name in a directory.
type place struct {
	directory int32 // its watch descriptor
	name      string
}

// Watch waits for one of some paths to come into being, or to end.
type Watch struct {
	// Fixed at the beginning.
	watcher *Watcher
	in      *inotify
	paths   []string
	missing int // of paths: so many are, and the others are there
	release func() bool

	// Guarded by Watcher.mu.
	places  map[place]bool
	busy    bool // it looks, or is about to
	dirty   bool // and something has changed meanwhile
	over    bool
	changed bool
	then    func()
}

// CanWatch reports whether the system lets us watch.
func CanWatch() bool {
	in, err := newInotify()
	if err == nil {
		in.file.Close()
	}
	return err == nil
}

// Watch begins a watch that ends with the first change, or when ctx is done: a path of missing is
// there, or one of present is not, as os.Stat has it. It may be so already. A change that
// lasts no longer than it takes to look may go unnoticed.
func (r *Watcher) Watch(ctx context.Context, missing, present []string) (*Watch, error) {
	if n := len(missing) + len(present); n > maxWatched {
		return nil, refuse("%d paths are to be watched, and a watch has at most %d", n, maxWatched)
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

// Then has f called, once, when there is a change: now, if there has been one. It may not block.
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

// end ends a watch; once. The last one to end closes the instance.
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
	if last && r.in == w.in {
		r.in = nil
	}
	r.mu.Unlock()
	if changed {
		w.release()
		if then != nil {
			then()
		}
	}
	if last {
		go w.in.file.Close() // it takes the kernel 10 ms
	} else {
		w.in.forget(gone)
	}
}

// look looks at all paths, until nothing has changed meanwhile. An error ends the watch as a change
// does: who waits will look, and hear of it.
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

// differs follows all paths, and only then looks whether they are there: what changes later
// is told.
func (w *Watch) differs() (bool, error) {
	places := make(map[place]bool)
	for i, path := range w.paths {
		if err := w.follow(path, places); err != nil {
			return false, err
		}
		_, err := os.Stat(path)
		if err != nil && !absent(err) {
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

// absent reports whether an error says that there is no such file, and no other.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }

// follow goes the way of a path as the kernel does (path_resolution(7)), to its end or where it
// leads no further, and adds each place it passes before it looks there. A directory that may not
// be read is passed, if the way goes on in it.
func (w *Watch) follow(path string, places map[place]bool) error {
	directory, links := "/", 0
	var blind error // of the last place
	for rest := strings.Split(path, "/"); len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			directory = filepath.Dir(directory)
			continue
		}
		blind = w.add(directory, name, places)
		switch {
		case blind == nil, errors.Is(blind, unix.EACCES):
		case absent(blind): // only just: a place before will tell
			return nil
		default:
			return blind
		}
		here := filepath.Join(directory, name)
		info, err := os.Lstat(here)
		switch {
		case err != nil && absent(err):
			return blind
		case err != nil:
			return err
		case info.IsDir():
			directory = here
		case info.Mode()&fs.ModeSymlink == 0:
			return blind
		default:
			if links++; links > maxLinks {
				return nil // Stat will say so
			}
			link, err := os.Readlink(here)
			if err != nil {
				return nil // only just
			}
			if strings.HasPrefix(link, "/") {
				directory = "/"
			}
			rest = append(strings.Split(link, "/"), rest...)
		}
	}
	return blind
}

// add adds a place, to places as well.
func (w *Watch) add(directory, name string, places map[place]bool) error {
	// Twice: the descriptor may have been removed before it was known that we want it. If we
	// get the same again, what becomes of it is told.
	for last := int32(-1); ; {
		wd, err := w.in.add(directory)
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

// keep has the watch look when there is news of the place.
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
		return refuse("%d names in directories are watched for all connections, which is the most", r.most)
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

// drop gives up all places but those, and returns the directories in which nobody has one.
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

// unused is the directory, unless somebody has a place in it.
func (r *Watcher) unused(in *inotify, directory int32) []int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if in.directories[directory] != nil {
		return nil
	}
	return []int32{directory}
}

// wake has watches look. It is called with the lock.
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

// read reads an instance until it is closed.
func (r *Watcher) read(in *inotify) {
	var buf [4096]byte // for 15 events at least
	for {
		n, err := in.file.Read(buf[:])
		if err != nil {
			r.mu.Lock()
			left := maps.Clone(in.all) // none, if it was closed
			if r.in == in {
				r.in = nil
			}
			r.mu.Unlock()
			for w := range left {
				w.end(true)
			}
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

// event wakes those whom an event concerns. It is called with the lock.
func (r *Watcher) event(in *inotify, directory int32, mask uint32, name string) {
	if mask&unix.IN_Q_OVERFLOW != 0 { // some were lost
		r.wake(in.all)
		return
	}
	names := in.directories[directory]
	if mask&unix.IN_IGNORED != 0 {
		delete(in.directories, directory)
	}
	if name != "" {
		r.wake(names[name])
		return
	}
	for _, watches := range names { // it is about the directory itself
		r.wake(watches)
	}
}

func newInotify() (*inotify, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	in := &inotify{
		file:        os.NewFile(uintptr(fd), "inotify"),
		all:         make(map[*Watch]bool),
		directories: make(map[int32]map[string]map[*Watch]bool),
	}
	in.conn, _ = in.file.SyscallConn() // fails for a nil file only
	// Without the runtime's poller nothing could wait for it.
	if err := in.file.SetDeadline(time.Time{}); err != nil {
		in.file.Close()
		return nil, err
	}
	return in, nil
}

// add has the kernel watch a directory, which is told by its descriptor from then on.
func (in *inotify) add(directory string) (wd int32, err error) {
	failed := in.conn.Control(func(fd uintptr) {
		n, e := unix.InotifyAddWatch(int(fd), directory, watched|watchFlags)
		wd, err = int32(n), e
	})
	switch {
	case failed != nil:
		return 0, failed
	case errors.Is(err, unix.ENOSPC):
		return 0, errors.New("fs.inotify.max_user_watches is reached: no more directories can be watched")
	case err != nil:
		return 0, fmt.Errorf("watch %s: %w", directory, err)
	}
	return wd, nil
}

// forget has the kernel watch directories no longer; those that are gone it does not.
func (in *inotify) forget(directories []int32) {
	in.conn.Control(func(fd uintptr) {
		for _, wd := range directories {
			unix.InotifyRmWatch(int(fd), uint32(wd))
		}
	})
}
