package process

import (
	"slices"
	"time"

	"github.com/b6f6fdd7/troupe/actors/internal/repeat"
)

const (
	// placePause is the time between two looks for descendants that take the place of a closed process again, and before the first.
	placePause = 200 * time.Millisecond
	// treePause is the time between two looks for other descendants, and before the first look. A look waits for a
	// lock of the kernel, as a start does: most looks of a burst of short programs come after the burst.
	treePause = 5 * time.Second
)

// trees are the waiting process/terminate, each until the tree was seen empty or could not be killed, and the time of the next look
// for descendants.
type trees struct {
	waiting []*parked `lost:"clients ask again"`
	at      time.Time // the next look for descendants of the closed process; zero: there is none
}

// seek has the process look for descendants after a pause. placed means: descendants take a place.
func (t *trees) seek(placed bool) {
	pause := treePause
	if placed {
		pause = placePause
	}
	t.at = time.Now().Add(pause)
}

// park keeps a process/terminate until the tree is gone, and reports whether the same request
// waits already. Then the newest request gets the answer, with the running of the first.
func (t *trees) park(r *parked) (again bool) {
	if key, ok := repeat.Key(r.params); ok {
		t.waiting = slices.DeleteFunc(t.waiting, func(first *parked) bool {
			k, ok := repeat.Key(first.params)
			if !ok || k != key {
				return false
			}
			r.tree, again = first.tree, true
			return true
		})
	}
	t.waiting = append(t.waiting, r)
	return again
}

// drop forgets each process/terminate whose sender has gone. A request with a requestId stays,
// so that its answer is remembered for the repetition.
func (t *trees) drop(gone func(*parked) bool) {
	t.waiting = slices.DeleteFunc(t.waiting, func(r *parked) bool {
		_, again := repeat.Key(r.params)
		return gone(r) && !again
	})
	t.waiting = slices.Delete(t.waiting, 0, max(len(t.waiting)-repeat.MaxAnswers, 0))
}
