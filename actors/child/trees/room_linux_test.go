package trees

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// If a reached limit is raised or removed, starts go on at once, for several starts.
func TestRoomRaised(t *testing.T) {
	dir := t.TempDir()
	max, used := filepath.Join(dir, "max"), filepath.Join(dir, "used")
	set := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set(max, "100\n")
	set(used, "90\n")
	f, err := os.Open(used)
	if err != nil {
		t.Fatal(err)
	}
	b := &bound{name: "pids.max", file: max, used: f}
	r := room{b}
	defer r.close()
	if !b.readMax() {
		t.Fatal("no limit was read")
	}
	check := func(want string) {
		t.Helper()
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				err := r.check()
				if (err == nil) != (want == "") || err != nil && (!errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), want)) {
					t.Errorf("%v, want %q", err, want)
				}
			})
		}
		all.Wait()
	}
	check("pids.max is 100, and 90 processes and threads are in use")
	set(max, "200\n")
	check("")
	set(used, "190\n")
	check("pids.max is 200")
	set(max, "max\n")
	check("")
	check("")
}
