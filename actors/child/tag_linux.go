package child

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// tag identifies one run of a child, and the server that started the child. The tag is
// RLIMIT_LOCKS: the kernel hands RLIMIT_LOCKS down at each fork and exec and has ignored the value
// since Linux 2.4.25 (getrlimit(2)). A process keeps its tag despite a cleaned environment, setsid,
// a lost parent, another cgroup or another user, and the server can read the tag of a process that
// is not dumpable. A program that sets RLIMIT_LOCKS itself loses its tag.
type tag struct {
	run    uint64 // soft limit: PID namespace, 28 bits, and count of the run, 34 bits
	server uint64 // hard limit: 1, start of the server, 40 bits, and pid of the server, 22 bits
}

const (
	tagMark     = 1 << 62 // of the hard limit; no run is greater, as the kernel demands
	tagPidBits  = 22      // PID_MAX_LIMIT of the kernel is 2^22
	tagStart    = 1<<40 - 1
	tagRunBits  = 34
	tagPidNS    = 1<<28 - 1 // inode numbers of namespaces differ in these bits
	tagInfinity = unix.RLIM_INFINITY
)

// tagged is the tag of the server's run number n.
func (s server) tagged(n uint64) tag {
	return tag{
		run:    s.pidns&tagPidNS<<tagRunBits | n&(1<<tagRunBits-1),
		server: tagMark | s.start&tagStart<<tagPidBits | uint64(s.pid)&(1<<tagPidBits-1),
	}
}

// given reports whether a server has given tag t to a run.
func (t tag) given() bool { return t.server&tagMark != 0 && t.server != tagInfinity && t.run < tagMark }

// dead reports whether the server of tag t is known to be gone. dead is like server.dead.
func (t tag) dead(self server) bool {
	if !t.given() || t.run>>tagRunBits != self.pidns&tagPidNS {
		return false
	}
	pid := int(t.server & (1<<tagPidBits - 1))
	st, err := lookStat(pid)
	switch {
	case gone(err):
		return true
	case err != nil:
		return false
	}
	return st.zombie || st.start&tagStart != t.server>>tagPidBits&tagStart
}

// readTag returns the tag of a process. If the process has none, given returns false for the
// result.
func readTag(pid int) (tag, error) {
	var limit unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_LOCKS, nil, &limit) // needs no descriptor
	if err == unix.EPERM {                                   // the process has another user
		return readTagFile(pid)
	}
	return tag{limit.Cur, limit.Max}, err
}

func readTagFile(pid int) (t tag, err error) {
	text, err := readFile("/proc/" + strconv.Itoa(pid) + "/limits")
	if err != nil {
		return tag{}, err
	}
	_, line, _ := strings.Cut(string(text), "\nMax file locks")
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return tag{}, fmt.Errorf("/proc/%d/limits has no line %q", pid, "Max file locks")
	}
	for i, limit := range []*uint64{&t.run, &t.server} {
		if *limit = tagInfinity; fields[i] != "unlimited" {
			if *limit, err = strconv.ParseUint(fields[i], 10, 64); err != nil {
				return tag{}, err
			}
		}
	}
	return t, nil
}

// tags makes the tags for the children of a host.
type tags struct {
	self server
	// whole says the host may act for the whole program: then a fork may change the program's own
	// limit.
	whole bool
	off   bool // this server itself has the tag of another server, and keeps it
}

var runs atomic.Uint64

func newTags(self server, whole bool) tags {
	own, err := readTag(self.pid)
	none := self.tagged(0)
	return tags{self: self, whole: whole, off: err != nil || own.server < none.server || own.given() && own.server != none.server}
}

// next is the mark of the next child. alone says no other mark distinguishes the descendants of two
// children forked at the same time.
func (t *tags) next(alone bool) mark {
	if t.off {
		return mark{}
	}
	return mark{tag: t.self.tagged(runs.Add(1)), before: t.whole, alone: alone}
}

// mark is the tag for a child about to be forked. The zero mark gives no tag.
type mark struct {
	tag
	before bool // set the tag before the fork, as this program's own limit; else after the fork
	alone  bool // no other fork may run at the same time
}

// tagging is held during a fork with mark.alone.
var tagging sync.Mutex

// fork calls the function fork; the new child gets the tag. If m.alone is false, a child may have
// another child's tag in its first moments, and so may processes it forks then. Any other mark
// distinguishing the two children therefore takes precedence over the tag.
func (m mark) fork(fork func() (pid int, err error)) (pid int, err error) {
	if !m.given() {
		return fork()
	}
	limit := unix.Rlimit{Cur: m.run, Max: m.server}
	if m.before {
		if m.alone {
			tagging.Lock()
			defer tagging.Unlock()
		}
		if err := unix.Prlimit(0, unix.RLIMIT_LOCKS, &limit, nil); err != nil {
			return 0, fmt.Errorf("RLIMIT_LOCKS: %w", err)
		}
	}
	if pid, err = fork(); err == nil && !(m.before && m.alone) {
		unix.Prlimit(pid, unix.RLIMIT_LOCKS, &limit, nil) // refused if the program is set-user-ID
	}
	return pid, err
}
