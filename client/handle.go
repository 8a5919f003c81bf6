package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// ErrStdinClosed means: the stdin of the process is closed, was never open, or the process has ended.
var ErrStdinClosed = errors.New("client: the stdin of the process is closed")

// A Process is a process of the session, under its id. Whoever started the process, a Process looks at it
// and changes it, and takes no output: see Client.Attach for the output as it comes. Any goroutine may
// call any method. If the session has no process with the id, the methods return ErrProcessGone, except as
// documented.
type Process struct {
	c        *Client
	id       string
	instance string // "": any
}

// Process returns the process with an id. Process sends nothing, so the process need not exist yet.
func (c *Client) Process(id string) *Process { return &Process{c: c, id: id} }

// Of returns the process with the Instance of a ProcessInfo: if another process gets the id, Read, Wait and Attach of the result
// return ErrProcessGone. Empty: any process with the id, as Client.Process.
func (p *Process) Of(instance string) *Process { return &Process{c: p.c, id: p.id, instance: instance} }

// Attach is Client.Attach for this process: if another process gets the id, Start or Wait of the Cmd returns ErrProcessGone.
func (p *Process) Attach(after uint64) *Cmd {
	return &Cmd{ID: p.id, client: p.c, attach: true, after: after, instance: p.instance}
}

// ID returns the id of the process.
func (p *Process) ID() string { return p.id }

// Info returns the state of the process, its resource usage, and why it is quiet.
func (p *Process) Info(ctx context.Context) (protocol.ProcessInfoResult, error) {
	return ask[protocol.ProcessInfoResult](ctx, p.c, protocol.MethodProcessInfo, protocol.ProcessInfoParams{ProcessID: p.id})
}

// ScreenOptions say what Screen returns, and when.
type ScreenOptions struct {
	Scrollback uint64 // the newest lines that have scrolled off, at most so many
	Spans      bool   // with colours and other attributes
	Restore    bool   // with bytes that draw the screen

	After   uint64        // wait for output with a greater seq
	WaitFor string        // wait until the regular expression (RE2) matches the lines of the screen
	Quiet   time.Duration // wait until the process has written nothing for so long
	Wait    time.Duration // how long to wait for all of these
}

// Screen returns the screen of a process on a PTY. The result has Matched if o waits for something: false after Wait, and after the end
// of the process.
func (p *Process) Screen(ctx context.Context, o *ScreenOptions) (protocol.ProcessScreenResult, error) {
	params := protocol.ProcessScreenParams{ProcessID: p.id, OfInstance: p.ofInstance()}
	if o != nil {
		params.Scrollback, params.Spans, params.Restore = o.Scrollback, o.Spans, o.Restore
		params.AfterSeq, params.WaitFor, params.QuietMs, params.WaitMs = o.After, o.WaitFor, millis(o.Quiet), millis(o.Wait)
	}
	return ask[protocol.ProcessScreenResult](ctx, p.c, protocol.MethodProcessScreen, params)
}

// Signal sends sig to the process group of the current run. If the process has ended or does not exist,
// the error is nil.
func (p *Process) Signal(ctx context.Context, sig protocol.Signal) error {
	return p.c.call(ctx, protocol.MethodProcessSignal, protocol.ProcessSignalParams{ProcessID: p.id, Signal: sig, Repeatable: repeatable()}, nil)
}

// Terminate asks the process to end with its StopSignal, and kills the process and all its descendants after
// grace, which is as in Cmd.Terminate. Terminate reports whether the process was running: false also if the
// process does not exist.
func (p *Process) Terminate(ctx context.Context, grace time.Duration) (running bool, err error) {
	return p.terminate(ctx, grace, 0)
}

// terminate is Terminate of a run; 0: of any.
func (p *Process) terminate(ctx context.Context, grace time.Duration, run uint64) (running bool, err error) {
	params := protocol.ProcessTerminateParams{ProcessID: p.id, Tree: true, Repeatable: repeatable(), OfRun: protocol.OfRun{Run: run}}
	if grace > 0 {
		params.GraceMs = new(millis(grace))
	}
	result, err := ask[protocol.ProcessTerminateResult](ctx, p.c, protocol.MethodProcessTerminate, params)
	return result.Running, err
}

// Kill kills the process and all its descendants, and returns once all are gone. Kill reports whether the
// process was running.
func (p *Process) Kill(ctx context.Context) (running bool, err error) { return p.Terminate(ctx, 0) }

// Resize sets the size of the process's terminal.
func (p *Process) Resize(ctx context.Context, size protocol.Size) error {
	return p.c.call(ctx, protocol.MethodProcessResize, protocol.ProcessResizeParams{ProcessID: p.id, Size: size, Repeatable: repeatable()}, nil)
}

