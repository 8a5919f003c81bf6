//go:build amd64 || arm64

package jail

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// A program without a sandbox for files may have rules of Landlock itself, and then renames files across directories, as its own
// rules permit. A domain that does not handle REFER would forbid it with EXDEV.
func TestScopeKeepsRenames(t *testing.T) {
	t.Parallel()
	needs.Landlock(t, 6)
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "closed"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "a/file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the goroutine ends with the thread locked, and so the thread ends
		done <- func() error {
			if err := noNewPrivileges(); err != nil {
				return err
			}
			if err := scopeSockets(); err != nil {
				return err
			}
			own, err := makeRuleset(&unix.LandlockRulesetAttr{Handled_access_fs: writeRights})
			if err != nil {
				return err
			}
			defer own.close()
			for _, name := range []string{"a", "b"} {
				if err := own.allowBeneath(filepath.Join(dir, name), writeRights); err != nil {
					return err
				}
			}
			if err := own.restrict(); err != nil {
				return err
			}
			if err := unix.Rename(filepath.Join(dir, "a/file"), filepath.Join(dir, "closed/file")); err == nil {
				t.Error("a rename that the program's own rules refuse is permitted")
			}
			return unix.Rename(filepath.Join(dir, "a/file"), filepath.Join(dir, "b/file"))
		}()
	}()
	if err := <-done; err != nil {
		t.Errorf("a rename that the program's own rules permit: %v", err)
	}
}
