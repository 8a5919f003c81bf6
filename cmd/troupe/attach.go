package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// attachFlags are the flags of troupe attach.
type attachFlags struct {
	viewFlags
	readOnly bool
	noStdin  bool
	after    uint64
	replay   bool   // begin with the output after the event, not with the screen
	back     uint64 // lines of the scrollback
}

func newAttach(t *target.Flags) *cobra.Command {
	o := &attachFlags{viewFlags: viewFlags{target: t}}
	cmd := &cobra.Command{
		Use:   "attach [flags] [SESSION/]PROCESS",
		Short: "Watch a process, and type in its program",
		Long: `Shows the output of a running program from the oldest that the server holds, and then as it comes. What
you type is for the program. The exit code is the program's if it ends meanwhile.

If you and the program have terminals, it works as if the program ran here: attach begins with the screen
of the program as it is, and the newest lines that have scrolled off. With --after, or with an older
server, it begins with the output that the server holds, and a full-screen program draws its screen again.

Several may attach to a program. All of them see it, and all may type. The program's terminal has the
size of the terminal in which somebody typed last. With --read-only you type nothing and do not change
the size; in a smaller terminal you see the part around the cursor of the program.

The first to attach becomes the owner of the session if it has none: the server keeps output until the
owner has it. ^P^Q, or Enter ~d, leaves the program running, and so do Enter ~., a signal, and with
--read-only or without a terminal ^C. troupe stop ends a program. The end of stdin is not the end of the
program's: see troupe send --close.`,
		Example: `  troupe attach web
  troupe attach --read-only --url ws://build:7766 build/make-k3p9
  troupe attach --after 512 web    # where troupe run has said that it left`,
		Args:        cobra.ExactArgs(1),
		Annotations: exitsAsProgram,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			o.replay = cmd.Flags().Changed("after")
			a := &attacher{attachFlags: *o, viewer: newViewer("troupe attach", o.viewFlags, false)}
			return exit(a.run(args[0]))
		},
	}
	cmd.Flags().BoolVar(&o.readOnly, "read-only", false, "only watch: the server takes no input and no size from here")
	cmd.Flags().BoolVar(&o.noStdin, "no-stdin", false, "type nothing")
	cmd.Flags().Uint64Var(&o.after, "after", 0, "show only output after event number `EVENT`; 0: all that the server holds")
	cmd.Flags().Uint64Var(&o.back, "scrollback", protocol.DefaultScrollback, "in a terminal, begin with the newest `LINES` that have scrolled off, as many as the server has")
	o.register(cmd.Flags())
	return cmd
}

// An attacher is a single troupe attach.
type attacher struct {
	attachFlags
	*viewer
}

