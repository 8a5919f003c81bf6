package fifo

import (
	"testing"

	"pgregory.net/rapid"
)

// A Queue behaves like a slice with appends at the end and removals from the front.
func TestQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue[int]
		var want []int
		next := 0
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				for range rapid.IntRange(1, 9).Draw(t, "n") {
					next++
					q.Push(next)
					want = append(want, next)
				}
			},
			"pop": func(t *rapid.T) {
				for range rapid.IntRange(1, 9).Draw(t, "n") {
					item, ok := q.Pop()
					if ok != (len(want) > 0) || ok && item != want[0] {
						t.Fatalf("Pop: %d, %v, want the first of %v", item, ok, want)
					}
					want = want[min(1, len(want)):]
				}
			},
			"": func(t *rapid.T) {
				if q.Len() != len(want) {
					t.Fatalf("Len is %d, want %d", q.Len(), len(want))
				}
				first, last := q.First(), q.Last()
				if len(want) == 0 {
					if first != nil || last != nil || cap(q.items) > keep {
						t.Fatalf("empty: first %v, last %v, room for %d", first, last, cap(q.items))
					}
				} else if *first != want[0] || *last != want[len(want)-1] {
					t.Fatalf("first %d, last %d of %v", *first, *last, want)
				}
				for i, item := range q.items[:q.head] {
					if item != 0 {
						t.Fatalf("item %d was popped and is kept", i)
					}
				}
			},
		})
	})
}

// If a few items at a time come and go, Push and Pop allocate nothing.
func TestQueueAllocatesNothing(t *testing.T) {
	var q Queue[*int]
	item := new(int)
	if n := testing.AllocsPerRun(100, func() {
		for range keep {
			q.Push(item)
		}
		for range keep {
			q.Pop()
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
