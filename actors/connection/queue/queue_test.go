package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// With calls that come and end in random order: calls with the same key run one at a time and in the order of Add, a single large call
// runs at a time, the bounds hold, and every call that may run runs.
func TestCallsTakeTurns(t *testing.T) {
	const most, window = 16, 1 << 20
	rapid.Check(t, func(t *rapid.T) {
		q := New[int](most, window)
		var running, unwritten []*Call[int]
		last := make(map[string]int) // of each key
		weight := func(calls []*Call[int]) (large, bytes int) {
			for _, c := range calls {
				if c.Large {
					large++
				}
				bytes += c.bytes
			}
			return large, bytes
		}
		n := 0
		t.Repeat(map[string]func(*rapid.T){
			"come": func(t *rapid.T) {
				n++
				c := &Call[int]{Of: n}
				switch kind := rapid.SampledFrom([]string{"", "large", "a", "b"}).Draw(t, "kind"); kind {
				case "large":
					c.Large = true
				default:
					c.Key = kind
				}
				q.Add(c)
			},
			"end": func(t *rapid.T) {
				if len(running) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				c := running[i]
				running = slices.Delete(running, i, i+1)
				q.Done(c, rapid.SampledFrom([]int{0, 100, window / 2, window}).Draw(t, "bytes"))
				unwritten = append(unwritten, c)
			},
			"written": func(t *rapid.T) {
				if len(unwritten) == 0 {
					t.Skip()
				}
				q.Written(unwritten[0])
				unwritten = unwritten[1:]
			},
			"": func(t *rapid.T) {
				for c, ok := q.Next(); ok; c, ok = q.Next() {
					if _, bytes := weight(unwritten); bytes >= window {
						t.Fatalf("a call begins, and %d bytes of answers are unwritten", bytes)
					}
					q.Begin(c)
					running = append(running, c)
					if c.Key != "" {
						if c.Of < last[c.Key] {
							t.Fatalf("%d of key %s after %d", c.Of, c.Key, last[c.Key])
						}
						last[c.Key] = c.Of
					}
				}
				keys := make(map[string]int)
				for _, c := range running {
					if keys[c.Key]++; c.Key != "" && keys[c.Key] > 1 {
						t.Fatalf("%d calls with key %s run", keys[c.Key], c.Key)
					}
				}
				large, _ := weight(running)
				more, bytes := weight(unwritten)
				if len(running) > most || len(running) != q.Running() || large+more > 1 {
					t.Fatalf("%d calls run, %d large; Running is %d", len(running), large+more, q.Running())
				}
				if len(running) == most || bytes >= window {
					return
				}
				for _, c := range q.waiting {
					if (c.Key == "" || keys[c.Key] == 0) && (!c.Large || large+more == 0) {
						var all []string
						for _, r := range running {
							all = append(all, fmt.Sprintf("%d(%s)", r.Of, r.Key))
						}
						t.Fatalf("%d waits, key %q, while %s run", c.Of, c.Key, strings.Join(all, " "))
					}
				}
			},
		})
	})
}

// Without a window, answers are not counted. A call may begin out of its turn, and waits no more.
func TestCallsOutOfTurn(t *testing.T) {
	q := New[string](1, 0)
	first, second := &Call[string]{Of: "first"}, &Call[string]{Of: "second"}
	q.Add(first)
	q.Add(second)
	q.Begin(first)
	if c, ok := q.Next(); ok || !q.Waits(second) {
		t.Errorf("%v begins beside the first; the second waits: %v", c, q.Waits(second))
	}
	q.Begin(second)
	if q.Waits(second) || q.Waiting() != 0 || q.Running() != 2 {
		t.Errorf("%d wait, %d run", q.Waiting(), q.Running())
	}
	q.Done(first, 1<<40)
	q.Done(second, 1<<40)
	q.Add(&Call[string]{Of: "third"})
	if c, ok := q.Next(); !ok || c.Of != "third" {
		t.Error("the third does not begin")
	}
}
