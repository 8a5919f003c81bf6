package testetcd

import (
	"os/exec"
	"syscall"
)

// endWithTest ends cmd with the test: a test that panics has no cleanup.
func endWithTest(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
