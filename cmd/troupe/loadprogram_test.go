//go:build unix

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/program"
)

// A program under load runs before the other packages of the binary are initialized, which takes time and memory.
func TestLoadProgramStartsEarly(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := program.Options{Mode: program.Burst, Code: 3}.Argv(path)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = []string{"GODEBUG=inittrace=1"}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if cmd.Run(); cmd.ProcessState.ExitCode() != 3 {
		t.Fatalf("%v: %s", cmd.ProcessState, &stderr)
	}
	for _, late := range []string{"github.com/charmbracelet/bubbletea", "github.com/prometheus/client_golang/prometheus", "/actors/process"} {
		if strings.Contains(stderr.String(), "init "+late) || strings.Contains(stderr.String(), late+" @") {
			t.Errorf("%s was initialized before the program began", late)
		}
	}
	if !strings.Contains(stderr.String(), "init ") {
		t.Errorf("the runtime told nothing of its initialization: %q", &stderr)
	}
}
