package child

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// newContainment returns the wanted containment, or the best at hand, after it
// has killed what dead servers left in it.
func newContainment(cfg HostConfig, log *slog.Logger) (containment, error) {
	self, err := self()
	if err != nil {
		return nil, err
	}
	switch cfg.Containment {
	case ContainCgroup:
		return newCgroups(self, log)
	case ContainMarker, ContainGroup:
		return newSearches(cfg.Containment, self, log), nil
	case "":
		c, err := newCgroups(self, log)
		if err == nil {
			return c, nil
		}
		log.Info("no cgroup for children: using a marker", "reason", err)
		return newSearches(ContainMarker, self, log), nil
	}
	return nil, fmt.Errorf("containment %q is unknown: use %q, %q or %q", cfg.Containment, ContainCgroup, ContainMarker, ContainGroup)
}

// server names one Host for as long as the machine runs. A pid means nothing
// outside its namespace, and something else later: hence all of it.
type server struct {
	pidns uint64 // inode of the PID namespace
	pid   int
	start uint64 // of the process, in clock ticks since boot
	host  uint64 // of this process: the how many-th
}

var hosts atomic.Uint64

func self() (server, error) {
	ns, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return server{}, err
	}
	s := server{pid: os.Getpid(), host: hosts.Add(1)}
	if _, err := fmt.Sscanf(ns, "pid:[%d]", &s.pidns); err != nil {
		return server{}, fmt.Errorf("/proc/self/ns/pid is %q: %w", ns, err)
	}
	st, ok := readStat(s.pid)
	if !ok {
		return server{}, fmt.Errorf("/proc/%d/stat cannot be read: is /proc of this PID namespace?", s.pid)
	}
	s.start = st.start
	return s, nil
}

func (s server) String() string {
	return fmt.Sprintf("%d-%d-%d-%d", s.pidns, s.pid, s.start, s.host)
}

func parseServer(name string) (s server, ok bool) {
	_, err := fmt.Sscanf(name, "%d-%d-%d-%d", &s.pidns, &s.pid, &s.start, &s.host)
	return s, err == nil && s.String() == name
}

// dead reports whether s is known to be gone. Of a server in another PID
// namespace we cannot know.
func (s server) dead(self server) bool {
	if s.pidns != self.pidns {
		return false
	}
	st, ok := readStat(s.pid)
	return !ok || st.zombie || st.start != s.start
}

// stat is what /proc tells of one process.
type stat struct {
	pid, ppid      int
	group, session int
	start          uint64 // clock ticks since boot: with the pid it names the process
	zombie         bool
	stopped        bool   // by its tracer
	kernel         bool   // a kernel thread
	execing        bool   // has no environment yet
	marker         string // value of the variable markerName, if it was asked for
}

// readStat parses /proc/<pid>/stat. (proc_pid_stat(5))
func readStat(pid int) (s stat, ok bool) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, false
	}
	// The name, in parentheses, may contain anything.
	f := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(f) < 49 {
		return stat{}, false
	}
	number := func(i int) int { n, _ := strconv.Atoi(f[i]); return n }
	s = stat{pid: pid, ppid: number(1), group: number(2), session: number(3), zombie: f[0] == "Z" || f[0] == "X", stopped: f[0] == "t"}
	flags, _ := strconv.ParseUint(f[6], 10, 64)
	s.kernel = flags&0x200000 != 0 // PF_KTHREAD
	s.execing = f[48] == "0"       // env_end; also of whom we may not look into
	s.start, err = strconv.ParseUint(f[19], 10, 64)
	return s, err == nil
}
