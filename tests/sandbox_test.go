package tests

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// TestSandbox tries what a confined program must not be able to do, and what it must be able to do, through the real
// server: as root and as an ordinary user. After each row nothing outside the workspace has changed, no placeholder is
// left, and no process. Each row shows that the server applies a layer of the jail. What each layer permits and refuses is
// tested where the layer is: paths in internal/sandbox/resolve, mounts and system calls in internal/sandbox/jail.
func TestSandbox(t *testing.T) {
	t.Parallel()
	eachUser(t, func(t *testing.T, uid int) {
		startWarden(t, uid).run(t, sandboxRows)
	})
}

// TestSandboxOldProc: the rows about /proc, on a machine where the kernel permits no new /proc.
func TestSandboxOldProc(t *testing.T) {
	needs.Mount(t)
	t.Parallel()
	asOrdinary(t, testSandboxOldProc)
}

func testSandboxOldProc(t *testing.T, uid int) {
	w := newWarden(t, uid)
	startMounted(t, w, coverProc, "")
	w.oldProc = true
	w.run(t, slices.DeleteFunc(slices.Clone(sandboxRows), func(row sandboxRow) bool {
		return !slices.Contains([]string{"12", "13", "22", "24", "37"}, row.name[:2])
	}))
}

// coverProc is a script of root after which the kernel permits no new /proc.
const coverProc = `mount -t tmpfs none /proc/irq`

