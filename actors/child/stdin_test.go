package child

import (
	"os"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/internal/pace"
)

// newStdin returns the stdin of a child that does not run, and what the child would read.
func newStdin(t *testing.T, tty bool) (s *stdin, read *os.File) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		read.Close()
		write.Close()
	})
	s = new(stdin)
	s.init(&process{tty: tty, in: NewIntake(0, budget.NewOutput(0, nil), nil, func() {})}, write, 0, pace.NewMeter(pace.MinRate))
	return s, read
}

// A child that is over takes nothing of the rate of stdin any more.
func TestShutLeavesTheRate(t *testing.T) {
	s, _ := newStdin(t, false)
	s.shut()
	if n := s.rate.Take(1); n > 0 {
		t.Errorf("%d bytes of the rate are for a child that is over", n)
	}
}

// Within a line, the end of the input of a terminal takes two end-of-file characters. A carriage return ends a line.
func TestEndWithinALine(t *testing.T) {
	for text, want := range map[string]string{"": "\x04", "x": "x\x04\x04", "x\n": "x\n\x04", "x\r": "x\r\x04"} {
		s, read := newStdin(t, true)
		if n, err := s.write([16]byte{}, []byte(text)); n != len(text) || err != nil {
			t.Errorf("%d bytes of %q were taken, %v", n, text, err)
		}
		s.close()
		s.close() // again
		got := make([]byte, 10)
		if n, err := read.Read(got); err != nil || string(got[:n]) != want {
			t.Errorf("the program reads %q after %q, want %q (%v)", got[:n], text, want, err)
		}
	}
}
