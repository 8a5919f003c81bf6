package console

import (
	"os"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/term"
)

// A command that a signal ends while it was stopped leaves the terminal as it was, and not raw.
func TestNoRawModeAfterRestore(t *testing.T) {
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer slave.Close()
	c := New(Options{In: slave, Out: os.Stderr, Err: os.Stderr})
	before, err := term.GetState(int(slave.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	c.Restore()
	if err := c.resume(); err != nil {
		t.Fatal(err)
	}
	if after, err := term.GetState(int(slave.Fd())); err != nil || *after != *before {
		t.Errorf("the terminal was %+v and is %+v, %v", before, after, err)
	}
}
