package resolve

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/protocol"
)

// usual is a machine with a workspace /w, and o outside.
func usual(more ...string) fakeTree {
	return newTree(append([]string{
		"/usr/lib64/", "/usr/bin/sh", "/bin -> usr/bin", "/lib64 -> usr/lib64", "/etc/passwd", "/tmp/", "/home/", "/o/sec",
		"/w/.git/config", "/w/a/s",
	}, more...)...)
}

// carvedOf returns the lines of names below a directory that programs may not create.
func absent(dir string, names ...string) (lines []string) {
	for _, name := range names {
		lines = append(lines, "read "+dir+"/"+name+" missing")
	}
	return lines
}

// The two ordinary modes of the CLI.
func TestModes(t *testing.T) {
	wantPolicy(t, usual(), protocol.ReadOnlySandbox("/w"), Facts{}, "read /")

	written := []string{"read /", "write /tmp"}
	written = append(written, absent("/tmp", ".agents", ".aws", ".codex", ".git")...)
	written = append(written, "write /w")
	written = append(written, absent("/w", ".agents", ".aws", ".codex")...)
	written = append(written, "read /w/.git")
	wantPolicy(t, usual(), protocol.WorkspaceSandbox("/w"), Facts{Cwd: "/w"}, written...)
	wantPolicy(t, usual(), protocol.WorkspaceSandbox("/w/"), Facts{Cwd: "/w", TMPDIR: "/tmp"}, written...)
	wantPolicy(t, usual(), protocol.WorkspaceSandbox("/w"), Facts{TMPDIR: "/nosuch"}, written...)

	tmpdir := append(append(slices.Clone(written), "write /x/tmp"), absent("/x/tmp", ".agents", ".aws", ".codex", ".git")...)
	wantPolicy(t, usual("/x/tmp/"), protocol.WorkspaceSandbox("/w"), Facts{TMPDIR: "/x/./tmp/"}, tmpdir...)

	s := protocol.WorkspaceSandbox("/w")
	s.Network = true
	for _, network := range []bool{false, true} {
		s.Network = network
		p, err := Policy(context.Background(), s, Facts{Tree: usual()})
		if err != nil || p.Network != network {
			t.Errorf("network %t: %+v, %v", network, p, err)
		}
		s := &protocol.Sandbox{Network: network}
		if p, err := Policy(context.Background(), s, Facts{}); err != nil || p.Files || p.Network != network {
			t.Errorf("unrestricted with network %t: %+v, %v", network, p, err)
		}
	}
	wantPolicy(t, usual(), &protocol.Sandbox{Disabled: true}, Facts{}, "unconfined")
}

