package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

// Only the process that has started then gets the signal, whatever its name.
func TestHangUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a) b (c")
	if err := os.Symlink("/bin/sleep", path); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	pid := cmd.Process.Pid
	ticks, err := startTicks(pid)
	own, err2 := startTicks(os.Getpid())
	if err != nil || err2 != nil || ticks < own || own == 0 {
		t.Fatalf("started at %d and %d: %v, %v", own, ticks, err, err2)
	}
	hups := make(chan os.Signal, 1)
	signal.Notify(hups, syscall.SIGHUP)
	defer signal.Stop(hups)
	if err := hangUp(os.Getpid(), own+1); !errors.Is(err, errElsewhere) {
		t.Errorf("another process with the pid: %v", err)
	}
	if err := hangUp(os.Getpid(), own); err != nil {
		t.Error(err)
	}
	<-hups
	if err := hangUp(pid, ticks); err != nil {
		t.Error(err)
	}
	if st := cmd.Wait(); st == nil || st.Error() != "signal: hangup" {
		t.Errorf("the program has ended with %v", st)
	}
	if err := hangUp(pid, ticks); !errors.Is(err, errElsewhere) {
		t.Errorf("a process that is gone: %v", err)
	}
}
