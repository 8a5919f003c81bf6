package child

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
)

// binaryChanger is in the environment of a program in a sandbox that tries to change its binary.
const binaryChanger = "CHILD_TEST_CHANGER=1"

func init() {
	if os.Getenv("CHILD_TEST_CHANGER") == "" {
		return
	}
	own := fmt.Sprintf("/proc/%d/exe", os.Getpid())
	now := []unix.Timeval{{Sec: 1}, {Sec: 1}}
	for _, path := range []string{"/proc/self/exe", own, "/proc/1/exe", "/proc/self/task/" + fmt.Sprint(os.Getpid()) + "/exe"} {
		fmt.Println(path, "utimes", unix.Utimes(path, now))
		fmt.Println(path, "truncate", unix.Truncate(path, 0))
		fd, err := unix.Open(path, unix.O_WRONLY, 0)
		fmt.Println(path, "open", fd, err)
		fmt.Println(path, "setxattr", unix.Setxattr(path, "user.troupe", []byte("x"), 0))
		fmt.Println(path, "chmod", unix.Chmod(path, 0))
	}
	out, err := exec.Command("/bin/chmod", "0", own).CombinedOutput()
	fmt.Printf("chmod of a descendant: %s%v\n", out, err)
	os.Exit(0)
}

// TestJailKeepsItsBinary: a program that executes the jail's /proc/self/exe, and so the server's binary, cannot change that file.
// The binary is a copy of this one, never this one.
func TestJailKeepsItsBinary(t *testing.T) {
	if how := os.Getenv("CHILD_TEST_BINARY"); how != "" {
		keepBinary(t, how)
		return
	}
	users := []uint32{uint32(os.Geteuid())}
	if users[0] == 0 {
		users = append(users, unusedID)
	}
	for _, uid := range users {
		for _, how := range []string{"in its place", "removed", "replaced"} {
			t.Run(fmt.Sprint(how, ", user ", uid), func(t *testing.T) {
				dir := testroot.Dir(t, "/tmp") // TMPDIR may be closed to the other user
				own, err := os.Open("/proc/self/exe")
				if err != nil {
					t.Fatal(err)
				}
				defer own.Close()
				path := filepath.Join(dir, "server")
				binary, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(binary, own); err != nil {
					t.Fatal(err)
				}
				binary.Close()
				for _, name := range []string{path, dir} {
					if err := os.Chown(name, int(uid), int(uid)); err != nil {
						t.Fatal(err)
					}
				}
				needs.Namespaces(t, int(uid))
				cmd := exec.Command(path, "-test.run=^TestJailKeepsItsBinary$", "-test.v", "-test.timeout=2m")
				cmd.Dir, cmd.Env = "/", append(os.Environ(), "TMPDIR="+dir, "CHILD_TEST_BINARY="+how)
				if uid != uint32(os.Geteuid()) {
					cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
				}
				out, err := cmd.CombinedOutput()
				if err != nil || !strings.Contains(string(out), "--- PASS") || strings.Contains(string(out), "--- SKIP") {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}

func keepBinary(t *testing.T, how string) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if how != "in its place" {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if how == "replaced" {
		if err := os.WriteFile(path, []byte("#!/bin/false\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	before, err := own.Stat()
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, HostConfig{})
	for range 2 { // the second jail starts after the first program's changes
		spec := inJail(script(""))
		spec.Argv, spec.Env = []string{"/proc/self/exe"}, []string{binaryChanger}
		w := jailed(t, h, spec)
		w.untilClosed()
		out := string(w.out[protocol.Stdout]) + string(w.out[protocol.Stderr])
		after, err := own.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out, "chmod of a descendant: ") || w.status.ExitCode != 0 || after.Mode() != before.Mode() || after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()) {
			t.Errorf("%+v: the binary is %v of %d bytes from %v, was %v of %d from %v:\n%s", w.status, after.Mode(), after.Size(), after.ModTime(), before.Mode(), before.Size(), before.ModTime(), out)
		}
		if err := w.release(); err != nil {
			t.Error(err)
		}
	}
}

// TestJailsLeaveNoDescriptors: every start closes its descriptor of the binary.
func TestJailsLeaveNoDescriptors(t *testing.T) {
	h := newHost(t, HostConfig{})
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, e := range entries {
			fd, _ := strconv.Atoi(e.Name())
			var wanted, found unix.Stat_t
			if unix.Stat("/proc/self/exe", &wanted) == nil && unix.Fstat(fd, &found) == nil && wanted.Dev == found.Dev && wanted.Ino == found.Ino {
				n++
			}
		}
		return n
	}
	run := func() {
		w := jailed(t, h, inJail(script("true")))
		w.untilClosed()
		if err := w.release(); err != nil {
			t.Error(err)
		}
	}
	run() // the first start opens the file of all starts
	before := count()
	for range 3 {
		run()
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors of the binary, %d before three starts", after, before)
	}
}
