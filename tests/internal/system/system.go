// Package system reads what the kernel tells about processes, for programs that look at a
// server from outside. Source: proc(5), cgroups(7).
package system

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Number is the number after a name at the beginning of a line of /proc/PID/file.
func Number(pid int, file, name string) (n int64, err error) {
	path := fmt.Sprintf("/proc/%d/%s", pid, file)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut("\n"+string(text), "\n"+name+":")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		return 0, fmt.Errorf("%s of %s: %w", name, path, err)
	}
	return n, nil
}

// Files is how many descriptors a process has open.
func Files(pid int) (int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(entries), err
}

// Kin are the processes that have a token in their arguments. A zombie has no arguments.
func Kin(token string) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil && IsKin(pid, token) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// IsKin tells whether a process has the token in its arguments.
func IsKin(pid int, token string) bool {
	args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return bytes.Contains(args, []byte(token))
}

// KillKin kills one process if it has the token in its arguments.
func KillKin(pid int, token string) {
	fd, err := unix.PidfdOpen(pid, 0) // the check is of the process that will be killed
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if IsKin(pid, token) {
		unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// Cgroups are the cgroup2 directories that a server with this pid has made for programs.
func Cgroups(pid int) (dirs []string, err error) {
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if f[2] != "cgroup2" {
			continue
		}
		filepath.WalkDir(f[1], func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "troupe-") && strings.Contains(d.Name(), fmt.Sprintf("-%d-", pid)) {
				dirs = append(dirs, path)
			}
			return nil
		})
	}
	return dirs, nil
}
