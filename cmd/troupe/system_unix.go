//go:build unix

package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Signals that Windows lacks.
const (
	sigUsr1  = syscall.SIGUSR1
	sigUsr2  = syscall.SIGUSR2
	sigTstp  = syscall.SIGTSTP
	sigWinch = syscall.SIGWINCH
)

// serverCommands returns the commands of a server on this machine.
func serverCommands(t *target.Flags) []*cobra.Command {
	return []*cobra.Command{newServer(t), newServe(), newAdmin(t), newNodeCerts(), newDoctor(t), newLoad(t), newLoadProgram(), newLoadWorker()}
}

// errUnread is the error of a write to a pipe that nobody reads any more.
const errUnread = syscall.EPIPE

func isUnread(err error) bool { return errors.Is(err, errUnread) }

// notifyResize sends sigWinch when the terminal has another size.
func notifyResize(signals chan<- os.Signal, _ func() protocol.Size) { signal.Notify(signals, sigWinch) }

// awaitBroken returns when nobody can read any more what is written to a pipe or a terminal: a write that would tell may never come.
func awaitBroken(fd int) {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd)}}, -1)
		if n > 0 {
			return
		}
		if err != nil && err != unix.EINTR {
			select {} // the writes tell
		}
	}
}