var sandboxRows = []sandboxRow{
	{"01 writes in the workspace", func(y *yard) {
		r := y.run(`echo x > new; cat new`, nil)
		r.wantCode(0, false)
		r.wantOut("x\n")
		if text, err := os.ReadFile(y.w + "/new"); string(text) != "x\n" {
			y.t.Errorf("outside the sandbox the file has %q, %v", text, err)
		}
	}},
	{"03 writes outside", func(y *yard) {
		r := y.run(`echo x > $O/sec; rm $O/sec; chmod 777 $O/sec; touch -d 2001-01-01 $O/sec`, nil)
		r.wantErrors(erofs, erofs, erofs, erofs)
		r.wantCode(1, true)
	}},
	{"07 missing metadata", func(y *yard) {
		const script = `mkdir .codex; echo x > .codex/config.toml; rmdir .codex; mv .codex q`
		if err := os.RemoveAll(y.w + "/.git"); err != nil {
			y.t.Fatal(err)
		}
		y.prepared()
		for _, name := range []string{".codex", ".agents", ".aws", ".git"} {
			r := y.run(strings.ReplaceAll(script, ".codex", name), nil)
			r.wantErrors(exist, erofs, ebusy, ebusy)
			y.check()
		}
	}},
	{"12 process 1", func(y *yard) {
		for _, network := range []string{"restricted", "enabled"} {
			written := "EACCES"
			if y.warden.oldProc { // process 1 is not the jail, and may be of the same user
				written = "EACCES|EROFS"
			}
			y.wantTries(obj{"permissions": workspace(network)}, "read /proc/1/mem: EACCES", "write /proc/1/mem: "+written, "tasks: EACCES", "read /proc/1/fd/0: EACCES",
				"list /proc/1/root/: EACCES", "read /proc/1/environ: EACCES", "list /proc/1/cwd/: EACCES", "read /proc/1/fd/3: EACCES|ENOENT", "ptrace-init: EPERM", "vm-init: EPERM")
		}
	}},
	{"13 kills", func(y *yard) {
		r := y.run(`kill -9 $HOSTPID; kill -9 1; kill -STOP 1; echo alive`, nil)
		r.wantOut("alive\n")
		r.wantCode(0, false)
		if !strings.Contains(r.errors, "No such process") {
			y.t.Errorf("kill of the server: %s", r.errors)
		}
		// kill(-1) reaches all but the caller and process 1: of the sandbox.
		bystander := y.bystander()
		beside := y.start(`echo up; sleep 1000`, nil) // another sandbox of the same server
		beside.awaitOutput("stdout", "up\n")
		victim := y.run(`sleep 1000 & kill -9 -1; echo alive; wait $!; echo $?`, nil)
		victim.wantOut("alive\n137\n")
		results := y.try(nil, fmt.Sprint("kill ", bystander), fmt.Sprint("kill ", y.warden.pid()), fmt.Sprint("kill ", beside.pid()))
		for try, result := range results {
			if result != "ESRCH" {
				y.t.Errorf("%s: %s, want ESRCH", try, result)
			}
		}
		for who, pid := range map[string]int{"the server": y.warden.pid(), "a process beside": bystander, "another sandbox": beside.pid()} {
			if !alive(pid) {
				y.t.Errorf("after kill -9 -1 in a sandbox %s is dead", who)
			}
		}
		y.c.call("process/terminate", obj{"processId": beside.id})
		y.end(beside)
	}},
	{"15 network", func(y *yard) {
		tcp, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			y.t.Fatal(err)
		}
		defer tcp.Close()
		y.wantTries(nil, "tcp "+tcp.Addr().String()+": EPERM", "udp "+tcp.Addr().String()+": EPERM", "netlink: EPERM", "packet: EPERM", "vsock: EPERM", "socketpair: ok")
		y.wantTries(obj{"permissions": readOnly()}, "tcp "+tcp.Addr().String()+": EPERM", "udp "+tcp.Addr().String()+": EPERM")
	}},
	{"21 capabilities", func(y *yard) {
		const want = "CapInh:0000000000000000\nCapPrm:0000000000000000\nCapEff:0000000000000000\nCapBnd:0000000000000000\nCapAmb:0000000000000000\nNoNewPrivs:1\nSeccomp:2\n"
		for _, permissions := range []obj{readOnly(), workspace("restricted"), workspace("enabled")} {
			y.run(`grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status | tr -d '\t'`, obj{"permissions": permissions}).wantOut(want)
		}
	}},
	{"22 descriptors", func(y *yard) {
		y.run(`ls /proc/self/fd`, nil).wantOut("0\n1\n2\n3\n")
		y.run(`ls -1 /proc/self/fd`, obj{"tty": true}).wantOut("0\r\n1\r\n2\r\n3\r\n")
	}},
	{"24 denied directory outside", func(y *yard) {
		r := y.run(`cat out/sec /proc/self/root$O/sec /proc/1/root$O/sec; ls $O; cat /proc/self/cwd/out/sec`, obj{"permissions": workspace("restricted", pathEntry("deny", y.o))})
		r.wantOut("")
		if strings.Contains(r.errors, "secret") {
			y.t.Error(r.errors)
		}
		r.wantErrors(eacce, eacce, eacce, eacce, eacce)
	}},
	{"28 TMPDIR=/", func(y *yard) {
		y.wantRefused(-32602, obj{"env": obj{"TMPDIR": "/"}})
		r := y.run(`echo x >$TMPDIR/x && cat $TMPDIR/x; echo x >$O/x`, obj{"env": obj{"TMPDIR": y.warden.mkdir(y.t, filepath.Dir(y.w), "tmp")}})
		r.wantOut("x\n")
		r.wantErrors(erofs)
	}},
	{"29 background processes", func(y *yard) {
		token := newToken(y.t)
		r := y.run(`setsid sleep `+token+` & (trap '' TERM HUP; exec sleep `+token+`) & echo done`, nil)
		r.wantOut("done\n")
		if n := len(kin(token)); n > 0 {
			y.t.Errorf("after the end of the program %d of its processes are alive", n)
		}
	}},
	{"37 network enabled", func(y *yard) {
		tcp, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			y.t.Fatal(err)
		}
		defer tcp.Close()
		on := obj{"permissions": workspace("enabled")}
		y.wantTries(on, "tcp "+tcp.Addr().String()+": ok", "udp "+tcp.Addr().String()+": ok", "vsock: EPERM", "ptrace-init: EPERM", "ptrace-child: ok", "iouring: EPERM")
		y.wantTries(nil, "ptrace-child: EPERM", "vm-init: EPERM")
		y.run(`echo x >$O/sec; echo x >new; cat new`, on).wantOut("x\n")
	}},
}

// bystander starts a process of the user outside, which the user may trace, and returns its pid. It runs until the test ends.
func (y *yard) bystander() int {
	y.t.Helper()
	sleep := exec.Command("/bin/sleep", "1000")
	sleep.Dir = "/"
	if y.warden.uid != os.Geteuid() {
		sleep.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(y.warden.uid), Gid: uint32(y.warden.uid)}}
	}
	if err := sleep.Start(); err != nil {
		y.t.Fatal(err)
	}
	y.t.Cleanup(func() {
		sleep.Process.Kill()
		sleep.Wait()
	})
	return sleep.Process.Pid
}

// startMounted starts the server of a warden in a new mount namespace, after a script of root has mounted there. $0 of the
// script is dir.
func startMounted(t testing.TB, w *warden, script, dir string) {
	t.Helper()
	w.serve(t, func(cmd *exec.Cmd) { w.afterMounts(t, cmd, script, dir) })
	w.needsSandbox(t)
}

