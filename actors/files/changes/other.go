//go:build unix && !linux

package changes

import (
	"context"
	"errors"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/actors/files/changes/batch"
)

// Watcher begins watches, but works on Linux only.
type Watcher struct{}

// Missing never begins on this system.
type Missing struct{}

// Watch never begins on this system.
type Watch struct{}

// NewWatcher returns a Watcher without watches.
func NewWatcher() *Watcher { return new(Watcher) }

// CanWatch reports whether the system permits watches.
func CanWatch() bool { return false }

// Missing fails: this system cannot watch.
func (*Watcher) Missing(context.Context, []files.Place, []files.Place) (*Missing, error) {
	return nil, errors.ErrUnsupported
}

// Then does nothing: no Missing has begun.
func (*Missing) Then(func()) {}

// Watch fails: this system cannot watch.
func (*Watcher) Watch(context.Context, files.Place, batch.Room) (*Watch, error) {
	return nil, errors.ErrUnsupported
}

// Then does nothing: no Watch has begun.
func (*Watch) Then(func()) {}

// Take returns nil: no Watch has begun.
func (*Watch) Take() []string { return nil }

// Written does nothing: no Watch has begun.
func (*Watch) Written() {}
