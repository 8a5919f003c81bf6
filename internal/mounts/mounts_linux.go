package mounts

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

// Table has the mounts of a moment. It does not change.
type Table struct {
	All []Mount
	// Names of filesystems. A filesystem of a disk or of the kernel answers by itself, and has the name "". The filesystem of the
	// root has the name "" too: without a root nothing works. Other filesystems have the name of their first mount point.
	at      map[string]string // by Dir; of several mounts there, the last
	names   map[uint64]string // by Device
	foreign bool              // a filesystem has another name than ""
}

// Foreign reports whether a filesystem needs another program or machine.
func (t *Table) Foreign() bool { return t.foreign }

// localTypes are the types of filesystems of a disk or of the kernel. Others, such as FUSE, NFS, SMB and 9P, need another program
// or machine.
var localTypes = map[string]bool{
	"ext2": true, "ext3": true, "ext4": true, "xfs": true, "btrfs": true, "f2fs": true, "zfs": true, "bcachefs": true, "reiserfs": true, "nilfs2": true,
	"vfat": true, "exfat": true, "ntfs3": true, "iso9660": true, "udf": true, "squashfs": true, "erofs": true, "overlay": true,
	"tmpfs": true, "ramfs": true, "rootfs": true, "hugetlbfs": true, "mqueue": true, "nsfs": true,
	"proc": true, "sysfs": true, "devtmpfs": true, "devpts": true, "cgroup": true, "cgroup2": true, "debugfs": true, "tracefs": true,
	"securityfs": true, "selinuxfs": true, "smackfs": true, "configfs": true, "efivarfs": true, "bpf": true, "pstore": true,
	"binfmt_misc": true, "fusectl": true, "resctrl": true,
}

// current is the last Table of Now.
var current struct {
	sync.Mutex
	file  *os.File // nil: not read yet
	table *Table
}

// Now returns the mounts of this process. Now reads them again after the kernel has told of a change.
func Now() (*Table, error) {
	current.Lock()
	defer current.Unlock()
	if current.file != nil {
		fds := []unix.PollFd{{Fd: int32(current.file.Fd()), Events: unix.POLLPRI}}
		if n, err := unix.Poll(fds, 0); err == nil && n == 0 {
			return current.table, nil
		}
	} else {
		// Not /proc/self: the first thread may have mounts of its own.
		fd, err := unix.Open("/proc/thread-self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("open /proc/thread-self/mountinfo: %w", err)
		}
		current.file = os.NewFile(uintptr(fd), "/proc/thread-self/mountinfo")
	}
	text, err := read(current.file)
	if err == nil {
		current.table, err = parse(text)
	}
	if err != nil {
		current.file.Close()
		current.file = nil
	}
	return current.table, err
}

// read reads the file from its beginning, until two readings agree: the mounts may change in between.
func read(file *os.File) (text []byte, err error) {
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

func parse(text []byte) (*Table, error) {
	t := &Table{at: make(map[string]string), names: make(map[uint64]string)}
	for line := range strings.Lines(string(text)) {
		m, err := parseLine(line)
		if err != nil {
			return nil, err
		}
		t.All = append(t.All, m)
		if m.Dir == "/" {
			t.names[m.Device] = ""
		}
	}
	for _, m := range t.All {
		name, known := t.names[m.Device]
		if !known {
			if !localTypes[m.Type] {
				name = m.Dir
			}
			t.names[m.Device] = name
		}
		t.at[m.Dir] = name
		t.foreign = t.foreign || name != ""
	}
	return t, nil
}

func parseLine(line string) (m Mount, err error) {
	mount, source, ok := strings.Cut(line, " - ")
	fields := strings.Fields(mount)
	m.Type, _, _ = strings.Cut(source, " ")
	if !ok || len(fields) < 6 {
		return m, fmt.Errorf("a line of /proc/thread-self/mountinfo is not as expected: %q", line)
	}
	major, minor, _ := strings.Cut(fields[2], ":")
	high, err1 := strconv.ParseUint(major, 10, 32)
	low, err2 := strconv.ParseUint(minor, 10, 32)
	if err1 != nil || err2 != nil {
		return m, fmt.Errorf("a line of /proc/thread-self/mountinfo is not as expected: %q", line)
	}
	m.Dir, m.Device = unescape.Replace(fields[4]), unix.Mkdev(uint32(high), uint32(low))
	return m, nil
}

// unescape undoes the escapes of a path.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
