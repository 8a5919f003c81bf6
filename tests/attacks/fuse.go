package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/internal/needs"
	"golang.org/x/sys/unix"
)

// A disk is a filesystem of this program, mounted with FUSE where only the server and its programs see it. A dead disk answers nothing, like a
// network filesystem without its server. A slow disk is a flat directory in memory, and pauses before
// each write. Source: linux/fuse.h, protocol 7.31.
type disk struct {
	dir   string
	fuse  *os.File
	pause time.Duration // before each write; negative: dead
	opens bool          // a dead disk answers until a file is open, and no request about an open file

	// Owned by the serving goroutine.
	names map[string]uint64
	files map[uint64]*diskFile
	last  uint64 // the last node
}

type diskFile struct {
	mode uint32
	size uint64
}

// noFUSE returns why this machine allows no disk, or "".
func noFUSE() string {
	if reason := noMount(); reason != "" {
		return reason
	}
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return err.Error()
	}
	f.Close()
	return ""
}

// noMount returns why this program may mount nothing, or "".
func noMount() string {
	if os.Getuid() != 0 {
		return "needs root, to mount"
	}
	if err := needs.ProbeMount(); err != nil {
		return err.Error()
	}
	return ""
}

// mountInside mounts a FUSE filesystem where the process with a pid sees it. It runs alone in a process: the arguments are the pid and the directory, and
// descriptor 3 is an open /dev/fuse.
func mountInside(args []string) error {
	view, err := os.Open("/proc/" + args[0] + "/ns/mnt")
	if err != nil {
		return err
	}
	runtime.LockOSThread()                              // a view belongs to a thread
	if err := unix.Unshare(unix.CLONE_FS); err != nil { // threads with a common working directory stay where they are
		return fmt.Errorf("unshare the working directory: %w", err)
	}
	if err := unix.Setns(int(view.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter the view of process %s: %w", args[0], err)
	}
	if err := unix.Mount("attacks", args[1], "fuse", unix.MS_NOSUID|unix.MS_NODEV, "fd=3,rootmode=40000,user_id=0,group_id=0,allow_other"); err != nil {
		return fmt.Errorf("mount a FUSE filesystem: %w", err)
	}
	return nil
}

// mount mounts a disk until the attack has ended. If names are given, a dead disk has files with these
// names and allows opening them.
func (t *target) mount(pause time.Duration, names ...string) (*disk, error) {
	d := &disk{
		dir: filepath.Join(t.dir, "disk-"+newToken()), pause: pause,
		names: map[string]uint64{}, files: map[uint64]*diskFile{1: {mode: unix.S_IFDIR | 0o777}}, last: 1,
		opens: len(names) > 0,
	}
	for _, name := range names {
		d.last++
		d.names[name], d.files[d.last] = d.last, &diskFile{mode: unix.S_IFREG | 0o666, size: 1000}
	}
	if err := os.Mkdir(d.dir, 0o755); err != nil {
		return nil, err
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/fuse: %w", err)
	}
	unmounted := os.NewFile(uintptr(fd), "/dev/fuse")
	defer unmounted.Close()
	child := exec.Command("/proc/self/exe", childArg, "mount", fmt.Sprint(t.server.pid()), d.dir)
	child.ExtraFiles = []*os.File{unmounted}
	if out, err := child.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	// Go polls a file from its NewFile on, and there is nothing to poll before the mount.
	if fd, err = unix.FcntlInt(unmounted.Fd(), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	d.fuse = os.NewFile(uintptr(fd), "/dev/fuse")
	served := make(chan struct{})
	go func() {
		d.serve()
		close(served)
	}()
	t.onEnd(sync.OnceFunc(func() {
		d.fuse.Close() // everybody waiting for an answer gets an error
		<-served
		os.Remove(d.dir) // Linux unmounts a disk whose directory is removed where it is not mounted
	}))
	return d, nil
}

// awaitAsked waits until a dead disk has a request.
func (d *disk) awaitAsked(ctx context.Context) error {
	return eventually(ctx, answerWithin, func() (err error) {
		asked := false
		raw, err := d.fuse.SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) {
				polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
				n, _ := unix.Poll(polled, 0)
				asked = n > 0
			})
		}
		if err == nil && !asked {
			err = errors.New("the disk was asked nothing: this was no attack")
		}
		return err
	})
}

