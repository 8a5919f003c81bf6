package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// A Cmd is a program on the server, before and after its start, like exec.Cmd for local programs. The
// caller sets the fields before Start and does not change them later. After Start, any goroutine may
// call any method.
type Cmd struct {
	// Path is the program: a path on the server, or a name to look up in the PATH of the process's own
	// environment. The program sees Args[0] as its name. With Login, Path may be empty, and then Args has no effect: the
	// program is the login shell of the user.
	Path string
	Args []string

	// Dir is the working directory: an absolute path on the server, or with Client.Has("login") also ~ or ~/PATH, in the home
	// of the user of the process. Zero: with Login the home, otherwise the server's own directory.
	Dir string

	// Env is the environment, in the form "key=value". If a key occurs twice, the last value counts.
	// Nil: the server's own environment, without variables whose names suggest a secret (*KEY*,
	// *SECRET*, *TOKEN*, *PASSWORD*, …: docs/protocol/sandbox.md). The environment of this client is never
	// used.
	Env []string

	// Login gives the process the environment of a login on the server: HOME, USER, LOGNAME, SHELL and PATH of its user, and
	// then Env. EnvPolicy must be nil. The server must have the capability: Client.Has("login").
	Login bool

	// EnvPolicy selects variables from the server's own environment; Env overrides them. Nil: see Env.
	EnvPolicy *protocol.EnvPolicy

	// Stdin is copied to the program until io.EOF, and the program's stdin is then closed. Nil:
	// /dev/null, or, with TTY, input from StdinPipe. If the process ends during a Read, the Read
	// returns by itself and its bytes are lost.
	Stdin io.Reader

	// StdinOpen gives the program a pipe as stdin that this Cmd neither writes to nor closes. Other clients write
	// to the pipe with Process.Write and close it with Process.CloseStdin. With Stdin or TTY, StdinOpen has no
	// effect.
	StdinOpen bool

	// Stdout and Stderr get the output. Nil: the output is discarded. If both are the same Writer, the
	// Writer gets all output in the order of the program's writes. Otherwise a slow Writer does not
	// hold up the other, within the server's window. If a Write fails, the rest is discarded, and the
	// process group of the program gets SIGPIPE, once in each run: most programs end, as those of os/exec
	// do when nobody reads their pipe. A program that ignores SIGPIPE goes on, and Wait returns the error
	// of the Write. The client sends no SIGPIPE to a TTY, or to a process of Attach. A TTY has only Stdout.
	Stdout, Stderr io.Writer

	// OnEvent gets the output in place of Stdout and Stderr, and the ends of runs, in their order. A client that must
	// survive its own crash stores each Event together with Event.Seq, and comes back with Attach after the last Seq stored:
	// the client acknowledges an Event only when OnEvent has returned nil, so the server keeps every later Event.
	// After an error OnEvent is not called again, the client acknowledges nothing more of the process, and Wait returns
	// the error. The program goes on until its output fills its Retention. OnEvent may block, as a Writer may.
	// Example: docs/example/survivor.
	OnEvent func(Event) error

	// TTY runs the program in a new terminal. Size zero: 24 rows, 80 columns.
	TTY  bool
	Size protocol.Size

	// Screen has the server keep the screen of the TTY from the first byte on, for Process.Screen. Nil: from the first
	// Process.Screen on.
	Screen *protocol.StartScreen

	// ID names the process in its session. Zero: a new random id.
	ID string

	// Retention is how much output the server keeps. Nil: the server's default, which loses nothing.
	Retention *protocol.Retention

	// Timeout is how long the process may run before the server terminates it, with KillGrace between
	// SIGTERM and SIGKILL. Zero Timeout: no limit. Zero KillGrace: the server's default.
	Timeout   time.Duration
	KillGrace time.Duration

	// StopSignal is the signal that asks the program to end. Zero: SIGTERM.
	StopSignal protocol.Signal

	// Limits are the program's resource limits. Nil: the limits of the server.
	Limits *protocol.ProcessLimits
	// User, Umask and NoNewPrivs are members of protocol.ProcessStartParams.
	User, Umask string
	NoNewPrivs  bool

	// Sandbox is what the program may do, such as protocol.WorkspaceSandbox(). A Sandbox without WorkspaceRoots gets Dir as
	// its only one. Nil: the program is not confined, unless the server confines it by default. If the server cannot
	// confine the program, Start fails.
	Sandbox *protocol.Sandbox

	// WaitDelay is how long the program's descendants may hold its output open after the program's own
	// end; then the server kills the descendants. Zero: forever. Negative: they are killed at once.
	// Output of the program itself is never lost by WaitDelay.
	WaitDelay time.Duration

	// Restart says when the program runs again: &protocol.Restart{Policy: protocol.RestartPermanent}.
	// Nil: never. Wait reports how the last run ended.
	Restart *protocol.Restart

	// OnRestart is called between two runs, in the order of Stdout. OnRestart must not block.
	OnRestart func(protocol.RestartedNotification)

	// Ready says when a run counts as ready, and Liveness when a run counts as dead. Nil Ready: ready
	// as soon as the run starts. Nil Liveness: no check. OnReady is called when the run is ready, in
	// the order of Stdout. OnReady must not block.
	Ready    *protocol.Ready
	Liveness *protocol.Liveness
	OnReady  func(run int)

	// DependsOn are other Cmds of the same Client.StartGroup. The server starts this Cmd when they are
	// ready.
	DependsOn []*Cmd

	// Hold has the program of an Attach wait, while the client is connected, rather than the server drop output that the client
	// has not acknowledged, whatever the Retention of the program says: the Writer, OnEvent and the link set the speed of the
	// program. As with Options.HoldBack, the client reads no further while a Writer is behind. For the owner and controllers:
	// Start of an observer fails. After a lost connection the server holds the output for Retention.HoldMs.
	Hold bool

	// OnGap is called in place of lost output, in the order of Stdout. OnGap must not block. Nil: Wait
	// returns an error that stands for all gaps. Output is lost only if Retention evicts, or if an observer
	// falls behind. A Writer that falls behind then loses the oldest output that waits for it.
	OnGap func(GapError)

	client   *Client
	attach   bool
	after    uint64
	instance string // of Process.Of; "": any
	pipes    []pipe
	process  *process // nil before Start
}

