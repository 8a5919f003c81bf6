package changes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/actors/files/changes/batch"
	"github.com/b6f6fdd7/troupe/tests/support/testleak"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testleak.Patient(m)) }

// room is memory for a watch.
type room struct{ atomic.Int64 }

func (r *room) Try(n int) bool { return r.Add(int64(n)) <= 1<<20 }

func (r *room) Give(n int) { r.Add(-int64(n)) }

func wantPaths(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("paths %q, want %q", got, want)
	}
}

func until(t interface{ Fatal(...any) }, what string, done func() bool) {
	for deadline := time.Now().Add(watchTime); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// begin begins a watch, until the test ends. Nobody has called Then, so the paths stay until Take.
func begin(t *testing.T, r *Watcher, path string) *Watch {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w, err := r.Watch(ctx, files.Place{Path: path}, new(room))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		until(t, "something is left of watches that have ended", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return w.over && (r.in != nil || r.changes.places == 0)
		})
	})
	return w
}

// told returns the paths told until now, once no watch looks, and makes the watch ready for more.
func told(w *Watch) []string {
	paths := w.Take()
	w.Written()
	return paths
}

var markers atomic.Int64

// settled waits until all earlier events are handled and no watch looks.
func (r *Watcher) settled(t interface{ Fatal(...any) }, dir string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// Each marker has a name of its own: the end of an earlier marker, in an event before the others, would make the watch look.
	marker := filepath.Join(dir, fmt.Sprint("marker", markers.Add(1)))
	w, err := r.Watch(ctx, files.Place{Path: marker}, new(room))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(marker, 0o777); err != nil { // its event comes after all others
		t.Fatal(err)
	}
	defer os.Remove(marker)
	until(t, "the marker is not told", func() bool { return told(w) != nil })
	r.still(t)
}

// still waits until no watch looks.
func (r *Watcher) still(t interface{ Fatal(...any) }) {
	until(t, "a watch looks for ever", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.in == nil {
			return true
		}
		for w := range r.in.all {
			if w.busy {
				return false
			}
		}
		return true
	})
}