// afterMounts makes a command run as the user of the warden in a new mount namespace, after a script of root has mounted there. $0 of
// the script is dir.
func (w *warden) afterMounts(t testing.TB, cmd *exec.Cmd, script, dir string) {
	t.Helper()
	needs.Mount(t)
	w.as(cmd)
	cmd.SysProcAttr = nil
	args := []string{"unshare", "-m", "--propagation", "private", "sh", "-c", script + ` && exec "$@"`, dir}
	if w.uid != 0 {
		args = append(args, "setpriv", "--reuid="+fmt.Sprint(w.uid), "--regid="+fmt.Sprint(w.uid), "--clear-groups")
	}
	cmd.Args = append(append(args, cmd.Path), cmd.Args[1:]...)
	cmd.Path = needs.Program(t, "unshare")
}

// TestSandboxRace is row 32: while another process exchanges a directory that the policy names with a link that leads
// out, a start is refused or confined.
func TestSandboxRace(t *testing.T) {
	t.Parallel()
	testSandboxRace(t, 50)
}

func testSandboxRace(t *testing.T, starts int) {
	asSelf(t, func(t *testing.T, uid int) {
		w := startWarden(t, uid)
		y := w.yard(t)
		sub, link := w.mkdir(t, y.w, "sub"), y.w+"/link"
		w.mkdir(t, sub, "ro")
		w.mkdir(t, y.o, "ro")
		if err := os.Symlink(y.o, link); err != nil {
			t.Fatal(err)
		}
		y.prepared()
		x := exchange(t, sub, link)
		permissions := managed("restricted", specialEntry("read", "root"), pathEntry("write", sub), pathEntry("read", sub+"/ro"))
		answers, ran := map[string]int{}, 0
		for i := range starts {
			x.turn(i)
			answer := y.c.reply(y.c.request("process/start", y.params(nth("race", i), `echo x > sub/evil; echo x > sub/ro/evil`, obj{"permissions": permissions})))
			if e := errorOf(answer); e != nil {
				answers[fmt.Sprint(num(e["code"]))]++
				continue
			}
			ran++
			y.c.process(nth("race", i)).awaitClosed()
		}
		exchanges := x.end()
		t.Logf("%d starts, %d exchanges: %d ran, and the refusals by code are %v", starts, exchanges, ran, answers)
		if exchanges < 2*starts || ran == 0 || ran == starts {
			t.Error("nothing has raced: want at least two exchanges a start, a start that ran, and a start that was refused")
		}
		for code := range answers {
			if code != "-32602" && code != "-32603" {
				t.Errorf("a refusal has the code %s", code)
			}
		}
		y.done()
		if _, err := os.Lstat(sub + "/ro/evil"); err == nil {
			t.Error("a program has written where it may only read")
		}
		if text, err := os.ReadFile(sub + "/evil"); string(text) != "x\n" {
			t.Errorf("%d programs ran, and what they write is %q, %v", ran, text, err)
		}
	})
}

// TestSandboxEndsWithServer is row 38: if the server is killed, its confined programs end. The next server removes the
// placeholders of the killed server.
func TestSandboxEndsWithServer(t *testing.T) {
	t.Parallel()
	ownYard(t, func(t *testing.T, y *yard) {
		// Only the kernel may end the programs. No other server finds them: they have neither a cgroup nor a marker.
		w := y.warden
		token := newToken(t)
		for _, script := range []string{`exec sleep ` + token, `setsid sleep ` + token + ` & trap '' HUP TERM; sleep ` + token} {
			p := y.start(`echo up; `+script, nil)
			p.awaitOutput("stdout", "up\n")
		}
		terminal := y.start(`echo up; trap '' HUP TERM; sleep `+token+`; :`, obj{"tty": true})
		terminal.awaitOutput("pty", "up")
		eventually(t, "all sleep", func() bool { return sleepers(token) == 4 })
		if _, err := os.Lstat(y.w + "/.codex"); err != nil {
			t.Errorf("while programs run there is no placeholder: %v", err)
		}
		began := time.Now()
		w.signal(unix.SIGKILL)
		w.exitCode()
		awaitNoKin(t, token)
		t.Logf("%v after the kill of the server its programs are gone", time.Since(began))
		w.serve(t, nil)
		y.check() // before a new sandbox of the same directory
		y.c = w.in(t).session(nil)
		y.run(`mkdir .codex`, nil).wantErrors(exist)
	}, "--containment", "group")
}