func TestAccess(t *testing.T) {
	for _, test := range []struct {
		name    string
		entries string // separated by semicolons
		tree    string // separated by semicolons, beside the usual one
		want    string // the Policy without the missing names, separated by semicolons
	}{
		{"nothing", "", "", "deny /"},
		{"of the same path, write comes before read", "read path /w; write path /w", "", "deny /; write /w; read /w/.git"},
		{"and deny before both", "write path /w/a; deny path /w/a; read path /w/a; read root", "", "read /; deny /w/a"},
		{"the longer path decides", "read root; write path /w; deny path /w/a; write path /w/a/b", "/w/a/b/",
			"read /; write /w; read /w/.git; deny /w/a; write /w/a/b"},
		{"the order of entries is without effect", "write path /w/a/b; deny path /w/a; write path /w; read root", "/w/a/b/",
			"read /; write /w; read /w/.git; deny /w/a; write /w/a/b"},
		{"no access inside none", "write path /w; deny path /w/a; deny path /w/a/b", "/w/a/b/", "deny /; write /w; read /w/.git; deny /w/a"},
		{"a prefix of a name is not a parent", "read root; write path /w; deny path /w/ab", "/w/ab;/w/abc", "read /; write /w; read /w/.git; deny /w/ab file"},
		{"a file", "read root; write path /w/a/s", "", "read /; write /w/a/s file"},
		{"a file in a writable directory", "read root; write path /w; write path /w/a/s", "", "read /; write /w; read /w/.git"},
		{"a missing path is not writable", "read root; write path /nosuch/w", "", "read /"},
		{"a missing path where nothing can be created", "read root; deny path /nosuch", "", "read /"},
		{"the directory of a protected path stays in its place", "read root; write path /w; read path /w/a/b/c", "/w/a/b/c/",
			"read /; write /w; read /w/.git; write /w/a; write /w/a/b; read /w/a/b/c"},
		{"a root of its own below another", "read root; write path /w; write path /w/a", "/w/a/.git/;/w/b/.git/", "read /; write /w; read /w/.git; write /w/a; read /w/a/.git"},
		{"an entry for .git decides", "read root; write path /w; write path /w/.git", "", "read /; write /w; write /w/.git"},
		{"also through a subpath", "read root; write project_roots; write project_roots .git", "", "read /; write /w; write /w/.git"},
		{"also for one that is missing", "read root; write project_roots; write project_roots a; write project_roots a/.git", "", "read /; write /w; read /w/.git; write /w/a"},
		{"denied .git", "read root; write project_roots; deny project_roots .git", "", "read /; write /w; deny /w/.git"},
		{"minimal", "read minimal; write project_roots", "", "deny /; read /etc; read /usr; write /w; read /w/.git; /bin -> usr/bin; /lib64 -> usr/lib64"},
		{"minimal, denied in part", "read minimal; deny path /etc/passwd", "", "deny /; read /etc; deny /etc/passwd file; read /usr; /bin -> usr/bin; /lib64 -> usr/lib64"},
		{"everything is writable", "write root", "", "files as outside"},
		{"everything and more", "write root; read root; write path /w; write path /nosuch", "", "files as outside"},
		{"everything but something", "write root; read path /etc", "", "write /; read /etc"},
		{"everything but something that is missing", "write root; deny path /nosuch", "", "write /"},
		{"a workspace /", "write path /; read path /.git", "", "write /"},
		{"the links of a path", "read path /l/s", "/l -> w/a", "deny /; read /w/a/s file; /l -> w/a"},
		{"links of links", "write path /l1/b", "/l1 -> /l2/../l3; /l2 -> home; /l3 -> w/a; /w/a/b/", "deny /; write /w/a/b; /l1 -> /l2/../l3; /l2 -> home; /l3 -> w/a"},
		{"a link to nothing", "read root; write path /l", "/l -> nosuch/x", "read /; /l -> nosuch/x"},
		{"own /proc and /dev", "read root; read path /proc/1; write path /dev/shm; read path /dev/sda; write path /dev/null", "", "read /"},
		{"a workspace in /dev/shm", "read root; write path /dev/shm/w; deny path /dev/shm/w/x; read path /dev/shm/../shm/nosuch", "/dev/shm/w/x", "read /; write /dev/shm/w; deny /dev/shm/w/x file"},
		{"names that begin as /proc, /dev and /sys do", "read root; deny path /process; deny path /devices; write path /system", "/process;/devices/x;/system",
			"read /; deny /devices; deny /process file; write /system file"},
		{"/sys is like other directories, but for writes", "read root; deny path /sys/fs; read path /sys", "/sys/fs/", "read /; deny /sys/fs"},
		{"a place that nobody may enter", "read root; deny path /c/x; write path /c/y", "/c/ !", "read /"},
		{"names with all bytes", "read root; deny path /w/a\n\xff", "/w/a\n\xff", "read /; deny /w/a\n\xff file"},
		{"unknown to the server", "read root; write tmpdir", "", "read /"},
		{"a writable root of a file", "read root; write path /o/sec", "", "read /; write /o/sec file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := sandboxOf(split(test.entries)...)
			p, err := Policy(context.Background(), s, Facts{Tree: usual(split(test.tree)...)})
			if err != nil {
				t.Fatal(err)
			}
			usual(split(test.tree)...).check(t, p)
			got := slices.DeleteFunc(show(p), func(line string) bool { return strings.HasSuffix(line, " missing") })
			if want := split(test.want); !slices.Equal(got, want) {
				t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
			}
		})
	}
}

func split(s string) []string {
	if s == "" {
		return nil
	}
	list := strings.Split(s, ";")
	for i := range list {
		list[i] = strings.TrimLeft(list[i], " ")
	}
	return list
}

