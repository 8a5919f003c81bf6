package jail

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
)

// Everything mounted below a directory has the access of the directory.
func TestEnterMountsBelow(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		lay(t, uid, directory, "W", "W/m", "W/.git", "W/.git/m", "W/a", "O", "O/m", "D", "D/f=f")
		w, o, d := directory+"/W", directory+"/O", directory+"/D"
		before := [][]string{{"shared", "/"}, {"bind", d, w + "/m"}, {"bind", d, w + "/.git/m"}, {"mount", "tmpfs", o + "/m", "tmpfs"}}
		p := confined(sandbox.Read, w, at(t, sandbox.Write, w), at(t, sandbox.Read, w+"/.git"), at(t, sandbox.Deny, w+"/a"))
		checkAfter(t, uid, before, p,
			try("write", "m/new").gives("ok"),
			try("write", ".git/m/new").gives("EROFS"),
			try("read", ".git/m/f").gives("f"),
			try("write", o+"/m/new").gives("EROFS"),
			try("write", d+"/new").gives("EROFS"),
			try("rename", w, o+"/m/W").gives("EROFS", "EXDEV", "EBUSY"),
			try("sh", "grep -c shared /proc/self/mountinfo").gives("~0\n"),
			try("sh", "grep -vc nosuid /proc/self/mountinfo").gives("~0\n"),
			try("sh", `grep -c ' / / ' /proc/self/mountinfo`).gives("1\n"), // nothing of the old tree
		)
		// Denied: what is mounted below is hidden, too.
		p = confined(sandbox.Read, w, at(t, sandbox.Write, w), at(t, sandbox.Deny, w+"/.git"))
		checkAfter(t, uid, before, p, try("read", ".git/m/f").gives("EACCES"), try("read", "m/f").gives("f"))
	})
}

// A path of the policy may be a mount, or lie in one.
func TestEnterPathsOnMounts(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		lay(t, uid, directory, "W", "B", "B/.git", "B/.git/config=c", "B/sub", "B/sub/s=s")
		w := directory + "/W"
		inB := func(access sandbox.Access, name string) sandbox.Path {
			p := at(t, access, directory+"/B"+name)
			p.Path = w + name
			return p
		}
		checkAfter(t, uid, [][]string{{"bind", directory + "/B", w}},
			confined(sandbox.Read, w, inB(sandbox.Write, ""), inB(sandbox.Read, "/.git"), inB(sandbox.Deny, "/sub")),
			try("write", "new").gives("ok"),
			try("write", ".git/config").gives("EROFS"),
			try("rename", ".git", "g").gives("EBUSY"),
			try("read", "sub/s").gives("EACCES"),
			try("write", directory+"/B/new").gives("EROFS"),
			// The other way to the same directory: its name is not in the policy.
			try("read", directory+"/B/sub/s").gives("s"),
		)
		content, err := os.ReadFile(directory + "/B/new")
		if string(content) != "x" {
			t.Error(string(content), err)
		}
	})
}

func TestEnterOnOverlay(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		lay(t, uid, directory, "lower", "upper", "work", "W", "lower/.git", "lower/.git/config=c", "lower/sub", "lower/sub/s=s", "lower/f=f")
		w := directory + "/W"
		options := fmt.Sprintf("userxattr,lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", directory)
		p := confined(sandbox.Read, w, sandbox.Path{Path: w, Access: sandbox.Write, Kind: sandbox.Directory},
			sandbox.Path{Path: w + "/.git", Access: sandbox.Read, Kind: sandbox.Directory}, sandbox.Path{Path: w + "/f", Access: sandbox.Deny, Kind: sandbox.File})
		in := inspection{Plan: p, Before: [][]string{{"overlay", w, options}, {"look"}}}
		in.Steps = [][]string{{"write", "new"}, {"write", ".git/config"}, {"read", ".git/config"}, {"read", "f"}, {"rename", ".git", "g"}}
		out := inspect(t, uid, in, nil)
		if out.Failure != nil {
			t.Fatal(out.Failure)
		}
		if got := fmt.Sprint(out.Before, out.Results); got != "[ok] [ok EROFS c EACCES EBUSY]" {
			t.Error(got)
		}
	})
}

