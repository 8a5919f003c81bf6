//go:build amd64 || arm64

package jail

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
)

// These tests run this test binary again, as a jail and its program, with the argv[0] lockTest.
const lockTest = "troupe-lock-test"

// A lockCase is a stage of such a run, and all its parameters.
type lockCase struct {
	Stage   string // see init
	Network bool
	Work    string // a writable directory
	Outside string // a directory outside the policy
	Host    int    // the pid of the test, outside
	Same    int    // the pid of a process outside with the same user
	Socket  string // abstract name of a listening socket outside
	Foreign bool   // make a call of another architecture, at the end
	Time    bool   // tell how long lock took
	OldProc bool   // the kernel permits the user no new /proc
}

// results are the results of attempts: "ok", or the name of the errno.
type results map[string]string

func init() {
	if os.Args[0] != lockTest {
		return
	}
	runtime.LockOSThread()
	var c lockCase
	if err := json.Unmarshal([]byte(os.Args[1]), &c); err != nil {
		panic(err)
	}
	r := results{}
	switch c.Stage {
	case "user": // an ordinary user now: only then the namespaces
		c.Stage, c.Same = "jail", os.Getpid()
		if err := c.namespaced(os.Stdout); err != nil {
			panic(err)
		}
		os.Exit(0)
	case "userOnly":
		c.Stage, c.Same = "only", os.Getpid()
		if err := c.again(os.Stdout, nil); err != nil {
			panic(err)
		}
		os.Exit(0)
	case "jail":
		c.jail(r)
	case "only":
		must(lockOnly(c.plan()))
		c.Stage = "program"
		must(unix.Exec("/proc/self/exe", []string{lockTest, c.json()}, nil))
	case "program":
		c.program(r)
	case "scopes":
		c.scopes(r)
	case "thread":
		c.thread(r)
	}
	must(json.NewEncoder(os.Stdout).Encode(r))
	if c.Foreign {
		foreignCall()
	}
	os.Exit(0)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (c lockCase) json() string {
	b, err := json.Marshal(c)
	must(err)
	return string(b)
}

func (c lockCase) again(out *os.File, attr *syscall.SysProcAttr) error {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{lockTest, c.json()}
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = out, os.Stderr, attr
	return cmd.Run()
}

// namespaced is again as process 1 of new namespaces.
func (c lockCase) namespaced(out *os.File) error {
	attr := &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP},
	}
	if !c.Network {
		attr.Cloneflags |= unix.CLONE_NEWNET
	}
	return c.again(out, attr)
}

func (c lockCase) plan() *Plan {
	var st unix.Stat_t
	must(unix.Stat(c.Work, &st))
	return &Plan{oldProc: c.OldProc, Policy: sandbox.Policy{Files: c.Stage != "only", Network: c.Network, Root: sandbox.Read, Paths: []sandbox.Path{
		{Path: c.Work, Access: sandbox.Write, Kind: sandbox.Directory, Dev: uint64(st.Dev), Ino: st.Ino},
		{Path: c.Work + "/.codex", Access: sandbox.Read, Kind: sandbox.Missing},
	}}}
}

