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
	maxStdinChunk   = 32 << 10 // bytes of one write
	firstStdinChunk = 4 << 10  // until a Reader has shown that it has more
	stdinWrites     = 4        // on their way at once; each waits while the program's stdin is full
)

// Cmd is a program on the server, before and after its start, as exec.Cmd is one
// here. The fields are set before Start and not changed after. After Start, any
// goroutine may call any method.
type Cmd struct {
	// Path is the program: a path on the server, or a name to look up in the PATH
	// of the process's own environment. Args[0] is what it sees as its name.
	Path string
	Args []string

	// Dir is the working directory, an absolute path on the server. Zero: the
	// server's own.
	Dir string

	// Env is the environment, each "key=value"; of two with one key the last
	// counts. Nil: the server's own, without what its name betrays as a secret
	// (*KEY*, *SECRET*, *TOKEN*, *PASSWORD*, …: docs/PROTOCOL.md). This client's
	// environment plays no part.
	Env []string

	// EnvPolicy, when set, makes an environment of the server's own; Env is laid
	// over it.
	EnvPolicy *protocol.EnvPolicy

	// Stdin is copied to the program to its end, which closes the program's stdin.
	// Nil: /dev/null, or for a TTY what StdinPipe gets. A Read of it that is under
	// way when the process ends is left to return by itself, and its bytes are lost.
	Stdin io.Reader

	// Stdout and Stderr get the output. Nil: discarded. They may be the same, and
	// then get everything in the order it was written in. Otherwise one that is
	// slow does not hold up the other, within the server's window. When a Write
	// fails, the rest is discarded and Wait reports it. A TTY has only Stdout.
	Stdout, Stderr io.Writer

	// TTY runs the program in a terminal of its own. Size zero: 24 rows, 80 columns.
	TTY  bool
	Size protocol.Size

	// ID names the process in its session. Zero: a new random one.
	ID string

	// Retention is what the server keeps of the output. Nil: its default, which
	// loses nothing.
	Retention *protocol.Retention

	// Timeout is how long the process may run; then it is terminated, with
	// KillGrace between SIGTERM and SIGKILL. Zero Timeout: no limit; zero
	// KillGrace: the server's default.
	Timeout   time.Duration
	KillGrace time.Duration

	// StopSignal is what asks it to end, in place of SIGTERM. Zero: that.
	StopSignal protocol.Signal

	// Limits is what it may take of the machine. Nil: as the server.
	Limits *protocol.ProcessLimits

	// WaitDelay is how long after the program's own end its descendants may hold
	// its output open; then they are killed. Zero: as long as they like; negative:
	// not at all. What the program itself wrote comes in any case.
	WaitDelay time.Duration

	// Restart says when the program is run again. Nil: never. How the last run ended
	// is what Wait reports.
	Restart *protocol.Restart

	// OnRestart is called between two runs, in the order of Stdout; it must not block.
	OnRestart func(protocol.RestartedNotification)

	// Ready says when a run is ready, and Liveness when it is taken for dead. Nil: when it
	// has begun, and never. OnReady is called when the run is ready, in the order of
	// Stdout; it must not block.
	Ready    *protocol.Ready
	Liveness *protocol.Liveness
	OnReady  func(run int)

	// DependsOn are those that must be ready before this one is run: of the Cmds of one
	// Client.StartGroup.
	DependsOn []*Cmd

	// OnGap is called in place of output that was lost, in the order of Stdout; it
	// must not block. Nil: the first gap is an error of Wait. Nothing is lost but by
	// a Retention that evicts, and by an observer that falls behind.
	OnGap func(GapError)

	client  *Client
	attach  bool
	after   uint64
	pipes   []pipe
	process *process // nil before Start
}

// Command returns a Cmd that runs name with args.
func (c *Client) Command(name string, args ...string) *Cmd {
	return &Cmd{Path: name, Args: append([]string{name}, args...), client: c}
}

// Attach returns a Cmd for a process that is in the session already, whose Start
// starts nothing: it delivers what came after the seq given (0: all the server
// has), and from then on what comes. Of the fields, Stdin, Stdout, Stderr and
// OnGap count. Since the server replays at a resume only, Start reconnects.
func (c *Client) Attach(processID string, after uint64) *Cmd {
	return &Cmd{ID: processID, client: c, attach: true, after: after}
}

