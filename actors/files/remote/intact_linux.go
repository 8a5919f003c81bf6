package remote

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/sandbox"
)

// Mounts watches whether a jail keeps the mounts that hide and protect files. Any goroutine may call the methods.
type Mounts struct {
	places []sandbox.Path // placeholders

	mu   sync.Mutex // guards the fields below
	file *os.File   // /proc/PID/mountinfo: the kernel tells of each change once
	lost bool
}

// WatchMounts watches the jail with a pid, whose policy has the placeholders. The jail has made its mounts.
func WatchMounts(pid int, policy *sandbox.Policy) (*Mounts, error) {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/mountinfo", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("look at the mounts of a sandbox: %w", err)
	}
	m := &Mounts{file: os.NewFile(uintptr(fd), "mounts of a sandbox")}
	for _, path := range policy.Paths {
		if path.Kind == sandbox.Missing {
			m.places = append(m.places, path)
		}
	}
	return m, nil
}

// Intact reports whether each mount and each placeholder is where it was. If somebody removes a directory on the host, the
// kernel takes the mounts on that directory out of the jail. If somebody moves a placeholder away, its mount goes with it; of
// other directories the View tells. Intact waits for filesystems.
func (m *Mounts) Intact() bool {
	for _, place := range m.places {
		var st unix.Stat_t
		if unix.Lstat(place.Path, &st) != nil || uint64(st.Dev) != place.Dev || st.Ino != place.Ino {
			return false
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	fds := []unix.PollFd{{Fd: int32(m.file.Fd()), Events: unix.POLLPRI}} // -1 after Close
	n, err := unix.Poll(fds, 0)
	m.lost = m.lost || err != nil || n > 0
	return !m.lost
}

// Close ends the watch. Until then the jail's mounts exist, also after the end of the jail.
func (m *Mounts) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost = true
	m.file.Close()
}