// What an entry protects cannot be created, if the program could create it.
func TestMissingPaths(t *testing.T) {
	carve := absent("/w", ".agents", ".aws", ".codex")
	with := func(lines ...string) []string {
		all := append(append([]string{"read /", "write /w", "read /w/.git"}, carve...), lines...)
		slices.SortFunc(all[1:], func(a, b string) int { return strings.Compare(strings.Fields(a)[1], strings.Fields(b)[1]) })
		return all
	}
	for _, test := range []struct {
		entry string
		want  []string
	}{
		{"deny path /w/x", with("read /w/x missing")},
		{"read path /w/x", with("read /w/x missing")},
		{"read path /w/x/y/z", with("read /w/x missing")},
		{"read path /w/a/x/y", with("write /w/a", "read /w/a/x missing")},
		{"deny path /o/x", with()},
		{"deny path /w/.git/x", with()},
		{"write path /w/x", with()},
	} {
		wantPolicy(t, usual(), sandboxOf("read root", "write path /w", test.entry), Facts{}, test.want...)
	}
	// What other entries say of missing paths holds, too.
	wantPolicy(t, usual(), sandboxOf("read root", "write path /w", "write path /w/.codex", "deny path /w/.aws", "read path /w/.agents/x"), Facts{},
		"read /", "write /w", "read /w/.agents missing", "read /w/.aws missing", "read /w/.git")
}

func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		entries, tree, want string
	}{
		{"write path /w; deny path /w/l/x", "/w/l -> /o", `entries[1] (deny path "/w/l/x"): its path crosses the symbolic link "/w/l" (to "/o"), which the program could change`},
		{"write path /w; deny path /w/l", "/w/l -> /o", "symbolic link"},
		{"write path /w; deny path /w/l", "/w/l -> nosuch", "symbolic link"},
		{"write path /w; read path /w/l", "/w/l -> /o", "symbolic link"},
		{"write path /w; write path /w/l", "/w/l -> /o", "symbolic link"},
		{"write path /w; read path /w/l; read path /w/a", "/w/l -> a/l; /w/a/l -> s", "symbolic link"},
		{"write path /w; write path /l/x", "/l -> /w/l; /w/l -> /o", `"/w/l"`},
		{"write path /o; write path /w", "/w/.git -> /o; /o/.codex -> /w", `"/o/.codex" is a symbolic link`},
		{"write project_roots; read project_roots .git", "/w/.git -> /o", `"/w/.git" is a symbolic link`},
		{"write path /w", "/w/.git -> nosuch", `"/w/.git" is a symbolic link`},
		{"write path /w", "/w/.git -> .git", `"/w/.git" is a symbolic link`},
		{"read path /l", "/l -> m; /m -> l", "crosses more than 40 symbolic links"},
		{"write path /w; deny path /w/a/s/x", "", `"/w/a/s" is not a directory`},
		{"write path /w; deny path /w/c/x", "/w/c/ !", `may not enter "/w/c"`},
		{"write path /w/c", "/w/c/ !", `may not enter "/w/c"`},
		{"write path /sys/kernel", "/sys/kernel/", "/sys"},
		{"write path /proc/sys", "", "its own /proc"},
		{"deny path /proc", "", "its own /proc"},
		{"write path /dev/sda", "", "its own /proc and /dev"},
		{"write path /dev/shm/l", "/dev/shm/l -> ../sda", "its own /proc and /dev"},
		{"write path /dev/shm/../sda", "/dev/shm/", "its own /proc and /dev"},
		{"deny path /dev/null", "", "its own /proc and /dev"},
		{"write path /l/mem", "/l -> proc/self/root/proc/1", "its own /proc"},
		{"write minimal", "", "only be read"},
		{"deny minimal", "", "only be read"},
		{"write path w", "", `"w" is not an absolute path`},
		{"write path /w\x00", "", "NUL"},
		{"write path /" + strings.Repeat("x", 5000), "", "limit"},
		{"write project_roots ../x", "", "subpath"},
		{"write project_roots /x", "", "subpath"},
		{"write project_roots a/../..", "", "subpath"},
		{"bad path /w", "", "access"},
		{"read bad", "", "kind"},
		{"read path", "", "not an absolute path"},
	} {
		wantRefused(t, usual(split(test.tree)...), sandboxOf(append(split(test.entries), "read root")...), Facts{}, test.want)
	}
	many := sandboxOf()
	for range 2000 {
		many.Entries = append(many.Entries, protocol.SandboxEntry{Kind: protocol.SandboxRoot, Access: protocol.SandboxRead})
	}
	wantRefused(t, usual(), many, Facts{}, "2000 entries")
	wide := &protocol.Sandbox{Restricted: true, Cwd: "/w", WorkspaceRoots: slices.Repeat([]string{"/w"}, 1000),
		Entries: slices.Repeat([]protocol.SandboxEntry{{Kind: protocol.SandboxProjectRoots, Access: protocol.SandboxRead}}, 1000)}
	wantRefused(t, usual(), wide, Facts{}, "more than")
	nowhere := sandboxOf("write project_roots")
	nowhere.Cwd = ""
	wantRefused(t, usual(), nowhere, Facts{}, "requires cwd")
	wantPolicy(t, usual("/w/.git -> /o"), sandboxOf("read root", "read project_roots .git"), Facts{}, "read /", "/w/.git -> /o")
}

