// Package testnamespaces decides whether a test of sandboxes can run on this machine. Package testnamespaces makes namespaces and
// mounts with os/exec alone, so a fault in the code under test skips no test. Where the variable CI is set, a test that cannot run fails.
package testnamespaces

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

// Need skips the test if a process of the user uid gets no namespaces and mounts like those of a sandbox. An uid other than the
// test's own needs root.
func Need(t testing.TB, uid int) {
	t.Helper()
	if err := Probe(uid); err != nil {
		cannot(t, fmt.Sprintf("user %d gets no namespaces here: %v", uid, err))
	}
}

// NeedLandlock skips the test if the kernel has Landlock below an ABI, or has none.
func NeedLandlock(t testing.TB, abi int) {
	t.Helper()
	if has := LandlockABI(); has < abi {
		cannot(t, fmt.Sprintf("Landlock has ABI %d here, and the test needs %d", has, abi))
	}
}

func cannot(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("%s. In CI each test of sandboxes must run", why)
	}
	t.Skip(why)
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

var probes struct {
	sync.Mutex
	byUser map[int]error
}

// Probe makes each kind of namespace of a sandbox as the user uid, and mounts a new proc in them. Nil: this works.
func Probe(uid int) error {
	probes.Lock()
	defer probes.Unlock()
	err, known := probes.byUser[uid]
	if !known {
		err = probe(uid)
		if probes.byUser == nil {
			probes.byUser = map[int]error{}
		}
		probes.byUser[uid] = err
	}
	return err
}

// This program again, as the user of the probe and then as process 1 of the namespaces: the first arguments.
const (
	asUser = "troupe-test-namespaces-user"
	asInit = "troupe-test-namespaces-init"
)

func init() {
	var err error
	switch os.Args[0] {
	case asUser:
		err = run(namespaces(asInit))
	case asInit:
		err = inside()
	default:
		return
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

func probe(uid int) error {
	if uid == os.Getuid() {
		return run(namespaces(asInit))
	}
	own, err := os.Open("/proc/self/exe") // its path is often one that only its builder may follow
	if err != nil {
		return err
	}
	defer own.Close()
	cmd := &exec.Cmd{Path: "/proc/self/fd/3", Args: []string{asUser}, ExtraFiles: []*os.File{own}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
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

func inside() error {
	if pid := os.Getpid(); pid != 1 {
		return fmt.Errorf("the first process of a PID namespace has pid %d", pid)
	}
	for _, m := range []struct {
		from, to, kind string
		flags          uintptr
	}{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{"tmpfs", "/tmp", "tmpfs", 0},
		{"proc", "/tmp", "proc", 0},
	} {
		if err := unix.Mount(m.from, m.to, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s at %s: %w", m.kind, m.to, err)
		}
	}
	if _, err := os.Stat("/tmp/1"); err != nil {
		return errors.New("a new proc shows no process 1")
	}
	return nil
}
