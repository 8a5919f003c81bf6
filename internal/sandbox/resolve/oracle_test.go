package resolve

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/paths"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/protocol"
	"pgregory.net/rapid"
)

// oracle is a second opinion about sandboxes of plain paths. It is slow and simple.
type oracle struct {
	tree    fakeTree
	entries []entry
}

type entry struct {
	real    string // without links, also if nothing is there
	exists  bool
	access  sandbox.Access
	crossed []string // links on the way
	below   string   // the file below which the path would be
}

// realpath resolves links name by name, from the left, and starts anew after each.
func (o *oracle) realpath(p string, crossed []string) (string, []string, bool) {
	if len(crossed) > 45 {
		return p, crossed, false
	}
	names := strings.Split(p, "/")[1:]
	for i := range names {
		dir := "/" + strings.Join(names[:i+1], "/")
		if names[i] == ".." {
			return o.realpath(path.Clean("/"+strings.Join(names[:i+1], "/"))+"/"+strings.Join(names[i+1:], "/"), crossed)
		}
		if n := o.tree[dir]; n.kind == fs.ModeSymlink {
			target := n.target
			if !path.IsAbs(target) {
				target = path.Dir(dir) + "/" + target
			}
			return o.realpath(target+"/"+strings.Join(names[i+1:], "/"), append(crossed, dir))
		}
		if names[i] == "" && i < len(names)-1 {
			return o.realpath("/"+strings.Join(slices.Delete(slices.Clone(names), i, i+1), "/"), crossed)
		}
	}
	return path.Clean(p), crossed, true
}

// access is the rule of the wire: the entry with the most names, and of the same path deny, then write, then read.
func (o *oracle) access(real string) sandbox.Access {
	best, access := -1, sandbox.Deny
	rank := map[sandbox.Access]int{sandbox.Deny: 2, sandbox.Write: 1, sandbox.Read: 0}
	for _, e := range o.entries {
		if !e.exists && e.access == sandbox.Write || e.real != "/" && e.real != real && !strings.HasPrefix(real, e.real+"/") {
			continue
		}
		names := strings.Count(strings.TrimSuffix(e.real, "/"), "/")
		if names > best || names == best && rank[e.access] > rank[access] {
			best, access = names, e.access
		}
	}
	return access
}

// carve adds the entries that every writable directory has.
func (o *oracle) carve() (links []string) {
	for _, e := range slices.Clone(o.entries) {
		if !e.exists || !o.tree[e.real].kind.IsDir() || o.access(e.real) != sandbox.Write || e.access != sandbox.Write {
			continue
		}
		for _, name := range []string{".git", ".agents", ".codex", ".aws"} {
			p := strings.TrimSuffix(e.real, "/") + "/" + name
			if o.tree[p].kind == fs.ModeSymlink {
				links = append(links, p)
			}
			if !slices.ContainsFunc(o.entries, func(e entry) bool { return e.real == p }) {
				o.entries = append(o.entries, entry{real: p, exists: o.tree[p].ino != 0, access: sandbox.Read})
			}
		}
	}
	return links
}

var names = []string{"a", "b", ".git", ".codex"}

// drawTree makes a small tree with links to everywhere.
func drawTree(t *rapid.T) fakeTree {
	tree := newTree("/a/")
	drawPath := func(label string) string {
		return "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(names), 1, 4).Draw(t, label), "/")
	}
	for range rapid.IntRange(0, 14).Draw(t, "size") {
		p := drawPath("path")
		free := tree[p].ino == 0
		for dir := paths.Parent(p); dir != "/"; dir = paths.Parent(dir) {
			free = free && (tree[dir].ino == 0 || tree[dir].kind == fs.ModeDir)
		}
		if !free {
			continue
		}
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			tree.put(p, node{})
		case 1:
			target := drawPath("target")
			if rapid.Bool().Draw(t, "relative") {
				target = strings.Repeat("../", rapid.IntRange(0, 2).Draw(t, "up")) + target[1:]
			}
			tree.put(p, node{kind: fs.ModeSymlink, target: target})
		default:
			tree.put(p, node{kind: fs.ModeDir})
		}
	}
	return tree
}

