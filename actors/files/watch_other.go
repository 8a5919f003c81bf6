//go:build unix && !linux

package files

import (
	"context"
	"errors"
)

// Watcher waits for files to come and go, but works on Linux only.
type Watcher struct{}

// Watch never begins on this system.
type Watch struct{}

// NewWatcher returns a Watcher without watches.
func NewWatcher() *Watcher { return new(Watcher) }

// CanWatch reports whether the system permits watches.
func CanWatch() bool { return false }

// Watch fails: this system cannot watch.
func (*Watcher) Watch(context.Context, []Place, []Place) (*Watch, error) {
	return nil, errors.ErrUnsupported
}

// Then does nothing: no Watch has begun.
func (*Watch) Then(func()) {}
