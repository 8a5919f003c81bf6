package resolve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/paths"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/protocol"
	"pgregory.net/rapid"
)

func TestGlobs(t *testing.T) {
	tree := []string{
		"/w/.env", "/w/x.env", "/w/a/.env", "/w/a/b/.env", "/w/a/b/c/d.env", "/w/a/b/env", "/w/.hidden/.env", "/w/dir.env/x",
		"/w/A.PEM", "/w/k1.pem", "/w/k2.pem", "/w/ka.pem", "/w/k12.pem", "/w/k].pem", "/w/k-.pem", "/w/kä.pem", "/w/k\xff.pem", "/w/new\nline.pem",
		"/w/[x]/.env", "/v/.env", "/o/key", "/o/d/key", "/w/linked -> /o", "/w/a/l.env -> ../../o/key", "/w/dl.env -> /o/d", "/w/gone.env -> nosuch",
		"/w/null.env -> /dev/null",
	}
	for _, test := range []struct {
		pattern string
		depth   uint64
		denied  string // separated by blanks
	}{
		{"*.env", 0, "/w/.env /w/x.env /o/d"},
		{"/w/*.env", 0, "/w/.env /w/x.env /o/d"},
		{"**/*.env", 0, "/w/.env /w/x.env /w/a/.env /w/a/b/.env /w/a/b/c/d.env /w/.hidden/.env /w/[x]/.env /o/key /o/d"},
		{"**/.env", 0, "/w/.env /w/a/.env /w/a/b/.env /w/.hidden/.env /w/[x]/.env"},
		{"**/**/.env", 0, "/w/.env /w/a/.env /w/a/b/.env /w/.hidden/.env /w/[x]/.env"},
		{"**/.env", 1, "/w/.env"},
		{"**/.env", 2, "/w/.env /w/a/.env /w/.hidden/.env /w/[x]/.env"},
		{"a/**", 0, "/w/a/.env /w/a/b/.env /w/a/b/c/d.env /w/a/b/env /o/key"},
		{"a/**", 1, "/w/a/.env /o/key"},
		{"a/**/.env", 0, "/w/a/.env /w/a/b/.env"},
		{"a/**/c/*", 0, "/w/a/b/c/d.env"},
		{"**/b/**/*.env", 0, "/w/a/b/.env /w/a/b/c/d.env"},
		{"*/.env", 0, "/w/a/.env /w/.hidden/.env /w/[x]/.env"},
		{"*/*/.env", 0, "/w/a/b/.env"},
		{"./a//*/.env", 0, "/w/a/b/.env"},
		{"../v/*", 0, "/v/.env"},
		{"a/../../v/*", 0, "/v/.env"},
		{"codex-project-roots://*.env", 0, "/w/.env /w/x.env /v/.env /o/d"},
		{"codex-project-roots://**/b/*", 0, "/w/a/b/.env /w/a/b/env"},
		{"k?.pem", 0, "/w/k1.pem /w/k2.pem /w/ka.pem /w/k].pem /w/k-.pem /w/kä.pem /w/k\xff.pem"},
		{"k[0-9].pem", 0, "/w/k1.pem /w/k2.pem"},
		{"k[!0-9].pem", 0, "/w/ka.pem /w/k].pem /w/k-.pem /w/kä.pem /w/k\xff.pem"},
		{"k[^0-9a].pem", 0, "/w/k].pem /w/k-.pem /w/kä.pem /w/k\xff.pem"},
		{"k[]1].pem", 0, "/w/k1.pem /w/k].pem"},
		{"k[!]1].pem", 0, "/w/k2.pem /w/ka.pem /w/k-.pem /w/kä.pem /w/k\xff.pem"},
		{"k[a-].pem", 0, "/w/ka.pem /w/k-.pem"},
		{"k[ä-ö].pem", 0, "/w/kä.pem"},
		{"k*.pem", 0, "/w/k1.pem /w/k2.pem /w/ka.pem /w/k12.pem /w/k].pem /w/k-.pem /w/kä.pem /w/k\xff.pem"},
		{"k*2*.p*m", 0, "/w/k2.pem /w/k12.pem"},
		{"*\n*", 0, "/w/new\nline.pem"},
		{"[[]x]/*", 0, "/w/[x]/.env"},
		{"**x.env", 0, "/w/x.env"},
		{"*.PEM", 0, "/w/A.PEM"},
		{"nosuch/*", 0, ""},
		{"x.env/*", 0, ""},
		{".env", 0, "/w/.env"}, // no wildcard: a path
		{"a", 0, "/w/a"},
	} {
		s := sandboxOf("read root", "deny glob_pattern "+test.pattern)
		s.WorkspaceRoots = []string{"/w", "/v"}
		s.GlobScanMaxDepth = test.depth
		p, err := Policy(context.Background(), s, Facts{Tree: newTree(tree...)})
		if err != nil {
			t.Errorf("%q: %v", test.pattern, err)
			continue
		}
		newTree(tree...).check(t, p)
		var got []string
		for _, path := range p.Paths {
			got = append(got, path.Path)
		}
		var want []string
		if test.denied != "" {
			want = strings.Split(test.denied, " ")
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q with depth %d: got %q, want %q", test.pattern, test.depth, got, want)
		}
	}
}

