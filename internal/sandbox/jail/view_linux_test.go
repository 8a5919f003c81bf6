package jail

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/paths"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

func TestEnterReadOnly(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		lay(t, uid, directory, "f=f")
		check(t, uid, confined(sandbox.Read, directory),
			try("write", "f").gives("EROFS"),
			try("write", "new").gives("EROFS"),
			try("change", "/tmp").gives("EROFS"),
			try("read", "f").gives("f"),
			try("write", "/dev/shm/x").gives("ok"),
			try("write", "/dev/null").gives("ok"),
			try("sh", "echo x >/dev/null && echo yes").gives("yes\n"),
		)
		plan := confined(sandbox.Read, "")
		check(t, uid, plan, try("cwd").gives("/"), try("umask").gives(umask()))
	})
}

func umask() string {
	old := unix.Umask(0)
	unix.Umask(old)
	return fmt.Sprintf("%o", old)
}

func TestEnterDenied(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		p, w, o := workspace(t, uid, directory)
		p.Policy.Paths = append(p.Policy.Paths, at(t, sandbox.Deny, w+"/a"), at(t, sandbox.Deny, w+"/f"), at(t, sandbox.Deny, o))
		check(t, uid, p,
			try("ls", "a").gives("EACCES"),
			try("read", "a/s").gives("EACCES"),
			try("read", "f").gives("EACCES"),
			try("write", "f").gives("EACCES", "EROFS"),
			try("write", "a/new").gives("EACCES", "EROFS"),
			try("chmod", "a").gives("EROFS"),
			try("chmod", "f").gives("EROFS"),
			try("link", "f", "hl").gives("EXDEV"),
			try("rename", "a", "z").gives("EBUSY"),
			try("rename", "f", "z").gives("EBUSY"),
			try("exchange", "f", "out").gives("EBUSY"),
			try("rm", "f").gives("EBUSY"),
			try("rmdir", "a").gives("EBUSY"),
			try("umount", "a").gives("EPERM"),
			try("mode", "a").gives("40000"),
			try("mode", "f").gives("100000"),
			try("sh", "rm -rf a f; cat a/s f").gives("~ermission denied"),
			try("read", "out/sec").gives("EACCES"),
			try("read", "/proc/self/root"+o+"/sec").gives("EACCES"),
			try("sh", "cat /proc/1/root"+o+"/sec").gives("~denied"),
			try("sh", "cat /proc/1/cwd/f").gives("~denied"),
		)
		for _, name := range []string{"a/s", "f"} {
			if content, err := os.ReadFile(filepath.Join(w, name)); len(content) != 1 {
				t.Error(name, string(content), err)
			}
		}
	})
}

func TestEnterAllowedBelowDenied(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		lay(t, uid, directory, "W", "W/a", "W/a/s=s", "W/a/b", "W/a/x", "W/a/x/f=f", "W/a/x/g=g", "W/a/d", "W/a/d/e", "W/a/d/e/k=k", "W/a/d/h=h")
		w := filepath.Join(directory, "W")
		check(t, uid, confined(sandbox.Read, w, at(t, sandbox.Write, w), at(t, sandbox.Read, w+"/a"), at(t, sandbox.Write, w+"/a/b")),
			try("write", "a/x/new").gives("EROFS"),
			try("write", "a/b/x").gives("ok"),
			try("rename", "a/b", "a/c").gives("EBUSY", "EROFS"),
			try("rename", "a", "z").gives("EBUSY"))
		check(t, uid, confined(sandbox.Read, w, at(t, sandbox.Write, w), at(t, sandbox.Deny, w+"/a"), at(t, sandbox.Write, w+"/a/b"),
			at(t, sandbox.Deny, w+"/a/d"), at(t, sandbox.Read, w+"/a/d/e"), at(t, sandbox.Write, w+"/a/x/f")),
			try("ls", "a").gives("EACCES"),
			try("read", "a/s").gives("ENOENT"),
			try("write", "a/new").gives("EROFS", "EACCES"),
			try("mode", "a").gives("40111"),
			try("write", "a/b/y").gives("ok"),
			try("ls", "a/b").gives("x y", "y x"),
			try("ls", "a/x").gives("EACCES"),
			try("read", "a/x/f").gives("f"),
			try("write", "a/x/f").gives("ok"),
			try("read", "a/x/g").gives("ENOENT"),
			try("ls", "a/d").gives("EACCES"),
			try("read", "a/d/h").gives("ENOENT"),
			try("read", "a/d/e/k").gives("k"),
			try("write", "a/d/e/k").gives("EROFS"),
			try("chmod", "a").gives("EROFS"),
			try("rename", "a", "z").gives("EBUSY"),
			try("rename", "a/b", "b").gives("EROFS", "EBUSY", "EXDEV"))
	})
}

