package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// Methods for a single process. The comments name the params and the result.
const (
	// exec-server wire §3, §5 and §6.
	MethodProcessStart     = "process/start"     // ProcessStartParams → ProcessStartResult
	MethodProcessRead      = "process/read"      // ProcessReadParams → ProcessReadResult
	MethodProcessWrite     = "process/write"     // ProcessWriteParams → ProcessWriteResult
	MethodProcessSignal    = "process/signal"    // ProcessSignalParams → Empty
	MethodProcessTerminate = "process/terminate" // ProcessTerminateParams → ProcessTerminateResult

	// Ours.
	MethodProcessSubscribe  = "process/subscribe"  // ProcessSubscribeParams → ProcessInfo
	MethodProcessCloseStdin = "process/closeStdin" // ProcessCloseStdinParams → Empty
	MethodProcessResize     = "process/resize"     // ProcessResizeParams → Empty
	MethodProcessWait       = "process/wait"       // ProcessWaitParams → ProcessWaitResult
	MethodProcessRestart    = "process/restart"    // ProcessRestartParams → Empty
	MethodProcessSetRestart = "process/setRestart" // ProcessSetRestartParams → Empty
	MethodProcessInfo       = "process/info"       // ProcessInfoParams → ProcessInfoResult
	MethodProcessScreen     = "process/screen"     // ProcessScreenParams → ProcessScreenResult
)

// Stream says where a process has written output to. (exec-server wire §4.)
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

// String is the stream's name on the wire, or a number for an invalid stream.
func (s Stream) String() string {
	if s == 0 || int(s) >= len(streamNames) {
		return fmt.Sprintf("stream %d", uint8(s))
	}
	return streamNames[s]
}

// MarshalText fails for values other than the constants.
func (s Stream) MarshalText() ([]byte, error) {
	name, err := s.name()
	return []byte(name), err
}

// UnmarshalText accepts only the names of the constants.
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

// Validate refuses values other than the constants. Decoding accepts only their names.
func (s Stream) Validate() error {
	if _, err := s.name(); err != nil {
		return oneOf(s.String(), streamNames[Stdout:]...)
	}
	return nil
}

// Size is the size of a terminal in characters; neither field is zero.
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

// AboutProcess is implemented by the params of requests about a single process.
type AboutProcess interface {
	// Process returns the id of the process.
	Process() string
}

