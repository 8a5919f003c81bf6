package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	maxStdinChunk   = 32 << 10 // bytes of a write
	firstStdinChunk = 4 << 10  // bytes of a write until the Reader has filled a whole buffer
	stdinWrites     = 4        // writes in flight at once; each waits while the program's stdin is full
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

// Start starts the program and returns when the server has started it. ctx bounds only Start: if ctx
// ends first and the process starts nevertheless, the client kills the process. If the server refuses,
// the error is a *protocol.Error with the reason: errors.Is tells a missing program (exec.ErrNotFound) from a
// missing directory (fs.ErrNotExist) and other reasons.
func (cmd *Cmd) Start(ctx context.Context) error {
	if err := cmd.prepare(); err != nil {
		return err
	}
	p := cmd.process
	var err error
	switch {
	case len(cmd.DependsOn) > 0:
		err = errors.New("client: Start: DependsOn is for StartGroup")
	case cmd.attach:
		err = p.join(ctx, cmd.after)
	default:
		err = cmd.start(ctx, p)
	}
	if err != nil {
		p.c.mu.Lock()
		defer p.c.mu.Unlock()
		p.fail(err)
		return err
	}
	if cmd.Stdin != nil {
		go p.feed(cmd.Stdin)
	}
	return nil
}

// prepare makes the process of a Cmd before Start returns, because a Writer may call methods earlier.
func (cmd *Cmd) prepare() error {
	switch {
	case cmd == nil || cmd.client == nil:
		return errors.New("client: Start: the Cmd has no Client: make it with Client.Command or Client.Attach")
	case cmd.process != nil:
		return errors.New("client: Start: already started; a Cmd runs once")
	}
	if cmd.Hold && !cmd.attach {
		return errors.New("client: Start: Hold is for a Cmd of Attach: what the server keeps for a Cmd of Command, its Retention says")
	}
	if cmd.OnEvent != nil && (cmd.Stdout != nil || cmd.Stderr != nil) {
		return errors.New("client: Start: OnEvent is set, and Stdout or Stderr: OnEvent gets all output, so leave them out")
	}
	if cmd.ID == "" {
		cmd.ID = rand.Text()
	}
	p := &process{
		c:        cmd.client,
		id:       cmd.ID,
		onGap:    cmd.OnGap,
		delay:    cmd.WaitDelay,
		onRun:    cmd.OnRestart,
		onReady:  cmd.OnReady,
		pipes:    cmd.pipes,
		done:     make(chan struct{}),
		sigpipe:  !cmd.attach && !cmd.TTY,
		restarts: cmd.Restart != nil,
		hold:     cmd.Hold,
		lossy:    !cmd.client.opts.HoldBack && !cmd.Hold && (cmd.client.opts.beside() || cmd.Retention != nil && cmd.Retention.OnFull == protocol.OnFullEvict),
		instance: cmd.instance,
	}
	if p.retention = uint64(max(0, cmd.client.lastHello().Limits.RetentionBytes)); cmd.Retention != nil && cmd.Retention.Bytes != nil {
		p.retention = *cmd.Retention.Bytes
	}
	switch {
	case cmd.OnEvent != nil:
		p.out = &lane{onEvent: cmd.OnEvent}
	case cmd.Stdout != nil:
		p.out = &lane{w: cmd.Stdout}
	}
	if same(cmd.Stdout, cmd.Stderr) {
		p.err = p.out
	} else if cmd.Stderr != nil {
		p.err = &lane{w: cmd.Stderr}
	}
	cmd.process = p
	return nil
}

// same reports whether two writers are the same, with the comparison of os/exec.
func same(a, b io.Writer) (same bool) {
	defer func() { _ = recover() }() // a comparison panics if the type of the writers is not comparable
	return a == b
}

func (cmd *Cmd) start(ctx context.Context, p *process) error {
	c := cmd.client
	params, err := cmd.params()
	if err != nil {
		return err
	}
	p.run = 1
	if err := p.register(); err != nil {
		return err
	}
	return c.launch(ctx, protocol.MethodProcessStart, params, p)
}

