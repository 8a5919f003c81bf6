package changes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
	"pgregory.net/rapid"
)

// watchTime is how long news may take to come; no passing test waits so long.
const watchTime = time.Minute

func places(paths []string) (all []files.Place) {
	for _, path := range paths {
		all = append(all, files.Place{Path: path})
	}
	return all
}

func wantText(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || files.Text(err) != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

// watch begins a watch, until the test ends.
func watch(t *testing.T, r *Watcher, missing, present []string) (told chan struct{}) {
	t.Helper()
	w, err := r.Missing(t.Context(), places(missing), places(present))
	if err != nil {
		t.Fatal(err)
	}
	return toldBy(w)
}

func toldBy(w *Missing) (told chan struct{}) {
	told = make(chan struct{}, 2) // room for a second, wrong notification
	w.Then(func() { told <- struct{}{} })
	return told
}

func await(t interface{ Fatalf(string, ...any) }, told chan struct{}, what string) {
	select {
	case <-told:
	case <-time.After(watchTime):
		t.Fatalf("not told: %s", what)
	}
}

// idle waits until all ended watches are removed.
func idle(t *testing.T, r *Watcher) {
	t.Helper()
	until(t, "something is left of watches that have ended", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.in == nil && r.missing.places == 0
	})
}

func TestMissing(t *testing.T) {
	for _, c := range []struct {
		name             string
		tree             map[string]string
		missing, present string // names, separated by blanks
		quiet, change    string // changes without and with a notification, as shell commands
	}{
		{"a file", nil, "a", "", "touch b", "touch a"},
		{"one of several", nil, "a b/c d", "", "mkdir b", "touch b/c"},
		{"a directory", nil, "a", "", "", "mkdir a"},
		{"a link", map[string]string{"b": ""}, "a", "", "", "ln -s b a"},
		{"a link to nothing, and then something", nil, "a", "", "ln -s b a", "touch b"},
		{"below a link to nothing", map[string]string{"l@": "d/e"}, "l/a", "", "mkdir -p d/e", "touch d/e/a"},
		{"a link is turned", map[string]string{"l@": "d", "d/": "", "e/a": ""}, "l/a", "", "ln -s d m; mv -T m l", "ln -s e n; mv -T n l"},
		{"a fifo", nil, "a", "", "", "mkfifo a"},
		{"renamed into place", map[string]string{"b": ""}, "a", "", "mv b c", "mv c a"},
		{"a tree renamed into place", map[string]string{"x/b/c": ""}, "a/b/c", "", "", "mv x a"},
		{"ancestors, one after the other", nil, "a/b/c/d", "", "mkdir a; mkdir a/b; mkdir a/b/c", "touch a/b/c/d"},
		{"ancestors, at once", nil, "a/b/c/d", "", "", "mkdir -p a/b/c/d"},
		{"ancestors come and go", nil, "a/b/c", "", "mkdir -p a/b; rm -r a; mkdir -p a/b; mv a x; mkdir -p a; mkdir a/b", "touch a/b/c"},
		{"an ancestor was renamed", map[string]string{"a/b/": ""}, "a/b/c", "", "mv a x; touch x/b/c; rm x/b/c", "mv x a; touch a/b/c"},
		{"a file in place of an ancestor", map[string]string{"a": ""}, "a/b", "", "rm a; mkdir a", "touch a/b"},
		{"hard link", map[string]string{"b": ""}, "a", "", "", "ln b a"},
		{"removed", map[string]string{"a": ""}, "", "a", "touch a b; rm b", "rm a"},
		{"renamed away", map[string]string{"a": ""}, "", "a", "", "mv a b"},
		{"replaced is there", map[string]string{"a": "", "b": ""}, "", "a", "mv b a", "rm a"},
		{"removed with its directory", map[string]string{"a/b/c": ""}, "", "a/b/c", "", "rm -r a"},
		{"an ancestor renamed away", map[string]string{"a/b/c": ""}, "", "a/b/c", "", "mv a x"},
		{"what a link leads to is removed", map[string]string{"l@": "a", "a": ""}, "", "l", "", "rm a"},
		{"neither missing nor present any more", map[string]string{"a": ""}, "b", "a", "touch c", "mv a b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := testroot.Tree(t, c.tree)
			r := NewWatcher()
			paths := func(names string) (paths []string) {
				for name := range strings.FieldsSeq(names) {
					paths = append(paths, filepath.Join(dir, name))
				}
				return paths
			}
			told := watch(t, r, paths(c.missing), paths(c.present))
			sh(t, dir, c.quiet)
			r.settled(t, t.TempDir())
			select {
			case <-told:
				t.Fatalf("told of %s", c.quiet)
			default:
			}
			sh(t, dir, c.change)
			await(t, told, c.change)
			idle(t, r)
			if len(told) > 0 {
				t.Error("told twice")
			}
		})
	}
}