// ProcessStartParams starts a program. The members from Size to StartToken are ours, the others are
// exec-server wire §3.
type ProcessStartParams struct {
	// ProcessID is chosen by the client. It may be empty. It must be unique in its session until
	// the closed process is forgotten.
	ProcessID string `json:"processId" wire:"required"`

	// Argv is the program and its arguments. The program is looked up in the PATH of the child.
	// With Login, it may be empty: then the program is the login shell of the user.
	Argv []string `json:"argv" wire:"required"`

	Cwd string            `json:"cwd" wire:"required"` // file URI; or ~ or ~/PATH, in the home of the user of the program
	Env map[string]string `json:"env" wire:"required"` // added to the variables from EnvPolicy

	TTY bool `json:"tty" wire:"required"` // true: run in a PTY; false: on pipes

	// PipeStdin gives a process without TTY a pipe as stdin; without PipeStdin, stdin is /dev/null.
	PipeStdin bool `json:"pipeStdin,omitempty"`

	Arg0      *string    `json:"arg0,omitempty"`      // argv[0] as the program sees it; nil: Argv[0]
	EnvPolicy *EnvPolicy `json:"envPolicy,omitempty"` // nil: nothing is inherited

	Size      *Size      `json:"size,omitempty"`      // of the PTY; nil: 24 rows, 80 columns
	Retention *Retention `json:"retention,omitempty"` // nil: the server's default
	// Screen has the server keep the screen of the PTY from the first byte on. Nil: from the first process/screen on.
	Screen *StartScreen `json:"screen,omitempty"`

	// TimeoutMs is how long a run may take before the server ends it, in milliseconds. Nil or 0 means: no
	// limit.
	TimeoutMs *uint64 `json:"timeoutMs,omitempty"`

	// StopSignal replaces SIGTERM as the signal asking the process to end. Absent: SignalTerminate.
	StopSignal Signal `json:"stopSignal,omitempty"`

	// KillGraceMs is the time between StopSignal and SIGKILL when the server ends the process, in
	// milliseconds. Nil means the server's default; 0 means SIGKILL at once. (PROTOCOL.md, section 7.4.)
	KillGraceMs *uint64 `json:"killGraceMs,omitempty"`

	// MergeStderr sends stderr into the pipe of stdout: the output of both is Stdout, in the order
	// written. A TTY always merges both, as PTY.
	MergeStderr bool `json:"mergeStderr,omitempty"`

	Limits *ProcessLimits `json:"limits,omitempty"` // limits of each run; nil: the server's own

	// User is as whom the process runs: a name, a number of the system's users, or "uid:gid". Empty:
	// the default user of the client's identity, or else the user of the server.
	User string `json:"user,omitempty"`
	// Umask is the mode mask in octal digits, as "022". Empty: the server's.
	Umask string `json:"umask,omitempty"`
	// Login gives the process the environment of a login: HOME, USER, LOGNAME, SHELL and PATH as login(1) sets them, nothing
	// of the server's, and then Env.
	Login bool `json:"login,omitempty"`
	// NoNewPrivs keeps the process and its descendants from gaining privileges, as with set-user-ID
	// programs. False: as the server has it.
	NoNewPrivs bool `json:"noNewPrivs,omitempty"`

	Restart  *Restart  `json:"restart,omitempty"`  // when to run again; nil: never
	Ready    *Ready    `json:"ready,omitempty"`    // when a run is ready; nil: when it has begun
	Liveness *Liveness `json:"liveness,omitempty"` // when a run counts as dead; nil: when it has ended
	// DependsOn are processes of the same group. They must be ready before this process is run.
	DependsOn []string `json:"dependsOn,omitempty"`
	// Label is for clients, at most 1,024 bytes: group/list has it, also after the end of the process. Only for a
	// process of a group.
	Label string `json:"label,omitempty"`

	// StartToken makes a start repeatable: a second start with the same ProcessID and token gets
	// the answer of the first. Empty means none.
	StartToken string `json:"startToken,omitempty"`

	// Trace is the trace to which the start belongs; nil: a trace of its own. The member trace of the message itself means the same.
	Trace *TraceContext `json:"trace,omitempty"`
	// TraceEnv gives each run its place in the trace, in the variables TRACEPARENT and TRACESTATE: the span of its start if the server traces,
	// and else Trace. Without either, the run gets none.
	TraceEnv bool `json:"traceEnv,omitempty"`

	Sandbox json.RawMessage `json:"sandbox,omitempty"` // what the program may do; absent or null: everything

	// The server has none of these, and refuses them, unless false or null.
	EnforceManagedNetwork bool            `json:"enforceManagedNetwork,omitempty"`
	ManagedNetwork        json.RawMessage `json:"managedNetwork,omitempty"`
	NetworkProxy          json.RawMessage `json:"networkProxy,omitempty"`

	// By these, a command/exec gets a sandbox. A start of a process refuses them, unless null.
	SandboxPolicy     json.RawMessage `json:"sandboxPolicy,omitempty"`
	PermissionProfile json.RawMessage `json:"permissionProfile,omitempty"`

	ShellSnapshot *ShellSnapshot `json:"shellSnapshot,omitempty"` // nil: the command runs as it is

	Metadata *Metadata `json:"metadata,omitempty"` // for logs

	ofUser []string // set by SetOfUser
}

// SetOfUser records which variables of Env describe a user and are inherited. Another user has values of
// its own.
func (p *ProcessStartParams) SetOfUser(names []string) { p.ofUser = names }

// OfUser returns the names that SetOfUser recorded.
func (p *ProcessStartParams) OfUser() []string { return p.ofUser }

// Process returns the ProcessID.
func (p ProcessStartParams) Process() string { return p.ProcessID }

// Mask returns Umask as a number; nil: there is none.
func (p ProcessStartParams) Mask() (*uint32, error) {
	if p.Umask == "" {
		return nil, nil
	}
	mask, err := strconv.ParseUint(p.Umask, 8, 32)
	if err != nil || mask > 0o777 || len(p.Umask) > 4 {
		return nil, within("umask", fmt.Errorf("%q is not a mask: expected octal digits up to \"0777\", such as \"022\"", clip(p.Umask)))
	}
	return new(uint32(mask)), nil
}

