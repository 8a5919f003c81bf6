//go:build amd64 || arm64

package fork

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
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