func TestMissingOfWhatIsSo(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"a": ""})
	r := NewWatcher()
	for _, c := range []struct{ missing, present []string }{
		{[]string{dir + "/b", dir + "/a"}, nil},
		{[]string{"/"}, nil},
		{nil, []string{dir + "/a", dir + "/b"}},
	} {
		await(t, watch(t, r, c.missing, c.present), fmt.Sprint(c))
		idle(t, r)
	}
}

func TestMissingRefuses(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"loop@": "loop"})
	r := NewWatcher()
	many := make([]string, maxWatched+1)
	for i := range many {
		many[i] = fmt.Sprint(dir, "/", i)
	}
	_, err := r.Missing(t.Context(), places(many[1:]), places(many[:1]))
	wantText(t, err, "65 paths are to be watched, and a watch has at most 64")
	_, err = r.Missing(t.Context(), places([]string{dir + "/loop"}), nil)
	wantText(t, err, "Symbolic link loop (os error 40)")
	_, err = r.Missing(t.Context(), places([]string{dir + "/" + strings.Repeat("a", 256)}), nil)
	wantText(t, err, "Filename too long (os error 36)")
	idle(t, r)

	w, err := r.Missing(t.Context(), places(many[1:]), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.missing.most = r.missing.places + 2
	_, err = r.Missing(t.Context(), places([]string{dir + "/none/a"}), nil)
	if !errors.As(err, new(*files.Refusal)) {
		t.Errorf("more places than there may be: %v", err)
	}
	told := toldBy(w)
	sh(t, dir, "touch 7")
	await(t, told, "after another was refused")
	idle(t, r)
}

// A watch gives up places no longer needed, and an ended watch gives up all places.
func TestMissingKeepsWhatItNeeds(t *testing.T) {
	dir := testroot.Tree(t, nil)
	r := NewWatcher()
	w, err := r.Missing(t.Context(), places([]string{dir + "/a/b/c"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	told := toldBy(w)
	of := strings.Count(dir, "/") // directories above dir
	for i := range 20 {
		sh(t, dir, "mkdir a; mkdir a/b")
		r.settled(t, t.TempDir())
		wantPlaces(t, r, of+3)
		sh(t, dir, fmt.Sprintf("mv a x%d", i))
		r.settled(t, t.TempDir())
		wantPlaces(t, r, of+1)
	}
	collected := make(chan struct{})
	runtime.AddCleanup(w, func(struct{}) { close(collected) }, struct{}{})
	w = nil
	sh(t, dir, "mkdir -p a/b/c")
	await(t, told, "a/b/c")
	until(t, "a watch that has ended is kept", func() bool {
		runtime.GC()
		select {
		case <-collected:
			return true
		default:
			return false
		}
	})
}

// wantPlaces wants this number of places, each in a directory of its own, and the kernel to watch these directories. The kernel
// hears last what is no longer watched.
func wantPlaces(t *testing.T, r *Watcher, want int) {
	t.Helper()
	for deadline := time.Now().Add(watchTime); ; time.Sleep(time.Millisecond) {
		places, watched := r.counts(t)
		if places == want && watched == want {
			return
		}
		if places != want || time.Now().After(deadline) {
			t.Errorf("%d places, and the kernel watches %d directories, want %d", places, watched, want)
			return
		}
	}
}

// counts returns the number of places, and of directories that the kernel watches.
func (r *Watcher) counts(t *testing.T) (places, watched int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.in.conn.Control(func(fd uintptr) {
		info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
		if err != nil {
			t.Fatal(err)
		}
		watched = strings.Count(string(info), "inotify wd:")
	})
	return r.missing.places, watched
}

// A directory without read permission is passed, and not watched.
func TestMissingWithoutPermission(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"shut/open/": ""})
	if err := os.Chmod(dir+"/shut", 0o311); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir+"/shut", 0o777)
	testroot.ObeyModes(t)
	r := NewWatcher()
	told := watch(t, r, []string{dir + "/shut/open/a"}, nil)
	sh(t, dir, "touch shut/open/a")
	await(t, told, "a file below it")
	told = watch(t, r, []string{dir + "/shut/open/b"}, nil)
	sh(t, dir, "mv shut/open shut/x; mkdir shut/open; touch shut/open/b")
	await(t, told, "a file in another directory of that name")
	told = watch(t, r, []string{dir + "/shut/open/c"}, nil)
	sh(t, dir, "rm shut/open/b; rmdir shut/open; mkdir shut/open; touch shut/open/c")
	await(t, told, "a file in a directory made anew")
	_, err := r.Missing(t.Context(), places([]string{dir + "/shut/a"}), nil)
	wantText(t, err, "Permission denied (os error 13)")
	idle(t, r)
}

