package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/internal/show"
)

func newDown(t *target.Flags) *cobra.Command {
	o := new(upFlags)
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "down [flags] [FILE]",
		Short: "Stop the programs of troupe up",
		Long: `Stops the programs of a project, none before those that depend on it, each as the file says, and ends its session.
After --timeout, whatever is left is killed. If nothing runs, down does nothing and exits with 0.`,
		Example: `  troupe down
  troupe down --project shop --url wss://build:7766`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.project == "" {
				p, rest, err := o.read(args)
				if err == nil && len(rest) > 0 {
					err = fmt.Errorf("%q is not a file", rest[0])
				}
				if err != nil {
					return fmt.Errorf("%w\nname the project to stop it without its file: troupe down --project NAME", err)
				}
				o.project = p.Name
			}
			return stopProject(cmd.Context(), t, o.project, timeout, cmd)
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&o.file, "file", "f", "", "read the name of the project from this `FILE`; default: as troupe up")
	fs.StringVarP(&o.project, "project", "p", "", "the `NAME` of the project")
	fs.DurationVar(&timeout, "timeout", 0, "kill what is left after this `TIME`; default: as long as the programs may take")
	return cmd
}

func stopProject(ctx context.Context, t *target.Flags, project string, timeout time.Duration, cmd *cobra.Command) error {
	name := show.Harmless(project)
	id, err := sessionOf(ctx, t, project)
	if err != nil {
		return err
	}
	if id == "" {
		fmt.Fprintf(cmd.OutOrStdout(), "nothing runs for project %s\n", name)
		return nil
	}
	c, err := t.Dial(ctx, &client.Options{Name: "troupe down", Session: id, Control: true})
	if err != nil {
		return err
	}
	defer c.Close()
	has, err := members(ctx, c)
	if err != nil {
		return err
	}
	if len(has) > 0 {
		stop, cancel := ctx, context.CancelFunc(func() {})
		if timeout > 0 {
			stop, cancel = context.WithTimeout(ctx, timeout)
		}
		err := c.StopGroup(stop, upGroup)
		cancel()
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: the programs did not end within %v, and are killed\n", cmd.CommandPath(), timeout)
		case err != nil:
			return err
		}
	}
	if err := c.CloseSession(ctx); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "stopped project %s\n", name)
	return nil
}