func TestGlobRefusals(t *testing.T) {
	for pattern, want := range map[string]string{
		"/*":                                   "whole disk",
		"/**/x":                                "whole disk",
		"/./../**":                             "whole disk",
		"../**":                                "whole disk",
		"codex-project-roots://../*":           "whole disk",
		"codex-project-roots:///w/*":           "relative pattern",
		"a/*/../b":                             "leads nowhere",
		"[a":                                   "not a pattern",
		"a/[a/b]":                              "not a pattern",
		"[]":                                   "not a pattern",
		"[z-a]":                                "not a pattern",
		"*.{env,pem}":                          "braces",
		`a\*`:                                  "braces and backslashes",
		"a\x00*":                               "NUL",
		strings.Repeat("a/", 3000) + "*":       "limit",
		"/proc/*":                              "its own /proc",
		"/dev/**":                              "its own /proc",
		"l/*":                                  "symbolic link",
		"c/x/*":                                `may not enter "/w/c"`,
		"rootlink*":                            "leads to /",
		"loop*":                                "more than 40 symbolic links",
		strings.Repeat("x", 200) + "\xff[z-a]": "not a pattern",
	} {
		tree := newTree("/w/l -> /o", "/o/sec", "/w/c/ !", "/w/rootlink -> /", "/w/loop -> loop")
		wantRefused(t, tree, sandboxOf("read root", "write path /w", "deny glob_pattern "+pattern), Facts{}, want)
	}
	wantRefused(t, usual(), sandboxOf("read root", "read glob_pattern /w/*"), Facts{}, "only deny")
	wantRefused(t, usual(), sandboxOf("read root", "write glob_pattern /w/*"), Facts{}, "only deny")
	s := sandboxOf("read root", "deny glob_pattern *")
	s.Cwd = ""
	wantRefused(t, usual(), s, Facts{}, "requires cwd")
	wantPolicy(t, usual(), s, Facts{Cwd: "/o"}, "read /", "deny /o/sec file")
	wantPolicy(t, usual(), sandboxOf("write root", "deny glob_pattern /w/*.nosuch"), Facts{}, append([]string{"write /"}, absent("", ".agents", ".aws", ".codex", ".git")...)...)
}

// A directory that the server may not read, and the program could make readable, is denied as a whole.
func TestGlobOfClosedDirectory(t *testing.T) {
	tree := newTree("/w/c/ !", "/w/a/x.env", "/o/c/ !")
	carve := absent("/w", ".agents", ".aws", ".codex", ".git")
	want := append(append([]string{"read /", "write /w"}, carve...), "write /w/a", "deny /w/a/x.env file", "deny /w/c")
	wantPolicy(t, tree, sandboxOf("read root", "write path /w", "deny glob_pattern **/*.env", "deny glob_pattern /o/**"), Facts{}, want...)
}

// A directory that the server can search, and cannot list, is denied as a whole: the program may know the name of a match.
func TestGlobOfUnlistedDirectory(t *testing.T) {
	tree := newTree("/o/d/ ?", "/o/d/x.env", "/o/c/ !", "/o/n/")
	for _, entry := range []string{"read root", "read path /o"} {
		root := map[string][]string{"read root": {"read /"}, "read path /o": {"deny /", "read /o"}}[entry]
		wantPolicy(t, tree, sandboxOf(entry, "deny glob_pattern /o/**/*.env"), Facts{}, append(root, "deny /o/d")...)
	}
	wantPolicy(t, tree, sandboxOf("read root", "read path /o/d/x.env", "deny glob_pattern /o/**"), Facts{}, "read /", "deny /o/d", "read /o/d/x.env file")
}

// A program that could enter the directory of a link's target could read the target through the link.
func TestGlobOfLinkIntoClosedDirectory(t *testing.T) {
	tree := newTree("/w/x.env -> c/secret", "/w/c/ !", "/o/x.env -> c/secret", "/o/c/ !")
	wantRefused(t, tree, sandboxOf("read root", "write path /w", "deny glob_pattern /w/*.env"), Facts{}, `may not enter "/w/c"`)
	wantRefused(t, tree, sandboxOf("read root", "deny glob_pattern /o/*.env"), Facts{OtherUser: true}, `may not enter "/o/c"`)
	wantPolicy(t, tree, sandboxOf("read root", "deny glob_pattern /o/*.env"), Facts{}, "read /")
}

