package resolve

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Bounds of all globs of a sandbox together. No client can change them, because a start waits for the search.
const (
	maxMatches = 8 << 10
	maxNames   = 1 << 20 // in the searched directories
)

// A glob is a pattern, and the directory where its search begins.
type glob struct {
	root  string
	names []string // the pattern below root: `**`, or a pattern for a single name
	from  string
}

// globs compiles a pattern of the client. A pattern relative to the workspace roots gives a glob for each root. A pattern
// without wildcards gives no globs, but paths: literal.
func (r *resolver) globs(pattern, from string) (globs []glob, literal []string, err error) {
	roots := []string{r.cwd}
	if rest, ok := strings.CutPrefix(pattern, protocol.SandboxGlobInRoots); ok {
		pattern, roots = rest, r.sandbox.WorkspaceRoots
		if path.IsAbs(pattern) {
			return nil, nil, policyError(from, "after %s there must be a relative pattern", protocol.SandboxGlobInRoots)
		}
	} else if path.IsAbs(pattern) {
		roots = []string{"/"}
	}
	if err := checkPath("/"+pattern, from); err != nil {
		return nil, nil, err
	}
	if strings.ContainsAny(pattern, `{}\`) {
		return nil, nil, policyError(from, `braces and backslashes have no meaning that all programs agree on: write one pattern for each alternative, and [?] for a question mark`)
	}
	names := slices.DeleteFunc(strings.Split(pattern, "/"), func(name string) bool { return !leads(name) })
	if !strings.ContainsAny(pattern, "*?[") {
		for _, root := range roots {
			literal = append(literal, path.Join(root, pattern))
		}
		return nil, literal, nil
	}
	fixed := slices.IndexFunc(names, func(name string) bool { return strings.ContainsAny(name, "*?[") })
	for _, name := range names[fixed:] {
		switch {
		case name == "..":
			return nil, nil, policyError(from, "`..` after a wildcard leads nowhere")
		case name != "**" && !validName(name):
			return nil, nil, policyError(from, "%s is not a pattern: a class looks like [a-z] or [!a-z], and [[] is a bracket", quote(name))
		}
	}
	rest := slices.CompactFunc(names[fixed:], func(a, b string) bool { return a == "**" && b == "**" })
	for _, root := range roots {
		g := glob{root: path.Join(root, path.Join(names[:fixed]...)), names: rest, from: from}
		if g.root == "/" {
			return nil, nil, policyError(from, "the pattern begins with no directory, so the whole disk would be searched: name a directory before the first wildcard")
		}
		if err := checkPath(g.root, from); err != nil {
			return nil, nil, err
		}
		globs = append(globs, g)
	}
	return globs, nil, nil
}

// match denies all matching files, and the targets of all matching links. Globs with the same root share a search.
func (r *resolver) match(globs []glob) error {
	searches := make(map[string][]glob)
	for _, g := range globs {
		p, err := r.walk(g.root, g.from, func(l sandbox.Link) { r.crossings = append(r.crossings, crossing{l, g.from, false}) })
		switch {
		case err != nil:
			return err
		case p.state == private:
			return policyError(g.from, "a sandbox has its own /proc and /dev, in which nothing can be denied: leave the entry out")
		case p.state == closed && (r.facts.OtherUser || r.access(p.at) == sandbox.Write):
			return closedError(g.from, p.at)
		case p.state == found && p.info.Type.IsDir():
			searches[p.real] = append(searches[p.real], g)
		}
	}
	for _, root := range slices.Sorted(maps.Keys(searches)) {
		s := search{resolver: r, globs: searches[root]}
		var all []cursor
		for i := range s.globs {
			all = append(all, cursor{i, 0})
		}
		if err := s.dir(root, all, 1); err != nil {
			return err
		}
	}
	return nil
}

// A search looks for the matches of some globs below a directory.
type search struct {
	*resolver
	globs []glob
}

// A cursor is the state of a match: the names up to a directory match the first at names of a glob.
type cursor struct{ glob, at int }

// dir searches a directory and its subdirectories. Depth 1 is the directory where the search began.
func (s *search) dir(real string, at []cursor, depth uint64) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	if limit := s.sandbox.GlobScanMaxDepth; limit > 0 && depth > limit {
		return nil
	}
	if len(real) > maxPath {
		return tooDeep(s.globs[at[0].glob].from)
	}
	type below struct {
		name string
		at   []cursor
	}
	var dirs []below
	err := s.tree.ReadDir(real, func(name string, kind fs.FileMode) error {
		if s.names++; s.names > maxNames {
			return policyError(s.globs[0].from, "there are more than %d names in %s and other directories: begin with a smaller directory, or set glob_scan_max_depth", maxNames, quote(real))
		}
		if s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
		if kind.IsDir() {
			if next := s.enter(name, at); len(next) > 0 {
				dirs = append(dirs, below{name, next})
			}
			return nil
		}
		if g := s.ends(name, at); g != nil {
			return s.deny(join(real, name), kind, g)
		}
		return nil
	})
	switch {
	case isClosed(err):
		// The server cannot list the directory. If the program may search it, or may permit itself to, a name below may match.
		_, err := s.tree.Lstat(join(real, "x"))
		if isClosed(err) && s.access(real) < sandbox.Write && !s.facts.OtherUser {
			return nil
		}
		info, err := s.lstat(real)
		if err != nil {
			return systemError(s.globs[at[0].glob].from, "%w", err)
		}
		s.add(real, rule{sandbox.Deny, info, s.globs[at[0].glob].from})
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return nil // removed meanwhile
	case errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENOTDIR):
		return systemError(s.globs[at[0].glob].from, "%s has been exchanged while the server looked at it: try again", quote(real))
	case errors.Is(err, ErrPolicy), s.ctx.Err() != nil && err != nil:
		return err
	case err != nil:
		return systemError(s.globs[at[0].glob].from, "%w", err)
	}
	for _, d := range dirs {
		if err := s.dir(join(real, d.name), d.at, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// over reports whether a loop over cursors may stop at the i-th, because nobody waits: policy fails after such a step.
func (s *search) over(i int) bool { return i%64 == 63 && s.ctx.Err() != nil }

// enter returns the cursors below a directory with this name.
func (s *search) enter(name string, at []cursor) (next []cursor) {
	for i, c := range at {
		if s.over(i) {
			return nil
		}
		for names := s.globs[c.glob].names; c.at < len(names); c.at++ {
			if names[c.at] != "**" {
				if c.at+1 < len(names) && matchName(names[c.at], name) {
					next = append(next, cursor{c.glob, c.at + 1})
				}
				break
			}
			next = append(next, c) // `**` takes the name, or nothing
		}
	}
	slices.SortFunc(next, func(a, b cursor) int { return (a.glob-b.glob)*(maxPath+1) + a.at - b.at })
	return slices.Compact(next)
}

// ends returns a glob matched by a file or a link with this name, or nil.
func (s *search) ends(name string, at []cursor) *glob {
	for i, c := range at {
		if s.over(i) {
			return nil
		}
		names := s.globs[c.glob].names
		for i, pattern := range names[c.at:] {
			last := c.at+i == len(names)-1
			if last && (pattern == "**" || matchName(pattern, name)) {
				return &s.globs[c.glob]
			}
			if pattern != "**" {
				break
			}
		}
	}
	return nil
}

// deny denies a match.
func (s *search) deny(real string, kind fs.FileMode, g *glob) error {
	if len(real) > maxPath {
		return tooDeep(g.from)
	}
	if s.matches++; s.matches > maxMatches {
		return policyError(g.from, "more than %d files match: deny their directories instead", maxMatches)
	}
	if kind != fs.ModeSymlink {
		info, err := s.lstat(real)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // removed meanwhile
		case err != nil:
			return systemError(g.from, "%w", err)
		}
		s.add(real, rule{sandbox.Deny, info, g.from})
		return nil
	}
	// Nothing can hide a link, so the target is denied. The program may change the link, and gains nothing by it.
	p, err := s.walk(real, g.from, func(sandbox.Link) {})
	switch {
	case err != nil:
		return err
	case p.state == closed && (s.facts.OtherUser || s.access(p.at) == sandbox.Write):
		return closedError(g.from, p.at)
	case p.state == found && p.real == "/":
		return policyError(g.from, "the symbolic link %s matches, and leads to /: remove the link", quote(real))
	case p.state == found:
		s.add(p.real, rule{sandbox.Deny, p.info, g.from})
	}
	return nil
}

// tooDeep returns the error of a path that no mount can be made at.
func tooDeep(from string) error {
	return policyError(from, "there is a path of more than %d bytes in the searched directories: remove it, or set glob_scan_max_depth", maxPath)
}

// isClosed reports whether the server lacks a permission.
func isClosed(err error) bool { return errors.Is(err, fs.ErrPermission) }

// validName reports whether a name of a pattern is right.
func validName(pattern string) bool {
	for pattern != "" {
		if pattern[0] == '[' {
			_, size := matchClass(pattern, 0)
			if size == 0 {
				return false
			}
			pattern = pattern[size:]
			continue
		}
		pattern = pattern[1:]
	}
	return true
}

// matchName reports whether a name matches a valid pattern. A star takes any characters, also none and leading dots; a
// question mark takes one character.
func matchName(pattern, name string) bool {
	star, retry := "", "" // the pattern after the last star, and the rest of the name when the star takes one more character
	starred := false
	for {
		switch {
		case pattern != "" && pattern[0] == '*':
			pattern = pattern[1:]
			star, retry, starred = pattern, name, true
			continue
		case pattern == "" && name == "":
			return true
		case pattern != "" && name != "":
			char, size := utf8.DecodeRuneInString(name)
			if char == utf8.RuneError && size == 1 {
				char = -rune(name[0]) // no UTF-8: equal only to the same byte
			}
			if ok, used := matchOne(pattern, char); ok {
				pattern, name = pattern[used:], name[size:]
				continue
			}
		}
		if !starred || retry == "" {
			return false
		}
		_, size := utf8.DecodeRuneInString(retry)
		retry = retry[size:]
		pattern, name = star, retry
	}
}

// matchOne matches a character with the beginning of a pattern, and returns the length of that beginning.
func matchOne(pattern string, char rune) (ok bool, used int) {
	switch pattern[0] {
	case '?':
		return true, 1
	case '[':
		return matchClass(pattern, char)
	}
	want, size := patternChar(pattern)
	return want == char, size
}

// matchClass matches a character with the class at the beginning of a pattern. The size of a bad class is 0.
func matchClass(pattern string, char rune) (ok bool, size int) {
	rest := pattern[1:]
	negated := rest != "" && (rest[0] == '!' || rest[0] == '^')
	if negated {
		rest = rest[1:]
	}
	for first := true; ; first = false {
		if rest == "" {
			return false, 0
		}
		if rest[0] == ']' && !first {
			return ok != negated, len(pattern) - len(rest) + 1
		}
		low, n := patternChar(rest)
		rest = rest[n:]
		high := low
		if len(rest) > 1 && rest[0] == '-' && rest[1] != ']' {
			high, n = patternChar(rest[1:])
			rest = rest[1+n:]
			if high < low {
				return false, 0
			}
		}
		ok = ok || low <= char && char <= high
	}
}

// patternChar returns the first character of a pattern, and its size. An invalid byte is a character of its own.
func patternChar(pattern string) (rune, int) {
	char, size := utf8.DecodeRuneInString(pattern)
	if char == utf8.RuneError && size == 1 {
		char = -rune(pattern[0])
	}
	return char, size
}
