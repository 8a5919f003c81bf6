package env

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/actors/files/remote"
	"github.com/b6f6fdd7/troupe/internal/fork"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// alice has a group beside her own. Nobody else has her ids.
var alice = &remote.User{User: fork.User{UID: 54321, GID: 54322, Groups: []uint32{54330}}, Name: "alice"}

// asAlice returns the calls of alice about files, and a directory with h, the home of alice, b, the closed home of another user, and
// r, a directory of root.
func asAlice(t testing.TB) (*jailed, files.Caller) {
	t.Helper()
	needs.Root(t)
	j := newJailed(t)
	for dir, of := range map[string]struct {
		uid, gid int
		mode     os.FileMode
	}{"h": {54321, 54322, 0o755}, "b": {54329, 54329, 0o700}, "r": {0, 0, 0o755}, "g": {0, 54330, 0o2775}} {
		must(t, os.Mkdir(j.path(dir), 0o700))
		must(t, os.Chown(j.path(dir), of.uid, of.gid))
		must(t, os.Chmod(j.path(dir), of.mode&os.ModePerm))
		must(t, unix.Chmod(j.path(dir), uint32(of.mode)))
		must(t, os.WriteFile(j.path(dir+"/secret"), []byte("secret"), 0o600))
		must(t, os.Chown(j.path(dir+"/secret"), of.uid, 0))
	}
	must(t, os.WriteFile(j.path("r/open"), []byte("open"), 0o644))
	must(t, os.WriteFile(j.path("r/group"), []byte("group"), 0o640))
	must(t, os.Chown(j.path("r/group"), 0, 54330))
	for name, target := range map[string]string{"shadow": "/etc/shadow", "toroot": j.path("r/secret"), "tobob": j.path("b/secret"), "tor": j.path("r"), "tob": j.path("b")} {
		must(t, os.Symlink(target, j.path("h/"+name)))
		must(t, os.Lchown(j.path("h/"+name), 54321, 54322))
	}
	must(t, os.Chmod(j.dir, 0o755))
	return j, j.owner.Under(remote.AsUser(alice))
}

