package resolve

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/b6f6fdd7/troupe/internal/paths"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
)

// carved are names in a writable directory that no program may change. Other programs take commands from there (hooks of
// git) and settings.
var carved = []string{".git", ".agents", ".codex", ".aws"}

// carve protects the carved names below each writable directory, unless an entry names the path.
func (r *resolver) carve() error {
	for _, dir := range slices.Sorted(maps.Keys(r.rules)) {
		if rule := r.rules[dir]; rule.access != sandbox.Write || !rule.info.Type.IsDir() {
			continue
		}
		for _, name := range carved {
			if err := r.carveName(join(dir, name), r.rules[dir].from); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *resolver) carveName(real, from string) error {
	_, ruled := r.rules[real]
	linked := false
	p, err := r.walk(real, from, func(sandbox.Link) { linked = true })
	if linked {
		return policyError(from, "%s is a symbolic link, so the program could change what it leads to: replace it by a directory", quote(real))
	}
	switch {
	case err != nil:
		return err
	case p.state == missing && !r.named[real]:
		r.keepAbsent(real)
		return nil
	case p.state == closed && !r.named[real]:
		return closedError(from, p.at)
	case p.state != found:
		return nil
	case !ruled:
		r.rules[real] = rule{sandbox.Read, p.info, from}
	}
	if path.Base(real) == ".git" && p.info.Type.IsRegular() && r.rules[real].access != sandbox.Write {
		return r.carveGitdir(real, from)
	}
	return nil
}

// carveGitdir protects the directory named by a file .git, and the common directory of a git worktree.
// (gitrepository-layout(5).)
func (r *resolver) carveGitdir(file, from string) error {
	text, err := r.text(file, from)
	if err != nil {
		return err
	}
	dir, ok := strings.CutPrefix(text, "gitdir: ")
	if !ok {
		return nil
	}
	gitdir, err := r.carveNamed(paths.Parent(file), dir, from)
	if err != nil || gitdir == "" {
		return err
	}
	commondir := join(gitdir, "commondir")
	if info, err := r.lstat(commondir); err != nil || !info.Type.IsRegular() {
		return nil
	}
	text, err = r.text(commondir, from)
	if err == nil && text != "" {
		_, err = r.carveNamed(gitdir, text, from)
	}
	return err
}

// carveNamed protects a path, relative to dir, and returns the real path. A missing path may not be created; then the result
// is empty.
func (r *resolver) carveNamed(dir, name, from string) (string, error) {
	from += ", for the git directory " + quote(name)
	if strings.IndexByte(name, 0) >= 0 || len(name) > maxPath {
		return "", policyError(from, "this is not a path")
	}
	if !path.IsAbs(name) {
		name = dir + "/" + name
	}
	p, err := r.walk(name, from, func(l sandbox.Link) { r.crossings = append(r.crossings, crossing{l, from, false}) })
	switch {
	case err != nil:
		return "", err
	case p.state == private, r.named[p.real]:
	case p.state != found:
		r.holes = append(r.holes, hole{p, from})
		return "", nil
	case r.access(p.real) == sandbox.Write && p.real != "/":
		r.rules[p.real] = rule{sandbox.Read, p.info, from}
	}
	if p.state != found {
		return "", nil
	}
	return p.real, nil
}

// text returns the first line of a small file. If the server may not read the file, the result is empty.
func (r *resolver) text(file, from string) (string, error) {
	raw, err := r.tree.ReadFile(file, maxText)
	if isClosed(err) {
		return "", nil
	} else if err != nil {
		return "", systemError(from, "%w", err)
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	return strings.TrimRight(line, "\r"), nil
}
