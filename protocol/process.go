package protocol

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// Methods about one process. The comments name the params and the result.
const (
	// exec-server wire §3, §5 and §6.
	MethodProcessStart     = "process/start"     // ProcessStartParams → ProcessStartResult
	MethodProcessRead      = "process/read"      // ProcessReadParams → ProcessReadResult
	MethodProcessWrite     = "process/write"     // ProcessWriteParams → ProcessWriteResult
	MethodProcessSignal    = "process/signal"    // ProcessSignalParams → Empty
	MethodProcessTerminate = "process/terminate" // ProcessTerminateParams → ProcessTerminateResult

	// Ours.
	MethodProcessCloseStdin = "process/closeStdin" // ProcessCloseStdinParams → Empty
	MethodProcessResize     = "process/resize"     // ProcessResizeParams → Empty
	MethodProcessWait       = "process/wait"       // ProcessWaitParams → ProcessWaitResult
	MethodProcessRestart    = "process/restart"    // ProcessRestartParams → Empty
	MethodProcessSetRestart = "process/setRestart" // ProcessSetRestartParams → Empty
	MethodProcessInfo       = "process/info"       // ProcessInfoParams → ProcessInfoResult
)

// Stream is where output was written to. (exec-server wire §4.)
type Stream uint8

const (
	Stdout Stream = iota + 1 // "stdout"
	Stderr                   // "stderr"
	PTY                      // "pty": stdout and stderr in one
)

var streamNames = [...]string{Stdout: "stdout", Stderr: "stderr", PTY: "pty"}

func (s Stream) name() (string, error) {
	if s == 0 || int(s) >= len(streamNames) {
		return "", fmt.Errorf("protocol: %s; use Stdout, Stderr or PTY", s)
	}
	return streamNames[s], nil
}

// String is the stream's name on the wire; a stream that is none has a number.
func (s Stream) String() string {
	if s == 0 || int(s) >= len(streamNames) {
		return fmt.Sprintf("stream %d", uint8(s))
	}
	return streamNames[s]
}

// MarshalText fails for what is none of the constants.
func (s Stream) MarshalText() ([]byte, error) {
	name, err := s.name()
	return []byte(name), err
}

// UnmarshalText takes the names of the constants only.
func (s *Stream) UnmarshalText(text []byte) error {
	switch string(text) {
	case "stdout":
		*s = Stdout
	case "stderr":
		*s = Stderr
	case "pty":
		*s = PTY
	default:
		return oneOf(string(text), streamNames[Stdout:]...)
	}
	return nil
}

// Size of a terminal in characters; neither is zero.
type Size struct {
	Rows uint16 `json:"rows" wire:"required"`
	Cols uint16 `json:"cols" wire:"required"`
}

// Validate refuses a terminal without room for a character.
func (s Size) Validate() error {
	if s.Rows == 0 || s.Cols == 0 {
		return fmt.Errorf("rows and cols must be positive, found %d and %d", s.Rows, s.Cols)
	}
	return nil
}

// AboutProcess is implemented by the params of requests about one process.
type AboutProcess interface {
	// Process returns the id of the process.
	Process() string
}

