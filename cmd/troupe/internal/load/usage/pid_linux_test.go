package usage

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/internal/holder"
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

// The use of a holder has that of its server.
func TestOfHolder(t *testing.T) {
	cat, err := exec.LookPath("cat")
	name := filepath.Join(t.TempDir(), holder.ServerName)
	if err == nil {
		err = os.Symlink(cat, name)
	}
	parent := exec.Command("/bin/sh", "-c", `"$0"; exit`, name) // not exec, since a command follows
	in, _ := parent.StdinPipe()
	if err == nil {
		err = parent.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	m := OfPID(parent.Process.Pid)
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		u, err := m.Read()
		if err == nil && u.Threads == 2 && u.Files >= 6 {
			break
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("%+v, %v: want the threads and descriptors of both", u, err)
		}
	}
	in.Close()
	if err := parent.Wait(); err != nil {
		t.Error(err)
	}
}
