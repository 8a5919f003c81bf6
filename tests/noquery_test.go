package tests

import (
	"bytes"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// TestNothingAsksTheTerminal: a command that shows nothing full screen writes no escape sequence to a terminal that has
// colours, and waits for no answer of the terminal.
func TestNothingAsksTheTerminal(t *testing.T) {
	t.Parallel()
	bin, err := troupeBinary()
	if err != nil {
		t.Fatal(err)
	}
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	cmd := exec.Command(bin, "version")
	cmd.Env = append(serverEnv, "TERM=xterm-256color")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	var screen bytes.Buffer
	var reading sync.WaitGroup
	reading.Go(func() { screen.ReadFrom(master) })
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	reading.Wait()
	if bytes.Contains(screen.Bytes(), []byte("\x1b")) || !bytes.HasPrefix(screen.Bytes(), []byte("troupe ")) {
		t.Errorf("on the screen: %q", &screen)
	}
}
