package files

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/protocol"
)

// read reads events until the instance is closed.
func (r *Watcher) read(in *inotify) {
	var buf [4096]byte // room for 15 events at least
	for {
		n, err := in.file.Read(buf[:])
		if err != nil {
			r.mu.Lock()
			left := maps.Clone(in.all) // no watch is left if the instance was closed
			broken := r.in == in
			if broken {
				r.in = nil
			}
			r.mu.Unlock()
			if broken && len(left) == 0 { // no watch will end, and close the instance
				in.file.Close()
			}
			for w := range left {
				w.end(true)
			}
			return
		}
		r.mu.Lock()
		for events := buf[:n]; len(events) >= unix.SizeofInotifyEvent; {
			directory := int32(binary.NativeEndian.Uint32(events))
			mask := binary.NativeEndian.Uint32(events[4:])
			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[12:]))
			name, _, _ := strings.Cut(string(events[unix.SizeofInotifyEvent:end]), "\x00")
			events = events[end:]
			r.event(in, directory, mask, name)
		}
		r.mu.Unlock()
	}
}

// event wakes the watches concerned by an event. The caller holds the lock.
func (r *Watcher) event(in *inotify, directory int32, mask uint32, name string) {
	if mask&unix.IN_Q_OVERFLOW != 0 { // events were lost
		r.wake(in.all)
		return
	}
	names := in.directories[directory]
	if mask&unix.IN_IGNORED != 0 {
		delete(in.directories, directory)
	}
	if name != "" {
		r.wake(names[name])
		return
	}
	for _, watches := range names { // the event is about the directory itself
		r.wake(watches)
	}
}

func newInotify() (*inotify, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	in := &inotify{
		file:        os.NewFile(uintptr(fd), "inotify"),
		all:         make(map[*Watch]bool),
		directories: make(map[int32]map[string]map[*Watch]bool),
	}
	in.conn, _ = in.file.SyscallConn() // fails for a nil file only
	// A file outside of the runtime's poller has no deadlines, and could not be waited for.
	if err := in.file.SetDeadline(time.Time{}); err != nil {
		in.file.Close()
		return nil, err
	}
	return in, nil
}

// add makes the kernel watch a directory. Events refer to the directory by the returned descriptor.
func (in *inotify) add(v View, directory string) (wd int32, err error) {
	failed := v.Pin(directory, func(path string) {
		closed := in.conn.Control(func(fd uintptr) {
			n, e := unix.InotifyAddWatch(int(fd), path, watched|watchFlags)
			wd, err = int32(n), e
		})
		if closed != nil {
			err = closed
		}
	})
	switch {
	case failed != nil:
		return 0, failed
	case errors.Is(err, unix.ENOSPC):
		return 0, fail(protocol.KindLimit, "fs.inotify.max_user_watches is reached: no more directories can be watched")
	case err != nil:
		return 0, fmt.Errorf("watch %s: %w", directory, err)
	}
	return wd, nil
}

// forget ends the kernel's watches of directories. Errors about vanished directories are ignored.
func (in *inotify) forget(directories []int32) {
	in.conn.Control(func(fd uintptr) {
		for _, wd := range directories {
			unix.InotifyRmWatch(int(fd), uint32(wd))
		}
	})
}
