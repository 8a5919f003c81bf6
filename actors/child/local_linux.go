package child

import (
	"bytes"
	"encoding/binary"
	"errors"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/mounts"
)

// mayHang reports whether a forked child could wait for a filesystem before its program runs: in
// the change to dir, or in the exec of program or of its interpreter. A relative program starts at
// dir. In doubt mayHang returns true. mayHang itself may hang.
func mayHang(dir, program string) bool {
	table, err := mounts.Now()
	switch {
	case err != nil:
		return true
	case !table.Foreign():
		return false
	case dir != "" && !local(dir):
		return true
	}
	for range 5 { // the kernel follows scripts to this depth
		if !filepath.IsAbs(program) {
			program = joinRaw(dir, program)
		}
		if !local(program) {
			return true
		}
		interpreter, ok := interpreterOf(program)
		if !ok || interpreter == "" {
			return !ok
		}
		program = interpreter
	}
	return true
}

// local reports whether all filesystems on the way of an absolute path answer by themselves.
func local(path string) bool { return filepath.IsAbs(path) && mounts.Find(path, true) == "" }

// heads are buffers for the beginnings of files: each start reads two.
var heads = sync.Pool{New: func() any { return new([4 << 10]byte) }}

// interpreterOf returns the interpreter the kernel executes for a script or a dynamically linked
// ELF file; "" if there is none. ok is false if the interpreter is unknown.
func interpreterOf(program string) (path string, ok bool) {
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
