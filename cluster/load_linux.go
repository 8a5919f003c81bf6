package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/kernel"
)

// cgroups is where the hierarchy of cgroup v2 is.
const cgroups = "/sys/fs/cgroup"

// A meter is a clock of busy processors at the last look.
type meter struct {
	sync.Mutex
	at         time.Time
	busy, part float64 // seconds of processors; of all of them, 0 to 1
}

// read returns the busy part since the last look. busy is in seconds of processors since some time, and there are so many processors.
func (m *meter) read(busy, processors float64) float64 {
	m.Lock()
	defer m.Unlock()
	now := time.Now()
	if gone := now.Sub(m.at).Seconds(); gone > 0.5 && processors > 0 {
		if !m.at.IsZero() {
			m.part = max(0, (busy-m.busy)/gone/processors)
		}
		m.at, m.busy = now, busy
	}
	return m.part
}

// machineCPU and groupCPU are of the machine and of the cgroup with a limit.
var machineCPU, groupCPU meter

// machine returns how full the machine is, or the narrowest cgroup around this process with a limit: a container, or a service.
func machine() (l Load) {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		l.MaxMemory = int64(info.Totalram) * int64(info.Unit)
		l.Memory = l.MaxMemory - available()
	}
	l.CPU = machineCPU.read(busySeconds(), float64(runtime.NumCPU()))
	group := ownCgroup()
	for dir := group; len(dir) > len(cgroups); dir = path.Dir(dir) {
		if most, ok := number(dir + "/memory.max"); ok && most < l.MaxMemory {
			used, _ := number(dir + "/memory.current")
			cache, _ := field(dir+"/memory.stat", "inactive_file")
			l.Memory, l.MaxMemory = max(0, used-cache), most
		}
	}
	for dir := group; len(dir) > len(cgroups); dir = path.Dir(dir) {
		if processors, ok := quota(dir); ok {
			us, _ := field(dir+"/cpu.stat", "usage_usec")
			l.CPU = max(l.CPU, groupCPU.read(float64(us)/1e6, processors))
			break
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

// ownCgroup returns the directory of the cgroup of this process; "": there is none.
func ownCgroup() string {
	text, _ := kernel.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return path.Join(cgroups, name)
		}
	}
	return ""
}

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

// busySeconds is how long the processors were busy since the machine has started, added up: of proc_stat(5), whose unit is 10 ms.
func busySeconds() float64 {
	text, _ := kernel.ReadFile("/proc/stat")
	line, _, _ := bytes.Cut(text, []byte("\n"))
	var user, nice, system, idle, wait, irq, soft, steal uint64
	if n, _ := fmt.Sscanf(string(line), "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &irq, &soft, &steal); n < 8 {
		return 0
	}
	return float64(user+nice+system+irq+soft+steal) / 100
}