func sh(t interface{ Fatalf(string, ...any) }, dir, script string) {
	c := exec.Command("sh", "-ec", script)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// settle stands between two changes of which the second comes when the watch has seen the first.
const settle = "; settle; "

func TestWatch(t *testing.T) {
	for _, c := range []struct {
		name, before, watched, quiet, change, want string
	}{
		{"a file is written", "echo 1 >a", "a", "touch b; cat a", "echo 2 >a", "a"},
		{"a file gets another mode", "touch a", "a", "", "chmod 600 a", "a"},
		{"a file is removed", "touch a", "a", "", "rm a", "a"},
		{"a file is replaced", "touch a", "a", "echo 2 >b", "mv b a", "a"},
		{"a file is written after it was replaced", "touch a b", "a", "", "mv b a" + settle + "echo 3 >a", "a"},
		{"a missing file", "", "a", "touch b; mv b c", "touch a", "a"},
		{"a missing file is renamed into place", "", "a", "touch a.lock", "mv a.lock a", "a"},
		{"a missing directory with its entry", "", "d/a", "mkdir d; touch d/b", "touch d/a", "d/a"},
		{"ancestors, at once", "", "d/e/f", "", "mkdir -p d/e; touch d/e/f", "d/e/f"},
		{"an entry of a directory is written", "mkdir d; touch d/a", "d", "touch a", "echo 2 >d/a", "d/a"},
		{"entries come and go", "mkdir d; touch d/a", "d", "", "touch d/b; rm d/a; mv d/b d/c; mkdir d/e", "d/a d/b d/c d/e"},
		{"an entry of an entry", "mkdir -p d/e; touch d/e/a", "d", "echo 2 >d/e/a; touch d/e/b", "chmod 700 d/e", "d/e"},
		{"the mode of a directory", "mkdir d", "d", "", "chmod 700 d", "d"},
		{"a directory is removed", "mkdir d", "d", "", "rmdir d", "d"},
		{"a directory is made again", "mkdir d", "d", "", "rmdir d" + settle + "mkdir d" + settle + "touch d/a", "d d/a"},
		{"a directory is replaced", "mkdir d e", "d", "", "mv d x; mv e d" + settle + "touch d/a x/b", "d d/a"},
		{"an ancestor is renamed away", "mkdir -p d/e; touch d/e/a", "d/e/a", "", "mv d x", "d/e/a"},
		{"an ancestor is replaced", "mkdir -p d/e x/e; touch d/e/a x/e/a", "d/e/a", "", "mv d y; mv x d" + settle + "echo 2 >d/e/a", "d/e/a"},
		{"an ancestor is touched", "mkdir -p d/e", "d/e/a", "chmod 700 d; mkdir x; mv x d", "touch d/e/a", "d/e/a"},
		{"behind a link", "mkdir d; touch d/a; ln -s d/a l", "l", "touch d/b", "echo 2 >d/a", "l"},
		{"a directory behind a link", "mkdir d; ln -s d l", "l", "touch a", "touch d/a", "l/a"},
		{"a link is turned", "mkdir d e; touch d/a e/a; ln -s d l", "l/a", "touch e/b", "ln -s e m; mv -T m l" + settle + "echo 2 >e/a", "l/a"},
		{"a link to nothing", "ln -s x a", "a", "touch y", "touch x", "a"},
		{"a dot-dot", "mkdir d", "d/../a", "touch d/a", "touch a", "a"},
		{"a loop of links", "ln -s a a", "a", "", "rm a; touch a", "a"},
		{"a name that is too long", "", strings.Repeat("a", 256), "touch b", "", ""},
		{"a name that is not UTF-8", "mkdir d", "d", "", `touch d/$(printf '\377')`, "d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir, side := t.TempDir(), t.TempDir()
			r := NewWatcher()
			sh(t, dir, c.before)
			w := begin(t, r, dir+"/"+c.watched)
			sh(t, dir, c.quiet)
			r.settled(t, side)
			wantPaths(t, told(w))
			for part := range strings.SplitSeq(c.change, settle) {
				sh(t, dir, part)
				r.settled(t, side)
			}
			var want []string
			for name := range strings.FieldsSeq(c.want) {
				want = append(want, filepath.Join(dir, name))
			}
			wantPaths(t, told(w), want...)
		})
	}
}

// ready is called a Window after the first path, and again only after Written.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewWatcher()
		w := &Watch{follower: follower{watcher: r}, path: "/d", batch: batch.New("/d", new(room))}
		tell := func(path string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			w.tell(path)
		}
		var calls atomic.Int32
		wantCalls := func(want int32) {
			t.Helper()
			synctest.Wait()
			if got := calls.Load(); got != want {
				t.Errorf("ready was called %d times, want %d", got, want)
			}
		}
		tell("/d/early")
		time.Sleep(time.Hour)
		w.Then(func() { calls.Add(1) })
		time.Sleep(batch.Window - 1)
		tell("/d/late")
		wantCalls(0)
		time.Sleep(time.Nanosecond)
		wantCalls(1)
		wantPaths(t, w.Take(), "/d/early", "/d/late")
		tell("/d/a")
		time.Sleep(time.Hour)
		wantCalls(1)
		w.Written()
		time.Sleep(batch.Window)
		wantCalls(2)
		wantPaths(t, w.Take(), "/d/a")
		w.Written()
		time.Sleep(time.Hour)
		wantCalls(2)
		tell("/d/b")
		time.Sleep(batch.Window - 1)
		wantCalls(2)
		time.Sleep(time.Nanosecond)
		wantCalls(3)
	})
}