func TestEnterTmp(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		name := fmt.Sprintf("/tmp/sbx-test-%d-%d", os.Getpid(), uid)
		t.Cleanup(func() { os.RemoveAll(name) })
		p := confined(sandbox.Read, "/tmp", at(t, sandbox.Write, "/tmp"))
		if rel, err := filepath.Rel("/tmp", directory); err == nil && !strings.HasPrefix(rel, "..") {
			p.Policy.Paths = append(p.Policy.Paths, at(t, sandbox.Read, directory))
		}
		check(t, uid, p,
			try("write", name).gives("ok"),
			try("write", directory+"/new").gives("EROFS"),
			try("change", "/var/tmp").gives("EROFS"))
		if content, err := os.ReadFile(name); string(content) != "x" {
			t.Error(string(content), err)
		}
	})
}

func TestEnterShm(t *testing.T) {
	users(t, func(t *testing.T, uid int, _ string) {
		_, err := os.Stat("/dev/shm")
		needs.Feature(t, err)
		directory := testroot.Dir(t, "/dev/shm")
		own(t, uid, directory)
		lay(t, uid, directory, "W", "W/.git", "W/.git/config=c", "W/.codex", "W/f=f", "O=o")
		w := directory + "/W"
		p := confined(sandbox.Read, w, at(t, sandbox.Write, w), at(t, sandbox.Read, w+"/.git"), missing(w+"/.codex"), at(t, sandbox.Deny, w+"/f"))
		steps := []step{
			try("cwd").gives(w),
			try("write", "new").gives("ok"),
			try("write", ".git/config").gives("EROFS"),
			try("mkdir", ".codex").gives("EEXIST"),
			try("read", "f").gives("EACCES"),
			try("read", directory+"/O").gives("ENOENT"),
			try("write", "/dev/shm/own").gives("ok"),
			try("rename", w, "/dev/shm/w").gives("EBUSY"),
		}
		check(t, uid, p, steps...)
		if content, err := os.ReadFile(w + "/new"); string(content) != "x" {
			t.Error(string(content), err)
		}
		if _, err := os.Stat("/dev/shm/own"); err == nil {
			t.Error("/dev/shm/own is on the host")
		}
		os.Remove(w + "/new")
		p.Policy.Root = sandbox.Deny
		p.Policy.Paths = append(p.Policy.Paths, at(t, sandbox.Deny, directory+"/O"), missing("/dev/shm/.git"))
		check(t, uid, p, steps...)

		// All of /dev/shm, and what of it the policy denies.
		p = confined(sandbox.Read, w, at(t, sandbox.Write, "/dev/shm"), at(t, sandbox.Deny, directory+"/O"), at(t, sandbox.Read, w))
		check(t, uid, p, try("write", "new").gives("EROFS"), try("read", directory+"/O").gives("EACCES"), try("read", w+"/f").gives("f"))

		// What is allowed below a denied directory, also in a view that begins empty.
		for _, root := range []sandbox.Access{sandbox.Read, sandbox.Deny} {
			p = confined(root, w+"/.git", at(t, sandbox.Deny, directory), at(t, sandbox.Write, w), at(t, sandbox.Read, w+"/.git"), at(t, sandbox.Deny, w+"/f"))
			check(t, uid, p,
				try("cwd").gives(w+"/.git"),
				try("write", w+"/new").gives("ok"),
				try("write", "config").gives("EROFS"),
				try("read", w+"/f").gives("EACCES"),
				try("ls", directory).gives("EACCES"),
				try("read", directory+"/O").gives("ENOENT"),
				try("write", directory+"/own").gives("EACCES", "EROFS"),
				try("rename", directory, "/dev/shm/own").gives("EBUSY"),
				try("write", "/dev/shm/own").gives("ok"),
			)
			os.Remove(w + "/new")
		}
	})
}

