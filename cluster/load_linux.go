package cluster

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/kernel"
)

// A gauge measures how full the machine is, or the narrowest cgroup around this process with a limit: a container, or a service. A single goroutine may
// use a gauge.
type gauge struct {
	machine kernel.CPUs
	group   groupCPU
}

// read returns what is in use, without sessions and processes.
func (g *gauge) read() (l Load) {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		l.MaxMemory = int64(info.Totalram) * int64(info.Unit)
		l.Memory = l.MaxMemory - available()
	}
	l.CPU = g.machine.Busy()
	group, root := ownCgroup()
	limited := false // a cgroup limits the CPU
	for dir := group; len(dir) > len(root); dir = path.Dir(dir) {
		if most, ok := number(dir + "/memory.max"); ok && most < l.MaxMemory {
			used, _ := number(dir + "/memory.current")
			cache, _ := field(dir+"/memory.stat", "inactive_file")
			l.Memory, l.MaxMemory = max(0, used-cache), most
		}
		if processors, ok := quota(dir); ok && !limited {
			limited = true
			us, _ := field(dir+"/cpu.stat", "usage_usec")
			l.CPU = max(l.CPU, g.group.read(time.Now(), us, processors))
		}
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

// groupCPU has the CPU time of a cgroup at the last look.
type groupCPU struct {
	at time.Time
	us int64
}

// read returns the part of the processors that was busy since the last look; 0: it is the first.
func (g *groupCPU) read(now time.Time, us int64, processors float64) (part float64) {
	if gone := now.Sub(g.at); !g.at.IsZero() && gone > 0 {
		part = max(0, float64(us-g.us)/float64(gone.Microseconds())/processors)
	}
	g.at, g.us = now, us
	return part
}

// ownCgroup is the cgroup of this process in the hierarchy of v2, and the visible root of the hierarchy; "": there is none. A server stays in its cgroup.
var ownCgroup = sync.OnceValues(func() (dir, root string) {
	dir, root, _ = trees.OwnCgroup("")
	return dir, root
})

// number returns the number in a file of a cgroup; ok is false without the file, or for max.
func number(file string) (n int64, ok bool) {
	text, err := kernel.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// field returns the number in a line NAME NUMBER of a file.
func field(file, name string) (n int64, ok bool) {
	text, _ := kernel.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if value, is := strings.CutPrefix(strings.TrimSpace(line), name+" "); is {
			n, err := strconv.ParseInt(value, 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// quota returns how many processors a cgroup may use; ok is false without a limit. Source: cpu.max of the kernel's cgroup-v2.
func quota(dir string) (processors float64, ok bool) {
	text, _ := kernel.ReadFile(dir + "/cpu.max")
	var most, period float64
	if n, _ := fmt.Sscan(string(text), &most, &period); n != 2 || period <= 0 {
		return 0, false
	}
	return most / period, true
}

// available is the memory that new programs can have, in bytes: MemAvailable of proc_meminfo(5).
func available() int64 {
	text, _ := kernel.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kb << 10
		}
	}
	return 0
}
