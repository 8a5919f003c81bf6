package kernel

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// The fields are right for any name of a program. A process that is not there is an error.
func TestStat(t *testing.T) {
	cat, err := exec.LookPath("cat")
	name := filepath.Join(t.TempDir(), "a) R (b")
	if err == nil {
		err = os.Symlink(cat, name)
	}
	cmd := exec.Command(name)
	in, _ := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	field, err := Stat(cmd.Process.Pid)
	if err != nil {
		t.Error(err)
	} else if got := field(4); got != strconv.Itoa(os.Getpid()) {
		t.Errorf("the parent is %q, want %d", got, os.Getpid())
	}
	in.Close()
	cmd.Wait()
	if _, err := Stat(cmd.Process.Pid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after its end: %v", err)
	}
}