// A call about files as a user does what a process of the user may do, and nothing else.
func TestCallsAsUser(t *testing.T) {
	j, on := asAlice(t)
	ctx := t.Context()
	root := func(path string) files.Place { return files.Place{Path: path} }
	read := func(at files.Place) func() error {
		return func() error { _, err := files.ReadFile(ctx, on, files.Call{At: at}, 1<<20); return err }
	}
	write := func(name string) func() error {
		return func() error { return files.WriteFile(ctx, on, files.Call{At: j.at(name)}, []byte("evil")) }
	}
	update := func(name string) func() error {
		return does(ctx, on, files.Call{Op: files.OpOpen, At: j.at(name), Mode: protocol.FsUpdate})
	}
	mode, when := uint64(0o777), int64(0)
	for name, do := range map[string]func() error{
		"read a file of root":          read(j.at("r/secret")),
		"read /etc/shadow by a link":   read(j.at("h/shadow")),
		"read by a link":               read(j.at("h/toroot")),
		"read in a closed home":        read(j.at("b/secret")),
		"read in a closed home, dots":  read(root(j.path("h") + "/../b/secret")),
		"read in a closed home, links": read(j.at("h/tob/secret")),
		"memory of init":               read(root("/proc/1/environ")),
		"own memory":                   read(root("/proc/self/environ")),
		"open in a closed home":        does(ctx, on, files.Call{Op: files.OpOpen, At: j.at("h/tobob"), Mode: protocol.FsRead}),
		"write a file of root":         write("r/open"),
		"write a file of root, link":   write("h/toroot"),
		"write a new file in r":        write("r/new"),
		"write a new file in r, link":  write("h/tor/new"),
		"write in a closed home":       write("b/secret"),
		"update a file of root":        update("r/open"),
		"update a new file":            update("r/new"),
		"update by a link":             update("h/toroot"),
		"mkdir in r":                   does(ctx, on, files.Call{Op: files.OpCreateDirectory, At: j.at("r/d/e"), Recursive: true}),
		"mkdir in a closed home":       does(ctx, on, files.Call{Op: files.OpCreateDirectory, At: j.at("h/tob/d"), Recursive: true}),
		"remove of root":               does(ctx, on, files.Call{Op: files.OpRemove, At: j.at("r/open"), Recursive: true, Force: true}),
		"remove the home of bob":       does(ctx, on, files.Call{Op: files.OpRemove, At: j.at("b"), Recursive: true, Force: true}),
		"list a closed home":           does(ctx, on, files.Call{Op: files.OpList, At: j.at("b")}),
		"read a closed home":           does(ctx, on, files.Call{Op: files.OpReadDirectory, At: j.at("h/tob")}),
		"walk a closed home": func() error {
			r, err := on(ctx, files.Call{Op: files.OpWalk, At: j.at("b"), Walk: &protocol.FsWalkOptions{MaxDepth: 3, MaxDirectories: 9, MaxEntries: 9}})
			if err == nil && len(r.Value.(protocol.FsWalkResult).Entries) == 0 {
				err = fs.ErrPermission // the answer names what could not be read
			}
			return err
		},
		"stat in a closed home":    does(ctx, on, files.Call{Op: files.OpStat, At: j.at("b/secret")}),
		"entry in a closed home":   does(ctx, on, files.Call{Op: files.OpEntry, At: j.at("b/secret"), Follow: true}),
		"missing in a closed home": does(ctx, on, files.Call{Op: files.OpStat, At: j.at("b/none")}),
		"canonical in a closed":    does(ctx, on, files.Call{Op: files.OpCanonicalize, At: j.at("h/tobob")}),
		"copy a file of root":      does(ctx, on, files.Call{Op: files.OpCopy, From: j.at("r/secret"), At: j.at("h/copy")}),
		"copy a closed home":       does(ctx, on, files.Call{Op: files.OpCopy, From: j.at("b"), At: j.at("h/copies"), Recursive: true}),
		"copy into r":              does(ctx, on, files.Call{Op: files.OpCopy, From: j.at("r/open"), At: j.at("r/copy")}),
		"copy onto a file of root": does(ctx, on, files.Call{Op: files.OpCopy, From: j.at("h/secret"), At: j.at("r/open")}),
		"rename of root":           does(ctx, on, files.Call{Op: files.OpRename, From: j.at("r/open"), At: j.at("h/open")}),
		"rename into r":            does(ctx, on, files.Call{Op: files.OpRename, From: j.at("h/secret"), At: j.at("r/mine")}),
		"rename in a closed home":  does(ctx, on, files.Call{Op: files.OpRename, From: j.at("b/secret"), At: j.at("b/other")}),
		"link in r":                does(ctx, on, files.Call{Op: files.OpSymlink, At: j.at("r/link"), Target: "x"}),
		"mode of root":             does(ctx, on, files.Call{Op: files.OpSetMetadata, At: j.at("r/open"), Bits: &mode}),
		"mode by a link":           does(ctx, on, files.Call{Op: files.OpSetMetadata, At: j.at("h/toroot"), Bits: &mode}),
		"time of root":             does(ctx, on, files.Call{Op: files.OpSetMetadata, At: j.at("r/open"), ModifiedAtMs: &when}),
	} {
		if err := do(); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v, want a refused permission", name, err)
		}
	}
	if err := read(j.at("h/none"))(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	for _, name := range []string{"r/secret", "b/secret", "g/secret"} {
		if j.content(name) != "secret" {
			t.Errorf("%s is now %q", name, j.content(name))
		}
	}
	for _, name := range []string{"h/copy", "h/open", "r/new", "r/d", "r/link", "r/mine", "r/copy"} {
		if _, err := os.Lstat(j.path(name)); err == nil {
			t.Errorf("there is %s", name)
		}
	}
	// What the user may, works.
	must(t, read(j.at("h/secret"))())
	must(t, read(j.at("r/open"))())
	must(t, read(j.at("r/group"))())
}

// wantOwner tests the owner and the mode of a file.
func (j *jailed) wantOwner(name string, uid, gid, mode uint32) {
	j.t.Helper()
	var st unix.Stat_t
	must(j.t, unix.Lstat(j.path(name), &st))
	if st.Uid != uid || st.Gid != gid || st.Mode&0o7777 != mode {
		j.t.Errorf("%s belongs to %d:%d with mode %o, want %d:%d with %o", name, st.Uid, st.Gid, st.Mode&0o7777, uid, gid, mode)
	}
}