// The view's own devices and processes stay, whatever the policy makes readable or writable, and can be denied.
func TestEnterPoliciesOfDevices(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		p := confined(sandbox.Read, directory, at(t, sandbox.Write, "/dev"), at(t, sandbox.Write, "/dev/null"), at(t, sandbox.Write, "/dev/pts"),
			at(t, sandbox.Write, "/proc"), at(t, sandbox.Write, "/proc/sys"), at(t, sandbox.Write, "/sys"), at(t, sandbox.Write, "/dev/full"))
		check(t, uid, p,
			try("sh", "echo x >/dev/null && echo yes").gives("yes\n"),
			try("change", "/dev").gives("EROFS"),
			try("chmod", "/dev/null").gives("EROFS", "EPERM"),
			try("read", "/dev/kmsg").gives("ENOENT"),
			try("ls", "/dev/pts").gives("ptmx"),
			try("pids").gives("1").ofOld("~1"),
			try("open", "/proc/sys/kernel/core_pattern").gives("EROFS", "EACCES"),
			try("open", "/sys/power/state").gives("EROFS", "EACCES", "ENOENT"),
		)
		p = confined(sandbox.Write, directory, at(t, sandbox.Deny, "/proc/sys"), at(t, sandbox.Deny, "/proc/cpuinfo"), at(t, sandbox.Deny, "/dev/tty"),
			at(t, sandbox.Deny, "/dev/shm"), at(t, sandbox.Deny, "/sys"))
		check(t, uid, p,
			try("write", "new").gives("ok"),
			try("ls", "/proc/sys").gives("EACCES"),
			try("read", "/proc/cpuinfo").gives("EACCES"),
			try("read", "/dev/tty").gives("EACCES"),
			try("ls", "/dev/shm").gives("EACCES"),
			try("ls", "/sys").gives("EACCES"),
		)
		// A device that the policy makes writable is there, but no device can be opened through it.
		if _, err := os.Stat("/dev/kmsg"); err == nil {
			check(t, uid, confined(sandbox.Read, directory, at(t, sandbox.Write, "/dev/kmsg")), try("open", "/dev/kmsg").gives("EACCES"))
		}
	})
}

func TestEnterSingleFiles(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		lay(t, uid, directory, "W", "W/gd", "W/gd/config=c", "W/.git=gitdir: gd", "f=f", "g=g")
		if err := unix.Mkfifo(directory+"/fifo", 0o666); err != nil {
			t.Fatal(err)
		}
		w := directory + "/W"
		check(t, uid, confined(sandbox.Read, w, at(t, sandbox.Write, w), at(t, sandbox.Read, w+"/.git"), at(t, sandbox.Read, w+"/gd"),
			at(t, sandbox.Write, directory+"/f"), at(t, sandbox.Deny, directory+"/fifo")),
			try("write", "gd/config").gives("EROFS"),
			try("rename", "gd", "g2").gives("EBUSY"),
			try("write", ".git").gives("EROFS"),
			try("rm", ".git").gives("EBUSY"),
			try("write", directory+"/f").gives("ok"),
			try("read", directory+"/f").gives("fx"),
			try("write", directory+"/g").gives("EROFS"),
			try("rm", directory+"/f").gives("EBUSY", "EROFS"),
			try("write", directory+"/fifo").gives("EACCES", "EROFS"),
			try("mode", directory+"/fifo").gives("100000"),
		)
		check(t, uid, confined(sandbox.Deny, "/", at(t, sandbox.Write, directory+"/f"), at(t, sandbox.Read, directory+"/g")),
			try("write", directory+"/f").gives("ok"),
			try("read", directory+"/f").gives("fxx"),
			try("write", directory+"/g").gives("EROFS"),
			try("ls", directory).gives("f g", "g f"),
		)
	})
}

