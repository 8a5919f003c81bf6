//go:build linux

package nonblock

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// nonblocking is a pipe of one page.
func nonblocking(t *testing.T) (r, w uintptr) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	r, w = uintptr(fds[0]), uintptr(fds[1])
	if _, err := unix.FcntlInt(w, unix.F_SETPIPE_SZ, os.Getpagesize()); err != nil {
		t.Fatal(err)
	}
	return r, w
}

func TestCalls(t *testing.T) {
	r, w := nonblocking(t)
	buf := make([]byte, 2*os.Getpagesize())
	if n, err := Read(r, buf); n != 0 || !errors.Is(err, unix.EAGAIN) {
		t.Errorf("read of an empty pipe: %d, %v", n, err)
	}
	if events := Poll(r, unix.POLLIN); events != 0 {
		t.Errorf("poll of an empty pipe: %x", events)
	}
	for _, write := range []struct {
		a, b string
		n    int
	}{{"ab", "cd", 4}, {"", "ef", 2}, {"gh", "", 2}, {"", "", 0}} {
		if n, err := Writev(w, []byte(write.a), []byte(write.b)); n != write.n || err != nil {
			t.Errorf("writev of %q and %q: %d, %v", write.a, write.b, n, err)
		}
	}
	if n, err := Write(w, []byte("ij")); n != 2 || err != nil {
		t.Errorf("write: %d, %v", n, err)
	}
	if events := Poll(r, unix.POLLIN); events != unix.POLLIN {
		t.Errorf("poll of a pipe with something in it: %x", events)
	}
	if n, err := Read(r, buf); string(buf[:n]) != "abcdefghij" || err != nil {
		t.Errorf("read: %q, %v", buf[:n], err)
	}
	if n, err := Writev(w, buf[:10], buf); n != os.Getpagesize() || err != nil {
		t.Errorf("writev of more than a pipe holds: %d, %v; want what it holds", n, err)
	}
	if n, err := Write(w, buf); n != 0 || !errors.Is(err, unix.EAGAIN) {
		t.Errorf("write to a full pipe: %d, %v", n, err)
	}
	if n, err := Read(1<<20, buf); n != 0 || !errors.Is(err, unix.EBADF) {
		t.Errorf("read of a file that is not open: %d, %v", n, err)
	}
	if n, err := Read(r, nil); n != 0 || err != nil {
		t.Errorf("read into nothing: %d, %v", n, err)
	}
}