// All that a call makes belongs to the user, with the group of a set-group-ID directory. Blocks are written by the user, too: the
// kernel takes set-user-ID and set-group-ID bits away.
func TestFilesBelongToTheUser(t *testing.T) {
	defer unix.Umask(unix.Umask(0o022))
	j, on := asAlice(t)
	ctx := t.Context()
	must(t, files.WriteFile(ctx, on, files.Call{At: j.at("h/new")}, []byte("x")))
	j.wantOwner("h/new", 54321, 54322, 0o644)
	must(t, files.WriteFile(ctx, on, files.Call{At: j.at("h/new")}, []byte("y")))
	j.wantOwner("h/new", 54321, 54322, 0o644)
	must(t, does(ctx, on, files.Call{Op: files.OpCreateDirectory, At: j.at("h/d/e"), Recursive: true})())
	j.wantOwner("h/d/e", 54321, 54322, 0o755)
	must(t, does(ctx, on, files.Call{Op: files.OpSymlink, At: j.at("h/l"), Target: "x"})())
	j.wantOwner("h/l", 54321, 54322, 0o777)
	must(t, does(ctx, on, files.Call{Op: files.OpCopy, From: j.at("r/open"), At: j.at("h/copy")})())
	j.wantOwner("h/copy", 54321, 54322, 0o644)
	must(t, files.WriteFile(ctx, on, files.Call{At: j.at("g/new")}, []byte("x")))
	j.wantOwner("g/new", 54321, 54330, 0o644)
	must(t, does(ctx, on, files.Call{Op: files.OpCreateDirectory, At: j.at("g/d")})())
	j.wantOwner("g/d", 54321, 54330, 0o2755)

	must(t, os.WriteFile(j.path("r/all"), []byte("old"), 0o666))
	must(t, unix.Chmod(j.path("r/all"), 0o6777))
	o, err := on(ctx, files.Call{Op: files.OpOpen, At: j.at("r/all"), Mode: protocol.FsUpdate})
	must(t, err)
	_, err = o.File.WriteAt([]byte("new"), 0)
	must(t, errors.Join(err, o.File.Commit(ctx)))
	j.wantOwner("r/all", 0, 0, 0o777)
	if j.content("r/all") != "new" {
		t.Errorf("the file has %q", j.content("r/all"))
	}
	o, err = on(ctx, files.Call{Op: files.OpOpen, At: j.at("h/blocks"), Mode: protocol.FsReplace})
	must(t, err)
	_, err = o.File.WriteAt([]byte(strings.Repeat("x", 3<<20)), 1)
	must(t, errors.Join(err, o.File.Commit(ctx)))
	j.wantOwner("h/blocks", 54321, 54322, 0o644)
	data, err := files.ReadFile(ctx, on, files.Call{At: j.at("h/blocks")}, 4<<20)
	if err != nil || string(data) != "\x00"+strings.Repeat("x", 3<<20) {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

// The process that makes the calls has the ids and groups of the user, no capability, and no way to a privilege. Its memory is closed
// to other processes of the user.
func TestProcessOfCallsAsUser(t *testing.T) {
	_, on := asAlice(t)
	text, err := files.ReadFile(t.Context(), on, files.Call{At: files.Place{Path: "/proc/thread-self/status"}}, 1<<20)
	must(t, err)
	has := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		has[name] = strings.Join(strings.Fields(value), " ")
	}
	for name, want := range map[string]string{
		"Uid": "54321 54321 54321 54321", "Gid": "54322 54322 54322 54322", "Groups": "54330", "NoNewPrivs": "1", "Seccomp": "2",
		"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000", "CapAmb": "0000000000000000",
	} {
		if has[name] != want {
			t.Errorf("%s is %q, want %q", name, has[name], want)
		}
	}
	var st unix.Stat_t
	must(t, unix.Stat(fmt.Sprintf("/proc/%s/mem", has["Tgid"]), &st))
	if st.Uid != 0 {
		t.Errorf("the memory of the process belongs to %d", st.Uid)
	}
}

// A sandbox and a user hold together.
func TestSandboxAsUser(t *testing.T) {
	j, _ := asAlice(t)
	for _, dir := range []string{"w", "w/a"} {
		must(t, os.Chown(j.path(dir), 54321, 54322))
	}
	view, err := j.env.FileView(t.Context(), j.writesW(), alice)
	must(t, err)
	on := j.owner.Under(view)
	must(t, files.WriteFile(t.Context(), on, files.Call{At: j.at("w/new")}, []byte("x")))
	j.wantOwner("w/new", 54321, 54322, 0o644)
	if err := files.WriteFile(t.Context(), on, files.Call{At: j.at("h/new")}, []byte("x")); !errors.Is(err, syscall.EROFS) {
		t.Errorf("outside of the workspace: %v", err)
	}
	if _, err := files.ReadFile(t.Context(), on, files.Call{At: j.at("h/toroot")}, 9); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a file of root: %v", err)
	}
}

// BenchmarkCallAsUser compares a call in this process with the same call in a process of a user, and with the start of such a
// process.
func BenchmarkCallAsUser(b *testing.B) {
	j, on := asAlice(b)
	at := j.at("r/open")
	for name, calls := range map[string]files.Caller{"server": files.Do, "user": on} {
		b.Run("stat/"+name, func(b *testing.B) {
			for b.Loop() {
				_, err := calls(b.Context(), files.Call{Op: files.OpStat, At: at})
				must(b, err)
			}
		})
		b.Run("block/"+name, func(b *testing.B) {
			must(b, os.WriteFile(j.path("r/large"), make([]byte, 1<<20), 0o644))
			o, err := calls(b.Context(), files.Call{Op: files.OpOpen, At: j.at("r/large"), Mode: protocol.FsRead})
			must(b, err)
			defer o.File.Discard()
			buf := make([]byte, 1<<20)
			b.SetBytes(1 << 20)
			for b.Loop() {
				_, err := o.File.ReadAt(buf, 0)
				must(b, err)
			}
		})
	}
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			owner := j.env.FileJails.Owner("bench")
			_, err := owner.Under(remote.AsUser(alice))(b.Context(), files.Call{Op: files.OpStat, At: at})
			must(b, err)
			owner.Close()
		}
	})
}