// ownProc gives the process its own /proc, if the kernel permits that.
func (c lockCase) ownProc() {
	must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	if !c.OldProc {
		must(unix.Mount("proc", "/proc", "proc", 0, ""))
	}
	must(unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// jail is process 1: locks itself, and runs the program.
func (c lockCase) jail(r results) {
	c.ownProc()
	started := time.Now()
	must(lock(c.plan()))
	took := time.Since(started)

	// All threads, also later ones, have the filter.
	_, _, cgo := syscall.AllThreadsSyscall(unix.SYS_GETPID, 0, 0, 0)
	tasks, err := os.ReadDir("/proc/self/task")
	must(err)
	for _, task := range tasks {
		s := status("/proc/self/task/" + task.Name() + "/status")
		want := "1 2"
		if got := s["NoNewPrivs"] + " " + s["Seccomp"]; got != want {
			r["filter of the threads of the jail"] = "thread " + task.Name() + " has " + got
		}
		if cgo == 0 && (s["CapEff"] != noCaps || s["CapPrm"] != noCaps) {
			r["capabilities of the threads of the jail"] = "thread " + task.Name() + " has " + s["CapPrm"]
		}
	}
	if c.Time {
		fmt.Fprintf(os.Stderr, "lock took %v\n", took)
	}
	p := c
	p.Stage = "program"
	must(json.NewEncoder(os.Stdout).Encode(r))
	if err := p.again(os.Stdout, nil); err != nil {
		fmt.Printf("{\"end\": %q}\n", err.Error())
	}
	os.Exit(0)
}

const noCaps = "0000000000000000"

// status returns the fields of a status file of proc(5).
func status(path string) map[string]string {
	data, err := os.ReadFile(path)
	must(err)
	fields := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		fields[name] = value
	}
	return fields
}

func (r results) call(name string, number uintptr, args ...uintptr) uintptr {
	var a [6]uintptr
	copy(a[:], args)
	v, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
	r.note(name, errno)
	return v
}

func (r results) note(name string, err error) {
	switch errno, isErrno := err.(syscall.Errno); {
	case err == nil, isErrno && errno == 0:
		r[name] = "ok"
	case isErrno:
		r[name] = unix.ErrnoName(errno)
	default:
		var errno syscall.Errno
		if e, ok := err.(interface{ Unwrap() error }); ok {
			errno, _ = e.Unwrap().(syscall.Errno)
		}
		r[name] = unix.ErrnoName(errno)
	}
}

func (r results) write(name, path string, flags int) {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|flags, 0o666)
	if err == nil {
		unix.Close(fd)
	}
	r.note(name, err)
}

