package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
)

// TestSandboxOfClientAndUp: Cmd.Sandbox of the Go client, and the key sandbox of a file of troupe up, confine the program at the
// server. The exit code of the program says what the program could not write, and reaches the caller.
func TestSandboxOfClientAndUp(t *testing.T) {
	t.Parallel()
	const all, noOutside, nothing = 10, 12, 13 // what the program could write
	modes := []struct {
		name    string
		sandbox *protocol.Sandbox
		want    int
	}{
		{"", nil, all},
		{"read-only", protocol.ReadOnlySandbox(), nothing},
		{"workspace-write", protocol.WorkspaceSandbox(), noOutside},
	}
	asSelf(t, func(t *testing.T, uid int) {
		w := startWarden(t, uid)
		y := w.yard(t)
		inside, outside, script := y.w+"/inside", y.o+"/outside", y.w+"/script"
		y.file(script, fmt.Sprintf("n=10\necho x >'%s' || n=$((n+1))\necho x >'%s' || n=$((n+2))\nexit $n\n", inside, outside))
		y.prepared()
		check := func(what string, code, want int) {
			t.Helper()
			if code != want {
				t.Errorf("%s: the exit code is %d, want %d", what, code, want)
			}
			for path, there := range map[string]bool{inside: want != nothing, outside: want == all} {
				if err := os.Remove(path); (err == nil) != there {
					t.Errorf("%s: %s has been written: %v, want %v", what, path, err == nil, there)
				}
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), factTimeout)
		defer cancel()
		c, err := client.Dial(ctx, w.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.CloseSession(ctx)
		for _, mode := range modes {
			cmd := c.Command("/bin/sh", script)
			cmd.Dir, cmd.Sandbox = y.w, mode.sandbox
			err := cmd.Run(ctx)
			exit, ok := errors.AsType[*client.ExitError](err)
			if !ok {
				t.Errorf("the Go client with %q: %v, want an exit code", mode.name, err)
				continue
			}
			check(fmt.Sprintf("the Go client with %q", mode.name), exit.Status.ExitCode, mode.want)
			if exit.SandboxDenied != (mode.sandbox != nil) {
				t.Errorf("the Go client with %q: SandboxDenied is %t", mode.name, exit.SandboxDenied)
			}
		}
		for _, mode := range modes {
			key := ""
			if mode.name != "" {
				key = ", sandbox: " + mode.name
			}
			file := filepath.Join(w.dir, "home", "troupe.yaml")
			y.file(file, fmt.Sprintf("name: p\nprocesses:\n  writer: {command: [/bin/sh, %q], working_dir: %q%s}\n", script, y.w, key))
			up := startTroupe(t, func(cmd *exec.Cmd) {
				w.as(cmd)
				cmd.Dir = filepath.Dir(file)
			}, "up", "--url", w.url)
			check(fmt.Sprintf("troupe up with %q", mode.name), up.exitCode(), mode.want)
		}
		y.c.call("session/close", obj{})
	})
}
