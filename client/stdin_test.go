package client

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// startShut starts a program that has closed its stdin, and goes on until it is killed.
func startShut(t *testing.T) (*Cmd, io.WriteCloser) {
	t.Helper()
	f := newFake(programs)
	cmd := connect(t, f, nil).Command("wait")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	begin(t, cmd)
	f.lock(func() { f.procs[cmd.ID].shut = true })
	return cmd, stdin
}

// wantKilled kills the program, and wants Wait to tell that.
func wantKilled(t *testing.T, cmd *Cmd) {
	t.Helper()
	if err := cmd.Kill(t.Context()); err != nil {
		t.Error(err)
	}
	wantExit(t, cmd.Wait(t.Context()), 137)
}

// A program may close its stdin and go on. A Write to StdinPipe then fails, as with os/exec, and does not wait for the
// end of the program.
func TestStdinPipeOfAProgramThatClosesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cmd, stdin := startShut(t)
		wrote := make(chan error, 1)
		go func() {
			_, err := io.Copy(stdin, strings.NewReader(strings.Repeat("x", 1<<20)))
			wrote <- err
		}()
		select {
		case err := <-wrote:
			if !errors.Is(err, ErrStdinClosed) {
				t.Errorf("Write: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("Write hangs")
		}
		wantKilled(t, cmd)
	})
}

// The server refuses a Write while the client reads StdinPipe for the next one. Wait still tells how the program ended.
func TestStdinRefusedBetweenWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cmd, stdin := startShut(t)
		if _, err := io.WriteString(stdin, "x"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := io.WriteString(stdin, "y"); !errors.Is(err, ErrStdinClosed) {
			t.Errorf("Write: %v", err)
		}
		wantKilled(t, cmd)
	})
}

// If the server refuses input, Wait says so.
func TestStdinRefused(t *testing.T) {
	f := newFake(programs)
	c := connect(t, f, nil)
	cmd := c.Command("hi")
	f.lock(func() {
		f.programs = map[string]func(*fakeProcess){"hi": func(p *fakeProcess) {
			p.f.await(func() bool { return p.f.refused > 0 })
		}}
		f.refuses = protocol.MethodProcessWrite
	})
	cmd.Stdin = strings.NewReader("input")
	if err := cmd.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "not allowed here") {
		t.Errorf("Run: %v", err)
	}
}
