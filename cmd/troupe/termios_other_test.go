//go:build unix && !linux

package main

import "golang.org/x/sys/unix"

// Requests about a terminal: its modes, and the number of bytes to be read.
const (
	getTermios = unix.TIOCGETA
	toBeRead   = 0x4004667f // FIONREAD of sys/filio.h
)
