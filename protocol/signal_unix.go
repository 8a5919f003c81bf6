//go:build unix

package protocol

import (
	"syscall"

	"golang.org/x/sys/unix"
)

var signalNumbers = map[Signal]syscall.Signal{
	SignalInterrupt: syscall.SIGINT,
	SignalTerminate: syscall.SIGTERM,
	SignalKill:      syscall.SIGKILL,
	SignalHangup:    syscall.SIGHUP,
	SignalQuit:      syscall.SIGQUIT,
	SignalUsr1:      syscall.SIGUSR1,
	SignalUsr2:      syscall.SIGUSR2,
	SignalStop:      syscall.SIGSTOP,
	SignalContinue:  syscall.SIGCONT,
	SignalWinch:     syscall.SIGWINCH,
	SignalPipe:      syscall.SIGPIPE,
}

func signalName(n syscall.Signal) string { return unix.SignalName(n) }
