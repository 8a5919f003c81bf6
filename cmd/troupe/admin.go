//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/admin"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// systemSocket is the admin socket of a server that the system has started.
const systemSocket = "/run/troupe/admin.sock"

// adminTime is how long a server may take for a command of troupe admin: more than the actors have for a round trip.
const adminTime = 15 * time.Second

// operator finds the admin socket of a server.
type operator struct {
	target *target.Flags
	at     string // --admin
}

// newAdmin returns the commands for those who operate a server.
func newAdmin(t *target.Flags) *cobra.Command {
	o := &operator{target: t}
	cmd := family(&cobra.Command{
		Use:   "admin",
		Short: "Operate a server: health, metrics, log, reload, drain, actors, profiles",
		Long: `Operates a server of this machine through its admin socket, which only the user of the server and root can
open. With --url, --server or TROUPE_URL it is the socket of that server, with --admin any socket, and otherwise the only one that there is.`,
		Example: `  troupe admin ready
  troupe admin drain --for 10m
  troupe admin --admin unix:///run/troupe/admin.sock metrics`,
	}, newAdminHealth(o), newAdminReady(o), newAdminMetrics(o), newAdminActors(o), newAdminLog(o), newAdminReload(o), newAdminDrain(o), newAdminProfile(o))
	cmd.PersistentFlags().StringVar(&o.at, "admin", "", "`ADDRESS` of the admin socket: unix://PATH")
	return cmd
}

// find returns a client of the admin socket.
func (o *operator) find() (*admin.Client, error) {
	if o.at != "" {
		f := operateFlags{admin: o.at}
		if f.path() == "" {
			return nil, wrong("--admin %q: write unix://PATH", o.at)
		}
		return admin.New(f.path()), nil
	}
	dir := target.Dir(os.Getenv)
	found, err := o.target.Target()
	if err != nil {
		return nil, err
	}
	if !found.Local {
		if path := adminSocket(dir, found.URL); admin.New(path).Lives() {
			return admin.New(path), nil
		}
	}
	paths, err := filepath.Glob(filepath.Join(dir, adminPrefix+"*.sock"))
	if err != nil {
		return nil, err
	}
	paths = slices.DeleteFunc(append(paths, systemSocket), func(path string) bool { return !admin.New(path).Lives() })
	switch {
	case len(paths) == 0:
		return nil, fmt.Errorf("no server of yours runs on this machine with an admin socket in %s or at %s: name the socket with --admin unix://PATH, as its --admin does, unless it has --admin none", dir, systemSocket)
	case !found.Local:
		return nil, fmt.Errorf("no admin socket that you can open belongs to %s. There are:%s", show.Harmless(found.URL), listed(paths))
	case len(paths) > 1:
		return nil, fmt.Errorf("choose the server with --admin unix://PATH. There are:%s", listed(paths))
	}
	return admin.New(paths[0]), nil
}

// listed has a line for each admin socket, with its server.
func listed(paths []string) (lines string) {
	for _, path := range paths {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		s, err := admin.New(path).Self(ctx)
		cancel()
		is := fmt.Sprintf("the server at %s, process %d", show.Harmless(s.URL), s.PID)
		if err != nil {
			is = "it does not answer"
		}
		lines += fmt.Sprintf("\n  unix://%s: %s", show.Harmless(path), is)
	}
	return lines
}

// command returns a command that asks the admin socket, for limit at most; 0: do has limits of its own.
func (o *operator) command(cmd *cobra.Command, limit time.Duration, do func(context.Context, *cobra.Command, *admin.Client, []string) error) *cobra.Command {
	if cmd.Args == nil {
		cmd.Args = cobra.NoArgs
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := o.find()
		if err != nil {
			return err
		}
		return untilSignal(cmd, func(ctx context.Context) error {
			if limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, limit)
				defer cancel()
			}
			return do(ctx, cmd, c, args)
		})
	}
	return cmd
}

func newAdminHealth(o *operator) *cobra.Command {
	return o.command(&cobra.Command{
		Use:     "health",
		Short:   "Check that the actors of the server answer",
		Long:    "Sends a message through the actors that every client needs. Exits with 1 if it does not come back within 10 s.",
		Example: "  troupe admin health",
	}, adminTime, func(ctx context.Context, cmd *cobra.Command, c *admin.Client, _ []string) error {
		if err := c.Health(ctx); err != nil {
			return err
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "healthy")
		return err
	})
}

