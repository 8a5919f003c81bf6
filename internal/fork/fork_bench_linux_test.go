//go:build amd64 || arm64

package fork

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkStart compares Start with package syscall, which does not vfork into a new user namespace, in programs of several
// sizes. The time includes the end of /bin/true.
func BenchmarkStart(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	files := []uintptr{null.Fd(), null.Fd(), null.Fd()}
	ways := []struct {
		name  string
		start func() (int, error)
	}{
		{"plain", func() (int, error) {
			return syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{Files: files})
		}},
		{"syscall", func() (int, error) {
			return syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{Files: files, Sys: &syscall.SysProcAttr{Cloneflags: namespaces}})
		}},
		{"vfork", func() (int, error) {
			return Start(&Attr{Path: "/bin/true", Argv: []string{"true"}, Files: files, Umask: -1, Namespaces: namespaces})
		}},
	}
	for _, mib := range []int{0, 256, 1024} {
		ballast := make([]byte, mib<<20)
		for i := 0; i < len(ballast); i += 4096 {
			ballast[i] = 1
		}
		for _, way := range ways {
			b.Run(fmt.Sprintf("%s/%dMiB", way.name, mib), func(b *testing.B) {
				for b.Loop() {
					runtime.LockOSThread()
					pid, err := way.start()
					if err != nil {
						b.Skip(err)
					}
					if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
						b.Fatal(err)
					}
					runtime.UnlockOSThread()
				}
			})
		}
		runtime.KeepAlive(ballast)
	}
}

// BenchmarkWhere compares the places of a fork, beside few and many open files, for one start at a time and for 16 in flight: threads and
// desks, two of each, and any thread without a desk.
func BenchmarkWhere(b *testing.B) {
	r, w, err := os.Pipe() // makes the runtime open its poller
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	type starter interface {
		Start(a *Attr) (int, error)
	}
	places := map[string]chan starter{"thread": make(chan starter, 2), "desk": make(chan starter, 2), "any": make(chan starter, 2)}
	for range 2 {
		thread, err := NewThread()
		if err != nil {
			b.Fatal(err)
		}
		defer thread.Close()
		desk, err := NewDesk()
		if err != nil {
			b.Fatal(err)
		}
		defer desk.Close()
		places["thread"] <- thread
		places["desk"] <- desk
		places["any"] <- new(Desk)
	}
	for _, files := range []int{0, 15000} {
		for range files {
			fd, err := unix.FcntlInt(w.Fd(), unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				b.Skip(err)
			}
			defer unix.Close(fd)
		}
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			b.Fatal(err)
		}
		defer null.Close()
		for _, flight := range []int{1, 16} {
			for _, name := range []string{"thread", "desk", "any"} {
				b.Run(fmt.Sprintf("%d files/%d in flight/%s", files, flight, name), func(b *testing.B) {
					var all sync.WaitGroup
					tokens := make(chan struct{}, flight)
					for b.Loop() {
						tokens <- struct{}{}
						all.Go(func() {
							place := <-places[name]
							pid, err := place.Start(&Attr{Path: "/bin/true", Argv: []string{"true"}, Files: []uintptr{null.Fd(), null.Fd(), null.Fd()}, Umask: -1})
							places[name] <- place
							if err != nil {
								b.Error(err)
							}
							syscall.Wait4(pid, nil, 0, nil)
							<-tokens
						})
					}
					all.Wait()
				})
			}
		}
	}
}
