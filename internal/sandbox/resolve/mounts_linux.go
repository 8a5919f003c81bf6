package resolve

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// mounts remembers the mounts of this machine until the kernel tells of a change. (proc_pid_mountinfo(5).)
var mounts struct {
	sync.Mutex
	file *os.File // nil: not read yet
	list []Mount
}

func (machine) Mounts() ([]Mount, error) {
	mounts.Lock()
	defer mounts.Unlock()
	if mounts.file != nil {
		fds := []unix.PollFd{{Fd: int32(mounts.file.Fd()), Events: unix.POLLPRI}}
		if n, err := unix.Poll(fds, 0); err == nil && n == 0 {
			return mounts.list, nil
		}
	} else {
		fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("open /proc/self/mountinfo: %w", err)
		}
		mounts.file = os.NewFile(uintptr(fd), "/proc/self/mountinfo")
	}
	text, err := readMounts(mounts.file)
	if err == nil {
		mounts.list, err = parseMounts(text)
	}
	if err != nil {
		mounts.file.Close()
		mounts.file = nil
	}
	return mounts.list, err
}

// readMounts reads the file from its beginning, until two readings agree: the mounts may change in between.
func readMounts(file *os.File) (text []byte, err error) {
	var before []byte
	for range 10 {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		if text, err = io.ReadAll(file); err != nil || bytes.Equal(text, before) {
			return text, err
		}
		before = text
	}
	return text, nil
}

// parseMounts returns the mounts of kernelTypes.
func parseMounts(text []byte) (list []Mount, err error) {
	for line := range strings.Lines(string(text)) {
		mount, source, ok := strings.Cut(line, " - ")
		fields := strings.Fields(mount)
		kind, _, _ := strings.Cut(source, " ")
		if !ok || len(fields) < 6 {
			return nil, fmt.Errorf("a line of /proc/self/mountinfo is not as expected: %q", line)
		}
		if !kernelTypes[kind] {
			continue
		}
		major, minor, _ := strings.Cut(fields[2], ":")
		high, err1 := strconv.ParseUint(major, 10, 32)
		low, err2 := strconv.ParseUint(minor, 10, 32)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("a line of /proc/self/mountinfo is not as expected: %q", line)
		}
		list = append(list, Mount{unescape.Replace(fields[4]), kind, unix.Mkdev(uint32(high), uint32(low))})
	}
	return list, nil
}

// unescape undoes the escapes of a path.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
