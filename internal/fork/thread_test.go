package fork

import (
	"io"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"golang.org/x/sys/unix"
)

func startThread(t *testing.T) *Thread {
	t.Helper()
	r, w, err := os.Pipe() // makes the runtime open its poller
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	w.Close()
	thread, err := NewThread()
	t.Cleanup(thread.Close)
	needs.Feature(t, err)
	return thread
}

// on runs call on the thread. call does not fork.
func (t *Thread) on(call func()) { t.Do(func() error { call(); return nil }) }

// The number of files copied by a fork does not grow with the files of the server.
func TestThreadHasItsOwnFiles(t *testing.T) {
	for range 200 {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
	}
	f := startThread(t)
	look := func() (n int) {
		f.on(func() {
			// Not os.ReadDir: under go test, package os writes names to a file, and the thread does not have that file open.
			dir, err := unix.Open("/proc/thread-self/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Error(err)
				return
			}
			defer unix.Close(dir)
			buf := make([]byte, 64<<10)
			size, err := unix.ReadDirent(dir, buf)
			if err != nil {
				t.Error(err)
				return
			}
			_, n, _ = unix.ParseDirent(buf[:size], -1, nil)
		})
		return n
	}
	// Three, the pidfd, two of the runtime, exits, the directory; and files of these kinds from
	// other tests.
	before := look()
	if before > 30 {
		t.Errorf("%d files are open on the thread", before)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for range 10 {
		pid, err := f.Start(&Attr{Path: "/bin/true", Argv: []string{"true"}, Files: []uintptr{null.Fd(), null.Fd(), null.Fd()}, Umask: -1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
			t.Error(err)
		}
	}
	if _, err := f.Start(&Attr{Path: "/bin/true", Argv: []string{"true"}, Files: []uintptr{null.Fd(), 1 << 30}, Umask: -1}); err == nil {
		t.Error("forked with a file that is not open")
	}
	if after := look(); after != before {
		t.Errorf("%d files are open on the thread after forks, %d before", after, before)
	}
}

// When the server closes a file, the thread does not keep the file open.
func TestThreadHoldsNothingOpen(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f := startThread(t)
	w.Close()
	if b, err := io.ReadAll(r); err != nil || len(b) > 0 {
		t.Errorf("%q, %v", b, err)
	}
	f.on(func() {
		for fd := range 2 {
			var of, null unix.Stat_t
			if err := unix.Fstat(fd, &of); err != nil {
				t.Error(fd, err)
			}
			if err := unix.Stat(os.DevNull, &null); err != nil || of.Rdev != null.Rdev {
				t.Errorf("%d is not %s: %v", fd, os.DevNull, err)
			}
		}
	})
}

// The runtime may wait for files, and wake waiters, on any thread. Without the runtime's files on
// the thread, the runtime would end the program.
func TestThreadServesTheRuntime(t *testing.T) {
	f := startThread(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		defer w.Close()
		for range 100 {
			f.on(func() {
				time.AfterFunc(time.Hour, func() {}).Stop()
				runtime.GC()
			})
			w.Write([]byte("x"))
		}
	}()
	if b, err := io.ReadAll(r); err != nil || len(b) != 100 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// init and TestMain, to its Unlock, run on the main thread.
func init() { runtime.LockOSThread() }

// mainThread is what a Thread made from the main thread takes. It must take another thread,
// because the main thread never ends and shares its table with all others.
var mainThread struct{ id, thread int }

func TestMain(m *testing.M) {
	t := &Thread{calls: make(chan func()), returned: make(chan struct{}), ready: make(chan error, 1), self: -1}
	t.run()
	mainThread.id = unix.Gettid()
	t.on(func() { mainThread.thread = unix.Gettid() })
	t.Close()
	runtime.UnlockOSThread()
	m.Run()
}

func TestThreadIsNotTheMainThread(t *testing.T) {
	if mainThread.id != os.Getpid() || mainThread.thread == mainThread.id || mainThread.thread == 0 {
		t.Errorf("of the process %d the main thread is %d, and %d forks", os.Getpid(), mainThread.id, mainThread.thread)
	}
}
