package console

import (
	"os"

	"golang.org/x/sys/unix"
)

// endLineAt makes the terminal hand over a line at the key, too: the console then sees its keys before Enter. The line
// can be edited as before. endLineAt returns what undoes it; nil: nothing was changed, because f is no terminal, or
// belongs to another job of the shell.
func endLineAt(f *os.File, key byte) (undo func()) {
	fd := int(f.Fd())
	was, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil || !foreground(fd) {
		return nil
	}
	now := *was
	now.Cc[unix.VEOL] = key
	for _, i := range []int{unix.VSTART, unix.VSTOP} { // ^Q resumes output, unless the key means something else
		if now.Cc[i] == key {
			now.Cc[i] = 0
		}
	}
	if unix.IoctlSetTermios(fd, unix.TCSETS, &now) != nil {
		return nil
	}
	return func() {
		if foreground(fd) {
			unix.IoctlSetTermios(fd, unix.TCSETS, was)
		}
	}
}

// foreground reports whether the terminal is for this job of the shell. The kernel stops another job that changes the
// terminal.
func foreground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
