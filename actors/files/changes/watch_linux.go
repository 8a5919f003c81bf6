package changes

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/actors/files/changes/batch"
	"github.com/b6f6fdd7/troupe/internal/rules"
)

// Watch tells the changes of a path: of the file, or of the directory and its entries. The path may be
// missing. A Watch stays with its path, whatever file is there.
type Watch struct {
	follower
	// path to release are fixed at the beginning.
	path    string
	place   files.Place // of path
	release func() bool

	// Watcher.mu guards the fields below.
	batch *batch.Batch
	begun bool // a window has begun before Then
	ready func()
	last  place  // an event here is a change of path; the zero place: path is missing
	found fileID // at the last look; zero: path is missing

	good map[place]bool // the places of the last look without an error; owned by the look
}

// fileID identifies a file while the file exists.
type fileID struct{ device, inode uint64 }

// Watch begins a watch of an absolute path, until ctx is done. Changes after Watch has returned are
// told.
func (r *Watcher) Watch(ctx context.Context, at files.Place, room batch.Room) (*Watch, error) {
	path := filepath.Clean(at.Path)
	if len(path) > files.MaxPath {
		return nil, syscall.ENAMETOOLONG
	}
	w := &Watch{path: path, place: at, batch: batch.New(path, room)}
	w.follower = follower{kind: &r.changes, look: func() { w.lookAgain(false) }, told: w.told, broken: w.broken}
	if err := r.begin(&w.follower); err != nil {
		return nil, err
	}
	w.release = context.AfterFunc(ctx, w.end)
	if err := w.lookAgain(true); err != nil {
		w.release()
		w.end()
		return nil, err
	}
	return w, nil
}

// Then sets ready, which is called when Take has paths. ready must not block, and calls no method of
// w. After Take, ready is not called again before Written.
func (w *Watch) Then(ready func()) {
	w.watcher.mu.Lock()
	defer w.watcher.mu.Unlock()
	w.ready = ready
	if w.begun {
		w.window()
	}
}

// Take returns the changed paths, sorted. If there were too many, the watched path stands for all.
func (w *Watch) Take() []string {
	w.watcher.mu.Lock()
	defer w.watcher.mu.Unlock()
	return w.batch.Take()
}

// Written says that the client's connection has the paths of the last Take.
func (w *Watch) Written() {
	w.watcher.mu.Lock()
	defer w.watcher.mu.Unlock()
	if w.batch.Written() {
		w.window()
	}
}

// tell adds a changed path. The caller holds the lock.
func (w *Watch) tell(path string) {
	if w.batch.Add(path) {
		w.window()
	}
}

// window begins a Window. The caller holds the lock.
func (w *Watch) window() {
	if w.begun = w.ready == nil; !w.begun {
		time.AfterFunc(batch.Window, w.ready)
	}
}

// child is the path of an entry of a watched directory. The directory stands for a name that is not
// UTF-8, which no client could read.
func (w *Watch) child(name string) string {
	if !utf8.ValidString(name) {
		return w.path
	}
	return filepath.Join(w.path, name)
}

// told tells an event of a place of the watch. The caller holds the lock.
func (w *Watch) told(p place, mask uint32, name string) {
	switch {
	case name != "" && p.name == "":
		w.tell(w.child(name))
	case name != "" && w.last == p,
		name == "" && p.name == "" && mask&(unix.IN_ATTRIB|gone) != 0,
		mask&unix.IN_Q_OVERFLOW != 0: // anything may have changed
		w.tell(w.path)
	}
}

// end ends a watch; a second call does nothing.
func (w *Watch) end() {
	w.follower.end(func() {})
	w.watcher.mu.Lock()
	defer w.watcher.mu.Unlock()
	w.batch.End()
}

// broken ends a watch to which no more events come. The watched path is told, a last time.
func (w *Watch) broken() { w.follower.end(func() { w.tell(w.path) }) }

// lookAgain finds the places of the watch, and again while events come.
func (w *Watch) lookAgain(first bool) error {
	for {
		err := w.follow(first)
		if again := w.again(); !again || first && err != nil {
			return err
		}
		first = false
	}
}

// follow watches all places on the way to the file, and the entries of a directory. Each place is
// watched before follow looks there, so later changes cause events. Changes before are told by the
// watched path, unless the look is the first.
func (w *Watch) follow(first bool) error {
	v, err := w.place.View()
	if err != nil {
		return err
	}
	defer v.Close()
	places := make(map[place]bool)
	var last place
	var lastDir string
	var blind error // of the last place
	add := func(directory, name string) error {
		var p place
		if p, blind = w.add(v, directory, name, comesOrGoes, places); blind == nil {
			last, lastDir = p, directory
		}
		return blind
	}
	end, err := files.Follow(v, w.path, add)
	if blind == nil && !errors.Is(err, rules.ErrRefused) {
		err = nil // a file that cannot be looked at counts as missing
	}
	id, isDir := identify(v, w.path)
	inside := isDir && end != ""
	if inside {
		_, err = w.add(v, end, "", comesOrGoes|contents, places)
		inside = err == nil
		if files.Absent(err) { // has just vanished: an event will tell
			err = nil
		}
	}
	if id == (fileID{}) {
		last = place{}
	} else if !inside && last != (place{}) {
		// Without an error here: the place is watched already, so an event tells if its directory has vanished.
		_, _ = w.add(v, lastDir, last.name, comesOrGoes|contents, places)
	}

	r := w.watcher
	r.mu.Lock()
	if w.over {
		r.mu.Unlock()
		return context.Canceled
	}
	changed := id != w.found || w.fresh && id != fileID{} || err != nil
	w.found, w.last, w.fresh = id, last, false
	if changed && !first {
		w.tell(w.path)
	}
	r.mu.Unlock()
	if err == nil {
		w.good = places
	} else { // until a look succeeds, the watch also keeps the places that the last good look has found
		maps.Copy(places, w.good)
	}
	w.settle(places)
	return err
}

// identify returns the identity of the file that path leads to; zero: there is none.
func identify(v files.View, path string) (id fileID, isDir bool) {
	info, err := v.Stat(path)
	if err != nil {
		return fileID{}, false
	}
	return idOf(info), info.IsDir()
}

func idOf(info os.FileInfo) fileID {
	st := info.Sys().(*syscall.Stat_t)
	return fileID{uint64(st.Dev), st.Ino}
}
