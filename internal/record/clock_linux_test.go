package record

import (
	"encoding/hex"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

type deadline struct{ At time.Time }

const helper = "TROUPE_RECORD_HELPER"

// The next process has the same deadline, whatever its wall clock says.
func TestDeadlineOfTheNextProcess(t *testing.T) {
	if text := os.Getenv(helper); text != "" {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		var d deadline
		if err := Decode(b, &d); err != nil {
			t.Fatal(err)
		}
		// Of this process the parent knows only the machine's clock.
		os.Stdout.WriteString(hex.EncodeToString(Encode(nil, d)))
		os.Exit(0)
	}
	at := time.Now().Add(time.Hour)
	cmd := exec.Command(os.Args[0], "-test.run=^TestDeadlineOfTheNextProcess$")
	cmd.Env = append(os.Environ(), helper+"="+hex.EncodeToString(Encode(nil, deadline{at})))
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(string(text))
	var d deadline
	if err != nil || Decode(b, &d) != nil || d.At.Sub(at).Abs() > time.Minute {
		t.Errorf("%v, %v, want %v", d.At, err, at)
	}
}

// The clock is that of the machine, and does not follow the wall clock.
func TestMonotonic(t *testing.T) {
	before := monotonic()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		t.Fatal(err)
	}
	if before <= 0 || before > time.Duration(now.Nano()) {
		t.Errorf("the clock says %v, and the machine runs for %v", before, time.Duration(now.Nano()))
	}
}