func TestTMPDIR(t *testing.T) {
	s := sandboxOf("read root", "write tmpdir")
	for tmpdir, want := range map[string]string{"/": "leads to /", "//": "leads to /", "/tmp/..": "leads to /", "/rootlink": "leads to /", "/rootlink/.": "leads to /", "tmp": "absolute", ".": "absolute", "/proc/self/root": "its own /proc"} {
		wantRefused(t, usual("/rootlink -> ."), s, Facts{TMPDIR: tmpdir}, want)
	}
	for _, tmpdir := range []string{"", "/nosuch", "/o/sec", "/dev/shm"} {
		wantPolicy(t, usual(), s, Facts{TMPDIR: tmpdir}, "read /")
	}
}

// A directory that the server may not enter hides nothing from a program that has another user.
func TestProgramOfAnotherUser(t *testing.T) {
	for _, entry := range []string{"deny path /c/x", "write path /c/x", "deny glob_pattern /c/x/*", "deny glob_pattern /c/*"} {
		if entry != "deny glob_pattern /c/*" {
			wantRefused(t, usual("/c/ !"), sandboxOf("read root", entry), Facts{OtherUser: true}, `may not enter "/c"`)
		}
		wantPolicy(t, usual("/c/ !"), sandboxOf("read root", entry), Facts{}, "read /")
	}
	wantPolicy(t, usual("/c/ !"), sandboxOf("read root", "deny glob_pattern /c/*"), Facts{OtherUser: true}, "read /", "deny /c")
}

func TestGitdir(t *testing.T) {
	carve := absent("/w", ".agents", ".aws", ".codex")
	for _, test := range []struct {
		text, tree, want string
	}{
		{"gitdir: gd\n", "/w/gd/", "read /w/gd"},
		{"gitdir: gd\r\nx", "/w/gd/", "read /w/gd"},
		{"gitdir: /w/m/gd", "/w/m/gd/", "write /w/m; read /w/m/gd"},
		{"gitdir: ../w/./gd/", "/w/gd/", "read /w/gd"},
		{"gitdir: gd", "", "read /w/gd missing"},
		{"gitdir: m/n/gd", "/w/m/", "write /w/m; read /w/m/n missing"},
		{"gitdir: ../o", "", ""},
		{"gitdir: .", "", ""},
		{"gitdir: /", "", ""},
		{"gitdir: ..", "", ""},
		{"gitdir: /proc/self/root/w/gd", "/w/gd/", ""},
		{"gitdir:gd", "/w/gd/", ""},
		{"", "/w/gd/", ""},
		{"gitdir: l/gd", "/w/l -> /o", "refused: symbolic link"},
		{"gitdir: a/s/x", "", "refused: is not a directory"},
		{"gitdir: a\x00b", "", "refused: not a path"},
		{"gitdir: m/.git/worktrees/x", "/w/m/.git/worktrees/x/commondir=../..\n", "write /w/m; read /w/m/.git"},
		{"gitdir: x", "/w/x/commondir=/w/y", "read /w/x; read /w/y missing"},
		{"gitdir: x", "/w/x/commondir -> /o/sec", "read /w/x"},
	} {
		tree := newTree(append(split(test.tree), "/o/sec", "/w/a/s")...)
		tree.put("/w/.git", node{text: test.text})
		s := sandboxOf("read root", "write path /w")
		if want, ok := strings.CutPrefix(test.want, "refused: "); ok {
			wantRefused(t, tree, s, Facts{}, want)
			continue
		}
		want := append(append([]string{"read /", "write /w", "read /w/.git file"}, carve...), split(test.want)...)
		slices.SortFunc(want[1:], func(a, b string) int { return strings.Compare(strings.Fields(a)[1], strings.Fields(b)[1]) })
		t.Run(test.text, func(t *testing.T) { wantPolicy(t, tree, s, Facts{}, want...) })
	}
	// A .git that the client permits to write leads nowhere: the program may write another path into it.
	wantPolicy(t, newTree("/w/gd/", "/w/.git=gitdir: gd"), sandboxOf("read root", "write path /w", "write path /w/.git"), Facts{},
		append([]string{"read /", "write /w"}, carve...)...)
	closed := newTree("/w/")
	closed.put("/w/.git", node{text: "gitdir: gd", closed: true})
	wantPolicy(t, closed, sandboxOf("read root", "write path /w"), Facts{}, append(append([]string{"read /", "write /w"}, carve...), "read /w/.git file")...)
}

