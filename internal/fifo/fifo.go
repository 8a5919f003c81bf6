// Package fifo has a queue with next to no memory while empty.
package fifo

// Queue is first in, first out. The zero Queue is empty. An empty Queue keeps memory for at most 4
// items.
type Queue[T any] struct {
	items []T
	head  int // index of the first item in the queue; all earlier elements of items are zero
}

// keep is how many items an empty Queue has room for.
const keep = 4

// Len is how many items are in the queue.
func (q *Queue[T]) Len() int { return len(q.items) - q.head }

// Push adds an item after all others.
func (q *Queue[T]) Push(item T) {
	if len(q.items) == cap(q.items) && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, item)
}

// Pop removes the first item and returns it. If the queue is empty, ok is false.
func (q *Queue[T]) Pop() (item T, ok bool) {
	if q.Len() == 0 {
		return item, false
	}
	var none T
	item, q.items[q.head] = q.items[q.head], none
	q.head++
	if q.Len() == 0 {
		q.items, q.head = q.items[:0], 0
		if cap(q.items) > keep {
			q.items = nil
		}
	}
	return item, true
}

// First is the next item for Pop, or nil if the queue is empty. The pointer is valid until the next
// Push or Pop.
func (q *Queue[T]) First() *T {
	if q.Len() == 0 {
		return nil
	}
	return &q.items[q.head]
}

// Last is the item pushed last, or nil if the queue is empty. The pointer is valid until the next
// Push or Pop.
func (q *Queue[T]) Last() *T {
	if q.Len() == 0 {
		return nil
	}
	return &q.items[len(q.items)-1]
}