// longest returns the access of a path by the Policy: the longest Path that is the path, or above.
func longest(p *sandbox.Policy, real string) sandbox.Access {
	if !p.Files {
		return sandbox.Write
	}
	access, size := p.Root, 0
	for _, e := range p.Paths {
		if len(e.Path) > size && (e.Path == real || strings.HasPrefix(real, e.Path+"/")) {
			access, size = e.Access, len(e.Path)
		}
	}
	return access
}

func TestPolicyIsWhatTheEntriesSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := drawTree(t)
		o := &oracle{tree: tree}
		s := &protocol.Sandbox{Restricted: true, Cwd: "/a"}
		for range rapid.IntRange(0, 6).Draw(t, "entries") {
			e := protocol.SandboxEntry{Kind: protocol.SandboxPath, Access: rapid.SampledFrom([]protocol.SandboxAccess{"read", "write", "deny"}).Draw(t, "access")}
			e.Path = "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(names), 0, 4).Draw(t, "entry"), "/")
			if rapid.Bool().Draw(t, "there") {
				e.Path = path.Clean(rapid.SampledFrom(slices.Sorted(maps.Keys(tree))).Draw(t, "place") + "/" + rapid.SampledFrom(append(names, "")).Draw(t, "more"))
			}
			s.Entries = append(s.Entries, e)
		}
		why := ""
		for _, e := range s.Entries {
			access := map[protocol.SandboxAccess]sandbox.Access{"read": sandbox.Read, "write": sandbox.Write, "deny": sandbox.Deny}[e.Access]
			real, crossed, ends := o.realpath(e.Path, nil)
			if !ends {
				why = "links without end at " + e.Path
			}
			below := ""
			for dir := paths.Parent(real); dir != "/"; dir = paths.Parent(dir) {
				if n := tree[dir]; n.ino != 0 && n.kind != fs.ModeDir {
					below = dir
				}
			}
			o.entries = append(o.entries, entry{real, tree[real].ino != 0, access, crossed, below})
		}
		entries := slices.Clone(o.entries)
		links := o.carve()
		for _, e := range entries {
			for _, link := range e.crossed {
				if o.access(paths.Parent(link)) == sandbox.Write || e.access == sandbox.Write && paths.Parent(link) != "/" {
					why = "the link " + link
				}
			}
			if e.below != "" && e.access != sandbox.Write && o.access(e.below) == sandbox.Write {
				why = "the file " + e.below
			}
		}
		if len(links) > 0 {
			why = "the link " + links[0]
		}

		p, err := Policy(context.Background(), s, Facts{Tree: tree})
		if err != nil {
			if !errors.Is(err, ErrPolicy) || why == "" {
				t.Fatalf("refused: %v\n%s", err, tree)
			}
			return
		}
		if !p.Files {
			plain := &oracle{tree, entries}
			if slices.ContainsFunc(entries, func(e entry) bool { return plain.access(e.real) != sandbox.Write }) || plain.access("/") != sandbox.Write {
				t.Fatalf("files as outside, against %+v\n%s", s.Entries, tree)
			}
			return
		}
		if why != "" {
			t.Fatalf("not refused, with %s\n%s", why, tree)
		}
		tree.check(t, p)
		for file, n := range tree {
			if got, want := longest(p, file), o.access(file); n.kind != fs.ModeSymlink && got != want {
				t.Fatalf("access to %s: %d, want %d\n%v\n%s", file, got, want, show(p), tree)
			}
		}
		seen := make(map[string]sandbox.Path)
		for i, path := range p.Paths {
			if i > 0 && path.Path <= p.Paths[i-1].Path {
				t.Fatalf("the order is wrong, or there is one path twice: %v", show(p))
			}
			seen[path.Path] = path
			needed := func(e entry) bool { return !e.exists && e.access < sandbox.Write && paths.Within(e.real, path.Path) }
			if path.Kind == sandbox.Missing && (longest(p, paths.Parent(path.Path)) != sandbox.Write || !slices.ContainsFunc(o.entries, needed)) {
				t.Fatalf("nothing needs %s: %v\n%s", path.Path, show(p), tree)
			}
		}
		for _, path := range p.Paths {
			// Nothing above a protected path can be moved: it is a mount, or in a directory where nothing can.
			for dir := paths.Parent(path.Path); dir != "/"; dir = paths.Parent(dir) {
				if _, ok := seen[dir]; !ok && longest(p, paths.Parent(dir)) == sandbox.Write {
					t.Fatalf("%s can be moved, and with it %s: %v", dir, path.Path, show(p))
				}
			}
		}
		for _, e := range o.entries {
			// Also what is not there.
			path, ok := seen[e.real]
			switch {
			case !e.exists && ok && path.Kind != sandbox.Missing:
				t.Fatalf("%s is not missing", e.real)
			case !e.exists && e.access != sandbox.Write && o.access(paths.Parent(e.real)) == sandbox.Write && tree[paths.Parent(e.real)].kind.IsDir() && tree[paths.Parent(e.real)].ino != 0 && !ok:
				t.Fatalf("%s can be created: %v\n%s", e.real, show(p), tree)
			}
		}
		for _, e := range entries {
			if e.exists && e.access == sandbox.Write && longest(p, e.real) == sandbox.Write && tree[e.real].kind.IsDir() {
				for _, name := range carved {
					at := join(e.real, name)
					if _, ok := seen[at]; !ok && !slices.ContainsFunc(entries, func(e entry) bool { return e.real == at }) {
						t.Fatalf("%s is not protected: %v\n%s", at, show(p), tree)
					}
				}
			}
		}
	})
}

