//go:build unix

package figures

import (
	"bytes"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
)

// A smallDisk is a file on a disk with room for a few bytes.
type smallDisk struct {
	bytes.Buffer
	room int
}

func (d *smallDisk) Write(p []byte) (int, error) {
	n := min(len(p), d.room-d.Len())
	d.Buffer.Write(p[:n])
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func (d *smallDisk) Truncate(size int64) error {
	d.Buffer.Truncate(int(size))
	return nil
}

func (d *smallDisk) Close() error { return nil }

// TestFullDisk: on a full disk the file keeps whole findings only, so the file can be replayed. A note says that findings are missing.
func TestFullDisk(t *testing.T) {
	disk := &smallDisk{room: 990}
	f := findingsFile{dir: "d", f: disk}
	var note string
	n := 0
	for note == "" {
		note = f.write(oracle.Finding{Kind: oracle.Missing, Detail: strings.Repeat("x", 100)})
		n++
	}
	if n < 3 || !strings.HasPrefix(note, "d/findings.jsonl has only the first ") || !strings.Contains(note, "no space left") {
		t.Errorf("after %d findings: %s", n, note)
	}
	again := 0
	err := oracle.Replay(&disk.Buffer, func(int, oracle.Replayed) error { again++; return nil })
	if err != nil || again != n-1 {
		t.Errorf("%d of %d findings can be read: %v", again, n-1, err)
	}
	if note := f.write(oracle.Finding{}); note != "" || f.close() != nil {
		t.Errorf("after the note came another one: %q", note)
	}
}
