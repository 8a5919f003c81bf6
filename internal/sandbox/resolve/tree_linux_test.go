package resolve

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/mounts"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
)

// realDir returns a new directory whose path has no links.
func realDir(t *testing.T) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// The files of this machine.
func TestPolicyOfRealFiles(t *testing.T) {
	w := realDir(t)
	must(t, os.MkdirAll(w+"/gd/hooks", 0o777), os.WriteFile(w+"/.git", []byte("gitdir: gd\n"), 0o666), os.Mkdir(w+"/sub", 0o777),
		os.WriteFile(w+"/sub/bad\xff.env", nil, 0o666), os.Symlink("sub/bad\xff.env", w+"/link.env"), syscall.Mkfifo(w+"/sub/fifo.env", 0o666))
	s := &protocol.Sandbox{Restricted: true, Cwd: w, WorkspaceRoots: []string{w}, Entries: []protocol.SandboxEntry{
		{Kind: protocol.SandboxRoot, Access: protocol.SandboxRead},
		{Kind: protocol.SandboxProjectRoots, Access: protocol.SandboxWrite},
		{Kind: protocol.SandboxGlob, Path: "**/*.env", Access: protocol.SandboxDeny},
	}}
	p, err := Policy(context.Background(), s, Facts{})
	must(t, err)
	want := []string{"read /", "write .", "read ./.agents missing", "read ./.aws missing", "read ./.codex missing", "read ./.git file", "read ./gd",
		"write ./sub", "deny ./sub/bad\xff.env file", "deny ./sub/fifo.env file"}
	got := show(p)
	for i := range got {
		got[i] = strings.Replace(got[i], w, ".", 1)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, path := range p.Paths {
		var stat syscall.Stat_t
		if path.Kind != sandbox.Missing {
			must(t, syscall.Lstat(path.Path, &stat))
		}
		if path.Dev != uint64(stat.Dev) || path.Ino != stat.Ino {
			t.Errorf("%+v, stat has %d %d", path, stat.Dev, stat.Ino)
		}
	}
}

// A program that has a lease of a file .git makes no look-up wait.
func TestLeasedFileDelaysNothing(t *testing.T) {
	w := realDir(t)
	must(t, os.WriteFile(w+"/.git", []byte("gitdir: gd\n"), 0o666))
	f, err := os.OpenFile(w+"/.git", os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	signal.Ignore(syscall.SIGIO) // the kernel tells the holder of the lease
	defer signal.Reset(syscall.SIGIO)
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	needs.Feature(t, err)
	s := &protocol.Sandbox{Restricted: true, Cwd: w, WorkspaceRoots: []string{w}, Entries: []protocol.SandboxEntry{
		{Kind: protocol.SandboxRoot, Access: protocol.SandboxRead}, {Kind: protocol.SandboxProjectRoots, Access: protocol.SandboxWrite},
	}}
	done := make(chan error, 1)
	go func() {
		_, err := Policy(context.Background(), s, Facts{})
		done <- err
	}()
	select {
	case err = <-done:
	case <-time.After(30 * time.Second): // the kernel breaks the lease after 45 s, and the look-up would go on
		t.Error("the look-up waits for the lease")
		_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
		must(t, err, <-done)
		return
	}
	if !errors.Is(err, unix.EAGAIN) || errors.Is(err, ErrPolicy) || !strings.Contains(err.Error(), ".git") {
		t.Errorf("error %v", err)
	}
}

// A directory with mode 0311 cannot be listed, and its files can be opened by name. Root can list every directory, so a thread of
// root becomes another user.
func TestGlobOfUnlistedRealDirectory(t *testing.T) {
	w := testroot.Dir(t, "/tmp") // TMPDIR may be closed to the other user
	must(t, os.Mkdir(w+"/d", 0o777), os.WriteFile(w+"/d/x.env", nil, 0o666))
	if os.Geteuid() == 0 {
		must(t, os.Chown(w+"/d", 65534, 65534))
	}
	must(t, os.Chmod(w+"/d", 0o311))
	s := &protocol.Sandbox{Restricted: true, Cwd: w, Entries: []protocol.SandboxEntry{
		{Kind: protocol.SandboxRoot, Access: protocol.SandboxRead},
		{Kind: protocol.SandboxGlob, Path: "**/*.env", Access: protocol.SandboxDeny},
	}}
	var p *sandbox.Policy
	var lists, err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if os.Geteuid() == 0 {
			runtime.LockOSThread() // for good: the thread ends with the goroutine
			if err = unix.Setfsuid(65534); err != nil {
				return
			}
		}
		lists = machine{}.ReadDir(w+"/d", func(string, fs.FileMode) error { return nil })
		p, err = Policy(context.Background(), s, Facts{})
	}()
	<-done
	must(t, err)
	if !errors.Is(lists, fs.ErrPermission) {
		t.Fatalf("the test can list the directory: %v", lists)
	}
	if got, want := show(p), []string{"read /", "deny " + w + "/d"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Whoever exchanges a directory with a link while the server looks at files leads the server nowhere.
func TestTreeFollowsNoLinks(t *testing.T) {
	dir := realDir(t)
	must(t, os.MkdirAll(dir+"/real/d", 0o777), os.WriteFile(dir+"/real/f", []byte("x"), 0o666), os.Symlink("real", dir+"/link"), syscall.Mkfifo(dir+"/fifo", 0o666))
	var m machine
	for _, name := range []string{"link/f", "link/d", "link/nosuch", "link/."} {
		if _, err := m.Lstat(dir + "/" + name); !errors.Is(err, syscall.ELOOP) {
			t.Errorf("Lstat of %s: error %v", name, err)
		}
		if err := m.ReadDir(dir+"/"+name, nil); !errors.Is(err, syscall.ELOOP) {
			t.Errorf("ReadDir of %s: error %v", name, err)
		}
		if _, err := m.ReadFile(dir+"/"+name, 1); !errors.Is(err, syscall.ELOOP) {
			t.Errorf("ReadFile of %s: error %v", name, err)
		}
	}
	if err := m.ReadDir(dir+"/link", nil); err == nil {
		t.Error("ReadDir follows a link")
	}
	if _, err := m.ReadFile(dir+"/fifo", 1); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("ReadFile of a FIFO: error %v", err)
	}
	if target, err := m.Readlink(dir + "/link"); target != "real" || err != nil {
		t.Errorf("Readlink: %q, %v", target, err)
	}
	if text, err := m.ReadFile(dir+"/real/f", 9); string(text) != "x" || err != nil {
		t.Errorf("ReadFile: %q, %v", text, err)
	}
}

func TestMounts(t *testing.T) {
	list, err := machine{}.Mounts()
	must(t, err)
	var stat syscall.Stat_t
	must(t, syscall.Lstat("/proc", &stat))
	if !slices.Contains(list, mounts.Mount{Dir: "/proc", Type: "proc", Device: uint64(stat.Dev)}) {
		t.Errorf("no /proc of device %d in %v", stat.Dev, list)
	}
	if slices.ContainsFunc(list, func(m mounts.Mount) bool { return m.Dir == "/" }) {
		t.Errorf("the root is not of the kernel: %v", list)
	}
}

func BenchmarkPolicy(b *testing.B) {
	dir := b.TempDir()
	for name, s := range map[string]*protocol.Sandbox{"read-only": protocol.ReadOnlySandbox(dir), "workspace-write": protocol.WorkspaceSandbox(dir)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Policy(context.Background(), s, Facts{Cwd: dir}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