// Whatever the entries are, files of the server and of the kernel stay out of reach.
func TestNoEntryOpensWhatIsHidden(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := drawTree(t)
		place := func(label string) string {
			return path.Clean(rapid.SampledFrom(slices.Sorted(maps.Keys(tree))).Draw(t, label) + "/" + rapid.SampledFrom(append(names, "")).Draw(t, "below"))
		}
		for range rapid.IntRange(0, 2).Draw(t, "mounts") {
			at := place("mount")
			if n := tree[at]; at != "/" && n.ino != 0 && n.kind.IsDir() {
				n.text = rapid.SampledFrom([]string{"mount proc", "mount sysfs"}).Draw(t, "type")
				tree[at] = n
			}
		}
		facts := Facts{Tree: tree}
		for range rapid.IntRange(0, 2).Draw(t, "files of the server") {
			facts.Hidden = append(facts.Hidden, place("own"))
		}
		s := &protocol.Sandbox{Restricted: true, Cwd: "/a"}
		for range rapid.IntRange(1, 5).Draw(t, "entries") {
			s.Entries = append(s.Entries, protocol.SandboxEntry{Kind: protocol.SandboxPath,
				Access: rapid.SampledFrom([]protocol.SandboxAccess{"read", "write", "deny"}).Draw(t, "access"), Path: place("entry")})
		}
		p, err := Policy(context.Background(), s, facts)
		if err != nil || !p.Files {
			return
		}
		tree.check(t, p)
		o := &oracle{tree: tree}
		for _, own := range facts.Hidden {
			real, crossed, _ := o.realpath(own, nil)
			for at := range tree {
				if tree[real].ino != 0 && paths.Within(at, real) && longest(p, at) != sandbox.Deny {
					t.Fatalf("%s of %s is open: %v\n%s", at, own, show(p), tree)
				}
			}
			for _, link := range crossed {
				if longest(p, paths.Parent(link)) == sandbox.Write {
					t.Fatalf("the link %s of %s can be changed: %v\n%s", link, own, show(p), tree)
				}
			}
			for at := real; tree[at].ino == 0; at = paths.Parent(at) {
				dir := paths.Parent(at)
				kept := slices.ContainsFunc(p.Paths, func(p sandbox.Path) bool { return p.Path == at && p.Kind == sandbox.Missing })
				if tree[dir].ino != 0 && longest(p, dir) == sandbox.Write && !kept {
					t.Fatalf("%s of %s can be created: %v\n%s", at, own, show(p), tree)
				}
			}
		}
		for mount, n := range tree {
			kind, ok := strings.CutPrefix(n.text, "mount ")
			for at := range tree {
				if access := longest(p, at); ok && paths.Within(at, mount) && (access == sandbox.Write || access == sandbox.Read && kind == "proc") {
					t.Fatalf("%s in the %s %s is open: %v\n%s", at, kind, mount, show(p), tree)
				}
			}
		}
	})
}
