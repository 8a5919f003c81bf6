//go:build unix && !linux

package usage

import (
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
)

// noMeter is the Meter of another process on a system without /proc.
type noMeter struct{ pid int }

func ofPID(pid int) Meter { return noMeter{pid} }

// Read implements Meter.
func (m noMeter) Read() (result.Usage, error) {
	return result.Usage{}, fmt.Errorf("on %s the use of the process %d cannot be read by its pid: give the URL of the server's metrics instead", runtime.GOOS, m.pid)
}

type ownMeter struct{ cpu cpu }

func own() Meter {
	m := new(ownMeter)
	m.Read()
	return m
}

// Read implements Meter. Memory is the memory mapped by the Go runtime.
func (m *ownMeter) Read() (result.Usage, error) {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return result.Usage{}, fmt.Errorf("getrusage: %w", err)
	}
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	files, err := os.ReadDir("/dev/fd")
	if err != nil {
		return result.Usage{}, fmt.Errorf("the descriptors of this process cannot be counted: %w", err)
	}
	return result.Usage{
		CPU:     m.cpu.cores(time.Duration(r.Utime.Nano()+r.Stime.Nano()), time.Now()),
		Memory:  int64(s[0].Value.Uint64() - s[1].Value.Uint64()),
		Files:   len(files) - 1, // without the descriptor that lists the others
		Threads: pprof.Lookup("threadcreate").Count(),
	}, nil
}
