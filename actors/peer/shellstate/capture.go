package shellstate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/google/uuid"
)

// captureTime is how long a capture may take.
const captureTime = 10 * time.Second

// captureBytes is about how much memory a capture takes while it runs.
const captureBytes = 4 * maxState

// Start is a process waiting for a Capture.
type Start struct {
	Key     Key
	Capture *Capture            `lost:"looked up again"`
	Shell   string              // the kind, as in protocol.ShellSnapshot
	Policy  *protocol.EnvPolicy // may be nil
	Own     []string            // names of the variables in the start's own env
	Session *actor.PID          `lost:"of this server"` // gets message.Captured and message.CaptureOver
}

// Begin begins the Capture, unless another Start has begun the Capture. spec is of the process.
// spec.Context ends the Capture with all of its programs.
func (s Start) Begin(e *env.Env, root *actor.RootContext, spec child.Spec) {
	c := s.Capture
	c.begin.Do(func() {
		c.begun.Store(true)
		c.user = spec.User
		c.attend(e, root, s.Session, func() error { return c.run(e, root, s, spec) })
	})
}

// attend has a goroutine do what ends with the last program of the Capture, and then tells the session.
func (c *Capture) attend(e *env.Env, root *actor.RootContext, session *actor.PID, do func() (left error)) {
	c.cache.running.Add(1)
	e.Run(root, session, "shell snapshot", func() {
		m := message.CaptureOver{}
		defer func() {
			if !c.over() && c.state.Load() == nil { // a panic
				c.fail()
			}
			c.ended.Store(true)
			c.cache.running.Add(-1)
			root.Send(session, m)
		}()
		m.Left = do()
	})
}

// Wait waits for the Capture, and returns the child to start. After a failed Capture, or if the shell ran as another
// user than the child of spec, the child is spec: then the shell runs its startup files itself.
func (s Start) Wait(spec child.Spec) (child.Spec, error) {
	ctx := cmp.Or(spec.Context, context.Background())
	select {
	case <-s.Capture.done:
	case <-ctx.Done():
		return spec, context.Cause(ctx)
	}
	state := s.Capture.state.Load()
	if state == nil || !spec.User.Same(s.Capture.user) {
		return spec, nil
	}
	return state.Apply(spec, s.Own), nil
}

// run runs the shell of spec with a script of ours in place of the command, and settles the Capture. Then
// run ends all programs left behind by the startup files: at once after a failure, else when the Capture
// has no user, since the state may name such programs (an ssh-agent). left names programs not seen
// gone.
func (c *Capture) run(e *env.Env, root *actor.RootContext, s Start, spec child.Spec) (left error) {
	parent := cmp.Or(spec.Context, context.Background())
	ctx, cancel := context.WithTimeoutCause(parent, captureTime, fmt.Errorf("it took more than %v", captureTime))
	defer cancel()
	mark := uuid.NewString()
	spec.Name, spec.Context = "s-"+mark, ctx
	spec.Argv = []string{spec.Argv[0], "-lc", captureScript(s.Shell, mark)}
	spec.TTY, spec.Size, spec.Stdin, spec.Merge = false, protocol.Size{}, false, false

	in, news := intake(e)
	defer in.Close()
	handle, err := c.start(e, spec, in)
	if handle != nil {
		defer func() { left = finish(handle) }()
	}
	var state *State
	if err == nil {
		var out []byte
		if out, err = read(ctx, mark, in, news); err == nil {
			state, err = parse(s.Shell, mark, out, spec.Env, s.Policy)
		}
	}
	if err != nil {
		e.Log.Info("the state of a shell could not be captured: commands run its startup files themselves", "owner", spec.Owner, "shell", spec.Argv[0], "err", err)
		c.fail()
		return nil
	}
	c.charge(state.bytes)
	c.child = spec.Name
	c.state.Store(state)
	root.Send(s.Session, message.Captured{Known: sync.OnceFunc(func() { close(c.done) })})
	c.awaitHelpers(parent, handle, in, news)
	return nil
}

