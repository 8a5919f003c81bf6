package batch

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// room counts the bytes of batches.
type room struct{ held, max int }

func (r *room) Try(n int) bool {
	if r.held+n > r.max {
		return false
	}
	r.held += n
	return true
}

func (r *room) Give(n int) { r.held -= n }

func wantPaths(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("paths %q, want %q", got, want)
	}
}

// With too many paths, or without memory, the watched path stands for all paths.
func TestBatchOverflows(t *testing.T) {
	b := New("/d", &room{max: 1 << 20})
	for i := range MaxPaths {
		b.Add(fmt.Sprint("/d/", i))
	}
	if got := b.Take(); len(got) != MaxPaths {
		t.Errorf("%d paths", len(got))
	}
	b.Written()
	for i := range MaxPaths + 1 {
		b.Add(fmt.Sprint("/d/", i))
	}
	wantPaths(t, b.Take(), "/d")
	b.Written()
	b.Add("/d/a")
	wantPaths(t, b.Take(), "/d/a")

	b = New("/d", &room{max: 100})
	b.Add("/d/a")
	b.Add("/d/b")
	b.Add("/d/a")
	wantPaths(t, b.Take(), "/d")
}

// In any order of calls: a path that was added is told later, itself or by root. The room is used for
// paths not written yet, and for nothing else.
func TestBatchLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &room{max: rapid.IntRange(0, 400).Draw(t, "room")}
		b := New("/d", r)
		owed := make(map[string]bool)
		window, sending, ended := false, false, false
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				path := "/d/" + rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "name")
				begins := b.Add(path)
				if ended {
					return
				}
				owed[path] = true
				if begins != (!window && !sending) {
					t.Fatalf("begins: %v", begins)
				}
				window = window || begins
			},
			"take": func(t *rapid.T) {
				paths := b.Take()
				if (paths != nil) != window {
					t.Fatalf("took %q", paths)
				}
				if !window {
					return
				}
				window, sending = false, true
				if want := slices.Sorted(maps.Keys(owed)); !slices.Equal(paths, want) && !slices.Equal(paths, []string{"/d"}) {
					t.Fatalf("took %q, want %q or the root", paths, want)
				}
				clear(owed)
			},
			"written": func(t *rapid.T) {
				begins := b.Written()
				if begins != (sending && len(owed) > 0) {
					t.Fatalf("begins: %v", begins)
				}
				window, sending = window || begins, false
			},
			"end": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
					b.End()
					window, sending, ended = false, false, true
					clear(owed)
				}
			},
			"": func(t *rapid.T) {
				if r.held < 0 || r.held > 0 && !window && !sending && len(owed) == 0 {
					t.Fatalf("%d bytes are held", r.held)
				}
			},
		})
	})
}
