// Package child is the edge to the operating system. It starts programs on a PTY or on pipes, moves
// their bytes, reports how they ended, and removes every process and resource they leave behind.
//
// A [Host] starts children on threads of its own. A [Handle] is one child. Everything a child does
// goes into its [Intake], in this order:
//
//	output … Exited, after the output written before the exit … output of
//	descendants still writing … Closed, when every stream has ended
//
// Every method of Host and Handle returns without blocking, except Host.Close. Any goroutine, and
// any actor's Receive, may call these methods. An idle child costs a goroutine for each stream; it
// costs no thread and no buffer.
//
// A start is one list of steps, in start.go. Its result is a [Born], plain data, of which the Host builds what moves the bytes and
// waits. [Host.Adopt] builds the same for a child that was started earlier.
//
// # Where to look
//
//   - child.go, host.go, host_close.go: the Host, and its own end
//   - start.go, turns.go, fork_linux.go: a start, step by step; a call that may hang; the fork
//   - lookup.go, environ.go, rule.go, user.go: what is run, with which environment, under which rules, as whom
//   - local_linux.go: whether a filesystem may hang
//   - process.go, stream.go, order_linux.go, stdin.go, ends.go: a running child: its streams with their pumps, and the order of stdout and stderr
//   - intake.go: facts for the actor, and credit for reading
//   - held.go, held_linux.go, slots_linux.go: children that outlive this program at a holder: what the holder keeps, and who takes it over
//   - sandbox.go, cansandbox.go, places_linux.go, jail_linux.go: the sandbox of a child, its placeholders, and its plan
//   - trees: how a child and its descendants are found, measured, killed and reaped; limits
//   - confine: the jail of a child, its binary and its reports
//
// # Adding a stream
//
// A fourth stream needs a word in protocol.Stream and a Kind. internal/estate has room for the numbers 1 to 3: the words of a chain from 4 on belong to
// the process. start.go opens a stream and gives the stream to the fork, process.go and stream.go pump it, order_linux.go orders streams, and
// held_linux.go has the holder keep them. In a jail, descriptor 3 is the socket to the server.
package child

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/actors/child/confine"
	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/holder"
	"github.com/b6f6fdd7/troupe/internal/lane"
	"github.com/b6f6fdd7/troupe/internal/pace"
	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/internal/sandbox/placeholder"
	"github.com/b6f6fdd7/troupe/internal/sandbox/resolve"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Spec describes the child to start.
type Spec struct {
	Argv []string // program and arguments; Argv[0] is looked up in the PATH of Env
	Arg0 *string  // argv[0] as the program sees it; nil: Argv[0]
	Dir  string   // working directory; empty: the server's
	Env  []string // NAME=value, the whole environment: nothing is inherited

	TTY  bool
	Size protocol.Size // of the TTY; a zero field means 24 rows or 80 columns

	Stdin      bool // true: a pipe; false: /dev/null. A TTY always has stdin.
	StdinQueue int  // most bytes queued for the child to read; 0 or less means 64 KiB
	// StdinRate holds the bytes queued to a rate; nil: no limit.
	StdinRate *pace.Meter `lost:"of this server"`

	Merge bool // stderr goes to stdout

	Limits protocol.ProcessLimits // see Host.Allows

	User  *User   // nil: the user of the server
	Umask *uint32 // nil: the umask of the server
	// NoNewPrivs keeps the child and its descendants from gaining privileges by an exec. (prctl(2),
	// PR_SET_NO_NEW_PRIVS)
	NoNewPrivs bool
	// Sandbox is what the child and its descendants may do. Nil: the child is not confined. The start fails if the
	// system cannot confine the child.
	Sandbox *protocol.Sandbox
	// TempDir is the TMPDIR that Sandbox is about, if Env has one that the client did not choose. Nil: TMPDIR of Env.
	TempDir *string
	// Rule returns what the policy allows this child, at its start. Rule may wait for files. Nil: there is no
	// policy, and the start costs nothing more.
	Rule func() *rules.Rule `lost:"the next server has its policy"`
	// DefaultSandbox returns the sandbox of a child without Sandbox, from its working directory. The Rule may name another
	// one. Nil: such a child is not confined.
	DefaultSandbox func(dir string) *protocol.Sandbox `lost:"the next server has its policy"`
	// Looks refuses a sandbox of the operator that the client's looks at the child do not agree with. Nil: there are none.
	Looks func(*protocol.Sandbox) error `lost:"made again"`
	// RequireSandbox refuses a child without a sandbox that confines files.
	RequireSandbox bool
	// Watches are the paths at which the server will look for the child. The rule must allow reading them.
	Watches []string `lost:"made again"`

	// Resolved gets the resolved Sandbox, before and after its placeholders were made, at the latest before Start calls done.
	// The last call counts. Nil: nobody asks.
	Resolved func(found, held *sandbox.Policy) `lost:"made again"`
	// Serve is a socket on which the child, a jail, serves files under Sandbox or as User. Such a child has no Argv. The
	// caller keeps and closes Serve, after Start has called done. Nil: the child runs a program.
	Serve       *os.File          `lost:"for one start"`
	mustConfine bool              // the operator demands a policy that confines files
	policy      *sandbox.Policy   `lost:"for one start"` // the resolved Sandbox, from the look-up on, or of a test; nil: the child is not confined
	held        *placeholder.Held `lost:"for one start"` // of policy

	// dir is the open working directory that the rule has allowed; nil: the child enters Dir by its name.
	dir *os.File `lost:"for one start"`

	// Name is unique for all time and a valid file name, as a ULID is. The cgroup or marker of the
	// child carries this name.
	Name string

	// Owner names the party, such as a session, for whom the child is started. Each owner may have
	// only a few hanging starts.
	Owner string
	// Context, when done, fails the start if the child has not executed its program yet. The error
	// is the context's cause. Nil: no context limits the start.
	Context context.Context `lost:"of the session"`
	// Forks is called, from any goroutine, when the start has waited for its turn, for the look-up and for a thread, and forks. It must not block. Nil:
	// nobody is told.
	Forks func() `lost:"of this server"`
}

