package jail

import (
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/kernel"
	"github.com/b6f6fdd7/troupe/internal/paths"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
)

// Names in the pool. A file and two directories cover what the policy hides: one for each kind, however many paths it hides.
const (
	poolRoot    = "root"    // "/" of a view that begins empty
	poolDev     = "dev"     // /dev
	poolShm     = "shm"     // /dev/shm
	poolDenied  = "denied"  // a directory, mode 000
	poolFile    = "file"    // a file, mode 000
	poolMissing = "missing" // a directory, mode 555
)

const noMountPoint = "\"/\" of the server is not a mount point, as after chroot(8), or is an initramfs; " +
	"run the server where \"/\" is a mount point, such as after pivot_root(8)"

// makeRoot makes the pool and "/" of the view: a read-only copy of "/", or an empty directory if the policy denies "/".
func (v *view) makeRoot() error {
	// Later mounts of the host must not appear in the view: they would be writable. So private, not slave.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		if err == unix.EINVAL {
			return unmountedHelp("private mounts", err, noMountPoint, unix.EINVAL)
		}
		return unmountedHelp("private mounts", err, "the system gives no capabilities to user namespaces. "+
			"With kernel.apparmor_restrict_unprivileged_userns=1, an AppArmor profile of the server with the rule \"userns,\" helps; "+
			"in a container, a seccomp profile that permits mount(2) in user namespaces", unix.EPERM, unix.EACCES)
	}
	var err error
	if v.old, err = unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return unmounted("root", err)
	}
	if v.hostProc, err = unix.Openat(v.old, "proc", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return unmounted("old /proc", err)
	}
	if err := v.makeProc(); err != nil { // before the pool lies on the old /proc: the copy would contain the pool
		return err
	}
	if v.policy.Root > sandbox.Deny { // before the pool is mounted: the copy would contain the pool
		attributes := uint64(plain | unix.MOUNT_ATTR_RDONLY)
		if v.policy.Root == sandbox.Write {
			attributes = plain
		}
		if v.root, err = cloneAll(v.old, attributes); err != nil {
			return unmountedHelp("copy of /", err, noMountPoint, unix.EINVAL)
		}
	}
	if err := v.makePool(); err != nil {
		return unmounted("tmpfs", err)
	}
	if v.policy.Root == sandbox.Deny {
		if v.root, err = clone(v.frozen, poolRoot); err != nil {
			return unmounted("empty root", err)
		}
	}
	if err := attach(v.root, v.old, ""); err != nil {
		return unmounted("mount of /", err)
	}
	if v.policy.Root == sandbox.Write {
		return v.protectSys()
	}
	return nil
}

// makePool makes the tmpfs of the view, and mounts it twice: writable and read-only.
func (v *view) makePool() (err error) {
	if v.pool, err = filesystem("tmpfs", plain, "mode", "755"); err != nil {
		return err
	}
	if err := attach(v.pool, v.hostProc, ""); err != nil {
		return err
	}
	if v.frozen, err = cloneAll(v.pool, plain|unix.MOUNT_ATTR_RDONLY); err != nil {
		return err
	}
	if err := attach(v.frozen, v.pool, ""); err != nil {
		return err
	}
	if v.policy.Root == sandbox.Deny {
		for _, dir := range []string{poolRoot, poolRoot + "/dev", poolRoot + "/proc"} {
			if err := unix.Mkdirat(v.pool, dir, 0o755); err != nil {
				return err
			}
		}
	}
	if err := unix.Mkdirat(v.pool, poolDenied, 0); err != nil {
		return err
	}
	if err := unix.Mkdirat(v.pool, poolMissing, 0o555); err != nil {
		return err
	}
	return unix.Mknodat(v.pool, poolFile, unix.S_IFREG, 0)
}

// protectSys makes /sys read-only in a view whose "/" is writable.
func (v *view) protectSys() error {
	sys, err := lookup(v.root, "/sys")
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return unmounted("/sys", err)
	}
	defer unix.Close(sys)
	// A mount can be made read-only, a directory of a mount cannot.
	mount, err := cloneAll(sys, plain|unix.MOUNT_ATTR_RDONLY)
	if err != nil {
		return unmounted("/sys", err)
	}
	defer unix.Close(mount)
	if err := attach(mount, sys, ""); err != nil {
		return unmounted("/sys", err)
	}
	return nil
}

// makeLinks makes the links of the policy that lie in a directory that the view does not show, such as /lib64, which is a
// link to usr/lib64 and the way to the interpreter of every program. makeLinks runs after all mount points exist, because no mount
// point may be a link.
func (v *view) makeLinks(placings []placing) error {
	known := make(map[string]*placing, len(placings))
	for i := range placings {
		known[placings[i].Path.Path] = &placings[i]
	}
	for _, link := range v.policy.Links {
		if path.Clean(link.Path) != link.Path || !path.IsAbs(link.Path) || link.Path == "/" {
			return &Failure{Stage: "policy", Text: fmt.Sprintf("link %q is relative, not clean, or /", link.Path)}
		}
		_, covered := paths.Nearest(known, link.Path)
		if covered || v.policy.Root != sandbox.Deny || paths.Within(link.Path, "/dev") || paths.Within(link.Path, "/proc") {
			continue // in what the view shows or hides on purpose
		}
		err := v.mountPoint(poolRoot, path.Dir(link.Path), unix.S_IFDIR)
		if err == nil {
			err = v.make("/"+poolRoot+link.Path, unix.S_IFLNK, link.Target)
		}
		if err != nil {
			return unmounted("link "+link.Path, err)
		}
	}
	return nil
}

