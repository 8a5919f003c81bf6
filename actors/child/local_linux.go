package child

import (
	"bytes"
	"encoding/binary"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// mayHang reports whether a forked child could wait for a filesystem before its program runs: in
// the change to dir, or in the exec of program or of its interpreter. A relative program starts at
// dir. In doubt mayHang returns true. mayHang itself may hang.
func mayHang(dir, program string) bool {
	if dir != "" && !local("", dir) {
		return true
	}
	for range 5 { // the kernel follows scripts to this depth
		if !local(dir, program) {
			return true
		}
		interpreter, ok := interpreterOf(dir, program)
		if !ok || interpreter == "" {
			return !ok
		}
		program = interpreter
	}
	return true
}

// local reports whether path and all directories and links on the way are on filesystems that need
// no other program or machine. A relative path starts at dir.
func local(dir, path string) bool {
	if !filepath.IsAbs(path) {
		path = joinRaw(dir, path)
	}
	// Most often the whole path is on one mount.
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV}
	if fd, err := unix.Openat2(unix.AT_FDCWD, path, &how); err == nil {
		defer unix.Close(fd)
		return answers(fd)
	}
	at, err := unix.Open(first(path), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { unix.Close(at) }()
	names := strings.Split(path, "/")
	for links := 0; len(names) > 0; {
		name := names[0]
		names = names[1:]
		if name == "" || name == "." {
			continue
		}
		next, err := unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return false
		}
		if !answers(next) {
			unix.Close(next)
			return false
		}
		target, isLink := readlink(next)
		if !isLink {
			unix.Close(at)
			at = next
			continue
		}
		unix.Close(next)
		if links++; links > 40 {
			return false
		}
		names = append(strings.Split(target, "/"), names...)
		if filepath.IsAbs(target) {
			root, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
			if err != nil {
				return false
			}
			unix.Close(at)
			at = root
		}
	}
	return answers(at)
}

// first is the directory where the look-up of path begins.
func first(path string) string {
	if filepath.IsAbs(path) {
		return "/"
	}
	return "."
}

func readlink(fd int) (target string, ok bool) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", false
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if err != nil {
		return "", false
	}
	return string(buf[:n]), true
}

// localTypes are the filesystems that answer by themselves. All others, such as FUSE, NFS, SMB and
// 9P, need another program or machine. (statfs(2))
var localTypes = []uint32{
	unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
	unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, unix.SQUASHFS_MAGIC,
	unix.EROFS_SUPER_MAGIC_V1, unix.ISOFS_SUPER_MAGIC, unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC,
	unix.REISERFS_SUPER_MAGIC, unix.NILFS_SUPER_MAGIC, unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC,
	0x2fc12fc1, // ZFS
	0xca451a4e, // bcachefs
}

// answers reports whether the file is on a filesystem of localTypes.
func answers(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && slices.Contains(localTypes, uint32(st.Type))
}

// heads are buffers for the beginnings of files: each start reads two.
var heads = sync.Pool{New: func() any { return new([4 << 10]byte) }}

// interpreterOf returns the interpreter the kernel executes for a script or a dynamically linked
// ELF file; "" if there is none. ok is false if the interpreter is unknown.
func interpreterOf(dir, program string) (path string, ok bool) {
	if !filepath.IsAbs(program) {
		program = joinRaw(dir, program)
	}
	fd, err := unix.Open(program, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return "", false
	}
	defer unix.Close(fd)
	buf := heads.Get().(*[4 << 10]byte)
	defer heads.Put(buf)
	n, err := unix.Pread(fd, buf[:], 0)
	if err != nil {
		return "", false
	}
	head := buf[:n]
	if line, script := bytes.CutPrefix(head, []byte("#!")); script {
		line, _, _ = bytes.Cut(line, []byte("\n"))
		words := bytes.Fields(line)
		if len(words) == 0 {
			return "", false
		}
		return string(words[0]), true
	}
	path, err = elfInterpreter(head)
	return path, err == nil
}

var errNoELF = errors.New("not a readable ELF file")

// elfInterpreter finds PT_INTERP in the beginning of a file. (elf(5))
func elfInterpreter(head []byte) (string, error) {
	if len(head) < 64 || string(head[:4]) != "\x7fELF" {
		return "", errNoELF
	}
	var order binary.ByteOrder = binary.LittleEndian
	if head[5] == 2 {
		order = binary.BigEndian
	}
	wide := head[4] == 2
	table, size, n := uint64(order.Uint32(head[28:])), uint64(order.Uint16(head[42:])), uint64(order.Uint16(head[44:]))
	if wide {
		table, size, n = order.Uint64(head[32:]), uint64(order.Uint16(head[54:])), uint64(order.Uint16(head[56:]))
	}
	all := uint64(len(head))
	if size < 32 || wide && size < 56 || table > all || n*size > all-table {
		return "", errNoELF
	}
	for i := range n {
		entry := head[table+i*size:]
		if order.Uint32(entry) != 3 {
			continue
		}
		offset, length := uint64(order.Uint32(entry[4:])), uint64(order.Uint32(entry[16:]))
		if wide {
			offset, length = order.Uint64(entry[8:]), order.Uint64(entry[32:])
		}
		if offset > all || length > all-offset {
			return "", errNoELF
		}
		name, _, _ := strings.Cut(string(head[offset:offset+length]), "\x00")
		return name, nil
	}
	return "", nil
}
