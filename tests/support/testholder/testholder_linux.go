// Package testholder is a holder for tests of what a killed server leaves to the next server.
package testholder

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A Holder keeps copies of descriptors until the end of its test. A Holder is for one goroutine at a time.
type Holder struct {
	t    testing.TB
	kept map[string]int
	lent []int // of the servers; a server never closes them, as the death of a process does
}

// New returns a holder that keeps nothing yet.
func New(t testing.TB) *Holder {
	h := &Holder{t: t, kept: make(map[string]int)}
	t.Cleanup(func() {
		for _, fd := range h.kept {
			unix.Close(fd)
		}
		for _, fd := range h.lent {
			unix.Close(fd)
		}
	})
	return h
}

// KeepNoted keeps a copy of each file, under the file's name. The files are a server's.
func (h *Holder) KeepNoted(_, _ string, files map[string]int) error {
	for name, fd := range files {
		kept, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		h.kept[name] = kept
		h.lend(name, fd)
	}
	return nil
}

// Drop closes the copies of files.
func (h *Holder) Drop(_ string, names ...string) error {
	for _, name := range names {
		if fd, ok := h.kept[name]; ok {
			unix.Close(fd)
			delete(h.kept, name)
		}
	}
	return nil
}

// Next returns the files for the next server: a copy of each.
func (h *Holder) Next() map[string]int {
	h.t.Helper()
	files := make(map[string]int)
	for name, fd := range h.kept {
		file, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			h.t.Fatal(err)
		}
		files[name] = file
		h.lend(name, file)
	}
	return files
}

// lend notes a file of a server. The ledgers and the arena are closed by their os.File.
func (h *Holder) lend(name string, fd int) {
	if name == "state" || strings.HasPrefix(name, "lane") {
		h.lent = append(h.lent, fd)
	}
}
