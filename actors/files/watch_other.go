//go:build unix && !linux

package files

import (
	"context"
	"errors"
)

// Watcher waits for files to come and go; only Linux has one that does.
type Watcher struct{}

type Watch struct{}

func NewWatcher() *Watcher { return new(Watcher) }

// CanWatch reports whether the system lets us watch.
func CanWatch() bool { return false }

func (*Watcher) Watch(context.Context, []string, []string) (*Watch, error) {
	return nil, errors.ErrUnsupported
}

func (*Watch) Then(func()) {}