// InHome reports whether cwd is "~" or "~/REST": a directory in the home of the user of a process.
func InHome(cwd string) (rest string, ok bool) {
	if cwd == "~" {
		return "", true
	}
	return strings.CutPrefix(cwd, "~/")
}

// Validate refuses a start of no program, two environments, a wrong Umask, and a snapshot of an unknown shell.
func (p ProcessStartParams) Validate() error {
	if len(p.Argv) == 0 && !p.Login {
		return errors.New("argv must not be empty")
	}
	if p.Login && (p.EnvPolicy != nil || p.ShellSnapshot != nil) {
		return errors.New("login has an environment of its own: leave out envPolicy and shellSnapshot")
	}
	if _, err := p.Mask(); err != nil {
		return err
	}
	if p.Snapshots() && !slices.Contains(snapshotShells, p.ShellSnapshot.Shell.Name) {
		return fmt.Errorf("shell snapshots are unsupported for shell `%s`", p.ShellSnapshot.Shell.Name)
	}
	return nil
}

// Unsupported returns an *Error with CodeInvalidParams if the client asks for a managed network, which this
// server lacks, or asks for a sandbox as for a command/exec: the server never runs a process less confined than asked.
// exec-server runs enforceManagedNetwork without a sandbox unconfined, and ignores SandboxPolicy and PermissionProfile.
// (exec-server wire §3.)
func (p ProcessStartParams) Unsupported() error {
	const network, policy = "leave it out", "use `sandbox`"
	for _, asked := range []struct {
		field string
		is    bool
		todo  string
	}{
		{"enforceManagedNetwork", p.EnforceManagedNetwork, network},
		{"managedNetwork", p.ManagedNetwork != nil, network},
		{"networkProxy", p.NetworkProxy != nil, network},
		{"sandboxPolicy", p.SandboxPolicy != nil, policy},
		{"permissionProfile", p.PermissionProfile != nil, policy},
	} {
		if asked.is {
			return Errorf(KindUnsupported, CodeInvalidParams, "%s is not supported by this server in the start of a process, and nothing runs less confined than asked: %s", asked.field, asked.todo)
		}
	}
	return nil
}

// EnvPolicy selects the variables a process inherits from the server's environment. The order is:
// inherit, default excludes, exclude, set, include only. Patterns are globs, ignoring case.
// (exec-server wire §3.)
type EnvPolicy struct {
	Inherit string `json:"inherit" wire:"required"` // "all", "none", or "core": HOME, LANG, LC_ALL, LC_CTYPE, LOGNAME, PATH, SHELL, TEMP, TMP, TMPDIR, USER, in any case

	// IgnoreDefaultExcludes inherits secrets, too: variables with names like *KEY*, *SECRET* and *TOKEN*, and others in section 4.2.
	IgnoreDefaultExcludes bool `json:"ignoreDefaultExcludes" wire:"required"`

	Exclude     []string          `json:"exclude" wire:"required"`     // patterns of inherited names
	Set         map[string]string `json:"set" wire:"required"`         // variables to add, at most 10,000, subject to IncludeOnly
	IncludeOnly []string          `json:"includeOnly" wire:"required"` // patterns; empty: all
}

// Validate refuses an unknown Inherit.
func (p EnvPolicy) Validate() error {
	if err := oneOf(p.Inherit, "core", "all", "none"); err != nil {
		return within("inherit", err)
	}
	return nil
}

// Metadata says to which part of the client's work a process belongs. (exec-server wire §3.)
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

// Retention is how much of the newest output is kept, whoever has received it, and what happens when the owner has
// not received so much. (Ours.)
type Retention struct {
	Bytes  *uint64 `json:"bytes,omitempty"`  // positive; nil: the server's default
	OnFull OnFull  `json:"onFull,omitempty"` // absent: block
	// SpoolBytes is the cap of OnFullSpool; nil: the most the server allows.
	SpoolBytes *uint64 `json:"spoolBytes,omitempty"`
	// HoldMs is how long, after each start, nothing is dropped before a viewer with ProcessSubscribeParams.Hold has come, in
	// milliseconds. 1 to 60,000 (MaxHoldMs); nil: output is dropped as OnFull says.
	HoldMs *uint64 `json:"holdMs,omitempty"`
}

