// Package batch decides when the client of a watch is told, and which paths.
package batch

import (
	"maps"
	"slices"
	"time"
)

const (
	// Window is how long a Batch collects paths after the first path.
	Window = 200 * time.Millisecond
	// MaxPaths is how many paths a Batch may have.
	MaxPaths = 1024
	// pathBytes is the memory of a path in a Batch, beyond its characters.
	pathBytes = 64
)

// Room bounds the memory of batches, in bytes. A *budget.Part is a Room.
type Room interface {
	Try(n int) bool
	Give(n int)
}

// Batch collects the changed paths of a watch until the next notification. Batch is a pure machine:
// its owner keeps the time.
//
//	quiet ── Add ──▶ collecting ── Take, a Window later ──▶ sending ── Written, no new paths ──▶ quiet
//	                     ▲───────── Written, with new paths ───┘
type Batch struct {
	root string // the watched path
	room Room

	stage stage
	paths map[string]bool
	held  int  // bytes of room for paths
	sent  int  // bytes of room for the paths taken and not written
	lost  bool // there was no room: root stands for all paths
}

type stage int

const (
	quiet      stage = iota // no paths
	collecting              // a window has begun
	sending                 // a notification is on its way
	over
)

// New returns a Batch without paths. root is the watched path.
func New(root string, room Room) *Batch { return &Batch{root: root, room: room} }

// Add adds a changed path. begins says that a Window begins: at its end the owner calls Take.
func (b *Batch) Add(path string) (begins bool) {
	if b.stage == over {
		return false
	}
	b.collect(path)
	begins = b.stage == quiet
	if begins {
		b.stage = collecting
	}
	return begins
}

// collect adds a path. Without room for the path, the batch forgets its paths, and has root alone.
func (b *Batch) collect(path string) {
	if b.lost || b.paths[path] {
		return
	}
	n := len(path) + pathBytes
	if len(b.paths) == MaxPaths || !b.room.Try(n) {
		b.room.Give(b.held)
		b.paths, b.held, b.lost = nil, 0, true
		return
	}
	if b.paths == nil {
		b.paths = make(map[string]bool)
	}
	b.paths[path] = true
	b.held += n
}

// Take ends the window and returns the paths for a notification, sorted. Nil: there is no window.
// The owner calls Written when the client's connection has the notification.
func (b *Batch) Take() []string {
	if b.stage != collecting {
		return nil
	}
	paths := slices.Sorted(maps.Keys(b.paths))
	if b.lost {
		paths = []string{b.root}
	}
	b.stage, b.sent = sending, b.held
	b.paths, b.held, b.lost = nil, 0, false
	return paths
}

// Written ends the wait for the last notification. begins says that paths came meanwhile, and a
// Window begins.
func (b *Batch) Written() (begins bool) {
	if b.stage != sending {
		return false
	}
	b.room.Give(b.sent)
	b.sent, b.stage = 0, quiet
	if len(b.paths) > 0 || b.lost {
		b.stage = collecting
	}
	return b.stage == collecting
}

// End drops all paths. Later calls do nothing.
func (b *Batch) End() {
	b.room.Give(b.held + b.sent)
	*b = Batch{stage: over, room: b.room}
}