// ProcessStartParams starts a program. Size, Retention and what follows them up to
// StartToken are ours, the rest is exec-server wire §3.
type ProcessStartParams struct {
	// ProcessID is chosen by the client, unique in its session until the process
	// is forgotten after closed; it may be empty.
	ProcessID string `json:"processId" wire:"required"`

	// Argv is the program and its arguments. The program is looked up in the PATH
	// of the child.
	Argv []string `json:"argv" wire:"required"`

	Cwd string            `json:"cwd" wire:"required"` // file URI, see ParseFileURI
	Env map[string]string `json:"env" wire:"required"` // laid over what EnvPolicy gives

	TTY bool `json:"tty" wire:"required"` // run in a PTY, else on pipes

	// PipeStdin gives a process without TTY a pipe to read from, else /dev/null.
	PipeStdin bool `json:"pipeStdin,omitempty"`

	Arg0      *string    `json:"arg0,omitempty"`      // what the program sees as argv[0]; nil: Argv[0]
	EnvPolicy *EnvPolicy `json:"envPolicy,omitempty"` // nil: nothing is inherited

	Size      *Size      `json:"size,omitempty"`      // of the PTY; nil: 24 rows, 80 columns
	Retention *Retention `json:"retention,omitempty"` // nil: the server's default

	// TimeoutMs is how long the process may run before it is killed, in
	// milliseconds; nil or 0 means for ever.
	TimeoutMs *uint64 `json:"timeoutMs,omitempty"`

	// StopSignal is what asks the process to end, wherever SIGTERM is said to; absent:
	// SignalTerminate.
	StopSignal Signal `json:"stopSignal,omitempty"`

	// KillGraceMs is the time between SIGTERM and SIGKILL when the server ends the
	// process, in milliseconds; nil means the server's default, 0 SIGKILL at once.
	KillGraceMs *uint64 `json:"killGraceMs,omitempty"`

	// MergeStderr gives stderr the pipe of stdout: what comes of both is of Stdout, in the
	// order in which it was written. A TTY always does, under its own name.
	MergeStderr bool `json:"mergeStderr,omitempty"`

	Limits *ProcessLimits `json:"limits,omitempty"` // what each run may take; nil: what the server may

	Restart  *Restart  `json:"restart,omitempty"`  // when it is run again; nil: never
	Ready    *Ready    `json:"ready,omitempty"`    // when a run is ready; nil: when it has begun
	Liveness *Liveness `json:"liveness,omitempty"` // when a run no longer lives; nil: when it has ended
	// DependsOn are the processes of its group that must be ready before it is run.
	DependsOn []string `json:"dependsOn,omitempty"`

	// StartToken makes a start repeatable: one with the same ProcessID and token
	// answers as the first did. Empty means none.
	StartToken string `json:"startToken,omitempty"`

	// How the process is to be confined: see Unsupported. Kept as they came; nil
	// means absent or null.
	Sandbox               json.RawMessage `json:"sandbox,omitempty"`
	EnforceManagedNetwork bool            `json:"enforceManagedNetwork,omitempty"`
	ManagedNetwork        json.RawMessage `json:"managedNetwork,omitempty"`
	NetworkProxy          json.RawMessage `json:"networkProxy,omitempty"`

	// ShellSnapshot is a shell state to start from: see Unsupported.
	ShellSnapshot json.RawMessage `json:"shellSnapshot,omitempty"`

	Metadata *Metadata `json:"metadata,omitempty"` // for logs
}

// Process returns the ProcessID.
func (p ProcessStartParams) Process() string { return p.ProcessID }

// Validate refuses a start of no program.
func (p ProcessStartParams) Validate() error {
	if len(p.Argv) == 0 {
		return errors.New("argv must not be empty")
	}
	return nil
}

// Unsupported is an *Error with CodeInvalidParams if the process is to be confined
// or prepared in a way that this server cannot: nothing ever runs less confined
// than was asked, so the server must refuse the start. The peer runs
// enforceManagedNetwork without a sandbox unconfined. (exec-server wire §3.)
func (p ProcessStartParams) Unsupported() error {
	for _, asked := range []struct {
		field string
		is    bool
	}{
		{"sandbox", p.Sandbox != nil},
		{"enforceManagedNetwork", p.EnforceManagedNetwork},
		{"managedNetwork", p.ManagedNetwork != nil},
		{"networkProxy", p.NetworkProxy != nil},
		{"shellSnapshot", p.ShellSnapshot != nil},
	} {
		if asked.is {
			return Errorf(CodeInvalidParams, "%s is not supported by this server, which runs nothing less confined than asked: leave it out", asked.field)
		}
	}
	return nil
}

// EnvPolicy is what a process inherits of the server's environment. The order is:
// inherit, default excludes, exclude, set, include only. Patterns are globs that
// do not tell upper from lower case. (exec-server wire §3.)
type EnvPolicy struct {
	Inherit string `json:"inherit" wire:"required"` // "core", "all" or "none"

	// IgnoreDefaultExcludes keeps *KEY*, *SECRET* and *TOKEN*.
	IgnoreDefaultExcludes bool `json:"ignoreDefaultExcludes" wire:"required"`

	Exclude     []string          `json:"exclude" wire:"required"`     // patterns of inherited names
	Set         map[string]string `json:"set" wire:"required"`         // subject to IncludeOnly
	IncludeOnly []string          `json:"includeOnly" wire:"required"` // patterns; empty: all
}

