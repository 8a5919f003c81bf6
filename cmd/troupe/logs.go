package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/logs"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/pick"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/why"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// logsFlags are the flags of troupe logs.
type logsFlags struct {
	target     *target.Flags
	session    string
	follow     bool
	since      string
	tail       int
	timestamps bool
	stream     string
	raw        bool
}

func newLogs(t *target.Flags) *cobra.Command {
	o := &logsFlags{target: t}
	cmd := &cobra.Command{
		Use:   "logs [flags] [PROCESS...]",
		Short: "Print the output of processes",
		Long: `Prints the output that the server holds of processes. The lines of several processes come in the order of
their times, each behind the name of its process: "web |" is stdout, "web !" is stderr.

A name is PROCESS or SESSION/PROCESS, a pattern such as 'web*' for all that match, or SESSION for all its
processes. Without a name, logs prints the processes of --session; or of the project in the current
directory, if troupe up has started the project; or else all.

With --follow the output to come is printed, too, over lost connections and restarts, until the
processes end, or nobody reads what logs prints. Output that the server no longer holds, restarts, failures, and a program that waits until its output
is read are told on stderr. Only the owner reads for the server: logs frees nothing, attach does.

Control characters are printed in a harmless form, unless --raw is given. Times are those at which the
server got the output.`,
		Example: `  troupe logs -f
  troupe logs web
  troupe logs -f --tail 20 web worker
  troupe logs --since 10m --timestamps --stream stderr shop/web`,
		RunE: func(_ *cobra.Command, args []string) error {
			// Of the signals, only these end logs: a closed pipe is an error of a write.
			ctx, stop := interruptible(context.Background())
			defer stop()
			signal.Ignore(syscall.SIGPIPE)
			read, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			go func() {
				awaitBroken(int(os.Stdout.Fd()))
				cancel(errUnread)
			}()
			err := o.run(read, args)
			switch {
			case isUnread(err):
				return exitError{exitSignal + int(syscall.SIGPIPE), nil}
			case ctx.Err() != nil:
				return interrupted(ctx)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.session, "session", "", "only processes of this `SESSION`")
	f.BoolVarP(&o.follow, "follow", "f", false, "go on with the output to come, until the processes end")
	f.StringVar(&o.since, "since", "", "only output since this `EVENT|TIME`: an event number as in troupe info, how long ago (10m), or a time (15:04, 2026-01-31T15:04:05)")
	f.IntVarP(&o.tail, "tail", "n", -1, "only the last `N` lines of each process; default: all that the server holds")
	f.Lookup("tail").DefValue = "0" // hidden: the text names the default
	f.BoolVarP(&o.timestamps, "timestamps", "t", false, "print the time before each line")
	f.StringVar(&o.stream, "stream", "", "only this `STREAM`: stdout, stderr, or pty for the output of a terminal")
	f.BoolVar(&o.raw, "raw", false, "print the output as it is, with its control characters")
	cmd.RegisterFlagCompletionFunc("stream", cobra.FixedCompletions([]string{"stdout", "stderr", "pty"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o *logsFlags) run(ctx context.Context, names []string) error {
	want := logs.Options{Follow: o.follow, Tail: max(-1, o.tail)}
	var err error
	if want.After, want.Since, err = logs.ParseSince(o.since, time.Now()); err != nil {
		return wrong("--since: %w", err)
	}
	if o.stream != "" {
		if err := want.Stream.UnmarshalText([]byte(o.stream)); err != nil {
			return wrong("--stream is %q: choose stdout, stderr or pty", o.stream)
		}
	}
	s, err := look(ctx, o.target, protocol.DetailProcesses)
	if err != nil {
		return err
	}
	defer s.close()
	s.observe = true
	found, errs := o.choose(s, names)
	if errs != nil {
		return errs
	}
	want.Chunks = o.raw && len(found) == 1 && o.tail < 0 && !o.timestamps
	p := &logs.Printer{Out: show.To(stdout), Notes: os.Stderr, Raw: o.raw, Timestamps: o.timestamps}
	connection := client.Options{ReconnectFor: client.Forever, HoldBack: true, Times: true}
	var sources []logs.Source
	for i := range found {
		handle, err := s.process(ctx, found[i].Ref, connection)
		if err != nil {
			return fmt.Errorf("%s: %w", show.Harmless(found[i].name), err)
		}
		follow := func(ctx context.Context, after uint64, to logs.Viewer) error {
			return logs.Follow(ctx, handle, after, to)
		}
		sources = append(sources, logs.Source{Read: handle.Read, Last: found[i].info.NextSeq - 1, Follow: follow, Full: whyFull(handle)})
		p.Names = append(p.Names, found[i].name)
	}
	err = logs.Merge(ctx, sources, want, p, func(source int, err error) {
		errs = errors.Join(errs, fmt.Errorf("%s: %w", show.Harmless(found[source].name), err))
	})
	if err = cmp.Or(err, p.End()); err != nil {
		return err
	}
	return errs
}

// choose returns the processes whose output is wanted.
func (o *logsFlags) choose(s *sight, names []string) (found []named, err error) {
	if o.session != "" {
		if err := s.only(o.session); err != nil {
			return nil, err
		}
	}
	if len(names) == 0 {
		project := ""
		if p, _, err := new(upFlags).read(nil); err == nil && o.session == "" {
			if session, err := pick.FindSession(s.sessions, p.Name); err == nil && session.Name == p.Name {
				project = session.SessionID
			}
		}
		if found = s.all(project); len(found) == 0 {
			return nil, errors.New("there is no process: troupe run starts a program, and troupe up those of a file")
		}
		return found, nil
	}
	for _, name := range names {
		more, e := s.find([]string{name})
		if session, none := pick.FindSession(s.sessions, name); errors.Is(e, pick.ErrUnknown) && none == nil && len(session.List) > 0 {
			more, e = s.all(session.SessionID), nil
		}
		found, err = withNamed(found, more...), errors.Join(err, e)
	}
	return found, err
}

// whyFull says why the program of p cannot write, if its output is unread.
func whyFull(p *client.Process) func(context.Context) string {
	return func(ctx context.Context) string {
		info, err := p.Info(ctx)
		if err != nil || len(info.WaitsFor) == 0 {
			return "" // the next read has the error
		}
		switch info.WaitsFor[0].For {
		case protocol.WaitOwner, protocol.WaitBudget:
			return why.Quiet(&info)
		}
		return ""
	}
}
