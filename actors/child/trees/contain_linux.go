package trees

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
)

// newContainment kills the processes left behind by dead servers, and returns the containment of
// cfg, or the best available.
func (ts *Trees) newContainment(cfg Config) (containment, error) {
	log := ts.log
	self, err := ts.self()
	if err != nil {
		return nil, err
	}
	c := &searches{mode: cfg.Containment, server: self, spare: ts.spare, log: log, tags: newTags(self, ts.runs), reaped: &ts.reaped}
	if cfg.Subreaper {
		c.isStranger = ts.isStranger
	}
	if c.tags.off {
		log.Info("RLIMIT_LOCKS is in use: descendants are found without a tag", "reason", "another server of ours started this one, or a limit is set")
	}
	switch c.mode {
	case ContainCgroup, "":
		groups, err := newCgroups(c, ts.holder != nil, cfg.Subreaper, log)
		if err == nil {
			c.mode = ContainCgroup
			if ts.holder == nil {
				c.killLeftovers()
			}
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
	if c.mode == ContainMarker {
		if c.tags.mark = rttime.free(self); !c.tags.mark {
			log.Info("RLIMIT_RTTIME is set: descendants are found without a marker")
		}
	}
	if ts.holder == nil {
		c.killLeftovers()
	}
	return c, nil
}

// server identifies one Host for as long as the machine runs. A pid is valid only in its namespace
// and may be reused; so the namespace, the start time and the count of the Host are added. All servers of a holder are one: the process is
// the holder, whose children outlive a server, and the count is 1.
type server struct {
	pidns uint64 // inode of the PID namespace
	pid   int
	start uint64 // of the process, in clock ticks since boot
	host  uint64 // count of the Host in this process
}

var hosts atomic.Uint64

func (ts *Trees) self() (s server, err error) {
	if ts.holder == nil {
		return identify(os.Getpid(), hosts.Add(1))
	}
	return identify(ts.holder.PID(), 1)
}

func identify(pid int, host uint64) (server, error) {
	ns, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return server{}, err
	}
	s := server{pid: pid, host: host}
	if _, err := fmt.Sscanf(ns, "pid:[%d]", &s.pidns); err != nil {
		return server{}, fmt.Errorf("/proc/self/ns/pid is %q: %w", ns, err)
	}
	// With another number for this process, no process that a search finds in /proc would be the one that a signal reaches.
	if own, _ := os.Readlink("/proc/self"); own != strconv.Itoa(os.Getpid()) {
		return server{}, fmt.Errorf("/proc is of another PID namespace: it calls this process %q, and not %d; run the server where /proc is of its own namespace", own, os.Getpid())
	}
	st, err := lookStat(s.pid)
	if err != nil {
		return server{}, err
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

// dead reports whether s is known to be gone. The state of a server in another PID namespace is
// unknown.
func (s server) dead(self server) bool {
	if s.pidns != self.pidns {
		return false
	}
	st, err := lookStat(s.pid)
	return gone(err) || err == nil && (st.zombie || st.start != s.start)
}

// stat is the information of /proc about one process.
type stat struct {
	pid, ppid      int
	group, session int
	start          uint64   // clock ticks since boot; pid and start together identify the process
	zombie         bool     // all threads have ended, and nobody has reaped the process
	stopped        bool     // by its tracer
	halted         bool     // by a signal
	forked         bool     // the process has executed nothing since its fork
	kernel         bool     // a kernel thread
	name           [15]byte // as in the kernel, padded with zeros
	tag            tag      // set only if read
	marker         tag      // set only if read
}

// String returns the pid and the name.
func (s *stat) String() string {
	return fmt.Sprintf("%d (%s)", s.pid, bytes.TrimRight(s.name[:], "\x00"))
}

// same reports whether o is the same process.
func (s *stat) same(o *stat) bool { return s.pid == o.pid && s.start == o.start }

// readStat is lookStat, with ok instead of an error.
func readStat(pid int) (s stat, ok bool) {
	s, err := lookStat(pid)
	return s, err == nil
}

// Ended reports whether a process has ended, and perhaps waits to be reaped.
func Ended(pid int) bool {
	s, ok := readStat(pid)
	return !ok || s.zombie
}

// statBuffers are for lookStat, which a census calls for each process. A stat file has some 300
// bytes.
var statBuffers = sync.Pool{New: func() any { return new([2 << 10]byte) }}

// lookStat reads and parses /proc/<pid>/stat. (proc_pid_stat(5)) If there is no such process, gone
// returns true for the error.
func lookStat(pid int) (stat, error) {
	buf := statBuffers.Get().(*[2 << 10]byte)
	defer statBuffers.Put(buf)
	raw, err := readShort(buf[:], "/proc/", pid, "/stat")
	if err != nil {
		return stat{}, err
	}
	return parseStat(pid, raw)
}

func parseStat(pid int, raw []byte) (stat, error) {
	// The name, in parentheses, may contain any character.
	open, shut := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
	if open < 0 || shut < open {
		return stat{}, statError(pid, raw)
	}
	s := stat{pid: pid}
	copy(s.name[:], raw[open+1:shut])
	if !eachField(raw[shut+1:], 22, func(n int, field []byte) {
		switch n {
		case 3:
			s.zombie, s.stopped, s.halted = isZombie(field), field[0] == 't', field[0] == 'T'
		case 4:
			s.ppid = int(number(field))
		case 5:
			s.group = int(number(field))
		case 6:
			s.session = int(number(field))
		case 9:
			s.kernel = number(field)&0x200000 != 0 // PF_KTHREAD
			s.forked = number(field)&0x40 != 0     // PF_FORKNOEXEC
		case 20:
			s.zombie = s.zombie && number(field) <= 1 // else only the main thread has ended
		case 22:
			s.start = uint64(number(field))
		}
	}) {
		return stat{}, statError(pid, raw)
	}
	return s, nil
}

// isZombie reports whether the state of a process, field 3 of its stat file, is that of an ended main thread.
func isZombie(state []byte) bool { return state[0] == 'Z' || state[0] == 'X' }

func statError(pid int, raw []byte) error {
	return fmt.Errorf("/proc/%d/stat is %q: %w", pid, raw, errors.ErrUnsupported)
}

// eachField calls use with the fields 3 to last of a stat file, counted as in proc_pid_stat(5). fields is the file after the name. all is false
// if the file has fewer fields.
func eachField(fields []byte, last int, use func(n int, field []byte)) (all bool) {
	fields = bytes.TrimPrefix(fields, []byte(" "))
	for n := 3; n <= last; n++ {
		field, rest, more := bytes.Cut(fields, []byte(" "))
		if !more {
			return false
		}
		fields = rest
		use(n, field)
	}
	return true
}

// number parses the decimal digits of a field; for other text number returns 0.
func number(field []byte) (n int64) {
	n, _ = strconv.ParseInt(string(field), 10, 64)
	return n
}
