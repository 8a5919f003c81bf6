package placeholder

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
)

// tester is *testing.T and *rapid.T.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// resolve is what a Policy says of the paths below a writable dir at this moment.
func resolve(t tester, dir string, names ...string) *sandbox.Policy {
	t.Helper()
	p := &sandbox.Policy{Files: true, Root: sandbox.Read}
	add := func(path string, access sandbox.Access) {
		var st unix.Stat_t
		entry := sandbox.Path{Path: path, Access: access, Kind: sandbox.Missing}
		switch err := unix.Lstat(path, &st); {
		case errors.Is(err, unix.ENOENT):
		case err != nil:
			t.Fatal(err)
		default:
			entry.Dev, entry.Ino, entry.Kind = uint64(st.Dev), st.Ino, sandbox.File
			if st.Mode&unix.S_IFMT == unix.S_IFDIR {
				entry.Kind = sandbox.Directory
			}
		}
		p.Paths = append(p.Paths, entry)
	}
	add(dir, sandbox.Write)
	for _, name := range names {
		add(filepath.Join(dir, name), sandbox.Read)
	}
	return p
}

func hold(t tester, h *Holder, p *sandbox.Policy) *Held {
	t.Helper()
	held, err := h.Hold(p, uint32(os.Geteuid()))
	if err != nil {
		t.Fatal(err)
	}
	return held
}

// crash ends a server as SIGKILL does: the kernel closes its descriptors.
func (h *Holder) crash() {
	for _, p := range h.places {
		unix.Close(p.fd)
	}
	h.places = nil
}

func exists(t tester, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func wantKept(t tester, path string) {
	t.Helper()
	if err := unix.Rmdir(path); !errors.Is(err, unix.ENOTEMPTY) {
		t.Fatalf("rmdir %s by somebody else: %v, want %v", path, err, unix.ENOTEMPTY)
	}
}

func wantGone(t tester, path string) {
	t.Helper()
	if exists(t, path) {
		entries, _ := os.ReadDir(path)
		t.Fatalf("%s is still there, with %v", path, entries)
	}
}

func TestHoldMakesAndReleaseRemoves(t *testing.T) {
	var h Holder
	dir := t.TempDir()
	p := resolve(t, dir, ".git", ".codex")
	held := hold(t, &h, p)
	for _, path := range p.Paths[1:] {
		var st unix.Stat_t
		if err := unix.Lstat(path.Path, &st); err != nil {
			t.Fatal(err)
		}
		if path.Kind != sandbox.Missing || path.Dev != uint64(st.Dev) || path.Ino != st.Ino {
			t.Errorf("policy has %+v, want the directory with inode %d, as Missing", path, st.Ino)
		}
		wantKept(t, path.Path)
	}
	held.Release()
	held.Release()
	wantGone(t, dir+"/.git")
	wantGone(t, dir+"/.codex")
}

func TestNoFilesNoPlaceholders(t *testing.T) {
	var h Holder
	held, err := h.Hold(&sandbox.Policy{}, 0)
	if held != nil || err != nil {
		t.Fatal(held, err)
	}
	held.Release()
}

func TestLastOfServersRemoves(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {2, 0, 3, 1}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			var a, b Holder
			dir := t.TempDir()
			late := resolve(t, dir, ".codex") // resolved while the name is missing, held when it is not
			all := []*Held{hold(t, &a, resolve(t, dir, ".codex")), hold(t, &b, resolve(t, dir, ".codex")), hold(t, &a, resolve(t, dir, ".codex"))}
			all = append(all, hold(t, &b, late))
			if late.Paths[1].Ino == 0 {
				t.Error("the policy does not identify the placeholder")
			}
			for i, n := range order {
				wantKept(t, dir+"/.codex")
				all[n].Release()
				if i == len(order)-1 {
					wantGone(t, dir+"/.codex")
				}
			}
		})
	}
}