// system is what a program needs to run, with the links that lead there.
func system(t testing.TB, p *Plan) {
	for _, name := range []string{"/bin", "/etc", "/lib", "/lib64", "/sbin", "/usr"} {
		if target, err := os.Readlink(name); err == nil {
			p.Policy.Links = append(p.Policy.Links, sandbox.Link{Path: name, Target: target})
		} else if _, err := os.Stat(name); err == nil {
			p.Policy.Paths = append(p.Policy.Paths, at(t, sandbox.Read, name))
		}
	}
}

func TestEnterMinimal(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		p, w, o := workspace(t, uid, directory)
		p.Policy.Root = sandbox.Deny
		system(t, &p)
		check(t, uid, p,
			try("cwd").gives(w),
			try("sh", "echo $PPID").gives("1\n"),
			try("ls", o).gives("ENOENT"),
			try("ls", "/home").gives("ENOENT"),
			try("ls", "/sys").gives("ENOENT"),
			try("ls", directory).gives("W"),
			try("ls", "/.."+o).gives("ENOENT"),
			try("read", "/proc/self/root/.."+o+"/sec").gives("ENOENT"),
			try("read", "/proc/self/cwd/../O/sec").gives("ENOENT"),
			try("read", "out/sec").gives("ENOENT"),
			try("write", "new").gives("ok"),
			try("change", "/etc").gives("EROFS", "EACCES"),
			try("change", "/").gives("EROFS"),
			try("mkdir", directory+"/new").gives("EROFS"),
			try("chmod", directory).gives("EROFS"),
			try("write", ".git/config").gives("EROFS"),
			try("mkdir", ".codex").gives("EEXIST"),
			try("write", "/dev/shm/x").gives("ok"),
			try("rename", w, "/dev/shm/w").gives("EBUSY", "EXDEV", "EROFS"),
			try("read", "/proc/sys/kernel/ostype").gives("Linux\n"),
			try("pids").gives("1").ofOld("~1"),
		)
		p.Dir = "/"
		check(t, uid, p, try("sh", "cd "+w+" && cat a/s").gives("s"))
	})
}

// The way to a directory may cross a link that the view does not have.
func TestEnterDirectoryThroughALink(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		lay(t, uid, directory, "W", "W/f=f", "link>W")
		w := filepath.Join(directory, "W")
		check(t, uid, confined(sandbox.Deny, directory+"/link", at(t, sandbox.Write, w)), try("cwd").gives(w), try("read", "f").gives("f"))
		p := confined(sandbox.Deny, directory+"/link", at(t, sandbox.Write, w))
		p.Policy.Links = []sandbox.Link{{Path: directory + "/link", Target: "W"}}
		check(t, uid, p, try("cwd").gives(w), try("read", directory+"/link/f").gives("f"))
	})
}

// A directory that leads through a magic link of /proc, such as a descriptor of the jail, would be outside of the view.
func TestEnterDirectoryIsNoDescriptor(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		lay(t, uid, directory, "p", "link>p/self/fd/3")
		var ways []string
		most := 8 // which descriptors a jail has does not depend on its user
		if uid != os.Geteuid() {
			most = 4
		}
		for fd := 3; fd < most; fd++ {
			ways = append(ways, fmt.Sprint("/proc/self/fd/", fd), fmt.Sprint("/dev/fd/", fd), fmt.Sprint("/proc/1/fd/", fd), fmt.Sprint("/proc/thread-self/fd/", fd),
				fmt.Sprint(directory, "/p/self/fd/", fd))
		}
		ways = append(ways, "/proc/self/root", "/proc/1/root", "/proc/1/cwd", "/proc/self/cwd", directory+"/p/self/root", directory+"/link")
		in := inspection{Steps: [][]string{{"cwd"}}, Outside: [][]string{{"bind", "/proc", directory + "/p"}}}
		for _, way := range ways {
			in.Plan = confined(sandbox.Read, way)
			if out := inspect(t, uid, in, nil); out.Failure == nil {
				t.Errorf("%s: the working directory is %q, want a refusal", way, out.Results)
			}
		}
		for _, own := range []string{"/proc", "/dev", "/dev/shm", "/proc/sys/kernel", "/proc/1"} {
			check(t, uid, confined(sandbox.Read, own), try("cwd").gives(own), try("sh", "ls -l /proc/self/fd | grep -c '/$'").gives("~0"))
		}
	})
}

