package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/b6f6fdd7/troupe/tests/internal/system"
)

// This file reads the kernel's figures about a process. Source: proc(5).

// memory is in KiB.
type memory struct {
	anonymous float64 // the process's own memory, without pages backed by files
	rss       float64 // resident memory, including pages mapped from files
}

// memoryOf reads the exact figures of smaps_rollup. Only privileged users may read those of a server, which is not dumpable; for others
// memoryOf reads the figures of status, which lag behind by some pages a thread.
func memoryOf(pid int) (memory, error) {
	file, names := "smaps_rollup", [2]string{"Anonymous", "Rss"}
	anonymous, err := system.Number(pid, file, names[0])
	if errors.Is(err, fs.ErrPermission) {
		file, names = "status", [2]string{"RssAnon", "VmRSS"}
		anonymous, err = system.Number(pid, file, names[0])
	}
	if err != nil {
		return memory{}, err
	}
	rss, err := system.Number(pid, file, names[1])
	return memory{float64(anonymous), float64(rss)}, err
}

// settledMemory returns the memory of pid once the figure stays the same, or after 10 s.
func (b *bench) settledMemory(pid int) (memory, error) {
	last, err := memoryOf(pid)
	quiet := 0
	for range 40 {
		if err != nil || quiet == b.n(6, 1) || b.ctx.Err() != nil {
			break
		}
		time.Sleep(250 * time.Millisecond)
		var now memory
		now, err = memoryOf(pid)
		quiet++
		if change := now.anonymous - last.anonymous; max(change, -change) > last.anonymous/200 {
			quiet, last = 0, now
		}
	}
	return last, err
}

func threads(pid int) (int64, error) { return system.Number(pid, "status", "Threads") }

// cpuTime returns the CPU time of all live threads of pid. The time of ended threads is missing.
func cpuTime(pid int) (sum time.Duration, err error) {
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("process %d has no threads", pid)
	}
	for _, path := range paths {
		var d time.Duration
		if text, err := os.ReadFile(path); err == nil {
			fmt.Sscan(string(text), &d)
		}
		sum += d
	}
	return sum, err
}
