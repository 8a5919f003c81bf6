package jail

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/kernel"
	"github.com/b6f6fdd7/troupe/internal/paths"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
)

// view is the file system of a jail while enter makes it. Only the jail's main thread uses it. The ints are descriptors.
//
// The old "/" stays in reach until leave: the kernel clones only mounts of the jail's own namespace. The view's root lies on
// it, and pool and frozen lie on the old /proc, where no path of a policy leads. Lookups in the old tree begin at the
// descriptor old, so none of them finds the view's root. Nothing else may lie on the old "/": leave would take away that instead.
type view struct {
	policy   *sandbox.Policy
	complete bool // refuse the old /proc
	oldProc  bool // proc is a copy of the old /proc

	old      int // "/" as the server sees it
	hostProc int // /proc as the server sees it, without what the view puts there
	pool     int // a tmpfs outside the view, for everything that the view has of its own
	frozen   int // the same tmpfs, read-only. Clones of frozen are read-only from the start
	root     int // "/" of the view
	dev      int // /dev of the view
	proc     int // /proc of the view
}

// enter gives the calling process the view of p.Policy: afterwards "/" is the view, and the working directory is p.Dir in it.
// The caller is process 1 of a new PID namespace and the only user of a new mount namespace. The caller has CAP_SYS_ADMIN in
// the user namespace of both, and already has the ids of the program. An error is a *Failure. Then the caller must end, because
// the view is incomplete.
func enter(p *Plan) error {
	if !p.Policy.Files {
		return &Failure{Stage: "mounts", Text: "the policy leaves files as they are, so there is no view to make"}
	}
	umask := unix.Umask(0)
	defer unix.Umask(umask)
	v := &view{policy: &p.Policy, complete: p.Complete, old: -1, hostProc: -1, pool: -1, frozen: -1, root: -1, dev: -1, proc: -1}
	defer v.close()
	for _, step := range []func() error{
		v.makeRoot,
		func() error { return v.makeDev(p.TTY) },
		v.placeProc,
		v.place,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	p.oldProc = v.oldProc
	return v.leave(p.Dir)
}

// writable lists the paths where Landlock lets a program write. Mounts make narrower paths below them read-only.
func writable(p *Plan) []string {
	found := []string{"/dev"}
	if !p.oldProc {
		found = append(found, "/proc")
	}
	if p.Policy.Root == sandbox.Write {
		return append(found, "/")
	}
	for i := range p.Policy.Paths {
		path := &p.Policy.Paths[i]
		if path.Kind != sandbox.Missing && accessInView(path) == sandbox.Write && !paths.Within(path.Path, "/dev") && !paths.Within(path.Path, "/proc") {
			found = append(found, path.Path)
		}
	}
	return found
}

// close may be called more than once.
func (v *view) close() {
	for _, fd := range []*int{&v.proc, &v.dev, &v.root, &v.frozen, &v.pool, &v.hostProc, &v.old} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

const (
	plain = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV // attributes of every mount of the view but for devices
	inert = plain | unix.MOUNT_ATTR_NOEXEC
)

// filesystem makes a new file system, as a mount that is nowhere yet. Options are names and values in turn.
func filesystem(kind string, attributes int, options ...string) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	for i := 0; i < len(options); i += 2 {
		if err := unix.FsconfigSetString(fs, options[i], options[i+1]); err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attributes)
}

// clone copies the mount at the path below dir, without the mounts below it. The copy has the attributes of the original, and
// is nowhere yet. An empty path is dir itself. A link at the end of the path is not followed.
func clone(dir int, path string) (int, error) {
	return unix.OpenTree(dir, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW)
}

// cloneAll copies what is at dir with everything mounted below, and sets the attributes on all of it.
func cloneAll(dir int, attributes uint64) (int, error) {
	tree, err := unix.OpenTree(dir, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return -1, err
	}
	if err := setAll(tree, attributes); err != nil {
		unix.Close(tree)
		return -1, err
	}
	return tree, nil
}

// setAll sets the attributes on the mount and on every mount below it.
func setAll(mount int, attributes uint64) error {
	return unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attributes})
}

// attach puts a mount onto the path below dir. An empty path is dir itself. A link at the end of the path is not followed.
func attach(mount, dir int, path string) error {
	return unix.MoveMount(mount, "", dir, path, unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// cover puts a copy of what is at from, below fromDir, onto the path below dir.
func cover(fromDir int, from string, dir int, path string) error {
	mount, err := clone(fromDir, from)
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	return attach(mount, dir, path)
}

// lookup finds the absolute path in the tree that begins at dir. No link may be on the way or at the end.
func lookup(dir int, path string) (int, error) {
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	return kernel.Retry(func() (int, error) { return unix.Openat2(dir, relative(path), &how) })
}

// relative makes an absolute path relative to "/".
func relative(path string) string {
	if path = strings.TrimLeft(path, "/"); path == "" {
		return "."
	}
	return path
}