// Validate refuses an unknown Inherit.
func (p EnvPolicy) Validate() error {
	if err := oneOf(p.Inherit, "core", "all", "none"); err != nil {
		return within("inherit", err)
	}
	return nil
}

// Metadata tells which part of the client's work a process belongs to.
// (exec-server wire §3.)
type Metadata struct {
	ThreadID   *string `json:"threadId,omitempty"` // a UUID
	ToolCallID *string `json:"toolCallId,omitempty"`
}

// Validate refuses a ThreadID that is not a UUID.
func (m Metadata) Validate() error {
	if m.ThreadID == nil {
		return nil
	}
	if err := uuid.Validate(*m.ThreadID); err != nil {
		return within("threadId", fmt.Errorf("%w: %q, expected a UUID", err, clip(*m.ThreadID)))
	}
	return nil
}

// Retention is how much output is kept for those who have not had it. (Ours.)
type Retention struct {
	Bytes  *uint64 `json:"bytes,omitempty"`  // positive; nil: the server's default
	OnFull OnFull  `json:"onFull,omitempty"` // absent: block
	// SpoolBytes is the cap of OnFullSpool; nil: the most that the server allows.
	SpoolBytes *uint64 `json:"spoolBytes,omitempty"`
}

// Validate refuses to keep nothing: the process could never write.
func (r Retention) Validate() error {
	if r.Bytes != nil && *r.Bytes == 0 {
		return within("bytes", errors.New("invalid number 0, expected a positive number"))
	}
	return nil
}

// OnFull is what happens when a process has written all that is kept. (Ours.)
type OnFull string

const (
	OnFullBlock OnFull = "block" // the process waits
	OnFullEvict OnFull = "evict" // the oldest goes, and a gap says so
	OnFullSpool OnFull = "spool" // to a file up to a cap, then block
)

// Validate refuses what is none of the constants.
func (f OnFull) Validate() error { return oneOf(f, OnFullBlock, OnFullEvict, OnFullSpool) }

// ProcessStartResult: exec-server wire §3. Output may come before it.
type ProcessStartResult struct {
	ProcessID   string `json:"processId"`
	SandboxType string `json:"sandboxType"` // "none"
}

// ProcessReadParams asks for output that was, or is to come. (exec-server wire §5.)
type ProcessReadParams struct {
	ProcessID string `json:"processId" wire:"required"`
	AfterSeq  uint64 `json:"afterSeq,omitempty"` // chunks with a greater seq; 0: all

	// MaxBytes bounds the sum of the chunks, but the first comes whatever its
	// size; nil means no bound.
	MaxBytes *uint64 `json:"maxBytes,omitempty"`

	// WaitMs is how long to wait for output or the end, in milliseconds. It may be
	// more than a time.Duration can say.
	WaitMs uint64 `json:"waitMs,omitempty"`
}

// Process returns the ProcessID.
func (p ProcessReadParams) Process() string { return p.ProcessID }

// Chunk is a piece of output. Its bytes are never changed once it is sent.
type Chunk struct {
	Seq    uint64 `json:"seq" wire:"required"`
	Stream Stream `json:"stream" wire:"required"`
	Chunk  []byte `json:"chunk" wire:"required"` // base64 in JSON
}

// ProcessReadResult: exec-server wire §5, where it is said when it comes and how
// NextSeq is chosen; FirstSeq is ours.
type ProcessReadResult struct {
	Chunks        []Chunk `json:"chunks"`   // in order of seq
	NextSeq       uint64  `json:"nextSeq"`  // read on with afterSeq NextSeq-1
	Exited        bool    `json:"exited"`   // as of now, whatever Chunks holds
	ExitCode      *int    `json:"exitCode"` // nil: not exited
	Closed        bool    `json:"closed"`   // as of now
	Failure       *string `json:"failure"`  // why its output was lost; nil: it was not
	SandboxDenied bool    `json:"sandboxDenied"`
	FirstSeq      uint64  `json:"firstSeq"` // the oldest still held; 0: unknown
}

