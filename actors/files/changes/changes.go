// Package changes tells which files change, for fs/watch. The events come from fsnotify.
package changes

import (
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/fsnotify/fsnotify"
)

const (
	// maxDirectories is how many directories all watches together may have. Each takes a descriptor
	// on Linux.
	maxDirectories = 4096
	// maxPlaces is how many places all watches together may have; a place takes about 200 bytes.
	maxPlaces = 1 << 17
	// maxLooks is how many watches may look at the disk at the same time, each on a thread of its
	// own. Starting watches do not count.
	maxLooks = 64
)

// Watcher has the watches of all connections. All use a single fsnotify.Watcher, because a user may
// have few instances of inotify(7). The fsnotify.Watcher exists only while there are watches. The
// Watcher misses changes unknown to inotify: mounts, and changes of other machines to a network
// filesystem.
type Watcher struct {
	looks chan struct{} // a semaphore: each looking watch holds a slot

	// mu is never held for a call of fsnotify that may wait: actors take mu.
	mu          sync.Mutex
	in          *instance // nil: there are no watches
	places      int       // of all watches
	most        int       // limit for places
	directories int       // limit for directories
}

// NewWatcher returns a Watcher without watches.
func NewWatcher() *Watcher {
	return &Watcher{looks: make(chan struct{}, maxLooks), most: maxPlaces, directories: maxDirectories}
}

// instance is an fsnotify.Watcher with the watches using it.
type instance struct {
	fs *fsnotify.Watcher
	// arming is held while a directory is added to fs or removed from fs.
	arming sync.Mutex

	// Watcher.mu guards the fields below.
	all    map[*Watch]bool
	byID   map[fileID]*directory
	byName map[string]*directory
}

// fileID identifies a file while the file exists.
type fileID struct{ device, inode uint64 }

// directory is a directory known to fsnotify.
type directory struct {
	handle
	// names has the watches of each name in the directory. The name "" stands for the directory
	// itself and for everything in it.
	names map[string]map[*Watch]bool
}

// place is a name in a directory.
type place struct {
	directory *directory
	name      string
}

// begin gives the watch an instance.
func (r *Watcher) begin(w *Watch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.in == nil {
		fs, err := fsnotify.NewWatcher()
		if err != nil {
			return err
		}
		r.in = &instance{fs: fs, all: make(map[*Watch]bool), byID: make(map[fileID]*directory), byName: make(map[string]*directory)}
		go r.read(r.in)
	}
	w.in = r.in
	w.in.all[w] = true
	return nil
}

// read reads events until fsnotify is closed. read takes no time: fsnotify waits for it.
func (r *Watcher) read(in *instance) {
	for {
		select {
		case e, ok := <-in.fs.Events:
			if !ok {
				return
			}
			r.event(in, e)
		case _, ok := <-in.fs.Errors: // events were lost, or cannot be read
			if !ok {
				return
			}
			r.lost(in)
		}
	}
}

// event passes an event on to the watches concerned.
func (r *Watcher) event(in *instance, e fsnotify.Event) {
	path := filepath.Clean(e.Name)
	name := filepath.Base(path)
	moved := e.Has(fsnotify.Create | fsnotify.Remove | fsnotify.Rename)
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := in.byName[filepath.Dir(path)]; d != nil {
		for w := range d.names[name] {
			if w.last == (place{d, name}) {
				w.tell(w.path)
			}
			if moved {
				w.wake()
			}
		}
		for w := range d.names[""] {
			w.tell(w.child(name))
		}
	}
	if d := in.byName[path]; d != nil {
		for w := range d.names[""] {
			w.tell(w.path)
		}
		if e.Has(fsnotify.Remove | fsnotify.Rename) { // fsnotify has dropped the directory
			in.retire(d)
		}
	}
}

// lost is called when events were lost. Every watch tells its path, and looks.
func (r *Watcher) lost(in *instance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := range in.all {
		w.tell(w.path)
		w.wake()
	}
}

// retire forgets a directory from which no more events come. Its watches look. The caller holds
// Watcher.mu.
func (in *instance) retire(d *directory) {
	if in.forget(d) {
		d.close()
	}
	for _, watches := range d.names {
		for w := range watches {
			w.wake()
		}
	}
}

// forget removes a directory from the tables, and reports whether the directory was there. The caller
// holds Watcher.mu.
func (in *instance) forget(d *directory) bool {
	if in.byName[d.name()] != d {
		return false
	}
	delete(in.byName, d.name())
	delete(in.byID, d.id)
	return true
}

// add watches a directory with fsnotify, unless fsnotify watches it already, and registers the place
// for the watch. Opening the directory may wait for a filesystem, so no lock is held for it.
func (w *Watch) add(v files.View, path, name string) (place, error) {
	h, err := open(v, path)
	if err != nil {
		return place{}, err
	}
	in, r := w.in, w.watcher
	in.arming.Lock()
	defer in.arming.Unlock()
	d, err := r.directory(in, h)
	if err != nil {
		return place{}, err
	}
	p := place{d, name}
	if err := w.keep(p); err != nil {
		in.remove(r, []*directory{d})
		return place{}, err
	}
	return p, nil
}

// directory returns the directory for h, and adds a new directory to fsnotify. directory takes h
// over. The caller holds arming.
func (r *Watcher) directory(in *instance, h handle) (*directory, error) {
	r.mu.Lock()
	d, n := in.byID[h.id], len(in.byID)
	r.mu.Unlock()
	if d != nil && slices.Contains(in.fs.WatchList(), d.name()) {
		h.close()
		return d, nil
	}
	if d != nil { // unmounted, for example: fsnotify has dropped the directory without an event
		r.mu.Lock()
		in.retire(d)
		r.mu.Unlock()
	}
	if n >= r.directories {
		h.close()
		return nil, files.Refuse(protocol.KindLimit, "%d directories are watched for all connections, which is the most: end another watch with fs/unwatch", r.directories)
	}
	if err := in.fs.Add(h.name()); err != nil {
		h.close()
		if errors.Is(err, syscall.ENOSPC) {
			err = errors.New("fs.inotify.max_user_watches is reached: no more directories can be watched")
		}
		return nil, err
	}
	if err := h.added(); err != nil {
		in.fs.Remove(h.name())
		h.close()
		return nil, err
	}
	d = &directory{handle: h, names: make(map[string]map[*Watch]bool)}
	r.mu.Lock()
	in.byID[d.id], in.byName[d.name()] = d, d
	r.mu.Unlock()
	return d, nil
}

// remove gives up directories without any place left. The caller holds arming.
func (in *instance) remove(r *Watcher, directories []*directory) {
	for _, d := range directories {
		r.mu.Lock()
		unused := len(d.names) == 0 && in.forget(d)
		r.mu.Unlock()
		if unused {
			in.fs.Remove(d.name()) // fails if the directory has just vanished
			d.close()
		}
	}
}

// close ends the instance, without watches left.
func (in *instance) close(r *Watcher) {
	in.arming.Lock()
	defer in.arming.Unlock()
	in.fs.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range in.byName {
		d.close()
	}
	clear(in.byName)
	clear(in.byID)
}
