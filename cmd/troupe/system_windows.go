package main

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/windows"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Numbers that no signal of Windows has: package os/signal ignores them.
const (
	sigUsr1 syscall.Signal = -1 - iota
	sigUsr2
	sigTstp
	sigWinch
)

// errUnread is the error of a write to a pipe that nobody reads any more.
const errUnread = windows.ERROR_NO_DATA

func isUnread(err error) bool {
	return errors.Is(err, errUnread) || errors.Is(err, windows.ERROR_BROKEN_PIPE) || errors.Is(err, windows.ERROR_PIPE_NOT_CONNECTED)
}

// sizeEvery is the time between two looks at the size of the terminal.
const sizeEvery = 250 * time.Millisecond

// notifyResize sends sigWinch when the terminal has another size.
func notifyResize(signals chan<- os.Signal, size func() protocol.Size) {
	go func() {
		for last := size(); ; time.Sleep(sizeEvery) {
			if now := size(); now != last {
				last = now
				signals <- sigWinch
			}
		}
	}()
}

// umask returns "": only a server on this machine is told the mask of this process.
func umask() string { return "" }

// awaitBroken never returns: the writes tell.
func awaitBroken(int) { select {} }

// At its start troupe makes the terminal act on control sequences, which programs and colours use. Programs and Go packages
// learn from TERM which sequences these are, and Windows does not set TERM.
func init() {
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		var mode uint32
		if windows.GetConsoleMode(windows.Handle(f.Fd()), &mode) != nil {
			continue // f is not a terminal
		}
		windows.SetConsoleMode(windows.Handle(f.Fd()), mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING)
		if os.Getenv("TERM") == "" {
			os.Setenv("TERM", "xterm-256color")
		}
	}
}

var errNeedsLinux = errors.New("a server needs Linux: on Windows, troupe has only the commands of clients, for a server that --url or --server names")

// serverCommands returns the commands of a server, which say why Windows has none.
func serverCommands(*target.Flags) (all []*cobra.Command) {
	for _, name := range []string{"server", "serve", "admin", "node-certs", "doctor", "load"} {
		all = append(all, &cobra.Command{
			Use:                name,
			Short:              "Not on Windows: a server needs Linux",
			DisableFlagParsing: true,
			RunE:               func(*cobra.Command, []string) error { return errNeedsLinux },
		})
	}
	return all
}

// embedded returns an error: troupe run --here needs a server.
func embedded(string) (dialer, func(), error) { return nil, nil, errNeedsLinux }
