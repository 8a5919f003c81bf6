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
func Walk(ctx context.Context, path string, o protocol.FsWalkOptions, hold Hold) (r protocol.FsWalkResult, err error) {
	type place struct {
		path  string
		depth uint64
	}
	seen := make(map[string]bool) // with FollowDirectorySymlinks, because links may form a cycle
	if _, err := once(seen, path); err != nil {
		return r, err
	}
	o.MaxEntries = min(o.MaxEntries, uint64(maxEntries))
	directories, size := uint64(0), 0
	fits := func(uri, text string) bool { // adds an entry's size; false ends the walk
		size += len(uri) + encodedLen(text) + len(`{"path":"","message":""},`)
		return size <= maxWalkBytes
	}
walk:
	for todo := []place{{path, 0}}; len(todo) > 0; {
		at := todo[0]
		todo = todo[1:]
		if at.depth >= o.MaxDepth {
			continue
		}
		if err := ctx.Err(); err != nil {
			return r, err
		}
		if directories++; directories > o.MaxDirectories {
			r.Truncated = true
			break
		}
		entries, all, err := readDir(at.path, maxEntries, hold)
		if errors.Is(err, errHold) {
			return r, err
		}
		if err != nil {
			if at.depth == 0 {
				return r, err
			}
			failure := protocol.FsWalkError{Path: protocol.FileURI(at.path), Message: Text(err)}
			if !fits(failure.Path, failure.Message) {
				r.Truncated = true
				break
			}
			r.Errors = append(r.Errors, failure)
		}
		r.Truncated = r.Truncated || !all
		for _, e := range entries {
			p := filepath.Join(at.path, e.Name())
			isDir, isFile := e.IsDir(), e.Type().IsRegular()
			if e.Type()&fs.ModeSymlink != 0 && o.FollowDirectorySymlinks {
				info, err := os.Stat(p)
				isDir = err == nil && info.IsDir()
			}
			kind := "file"
			if isDir {
				kind = "directory"
				if o.FollowDirectorySymlinks {
					if first, err := once(seen, p); err != nil || !first {
						continue
					}
				}
			}
			if !isDir && !isFile {
				continue
			}
			uri := protocol.FileURI(p)
			if uint64(len(r.Entries)) >= o.MaxEntries || !fits(uri, kind) {
				r.Truncated = true
				break walk
			}
			if err := hold.take(2 * len(uri)); err != nil { // twice: in r.Entries and in todo
				return r, err
			}
			r.Entries = append(r.Entries, protocol.FsWalkEntry{Path: uri, Kind: kind})
			if isDir {
				todo = append(todo, place{p, at.depth + 1})
			}
		}
		hold.take(-sizeOf(entries))
	}
	slices.SortFunc(r.Entries, func(a, b protocol.FsWalkEntry) int { return strings.Compare(a.Path, b.Path) })
	return r, nil
}
