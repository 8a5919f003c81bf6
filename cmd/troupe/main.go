// Command troupe runs programs for clients that come and go. "troupe serve" is the server. The other
// commands are clients.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	_ "github.com/b6f6fdd7/troupe/cmd/troupe/internal/noquery"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
)

func main() {
	cmd, err := newRoot().ExecuteC()
	os.Exit(status(cmd, err))
}

// exitUsage is the exit code for a wrong command line.
const exitUsage = 2

// An exitError is the error of a command that chooses its exit code. Any other error of a command is a
// wrong command line.
type exitError struct {
	code int
	err  error // nil: the command has told the user why
}

func (e exitError) Error() string { return fmt.Sprintf("exit code %d: %v", e.code, e.err) }

// status prints why a command failed, unless the command has, and returns the exit code of troupe. Errors may have texts of
// servers and of other people in them.
func status(cmd *cobra.Command, err error) int {
	e, ok := errors.AsType[exitError](err)
	switch {
	case err == nil:
		return 0
	case !ok:
		fmt.Fprintf(os.Stderr, "%s: %s; see %s --help\n", cmd.CommandPath(), show.HarmlessText(err.Error()), cmd.CommandPath())
		return exitUsage
	case e.err != nil:
		fmt.Fprintf(os.Stderr, "%s: %s\n", cmd.CommandPath(), show.HarmlessText(e.err.Error()))
	}
	return e.code
}

// newRoot returns the command troupe with all its subcommands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "troupe",
		Short: "Supervise programs for clients that may lose their connection",
		Long: `troupe supervises programs for clients that may lose their connection.
The programs run on a server ("troupe serve"), and go on when a client goes away.`,
		Example: `  troupe run -- make test
  troupe run --url ws://build:7766 -- make test`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	t := &target.Flags{Version: version()}
	t.Register(root.PersistentFlags())
	root.SetVersionTemplate("troupe {{.Version}}\n")
	root.AddCommand(newServe(), newRun(t, embedded), newUp(t), newDown(t), newConfig(), newVersion())
	root.AddCommand(newCp(t), newLs(t), newCat(t), newRm(t), newStat(t))
	root.AddCommand(newAttach(t), newSend(t), newResize(t))
	root.AddCommand(newServer(t))
	root.AddCommand(newDoctor(t))
	root.AddCommand(newPs(t), newInfo(t), newLogs(t), newWait(t), newEvents(t), newTop(t))
	root.AddCommand(newSignal(t), newStop(t), newKill(t), newRestart(t))
	root.AddCommand(newSessions(t))
	root.AddCommand(newMan())
	addCompletion(root, t)
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  troupe version",
		Args:    cobra.NoArgs,
		Run:     func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), "troupe", version()) },
	}
}

// version returns the version of the main module, or "devel" if the binary records none.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
