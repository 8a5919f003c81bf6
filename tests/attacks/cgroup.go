package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

const pidsRoot = "/sys/fs/cgroup/pids" // cgroup v1

// noPids returns why this machine allows no cgroup with a pids.max, or "".
func noPids() string {
	probe, err := os.MkdirTemp(pidsRoot, "troupe-attack-")
	if err != nil {
		return fmt.Sprint("no cgroup can be made below the pids controller of cgroup v1: ", err)
	}
	os.Remove(probe)
	return ""
}

// inPids starts the server in a new cgroup with a pids.max.
func inPids(max int) func(*target, *exec.Cmd) error {
	return func(t *target, cmd *exec.Cmd) error {
		dir := filepath.Join(pidsRoot, "troupe-attack-"+t.token)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		t.onRelease(func() { removeCgroup(dir) })
		if err := os.WriteFile(filepath.Join(dir, "pids.max"), fmt.Append(nil, max), 0o644); err != nil {
			return err
		}
		before(cmd, `echo $$ >"$0"`, filepath.Join(dir, "cgroup.procs"))
		return nil
	}
}

// before makes a command first run a line of shell in the same process; $0 is arg.
func before(cmd *exec.Cmd, line, arg string) {
	cmd.Args = append([]string{"/bin/sh", "-c", line + ` && exec "$@"`, arg, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
}

// removeCgroup removes a cgroup and its children once their processes have ended.
func removeCgroup(dir string) {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		var dirs []string
		filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for _, d := range slices.Backward(dirs) {
			os.Remove(d)
		}
		if _, err := os.Stat(dir); err != nil {
			return
		}
	}
}