// An ExitError means that the process ended otherwise than with exit status 0.
type ExitError struct {
	ProcessID string
	Status    protocol.ExitStatus
}

func (e *ExitError) Error() string {
	s := "exit status " + strconv.Itoa(e.Status.ExitCode)
	if e.Status.Signal != "" {
		s = "signal: " + e.Status.Signal
	}
	switch {
	case e.Status.TimedOut:
		s += " (timed out)"
	case e.Status.OOMKilled:
		s += " (out of memory)"
	case e.Status.CoreDumped:
		s += " (core dumped)"
	}
	if e.Status.Reason != "" {
		s += ": " + e.Status.Reason
	}
	return s
}

// Start starts the program and returns when the server has. ctx bounds that and
// no more: when it ends first, a process that was started all the same is killed.
// A *protocol.Error says why the server refused.
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

// prepare makes the process of a Cmd. A Writer may call methods before Start returns.
func (cmd *Cmd) prepare() error {
	if cmd.process != nil {
		return errors.New("client: Start: already started; a Cmd runs once")
	}
	if cmd.ID == "" {
		cmd.ID = rand.Text()
	}
	p := &process{
		c:       cmd.client,
		id:      cmd.ID,
		onGap:   cmd.OnGap,
		delay:   cmd.WaitDelay,
		onRun:   cmd.OnRestart,
		onReady: cmd.OnReady,
		pipes:   cmd.pipes,
		done:    make(chan struct{}),
		lossy:   cmd.client.opts.Observe || cmd.Retention != nil && cmd.Retention.OnFull == protocol.OnFullEvict,
	}
	if p.retention = uint64(max(0, cmd.client.lastHello().Limits.RetentionBytes)); cmd.Retention != nil && cmd.Retention.Bytes != nil {
		p.retention = *cmd.Retention.Bytes
	}
	if cmd.Stdout != nil {
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

// same says whether two writers are one, as os/exec asks it.
func same(a, b io.Writer) (same bool) {
	defer func() { _ = recover() }() // of types that cannot be compared
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
	err = c.call(ctx, protocol.MethodProcessStart, params, nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		p.started = true
		return nil
	}
	if ctx.Err() == nil {
		delete(c.processes, p.id)
		return err
	}
	go p.abandon() // it may run
	return err
}

// abandon kills a process that nobody waits for, and may never have been started.
// Until its end comes it stays registered, so that its output fills no window.
func (p *process) abandon() {
	c := p.c
	var result protocol.ProcessTerminateResult
	params := protocol.ProcessTerminateParams{ProcessID: p.id, Tree: true, Repeatable: repeatable()}
	err := c.call(c.ctx, protocol.MethodProcessTerminate, params, &result)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && !result.Running && !p.started && p.last == 0 {
		delete(c.processes, p.id) // it never was
	}
}

// exit notes the program's own end, and ends what still holds its output once
// WaitDelay has passed.
func (p *process) exit(status protocol.ExitStatus) {
	p.status = &status
	if p.delay == 0 {
		return
	}
	run := status.Run
	time.AfterFunc(max(p.delay, 0), func() {
		p.c.mu.Lock()
		over := p.closed || p.failure != nil || p.status == nil || p.status.Run != run
		p.c.mu.Unlock()
		if !over {
			// Its answer is closed.
			params := protocol.ProcessTerminateParams{ProcessID: p.id, Tree: true, Repeatable: repeatable(), OfRun: protocol.OfRun{Run: uint64(run)}}
			_ = p.c.call(p.c.ctx, protocol.MethodProcessTerminate, params, nil)
		}
	})
}

// register makes the client take what comes for the process.
func (p *process) register() error {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if p.c.err != nil {
		return p.c.err
	}
	if p.c.processes[p.id] != nil {
		return fmt.Errorf("client: process id %q is in use; choose another, or none", p.id)
	}
	p.c.processes[p.id] = p
	return nil
}

// join attaches to a process of the session by naming it in the next resume, and
// sees to it that there is one.
func (p *process) join(ctx context.Context, after uint64) error {
	list, err := p.c.Processes(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(info protocol.ProcessInfo) bool { return info.ProcessID == p.id }) {
		return fmt.Errorf("%w: %q; Processes lists those it has", ErrProcessGone, p.id)
	}
	p.last, p.acked, p.started = after, after, true
	if err := p.register(); err != nil {
		return err
	}
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	p.c.recycle = true
	if conn := p.c.conn; conn != nil {
		go conn.Close(1000, "") // may take a while
	}
	return nil
}

func (cmd *Cmd) params() (*protocol.ProcessStartParams, error) {
	hello := cmd.client.lastHello()
	p := &protocol.ProcessStartParams{
		ProcessID: cmd.ID,
		Argv:      append([]string{cmd.Path}, cmd.Args[min(1, len(cmd.Args)):]...),
		Env:       make(map[string]string, len(cmd.Env)),
		EnvPolicy: cmd.EnvPolicy,
		TTY:       cmd.TTY,
		PipeStdin: cmd.Stdin != nil && !cmd.TTY,
		// One pipe, so that the order is that of the program's writes.
		MergeStderr: !cmd.TTY && cmd.Stdout != nil && same(cmd.Stdout, cmd.Stderr),
		Retention:   cmd.Retention,
		Restart:     cmd.Restart,
		Limits:      cmd.Limits,
		StopSignal:  cmd.StopSignal,
		Ready:       cmd.Ready,
		Liveness:    cmd.Liveness,
		StartToken:  rand.Text(),
	}
	for _, other := range cmd.DependsOn {
		p.DependsOn = append(p.DependsOn, other.ID)
	}
	if len(cmd.Args) > 0 && cmd.Args[0] != cmd.Path {
		p.Arg0 = &cmd.Args[0]
	}
	switch {
	case path.IsAbs(cmd.Dir):
		p.Cwd = protocol.FileURI(cmd.Dir)
	case cmd.Dir != "":
		return nil, fmt.Errorf("client: Dir %q is relative, and the server cannot know to what: make it absolute", cmd.Dir)
	case hello.EnvironmentInfo != nil:
		p.Cwd = hello.EnvironmentInfo.Cwd
	default:
		p.Cwd = protocol.FileURI("/")
	}
	if cmd.Env == nil && cmd.EnvPolicy == nil {
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
			return nil, fmt.Errorf("client: %s is %v: it cannot be negative", d.name, d.d)
		}
		if d.d > 0 {
			ms := millis(d.d)
			*d.ms = &ms
		}
	}
	return p, nil
}

// InheritEnv is the policy of a nil Cmd.Env: all that the server has but what its
// name betrays as a secret.
func InheritEnv() *protocol.EnvPolicy {
	return &protocol.EnvPolicy{Inherit: "all", Exclude: []string{}, Set: map[string]string{}, IncludeOnly: []string{}}
}

// Wait returns once the process has ended and its output was delivered, or ctx
// is done; the process does not mind that. A process that failed is an
// *ExitError, output that was lost a *GapError, and a session that was lost
// ErrSessionGone or why it could not be resumed. Several goroutines may wait.
func (cmd *Cmd) Wait(ctx context.Context) error {
	p := cmd.process
	if p == nil {
		return errors.New("client: Wait: not started")
	}
	select {
	case <-p.done:
		return p.result()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// result is what Wait returns of a process that has ended.
func (p *process) result() error {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	var errs []error
	switch {
	case p.failure != nil:
		return fmt.Errorf("process %s: %w", p.id, p.failure)
	case p.status != nil && p.status.ExitCode != 0:
		errs = append(errs, &ExitError{p.id, *p.status})
	}
	if p.lost != nil {
		errs = append(errs, p.lost)
	}
	if len(errs) == 0 { // as in os/exec, how it ended comes first
		for _, err := range []error{p.out.failed(), p.err.failed(), p.input} {
			if err != nil {
				return err
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

// Run starts the program and waits. When ctx ends before the process does, the
// process and all it started are killed, and Run returns without the rest of the
// output.
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
	<-p.done // no Writer is in use after Run
	return p.result()
}

// Output runs the program and returns its stdout.
func (cmd *Cmd) Output(ctx context.Context) ([]byte, error) {
	if cmd.Stdout != nil {
		return nil, errors.New("client: Output: Stdout is set already")
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	return cmd.gather(ctx, &out)
}

// CombinedOutput runs the program and returns its stdout and stderr, in the order
// they were written in.
func (cmd *Cmd) CombinedOutput(ctx context.Context) ([]byte, error) {
	if cmd.Stdout != nil || cmd.Stderr != nil {
		return nil, errors.New("client: CombinedOutput: Stdout or Stderr is set already")
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd.gather(ctx, &out)
}

func (cmd *Cmd) gather(ctx context.Context, out *bytes.Buffer) ([]byte, error) {
	err := cmd.Run(ctx)
	return out.Bytes(), err
}

// StdinPipe returns a pipe to the program's stdin. Its Write returns when the
// bytes are on their way, at most four writes ahead of what the server took, and
// fails once the process has ended. Close ends the program's stdin.
func (cmd *Cmd) StdinPipe() (io.WriteCloser, error) {
	if cmd.Stdin != nil || cmd.process != nil {
		return nil, errors.New("client: StdinPipe: Stdin is set, or the process was started")
	}
	r, w := io.Pipe()
	cmd.Stdin = r
	cmd.pipes = append(cmd.pipes, r)
	return w, nil
}

// StdoutPipe returns a pipe from the program's stdout. It ends with io.EOF when
// all was read that the program wrote, and with another error when the rest was
// lost. Read it to its end, or close it, for Wait to return.
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

// Status tells how the process ended; false: it has not, as far as is known here.
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

// Seq is how far the output was delivered: what Attach takes to go on from here
// in another client.
func (cmd *Cmd) Seq() uint64 {
	if p := cmd.process; p != nil {
		p.c.mu.Lock()
		defer p.c.mu.Unlock()
		return p.acked
	}
	return cmd.after
}

// Signal sends sig once to the process group of the run that this client knows of, and
// not to a later one: then the error is ErrOtherRun. It is nil when the process has ended.
func (cmd *Cmd) Signal(ctx context.Context, sig protocol.Signal) error {
	p := cmd.process
	if p == nil {
		return fmt.Errorf("client: %s: not started", protocol.MethodProcessSignal)
	}
	params := protocol.ProcessSignalParams{ProcessID: cmd.ID, Signal: sig, Repeatable: repeatable()}
	p.c.mu.Lock()
	params.Run = p.run
	p.c.mu.Unlock()
	var other protocol.OtherRun // zero if it was sent
	err := p.c.call(ctx, protocol.MethodProcessSignal, params, &other)
	if err == nil && other.Run != 0 {
		return fmt.Errorf("%w: %s was for run %d, and it is at %d", ErrOtherRun, sig, params.Run, other.Run)
	}
	return err
}

// Resize sets the size of the process's terminal.
func (cmd *Cmd) Resize(ctx context.Context, size protocol.Size) error {
	return cmd.request(ctx, protocol.MethodProcessResize,
		protocol.ProcessResizeParams{ProcessID: cmd.ID, Size: size, Repeatable: repeatable()})
}

// Terminate sends SIGTERM and, when grace has passed, SIGKILL to the process and
// all it started, even if the process itself has ended. Zero or negative grace:
// SIGKILL at once. With a grace it does not wait for the end; without, it returns once
// all are gone, or with an error that names the processes that are left.
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

// A stdinWrite is a process/write on its way, and its buffer.
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
	id := rand.Text() // whoever else writes to the process has other write ids
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
			w.done = func() { free <- w }
			p.c.send(&w.call)
		} else {
			free <- w
		}
		if err == nil {
			continue
		}
		if err != io.EOF {
			p.c.mu.Lock()
			p.input = fmt.Errorf("client: Stdin: %w", err)
			p.c.mu.Unlock()
		}
		// Behind the writes. Only a process that has ended refuses.
		_ = p.c.call(p.c.ctx, protocol.MethodProcessCloseStdin, protocol.ProcessCloseStdinParams{ProcessID: p.id, Repeatable: repeatable()}, nil)
		return
	}
}

// answered waits for a write to come back; nil: there is no use in another.
func (p *process) answered(free <-chan *stdinWrite) *stdinWrite {
	select {
	case w := <-free:
		if w.err == nil && (w.result.Status == "" || w.result.Status == protocol.WriteAccepted) {
			return w
		}
	case <-p.done:
	}
	return nil
}
