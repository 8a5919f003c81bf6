package env

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/actors/files/remote"
	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// jailed is an Env with a Host, and with calls about files in a workspace. The test binary itself is the jail.
type jailed struct {
	t     testing.TB
	env   *Env
	owner *remote.Owner
	dir   string // has w, the workspace, and o, outside
}

// newJailed skips the test if the system permits no namespaces. hidden are names of files of the server.
func newJailed(t testing.TB, hidden ...string) *jailed {
	t.Helper()
	needs.Namespaces(t, os.Getuid())
	dir := testroot.Dir(t, "/var/tmp") // not below /tmp, which sandboxes may write
	for i, name := range hidden {
		hidden[i] = filepath.Join(dir, name)
	}
	host, err := child.NewHost(child.HostConfig{Log: slog.New(slog.DiscardHandler), Hidden: hidden})
	must(t, err)
	t.Cleanup(func() { host.Close(context.Background()) })
	e := &Env{Host: host, StartChild: host.Start, OutputBudget: budget.NewOutput(1<<30, func() {})}
	e.Log, e.Hidden = slog.New(slog.DiscardHandler), hidden
	e.FileJails = e.NewFileJails()
	j := &jailed{t: t, env: e, owner: e.FileJails.Owner("test"), dir: dir}
	t.Cleanup(j.owner.Close)
	for _, dir := range []string{"w/.git", "w/a/b", "w/no", "o"} {
		must(t, os.MkdirAll(filepath.Join(j.dir, dir), 0o755))
	}
	for _, file := range []string{"w/f", "w/.git/config", "w/a/s", "w/no/s", "w/nofile", "o/sec"} {
		must(t, os.WriteFile(filepath.Join(j.dir, file), []byte("secret"), 0o644))
	}
	must(t, os.Symlink(j.dir+"/o", j.dir+"/w/out"))
	must(t, os.Symlink(j.dir+"/w/no/s", j.dir+"/w/tono"))
	return j
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (j *jailed) path(name string) string { return filepath.Join(j.dir, name) }

func (j *jailed) at(name string) files.Place { return files.Place{Path: j.path(name)} }

// does returns a function that makes a call.
func does(ctx context.Context, by files.Caller, c files.Call) func() error {
	return func() error { _, err := by(ctx, c); return err }
}

// writesW returns a sandbox that writes w, and nothing else: in /tmp, which all processes of the machine share, the sandbox would make placeholders.
func (j *jailed) writesW() *protocol.Sandbox {
	s := protocol.WorkspaceSandbox(j.path("w"))
	s.Entries = slices.DeleteFunc(s.Entries, func(e protocol.SandboxEntry) bool {
		return e.Kind == protocol.SandboxSlashTmp || e.Kind == protocol.SandboxTmpdir
	})
	return s
}

// workspace returns a sandbox that writes w, and hides w/no and w/nofile.
func (j *jailed) workspace() *protocol.Sandbox {
	s := j.writesW()
	for _, name := range []string{"w/no", "w/nofile"} {
		s.Entries = append(s.Entries, protocol.SandboxEntry{Kind: protocol.SandboxPath, Path: j.path(name), Access: protocol.SandboxDeny})
	}
	return s
}

// calls returns the calls under a sandbox.
func (j *jailed) calls(s *protocol.Sandbox) files.Caller {
	j.t.Helper()
	view, err := j.env.FileView(j.t.Context(), s, nil)
	must(j.t, err)
	if view == nil {
		j.t.Fatal("the sandbox confines nothing")
	}
	return j.owner.Under(view)
}

func (j *jailed) content(name string) string {
	data, err := os.ReadFile(j.path(name))
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// What is outside of the workspace, protected or hidden, no call changes, by whatever path.
func TestCallsInAJail(t *testing.T) {
	j := newJailed(t)
	ctx, on := t.Context(), j.calls(j.workspace())
	must(t, files.WriteFile(ctx, on, files.Call{At: j.at("w/new")}, []byte("x")))
	must(t, files.WriteFile(ctx, on, files.Call{At: j.at("w/f")}, []byte("y")))
	if j.content("w/new") != "x" || j.content("w/f") != "y" {
		t.Errorf("in the workspace: %q, %q", j.content("w/new"), j.content("w/f"))
	}
	write := func(name string) func() error {
		return func() error { return files.WriteFile(ctx, on, files.Call{At: j.at(name)}, []byte("evil")) }
	}
	root := func(path string) files.Place { return files.Place{Path: path} }
	mode := uint64(0o777)
	for _, test := range []struct {
		name string
		do   func() error
		want []syscall.Errno
	}{
		{"write outside", write("o/sec"), []syscall.Errno{unix.EROFS}},
		{"new file outside", write("o/new"), []syscall.Errno{unix.EROFS}},
		{"write through a link", write("w/out/sec"), []syscall.Errno{unix.EROFS}},
		{"write through dots", write("w/../o/sec"), []syscall.Errno{unix.EROFS}},
		{"write .git", write("w/.git/config"), []syscall.Errno{unix.EROFS}},
		{"write .codex", write("w/.codex/x"), []syscall.Errno{unix.EROFS}},
		{"write a hidden file", write("w/nofile"), []syscall.Errno{unix.EACCES, unix.EROFS}},
		{"write in a hidden directory", write("w/no/s"), []syscall.Errno{unix.EACCES, unix.EROFS}},
		{"read a hidden file", func() error { _, err := files.ReadFile(ctx, on, files.Call{At: j.at("w/nofile")}, 9); return err }, []syscall.Errno{unix.EACCES}},
		{"list a hidden directory", does(ctx, on, files.Call{Op: files.OpList, At: j.at("w/no")}), []syscall.Errno{unix.EACCES}},
		{"read through a link", func() error { _, err := files.ReadFile(ctx, on, files.Call{At: j.at("w/tono")}, 9); return err }, []syscall.Errno{unix.EACCES, unix.ENOENT}},
		{"update outside", does(ctx, on, files.Call{Op: files.OpOpen, At: j.at("o/sec"), Mode: protocol.FsUpdate}), []syscall.Errno{unix.EROFS}},
		{"remove outside", does(ctx, on, files.Call{Op: files.OpRemove, At: j.at("o/sec")}), []syscall.Errno{unix.EROFS}},
		{"remove .git", does(ctx, on, files.Call{Op: files.OpRemove, At: j.at("w/.git"), Recursive: true}), []syscall.Errno{unix.EROFS, unix.EBUSY}},
		{"remove hidden", does(ctx, on, files.Call{Op: files.OpRemove, At: j.at("w/no"), Recursive: true}), []syscall.Errno{unix.EACCES, unix.EBUSY, unix.EROFS}},
		{"remove a hidden file", does(ctx, on, files.Call{Op: files.OpRemove, At: j.at("w/nofile"), Recursive: true}), []syscall.Errno{unix.EACCES, unix.EBUSY, unix.EROFS}},
		{"copy to outside", does(ctx, on, files.Call{Op: files.OpCopy, From: j.at("w/f"), At: j.at("o/f")}), []syscall.Errno{unix.EROFS}},
		{"copy of hidden", does(ctx, on, files.Call{Op: files.OpCopy, From: j.at("w/nofile"), At: j.at("w/copy")}), []syscall.Errno{unix.EACCES}},
		{"copy of a hidden directory", does(ctx, on, files.Call{Op: files.OpCopy, From: j.at("w/no"), At: j.at("w/copies"), Recursive: true}), []syscall.Errno{unix.EACCES}},
		{"copy onto .git", does(ctx, on, files.Call{Op: files.OpCopy, From: j.at("w/a"), At: j.at("w/.git"), Recursive: true}), []syscall.Errno{unix.EROFS}},
		{"rename outside", does(ctx, on, files.Call{Op: files.OpRename, From: j.at("o/sec"), At: j.at("w/sec")}), []syscall.Errno{unix.EXDEV, unix.EROFS}},
		{"rename .git", does(ctx, on, files.Call{Op: files.OpRename, From: j.at("w/.git"), At: j.at("w/g")}), []syscall.Errno{unix.EBUSY}},
		{"rename onto a hidden file", does(ctx, on, files.Call{Op: files.OpRename, From: j.at("w/f"), At: j.at("w/nofile")}), []syscall.Errno{unix.EBUSY}},
		{"mkdir outside", does(ctx, on, files.Call{Op: files.OpCreateDirectory, At: j.at("o/d"), Recursive: true}), []syscall.Errno{unix.EROFS}},
		{"mkdir in .git", does(ctx, on, files.Call{Op: files.OpCreateDirectory, At: j.at("w/.git/d")}), []syscall.Errno{unix.EROFS}},
		{"link outside", does(ctx, on, files.Call{Op: files.OpSymlink, At: j.at("o/l"), Target: "x"}), []syscall.Errno{unix.EROFS}},
		{"mode outside", does(ctx, on, files.Call{Op: files.OpSetMetadata, At: j.at("o/sec"), Bits: &mode}), []syscall.Errno{unix.EROFS}},
		{"mode of hidden", does(ctx, on, files.Call{Op: files.OpSetMetadata, At: j.at("w/nofile"), Bits: &mode}), []syscall.Errno{unix.EROFS, unix.EPERM, unix.EACCES}},
		// Who writes to the memory of the jail has all that the jail has.
		{"memory of the jail", does(ctx, on, files.Call{Op: files.OpOpen, At: root("/proc/self/mem"), Mode: protocol.FsUpdate}), []syscall.Errno{unix.EROFS, unix.EACCES}},
		{"name of the jail", does(ctx, on, files.Call{Op: files.OpOpen, At: root("/proc/thread-self/comm"), Mode: protocol.FsUpdate}), []syscall.Errno{unix.EROFS, unix.EACCES}},
		{"stat in hidden", does(ctx, on, files.Call{Op: files.OpStat, At: j.at("w/no/s")}), []syscall.Errno{unix.EACCES, unix.ENOENT}},
	} {
		err := test.do()
		ok := false
		for _, want := range test.want {
			ok = ok || errors.Is(err, want)
		}
		if !ok {
			t.Errorf("%s: %v, want one of %v", test.name, err, test.want)
		}
	}
	for _, name := range []string{"o/sec", "w/.git/config", "w/no/s", "w/nofile"} {
		if j.content(name) != "secret" {
			t.Errorf("%s is now %q", name, j.content(name))
		}
	}
	if _, err := os.Lstat(j.path("w/copy")); err == nil {
		t.Error("a hidden file was copied")
	}
	// A FIFO holds up nobody.
	must(t, unix.Mkfifo(j.path("w/fifo"), 0o644))
	if _, err := files.ReadFile(ctx, on, files.Call{At: j.at("w/fifo")}, 9); err == nil {
		t.Error("a FIFO was read")
	}
	if err := write("w/fifo")(); !errors.Is(err, unix.ENXIO) {
		t.Errorf("write to a FIFO: %v", err)
	}
	// The policy of the server holds as well.
	rooted := files.Place{Path: j.path("w/out/sec"), Root: j.path("w"), Word: rules.Read}
	if _, err := on(ctx, files.Call{Op: files.OpStat, At: rooted}); !errors.Is(err, rules.ErrRefused) {
		t.Errorf("out of the root: %v", err)
	}
	// Removal of the workspace's content stops at what must stay.
	must(t, os.MkdirAll(j.path("w/tree/deep"), 0o755))
	must(t, does(ctx, on, files.Call{Op: files.OpRemove, At: j.at("w/tree"), Recursive: true})())
	if err := does(ctx, on, files.Call{Op: files.OpRemove, At: j.at("w"), Recursive: true})(); err == nil {
		t.Error("the workspace was removed")
	}
	if j.content("w/.git/config") != "secret" || j.content("w/no/s") != "secret" {
		t.Error("a recursive removal has reached what the sandbox protects")
	}
	j.owner.Close()
	j.gone("w/.codex")
}

// gone waits until a placeholder is gone.
func (j *jailed) gone(name string) {
	j.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Lstat(j.path(name)); errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
	j.t.Errorf("%s is still there", name)
}

// One call after another has the same jail, also while its placeholders are there.
func TestCallsShareAJail(t *testing.T) {
	j := newJailed(t)
	started := 0
	j.env.StartChild = func(spec child.Spec, in *child.Intake, done func(child.Handle, error)) {
		started++
		j.env.Host.Start(spec, in, done)
	}
	for range 5 {
		must(t, files.WriteFile(t.Context(), j.calls(j.writesW()), files.Call{At: j.at("w/x")}, []byte("x")))
	}
	if started != 1 {
		t.Errorf("%d jails for one policy", started)
	}
}

// A file of the server that is replaced while a jail serves files is hidden from the next call.
func TestReplacedServerFileIsHidden(t *testing.T) {
	j := newJailed(t, "o/sec")
	read := func() error {
		_, err := files.ReadFile(t.Context(), j.calls(j.workspace()), files.Call{At: j.at("o/sec")}, 99)
		return err
	}
	if err := read(); !errors.Is(err, unix.EACCES) {
		t.Errorf("before: %v", err)
	}
	must(t, os.WriteFile(j.path("o/new"), []byte("secret"), 0o600))
	must(t, os.Rename(j.path("o/new"), j.path("o/sec")))
	if err := read(); !errors.Is(err, unix.EACCES) {
		t.Errorf("a replaced file of the server: %v", err)
	}
}

// Whoever removes a protected directory on the host while a jail serves files takes the protection away. The next call has a new
// jail.
func TestRemovedProtectionComesBack(t *testing.T) {
	for _, remove := range []struct {
		name string
		do   func(*jailed)
	}{
		{"w/.codex", func(j *jailed) { must(j.t, os.RemoveAll(j.path("w/.codex"))) }},
		{"w/.codex", func(j *jailed) { must(j.t, os.Rename(j.path("w/.codex"), j.path("o/elsewhere"))) }},
		{"w/.git/hooks", func(j *jailed) { // the new directory may have the inode number of the old
			must(j.t, os.RemoveAll(j.path("w/.git")))
			must(j.t, os.Mkdir(j.path("w/.git"), 0o755))
		}},
	} {
		t.Run(remove.name, func(t *testing.T) {
			j := newJailed(t)
			try := func() error {
				return does(t.Context(), j.calls(j.writesW()), files.Call{Op: files.OpCopy, From: j.at("w/a"), At: j.at(remove.name), Recursive: true})()
			}
			if err := try(); err == nil {
				t.Error("written before the removal")
			}
			remove.do(j)
			if err := try(); err == nil {
				t.Error("written after the removal")
			}
			if _, err := os.Lstat(j.path(remove.name + "/s")); err == nil {
				t.Error("the copy is there")
			}
		})
	}
}

// A denied file that is removed and comes back, as the same file, is denied to the next call.
func TestRemovedFileStaysDenied(t *testing.T) {
	j := newJailed(t)
	read := func() error {
		_, err := files.ReadFile(t.Context(), j.calls(j.workspace()), files.Call{At: j.at("w/nofile")}, 99)
		return err
	}
	if err := read(); !errors.Is(err, unix.EACCES) {
		t.Errorf("before: %v", err)
	}
	must(t, os.Link(j.path("w/nofile"), j.path("o/kept")))
	must(t, os.Remove(j.path("w/nofile")))
	must(t, os.Link(j.path("o/kept"), j.path("w/nofile")))
	if err := read(); !errors.Is(err, unix.EACCES) {
		t.Errorf("after: %v", err)
	}
}

// A jail that was started while a denied file had another name is not for calls whose view denies the file.
func TestJailHasTheViewOfItsCalls(t *testing.T) {
	j := newJailed(t)
	s := j.writesW()
	s.Entries = append(s.Entries, protocol.SandboxEntry{Kind: protocol.SandboxGlob, Path: j.path("w") + "/no*", Access: protocol.SandboxDeny})
	before := j.calls(s)
	must(t, os.Rename(j.path("w/nofile"), j.path("w/away")))
	if _, err := before(t.Context(), files.Call{Op: files.OpStat, At: j.at("w/f")}); err != nil {
		t.Fatal(err)
	}
	must(t, os.Rename(j.path("w/away"), j.path("w/nofile")))
	if data, err := files.ReadFile(t.Context(), j.calls(s), files.Call{At: j.at("w/nofile")}, 99); !errors.Is(err, unix.EACCES) {
		t.Errorf("a denied file: %q, %v", data, err)
	}
}

// A jail that is killed fails its calls, and the next call has another.
func TestJailIsKilled(t *testing.T) {
	j := newJailed(t)
	var handle atomic.Value
	j.env.StartChild = func(spec child.Spec, in *child.Intake, done func(child.Handle, error)) {
		j.env.Host.Start(spec, in, func(h child.Handle, err error) {
			if err == nil {
				handle.Store(h)
			}
			done(h, err)
		})
	}
	on := j.calls(j.workspace())
	var h files.Handles
	must(t, h.Open(t.Context(), "h", nil, on, files.Call{Op: files.OpOpen, At: j.at("w/f"), Mode: protocol.FsReplace}))
	must(t, h.Write("h", 0, []byte("new")))
	must(t, handle.Load().(child.Handle).Kill())
	if err := h.Close(t.Context(), "h"); !errors.Is(err, remote.ErrEnded) {
		t.Errorf("the file has its place, after the end of the jail: %v", err)
	}
	if j.content("w/f") != "secret" {
		t.Errorf("the file is %q", j.content("w/f"))
	}
	var err error
	for range 1000 { // until the pool knows
		if _, err = on(t.Context(), files.Call{Op: files.OpStat, At: j.at("w/f")}); !errors.Is(err, remote.ErrEnded) {
			break
		}
	}
	must(t, err)
}

// A jail that does not end by itself is killed.
func TestStoppedJailIsKilled(t *testing.T) {
	j := newJailed(t)
	var handle atomic.Value
	j.env.StartChild = func(spec child.Spec, in *child.Intake, done func(child.Handle, error)) {
		j.env.Host.Start(spec, in, func(h child.Handle, err error) {
			handle.Store(h)
			done(h, err)
		})
	}
	if _, err := j.calls(j.workspace())(t.Context(), files.Call{Op: files.OpStat, At: j.at("w/f")}); err != nil {
		t.Fatal(err)
	}
	must(t, handle.Load().(child.Handle).Signal(unix.SIGSTOP))
	j.owner.Close()
	j.noneLeft()
}

// noneLeft waits until all jails are gone.
func (j *jailed) noneLeft() {
	j.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if j.env.Host.Live() == 0 && j.env.FileJails.Len() == 0 {
			return
		}
	}
	j.t.Errorf("%d jails are left, %d of the pool", j.env.Host.Live(), j.env.FileJails.Len())
}

// A program outside that exchanges a directory with a link changes nothing outside of the workspace.
func TestExchangedDirectory(t *testing.T) {
	j := newJailed(t)
	ctx, on := t.Context(), j.calls(j.workspace())
	must(t, os.Mkdir(j.path("w/real"), 0o755))
	must(t, os.Symlink(j.path("o"), j.path("w/link")))
	stop := make(chan struct{})
	var exchanges atomic.Int64
	var all sync.WaitGroup
	all.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, j.path("w/real"), unix.AT_FDCWD, j.path("w/link"), unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
				return
			}
			exchanges.Add(1)
		}
	})
	written := 0
	for range 300 {
		if files.WriteFile(ctx, on, files.Call{At: j.at("w/real/evil")}, []byte("x")) == nil {
			written++
		}
		_ = does(ctx, on, files.Call{Op: files.OpCopy, From: j.at("w/f"), At: j.at("w/real/copy")})()
		_ = does(ctx, on, files.Call{Op: files.OpCreateDirectory, At: j.at("w/real/d/e"), Recursive: true})()
		_ = does(ctx, on, files.Call{Op: files.OpRemove, At: j.at("w/real/sec"), Recursive: true, Force: true})()
		_ = does(ctx, on, files.Call{Op: files.OpRemove, At: j.at("w/real/d"), Recursive: true, Force: true})()
		_ = does(ctx, on, files.Call{Op: files.OpSymlink, At: j.at("w/real/l"), Target: "x"})()
	}
	close(stop)
	all.Wait()
	left, err := os.ReadDir(j.path("o"))
	must(t, err)
	if len(left) != 1 || j.content("o/sec") != "secret" {
		t.Errorf("outside: %v, %q", left, j.content("o/sec"))
	}
	if written == 0 || exchanges.Load() < 100 {
		t.Errorf("%d of 300 writes, %d exchanges: nothing was tried", written, exchanges.Load())
	}
}

