package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxLinks is how many symbolic links are followed, as in path_resolution(7).
const maxLinks = 40

// replacement is a new file before it replaces another file, or takes a free name. Until Commit the
// file is unnamed. On a filesystem without unnamed files, the file has a temporary name (see
// open(2), O_TMPFILE). The content is not synced: after a loss of power the target may be the old
// file, the new file, or empty.
//
// Some files must stay the files they are: a file with other names, a mount point, a file whose owner the
// new file cannot get, a file in a directory that may not be written. There Commit copies the new file into
// the old file.
type replacement struct {
	Local
	at     location     // of the file to replace, or of a free name
	old    *unix.Stat_t // of the file to replace; nil: none
	named  string       // temporary name in the directory; "": the file is unnamed
	source *os.File     // the new file again, for Commit to copy; nil: Commit renames the new file
	mode   *fs.FileMode // for the target; nil: that of the old file
}

// newReplacement creates a file to replace path, or the target of the links in path.
func newReplacement(v View, path string) (*replacement, error) {
	at, err := v.behind(path)
	if err != nil {
		return nil, err
	}
	return replace(at)
}

// replace creates a file to replace the file at a location, with the mode of the old file and, if permitted,
// its owner. The replacement takes over the location, and closes it.
func replace(at location) (*replacement, error) {
	r := &replacement{at: at}
	if err := r.create(); err != nil {
		r.Discard()
		return nil, err
	}
	return r, nil
}

func (r *replacement) create() error {
	switch st, kind, err := r.at.stat(); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case kind == unix.S_IFLNK:
		return r.at.isLink(unix.ELOOP)
	case kind == unix.S_IFDIR:
		return &fs.PathError{Op: "write", Path: r.at.path, Err: unix.EISDIR}
	case kind == unix.S_IFIFO || kind == unix.S_IFSOCK: // nobody reads there
		return &fs.PathError{Op: "write", Path: r.at.path, Err: unix.ENXIO}
	case kind != unix.S_IFREG:
		return notFile(r.at.path)
	default: // a rename would not check the file's write permission
		r.old = &st
		if err := r.at.try("write", func() error { return unix.Faccessat(r.at.dir, r.at.name, unix.W_OK, unix.AT_EACCESS) }); err != nil {
			return err
		}
	}
	if r.old != nil && r.old.Nlink > 1 {
		return r.stage(r.at)
	}
	var err error
	if r.File, err = openUnnamed(r.at); err != nil {
		err = r.openNamed()
	}
	switch {
	case r.old == nil:
		return err
	case stays(err):
		return r.stageElsewhere(err)
	case err != nil:
		return err
	case r.File.Chown(int(r.old.Uid), int(r.old.Gid)) != nil:
		r.drop()
		return r.stage(r.at)
	}
	// chown(2) clears set-user-ID, so chmod comes after.
	return r.at.try("chmod", func() error { return unix.Fchmod(int(r.File.Fd()), uint32(r.old.Mode)&0o7777) })
}

// stays reports whether the error of creating or renaming a file means that the old file must stay.
func stays(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.EBUSY)
}

// stage creates the new file in a directory, without a name. Commit will copy it into the old file.
func (r *replacement) stage(in location) (err error) {
	in.name = unusedName()
	if r.File, err = in.open(unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600); err != nil {
		if stays(err) && in.dir == r.at.dir {
			return r.stageElsewhere(err)
		}
		return err
	}
	r.source, err = in.open(unix.O_RDONLY, 0)
	return errors.Join(err, in.remove(0))
}

// stageElsewhere creates the new file in the directory for temporary files. It returns why if that fails.
func (r *replacement) stageElsewhere(why error) error {
	in, err := View{}.entry(os.TempDir() + "/")
	if err != nil {
		return why
	}
	defer in.close()
	if r.stage(in) != nil {
		return why
	}
	return nil
}

// chmod sets the mode of the target.
func (r *replacement) chmod(mode fs.FileMode) error {
	r.mode = &mode
	return r.File.Chmod(mode)
}

// temporary returns the location of the file's temporary name.
func (r *replacement) temporary() location {
	return location{dir: r.at.dir, name: r.named, path: r.at.path}
}

// openNamed creates the file with a temporary name.
func (r *replacement) openNamed() (err error) {
	r.named = unusedName()
	if r.File, err = r.temporary().open(unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o666); err != nil {
		r.named = ""
	}
	return err
}

func unusedName() string { return fmt.Sprintf(".troupe-%016x", rand.Uint64()) }

// same reports whether the file to replace is the file of info.
func (r *replacement) same(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && r.old != nil && st.Dev == r.old.Dev && st.Ino == r.old.Ino
}

// Commit puts the new file in the place of the old. If Commit fails, no trace of the new file remains; but a
// file that must stay may have a part of the new content.
func (r *replacement) Commit(context.Context) error {
	defer r.Discard()
	if r.source != nil {
		return r.overwrite()
	}
	if r.named == "" {
		name := unusedName()
		if err := link(r.File, r.at, name); err != nil {
			return err
		}
		r.named = name
	}
	if err := r.File.Close(); err != nil { // a full filesystem may report its error only now
		return err
	}
	err := r.at.try("rename", func() error { return unix.Renameat(r.at.dir, r.named, r.at.dir, r.at.name) })
	switch {
	case err == nil:
		r.named = "" // nothing to remove
	case r.old != nil && stays(err):
		if r.source, err = r.temporary().open(unix.O_RDONLY, 0); err == nil {
			err = r.overwrite()
		}
	}
	return err
}

// overwrite copies the new file into the old file.
func (r *replacement) overwrite() error {
	old, err := r.at.open(unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer old.Close()
	if info, err := old.Stat(); err != nil || !info.Mode().IsRegular() { // another file has come meanwhile
		return cmp.Or(err, r.at.notFile(0))
	}
	if r.mode != nil {
		if err := old.Chmod(*r.mode); err != nil {
			return err
		}
	}
	if err := old.Truncate(0); err != nil {
		return err
	}
	if _, err := io.Copy(old, r.source); err != nil {
		return err
	}
	return old.Close()
}

// drop removes every trace of the new file.
func (r *replacement) drop() {
	if r.File != nil {
		r.File.Close()
	}
	if r.source != nil {
		r.source.Close()
	}
	if r.named != "" {
		_ = r.temporary().remove(0)
		r.named = ""
	}
}

// Discard removes every trace of the new file, and closes the location. Discard may be repeated.
func (r *replacement) Discard() {
	r.drop()
	r.at.close()
	r.at.dir = unix.AT_FDCWD
}