// program makes the attempts of a jailed program.
func (c lockCase) program(r results) {
	s := status("/proc/self/status")
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"} {
		r[set] = s[set]
	}
	r["prctl securebits"] = errnoOf(unix.Prctl(unix.PR_SET_SECUREBITS, 0, 0, 0, 0))
	r["capset"] = errnoOf(unix.Capset(&capHeader, &(&[2]unix.CapUserData{{Effective: 1, Permitted: 1}})[0]))

	c.sockets(r)

	null := uintptr(0)
	for name, number := range map[string]uintptr{
		"mount": unix.SYS_MOUNT, "umount2": unix.SYS_UMOUNT2, "pivot_root": unix.SYS_PIVOT_ROOT, "open_tree": unix.SYS_OPEN_TREE,
		"open_tree_attr": unix.SYS_OPEN_TREE_ATTR, "move_mount": unix.SYS_MOVE_MOUNT, "fsopen": unix.SYS_FSOPEN,
		"fsconfig": unix.SYS_FSCONFIG, "fsmount": unix.SYS_FSMOUNT, "fspick": unix.SYS_FSPICK, "mount_setattr": unix.SYS_MOUNT_SETATTR,
		"add_key": unix.SYS_ADD_KEY, "request_key": unix.SYS_REQUEST_KEY, "keyctl": unix.SYS_KEYCTL, "bpf": unix.SYS_BPF,
		"perf_event_open": unix.SYS_PERF_EVENT_OPEN, "userfaultfd": unix.SYS_USERFAULTFD, "open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT,
		"io_uring_setup": unix.SYS_IO_URING_SETUP, "io_uring_enter": unix.SYS_IO_URING_ENTER, "io_uring_register": unix.SYS_IO_URING_REGISTER,
		"syslog": unix.SYS_SYSLOG, "setns": unix.SYS_SETNS, "clone3": unix.SYS_CLONE3, "process_vm_readv": unix.SYS_PROCESS_VM_READV,
		"process_vm_writev": unix.SYS_PROCESS_VM_WRITEV, "pidfd_getfd": unix.SYS_PIDFD_GETFD, "fanotify_init": unix.SYS_FANOTIFY_INIT,
		"kcmp": unix.SYS_KCMP, "process_madvise": unix.SYS_PROCESS_MADVISE, "quotactl": unix.SYS_QUOTACTL, "acct": unix.SYS_ACCT,
	} {
		r.call(name, number, null-1, null-1, null-1, null-1, null-1) // the kernel itself refuses these arguments otherwise
	}
	r.call("x32", 1<<30|unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM)
	r.call("newer call", lastCall+1)
	r.call("unshare user", unix.SYS_UNSHARE, unix.CLONE_NEWUSER)
	r.call("unshare files", unix.SYS_UNSHARE, unix.CLONE_FILES)
	r.note("clone user", forkWith(unix.CLONE_NEWUSER))
	r.note("fork", forkWith(0))
	r.call("ptrace attach 1", unix.SYS_PTRACE, unix.PTRACE_ATTACH, 1)
	r.call("ioctl TIOCSTI", unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&[]byte("x")[0])))
	r.call("ioctl TIOCLINUX", unix.SYS_IOCTL, 0, unix.TIOCLINUX)
	r.call("chroot", unix.SYS_CHROOT, uintptr(unsafe.Pointer(&[]byte("/tmp\x00")[0])))

	for _, name := range []string{"mem", "root", "environ", "fd/0", "ns/user", "maps"} {
		for who, pid := range map[string]int{"1": 1, "same": c.Same} {
			f, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, name))
			if err == nil {
				_, err = f.Read(make([]byte, 1))
				if name == "root" {
					_, err = f.Readdirnames(1)
				}
				f.Close()
			}
			r["/proc/"+who+"/"+name] = "refused"
			if err == nil {
				r["/proc/"+who+"/"+name] = "ok"
			}
		}
	}
	r.note("kill host", unix.Kill(c.Host, 0))
	if c.Host != c.Same {
		r.note("kill same", unix.Kill(c.Same, 0))
	}

	r.write("write work", c.Work+"/new", unix.O_CREAT)
	r.write("write outside", c.Outside+"/sec", 0)
	r.write("truncate outside", c.Outside+"/sec", unix.O_TRUNC)
	r.write("create outside", c.Outside+"/new", unix.O_CREAT)
	r.write("FIFO outside", c.Outside+"/fifo", 0)
	r.write("/dev/null", "/dev/null", 0)
	r.write("/proc/self/comm", "/proc/self/comm", 0)
	r.note("truncate(2) outside", unix.Truncate(c.Outside+"/sec", 0))
	r.note("mkdir outside", unix.Mkdir(c.Outside+"/d", 0o777))
	r.note("symlink outside", unix.Symlink("/etc", c.Outside+"/l"))
	r.note("remove outside", unix.Unlink(c.Outside+"/victim"))
	r.note("socket file outside", unix.Mknod(c.Outside+"/s", unix.S_IFSOCK|0o666, 0))
	r.note("chmod", unix.Chmod(c.Work+"/new", 0o640))
	r.note("chmod set-user-ID", unix.Chmod(c.Work+"/new", 0o4755))
	_, err := unix.Open(c.Work+"/root", unix.O_WRONLY|unix.O_CREAT, 0o4755)
	r.note("new set-user-ID", err)
	r.note("mknod set-user-ID", unix.Mknod(c.Work+"/root", unix.S_IFREG|0o4755, 0))
	r.note("mkdir work", unix.Mkdir(c.Work+"/a", 0o777))
	r.note("rename in work", unix.Rename(c.Work+"/new", c.Work+"/a/new"))
	r.note("link in work", unix.Link(c.Work+"/a/new", c.Work+"/link"))
	r.note("rename out of work", unix.Rename(c.Work+"/a/new", c.Outside+"/new"))
	r.note("rename into work", unix.Rename(c.Outside+"/victim", c.Work+"/victim"))
	r.note("link into work", unix.Link(c.Outside+"/sec", c.Work+"/sec"))
	r.note("device in work", unix.Mknod(c.Work+"/d", unix.S_IFBLK|0o666, int(unix.Mkdev(254, 0))))
	r.note("work itself", unix.Rename(c.Work, c.Work+"2"))
}

