package resolve

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/b6f6fdd7/troupe/internal/paths"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
)

// A place is where a path leads, through all links.
type place struct {
	state state
	// real has no links. If something is missing, real is where the path would lead.
	real string
	info Info // if found
	// at is where the look-up ended, if nothing was found: the first missing name, the closed directory, or the file in
	// the place of a directory.
	at string
}

// state says how a look-up ended.
type state uint8

const (
	found     state = iota
	missing         // no such name
	closed          // the server may not enter a directory, so a program of the same user may not either
	belowFile       // a file is where a directory must be
	private         // in /proc or /dev: see isPrivate
)

// maxLinks is how many links a path may cross, as in path_resolution(7).
const maxLinks = 40

// A crossing is a link on the way of an entry's path.
type crossing struct {
	link  sandbox.Link
	from  string // the entry
	write bool   // the entry permits to write
}

// walk follows path to its place, and calls cross for each link on the way. As in the kernel, `..` after a link is the
// parent of the link's target.
func (r *resolver) walk(path, from string, cross func(sandbox.Link)) (place, error) {
	if r.ctx.Err() != nil {
		return place{}, context.Cause(r.ctx)
	}
	rest := strings.Split(path, "/")
	cur, links := "/", 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			cur = paths.Parent(cur)
			continue
		}
		next := join(cur, name)
		if paths.Within(next, "/proc") || paths.Within(next, "/dev") {
			if real := clean(next, rest); isPrivate(next, real) {
				return place{state: private, real: real}, nil
			}
		}
		info, err := r.lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return place{state: missing, real: clean(next, rest), at: next}, nil
		case errors.Is(err, fs.ErrPermission):
			return place{state: closed, real: clean(next, rest), at: cur}, nil
		case errors.Is(err, syscall.ENAMETOOLONG):
			return place{}, policyError(from, "its path, or a name in it, is too long")
		case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENOTDIR):
			return place{}, systemError(from, "%s has been exchanged while the server looked at it: try again", quote(cur))
		case err != nil:
			return place{}, systemError(from, "%w", err)
		case info.Type == fs.ModeSymlink:
			target, err := r.tree.Readlink(next)
			if err != nil {
				return place{}, systemError(from, "%w", err)
			}
			if links++; links > maxLinks {
				return place{}, policyError(from, "its path crosses more than %d symbolic links, the last one is %s", maxLinks, quote(next))
			}
			cross(sandbox.Link{Path: next, Target: target})
			if strings.HasPrefix(target, "/") {
				cur = "/"
			}
			rest = append(strings.Split(target, "/"), rest...)
			continue
		}
		if info.Type != fs.ModeDir && slices.ContainsFunc(rest, leads) {
			return place{state: belowFile, real: clean(next, rest), at: next}, nil
		}
		cur = next
	}
	info, err := r.lstat(cur)
	if err != nil {
		return place{}, systemError(from, "%w", err)
	}
	return place{state: found, real: cur, info: info}, nil
}

// lstat looks at each path once, so all steps see the same file there.
func (r *resolver) lstat(path string) (Info, error) {
	if s, ok := r.seen[path]; ok {
		return s.info, s.err
	}
	if r.ctx.Err() != nil {
		return Info{}, context.Cause(r.ctx)
	}
	info, err := r.tree.Lstat(path)
	r.seen[path] = seen{info, err}
	return info, err
}

type seen struct {
	info Info
	err  error
}

// leads reports whether a name of a path leads somewhere.
func leads(name string) bool { return name != "" && name != "." }

// isPrivate reports whether a look-up ends at next, on its way to real: every sandbox has its own /proc and /dev. Only files
// in /dev/shm can be the server's.
func isPrivate(next, real string) bool {
	return paths.Within(next, "/proc") || paths.Within(next, "/dev") && !(real != "/dev/shm" && paths.Within(real, "/dev/shm"))
}

// join returns the path of a name in a directory.
func join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}

// clean returns the path of names below dir, `..` resolved as if there were no links.
func clean(dir string, names []string) string {
	return path.Clean(dir + "/" + strings.Join(names, "/"))
}
