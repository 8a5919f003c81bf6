// Package system reads the kernel's facts about processes, for programs that observe a server from
// outside. Source: proc(5), cgroups(7).
package system

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Number returns the number after a name at the beginning of a line of /proc/PID/file.
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

// CPU returns the processor time that all threads of a process have used so far, in steps of 10 ms.
func CPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // the name of the program may have blanks
	var ticks time.Duration
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, err
		}
		ticks += time.Duration(n)
	}
	return ticks * 10 * time.Millisecond, nil // USER_HZ is 100 on Linux
}

// Files returns the number of open descriptors of a process. Since Linux 6.2 the size of the directory is the number: only
// privileged users may list the descriptors of a server, which is not dumpable.
func Files(pid int) (int, error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	info, err := os.Stat(dir)
	if err != nil {
		return 0, err
	}
	if info.Size() > 0 {
		return int(info.Size()), nil
	}
	entries, err := os.ReadDir(dir)
	return len(entries), err
}

// Kin returns the processes with a token in their arguments. A zombie has no arguments.
func Kin(token string) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil && IsKin(pid, token) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// IsKin reports whether a process has the token in its arguments.
func IsKin(pid int, token string) bool { return bytes.Contains(Read(pid, "cmdline"), []byte(token)) }

// Read returns the content of /proc/PID/file, or nil if there is no such process. Tests look at all processes of the machine again and
// again, so Read makes four system calls, where os.ReadFile makes nine.
func Read(pid int, file string) []byte {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/"+file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	text := make([]byte, 0, 4096)
	for {
		switch n, err := unix.Read(fd, text[len(text):cap(text)]); {
		case err == unix.EINTR:
		case err != nil:
			return nil
		case n == 0:
			return text
		default:
			text = slices.Grow(text[:len(text)+n], 512)
		}
	}
}

// KillKin kills a process if the token is in its arguments.
func KillKin(pid int, token string) {
	fd, err := unix.PidfdOpen(pid, 0) // the pidfd makes sure that the checked process is the killed process
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if IsKin(pid, token) {
		unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// Cgroups returns the cgroup2 directories made for programs by the server with this pid.
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