// sockets are the attempts at the network.
func (c lockCase) sockets(r results) {
	for name, args := range map[string][3]uintptr{
		"socket inet": {unix.AF_INET, unix.SOCK_STREAM}, "socket inet6 datagram": {unix.AF_INET6, unix.SOCK_DGRAM},
		"socket netlink": {unix.AF_NETLINK, unix.SOCK_RAW}, "socket vsock": {unix.AF_VSOCK, unix.SOCK_STREAM},
		"socket packet": {unix.AF_PACKET, unix.SOCK_RAW}, "socket alg": {unix.AF_ALG, unix.SOCK_SEQPACKET},
		"socket unix": {unix.AF_UNIX, unix.SOCK_STREAM}, "socket unix datagram": {unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC},
		"socket unix raw": {unix.AF_UNIX, unix.SOCK_RAW},
	} {
		fd := r.call(name, unix.SYS_SOCKET, args[0], args[1], args[2])
		if r[name] == "ok" {
			unix.Close(int(fd))
		}
	}
	for name, kind := range map[string]int{"pair datagram": unix.SOCK_DGRAM, "pair raw": unix.SOCK_RAW, "pair": unix.SOCK_STREAM} {
		fds, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
		r.note(name, err)
		if name != "pair" || err != nil {
			continue
		}
		letter := []byte("x")
		r.call("send", unix.SYS_SENDTO, uintptr(fds[0]), uintptr(unsafe.Pointer(&letter[0])), 1, 0, 0, 0)
		r.call("recv", unix.SYS_RECVFROM, uintptr(fds[1]), uintptr(unsafe.Pointer(&letter[0])), 1, 0, 0, 0)
		r.call("sendto address", unix.SYS_SENDTO, uintptr(fds[0]), uintptr(unsafe.Pointer(&letter[0])), 1, 0, uintptr(unsafe.Pointer(&letter[0])), 1)
		r.note("sendmsg", unix.Sendmsg(fds[0], letter, unix.UnixRights(0), nil, 0))
		_, err = unix.GetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_ERROR)
		r.note("getsockopt", err)
		r.note("setsockopt", unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1))
		r.note("shutdown", unix.Shutdown(fds[0], unix.SHUT_WR))
		r.note("connect", unix.Connect(fds[0], &unix.SockaddrUnix{Name: "@" + c.Socket}))
		r.note("bind", unix.Bind(fds[0], &unix.SockaddrUnix{Name: "@x"}))
		r.note("listen", unix.Listen(fds[0], 1))
		_, _, err = unix.Accept4(fds[0], 0)
		r.note("accept", err)
		unix.Close(fds[0])
		unix.Close(fds[1])
	}
	if s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); err == nil {
		r.note("connect abstract", unix.Connect(s, &unix.SockaddrUnix{Name: "@" + c.Socket}))
		unix.Close(s)
	}
}

func errnoOf(err error) string {
	r := results{}
	r.note("", err)
	return r[""]
}

// forkWith makes a child with the flags. The child ends at once.
func forkWith(flags uintptr) error {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	_, err := unix.Wait4(int(pid), nil, 0, nil)
	return err
}

// scopes puts the process under the Landlock rules alone, without namespaces, and tries signals and sockets.
func (c lockCase) scopes(r results) {
	must(noNewPrivileges())
	landlock, err := newRuleset(c.plan())
	must(err)
	must(landlock.restrict())
	landlock.close()
	r.note("kill", unix.Kill(c.Host, 0))
	r.note("kill self", unix.Kill(os.Getpid(), 0))
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(err)
	r.note("connect abstract", unix.Connect(s, &unix.SockaddrUnix{Name: "@" + c.Socket}))
	// The standard output is a file outside. The program may open the file again by the descriptor alone.
	r.write("output again", "/proc/self/fd/1", 0)
	r.write("write outside", c.Outside+"/sec", 0)
}

// thread locks a single thread for serving files, while others are not locked.
func (c lockCase) thread(r results) {
	c.ownProc()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
	must(err)
	done := make(chan bool)
	go func() {
		runtime.LockOSThread()
		must(lockThread(c.plan()))
		s := status("/proc/thread-self/status")
		for _, field := range []string{"CapEff", "CapPrm", "CapInh", "CapAmb", "NoNewPrivs", "Seccomp"} {
			r[field] = s[field]
		}
		r.write("write work", c.Work+"/served", unix.O_CREAT)
		r.write("write outside", c.Outside+"/sec", 0)
		r.call("socket inet", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM)
		r.note("send descriptor", unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(2), nil, 0))
		_, err := unix.Openat2(unix.AT_FDCWD, c.Work, &unix.OpenHow{Flags: unix.O_PATH})
		r.note("openat2", err)
		r.note("mount", unix.Mount("none", c.Work, "tmpfs", 0, ""))
		done <- true
	}()
	<-done
	r["filters of others"] = status("/proc/thread-self/status")["Seccomp_filters"]
}

