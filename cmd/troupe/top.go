package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/pick"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/top"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

func newTop(t *target.Flags) *cobra.Command {
	o := top.Options{}
	cmd := &cobra.Command{
		Use:   "top [flags]",
		Short: "Watch sessions, groups and processes in full screen",
		Long: `Shows the sessions, groups and processes of the server in full screen, and what each waits for. Keys attach
to a process, follow its output, signal, stop and restart it, and choose order and filter: ? lists them.

Each refresh asks the server once. The pause after it is nine times as long as the answer took, within
--interval and 10 s: so the server works for top for about a tenth of its time. A lost connection is shown and made again.`,
		Example: `  troupe top
  troupe top --filter worker --interval 5s --url ws://build:7766`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !term.IsTerminal(int(os.Stdin.Fd())) || !term.IsTerminal(int(os.Stdout.Fd())) {
				return errors.New("stdin and stdout must be a terminal: troupe ps --watch needs none")
			}
			if o.Refresh < 100*time.Millisecond {
				return wrong("--interval is %v: choose 100ms or more", o.Refresh)
			}
			s, err := newAsker(cmd.Context(), t)
			if err != nil {
				return err
			}
			defer s.close()
			o.Server, o.Colour = s.name, show.To(os.Stdout).Colour
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM)
			defer stop()
			// On the screen, ^C is a key. The SIGINT of a ^C is for the command that runs in place of the screen, and may reach top
			// only after the command has ended.
			signal.Notify(make(chan os.Signal, 1), syscall.SIGINT)
			p := tea.NewProgram(top.New(&topSource{asker: s}, o), tea.WithAltScreen(), tea.WithoutSignalHandler())
			// With tea.WithContext, the end of ctx would close the terminal's reader while the program reads from it.
			defer context.AfterFunc(ctx, p.Quit)()
			if _, err := p.Run(); err != nil {
				return err
			}
			return nil
		},
	}
	cmd.Flags().DurationVarP(&o.Refresh, "interval", "i", time.Second, "`TIME` between two refreshes, if the server is fast")
	cmd.Flags().StringVar(&o.Filter, "filter", "", "begin with this filter: only processes whose name, session, group, state or command has `TEXT`")
	return cmd
}

// A topSource is the server for package top.
type topSource struct {
	*asker

	// Of Sample, which is called by one goroutine at a time.
	of   *client.Client        // the connection of the last Sample
	came *protocol.Replacement // how the server came; nil: it is the first
}

func (s *topSource) Sample(ctx context.Context) (*top.Snapshot, error) {
	asked := time.Now()
	list, err := s.list(ctx, protocol.DetailInfo)
	if err != nil && ctx.Err() == nil { // a server that was replaced has cut the connection, and the next one serves
		asked = time.Now()
		list, err = s.list(ctx, protocol.DetailInfo)
	}
	if err != nil {
		return nil, err
	}
	shot := &top.Snapshot{At: time.Now(), Took: time.Since(asked), Sessions: list}
	shot.News, err = s.news(ctx)
	return shot, err
}

// news says that the server was replaced since the last Sample. The server is asked once on each connection.
func (s *topSource) news(ctx context.Context) (text string, err error) {
	_, err = ask(ctx, s.asker, answerTime, func(ctx context.Context, c *client.Client) (struct{}, error) {
		if c == s.of {
			return struct{}{}, nil
		}
		holder, err := holderOf(ctx, c)
		if err != nil {
			return struct{}{}, err
		}
		var now *protocol.Replacement
		if holder != nil {
			now = holder.Replaced
		}
		if s.of != nil && now != nil && (s.came == nil || *now != *s.came) {
			text = "the server was " + replaced(now)
		}
		s.of, s.came = c, now
		return struct{}{}, nil
	})
	return text, err
}

func (s *topSource) Do(ctx context.Context, a top.Action) error {
	c, err := s.target.Dial(ctx, &client.Options{Name: "troupe top", Session: a.Session, Control: true, ReconnectFor: -1})
	if err != nil {
		return err
	}
	defer c.Close()
	p := c.Process(a.Process)
	n := &named{Ref: a.Ref, name: a.Process}
	if n.info, err = p.Info(ctx); err != nil {
		return err
	}
	switch a.Verb {
	case "signal":
		if err := n.alive(); err != nil {
			return err
		}
		return p.Signal(ctx, protocol.Signal(a.Signal))
	case "stop":
		return endOne(ctx, io.Discard, p, n, stopGrace)
	case "kill":
		return endOne(ctx, io.Discard, p, n, 0)
	case "restart":
		return restart(ctx, io.Discard, p, n)
	}
	return fmt.Errorf("unknown action %s", a.Verb)
}

// Command runs this program again, for the same server.
func (s *topSource) Command(verb string, r pick.Ref) tea.ExecCommand {
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	args := append([]string{verb}, s.target.Args()...)
	if verb == "logs" {
		args = append(args, "--follow", "--tail", "1000")
	}
	return &subcommand{exec.Command(program, append(args, "--", r.Session+"/"+r.Process)...)}
}

// A subcommand is a command that runs in place of the screen of top.
type subcommand struct{ *exec.Cmd }

func (c *subcommand) SetStdin(r io.Reader)  { c.Stdin = r }
func (c *subcommand) SetStdout(w io.Writer) { c.Stdout = w }
func (c *subcommand) SetStderr(w io.Writer) { c.Stderr = w }

// Run runs the command, and waits for a key: the person can read the last lines of the command.
func (c *subcommand) Run() error {
	if slices.Contains(c.Args, "logs") {
		fmt.Fprintln(c.Stdout, "troupe top: following the output; ^C returns to top")
	}
	err := c.Cmd.Run()
	fd := int(os.Stdin.Fd())
	if state, err := term.MakeRaw(fd); err == nil { // else Enter does
		defer term.Restore(fd, state)
	}
	fmt.Fprint(c.Stdout, "\r\ntroupe top: press any key to return ")
	os.Stdin.Read(make([]byte, 64)) // all bytes of a key such as F1
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		return nil // the command, or the program, has said why
	}
	return err
}
