// Command troupe runs programs for clients that come and go. "troupe serve" is the server. Almost all other commands
// are clients.
//
// # Where to look
//
//   - serve.go, serveflags.go, limits.go, credentials.go, audit.go, server.go: the server and its flags
//   - run.go, runflags.go, attach.go, viewer.go, size.go, send.go: a program at a terminal: signals, leaving, coming back
//   - up.go, upfollow.go, upwait.go, down.go, internal/compose: the programs of a file; compose is pure
//   - logs.go, internal/logs: the viewer of run, logs and up: whole lines, and holes
//   - ps.go, info.go, look.go, top.go, events.go, wait.go, doctor.go, sessions.go, share.go: what runs
//   - stop.go, signal.go, restart.go, rm.go: what is to end, and to begin again
//   - cp.go, ls.go, cat.go, stat.go, files.go, internal/transfer: files
//   - internal/hold: troupe serve and its holder
//   - holding.go, upgrade.go: what people are told about the holder; its upgrade
//   - console.go, internal/webconsole: the console in a browser
//   - operate.go, admin.go, internal/admin: for those who operate a server
//   - internal/target, internal/pick: which server, and which process or session a name means
//   - internal/console, internal/why, internal/spec: keys and raw mode; words for ends; what people write for limits and restarts
//   - exit.go, stdout.go, usage.go, man.go, complete.go: exit codes, a full disk, help
//   - load*.go, internal/load: the load test
//   - system_unix.go, system_windows.go: signals, pipes and commands that Windows lacks
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	_ "github.com/b6f6fdd7/troupe/cmd/troupe/internal/noquery"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
)

func init() { runtime.LockOSThread() } // main has the main thread

// main waits, and so the main thread does. The kernel wakes the main thread for a signal to the process, and no other
// thread. If the main thread waits for a filesystem that does not answer, the signal waits, too.
func main() {
	ended := make(chan int)
	go func() {
		root := newRoot()
		root.SetOut(stdout)
		cmd, err := root.ExecuteC()
		ended <- status(cmd, err)
	}()
	os.Exit(<-ended)
}

// The help lists the commands of a group in the order of newRoot.
func init() { cobra.EnableCommandSorting = false }

// newRoot returns the command troupe with all its subcommands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "troupe",
		Short: "Supervise programs for clients that may lose their connection",
		Long: `troupe supervises programs for clients that may lose their connection. The programs run on a server,
and go on without a client. Commands start your own server on this machine when they need it. With --url or
--server, commands use another server.`,
		Example: `  troupe run -- make test
  troupe run --detach --name web -- ./web
  troupe ps
  troupe attach web`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	// Cobra's own --version prints by a template. A binary with a template keeps every exported method (3 MB).
	asked := root.Flags().BoolP("version", "v", false, "print the version")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *asked {
			return printVersion(cmd)
		}
		return cmd.Help()
	}
	t := &target.Flags{Version: version()}
	t.Register(root.PersistentFlags())
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{flagError(err)} })
	group := func(title string, commands ...*cobra.Command) {
		for _, cmd := range commands {
			cmd.GroupID = title
		}
		root.AddGroup(&cobra.Group{ID: title, Title: title + ":"})
		root.AddCommand(commands...)
	}
	group("Run and attach", newRun(t, embedded), newAttach(t))
	group("Look", newPs(t), newTop(t), newLogs(t), newScreen(t), newInfo(t), newEvents(t), newConsole(t))
	group("Act", newSend(t), newSignal(t), newStop(t), newKill(t), newStart(t), newRestart(t), newWait(t), newResize(t), newSessions(t))
	group("Sets of programs", newUp(t), newDown(t), newConfig())
	group("Files of the server", newCp(t), newLs(t), newCat(t), newStat(t), newRm(t))
	group("Server", append(serverCommands(t), newNodes(t), newDrain(t))...)
	root.AddCommand(newMan(), newVersion())
	addCompletion(root, t)
	plainArguments(root)
	return root
}

// flagError adds to an error about a flag what to write, if the error does not say so.
func flagError(err error) error {
	for pkg, advice := range map[string]string{
		": time: ":   ": write a number and a unit, such as 5s, 10m or 2h",
		": strconv.": ": write a whole number, such as 100",
	} {
		if words, _, found := strings.Cut(err.Error(), pkg); found {
			return errors.New(words + advice)
		}
	}
	return err
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version [flags]",
		Short:   "Print the version",
		Example: "  troupe version",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return printVersion(cmd) },
	}
}

func printVersion(cmd *cobra.Command) error {
	_, err := fmt.Fprintln(cmd.OutOrStdout(), "troupe", version())
	return err
}

// release is the version of a release, with its commit: 1.2.3+0123456789ab. The linker sets it (cmd/release).
var release string

// version returns the version of the release or of the main module, or "devel" if the binary records none.
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
