package protocol

import "encoding/json"

// This file has the sister APIs: process/spawn, command/exec, and the command/exec of the first
// exec-server wire. Names belong to a connection; the end of the connection kills the programs
// started on it. These APIs share no state with process/start and its family. (app-server wire.)

// Methods of process/spawn.
const (
	MethodProcessSpawn      = "process/spawn"      // ProcessSpawnParams → Empty
	MethodProcessWriteStdin = "process/writeStdin" // ProcessWriteStdinParams → Empty
	MethodProcessResizePty  = "process/resizePty"  // ProcessResizePtyParams → Empty
	MethodProcessKill       = "process/kill"       // ProcessKillParams → Empty

	NotifyProcessOutputDelta = "process/outputDelta" // ProcessOutputDeltaNotification
	// NotifySpawnExited has the same name as NotifyExited, but another shape.
	NotifySpawnExited = "process/exited" // SpawnExitedNotification
)

// Methods of command/exec. Three of them exist in the first exec-server wire, too. Params with argv
// or sessionId belong to the first wire.
const (
	MethodCommandExec          = "command/exec"           // CommandExecParams → CommandExecResult; FirstExecParams → FirstExecResult
	MethodCommandExecWrite     = "command/exec/write"     // CommandExecWriteParams → Empty; FirstExecWriteParams → FirstExecWriteResult
	MethodCommandExecResize    = "command/exec/resize"    // CommandExecResizeParams → Empty
	MethodCommandExecTerminate = "command/exec/terminate" // CommandExecTerminateParams → Empty; FirstExecTerminateParams → FirstExecTerminateResult

	NotifyCommandExecOutputDelta = "command/exec/outputDelta" // CommandExecOutputDeltaNotification, FirstExecOutputDeltaNotification
	NotifyCommandExecExited      = "command/exec/exited"      // FirstExecExitedNotification
)

// FirstVersion is the ProtocolVersion of the first exec-server wire. The server answers
// FirstVersion to clients naming no Capabilities: clients of the first wire check the version,
// clients of later wires do not.
const FirstVersion = "exec-server.v0"

// ClientInfo identifies the client, in the form of the app-server wire.
type ClientInfo struct {
	Name    string `json:"name" wire:"required"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version" wire:"required"`
}

// ClientInfoParams are the params of initialize in the app-server wire.
type ClientInfoParams struct {
	ClientInfo   ClientInfo      `json:"clientInfo" wire:"required"`
	Capabilities AppCapabilities `json:"capabilities,omitzero"`
	Token        string          `json:"token,omitempty"` // as InitializeParams.Token; ours
}

// AppCapabilities are what a client of the app-server wire asks for.
type AppCapabilities struct {
	ExperimentalAPI bool `json:"experimentalApi,omitempty"` // process/spawn and its family

	// OptOutNotificationMethods are notifications that the server shall not send. Unknown methods are
	// ignored.
	OptOutNotificationMethods []string `json:"optOutNotificationMethods,omitempty"`
}

// Limit is a number, absent or null. Absent means the server's default; null means no limit.
type Limit struct {
	Given bool  // the member was present
	None  bool  // the member was null
	Value int64 // otherwise
}

// MarshalJSON implements json.Marshaler.
func (l Limit) MarshalJSON() ([]byte, error) { return appendJSON(nil, l) }

// UnmarshalJSON implements json.Unmarshaler.
func (l *Limit) UnmarshalJSON(b []byte) error { return unmarshalJSON(b, l) }

// TerminalSize is like Size, but zeros pass decoding: the methods report them in their own words.
type TerminalSize struct {
	Rows uint16 `json:"rows" wire:"required"`
	Cols uint16 `json:"cols" wire:"required"`
}

// NoSandbox is embedded in the params of starts that cannot be confined. The peer ignores its members. Ignoring them would
// run a program unconfined whose client asked for a sandbox.
type NoSandbox struct {
	Sandbox           json.RawMessage `json:"sandbox,omitempty"` // nil: absent or null, as below
	SandboxPolicy     json.RawMessage `json:"sandboxPolicy,omitempty"`
	PermissionProfile json.RawMessage `json:"permissionProfile,omitempty"`
}

// Refused returns an error if the params of api have a member that asks for a sandbox.
func (n NoSandbox) Refused(api string) *Error {
	for _, m := range []struct {
		name  string
		value json.RawMessage
	}{{"sandbox", n.Sandbox}, {"sandboxPolicy", n.SandboxPolicy}, {"permissionProfile", n.PermissionProfile}} {
		if m.value != nil {
			return Errorf(KindUnsupported, CodeInvalidParams, "%s is not a member of %s, whose programs are not confined: use process/start with `sandbox`, or command/exec with `command` and `sandboxPolicy` or `permissionProfile`", m.name, api)
		}
	}
	return nil
}

// ProcessSpawnParams starts a program. The ProcessHandle may be used again after the
// SpawnExitedNotification.
type ProcessSpawnParams struct {
	Command       []string `json:"command" wire:"required"`       // the program and its arguments
	ProcessHandle string   `json:"processHandle" wire:"required"` // at most 1 KiB, not empty, and not used by a running program
	Cwd           string   `json:"cwd" wire:"required"`           // an absolute path

	TTY                bool          `json:"tty,omitempty"`                // a terminal: implies the next two; all output is stdout
	StreamStdin        bool          `json:"streamStdin,omitempty"`        // false: stdin is empty
	StreamStdoutStderr bool          `json:"streamStdoutStderr,omitempty"` // false: output comes at the end
	Size               *TerminalSize `json:"size,omitempty"`               // only with TTY; absent: 24 rows, 80 columns

	OutputBytesCap Limit `json:"outputBytesCap,omitzero"` // of each stream, in bytes; absent: 1 MiB; null: no cap. Output beyond is dropped
	TimeoutMs      Limit `json:"timeoutMs,omitzero"`      // absent: 10 s; null: no limit; 0: at once. Then the program is killed, with exit code 124

	Env map[string]*string `json:"env,omitempty"` // added to the server's without its secrets; a null removes the variable

	NoSandbox
}

