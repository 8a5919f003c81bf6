package tests

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/testroot"
	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/tests/internal/system"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// The tests of sandboxes run with a server that is root, and with a server that is an ordinary user. If the tests
// themselves run as an ordinary user, they run only with that user.

// warden is a server, and the user of the server and its programs.
type warden struct {
	*server
	uid     int
	dir     string // a directory of the user: home, and the yards
	oldProc bool   // the kernel permits no new /proc: sandboxes of the server have the level oldProc
}

// eachUser runs a test as root and as an ordinary user. Under the race detector root is left out: each jail is then a program
// with the race detector, which starts slowly.
func eachUser(t *testing.T, test func(t *testing.T, uid int)) {
	if os.Geteuid() == 0 && !underRace() {
		t.Run("root", func(t *testing.T) { t.Parallel(); test(t, 0) })
	}
	asOrdinary(t, test)
}

// asSelf runs a test once: as the user of the tests, which in CI are root and an ordinary user. As root under the race detector it is as eachUser.
func asSelf(t *testing.T, test func(t *testing.T, uid int)) {
	if os.Geteuid() == 0 && !underRace() {
		t.Run("root", func(t *testing.T) { t.Parallel(); test(t, 0) })
		return
	}
	asOrdinary(t, test)
}

// ownYard runs a test as asSelf does, with a server that has these arguments, and a workspace.
func ownYard(t *testing.T, test func(t *testing.T, y *yard), args ...string) {
	asSelf(t, func(t *testing.T, uid int) {
		y := startWarden(t, uid, args...).yard(t)
		test(t, y)
		y.done()
	})
}

// A sandboxRow is a test with a workspace of its own.
type sandboxRow struct {
	name string
	test func(y *yard)
}

// run runs rows at a server.
func (w *warden) run(t *testing.T, rows []sandboxRow) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			y := w.yard(t)
			row.test(y)
			y.done()
		})
	}
}

// asOrdinary runs a test as an ordinary user. The slow tests run it as root.
func asOrdinary(t *testing.T, test func(t *testing.T, uid int)) {
	uid := os.Geteuid()
	if uid == 0 {
		uid = ordinary()
	}
	t.Run("ordinary user", func(t *testing.T) { t.Parallel(); test(t, uid) })
}

// ordinary returns a user without an entry in the system's database that no other process has.
func ordinary() int { return 1_000_000 + os.Getpid()*10 + 9 }

// startWarden starts a server as the user, or skips the test. See needsSandbox.
func startWarden(t *testing.T, uid int, args ...string) *warden {
	t.Helper()
	w := newWarden(t, uid)
	w.serve(t, nil, args...)
	w.needsSandbox(t)
	return w
}

// serve starts the server of the warden, with a /tmp of its own: sandboxes that may write to /tmp make placeholders there. configure
// changes the command, and may be nil.
func (w *warden) serve(t testing.TB, configure func(*exec.Cmd), args ...string) {
	t.Helper()
	w.server = startServerWith(t, func(cmd *exec.Cmd) {
		w.as(cmd)
		if configure != nil {
			configure(cmd)
		}
		testroot.Confine(t, cmd, w.dir)
	}, args...)
}

// newWarden returns a warden whose server does not run yet.
func newWarden(t testing.TB, uid int) *warden {
	t.Helper()
	w := &warden{uid: uid, dir: strictDir(t), oldProc: needs.ProbeNewProc(uid) != nil}
	w.mkdir(t, w.dir, "home")
	w.mkdir(t, w.dir, "runtime")
	w.own(t, w.dir)
	return w
}

// policy returns the file of a policy that allows everything. The file has a mark, and only the warden may read it.
func (w *warden) policy(t testing.TB, mark string) string {
	t.Helper()
	path := filepath.Join(w.dir, "policy")
	if err := os.WriteFile(path, []byte("# "+mark+"\n* run /**\n* cwd /\n* read /\n* write /\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.own(t, path)
	return path
}

// as makes a command run as the user of the warden, in its directory. In the package's directory, a program that gets the working
// directory of its server as its workspace could write there.
func (w *warden) as(cmd *exec.Cmd) {
	cmd.Dir = w.dir
	cmd.Env = append(slices.Clone(serverEnv), "HOME="+w.dir+"/home", "TMPDIR="+w.dir+"/home", "XDG_RUNTIME_DIR="+w.dir+"/runtime")
	if w.uid != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(w.uid), Gid: uint32(w.uid)}}
	}
}