// Matches keep their place, too: the directory of a secret cannot be moved out of the sight of the next search.
func TestGlobsAndOtherEntries(t *testing.T) {
	tree := newTree("/w/a/b/x.env", "/w/a/b/y", "/w/.git/x.env", "/w/r/x.env", "/w/.aws")
	s := sandboxOf("read root", "write path /w", "read path /w/r", "write path /w/a/b/x.env", "deny glob_pattern **/*.env", "deny glob_pattern .a*")
	wantPolicy(t, tree, s, Facts{}, "read /", "write /w", "read /w/.agents missing", "deny /w/.aws file", "read /w/.codex missing", "read /w/.git", "deny /w/.git/x.env file",
		"write /w/a", "write /w/a/b", "deny /w/a/b/x.env file", "read /w/r", "deny /w/r/x.env file")
}

// crowd is a directory with very many names.
type crowd struct {
	fakeTree
	names int
	kind  fs.FileMode
	read  func(i int)
}

func (c crowd) ReadDir(path string, each func(string, fs.FileMode) error) error {
	for i := range c.names {
		c.read(i)
		if err := each(fmt.Sprint("x", i), c.kind); err != nil {
			return err
		}
	}
	return nil
}

func (c crowd) Lstat(path string) (Info, error) {
	if strings.HasPrefix(path, "/w/x") {
		return Info{Type: c.kind, Ino: 7}, nil
	}
	return c.fakeTree.Lstat(path)
}

func TestGlobBounds(t *testing.T) {
	s := func(pattern string) *protocol.Sandbox { return sandboxOf("read root", "deny glob_pattern "+pattern) }
	looked := 0
	many := crowd{newTree("/w/"), 1 << 30, 0, func(int) { looked++ }}
	for pattern, want := range map[string]string{"x*": "more than 8192 files match", "nosuch*": "names in"} {
		_, err := Policy(context.Background(), s(pattern), Facts{Tree: many})
		if !errors.Is(err, ErrPolicy) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", pattern, err, want)
		}
	}
	if looked > 2<<20 {
		t.Errorf("looked at %d names", looked)
	}
	// Directories in directories, without end.
	deep := crowd{newTree("/w/"), 3, fs.ModeDir, func(int) {}}
	if _, err := Policy(context.Background(), s("**/nosuch"), Facts{Tree: deep}); !errors.Is(err, ErrPolicy) || !strings.Contains(err.Error(), "4095 bytes") {
		t.Errorf("without end: error %v", err)
	}
	deepFile := newTree("/w" + strings.Repeat("/"+strings.Repeat("a", 255), 15) + "/" + strings.Repeat("b", 250) + "/x")
	deepFile.put("/w"+strings.Repeat("/"+strings.Repeat("a", 255), 15)+"/"+strings.Repeat("b", 250)+"/xyz", node{})
	if _, err := Policy(context.Background(), s("**/xyz"), Facts{Tree: deepFile}); !errors.Is(err, ErrPolicy) || !strings.Contains(err.Error(), "4095 bytes") {
		t.Errorf("too deep a match: error %v", err)
	}
	if _, err := Policy(context.Background(), s("**/x"), Facts{Tree: deepFile}); err != nil {
		t.Errorf("a match that is just not too deep: error %v", err)
	}
	if _, err := Policy(context.Background(), s("*/*/nosuch"), Facts{Tree: deep}); err != nil {
		t.Errorf("two levels of many: error %v", err)
	}
	exact := crowd{newTree("/w/"), 8192, 0, func(int) {}}
	if p, err := Policy(context.Background(), s("x*"), Facts{Tree: exact}); err != nil || len(p.Paths) != 8192 {
		t.Errorf("8192 matches: error %v", err)
	}

	why := errors.New("no time")
	ctx, cancel := context.WithCancelCause(context.Background())
	many.read = func(i int) {
		if i == 10_000 {
			cancel(why)
		} else if i > 20_000 {
			t.Fatal("the search goes on after the end of its context")
		}
	}
	if _, err := Policy(ctx, s("nosuch*"), Facts{Tree: many}); err != why {
		t.Errorf("error %v after the end of the context", err)
	}
}