// A sandbox that finds the placeholder of another one has an empty directory there, without the stone.
func TestPlaceholderOfAnotherServerIsMissing(t *testing.T) {
	var a, b Holder
	dir := t.TempDir()
	first := hold(t, &a, resolve(t, dir, ".codex"))
	p := resolve(t, dir, ".codex")
	if p.Paths[1].Kind != sandbox.Directory {
		t.Fatal("the placeholder is not a directory")
	}
	second := hold(t, &b, p)
	if p.Paths[1].Kind != sandbox.Missing {
		t.Error("the program would see the stone")
	}
	first.Release()
	wantKept(t, dir+"/.codex")
	second.Release()
	wantGone(t, dir+"/.codex")
}

// Between the look at the files and the hold, the placeholder of another sandbox goes.
func TestPlaceholderGoesBeforeHold(t *testing.T) {
	var a, b Holder
	dir := t.TempDir()
	first := hold(t, &a, resolve(t, dir, ".codex"))
	p := resolve(t, dir, ".codex")
	first.Release()
	wantGone(t, dir+"/.codex")
	second := hold(t, &b, p)
	wantKept(t, dir+"/.codex")
	if p.Paths[1].Kind != sandbox.Missing {
		t.Errorf("policy has %+v, want Missing", p.Paths[1])
	}
	second.Release()
	wantGone(t, dir+"/.codex")
}

func TestKilledServerLeavesNothingToTheNext(t *testing.T) {
	var a, b Holder
	dir := t.TempDir()
	hold(t, &a, resolve(t, dir, ".codex"))
	a.crash()
	wantKept(t, dir+"/.codex")
	hold(t, &b, resolve(t, dir, ".codex")).Release()
	wantGone(t, dir+"/.codex")
}

func TestKilledServerBeforeTheStone(t *testing.T) {
	var h Holder
	dir := t.TempDir()
	if err := unix.Mkdir(dir+"/.codex", mode); err != nil {
		t.Fatal(err)
	}
	held := hold(t, &h, resolve(t, dir, ".codex"))
	wantKept(t, dir+"/.codex")
	held.Release()
	wantGone(t, dir+"/.codex")
}

func TestStoneOfAnEarlierBoot(t *testing.T) {
	var h Holder
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/.codex/"+stonePrefix+"0badc0de", 0o755); err != nil {
		t.Fatal(err)
	}
	fd, err := open(unix.AT_FDCWD, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	hold(t, &h, resolve(t, dir, ".codex")).Release()
	if exists(t, dir+"/.codex") == local(fd) {
		t.Errorf("local is %v, and the directory of an earlier boot is there: %v", local(fd), exists(t, dir+"/.codex"))
	}
}

// What people do on the host meanwhile.
func TestPeople(t *testing.T) {
	file := func(path string) error { return os.WriteFile(path, []byte("mine"), 0o644) }
	for _, c := range []struct {
		name  string
		act   func(dir string) error
		stays string // below dir
	}{
		{"fill it", func(dir string) error { return file(dir + "/.git/HEAD") }, ".git/HEAD"},
		{"replace it by a directory", func(dir string) error {
			return errors.Join(os.RemoveAll(dir+"/.git"), os.Mkdir(dir+"/.git", 0o755))
		}, ".git"},
		{"replace it by a file", func(dir string) error { return errors.Join(os.RemoveAll(dir+"/.git"), file(dir+"/.git")) }, ".git"},
		{"replace it by a link", func(dir string) error {
			return errors.Join(os.RemoveAll(dir+"/.git"), os.Mkdir(dir+"/o", 0o755), os.Symlink("o", dir+"/.git"))
		}, ".git"},
		{"rename it", func(dir string) error { return os.Rename(dir+"/.git", dir+"/mine") }, "mine"},
		{"remove it", func(dir string) error { return os.RemoveAll(dir + "/.git") }, ""},
		{"remove the stone", func(dir string) error { return os.Remove(dir + "/.git/" + stonePrefix + boot()) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h Holder
			dir := t.TempDir()
			held := hold(t, &h, resolve(t, dir, ".git"))
			if err := c.act(dir); err != nil {
				t.Fatal(err)
			}
			held.Release()
			if c.stays == "" {
				wantGone(t, dir+"/.git")
				return
			}
			if !exists(t, filepath.Join(dir, c.stays)) {
				t.Fatalf("%s has gone", c.stays)
			}
			if names, _ := filepath.Glob(dir + "/*/.troupe*"); len(names) > 0 {
				t.Errorf("left behind: %v", names)
			}
			if info, err := os.Lstat(dir + "/.git"); err == nil && info.Mode()&os.ModeSticky != 0 {
				t.Errorf(".git has mode %v, as if it were a placeholder", info.Mode())
			}
		})
	}
}