// strictDir returns a new directory without symlinks in its path and not below /tmp, which many sandboxes may write.
func strictDir(t testing.TB) string {
	t.Helper()
	parent, err := filepath.EvalSymlinks(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if parent == "/tmp" || strings.HasPrefix(parent, "/tmp/") {
		parent = "/var/tmp"
	}
	return testroot.Dir(t, parent)
}

func (w *warden) mkdir(t testing.TB, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.MkdirAll(name, 0o755); err != nil {
		t.Fatal(err)
	}
	w.own(t, name)
	return name
}

// own gives a path to the user of the warden.
func (w *warden) own(t testing.TB, path string) {
	t.Helper()
	if err := os.Lchown(path, w.uid, w.uid); err != nil && os.Geteuid() == 0 {
		t.Fatal(err)
	}
}

// needsSandbox skips the test if this machine permits no sandbox to the user of the warden. TestSandboxRefused tests such a machine.
func (w *warden) needsSandbox(t testing.TB) {
	t.Helper()
	needs.Namespaces(t, w.uid)
}

// --- policies ---

func special(kind string, subpath ...string) obj {
	value := obj{"kind": kind}
	if len(subpath) > 0 {
		value["subpath"] = subpath[0]
	}
	return obj{"type": "special", "value": value}
}

func pathEntry(access, path string) obj {
	return obj{"access": access, "path": obj{"type": "path", "path": fileURI(path)}}
}

func specialEntry(access, kind string, subpath ...string) obj {
	return obj{"access": access, "path": special(kind, subpath...)}
}

func globEntry(pattern string) obj {
	return obj{"access": "deny", "path": obj{"type": "glob_pattern", "pattern": pattern}}
}

// managed returns the permissions with these entries.
func managed(network string, entries ...obj) obj {
	return obj{"type": "managed", "network": network, "file_system": obj{"type": "restricted", "entries": entries}}
}

// metadata are the entries for metadata that the peer's client sends.
var metadata = func() (all []obj) {
	for _, name := range []string{".git", ".agents", ".codex", ".aws"} {
		e := specialEntry("read", "project_roots", name)
		e["missing_path_behavior"] = "skip"
		all = append(all, e)
	}
	return all
}()

// workspace are the entries of the mode workspace-write of the peer's client, and more.
func workspace(network string, more ...obj) obj {
	entries := []obj{specialEntry("read", "root"), specialEntry("write", "project_roots"), specialEntry("write", "slash_tmp"), specialEntry("write", "tmpdir")}
	return managed(network, slices.Concat(entries, metadata, more)...)
}

func readOnly() obj { return managed("restricted", specialEntry("read", "root")) }

// sandboxOf returns the member sandbox of a request for programs in the directory w.
func sandboxOf(permissions obj, w string) obj {
	return obj{
		"permissions": permissions, "cwd": fileURI(w), "workspaceRoots": []any{fileURI(w)},
		"sandboxOverride": "noOverride", "windowsSandboxLevel": "disabled", "windowsSandboxProxySettingsMode": nil,
		"useLegacyLandlock": false,
	}
}

// --- a workspace ---

// yard is a workspace w, and a directory o outside the workspace. w has .git/config, a/s, f, and the link out to o. o has
// the file sec and the FIFO fifo.
type yard struct {
	t      *testing.T
	warden *warden
	c      *conn
	w, o   string
	starts int
	before map[string]string
}

// yard makes a workspace, with a session of its own.
func (w *warden) yard(t *testing.T) *yard {
	t.Helper()
	dir, err := os.MkdirTemp(w.dir, "yard-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	w.own(t, dir)
	y := &yard{t: t, warden: w, w: w.mkdir(t, dir, "w"), o: w.mkdir(t, dir, "o")}
	w.mkdir(t, y.w, ".git")
	w.mkdir(t, y.w, ".git/hooks")
	w.mkdir(t, y.w, "a")
	for name, text := range map[string]string{y.w + "/.git/config": "[core]\n", y.w + "/a/s": "inner\n", y.w + "/f": "file\n", y.o + "/sec": "secret\n"} {
		y.file(name, text)
	}
	if err := os.Symlink(y.o, y.w+"/out"); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(y.o+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	w.own(t, y.w+"/out")
	w.own(t, y.o+"/fifo")
	if w.server != nil {
		y.c = w.in(t).session(nil)
	}
	y.before = y.outside()
	return y
}

func (y *yard) file(path, text string) {
	y.t.Helper()
	if err := writeProgram(path, []byte(text), 0o644); err != nil {
		y.t.Fatal(err)
	}
	y.warden.own(y.t, path)
}

// outside describes everything that a sandboxed program must leave as it is: o, and the names that are placeholders.
func (y *yard) outside() map[string]string {
	y.t.Helper()
	all := map[string]string{}
	dir := filepath.Dir(y.w)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != dir {
			return nil // a placeholder that the server removes meanwhile
		}
		if err != nil {
			return err
		}
		outside := path == y.o || strings.HasPrefix(path, y.o+"/")
		if !outside && !slices.Contains([]string{".git", ".agents", ".codex", ".aws"}, d.Name()) {
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		text := fmt.Sprint(info.Mode(), " ", info.ModTime())
		if !outside && d.IsDir() { // a placeholder within changes the time
			text = info.Mode().String()
		}
		if d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += " " + string(data)
		}
		all[path] = text
		return nil
	})
	if err != nil {
		y.t.Fatal(err)
	}
	return all
}

// prepared takes what is outside now as what must stay.
func (y *yard) prepared() { y.before = y.outside() }

// check checks what must be true when the programs of a test have ended.
func (y *yard) check() {
	y.t.Helper()
	var after map[string]string
	defer func() {
		if maps.Equal(y.before, after) {
			return
		}
		for _, path := range slices.Sorted(maps.Keys(after)) {
			if y.before[path] != after[path] {
				y.t.Logf("%s: %q, before %q", path, after[path], y.before[path])
			}
		}
		for path, text := range y.before {
			if _, has := after[path]; !has {
				y.t.Logf("%s: gone, before %q", path, text)
			}
		}
	}()
	eventually(y.t, "nothing outside has changed, and no placeholder is left; see the log", func() bool {
		after = y.outside()
		return maps.Equal(y.before, after)
	})
	if y.warden.server != nil {
		eventually(y.t, "the server has no children", func() bool {
			left := append(childrenOf(y.warden.cmd.Process.Pid), childrenOf(y.warden.pid())...)
			return len(slices.DeleteFunc(left, func(pid int) bool { return pid == y.warden.pid() })) == 0
		})
	}
}

// done closes the session, and checks what check does.
func (y *yard) done() {
	y.t.Helper()
	y.c.call("session/close", obj{})
	y.check()
}

// childrenOf returns the children of a process, with zombies.
func childrenOf(parent int) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat := string(system.Read(pid, "stat"))
		fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// params are those of a start in the workspace with the mode workspace-write, unless more says otherwise. more may have
// permissions, which go into the sandbox. The shell has W, O, and HOSTPID, which is the pid of the server.
func (y *yard) params(id, script string, more obj) obj {
	env := obj{"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "W": y.w, "O": y.o, "HOSTPID": fmt.Sprint(y.warden.pid()), "LC_ALL": "C"}
	all := obj{"argv": sh(script), "cwd": fileURI(y.w), "env": env, "sandbox": sandboxOf(workspace("restricted"), y.w)}
	for name, value := range more {
		switch name {
		case "permissions":
			all["sandbox"] = sandboxOf(value.(obj), y.w)
		case "env":
			maps.Copy(env, value.(obj))
		default:
			all[name] = value
		}
	}
	return startParams(id, all)
}

// start starts a script. See params.
func (y *yard) start(script string, more obj) *proc {
	y.t.Helper()
	y.starts++
	id := nth("sandboxed", y.starts)
	result := y.c.call("process/start", y.params(id, script, more))
	if result["sandboxType"] != "linuxSeccomp" {
		y.t.Errorf("process/start: sandboxType is %v, want linuxSeccomp", result["sandboxType"])
	}
	return y.c.process(id)
}

// refused expects that the start of a script is refused.
func (y *yard) refused(script string, more obj) (code int64, text string) {
	y.t.Helper()
	y.starts++
	return y.c.callError("process/start", y.params(nth("refused", y.starts), script, more))
}

// wantRefused expects a refusal with this code before the program has run.
func (y *yard) wantRefused(want int64, more obj) (text string) {
	y.t.Helper()
	os.Remove(y.w + "/ran")
	code, text := y.refused(`: >"$W/ran"; : >"$O/ran"`, more)
	if code != want || text == "" {
		y.t.Errorf("the start was refused with %d %q, want %d", code, text, want)
	}
	for _, dir := range []string{y.w, y.o} {
		if _, err := os.Lstat(dir + "/ran"); err == nil {
			y.t.Errorf("the start was refused with %q, and the program has run", text)
		}
	}
	return text
}

// outcome is the end of a program.
type outcome struct {
	t           *testing.T
	code        int64
	signal      string
	denied      bool
	out, errors string
}

// run runs a script to its end.
func (y *yard) run(script string, more obj) outcome {
	y.t.Helper()
	return y.end(y.start(script, more))
}

// end waits for the end of a program.
func (y *yard) end(p *proc) outcome {
	y.t.Helper()
	p.awaitClosed()
	exited := p.awaitExit()
	signal, _ := exited["signal"].(string)
	return outcome{y.t, num(exited["exitCode"]), signal, exited["sandboxDenied"] == true, p.outputSoFar("stdout") + p.outputSoFar("pty"), p.outputSoFar("stderr")}
}

// try runs a probe with the tries, and returns the results.
func (y *yard) try(more obj, tries ...string) map[string]string {
	y.t.Helper()
	all := obj{"argv": probeArgv(y.t, tries...)}
	maps.Copy(all, more)
	r := y.run("", all)
	if r.code != 0 {
		y.t.Fatalf("the probe exited with %d: %s%s", r.code, r.out, r.errors)
	}
	results := map[string]string{}
	for line := range strings.Lines(r.out) {
		try, result, _ := strings.Cut(strings.TrimSpace(line), ": ")
		results[try] = result
	}
	return results
}

// wantTries runs a probe. Each want is a try, ": ", and the expected results, separated by "|".
func (y *yard) wantTries(more obj, wants ...string) {
	y.t.Helper()
	var tries []string
	for _, want := range wants {
		try, _, _ := strings.Cut(want, ": ")
		tries = append(tries, try)
	}
	results := y.try(more, tries...)
	for i, want := range wants {
		_, expected, _ := strings.Cut(want, ": ")
		if got := cmp.Or(results[tries[i]], "nothing"); !slices.Contains(strings.Split(expected, "|"), got) {
			y.t.Errorf("%s: %s, want %s", tries[i], got, expected)
		}
	}
}

// wantErrors expects one line of stderr for each want. A want is the possible ends of the line, separated by "|".
func (r outcome) wantErrors(wants ...string) {
	r.t.Helper()
	lines := strings.Split(strings.TrimSpace(r.errors), "\n")
	ok := len(lines) == len(wants)
	for i := 0; ok && i < len(lines); i++ {
		ok = slices.ContainsFunc(strings.Split(wants[i], "|"), func(end string) bool { return strings.HasSuffix(lines[i], end) })
	}
	if !ok {
		r.t.Errorf("the program said:\n%swant these ends of lines:\n%s", r.errors, strings.Join(wants, "\n"))
	}
}

// wantOut expects this stdout.
func (r outcome) wantOut(want string) {
	r.t.Helper()
	if r.out != want {
		r.t.Errorf("stdout is %q, want %q; stderr: %s", r.out, want, r.errors)
	}
}

func (r outcome) wantCode(want int64, denied bool) {
	r.t.Helper()
	if r.code != want || r.denied != denied {
		r.t.Errorf("exit code %d, sandboxDenied %v, want %d, %v; stdout %q, stderr %q", r.code, r.denied, want, denied, r.out, r.errors)
	}
}

const (
	erofs = "Read-only file system"
	ebusy = "Device or resource busy"
	eperm = "Operation not permitted"
	eacce = "Permission denied"
	exdev = "Invalid cross-device link"
	exist = "File exists"
	noent = "No such file or directory"
)