// After lost events every watch looks. A Watch tells its path, and both kinds find what has changed.
func TestLostEvents(t *testing.T) {
	dir, side := t.TempDir(), t.TempDir()
	r := NewWatcher()
	w, missing := begin(t, r, dir+"/d"), watch(t, r, []string{dir + "/d"}, nil)
	lose := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.event(w.in, -1, unix.IN_Q_OVERFLOW, "")
	}
	lose()
	r.settled(t, side)
	wantPaths(t, told(w), dir+"/d")
	r.mu.Lock()
	clear(w.in.directories) // the events of all directories are now unknown
	r.mu.Unlock()
	sh(t, dir, "mkdir d; touch d/a")
	lose()
	until(t, "not told", func() bool { return slices.Contains(told(w), dir+"/d") })
	await(t, missing, "after an overflow")
}

// Watches of the same files, of both kinds, end and begin, while directories change places. Nothing is left at the end.
func TestWatchEnds(t *testing.T) {
	descriptors := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	before := descriptors()
	dir := t.TempDir()
	sh(t, dir, "mkdir -p a b")
	r := NewWatcher()
	a, b, x := dir+"/a", dir+"/b", dir+"/x"
	for i := range 300 {
		ctx, cancel := context.WithCancel(context.Background())
		for _, path := range []string{a + "/c", a, b, b + "/c/d"} {
			_, err := r.Watch(ctx, files.Place{Path: path}, new(room))
			if err != nil {
				t.Fatal(err)
			}
		}
		missing, err := r.Missing(ctx, places([]string{b + "/c/d", dir + "/never"}), nil) // it may be looking when it ends
		if err != nil {
			t.Fatal(err)
		}
		missing.Then(func() { t.Error("told of no change") })
		if i%2 == 0 {
			go cancel()
		}
		for _, move := range [][2]string{{a, x}, {b, a}, {x, b}} {
			if err := os.Rename(move[0], move[1]); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
	}
	until(t, "something is left of watches that have ended", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.in == nil && r.changes.places == 0 && r.missing.places == 0 && descriptors() <= before
	})
}

func TestWatchRefuses(t *testing.T) {
	dir, side := t.TempDir(), t.TempDir()
	r := NewWatcher()
	w := begin(t, r, dir)
	r.settled(t, side)
	set := func(at *int, to int) (old int) {
		r.mu.Lock() // the watch of a marker may be about to end
		defer r.mu.Unlock()
		old, *at = *at, to
		return old
	}
	for _, limit := range []struct {
		at   *int
		want string
	}{
		{&r.changes.most, "names in directories are watched"},
		{&r.changes.directories, "directories are watched"},
	} {
		old := set(limit.at, 1)
		_, err := r.Watch(t.Context(), files.Place{Path: t.TempDir()}, new(room))
		if err == nil || !strings.Contains(err.Error(), limit.want) {
			t.Errorf("%v, want %s", err, limit.want)
		}
		set(limit.at, old)
	}
	if _, err := r.Watch(t.Context(), files.Place{Path: "/" + strings.Repeat("a", files.MaxPath)}, new(room)); !errors.Is(err, unix.ENAMETOOLONG) {
		t.Errorf("a path of %d bytes: %v", files.MaxPath+1, err)
	}
	sh(t, dir, "touch a")
	r.settled(t, side)
	wantPaths(t, told(w), dir+"/a") // after others were refused
}

// A directory without read permission is passed, but nothing in it can be watched.
func TestWatchWithoutPermission(t *testing.T) {
	dir, side := t.TempDir(), t.TempDir()
	sh(t, dir, "mkdir -p shut/open; touch shut/open/a shut/b; chmod 311 shut")
	defer os.Chmod(dir+"/shut", 0o777)
	testroot.ObeyModes(t)
	r := NewWatcher()
	open := begin(t, r, dir+"/shut/open")
	for _, path := range []string{"/shut", "/shut/b", "/shut/none"} {
		if _, err := r.Watch(t.Context(), files.Place{Path: dir + path}, new(room)); err == nil || files.Text(err) != "Permission denied (os error 13)" {
			t.Errorf("%s: %v", path, err)
		}
	}
	sh(t, dir, "echo 2 >shut/open/a")
	r.settled(t, side)
	wantPaths(t, told(open), dir+"/shut/open/a")
}