// Command returns a Cmd that runs name with args.
func (c *Client) Command(name string, args ...string) *Cmd {
	return &Cmd{Path: name, Args: append([]string{name}, args...), client: c}
}

// Attach returns a Cmd for a process already in the session. Start of this Cmd starts nothing. Start
// delivers the events that follow the seq in after, and then new events as they come; for 0, Start
// begins with the oldest event still on the server. Only the fields Stdin, Stdout, Stderr, OnEvent, OnGap, OnRestart,
// OnReady and Hold have an effect.
func (c *Client) Attach(processID string, after uint64) *Cmd {
	return c.Process(processID).Attach(after)
}

// An Event is output of a process, or the end of a run, for Cmd.OnEvent.
type Event struct {
	Seq    uint64               // Attach after Seq begins with the next event
	At     time.Time            // when the server got the first byte of Output; zero: unknown, as without Options.Times
	Stream protocol.Stream      // of Output
	Output []byte               // valid until OnEvent returns; a few chunks of the wire may be together. Nil: Exit is set
	Exit   *protocol.ExitStatus // how a run ended; descendants of the program may still write. Nil: Output is set
}

// An ExitError reports a process that did not end with exit status 0.
//
// If the server no longer runs the program again although its restart policy asks for another run,
// errors.Is(err, ErrGivenUp) is true, and Status says how the last run ended: perhaps with exit status 0.
type ExitError struct {
	ProcessID string
	Status    protocol.ExitStatus
	Stderr    []byte // of Output: the last 32 KiB of the program's stderr, if Cmd.Stderr was nil
	GivenUp   string // why the server no longer runs the program again; "": no other run was due

	// SandboxDenied says that the sandbox of the program has probably denied something to the last run. The server
	// guesses this from the output and the exit code, so a caller may ask a person, and must not decide.
	// (PROTOCOL.md, section 4.9.)
	SandboxDenied bool
}

// Is reports whether target is ErrGivenUp and the server has given the process up.
func (e *ExitError) Is(target error) bool { return target == ErrGivenUp && e.GivenUp != "" }

