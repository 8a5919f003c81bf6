//go:build slow && linux

package seccomp

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/transport"
)

// TestContainers starts a server in containers, and a program in a sandbox of the server. With Docker's profile the start is
// refused, and the error says what to do. With the profile of troupe the program runs, and its sandbox has the old /proc.
func TestContainers(t *testing.T) {
	needs.Root(t)
	podman := needs.Program(t, "podman")
	needs.Program(t, "runc")
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil { // without CAP_SYS_RESOURCE no container has more
		t.Fatal(err)
	}
	ours, err := filepath.Abs(profileFile)
	if err != nil {
		t.Fatal(err)
	}
	docker := filepath.Join(t.TempDir(), "docker.json")
	if err := os.WriteFile(docker, compact(t, dockers(t)), 0o644); err != nil {
		t.Fatal(err)
	}
	troupe := filepath.Join(t.TempDir(), "troupe")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", troupe, "github.com/b6f6fdd7/troupe/cmd/troupe").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ordinary := []string{"--user", "1000:1000", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"}
	for _, c := range []struct {
		name, profile string
		refusal       string // "": the program runs
		options       []string
	}{
		{"Docker's profile", docker, "docs/seccomp/troupe.json", nil},
		{"Docker's profile, an ordinary user without capabilities", docker, "docs/seccomp/troupe.json", ordinary},
		{"Docker's profile and CAP_SYS_ADMIN", docker, "docs/seccomp/troupe.json", []string{"--cap-add", "SYS_ADMIN"}},
		{"the profile of troupe", ours, "", nil},
		{"the profile of troupe, an ordinary user without capabilities", ours, "", ordinary},
		{"the profile of troupe, root without capabilities", ours, "CAP_SETFCAP", []string{"--cap-drop", "ALL"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := []string{"--cgroup-manager=cgroupfs", "--storage-driver=vfs", "--runtime", "runc", "run", "--rm", "--interactive", "--network", "none",
				"--ulimit", fmt.Sprintf("nofile=%d:%[1]d", files.Max), "--ulimit", "nproc=1024:1024",
				"--security-opt", "seccomp=" + c.profile, "--volume", troupe + ":/troupe:ro"}
			args = append(append(args, c.options...), "--rootfs", "/:O", "/troupe", "serve", "--listen", "stdio", "--framing", "lines")
			checkSandbox(t, exec.Command(podman, args...), c.refusal)
		})
	}
}

// checkSandbox runs a program in a sandbox of a server, which speaks over its stdin and stdout. With a refusal, the start must fail and name it.
func checkSandbox(t *testing.T, server *exec.Cmd, refusal string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	server.Stderr = &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	dead := context.AfterFunc(ctx, func() { server.Process.Kill() })
	defer func() {
		dead()
		in.Close()
		io.Copy(io.Discard, out) // podman fails if nobody reads the server's last lines
		if err := server.Wait(); err != nil || t.Failed() {
			t.Errorf("the server: %v\n%s", err, &log)
		}
	}()
	c, err := client.Dial(ctx, "", &client.Options{Dialer: func(context.Context) (transport.Conn, error) { return transport.Stdio(io.NopCloser(out), in, nil), nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseSession(ctx)
	about, err := c.ServerInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cmd := c.Command("/bin/true")
	cmd.ID, cmd.Dir, cmd.Sandbox = "p", "/", protocol.ReadOnlySandbox("/")
	err = cmd.Run(ctx)
	switch info := about.Sandbox; {
	case refusal != "":
		if err == nil || !strings.Contains(err.Error(), refusal) || !strings.Contains(info.Why, refusal) || info.Level != "" {
			t.Errorf("the start: %v; server/info: %+v; want refusals that name %s", err, info, refusal)
		}
		return
	case err != nil || info.Level != protocol.SandboxOldProc || info.Why != "":
		t.Fatalf("the program: %v; server/info: %+v; want the level %s", err, info, protocol.SandboxOldProc)
	}
	process, err := c.Process("p").Info(ctx)
	if err != nil || process.SandboxLevel != protocol.SandboxOldProc {
		t.Errorf("process/info: level %q, %v, want %s", process.SandboxLevel, err, protocol.SandboxOldProc)
	}
}
