package resolve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
)

// deepTree has a directory of every name, and counts the looks.
type deepTree struct {
	fakeTree
	looks int
	at    func(looks int)
}

func (t *deepTree) Lstat(string) (Info, error) {
	t.looks++
	if t.at != nil {
		t.at(t.looks)
	}
	return Info{fs.ModeDir, 9, 9}, nil
}

func TestDeepPathsAreCheap(t *testing.T) {
	const most = 64 << 20 // each of the 2,000 directories has a path of up to 4,000 bytes
	for _, below := range []string{"", "/dev/shm"} {
		s := sandboxOf("read root", "read path "+below+strings.Repeat("/a", 2000))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Policy(context.Background(), s, Facts{Tree: &deepTree{}})
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; err != nil || n > most {
			t.Errorf("a path of 2,000 names in %q took %d bytes, error %v", below, n, err)
		}
	}
}

// Nobody waits any more: a look-up that goes on keeps its turn, and a CPU busy.
func TestLookUpEndsWithItsContext(t *testing.T) {
	gone := errors.New("the client has gone")
	entries := []string{"read root"}
	for i := range 100 {
		entries = append(entries, fmt.Sprintf("write path /w/%d/x", i))
	}
	all := &deepTree{}
	if _, err := Policy(context.Background(), sandboxOf(entries...), Facts{Tree: all}); err != nil {
		t.Fatal(err)
	}
	for last := 1; last <= all.looks; last += 37 { // in each step
		ctx, cancel := context.WithCancelCause(context.Background())
		tree := &deepTree{at: func(looks int) {
			if looks == last {
				cancel(gone)
			}
		}}
		if p, err := Policy(ctx, sandboxOf(entries...), Facts{Tree: tree}); !errors.Is(err, gone) || tree.looks > last {
			t.Errorf("gone at look %d of %d: %d looks, policy %v, error %v", last, all.looks, tree.looks, p != nil, err)
		}
	}
}

func TestPolicyIsBounded(t *testing.T) {
	entries := []string{"read root"}
	for i := range maxEntries - 1 {
		entries = append(entries, fmt.Sprintf("write path /%d%s", i, strings.Repeat("/"+strings.Repeat("a", 250), 10)))
	}
	_, err := Policy(context.Background(), sandboxOf(entries...), Facts{Tree: &deepTree{}})
	if !errors.Is(err, ErrPolicy) || !strings.Contains(err.Error(), "bytes of paths") {
		t.Errorf("error %v", err)
	}
}

func TestGlobsOfManyRootsAreBounded(t *testing.T) {
	s := sandboxOf("read root")
	for i := range 100 {
		s.WorkspaceRoots = append(s.WorkspaceRoots, fmt.Sprintf("/w/%d", i))
		s.Entries = append(s.Entries, sandboxOf(fmt.Sprintf("deny glob_pattern %s*/%d", protocol.SandboxGlobInRoots, i)).Entries[0])
	}
	if _, err := Policy(context.Background(), s, Facts{Tree: newTree("/w/")}); err != nil {
		t.Errorf("10,000 globs: error %v", err)
	}
	for i := range 100 {
		s.WorkspaceRoots = append(s.WorkspaceRoots, fmt.Sprintf("/v/%d", i))
	}
	if _, err := Policy(context.Background(), s, Facts{Tree: newTree("/w/")}); !errors.Is(err, ErrPolicy) || !strings.Contains(err.Error(), "more than 16384 paths") {
		t.Errorf("20,000 globs: error %v", err)
	}
}

// A name and many patterns: the end of the context counts between two patterns, too.
func TestMatchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	g := glob{names: []string{"**", "x"}}
	s := search{resolver: &resolver{ctx: ctx}}
	var at []cursor
	for i := range 1000 {
		s.globs, at = append(s.globs, g), append(at, cursor{i, 0})
	}
	if next := s.enter("d", at); len(next) > 100 {
		t.Errorf("%d patterns were matched after the end", len(next))
	}
}
