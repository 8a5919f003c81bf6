package protocol

import "encoding/json"

// The sister APIs: process/spawn, command/exec, and the command/exec of the first
// exec-server wire. Names are of one connection, whose end kills what it started. They
// share no state with process/start and its family. (app-server wire.)

// Methods of process/spawn.
const (
	MethodProcessSpawn      = "process/spawn"      // ProcessSpawnParams → Empty
	MethodProcessWriteStdin = "process/writeStdin" // ProcessWriteStdinParams → Empty
	MethodProcessResizePty  = "process/resizePty"  // ProcessResizePtyParams → Empty
	MethodProcessKill       = "process/kill"       // ProcessKillParams → Empty

	NotifyProcessOutputDelta = "process/outputDelta" // ProcessOutputDeltaNotification
	// NotifySpawnExited has the name of NotifyExited, and another shape.
	NotifySpawnExited = "process/exited" // SpawnExitedNotification
)

// Methods of command/exec. Three of them are also of the first wire, which is told by
// argv or sessionId among the params.
const (
	MethodCommandExec          = "command/exec"           // CommandExecParams → CommandExecResult; FirstExecParams → FirstExecResult
	MethodCommandExecWrite     = "command/exec/write"     // CommandExecWriteParams → Empty; FirstExecWriteParams → FirstExecWriteResult
	MethodCommandExecResize    = "command/exec/resize"    // CommandExecResizeParams → Empty
	MethodCommandExecTerminate = "command/exec/terminate" // CommandExecTerminateParams → Empty; FirstExecTerminateParams → FirstExecTerminateResult

	NotifyCommandExecOutputDelta = "command/exec/outputDelta" // CommandExecOutputDeltaNotification, FirstExecOutputDeltaNotification
	NotifyCommandExecExited      = "command/exec/exited"      // FirstExecExitedNotification
)

// FirstVersion is the ProtocolVersion of the first exec-server wire. It is answered to
// clients that ask for none of Capabilities: those of that wire look at it, and those of
// later ones do not.
const FirstVersion = "exec-server.v0"

// ClientInfo is who calls, as clients of the app-server wire say it.
type ClientInfo struct {
	Name    string `json:"name" wire:"required"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version,omitempty"`
}

// ClientInfoParams is the initialize of the app-server wire.
type ClientInfoParams struct {
	ClientInfo ClientInfo `json:"clientInfo" wire:"required"`
}

// Limit is a number that may be absent, for the server's default, or null, for none.
type Limit struct {
	Given bool  // it was there
	None  bool  // and null
	Value int64 // else
}

// MarshalJSON is for encoding/json.
func (l Limit) MarshalJSON() ([]byte, error) { return appendBody(nil, l) }

// UnmarshalJSON is for encoding/json.
func (l *Limit) UnmarshalJSON(b []byte) error { return unmarshalJSON(b, l) }

// TerminalSize is a Size that may be zero: these APIs have their own words for that.
type TerminalSize struct {
	Rows uint16 `json:"rows" wire:"required"`
	Cols uint16 `json:"cols" wire:"required"`
}

// ProcessSpawnParams starts a program; what it is called is free again after its
// SpawnExitedNotification.
type ProcessSpawnParams struct {
	Command       []string `json:"command" wire:"required"`       // the program and its arguments
	ProcessHandle string   `json:"processHandle" wire:"required"` // not empty, of no other that runs
	Cwd           string   `json:"cwd" wire:"required"`           // an absolute path

	TTY                bool          `json:"tty,omitempty"` // implies the next two; its output is stdout
	StreamStdin        bool          `json:"streamStdin,omitempty"`
	StreamStdoutStderr bool          `json:"streamStdoutStderr,omitempty"`
	Size               *TerminalSize `json:"size,omitempty"` // only with TTY

	OutputBytesCap Limit `json:"outputBytesCap,omitzero"` // of each stream, in bytes; absent: 1 MiB
	TimeoutMs      Limit `json:"timeoutMs,omitzero"`      // absent: 10 s

	Env map[string]*string `json:"env,omitempty"` // laid over the server's; nil: unset
}

// ProcessWriteStdinParams writes to stdin, ends it, or both in this order.
type ProcessWriteStdinParams struct {
	ProcessHandle string  `json:"processHandle" wire:"required"`
	DeltaBase64   *[]byte `json:"deltaBase64,omitempty"`
	CloseStdin    bool    `json:"closeStdin,omitempty"`
}

// ProcessResizePtyParams sets the size of a PTY.
type ProcessResizePtyParams struct {
	ProcessHandle string       `json:"processHandle" wire:"required"`
	Size          TerminalSize `json:"size" wire:"required"`
}

// ProcessKillParams kills a program and all that it started.
type ProcessKillParams struct {
	ProcessHandle string `json:"processHandle" wire:"required"`
}

// ProcessOutputDeltaNotification is output as it comes.
type ProcessOutputDeltaNotification struct {
	ProcessHandle string `json:"processHandle" wire:"required"`
	Stream        Stream `json:"stream" wire:"required"`
	DeltaBase64   []byte `json:"deltaBase64" wire:"required"`
	CapReached    bool   `json:"capReached"` // no more of this stream follows
}

// SpawnExitedNotification: the program has ended. What was streamed is not repeated.
type SpawnExitedNotification struct {
	ProcessHandle       string `json:"processHandle" wire:"required"`
	ExitCode            int    `json:"exitCode"`            // 124: timed out; 128 + signal
	OutputDrainTimedOut bool   `json:"outputDrainTimedOut"` // others hold its output open
	Stdout              string `json:"stdout"`              // what is not UTF-8 is U+FFFD
	StdoutCapReached    bool   `json:"stdoutCapReached"`
	Stderr              string `json:"stderr"`
	StderrCapReached    bool   `json:"stderrCapReached"`
}

