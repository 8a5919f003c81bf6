//go:build !unix

package protocol

import "syscall"

// This file is for clients on systems without signals; a server needs signals.
var signalNumbers map[Signal]syscall.Signal

func signalName(syscall.Signal) string { return "" }
