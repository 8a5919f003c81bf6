package jail

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/paths"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
)

// placing is a path of the policy with what its mount needs to know.
type placing struct {
	*sandbox.Path
	index  int
	above  *placing // the nearest path of the policy above; nil: "/"
	holds  bool     // a denied directory below which something is allowed
	placed bool     // something of the server's tree, or a mask, is mounted
}

// place mounts every path of the policy, parents first.
//
// A mask of a denied path is the same empty file or directory for all of them. A denied directory with an allowed path below
// gets a directory of its own, in which place makes the way to the allowed path.
func (v *view) place() error {
	placings, err := v.arrange()
	if err != nil {
		return err
	}
	for i := range placings {
		p := &placings[i]
		switch {
		case v.own(p):
			err = v.placeOwn(p)
		case p.Kind == sandbox.Missing:
			err = v.placeMissing(p)
		case p.Access == sandbox.Deny:
			err = v.deny(p)
		default:
			err = v.allow(p)
		}
		if err != nil {
			f := &Failure{}
			if !errors.As(err, &f) {
				f = unmounted("mount of "+p.Path.Path, err)
			}
			return f
		}
	}
	if err := v.makeLinks(placings); err != nil {
		return err
	}
	return v.freeze(placings)
}

// arrange finds what lies above each path, and checks the form of the policy.
func (v *view) arrange() ([]placing, error) {
	if v.policy.Root > sandbox.Write {
		return nil, &Failure{Stage: "policy", Text: fmt.Sprintf("\"/\" has the unknown access %d", v.policy.Root)}
	}
	placings := make([]placing, len(v.policy.Paths))
	known := make(map[string]*placing, len(placings))
	for i := range placings {
		p := &placings[i]
		p.Path, p.index = &v.policy.Paths[i], i
		name := p.Path.Path
		if _, twice := known[name]; twice || !path.IsAbs(name) || path.Clean(name) != name || name == "/" {
			return nil, &Failure{Stage: "policy", Text: fmt.Sprintf("path %q is relative, not clean, /, or there twice", name)}
		}
		if p.Access > sandbox.Write || p.Kind > sandbox.Missing {
			return nil, &Failure{Stage: "policy", Text: fmt.Sprintf("path %q has the unknown access %d or kind %d", name, p.Access, p.Kind)}
		}
		known[name] = p
	}
	for i := range placings {
		p := &placings[i]
		name := p.Path.Path
		p.above, _ = paths.Nearest(known, paths.Parent(name))
		if p.above != nil && p.above.index > i { // its mount would cover the mount of p
			return nil, &Failure{Stage: "policy", Text: fmt.Sprintf("path %q comes before %q, which is above", name, p.above.Path.Path)}
		}
		if holder := v.holder(p); holder != nil && p.Access > sandbox.Deny && p.Kind != sandbox.Missing {
			holder.holds = true
		}
	}
	return placings, nil
}

// aboveAccess is the access of what lies above p.
func (v *view) aboveAccess(p *placing) sandbox.Access {
	if p.above == nil {
		return v.policy.Root
	}
	return p.above.Access
}

// holder is the denied directory in which the way to p must be made, because everything above p is denied up to there. It is nil
// if that directory is "/", or if p lies in something visible. /dev/shm is visible in every view.
func (v *view) holder(p *placing) *placing {
	above := p.above
	if above == nil || above.Access != sandbox.Deny {
		return nil
	}
	for above.above != nil && above.above.Access == sandbox.Deny {
		above = above.above
	}
	if above.above == nil && v.policy.Root == sandbox.Deny && !inShm(above) {
		return nil
	}
	return above
}

// accessInView is the access that the view gives a path of the policy. /sys is never writable.
func accessInView(p *sandbox.Path) sandbox.Access {
	if p.Access == sandbox.Write && paths.Within(p.Path, "/sys") {
		return sandbox.Read
	}
	return p.Access
}

// allow mounts the path of the server's tree, readable or writable. What is writable is a mount of its own even below
// another writable directory, because the kernel does not let a program move or remove a mount.
func (v *view) allow(p *placing) error {
	source, err := v.identify(v.old, p)
	if err != nil {
		return err
	}
	defer unix.Close(source)
	if v.aboveAccess(p) == sandbox.Deny {
		if err := v.wayTo(p); err != nil {
			return err
		}
	}
	return v.mountAt(p, source)
}

