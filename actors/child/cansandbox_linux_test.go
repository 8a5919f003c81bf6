package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// withoutNamespaces is the argv[0] of this test binary as root of a user namespace of its own, without any further namespaces.
const withoutNamespaces = "troupe-without-namespaces"

func init() {
	if os.Args[0] != withoutNamespaces {
		return
	}
	must := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(unix.Mount("proc", "/proc", "proc", 0, ""))
	must(TrySandbox(time.Minute, false).Err) // a jail in a namespace works
	fds, err := os.ReadDir("/proc/self/fd")
	must(err)
	for _, fd := range fds {
		if to, _ := os.Readlink("/proc/self/fd/" + fd.Name()); to == "/" || strings.Contains(to, "memfd") {
			must(fmt.Errorf("the trial has left descriptor %s open, which leads to %s", fd.Name(), to))
		}
	}
	early, err := NewHost(HostConfig{Containment: ContainGroup})
	must(err)
	must(early.TrySandbox().Err)
	must(os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0))
	must(early.TrySandbox().Err) // a trial that has succeeded is not made again
	h, err := NewHost(HostConfig{Containment: ContainGroup})
	must(err)
	if _, ok := h.Sandbox(); ok {
		must(errors.New("the host knows without a trial"))
	}
	s := h.TrySandbox()
	if known, ok := h.Sandbox(); !ok || known.Err != s.Err {
		must(fmt.Errorf("the host does not know what it found: %v, %v", known.Err, ok))
	}
	must(errors.Join(early.Close(context.Background()), h.Close(context.Background()))) // removes their cgroups
	_, ok := errors.AsType[*SandboxError](s.Err)
	fmt.Println(ok, errors.Is(s.Err, unix.ENOSPC), s.Err)
	os.Exit(0)
}

// TestTrySandboxWithoutNamespaces: the error names the limit to raise.
func TestTrySandboxWithoutNamespaces(t *testing.T) {
	needs.NewProc(t, os.Getuid())
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{withoutNamespaces}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, &log)
	}
	if !strings.HasPrefix(string(out), "true true ") || !strings.Contains(string(out), "raise it, such as with sysctl -w user.max_user_namespaces=") {
		t.Errorf("without user namespaces the trial says %s", out)
	}
}
