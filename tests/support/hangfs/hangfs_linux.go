// Package hangfs is for tests: a filesystem (fuse(4)) that stops answering when a test says so, like a network
// filesystem with a dead server.
package hangfs

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"golang.org/x/sys/unix"
)

// Operations of the protocol, for Hang. (linux/fuse.h)
const (
	Lookup  = 1
	getattr = 3
	Open    = 14
	Read    = 15
	statfs  = 17
	initFS  = 26
	opendir = 27
	readdir = 28
	Access  = 34
	Poll    = 40
)

// FS is a mounted filesystem. Its root has the files of Mount. The look-up of a name that begins with "hang"
// never ends. Another process serves the filesystem, because a program that served itself would wait for itself.
type FS struct {
	Dir string // the mount point; a look at the directory may hang

	t      testing.TB
	server *exec.Cmd
	ask    io.Writer // operation numbers, a line each; 0 is none
	say    *bufio.Reader
}

// Mount mounts a filesystem until the end of the test. A file whose name ends with a slash
// is a directory; the others are executable. Without the right to mount the test is skipped.
func Mount(t testing.TB, files map[string]string) *FS {
	t.Helper()
	fd := needs.FUSE(t)
	f := &FS{Dir: t.TempDir(), t: t}
	options := "fd=" + strconv.Itoa(fd) + ",rootmode=40000,user_id=0,group_id=0,allow_other"
	if err := unix.Mount("hangfs", f.Dir, "fuse", unix.MS_NODEV|unix.MS_NOSUID, options); err != nil {
		unix.Close(fd)
		t.Fatal("mount: ", err)
	}
	dev := os.NewFile(uintptr(fd), "/dev/fuse")
	defer dev.Close()
	list, _ := json.Marshal(files)
	server := exec.Command("/proc/self/exe")
	server.Env = []string{variable + "=" + string(list)}
	server.ExtraFiles = []*os.File{dev}
	server.Stderr = os.Stderr
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, _ := server.StdinPipe()
	out, _ := server.StdoutPipe()
	f.ask, f.say = in, bufio.NewReader(out)
	runtime.LockOSThread() // the server ends with the thread
	err := server.Start()
	f.server = server
	t.Cleanup(func() {
		defer runtime.UnlockOSThread()
		f.Free()
		if err := unix.Unmount(f.Dir, unix.MNT_DETACH); err != nil {
			t.Error("umount: ", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Path is that of a file.
func (f *FS) Path(name string) string { return filepath.Join(f.Dir, name) }

// Free ends the filesystem. Calls that hang get an error. Free may be called again.
func (f *FS) Free() {
	if f.server.Process != nil {
		f.server.Process.Kill()
		f.server.Wait()
	}
}

// Hang leaves requests for this operation without an answer from now on.
func (f *FS) Hang(operation int) { f.tell(operation) }

// Hanging is how many requests were left without an answer.
func (f *FS) Hanging() int { return f.tell(0) }

func (f *FS) tell(operation int) (hanging int) {
	f.t.Helper()
	fmt.Fprintln(f.ask, operation)
	if _, err := fmt.Fscanln(f.say, &hanging); err != nil {
		f.t.Fatal("hangfs: ", err)
	}
	return hanging
}

// variable makes a test binary the server of a filesystem, whose files are its value.
const variable = "HANGFS_FILES"

func init() {
	if list := os.Getenv(variable); list != "" {
		s := &server{files: make(map[string]string), hang: make(map[uint32]bool)}
		if err := json.Unmarshal([]byte(list), &s.files); err != nil {
			panic(err)
		}
		s.names = slices.Sorted(maps.Keys(s.files))
		go s.obey()
		s.serve(3)
		os.Exit(0)
	}
}

// server is the other process.
type server struct {
	names []string // by node number, from 2
	files map[string]string

	mu      sync.Mutex
	hang    map[uint32]bool
	hanging int
}

func (f *server) obey() {
	for {
		var op uint32
		if _, err := fmt.Scanln(&op); err != nil {
			os.Exit(0)
		}
		f.mu.Lock()
		f.hang[op] = true
		fmt.Println(f.hanging)
		f.mu.Unlock()
	}
}

func (f *server) serve(dev int) {
	buf := make([]byte, 1<<17)
	for {
		n, err := unix.Read(dev, buf)
		if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.EINTR) {
			continue // the request was taken back
		}
		if err != nil || n < 40 {
			return
		}
		f.request(dev, buf[:n])
	}
}

func (f *server) request(dev int, in []byte) {
	op, node, body := order.Uint32(in[4:]), order.Uint64(in[16:]), in[40:]
	name := ""
	if op == Lookup {
		name = strings.TrimRight(string(body), "\x00")
	}
	f.mu.Lock()
	hang := f.hang[op] || strings.HasPrefix(name, "hang")
	if hang {
		f.hanging++
	}
	f.mu.Unlock()
	if hang {
		return
	}
	answer := func(errno syscall.Errno, words ...any) {
		out := append(make([]byte, 8), in[8:16]...)
		for _, w := range words {
			out, _ = binary.Append(out, order, w)
		}
		order.PutUint32(out, uint32(len(out)))
		order.PutUint32(out[4:], uint32(-int32(errno)))
		unix.Write(dev, out)
	}
	switch op {
	case initFS:
		answer(0, [16]uint32{7, 31, 0, parallel, 16 | 12<<16, 1 << 16, 1, 32})
	case Lookup:
		for i, has := range f.names {
			if strings.TrimSuffix(has, "/") == name {
				answer(0, [5]uint64{uint64(i + 2), 1}, f.attr(uint64(i+2)))
				return
			}
		}
		answer(syscall.ENOENT)
	case getattr:
		answer(0, [2]uint64{}, f.attr(node))
	case Open, opendir:
		answer(0, [2]uint64{})
	case Read:
		content := f.files[f.names[node-2]]
		offset, size := order.Uint64(body[8:]), uint64(order.Uint32(body[16:]))
		first := min(offset, uint64(len(content)))
		answer(0, []byte(content[first:min(first+size, uint64(len(content)))]))
	case readdir:
		answer(0)
	case statfs:
		answer(0, [10]uint64{})
	case 2, 36, 42: // forget, interrupt, forget many: no answer
	case 18, 25, 29: // release, flush, releasedir
		answer(0)
	default:
		answer(syscall.ENOSYS)
	}
}

// attr is a fuse_attr.
func (f *server) attr(node uint64) []byte {
	mode, size := uint32(unix.S_IFDIR|0o755), 0
	if node >= 2 && !strings.HasSuffix(f.names[node-2], "/") {
		mode, size = unix.S_IFREG|0o755, len(f.files[f.names[node-2]])
	}
	out, _ := binary.Append(nil, order, [6]uint64{node, uint64(size), 1})
	out, _ = binary.Append(out, order, [10]uint32{3: mode, 4: 1, 8: 4096})
	return out
}

// parallel has the kernel send look-ups in one directory beside each other.
const parallel = 1 << 18

var order = binary.NativeEndian
