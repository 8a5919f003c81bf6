package confine

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/fork"
	"github.com/b6f6fdd7/troupe/internal/sandbox/jail"
)

// A jail executes this program's binary. Its /proc/self/exe leads to the mount that the binary was executed on. On the
// mount of the server, a confined client or program of the server's user could so change the mode of the server's binary, and
// with mode 0 neither a jail nor the server would ever start again. So jails execute the binary on a read-only mount of its own.

// ownBinary is the binary for jails. Any goroutine may call open.
type ownBinary struct {
	mu   sync.Mutex
	file *os.File // nil: there was no jail yet
	copy bool     // file is a copy in memory
}

// jailBinary is never closed: the binary of a program is always the same.
var jailBinary ownBinary

// copyMode is the mode of a copy in memory.
const copyMode = 0o500

// open returns a descriptor of the binary, which the caller closes. A binary that its path no longer leads to, such as a replaced
// one, is copied into memory once.
func (b *ownBinary) open() (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file == nil || !b.intact() {
		if err := b.make(); err != nil {
			return -1, err
		}
	}
	// A duplicate, because another start may replace file. A jail's own descriptors come before the duplicate: see fork.Attr.
	return unix.FcntlInt(b.file.Fd(), unix.F_DUPFD_CLOEXEC, 8)
}

// make replaces file.
func (b *ownBinary) make() error {
	if b.file != nil {
		b.file.Close()
		b.file = nil
	}
	own, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer own.Close()
	b.copy = false
	fd, err := readOnly(own)
	if failure, ok := errors.AsType[*fork.Error](err); err == errElsewhere || ok && failure.Step == fork.StepMount {
		b.copy = true
		fd, err = inMemory(own)
	}
	if err != nil {
		return err
	}
	b.file = os.NewFile(uintptr(fd), "jail")
	return nil
}

// close closes the binary. A start keeps the descriptor that it has from open.
func (b *ownBinary) close() {
	if b.file != nil {
		b.file.Close()
	}
}

// binaryError explains an error of open.
func binaryError(err error, plan *jail.Plan) error {
	if full := trees.NoDescriptor(err); errors.Is(full, trees.ErrLimit) {
		return full
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	return forkError(err, plan)
}

// intact reports whether nobody has changed the mode of a copy. A jail can change it, from Linux 6.3 on without the permission to
// execute.
func (b *ownBinary) intact() bool {
	if !b.copy {
		return true
	}
	var stat unix.Stat_t
	return unix.Fstat(int(b.file.Fd()), &stat) == nil && stat.Mode&0o777 == copyMode
}

var errElsewhere = errors.New("the path of this program leads to another file")

// readOnly returns a descriptor of own on a read-only mount.
func readOnly(own *os.File) (fd int, err error) {
	path, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return 0, err
	}
	if fd, err = fork.ReadOnly(path); err != nil {
		return 0, err
	}
	var wanted, found unix.Stat_t
	if err = errors.Join(unix.Fstat(int(own.Fd()), &wanted), unix.Fstat(fd, &found)); err == nil && (wanted.Dev != found.Dev || wanted.Ino != found.Ino) {
		err = errElsewhere
	}
	if err != nil {
		unix.Close(fd)
		return 0, err
	}
	return fd, nil
}

// inMemory returns a copy of own that nobody can write to. From Linux 6.3 on, nobody can change whether it is executable either.
func inMemory(own *os.File) (fd int, err error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	if fd, err = unix.MemfdCreate("troupe-jail", flags|unix.MFD_EXEC); err == unix.EINVAL { // before Linux 6.3
		fd, err = unix.MemfdCreate("troupe-jail", flags)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
			err = &Error{Stage: "copy of this program", Err: err}
		}
	}()
	if err != nil {
		return 0, err
	}
	buffer := make([]byte, 256<<10)
	for at := int64(0); ; {
		n, err := own.ReadAt(buffer, at)
		if at += int64(n); n == 0 && err == io.EOF {
			break
		}
		if err != nil && err != io.EOF {
			return 0, err
		}
		for part := buffer[:n]; len(part) > 0; {
			written, err := unix.Write(fd, part)
			if err != nil {
				return 0, err
			}
			part = part[written:]
		}
	}
	if err = unix.Fchmod(fd, copyMode); err != nil {
		return 0, err
	}
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals|unix.F_SEAL_EXEC); err == unix.EINVAL {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	return fd, err
}
