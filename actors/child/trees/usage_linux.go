package trees

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"github.com/b6f6fdd7/troupe/protocol"
)

// use is the resource usage of one process with all its threads, without its descendants.
type use struct {
	userMs, systemMs uint64
	bytes            uint64 // resident memory
	start            uint64 // as in stat
}

// tickMs is the unit of CPU time in /proc, in milliseconds. (proc_pid_stat(5), time(7))
const tickMs = 10

// lookUse reads the use of a process from /proc/<pid>/stat. A single file has everything: for thousands of processes
// a second file would cost as much again. ok is false if there is no such process, or if it is a zombie.
func lookUse(pid int) (u use, ok bool) {
	buf := statBuffers.Get().(*[2 << 10]byte)
	defer statBuffers.Put(buf)
	raw, err := readShort(buf[:], "/proc/", pid, "/stat")
	if err != nil {
		return use{}, false
	}
	return parseUse(raw)
}

func parseUse(raw []byte) (u use, ok bool) {
	// The name, in parentheses, may contain any character.
	zombie := false
	all := eachField(raw[bytes.LastIndexByte(raw, ')')+1:], 24, func(n int, field []byte) {
		switch n {
		case 3:
			zombie = isZombie(field)
		case 14:
			u.userMs = uint64(number(field)) * tickMs
		case 15:
			u.systemMs = uint64(number(field)) * tickMs
		case 20:
			zombie = zombie && number(field) <= 1 // as in parseStat
		case 22:
			u.start = uint64(number(field))
		case 24:
			u.bytes = uint64(number(field)) * uint64(os.Getpagesize())
		}
	})
	return u, all && !zombie
}

// usage is the usage of the program itself: finding its descendants would take a search through /proc.
func (t *search) usage(bool) *protocol.Usage {
	t.mu.Lock()
	leader := t.leader
	t.mu.Unlock()
	u, ok := lookUse(leader.pid)
	if !ok || leader.start != 0 && leader.start != u.start { // 0: not known yet
		return nil
	}
	return u.ofProgram()
}

func (u *use) ofProgram() *protocol.Usage {
	usage := &protocol.Usage{Of: protocol.UsageOfProgram, UserMs: u.userMs, SystemMs: u.systemMs}
	if u.bytes > 0 { // 0: the process has no memory yet, in the middle of its exec
		usage.MemoryBytes = &u.bytes
	}
	return usage
}

// usageOfFirst is the usage of the first child of a process; nil if unknown.
func usageOfFirst(pid int) *protocol.Usage {
	program, ok := firstChild(pid)
	if !ok {
		return nil
	}
	now, ok := lookUse(program)
	if !ok {
		return nil
	}
	return now.ofProgram()
}

// firstChild returns the oldest child that the main thread of a process has forked. Orphans that the process has adopted come after it.
func firstChild(pid int) (child int, ok bool) {
	buf := statBuffers.Get().(*[2 << 10]byte)
	defer statBuffers.Put(buf)
	raw, err := readShort(buf[:], "/proc/", pid, "/task/"+strconv.Itoa(pid)+"/children") // proc_tid_children(5)
	if err != nil {
		return 0, false
	}
	first, _, _ := bytes.Cut(raw, []byte(" "))
	child, err = strconv.Atoi(string(first))
	return child, err == nil
}

// resident is the sum of the resident memory of the processes in the cgroup; nil if there are none, or if there are
// cgroups below, whose processes would be missing.
func (l *leaf) resident() *uint64 {
	var dir syscall.Stat_t
	if err := syscall.Stat(l.dir, &dir); err != nil || dir.Nlink > 2 { // each directory below adds a link
		return nil
	}
	procs, err := l.read("cgroup.procs")
	if err != nil {
		return nil
	}
	var sum *uint64
	for pid := range bytes.FieldsSeq(procs) {
		n, err := strconv.Atoi(string(pid))
		if err != nil || n == 0 { // 0: a process of another PID namespace
			continue
		}
		if u, ok := lookUse(n); ok {
			if sum == nil {
				sum = new(uint64)
			}
			*sum += u.bytes
		}
	}
	return sum
}