// mountAt mounts the source, which is p in the server's tree, at p in the view.
func (v *view) mountAt(p *placing, source int) error {
	attributes := uint64(plain)
	if accessInView(p.Path) != sandbox.Write {
		attributes |= unix.MOUNT_ATTR_RDONLY
	}
	tree, err := cloneAll(source, attributes)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	var target int
	if v.aboveAccess(p) == sandbox.Deny || v.own(p) {
		target, err = lookup(v.root, p.Path.Path)
	} else {
		target, err = v.identify(v.root, p)
	}
	if err != nil {
		return err
	}
	defer unix.Close(target)
	p.placed = true
	return attach(tree, target, "")
}

// wayTo makes the mount point of p in the directory that covers what is denied above p.
func (v *view) wayTo(p *placing) error {
	kind := uint32(unix.S_IFDIR)
	if p.Kind == sandbox.File {
		kind = unix.S_IFREG
	}
	if holder := v.holder(p); holder != nil {
		return v.mountPoint(maskOf(holder), strings.TrimPrefix(p.Path.Path, holder.Path.Path), kind)
	}
	return v.mountPoint(poolRoot, p.Path.Path, kind)
}

// maskOf names the directory of the pool that covers a denied directory with something allowed below.
func maskOf(p *placing) string { return "mask" + decimal(p.index) }

// mountPoint makes the path below a directory of the pool, with its parents. The kind is unix.S_IFDIR or unix.S_IFREG. The
// pool has links that lead out, so each name is made in a directory that lookup has found.
func (v *view) mountPoint(directory, name string, kind uint32) error {
	for at := 1; at < len(name); at++ {
		if name[at] == '/' {
			if err := v.make("/"+directory+name[:at], unix.S_IFDIR, ""); err != nil {
				return err
			}
		}
	}
	if name == "/" {
		return nil
	}
	return v.make("/"+directory+name, kind, "")
}

// make makes one name in the pool: a directory, an empty file, or a link. One that exists already may stay.
func (v *view) make(name string, kind uint32, target string) error {
	parent, err := lookup(v.pool, path.Dir(name))
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	switch kind {
	case unix.S_IFDIR:
		err = unix.Mkdirat(parent, path.Base(name), 0o755)
	case unix.S_IFLNK:
		err = unix.Symlinkat(target, parent, path.Base(name))
	default:
		err = unix.Mknodat(parent, path.Base(name), kind|0o444, 0)
	}
	if err == unix.EEXIST {
		return nil
	}
	return err
}

// deny covers the path.
func (v *view) deny(p *placing) error {
	if v.aboveAccess(p) == sandbox.Deny {
		return nil // not in the view
	}
	target, err := v.identify(v.root, p)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	p.placed = true
	return v.mask(p, target)
}

func (v *view) mask(p *placing, target int) error {
	switch {
	case p.Kind == sandbox.File:
		return cover(v.frozen, poolFile, target, "")
	case p.holds:
		if err := unix.Mkdirat(v.pool, maskOf(p), 0o755); err != nil {
			return err
		}
		return cover(v.frozen, maskOf(p), target, "")
	default:
		return cover(v.frozen, poolDenied, target, "")
	}
}

// placeMissing covers the placeholder that the server has made for a name that the program may not create.
func (v *view) placeMissing(p *placing) error {
	if v.aboveAccess(p) == sandbox.Deny {
		return nil
	}
	target, err := lookup(v.root, p.Path.Path)
	if err == unix.ENOENT && p.Ino == 0 {
		return v.cannotBeMade(p)
	}
	if err != nil {
		return exchanged(p, err)
	}
	defer unix.Close(target)
	var stat unix.Stat_t
	if err := unix.Fstat(target, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR || p.Ino != 0 && (uint64(stat.Dev) != p.Dev || stat.Ino != p.Ino) {
		return &Failure{Stage: "mount of " + p.Path.Path, Text: "something else was created in place of the placeholder directory; try again"}
	}
	p.placed = true
	return cover(v.frozen, poolMissing, target, "")
}

// cannotBeMade checks that the program cannot make p, for which the server has made no placeholder. A program that owns the
// directory could permit itself to write there.
func (v *view) cannotBeMade(p *placing) error {
	directory, err := lookup(v.root, path.Dir(p.Path.Path))
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return exchanged(p, err)
	}
	defer unix.Close(directory)
	var system unix.Statfs_t
	var stat unix.Stat_t
	if err := unix.Fstatfs(directory, &system); err != nil {
		return err
	}
	if err := unix.Fstat(directory, &stat); err != nil {
		return err
	}
	if system.Flags&unix.ST_RDONLY != 0 || int(stat.Uid) != unix.Geteuid() && unix.Faccessat2(directory, "", unix.W_OK, unix.AT_EMPTY_PATH|unix.AT_EACCESS) != nil {
		return nil
	}
	return &Failure{Stage: "mount of " + p.Path.Path, Text: fmt.Sprintf(
		"there is no placeholder for %[1]s, and the program could create %[1]s; let the server's user write in %[2]s", p.Path.Path, path.Dir(p.Path.Path))}
}

