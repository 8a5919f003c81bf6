package main

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// errElsewhere means: the process of a holder is not here.
var errElsewhere = errors.New("its holder is no process of this machine, or of this container: run the command where the server runs, or send SIGHUP to the process of troupe serve there")

// hangUp sends SIGHUP to the process pid that has started at ticks.
func hangUp(pid int, ticks uint64) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH {
		return errElsewhere
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	if now, err := startTicks(pid); err != nil || now != ticks { // after the open: the pid is that of fd
		return errElsewhere
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGHUP, nil, 0); err != nil {
		return fmt.Errorf("send SIGHUP to its holder, process %d: %w: run the command as the user of that process", pid, err)
	}
	return nil
}