// ProcessWriteParams writes to a process's stdin. (exec-server wire §6.)
type ProcessWriteParams struct {
	ProcessID string `json:"processId" wire:"required"`
	Chunk     []byte `json:"chunk" wire:"required"` // may be empty; base64 in JSON

	// WriteID is unique among the writes to the process: a write repeated with it
	// is answered again and not written again. Not empty.
	WriteID string `json:"writeId" wire:"required"`
}

// Process returns the ProcessID.
func (p ProcessWriteParams) Process() string { return p.ProcessID }

// Validate refuses a write that could not be told from another.
func (p ProcessWriteParams) Validate() error {
	if p.WriteID == "" {
		return errors.New("writeId must not be empty")
	}
	return nil
}

// WriteStatus is what became of a write; a peer's server may say others.
// (exec-server wire §6.)
type WriteStatus string

const (
	WriteAccepted       WriteStatus = "accepted" // now, or when it was first sent
	WriteUnknownProcess WriteStatus = "unknownProcess"
	WriteStdinClosed    WriteStatus = "stdinClosed" // or it never was open
)

// ProcessWriteResult: exec-server wire §6.
type ProcessWriteResult struct {
	Status WriteStatus `json:"status"`
}

// ProcessCloseStdinParams ends a process's input after what was written. (Ours.)
type ProcessCloseStdinParams struct {
	ProcessID string `json:"processId" wire:"required"`
	Repeatable
	OfRun
}

// Process returns the ProcessID.
func (p ProcessCloseStdinParams) Process() string { return p.ProcessID }

// ProcessResizeParams sets the size of a process's PTY. (Ours.)
type ProcessResizeParams struct {
	ProcessID string `json:"processId" wire:"required"`
	Size      Size   `json:"size" wire:"required"`
	Repeatable
	OfRun
}

// Process returns the ProcessID.
func (p ProcessResizeParams) Process() string { return p.ProcessID }

// ProcessSignalParams signals a process group. (exec-server wire §6.)
type ProcessSignalParams struct {
	ProcessID string `json:"processId" wire:"required"`
	Signal    Signal `json:"signal" wire:"required"`
	Repeatable
	OfRun
}

// Process returns the ProcessID.
func (p ProcessSignalParams) Process() string { return p.ProcessID }

// ProcessTerminateParams kills a process group. GraceMs and Tree are ours.
// (exec-server wire §6.)
type ProcessTerminateParams struct {
	ProcessID string `json:"processId" wire:"required"`

	// GraceMs is the time between SIGTERM and SIGKILL in milliseconds; nil or 0
	// means SIGKILL at once.
	GraceMs *uint64 `json:"graceMs,omitempty"`

	// Tree kills all that the process started, also after its own exit.
	Tree bool `json:"tree,omitempty"`

	Repeatable
	OfRun
}

// Process returns the ProcessID.
func (p ProcessTerminateParams) Process() string { return p.ProcessID }

// ProcessTerminateResult: exec-server wire §6.
type ProcessTerminateResult struct {
	Running bool `json:"running"` // it was still running; false also if unknown
}

// ProcessWaitParams waits for the end of a process. (Ours.)
type ProcessWaitParams struct {
	ProcessID string  `json:"processId" wire:"required"`
	TimeoutMs *uint64 `json:"timeoutMs,omitempty"` // nil: for ever; 0: only look
}

// Process returns the ProcessID.
func (p ProcessWaitParams) Process() string { return p.ProcessID }

// ProcessWaitResult is how it stood when the process ended or the time was over.
// (Ours.)
type ProcessWaitResult struct {
	Exited bool        `json:"exited"` // false: timeoutMs passed first
	Closed bool        `json:"closed"`
	Status *ExitStatus `json:"status,omitempty"` // nil: not exited
}