// newRig makes the directories, owned by the user.
func newRig(t *testing.T, user int) lockCase {
	t.Helper()
	base := testroot.Dir(t, "")
	c := lockCase{Work: base + "/work", Outside: base + "/outside", Host: os.Getpid(), Socket: base, OldProc: needs.ProbeNewProc(user) != nil}
	for _, dir := range []string{c.Work, c.Outside} {
		must(os.Mkdir(dir, 0o777))
	}
	for _, name := range []string{"/sec", "/victim"} {
		must(os.WriteFile(c.Outside+name, []byte("secret"), 0o666))
	}
	must(unix.Mkfifo(c.Outside+"/fifo", 0o666))
	must(filepath.Walk(base, func(path string, _ os.FileInfo, err error) error {
		must(err)
		must(os.Chown(path, user, user))
		if path == base {
			return nil
		}
		return os.Chmod(path, 0o777)
	}))
	reader, err := unix.Open(c.Outside+"/fifo", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	must(err)
	listener, err := net.Listen("unix", "@"+c.Socket)
	must(err)
	t.Cleanup(func() {
		listener.Close()
		unix.Close(reader)
		if data, err := os.ReadFile(c.Outside + "/sec"); err != nil || string(data) != "secret" {
			t.Errorf("the file outside has %q, %v", data, err)
		}
		if entries, _ := os.ReadDir(c.Outside); len(entries) != 3 && c.Stage != "only" {
			t.Errorf("outside there is %v", entries)
		}
	})
	return c
}

// run runs the stage and its children, and returns their results and standard error.
func (c lockCase) run(t *testing.T, user int) (results, string) {
	t.Helper()
	out, err := os.CreateTemp("", "out")
	must(err)
	defer os.Remove(out.Name())
	defer out.Close()
	cmd := exec.Command("/proc/self/exe") // whose directory the other user need not reach
	if user != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
	}
	var stderr bytes.Buffer
	cmd.Args = []string{lockTest, c.json()}
	cmd.Stdout, cmd.Stderr = out, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	data, err := os.ReadFile(out.Name())
	must(err)
	all := results{}
	decoder := json.NewDecoder(bytes.NewReader(data))
	for decoder.More() {
		if err := decoder.Decode(&all); err != nil {
			t.Fatalf("%v in %q, and %s", err, data, stderr.String())
		}
	}
	return all, stderr.String()
}

func (r results) want(t *testing.T, want results) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got := r[name]; !slices.Contains(strings.Split(want[name], " or "), got) {
			t.Errorf("%s: %q, want %s", name, got, want[name])
		}
	}
}