// matchSlowly is a second opinion about matchName: it tries everything.
func matchSlowly(pattern, name []rune) bool {
	switch {
	case len(pattern) == 0:
		return len(name) == 0
	case pattern[0] == '*':
		return matchSlowly(pattern[1:], name) || len(name) > 0 && matchSlowly(pattern, name[1:])
	case len(name) == 0:
		return false
	case pattern[0] == '?' || pattern[0] == name[0]:
		return matchSlowly(pattern[1:], name[1:])
	case pattern[0] == '[':
		end := slices.Index(pattern, ']')
		class := pattern[1:end]
		return slices.Contains(class, name[0]) != (class[0] == '!') && matchSlowly(pattern[end+1:], name[1:])
	}
	return false
}

func TestMatchNameIsRight(t *testing.T) {
	part := rapid.SampledFrom([]string{"a", "b", "ä", "*", "?", "[ab]", "[!ab]", "[ä]"})
	rapid.Check(t, func(t *rapid.T) {
		pattern := strings.Join(rapid.SliceOfN(part, 0, 8).Draw(t, "pattern"), "")
		name := rapid.StringOfN(rapid.SampledFrom([]rune("abcä")), 0, 8, -1).Draw(t, "name")
		if !validName(pattern) {
			t.Fatalf("%q is not valid", pattern)
		}
		if got, want := matchName(pattern, name), matchSlowly([]rune(pattern), []rune(name)); got != want {
			t.Fatalf("%q matches %q: %t", pattern, name, got)
		}
	})
}

// matchPath is a second opinion about whole patterns.
func matchPath(pattern, names []string) bool {
	switch {
	case len(pattern) == 0:
		return len(names) == 0
	case pattern[0] == "**" && len(pattern) == 1:
		return len(names) > 0
	case pattern[0] == "**":
		return matchPath(pattern[1:], names) || len(names) > 0 && matchPath(pattern, names[1:])
	}
	return len(names) > 0 && matchSlowly([]rune(pattern[0]), []rune(names[0])) && matchPath(pattern[1:], names[1:])
}

// A search denies a file if, and only if, its path matches. Several globs are searched together.
func TestGlobsMatchPaths(t *testing.T) {
	name := rapid.SampledFrom([]string{"a", "b", "ab"})
	part := rapid.SampledFrom([]string{"a", "b", "*", "**", "?", "a*", "[!b]*"})
	rapid.Check(t, func(t *rapid.T) {
		tree := newTree("/w/")
		for range rapid.IntRange(0, 12).Draw(t, "files") {
			p := "/w"
			for range rapid.IntRange(0, 3).Draw(t, "depth") {
				if p = join(p, name.Draw(t, "dir")); tree[p].ino == 0 {
					tree.put(p, node{kind: fs.ModeDir})
				} else if tree[p].kind != fs.ModeDir {
					p = paths.Parent(p)
				}
			}
			if p = join(p, "f"+name.Draw(t, "file")); tree[p].ino == 0 {
				tree.put(p, node{})
			}
		}
		s := sandboxOf("read root")
		var patterns [][]string
		for range rapid.IntRange(1, 3).Draw(t, "globs") {
			pattern := append(rapid.SliceOfN(part, 0, 4).Draw(t, "pattern"), rapid.SampledFrom([]string{"*", "**", "f?", "*b"}).Draw(t, "last"))
			patterns = append(patterns, pattern)
			s.Entries = append(s.Entries, protocol.SandboxEntry{Kind: protocol.SandboxGlob, Access: protocol.SandboxDeny, Path: strings.Join(pattern, "/")})
		}
		p, err := Policy(context.Background(), s, Facts{Tree: tree})
		if err != nil {
			t.Fatal(err)
		}
		for file, n := range tree {
			want := false
			for _, pattern := range patterns {
				names := strings.Split(file, "/")[1:]
				want = want || n.kind == 0 && len(names) > 1 && names[0] == "w" && matchPath(pattern, names[1:])
			}
			got := slices.ContainsFunc(p.Paths, func(p sandbox.Path) bool { return p.Path == file && p.Access == sandbox.Deny })
			if got != want {
				t.Fatalf("%s is denied: %t; %q", file, got, patterns)
			}
		}
	})
}

// A pattern of many stars costs no more than its length times the length of the name.
func TestPatternsAreCheap(t *testing.T) {
	pattern, name := strings.Repeat("*a", 1000)+"b", strings.Repeat("a", 255)
	for range 100 {
		if matchName(pattern, name) {
			t.Fatal("it matches")
		}
	}
	stars := sandboxOf("read root", "deny glob_pattern "+strings.Repeat("**/a/", 500)+"x")
	tree := newTree("/w" + strings.Repeat("/a", 500) + "/x")
	if p, err := Policy(context.Background(), stars, Facts{Tree: tree}); err != nil || len(p.Paths) != 1 || path.Base(p.Paths[0].Path) != "x" {
		t.Errorf("%v, error %v", p, err)
	}
}
