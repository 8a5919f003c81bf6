// Package needs lets a test ask for features that some machines lack: root, mounts, cgroups, namespaces, a program.
// A test names the feature, never the user or the place of its run:
//
//	needs.Root(t)
//	dir := needs.Cgroup(t, "pids")
//	strace := needs.Program(t, "strace")
//
// If the machine lacks a need, the test is skipped with the text "needs NEED: REASON". In CI the test fails instead, so that no
// promise goes unchecked because a machine changed. The variable CI names the environment: "true" has every need;
// "user" (an ordinary user) and "container" (root in a container with the default capabilities) lack those in the list excused.
//
// Each need is probed with the system calls themselves and never with the code under test: a fault of that code skips no test.
package needs

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// A need is something that a machine has or lacks. Its text is a part of the text of a skip.
type need string

const (
	needRoot        need = "root"
	needMount       need = "mount(2)"
	needFUSE        need = "FUSE"
	needCgroup      need = "a writable cgroup v2"
	needController  need = "a cgroup controller"
	needDescriptors need = "the descriptors of another process"
	needNamespaces  need = "user namespaces"
	needNewProc     need = "a new /proc in user namespaces"
	needTUN         need = "/dev/net/tun"
	needLandlock    need = "Landlock"
	needProcesses   need = "many processes"
	needKernelLog   need = "the log of the kernel"
	needProgram     need = "a program"
	needFeature     need = "a feature of the system"
)

// excused has, for each environment of CI, the needs that it lacks for certain.
var excused = map[string][]need{
	"true":      {},
	"user":      {needRoot, needMount, needFUSE, needCgroup, needController, needDescriptors, needTUN, needKernelLog},
	"container": {needMount, needFUSE, needCgroup, needController, needDescriptors, needNewProc, needTUN, needProcesses, needKernelLog},
}

// lack ends the test because the machine lacks a need: by a skip, or in CI as a failure.
func lack(t testing.TB, what need, reason string) {
	t.Helper()
	text := fmt.Sprintf("needs %s: %s", what, reason)
	if ci := os.Getenv("CI"); ci != "" {
		if known, ok := excused[ci]; !ok {
			t.Fatalf("the environment of CI is %q, want true, user or container", ci)
		} else if !slices.Contains(known, what) {
			t.Fatalf("%s. In this environment of CI (%s) each test with this need must run", text, ci)
		}
	}
	t.Skip(text)
}

// Root asks for the user 0, who may start programs as other users.
func Root(t testing.TB) {
	t.Helper()
	if uid := os.Geteuid(); uid != 0 {
		lack(t, needRoot, fmt.Sprintf("the user of the test is %d", uid))
	}
}

// Program asks for a program in PATH, and returns its path.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		lack(t, needProgram, err.Error())
	}
	return path
}

// KernelLog asks for the right to read the log of the kernel, and returns the path of the file. A read of the file waits for a message.
func KernelLog(t testing.TB) (path string) {
	t.Helper()
	path = "/proc/kmsg"
	f, err := os.Open(path)
	if err != nil {
		lack(t, needKernelLog, err.Error())
	}
	f.Close()
	return path
}

// Feature ends a test of a feature that only some kernels and filesystems have. The test has tried the feature and got err.
// A nil err goes on.
func Feature(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		lack(t, needFeature, err.Error())
	}
}