func (a *attacher) run(name string) (int, error) {
	sight, err := look(a.ctx, a.target, protocol.DetailProcesses)
	if err != nil {
		return a.ending(err)
	}
	found, err := sight.find([]string{name})
	if err != nil {
		return exitFailed, err
	}
	if len(found) > 1 {
		return exitFailed, fmt.Errorf("%q is the name of %d processes: attach to one of them, such as %s", show.Harmless(name), len(found), show.Harmless(found[0].name))
	}
	at := found[0]
	c, err := a.join(at.Session, sight.session(at.Session).State == protocol.SessionAttached)
	if err != nil {
		return a.ending(err)
	}
	a.client.Store(c)
	if a.after >= at.info.NextSeq {
		return exitFailed, fmt.Errorf("--after is %d, and process %s has events up to %d: leave --after out", a.after, show.Harmless(at.Process), at.info.NextSeq-1)
	}

	ended := at.info.Status != nil
	raw := a.terminal() && at.info.TTY && !ended
	var screen *protocol.ProcessScreenResult
	p, fixed := c.Process(at.Process).Of(at.info.Instance), false
	if raw && !a.replay {
		if screen, fixed = a.screen(p); screen != nil {
			a.after = screen.Seq
		}
	}

	cmd := c.Attach(at.Process, a.after)
	cmd.Stdout, cmd.Stderr = &output{to: a.con.Stdout(), v: a.viewer}, &output{to: a.con.Stderr(), v: a.viewer}
	if screen != nil && fixed {
		a.window = newWindow(a.viewer, p, cmd.Stdout, screen)
		cmd.Stdout = a.window
	}
	if a.con.OneTerminal() {
		cmd.Stderr = cmd.Stdout // one writer gets both in the order of the program
	}
	cmd.OnGap = a.gap
	if text := sight.left(&at); text != "" {
		a.con.Note("%s", text)
	}
	if raw {
		a.raw.Store(true)
		a.follows.Store(!a.readOnly)
		if screen == nil {
			a.con.Replay(func() bool { return cmd.Seq()+1 < at.info.NextSeq })
		}
		if err := a.con.Raw(); err != nil {
			return exitFailed, err
		}
		if a.window != nil {
			a.window.show(screen)
		}
		if screen != nil {
			_, _ = cmd.Stdout.Write(drawing(screen, a.con.Size())) // the next write fails, too
		}
	}
	switch {
	case ended:
	case !a.readOnly && !a.noStdin:
		a.lines()
		cmd.Stdin = a.con.Input()
	case a.terminal():
		a.lines()
		in := a.con.Input()
		in.LeaveAtInterrupt()
		go io.Copy(io.Discard, in)
	}
	a.state.Store(stateStarting)
	if err := cmd.Start(a.ctx); err != nil {
		return a.ending(err)
	}
	a.start(cmd)
	if a.window != nil {
		go a.window.follow()
	}
	if screen == nil || !screen.Whole {
		a.size.nudge()
	}
	go func() {
		<-stdout.broken
		how := "nobody reads the output"
		if err := stdout.failed(); err != nil {
			how = err.Error()
		}
		a.leave(left{how: how, code: exitSignal + int(syscall.SIGPIPE)})
	}()
	err = cmd.Wait(a.ctx)
	code, why, ok := over(err)
	if !ok {
		return a.ending(err)
	}
	last := ""
	if a.window != nil {
		last = a.window.end()
	}
	a.con.Restore()
	fmt.Print(last)
	a.noteDenied(err)
	c.Close()
	return code, why
}

// screen gives the program's terminal the size of this one, and returns its screen; nil: attach begins with the output that the server holds.
// fixed means that this command may not change the size.
func (a *attacher) screen(p *client.Process) (screen *protocol.ProcessScreenResult, fixed bool) {
	size := a.con.Size()
	fixed = a.readOnly
	if !a.readOnly && size != (protocol.Size{}) {
		refused, ok := errors.AsType[*protocol.Error](p.Resize(a.ctx, size)) // after another error the sizer tries again, and says what is wrong
		fixed = ok && refused.Code == protocol.CodeObserver
	}
	want := client.ScreenOptions{Scrollback: a.back, Restore: true, Spans: fixed}
	r, err := p.Screen(a.ctx, &want)
	if err == nil && a.back > 0 && size != (protocol.Size{Rows: r.Rows, Cols: r.Cols}) {
		want.Scrollback = 0 // it would push the screen out of its place
		r, err = p.Screen(a.ctx, &want)
	}
	if err != nil || len(r.Restore) == 0 {
		return nil, false // an older server, or no room for a screen
	}
	return &r, fixed
}

// drawing returns what makes a terminal of a size show the screen, below what it shows now.
func drawing(r *protocol.ProcessScreenResult, size protocol.Size) []byte {
	b := append(bytes.Repeat([]byte{'\n'}, int(size.Rows)), "\x1b[H\x1b[2J"...)
	return append(b, r.Restore...)
}

// join attaches to the session: as its owner if it has none.
func (a *attacher) join(session string, owned bool) (*client.Client, error) {
	o := a.options()
	o.Session = session
	if !a.readOnly && !owned {
		c, err := a.target.Dial(a.ctx, &o)
		if !errors.Is(err, client.ErrAttached) {
			a.keeps = err == nil
			return c, err
		}
	}
	if o.Observe = a.readOnly; !a.readOnly {
		o.Control = true
	}
	c, err := a.target.Dial(a.ctx, &o)
	if refused, ok := errors.AsType[*protocol.Error](err); o.Control && ok && refused.Code == protocol.CodeObserver {
		o.Control = false // the guest of a share: without a role, the server gives all that the share allows
		return a.target.Dial(a.ctx, &o)
	}
	return c, err
}
