// Package child is the edge to the operating system: it starts programs on a
// PTY or on pipes, moves their bytes, tells how they ended, and leaves nothing
// of them behind.
//
// A [Host] starts children on threads of its own; a [Handle] is one child.
// What a child does goes into its [Intake], in this order:
//
//	output … Exited, after the output that was there at the exit … output of
//	descendants that go on writing … Closed, when every stream has ended
//
// Nothing that a Host or a Handle offers blocks, but Close: all of it may be
// called from an actor's Receive, and from any goroutine. An idle child costs a
// goroutine for each stream; no thread, and no buffer.
package child

import (
	"context"
	"errors"
	"log/slog"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Spec is what to start.
type Spec struct {
	Argv []string // program and arguments; looked up in the PATH of Env
	Arg0 *string  // what the program sees as its name; nil: Argv[0]
	Dir  string   // working directory; empty: the server's
	Env  []string // NAME=value, all of it: nothing is inherited

	TTY  bool
	Size protocol.Size // of the TTY; a zero field means 24 rows or 80 columns

	Stdin      bool // a pipe; false: /dev/null. A TTY always has one.
	StdinQueue int  // bytes that may wait for the child to read them; 0 or less means 64 KiB

	Merge bool // stderr is stdout

	Limits protocol.ProcessLimits // see Host.Allows

	// Name is unique for all time and a valid file name, as a ULID is. The
	// containment of the child is named after it.
	Name string

	// Owner is on whose behalf it is started, such as a session: starts that hang are
	// limited for each.
	Owner string
	// Context, when done, fails a start whose child has not executed its program yet, with
	// the cause. Nil: nothing does.
	Context context.Context
}

// Containment is how the descendants of a child are found when all of them
// must go.
type Containment string

// With each of them a Host finds also who has the tag of the child (RLIMIT_LOCKS), and who
// descends from those that it finds. PROTOCOL.md says who gets away.
const (
	// ContainCgroup puts each child into a cgroup (v2) of its own, which the
	// kernel kills as one. Root, and who owns the cgroup, can leave it.
	ContainCgroup Containment = "cgroup"
	// ContainMarker gives each child an environment variable and searches /proc for it.
	ContainMarker Containment = "marker"
	// ContainGroup finds the process group and the session of the child.
	ContainGroup Containment = "group"
)

// HostConfig is useful at zero.
type HostConfig struct {
	// Spawners is how many threads start children. Zero or less means 2: a
	// third gains next to nothing, as the runtime takes one lock for each fork.
	Spawners int
	// Containment is what to use, and NewHost fails where it cannot be had.
	// Empty means the best at hand.
	Containment Containment
	// Subreaper says that the whole program is ours. Then descendants that lost
	// their parent become our children instead of init's, those that end are reaped, Close kills
	// the others, and RLIMIT_LOCKS of this program changes.
	Subreaper bool
	// AnswerTime is how long a filesystem may take to find a program or a working directory,
	// and as long again to execute it. Then the start fails. Zero or less means 10 s.
	AnswerTime time.Duration
	Log        *slog.Logger // nil means slog.Default()
	// Fault is for tests: called at the top of the loops named "pump", "waiter"
	// and "stdin", where it may panic.
	Fault func(point string)
}

// Handle is one child, and the processes that came of it. Any goroutine may
// call any method; none blocks.
type Handle interface {
	PID() int
	Containment() Containment

	// Write queues p for the child's stdin and returns how many bytes it took; p is the
	// caller's again when it returns. If that is less than all, there was no room for the
	// rest, and Intake.StdinRoom follows. A p that fits into the queue is taken whole or
	// not at all, a larger one in parts. The error is ErrStdinClosed.
	Write(p []byte) (n int, err error)
	// CloseStdin closes stdin after what is queued. A PTY, which has no end,
	// gets the character that its terminal settings call VEOF. Closing it again
	// does nothing.
	CloseStdin() error
	// Resize sets the size of the TTY. The error is ErrNoTTY, or the system's.
	Resize(protocol.Size) error

	// Signal goes to the process group of the child. Once the child has exited
	// it does nothing.
	Signal(syscall.Signal) error
	// Kill is Signal(SIGKILL).
	Kill() error
	// KillTree kills the child and all its descendants, as far as Containment
	// finds them, and calls done on another goroutine: with nil once they were
	// verified to be gone and the child's exit was seen; with ErrSurvivors, their
	// pids and names, or why they are not known, if that was not reached in some 10 s, or 2 s
	// where the system does not permit it. It works after the exit too, for what the child left behind.
	KillTree(done func(error))

	// Abandon reads what is in the streams now, as far as the Intake gives
	// credit, and then no more. Closed follows once the child has exited, even
	// when a descendant still holds a stream open.
	Abandon()
	// StdinUnread is how many bytes Write took that the child had not read when it
	// exited, as far as that can be seen: of a TTY only what was queued here. 0 before.
	StdinUnread() int64
	// Status is how the child ended; ok is false before. As Exited, it is ahead of the
	// Intake.
	Status() (st protocol.ExitStatus, ok bool)
	// Exited reports whether the child has ended. The Intake has its exit later, behind
	// the output that came before it.
	Exited() bool
	// Stopped reports whether a signal has stopped the child, and none continued it.
	Stopped() bool
	// Usage calls done on another goroutine, with nil where it is not known.
	Usage(done func(*protocol.Usage))
	// TreeEmpty reports whether the child was reaped and no descendant is
	// left. Where that takes a search it reports what the last one found, and
	// starts another.
	TreeEmpty() bool
	// Release forgets the child: its containment is removed. It fails until
	// Closed was delivered and the tree is empty; then it may be repeated.
	Release() error
	// Finish ends all that there is of the child, whatever it is doing: its tree
	// is killed, what nobody has read is dropped, and it is forgotten. done is
	// called on another goroutine, with an error of KillTree or Release. It may be
	// repeated.
	Finish(done func(error))
}

// Errors of a start, to branch on; what Start reports says more.
var (
	ErrArgument   = errors.New("invalid argument")
	ErrDir        = errors.New("working directory")
	ErrNoProgram  = errors.New("no such program")
	ErrPermission = errors.New("permission denied")
	ErrExecFormat = errors.New("exec format error")
	ErrLimit      = errors.New("limit reached")
	ErrClosed     = errors.New("child: the host is closed")
	// ErrNoAnswer means that the filesystem of the program or the working directory hangs.
	ErrNoAnswer = errors.New("the filesystem does not answer")
	// ErrLimitRefused means that Spec.Limits cannot be set.
	ErrLimitRefused = errors.New("limits")
)

// Errors of a Handle.
var (
	ErrStdinClosed = errors.New("child: stdin is closed")
	ErrNoTTY       = errors.New("child: the process has no TTY")
	ErrSurvivors   = errors.New("child: could not kill the whole tree")
	ErrInUse       = errors.New("child: not to be released yet")
)
