package changes

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/actors/files/changes/batch"
	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
)

// maxPath is how many bytes a watched path may have: PATH_MAX of Linux without the zero byte.
const maxPath = 4095

// Watch tells the changes of a path: of the file, or of the directory and its entries. The path may be
// missing. A Watch stays with its path, whatever file is there: each name on the way to the file is a
// place, and the Watch looks again after a change there.
type Watch struct {
	// watcher to release are fixed at the beginning.
	watcher *Watcher
	in      *instance
	path    string
	place   files.Place // of path
	release func() bool

	// Watcher.mu guards the fields below.
	batch  *batch.Batch
	begun  bool // a window has begun before Then
	ready  func()
	places map[place]bool
	fresh  bool   // the look has found a new place
	last   place  // an event here is a change of path; the zero place: path is missing
	found  fileID // at the last look; zero: path is missing
	busy   bool   // the watch looks, or is about to
	dirty  bool   // events came while busy
	over   bool
}

// Watch begins a watch of an absolute path, until ctx is done. Changes after Watch has returned are
// told.
func (r *Watcher) Watch(ctx context.Context, at files.Place, room batch.Room) (*Watch, error) {
	path := filepath.Clean(at.Path)
	if len(path) > maxPath {
		return nil, syscall.ENAMETOOLONG
	}
	w := &Watch{watcher: r, path: path, place: at, batch: batch.New(path, room), places: make(map[place]bool), busy: true}
	if err := r.begin(w); err != nil {
		return nil, err
	}
	w.release = context.AfterFunc(ctx, w.end)
	if err := w.look(true); err != nil {
		w.release()
		w.end()
		return nil, err
	}
	return w, nil
}

// Path is the watched path, without dots and doubled slashes.
func (w *Watch) Path() string { return w.path }

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

// wake makes the watch look. The caller holds the lock.
func (w *Watch) wake() {
	switch {
	case w.over:
	case w.busy:
		w.dirty = true
	default:
		w.busy = true
		go func() {
			w.watcher.looks <- struct{}{}
			w.look(false)
			<-w.watcher.looks
		}()
	}
}

// end ends a watch; a second call does nothing. The end of the last watch closes the instance.
func (w *Watch) end() {
	r := w.watcher
	r.mu.Lock()
	if w.over {
		r.mu.Unlock()
		return
	}
	w.over = true
	w.batch.End()
	gone := w.drop(nil)
	delete(w.in.all, w)
	last := len(w.in.all) == 0
	if last && r.in == w.in {
		r.in = nil
	}
	r.mu.Unlock()
	if last {
		w.in.close(r)
		return
	}
	w.in.arming.Lock()
	defer w.in.arming.Unlock()
	w.in.remove(r, gone)
}

// look finds the places of the watch, and again while events come.
func (w *Watch) look(first bool) error {
	for {
		err := w.follow(first)
		w.watcher.mu.Lock()
		again := w.dirty && !w.over
		w.dirty = false
		w.busy = again
		w.watcher.mu.Unlock()
		if !again || first && err != nil {
			return err
		}
		first = false
	}
}

// follow watches all places on the way to the file, and the entries of a directory. Each place is
// watched before follow looks there, so later changes cause events. Changes before are told by the
// watched path, unless the look is the first.
func (w *Watch) follow(first bool) error {
	w.watcher.mu.Lock()
	w.fresh = false
	w.watcher.mu.Unlock()
	v, err := w.place.View()
	if err != nil {
		return err
	}
	defer v.Close()
	places := make(map[place]bool)
	var last place
	var blind error // of the last place
	add := func(directory, name string) error {
		var p place
		if p, blind = w.add(v, directory, name); blind == nil {
			places[p], last = true, p
		}
		return blind
	}
	end, err := files.Follow(v, w.path, add)
	if blind == nil && !errors.Is(err, rules.ErrRefused) {
		err = nil // a file that cannot be looked at counts as missing
	}
	id, isDir := identify(v, w.path)
	if isDir && end != "" {
		way := last
		if err = add(end, ""); files.Absent(err) { // has just vanished: an event will tell
			err = nil
		}
		last = way
	}

	r := w.watcher
	r.mu.Lock()
	if w.over {
		r.mu.Unlock()
		return context.Canceled
	}
	changed := id != w.found || w.fresh && id != fileID{} || err != nil
	w.found, w.last = id, last
	if id == (fileID{}) {
		w.last = place{}
	}
	if changed && !first {
		w.tell(w.path)
	}
	var gone []*directory
	if err == nil {
		gone = w.drop(places)
	}
	r.mu.Unlock()
	w.in.arming.Lock()
	defer w.in.arming.Unlock()
	w.in.remove(r, gone)
	return err
}

// keep registers the place: its events concern the watch.
func (w *Watch) keep(p place) error {
	r := w.watcher
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case w.over:
		return context.Canceled
	case w.places[p]:
		return nil
	case w.in.byName[p.directory.name()] != p.directory: // retired just now
		w.dirty = true
		return nil
	case r.places >= r.most:
		return files.Refuse(protocol.KindLimit, "%d names in directories are watched for all connections, which is the most: end another watch with fs/unwatch", r.most)
	}
	w.places[p], w.fresh = true, true
	r.places++
	watches := p.directory.names[p.name]
	if watches == nil {
		watches = make(map[*Watch]bool)
		p.directory.names[p.name] = watches
	}
	watches[w] = true
	return nil
}

// drop gives up all places except those in but, and returns the directories without any place left.
// The caller holds the lock.
func (w *Watch) drop(but map[place]bool) (gone []*directory) {
	for p := range w.places {
		if but[p] {
			continue
		}
		delete(w.places, p)
		w.watcher.places--
		names := p.directory.names
		delete(names[p.name], w)
		if len(names[p.name]) == 0 {
			delete(names, p.name)
		}
		if len(names) == 0 {
			gone = append(gone, p.directory)
		}
	}
	return gone
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