func TestWorkspaceIsRenamed(t *testing.T) {
	var h Holder
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/w", 0o755); err != nil {
		t.Fatal(err)
	}
	held := hold(t, &h, resolve(t, dir+"/w", ".git"))
	if err := os.Rename(dir+"/w", dir+"/v"); err != nil {
		t.Fatal(err)
	}
	held.Release()
	wantGone(t, dir+"/v/.git")
}

func TestRealDirectories(t *testing.T) {
	var h Holder
	dir := t.TempDir()
	for _, path := range []string{"/.git/hooks", "/.agents"} {
		if err := os.MkdirAll(dir+path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p := resolve(t, dir, ".git", ".agents")
	before := slices.Clone(p.Paths)
	held := hold(t, &h, p)
	if !slices.Equal(p.Paths, before) {
		t.Errorf("the policy is now %+v, want %+v", p.Paths, before)
	}
	wantKept(t, dir+"/.agents") // it may be the placeholder of a program that knows no locks
	if entries, _ := os.ReadDir(dir + "/.git"); len(entries) != 1 {
		t.Errorf("the server has written into a directory with files: %v", entries)
	}
	second := hold(t, new(Holder), resolve(t, dir, ".agents"))
	held.Release()
	wantKept(t, dir+"/.agents")
	second.Release()
	if err := unix.Rmdir(dir + "/.agents"); err != nil {
		t.Errorf("an empty directory of a person has gone, or is not empty: %v", err)
	}
}

func TestChanged(t *testing.T) {
	other := t.TempDir()
	for _, c := range []struct {
		name string
		act  func(dir string) error
	}{
		{"a file", func(dir string) error { return os.WriteFile(dir+"/.git", nil, 0o644) }},
		{"a link", func(dir string) error { return os.Symlink(other, dir+"/.git") }},
		{"a directory with files", func(dir string) error { return os.MkdirAll(dir+"/.git/hooks", 0o755) }},
		{"no parent", os.Remove},
		{"a link as parent", func(dir string) error { return errors.Join(os.Remove(dir), os.Symlink(other, dir)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h Holder
			dir := t.TempDir() + "/w"
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			p := resolve(t, dir, ".codex", ".git")
			if err := c.act(dir); err != nil {
				t.Fatal(err)
			}
			if held, err := h.Hold(p, 0); !errors.Is(err, ErrChanged) {
				t.Errorf("Hold: %v, %v, want ErrChanged", held, err)
			}
			wantGone(t, dir+"/.codex") // held before the error
			if entries, _ := os.ReadDir(other); len(entries) > 0 {
				t.Errorf("the server has followed a link: %v", entries)
			}
		})
	}
}

// Many starts and ends of two servers at the same time: nobody's placeholder goes early, and the last takes it away.
// The last holder may remove a directory while the next one looks into it.
func TestLookAtARemovedDirectory(t *testing.T) {
	dir := t.TempDir() + "/d"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if found, err := look(fd); err != nil || !found.empty() {
		t.Errorf("empty directory: %+v, %v", found, err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := look(fd); !errors.Is(err, errAgain) {
		t.Errorf("removed directory: %v, want %v", err, errAgain)
	}
}

func TestManyAtOnce(t *testing.T) {
	var servers [2]Holder
	dir := t.TempDir()
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for range 50 {
				held, err := servers[i%2].Hold(resolve(t, dir, ".git", ".codex"), uint32(os.Geteuid()))
				if err != nil {
					t.Error(err)
					return
				}
				for _, name := range []string{"/.git", "/.codex"} {
					if err := unix.Rmdir(dir + name); !errors.Is(err, unix.ENOTEMPTY) {
						t.Errorf("rmdir %s while it is held: %v", name, err)
					}
				}
				held.Release()
			}
		})
	}
	wait.Wait()
	wantGone(t, dir+"/.git")
	wantGone(t, dir+"/.codex")
	for i := range servers {
		if n := len(servers[i].places); n != 0 {
			t.Errorf("%d places are left", n)
		}
	}
}

// Servers start sandboxes, end them and are killed, in any order, while programs that know nothing of placeholders try
// rmdir and mkdir, as other sandboxes do.
func TestAnyOrder(t *testing.T) {
	base := t.TempDir()
	count := 0
	rapid.Check(t, func(t *rapid.T) {
		count++
		dir := fmt.Sprintf("%s/%d", base, count)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		name := dir + "/.codex"
		servers := []*Holder{{}, {}, {}}
		held := make([][]*Held, len(servers))
		users := func() (n int) {
			for _, h := range held {
				n += len(h)
			}
			return n
		}
		stale, foreign := false, false // a server was killed; somebody else has made the directory
		server := rapid.IntRange(0, len(servers)-1)
		start := func(t *rapid.T) {
			i := server.Draw(t, "server")
			h, err := servers[i].Hold(resolve(t, dir, ".codex"), uint32(os.Geteuid()))
			if err != nil {
				t.Fatal(err)
			}
			held[i] = append(held[i], h)
			stale = false
		}
		t.Repeat(map[string]func(*rapid.T){
			"start": start,
			"end": func(t *rapid.T) {
				i := server.Draw(t, "server")
				if len(held[i]) == 0 {
					t.Skip("none")
				}
				n := rapid.IntRange(0, len(held[i])-1).Draw(t, "sandbox")
				held[i][n].Release()
				held[i] = slices.Delete(held[i], n, n+1)
			},
			"kill": func(t *rapid.T) {
				i := server.Draw(t, "server")
				stale = stale || len(held[i]) > 0
				servers[i].crash()
				servers[i], held[i] = &Holder{}, nil
			},
			"mkdir": func(t *rapid.T) {
				if unix.Mkdir(name, 0o755) == nil {
					foreign = true
				}
			},
			"rmdir": func(t *rapid.T) {
				if unix.Rmdir(name) == nil {
					foreign = false
					if users() > 0 {
						t.Fatal("rmdir of a placeholder in use succeeds")
					}
				}
			},
			"": func(t *rapid.T) {
				there := exists(t, name)
				switch {
				case users() > 0 && !there:
					t.Fatal("a placeholder in use has gone")
				case users() == 0 && !stale && there != foreign:
					t.Fatalf("nobody uses the placeholder; it is there: %v; made by others: %v", there, foreign)
				}
			},
		})
	})
}

// Steps as other users. The test runs itself again; see TestMain.
const asUser = "PLACEHOLDER_TEST_AS_USER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asUser); dir != "" {
		var h Holder
		p := &sandbox.Policy{Files: true, Paths: []sandbox.Path{{Path: dir, Access: sandbox.Write}, {Path: dir + "/.codex", Access: sandbox.Read, Kind: sandbox.Missing}}}
		held, err := h.Hold(p, uint32(os.Geteuid()))
		fmt.Println(len(p.Paths), err)
		os.Stdin.Read(make([]byte, 1))
		held.Release()
		return
	}
	os.Exit(m.Run())
}