// MaxHoldMs is the most HoldMs, in milliseconds.
const MaxHoldMs = 60_000

// Validate refuses 0 bytes: the process could never write.
func (r Retention) Validate() error {
	if r.Bytes != nil && *r.Bytes == 0 {
		return within("bytes", errors.New("invalid number 0, expected a positive number"))
	}
	if r.HoldMs != nil && (*r.HoldMs == 0 || *r.HoldMs > MaxHoldMs) {
		return within("holdMs", fmt.Errorf("invalid number %d, expected 1 to %d", *r.HoldMs, MaxHoldMs))
	}
	return nil
}

// OnFull says how to go on when the kept output has reached its limit. (Ours.)
type OnFull string

const (
	OnFullBlock OnFull = "block" // the process waits
	OnFullEvict OnFull = "evict" // the oldest output is dropped, and a gap reports the loss
	OnFullSpool OnFull = "spool" // output goes to a file up to a cap, then block
)

// Validate refuses values other than the constants.
func (f OnFull) Validate() error { return oneOf(f, OnFullBlock, OnFullEvict, OnFullSpool) }

// ProcessStartResult is the answer to process/start (exec-server wire §3). Output may come before
// the answer.
type ProcessStartResult struct {
	ProcessID   string `json:"processId"`
	SandboxType string `json:"sandboxType"` // SandboxTypeNone or SandboxTypeLinux
}

// The values of SandboxType. A start with a sandbox has SandboxTypeLinux, even if the sandbox is disabled. (sandbox
// wire §1.4.)
const (
	SandboxTypeNone  = "none"
	SandboxTypeLinux = "linuxSeccomp"
)

// ProcessReadParams asks for past or future output. (exec-server wire §5.)
type ProcessReadParams struct {
	ProcessID string `json:"processId" wire:"required"`
	AfterSeq  uint64 `json:"afterSeq,omitempty"` // return chunks with a greater seq; 0: all

	// MaxBytes bounds the total size of the chunks, but the first chunk may be larger. Nil means no
	// bound.
	MaxBytes *uint64 `json:"maxBytes,omitempty"`

	// WaitMs is how long to wait for output or the end, in milliseconds. The value may exceed the
	// range of time.Duration.
	WaitMs uint64 `json:"waitMs,omitempty"`

	// Detail asks for the members TimesMs and Events of the answer. Empty: neither. (Ours.)
	Detail ReadDetail `json:"detail,omitempty"`

	OfInstance
}

// OfInstance is embedded in the params of requests for a certain process under its id. (Ours.)
type OfInstance struct {
	// Instance is the Instance of the ProcessInfo. If another process has the id by now, the request is refused as for an unknown
	// process. Empty: any process with the id.
	Instance string `json:"instance,omitempty"`
}

// ForInstance returns the Instance.
func (o OfInstance) ForInstance() string { return o.Instance }

// Process returns the ProcessID.
func (p ProcessReadParams) Process() string { return p.ProcessID }

// ProcessSubscribeParams has the notifications of a process begin again after a seq. (Ours.)
type ProcessSubscribeParams struct {
	ProcessID string `json:"processId" wire:"required"`
	AfterSeq  uint64 `json:"afterSeq,omitempty"` // 0: from the oldest held
	Hold      bool   `json:"hold,omitempty"`     // while this connection is there, the process waits rather than drop output that the connection has not acknowledged
	OfInstance
}

// Process returns the ProcessID.
func (p ProcessSubscribeParams) Process() string { return p.ProcessID }

// ReadDetail says which additional members an answer to process/read has. (Ours.)
type ReadDetail string

const (
	ReadTimes  ReadDetail = "times"  // TimesMs and Events, beside the output
	ReadEvents ReadDetail = "events" // Events, and no output
)

// Validate refuses values other than the constants.
func (d ReadDetail) Validate() error { return oneOf(d, ReadTimes, ReadEvents) }

// Chunk is a piece of output. Its bytes never change once sent.
type Chunk struct {
	Seq    uint64 `json:"seq" wire:"required"`
	Stream Stream `json:"stream" wire:"required"`
	Chunk  []byte `json:"chunk" wire:"required"` // base64 in JSON
}

