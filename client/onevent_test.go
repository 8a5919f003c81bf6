package client

import (
	"errors"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
)

// stored is what a client has stored of a process.
type stored struct {
	seq            uint64
	stdout, stderr strings.Builder
	exits          []protocol.ExitStatus
}

func (s *stored) take(e Event) error {
	switch {
	case e.Seq <= s.seq:
		return errors.New("an event came twice")
	case e.Exit != nil:
		s.exits = append(s.exits, *e.Exit)
	case e.Stream == protocol.Stderr:
		s.stderr.Write(e.Output)
	default:
		s.stdout.Write(e.Output)
	}
	s.seq = e.Seq
	return nil
}

var errDisk = errors.New("disk full")

// A client that fails at any event, stdout and stderr apart, comes back after the last Event.Seq that it has stored: it has all bytes and
// the exit once, and the server has an acknowledgement of nothing else.
func TestOnEvent(t *testing.T) {
	f := newFake(map[string]func(*fakeProcess){"program": func(p *fakeProcess) {
		for i := range 20 {
			p.print([]protocol.Stream{protocol.Stdout, protocol.Stdout, protocol.Stderr}[i%3], string(rune('a'+i)))
		}
		p.exitCode = 3
	}})
	var s stored
	f.checks = map[string]func(*fakeProcess, uint64){"job": func(_ *fakeProcess, seq uint64) {
		if seq > s.seq && len(s.exits) == 0 {
			t.Errorf("acknowledged up to %d, and stored up to %d", seq, s.seq)
		}
	}}
	c := connect(t, f, nil)
	cmd := c.Command("program")
	cmd.ID = "job"
	for fails := 0; ; fails++ {
		good := fails % 3
		cmd.OnEvent = func(e Event) (err error) {
			f.lock(func() {
				if good--; good < 0 && fails < 20 {
					err = errDisk
				} else {
					err = s.take(e)
				}
			})
			return err
		}
		begin(t, cmd)
		err := cmd.Wait(t.Context())
		if !errors.Is(err, errDisk) {
			wantExit(t, err, 3)
			break
		}
		if cmd.Seq() > s.seq {
			t.Errorf("Seq is %d, and %d is stored", cmd.Seq(), s.seq)
		}
		if fails%2 == 0 { // another client; otherwise the same
			c.Close()
			c = connect(t, f, &Options{Session: "s1"})
		}
		cmd = c.Attach("job", s.seq)
	}
	if got := s.stdout.String() + "|" + s.stderr.String(); got != "abdeghjkmnpqst|cfilor" || len(s.exits) != 1 || s.exits[0].ExitCode != 3 {
		t.Errorf("stored %q and %v", got, s.exits)
	}
}

func TestOnEventInPlaceOfWriters(t *testing.T) {
	cmd := connect(t, newFake(programs), nil).Command("hello")
	cmd.OnEvent = func(Event) error { return nil }
	if _, err := cmd.Output(t.Context()); err == nil || !strings.Contains(err.Error(), "leave them out") {
		t.Errorf("Output: %v", err)
	}
}

// A process whose OnEvent has failed may be attached again by the same client while the program goes on.
func TestAttachAfterAFailedOnEvent(t *testing.T) {
	f := newFake(map[string]func(*fakeProcess){"program": func(p *fakeProcess) {
		p.print(protocol.Stdout, "x")
		p.Read(make([]byte, 1))
	}})
	c := connect(t, f, nil)
	cmd := c.Command("program")
	cmd.ID, cmd.OnEvent = "job", func(Event) error { return errDisk }
	if err := cmd.Run(t.Context()); !errors.Is(err, errDisk) {
		t.Errorf("Run: %v", err)
	}
	if err := c.Attach("job", 0).Start(t.Context()); err != nil {
		t.Errorf("Start: %v", err)
	}
}
