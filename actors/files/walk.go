package files

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/protocol"
)

// The limits that a client may ask for. (exec-server wire §8.)
const (
	mostWalkDepth       = 64
	mostWalkDirectories = 10_000
	mostWalkEntries     = 50_000
)

// walkItemBytes is what an entry or an error counts in the answer besides its texts. (exec-server.)
const walkItemBytes = 64

// Walk lists the files and directories below a directory, breadth first, within the limits in o. The
// entries of each directory are sorted. Walk omits symbolic links, except links to directories if
// o.FollowDirectorySymlinks is set. Walk enters each directory only once. What cannot be read is in
// the Errors of the result. If path is no directory, the result is empty. Walk stops when ctx is
// done.
func Walk(ctx context.Context, path string, o protocol.FsWalkOptions, hold Hold) (protocol.FsWalkResult, error) {
	return walkTree(ctx, View{}, Call{At: Place{Path: path}, Walk: &o, Hold: hold})
}

func walkTree(ctx context.Context, v View, c Call) (r protocol.FsWalkResult, err error) {
	var o protocol.FsWalkOptions
	if c.Walk != nil {
		o = *c.Walk
	}
	path := c.At.Path
	if o.MaxDirectories == 0 || o.MaxEntries == 0 {
		return r, Refuse(protocol.KindParams, "filesystem walk limits must be greater than zero")
	}
	if o.MaxDepth > mostWalkDepth || o.MaxDirectories > mostWalkDirectories || o.MaxEntries > mostWalkEntries {
		return r, Refuse(protocol.KindParams, "filesystem walk limits exceed maximums: depth=%d, directories=%d, entries=%d",
			mostWalkDepth, mostWalkDirectories, mostWalkEntries)
	}
	root, err := metadata(v, path)
	if err != nil || !root.IsDirectory || root.IsSymlink && !o.FollowDirectorySymlinks {
		return r, err
	}
	w := walk{view: v, o: o, hold: c.Hold, seen: make(map[string]bool)}
	more, err := w.enter(path, 0)
	for more && err == nil && len(w.todo) > 0 {
		if err = ctx.Err(); err == nil {
			at := w.todo[0]
			w.todo = w.todo[1:]
			more, err = w.directory(at)
		}
	}
	return w.r, err
}

// walk is one Walk that is under way.
type walk struct {
	view        View
	o           protocol.FsWalkOptions
	hold        Hold
	r           protocol.FsWalkResult
	todo        []walkPlace     // directories to list, in order
	directories uint64          // that were ever in todo
	entries     uint64          // looked at, listed or not
	size        int             // of the result, in bytes
	seen        map[string]bool // with FollowDirectorySymlinks: directories without links that were ever in todo
}

// walkPlace is a directory and how far it is below the first.
type walkPlace struct {
	path  string
	depth uint64
}

// fits counts an entry or an error with texts of n bytes. False ends the walk.
func (w *walk) fits(n int) (more bool, err error) {
	if w.size += n + walkItemBytes; w.size > maxWalkBytes {
		w.r.Truncated = true
		return false, nil
	}
	return true, w.hold.Take(n)
}

// fail adds an error about path to the result.
func (w *walk) fail(path string, err error) (more bool, _ error) {
	failure := protocol.FsWalkError{Path: protocol.FileURI(path), Message: Text(err)}
	if more, err := w.fits(len(failure.Path) + len(failure.Message)); !more || err != nil {
		return more, err
	}
	w.r.Errors = append(w.r.Errors, failure)
	return true, nil
}

// directory lists one directory. Without more, the walk has ended.
func (w *walk) directory(at walkPlace) (more bool, err error) {
	entries, all, err := readDir(w.view, at.path, maxEntries, w.hold)
	if errors.Is(err, errHold) {
		return false, err
	}
	if err != nil {
		if more, err := w.fail(at.path, err); !more || err != nil {
			return more, err
		}
	} else if !all {
		w.r.Truncated = true
	}
	for _, e := range entries {
		if more, err := w.entry(at, e); !more || err != nil {
			return more, err
		}
	}
	w.hold.Take(-sizeOf(entries))
	return true, nil
}

// entry adds one entry of a directory to the result, if it is a file or a directory.
func (w *walk) entry(at walkPlace, e fs.DirEntry) (more bool, err error) {
	path, kind := filepath.Join(at.path, e.Name()), e.Type()
	isLink := kind&fs.ModeSymlink != 0
	if isLink {
		info, err := w.view.Stat(path)
		if err != nil {
			return true, nil // a dangling link counts nowhere
		}
		kind = info.Mode()
	}
	if w.entries == w.o.MaxEntries {
		w.r.Truncated = true
		return false, nil
	}
	w.entries++
	text := "file"
	switch {
	case !utf8.ValidString(e.Name()):
		// In the answer of exec-server the name is that of a file that does not exist.
		return w.fail(filepath.Join(at.path, string([]rune(e.Name()))), unix.ENOENT)
	case isLink && !(kind.IsDir() && w.o.FollowDirectorySymlinks):
		return true, nil
	case kind.IsDir():
		text = "directory"
	case !kind.IsRegular():
		return true, nil
	}
	uri := protocol.FileURI(path)
	if more, err := w.fits(len(uri)); !more || err != nil {
		return more, err
	}
	w.r.Entries = append(w.r.Entries, protocol.FsWalkEntry{Path: uri, Kind: text})
	pruned := w.o.PruneHiddenDirectories && strings.HasPrefix(e.Name(), ".")
	if kind.IsDir() && at.depth < w.o.MaxDepth && !pruned {
		return w.enter(path, at.depth+1)
	}
	return true, nil
}

// enter adds a directory to todo, once, and within the limit.
func (w *walk) enter(path string, depth uint64) (more bool, err error) {
	if w.o.FollowDirectorySymlinks { // links may form a cycle
		real, err := w.view.Canonicalize(path)
		if err != nil {
			return w.fail(path, err)
		}
		if w.seen[real] {
			return true, nil
		}
		if err := w.hold.Take(len(real)); err != nil {
			return false, err
		}
		w.seen[real] = true
	}
	if w.directories == w.o.MaxDirectories {
		w.r.Truncated = true
		return true, nil
	}
	w.directories++
	w.todo = append(w.todo, walkPlace{path, depth})
	return true, w.hold.Take(len(path))
}