// ProcessReadResult is the answer to process/read. exec-server wire §5 says when the answer comes
// and how NextSeq is chosen; FirstSeq is ours.
type ProcessReadResult struct {
	Chunks        []Chunk `json:"chunks"`        // in order of seq
	NextSeq       uint64  `json:"nextSeq"`       // to read on, send afterSeq NextSeq-1
	Exited        bool    `json:"exited"`        // the current state, independent of Chunks
	ExitCode      *int    `json:"exitCode"`      // nil: not exited
	Closed        bool    `json:"closed"`        // the current state
	Failure       *string `json:"failure"`       // why output was lost; nil: none was lost
	SandboxDenied bool    `json:"sandboxDenied"` // as in ExitedNotification; false: not exited
	FirstSeq      uint64  `json:"firstSeq"`      // the oldest seq still held; 0: unknown

	// TimesMs is when the server got the first byte of each of Chunks, in milliseconds since the
	// Unix epoch. Events are the events of the process among the entries read. Only with Detail.
	TimesMs []int64     `json:"timesMs,omitempty"`
	Events  []ReadEvent `json:"events,omitempty"`
	// Instance is that of the ProcessInfo. Only with Detail.
	Instance string `json:"instance,omitempty"`
}

// detailed reports whether the result has members that only a read with Detail gets.
func (r *ProcessReadResult) detailed() bool {
	return len(r.TimesMs) > 0 || len(r.Events) > 0 || r.Instance != ""
}

// CutEvents drops the events from NextSeq on: the next read has them.
func (r *ProcessReadResult) CutEvents() {
	n := 0
	for n < len(r.Events) && r.Events[n].Seq < r.NextSeq {
		n++
	}
	r.Events = r.Events[:n]
}

// ReadEvent is an event of a process in an answer to process/read. (Ours.)
type ReadEvent struct {
	Seq    uint64        `json:"seq" wire:"required"`
	AtMs   int64         `json:"atMs"` // since the Unix epoch
	Kind   ReadEventKind `json:"kind" wire:"required"`
	Run    int           `json:"run,omitempty"`    // of exited, restarted and ready
	Reason string        `json:"reason,omitempty"` // of restarted and evicted, for people
	Status *ExitStatus   `json:"status,omitempty"` // of exited
}

// ReadEventKind says what happened. The names are those of the notifications. (Ours.)
type ReadEventKind string

const (
	EventExited    ReadEventKind = "exited"
	EventRestarted ReadEventKind = "restarted"
	EventReady     ReadEventKind = "ready"
	EventEvicted   ReadEventKind = "evicted"
	EventClosed    ReadEventKind = "closed"
)

// ProcessWriteParams writes to a process's stdin. (exec-server wire §6.)
type ProcessWriteParams struct {
	ProcessID string `json:"processId" wire:"required"`
	Chunk     []byte `json:"chunk" wire:"required"` // may be empty; base64 in JSON

	// WriteID is unique among the writes to the process, and not empty. A second write with the
	// same WriteID gets an answer, but is not written.
	WriteID string `json:"writeId" wire:"required"`
}

// Process returns the ProcessID.
func (p ProcessWriteParams) Process() string { return p.ProcessID }

// Validate refuses an empty WriteID.
func (p ProcessWriteParams) Validate() error {
	if p.WriteID == "" {
		return errors.New("writeId must not be empty")
	}
	return nil
}

// WriteStatus is the outcome of a write. Another exec-server may send other values. (exec-server
// wire §6.)
type WriteStatus string

const (
	WriteAccepted       WriteStatus = "accepted" // now, or when first sent
	WriteUnknownProcess WriteStatus = "unknownProcess"
	WriteStdinClosed    WriteStatus = "stdinClosed" // or never open
)

// ProcessWriteResult is the answer to process/write. (exec-server wire §6.)
type ProcessWriteResult struct {
	Status WriteStatus `json:"status"`
}

// ProcessCloseStdinParams closes a process's stdin after all earlier writes. (Ours.)
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

// ProcessTerminateParams kills a process group. GraceMs and Tree are ours. (exec-server wire §6.)
type ProcessTerminateParams struct {
	ProcessID string `json:"processId" wire:"required"`

	// GraceMs is the time between StopSignal and SIGKILL in milliseconds. Nil or 0 means SIGKILL at once, as
	// exec-server does. (PROTOCOL.md, section 7.4.)
	GraceMs *uint64 `json:"graceMs,omitempty"`

	// Tree kills all descendants of the process, too, even after the process has exited.
	Tree bool `json:"tree,omitempty"`

	Repeatable
	OfRun
}

