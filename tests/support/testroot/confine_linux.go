package testroot

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"golang.org/x/sys/unix"
)

const (
	// enterArg is argv[0] of this program when it enters a view and executes another program there.
	enterArg = "troupe-test-view"
	// insideVar is set in a process that Inside or Confined has started, and in a fuzz worker.
	insideVar = "TROUPE_TEST_INSIDE"
)

// A view lists the directories a process may write to.
type view struct {
	Dirs []string // writable, with everything below
	Tmp  string   // the first of Dirs; also the process's /tmp
	// Locked views need no trust in the programs: besides the mounts, Landlock refuses writing, signals to other processes and
	// changes of mounts. A view that is not locked is for servers that make sandboxes and cgroups themselves: their programs
	// could undo the mounts on purpose, as root, and never by a wrong path.
	Locked bool
	Path   string // of the program
	Args   []string
}

func init() {
	if os.Args[0] == enterArg {
		fmt.Fprintln(os.Stderr, "testroot:", enter(os.Args[1]))
		os.Exit(125)
	}
	if slices.Contains(os.Args, "-test.fuzzworker") && os.Getenv(insideVar) == "" {
		code, err := fuzzWorker()
		if err != nil {
			fmt.Fprintln(os.Stderr, "testroot: a fuzzer runs only where it can write to nothing else:", err)
			code = 125
		}
		os.Exit(code)
	}
}

// Inside reports whether the test runs where only directories that the test has made can be written. If not, Inside runs the test
// there, in a process of its own, takes over the result, and returns false. That process has the variables env.
//
//	if !testroot.Inside(t) {
//		return
//	}
func Inside(t testing.TB, env ...string) bool {
	t.Helper()
	if os.Getenv(insideVar) != "" || coordinates(t) {
		return true
	}
	needs.Namespaces(t, os.Getuid())
	needs.Landlock(t, 3) // an older one permits to truncate
	runInside(t, true, env)
	return false
}

// Confined is Inside for a test whose server, in the process of the test, makes sandboxes and cgroups. What holds inside is the same as for
// Confine. On a machine without namespaces the test runs where it is.
func Confined(t testing.TB) bool {
	t.Helper()
	if os.Getenv(insideVar) != "" || needs.ProbeMount() != nil && needs.ProbeNamespaces(os.Getuid()) != nil {
		return true
	}
	runInside(t, false, nil)
	return false
}

// runInside runs the test in a view, and takes over the result.
func runInside(t testing.TB, locked bool, env []string) {
	t.Helper()
	cmd := again("run|skip|list|v|count|shuffle|fuzz|bench", "-test.run=^"+regexp.QuoteMeta(t.Name())+"$", "-test.v")
	dir := Dir(t, "")
	cmd.Env = append(append(os.Environ(), env...), insideVar+"=1", "TMPDIR="+dir)
	confine(cmd, []string{dir}, locked)
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	runtime.LockOSThread() // Pdeathsig means this thread
	out, err := cmd.CombinedOutput()
	runtime.UnlockOSThread()
	switch {
	case err != nil:
		t.Errorf("inside: %v\n%s", err, out)
	case strings.Contains(string(out), "\n--- SKIP: "+t.Name()+" "):
		t.Skipf("inside: %s", out)
	case !strings.Contains(string(out), "--- PASS: "+t.Name()+" "):
		t.Errorf("inside the test did not run:\n%s", out)
	case testing.Verbose():
		t.Logf("%s", out)
	}
}

// coordinates reports whether -fuzz chooses t, a fuzzer. This process then sends the inputs to workers, and runs none.
func coordinates(t testing.TB) bool {
	fuzz := flag.Lookup("test.fuzz").Value.String()
	if _, fuzzer := t.(*testing.F); !fuzzer || fuzz == "" {
		return false
	}
	chosen, err := regexp.MatchString(fuzz, t.Name())
	return chosen && err == nil
}

