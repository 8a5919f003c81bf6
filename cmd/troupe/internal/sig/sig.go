// Package sig reads names of signals written by people.
package sig

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/b6f6fdd7/troupe/protocol"
)

// signals are the signals of the protocol, with their numbers on Linux.
var signals = []struct {
	sig    protocol.Signal
	posix  string
	number int
}{
	{protocol.SignalHangup, "HUP", 1},
	{protocol.SignalInterrupt, "INT", 2},
	{protocol.SignalQuit, "QUIT", 3},
	{protocol.SignalKill, "KILL", 9},
	{protocol.SignalUsr1, "USR1", 10},
	{protocol.SignalUsr2, "USR2", 12},
	{protocol.SignalPipe, "PIPE", 13},
	{protocol.SignalTerminate, "TERM", 15},
	{protocol.SignalContinue, "CONT", 18},
	{protocol.SignalStop, "STOP", 19},
	{protocol.SignalWinch, "WINCH", 28},
}

// Parse returns the signal with a name such as "HUP", "SIGHUP" or "hangup", in any case, or with a number as on Linux.
func Parse(text string) (protocol.Signal, error) {
	name := strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(text)), "SIG")
	number, err := strconv.Atoi(name)
	for _, s := range signals {
		if name == s.posix || strings.EqualFold(name, string(s.sig)) || err == nil && number == s.number {
			return s.sig, nil
		}
	}
	return "", fmt.Errorf("there is no signal %q to send: choose one of %s", text, strings.Join(Names(), ", "))
}

// Names returns the names of all signals, as in kill(1).
func Names() []string {
	var names []string
	for _, s := range signals {
		names = append(names, s.posix)
	}
	return names
}

// Posix returns the name of s as in kill(1).
func Posix(s protocol.Signal) string {
	for _, known := range signals {
		if known.sig == s {
			return "SIG" + known.posix
		}
	}
	return string(s)
}
