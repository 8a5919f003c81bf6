package needs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Namespaces asks for namespaces and mounts like those of a sandbox, for processes of the user uid. An uid other than the test's
// own also needs Root. Containers often permit them, but no new /proc: see NewProc.
func Namespaces(t testing.TB, uid int) {
	t.Helper()
	if err := ProbeNamespaces(uid); err != nil {
		lack(t, needNamespaces, fmt.Sprintf("user %d: %v", uid, err))
	}
}

// NewProc asks for Namespaces, and for a new /proc in them: for a complete sandbox.
func NewProc(t testing.TB, uid int) {
	t.Helper()
	Namespaces(t, uid)
	if err := ProbeNewProc(uid); err != nil {
		lack(t, needNewProc, fmt.Sprintf("user %d: %v", uid, err))
	}
}

// Landlock asks for an ABI of Landlock. (landlock(7))
func Landlock(t testing.TB, abi int) {
	t.Helper()
	if has := LandlockABI(); has < abi {
		lack(t, needLandlock, fmt.Sprintf("the kernel has ABI %d, and the test needs %d", has, abi))
	}
}

// LandlockABI returns the version of Landlock; 0: the kernel has none.
func LandlockABI() int {
	const askVersion = 1
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, askVersion)
	if errno != 0 {
		return 0
	}
	return int(abi)
}

// ProbeNamespaces makes each kind of namespace of a sandbox as the user uid, and mounts a tmpfs in them. Nil: this works.
func ProbeNamespaces(uid int) error { return probes.get(uid, asInit) }

// ProbeNewProc is ProbeNamespaces, and mounts a new proc.
func ProbeNewProc(uid int) error { return probes.get(uid, asInitWithProc) }

var probes = results{known: map[probe]error{}}

// A probe is what a process of the user uid does as process 1 of new namespaces.
type probe struct {
	uid  int
	init string
}

// results keeps the results of probes.
type results struct {
	sync.Mutex
	known map[probe]error
}

func (r *results) get(uid int, init string) error {
	r.Lock()
	defer r.Unlock()
	key := probe{uid, init}
	err, known := r.known[key]
	if !known {
		err = try(key)
		r.known[key] = err
	}
	return err
}

// This program again, as the user of the probe and then as process 1 of the namespaces: the first arguments.
const (
	asUser         = "troupe-needs-user"
	asInit         = "troupe-needs-init"
	asInitWithProc = "troupe-needs-init-proc"
)

func init() {
	var err error
	switch os.Args[0] {
	case asUser:
		err = run(namespaces(os.Args[1]))
	case asInit:
		err = inside(false)
	case asInitWithProc:
		err = inside(true)
	default:
		return
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

func try(p probe) error {
	if p.uid == os.Getuid() {
		return run(namespaces(p.init))
	}
	own, err := os.Open("/proc/self/exe") // the user may lack access to its path
	if err != nil {
		return err
	}
	defer own.Close()
	cmd := &exec.Cmd{Path: "/proc/self/fd/3", Args: []string{asUser, p.init}, ExtraFiles: []*os.File{own}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(p.uid), Gid: uint32(p.uid)}}
	return run(cmd)
}

func namespaces(name string) *exec.Cmd {
	return &exec.Cmd{Path: "/proc/self/exe", Args: []string{name}, SysProcAttr: &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP |
			unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}}
}

func run(cmd *exec.Cmd) error {
	cmd.Dir, cmd.Env = "/", []string{"GORACE=atexit_sleep_ms=0", "GOCOVERDIR=" + os.Getenv("GOCOVERDIR")}
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) > 0 {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return err
}

func inside(proc bool) error {
	if pid := os.Getpid(); pid != 1 {
		return fmt.Errorf("the first process of a PID namespace has pid %d", pid)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make / private: %w", err)
	}
	if err := unix.Mount("tmpfs", "/tmp", "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount a tmpfs at /tmp: %w", err)
	}
	if !proc {
		return nil
	}
	if err := unix.Mount("proc", "/tmp", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount a new proc at /tmp: %w", err)
	}
	if _, err := os.Stat("/tmp/1"); err != nil {
		return errors.New("a new proc shows no process 1")
	}
	return nil
}
