package placeholder

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/paths"
)

// A journal is a file with the held paths of a server, each quoted, on a line. The server has the file locked. A starting
// server reads each journal that no server has locked, and removes the placeholders in it.

const (
	journalName = "placeholders-*"
	// maxJournal is the length of a journal, in bytes, at which the server writes the journal anew.
	maxJournal = 64 << 10
	// maxRead bounds the bytes read of the journal of a dead server.
	maxRead = 16 << 20
)

// journal is guarded by Holder.mu. Its file is on a disk of the operator, so nobody waits for long.
type journal struct {
	file  *os.File // nil: there is no journal
	paths map[string]int
	size  int // of the file, in bytes
	live  int // of the lines of paths, in bytes
}

// Open removes the placeholders of dead servers with a journal in dir, and returns a Holder with a journal there. Only
// the user of this server may write to dir. The removal goes on in the background. With an error, the Holder is usable, but
// has no journal.
func Open(dir string) (*Holder, error) {
	h := new(Holder)
	old, _ := filepath.Glob(filepath.Join(dir, journalName))
	go func() {
		for _, name := range old {
			clean(name)
		}
	}()
	for range 10 {
		file, err := os.CreateTemp(dir, journalName)
		if err != nil {
			return h, err
		}
		var st unix.Stat_t
		err = errors.Join(flock(int(file.Fd()), unix.LOCK_EX), unix.Fstat(int(file.Fd()), &st))
		if err == nil && st.Nlink > 0 {
			h.journal = journal{file: file, paths: make(map[string]int)}
			return h, nil
		}
		file.Close() // another server took the new file for one of a dead server
	}
	return h, fmt.Errorf("another process removes each new file %s: stop it", filepath.Join(dir, journalName))
}

// Close ends the journal. Running sandboxes keep their placeholders until Release.
func (h *Holder) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := &h.journal
	if j.file == nil {
		return
	}
	if len(j.paths) == 0 {
		os.Remove(j.file.Name())
	}
	j.file.Close()
	j.file = nil
}

// note writes paths down before their hold. A full disk is no reason to refuse a sandbox: the next sandbox in the same
// place removes the leftovers.
func (h *Holder) note(paths []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := &h.journal
	if j.file == nil {
		return
	}
	var lines strings.Builder
	for _, path := range paths {
		if j.paths[path]++; j.paths[path] == 1 {
			lines.WriteString(line(path))
		}
	}
	j.live += lines.Len()
	n, _ := j.file.WriteString(lines.String())
	j.size += n
}

// forget ends the note of released paths.
func (h *Holder) forget(paths []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := &h.journal
	if j.file == nil {
		return
	}
	for _, path := range paths {
		if j.paths[path]--; j.paths[path] <= 0 {
			delete(j.paths, path)
			j.live -= len(line(path))
		}
	}
	if len(j.paths) > 0 && j.size < maxJournal || j.size <= 2*j.live {
		return
	}
	var lines strings.Builder
	for path := range j.paths {
		lines.WriteString(line(path))
	}
	j.file.Truncate(0)
	j.file.Seek(0, io.SeekStart)
	j.size, _ = j.file.WriteString(lines.String())
}

// line is the line of a path.
func line(path string) string { return strconv.Quote(path) + "\n" }

// clean removes the placeholders in a journal, and the journal, unless its server lives.
func clean(name string) {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || int(st.Uid) != os.Geteuid() || st.Mode&unix.S_IFMT != unix.S_IFREG || flock(fd, unix.LOCK_EX) != nil {
		return
	}
	lines := bufio.NewScanner(io.LimitReader(file, maxRead))
	for lines.Scan() {
		if path, err := strconv.Unquote(lines.Text()); err == nil && filepath.IsAbs(path) && path == filepath.Clean(path) && path != "/" {
			cleanPath(path)
		}
	}
	os.Remove(name)
}

// cleanPath removes the placeholder at path, unless somebody uses it.
func cleanPath(path string) {
	dir, err := openDir(paths.Parent(path))
	if err != nil {
		return
	}
	defer unix.Close(dir)
	p := &place{name: filepath.Base(path)}
	if p.fd, err = open(dir, p.name); err != nil {
		return
	}
	var st unix.Stat_t
	found, err := look(p.fd)
	if err != nil || unix.Fstat(p.fd, &st) != nil {
		p.close()
		return
	}
	p.id, p.made = idOf(&st), found.ours(&st)
	p.leave()
}
