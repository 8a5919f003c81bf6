package console

import (
	"os"

	"golang.org/x/sys/unix"
)

func stopThread() { unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGTSTP) }
