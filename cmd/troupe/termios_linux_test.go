package main

import "golang.org/x/sys/unix"

// Requests about a terminal: its modes, and the number of bytes to be read. (ioctl_tty(2))
const (
	getTermios = unix.TCGETS
	toBeRead   = unix.TIOCINQ
)
