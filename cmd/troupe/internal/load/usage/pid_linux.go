package usage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/internal/holder"
	"github.com/b6f6fdd7/troupe/internal/kernel"
)

type pidMeter struct {
	pid    int
	born   string // the start time in /proc: another process may get the pid later
	cpu    cpu
	first  error     // of the constructor
	server *pidMeter // of the newest server, if the process is a holder
}

func own() Meter { return ofPID(os.Getpid()) }

func ofPID(pid int) *pidMeter {
	m := &pidMeter{pid: pid}
	_, m.first = m.Read()
	return m
}

// Read implements Meter. The use of a holder is that of the holder and its present server together.
func (m *pidMeter) Read() (result.Usage, error) {
	u, err := m.read()
	if server := holder.ServerOf(m.pid); err == nil && server != 0 {
		if m.server == nil || m.server.pid != server {
			m.server = &pidMeter{pid: server}
		}
		if of, err := m.server.read(); err == nil { // otherwise the server has just ended
			u = u.Plus(of)
		}
	}
	return u, err
}

// read reads the use of the process itself.
func (m *pidMeter) read() (result.Usage, error) {
	if m.first != nil {
		return result.Usage{}, m.first
	}
	dir := "/proc/" + strconv.Itoa(m.pid)
	field, err := kernel.Stat(m.pid)
	if err != nil {
		return result.Usage{}, m.ended(err)
	}
	if m.born == "" {
		m.born = field(22)
	}
	if field(22) != m.born || field(3) == "Z" {
		return result.Usage{}, m.ended(nil)
	}
	threads, err := strconv.Atoi(field(20))
	if err != nil {
		return result.Usage{}, fmt.Errorf("%s/stat: threads: %w", dir, err)
	}
	pages, err := strconv.ParseInt(field(24), 10, 64)
	if err != nil {
		return result.Usage{}, fmt.Errorf("%s/stat: resident pages: %w", dir, err)
	}
	files, err := countFiles(dir + "/fd")
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		return result.Usage{}, m.ended(err)
	}
	// The clock of the process counts nanoseconds. The times in /proc/PID/stat count hundredths of a second.
	var t unix.Timespec
	const sched = 2 // CPUCLOCK_SCHED, as in clock_getcpuclockid(3)
	if err := unix.ClockGettime(int32(^m.pid<<3|sched), &t); err != nil {
		return result.Usage{}, m.ended(err)
	}
	cores := m.cpu.cores(time.Duration(t.Nano()), time.Now())
	return result.Usage{CPU: cores, Memory: pages * int64(os.Getpagesize()), Files: files, Threads: threads}, nil
}

// ended explains why a process could not be measured.
func (m *pidMeter) ended(err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("there is no process %d, or it has ended", m.pid)
	}
	return fmt.Errorf("the use of the process %d cannot be read: %w", m.pid, err)
}

// countFiles returns the number of descriptors in a directory /proc/PID/fd.
func countFiles(dir string) (int, error) {
	// From Linux 6.2 on, the size of the directory is the number. To list 20,000 descriptors takes 10 ms.
	if info, err := os.Stat(dir); err == nil && info.Size() > 0 {
		return int(info.Size()), nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return 0, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	return len(names), err
}