func TestEnterDev(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		check(t, uid, confined(sandbox.Read, directory),
			try("sh", "cd /dev; echo *").gives("fd full null ptmx pts random shm stderr stdin stdout tty urandom zero\n"),
			try("ls", "/dev/pts").gives("ptmx"),
			try("ls", "/dev/shm").gives(""),
			try("ptmx").gives("ok"),
			try("sh", "head -c 3 /dev/zero | wc -c; head -c 3 /dev/urandom | wc -c; head -c 3 /dev/random | wc -c").gives("3\n3\n3\n"),
			try("sh", "echo x >/dev/full").gives("~I/O error", "~No space left"),
			try("sh", "exec 3</dev/null; readlink /proc/self/fd/3").gives("/dev/null\n"),
			try("sh", "echo in | cat /dev/stdin; echo out >/dev/stdout").gives("in\nout\n"),
			try("chmod", "/dev/null").gives("EROFS", "EPERM"),
			try("chmod", "/dev/tty").gives("EROFS", "EPERM"),
			try("change", "/dev").gives("EROFS"),
			try("mode", "/dev/shm").gives("41777"),
			try("mode", "/dev/ptmx").gives("120777"),
			try("mode", "/dev/pts/ptmx").gives("20666"),
			try("read", "/dev/mem").gives("ENOENT"),
			try("read", "/dev/kmsg").gives("ENOENT"),
			try("inode", "/dev/shm").gives("!"+inode(t, "/dev/shm")),
		)
	})
}

func inode(t *testing.T, name string) string {
	var stat unix.Stat_t
	needs.Feature(t, unix.Stat(name, &stat))
	return fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}

func TestEnterProc(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		refusal := []string{"EROFS", "ENOENT", "EACCES"}
		steps := []step{
			try("ls", fmt.Sprintf("/proc/%d", os.Getpid())).gives("ENOENT").ofOld("~cmdline"),
			try("kill", fmt.Sprint(os.Getpid())).gives("ESRCH"),
			try("kill", "1").gives("ok"),
			try("pids").gives("1").ofOld("~1"),
			try("sh", "cat /proc/1/mem").gives("~ermission denied"),
			try("sh", "cat /proc/1/task/1/mem").gives("~ermission denied"),
			try("sh", "cat /proc/1/fd/0").gives("~ermission denied"),
			try("sh", "ls /proc/1/root/").gives("~ermission denied"),
			try("sh", "ls /proc/1/cwd/").gives("~ermission denied"),
			try("sh", "cat /proc/1/environ").gives("~ermission denied"),
			try("sh", "cat /proc/1/map_files/* 2>&1 | head -1").gives("~ermission denied", "~No such file"),
			try("sh", "echo me >/proc/self/comm; cat /proc/$$/comm").gives("~me").ofOld("~Read-only file system"),
			try("sh", "cat /proc/self/mountinfo >/dev/null && echo yes").gives("yes\n"),
		}
		// What only root may read says nothing, and nothing outside processes can be written.
		for _, name := range []string{"keys", "key-users", "timer_list"} {
			if _, err := os.Stat("/proc/" + name); err == nil {
				steps = append(steps, try("read", "/proc/"+name).gives("", "EACCES"))
			}
		}
		for _, name := range []string{"sysrq-trigger", "mtrr", "sys/kernel/core_pattern", "sys/kernel/hostname", "sys/kernel/modprobe",
			"sys/vm/drop_caches", "sys/net/ipv4/ip_forward", "irq/default_smp_affinity", "sys/user/max_user_namespaces", "pressure/cpu"} {
			steps = append(steps, try("open", "/proc/"+name).gives(refusal...))
		}
		filepath.WalkDir("/proc", func(name string, entry os.DirEntry, err error) error {
			if err != nil || name == "/proc" {
				return nil
			}
			if top := strings.Split(name, "/")[2]; entry.Type()&os.ModeSymlink != 0 || top[0] >= '0' && top[0] <= '9' {
				return filepath.SkipDir
			}
			info, err := entry.Info()
			if err != nil || !info.Mode().IsRegular() {
				return nil
			}
			empty := strings.Count(name, "/") == 2 && info.Mode()&0o444 == 0o400
			if info.Mode()&0o222 != 0 && !empty && len(steps) < 300 {
				steps = append(steps, try("open", name).gives(refusal...))
			}
			if empty {
				steps = append(steps, try("read", name).gives("", "EACCES"))
			}
			return nil
		})
		for _, name := range []string{"/sys/kernel/mm/transparent_hugepage/enabled", "/sys/power/state", "/sys/fs/cgroup/cgroup.procs"} {
			steps = append(steps, try("open", name).gives(refusal...))
		}
		t.Log(len(steps), "steps")
		check(t, uid, confined(sandbox.Read, directory), steps...)
		p := confined(sandbox.Write, directory)
		check(t, uid, p, append(steps, try("write", "new").gives("ok"))...)
	})
}