// Operations. Source: enum fuse_opcode.
const (
	fuseLookup  = 1
	fuseForget  = 2
	fuseGetattr = 3
	fuseSetattr = 4
	fuseUnlink  = 10
	fuseRename  = 12
	fuseOpen    = 14
	fuseWrite   = 16
	fuseStatfs  = 17
	fuseRelease = 18
	fuseFlush   = 25
	fuseInit    = 26
	fuseCreate  = 35
	fuseIntr    = 36
	fuseForgets = 42
	fuseRename2 = 45
)

func (d *disk) serve() {
	buf := make([]byte, 1<<20+4096)
	for {
		n, err := d.fuse.Read(buf)
		if err != nil {
			return
		}
		if n < 40 {
			continue
		}
		op, unique, node := le.Uint32(buf[4:]), le.Uint64(buf[8:]), le.Uint64(buf[16:])
		if op == fuseForget || op == fuseForgets || op == fuseIntr {
			continue
		}
		if op > fuseOpen && op != fuseInit && d.opens {
			continue
		}
		body, errno := d.answer(op, node, buf[40:n])
		reply := make([]byte, 16, 16+len(body))
		le.PutUint32(reply, uint32(16+len(body)))
		le.PutUint32(reply[4:], uint32(-int32(errno)))
		le.PutUint64(reply[8:], unique)
		d.fuse.Write(append(reply, body...))
		if op == fuseInit && d.pause < 0 && !d.opens {
			return // stop reading: a process whose request was read could no longer be killed
		}
	}
}

var le = binary.LittleEndian

func (d *disk) answer(op uint32, node uint64, in []byte) (out []byte, errno unix.Errno) {
	file := d.files[node]
	if file == nil && op != fuseInit && op != fuseStatfs {
		return nil, unix.ENOENT
	}
	switch op {
	case fuseInit:
		out = make([]byte, 64)
		le.PutUint32(out, 7)
		le.PutUint32(out[4:], 31)
		le.PutUint32(out[8:], 128<<10)     // read ahead
		le.PutUint32(out[12:], 1<<5|1<<22) // large writes; the number of pages follows
		le.PutUint16(out[16:], 64)         // background requests
		le.PutUint32(out[20:], 128<<10)
		le.PutUint32(out[24:], 1)
		le.PutUint16(out[28:], 32) // pages
		return out, 0
	case fuseLookup:
		child, ok := d.names[text(in)]
		if !ok {
			return nil, unix.ENOENT
		}
		return d.entry(child), 0
	case fuseGetattr, fuseSetattr:
		if op == fuseSetattr && le.Uint32(in)&(1<<3) != 0 {
			file.size = le.Uint64(in[16:])
		}
		return append(make([]byte, 16), attr(node, file)...), 0
	case fuseCreate:
		d.last++
		d.files[d.last] = &diskFile{mode: unix.S_IFREG | 0o666}
		d.names[text(in[16:])] = d.last
		return append(d.entry(d.last), make([]byte, 16)...), 0
	case fuseOpen:
		return make([]byte, 16), 0
	case fuseWrite:
		time.Sleep(d.pause)
		at, size := le.Uint64(in[8:]), le.Uint32(in[16:])
		file.size = max(file.size, at+uint64(size))
		out = make([]byte, 8)
		le.PutUint32(out, size)
		return out, 0
	case fuseUnlink:
		delete(d.names, text(in))
		return nil, 0
	case fuseRename, fuseRename2:
		names := in[8:]
		if op == fuseRename2 {
			names = in[16:]
		}
		from := text(names)
		d.names[text(names[len(from)+1:])] = d.names[from]
		delete(d.names, from)
		return nil, 0
	case fuseStatfs:
		return make([]byte, 80), 0
	case fuseFlush, fuseRelease:
		return nil, 0
	}
	return nil, unix.ENOSYS
}

func (d *disk) entry(node uint64) []byte {
	out := make([]byte, 40)
	le.PutUint64(out, node)
	return append(out, attr(node, d.files[node])...)
}

func attr(node uint64, f *diskFile) []byte {
	out := make([]byte, 88)
	le.PutUint64(out, node)
	le.PutUint64(out[8:], f.size)
	le.PutUint32(out[60:], f.mode)
	le.PutUint32(out[64:], 1) // links
	le.PutUint32(out[80:], 4096)
	return out
}

// text returns the string before the first NUL.
func text(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
