package resolve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/mounts"
	"github.com/b6f6fdd7/troupe/internal/paths"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/protocol"
)

// fakeTree is a Tree in memory: what is at each path. "/" is always there.
type fakeTree map[string]node

type node struct {
	kind     fs.FileMode
	target   string // of a link
	text     string // of a file
	closed   bool   // a directory that may not be entered
	unlisted bool   // a directory that may be entered, and not listed
	ino      uint64
}

// newTree makes a Tree of lines: `/d/`, `/f`, `/f=text`, `/l -> target`, `/closed/ !`, `/unlisted/ ?`. Directories above are made, too.
func newTree(lines ...string) fakeTree {
	t := fakeTree{"/": {kind: fs.ModeDir, ino: 1}}
	for _, line := range lines {
		var n node
		line, n.closed = strings.CutSuffix(line, " !")
		line, n.unlisted = strings.CutSuffix(line, " ?")
		path, target, linked := strings.Cut(line, " -> ")
		path, n.text, _ = strings.Cut(path, "=")
		switch {
		case linked:
			n.kind, n.target = fs.ModeSymlink, target
		case strings.HasSuffix(path, "/"):
			n.kind, path = fs.ModeDir, strings.TrimSuffix(path, "/")
		}
		t.put(path, n)
	}
	return t
}

func (t fakeTree) put(path string, n node) {
	if dir := paths.Parent(path); t[dir].ino == 0 {
		t.put(dir, node{kind: fs.ModeDir})
	}
	n.ino = uint64(len(t)) + 1
	t[path] = n
}

func (t fakeTree) Lstat(path string) (Info, error) {
	for dir := path; dir != "/"; {
		dir = paths.Parent(dir)
		switch n := t[dir]; {
		case n.ino == 0:
		case n.kind == fs.ModeSymlink:
			return Info{}, syscall.ELOOP
		case n.kind != fs.ModeDir:
			return Info{}, syscall.ENOTDIR
		case n.closed:
			return Info{}, syscall.EACCES
		}
	}
	if len(path) > maxPath {
		return Info{}, syscall.ENAMETOOLONG
	}
	n := t[path]
	if n.ino == 0 {
		return Info{}, syscall.ENOENT
	}
	return Info{n.kind, 9, n.ino}, nil
}

func (t fakeTree) Readlink(path string) (string, error) {
	if info, err := t.Lstat(path); err != nil || info.Type != fs.ModeSymlink {
		return "", errors.Join(err, syscall.EINVAL)
	}
	return t[path].target, nil
}

func (t fakeTree) ReadFile(path string, max int) ([]byte, error) {
	if info, err := t.Lstat(path); err != nil || info.Type != 0 {
		return nil, errors.Join(err, syscall.EINVAL)
	}
	if t[path].closed {
		return nil, syscall.EACCES
	}
	return []byte(t[path].text)[:min(max, len(t[path].text))], nil
}

func (t fakeTree) ReadDir(path string, each func(string, fs.FileMode) error) error {
	info, err := t.Lstat(path)
	switch {
	case err != nil:
		return err
	case info.Type != fs.ModeDir:
		return syscall.ENOTDIR
	case t[path].closed, t[path].unlisted:
		return syscall.EACCES
	}
	for p, n := range t {
		if p != "/" && paths.Parent(p) == path {
			if err := each(p[strings.LastIndexByte(p, '/')+1:], n.kind); err != nil {
				return err
			}
		}
	}
	return nil
}

// Mounts takes a node with a text `mount TYPE` for a mount.
func (t fakeTree) Mounts() (list []mounts.Mount, err error) {
	for path, n := range t {
		if kind, ok := strings.CutPrefix(n.text, "mount "); ok {
			list = append(list, mounts.Mount{Dir: path, Type: kind, Device: 9})
		}
	}
	return list, nil
}

// sandboxOf makes a sandbox of lines such as `read root`, `deny path /x`, `read project_roots .git`.
func sandboxOf(lines ...string) *protocol.Sandbox {
	s := &protocol.Sandbox{Restricted: true, Cwd: "/w", WorkspaceRoots: []string{"/w"}}
	for _, line := range lines {
		f := append(strings.SplitN(line, " ", 3), "")
		s.Entries = append(s.Entries, protocol.SandboxEntry{Access: protocol.SandboxAccess(f[0]), Kind: protocol.SandboxKind(f[1]), Path: f[2]})
	}
	return s
}

// show returns a Policy as lines, without the network: `files as outside`, or the root, the paths and the links.
func show(p *sandbox.Policy) (lines []string) {
	if p == nil {
		return []string{"unconfined"}
	}
	if !p.Files {
		return []string{"files as outside"}
	}
	names := map[sandbox.Access]string{sandbox.Deny: "deny", sandbox.Read: "read", sandbox.Write: "write"}
	lines = append(lines, names[p.Root]+" /")
	for _, path := range p.Paths {
		kind := map[sandbox.Kind]string{sandbox.Directory: "", sandbox.File: " file", sandbox.Missing: " missing"}[path.Kind]
		lines = append(lines, names[path.Access]+" "+path.Path+kind)
	}
	for _, link := range p.Links {
		lines = append(lines, link.Path+" -> "+link.Target)
	}
	return lines
}

// check fails unless each path of p is what the tree has there.
func (t fakeTree) check(test interface{ Fatalf(string, ...any) }, p *sandbox.Policy) {
	for _, path := range p.Paths {
		info, err := t.Lstat(path.Path)
		switch {
		case path.Kind == sandbox.Missing:
			if !errors.Is(err, fs.ErrNotExist) || path.Dev != 0 || path.Ino != 0 {
				test.Fatalf("%+v is there: %v", path, err)
			}
		case err != nil || path.Dev != info.Dev || path.Ino != info.Ino || (path.Kind == sandbox.Directory) != info.Type.IsDir() || info.Type == fs.ModeSymlink:
			test.Fatalf("%+v: the tree has %+v, %v", path, info, err)
		}
	}
}

func (t fakeTree) String() string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(t)) {
		n := t[path]
		fmt.Fprintf(&b, "%s %s %s %s\n", path, n.kind, n.target, n.text)
	}
	return b.String()
}

// wantPolicy fails unless the Policy of s on this tree has these lines.
func wantPolicy(t *testing.T, tree fakeTree, s *protocol.Sandbox, facts Facts, want ...string) {
	t.Helper()
	facts.Tree = tree
	p, err := Policy(context.Background(), s, facts)
	if err != nil {
		t.Errorf("error %q", err)
		return
	}
	if p != nil {
		tree.check(t, p)
	}
	if got := show(p); !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// wantRefused fails unless s is refused with a text that contains want.
func wantRefused(t *testing.T, tree fakeTree, s *protocol.Sandbox, facts Facts, want string) {
	t.Helper()
	facts.Tree = tree
	p, err := Policy(context.Background(), s, facts)
	if !errors.Is(err, ErrPolicy) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want an ErrPolicy with %q; policy\n\t%s", err, want, strings.Join(show(p), "\n\t"))
	}
}