func (s *Spec) closeDir() {
	if s.dir != nil {
		s.dir.Close()
	}
}

// Containment is the method for finding the descendants of a child when all of them must go.
type Containment = trees.Containment

// The methods. See package trees.
const (
	ContainCgroup = trees.ContainCgroup
	ContainMarker = trees.ContainMarker
	ContainGroup  = trees.ContainGroup
)

// HostConfig configures a Host. The zero value is useful.
type HostConfig struct {
	// Spawners is the number of threads that fork. Zero or less means 2. A third thread
	// gains next to nothing, because the runtime takes one lock for each fork.
	Spawners int
	// Containment is the method to use. NewHost fails if the system lacks this method. Empty means
	// the best method available.
	Containment Containment
	// Subreaper says the Host may act for the whole program. Orphaned descendants then become
	// children of this program instead of init's, those that end are reaped, Close kills the
	// others, and RLIMIT_LOCKS and RLIMIT_RTTIME of this program change.
	Subreaper bool
	// AnswerTime is how long a filesystem may take to find the program and the working directory.
	// The execution of the program may take as long again. A start taking longer fails. Zero or
	// less means 10 s.
	AnswerTime time.Duration
	// NoNewPrivs sets Spec.NoNewPrivs for every child.
	NoNewPrivs bool
	// CompleteSandbox refuses a sandbox whose level is not protocol.SandboxComplete.
	CompleteSandbox bool
	// StateDir is where the Host notes which placeholders of sandboxes it has made, for the next Host if this one is
	// killed. Only the user of the server may write there. Empty: such placeholders stay until the next sandbox of the same
	// directory.
	StateDir string
	// Hidden are files and directories of the server that no child with a sandbox may read.
	Hidden []string
	Log    *slog.Logger // nil means slog.Default()
	// Lanes move the output of children whose Intake has a chain. Nil: no Intake has one.
	Lanes chan *lane.Lane
	// Holder is the parent of the children, and outlives this program; the next Host of the same holder goes on with them. Then children
	// do not die with this program, and Subreaper is true. Children with Spec.Serve belong to this program as ever. Nil: this program is the parent.
	// Linux only.
	Holder Holder
	// Found is what the holder has from earlier programs. The Host owns its descriptors, except those of the id "" with other names than the
	// Host's own.
	Found []holder.Found
	// Fault is for tests. The loops named "pump", "waiter" and "stdin" call Fault before each step;
	// Fault may panic.
	Fault func(point string)
}