// TestLock: a program with every layer, but for the mounts, fails in every attempt.
func TestLock(t *testing.T) {
	needs.Landlock(t, 6)
	always := results{
		"CapInh": noCaps, "CapPrm": noCaps, "CapEff": noCaps, "CapBnd": noCaps, "CapAmb": noCaps, "NoNewPrivs": "1", "Seccomp": "2",
		"filter of the threads of the jail": "", "capabilities of the threads of the jail": "", "end": "",
		"prctl securebits": "EPERM", "capset": "EPERM",

		"socket vsock": "EPERM", "socket packet": "EPERM", "socket alg": "EPERM", "socket unix": "ok", "pair": "ok",
		"send": "ok", "recv": "ok", "sendmsg": "ok", "shutdown": "ok", "getsockopt": "ok",
		"mount": "EPERM", "umount2": "EPERM", "pivot_root": "EPERM", "open_tree": "EPERM", "open_tree_attr": "EPERM", "move_mount": "EPERM",
		"fsopen": "EPERM", "fsconfig": "EPERM", "fsmount": "EPERM", "fspick": "EPERM", "mount_setattr": "EPERM",
		"add_key": "EPERM", "request_key": "EPERM", "keyctl": "EPERM", "bpf": "EPERM", "perf_event_open": "EPERM",
		"userfaultfd": "EPERM", "open_by_handle_at": "EPERM", "io_uring_setup": "EPERM", "io_uring_enter": "EPERM",
		"io_uring_register": "EPERM", "syslog": "EPERM", "setns": "EPERM", "clone3": "ENOSYS", "fanotify_init": "EPERM",
		"quotactl": "EPERM", "acct": "EPERM", "chroot": "EPERM",
		"x32": "ENOSYS", "newer call": "ENOSYS", "unshare user": "EPERM", "clone user": "EPERM", "unshare files": "ok", "fork": "ok",
		"ptrace attach 1": "EPERM", "ioctl TIOCSTI": "EPERM", "ioctl TIOCLINUX": "EPERM",

		"/proc/1/mem": "refused", "/proc/1/root": "refused", "/proc/1/environ": "refused", "/proc/1/fd/0": "refused",
		"/proc/1/ns/user": "refused", "/proc/1/maps": "refused", "/proc/same/mem": "refused", "kill host": "ESRCH",

		"write work": "ok", "mkdir work": "ok", "rename in work": "ok", "link in work": "ok", "/dev/null": "ok",
		"write outside": "EACCES", "truncate outside": "EACCES", "truncate(2) outside": "EACCES", "create outside": "EACCES",
		"FIFO outside": "EACCES", "mkdir outside": "EACCES", "symlink outside": "EACCES", "remove outside": "EACCES",
		"socket file outside": "EACCES", "rename out of work": "EACCES or EXDEV", "rename into work": "EACCES or EXDEV",
		"link into work": "EACCES or EXDEV", "device in work": "EPERM",
		"chmod": "ok", "chmod set-user-ID": "EPERM", "new set-user-ID": "EPERM", "mknod set-user-ID": "EPERM", "work itself": "EACCES",
	}
	restricted := results{
		"socket inet": "EPERM", "socket inet6 datagram": "EPERM", "socket netlink": "EPERM", "socket unix datagram": "EPERM",
		"socket unix raw": "EPERM", "pair datagram": "EPERM", "pair raw": "EPERM", "sendto address": "EPERM", "setsockopt": "EPERM",
		"connect": "EPERM", "bind": "EPERM", "listen": "EPERM", "accept": "EPERM", "connect abstract": "EPERM",
		"process_vm_readv": "EPERM", "process_vm_writev": "EPERM", "pidfd_getfd": "EPERM", "kcmp": "EPERM", "process_madvise": "EPERM",
	}
	network := results{
		"socket inet": "ok", "socket inet6 datagram": "ok or EAFNOSUPPORT", "socket netlink": "ok", "socket unix datagram": "ok", "pair datagram": "ok",
		"setsockopt": "ok", "connect abstract": "ok",
	}
	users(t, func(t *testing.T, user int, _ string) {
		needs.Namespaces(t, user)
		for _, net := range []bool{false, true} {
			t.Run(fmt.Sprintf("network %v", net), func(t *testing.T) {
				c := newRig(t, user)
				c.Stage, c.Network, c.Same, c.Time = "user", net, os.Getpid(), testing.Verbose()
				got, stderr := c.run(t, user)
				if stderr != "" {
					t.Log(stderr)
				}
				got.want(t, always)
				own := "ok"
				if c.OldProc { // Landlock permits writes to a new one only
					own = "EACCES"
				}
				got.want(t, results{"/proc/self/comm": own})
				if net {
					got.want(t, network)
				} else {
					got.want(t, restricted)
				}
			})
		}
	})
}

// TestLockOnly: a program with files as outside has no network, nor a way to a process with a network.
func TestLockOnly(t *testing.T) {
	users(t, func(t *testing.T, user int, _ string) {
		for _, net := range []bool{false, true} {
			t.Run(fmt.Sprintf("network %v", net), func(t *testing.T) {
				c := newRig(t, user)
				c.Stage, c.Network = "userOnly", net
				// The attempts at files succeed here, so they go somewhere else.
				c.Outside = testroot.Dir(t, "")
				got, _ := c.run(t, user)
				got.want(t, results{
					"NoNewPrivs": "1", "Seccomp": "2", "write work": "ok", "fork": "ok", "send": "ok", "sendmsg": "ok",
					"socket vsock": "EPERM", "io_uring_setup": "EPERM", "bpf": "EPERM", "x32": "ENOSYS", "kill same": "ok",
				})
				if user == stranger {
					got.want(t, results{"kill host": "EPERM", "/proc/1/mem": "refused"})
				}
				if net {
					got.want(t, results{"socket inet": "ok", "connect abstract": "ok", "socket unix datagram": "ok"})
					return
				}
				got.want(t, results{
					"socket inet": "EPERM", "socket unix datagram": "EPERM", "connect abstract": "EPERM",
					"pidfd_getfd": "EPERM", "process_vm_writev": "EPERM", "ptrace attach 1": "EPERM",
				})
				needs.Landlock(t, 6)
				got.want(t, results{"/proc/same/mem": "refused", "/proc/same/fd/0": "refused", "/proc/same/root": "refused"})
			})
		}
	})
}

