//go:build amd64 || arm64

package jail

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// No mount of a view hears of later mounts of the host.
func TestEnterHearsOfNoLaterMounts(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		lay(t, uid, directory, "W")
		w := directory + "/W"
		checkAfter(t, uid, [][]string{{"shared", "/"}}, confined(sandbox.Read, w, at(t, sandbox.Write, w)),
			try("sh", `grep -c -e ' shared:' -e ' master:' /proc/self/mountinfo`).gives("~0\n"))
	})
}

// A directory that is not the server's placeholder is not covered: the jail does not start.
func TestEnterRefusesAnotherPlaceholder(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		lay(t, uid, directory, "W", "W/.codex", "W/.other")
		w := directory + "/W"
		other := at(t, sandbox.Read, w+"/.other")
		p := missing(w + "/.codex")
		p.Dev, p.Ino = other.Dev, other.Ino
		refused(t, uid, inspection{Plan: confined(sandbox.Read, w, at(t, sandbox.Write, w), p)}, w+"/.codex", "in place of the placeholder")
	})
}

// Landlock permits a single file.
func TestRuleOfFile(t *testing.T) {
	needs.Landlock(t, MinLandlock)
	name := t.TempDir() + "/file"
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	p := confined(sandbox.Read, "/", at(t, sandbox.Write, name))
	r, err := newRuleset(&p)
	if err != nil {
		t.Fatal(err)
	}
	r.close()
}

// Without a bounding set, a program gains no capability as user 0 either, and cannot change that.
func TestSecureBits(t *testing.T) {
	needs.Root(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with this goroutine
		if err := dropBounding(); err != nil {
			t.Error(err)
			return
		}
		bits, err := unix.PrctlRetInt(unix.PR_GET_SECUREBITS, 0, 0, 0, 0)
		if err != nil || bits != secureBits|secureBitsLocks {
			t.Errorf("the secure bits are %#x, want %#x: %v", bits, secureBits|secureBitsLocks, err)
		}
		if err := unix.Prctl(unix.PR_SET_SECUREBITS, 0, 0, 0, 0); err != unix.EPERM {
			t.Errorf("the secure bits can be changed: %v", err)
		}
	}()
	<-done
}

// A program does not start in another directory than the one that the server has allowed.
func TestCheckDir(t *testing.T) {
	var stat unix.Stat_t
	if err := unix.Stat(".", &stat); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		dev, ino uint64
		right    bool
	}{{0, 0, true}, {stat.Dev, stat.Ino, true}, {stat.Dev, stat.Ino + 1, false}, {stat.Dev + 1, stat.Ino, false}} {
		err := checkDir(&Plan{Dir: "/d", DirDev: tt.dev, DirIno: tt.ino})
		if tt.right != (err == nil) || !tt.right && !strings.Contains(err.Error(), "/d has been exchanged") {
			t.Errorf("%d of device %d: %v", tt.ino, tt.dev, err)
		}
	}
}
