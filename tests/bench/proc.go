package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/b6f6fdd7/troupe/internal/holder"
	"github.com/b6f6fdd7/troupe/tests/internal/system"
)

// This file reads the kernel's figures about a process. Source: proc(5).

// memory is in KiB.
type memory struct {
	anonymous float64 // the process's own memory, without pages backed by files, but with those of memory that outlives a server
	rss       float64 // resident memory, including pages mapped from files
}

// processes returns a process, and the server below it if the process is a holder.
func processes(pid int) []int {
	if server := holder.ServerOf(pid); server != 0 {
		return []int{pid, server}
	}
	return []int{pid}
}

// memoryOf returns the memory of a server with its holder, or of another program.
func memoryOf(pid int) (sum memory, err error) {
	for _, pid := range processes(pid) {
		m, err := memoryOfOne(pid)
		if err != nil {
			return sum, err
		}
		sum.anonymous += m.anonymous
		sum.rss += m.rss
	}
	return sum, nil
}

// memoryOfOne reads the exact figures of smaps_rollup. Only privileged users may read those of a server, which is not dumpable; for others
// memoryOfOne reads the figures of status, which lag behind by some pages a thread.
func memoryOfOne(pid int) (memory, error) {
	file, names := "smaps_rollup", [3]string{"Anonymous", "Pss_Shmem", "Rss"}
	if _, err := system.Number(pid, file, names[0]); errors.Is(err, fs.ErrPermission) {
		file, names = "status", [3]string{"RssAnon", "RssShmem", "VmRSS"}
	}
	var n [3]int64
	for i, name := range names {
		var err error
		if n[i], err = system.Number(pid, file, name); err != nil {
			return memory{}, err
		}
	}
	return memory{float64(n[0] + n[1]), float64(n[2])}, nil
}

// An idle server gives memory back within 10 s. While that figure settles, settledMemory looks every settleEvery.
const settled, settleEvery = 11 * time.Second, 250 * time.Millisecond

// settledMemory returns the memory of pid once the figure has stayed the same for settled, or after 30 s.
func (b *bench) settledMemory(pid int) (memory, error) {
	last, err := memoryOf(pid)
	quiet := 0
	for range int(30 * time.Second / settleEvery) {
		if err != nil || quiet == b.n(int(settled/settleEvery), 1) || b.ctx.Err() != nil {
			break
		}
		time.Sleep(settleEvery)
		var now memory
		now, err = memoryOf(pid)
		quiet++
		if change := now.anonymous - last.anonymous; max(change, -change) > last.anonymous/200 {
			quiet, last = 0, now
		}
	}
	return last, err
}

// threads returns the threads of a server with its holder, or of another program.
func threads(pid int) (sum int64, err error) {
	for _, pid := range processes(pid) {
		n, err := system.Number(pid, "status", "Threads")
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// cpuTime returns the CPU time of all live threads of a server with its holder, or of another program. The time of ended threads is missing.
func cpuTime(pid int) (sum time.Duration, err error) {
	var paths []string
	for _, pid := range processes(pid) {
		more, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		if err == nil && len(more) == 0 {
			err = fmt.Errorf("process %d has no threads", pid)
		}
		if err != nil {
			return 0, err
		}
		paths = append(paths, more...)
	}
	for _, path := range paths {
		var d time.Duration
		if text, err := os.ReadFile(path); err == nil {
			fmt.Sscan(string(text), &d)
		}
		sum += d
	}
	return sum, nil
}