// Tokens, the spool and the like.
func TestHiddenFiles(t *testing.T) {
	facts := Facts{Hidden: []string{"/o/sec", "/nosuch", "/home/spool"}}
	wantPolicy(t, usual("/home/spool/x"), sandboxOf("read root"), facts, "read /", "deny /home/spool", "deny /o/sec file")
	wantPolicy(t, usual("/home/spool/x"), sandboxOf("read path /w"), facts, "deny /", "read /w")
	want := append(append([]string{"read /", "write /home"}, absent("/home", ".agents", ".aws", ".codex", ".git")...), "deny /home/spool", "deny /o/sec file")
	wantPolicy(t, usual("/home/spool/x"), sandboxOf("read root", "write path /home"), facts, want...)
	wantRefused(t, usual("/home/spool/x"), sandboxOf("read root", "write path /home/spool"), facts, "belongs to the server")
	wantRefused(t, usual("/home/spool/x"), sandboxOf("read root", "read path /home/spool/x"), facts, "belongs to the server")
	// An entry names a file of the server below what is denied anyway.
	for _, access := range []string{"read", "write"} {
		below := access + " path /home/spool/x"
		wantRefused(t, usual("/home/spool/x"), sandboxOf(below), facts, "belongs to the server")
		wantRefused(t, usual("/home/spool/x"), sandboxOf("read minimal", below), facts, "belongs to the server")
		wantRefused(t, usual("/home/spool/x"), sandboxOf("read root", "deny path /home/spool", below), facts, "belongs to the server")
		wantRefused(t, usual("/home/spool/x"), sandboxOf("read root", "deny path /home", below), facts, "belongs to the server")
		wantRefused(t, usual("/home/spool/x", "/o/l -> /home"), sandboxOf("deny path /home", access+" path /o/../home/./spool/x"), facts, "belongs to the server")
	}
	wantPolicy(t, usual("/home/spool/x"), sandboxOf("deny path /home/spool", "deny path /home/spool/x", "read path /home"), facts,
		"deny /", "read /home", "deny /home/spool")
}

// A program that makes a missing file of the server, such as its policy, chooses what the server reads there. The same for the
// directory of the user's own server.
func TestMissingHiddenFiles(t *testing.T) {
	facts := Facts{Hidden: []string{"/w/policy", "/w/a/run/server.sock", "/o/nosuch"}}
	want := append([]string{"read /", "write /w"}, absent("/w", ".agents", ".aws", ".codex")...)
	want = append(want, "read /w/.git", "write /w/a", "read /w/a/run missing", "read /w/policy missing")
	wantPolicy(t, usual(), sandboxOf("read root", "write path /w"), facts, want...)
	wantPolicy(t, usual(), sandboxOf("read root"), facts, "read /")
	wantRefused(t, usual(), sandboxOf("read root", "write path /w"), Facts{Hidden: []string{"/w/a/s/policy"}}, "is not a directory")
	// The path of an own file leads through a link and back, as open(2) understands it.
	tree := usual("/l -> /o/d", "/o/d/", "/o/policy", "/policy")
	wantPolicy(t, tree, sandboxOf("read root"), Facts{Hidden: []string{"/l/../policy"}}, "read /", "deny /o/policy file")
}

// A program that changes a link to the policy of the server chooses the policy of the next start.
func TestLinksToHiddenFiles(t *testing.T) {
	tree := usual("/w/etc/policy -> /o/sec", "/w/link -> /o")
	for _, own := range []string{"/w/etc/policy", "/w/link/sec"} {
		facts := Facts{Hidden: []string{own}}
		wantPolicy(t, tree, sandboxOf("read root"), facts, "read /", "deny /o/sec file")
		wantRefused(t, tree, sandboxOf("read root", "write path /w"), facts, "which the program could change")
	}
}

