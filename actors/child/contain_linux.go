package child

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// newContainment returns the wanted containment, or the best at hand, after it
// has killed what dead servers left in it.
func (h *Host) newContainment(cfg HostConfig) (containment, error) {
	log := h.log
	self, err := self()
	if err != nil {
		return nil, err
	}
	c := &searches{mode: cfg.Containment, server: self, spare: h.spare, tags: newTags(self, cfg.Subreaper)}
	if cfg.Subreaper {
		c.isStranger = h.isStranger
	}
	h.endStrays = func() { c.closing.Store(true) }
	if c.tags.off {
		log.Info("RLIMIT_LOCKS is in use: programs are found without their tag", "reason", "another server of ours started this one, or a limit is set")
	}
	switch c.mode {
	case ContainCgroup, "":
		groups, err := newCgroups(c, log)
		if err == nil {
			c.mode = ContainCgroup
			c.killLeftovers(log)
			return groups, nil
		}
		if c.mode == ContainCgroup {
			return nil, err
		}
		log.Info("no cgroup for children: using a marker", "reason", err)
		c.mode = ContainMarker
	case ContainMarker, ContainGroup:
	default:
		return nil, fmt.Errorf("containment %q is unknown: use %q, %q or %q", cfg.Containment, ContainCgroup, ContainMarker, ContainGroup)
	}
	c.killLeftovers(log)
	return c, nil
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
	st, err := lookStat(s.pid)
	if err != nil {
		return server{}, fmt.Errorf("is /proc of this PID namespace? %w", err)
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
	st, err := lookStat(s.pid)
	return gone(err) || err == nil && (st.zombie || st.start != s.start)
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
	name           string // as the kernel has it, 15 bytes at most
	tag            tag    // if it was asked for
	marker         string // value of the variable markerName, if it was asked for
}

// String is how a person knows the process.
func (s *stat) String() string { return fmt.Sprintf("%d (%s)", s.pid, s.name) }

// readStat is lookStat; ok is false where the process cannot be seen, whyever.
func readStat(pid int) (s stat, ok bool) {
	s, err := lookStat(pid)
	return s, err == nil
}

// lookStat parses /proc/<pid>/stat. (proc_pid_stat(5)) If there is no such process, the error is one of gone.
func lookStat(pid int) (s stat, err error) {
	raw, err := readFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	// The name, in parentheses, may contain anything.
	open, shut := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
	f := strings.Fields(string(raw[shut+1:]))
	if open < 0 || len(f) < 49 {
		return stat{}, fmt.Errorf("/proc/%d/stat is %q: %w", pid, raw, errors.ErrUnsupported)
	}
	number := func(i int) int { n, _ := strconv.Atoi(f[i]); return n }
	s = stat{pid: pid, ppid: number(1), group: number(2), session: number(3), zombie: f[0] == "Z" || f[0] == "X", stopped: f[0] == "t", name: string(raw[open+1 : shut])}
	flags, _ := strconv.ParseUint(f[6], 10, 64)
	s.kernel = flags&0x200000 != 0 // PF_KTHREAD
	s.execing = f[48] == "0"       // env_end; also of whom we may not look into
	s.start, err = strconv.ParseUint(f[19], 10, 64)
	return s, err
}