// A container covers parts of /proc. The kernel then refuses a new one, since it would show what is covered. The view has the old
// one, with what covers it: nothing there can be written, and what the kernel lets only the tracers of a process see stays closed. A
// jail that must be complete is refused.
func TestEnterOldProc(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		outside := [][]string{coverProc}
		p := confined(sandbox.Read, directory)
		p.Complete = true
		refused(t, uid, inspection{Plan: p, Outside: outside}, "new /proc", "unmasked /proc", "--require-sandbox=complete")
		// A tmpfs in place of /proc is not the old /proc.
		refused(t, uid, inspection{Plan: confined(sandbox.Read, directory), Outside: outside, Before: [][]string{{"mount", "tmpfs", "/proc", "tmpfs"}}}, "new /proc", "unmasked /proc")

		other := sleeper(t, uid)
		of := func(name string) string { return fmt.Sprintf("/proc/%d/%s", other, name) }
		steps := []step{
			try("sh", "cat "+of("cmdline")).gives("~sleep"), // docs/SANDBOX.md says so
			try("kill", fmt.Sprint(other)).gives("ESRCH"),
			try("read", "/proc/self/mountinfo").gives("~/proc"),
			try("sh", "cat /proc/self/comm; cat </dev/stdin").gives("cat\n"),
			try("mounts").gives("/dev/pts /dev/shm"),
			try("ls", "/proc/irq").gives(""),
			try("write", "/proc/irq/new").gives("EROFS"),
			try("sh", "echo x >/proc/self/comm || echo 1 >/proc/self/oom_score_adj").gives("~Read-only file system"),
			try("open", "/proc/sys/kernel/core_pattern").gives("EROFS", "EACCES"),
			try("open", "/proc/sysrq-trigger").gives("EROFS", "EACCES", "ENOENT"),
			try("remount", "/proc").gives("EPERM"),
			try("umount", "/proc/irq").gives("EPERM"),
		}
		for _, pid := range []int{other, os.Getpid(), 1} {
			at := func(name string) string { return fmt.Sprintf("/proc/%d/%s", pid, name) }
			for _, name := range []string{"environ", "auxv", "maps", "smaps", "mem", "pagemap", "io", "stack", "syscall", "exe", "fd/0", "ns/mnt", "ns/user"} {
				steps = append(steps, try("read", at(name)).gives("EACCES", "EPERM"), try("read", at(fmt.Sprintf("task/%d/%s", pid, name))).gives("EACCES", "EPERM"))
			}
			for _, name := range []string{"cwd/", "root/", "fdinfo", "map_files"} {
				steps = append(steps, try("ls", at(name)).gives("EACCES", "EPERM"))
			}
			for _, name := range []string{"mem", "comm", "oom_score_adj", "clear_refs", "timerslack_ns", "uid_map", "fd/0", "attr/current"} {
				steps = append(steps, try("open", at(name)).gives("EROFS", "EACCES", "EPERM"))
			}
		}
		for _, name := range []string{"keys", "key-users", "timer_list", "kmsg", "kcore", "kpagecount"} {
			if _, err := os.Stat("/proc/" + name); err == nil {
				steps = append(steps, try("read", "/proc/"+name).gives("", "EACCES"))
			}
		}
		p.Complete = false
		checkAfter(t, uid, outside, p, steps...)
		// In a view that begins empty, too.
		p.Policy.Root, p.Dir = sandbox.Deny, "/"
		checkAfter(t, uid, outside, p, try("ls", directory).gives("ENOENT"), try("ls", "/proc/irq").gives(""), try("open", "/proc/sys/kernel/core_pattern").gives("EROFS", "EACCES"),
			try("read", of("environ")).gives("EACCES", "EPERM"))
	})
}

// sleeper starts a process of the user that everybody could trace who may trace processes of this user. It returns the pid.
func sleeper(t *testing.T, uid int) int {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.Dir, cmd.Env = "/", []string{"SECRET=secret"}
	if uid != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd.Process.Pid
}

func TestEnterWithoutMountPoint(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		refused(t, uid, inspection{Plan: confined(sandbox.Read, "/"), Before: [][]string{{"chroot", directory}}}, "private mounts", "chroot")
	})
}

// If something lies on the host's "/", "/.." would lead there after the old tree is gone.
func TestEnterWithCoveredRoot(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		refused(t, uid, inspection{Plan: confined(sandbox.Read, "/"), Before: [][]string{{"bind", directory, "/"}}}, "old root", "mounted over")
	})
}