// Handle is one child with its descendants. Any goroutine may call any method; no method blocks.
type Handle interface {
	PID() int
	Containment() Containment
	// Sandbox says in a word which sandbox the child has, also by the operator's demand, and its level; "": none. The words are
	// those of ProcessInfo.Sandbox and SandboxLevel (docs/PROTOCOL.md).
	Sandbox() (name, level string)

	// Write queues p for the child's stdin and returns how many bytes the queue took. The caller
	// may reuse p after the return. If n is less than len(p), the queue was full, or Spec.StdinRate was
	// used up; Intake.StdinRoom follows when the queue may take more. Without a rate, a p no larger than
	// the queue is taken whole or not at all, and a larger p in parts. The error is ErrStdinClosed.
	Write(p []byte) (n int, err error)
	// WriteAs is Write, and the next server finds id beside the bytes that were queued, if the Intake has a chain for input.
	WriteAs(id [16]byte, p []byte) (n int, err error)
	// CloseStdin closes stdin after the queued bytes. A PTY has no end of file; a PTY gets the
	// character its terminal settings call VEOF instead, and takes later writes. A repeated CloseStdin, without a
	// Write in between, does nothing.
	CloseStdin() error
	// Resize sets the size of the TTY. The error is ErrNoTTY, or the system's.
	Resize(protocol.Size) error

	// Signal sends a signal to the process group of the child. After the child's exit Signal does
	// nothing.
	Signal(syscall.Signal) error
	// Kill is Signal(SIGKILL).
	Kill() error
	// KillTree kills the child and all its descendants, as far as Containment finds them, and calls
	// done on another goroutine. KillTree also works after the child's exit, for descendants left
	// behind.
	//
	// The argument of done is nil once all processes are verified gone and the child's exit was
	// seen. Otherwise done gets ErrSurvivors with the survivors' pids and names, or with the reason
	// why the survivors are unknown. KillTree gives up after some 10 s, or after 2 s if the system
	// does not permit the kill.
	KillTree(done func(error))

	// Abandon makes the pumps read the bytes now in the streams, as far as the Intake gives credit,
	// and nothing later. Closed follows once the child has exited, even if a descendant still holds
	// a stream open.
	Abandon()
	// StdinUnread is the number of bytes taken by Write but not read by the child before its exit.
	// For a TTY only the bytes in the queue of Write can be counted. Before the exit StdinUnread is
	// 0.
	StdinUnread() int64
	// Status says how the child ended; before the end ok is false. Like Exited, Status knows of the
	// end before the Intake delivers FactExited.
	Status() (st protocol.ExitStatus, ok bool)
	// Exited reports whether the child has ended. The Intake delivers FactExited later, after the
	// output written before the exit.
	Exited() bool
	// Stopped reports whether a signal has stopped the child and no signal continued the child
	// since.
	Stopped() bool
	// Usage calls done on another goroutine; the argument is nil if the usage is unknown. The kernel takes far
	// longer for the pressures than for the rest.
	Usage(pressures bool, done func(*protocol.Usage))
	// TreeEmpty reports whether the child was reaped and no descendant is left. If finding out
	// takes a search, TreeEmpty reports the result of the last search, and starts another search.
	TreeEmpty() bool
	// SearchTree searches for the child and its descendants, and calls done on another goroutine: empty means that
	// the child was reaped and no descendant is left. False with an error means: unknown.
	SearchTree(done func(empty bool, err error))
	// Release removes the child's containment and forgets the child. Until Closed was delivered and
	// the tree is empty, Release fails. Release may be repeated.
	Release() error
	// Finish ends the child in any state: Finish kills the tree, drops unread output, and forgets
	// the child. Then Finish calls done on another goroutine, with an error of KillTree or Release.
	// Finish may be repeated.
	Finish(done func(error))
}

// Errors of a start, for callers to branch on. The error returned by Start has more details.
var (
	ErrArgument   = errors.New("invalid argument")
	ErrDir        = errors.New("working directory")
	ErrNoProgram  = errors.New("no such program")
	ErrPermission = errors.New("permission denied")
	ErrExecFormat = errors.New("exec format error")
	ErrLimit      = trees.ErrLimit
	ErrClosed     = errors.New("child: the host is closed")
	// ErrNoAnswer means: the filesystem of the program or of the working directory hangs.
	ErrNoAnswer = errors.New("the filesystem does not answer")
	// ErrLimitRefused means: Spec.Limits cannot be set.
	ErrLimitRefused = trees.ErrLimitRefused
	// ErrSandbox means: the system cannot confine a child as Spec.Sandbox asks for.
	ErrSandbox = confine.ErrSandbox
	// ErrSandboxPolicy means: no system can confine a child as Spec.Sandbox asks for, as the files are now.
	ErrSandboxPolicy = resolve.ErrPolicy

	errInternal = errors.New("child: internal error")
)

// Errors of a Handle.
var (
	ErrStdinClosed = errors.New("child: stdin is closed")
	ErrNoTTY       = errors.New("child: the process has no TTY")
	ErrSurvivors   = trees.ErrSurvivors
	ErrInUse       = errors.New("child: still in use")
)
