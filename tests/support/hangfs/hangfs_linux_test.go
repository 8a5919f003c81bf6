package hangfs

import (
	"os"
	"os/exec"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"golang.org/x/sys/unix"
)

func TestAnswers(t *testing.T) {
	f := Mount(t, map[string]string{"prog": "#!/bin/sh\necho hi\n", "dir/": ""})
	if b, err := os.ReadFile(f.Path("prog")); err != nil || string(b) != "#!/bin/sh\necho hi\n" {
		t.Errorf("%q, %v", b, err)
	}
	if info, err := os.Stat(f.Path("dir")); err != nil || !info.IsDir() {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := os.Stat(f.Path("none")); !os.IsNotExist(err) {
		t.Error(err)
	}
	cmd := exec.Command(f.Path("prog"))
	cmd.Dir = f.Path("dir")
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "hi\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// Who waits gets an error when the test ends.
func TestHangs(t *testing.T) {
	unix.Close(needs.FUSE(t)) // else Mount would skip only the subtest, and nobody would send to done
	done := make(chan error, 1)
	t.Run("", func(t *testing.T) {
		f := Mount(t, nil)
		go func() {
			_, err := os.Stat(f.Path("hang"))
			done <- err
		}()
		for f.Hanging() == 0 {
			select {
			case err := <-done:
				t.Fatal("answered with ", err)
			default:
			}
		}
	})
	if err := <-done; err == nil {
		t.Error("it is there")
	}
}