// A directory that the policy names beside its directory above stays in its place.
func TestEnterKeepsParents(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		lay(t, uid, directory, "T", "T/x", "T/x/y", "T/x/y/W", "T/x/y/W/.git", "T/x/y/W/.git/config=c", "T/x/y/W/.codex", "T/x/z", "T/x/z/secret=s",
			"T/k", "T/k/absent", "T/x/z/dir", "T/x/z/dir/t=t", "T/free", "T/free/f=f")
		top := directory + "/T"
		w := top + "/x/y/W"
		steps := []step{
			try("rename", top+"/x", top+"/other").gives("EBUSY"),
			try("rename", top+"/x/y", top+"/other").gives("EBUSY", "EXDEV"),
			try("rename", top+"/x/y", top+"/x/other").gives("EBUSY"),
			try("rename", top+"/x/z", top+"/x/other").gives("EBUSY"),
			try("rename", top+"/k", top+"/other").gives("EBUSY"),
			try("exchange", top+"/k", top+"/x").gives("EBUSY"),
			try("sh", "rm -rf "+top+"/x/z "+top+"/k 2>/dev/null; ls -d "+top+"/x/z/secret "+top+"/k/absent | wc -l").gives("2\n"),
			try("read", top+"/x/z/secret").gives("EACCES"),
			try("ls", top+"/x/z/dir").gives("EACCES"),
			try("write", w+"/.git/config").gives("EROFS"),
			try("mkdir", w+"/.codex").gives("EEXIST"),
			try("mkdir", top+"/k/absent").gives("EEXIST"),
			try("write", top+"/x/y/new").gives("ok"),
			try("write", top+"/k/new").gives("ok"),
			try("write", w+"/new").gives("ok"),
			try("rename", w+"/new", w+"/newer").gives("ok"),
			try("rename", top+"/free", top+"/freed").gives("ok"),
			try("rename", top+"/freed", top+"/free").gives("ok"),
		}
		named := []sandbox.Path{at(t, sandbox.Write, w), at(t, sandbox.Read, w+"/.git"), missing(w + "/.codex"), at(t, sandbox.Deny, top+"/x/z/secret"),
			at(t, sandbox.Deny, top+"/x/z/dir"), missing(top + "/k/absent")}
		// As package resolve does it: every writable directory above a path is a path.
		keep := func(p Plan) Plan {
			for _, path := range slices.Clone(p.Policy.Paths) {
				for dir := filepath.Dir(path.Path); dir != "/" && (p.Policy.Root == sandbox.Write || paths.Within(dir, top)); dir = filepath.Dir(dir) {
					if !slices.ContainsFunc(p.Policy.Paths, func(p sandbox.Path) bool { return p.Path == dir }) {
						p.Policy.Paths = append(p.Policy.Paths, at(t, sandbox.Write, dir))
					}
				}
			}
			slices.SortFunc(p.Policy.Paths, func(a, b sandbox.Path) int { return strings.Compare(a.Path, b.Path) })
			return p
		}
		check(t, uid, keep(confined(sandbox.Read, top, slices.Clone(named)...)), steps...)
		os.Remove(w + "/newer")
		check(t, uid, keep(confined(sandbox.Write, top, slices.Clone(named)...)), steps...)
	})
}

// A missing name is refused if the server has made no placeholder and the program could create the name.
func TestEnterWithoutPlaceholder(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		lay(t, uid, directory, "W", "W/closed", "R")
		w, r := directory+"/W", directory+"/R"
		check(t, uid, confined(sandbox.Read, w, at(t, sandbox.Write, w), at(t, sandbox.Read, w+"/closed"), missing(w+"/closed/.git"), missing(r+"/.git"),
			missing(r+"/gone/.git")), try("mkdir", "closed/.git").gives("EROFS"), try("mkdir", r+"/.git").gives("EROFS"))
		refused(t, uid, inspection{Plan: confined(sandbox.Read, w, at(t, sandbox.Write, w), missing(w+"/.git"))}, w+"/.git", "no placeholder")
		// The owner of a directory can permit himself to write.
		if err := os.Chmod(w+"/closed", 0o555); err != nil {
			t.Fatal(err)
		}
		refused(t, uid, inspection{Plan: confined(sandbox.Read, w, at(t, sandbox.Write, w), missing(w+"/closed/.git"))}, w+"/closed/.git", "no placeholder")
	})
}

// No mount is writable but what the policy says, also none that another mount covers.
func TestEnterWritableMounts(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		p, w, o := workspace(t, uid, directory)
		p.Policy.Paths = append(p.Policy.Paths, at(t, sandbox.Deny, w+"/a"), at(t, sandbox.Deny, o))
		want := "/dev/pts /dev/shm /proc"
		if needs.ProbeNewProc(uid) != nil {
			want = "/dev/pts /dev/shm"
		}
		check(t, uid, p, try("mounts").gives(want+" "+w))
		p.Policy.Root = sandbox.Deny
		check(t, uid, p, try("mounts").gives(want+" "+w))
		check(t, uid, confined(sandbox.Read, w), try("mounts").gives(want))
		check(t, uid, confined(sandbox.Deny, "/"), try("mounts").gives(want))
	})
}
