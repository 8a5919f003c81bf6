//go:build unix

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// stopTime is how long the user's own server may take to end its programs.
const stopTime = time.Minute

// newServer returns the commands about the user's own server.
func newServer(t *target.Flags) *cobra.Command {
	return family(&cobra.Command{
		Use:   "server",
		Short: "Show, upgrade or stop your own server on this machine",
		Long: `Commands without --url, --server, TROUPE_URL and a default in the config file use your own
server on this machine. The first of them starts it, and it ends when it has had nothing to do
for a while: no client, and no program.`,
		Example: `  troupe server status
  troupe server stop`,
	}, newServerStatus(t), newServerStop(t), newServerUpgrade(t))
}

func newServerStatus(t *target.Flags) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "status [flags]",
		Short: "Print the state of your own server",
		Long:  "Tells whether your own server runs, its address, its log and what it does. Exits with 1 if it does not run.",
		Example: `  troupe server status
  troupe server status --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := onlyLocal(t); err != nil {
				return err
			}
			own, err := t.Own()
			if err != nil {
				return err
			}
			state := serverState{Running: own.Runs, URL: "unix://" + own.Socket, Log: own.Log, PID: own.PID}
			if own.Runs {
				if err := state.ask(cmd.Context(), t); err != nil {
					return err
				}
			}
			if asJSON {
				err = show.JSON(cmd.OutOrStdout(), state)
			} else {
				_, err = fmt.Fprint(cmd.OutOrStdout(), state.text())
			}
			if err == nil && !own.Runs {
				return exitError{exitFailure, nil} // the text tells why
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: running, url, log, pid, version, since, sessions, programs and holder")
	return cmd
}

// serverState is the answer of troupe server status.
type serverState struct {
	Running  bool   `json:"running"`
	URL      string `json:"url"`
	Log      string `json:"log"`
	PID      int    `json:"pid,omitempty"` // 0: no command has started the server
	Version  string `json:"version,omitempty"`
	Since    string `json:"since,omitempty"` // RFC 3339
	Sessions int    `json:"sessions"`
	Programs int    `json:"programs"` // that have not ended

	Holder *protocol.HolderInfo `json:"holder,omitempty"`

	age time.Duration
}

func (s *serverState) ask(ctx context.Context, t *target.Flags) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	c, err := t.ControlRunning(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	info, err := c.ServerInfo(ctx)
	if err != nil {
		return err
	}
	list, err := c.Sessions(ctx, protocol.DetailProcesses)
	if err != nil {
		return err
	}
	s.Sessions = len(list)
	for i := range list {
		s.Programs += running(&list[i])
	}
	s.Holder = info.Holder
	started := time.UnixMilli(info.StartedAtMs)
	s.Version, s.Since, s.age = info.Server.Version, started.Format(time.RFC3339), time.Since(started)
	return nil
}

func (s *serverState) text() string {
	if !s.Running {
		return fmt.Sprintf("your own server does not run; the next command that needs it starts it\naddress  %s\nlog      %s\n", show.Harmless(s.URL), show.Harmless(s.Log))
	}
	process := "not started by a command of troupe"
	if s.PID != 0 {
		process = fmt.Sprintf("process %d", s.PID)
	}
	fate, came := "they end with the server", ""
	switch h := s.Holder; {
	case h == nil: // an older server
	case !h.Available:
		fate += ": " + show.Harmless(h.Why)
	default:
		fate = "they outlive the server"
		if h.Replaced != nil {
			came = "server   " + replaced(h.Replaced) + "\n"
		}
	}
	return fmt.Sprintf("your own server runs: troupe %s, %s, for %s\n%ssessions %d\nprograms %d; %s\naddress  %s\nlog      %s\n",
		show.Harmless(s.Version), process, show.Age(s.age), came, s.Sessions, s.Programs, fate, show.Harmless(s.URL), show.Harmless(s.Log))
}

func newServerStop(t *target.Flags) *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use:   "stop [flags]",
		Short: "Stop your own server",
		Long: `Ends your own server, and returns when it has ended. With --force also if programs run: they
get SIGTERM, and SIGKILL 2 s later. A server that does not run is no error.`,
		Example: `  troupe server stop
  troupe server stop --force`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := onlyLocal(t); err != nil {
				return err
			}
			t.Quiet = true
			ctx, cancel := context.WithTimeout(cmd.Context(), stopTime)
			defer cancel()
			own, err := t.Own()
			if err != nil {
				return err
			}
			if !own.Runs && own.PID == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "your own server does not run")
				return nil
			}
			if !force && own.Runs {
				state := serverState{}
				if err := state.ask(ctx, t); err != nil {
					return fmt.Errorf("%w; --force ends the server nevertheless", err)
				}
				if state.Programs > 0 {
					return fmt.Errorf("your own server still runs %s (troupe ps --server %s): end what runs first, or use --force", show.Count(state.Programs, "program"), target.LocalName)
				}
			}
			if err := t.StopOwn(ctx); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "your own server has ended")
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "end the server with all its programs")
	return cmd
}

// onlyLocal makes the user's own server the target, whatever the environment and the config file say.
func onlyLocal(t *target.Flags) error {
	if t.URL != "" || t.Server != "" && t.Server != target.LocalName {
		return wrong("this is about your own server on this machine: leave --url and --server out")
	}
	t.Server = target.LocalName
	return nil
}