// A watch reports a path of missing once it exists, and a path of present once it does not,
// whatever happens to files, directories and links. Otherwise the watch reports nothing.
func TestMissingFollows(t *testing.T) {
	dir := testroot.Tree(t, nil)
	n := 0
	r := NewWatcher()
	rapid.Check(t, func(t *rapid.T) {
		n++
		z := newMaze(t, filepath.Join(dir, fmt.Sprint(n)), 4, "write", "mkdir", "mkdir", "link", "link", "move", "move", "remove")
		defer z.Close()
		var missing, present []string
		for _, name := range rapid.SliceOfN(z.names, 1, 4).Draw(t, "watched") {
			path := filepath.Join(z.top, name)
			switch _, err := os.Stat(path); {
			case err == nil:
				present = append(present, path)
			case files.Absent(err):
				missing = append(missing, path)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		w, err := r.Missing(ctx, places(missing), places(present))
		if err != nil {
			t.Fatal(err)
		}
		told := toldBy(w)
		for range 10 {
			z.change()
			for i, path := range w.paths {
				_, err := os.Stat(path.Path)
				if err != nil && !files.Absent(err) || (err != nil) != (i < w.missing) {
					await(t, told, path.Path)
					return
				}
			}
		}
		if len(told) > 0 {
			t.Fatalf("told without a change")
		}
	})
	idle(t, r)
}

// A file created while the watch begins is not missed, even if its directories are new, too.
func TestMissingRaces(t *testing.T) { missingRaces(t, 100) }

func missingRaces(t *testing.T, rounds int) {
	dir := testroot.Tree(t, nil)
	r := NewWatcher()
	watch(t, r, []string{dir + "/none"}, nil) // keeps the instance open, because closing takes the kernel 10 ms
	for i := range rounds {
		top := filepath.Join(dir, fmt.Sprint(i))
		path := filepath.Join(top, "a/b/c")
		made := make(chan error)
		go func() {
			err := os.MkdirAll(filepath.Dir(path), 0o777)
			if i%2 == 0 { // the directory becomes another inode
				err = errors.Join(err, os.Rename(top, top+"x"), os.MkdirAll(filepath.Dir(path), 0o777))
			}
			made <- errors.Join(err, os.WriteFile(path, nil, 0o666))
		}()
		told := watch(t, r, []string{path}, nil)
		if err := <-made; err != nil {
			t.Fatal(err)
		}
		await(t, told, path)
	}
}

// Watches that come and go one after the other leave no queue of instances to be closed: their user may have few.
func TestWatchesNeedFewInstances(t *testing.T) {
	noneLeft := func() { until(t, "instances of inotify are left", func() bool { return instances(t) == 0 }) }
	noneLeft() // of earlier tests
	r, missing := NewWatcher(), []files.Place{{Path: filepath.Join(t.TempDir(), "none")}}
	most := 0
	for range 300 {
		ctx, cancel := context.WithCancel(context.Background())
		w, err := r.Missing(ctx, missing, nil)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		w.end(false)
		most = max(most, instances(t))
	}
	if most > 2 {
		t.Errorf("%d instances of inotify at once", most)
	}
	noneLeft()
}

// instances counts the instances of inotify of this program.
func instances(t *testing.T) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.Contains(target, "inotify") {
			n++
		}
	}
	return n
}

