package stdin

import (
	"time"

	"github.com/b6f6fdd7/troupe/actors/internal/repeat"
	"github.com/b6f6fdd7/troupe/internal/record"
)

// A Queue is a record.Journal: after a turn of the process, the record gets the writes of the turn, and not all remembered writes.

// kept notes changes for News.
type kept struct {
	follow bool    // Follow was called
	all    bool    // all remembered writes have changed
	writes []taken // since the last News

	// As News has told them.
	ended   bool
	refused time.Time
}

// taken is how much of a write the program has taken, or whole.
type taken struct {
	Guest bool
	ID    repeat.ID
	Taken int
}

func (k *kept) put(guest bool, id repeat.ID, n int) {
	if k.follow {
		k.writes = append(k.writes, taken{guest, id, n})
	}
}

func (k *kept) changed() { k.all, k.writes = k.follow, nil }

// news are the changes of a turn.
type news struct {
	Ended   bool
	Refused time.Time
	Writes  []taken
}

// Follow has the queue note its changes from now on for News. News is called after each turn of the process.
func (q *Queue[T]) Follow() { q.kept = kept{follow: true, ended: q.ended, refused: q.refused} }

// News implements record.Journal.
func (q *Queue[T]) News(b []byte) ([]byte, bool) {
	k := &q.kept
	all, n := k.all, news{q.ended, q.refused, k.writes}
	same := len(k.writes) == 0 && k.ended == q.ended && k.refused.Equal(q.refused)
	k.all, k.writes, k.ended, k.refused = false, nil, q.ended, q.refused
	switch {
	case all:
		return b, false
	case same:
		return b, true
	}
	return record.Encode(b, n), true
}

// Learn implements record.Journal.
func (q *Queue[T]) Learn(b []byte) error {
	var n news
	if err := record.Decode(b, &n); err != nil {
		return err
	}
	q.ended, q.refused = n.Ended, n.Refused
	for _, w := range n.Writes {
		memory, most := q.memory(&Request[T]{Guest: w.Guest})
		memory.Put(w.ID, w.Taken, most)
	}
	return nil
}