// Process returns the ProcessID.
func (p ProcessTerminateParams) Process() string { return p.ProcessID }

// ProcessTerminateResult is the answer to process/terminate. (exec-server wire §6.)
type ProcessTerminateResult struct {
	Running bool `json:"running"` // the process was still running; false also if unknown
}

// ProcessWaitParams waits for the end of a process. (Ours.)
type ProcessWaitParams struct {
	ProcessID string  `json:"processId" wire:"required"`
	TimeoutMs *uint64 `json:"timeoutMs,omitempty"` // nil: no limit; 0: do not wait
	OfInstance
}

// Process returns the ProcessID.
func (p ProcessWaitParams) Process() string { return p.ProcessID }

// ProcessWaitResult is the state at the end of the process, or when the time was over. (Ours.)
type ProcessWaitResult struct {
	Exited bool        `json:"exited"` // false: the time was over
	Closed bool        `json:"closed"`
	Status *ExitStatus `json:"status,omitempty"` // nil: not exited
}

// ExitStatus says how one run of a process ended. ExitCode is exec-server wire §4; the other
// members are ours, and left out if zero.
type ExitStatus struct {
	ExitCode   int    `json:"exitCode" wire:"required"` // 128 + signal if a signal ended the run
	Signal     string `json:"signal,omitempty"`         // such as "SIGKILL"; empty: no signal
	CoreDumped bool   `json:"coreDumped,omitempty"`
	TimedOut   bool   `json:"timedOut,omitempty"`  // killed because of timeoutMs
	OOMKilled  bool   `json:"oomKilled,omitempty"` // killed by the kernel for lack of memory
	Reason     string `json:"reason,omitempty"`    // why the server ended the run; empty: the server did not
	Run        int    `json:"run,omitempty"`       // from 1; a restart begins another run
	Rusage     Rusage `json:"rusage,omitzero"`
}

// Rusage is the resource usage of one run, including children waited for. (Ours.)
type Rusage struct {
	UserMs      uint64 `json:"userMs"`
	SystemMs    uint64 `json:"systemMs"`
	MaxRSSBytes uint64 `json:"maxRssBytes"` // of the largest process
}

// ProcessInfo is a process in a listing. (Ours.)
type ProcessInfo struct {
	ProcessID   string   `json:"processId"`
	Instance    string   `json:"instance,omitempty"`    // of this process alone: a later process with the id has another
	State       string   `json:"state"`                 // as in State; later servers may have others
	Group       string   `json:"group,omitempty"`       // its groupId
	Run         int      `json:"run"`                   // from 1
	Ready       bool     `json:"ready,omitempty"`       // a run exists, and its Ready condition is met
	RestartInMs uint64   `json:"restartInMs,omitempty"` // of restarting: until the next run
	PID         int      `json:"pid,omitempty"`         // absent: not started, or gone; in a sandbox that restricts files, the pid of its jail
	Argv        []string `json:"argv"`                  // cut after 4 KiB
	Cwd         string   `json:"cwd"`                   // file URI
	TTY         bool     `json:"tty"`
	StdinOpen   bool     `json:"stdinOpen,omitempty"` // the program has a stdin that nobody has closed
	User        *RunUser `json:"user,omitempty"`      // of the run, or else of the last run; nil: the user of the server
	// Sandbox says in a word how the run, or else the last run, is confined: read-only, workspace-write, custom (some files
	// are hidden, or more is writable), seccomp (files are as outside) or disabled; with ",net" behind if it may use the
	// network. Empty: not at all.
	Sandbox string `json:"sandbox,omitempty"`
	// SandboxLevel is the level of a sandbox that restricts files: SandboxComplete, or SandboxOldProc, which shows the server's
	// /proc, read-only; later servers may have others.
	SandboxLevel string      `json:"sandboxLevel,omitempty"`
	StartedAtMs  int64       `json:"startedAtMs"`      // since the Unix epoch; 0: not yet
	Containment  string      `json:"containment"`      // the method for finding its descendants: cgroup, …
	FirstSeq     uint64      `json:"firstSeq"`         // the oldest seq still held
	NextSeq      uint64      `json:"nextSeq"`          // the next seq
	Retained     int64       `json:"retainedBytes"`    // bytes of its output held
	Unacked      int64       `json:"unackedBytes"`     // bytes held and not acknowledged by the owner
	Status       *ExitStatus `json:"status,omitempty"` // absent: it has not ended
	// EndsWithServer says that the process ends if its server is killed or upgraded, although other programs of the server go on
	// (HolderInfo.Available): its session is ephemeral.
	EndsWithServer bool `json:"endsWithServer,omitempty"`
}