// A Missing stays below the root of its places, notices what happens there, and refuses links that lead out.
func TestMissingBelowARoot(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"root/d/e/": "", "root/d/file": "", "root/in@": "d", "outside/file": "",
		"root/up@": "../outside", "root/none@": "../none", "root/absnone@": "/none", "root/magic@": "/proc/self/root"})
	root := dir + "/root"
	if err := os.Symlink(dir+"/outside", root+"/abs"); err != nil {
		t.Fatal(err)
	}
	place := func(name string) files.Place { return files.Place{Path: root + "/" + name, Root: root, Word: "read"} }
	r := NewWatcher()
	for _, link := range []string{"up", "abs", "none", "absnone", "magic"} {
		for _, rest := range []string{"", "/file", "/none/none"} {
			if _, err := r.Missing(t.Context(), []files.Place{place(link + rest)}, nil); !errors.Is(err, rules.ErrRefused) {
				t.Errorf("%s%s: %v, want a refusal", link, rest, err)
			}
			if _, err := r.Watch(t.Context(), place(link+rest), new(room)); !errors.Is(err, rules.ErrRefused) {
				t.Errorf("fs/watch of %s%s: %v, want a refusal", link, rest, err)
			}
		}
	}
	w, err := r.Missing(t.Context(), []files.Place{place("in/e/new/file")}, []files.Place{place("d/file")})
	if err != nil {
		t.Fatal(err)
	}
	told := toldBy(w)
	sh(t, root, "mkdir d/e/new; touch d/e/new/file")
	await(t, told, "a new file")
}

// Both kinds of watches share an instance and directories. Neither sees what only the other asks for.
func TestKindsShare(t *testing.T) {
	dir, side := testroot.Tree(t, map[string]string{"a": ""}), t.TempDir()
	r := NewWatcher()
	told := watch(t, r, []string{dir + "/b"}, []string{dir + "/a"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w, err := r.Watch(ctx, files.Place{Path: dir}, new(room))
	if err != nil {
		t.Fatal(err)
	}
	until(t, "there are several instances of inotify", func() bool { return instances(t) == 1 }) // those of earlier tests are being closed
	r.settled(t, side)
	var looks atomic.Int32
	r.mu.Lock()
	for f := range r.in.all {
		if f.kind == &r.missing {
			look := f.look
			f.look = func() { looks.Add(1); look() }
		}
	}
	r.mu.Unlock()
	if err := os.WriteFile(dir+"/a", []byte("new"), 0o666); err != nil {
		t.Fatal(err)
	}
	r.settled(t, side)
	wantPaths(t, w.Take(), dir+"/a")
	if looks.Load() != 0 {
		t.Error("fs/watchMissing looks after a write")
	}
	cancel()
	sh(t, dir, "touch b")
	await(t, told, "a file, after the end of fs/watch")
}

// An event while a watch looks makes it look again, once.
func TestEventWhileItLooks(t *testing.T) {
	r := NewWatcher()
	f := &follower{watcher: r, busy: true}
	r.mu.Lock()
	f.wake()
	r.mu.Unlock()
	if !f.again() {
		t.Error("the event is missed")
	}
	if f.again() {
		t.Error("the watch looks again without an event")
	}
}

// If the inotify instance breaks, its watches end with a change, and a new watch gets a new
// instance.
func TestMissingBroken(t *testing.T) {
	dir := testroot.Tree(t, nil)
	r := NewWatcher()
	told := make(chan struct{}, 4)
	for range 2 {
		w, err := r.Missing(t.Context(), places([]string{dir + "/a"}), nil)
		if err != nil {
			t.Fatal(err)
		}
		w.Then(func() {
			again, err := r.Missing(t.Context(), places([]string{dir + "/a"}), nil)
			if err != nil {
				t.Error(err)
			}
			told <- struct{}{}
			again.Then(func() { told <- struct{}{} })
		})
	}
	r.in.file.SetReadDeadline(time.Now())
	await(t, told, "that nothing more is told")
	await(t, told, "that nothing more is told, the other")
	sh(t, dir, "touch a")
	await(t, told, "a file")
	await(t, told, "a file, the other")
	idle(t, r)
}
