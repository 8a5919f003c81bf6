package needs

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const withNone = "NEEDS_NO_NAMESPACES"

// TestProbeNewProc: the probe agrees with unshare(1) of util-linux. In a user namespace that permits no further ones, the probe fails.
func TestProbeNewProc(t *testing.T) {
	if os.Getenv(withNone) != "" {
		if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
			t.Fatal(err)
		}
		if err := ProbeNewProc(os.Getuid()); err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("without user namespaces the probe says %v", err)
		}
		return
	}
	Program(t, "unshare")
	const other = 64309
	uids := map[int]*syscall.Credential{os.Getuid(): nil}
	if os.Getuid() == 0 {
		uids[other] = &syscall.Credential{Uid: other, Gid: other}
	}
	for uid, credential := range uids {
		cmd := exec.Command("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--ipc", "--uts", "--net", "--mount-proc", "true")
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: credential}
		out, want := cmd.CombinedOutput()
		if err := ProbeNewProc(uid); (err == nil) != (want == nil) {
			t.Errorf("user %d: the probe says %v, and unshare(1) %v %s", uid, err, want, out)
		}
	}
	NewProc(t, os.Getuid())
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestProbeNewProc$")
	cmd.Env = append(os.Environ(), withNone+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