// The levels of sandboxes.
const (
	SandboxComplete = "complete" // lacks nothing
	SandboxOldProc  = "oldProc"  // shows the /proc of the server, read-only: processes outside are visible, but closed
)

// RunUser is the user of the system as whom a program runs. (Ours.)
type RunUser struct {
	Name string `json:"name"` // as the start or the policy of the server names the user; may be a number, or uid:gid
	UID  uint64 `json:"uid"`
	GID  uint64 `json:"gid"`
}

// State is the state of a process. (Ours.)
type State string

const (
	StateStarting   State = "starting"
	StateRunning    State = "running"
	StateRestarting State = "restarting" // between two runs
	StateWaiting    State = "waiting"    // its group decides when it runs
	StateDraining   State = "draining"   // its last program has ended, and output from before waits for room
	StateExited     State = "exited"     // its output goes on, by descendants
	StateClosed     State = "closed"
)

// Validate refuses values other than the constants.
func (s State) Validate() error {
	return oneOf(s, StateStarting, StateRunning, StateRestarting, StateWaiting, StateDraining, StateExited, StateClosed)
}

// ProcessListParams chooses processes: those for which every member holds. An absent or empty member holds
// for all. (Ours.)
type ProcessListParams struct {
	ProcessIDs []string `json:"processIds,omitempty"` // one of these
	States     []State  `json:"states,omitempty"`     // in one of these
	Group      string   `json:"group,omitempty"`      // of the group with this groupId
}

// ProcessListResult has the chosen processes of the session, the first started first, including closed
// processes not forgotten yet. (Ours.)
type ProcessListResult struct {
	Processes []ProcessInfo `json:"processes"`
}

// A counter per process, from 1, numbers the notifications below. They are sent in this order, and
// closed is the last. (exec-server wire §4.)

// OutputNotification is a piece of output. (exec-server wire §4.)
type OutputNotification struct {
	ProcessID string `json:"processId" wire:"required"`
	Seq       uint64 `json:"seq" wire:"required"`
	Stream    Stream `json:"stream" wire:"required"`
	Chunk     []byte `json:"chunk" wire:"required"` // base64 in JSON
	AtMs      uint64 `json:"atMs,omitempty"`        // since the Unix epoch; 0 without Capabilities.Times. (Ours.)
}

// ExitedNotification says the process has ended. Its output may go on while a descendant holds the
// stream. The members of exec-server come first. (exec-server wire §4.)
type ExitedNotification struct {
	ProcessID string `json:"processId" wire:"required"`
	Seq       uint64 `json:"seq" wire:"required"`
	ExitStatus
	SandboxDenied bool `json:"sandboxDenied"` // the sandbox has probably denied something to the run: a guess
}

// ClosedNotification says the process will send nothing more. (exec-server wire §4.)
type ClosedNotification struct {
	ProcessID string `json:"processId" wire:"required"`
	Seq       uint64 `json:"seq" wire:"required"`
}

// GapNotification replaces dropped output. (Ours.)
type GapNotification struct {
	ProcessID string `json:"processId" wire:"required"`
	Seq       uint64 `json:"seq" wire:"required"` // = ToSeq: the gap takes the place of the dropped output
	FromSeq   uint64 `json:"fromSeq" wire:"required"`
	ToSeq     uint64 `json:"toSeq" wire:"required"`
	Bytes     uint64 `json:"bytes,omitempty"` // 0: unknown
	Reason    string `json:"reason"`
}

// EvictedNotification says the server has given the process up and killed it. Output the client has
// not received is lost. closed follows. (Ours.)
type EvictedNotification struct {
	ProcessID string `json:"processId" wire:"required"`
	Seq       uint64 `json:"seq" wire:"required"` // after the last seq in use
	Reason    string `json:"reason"`              // for people
}