// All changes are told: after random changes, a watch tells something if its file or the entries of its
// directory differ.
func TestWatchFollows(t *testing.T) {
	dir, side := t.TempDir(), t.TempDir()
	n := 0
	r := NewWatcher()
	begin(t, r, side)
	rapid.Check(t, func(t *rapid.T) {
		n++
		z := newMaze(t, filepath.Join(dir, fmt.Sprint(n)), 3, "write", "write", "mkdir", "mkdir", "link", "move", "move", "move", "remove")
		defer z.Close()
		watches := make(map[*Watch]string) // what the path looks like
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for _, name := range rapid.SliceOfNDistinct(z.names, 1, 4, rapid.ID).Draw(t, "watched") {
			if w, err := r.Watch(ctx, files.Place{Path: filepath.Join(z.top, name)}, new(room)); err == nil { // else a loop of links
				watches[w] = looksLike(w.path)
			}
		}
		for range 5 {
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				z.change()
			}
			r.settled(t, side)
			for w, before := range watches {
				now := looksLike(w.path)
				if paths := told(w); now != before && paths == nil {
					t.Fatalf("not told: %s was %s, and is %s", w.path, before, now)
				}
				watches[w] = now
			}
		}
	})
}

// looksLike describes a file, or a directory with its entries.
func looksLike(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return "missing"
	}
	id := idOf(info)
	if !info.IsDir() {
		return fmt.Sprint(id, info.Size())
	}
	entries, _ := os.ReadDir(path)
	inside := make(map[string]string)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			inside[e.Name()] = fmt.Sprint(idOf(info), info.IsDir() || info.Size() >= 0)
			if info.Mode().IsRegular() {
				inside[e.Name()] += fmt.Sprint(info.Size())
			}
		}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(inside)) {
		all = append(all, name+inside[name])
	}
	return fmt.Sprint(id, all)
}

// A watch keeps no directory open, so filesystems can be unmounted.
func TestWatchOpensNothing(t *testing.T) {
	dir := t.TempDir()
	r := NewWatcher()
	begin(t, r, dir)
	if _, err := r.Watch(t.Context(), files.Place{Path: dir, Root: dir}, new(room)); err != nil {
		t.Fatal(err)
	}
	open, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range open {
		if target, err := os.Readlink(fd); err == nil && strings.HasPrefix(target, dir) {
			t.Errorf("%s is open", target)
		}
	}
}

// If the kernel gives up a directory, such as one that was unmounted, its watches look again. A new watch there works all the same.
func TestUnmounted(t *testing.T) {
	dir, side := t.TempDir(), t.TempDir()
	r := NewWatcher()
	old := begin(t, r, dir)
	r.mu.Lock()
	directory := old.last.directory
	for p := range old.places {
		if p.name == "" {
			directory = p.directory
		}
	}
	r.mu.Unlock()
	old.in.remove(r, []int32{directory})
	w := begin(t, r, dir)
	r.settled(t, side)
	wantPaths(t, told(old), dir) // the older watch has found out
	told(w)
	sh(t, dir, "touch a")
	r.settled(t, side)
	wantPaths(t, told(w), dir+"/a")
	wantPaths(t, told(old), dir+"/a")
}

// A directory that was moved away and back between two looks is told: its files may have changed on the way.
func TestMovedAndBack(t *testing.T) {
	dir, side := t.TempDir(), t.TempDir()
	sh(t, dir, "mkdir d; touch d/a")
	r := NewWatcher()
	w := begin(t, r, dir+"/d/a")
	r.settled(t, side)
	wantPaths(t, told(w))
	r.mu.Lock() // no event is handled meanwhile
	sh(t, dir, "mv d x; mv x d")
	r.mu.Unlock()
	r.settled(t, side)
	wantPaths(t, told(w), dir+"/d/a")
}

