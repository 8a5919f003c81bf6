package jail

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
)

// The tests of enter run the test binary again, in the namespaces of a jail. It enters the view, gives up its capabilities, and
// tries what the steps say. A step is a verb with its operands; its result is "ok", an errno, or what was read.
type inspection struct {
	Plan    Plan
	Outside [][]string // in namespaces of a host of the test's own, before the jail begins
	Before  [][]string // in the jail's namespaces, before enter
	Steps   [][]string
}

type facts struct {
	Failure *Failure
	Before  []string
	Results []string
	OldProc bool
	Took    time.Duration // enter alone
}

const (
	probeName = "jail-test-probe" // argv[0] of the process that enters
	userName  = "jail-test-user"  // argv[0] of an ordinary user's process that starts a probe
	stranger  = 64123             // a uid that nobody has
)

func init() {
	switch os.Args[0] {
	case probeName:
		runtime.LockOSThread()
		probe()
		os.Exit(0)
	case userName:
		cmd := probeCommand(len(os.Args) > 1)
		cmd.ExtraFiles = []*os.File{os.NewFile(3, "question")}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

func probe() {
	var in inspection
	question := os.NewFile(3, "question")
	if err := json.NewDecoder(question).Decode(&in); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	question.Close()
	if len(in.Outside) > 0 {
		probeInside(in)
		return
	}
	var out facts
	for _, step := range in.Before {
		if step[0] == "look" { // as the server does: what the steps before have mounted gets other device numbers each time
			for i := range in.Plan.Policy.Paths {
				look(&in.Plan.Policy.Paths[i])
			}
			continue
		}
		out.Before = append(out.Before, do(step))
	}
	dropDAC()
	began := time.Now()
	err := enter(&in.Plan)
	out.Took = time.Since(began)
	out.OldProc = in.Plan.oldProc
	if err != nil {
		f := &Failure{}
		if !errors.As(err, &f) {
			f = &Failure{Stage: "not a Failure", Text: err.Error()}
		}
		out.Failure = f
	} else {
		giveUp()
		for _, step := range in.Steps {
			out.Results = append(out.Results, do(step))
		}
	}
	json.NewEncoder(os.Stdout).Encode(out)
}

// probeInside does the steps of Outside and starts another probe for the rest.
func probeInside(in inspection) {
	for _, step := range in.Outside {
		if result := do(step); result != "ok" {
			fmt.Fprintf(os.Stderr, "%q: %s", step, result)
			os.Exit(1)
		}
	}
	in.Outside = nil
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	cmd := probeCommand(false)
	cmd.ExtraFiles = []*os.File{r}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	r.Close()
	json.NewEncoder(w).Encode(in)
	w.Close()
	if err := cmd.Wait(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func look(p *sandbox.Path) {
	var stat unix.Stat_t
	if err := unix.Lstat(p.Path, &stat); err != nil {
		fmt.Fprintln(os.Stderr, p.Path, err)
		os.Exit(1)
	}
	p.Dev, p.Ino = stat.Dev, stat.Ino
}

// dropDAC takes CAP_DAC_OVERRIDE from this thread, which only the steps before enter have: see probeCommand.
func dropDAC() {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		panic(err)
	}
	sets[0].Effective &^= 1 << unix.CAP_DAC_OVERRIDE
	sets[0].Permitted &^= 1 << unix.CAP_DAC_OVERRIDE
	sets[0].Inheritable &^= 1 << unix.CAP_DAC_OVERRIDE
	if err := unix.Capset(&header, &sets[0]); err != nil {
		panic(err)
	}
}

// giveUp takes from this thread what a program of a jail never has.
func giveUp() {
	for c := uintptr(0); c <= 63; c++ {
		unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
	}
	unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	var none [2]unix.CapUserData
	unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0])
	unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

func do(step []string) string {
	var a [3]string
	copy(a[:], step[1:])
	var err error
	switch step[0] {
	case "sh":
		output, err := exec.Command("/bin/sh", "-c", a[0]).CombinedOutput()
		if err != nil {
			return string(output) + err.Error()
		}
		return string(output)
	case "write", "open": // open changes nothing
		flags := os.O_WRONLY
		if step[0] == "write" {
			flags |= os.O_CREATE | os.O_APPEND
		}
		fd, e := unix.Open(a[0], flags|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o666)
		if err = e; err == nil {
			if step[0] == "write" {
				_, err = unix.Write(fd, []byte("x"))
			}
			unix.Close(fd)
		}
	case "read":
		fd, e := unix.Open(a[0], unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err = e; err == nil {
			defer unix.Close(fd)
			b := make([]byte, 4096)
			n, e := unix.Read(fd, b)
			if err = e; err == nil {
				return string(b[:n])
			}
		}
	case "ls":
		names, e := list(unix.AT_FDCWD, a[0])
		if err = e; err == nil {
			return strings.Join(names, " ")
		}
	case "mounts": // the mount points that are writable
		info, e := os.ReadFile("/proc/self/mountinfo")
		if err = e; err == nil {
			var points []string
			for line := range strings.Lines(string(info)) {
				if fields := strings.Fields(line); strings.HasPrefix(fields[5], "rw") {
					points = append(points, fields[4])
				}
			}
			slices.Sort(points)
			return strings.Join(points, " ")
		}
	case "pids":
		names, e := list(unix.AT_FDCWD, "/proc")
		if err = e; err == nil {
			return strings.Join(slices.DeleteFunc(names, func(name string) bool { return name[0] > '9' }), " ")
		}
	case "mode":
		var stat unix.Stat_t
		if err = unix.Lstat(a[0], &stat); err == nil {
			return fmt.Sprintf("%o", stat.Mode)
		}
	case "inode":
		var stat unix.Stat_t
		if err = unix.Lstat(a[0], &stat); err == nil {
			return fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
		}
	case "mkdir":
		err = unix.Mkdir(a[0], 0o755)
	case "rm":
		err = unix.Unlink(a[0])
	case "rmdir":
		err = unix.Rmdir(a[0])
	case "chmod": // to the mode that it has, because it may be a file of the host
		var stat unix.Stat_t
		if err = unix.Stat(a[0], &stat); err == nil {
			err = unix.Chmod(a[0], stat.Mode&0o7777)
		}
	case "change": // a directory of the host. Only a read-only mount refuses this with EROFS
		err = unix.Unlink(a[0] + "/sandbox-test-nobody-has-this-name")
	case "chdir":
		err = unix.Chdir(a[0])
	case "link":
		err = unix.Link(a[0], a[1])
	case "symlink":
		err = unix.Symlink(a[0], a[1])
	case "rename":
		err = unix.Rename(a[0], a[1])
	case "exchange":
		err = unix.Renameat2(unix.AT_FDCWD, a[0], unix.AT_FDCWD, a[1], unix.RENAME_EXCHANGE)
	case "mknod":
		err = unix.Mknod(a[0], unix.S_IFBLK|0o666, int(unix.Mkdev(254, 0)))
	case "mount":
		err = unix.Mount(a[0], a[1], a[2], 0, "")
	case "overlay":
		err = unix.Mount("overlay", a[0], "overlay", 0, a[1])
	case "tty":
		cmd := exec.Command("tty")
		cmd.Stdin = os.Stdin
		output, _ := cmd.CombinedOutput()
		return string(output)
	case "bind":
		err = unix.Mount(a[0], a[1], "", unix.MS_BIND|unix.MS_REC, "")
	case "shared":
		err = unix.Mount("", a[0], "", unix.MS_SHARED|unix.MS_REC, "")
	case "remount":
		err = unix.Mount("", a[0], "", unix.MS_REMOUNT|unix.MS_BIND, "")
	case "umount":
		err = unix.Unmount(a[0], unix.MNT_DETACH)
	case "unshare":
		err = unix.Unshare(unix.CLONE_NEWNS)
	case "chroot":
		err = unix.Chroot(a[0])
	case "cwd":
		b := make([]byte, 4096)
		n, e := unix.Getcwd(b)
		if err = e; err == nil {
			return string(b[:n-1])
		}
	case "umask":
		old := unix.Umask(0)
		unix.Umask(old)
		return fmt.Sprintf("%o", old)
	case "kill":
		var pid int
		fmt.Sscan(a[0], &pid)
		err = unix.Kill(pid, 0)
	case "ptmx":
		m, e := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
		if e != nil {
			return e.Error()
		}
		defer m.Close()
		n, e := unix.IoctlGetInt(int(m.Fd()), unix.TIOCGPTN)
		if err = e; err == nil {
			if err = unix.IoctlSetPointerInt(int(m.Fd()), unix.TIOCSPTLCK, 0); err == nil {
				_, e := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
				if e != nil {
					return e.Error()
				}
			}
		}
	case "loopback":
		s, e := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err = e; err == nil {
			defer unix.Close(s)
			request, _ := unix.NewIfreq("lo")
			if err = unix.IoctlIfreq(s, unix.SIOCGIFFLAGS, request); err == nil {
				return fmt.Sprint(request.Uint16() & unix.IFF_UP)
			}
		}
	default:
		return "no verb " + step[0]
	}
	if err == nil {
		return "ok"
	}
	if errno, ok := err.(unix.Errno); ok {
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

// probeCommand starts a probe with the rights of the calling process. A host of the test's own keeps its PID namespace, because
// it must find its children in /proc.
func probeCommand(host bool) *exec.Cmd {
	uid, gid := os.Getuid(), os.Getgid()
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{probeName}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS |
			unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
		// CAP_SYS_CHROOT for the steps before enter, and CAP_DAC_OVERRIDE for the mode 0 of overlayfs's working directory
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_DAC_OVERRIDE},
	}
	if host {
		cmd.SysProcAttr.Cloneflags &^= unix.CLONE_NEWPID
	}
	return cmd
}

// inspect runs the inspection as the user and returns what the probe saw. The stdin may be nil.
func inspect(t testing.TB, uid int, in inspection, stdin *os.File) facts {
	t.Helper()
	needs.Namespaces(t, uid)
	question, err := os.CreateTemp("", "question")
	if err != nil {
		t.Fatal(err)
	}
	defer question.Close()
	os.Remove(question.Name())
	if err := json.NewEncoder(question).Encode(in); err != nil {
		t.Fatal(err)
	}
	if _, err := question.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	cmd := probeCommand(len(in.Outside) > 0)
	cmd.ExtraFiles = []*os.File{question}
	if uid != os.Getuid() {
		// The path of the test binary is often one that only its builder may follow.
		self, err := os.Open("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		defer self.Close()
		cmd = &exec.Cmd{Path: "/proc/self/fd/4", Args: []string{userName}, ExtraFiles: []*os.File{question, self}}
		if len(in.Outside) > 0 {
			cmd.Args = append(cmd.Args, "host")
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	if stdin != nil {
		cmd.Stdin = stdin
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Dir = &stdout, &stderr, "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin", "GOCOVERDIR=" + os.Getenv("GOCOVERDIR"), "GORACE=" + os.Getenv("GORACE")}
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s%s", err, stderr.Bytes(), stdout.Bytes())
	}
	var out facts
	if err := json.NewDecoder(&stdout).Decode(&out); err != nil && err != io.EOF {
		t.Fatalf("%v: %s%s", err, stderr.Bytes(), stdout.Bytes())
	}
	return out
}

// users runs the test as the user of the test and, if that is root, as an ordinary user too. The directory belongs to the user.
// In short mode the ordinary user is left out: each case starts this binary again, which takes long with -race.
func users(t *testing.T, test func(t *testing.T, uid int, directory string)) {
	uids := []int{os.Getuid()}
	if uids[0] == 0 && !testing.Short() {
		uids = append(uids, stranger)
	}
	for _, uid := range uids {
		t.Run(fmt.Sprint("uid", uid), func(t *testing.T) {
			directory := testroot.Dir(t, "")
			own(t, uid, directory)
			test(t, uid, directory)
		})
	}
}

func own(t testing.TB, uid int, name string) {
	t.Helper()
	if uid != os.Getuid() {
		if err := os.Lchown(name, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
}

// lay makes files below the directory: "name/" is a directory, "name>target" a link, and "name=content" a file.
func lay(t testing.TB, uid int, directory string, entries ...string) {
	t.Helper()
	for _, entry := range entries {
		var err error
		name := entry
		if link, target, ok := strings.Cut(entry, ">"); ok {
			name = filepath.Join(directory, link)
			err = os.Symlink(target, name)
		} else if file, content, ok := strings.Cut(entry, "="); ok {
			name = filepath.Join(directory, file)
			err = os.WriteFile(name, []byte(content), 0o644)
		} else {
			name = filepath.Join(directory, entry)
			err = os.Mkdir(name, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		own(t, uid, name)
	}
}

// at is the path as the server finds it.
func at(t testing.TB, access sandbox.Access, name string) sandbox.Path {
	t.Helper()
	var stat unix.Stat_t
	if err := unix.Lstat(name, &stat); err != nil {
		t.Fatal(name, err)
	}
	kind := sandbox.File
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		kind = sandbox.Directory
	}
	return sandbox.Path{Path: name, Access: access, Kind: kind, Dev: stat.Dev, Ino: stat.Ino}
}

func missing(name string) sandbox.Path {
	return sandbox.Path{Path: name, Access: sandbox.Read, Kind: sandbox.Missing}
}

func confined(root sandbox.Access, directory string, paths ...sandbox.Path) Plan {
	return Plan{Policy: sandbox.Policy{Files: true, Root: root, Paths: paths}, Dir: directory}
}

// step is a line of a test: what is tried, and the results that are right.
type step struct {
	try  []string
	want []string
	old  []string // with the old /proc; nil: want
}

func try(line ...string) step            { return step{try: line} }
func (s step) gives(want ...string) step { s.want = want; return s }
func (s step) ofOld(want ...string) step { s.old = want; return s }
func (s step) right(result string) bool {
	for _, want := range s.want {
		if want == result || strings.HasPrefix(want, "~") && strings.Contains(result, want[1:]) {
			return true
		}
		if strings.HasPrefix(want, "!") && !strings.Contains(result, want[1:]) {
			return true
		}
	}
	return false
}

// check runs the steps and compares.
func check(t *testing.T, uid int, p Plan, steps ...step) {
	t.Helper()
	checkAfter(t, uid, nil, p, steps...)
}

// checkAfter is check with steps that an administrator of the host does before the jail begins.
func checkAfter(t *testing.T, uid int, outside [][]string, p Plan, steps ...step) {
	t.Helper()
	in := inspection{Plan: p, Outside: outside}
	for _, s := range steps {
		in.Steps = append(in.Steps, s.try)
	}
	out := inspect(t, uid, in, nil)
	if out.Failure != nil {
		t.Fatalf("refused: %v", out.Failure)
	}
	old := needs.ProbeNewProc(uid) != nil || slices.ContainsFunc(outside, func(step []string) bool { return slices.Equal(step, coverProc) })
	if out.OldProc != old {
		t.Errorf("the view has the old /proc: %v, want %v", out.OldProc, old)
	}
	for i, s := range steps {
		if old && s.old != nil {
			s.want = s.old
		}
		if !s.right(out.Results[i]) {
			t.Errorf("%q: %q, want one of %q", s.try, out.Results[i], s.want)
		}
	}
}

// coverProc is the step of an administrator after which the kernel permits no new /proc.
var coverProc = []string{"mount", "tmpfs", "/proc/irq", "tmpfs"}

// refused checks that enter fails, and that the text of the Failure contains the words.
func refused(t *testing.T, uid int, in inspection, words ...string) {
	t.Helper()
	out := inspect(t, uid, in, nil)
	for i, result := range out.Before {
		if result != "ok" {
			t.Fatalf("%q: %s", in.Before[i], result)
		}
	}
	if out.Failure == nil {
		t.Fatal("not refused")
	}
	for _, word := range words {
		if !strings.Contains(out.Failure.Error(), word) {
			t.Errorf("%q does not say %q", out.Failure.Error(), word)
		}
	}
}

// workspace is the plan of a program that may write W, beside a directory O that it may not. W has a repository, and a
// placeholder for .codex.
func workspace(t *testing.T, uid int, directory string) (p Plan, w, o string) {
	t.Helper()
	lay(t, uid, directory, "W", "W/.git", "W/.git/config=c", "W/a", "W/a/s=s", "W/f=f", "W/.codex", "O", "O/sec=secret", "W/out>../O")
	w, o = filepath.Join(directory, "W"), filepath.Join(directory, "O")
	return confined(sandbox.Read, w, at(t, sandbox.Write, w), at(t, sandbox.Read, w+"/.git"), missing(w+"/.codex")), w, o
}

func TestEnterWorkspaceWrite(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		p, w, o := workspace(t, uid, directory)
		check(t, uid, p,
			try("cwd").gives(w),
			try("write", "new").gives("ok"),
			try("read", "new").gives("x"),
			try("sh", "echo $PPID; cat a/s").gives("1\ns"),

			// Outside.
			try("write", o+"/sec").gives("EROFS"),
			try("rm", o+"/sec").gives("EROFS"),
			try("chmod", o+"/sec").gives("EROFS"),
			try("sh", "touch -d 2001-01-01 "+o+"/sec").gives("~Read-only file system"),
			try("write", "out/sec").gives("EROFS"),
			try("write", directory+"/new").gives("EROFS"),
			try("write", "/.."+o+"/sec").gives("EROFS"),
			try("write", "/../../.."+o+"/sec").gives("EROFS"),
			try("symlink", "/etc", "e").gives("ok"),
			try("change", "e").gives("EROFS"),
			try("link", o+"/sec", "hl").gives("EXDEV"),
			try("read", o+"/sec").gives("secret"),

			// The repository.
			try("write", ".git/config").gives("EROFS"),
			try("mkdir", ".git/hooks").gives("EROFS"),
			try("rm", ".git/config").gives("EROFS"),
			try("rmdir", ".git").gives("EBUSY", "EROFS"),
			try("rename", ".git", "g").gives("EBUSY"),
			try("exchange", ".git", "a").gives("EBUSY"),
			try("rename", "a", ".git").gives("EBUSY"),
			try("link", ".git/config", "hl").gives("EXDEV"),
			try("sh", "rm -rf .git 2>/dev/null; cat .git/config").gives("c"),

			// The placeholder.
			try("mkdir", ".codex").gives("EEXIST"),
			try("write", ".codex/config.toml").gives("EROFS"),
			try("rmdir", ".codex").gives("EBUSY"),
			try("rename", ".codex", "q").gives("EBUSY"),
			try("mode", ".codex").gives("40555"),
			try("ls", ".codex").gives(""),
			try("chmod", ".codex").gives("EROFS"),

			// The workspace itself.
			try("rename", w, directory+"/W2").gives("EBUSY", "EROFS", "EXDEV"),
			try("rename", w, "/dev/shm/W2").gives("EBUSY", "EROFS", "EXDEV"),

			// Mounts.
			try("umount", ".git").gives("EPERM"),
			try("umount", "/proc/sys").gives("EPERM"),
			try("remount", "/").gives("EPERM"),
			try("remount", ".git").gives("EPERM"),
			try("mount", "tmpfs", "a", "tmpfs").gives("EPERM"),
			try("unshare").gives("EPERM"),
			try("chroot", "/tmp").gives("EPERM"),
			try("mknod", "d").gives("EPERM"),
			try("loopback").gives("0"),
		)
		for name, want := range map[string]string{"O/sec": "secret", "W/.git/config": "c", "W/new": "x"} {
			if content, err := os.ReadFile(filepath.Join(directory, name)); string(content) != want {
				t.Errorf("%s is %q, want %q (%v)", name, content, want, err)
			}
		}
	})
}

func TestWritable(t *testing.T) {
	p := confined(sandbox.Read, "/",
		sandbox.Path{Path: "/a", Access: sandbox.Write}, sandbox.Path{Path: "/a/b", Access: sandbox.Read},
		sandbox.Path{Path: "/a/f", Access: sandbox.Write, Kind: sandbox.File}, missing("/a/.git"),
		sandbox.Path{Path: "/dev/shm", Access: sandbox.Write}, sandbox.Path{Path: "/sys/fs", Access: sandbox.Write})
	if got := fmt.Sprint(writable(&p)); got != "[/dev /proc /a /a/f]" {
		t.Error(got)
	}
	p.Policy.Root = sandbox.Write
	if got := fmt.Sprint(writable(&p)); got != "[/dev /proc /]" {
		t.Error(got)
	}
	p.oldProc = true
	if got := fmt.Sprint(writable(&p)); got != "[/dev /]" {
		t.Error(got)
	}
}

func TestEnterRefusesWhatIsNotThere(t *testing.T) {
	users(t, func(t *testing.T, uid int, directory string) {
		p, w, _ := workspace(t, uid, directory)
		for name, change := range map[string]func(p *Plan) []string{
			"another file": func(p *Plan) []string { p.Policy.Paths[0].Ino++; return []string{w, "exchanged"} },
			"another disk": func(p *Plan) []string { p.Policy.Paths[1].Dev++; return []string{w + "/.git", "exchanged"} },
			"nothing": func(p *Plan) []string {
				p.Policy.Paths[1].Path = w + "/.gone"
				return []string{w + "/.gone", "exchanged"}
			},
			"a link": func(p *Plan) []string { p.Policy.Paths[1].Path = w + "/out"; return []string{w + "/out", "link"} },
			"link on the way": func(p *Plan) []string {
				p.Policy.Paths[1].Path = w + "/out/sec"
				return []string{w + "/out/sec", "link"}
			},
			"placeholder is a file": func(p *Plan) []string { p.Policy.Paths[2].Path = w + "/f"; return []string{w + "/f", "placeholder"} },
			"placeholder is a link": func(p *Plan) []string { p.Policy.Paths[2].Path = w + "/out"; return []string{w + "/out", "link"} },
			"order": func(p *Plan) []string {
				paths := p.Policy.Paths
				paths[0], paths[1] = paths[1], paths[0]
				return []string{"before"}
			},
			"twice":    func(p *Plan) []string { p.Policy.Paths[1] = p.Policy.Paths[0]; return []string{"twice"} },
			"dots":     func(p *Plan) []string { p.Policy.Paths[1].Path = w + "/a/../.git"; return []string{"clean"} },
			"relative": func(p *Plan) []string { p.Policy.Paths[1].Path = "a"; return []string{"relative"} },
			"access": func(p *Plan) []string {
				p.Policy.Paths[1].Access = sandbox.Write + 1
				return []string{w + "/.git", "unknown access 3"}
			},
			"kind": func(p *Plan) []string {
				p.Policy.Paths[1].Kind = sandbox.Missing + 1
				return []string{w + "/.git", "kind 3"}
			},
			"root": func(p *Plan) []string { p.Policy.Root = sandbox.Write + 1; return []string{"/", "unknown access 3"} },
			"directory": func(p *Plan) []string {
				p.Dir = w + "/nowhere"
				return []string{"directory " + w + "/nowhere", "no such"}
			},
			"directory is a file": func(p *Plan) []string { p.Dir = w + "/f"; return []string{w + "/f", "not a directory"} },
			"directory is hidden": func(p *Plan) []string {
				p.Policy.Paths[1] = at(t, sandbox.Deny, w+"/a")
				p.Dir = w + "/a"
				return []string{w + "/a", "hides"}
			},
			"directory is not in the view": func(p *Plan) []string {
				p.Policy.Root = sandbox.Deny
				p.Dir = directory
				return []string{"directory " + directory, "hides"}
			},
		} {
			t.Run(name, func(t *testing.T) {
				changed := p
				changed.Policy.Paths = append([]sandbox.Path(nil), p.Policy.Paths...)
				words := change(&changed)
				refused(t, uid, inspection{Plan: changed}, words...)
			})
		}
	})
}