// server is a server of another user, which holds dir/.codex.
type server struct {
	answer string
	end    func()
}

func serve(t *testing.T, uid uint32, dir string) server {
	t.Helper()
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	cmd := exec.Command("/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{exe}
	cmd.Env = []string{asUser + "=" + dir}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1000)
	n, err := out.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return server{strings.TrimSpace(string(buf[:n])), end}
}

// shared returns a directory that every user may enter.
func shared(t *testing.T, uid int, mode os.FileMode) string {
	t.Helper()
	needs.Root(t)
	dir := testroot.Dir(t, "/tmp") + "/w"
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, uid, uid), os.Chmod(dir, mode)); err != nil {
		t.Fatal(err)
	}
	return dir
}

const alice, bob = 54321, 54322

// A server that is root makes the placeholder for the owner of the directory, who can remove it if the server is killed.
func TestRootMakesItForTheOwner(t *testing.T) {
	dir := shared(t, alice, 0o755)
	var h Holder
	held := hold(t, &h, resolve(t, dir, ".codex"))
	for _, path := range []string{dir + "/.codex", dir + "/.codex/" + stonePrefix + boot()} {
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil || st.Uid != alice || st.Gid != alice {
			t.Errorf("%s has owner %d:%d, %v; want %d", path, st.Uid, st.Gid, err, alice)
		}
	}
	if uid := setfs(unix.SYS_SETFSUID, ^uint32(0)); uid != 0 {
		t.Errorf("this thread has still the permissions of user %d", uid)
	}
	wantKept(t, dir+"/.codex")
	held.Release()
	wantGone(t, dir+"/.codex")

	if err := os.Chmod(dir, 0o555); err != nil { // alice may not; root may, and alice could chmod
		t.Fatal(err)
	}
	held = hold(t, &h, resolve(t, dir, ".codex"))
	wantKept(t, dir+"/.codex")
	held.Release()
	wantGone(t, dir+"/.codex")
}