// own reports whether what lies at p in the view is of the view's own, because p is in /dev or /proc.
func (v *view) own(p *placing) bool {
	if !paths.Within(p.Path.Path, "/dev") && !paths.Within(p.Path.Path, "/proc") {
		return false
	}
	return p.above == nil || !p.above.placed && v.own(p.above)
}

// inShm reports whether p lies in /dev/shm.
func inShm(p *placing) bool { return strings.HasPrefix(p.Path.Path, "/dev/shm/") }

// placeOwn mounts a path in /dev or /proc. The view's own devices and processes stay as they are, unless the policy denies
// them: no policy gives a program the devices and processes of the server. Other paths, such as those in /dev/shm, are
// mounted as anywhere.
func (v *view) placeOwn(p *placing) error {
	switch {
	case p.above != nil && p.above.Access == sandbox.Deny:
		return nil
	case p.holds && inShm(p):
		if err := v.mountPoint(poolShm, strings.TrimPrefix(p.Path.Path, "/dev/shm"), unix.S_IFDIR); err != nil {
			return err
		}
		target, err := lookup(v.root, p.Path.Path)
		if err != nil {
			return exchanged(p, err)
		}
		defer unix.Close(target)
		p.placed = true
		return v.mask(p, target)
	case p.Access == sandbox.Deny || p.Kind == sandbox.Missing:
		target, err := lookup(v.root, p.Path.Path)
		if err == unix.ENOENT || err == unix.ENOTDIR {
			return nil
		}
		if err != nil {
			return exchanged(p, err)
		}
		defer unix.Close(target)
		var stat unix.Stat_t
		if err := unix.Fstat(target, &stat); err != nil {
			return err
		}
		mask := poolFile
		if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
			mask = poolDenied
		}
		return cover(v.frozen, mask, target, "")
	case paths.Within(p.Path.Path, "/proc"), p.Path.Path == "/dev", paths.Within(p.Path.Path, "/dev/pts"):
		return nil
	}
	name := strings.TrimPrefix(p.Path.Path, "/dev")
	var stat unix.Stat_t
	if name != "/shm" && unix.Fstatat(v.dev, name[1:], &stat, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return nil
	}
	source, err := v.identify(v.old, p)
	if err != nil {
		return err
	}
	defer unix.Close(source)
	kind := uint32(unix.S_IFDIR)
	if p.Kind == sandbox.File {
		kind = unix.S_IFREG
	}
	if inShm(p) {
		err = v.mountPoint(poolShm, strings.TrimPrefix(name, "/shm"), kind)
	} else {
		err = v.mountPoint(poolDev, name, kind)
	}
	if err != nil {
		return err
	}
	return v.mountAt(p, source)
}

// identify finds p in the tree that begins at dir, and checks that it is the file that the server has found.
func (v *view) identify(dir int, p *placing) (int, error) {
	fd, err := lookup(dir, p.Path.Path)
	if err != nil {
		return -1, exchanged(p, err)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		unix.Close(fd)
		return -1, err
	}
	if uint64(stat.Dev) != p.Dev || stat.Ino != p.Ino {
		unix.Close(fd)
		return -1, &Failure{Stage: "mount of " + p.Path.Path, Text: fmt.Sprintf(
			"%s has been exchanged since the server looked: inode %d of device %#x, not %d of %#x. Try again, or stop what moves it",
			p.Path.Path, stat.Ino, stat.Dev, p.Ino, p.Dev)}
	}
	return fd, nil
}

// exchanged explains why p cannot be found.
func exchanged(p *placing, err error) error {
	return unmountedHelp("mount of "+p.Path.Path, err, p.Path.Path+" has been exchanged with a link, moved or removed since the server looked; "+
		"try again, or stop what moves it", unix.ELOOP, unix.ENOENT, unix.ENOTDIR, unix.EXDEV)
}

// freeze takes the read permission from the directories that cover something. Until then they needed the permission to write.
func (v *view) freeze(placings []placing) error {
	for i := range placings {
		p := &placings[i]
		if !p.holds || !p.placed {
			continue
		}
		if err := v.freezeBelow(maskOf(p)); err != nil {
			return unmounted("mask of "+p.Path.Path, err)
		}
	}
	return nil
}

// freezeBelow gives the directory of the pool and every directory below it the mode 111.
func (v *view) freezeBelow(directory string) error {
	names, err := list(v.pool, directory)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := v.freezeBelow(directory + "/" + name); err != nil && err != unix.ENOTDIR {
			return err
		}
	}
	return unix.Fchmodat(v.pool, directory, 0o111, 0)
}
