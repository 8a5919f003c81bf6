package usage

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Another process is measured until its end. A pid without a process is an error from the begin.
func TestOfPID(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m := OfPID(cmd.Process.Pid)
	if u, err := m.Read(); err != nil || u.Threads != 1 || u.Files < 3 { // its first pages may not be counted yet
		t.Errorf("cat: %+v, %v", u, err)
	}
	in.Close()
	cmd.Wait()
	if _, err := m.Read(); err == nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("after its end: %v", err)
	}
	if _, err := OfPID(1 << 29).Read(); err == nil {
		t.Error("no error for a pid that cannot be")
	}
	if _, err := OfPID(os.Getppid()).Read(); err != nil && !os.IsPermission(err) {
		t.Error(err)
	}
}
