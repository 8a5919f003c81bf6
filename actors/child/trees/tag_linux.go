package trees

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/fork"
	"github.com/b6f6fdd7/troupe/internal/kernel"
)

// tag identifies one run of a child, and the server that started the child. The tag is the value of a
// resource limit: the kernel hands resource limits down at each fork and exec. A process keeps its tag
// despite a cleaned environment, setsid, a lost parent, another cgroup or another user, and the server
// can read the tag of a process that is not dumpable. A program that sets the limit itself loses its tag.
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

func (t tag) plain() [2]uint64 { return [2]uint64{t.run, t.server} }

func tagOf(plain [2]uint64) tag { return tag{plain[0], plain[1]} }

// given reports whether a server has given tag t to a run.
func (t tag) given() bool { return t.server&tagMark != 0 && t.server != tagInfinity && t.run < tagMark }

// dead reports whether the server of tag t is known to be gone. dead is like server.dead.
func (t tag) dead(self server) bool {
	if !t.given() || t.run>>tagRunBits != self.pidns&tagPidNS || t.server == self.tagged(0).server {
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

// A carrier is a resource limit that carries tags.
type carrier struct {
	resource int
	line     string // of /proc/PID/limits
	later    bool   // of two servers, the one that started later has the smaller hard limit
}

var (
	// locks carries the tag of the outermost server. The kernel has ignored RLIMIT_LOCKS since Linux
	// 2.4.25. (getrlimit(2))
	locks = &carrier{resource: unix.RLIMIT_LOCKS, line: "Max file locks"}
	// rttime carries the marker of ContainMarker, a tag of the innermost server. A limit of the CPU time
	// of realtime processes concerns no process when it is hours long. A hard limit may be lowered, but
	// only root raises it, so a server within another can replace the other's marker.
	rttime = &carrier{resource: unix.RLIMIT_RTTIME, line: "Max realtime timeout", later: true}
)

// swap turns the tag t into the values of the limit, and these into the tag.
func (c *carrier) swap(t tag) tag {
	if c.later && t.server != tagInfinity {
		t.server ^= tagStart << tagPidBits
	}
	return t
}

// read returns the tag of a process. If the process has none, given returns false for the result.
func (c *carrier) read(pid int) (tag, error) {
	var limit unix.Rlimit
	err := unix.Prlimit(pid, c.resource, nil, &limit) // needs no descriptor
	if err == unix.EPERM {                            // the process has another user
		return c.readFile(pid)
	}
	return c.swap(tag{limit.Cur, limit.Max}), err
}

func (c *carrier) readFile(pid int) (t tag, err error) {
	text, err := kernel.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits")
	if err != nil {
		return tag{}, err
	}
	_, line, _ := strings.Cut(string(text), "\n"+c.line)
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return tag{}, fmt.Errorf("/proc/%d/limits has no line %q", pid, c.line)
	}
	for i, limit := range []*uint64{&t.run, &t.server} {
		if *limit = tagInfinity; fields[i] != "unlimited" {
			if *limit, err = strconv.ParseUint(fields[i], 10, 64); err != nil {
				return tag{}, err
			}
		}
	}
	return c.swap(t), nil
}

// limit is the limit of a process with tag t.
func (c *carrier) limit(t tag) fork.Limit {
	t = c.swap(t)
	return fork.Limit{Resource: c.resource, Limit: unix.Rlimit{Cur: t.run, Max: t.server}}
}

// free reports whether server s can give tags with c. The program of s itself may have another's.
func (c *carrier) free(s server) bool {
	own, err := c.read(s.pid)
	return err == nil && c.swap(own).server >= c.swap(s.tagged(0)).server
}

// tags makes the marks for the children of a host.
type tags struct {
	self server
	runs *atomic.Uint64
	off  bool // this server itself has the tag of another server, and keeps it
	mark bool // children get a marker, too
}

func newTags(self server, runs *atomic.Uint64) tags {
	own, err := locks.read(self.pid)
	return tags{self: self, runs: runs, off: err != nil || !locks.free(self) || own.given() && own.server != self.tagged(0).server}
}

// next is the mark of the next child.
func (t *tags) next() mark {
	next := t.self.tagged(t.runs.Add(1))
	var m mark
	if !t.off {
		m.tag = next
		m.limits = append(m.limits, locks.limit(next))
	}
	if t.mark {
		m.marker = next
		m.limits = append(m.limits, rttime.limit(next))
	}
	return m
}

// mark is for a child about to be forked. The child sets the limits itself, so it has the mark before its program begins.
type mark struct {
	tag                 // zero: none
	marker tag          // zero: none
	limits []fork.Limit // that carry tag and marker
}

// Mark gives a process the cgroup and the tags of the tree. It is for the child, whose program begins with them.
func (t *Tree) Mark(a *fork.Attr) {
	a.Cgroup = t.tree.cgroup()
	a.Limits = append(a.Limits, t.tree.mark().limits...)
}