// Restart ends the current run and begins the next, whatever the policy says. The server refuses a process
// that was started without a Restart, and a process that has ended, unless its Restart has AfterEnd.
func (p *Process) Restart(ctx context.Context) error {
	return p.c.call(ctx, protocol.MethodProcessRestart, protocol.ProcessRestartParams{ProcessID: p.id, Repeatable: repeatable()}, nil)
}

// SetRestart replaces the restart policy, from the next end on. Earlier ends no longer count. The server
// refuses a process that was started without a Restart.
func (p *Process) SetRestart(ctx context.Context, r protocol.Restart) error {
	return p.c.call(ctx, protocol.MethodProcessSetRestart, protocol.ProcessSetRestartParams{ProcessID: p.id, Restart: r, Repeatable: repeatable()}, nil)
}

// Wait waits for the end of the last run, and returns how the run ended. A failed run is no error: see
// ExitStatus.ExitCode. Output may still come after Wait. The end of ctx does not affect the process.
func (p *Process) Wait(ctx context.Context) (protocol.ExitStatus, error) {
	result, err := ask[protocol.ProcessWaitResult](ctx, p.c, protocol.MethodProcessWait, protocol.ProcessWaitParams{ProcessID: p.id, OfInstance: p.ofInstance()})
	if err == nil && result.Status == nil {
		err = fmt.Errorf("client: process %s: the server answered process/wait without a status", p.id)
	}
	if err != nil {
		return protocol.ExitStatus{}, err
	}
	return *result.Status, nil
}

func (p *Process) ofInstance() protocol.OfInstance { return protocol.OfInstance{Instance: p.instance} }

// Write writes data to the process's stdin, and returns when the server has taken all of it: while the stdin
// queue of the process is full, Write waits. Over any number of cuts, the program gets the data once. If ctx
// ends first, the program may get a part of data.
func (p *Process) Write(ctx context.Context, data []byte) error {
	id := rand.Text()
	for n := 0; ; n++ {
		chunk := data[:min(maxStdinChunk, len(data))]
		data = data[len(chunk):]
		params := protocol.ProcessWriteParams{ProcessID: p.id, Chunk: chunk, WriteID: fmt.Sprintf("%s-%d", id, n)}
		result, err := ask[protocol.ProcessWriteResult](ctx, p.c, protocol.MethodProcessWrite, params)
		if err != nil {
			return err
		}
		switch result.Status {
		case "", protocol.WriteAccepted:
		case protocol.WriteUnknownProcess:
			return fmt.Errorf("%w: %q", ErrProcessGone, p.id)
		case protocol.WriteStdinClosed:
			return fmt.Errorf("%w: %q", ErrStdinClosed, p.id)
		default:
			return fmt.Errorf("client: process %s: the server answered process/write with the unknown status %q", p.id, result.Status)
		}
		if len(data) == 0 {
			return nil
		}
	}
}

// CloseStdin closes the process's stdin after all earlier writes. A program in a terminal gets the
// end-of-file character.
func (p *Process) CloseStdin(ctx context.Context) error {
	return p.c.call(ctx, protocol.MethodProcessCloseStdin, protocol.ProcessCloseStdinParams{ProcessID: p.id, Repeatable: repeatable()}, nil)
}

// ReadOptions are the options of Process.Read. The zero value, or nil, reads everything that the server
// holds, and does not wait.
type ReadOptions struct {
	After    uint64        // return chunks with a greater seq
	MaxBytes uint64        // of all chunks together, although the first may be larger; zero: up to the server
	Wait     time.Duration // how long to wait for output or the end, if there is nothing yet

	// Detail asks for the times of the output, and for the events of the process: its ends and restarts.
	Detail protocol.ReadDetail
}

// Read returns output that the server holds, and acknowledges nothing. To read on, pass the NextSeq of the
// result minus 1 as After. The output is complete once a result has Closed and no chunks.
func (p *Process) Read(ctx context.Context, o *ReadOptions) (protocol.ProcessReadResult, error) {
	params := protocol.ProcessReadParams{ProcessID: p.id, OfInstance: p.ofInstance()}
	if o != nil {
		params.AfterSeq, params.WaitMs, params.Detail = o.After, millis(o.Wait), o.Detail
		if o.MaxBytes > 0 {
			params.MaxBytes = &o.MaxBytes
		}
	}
	return ask[protocol.ProcessReadResult](ctx, p.c, protocol.MethodProcessRead, params)
}
