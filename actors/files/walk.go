package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Walk lists the files and directories below a directory, up to the limits in o and maxEntries.
// Walk omits symbolic links, except links to directories if o.FollowDirectorySymlinks is set; each
// directory is then listed only once. Walk stops when ctx is done.
func Walk(ctx context.Context, path string, o protocol.FsWalkOptions, hold Hold) (protocol.FsWalkResult, error) {
	w := walk{o: o, hold: hold, seen: make(map[string]bool), todo: []walkPlace{{path, 0}}}
	if _, err := once(w.seen, path); err != nil {
		return w.r, err
	}
	w.o.MaxEntries = min(o.MaxEntries, uint64(maxEntries))
	for len(w.todo) > 0 {
		at := w.todo[0]
		w.todo = w.todo[1:]
		if at.depth >= o.MaxDepth {
			continue
		}
		if err := ctx.Err(); err != nil {
			return w.r, err
		}
		if more, err := w.directory(at); err != nil {
			return w.r, err
		} else if !more {
			w.r.Truncated = true
			break
		}
	}
	slices.SortFunc(w.r.Entries, func(a, b protocol.FsWalkEntry) int { return strings.Compare(a.Path, b.Path) })
	return w.r, nil
}

// walk is one Walk that is under way.
type walk struct {
	o           protocol.FsWalkOptions
	hold        Hold
	r           protocol.FsWalkResult
	todo        []walkPlace     // directories to list, in order
	directories uint64          // listed so far
	size        int             // of the result on the wire, in bytes
	seen        map[string]bool // with FollowDirectorySymlinks, because links may form a cycle
}

// walkPlace is a directory and how far it is below the first.
type walkPlace struct {
	path  string
	depth uint64
}

// fits adds an entry's size to the result. False ends the walk.
func (w *walk) fits(uri, text string) bool {
	w.size += len(uri) + encodedLen(text) + len(`{"path":"","message":""},`)
	return w.size <= maxWalkBytes
}

// directory lists one directory. Without more, a limit was reached.
func (w *walk) directory(at walkPlace) (more bool, err error) {
	if w.directories++; w.directories > w.o.MaxDirectories {
		return false, nil
	}
	entries, all, err := readDir(at.path, maxEntries, w.hold)
	if errors.Is(err, errHold) || err != nil && at.depth == 0 {
		return false, err
	}
	if err != nil {
		failure := protocol.FsWalkError{Path: protocol.FileURI(at.path), Message: Text(err)}
		if !w.fits(failure.Path, failure.Message) {
			return false, nil
		}
		w.r.Errors = append(w.r.Errors, failure)
	}
	w.r.Truncated = w.r.Truncated || !all
	for _, e := range entries {
		if more, err := w.entry(at, e); !more || err != nil {
			return more, err
		}
	}
	w.hold.take(-sizeOf(entries))
	return true, nil
}

// entry adds one entry of a directory to the result, if it is a file or a directory.
func (w *walk) entry(at walkPlace, e fs.DirEntry) (more bool, err error) {
	p := filepath.Join(at.path, e.Name())
	isDir := e.IsDir()
	if e.Type()&fs.ModeSymlink != 0 && w.o.FollowDirectorySymlinks {
		info, err := os.Stat(p)
		isDir = err == nil && info.IsDir()
	}
	kind := "file"
	switch {
	case isDir && w.o.FollowDirectorySymlinks:
		if first, err := once(w.seen, p); err != nil || !first {
			return true, nil
		}
		kind = "directory"
	case isDir:
		kind = "directory"
	case !e.Type().IsRegular():
		return true, nil
	}
	uri := protocol.FileURI(p)
	if uint64(len(w.r.Entries)) >= w.o.MaxEntries || !w.fits(uri, kind) {
		return false, nil
	}
	if err := w.hold.take(2 * len(uri)); err != nil { // twice: in the result and in todo
		return false, err
	}
	w.r.Entries = append(w.r.Entries, protocol.FsWalkEntry{Path: uri, Kind: kind})
	if isDir {
		w.todo = append(w.todo, walkPlace{p, at.depth + 1})
	}
	return true, nil
}