// TestForeignCall: a call of another architecture ends the process by SIGSYS.
func TestForeignCall(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("only amd64 has another architecture's calls")
	}
	outside := exec.Command("/proc/self/exe")
	outside.Args = []string{lockTest, lockCase{Foreign: true}.json()}
	if err := outside.Run(); err != nil { // some hypervisors refuse the instruction
		t.Skipf("no call of i386 works here, without a sandbox either: %v", err)
	}
	needs.Namespaces(t, os.Getuid())
	c := newRig(t, os.Getuid())
	c.Stage, c.Foreign, c.Same = "user", true, os.Getpid()
	got, _ := c.run(t, os.Getuid())
	if end := got["end"]; !strings.Contains(end, "bad system call") {
		t.Errorf("the program ended with %q", end)
	}
}

// foreignCall is getpid(2) of i386: mov $20, %eax; int $0x80; ret.
func foreignCall() {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_ANON|unix.MAP_PRIVATE)
	must(err)
	copy(page, []byte{0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3})
	code := &page[0]
	f := unsafe.Pointer(&code)
	(*(*func())(unsafe.Pointer(&f)))()
}

// TestLandlockScopes: without any namespace, the rules alone keep a process from signals and abstract sockets outside.
func TestLandlockScopes(t *testing.T) {
	needs.Landlock(t, 6)
	for _, net := range []bool{false, true} {
		c := newRig(t, os.Getuid())
		c.Stage, c.Network = "scopes", net
		got, _ := c.run(t, os.Getuid())
		got.want(t, results{"kill": "EPERM", "kill self": "ok", "output again": "ok", "write outside": "EACCES"})
		if net {
			got.want(t, results{"connect abstract": "ok"})
		} else {
			got.want(t, results{"connect abstract": "EPERM"})
		}
	}
}

// TestLockThread: a thread is locked while the others are not, and serves files by its descriptors.
func TestLockThread(t *testing.T) {
	needs.Namespaces(t, os.Getuid())
	needs.Landlock(t, 2)
	c := newRig(t, os.Getuid())
	c.Stage = "thread"
	out, err := os.CreateTemp(t.TempDir(), "out")
	must(err)
	defer out.Close()
	must(c.namespaced(out))
	data, err := os.ReadFile(out.Name())
	must(err)
	var got results
	must(json.Unmarshal(data, &got))
	got.want(t, results{
		"CapEff": noCaps, "CapPrm": noCaps, "CapInh": noCaps, "CapAmb": noCaps, "NoNewPrivs": "1", "Seccomp": "2",
		"write work": "ok", "write outside": "EACCES", "socket inet": "EPERM", "send descriptor": "ok", "mount": "EPERM",
		"filters of others": status("/proc/self/status")["Seccomp_filters"], "openat2": "ok",
	})
}

// TestLockRefusesLink: a link in the place of a writable path makes an error, and no rule for its target.
func TestLockRefusesLink(t *testing.T) {
	needs.Landlock(t, 2)
	c := newRig(t, os.Getuid())
	p := c.plan()
	must(os.Rename(c.Work, c.Work+"2"))
	must(os.Symlink(c.Outside, c.Work))
	_, err := newRuleset(p)
	if f, ok := err.(*Failure); !ok || f.Errno != int(unix.ELOOP) {
		t.Errorf("the error is %v", err)
	}
}

// TestHandledRights: each ABI is asked for all its rights, and for none of a later ABI, because the kernel would refuse.
func TestHandledRights(t *testing.T) {
	for _, c := range []struct {
		abi        int
		network    bool
		has, lacks uint64
		scoped     uint64
	}{
		{2, false, unix.LANDLOCK_ACCESS_FS_REFER, unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV, 0},
		{3, false, unix.LANDLOCK_ACCESS_FS_TRUNCATE, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV, 0},
		{5, false, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV, unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX, 0},
		{6, false, writeRights, unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX, unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET},
		{6, true, writeRights, unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX, unix.LANDLOCK_SCOPE_SIGNAL},
		{9, false, writeRights | unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX, unix.LANDLOCK_ACCESS_FS_READ_FILE, unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET},
		{9, true, writeRights, unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX, unix.LANDLOCK_SCOPE_SIGNAL},
	} {
		got := handledBy(c.abi, c.network)
		if got.Handled_access_fs&c.has != c.has || got.Handled_access_fs&c.lacks != 0 || got.Scoped != c.scoped {
			t.Errorf("ABI %d, network %v: %#x, scoped %#x", c.abi, c.network, got.Handled_access_fs, got.Scoped)
		}
	}
}