// Confine makes cmd write only to dirs and, as its /tmp, to a directory of its own; and also to /dev, /proc and cgroups: cmd is
// a server that makes sandboxes. Call Confine after everything else of cmd is set. A machine without namespaces has cmd as it was.
func Confine(t testing.TB, cmd *exec.Cmd, dirs ...string) {
	t.Helper()
	if err := ConfineIn(Dir(t, ""), cmd, dirs...); err != nil {
		t.Fatal(err)
	}
}

// ConfineIn is Confine for a program that is no test. tmp is the directory that cmd sees as its /tmp. Everybody may write to tmp from now on.
func ConfineIn(tmp string, cmd *exec.Cmd, dirs ...string) error {
	if needs.ProbeMount() != nil && needs.ProbeNamespaces(os.Getuid()) != nil {
		return nil
	}
	confine(cmd, append([]string{tmp}, dirs...), false)
	return os.Chmod(tmp, 0o777|fs.ModeSticky)
}

// again is this program with flags in addition to its own. Those of its own that the pattern drop names, and those that write files
// of the results, are left out.
func again(drop string, flags ...string) *exec.Cmd {
	dropped := regexp.MustCompile(`^-test\.(` + drop + `|testlogfile|gocoverdir|outputdir|trace|\w*profile)(=|$)`)
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), dropped.MatchString)
	return exec.Command("/proc/self/exe", append(flags, args...)...)
}

// fuzzWorker runs this program, a worker of a fuzzer, in a view, and returns its exit code.
func fuzzWorker() (code int, err error) {
	dir, err := os.MkdirTemp("", "troupe-fuzz-")
	if err != nil {
		return 0, err
	}
	defer remove(dir)
	cmd := again("paniconexit0")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	for fd := 3; fd < 6; fd++ { // two pipes and the memory with the inputs: see package internal/fuzz
		cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(fd), "of the coordinator"))
	}
	cmd.Env = append(os.Environ(), insideVar+"=1", "TMPDIR="+dir)
	confine(cmd, []string{dir}, true)
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	runtime.LockOSThread()
	if err := cmd.Run(); cmd.ProcessState == nil {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), nil
}

// confine makes cmd enter a view first. The first directory is also its /tmp.
func confine(cmd *exec.Cmd, dirs []string, locked bool) {
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	v := view{Dirs: dirs, Tmp: dirs[0], Locked: locked, Path: cmd.Path, Args: cmd.Args}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	cmd.Path, cmd.Args = "/proc/self/exe", []string{enterArg, string(text)}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	a := cmd.SysProcAttr
	a.Cloneflags |= unix.CLONE_NEWNS
	if locked {
		a.Cloneflags |= unix.CLONE_NEWNET | unix.CLONE_NEWIPC
	}
	if (locked || needs.ProbeMount() != nil) && a.Cloneflags&unix.CLONE_NEWUSER == 0 {
		a.Cloneflags |= unix.CLONE_NEWUSER
		uids, gids := []int{os.Getuid()}, []int{os.Getgid()}
		if c := a.Credential; c != nil {
			uids, gids = append(uids, int(c.Uid)), append(gids, int(c.Gid))
		}
		a.UidMappings, a.GidMappings, a.GidMappingsEnableSetgroups = same(uids), same(gids), a.Credential != nil
	}
	if a.Cloneflags&unix.CLONE_NEWUSER != 0 || a.Credential != nil {
		a.AmbientCaps = append(a.AmbientCaps, unix.CAP_SYS_ADMIN) // otherwise a user other than 0 enters without any
	}
}

// same maps each id of a user namespace to itself.
func same(ids []int) (all []syscall.SysProcIDMap) {
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		all = append(all, syscall.SysProcIDMap{ContainerID: id, HostID: id, Size: 1})
	}
	return all
}

