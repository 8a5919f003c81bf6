package resolve

import (
	"fmt"
	"path"
	"strings"

	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A want is an entry for one path.
type want struct {
	path   string
	access sandbox.Access
	from   string
	// optional means: without a directory at path, a write entry has no effect, and a path that leads to "/" is refused.
	optional bool
}

// wants splits the entries of the sandbox: a want for each path, and the globs.
func (r *resolver) wants() (wants []want, globs []glob, err error) {
	if n := max(len(r.sandbox.Entries), len(r.sandbox.WorkspaceRoots)); n > maxEntries {
		return nil, nil, policyError("permissions", "%d entries or workspace roots, the limit is %d", n, maxEntries)
	}
	if r.cwd == "" && r.sandbox.NeedsCwd() {
		return nil, nil, policyError("permissions", "file system sandbox context with dynamic permissions requires cwd")
	}
	for i, e := range r.sandbox.Entries {
		w := want{from: fmt.Sprintf("entries[%d] (%s %s)", i, e.Access, e.Kind)}
		if e.Path != "" {
			w.from = fmt.Sprintf("entries[%d] (%s %s %s)", i, e.Access, e.Kind, quote(e.Path))
		}
		switch e.Access {
		case protocol.SandboxDeny:
			w.access = sandbox.Deny
		case protocol.SandboxRead:
			w.access = sandbox.Read
		case protocol.SandboxWrite:
			w.access = sandbox.Write
		default:
			return nil, nil, policyError(w.from, "the access must be read, write or deny")
		}
		var paths []string
		switch e.Kind {
		case protocol.SandboxPath:
			paths = []string{e.Path}
		case protocol.SandboxRoot:
			paths = []string{"/"}
		case protocol.SandboxMinimal:
			if w.access != sandbox.Read {
				return nil, nil, policyError(w.from, "`minimal` can only be read: name the paths instead")
			}
			w.optional = true
			paths = []string{"/bin", "/sbin", "/usr", "/etc", "/lib", "/lib64", "/nix/store", "/run/current-system/sw"}
		case protocol.SandboxSlashTmp:
			w.optional = true
			paths = []string{"/tmp"}
		case protocol.SandboxTmpdir:
			if paths, err = r.tmpdir(&w); err != nil {
				return nil, nil, err
			}
		case protocol.SandboxProjectRoots:
			if e.Path != "" && (e.Path != path.Clean(e.Path) || path.IsAbs(e.Path) || e.Path == ".." || strings.HasPrefix(e.Path, "../")) {
				return nil, nil, policyError(w.from, "the subpath must be relative, clean, and lead nowhere else")
			}
			for _, root := range r.sandbox.WorkspaceRoots {
				paths = append(paths, path.Join(root, e.Path))
			}
		case protocol.SandboxGlob:
			if w.access != sandbox.Deny {
				return nil, nil, policyError(w.from, "a glob can only deny: name a path to permit something")
			}
			more, literal, err := r.globs(e.Path, w.from)
			if err != nil {
				return nil, nil, err
			}
			globs = append(globs, more...)
			paths = literal
			if len(globs) > maxPaths {
				return nil, nil, policyError(w.from, "entries and workspace roots make more than %d paths", maxPaths)
			}
		default:
			return nil, nil, policyError(w.from, "this kind of entry is unknown")
		}
		for _, p := range paths {
			if err := checkPath(p, w.from); err != nil {
				return nil, nil, err
			}
			w.path = path.Clean(p)
			if wants = append(wants, w); len(wants) > maxPaths {
				return nil, nil, policyError(w.from, "entries and workspace roots make more than %d paths", maxPaths)
			}
		}
	}
	return wants, globs, nil
}

// tmpdir returns the directory of TMPDIR, if there is one.
func (r *resolver) tmpdir(w *want) ([]string, error) {
	dir := r.facts.TMPDIR
	w.optional = true
	w.from += fmt.Sprintf(" with TMPDIR=%s", quote(dir))
	switch {
	case dir == "":
		return nil, nil
	case !path.IsAbs(dir):
		return nil, policyError(w.from, "TMPDIR must be an absolute path, or unset")
	}
	return []string{dir}, nil
}

// checkPath refuses what is no absolute path.
func checkPath(p, from string) error {
	switch {
	case !path.IsAbs(p):
		return policyError(from, "%s is not an absolute path", quote(p))
	case strings.IndexByte(p, 0) >= 0:
		return policyError(from, "a path cannot contain NUL")
	case len(p) > maxPath:
		return policyError(from, "the path has %d bytes, the limit is %d", len(p), maxPath)
	}
	return nil
}
