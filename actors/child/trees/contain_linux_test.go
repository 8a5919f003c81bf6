package trees

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// withOldProc is the argv[0] of this test binary as process 1 of a PID namespace, with the /proc of another one.
const withOldProc = "troupe-with-old-proc"

func init() {
	if os.Args[0] == withOldProc {
		_, err := New(Config{Log: slog.Default()})
		fmt.Println(err)
		os.Exit(0)
	}
}

// TestTreesNeedTheirProc: searches would look for processes by wrong numbers in the /proc of another PID namespace, such as that of a sandbox
// of the level oldProc.
func TestTreesNeedTheirProc(t *testing.T) {
	needs.Namespaces(t, os.Getuid())
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{withOldProc}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), "another PID namespace") {
		t.Errorf("%v: %s", err, out)
	}
}
