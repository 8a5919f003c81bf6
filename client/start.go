package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Start starts the program and returns when the server has started it. ctx bounds only Start: if ctx
// ends first and the process starts nevertheless, the client kills the process. If the server refuses,
// the error is a *protocol.Error with the reason: errors.Is tells a missing program (exec.ErrNotFound) from a
// missing directory (fs.ErrNotExist) and other reasons.
func (cmd *Cmd) Start(ctx context.Context) error {
	if cmd == nil || cmd.client == nil {
		return errNoClient
	}
	return cmd.client.start(ctx, nil, cmd)
}

var errNoClient = errors.New("client: Start: the Cmd has no Client: make it with Client.Command or Client.Attach")

// start starts cmds as a group, or the only one of cmds without a group. After an error no process is left that somebody could wait for.
func (c *Client) start(ctx context.Context, g *Group, cmds ...*Cmd) (err error) {
	var all []*process
	k := &call{kept: true}
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, p := range all {
			if err == nil {
				if p.cmd.Stdin != nil {
					go p.feed(p.cmd.Stdin)
				}
				continue
			}
			p.fail(err)
			if !k.left || !k.sent { // otherwise the server may yet start p
				p.forget()
			}
		}
	}()
	for _, cmd := range cmds {
		if err := cmd.prepare(); err != nil {
			return err
		}
		all = append(all, cmd.process)
	}
	if g == nil && cmds[0].attach {
		return all[0].join(ctx, cmds[0].after)
	}
	params := []protocol.ProcessStartParams{}
	for _, p := range all {
		one, err := p.cmd.params()
		if err != nil {
			return err
		}
		params = append(params, *one)
		if err := p.register(); err != nil {
			return err
		}
	}
	switch {
	case g != nil:
		k.method = protocol.MethodGroupStart
		k.params = &protocol.GroupStartParams{GroupID: g.ID, Strategy: g.Strategy, Intensity: g.Intensity, Processes: params, StartToken: rand.Text()}
	case len(cmds[0].DependsOn) > 0:
		return errors.New("client: Start: DependsOn is for StartGroup")
	default:
		k.method, k.params, all[0].run = protocol.MethodProcessStart, &params[0], 1
	}
	k.done = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, p := range all {
			p.launched(k)
		}
	}
	return c.await(ctx, k)
}

// prepare makes the process of a Cmd before Start returns, because a Writer may call methods earlier.
func (cmd *Cmd) prepare() error {
	switch {
	case cmd.process != nil:
		return errors.New("client: Start: already started; a Cmd runs once")
	case cmd.Hold && !cmd.attach:
		return errors.New("client: Start: Hold is for a Cmd of Attach: what the server keeps for a Cmd of Command, its Retention says")
	case cmd.OnEvent != nil && (cmd.Stdout != nil || cmd.Stderr != nil):
		return errors.New("client: Start: OnEvent is set, and Stdout or Stderr: OnEvent gets all output, so leave them out")
	}
	cmd.ID = cmp.Or(cmd.ID, rand.Text())
	p := &process{
		Process: Process{cmd.client, cmd.ID, cmd.instance},
		cmd:     cmd,
		done:    make(chan struct{}),
		lossy:   !cmd.client.opts.HoldBack && !cmd.Hold && (cmd.client.opts.beside() || cmd.Retention != nil && cmd.Retention.OnFull == protocol.OnFullEvict),
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

// launched takes the answer to the start of p. If the caller no longer waits for p, the client kills p, and only if the server has started
// p: the id may be that of another process.
func (p *process) launched(k *call) {
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
	if k.left {
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
func (p *process) abandon() { _, _ = p.Kill(p.c.ctx) }

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
	return p.c.await(ctx, p.subscription())
}

// named reports whether the client subscribes to p by a request of its own, also after a resume.
func (p *process) named() bool { return p.instance != "" || p.cmd.Hold }

// subscription returns the request that has the events of p begin after p.last. The events that come before the answer do not
// count.
func (p *process) subscription() *call {
	var info protocol.ProcessInfo
	params := protocol.ProcessSubscribeParams{ProcessID: p.id, AfterSeq: p.last, Hold: p.cmd.Hold, OfInstance: p.ofInstance()}
	k := &call{method: protocol.MethodProcessSubscribe, params: params, result: &info}
	k.done = func() {
		p.c.mu.Lock()
		defer p.c.mu.Unlock()
		if k.err != nil {
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
		Screen:      cmd.Screen,
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
			*d.ms = new(millis(d.d))
		}
	}
	return p, nil
}

// InheritEnv returns the policy of a nil Cmd.Env: all variables of the server, without variables whose
// names suggest a secret.
func InheritEnv() *protocol.EnvPolicy {
	return &protocol.EnvPolicy{Inherit: "all", Exclude: []string{}, Set: map[string]string{}, IncludeOnly: []string{}}
}