// The limit of directories counts those that fs/watch watches now.
func TestDirectoriesAreCounted(t *testing.T) {
	dir := t.TempDir()
	sh(t, dir, "mkdir d")
	r := NewWatcher()
	begin(t, r, dir)
	if _, err := r.Missing(t.Context(), places([]string{dir + "/d/none"}), nil); err != nil { // keeps d for the kernel
		t.Fatal(err)
	}
	count := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.in.changes)
	}
	before := count()
	if want := strings.Count(dir, "/") + 1; before != want { // the directories on the way, and dir
		t.Errorf("%d directories, want %d", before, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := r.Watch(ctx, files.Place{Path: dir + "/d"}, new(room)); err != nil {
		t.Fatal(err)
	}
	if count() != before+1 {
		t.Errorf("%d directories after another watch, want %d", count(), before+1)
	}
	cancel()
	until(t, "a directory is counted after its watch", func() bool { return count() == before })
}

// A watch that begins while the kernel is told to give up its directory waits, and begins with a new descriptor.
func TestWatchBeginsAtAnEnd(t *testing.T) {
	dir := t.TempDir()
	r := NewWatcher()
	old := begin(t, r, dir)
	var ends place
	r.mu.Lock()
	for p := range old.places {
		if p.name == "" {
			ends = p
		}
	}
	old.in.ending[ends.directory] = true
	r.mu.Unlock()
	begun := make(chan *Watch)
	go func() {
		w, err := r.Watch(t.Context(), files.Place{Path: dir}, new(room))
		if err != nil {
			t.Error(err)
		}
		begun <- w
	}()
	for range 100 { // a watch that does not wait would have begun
		time.Sleep(time.Millisecond)
		r.mu.Lock()
		if n := len(old.in.directories[ends.directory][""]); n > 1 {
			t.Errorf("%d watches have a directory that the kernel gives up", n)
		}
		r.mu.Unlock()
	}
	old.in.remove(r, []int32{ends.directory})
	w := <-begun
	r.mu.Lock()
	if w.places[ends] {
		t.Error("the watch has a descriptor that is gone")
	}
	r.mu.Unlock()
}

// A watch that ends while it waits for the kernel to give its directory up waits no more.
func TestWatchEndsAsItWaits(t *testing.T) {
	dir := t.TempDir()
	r := NewWatcher()
	old := begin(t, r, dir)
	r.mu.Lock()
	for p := range old.places {
		old.in.ending[p.directory] = true
	}
	r.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := r.Watch(ctx, files.Place{Path: dir}, new(room))
		ended <- err
	}()
	until(t, "the watch does not begin", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(old.in.all) == 2
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was cancelled", err)
	}
	r.mu.Lock()
	clear(old.in.ending)
	r.mu.Unlock()
}

// A watch that begins or ends in a directory does not disturb another watch there.
func TestWatchesShare(t *testing.T) {
	t.Run("fs/watch", func(t *testing.T) {
		watchesShare(t, 200, func(ctx context.Context, r *Watcher, dir, path string) (func() bool, error) {
			w, err := r.Watch(ctx, files.Place{Path: dir}, new(room))
			return func() bool { return slices.Contains(told(w), path) }, err
		})
	})
	t.Run("fs/watchMissing", func(t *testing.T) { missingShare(t, 50) })
}

func missingShare(t *testing.T, rounds int) {
	watchesShare(t, rounds, func(ctx context.Context, r *Watcher, dir, path string) (func() bool, error) {
		w, err := r.Missing(ctx, places([]string{path}), nil)
		if err != nil {
			return nil, err
		}
		told := toldBy(w)
		return func() bool { return len(told) > 0 }, nil
	})
}

