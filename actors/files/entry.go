package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Entry describes the file at the place: with follow the target of a link, else the link.
func (p Place) Entry(follow bool) (e protocol.FsEntry, err error) {
	err = p.in(func(v View) error {
		e, err = describe(v, p.Path, follow)
		return err
	})
	return e, err
}

// List returns the entries of a directory, sorted. The limits are those of ReadDirectory.
func (p Place) List(ctx context.Context, hold Hold) (r protocol.FsListResult, err error) {
	err = p.in(func(v View) error {
		r.Entries, err = list(ctx, v, p.Path, hold)
		return err
	})
	return r, err
}

// Symlink makes the place a symbolic link.
func (p Place) Symlink(target string) error {
	return p.in(func(v View) error { return v.Symlink(target, p.Path) })
}

// SetMetadata changes the permission bits and the time of a file; nil: no change. A directory keeps the other bits
// of its mode. Links are followed.
func (p Place) SetMetadata(mode *uint64, modifiedAtMs *int64) error {
	return p.in(func(v View) error {
		if mode != nil {
			info, err := v.Stat(p.Path)
			if err != nil {
				return err
			}
			bits := fs.FileMode(*mode) & fs.ModePerm
			if info.IsDir() {
				bits |= info.Mode() & (fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
			}
			if err := v.Chmod(p.Path, bits); err != nil {
				return err
			}
		}
		if modifiedAtMs == nil {
			return nil
		}
		return v.Chtimes(p.Path, time.Time{}, time.UnixMilli(*modifiedAtMs))
	})
}

// Rename gives a file another name, and replaces a file there.
func Rename(from, to Place) error {
	for _, p := range []Place{from, to} {
		if p.Path == p.Root || p.Path == "/" {
			return refuse(protocol.KindPolicy, "path `%s` is not renamed", p.Path)
		}
	}
	return from.in(func(source View) error {
		return to.in(func(target View) error { return renameBetween(source, from.Path, target, to.Path) })
	})
}

// renameBetween renames a file between two views, which may have different roots: it works in the two open
// directories.
func renameBetween(source View, from string, target View, to string) error {
	a, err := locationIn(from, source.OpenDirectory)
	if err != nil {
		return err
	}
	defer a.close()
	b, err := locationIn(to, target.OpenDirectory)
	if err != nil {
		return err
	}
	defer b.close()
	return a.try("rename", func() error { return unix.Renameat(a.dir, a.name, b.dir, b.name) })
}

func list(ctx context.Context, v View, path string, hold Hold) (entries []protocol.FsEntry, err error) {
	d, err := v.at(path).open(unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	count, size := 0, 0
	for err == nil {
		var some []fs.DirEntry
		some, err = d.ReadDir(1000)
		for _, e := range some {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if count++; count > maxListed {
				continue // only to count
			}
			entry, err := describe(v, filepath.Join(path, e.Name()), false)
			if errors.Is(err, fs.ErrNotExist) {
				continue // removed meanwhile
			}
			if err != nil {
				return nil, err
			}
			n := EncodedLen(e.Name()) + 2*len(entry.RawName) + EncodedLen(entry.Target) + entryBytes
			if size += n; size > maxListBytes {
				return nil, fail(protocol.KindTooLarge, "directory `%s` has entries of more than %d bytes: fs/walk returns a part", path, maxListBytes)
			}
			if err := hold.Take(n); err != nil {
				return nil, err
			}
			entries = append(entries, entry)
		}
	}
	switch {
	case err != io.EOF:
		return nil, err
	case count > maxListed:
		err := fail(protocol.KindTooLarge, "fs/list returned %d entries; limit is %d", count, maxListed)
		return nil, &Advised{err, "fs/walk returns a part of a large directory"}
	}
	slices.SortFunc(entries, func(a, b protocol.FsEntry) int { return strings.Compare(nameOf(a), nameOf(b)) })
	return entries, nil
}

func nameOf(e protocol.FsEntry) string {
	if e.RawName != nil {
		return string(e.RawName)
	}
	return e.FileName
}

// describe returns the entry of a file.
func describe(v View, path string, follow bool) (e protocol.FsEntry, err error) {
	info, err := v.Lstat(path)
	if err == nil && follow && info.Mode()&fs.ModeSymlink != 0 {
		info, err = v.Stat(path)
	}
	if err != nil {
		return e, err
	}
	e = protocol.FsEntry{FileName: filepath.Base(path), Mode: modeBits(info.Mode()), Size: uint64(info.Size()), ModifiedAtMs: info.ModTime().UnixMilli()}
	if !utf8.ValidString(e.FileName) {
		e.RawName, e.FileName = []byte(e.FileName), strings.ToValidUTF8(e.FileName, "\ufffd")
	}
	switch kind := info.Mode().Type(); {
	case kind == 0:
		e.Kind = protocol.FsFile
	case kind == fs.ModeDir:
		e.Kind = protocol.FsDirectory
	case kind == fs.ModeSymlink:
		e.Kind = protocol.FsSymlink
		e.Target, err = v.Readlink(path)
	default:
		e.Kind = protocol.FsOther
	}
	return e, err
}

// specialBits are the bits of chmod(2) that have other places in an fs.FileMode.
var specialBits = []struct {
	mode fs.FileMode
	bit  uint64
}{{fs.ModeSetuid, unix.S_ISUID}, {fs.ModeSetgid, unix.S_ISGID}, {fs.ModeSticky, unix.S_ISVTX}}

// modeBits returns the bits of chmod(2) of a mode.
func modeBits(m fs.FileMode) uint64 {
	bits := uint64(m.Perm())
	for _, s := range specialBits {
		if m&s.mode != 0 {
			bits |= s.bit
		}
	}
	return bits
}
