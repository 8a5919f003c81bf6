package tests

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/needs"
)

// TestSandbox tries what a confined program must not be able to do, and what it must be able to do, through the real
// server: as root and as an ordinary user. After each row nothing outside the workspace has changed, no placeholder is
// left, and no process.
func TestSandbox(t *testing.T) {
	t.Parallel()
	eachUser(t, func(t *testing.T, uid int) {
		w := startWarden(t, uid)
		for _, row := range sandboxRows {
			t.Run(row.name, func(t *testing.T) {
				y := w.yard(t)
				row.test(y)
				y.c.call("session/close", obj{})
				y.check()
			})
		}
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
	for _, row := range sandboxRows {
		if !slices.Contains([]string{"12", "13", "14", "20", "22", "24", "26", "34", "37"}, row.name[:2]) {
			continue
		}
		t.Run(row.name, func(t *testing.T) {
			y := w.yard(t)
			row.test(y)
			y.c.call("session/close", obj{})
			y.check()
		})
	}
}

// coverProc is a script of root after which the kernel permits no new /proc.
const coverProc = `mount -t tmpfs none /proc/irq`

var sandboxRows = []struct {
	name string
	test func(y *yard)
}{
	{"01 writes in the workspace", func(y *yard) {
		r := y.run(`echo x > new; cat new`, nil)
		r.wantCode(0, false)
		r.wantOut("x\n")
		if text, err := os.ReadFile(y.w + "/new"); string(text) != "x\n" {
			y.t.Errorf("outside the sandbox the file has %q, %v", text, err)
		}
	}},
	{"02 read-only", func(y *yard) {
		r := y.run(`echo x > f`, obj{"permissions": readOnly()})
		r.wantErrors(erofs)
		r.wantCode(2, true)
		y.run(`echo x > /dev/null && echo x > /dev/shm/x && cat /dev/shm/x f`, obj{"permissions": readOnly()}).wantOut("x\nfile\n")
	}},
	{"03 writes outside", func(y *yard) {
		r := y.run(`echo x > $O/sec; rm $O/sec; chmod 777 $O/sec; touch -d 2001-01-01 $O/sec`, nil)
		r.wantErrors(erofs, erofs, erofs, erofs)
		r.wantCode(1, true)
	}},
	{"04 writes through links", func(y *yard) {
		y.run(`echo x > out/sec; ln -s /etc e; echo x > e/troupe-test`, nil).wantErrors(erofs, erofs)
	}},
	{"05 hard link of a file outside", func(y *yard) {
		y.run(`ln $O/sec hl`, nil).wantErrors(exdev)
	}},
	{"06 metadata", func(y *yard) {
		y.run(`echo x > .git/hooks/pre-commit; rm .git/config; rmdir .git/hooks; mv .git g`, nil).wantErrors(erofs, erofs, erofs+"|"+ebusy, ebusy)
		y.run(`rm -rf .git; cat .git/config`, nil).wantOut("[core]\n")
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
		p := y.start(`echo up; sleep 1000`, nil)
		p.awaitOutput("stdout", "up\n")
		y.c.call("process/terminate", obj{"processId": p.id})
		y.end(p)
		y.check()
		// Somebody outside kills the jail.
		p = y.start(`trap '' TERM; echo up; setsid sleep 1000 & sleep 1000`, nil)
		p.awaitOutput("stdout", "up\n")
		if _, err := os.Lstat(y.w + "/.git"); err != nil {
			y.t.Errorf("while the program runs there is no placeholder: %v", err)
		}
		if err := unix.Kill(p.pid(), unix.SIGKILL); err != nil {
			y.t.Error(err)
		}
		if r := y.end(p); r.code != 137 || r.signal != "SIGKILL" {
			y.t.Errorf("after the SIGKILL of its jail: %d %q, want 137 SIGKILL", r.code, r.signal)
		}
		y.check()
	}},
	{"08 moves the workspace", func(y *yard) {
		y.wantTries(nil, "rename "+y.w+" "+filepath.Dir(y.w)+"/ws2: EBUSY|EROFS|EXDEV", "rename "+y.w+" /tmp/troupe-"+filepath.Base(filepath.Dir(y.w))+": EBUSY|EROFS|EXDEV")
	}},
	{"09 exchanges metadata", func(y *yard) {
		y.wantTries(nil, "exchange "+y.w+"/.git "+y.w+"/a: EBUSY", "exchange "+y.w+"/a "+y.w+"/.codex: EBUSY")
	}},
	{"10 mounts", func(y *yard) {
		y.wantTries(nil, "umount .git: EPERM", "umount .codex: EPERM", "remount /: EPERM", "remount .git: EPERM", "tmpfs a: EPERM", "fsopen: EPERM",
			"opentree a: EPERM", "setattr .git: EPERM", "pivot a: EPERM")
		y.run(`umount -l .git; mount -o remount,rw,bind /; mount -t tmpfs t a; echo x >.git/x`, nil).wantCode(2, true)
	}},
	{"11 namespaces", func(y *yard) {
		y.wantTries(nil, "unshare-user: EPERM", "unshare-mount: EPERM", "clone3: ENOSYS", "setns /proc/self/ns/mnt: EPERM", "chroot /tmp: EPERM", "handle: EPERM")
		y.run(`unshare -Urm touch ran; unshare -m touch ran; nsenter -t 1 -m touch ran; chroot /tmp touch ran; ls`, nil).wantOut("a\nf\nout\n")
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
		results := y.try(nil, fmt.Sprint("kill ", bystander), fmt.Sprint("kill ", y.warden.cmd.Process.Pid), fmt.Sprint("kill ", beside.pid()))
		for try, result := range results {
			if result != "ESRCH" {
				y.t.Errorf("%s: %s, want ESRCH", try, result)
			}
		}
		for who, pid := range map[string]int{"the server": y.warden.cmd.Process.Pid, "a process beside": bystander, "another sandbox": beside.pid()} {
			if !alive(pid) {
				y.t.Errorf("after kill -9 -1 in a sandbox %s is dead", who)
			}
		}
		y.c.call("process/terminate", obj{"processId": beside.id})
		y.end(beside)
	}},
	{"14 processes", func(y *yard) {
		r := y.run(`ls -d /proc/$HOSTPID >&2; ls /proc | grep -c '^[0-9]'; echo $PPID`, nil)
		var n, parent int
		fmt.Sscan(r.out, &n, &parent)
		if y.warden.oldProc {
			r.wantErrors(fmt.Sprint("/proc/", y.warden.cmd.Process.Pid))
		} else if r.wantErrors(noent); n < 1 || n >= 10 {
			y.t.Errorf("%d processes, want less than 10", n)
		}
		if parent != 1 {
			y.t.Errorf("the parent is %d, want 1", parent)
		}
	}},
	{"14 what processes outside have", func(y *yard) {
		beside := y.start(`echo up; sleep 1000`, nil) // another sandbox of the same server
		beside.awaitOutput("stdout", "up\n")
		closed, written := "ENOENT", "ENOENT"
		if y.warden.oldProc {
			closed, written = "EACCES|EPERM", "EROFS|EACCES"
		}
		for _, pid := range []int{y.bystander(), y.warden.cmd.Process.Pid, os.Getpid(), beside.pid()} {
			var wants []string
			for _, name := range []string{"environ", "mem", "auxv", "maps", "exe", "fd/0", "ns/mnt"} {
				wants = append(wants, fmt.Sprintf("read /proc/%d/%s: %s", pid, name, closed), fmt.Sprintf("read /proc/%d/task/%d/%s: %s", pid, pid, name, closed))
			}
			for _, name := range []string{"cwd/", "root/", "map_files", "fdinfo"} {
				wants = append(wants, fmt.Sprintf("list /proc/%d/%s: %s", pid, name, closed))
			}
			for _, name := range []string{"comm", "oom_score_adj", "mem", "uid_map"} {
				wants = append(wants, fmt.Sprintf("write /proc/%d/%s: %s", pid, name, written))
			}
			for _, network := range []string{"restricted", "enabled"} {
				y.wantTries(obj{"permissions": workspace(network)}, wants...)
			}
		}
		if y.warden.oldProc {
			y.wantTries(nil, "write /proc/self/comm: EROFS", "write /proc/self/oom_score_adj: EROFS")
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
	{"16 unix sockets", func(y *yard) {
		stream, abstract := y.listen("unix", y.o+"/stream"), y.listen("unix", "@troupe-"+newToken(y.t))
		datagram := y.listen("unixgram", y.w+"/datagram")
		y.prepared()
		y.wantTries(nil, "unix "+stream+": EPERM", "unix "+abstract+": EPERM", "datagram "+datagram+": EPERM", "pair "+datagram+": EPERM")
	}},
	{"17 system calls with a history", func(y *yard) {
		for _, network := range []string{"restricted", "enabled"} {
			y.wantTries(obj{"permissions": workspace(network)}, "iouring: EPERM", "keyctl: EPERM", "addkey: EPERM", "bpf: EPERM", "perf: EPERM", "userfaultfd: EPERM", "x32: ENOSYS")
		}
	}},
	{"17 system call of another architecture", func(y *yard) {
		if runtime.GOARCH != "amd64" {
			y.t.Skip("only amd64 has another architecture's calls")
		}
		argv := probeArgv(y.t, "int80")
		if err := exec.Command(argv[0], argv[1:]...).Run(); err != nil { // some hypervisors refuse the instruction
			y.t.Skipf("no call of i386 works here, without a sandbox either: %v", err)
		}
		for _, permissions := range []obj{readOnly(), workspace("restricted"), workspace("enabled"), {"type": "external", "network": "restricted"}} {
			r := y.run("", obj{"argv": argv, "permissions": permissions})
			r.wantCode(128+int64(unix.SIGSYS), true)
			if r.signal != "SIGSYS" || r.out != "" {
				y.t.Errorf("signal %q, stdout %q; want SIGSYS before the probe prints", r.signal, r.out)
			}
		}
	}},
	{"18 FIFO outside", func(y *yard) {
		fifo, err := os.OpenFile(y.o+"/fifo", os.O_RDWR|unix.O_NONBLOCK, 0)
		if err != nil {
			y.t.Fatal(err)
		}
		defer fifo.Close()
		r := y.run(`timeout 20 sh -c 'echo x > $O/fifo'`, nil)
		needs.Landlock(y.t, 2) // else the FIFO is open: docs/SANDBOX.md
		r.wantErrors(eacce)
		r.wantCode(2, true)
		var pending int
		if pending, err = unix.IoctlGetInt(int(fifo.Fd()), unix.TIOCINQ); pending != 0 || err != nil {
			y.t.Errorf("%d bytes arrived in the FIFO, %v", pending, err)
		}
	}},
	{"19 devices", func(y *yard) {
		r := y.run(`mknod d b 254 0; ls /dev`, nil)
		r.wantErrors(eperm)
		known := strings.Fields("console core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero")
		for _, name := range strings.Fields(r.out) {
			if !slices.Contains(known, name) {
				y.t.Errorf("/dev has %s", name)
			}
		}
		y.wantTries(nil, "mknod "+y.w+"/d: EPERM")
		y.run(`head -c 3 /dev/zero | od -An -tx1; head -c 8 /dev/urandom | wc -c; cp f /dev/full`, nil).wantErrors("No space left on device")
	}},
	{"20 settings of the kernel", func(y *yard) {
		refusals := ": EROFS|ENOENT"
		if y.warden.uid != 0 {
			refusals += "|EACCES"
		}
		var tries []string
		for _, path := range []string{"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity",
			"/sys/kernel/mm/transparent_hugepage/enabled", "/sys/power/state", "/sys/kernel/profiling"} {
			tries = append(tries, "write "+path+refusals)
		}
		y.wantTries(nil, tries...)
		y.wantTries(obj{"permissions": workspace("enabled")}, tries...)
		// Of these, some show /dev/null, where nothing can be written to the kernel.
		y.run(`for f in /proc/kcore /proc/kmsg /proc/keys /proc/timer_list; do head -c 1 $f 2>/dev/null; done`, nil).wantOut("")
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
	{"23 denied paths", func(y *yard) {
		denied := obj{"permissions": workspace("restricted", pathEntry("deny", y.w+"/a"), pathEntry("deny", y.w+"/f"))}
		y.run(`ls a; cat a/s f; ln f hl; mv a z`, denied).wantErrors(eacce, eacce, eacce, exdev+"|"+eperm+"|"+ebusy, ebusy)
		y.run(`rm -rf a f; mv f z; stat -c %a a f`, denied).wantOut("0\n0\n")
		y.wantTries(denied, "read "+y.w+"/f: EACCES", "write "+y.w+"/f: EACCES", "exchange "+y.w+"/f "+y.w+"/out: EBUSY")
		y.run(`cat a/s f`, nil).wantOut("inner\nfile\n")
		r := y.run(`cat f`, obj{"permissions": workspace("restricted", obj{"access": "none", "path": obj{"type": "path", "path": fileURI(y.w + "/f")}})})
		r.wantErrors(eacce)
		r.wantCode(1, true)
	}},
	{"24 denied directory outside", func(y *yard) {
		r := y.run(`cat out/sec /proc/self/root$O/sec /proc/1/root$O/sec; ls $O; cat /proc/self/cwd/out/sec`, obj{"permissions": workspace("restricted", pathEntry("deny", y.o))})
		r.wantOut("")
		if strings.Contains(r.errors, "secret") {
			y.t.Error(r.errors)
		}
		r.wantErrors(eacce, eacce, eacce, eacce, eacce)
	}},
	{"25 narrower and wider", func(y *yard) {
		y.warden.mkdir(y.t, y.w, "a/b")
		for access, want := range map[string]string{"read": erofs, "deny": eacce} {
			r := y.run(`touch a/x; touch a/b/`+access, obj{"permissions": workspace("restricted", pathEntry(access, y.w+"/a"), pathEntry("write", y.w+"/a/b"))})
			r.wantErrors(want + "|" + erofs)
			if _, err := os.Stat(y.w + "/a/b/" + access); err != nil {
				y.t.Errorf("with %s around it: %v", access, err)
			}
		}
		y.run(`ls a`, obj{"permissions": workspace("restricted", pathEntry("deny", y.w+"/a"), pathEntry("write", y.w+"/a/b"))}).wantErrors(eacce)
		y.run(`echo x >f && cat f`, obj{"permissions": workspace("restricted", pathEntry("read", y.w))}).wantOut("x\n") // write > read
		y.run(`cat f`, obj{"permissions": workspace("restricted", pathEntry("deny", y.w)), "cwd": "file:///"}).wantOut("")
	}},
	{"26 minimal", func(y *yard) {
		minimal := managed("restricted", specialEntry("read", "minimal"), specialEntry("write", "project_roots"))
		script, wants := `touch w; for d in $O /home /var /root /srv; do case $W in $d/*) ;; *) ls $d;; esac; done`, []string{noent, noent, noent, noent, noent}
		for _, dir := range []string{"/home/", "/var/", "/root/", "/srv/"} {
			if strings.HasPrefix(y.w, dir) {
				wants = wants[1:]
			}
		}
		y.run(script, obj{"permissions": minimal}).wantErrors(wants...)
		if _, err := os.Stat(y.w + "/w"); err != nil {
			y.t.Error(err)
		}
		// Each directory above the workspace shows the next one alone.
		for dir := filepath.Dir(y.w); dir != "/"; dir = filepath.Dir(dir) {
			rest, _ := strings.CutPrefix(y.w, dir+"/")
			next, _, _ := strings.Cut(rest, "/")
			y.run(`ls -A `+dir, obj{"permissions": minimal}).wantOut(next + "\n")
		}
		y.run(`cat .git/config; echo x >.git/config; cat a/s`, obj{"permissions": minimal}).wantOut("[core]\ninner\n")
	}},
	{"27 metadata that is a link", func(y *yard) {
		if err := os.RemoveAll(y.w + "/.git"); err != nil {
			y.t.Fatal(err)
		}
		if err := os.Symlink(y.o, y.w+"/.git"); err != nil {
			y.t.Fatal(err)
		}
		y.prepared()
		if text := y.wantRefused(-32602, nil); !strings.Contains(text, ".git") {
			y.t.Errorf("the error does not name .git: %s", text)
		}
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
	{"31 metadata that is a file", func(y *yard) {
		if err := os.RemoveAll(y.w + "/.git"); err != nil {
			y.t.Fatal(err)
		}
		y.file(y.w+"/.git", "gitdir: gd\n")
		y.warden.mkdir(y.t, y.w, "gd")
		y.file(y.w+"/gd/config", "[core]\n")
		y.prepared()
		y.run(`echo x > gd/config; mv gd g2; echo x > .git; mv .git g`, nil).wantErrors(erofs, ebusy, erofs, ebusy)
		y.run(`cat .git gd/config`, nil).wantOut("gitdir: gd\n[core]\n")
	}},
	{"33 ends", func(y *yard) {
		for _, end := range []struct {
			script, signal string
			code           int64
		}{{"kill -9 $$", "SIGKILL", 137}, {"kill -SEGV $$", "SIGSEGV", 139}, {"kill $$", "SIGTERM", 143}, {"exit 1", "", 1}, {"exit 255", "", 255}} {
			if r := y.run(end.script, nil); r.code != end.code || r.signal != end.signal {
				y.t.Errorf("%s: exit code %d, signal %q; want %d, %q", end.script, r.code, r.signal, end.code, end.signal)
			}
		}
		for _, program := range []string{"nosuchprog", y.w + "/nosuchprog", y.w + "/f", y.w} {
			if code, text := y.refused("", obj{"argv": []string{program}}); code != -32603 || !strings.Contains(text, filepath.Base(program)) {
				y.t.Errorf("the program %s: %d %s, want -32603 and the name", program, code, text)
			}
		}
		y.file(y.w+"/script", "no interpreter\n")
		if err := os.Chmod(y.w+"/script", 0o755); err != nil {
			y.t.Fatal(err)
		}
		if code, text := y.refused("", obj{"argv": []string{y.w + "/script"}}); code != -32603 {
			y.t.Errorf("a file that is not a program: %d %s, want -32603", code, text)
		}
		if code, text := y.refused("", obj{"permissions": workspace("restricted", pathEntry("deny", y.o)), "cwd": fileURI(y.o)}); code != -32602 && code != -32603 {
			y.t.Errorf("a working directory that is denied: %d %s", code, text)
		}
	}},
	{"34 terminal", func(y *yard) {
		const trap = `trap 'echo got; exit 7' INT; echo set; while :; do sleep 0.05; done`
		p := y.start(trap, obj{"tty": true})
		p.awaitOutput("pty", "set")
		p.write("\x03")
		if r := y.end(p); r.code != 7 || !strings.Contains(r.out, "got") {
			y.t.Errorf("after ^C: %d %q, want 7 and got", r.code, r.out)
		}
		for _, tty := range []bool{false, true} {
			p = y.start(trap, obj{"tty": tty})
			p.awaitOutput(map[bool]string{false: "stdout", true: "pty"}[tty], "set")
			y.c.call("process/signal", obj{"processId": p.id, "signal": "interrupt"})
			if r := y.end(p); r.code != 7 || !strings.Contains(r.out, "got") {
				y.t.Errorf("after process/signal, terminal %v: %d %q, want 7 and got", tty, r.code, r.out)
			}
		}
		p = y.start("", obj{"argv": []string{"/bin/bash", "--norc", "--noprofile", "-i"}, "tty": true, "env": obj{"PS1": "ready> ", "HISTFILE": ""}})
		p.awaitOutput("pty", "ready> ")
		p.write("sleep 1000; echo after-$?\n")
		eventually(y.t, "sleep runs in the foreground", func() bool { return hasChild(y.warden.cmd.Process.Pid, "sleep") })
		p.write("\x03")
		p.write("echo status-$?\n")
		p.awaitOutput("pty", "status-130")
		p.write("sleep 1000 &\njobs; echo listed-$?\n")
		p.awaitOutput("pty", "listed-0")
		p.write("tty; exit 3\n")
		r := y.end(p)
		if r.code != 3 || !strings.Contains(r.out, "Running") || strings.Contains(r.out, "no job control") || strings.Contains(r.out, "not a tty") {
			y.t.Errorf("bash ended with %d: %q", r.code, r.out)
		}
	}},
	{"35 values that nobody knows", func(y *yard) {
		root := specialEntry("read", "root")
		with := func(name string, value any) obj {
			sandbox := sandboxOf(workspace("restricted"), y.w)
			sandbox[name] = value
			return obj{"sandbox": sandbox}
		}
		permissions := func(text string) obj {
			var p obj
			if err := json.Unmarshal([]byte(text), &p); err != nil {
				y.t.Fatal(err)
			}
			return obj{"permissions": p}
		}
		fs := func(entry string) obj {
			return permissions(`{"type":"managed","network":"restricted","file_system":{"type":"restricted","entries":[` + entry + `]}}`)
		}
		for what, more := range map[string]obj{
			"kind":                          fs(`{"path":{"type":"special","value":{"kind":"home"}},"access":"read"}`),
			"access":                        fs(`{"path":{"type":"special","value":{"kind":"root"}},"access":"execute"}`),
			"type of a path":                fs(`{"path":{"type":"regexp","pattern":"."},"access":"read"}`),
			"native path":                   fs(`{"path":{"type":"path","path":"/etc"},"access":"read"}`),
			"path of another system":        fs(`{"path":{"type":"path","path":"file:///C:/x"},"access":"write"}`),
			"missing access":                fs(`{"path":{"type":"special","value":{"kind":"root"}}}`),
			"missing_path_behavior":         fs(`{"path":{"type":"special","value":{"kind":"root"}},"access":"read","missing_path_behavior":"create"}`),
			"member of an entry":            fs(`{"path":{"type":"special","value":{"kind":"root"}},"access":"read","except":["/etc"]}`),
			"member of a value":             fs(`{"path":{"type":"special","value":{"kind":"root","except":"x"}},"access":"read"}`),
			"glob that is read":             fs(`{"path":{"type":"glob_pattern","pattern":"/etc/*"},"access":"read"}`),
			"glob that is written":          fs(`{"path":{"type":"glob_pattern","pattern":"a/*"},"access":"write"}`),
			"glob of everything":            fs(`{"path":{"type":"glob_pattern","pattern":"/**"},"access":"deny"}`),
			"glob with a bad class":         fs(`{"path":{"type":"glob_pattern","pattern":"a/[z-a]"},"access":"deny"}`),
			"deny of an unknown special":    fs(`{"path":{"type":"special","value":{"kind":"unknown","path":"x"}},"access":"deny"}`),
			"absolute subpath":              fs(`{"path":{"type":"special","value":{"kind":"project_roots","subpath":"/etc"}},"access":"write"}`),
			"subpath that leads out":        fs(`{"path":{"type":"special","value":{"kind":"project_roots","subpath":"../o"}},"access":"write"}`),
			"network":                       permissions(`{"type":"managed","network":"limited","file_system":{"type":"restricted","entries":[]}}`),
			"missing network":               permissions(`{"type":"managed","file_system":{"type":"restricted","entries":[]}}`),
			"missing file_system":           permissions(`{"type":"managed","network":"restricted"}`),
			"missing entries":               permissions(`{"type":"managed","network":"restricted","file_system":{"type":"restricted"}}`),
			"camel case":                    permissions(`{"type":"managed","network":"restricted","fileSystem":{"type":"restricted","entries":[]}}`),
			"type of file_system":           permissions(`{"type":"managed","network":"restricted","file_system":{"type":"limited","entries":[]}}`),
			"type":                          permissions(`{"type":"open"}`),
			"missing type":                  permissions(`{}`),
			"unknown member in permissions": permissions(`{"type":"managed","network":"restricted","file_system":{"type":"unrestricted"},"devices":"none"}`),
			"glob_scan_max_depth":           permissions(`{"type":"managed","network":"restricted","file_system":{"type":"restricted","entries":[],"glob_scan_max_depth":0}}`),
			"useLegacyLandlock":             with("useLegacyLandlock", true),
			"useLegacyLandlock of null":     with("useLegacyLandlock", nil),
			"windowsSandboxLevel":           with("windowsSandboxLevel", "high"),
			"windowsSandboxLevel mxc":       with("windowsSandboxLevel", "mxc"),
			"no windowsSandboxLevel":        with("windowsSandboxLevel", nil),
			"sandboxOverride":               with("sandboxOverride", "always"),
			"workspaceRoots of null":        with("workspaceRoots", nil),
			"workspaceRoots":                with("workspaceRoots", []any{"/etc"}),
			"permissions of null":           with("permissions", nil),
			"sandbox of text":               {"sandbox": "workspace-write"},
			"sandbox of a mode":             {"sandbox": obj{"mode": "workspace-write"}},
			"enforceManagedNetwork":         {"enforceManagedNetwork": true},
			"managedNetwork":                {"managedNetwork": obj{"loopbackPorts": []int{80}, "allowLocalBinding": false}},
			"networkProxy":                  {"networkProxy": obj{"proxy": "http://127.0.0.1:1"}},
		} {
			if text := y.wantRefused(-32602, more); y.t.Failed() {
				y.t.Fatalf("%s: %s", what, text)
			}
		}
		// Members of sandbox itself that nobody knows, and special paths that nobody knows, grant nothing.
		more := sandboxOf(managed("restricted", root, specialEntry("write", "slash_tmp"), obj{"access": "write", "path": obj{"type": "special", "value": obj{"kind": "unknown", "path": "x"}}}), y.w)
		more["later"] = true
		y.run(`echo x > f`, obj{"sandbox": more}).wantErrors(erofs)
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
	{"39 two sandboxes in a workspace", func(y *yard) {
		stays := y.start(`echo up; read x; mkdir .codex; echo x >.codex/x; mkdir .agents`, obj{"pipeStdin": true})
		stays.awaitOutput("stdout", "up\n")
		for range 3 {
			y.run(`mkdir .codex`, nil).wantErrors(exist)
		}
		p := y.start(`echo up; sleep 1000`, nil)
		p.awaitOutput("stdout", "up\n")
		y.c.call("process/terminate", obj{"processId": p.id})
		y.end(p)
		stays.write("go on\n")
		y.end(stays).wantErrors(exist, erofs, exist)
	}},
	{"40 sandbox in a sandbox", func(y *yard) {
		bin, err := troupeBinary()
		if err != nil {
			y.t.Fatal(err)
		}
		for _, network := range []string{"restricted", "enabled"} {
			inner := y.start("", obj{"argv": []string{bin, "serve", "--listen", "stdio", "--framing", "lines"}, "pipeStdin": true, "permissions": workspace(network), "env": obj{"HOME": y.w, "XDG_RUNTIME_DIR": y.w}})
			if y.warden.oldProc { // where no server finds its programs
				if r := y.end(inner); r.code != 1 || !strings.Contains(r.errors, "/proc is of another PID namespace") {
					y.t.Errorf("a server with the /proc of another PID namespace: exit code %d, %s", r.code, r.errors)
				}
				continue
			}
			inner.write(jsonText(obj{"id": 1, "method": "initialize", "params": obj{"clientName": "tests"}}) + "\n" + jsonText(obj{"method": "initialized", "params": obj{}}) + "\n")
			inner.write(jsonText(obj{"id": 2, "method": "process/start", "params": y.params("inner", `: >"$W/ran"`, nil)}) + "\n")
			answer := inner.awaitOutput("stdout", `"id":2`)
			y.c.awaitFact("the whole answer", func() bool {
				answer = inner.output("stdout")
				return strings.HasSuffix(answer, "\n") && strings.Contains(answer, `"id":2`)
			})
			if !strings.Contains(answer, `-32603`) {
				y.t.Errorf("a server in a sandbox answered: %s", answer)
			}
			if _, err := os.Lstat(y.w + "/ran"); err == nil {
				y.t.Error("a server in a sandbox ran a program without one")
			}
			y.c.call("process/terminate", obj{"processId": inner.id})
			y.end(inner)
		}
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

// listen listens on a unix socket until the test ends, and wants that nobody comes.
func (y *yard) listen(network, name string) string {
	y.t.Helper()
	var came atomic.Int32
	var close func() error
	done := make(chan struct{})
	if network == "unixgram" {
		socket, err := net.ListenUnixgram(network, &net.UnixAddr{Net: network, Name: name})
		if err != nil {
			y.t.Fatal(err)
		}
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				if _, _, err := socket.ReadFrom(make([]byte, 16)); err != nil {
					return
				}
				came.Add(1)
			}
		}()
		close = socket.Close
	} else {
		socket, err := net.Listen(network, name)
		if err != nil {
			y.t.Fatal(err)
		}
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				c, err := socket.Accept()
				if err != nil {
					return
				}
				came.Add(1)
				c.Close()
			}
		}()
		close = socket.Close
	}
	if !strings.HasPrefix(name, "@") {
		if err := os.Chmod(name, 0o777); err != nil {
			y.t.Fatal(err)
		}
	}
	y.t.Cleanup(func() {
		close()
		<-done
		if came.Load() > 0 {
			y.t.Errorf("a confined program reached %s", name)
		}
	})
	return name
}

// hasChild reports whether a descendant of a process has the name.
func hasChild(parent int, name string) bool {
	for _, pid := range childrenOf(parent) {
		if comm, _ := os.ReadFile(inProc(pid, "comm")); strings.TrimSpace(string(comm)) == name || hasChild(pid, name) {
			return true
		}
	}
	return false
}

// TestSandboxSubmounts is row 30: what is mounted below a directory is as writable as the directory. The server has a
// mount namespace of its own, where the test may mount.
func TestSandboxSubmounts(t *testing.T) {
	needs.Mount(t)
	t.Parallel()
	eachUser(t, func(t *testing.T, uid int) {
		w := newWarden(t, uid)
		y := w.yard(t)
		w.mkdir(t, y.o, "m")
		w.mkdir(t, y.w, "m")
		y.prepared()
		startMounted(t, w, `mount -t tmpfs -o mode=777 none "$0/o/m" && mount -t tmpfs -o mode=777 none "$0/w/m" && echo kept >"$0/o/m/x"`, filepath.Dir(y.w))
		y.c = w.in(t).session(nil)
		r := y.run(`echo x > $O/m/x; cat $O/m/x; echo mine > m/x; cat m/x`, nil)
		r.wantOut("kept\nmine\n")
		r.wantErrors(erofs)
		y.run(`echo x > m/x; cat $O/m/x`, obj{"permissions": readOnly()}).wantErrors(erofs)
		y.run(`ls $O/m; cat $O/m/x`, obj{"permissions": workspace("restricted", pathEntry("deny", y.o))}).wantErrors(eacce, eacce)
		y.c.call("session/close", obj{})
		y.check()
	})
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
	eachUser(t, func(t *testing.T, uid int) {
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
		y.c.call("session/close", obj{})
		y.check()
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
	eachUser(t, func(t *testing.T, uid int) {
		// Only the kernel may end the programs. No other server finds them: they have neither a cgroup nor a marker.
		w := startWarden(t, uid, "--containment", "group")
		y := w.yard(t)
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
		y.c.call("session/close", obj{})
		y.check()
	})
}

// TestSandboxFiles is row 36: the calls of fs/* obey the same policy.
func TestSandboxFiles(t *testing.T) {
	t.Parallel()
	eachUser(t, func(t *testing.T, uid int) {
		w := startWarden(t, uid)
		y := w.yard(t)
		sandbox := sandboxOf(workspace("restricted", pathEntry("deny", y.w+"/a")), y.w)
		call := func(method string, params obj) obj {
			params["sandbox"] = sandbox
			return y.c.reply(y.c.request(method, params))
		}
		want := func(code int64, text, method string, params obj) {
			t.Helper()
			if e := errorOf(call(method, params)); num(e["code"]) != code || !strings.Contains(fmt.Sprint(e["message"]), text) {
				t.Errorf("%s %s: %s, want %d %s", method, jsonText(params), jsonText(e), code, text)
			}
		}
		ok := func(method string, params obj) obj {
			t.Helper()
			answer := call(method, params)
			if e := errorOf(answer); e != nil {
				t.Fatalf("%s %s: %s", method, jsonText(params), jsonText(e))
			}
			return resultOf(answer)
		}
		uri := func(path ...string) string { return fileURI(path...) }
		write := func(path ...string) obj { return obj{"path": uri(path...), "dataBase64": b64("text\n")} }
		ok("fs/writeFile", write(y.w, "new"))
		ok("fs/createDirectory", obj{"path": uri(y.w, "dir/below"), "recursive": true})
		ok("fs/copy", obj{"sourcePath": uri(y.o, "sec"), "destinationPath": uri(y.w, "copy"), "recursive": false})
		if text, err := os.ReadFile(y.w + "/copy"); string(text) != "secret\n" {
			t.Errorf("the copy has %q, %v", text, err)
		}
		if r := ok("fs/readFile", obj{"path": uri(y.w, "new")}); r["dataBase64"] != b64("text\n") {
			t.Errorf("fs/readFile: %s", jsonText(r))
		}
		ok("fs/open", obj{"handleId": "h", "path": uri(y.w, "opened"), "mode": "replace"})
		y.c.call("fs/writeBlock", obj{"handleId": "h", "offset": 0, "chunk": b64("block\n")})
		y.c.call("fs/close", obj{"handleId": "h"})
		if text, err := os.ReadFile(y.w + "/opened"); string(text) != "block\n" {
			t.Errorf("the file written by blocks has %q, %v", text, err)
		}
		ok("fs/remove", obj{"path": uri(y.w, "dir"), "recursive": true})
		const readOnlyError, deniedError = "Read-only file system (os error 30)", "Permission denied (os error 13)"
		for _, dir := range []string{y.o, y.w + "/out", y.w + "/.git", y.w + "/.codex"} {
			want(-32603, readOnlyError, "fs/writeFile", write(dir, "x"))
			want(-32603, readOnlyError, "fs/createDirectory", obj{"path": uri(dir, "x"), "recursive": false})
			want(-32603, readOnlyError, "fs/copy", obj{"sourcePath": uri(y.w, "f"), "destinationPath": uri(dir, "x"), "recursive": false})
			want(-32603, readOnlyError, "fs/open", obj{"handleId": "x", "path": uri(dir, "x"), "mode": "replace"})
		}
		for _, file := range []string{y.o + "/sec", y.w + "/out/sec", y.w + "/.git/config"} {
			want(-32603, readOnlyError, "fs/writeFile", write(file))
			want(-32603, readOnlyError, "fs/remove", obj{"path": uri(file)})
		}
		want(-32600, deniedError, "fs/writeFile", write(y.w, "a/x"))
		want(-32600, deniedError, "fs/readFile", obj{"path": uri(y.w, "a/s")})
		want(-32600, deniedError, "fs/readDirectory", obj{"path": uri(y.w, "a")})
		want(-32600, deniedError, "fs/open", obj{"handleId": "x", "path": uri(y.w, "a/s")})
		if e := errorOf(call("fs/remove", obj{"path": uri(y.w, "a"), "recursive": true})); e == nil {
			t.Error("fs/remove has removed a denied directory")
		}
		if e := errorOf(call("fs/remove", obj{"path": uri(y.w, ".git"), "recursive": true})); e == nil {
			t.Error("fs/remove has removed .git")
		}
		if text, err := os.ReadFile(y.w + "/a/s"); string(text) != "inner\n" {
			t.Errorf("the denied file has %q, %v", text, err)
		}
		want(-32004, "No such file or directory (os error 2)", "fs/readFile", obj{"path": uri(y.w, "none")})
		y.c.call("session/close", obj{})
		y.check()
	})
}

// TestSandboxFilesRace: while another process exchanges a directory with a link that leads out, calls about files through the name
// change only the directory.
func TestSandboxFilesRace(t *testing.T) {
	t.Parallel()
	eachUser(t, func(t *testing.T, uid int) {
		w := startWarden(t, uid)
		y := w.yard(t)
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
		y.c.call("session/close", obj{})
		y.check()
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
