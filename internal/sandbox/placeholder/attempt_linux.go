package placeholder

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/sandbox"
)

// attempt is the hold of one directory.
type attempt struct {
	dir  int          // the open parent
	in   *unix.Stat_t // of the parent
	name string
	uid  uint32 // of the program
	path *sandbox.Path
	made bool // this attempt has made a directory
}

// try returns nil and no error if the directory needs no place.
func (h *Holder) try(a *attempt) (*place, error) {
	changed := func(what string) (*place, error) {
		if a.path.Kind == sandbox.Missing {
			return nil, fmt.Errorf("%w: %s", ErrChanged, what)
		}
		return nil, nil // the jail compares device and inode
	}
	a.made = false
	fd, err := open(a.dir, a.name)
	if errors.Is(err, unix.ENOENT) {
		if err := a.makeDir(); err != nil {
			return nil, err
		}
		fd, err = open(a.dir, a.name)
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, errAgain
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return changed("there is a file now")
	case errors.Is(err, unix.EACCES):
		return changed("there is a directory now that the server may not read")
	case err != nil:
		return nil, err
	}
	p := &place{fd: fd, name: a.name}
	var st unix.Stat_t
	found, err := look(fd)
	if err = cmp.Or(err, unix.Fstat(fd, &st)); err != nil {
		unix.Close(fd)
		return nil, err
	}
	if found.foreign && len(found.stones) == 0 && !sticky(&st) {
		unix.Close(fd)
		return changed("there is a directory with files now")
	}
	if err := flock(fd, unix.LOCK_SH); err != nil {
		unix.Close(fd)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errAgain
		}
		return nil, fmt.Errorf("lock: %w", err)
	}
	p.id = idOf(&st)
	// From here on p may have the last lock, so leave ends p.
	if is, err := isAt(a.dir, a.name, p.id); err != nil || !is {
		p.leave()
		return nil, cmp.Or(err, errAgain)
	}
	if found, err = look(fd); err != nil { // nobody removes stones now
		p.leave()
		return nil, err
	}
	p.made = a.made && found.empty() || found.ours(&st)
	if found.foreign {
		p.leave()
		return changed("there is a directory with files now")
	}
	if a.path.Access == sandbox.Write && !p.made {
		p.leave()
		return nil, nil
	}
	if p.made && found.empty() && st.Mode&0o055 != 0o055 {
		unix.Fchmod(fd, mode) // the umask hides the placeholder from the servers of other users; this is no error
	}
	if a.path.Access < sandbox.Write && (p.made || a.path.Kind == sandbox.Missing) {
		a.path.Access, a.path.Kind, a.path.Dev, a.path.Ino = sandbox.Read, sandbox.Missing, p.id.dev, p.id.ino
	}
	if !found.here {
		// Without permission the directory belongs to somebody else, with the right to remove the directory at any
		// time. Then the lock alone protects the directory, from our servers.
		if err := p.putStone(&st); err != nil && !denied(err) {
			p.leave()
			if errors.Is(err, unix.ENOENT) {
				return nil, errAgain
			}
			return nil, fmt.Errorf("make a directory in it, which keeps others from removing it: %w", err)
		}
	}
	return h.share(p)
}

// makeDir makes the directory. The server as root makes the directory as the owner of the parent: if the server is
// killed, the owner can remove the directory.
func (a *attempt) makeDir() error {
	err := as(a.in, func() error { return unix.Mkdirat(a.dir, a.name, mode) })
	if err != nil && !errors.Is(err, unix.EEXIST) && a.in.Uid != 0 && os.Geteuid() == 0 {
		err = unix.Mkdirat(a.dir, a.name, mode)
	}
	owns := a.in.Uid == a.uid
	switch {
	case err == nil:
		a.made = true
		return nil
	case errors.Is(err, unix.EEXIST):
		return nil
	case errors.Is(err, unix.EROFS), errors.Is(err, unix.EPERM):
		return errSkip // of a mount without writing, or an immutable directory: the same for the program
	case errors.Is(err, unix.EACCES) && !owns && int(a.uid) == os.Geteuid():
		return errSkip // the program has no more permissions than the server
	case errors.Is(err, unix.EACCES) && owns:
		return fmt.Errorf("%w: the program's user owns the parent directory, and could make it writable: make it writable (chmod u+w), or leave it out of the directories that the program may write", err)
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w: the parent directory has been removed", ErrChanged)
	}
	return fmt.Errorf("mkdir: %w", err)
}

// putStone makes the stone of this boot.
func (p *place) putStone(st *unix.Stat_t) error {
	prefix := keptPrefix
	if p.made {
		prefix = stonePrefix
	}
	err := as(st, func() error { return unix.Mkdirat(p.fd, prefix+boot(), 0o755) })
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}