// The /proc, /sys and /dev of a chroot.
func TestKernelFilesystems(t *testing.T) {
	tree := func() fakeTree {
		tree := newTree("/proc/", "/sys/", "/sys/fs/cgroup/", "/w/c/usr/", "/o/c/", "/w/ext/")
		tree.put("/proc/sys", node{kind: fs.ModeDir, text: "mount proc"})
		tree.put("/sys/fs", node{kind: fs.ModeDir, text: "mount sysfs"})
		for path, kind := range map[string]string{"/w/c/proc": "proc", "/w/c/sys": "sysfs", "/o/c/proc": "proc", "/o/c/sys": "sysfs"} {
			tree.put(path, node{kind: fs.ModeDir, text: "mount " + kind})
		}
		return tree
	}
	carve := absent("/w", ".agents", ".aws", ".codex", ".git")
	want := append(append([]string{"read /", "deny /o/c/proc", "write /w"}, carve...), "write /w/c", "deny /w/c/proc", "read /w/c/sys")
	wantPolicy(t, tree(), sandboxOf("read root", "write path /w"), Facts{}, want...)
	wantPolicy(t, tree(), sandboxOf("read path /w"), Facts{}, "deny /", "read /w", "deny /w/c/proc")
	wantRefused(t, tree(), sandboxOf("read root", "write path /w/c/sys"), Facts{}, "filesystem of the kernel (sysfs)")
	wantRefused(t, tree(), sandboxOf("read root", "read path /w/c/proc"), Facts{}, "filesystem of the kernel (proc)")
	// An entry names a path in a filesystem of the kernel below what is denied, or read, anyway.
	below := tree()
	below.put("/o/c/sys/kernel", node{kind: fs.ModeDir})
	below.put("/o/c/proc/sys", node{kind: fs.ModeDir})
	for _, above := range []string{"read root", "read path /w", "deny path /o/c", "read path /o/c"} {
		wantRefused(t, below, sandboxOf(above, "write path /o/c/sys/kernel"), Facts{}, "filesystem of the kernel (sysfs)")
		wantRefused(t, below, sandboxOf(above, "write path /o/c/sys"), Facts{}, "filesystem of the kernel (sysfs)")
		for _, access := range []string{"read", "write"} {
			wantRefused(t, below, sandboxOf(above, access+" path /o/c/proc/sys"), Facts{}, "filesystem of the kernel (proc)")
			wantRefused(t, below, sandboxOf(above, "deny path /o/c/proc", access+" path /o/c/proc/sys"), Facts{}, "filesystem of the kernel (proc)")
		}
	}
	wantPolicy(t, below, sandboxOf("read path /o/c/sys/kernel"), Facts{}, "deny /", "read /o/c/sys/kernel")
	wantPolicy(t, below, sandboxOf("read root", "deny path /o/c/proc", "deny path /o/c/proc/sys"), Facts{}, "read /", "deny /o/c/proc", "deny /w/c/proc")
	// A chroot in /dev/shm, where entries count.
	shm := newTree("/dev/shm/c/")
	shm.put("/dev/shm/c/proc", node{kind: fs.ModeDir, text: "mount proc"})
	shm.put("/dev/shm/c/sys", node{kind: fs.ModeDir, text: "mount sysfs"})
	p, err := Policy(context.Background(), sandboxOf("read root", "write path /dev/shm/c"), Facts{Tree: shm})
	if err != nil || longest(p, "/dev/shm/c") != sandbox.Write || longest(p, "/dev/shm/c/sys") != sandbox.Read || longest(p, "/dev/shm/c/proc") != sandbox.Deny {
		t.Errorf("%v, error %v", show(p), err)
	}
	p, err = Policy(context.Background(), sandboxOf("write root", "read path /w/ext"), Facts{Tree: tree()})
	if err != nil || longest(p, "/sys/fs") != sandbox.Read || longest(p, "/w/c/sys") != sandbox.Read || longest(p, "/o/c/proc") != sandbox.Deny {
		t.Errorf("%v, error %v", show(p), err)
	}
}

// failing is a Tree whose files do not answer.
type failing struct {
	fakeTree
	at  string
	err error
}

func (f failing) Lstat(path string) (Info, error) {
	if path == f.at {
		return Info{}, f.err
	}
	return f.fakeTree.Lstat(path)
}

// A failure of the system is not the fault of the sandbox.
func TestSystemErrors(t *testing.T) {
	eio := errors.New("input/output error")
	for _, path := range []string{"/", "/w", "/w/.git"} {
		_, err := Policy(context.Background(), sandboxOf("read root", "write project_roots"), Facts{Tree: failing{usual(), path, eio}})
		if !errors.Is(err, eio) || errors.Is(err, ErrPolicy) || !strings.Contains(err.Error(), "entries[") {
			t.Errorf("%s: error %v", path, err)
		}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(eio)
	if _, err := Policy(ctx, sandboxOf("read root"), Facts{Tree: usual()}); err != eio {
		t.Errorf("error %v after the end of the context", err)
	}
}