// A program can make a stone in a directory where everybody may write, such as /tmp. A server that is root must not take the directory
// for a placeholder: it would take the sticky bit away, which keeps users from each other's files, or remove the directory.
func TestStoneInADirectoryOfEverybody(t *testing.T) {
	for _, empty := range []bool{false, true} {
		dir := shared(t, 0, 0o755)
		tmp := dir + "/tmp"
		stone := tmp + "/" + stonePrefix + boot()
		if err := errors.Join(os.Mkdir(tmp, 0o755), os.Chmod(tmp, 0o777|os.ModeSticky), os.Mkdir(stone, 0o755), os.Chown(stone, alice, alice)); err != nil {
			t.Fatal(err)
		}
		if !empty {
			if err := os.WriteFile(tmp+"/file", nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var h Holder
		held := hold(t, &h, resolve(t, dir, "tmp"))
		held.Release()
		cleanPath(tmp) // as the next server does after this one was killed
		info, err := os.Lstat(tmp)
		if err != nil {
			t.Fatal(err)
		}
		if want := os.ModeDir | os.ModeSticky | 0o777; info.Mode() != want {
			t.Errorf("with a stone (empty: %v), the directory has mode %v, want %v", empty, info.Mode(), want)
		}
	}
}

func TestServersOfTwoUsers(t *testing.T) {
	for _, mode := range []os.FileMode{0o777, 0o777 | os.ModeSticky} {
		dir := shared(t, 0, mode)
		first, second := serve(t, alice, dir), serve(t, bob, dir)
		if first.answer != "2 <nil>" || second.answer != "2 <nil>" {
			t.Fatalf("answers %q and %q", first.answer, second.answer)
		}
		wantKept(t, dir+"/.codex")
		first.end()
		wantKept(t, dir+"/.codex")
		second.end()
		wantKept(t, dir+"/.codex") // bob may not remove what alice has made
		serve(t, alice, dir).end() // her server does
		wantGone(t, dir+"/.codex")
	}
}

func TestDirectoryThatTheServerMayNotWrite(t *testing.T) {
	dir := shared(t, alice, 0o555)
	if s := serve(t, bob, dir); s.answer != "1 <nil>" { // bob's program cannot make the name either
		t.Errorf("somebody else's directory: %q", s.answer)
	}
	s := serve(t, alice, dir) // alice's program can: chmod, mkdir
	if !strings.Contains(s.answer, "chmod u+w") || !strings.Contains(s.answer, dir+"/.codex") {
		t.Errorf("own directory without write permission: %q", s.answer)
	}
	wantGone(t, dir+"/.codex")
}

func TestHoldLeavesDescriptorsToOthers(t *testing.T) {
	h, dir := &Holder{most: 3}, t.TempDir()
	first := hold(t, h, resolve(t, dir, ".git", ".codex"))
	again := hold(t, h, resolve(t, dir, ".git", ".codex")) // shares
	if _, err := h.Hold(resolve(t, dir, ".git", ".aws", ".agents"), uint32(os.Geteuid())); !errors.Is(err, ErrMany) {
		t.Errorf("a fourth placeholder: error %v", err)
	}
	wantGone(t, dir+"/.aws")
	wantGone(t, dir+"/.agents")
	wantKept(t, dir+"/.git")
	first.Release()
	again.Release()
	hold(t, h, resolve(t, dir, ".aws", ".agents")).Release()
	wantGone(t, dir+"/.agents")
}