// list returns the names in the directory at the path below dir.
func list(dir int, path string) ([]string, error) {
	fd, err := unix.Openat(dir, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var names []string
	buffer := make([]byte, 4<<10)
	for {
		n, err := unix.ReadDirent(fd, buffer)
		if err != nil || n == 0 {
			return names, err
		}
		_, _, names = unix.ParseDirent(buffer[:n], -1, names)
	}
}

// leave makes the view the root of the process, gives up the old tree with all descriptors of it, and enters the directory. An
// empty directory means "/". Every view has "/". A directory of the view's own, in /dev or /proc, is reached without a link. Any
// other must be the directory that has this path outside.
func (v *view) leave(directory string) error {
	stage := "directory " + directory
	var outside *unix.Stat_t
	ways, resolve := []string{directory}, uint64(unix.RESOLVE_NO_MAGICLINKS)
	if directory == "" || paths.Within(directory, "/dev") || paths.Within(directory, "/proc") {
		resolve |= unix.RESOLVE_NO_SYMLINKS
	} else {
		var (
			real string
			err  error
		)
		if outside, real, err = v.outside(directory); err != nil {
			return unmounted(stage, err)
		}
		ways = append(ways, real) // a view that began empty may lack links on the way
	}
	if err := v.pivot(); err != nil {
		return err
	}
	v.close() // before any path of the client is followed: /proc/self/fd leads to every descriptor
	if directory == "" || directory == "/" {
		return nil
	}
	var err error
	for _, way := range ways {
		if err = enterDirectory(way, resolve, outside); err == nil {
			return nil
		}
	}
	return unmountedHelp(stage, err, "the policy hides the working directory; make it readable, or name another one",
		unix.EACCES, unix.ENOENT, unix.ENOTDIR, unix.ELOOP)
}

// outside finds the directory in the old tree, and returns its path without links.
func (v *view) outside(directory string) (*unix.Stat_t, string, error) {
	fd, err := openDirectory(v.old, relative(directory), unix.RESOLVE_NO_MAGICLINKS)
	if err != nil {
		return nil, "", err
	}
	defer unix.Close(fd)
	stat := new(unix.Stat_t)
	if err := unix.Fstat(fd, stat); err != nil {
		return nil, "", err
	}
	path := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(v.proc, "self/fd/"+decimal(fd), path)
	if err != nil {
		return nil, "", err
	}
	return stat, string(path[:n]), nil
}

// enterDirectory makes the path the working directory if it is the directory that outside describes; nil: any will do.
func enterDirectory(path string, resolve uint64, outside *unix.Stat_t) error {
	fd, err := openDirectory(unix.AT_FDCWD, path, resolve)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var inside unix.Stat_t
	if err := unix.Fstat(fd, &inside); err != nil {
		return err
	}
	if outside != nil && (inside.Dev != outside.Dev || inside.Ino != outside.Ino) {
		return unix.EACCES
	}
	return unix.Fchdir(fd)
}

func openDirectory(dir int, path string, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: resolve}
	return kernel.Retry(func() (int, error) { return unix.Openat2(dir, path, &how) })
}

// pivot makes v.root the root and the working directory of the process, and detaches the old tree.
func (v *view) pivot() error {
	if err := unix.Fchdir(v.root); err != nil {
		return unmounted("pivot_root", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		if err == unix.EPERM {
			return unmountedHelp("pivot_root", err, "the seccomp profile of the container must permit pivot_root(2), which Docker's refuses with every capability "+
				"and docs/seccomp/troupe.json of troupe permits: docker run --security-opt seccomp=troupe.json (docs/SANDBOX.md, Containers)", unix.EPERM)
		}
		return unmountedHelp("pivot_root", err, noMountPoint, unix.EINVAL)
	}
	// The old root lies on the new one now. "." as the path of umount2(2) means what lies on top there.
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return unmounted("unmount of the old root", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return unmounted("chdir", err)
	}
	// Were anything left on "/", then "/.." would lead to it.
	var root, top unix.Statx_t
	if err := unix.Statx(v.root, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &root); err != nil {
		return unmounted("new root", err)
	}
	if err := unix.Statx(unix.AT_FDCWD, "/..", 0, unix.STATX_MNT_ID, &top); err != nil {
		return unmounted("new root", err)
	}
	if root.Mask&top.Mask&unix.STATX_MNT_ID == 0 || root.Mnt_id != top.Mnt_id {
		return &Failure{Stage: "unmount of the old root", Text: "something else was mounted over \"/\" of the server; start the server from the \"/\" that is in sight"}
	}
	return nil
}
