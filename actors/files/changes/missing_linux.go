package changes

import (
	"context"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/protocol"
)

// maxWatched is how many paths a single Missing may have.
const maxWatched = 64

// Missing waits until a path comes into being, or a path vanishes.
type Missing struct {
	follower
	// paths to release are fixed at the beginning.
	paths   []files.Place
	missing int // the first missing of paths do not exist, the others exist
	release func() bool

	// Watcher.mu guards the fields below.
	changed bool
	then    func()
}

// Missing begins a Missing. It ends when a path of missing exists, when a path of present does
// not exist (as os.Stat sees both), or when ctx is done. The Missing may end at once. A change undone
// before the Missing has looked may go unnoticed.
func (r *Watcher) Missing(ctx context.Context, missing, present []files.Place) (*Missing, error) {
	if n := len(missing) + len(present); n > maxWatched {
		return nil, files.Refuse(protocol.KindLimit, "%d paths are to be watched, and a watch has at most %d", n, maxWatched)
	}
	w := &Missing{paths: append(missing[:len(missing):len(missing)], present...), missing: len(missing)}
	w.follower = follower{kind: &r.missing, look: func() { w.lookAgain() }, broken: func() { w.end(true) }}
	if err := r.begin(&w.follower); err != nil {
		return nil, err
	}
	w.release = context.AfterFunc(ctx, func() { w.end(false) })
	if err := w.lookAgain(); err != nil {
		return nil, err
	}
	return w, nil
}

// Then sets f, which is called once, when the Missing ends with a change. If there was a change
// before, Then calls f at once. f must not block.
func (w *Missing) Then(f func()) {
	w.watcher.mu.Lock()
	w.then = f
	changed := w.changed
	w.watcher.mu.Unlock()
	if changed {
		f()
	}
}

// end ends a Missing, by a change or without; a second call does nothing.
func (w *Missing) end(changed bool) {
	var then func()
	w.follower.end(func() { w.changed, then = changed, w.then })
	if changed {
		w.release()
	}
	if changed && then != nil {
		then()
	}
}

// lookAgain looks at all paths, and again while events come. An error ends the Missing like a change: the
// client will look at the path and get the error.
func (w *Missing) lookAgain() error {
	for again := true; again; again = w.again() {
		if changed, err := w.differs(); changed || err != nil {
			w.end(true)
			return err
		}
	}
	return nil
}

// differs reports whether a path exists but should be missing, or the other way round. It watches
// the places of a path before it looks at the path, so later changes cause events.
func (w *Missing) differs() (bool, error) {
	places := make(map[place]bool)
	for i, path := range w.paths {
		err := w.find(path, places)
		if err != nil && !files.Absent(err) {
			return false, err
		}
		if (err != nil) != (i < w.missing) {
			return true, nil
		}
	}
	w.settle(places)
	return false, nil
}

// find watches the places of a path, and then looks at the path. An error of the look is as of os.Stat.
func (w *Missing) find(path files.Place, places map[place]bool) error {
	v, err := path.View()
	if err != nil {
		return err
	}
	defer v.Close()
	add := func(directory, name string) error {
		_, err := w.add(v, directory, name, comesOrGoes, places)
		return err
	}
	if _, err := files.Follow(v, path.Path, add); err != nil {
		return err
	}
	_, err = v.Stat(path.Path)
	return err
}