// CommandExecParams runs a command; the answer comes when it has ended.
type CommandExecParams struct {
	Command   []string `json:"command" wire:"required"`
	ProcessID *string  `json:"processId,omitempty"` // nil: it is buffered and cannot be addressed
	Cwd       *string  `json:"cwd,omitempty"`       // nil: the server's; a path from there

	Env map[string]*string `json:"env,omitempty"` // laid over the server's; nil: unset

	TTY                bool          `json:"tty,omitempty"` // implies the next two; its output is stdout
	StreamStdin        bool          `json:"streamStdin,omitempty"`
	StreamStdoutStderr bool          `json:"streamStdoutStderr,omitempty"`
	Size               *TerminalSize `json:"size,omitempty"` // only with TTY

	OutputBytesCap   *uint64 `json:"outputBytesCap,omitempty"` // of each stream, in bytes; nil: 1 MiB
	DisableOutputCap bool    `json:"disableOutputCap,omitempty"`
	TimeoutMs        *int64  `json:"timeoutMs,omitempty"` // nil: 10 s
	DisableTimeout   bool    `json:"disableTimeout,omitempty"`

	// How it is to be confined; nil: absent or null. See Unsupported.
	SandboxPolicy     json.RawMessage `json:"sandboxPolicy,omitempty"`
	PermissionProfile json.RawMessage `json:"permissionProfile,omitempty"`
}

// Unsupported is an *Error if the command is to be confined: nothing ever runs less
// confined than was asked. Only {"type":"dangerFullAccess"} asks for no confinement.
func (p CommandExecParams) Unsupported() error {
	var policy struct {
		Type string `json:"type"`
	}
	switch {
	case p.PermissionProfile != nil:
		return Errorf(CodeInvalidParams, "permissionProfile is not supported by this server, which runs nothing less confined than asked: leave it out")
	case p.SandboxPolicy == nil:
		return nil
	case unmarshalJSON(p.SandboxPolicy, &policy) == nil && policy.Type == "dangerFullAccess":
		return nil
	}
	return Errorf(CodeInvalidParams, `sandboxPolicy is not supported by this server, which runs nothing less confined than asked: leave it out, or send {"type":"dangerFullAccess"}`)
}

// CommandExecResult is how a command has ended. What was streamed is not repeated.
type CommandExecResult struct {
	ExitCode int    `json:"exitCode"` // 124: timed out; 128 + signal
	Stdout   string `json:"stdout"`   // up to the cap; what is not UTF-8 is U+FFFD
	Stderr   string `json:"stderr"`
}

// CommandExecWriteParams writes to stdin, ends it, or both in this order.
type CommandExecWriteParams struct {
	ProcessID   string  `json:"processId" wire:"required"`
	DeltaBase64 *[]byte `json:"deltaBase64,omitempty"`
	CloseStdin  bool    `json:"closeStdin,omitempty"`
}

// CommandExecResizeParams sets the size of a PTY.
type CommandExecResizeParams struct {
	ProcessID string       `json:"processId" wire:"required"`
	Size      TerminalSize `json:"size" wire:"required"`
}

// CommandExecTerminateParams kills a command and all that it started.
type CommandExecTerminateParams struct {
	ProcessID string `json:"processId" wire:"required"`
}

// CommandExecOutputDeltaNotification is output as it comes.
type CommandExecOutputDeltaNotification struct {
	ProcessID   string `json:"processId" wire:"required"`
	Stream      Stream `json:"stream" wire:"required"`
	DeltaBase64 []byte `json:"deltaBase64" wire:"required"`
	CapReached  bool   `json:"capReached"` // no more of this stream follows
}

// FirstExecParams starts a program, of the first exec-server wire.
type FirstExecParams struct {
	Argv []string          `json:"argv" wire:"required"`
	Cwd  string            `json:"cwd" wire:"required"` // an absolute path
	Env  map[string]string `json:"env" wire:"required"` // all of it
	TTY  bool              `json:"tty" wire:"required"` // without it there is no stdin
	Arg0 *string           `json:"arg0,omitempty"`
}

// FirstExecResult has the server's name for a program: session-1, session-2, … of this
// connection.
type FirstExecResult struct {
	SessionID string `json:"sessionId"`
}

// FirstExecWriteParams writes to stdin.
type FirstExecWriteParams struct {
	SessionID string `json:"sessionId" wire:"required"`
	Chunk     []byte `json:"chunk" wire:"required"`
}

// FirstExecWriteResult says that it will be written.
type FirstExecWriteResult struct {
	Accepted bool `json:"accepted"`
}

// FirstExecTerminateParams kills a program and all that it started.
type FirstExecTerminateParams struct {
	SessionID string `json:"sessionId" wire:"required"`
}

// FirstExecTerminateResult says whether it ran.
type FirstExecTerminateResult struct {
	Running bool `json:"running"`
}

// FirstExecOutputDeltaNotification is output as it comes.
type FirstExecOutputDeltaNotification struct {
	SessionID string `json:"sessionId" wire:"required"`
	Stream    Stream `json:"stream" wire:"required"`
	Chunk     []byte `json:"chunk" wire:"required"`
}

// FirstExecExitedNotification: the program has ended.
type FirstExecExitedNotification struct {
	SessionID string `json:"sessionId" wire:"required"`
	ExitCode  int    `json:"exitCode"`
}
