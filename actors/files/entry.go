package files

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/protocol"
)

// entry describes the file at a place: with Follow the target of a link, else the link.
func entry(_ context.Context, v View, c Call) (protocol.FsEntry, error) {
	return describe(v, c.At.Path, c.Follow)
}

// symlink makes the place a symbolic link to Target.
func symlink(_ context.Context, v View, c Call) error { return v.Symlink(string(c.Target), c.At.Path) }

// setMetadata changes the permission bits and the time of a file; nil: no change. A directory keeps the other bits
// of its mode. Links are followed.
func setMetadata(_ context.Context, v View, c Call) error {
	if c.Bits != nil {
		info, err := v.Stat(c.At.Path)
		if err != nil {
			return err
		}
		bits := fs.FileMode(*c.Bits) & fs.ModePerm
		if info.IsDir() {
			bits |= info.Mode() & (fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
		}
		if err := v.Chmod(c.At.Path, bits); err != nil {
			return err
		}
	}
	if c.ModifiedAtMs == nil {
		return nil
	}
	return v.Chtimes(c.At.Path, time.Time{}, time.UnixMilli(*c.ModifiedAtMs))
}

// rename gives a file another name, and replaces a file there. The two views may have different roots, so rename works in the two
// open directories.
func rename(_ context.Context, source View, c Call) error {
	target, err := c.At.View()
	if err != nil {
		return err
	}
	defer target.Close()
	a, err := source.entry(c.From.Path)
	if err != nil {
		return err
	}
	defer a.close()
	b, err := target.entry(c.At.Path)
	if err != nil {
		return err
	}
	defer b.close()
	return a.try("rename", func() error { return unix.Renameat(a.dir, a.name, b.dir, b.name) })
}

// list returns the entries of a directory, sorted.
func list(ctx context.Context, v View, c Call) (r protocol.FsListResult, err error) {
	l := listing{method: "fs/list", path: c.At.Path, hold: c.Hold}
	err = l.each(ctx, v, func(e fs.DirEntry) error {
		if l.full() {
			return nil
		}
		entry, err := describe(v, filepath.Join(l.path, e.Name()), false)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err == nil {
			err = l.take(EncodedLen(e.Name()) + 2*len(entry.RawName) + EncodedLen(entry.Target) + entryBytes)
		}
		if err != nil {
			return err
		}
		r.Entries = append(r.Entries, entry)
		return nil
	})
	slices.SortFunc(r.Entries, func(a, b protocol.FsEntry) int { return strings.Compare(nameOf(a), nameOf(b)) })
	return r, err
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