func (e *ExitError) Error() string {
	s := "exit status " + strconv.Itoa(e.Status.ExitCode)
	if e.Status.Signal != "" {
		s = "signal: " + e.Status.Signal
	}
	switch {
	case e.Status.TimedOut && e.Status.Reason != "timed out":
		s += " (timed out)"
	case e.Status.OOMKilled:
		s += " (out of memory)"
	case e.Status.CoreDumped:
		s += " (core dumped)"
	case e.SandboxDenied:
		s += " (the sandbox has probably denied something)"
	}
	if e.Status.Reason != "" {
		s += ": " + e.Status.Reason
	}
	if e.GivenUp != "" {
		s += "; given up: " + e.GivenUp
	}
	return s
}

// A CopyError reports a program that ended with exit status 0, while not all of its input or output was copied: a Read from
// Stdin or a Write to Stdout or Stderr failed, or the server refused the input.
type CopyError struct{ Err error }

func (e *CopyError) Error() string { return e.Err.Error() }
func (e *CopyError) Unwrap() error { return e.Err }

// Wait returns once the process has ended and its output was delivered, or ctx is done. The end of ctx
// does not affect the process. Several goroutines may wait. The errors are:
//
//   - *ExitError: the program failed. With a restart policy, its last run failed, or the server gave the
//     process up (ErrGivenUp).
//   - *GapError: output was lost.
//   - *CopyError: the program succeeded, and its input or output was not copied to the end.
//   - ErrProcessGone: the server gave the process up without an exit of the program, or no longer has the exit
//     status, because an observer or a retention that evicts fell behind.
//   - ErrClosed: Close or CloseSession was called.
//   - ErrSessionGone, or the reason why the session could not be resumed: the session was lost.
func (cmd *Cmd) Wait(ctx context.Context) error {
	p := cmd.process
	if p == nil {
		return errors.New("client: Wait: not started")
	}
	if ctx == nil {
		return errNilContext
	}
	select {
	case <-p.done:
		return p.result()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Run starts the program and waits for its end. If ctx ends first, the client kills the process with
// all its descendants, and Run returns without the rest of the output.
func (cmd *Cmd) Run(ctx context.Context) error {
	if err := cmd.Start(ctx); err != nil {
		return err
	}
	p := cmd.process
	err := cmd.Wait(ctx)
	if ctx.Err() == nil {
		return err
	}
	p.c.mu.Lock()
	if !p.closed {
		p.fail(context.Cause(ctx))
		go p.abandon()
	}
	p.c.mu.Unlock()
	<-p.done // after Run no Writer is in use
	return p.result()
}

// Output runs the program and returns its stdout. If Stderr is nil, an ExitError has the last part of the
// program's stderr.
func (cmd *Cmd) Output(ctx context.Context) ([]byte, error) {
	if cmd.Stdout != nil {
		return nil, errors.New("client: Output: Stdout is set already")
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	if cmd.Stderr != nil || cmd.TTY {
		return cmd.gather(ctx, &out)
	}
	var stderr tail
	cmd.Stderr = &stderr
	data, err := cmd.gather(ctx, &out)
	if exit, ok := errors.AsType[*ExitError](err); ok {
		exit.Stderr = stderr.bytes()
	}
	return data, err
}

// CombinedOutput runs the program and returns its stdout and stderr, in the order of the program's
// writes.
func (cmd *Cmd) CombinedOutput(ctx context.Context) ([]byte, error) {
	if cmd.Stdout != nil || cmd.Stderr != nil {
		return nil, errors.New("client: CombinedOutput: Stdout or Stderr is set already")
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd.gather(ctx, &out)
}

// A tail keeps the last maxTail bytes.
type tail struct{ buf []byte }

const maxTail = 32 << 10

func (t *tail) Write(p []byte) (int, error) {
	if t.buf = append(t.buf, p...); len(t.buf) > 2*maxTail {
		t.buf = append(t.buf[:0], t.bytes()...)
	}
	return len(p), nil
}

func (t *tail) bytes() []byte { return t.buf[max(0, len(t.buf)-maxTail):] }

func (cmd *Cmd) gather(ctx context.Context, out *bytes.Buffer) ([]byte, error) {
	err := cmd.Run(ctx)
	return out.Bytes(), err
}

// StdinPipe returns a pipe to the program's stdin. A Write returns when its bytes are on their way, at
// most four writes ahead of the server, and fails once the process has ended or has closed its stdin
// (ErrStdinClosed). Closing the pipe closes the program's stdin.
func (cmd *Cmd) StdinPipe() (io.WriteCloser, error) {
	if cmd.Stdin != nil || cmd.process != nil {
		return nil, errors.New("client: StdinPipe: Stdin is set, or the process was started")
	}
	r, w := io.Pipe()
	cmd.Stdin = r
	cmd.pipes = append(cmd.pipes, r)
	return w, nil
}

// StdoutPipe returns a pipe from the program's stdout. A Read returns io.EOF after all output of the
// program, or another error if the rest was lost. Wait returns only after the caller has read the pipe
// to its end or closed the pipe, or has closed the client. If the caller closes the pipe earlier and the
// program writes more, the program gets SIGPIPE (see Stdout).
func (cmd *Cmd) StdoutPipe() (io.ReadCloser, error) { return cmd.pipe("StdoutPipe", &cmd.Stdout) }

// StderrPipe is StdoutPipe for stderr.
func (cmd *Cmd) StderrPipe() (io.ReadCloser, error) { return cmd.pipe("StderrPipe", &cmd.Stderr) }

func (cmd *Cmd) pipe(method string, to *io.Writer) (io.ReadCloser, error) {
	if *to != nil || cmd.process != nil {
		return nil, fmt.Errorf("client: %s: the Writer is set, or the process was started", method)
	}
	r, w := io.Pipe()
	*to = w
	cmd.pipes = append(cmd.pipes, w)
	return r, nil
}

// Status returns how the process ended, and false as long as the client knows of no end.
func (cmd *Cmd) Status() (protocol.ExitStatus, bool) {
	if p := cmd.process; p != nil {
		p.c.mu.Lock()
		defer p.c.mu.Unlock()
		if p.status != nil {
			return *p.status, true
		}
	}
	return protocol.ExitStatus{}, false
}

// Seq returns the seq of the last event delivered. Attach in another client takes this seq to continue
// here. During a Write, that event is one before those of the Write: to store output with its position, use OnEvent.
func (cmd *Cmd) Seq() uint64 {
	if p := cmd.process; p != nil {
		p.c.mu.Lock()
		defer p.c.mu.Unlock()
		return p.acked
	}
	return cmd.after
}

// Signal sends sig once to the process group of the current run, as far as this client knows. If the
// process has begun a later run, Signal sends nothing and returns ErrOtherRun. If the process has
// ended, the error is nil.
func (cmd *Cmd) Signal(ctx context.Context, sig protocol.Signal) error {
	p, err := cmd.started(protocol.MethodProcessSignal)
	if err != nil {
		return err
	}
	params := protocol.ProcessSignalParams{ProcessID: cmd.ID, Signal: sig, Repeatable: repeatable()}
	p.c.mu.Lock()
	params.Run = p.run
	p.c.mu.Unlock()
	other, err := ask[protocol.OtherRun](ctx, p.c, protocol.MethodProcessSignal, params) // zero if the signal was sent
	if err == nil && other.Run != 0 {
		return fmt.Errorf("%w: %s was for run %d, and the process is at run %d", ErrOtherRun, sig, params.Run, other.Run)
	}
	return err
}

// Resize sets the size of the process's terminal.
func (cmd *Cmd) Resize(ctx context.Context, size protocol.Size) error {
	p, err := cmd.started(protocol.MethodProcessResize)
	if err != nil {
		return err
	}
	return p.Resize(ctx, size)
}

// Terminate sends StopSignal (default SIGTERM) to the process group. When the program has ended or
// grace has passed, the server kills the process with all its descendants, also long after the
// program's own end. Zero or negative grace: SIGKILL at once. With a grace, Terminate returns without
// waiting for the end. Without a grace, Terminate returns once all are gone, or with an error that
// names the processes left.
func (cmd *Cmd) Terminate(ctx context.Context, grace time.Duration) error {
	p, err := cmd.started(protocol.MethodProcessTerminate)
	if err != nil {
		return err
	}
	_, err = p.Terminate(ctx, grace)
	return err
}

// Kill is Terminate without grace.
func (cmd *Cmd) Kill(ctx context.Context) error { return cmd.Terminate(ctx, 0) }

// started returns the process for a request with a method.
func (cmd *Cmd) started(method string) (*process, error) {
	if cmd.process == nil {
		return nil, fmt.Errorf("client: %s: not started", method)
	}
	return cmd.process, nil
}