// launch sends the request that starts processes, and waits for the answer. If ctx ends first, the client takes back a
// request that it has not sent. Otherwise the client kills the processes after the answer, and only if the server has
// started them: the ids may be those of other processes.
func (c *Client) launch(ctx context.Context, method string, params any, processes ...*process) error {
	if ctx == nil {
		return errNilContext
	}
	answered, late := make(chan struct{}), false // Client.mu guards late
	k := &call{method: method, params: params}
	k.done = func() {
		c.mu.Lock()
		for _, p := range processes {
			p.launched(k, late)
		}
		c.mu.Unlock()
		close(answered)
	}
	c.send(k)
	select {
	case <-answered:
		return k.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	if c.pending[k.id] != k {
		c.mu.Unlock()
		<-answered
		return k.err
	}
	defer c.mu.Unlock()
	err := errorf("%s: %w", method, context.Cause(ctx))
	late = true
	for _, p := range processes {
		p.fail(err)
		if !k.sent {
			p.forget()
		}
	}
	if !k.sent {
		c.take(k)
	}
	return err
}

// launched takes the answer to the start of p. late says that the caller no longer waits for p.
func (p *process) launched(k *call, late bool) {
	if k.err != nil {
		p.forget()
		return
	}
	p.started = true
	if p.missed && k.sends > 1 {
		p.c.queue(p.subscription()) // an earlier connection has started p, and the events that came before this answer were of p
	} else {
		p.unnamed = false
	}
	if late {
		go p.abandon()
	}
}

// forget makes the client ignore the events of the id of p.
func (p *process) forget() {
	if p.c.processes[p.id] == p {
		delete(p.c.processes, p.id)
	}
}

// abandon kills a process for which nobody waits. abandon leaves the process registered until its end comes: the client
// still takes and discards the output, so the window does not fill.
func (p *process) abandon() {
	params := protocol.ProcessTerminateParams{ProcessID: p.id, Tree: true, Repeatable: repeatable()}
	_ = p.c.call(p.c.ctx, protocol.MethodProcessTerminate, params, nil)
}

// exit records the end of the program. Once WaitDelay has passed, exit kills the descendants that still
// hold the output open.
func (p *process) exit(seq uint64, status protocol.ExitStatus, denied bool) {
	p.status, p.denied = &status, denied
	if l := p.out; l != nil && l.onEvent != nil && !p.discard {
		p.push(l, mark{first: seq, last: seq, exit: &status})
	}
	if p.delay == 0 {
		return
	}
	run := status.Run
	time.AfterFunc(max(p.delay, 0), func() {
		p.c.mu.Lock()
		over := p.closed || p.failure != nil || p.status == nil || p.status.Run != run
		p.c.mu.Unlock()
		if !over {
			// The server's answer to the terminate is the closed event.
			params := protocol.ProcessTerminateParams{ProcessID: p.id, Tree: true, Repeatable: repeatable(), OfRun: protocol.OfRun{Run: uint64(run)}}
			_ = p.c.call(p.c.ctx, protocol.MethodProcessTerminate, params, nil)
		}
	})
}

// register makes the client accept events of the process.
func (p *process) register() error {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if err := p.c.refusal(protocol.MethodProcessStart); err != nil {
		return err
	}
	if p.c.processes[p.id] != nil {
		return fmt.Errorf("client: process id %q is in use; choose another, or none", p.id)
	}
	// Until its start is answered, the id may be that of another process. The peer's server, which has no name, may send
	// events before the answer.
	p.unnamed = p.unnamed || p.c.hello.Server.Name != ""
	p.c.processes[p.id] = p
	p.c.unsettled[p] = struct{}{}
	return nil
}

// join attaches to a process of the session.
func (p *process) join(ctx context.Context, after uint64) error {
	p.last, p.acked = after, after
	if err := p.register(); err != nil {
		return err
	}
	err := p.c.await(ctx, p.subscription())
	if err != nil {
		p.c.mu.Lock()
		defer p.c.mu.Unlock()
		p.forget()
	}
	return err
}

// named reports whether the client subscribes to p by a request of its own, also after a resume.
func (p *process) named() bool { return p.instance != "" || p.hold }

// subscription returns the request that has the events of p begin after p.last. The events that come before the answer do not
// count.
func (p *process) subscription() *call {
	var info protocol.ProcessInfo
	params := protocol.ProcessSubscribeParams{ProcessID: p.id, AfterSeq: p.last, Hold: p.hold, OfInstance: protocol.OfInstance{Instance: p.instance}}
	k := &call{method: protocol.MethodProcessSubscribe, params: params, result: &info}
	k.done = func() {
		p.c.mu.Lock()
		defer p.c.mu.Unlock()
		if k.err = asGone(k.err); k.err != nil {
			p.fail(k.err)
			p.forget()
			return
		}
		p.started, p.unnamed = true, false
		p.compare(info)
	}
	return k
}

// confine sets the sandbox of p.
func (cmd *Cmd) confine(p *protocol.ProcessStartParams) error {
	if cmd.Sandbox == nil {
		return nil
	}
	s := *cmd.Sandbox
	if s.NeedsCwd() && len(s.WorkspaceRoots) == 0 {
		dir, err := protocol.ParseFileURI(p.Cwd)
		if err != nil {
			return errorf("Sandbox has no WorkspaceRoots, and the directory of the server cannot be one: %w", err)
		}
		s.WorkspaceRoots = []string{dir}
	}
	p.Sandbox = s.JSON()
	return nil
}

// argv returns the arguments of the program; none for the login shell of the user.
func (cmd *Cmd) argv() []string {
	if cmd.Login && cmd.Path == "" {
		return []string{}
	}
	return append([]string{cmd.Path}, cmd.Args[min(1, len(cmd.Args)):]...)
}

func inHome(dir string) bool {
	_, ok := protocol.InHome(dir)
	return ok
}

func (cmd *Cmd) params() (*protocol.ProcessStartParams, error) {
	hello := cmd.client.lastHello()
	p := &protocol.ProcessStartParams{
		ProcessID: cmd.ID,
		Argv:      cmd.argv(),
		Env:       make(map[string]string, len(cmd.Env)),
		EnvPolicy: cmd.EnvPolicy,
		TTY:       cmd.TTY,
		PipeStdin: (cmd.Stdin != nil || cmd.StdinOpen) && !cmd.TTY,
		// A single pipe keeps the order of the program's writes.
		MergeStderr: !cmd.TTY && cmd.Stdout != nil && same(cmd.Stdout, cmd.Stderr),
		Retention:   cmd.Retention,
		Restart:     cmd.Restart,
		Limits:      cmd.Limits,
		User:        cmd.User,
		Umask:       cmd.Umask,
		NoNewPrivs:  cmd.NoNewPrivs,
		Login:       cmd.Login,
		StopSignal:  cmd.StopSignal,
		Ready:       cmd.Ready,
		Liveness:    cmd.Liveness,
		StartToken:  rand.Text(),
	}
	for _, other := range cmd.DependsOn {
		p.DependsOn = append(p.DependsOn, other.ID)
	}
	if cmd.Path != "" && len(cmd.Args) > 0 && cmd.Args[0] != cmd.Path {
		p.Arg0 = &cmd.Args[0]
	}
	switch {
	case path.IsAbs(cmd.Dir):
		p.Cwd = protocol.FileURI(cmd.Dir)
	case inHome(cmd.Dir):
		p.Cwd = cmd.Dir
	case cmd.Dir != "":
		return nil, fmt.Errorf("client: Dir %q is relative: give an absolute path on the server", cmd.Dir)
	case cmd.Login:
		p.Cwd = "~"
	case hello.EnvironmentInfo != nil:
		p.Cwd = hello.EnvironmentInfo.Cwd
	default:
		p.Cwd = protocol.FileURI("/")
	}
	if err := cmd.confine(p); err != nil {
		return nil, err
	}
	if cmd.Env == nil && cmd.EnvPolicy == nil && !cmd.Login {
		p.EnvPolicy = InheritEnv()
	}
	for _, kv := range cmd.Env {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("client: Env has %q: write it key=value", kv)
		}
		p.Env[k] = v
	}
	if cmd.TTY && cmd.Size != (protocol.Size{}) {
		p.Size = &cmd.Size
	}
	for _, d := range []struct {
		name string
		d    time.Duration
		ms   **uint64
	}{{"Timeout", cmd.Timeout, &p.TimeoutMs}, {"KillGrace", cmd.KillGrace, &p.KillGraceMs}} {
		if d.d < 0 {
			return nil, fmt.Errorf("client: %s is %v: choose zero or a positive duration", d.name, d.d)
		}
		if d.d > 0 {
			ms := millis(d.d)
			*d.ms = &ms
		}
	}
	return p, nil
}

