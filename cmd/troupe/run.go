package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/pick"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/why"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// brokenGrace is how long a program has to end after its output was cut off.
const brokenGrace = 2 * time.Second

// A dialer connects to a server in this process.
type dialer = func(context.Context) (transport.Conn, error)

// newRun returns the command troupe run. It exits with the exit code of the program, or with one of the codes in
// exit.go. When it exits because the program has ended, no process of the program is left, and the terminal is in its
// original mode. The function server starts a server in this process, for --here.
func newRun(t *target.Flags, server func(user string) (_ dialer, shutdown func(), _ error)) *cobra.Command {
	o := &runFlags{viewFlags: viewFlags{target: t}}
	cmd := &cobra.Command{
		Use:   "run [flags] [--] [PROGRAM [ARGUMENT...]]",
		Short: "Run a program on a server",
		Long: `Runs a program under supervision: on your own server of this machine, which starts when it is
needed, or with --url or --server elsewhere. Its exit code is the program's, 128+N if signal N ended
it, 1 if the output cannot be written here, 125 if troupe failed in another way, 126 if the program
cannot be executed or the server's policy refuses it, 127 if there is no such program.

With --url or --server, and without a program, it starts your login shell there, and at a terminal says
first which of your programs there have been left. On a server with users (--users-file), programs
start in your home, with the environment of a login.

A lost connection is resumed as long as the server keeps the session. What you type meanwhile reaches
the program once; up to 1 MiB is kept, and more waits in the terminal. Leave at once with ^C twice
while the connection is lost, with Enter ~. at any time, or with a second SIGTERM. However you leave,
and also if the terminal closes (SIGHUP) or the link does not come back, the program goes on, its output
stays for a day after its end, and troupe attach comes back. With --ephemeral it ends.

On a terminal every key is the program's, ^C and ^Z too: a shell stops its job with ^Z. Enter ~ ^Z
stops troupe itself. Without a terminal, ^Z stops troupe and the program, and fg continues both.
^P^Q or Enter ~d detaches from the program. Enter ~? lists the keys.
For a server that asks who you are, set TROUPE_TOKEN, or TROUPE_TOKEN_FILE to a file with the token.`,
		Example: `  troupe run -- make test
  troupe run --detach --name web --restart on-failure:5 -- ./server --port 8080
  troupe run --url ws://build:7766 --env CI=true --limit memory=2G -- make test
  troupe attach web`,
		Annotations: exitsAsProgram,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(cmd.Flags(), args); err != nil {
				return err
			}
			r := &runner{runFlags: *o, viewer: newViewer("troupe run", o.viewFlags, true)}
			return exit(r.run(server))
		},
	}
	o.register(cmd.Flags())
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// A runner is a single troupe run.
type runner struct {
	runFlags
	*viewer
}

func (r *runner) run(server func(user string) (dialer, func(), error)) (code int, err error) {
	r.ends = r.here || r.ephemeral
	if r.tty == unset && !r.detach && r.terminal() {
		r.tty = yes
	}
	named := r.name != ""
	if !named {
		r.name = newName(append(r.argv, "shell")[0])
	}
	c, shutdown, err := r.dial(server)
	if err != nil {
		return r.failed(r.advisePlacement(err))
	}
	defer shutdown()
	r.client.Store(c)
	if named {
		if err := r.nameIsFree(c); err != nil {
			return r.notStarted(c, err)
		}
	}

	cmd := c.Command("")
	if len(r.argv) > 0 {
		cmd = c.Command(r.argv[0], r.argv[1:]...)
	}
	if err := errors.Join(r.choosesLogin(c), r.prepare(cmd, c.Limits())); err != nil {
		return r.close(c, exitFailed, err)
	}
	if r.detach {
		return r.leaveRunning(c, cmd)
	}
	if len(r.argv) == 0 && onTerminal(r.stdin) && onTerminal(os.Stderr) {
		r.tellLeft(c)
	}
	cmd.Stdin, cmd.OnGap = r.stdin, r.gap
	// Output is shown when the terminal is raw: the terminal must not echo what a person answers to the output.
	ready := make(chan struct{})
	cmd.Stdout, cmd.Stderr = &output{r.con.Stdout(), r.viewer, ready}, &output{r.con.Stderr(), r.viewer, ready}
	if cmd.TTY {
		cmd.Size = r.con.Size()
		r.follows.Store(true)
		if r.terminal() {
			cmd.Stdin = r.con.Input()
			r.raw.Store(true)
		}
	}
	r.state.Store(stateStarting)
	if err := cmd.Start(r.ctx); err != nil {
		return r.notStarted(c, err)
	}
	if r.raw.Load() {
		err = r.con.Raw()
	}
	if err == nil {
		r.start(cmd) // before output is shown: whoever has seen it may stop the program
	}
	close(ready)
	if err != nil {
		return r.close(c, exitFailed, err)
	}
	go r.endBroken(cmd)
	err = cmd.Wait(r.ctx)
	code, why, ended := over(err)
	if exit, ok := errors.AsType[*client.ExitError](err); ok && exit.Status.TimedOut && r.timeout == 0 {
		why = fmt.Errorf("%w: this server limits how long a program may run (--max-run-time)", exit)
	}
	select {
	case <-stdout.broken:
		code, why, ended = exitSignal+int(syscall.SIGPIPE), nil, true
	default:
	}
	if !ended {
		return r.failed(err)
	}
	r.con.Restore()
	r.noteDenied(err)
	if r.gaps.Load() && code == 0 && why == nil {
		code, why = exitFailed, errors.New("the program succeeded, but some of its output was lost")
	}
	return r.close(c, code, why)
}