// watchesShare begins a watch in each round, beside others that begin and end in the same directory. The path appears after the watch
// has begun.
func watchesShare(t *testing.T, rounds int, watch func(ctx context.Context, r *Watcher, dir, path string) (told func() bool, err error)) {
	dir := t.TempDir()
	r := NewWatcher()
	begin(t, r, "/")
	var over atomic.Bool
	var others sync.WaitGroup
	defer others.Wait()
	defer over.Store(true)
	for range 2 {
		others.Go(func() {
			for !over.Load() {
				ctx, cancel := context.WithCancel(context.Background())
				if _, err := watch(ctx, r, dir, dir+"/none"); err != nil {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	for i := range rounds {
		ctx, cancel := context.WithCancel(context.Background())
		path := filepath.Join(dir, fmt.Sprint(i))
		told, err := watch(ctx, r, dir, path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		until(t, "not told", told)
		cancel()
	}
}

// If the inotify instance breaks, a watch tells its path a last time, and a new watch gets a new instance.
func TestWatchBroken(t *testing.T) {
	dir, side := t.TempDir(), t.TempDir()
	sh(t, dir, "touch a")
	r := NewWatcher()
	held := new(room)
	w, err := r.Watch(t.Context(), files.Place{Path: dir + "/a"}, held)
	if err != nil {
		t.Fatal(err)
	}
	r.in.file.SetReadDeadline(time.Now())
	until(t, "nothing is told", func() bool {
		paths := told(w)
		if paths != nil {
			wantPaths(t, paths, dir+"/a")
		}
		return paths != nil
	})
	if held.Load() != 0 {
		t.Errorf("a watch that has ended holds %d bytes", held.Load())
	}
	again := begin(t, r, dir+"/a")
	sh(t, dir, "echo 2 >a")
	r.settled(t, side)
	wantPaths(t, told(again), dir+"/a")
	wantPaths(t, told(w))
}

// Of directories on the way, the kernel tells only which names come and go: others may write there all the time.
func TestWatchAsksForLittle(t *testing.T) {
	dir := t.TempDir()
	sh(t, dir, "mkdir d; touch d/a")
	const contents = unix.IN_MODIFY | unix.IN_ATTRIB
	for name, want := range map[string]int{"d": 1, "d/a": 1, "d/none": 0} { // directories whose contents are told
		r := NewWatcher()
		w := begin(t, r, filepath.Join(dir, name))
		told := 0
		for directory, mask := range r.masks(t) {
			if mask&contents == 0 {
				continue
			}
			told++
			if inside := (place{directory, ""}); w.last.directory != directory && !w.places[inside] {
				t.Errorf("%s: a directory on the way has the mask %#x", name, mask)
			}
		}
		if told != want {
			t.Errorf("%s: the contents of %d directories are told, want %d", name, told, want)
		}
	}
}

// masks returns the events of each directory that the kernel watches.
func (r *Watcher) masks(t *testing.T) map[int32]uint32 {
	masks := make(map[int32]uint32)
	r.in.conn.Control(func(fd uintptr) {
		info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(info)) {
			var wd int32
			var ino, dev uint64
			var mask uint32
			if n, _ := fmt.Sscanf(line, "inotify wd:%x ino:%x sdev:%x mask:%x", &wd, &ino, &dev, &mask); n == 4 {
				masks[wd] = mask
			}
		}
	})
	return masks
}

// While the looks of a watch fail, its places do not pile up, and the next good look finds the file.
func TestFailingLooks(t *testing.T) {
	dir, side := t.TempDir(), t.TempDir()
	sh(t, dir, "mkdir d; ln -s d l")
	r := NewWatcher()
	w := begin(t, r, dir+"/l")
	begin(t, r, side)
	count := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(w.places)
	}
	before := count()
	r.mu.Lock()
	r.changes.directories = len(r.in.changes)
	r.mu.Unlock()
	for i := range 20 {
		sh(t, dir, fmt.Sprintf("mkdir d%d; ln -s d%d m; mv -T m l", i, i))
		until(t, "not told", func() bool { return slices.Contains(told(w), dir+"/l") })
		r.still(t)
	}
	if n := count(); n > 2*before {
		t.Errorf("%d places after failing looks, want %d at most", n, 2*before)
	}
	sh(t, dir, "ln -s d m; mv -T m l")
	until(t, "not told", func() bool { return slices.Contains(told(w), dir+"/l") })
	r.still(t)
	if n := count(); n != before {
		t.Errorf("%d places after a good look, want %d", n, before)
	}
	sh(t, dir, "touch d/a")
	until(t, "not told", func() bool { return slices.Contains(told(w), dir+"/l/a") })
}