// Many clients at once have a jail each.
func TestManyJails(t *testing.T) {
	j := newJailed(t)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			owner := j.env.FileJails.Owner("many")
			defer owner.Close()
			view, err := j.env.FileView(t.Context(), j.workspace(), nil)
			if err != nil {
				t.Error(err)
				return
			}
			for range 3 {
				if err := files.WriteFile(t.Context(), owner.Under(view), files.Call{At: j.at("w/f")}, []byte("x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	j.noneLeft()
	j.gone("w/.codex")
}

// A sandbox that cannot be enforced is refused, with a code for the client.
func TestWrongView(t *testing.T) {
	j := newJailed(t)
	must(t, os.RemoveAll(j.path("w/.git")))
	must(t, os.Symlink(j.path("o"), j.path("w/.git")))
	_, err := j.env.FileView(t.Context(), j.writesW(), nil)
	refused, ok := errors.AsType[*protocol.Error](err)
	if !ok || refused.Code != protocol.CodeInvalidParams || refused.Kind() != protocol.KindSandbox || !strings.Contains(refused.Message, ".git") {
		t.Errorf("%v", err)
	}
}

// BenchmarkFileCalls compares calls in a jail, with the look-up of their view as for each call of a client, with calls in the
// server.
func BenchmarkFileCalls(b *testing.B) {
	j := newJailed(b)
	hides := j.workspace()
	for _, way := range []struct {
		name  string
		calls func() files.Caller
	}{
		{"server", func() files.Caller { return files.Do }},
		{"jail", func() files.Caller { return j.calls(hides) }},
	} {
		for name, call := range map[string]func() error{
			"stat": func() error { return does(b.Context(), way.calls(), files.Call{Op: files.OpStat, At: j.at("w/f")})() },
			"read": func() error {
				_, err := files.ReadFile(b.Context(), way.calls(), files.Call{At: j.at("w/f")}, 1<<20)
				return err
			},
			"write": func() error {
				return files.WriteFile(b.Context(), way.calls(), files.Call{At: j.at("w/f")}, []byte("hello"))
			},
			"list": func() error { return does(b.Context(), way.calls(), files.Call{Op: files.OpList, At: j.at("w")})() },
		} {
			b.Run(name+"/"+way.name, func(b *testing.B) {
				var took []time.Duration
				for b.Loop() {
					began := time.Now()
					must(b, call())
					took = append(took, time.Since(began))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			})
		}
	}
	b.Run("view", func(b *testing.B) {
		for b.Loop() {
			if _, err := j.env.FileView(b.Context(), hides, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
