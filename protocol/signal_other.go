//go:build !unix

package protocol

import "syscall"

// A client may run where there are no signals; a server does not.
var signalNumbers map[Signal]syscall.Signal

func signalName(syscall.Signal) string { return "" }