// nameIsFree returns an error if a process with the name runs, in any session that this command sees. In a session named by
// --session, the server refuses a second process of the name.
func (r *runner) nameIsFree(c *client.Client) error {
	if r.here || r.session != "" {
		return nil
	}
	list, err := c.Sessions(r.ctx, protocol.DetailProcesses)
	if err != nil {
		return err
	}
	by := pick.Taken(list, c.SessionID(), r.name)
	if by == nil {
		return nil
	}
	name := show.Harmless(pick.Name(list, pick.Ref{Session: by.SessionID, Process: r.name}))
	return fmt.Errorf("%s runs already: see troupe attach %s, end it with troupe stop %[2]s, or choose another --name", show.Harmless(r.name), name)
}

// dial connects to the server, and opens the session or joins it.
func (r *runner) dial(server func(user string) (dialer, func(), error)) (c *client.Client, shutdown func(), err error) {
	o := r.options()
	o.Placement = r.placement
	if r.here {
		dial, shutdown, err := server(r.user)
		if err != nil {
			return nil, nil, err
		}
		o.Dialer = dial
		if c, err = client.Dial(r.ctx, "", &o); err != nil {
			shutdown()
			return nil, nil, err
		}
		return c, shutdown, nil
	}
	if r.session != "" {
		sight, err := look(r.ctx, r.target, "")
		if err != nil {
			return nil, nil, err
		}
		session, err := pick.FindSession(sight.sessions, r.session)
		if err != nil {
			return nil, nil, err
		}
		o.Session, o.Control = session.SessionID, true
	} else if o.SessionName = r.name; r.ephemeral {
		o.DetachedTTL = endsFor
	} else {
		c, err = dialKept(r.ctx, r.target, &o)
		r.stays = o.DetachedTTL == keptFor
		return c, func() {}, err
	}
	c, err = r.target.Dial(r.ctx, &o)
	return c, func() {}, err
}

// tellLeft tells a person who opens a shell which programs go on without a client.
func (r *runner) tellLeft(c *client.Client) {
	list, err := c.Sessions(r.ctx, protocol.DetailProcesses)
	if err != nil {
		r.con.Note("%v", err) // the shell opens nevertheless
	}
	for _, line := range leftLines(list, time.Now(), r.target) {
		fmt.Fprintf(os.Stderr, "%s: %s\n", r.command, line)
	}
}

// mostLeft is how many programs leftLines names.
const mostLeft = 3

// leftLines names the programs that somebody has left, the newest first, each with the command that comes back to the program.
func leftLines(list []protocol.SessionDetails, now time.Time, t *target.Flags) (lines []string) {
	slices.SortStableFunc(list, func(a, b protocol.SessionDetails) int { return cmp.Compare(b.DetachedAtMs, a.DetachedAtMs) })
	for _, s := range list {
		for _, p := range s.List {
			text := why.Left(&s.SessionSummary, &p.ProcessInfo, now)
			if text == "" {
				continue
			}
			name := pick.Name(list, pick.Ref{Session: s.SessionID, Process: p.ProcessID})
			lines = append(lines, fmt.Sprintf("%s: %s. Come back with: %s", show.Harmless(name), show.Harmless(text), commandLine(t, "attach", name)))
		}
	}
	if more := len(lines) - mostLeft; more > 0 {
		lines = append(lines[:mostLeft], fmt.Sprintf("and %d more: %s", more, commandLine(t, "ps")))
	}
	return lines
}

