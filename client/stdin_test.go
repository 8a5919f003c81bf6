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

// A program may close its stdin and go on. A Write to StdinPipe then fails, as with os/exec, and does not wait for the
// end of the program.
func TestStdinPipeOfAProgramThatClosesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(programs)
		c := connect(t, f, nil)
		cmd := c.Command("wait")
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.lock(func() { f.procs[cmd.ID].shut = true })
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
		if err := cmd.Kill(t.Context()); err != nil {
			t.Error(err)
		}
		wantExit(t, cmd.Wait(t.Context()), 137)
	})
}

// The server's refusal of a Write finds the client reading StdinPipe for more. Wait still tells how the program ended.
func TestStdinRefusedBetweenWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(programs)
		c := connect(t, f, nil)
		cmd := c.Command("wait")
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.lock(func() { f.procs[cmd.ID].shut = true })
		if _, err := io.WriteString(stdin, "x"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := io.WriteString(stdin, "y"); !errors.Is(err, ErrStdinClosed) {
			t.Errorf("Write: %v", err)
		}
		if err := cmd.Kill(t.Context()); err != nil {
			t.Error(err)
		}
		wantExit(t, cmd.Wait(t.Context()), 137)
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