// ProcessWriteStdinParams writes to stdin, then closes stdin, or does either.
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

// ProcessKillParams kills a program with all its descendants.
type ProcessKillParams struct {
	ProcessHandle string `json:"processHandle" wire:"required"`
}

// ProcessOutputDeltaNotification is a piece of output.
type ProcessOutputDeltaNotification struct {
	ProcessHandle string `json:"processHandle" wire:"required"`
	Stream        Stream `json:"stream" wire:"required"`
	DeltaBase64   []byte `json:"deltaBase64" wire:"required"`
	CapReached    bool   `json:"capReached"` // no more output of this stream follows
}

// SpawnExitedNotification says a program has ended. Streamed output is not repeated.
type SpawnExitedNotification struct {
	ProcessHandle       string `json:"processHandle" wire:"required"`
	ExitCode            int    `json:"exitCode"`            // 124: timed out; 128 + signal
	OutputDrainTimedOut bool   `json:"outputDrainTimedOut"` // descendants still hold the output open
	Stdout              string `json:"stdout"`              // bytes other than UTF-8 become U+FFFD
	StdoutCapReached    bool   `json:"stdoutCapReached"`
	Stderr              string `json:"stderr"`
	StderrCapReached    bool   `json:"stderrCapReached"`
}

// CommandExecParams runs a command. The answer comes at the end of the command.
type CommandExecParams struct {
	Command   []string `json:"command" wire:"required"`
	ProcessID *string  `json:"processId,omitempty"` // nil: output is not streamed, and no request can name the command
	Cwd       *string  `json:"cwd,omitempty"`       // relative to the server's; nil: the server's

	Env map[string]*string `json:"env,omitempty"` // added to the server's without its secrets; a null removes the variable

	TTY                bool          `json:"tty,omitempty"`                // a terminal: implies the next two; all output is stdout
	StreamStdin        bool          `json:"streamStdin,omitempty"`        // false: stdin is empty
	StreamStdoutStderr bool          `json:"streamStdoutStderr,omitempty"` // false: output comes at the end
	Size               *TerminalSize `json:"size,omitempty"`               // only with TTY; absent: 24 rows, 80 columns

	OutputBytesCap   *uint64 `json:"outputBytesCap,omitempty"` // of each stream, in bytes; nil: 1 MiB
	DisableOutputCap bool    `json:"disableOutputCap,omitempty"`
	TimeoutMs        *int64  `json:"timeoutMs,omitempty"` // nil: 10 s
	DisableTimeout   bool    `json:"disableTimeout,omitempty"`

	// SandboxPolicy or PermissionProfile confines the command.
	SandboxPolicy     json.RawMessage `json:"sandboxPolicy,omitempty"`
	PermissionProfile json.RawMessage `json:"permissionProfile,omitempty"`
	StartSandbox      json.RawMessage `json:"sandbox,omitempty"` // of process/start: refused
}

// CommandExecResult says how a command has ended. Streamed output is not repeated.
type CommandExecResult struct {
	ExitCode int    `json:"exitCode"` // 124: timed out; 128 + signal
	Stdout   string `json:"stdout"`   // up to the cap; bytes other than UTF-8 become U+FFFD
	Stderr   string `json:"stderr"`
}

// CommandExecWriteParams writes to stdin, then closes stdin, or does either.
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

// CommandExecTerminateParams kills a command with all its descendants.
type CommandExecTerminateParams struct {
	ProcessID string `json:"processId" wire:"required"`
}

// CommandExecOutputDeltaNotification is a piece of output.
type CommandExecOutputDeltaNotification struct {
	ProcessID   string `json:"processId" wire:"required"`
	Stream      Stream `json:"stream" wire:"required"`
	DeltaBase64 []byte `json:"deltaBase64" wire:"required"`
	CapReached  bool   `json:"capReached"` // no more output of this stream follows
}

// FirstExecParams starts a program, in the first exec-server wire.
type FirstExecParams struct {
	Argv []string          `json:"argv" wire:"required"`
	Cwd  string            `json:"cwd" wire:"required"` // an absolute path
	Env  map[string]string `json:"env" wire:"required"` // the whole environment
	TTY  bool              `json:"tty" wire:"required"` // false: there is no stdin
	Arg0 *string           `json:"arg0,omitempty"`

	NoSandbox
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

// FirstExecWriteResult says the bytes will be written.
type FirstExecWriteResult struct {
	Accepted bool `json:"accepted"`
}

// FirstExecTerminateParams kills a program with all its descendants.
type FirstExecTerminateParams struct {
	SessionID string `json:"sessionId" wire:"required"`
}

// FirstExecTerminateResult says whether the program was running.
type FirstExecTerminateResult struct {
	Running bool `json:"running"`
}

// FirstExecOutputDeltaNotification is a piece of output.
type FirstExecOutputDeltaNotification struct {
	SessionID string `json:"sessionId" wire:"required"`
	Stream    Stream `json:"stream" wire:"required"`
	Chunk     []byte `json:"chunk" wire:"required"`
}

// FirstExecExitedNotification says a program has ended.
type FirstExecExitedNotification struct {
	SessionID string `json:"sessionId" wire:"required"`
	ExitCode  int    `json:"exitCode"`
}