// failed ends a command whose program has not ended.
func (r *runner) failed(err error) (int, error) {
	if r.here && r.ctx.Err() != nil {
		r.con.Restore()
		if l, ok := errors.AsType[left](context.Cause(r.ctx)); ok {
			return l.code, l
		}
	}
	return r.ending(err)
}

// notStarted ends a command whose program did not start.
func (r *runner) notStarted(c *client.Client, err error) (int, error) {
	if r.ctx.Err() != nil {
		return r.failed(err)
	}
	code, why := failure(err)
	return r.close(c, code, r.advise(err, why))
}

// close ends the session, unless the command has joined the session of somebody else.
func (r *runner) close(c *client.Client, code int, err error) (int, error) {
	r.con.Restore()
	r.state.Store(stateClosing)
	if r.session != "" {
		c.Close()
		return code, err
	}
	ctx, cancel := context.WithTimeout(r.ctx, closeTime)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- c.CloseSession(ctx) }() // it waits for the link, and a person who leaves does not
	var e error
	select {
	case e = <-closed:
	case <-ctx.Done():
		e = context.Cause(ctx)
	}
	if e != nil && !errors.Is(err, e) {
		err = errors.Join(err, fmt.Errorf("the server keeps session %s until the session expires: %w", c.SessionID(), e))
	}
	return code, err
}

// leaveRunning starts the program, and returns when it is ready.
func (r *runner) leaveRunning(c *client.Client, cmd *client.Cmd) (int, error) {
	ready := make(chan struct{}, 1)
	cmd.OnGap = func(client.GapError) {} // nobody reads the output here
	cmd.OnReady = func(int) { poke(ready) }
	r.state.Store(stateStarting)
	if err := cmd.Start(r.ctx); err != nil {
		return r.notStarted(c, err)
	}
	fmt.Fprintln(stdout, cmd.ID)
	if cmd.Ready != nil {
		r.start(cmd)
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait(r.ctx) }()
		select {
		case <-ready:
		case err := <-ended:
			if code, why, ok := over(err); ok && !(cmd.Ready.Exit && code == 0) {
				if why == nil {
					why = fmt.Errorf("%s ended with exit code %d before it was ready; see troupe logs %s", show.Harmless(cmd.ID), code, show.Harmless(cmd.ID))
				}
				return exitFailed, why
			} else if !ok {
				return r.failed(err)
			}
		}
	}
	c.Close()
	return 0, nil
}

// endBroken ends the program when nobody reads its output any more, as SIGPIPE would.
func (r *runner) endBroken(cmd *client.Cmd) {
	<-stdout.broken
	if err := r.within(func(ctx context.Context) error { return cmd.Terminate(ctx, brokenGrace) }); err != nil && r.ctx.Err() == nil {
		r.con.Note("%v", err)
	}
}

// newName returns an id for a process of this program: its base name and four random letters.
func newName(program string) string {
	base := strings.TrimLeft(filepath.Base(program), ".-/")
	return base + "-" + strings.ToLower(rand.Text()[:4])
}

// advisePlacement names the flags in the refusal of a placement.
func (r *runFlags) advisePlacement(err error) error {
	refused, ok := errors.AsType[*protocol.Error](err)
	if !ok || r.placement == nil || !strings.HasPrefix(refused.Message, "placement") {
		return err
	}
	return fmt.Errorf("--label, --node and --placement-key: %w", refused)
}

// advise adds to why, the message about err, which flag of troupe run may help.
func (r *runFlags) advise(err, why error) error {
	refused, ok := errors.AsType[*protocol.Error](err)
	if !ok || r.local() || r.cwd != "" {
		return why
	}
	if text := refused.Message; strings.Contains(text, "working directory") || strings.Contains(text, "policy of this server (cwd)") {
		return fmt.Errorf("%w; name a directory of the server with --cwd", why)
	}
	return why
}
