package jail

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// decimal writes a number of at least 0.
func decimal(n int) string { return strconv.Itoa(n) }

// makeDev makes /dev of the view: six devices, the program's descriptors, terminals of its own, and an empty /dev/shm.
// If tty is true, /dev/console is the terminal of descriptor 0, so that ttyname(3) finds a name for it.
func (v *view) makeDev(tty bool) error {
	if err := v.fillDev(); err != nil {
		return unmounted("/dev", err)
	}
	var err error
	if v.dev, err = clone(v.frozen, poolDev); err != nil {
		return unmounted("/dev", err)
	}
	if err := attach(v.dev, v.root, "dev"); err != nil {
		return unmounted("mount of /dev", err)
	}
	for _, name := range devices {
		if err := cover(v.old, "dev/"+name, v.dev, name); err != nil && (err != unix.ENOENT || name == "null") {
			return unmounted("mount of /dev/"+name, err)
		}
	}
	if tty {
		if err := v.mountConsole(); err != nil {
			return unmounted("mount of /dev/console", err)
		}
	}
	// Read-only, because the owner of a device could otherwise change its mode for the whole system.
	if err := setAll(v.dev, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); err != nil {
		return unmounted("/dev", err)
	}

	pts, err := filesystem("devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, "ptmxmode", "0666", "mode", "0620")
	if err != nil {
		return unmounted("devpts", err)
	}
	defer unix.Close(pts)
	if err := attach(pts, v.dev, "pts"); err != nil {
		return unmounted("mount of /dev/pts", err)
	}
	if err := cover(v.pool, poolShm, v.dev, "shm"); err != nil {
		return unmounted("mount of /dev/shm", err)
	}
	return nil
}

var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// fillDev makes the names of /dev in the pool.
func (v *view) fillDev() error {
	for _, directory := range []struct {
		path string
		mode uint32
	}{{poolShm, 0o1777}, {poolDev, 0o755}, {poolDev + "/pts", 0o755}, {poolDev + "/shm", 0o755}} {
		if err := unix.Mkdirat(v.pool, directory.path, directory.mode); err != nil {
			return err
		}
	}
	for _, name := range devices {
		if err := unix.Mknodat(v.pool, poolDev+"/"+name, unix.S_IFREG|0o666, 0); err != nil {
			return err
		}
	}
	for _, link := range [][2]string{
		{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
		{"ptmx", "pts/ptmx"},
	} {
		if err := unix.Symlinkat(link[1], v.pool, poolDev+"/"+link[0]); err != nil {
			return err
		}
	}
	return nil
}

// mountConsole puts the terminal of descriptor 0 onto /dev/console. The descriptor belongs to a mount of the server, which
// cannot be copied here. The terminal's number finds the same terminal below the jail's own copy of /dev/pts. A
// terminal that is not there, because it is of another devpts, stays without a name.
func (v *view) mountConsole() error {
	var terminal, found unix.Stat_t
	if err := unix.Fstat(0, &terminal); err != nil {
		return err
	}
	name := "dev/pts/" + decimal(int(unix.Minor(uint64(terminal.Rdev))))
	if err := unix.Fstatat(v.old, name, &found, unix.AT_SYMLINK_NOFOLLOW); err != nil ||
		found.Dev != terminal.Dev || found.Ino != terminal.Ino {
		return nil
	}
	if err := unix.Mknodat(v.pool, poolDev+"/console", unix.S_IFREG|0o600, 0); err != nil {
		return err
	}
	return cover(v.old, name, v.dev, "console")
}