func TestEnterTerminal(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
		needs.Feature(t, err)
		defer master.Close()
		n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
		if err == nil {
			err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer slave.Close()
		own(t, uid, slave.Name())
		p := confined(sandbox.Read, directory)
		p.TTY = true
		out := inspect(t, uid, inspection{Plan: p, Steps: [][]string{
			{"tty"}, {"ls", "/dev/pts"}, {"inode", "/dev/console"}, {"chmod", "/dev/console"}, {"open", "/dev/console"}}}, slave)
		if out.Failure != nil {
			t.Fatal(out.Failure)
		}
		want := []string{"/dev/console\n", "ptmx", inode(t, slave.Name()), "EROFS", "ok"}
		for i, result := range out.Results {
			if result != want[i] {
				t.Errorf("%d: %q, want %q", i, result, want[i])
			}
		}
	})
}

// A pattern of a policy may deny thousands of files.
func TestEnterManyDenied(t *testing.T) {
	directory := t.TempDir()
	lay(t, os.Getuid(), directory, "many")
	p := confined(sandbox.Read, directory, at(t, sandbox.Write, directory))
	for i := range 1000 {
		name := fmt.Sprintf("many/%d", i)
		lay(t, os.Getuid(), directory, name+"=x")
		p.Policy.Paths = append(p.Policy.Paths, at(t, sandbox.Deny, filepath.Join(directory, name)))
	}
	check(t, os.Getuid(), p, try("read", "many/0").gives("EACCES"), try("read", "many/999").gives("EACCES"), try("write", "many/new").gives("ok"))
}

// While another process exchanges a directory of the policy with a link that leads out, a jail is refused, or writes to the
// directory. It never writes to where the link leads.
func TestEnterWhilePathsAreExchanged(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		lay(t, uid, directory, "W", "W/sub", "W/sub/ro", "W/link>../O", "O", "O/ro", "D", "D/s=secret")
		w := directory + "/W"
		p := confined(sandbox.Read, w, at(t, sandbox.Write, w+"/sub"), at(t, sandbox.Read, w+"/sub/ro"))
		stop, stopped := make(chan struct{}), make(chan struct{})
		var exchanging sync.Mutex
		var exchanges atomic.Int64
		exchange := func() {
			if err := unix.Renameat2(unix.AT_FDCWD, w+"/sub", unix.AT_FDCWD, w+"/link", unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
			}
		}
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
				}
				exchanging.Lock()
				exchange()
				exchanging.Unlock()
				exchanges.Add(1)
				time.Sleep(10 * time.Microsecond) // leaves the processor to the jail
			}
		}()
		entered, failures := 0, map[string]int{}
		for i, begun := 0, time.Now(); i < 30 || exchanges.Load() < 300 && time.Since(begun) < time.Minute; i++ {
			quiet := i%10 == 0 // these jails enter, whatever the others do
			if quiet {
				exchanging.Lock()
				if _, err := os.Readlink(w + "/sub"); err == nil {
					exchange()
				}
			}
			out := inspect(t, uid, inspection{Plan: p, Steps: [][]string{{"write", "sub/evil"}, {"write", "sub/ro/evil"}}}, nil)
			if quiet {
				exchanging.Unlock()
			}
			switch {
			case out.Failure == nil:
				entered++
			case quiet:
				t.Errorf("without an exchange: %v", out.Failure)
			default:
				failures[out.Failure.Text]++
			}
			if quiet && fmt.Sprint(out.Results) != "[ok EROFS]" {
				t.Errorf("without an exchange: %q, want ok and EROFS", out.Results)
			}
		}
		close(stop)
		<-stopped
		t.Logf("%d entered beside %d exchanges; %v", entered, exchanges.Load(), failures)
		if entered == 0 || exchanges.Load() < 300 {
			t.Errorf("%d jails entered beside %d exchanges, want 1 and 300", entered, exchanges.Load())
		}
		for _, name := range []string{directory + "/O", directory + "/O/ro"} {
			entries, err := os.ReadDir(name)
			if err != nil || len(entries) > 1 || len(entries) == 1 && entries[0].Name() != "ro" {
				t.Errorf("%s has %v, %v", name, entries, err)
			}
		}
	})
}