func newAdminReady(o *operator) *cobra.Command {
	asJSON := false
	cmd := o.command(&cobra.Command{
		Use:     "ready [flags]",
		Short:   "Tell whether the server takes new sessions, and why not",
		Long:    "Tells whether the server takes new sessions, why not, and what an operator should know. Exits with 1 if it takes none.",
		Example: "  troupe admin ready",
	}, adminTime, func(ctx context.Context, cmd *cobra.Command, c *admin.Client, _ []string) error {
		r, err := c.Ready(ctx)
		if err != nil {
			return err
		}
		if asJSON {
			err = show.JSON(cmd.OutOrStdout(), r)
		} else {
			err = printReady(cmd.OutOrStdout(), r)
		}
		if err == nil && !r.Ready {
			return exitError{exitFailure, nil} // the lines tell why
		}
		return err
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: ready, reasons and notes")
	return cmd
}

func printReady(w io.Writer, r admin.Readiness) error {
	word := "ready"
	if !r.Ready {
		word = "not ready"
	}
	lines := []string{word}
	for _, reason := range r.Reasons {
		lines = append(lines, "  because "+show.Harmless(reason))
	}
	for _, note := range r.Notes {
		lines = append(lines, "  note: "+show.Harmless(note))
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

func newAdminMetrics(o *operator) *cobra.Command {
	return o.command(&cobra.Command{
		Use:     "metrics",
		Short:   "Print the metrics of the server for Prometheus",
		Long:    "Prints the metrics of the server in the text format of Prometheus. docs/METRICS.md says what each counts.",
		Example: "  troupe admin metrics | grep troupe_processes",
	}, adminTime, func(ctx context.Context, cmd *cobra.Command, c *admin.Client, _ []string) error {
		return copyAnswer(ctx, cmd.OutOrStdout(), c, admin.PathMetrics)
	})
}

// copyAnswer copies the answer to a GET.
func copyAnswer(ctx context.Context, w io.Writer, c *admin.Client, path string) error {
	answer, err := c.Do(ctx, "GET", path, "")
	if err != nil {
		return err
	}
	defer answer.Close()
	_, err = io.Copy(w, answer)
	return err
}

func newAdminActors(o *operator) *cobra.Command {
	asJSON, waiting := false, false
	cmd := o.command(&cobra.Command{
		Use:   "actors [flags]",
		Short: "List all actors: state, mailbox, what they wait for",
		Long: `Lists all actors of the server as a tree, each with its state, the messages in its mailbox, and what it waits for.
An actor that does not answer within 2 s is silent: it is in the middle of a message, or has many before the question.
"troupe admin profile goroutine" then shows where.`,
		Example: `  troupe admin actors
  troupe admin actors --waiting`,
	}, adminTime, func(ctx context.Context, cmd *cobra.Command, c *admin.Client, _ []string) error {
		all, err := c.Actors(ctx)
		if err != nil {
			return err
		}
		if waiting {
			all = slices.DeleteFunc(all, func(a actors.ActorInfo) bool { return len(a.Waits) == 0 && a.Behind == 0 && !a.Silent })
		}
		if asJSON {
			return show.JSON(cmd.OutOrStdout(), all)
		}
		return printActors(show.To(cmd.OutOrStdout()), all, waiting)
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: a list of name, type, state, waits, behind and silent")
	cmd.Flags().BoolVar(&waiting, "waiting", false, "only actors that wait for something, have messages in their mailbox, or are silent")
	return cmd
}

// printActors prints actors as a tree, or with their whole names.
func printActors(out show.Out, all []actors.ActorInfo, whole bool) error {
	table := show.Table{Columns: []show.Column{{Title: "ACTOR", Shrink: 24}, {Title: "STATE", Shrink: 16}, {Title: "MAILBOX", Right: true}, {Title: "WAITS FOR", Shrink: 24}}}
	for _, a := range all {
		name := a.Name
		if at := strings.LastIndexByte(name, '/'); !whole && at >= 0 {
			name = strings.Repeat("  ", strings.Count(name, "/")) + name[at+1:]
		}
		state := a.State
		if a.Silent {
			state = "silent"
		}
		table.Row(name, state, a.Behind, strings.Join(a.Waits, "; "))
	}
	return table.Write(out)
}

func newAdminLog(o *operator) *cobra.Command {
	return o.command(&cobra.Command{
		Use:   "log [flags] [LEVELS]",
		Short: "Print or set the levels of the log",
		Long: `Prints which lines the log of the server has, and sets that before with LEVELS: debug, info, warn or error, and
levels for packages by the end of their import path. The next server, after a reload or a death, has the levels of its settings.`,
		Example: `  troupe admin log
  troupe admin log info,session=debug,transport=warn`,
		Args: cobra.MaximumNArgs(1),
	}, adminTime, func(ctx context.Context, cmd *cobra.Command, c *admin.Client, args []string) error {
		levels, err := c.Levels(ctx, strings.Join(args, ""))
		if err == nil {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), levels)
		}
		return err
	})
}

func newAdminReload(o *operator) *cobra.Command {
	return o.command(&cobra.Command{
		Use:   "reload",
		Short: "Have the server read its settings again, without ending a program",
		Long: `Has the holder start a server with the settings and the binary of now, and waits until it serves. Programs and sessions
go on. If the settings are wrong, or the new server does not work, the old one goes on, and the command exits with 1.
A server without a holder reads what can change without a start, and tells what cannot.`,
		Example: "  troupe admin reload",
	}, upgradeTime, func(ctx context.Context, cmd *cobra.Command, c *admin.Client, _ []string) error {
		before, err := c.Info(ctx)
		if err != nil {
			return err
		}
		going, err := c.Reload(ctx)
		text := going.Text
		if err == nil && before.HolderProcess != nil {
			text, err = awaitReload(ctx, &before, c)
		}
		switch {
		case err != nil && going.Wrong != "":
			return fmt.Errorf("%w: %s", err, show.Harmless(going.Wrong))
		case err != nil:
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
		return err
	})
}

// elsewhere is how long a server that is being replaced may not answer at its admin socket.
const elsewhere = 8 * time.Second

var errGone = errors.New("the server does not answer at this admin socket any more: it has ended, or its settings name another address now, and with it another socket")

// awaitReload waits until a reload has ended, and says how.
func awaitReload(ctx context.Context, before *protocol.ServerInfoResult, c *admin.Client) (text string, err error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	heard := time.Now()
	text, err = awaitUpgrade(ctx, before, func(ctx context.Context) (protocol.ServerInfoResult, error) {
		info, err := c.Info(ctx)
		if err == nil {
			heard = time.Now()
		} else if time.Since(heard) > elsewhere {
			giveUp(errGone)
		}
		return info, err
	})
	switch {
	case err != nil:
		return "", err
	case text != "":
		return "reloaded: " + text, nil
	case context.Cause(ctx) == errGone:
		return "", errGone
	}
	return "", errors.New("the server was asked to read its settings again, and does not say how that ended: its log may say more")
}

func newAdminDrain(o *operator) *cobra.Command {
	lasts, cancel, wait := 10*time.Minute, false, false
	cmd := o.command(&cobra.Command{
		Use:   "drain [flags]",
		Short: "Let the server end: no new sessions, those there may finish",
		Long: `Has the server open no session from now on. Its clients are told that their sessions end after --for. A session that
its client closes before is gone. The server ends, with exit code 0, when no session is left. /readyz says no from the beginning. Commands that look, or end
something, work until then. Another drain changes the time.`,
		Example: `  troupe admin drain --for 30m --wait
  troupe admin drain --cancel`,
	}, 0, func(ctx context.Context, cmd *cobra.Command, c *admin.Client, _ []string) error {
		if lasts < 0 || lasts > admin.MaxDrain {
			return wrong("--for %v: choose 0 to %v", lasts, admin.MaxDrain)
		}
		first, done := context.WithTimeout(ctx, adminTime)
		defer done()
		self, err := c.Self(first)
		if err != nil {
			return err
		}
		var d admin.Drain
		if cancel {
			d, err = c.Stay(first)
		} else {
			d, err = c.Drain(first, lasts)
		}
		if err == nil {
			err = printDrain(cmd.OutOrStdout(), d)
		}
		if err != nil || !wait {
			return err
		}
		return awaitDrain(ctx, cmd.OutOrStdout(), c, self.PID)
	})
	cmd.Flags().DurationVar(&lasts, "for", lasts, "the sessions may go on for `TIME`; 0: they end now")
	cmd.Flags().BoolVar(&cancel, "cancel", false, "open sessions again, and let those there go on. Clients are not told")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the server has ended")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if cancel && (wait || cmd.Flags().Changed("for")) {
			return wrong("--cancel takes a drain back: leave --wait and --for out")
		}
		return nil
	}
	return cmd
}

func printDrain(w io.Writer, d admin.Drain) error {
	sessions := show.Count(int(d.Sessions), "session")
	var err error
	if d.Until == nil {
		_, err = fmt.Fprintf(w, "not draining: %s\n", sessions)
	} else {
		_, err = fmt.Fprintf(w, "draining: %s, until %s (in %v)\n", sessions, d.Until.Local().Format(time.TimeOnly), max(time.Until(*d.Until), 0).Round(time.Second))
	}
	return err
}

// drainLook is how long awaitDrain waits between two looks.
const drainLook = 100 * time.Millisecond

// awaitDrain waits until the process of the server, or of its holder, has ended. While the holder replaces the server, nobody answers for a moment.
func awaitDrain(ctx context.Context, w io.Writer, c *admin.Client, pid int) error {
	for syscall.Kill(pid, 0) != syscall.ESRCH {
		if d, err := c.Drained(ctx); err == nil && d.Until == nil {
			return errors.New("meanwhile somebody has taken the drain back")
		}
		if sleep(ctx, drainLook); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	_, err := fmt.Fprintln(w, "the server has ended")
	return err
}

// profiles are what troupe admin profile takes: the paths below admin.PathProfile, and what each shows.
var profiles = []string{"goroutine\tstacks of all goroutines", "heap\twhat holds memory", "allocs\twhat has allocated memory", "profile\twhere the CPU is busy", "trace\twhat runs when", "threadcreate\twhat has made threads"}

func newAdminProfile(o *operator) *cobra.Command {
	seconds, file := 10, ""
	cmd := o.command(&cobra.Command{
		Use:   "profile [flags] KIND",
		Short: "Record a profile for go tool pprof, or the stacks of all goroutines",
		Long: `Records a profile of the server. KIND is goroutine (stacks of all goroutines, as text), heap, allocs, threadcreate, profile (of the CPU) or trace.
A profile has the names of functions, and no contents of memory.`,
		Example: `  troupe admin profile goroutine
  troupe admin profile profile --seconds 30 --output cpu.pprof`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				for _, p := range profiles {
					if kind, _, _ := strings.Cut(p, "\t"); kind == args[0] {
						return nil
					}
				}
			}
			return wrong("the arguments %q are given: choose goroutine, heap, allocs, threadcreate, profile or trace", args)
		},
		ValidArgs: profiles,
	}, 0, func(ctx context.Context, cmd *cobra.Command, c *admin.Client, args []string) error {
		if seconds < 1 || seconds > 600 {
			return wrong("--seconds %d: choose 1 to 600", seconds)
		}
		if file == "" && args[0] != "goroutine" && term.IsTerminal(int(os.Stdout.Fd())) {
			return wrong("a profile is for go tool pprof, and not for a terminal: write it to a file with --output")
		}
		ctx, cancel := context.WithTimeout(ctx, adminTime+time.Duration(seconds)*time.Second)
		defer cancel()
		path := admin.PathProfile + args[0]
		switch args[0] {
		case "goroutine":
			path += "?debug=2"
		case "profile", "trace":
			path += fmt.Sprintf("?seconds=%d", seconds)
		}
		if file == "" {
			return copyAnswer(ctx, cmd.OutOrStdout(), c, path)
		}
		f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		if err = errors.Join(f.Chmod(0o600), copyAnswer(ctx, f, c, path), f.Close()); err != nil {
			os.Remove(file)
		}
		return err
	})
	cmd.Flags().IntVar(&seconds, "seconds", seconds, "how many `SECONDS` profile and trace record")
	cmd.Flags().StringVarP(&file, "output", "o", "", "write to `FILE`, which only you can read (default: stdout)")
	return cmd
}
