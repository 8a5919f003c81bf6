//go:build linux

package files

import (
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/testroot"
	"golang.org/x/sys/unix"
)

const (
	notADirectory = "Not a directory (os error 20)"
	linkLoop      = "Symbolic link loop (os error 40)"
	containsLink  = "path contains a symbolic link"
	mustNameEntry = "path must name an entry"
)

// direct is the path of a name in dir under the rule; "/" is the root.
func direct(dir, name string) way {
	if name == "/" {
		return NoFollow("/")
	}
	return NoFollow(filepath.Join(dir, name))
}

// Without openat2(2) every call is refused, and nothing is done.
func TestNoFollowWithoutOpenat2(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"a": "old"})
	real := openat2
	t.Cleanup(func() { openat2 = real })
	for _, errno := range []error{unix.ENOSYS, unix.EPERM} {
		openat2 = func(int, string, *unix.OpenHow) (int, error) { return -1, errno }
		p := direct(dir, "a")
		_, readErr := p.Read(100, nil)
		_, statErr := p.Stat()
		for _, err := range []error{readErr, statErr, p.Write(nil), direct(dir, "x").CreateDirectory(false), direct(dir, "x/y").CreateDirectory(true), p.Remove(false, true)} {
			if !errors.Is(err, errNoOpenat2) {
				t.Errorf("with %v: %v", errno, err)
			}
		}
		wantNames(t, dir, "a=old")
	}
}

// While a directory is swapped for a link and back, nothing passes through the link.
func TestNoFollowRaces(t *testing.T) {
	dir := testroot.Tree(t, map[string]string{"d/": "", "out/secret": "secret", "link@": "out"})
	outside := func() int64 {
		var st unix.Stat_t
		if err := unix.Stat(dir+"/out", &st); err != nil {
			t.Fatal(err)
		}
		return st.Ctim.Nano()
	}
	before := outside()
	var over atomic.Bool
	var swapper sync.WaitGroup
	swaps := 0
	swapper.Go(func() {
		for ; !over.Load() || swaps%2 == 1; swaps++ {
			if swaps%32 == 0 {
				time.Sleep(50 * time.Microsecond) // a call in the directory takes longer than a refused call
			}
			if err := unix.Renameat2(unix.AT_FDCWD, dir+"/d", unix.AT_FDCWD, dir+"/link", unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
				return
			}
		}
	})
	done, refused := 0, 0
	for range 100_000 {
		if done >= 4000 && refused >= 20_000 {
			break
		}
		for name, call := range map[string]func() error{
			"write":  func() error { return direct(dir, "d/file").Write([]byte("x")) },
			"mkdir":  func() error { return direct(dir, "d/sub/sub").CreateDirectory(true) },
			"rmdir":  func() error { return direct(dir, "d/sub/sub").Remove(false, true) },
			"remove": func() error { return direct(dir, "d/secret").Remove(false, false) },
			"read":   func() error { _, err := direct(dir, "d/secret").Read(100, nil); return err },
			"stat":   func() error { _, err := direct(dir, "d/secret").Stat(); return err },
		} {
			err := call()
			inside := errors.Is(err, syscall.ENOENT) && (name == "remove" || name == "read" || name == "stat") // there is no secret
			switch {
			case inside, err == nil && name != "remove" && name != "read" && name != "stat":
				done++
			case errors.Is(err, syscall.ENOTDIR):
				refused++
			default:
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	over.Store(true)
	swapper.Wait()
	if outside() != before {
		t.Error("the directory outside has changed")
	}
	wantNames(t, dir+"/out", "secret=secret")
	if done == 0 || refused == 0 {
		t.Error("nothing was tried")
	}
	t.Logf("%d calls succeeded, %d were refused, in %d swaps", done, refused, swaps)
}