// ExitStatus tells how one run of a process ended. ExitCode is exec-server wire §4,
// the rest is ours and left out when it is zero.
type ExitStatus struct {
	ExitCode   int    `json:"exitCode" wire:"required"` // 128 + signal if a signal ended it
	Signal     string `json:"signal,omitempty"`         // see SignalName; empty: it exited
	CoreDumped bool   `json:"coreDumped,omitempty"`
	TimedOut   bool   `json:"timedOut,omitempty"`  // killed because of timeoutMs
	OOMKilled  bool   `json:"oomKilled,omitempty"` // killed by the kernel for want of memory
	Reason     string `json:"reason,omitempty"`    // why the server ended it; empty: it did not
	Run        int    `json:"run,omitempty"`       // from 1; a restart begins another
	Rusage     Rusage `json:"rusage,omitzero"`
}

// Rusage is what one run used, its waited-for children included. (Ours.)
type Rusage struct {
	UserMs      uint64 `json:"userMs"`
	SystemMs    uint64 `json:"systemMs"`
	MaxRSSBytes uint64 `json:"maxRssBytes"` // of the largest process
}

// ProcessInfo is a process in a listing. (Ours.)
type ProcessInfo struct {
	ProcessID   string      `json:"processId"`
	State       string      `json:"state"`                 // starting, running, restarting, waiting (for its group), exited, closed
	Group       string      `json:"group,omitempty"`       // its groupId
	Run         int         `json:"run"`                   // from 1
	Ready       bool        `json:"ready,omitempty"`       // it runs, and is as its start has it
	RestartInMs uint64      `json:"restartInMs,omitempty"` // of restarting: until the next run
	PID         int         `json:"pid,omitempty"`         // 0: not started, or gone
	Argv        []string    `json:"argv"`
	Cwd         string      `json:"cwd"` // file URI
	TTY         bool        `json:"tty"`
	StartedAtMs int64       `json:"startedAtMs"`   // since the Unix epoch; 0: not yet
	Containment string      `json:"containment"`   // what finds its descendants: a cgroup, …
	FirstSeq    uint64      `json:"firstSeq"`      // the oldest still held
	NextSeq     uint64      `json:"nextSeq"`       // the one that comes next
	Retained    int64       `json:"retainedBytes"` // held of its output
	Unacked     int64       `json:"unackedBytes"`  // of these, what the owner has not acknowledged
	Status      *ExitStatus `json:"status,omitempty"`
}

// ProcessListResult is every process of the session, closed ones that are still
// known included. (Ours.)
type ProcessListResult struct {
	Processes []ProcessInfo `json:"processes"`
}

// One counter per process, from 1, numbers its notifications; they are sent in its
// order, and closed is the last. (exec-server wire §4.)

// OutputNotification is output as it comes. (exec-server wire §4.)
type OutputNotification struct {
	ProcessID string `json:"processId" wire:"required"`
	Seq       uint64 `json:"seq" wire:"required"`
	Stream    Stream `json:"stream" wire:"required"`
	Chunk     []byte `json:"chunk" wire:"required"` // base64 in JSON
}

// ExitedNotification: the process has ended, while its output may go on as long as
// a descendant holds the stream. The members the peer knows come first.
// (exec-server wire §4.)
type ExitedNotification struct {
	ProcessID string `json:"processId" wire:"required"`
	Seq       uint64 `json:"seq" wire:"required"`
	ExitStatus
	SandboxDenied bool `json:"sandboxDenied"`
}

// ClosedNotification: there will be nothing more. (exec-server wire §4.)
type ClosedNotification struct {
	ProcessID string `json:"processId" wire:"required"`
	Seq       uint64 `json:"seq" wire:"required"`
}

// GapNotification stands in place of output that was evicted. (Ours.)
type GapNotification struct {
	ProcessID string `json:"processId" wire:"required"`
	Seq       uint64 `json:"seq" wire:"required"` // = ToSeq: a gap stands in place of what it lost
	FromSeq   uint64 `json:"fromSeq" wire:"required"`
	ToSeq     uint64 `json:"toSeq" wire:"required"`
	Bytes     uint64 `json:"bytes,omitempty"` // 0: unknown
	Reason    string `json:"reason"`
}

// EvictedNotification: the server has given the process up and killed it, and what
// it wrote and the client has not had is lost. closed follows. (Ours.)
type EvictedNotification struct {
	ProcessID string `json:"processId" wire:"required"`
	Seq       uint64 `json:"seq" wire:"required"` // behind the last that there was
	Reason    string `json:"reason"`              // for people
}
