package remote

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/actors/files"
)

// A further thread that cannot give up its rights makes no call either, and ends the jail.
func TestLaterThreadWithoutLock(t *testing.T) {
	s := slow{begun: make(chan string, 1), obeys: true} // Stat hangs until the jail gives it up
	var threads atomic.Int64
	ours, theirs := pair(t)
	served := make(chan error, 1)
	go func() {
		lock := func() error {
			if threads.Add(1) > 1 {
				return syscall.EPERM
			}
			return nil
		}
		served <- (&server{by: s.Do, lock: lock}).serve(theirs, ready)
	}()
	c, err := NewClient(ours)
	must(t, err)
	stat := make(chan error, 1)
	go func() {
		_, err := c.Do(t.Context(), files.Call{Op: files.OpStat, At: place("/")})
		stat <- err
	}()
	<-s.begun // the first thread is busy
	dir := t.TempDir()
	if _, err := c.Do(t.Context(), files.Call{Op: files.OpCreateDirectory, At: place(dir, "d")}); !errors.Is(err, ErrEnded) {
		t.Error(err)
	}
	c.Close() // has no effect on a jail that has ended
	if err := <-stat; !errors.Is(err, ErrEnded) {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, syscall.EPERM) {
		t.Error(err)
	}
	if _, err := os.Stat(dir + "/d"); err == nil {
		t.Error("the call was made")
	}
}
