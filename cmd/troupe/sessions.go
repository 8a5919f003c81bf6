package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/pick"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/why"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// sessionsTime is how long a server may take for a command about sessions. Closing a session ends its programs.
const sessionsTime = time.Minute

// newSessions returns the commands about sessions.
func newSessions(t *target.Flags) *cobra.Command {
	return family(&cobra.Command{
		Use:   "sessions",
		Short: "List, rename, close and share sessions",
		Long: `A session holds programs and their output on a server, and goes on without a connection.
A session has an id and often a name. Commands take its name, its id, or the beginning of its id.`,
		Example: `  troupe sessions list
  troupe sessions close build`,
	}, newSessionsList(t), newSessionsRename(t), newSessionsClose(t), newSessionsShare(t))
}

// onSessions runs do with the sessions of the server.
func onSessions(cmd *cobra.Command, t *target.Flags, do func(context.Context, *sight) error) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), sessionsTime)
	defer cancel()
	s, err := look(ctx, t, protocol.DetailProcesses)
	if err != nil {
		return err
	}
	defer s.close()
	return do(ctx, s)
}

// onSession runs do with a connection to the session for a name from a person.
func onSession(cmd *cobra.Command, t *target.Flags, text string, do func(context.Context, *client.Client, *protocol.SessionDetails) error) error {
	return onSessions(cmd, t, func(ctx context.Context, s *sight) error {
		session, err := pick.FindSession(s.sessions, text)
		if err != nil {
			return err
		}
		c, err := s.join(ctx, session.SessionID, client.Options{ReconnectFor: -1})
		if err != nil {
			return err
		}
		return do(ctx, c, session)
	})
}

// endSession ends a session with its programs. A session that has ended already is no error.
func (s *sight) endSession(ctx context.Context, session string) error {
	c, err := s.join(ctx, session, client.Options{ReconnectFor: -1})
	if errors.Is(err, client.ErrSessionGone) {
		return nil
	}
	if err != nil {
		return err
	}
	delete(s.clients, session) // CloseSession closes it
	return c.CloseSession(ctx)
}

func newSessionsList(t *target.Flags) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "list [flags]",
		Short: "List the sessions of the server",
		Long: `Lists the sessions of the server, the oldest first. A session is attached while its owner is
connected, detached while it waits for the owner, and closing while its programs end.`,
		Example: `  troupe sessions list
  troupe sessions list --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onSessions(cmd, t, func(_ context.Context, s *sight) error {
				if asJSON {
					return show.JSON(cmd.OutOrStdout(), append([]protocol.SessionDetails{}, s.sessions...))
				}
				if len(s.sessions) == 0 {
					_, err := fmt.Fprintln(cmd.OutOrStdout(), "no sessions")
					return err
				}
				return sessionsTable(s.sessions, time.Now()).Write(show.To(cmd.OutOrStdout()))
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: a list of sessions with their processes")
	return cmd
}

func sessionsTable(list []protocol.SessionDetails, now time.Time) *show.Table {
	table := &show.Table{Columns: []show.Column{{Title: "SESSION", Shrink: 8}, {Title: "STATE"}, {Title: "AGE", Right: true},
		{Title: "RUN", Right: true}, {Title: "ENDED", Right: true}, {Title: "WATCH", Right: true}, {Title: "IDENTITY", Shrink: 6}, {Title: "ID", Shrink: 8}, {Title: "WHY", Shrink: 12}}}
	for i := range list {
		s := &list[i]
		state := show.Cell{Text: s.State}
		switch s.State {
		case protocol.SessionAttached:
			state.Style = show.Good
		case protocol.SessionClosing:
			state.Style = show.Warn
		}
		run := running(s)
		table.Row(s.Name, state, show.Age(now.Sub(time.UnixMilli(s.CreatedAtMs))), run, s.Processes-run, s.Observers, s.Identity, s.SessionID, why.Left(&s.SessionSummary, nil, now))
	}
	return table
}

// running returns how many processes of a session have not ended.
func running(s *protocol.SessionDetails) (n int) {
	for i := range s.List {
		if !pick.Ended(&s.List[i].ProcessInfo) {
			n++
		}
	}
	return n
}

// label names a session for people.
func label(s *protocol.SessionDetails) string {
	if s.Name == "" {
		return show.Harmless(s.SessionID)
	}
	return fmt.Sprintf("%s (%s)", show.Harmless(s.Name), show.Harmless(s.SessionID))
}

func newSessionsRename(t *target.Flags) *cobra.Command {
	return &cobra.Command{
		Use:   "rename [flags] SESSION NAME",
		Short: "Give a session another name",
		Long:  `Gives a session another name. Names need not be unique; "" takes the name away.`,
		Example: `  troupe sessions rename build old-build
  troupe sessions rename 01J9ZK build`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onSession(cmd, t, args[0], func(ctx context.Context, c *client.Client, _ *protocol.SessionDetails) error {
				return c.UpdateSession(ctx, client.SessionUpdate{Name: &args[1]})
			})
		},
	}
}

func newSessionsClose(t *target.Flags) *cobra.Command {
	return &cobra.Command{
		Use:   "close [flags] SESSION...",
		Short: "End sessions with all their programs",
		Long: `Ends sessions: their programs are killed with all their descendants, and their output is
forgotten. To end programs one by one, and to keep their output, see troupe stop.`,
		Example: `  troupe sessions close build
  troupe sessions close build 01J9ZK`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onSessions(cmd, t, func(ctx context.Context, s *sight) error {
				var chosen []*protocol.SessionDetails
				for _, text := range args { // find all sessions before closing the first
					one, err := pick.FindSession(s.sessions, text)
					if err != nil {
						return err
					}
					chosen = append(chosen, one)
				}
				var failed error
				for _, one := range chosen {
					if err := s.endSession(ctx, one.SessionID); err != nil {
						failed = errors.Join(failed, fmt.Errorf("session %s: %w", label(one), err))
						continue
					}
					fmt.Fprintf(cmd.OutOrStdout(), "closed %s; programs that ran in it: %d\n", label(one), running(one))
				}
				return failed
			})
		},
	}
}
