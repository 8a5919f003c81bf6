package placeholder

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/kernel"
)

// contents are the entries of a directory.
type contents struct {
	stones  []string // this server may remove them under an exclusive lock
	here    bool     // there is a stone of this boot
	made    bool     // there is a stone with stonePrefix: see ours
	alien   bool     // there is a stone of another machine, perhaps
	foreign bool     // there is something else
}

func (c *contents) empty() bool { return len(c.stones) == 0 && !c.alien && !c.foreign }

// look lists the open directory fd. The error is errAgain if the directory has been removed, perhaps meanwhile.
func look(fd int) (contents, error) {
	var c contents
	// A second description: all users of fd share its position.
	own, err := kernel.Retry(func() (int, error) { return unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return c, err
	}
	dir := os.NewFile(uintptr(own), "placeholder")
	defer dir.Close()
	names, err := dir.Readdirnames(maxEntries)
	switch {
	case errors.Is(err, unix.ENOENT):
		return c, errAgain
	case err != nil && !errors.Is(err, io.EOF):
		return c, err
	}
	for _, name := range names {
		made := strings.HasPrefix(name, stonePrefix)
		of := strings.TrimPrefix(strings.TrimPrefix(name, stonePrefix), keptPrefix)
		switch {
		case of == name:
			c.foreign = true
			continue
		case of == boot():
			c.here = true
			c.stones = append(c.stones, name)
		case local(fd): // of a server before the last boot
			c.stones = append(c.stones, name)
		default:
			c.alien = true
		}
		c.made = c.made || made
	}
	c.foreign = c.foreign || len(names) == maxEntries
	return c, nil
}

// boot identifies the running kernel, the owner of the locks.
var boot = sync.OnceValue(func() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	id, _, _ := strings.Cut(string(text), "-")
	return cmp.Or(strings.TrimSpace(id), "unknown")
})

// local reports whether no other machine uses the filesystem of fd. An unknown filesystem may be one of the network.
func local(fd int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return false
	}
	return slices.Contains([]int64{
		unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC,
		unix.F2FS_SUPER_MAGIC, unix.RAMFS_MAGIC, zfsMagic,
	}, int64(st.Type))
}

const zfsMagic = 0x2fc12fc1

// isAt reports whether the directory with this id has this name in dir.
func isAt(dir int, name string, want id) (bool, error) {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil && idOf(&st) == want, err
}

// flock sets a lock without waiting.
func flock(fd, how int) error {
	_, err := kernel.Retry(func() (int, error) { return 0, unix.Flock(fd, how|unix.LOCK_NB) })
	return err
}

// open opens a directory for a lock.
func open(dir int, name string) (int, error) {
	return kernel.Retry(func() (int, error) {
		return unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
}

// openDir opens a directory of a Policy, and follows no link.
func openDir(path string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := kernel.Retry(func() (int, error) { return unix.Openat2(unix.AT_FDCWD, path, &how) })
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return -1, fmt.Errorf("%w: %w", ErrChanged, &fs.PathError{Op: "open", Path: path, Err: err})
	case err != nil:
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

func denied(err error) bool {
	return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EROFS)
}
