package cluster

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/kernel"
)

// cpu has the times of the processors at the last look, of proc_stat(5).
var cpu struct {
	sync.Mutex
	busy, all uint64
	part      float64
}

// machine returns how full the machine is.
func machine() (l Load) {
	l.CPU = busyPart()
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		l.MaxMemory = int64(info.Totalram) * int64(info.Unit)
		l.Memory = l.MaxMemory - available()
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		l.MaxFiles = int64(min(limit.Cur, 1<<40))
	}
	if list, err := os.Open("/proc/self/fd"); err == nil {
		names, _ := list.Readdirnames(-1)
		list.Close()
		l.Files = int64(len(names))
	}
	return l
}

// available is the memory that new programs can have, in bytes: MemAvailable of proc_meminfo(5).
func available() int64 {
	text, _ := kernel.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(text)) {
		if kb, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(kb), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}

// busyPart returns the part of the time that the processors were busy since the last call.
func busyPart() float64 {
	text, _ := kernel.ReadFile("/proc/stat")
	line, _, _ := bytes.Cut(text, []byte("\n"))
	var user, nice, system, idle, wait, irq, soft, steal uint64
	if n, _ := fmt.Sscanf(string(line), "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &irq, &soft, &steal); n < 8 {
		return 0
	}
	busy := user + nice + system + irq + soft + steal
	all := busy + idle + wait
	cpu.Lock()
	defer cpu.Unlock()
	if all-cpu.all >= 50 { // ticks, of 10 ms
		cpu.part = float64(busy-cpu.busy) / float64(all-cpu.all)
		cpu.busy, cpu.all = busy, all
	}
	return cpu.part
}
