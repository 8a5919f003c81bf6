//go:build linux

package fork

import (
	"fmt"
	"syscall"
)

// Attr is a process to start. The exec closes all descriptors but Files.
type Attr struct {
	Path      string   // a relative path begins at Dir
	Dir       string   // the working directory; empty: that of this program
	DirFile   int      // descriptor of the working directory instead of Dir, not less than len(Files); 0 or less: Dir
	Binary    int      // descriptor of the file to execute instead of Path, not less than len(Files); 0 or less: Path
	Argv, Env []string // Argv has an element at least

	Namespaces uintptr   // flags of clone(2); 0: none
	Cgroup     int       // descriptor of the process's cgroup; 0 or less: the cgroup of this program
	Files      []uintptr // descriptors that become 0, 1, 2 …; none is less than its own new number. Empty: 0 to 2 stay as they are

	// Parent is the pid of this program's parent, which becomes the parent of the process, too (CLONE_PARENT of clone(2)). This program
	// cannot wait for such a process. 0: this program is the parent.
	Parent int
	// PIDSlot gets the pid before the process runs, also if this program is killed meanwhile. It points into memory that this program shares
	// with others. Nil: nothing is stored.
	PIDSlot *uint32

	Session     bool // setsid(2)
	DeathSignal bool // SIGKILL when the calling thread ends, or with Parent: when the thread of the parent ends that has started this program
	Terminal    bool // descriptor 0 becomes the controlling terminal; with Session

	Umask       int // below 0: as this program
	Limits      []Limit
	Nice        *int   // nil: as the calling thread
	OOMScoreAdj *int   // of proc_pid_oom_score_adj(5); nil: as this program
	User        *User  // for Begin alone: a change of ids would make the shared memory undumpable. Nil: the ids of this program
	NoNewPrivs  bool   // PR_SET_NO_NEW_PRIVS
	NotAmbient  uint64 // set of capabilities that do not outlive the exec, unless they are in Ambient
	Ambient     uint64 // set of capabilities that outlive the exec; their process must have them
	Blocked     uint64 // set of blocked signals: bit n-1 is signal n

	leaves int // the process shares the table of open files with this program until it has a table with the descriptors below leaves; 0: a copy
}

// Step is a step of a process between its start and the exec.
type Step int

const (
	StepOther Step = iota + 1
	StepSession
	StepTerminal
	StepCapabilities
	StepExec
	StepMount
	StepDir
	StepNice
	StepOOMScoreAdj
	StepGroups
	StepGID
	StepUID
	StepNoNewPrivs
	StepLimit // and more: StepLimit+n is the limit n of setrlimit(2)
)

// String names the step by its system call, where there is one.
func (s Step) String() string {
	switch s {
	case StepSession:
		return "setsid"
	case StepTerminal:
		return "controlling terminal"
	case StepCapabilities:
		return "capabilities"
	case StepExec:
		return "execve"
	case StepMount:
		return "read-only mount"
	case StepDir:
		return "chdir"
	case StepNice:
		return "setpriority"
	case StepOOMScoreAdj:
		return "oom_score_adj"
	case StepGroups:
		return "setgroups"
	case StepGID:
		return "setresgid"
	case StepUID:
		return "setresuid"
	case StepNoNewPrivs:
		return "no_new_privs"
	}
	if s >= StepLimit {
		return fmt.Sprintf("setrlimit %d", int(s-StepLimit))
	}
	return "descriptors and parent death signal"
}

// Error says which step of a process has failed.
type Error struct {
	Step  Step
	Errno syscall.Errno
}

func (e *Error) Error() string {
	return fmt.Sprintf("%v of a new process: %v", e.Step, e.Errno)
}

func (e *Error) Unwrap() error { return e.Errno }
