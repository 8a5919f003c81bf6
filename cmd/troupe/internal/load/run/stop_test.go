//go:build linux

package run

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/figures"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
)

// TestStops: after End, a stopped server goes on, and nobody stops it again.
func TestStops(t *testing.T) {
	rec, err := figures.New(plan.Plan{}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	server := exec.Command("/bin/sleep", "60")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		server.Process.Kill()
		server.Wait()
	}()
	isStopped := func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", server.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(stat, []byte(") T "))
	}
	var s Stops
	pids := []int{server.Process.Pid}
	s.stop(pids, time.Hour, rec)
	s.stop(pids, time.Hour, rec)
	await(t, "the stop", isStopped)
	s.End()
	await(t, "the end of the stop", func() bool { return !isStopped() })
	s.stop(pids, time.Hour, rec)
	if n := rec.Now().Counts[result.Stops]; n != 1 || isStopped() {
		t.Errorf("%d stops, want 1; the server is stopped: %v", n, isStopped())
	}
}