// enter makes a view for this process, alone in its mount namespace, and executes the program.
func enter(text string) error {
	var v view
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return err
	}
	runtime.LockOSThread() // Landlock restricts a thread, and the program inherits from this one
	if err := v.mount(); err != nil {
		return err
	}
	if v.Locked {
		if err := v.lock(); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_LOWER, unix.CAP_SYS_ADMIN, 0, 0); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	return fmt.Errorf("execute %s: %w", v.Path, syscall.Exec(v.Path, v.Args, os.Environ()))
}

// mount makes every mount read-only, except those of the view.
func (v *view) mount() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make / private: %w", err)
	}
	cwd, err := os.Getwd()
	if err != nil {
		return err
	}
	// The private /tmp must show whatever this process still needs below the old one, at the same path: the writable directories, the
	// working directory, the program, and, read-only, the files that its arguments name.
	type place struct {
		path string
		fd   int
	}
	var places []place
	shown := v.Dirs
	for _, path := range append([]string{v.Path, cwd}, v.Args...) {
		path = below("/tmp", path)
		if _, err := os.Stat(path); err == nil && !slices.Contains(shown, path) {
			shown = append([]string{path}, shown...) // before a directory below it
		}
	}
	for _, path := range shown {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", path, err)
		}
		places = append(places, place{path, fd})
	}
	if err := unix.Mount(v.Tmp, "/tmp", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s at /tmp: %w", v.Tmp, err)
	}
	for _, p := range places {
		if _, err := os.Stat(p.path); err != nil { // only below the new /tmp
			if err := os.MkdirAll(p.path, 0o755); err != nil {
				return err
			}
		}
		if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", p.fd), p.path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("mount %s on itself: %w", p.path, err)
		}
		unix.Close(p.fd)
	}
	if err := os.Chdir(cwd); err != nil { // the same directory, in the new mounts
		return err
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("make all mounts read-only: %w", err)
	}
	writable := append([]string{"/tmp"}, v.Dirs...)
	if !v.Locked {
		others, err := mountsBelow("/dev", "/proc", "/sys/fs/cgroup")
		if err != nil {
			return err
		}
		writable = append(writable, others...)
	}
	for _, path := range writable {
		err := unix.MountSetattr(unix.AT_FDCWD, path, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
		if err != nil && !errors.Is(err, unix.EPERM) { // EPERM: a container has it read-only
			return fmt.Errorf("make %s writable: %w", path, err)
		}
	}
	return nil
}

// below returns the child of dir on the way to path, or "" if path is not below dir.
func below(dir, path string) string {
	rest, ok := strings.CutPrefix(path, dir+"/")
	if !ok {
		return ""
	}
	first, _, _ := strings.Cut(rest, "/")
	return filepath.Join(dir, first)
}

// mountsBelow returns the mount points of the topmost mounts at dirs and below.
func mountsBelow(dirs ...string) (points []string, err error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		point := strings.Fields(line)[4]
		for _, dir := range dirs {
			if point == dir || strings.HasPrefix(point, dir+"/") {
				points = append(points, point)
			}
		}
	}
	return points, nil
}

// lock restricts the calling thread with Landlock.
func (v *view) lock() error {
	const (
		file  = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
		write = file | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_REFER |
			unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
			unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	)
	attr := unix.LandlockRulesetAttr{Handled_access_fs: write}
	if needs.LandlockABI() >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	rules, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return fmt.Errorf("make a ruleset of Landlock: %w", errno)
	}
	rights := map[string]uint64{"/tmp": write, "/dev/null": file, "/dev/zero": file, "/dev/ptmx": file, "/dev/pts": file}
	for _, dir := range v.Dirs {
		rights[dir] = write
	}
	for path, rights := range rights {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", path, err)
		}
		rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
		_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, rules, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
		unix.Close(fd)
		if errno != 0 {
			return fmt.Errorf("permit Landlock to write below %s: %w", path, errno)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0, 0); errno != 0 {
		return fmt.Errorf("restrict with Landlock: %w", errno)
	}
	return unix.Close(int(rules))
}