// resume adopts the shell of an earlier server, and ends its programs as run does.
func (c *Capture) resume(ctx context.Context, e *env.Env) (left error) {
	in, news := intake(e)
	defer in.Close()
	handle := e.AdoptChild(c.child, in, nil)
	if handle == nil { // its programs have ended
		return nil
	}
	defer func() { left = finish(handle) }()
	c.awaitHelpers(ctx, handle, in, news)
	return nil
}

// intake returns an Intake, and a channel that has a token when the Intake has facts.
func intake(e *env.Env) (*child.Intake, <-chan struct{}) {
	news := make(chan struct{}, 1)
	return child.NewIntake(config.MinRetention, e.OutputBudget, nil, func() {
		select {
		case news <- struct{}{}:
		default:
		}
	}), news
}

// start starts the shell.
func (c *Capture) start(e *env.Env, spec child.Spec, in *child.Intake) (child.Handle, error) {
	if !c.charge(captureBytes) {
		return nil, errors.New("the sessions of this server keep as much for starts as they may (--memory-budget)")
	}
	type start struct {
		handle child.Handle
		err    error
	}
	started := make(chan start, 1)
	e.StartChild(spec, in, func(h child.Handle, err error) { started <- start{h, err} })
	st := <-started // StartChild always answers
	return st.handle, st.err
}

// finish ends a child with all of its descendants.
func finish(handle child.Handle) error {
	finished := make(chan error, 1)
	handle.Finish(func(err error) { finished <- err })
	return <-finished
}

// read reads the output of the shell from the mark on, up to the exit.
func read(ctx context.Context, mark string, in *child.Intake, news <-chan struct{}) ([]byte, error) {
	out := collector{mark: []byte("\x00" + mark + "\x00")}
	for ctx.Err() == nil {
		f, ok := in.Next()
		if !ok {
			select {
			case <-news:
			case <-ctx.Done():
			}
			continue
		}
		if f.Kind == child.FactOutput && f.Stream == protocol.Stdout {
			out.add(f.Data)
		}
		in.Settle(0, 0)
		switch {
		case len(out.kept) > maxState+2*len(out.mark):
			return nil, fmt.Errorf("the state has more than %d bytes", maxState)
		case f.Kind == child.FactExited && f.Status.ExitCode != 0:
			return nil, fmt.Errorf("exit code %d", f.Status.ExitCode)
		case f.Kind == child.FactExited:
			return out.kept, nil
		}
	}
	return nil, context.Cause(ctx)
}

// awaitHelpers waits until no program is left, or nobody uses the Capture.
func (c *Capture) awaitHelpers(ctx context.Context, handle child.Handle, in *child.Intake, news <-chan struct{}) {
	handle.Abandon()
	const first, most = 10 * time.Millisecond, time.Minute
	for pause := first; !handle.TreeEmpty(); pause = min(2*pause, most) {
		due := time.NewTimer(pause)
		select {
		case <-due.C:
		case <-news:
			for _, ok := in.Next(); ok; _, ok = in.Next() {
				in.Settle(0, 0)
			}
		case <-c.unused:
		case <-ctx.Done():
		}
		due.Stop()
		select {
		case <-c.unused:
			return
		case <-ctx.Done():
			return
		default:
		}
	}
}

// collector keeps output from a mark on. Startup files may print anything before.
type collector struct {
	mark  []byte
	kept  []byte
	begun bool
}

func (c *collector) add(data []byte) {
	c.kept = append(c.kept, data...)
	if c.begun {
		return
	}
	from := bytes.Index(c.kept, c.mark)
	c.begun = from >= 0
	if !c.begun {
		from = max(len(c.kept)-len(c.mark)+1, 0)
	}
	c.kept = append(c.kept[:0], c.kept[from:]...)
}
