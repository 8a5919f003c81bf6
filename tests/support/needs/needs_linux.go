package needs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Mount asks for the right to mount a filesystem where the test runs.
func Mount(t testing.TB) {
	t.Helper()
	if err := ProbeMount(); err != nil {
		lack(t, needMount, err.Error())
	}
}

// ProbeMount mounts a filesystem. Nil: this works.
func ProbeMount() error { return mounts() }

// mounts mounts a tmpfs in a mount namespace that ends with a thread, so nobody else sees it.
var mounts = sync.OnceValue(func() error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // the goroutine ends with the thread locked, and so the thread ends
		result <- func() error {
			if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
				return fmt.Errorf("unshare a mount namespace: %w", err)
			}
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				return fmt.Errorf("make / private: %w", err)
			}
			if err := unix.Mount("tmpfs", os.TempDir(), "tmpfs", 0, ""); err != nil {
				return fmt.Errorf("mount a tmpfs: %w", err)
			}
			return nil
		}()
	}()
	return <-result
})

// FUSE asks for /dev/fuse and the right to mount its filesystems. FUSE returns an open /dev/fuse.
func FUSE(t testing.TB) (fd int) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		lack(t, needFUSE, err.Error())
	}
	if err := mounts(); err != nil {
		unix.Close(fd)
		lack(t, needFUSE, err.Error())
	}
	return fd
}

// Cgroup asks for a cgroup v2 tree in which the test may make cgroups. Cgroup returns the root of the tree.
func Cgroup(t testing.TB) (root string) {
	t.Helper()
	root, err := cgroup2()
	if err != nil {
		lack(t, needCgroup, err.Error())
	}
	return root
}

var cgroup2 = sync.OnceValues(func() (string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", err
	}
	reason := errors.New("no cgroup v2 is mounted")
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if f[2] != "cgroup2" {
			continue
		}
		probe, err := os.MkdirTemp(f[1], "troupe-needs-")
		if err == nil {
			defer os.Remove(probe)
			if err = unix.Access(filepath.Join(f[1], "cgroup.procs"), unix.W_OK); err == nil {
				return f[1], nil
			}
			err = fmt.Errorf("access %s/cgroup.procs: %w", f[1], err)
		}
		reason = err
	}
	return "", reason
})

// Controller asks for a cgroup, of v2 or v1, with a controller such as "pids" whose limit file (pids.max) can be written.
// Controller makes the cgroup with this limit, and removes it at the end of the test. The processes in it must have ended by then.
func Controller(t testing.TB, name, limit string) (dir string) {
	t.Helper()
	file := name + ".max"
	var reasons []string
	for _, root := range []string{"/sys/fs/cgroup/" + name, "/sys/fs/cgroup"} {
		dir, err := os.MkdirTemp(root, "troupe-test-")
		if err != nil {
			reasons = append(reasons, err.Error())
			continue
		}
		if err := set(filepath.Join(dir, file), limit); err != nil {
			os.Remove(dir)
			reasons = append(reasons, err.Error())
			continue
		}
		t.Cleanup(func() { os.Remove(dir) })
		return dir
	}
	lack(t, needController, name+": "+strings.Join(reasons, "; "))
	return ""
}

// set writes to a file of a cgroup. In a directory that is no cgroup the file does not exist, and set does not make it.
func set(path, limit string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(limit)
	return errors.Join(err, f.Close())
}

// Descriptors asks for the right to list the open descriptors of a process that is not dumpable, as servers are.
// A test that only counts descriptors has another way, for which the test needs no right: server/info.
func Descriptors(t testing.TB) {
	t.Helper()
	if err := othersDescriptors(); err != nil {
		lack(t, needDescriptors, err.Error())
	}
}

// othersDescriptors asks for CAP_SYS_PTRACE, which /proc/PID/fd of a process that is not dumpable asks for. (proc(5))
var othersDescriptors = sync.OnceValue(func() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("capget: %w", err)
	}
	if data[0].Effective&(1<<unix.CAP_SYS_PTRACE) == 0 {
		return errors.New("the test has no CAP_SYS_PTRACE")
	}
	return nil
})

// Processes asks for room for n processes and threads of the user of the test, by RLIMIT_NPROC.
func Processes(t testing.TB, n int) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur < uint64(n) {
		lack(t, needProcesses, fmt.Sprintf("RLIMIT_NPROC is %d, and the test starts up to %d processes and threads", limit.Cur, n))
	}
}

// TUN asks for /dev/net/tun, from which a process makes network devices in a namespace of its own.
func TUN(t testing.TB) {
	t.Helper()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		lack(t, needTUN, err.Error())
	}
	unix.Close(fd)
}