// InheritEnv returns the policy of a nil Cmd.Env: all variables of the server, without variables whose
// names suggest a secret.
func InheritEnv() *protocol.EnvPolicy {
	return &protocol.EnvPolicy{Inherit: "all", Exclude: []string{}, Set: map[string]string{}, IncludeOnly: []string{}}
}

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

// result returns the error of Wait for a process that has ended.
func (p *process) result() error {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	var errs []error
	switch {
	case p.failure != nil:
		return fmt.Errorf("process %s: %w", p.id, p.failure)
	case p.status == nil:
		errs = append(errs, fmt.Errorf("process %s: %w: the process has ended, and the server no longer had its exit status", p.id, ErrProcessGone))
	case p.status.ExitCode != 0 || p.gaveUp != "":
		errs = append(errs, &ExitError{ProcessID: p.id, Status: *p.status, SandboxDenied: p.denied, GivenUp: p.gaveUp})
	}
	if p.lost != nil {
		errs = append(errs, p.lost)
	}
	if len(errs) == 0 { // as in os/exec, the exit status has precedence over copy errors
		for _, err := range []error{p.out.failed(), p.err.failed(), p.input} {
			if err != nil {
				return &CopyError{err}
			}
		}
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

func (l *lane) failed() error {
	if l == nil {
		return nil
	}
	return l.err
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
	p := cmd.process
	if p == nil {
		return fmt.Errorf("client: %s: not started", protocol.MethodProcessSignal)
	}
	params := protocol.ProcessSignalParams{ProcessID: cmd.ID, Signal: sig, Repeatable: repeatable()}
	p.c.mu.Lock()
	params.Run = p.run
	p.c.mu.Unlock()
	var other protocol.OtherRun // zero if the signal was sent
	err := p.c.call(ctx, protocol.MethodProcessSignal, params, &other)
	if err == nil && other.Run != 0 {
		return fmt.Errorf("%w: %s was for run %d, and the process is at run %d", ErrOtherRun, sig, params.Run, other.Run)
	}
	return err
}

// Resize sets the size of the process's terminal.
func (cmd *Cmd) Resize(ctx context.Context, size protocol.Size) error {
	return cmd.request(ctx, protocol.MethodProcessResize,
		protocol.ProcessResizeParams{ProcessID: cmd.ID, Size: size, Repeatable: repeatable()})
}

// Terminate sends StopSignal (default SIGTERM) to the process group. When the program has ended or
// grace has passed, the server kills the process with all its descendants, also long after the
// program's own end. Zero or negative grace: SIGKILL at once. With a grace, Terminate returns without
// waiting for the end. Without a grace, Terminate returns once all are gone, or with an error that
// names the processes left.
func (cmd *Cmd) Terminate(ctx context.Context, grace time.Duration) error {
	params := protocol.ProcessTerminateParams{ProcessID: cmd.ID, Tree: true, Repeatable: repeatable()}
	if grace > 0 {
		ms := millis(grace)
		params.GraceMs = &ms
	}
	return cmd.request(ctx, protocol.MethodProcessTerminate, params)
}

// Kill is Terminate without grace.
func (cmd *Cmd) Kill(ctx context.Context) error { return cmd.Terminate(ctx, 0) }

func (cmd *Cmd) request(ctx context.Context, method string, params any) error {
	if cmd.process == nil {
		return fmt.Errorf("client: %s: not started", method)
	}
	return cmd.client.call(ctx, method, params, nil)
}

// A stdinWrite is a process/write request in flight, with its buffer.
type stdinWrite struct {
	call
	params protocol.ProcessWriteParams
	result protocol.ProcessWriteResult
	buf    []byte
}

// feed copies r to the program's stdin until r or the process ends.
func (p *process) feed(r io.Reader) {
	free := make(chan *stdinWrite, stdinWrites)
	for range stdinWrites {
		free <- &stdinWrite{}
	}
	size := firstStdinChunk
	id := rand.Text() // unique among all who write to the process
	for n := 1; ; n++ {
		w := p.answered(free)
		if w == nil {
			return
		}
		if len(w.buf) < size {
			w.buf = make([]byte, size)
		}
		got, err := r.Read(w.buf)
		if got == len(w.buf) {
			size = maxStdinChunk
		}
		if got > 0 {
			w.params = protocol.ProcessWriteParams{
				ProcessID: p.id,
				Chunk:     w.buf[:got],
				WriteID:   id + "-" + strconv.Itoa(n),
			}
			w.call = call{method: protocol.MethodProcessWrite, params: &w.params, result: &w.result}
			w.done = func() {
				p.inputRefused(r, w.refusal())
				free <- w
			}
			p.c.send(&w.call)
		} else {
			free <- w
		}
		if err == nil {
			continue
		}
		if err == io.ErrClosedPipe && p.owns(r) {
			return // inputRefused has closed the pipe and recorded why, or the process has ended
		}
		if err != io.EOF {
			p.c.mu.Lock()
			p.input = errorf("Stdin: %w", err)
			p.c.mu.Unlock()
		}
		// The close goes after the writes. The server refuses only if the process has ended, so the
		// error is ignored.
		_ = p.c.call(p.c.ctx, protocol.MethodProcessCloseStdin, protocol.ProcessCloseStdinParams{ProcessID: p.id, Repeatable: repeatable()}, nil)
		return
	}
}

// refusal returns why the server has not taken the write; nil: it has.
func (w *stdinWrite) refusal() error {
	if w.err == nil && w.result.Status != "" && w.result.Status != protocol.WriteAccepted {
		return ErrStdinClosed
	}
	return w.err
}

// answered waits for the answer to a write and returns the write for reuse. nil: another write would be
// useless.
func (p *process) answered(free <-chan *stdinWrite) *stdinWrite {
	select {
	case w := <-free:
		if w.refusal() == nil {
			return w
		}
	case <-p.done:
	}
	return nil
}

// owns reports whether r is this client's end of StdinPipe.
func (p *process) owns(r io.Reader) bool {
	own, ok := r.(*io.PipeReader)
	return ok && slices.Contains(p.pipes, pipe(own))
}

// inputRefused ends the pipe of StdinPipe, if r is its other end, because the server takes no more input. Like os/exec,
// Wait tells why, unless the program has closed its stdin or has ended, or the caller may only watch.
func (p *process) inputRefused(r io.Reader, why error) {
	if why == nil {
		return
	}
	if p.owns(r) {
		r.(*io.PipeReader).CloseWithError(why)
	}
	if errors.Is(why, ErrStdinClosed) || errors.Is(why, ErrProcessGone) || errors.Is(why, ErrSessionGone) ||
		slices.Contains([]protocol.ErrorKind{protocol.KindEnded, protocol.KindRole}, Kind(why)) {
		return
	}
	p.c.mu.Lock()
	p.input = errorf("Stdin: %w", why)
	p.c.mu.Unlock()
}