// TestSandboxFilesRace: while another process exchanges a directory with a link that leads out, calls about files through the name
// change only the directory.
func TestSandboxFilesRace(t *testing.T) {
	t.Parallel()
	ownYard(t, func(t *testing.T, y *yard) {
		w := y.warden
		sub, link := w.mkdir(t, y.w, "sub"), y.w+"/link"
		if err := os.Symlink(y.o, link); err != nil {
			t.Fatal(err)
		}
		y.file(y.o+"/stays", "stays\n") // through the link, fs/remove of the name would remove it
		y.prepared()
		x := exchange(t, sub, link)
		sandbox := sandboxOf(workspace("restricted"), y.w)
		done := map[string]int{}
		const rounds = 80
		for i := range rounds {
			x.turn(i)
			y.remake(sub, link, "stays")
			name := fmt.Sprint(i)
			for _, call := range []struct {
				method string
				params obj
			}{
				{"fs/writeFile", obj{"path": fileURI(sub, "evil"), "dataBase64": b64("x")}},
				{"fs/remove", obj{"path": fileURI(sub, "stays"), "force": false}},
				{"fs/copy", obj{"sourcePath": fileURI(y.w, "f"), "destinationPath": fileURI(sub, "copy"+name), "recursive": false}},
				{"fs/createDirectory", obj{"path": fileURI(sub, "dir"+name), "recursive": false}},
			} {
				call.params["sandbox"] = sandbox
				if e := errorOf(y.c.reply(y.c.request(call.method, call.params))); e == nil {
					done[call.method]++
				}
			}
		}
		exchanges := x.end()
		t.Logf("%d rounds beside %d exchanges; done: %v", rounds, exchanges, done)
		if exchanges < 300 {
			t.Error("nothing has raced: want at least 300 exchanges")
		}
		for _, method := range []string{"fs/writeFile", "fs/remove", "fs/copy", "fs/createDirectory"} {
			if done[method] == 0 || done[method] == rounds {
				t.Errorf("%s succeeded %d times of %d, want some successes and some refusals", method, done[method], rounds)
			}
		}
		copies, _ := filepath.Glob(sub + "/copy*")
		dirs, _ := filepath.Glob(sub + "/dir*")
		if len(copies) < done["fs/copy"] || len(dirs) < done["fs/createDirectory"] {
			t.Errorf("the directory has %d copies and %d directories; done: %v", len(copies), len(dirs), done)
		}
		if text, err := os.ReadFile(sub + "/evil"); string(text) != "x" {
			t.Errorf("the file has %q, %v", text, err)
		}
	})
}

// remake makes a file in the directory that is at the time sub or link.
func (y *yard) remake(sub, link, name string) {
	y.t.Helper()
	for range 1000 {
		for _, dir := range []string{sub, link} {
			fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_PATH|unix.O_CLOEXEC, 0)
			if err != nil {
				continue // the link at the moment
			}
			file, err := unix.Openat(fd, name, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
			if err == nil {
				err = unix.Fchown(file, y.warden.uid, y.warden.uid)
				unix.Close(file)
			}
			unix.Close(fd)
			if err != nil {
				y.t.Fatal(err)
			}
			return
		}
	}
	y.t.Fatal("neither name is the directory")
}

// An exchanger exchanges a directory and a link all the time.
type exchanger struct {
	t         *testing.T
	dir, link string
	mu        sync.Mutex // held during an exchange
	stop      chan struct{}
	stopped   sync.WaitGroup
	exchanges int // all of them succeeded
	pauses    int
}

// exchange starts an exchanger. The test must call end.
func exchange(t *testing.T, dir, link string) *exchanger {
	x := &exchanger{t: t, dir: dir, link: link, stop: make(chan struct{})}
	x.stopped.Go(func() {
		for {
			select {
			case <-x.stop:
				return
			default:
				x.mu.Lock()
				x.swap()
				x.mu.Unlock()
				time.Sleep(10 * time.Microsecond) // leaves the CPU to the server
			}
		}
	})
	t.Cleanup(func() { x.end() })
	return x
}

// swap exchanges once. The caller holds the lock.
func (x *exchanger) swap() {
	if err := unix.Renameat2(unix.AT_FDCWD, x.dir, unix.AT_FDCWD, x.link, unix.RENAME_EXCHANGE); err != nil {
		x.t.Errorf("the exchange: %v", err)
	}
	x.exchanges++
}

// turn stops the exchanges during each 10th attempt, with both names at their places, so some attempts succeed. During the next
// attempt the names are exchanged, so some are refused. All other attempts race.
func (x *exchanger) turn(attempt int) {
	x.resume()
	if attempt%10 > 1 {
		return
	}
	x.mu.Lock()
	x.pauses++
	if x.isExchanged() != (attempt%10 == 1) {
		x.swap()
	}
}

func (x *exchanger) resume() {
	if x.pauses > 0 {
		x.pauses = 0
		x.mu.Unlock()
	}
}

func (x *exchanger) isExchanged() bool {
	info, err := os.Lstat(x.dir)
	if err != nil {
		x.t.Error(err)
		return false
	}
	return !info.IsDir()
}

// end ends the exchanges with both names at their places, and returns how many there were.
func (x *exchanger) end() int {
	x.resume()
	select {
	case <-x.stop:
	default:
		close(x.stop)
		x.stopped.Wait()
		if x.isExchanged() {
			x.swap()
		}
	}
	return x.exchanges
}
