//go:build slow && linux

package seccomp

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/needs"
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
			s := serve(t, exec.Command(podman, args...))
			s.call("initialize", `{"clientName":"tests"}`)
			info := s.call("server/info", `{}`).Result.Sandbox
			started := s.call("process/start", `{"processId":"p","argv":["/bin/true"],"cwd":"file:///","env":{},"tty":false,"arg0":null,
				"sandbox":{"permissions":{"type":"managed","network":"restricted","file_system":{"type":"restricted","entries":[
				{"access":"read","path":{"type":"special","value":{"kind":"root"}}}]}},
				"cwd":"file:///","workspaceRoots":["file:///"],"windowsSandboxLevel":"disabled"}}`)
			if c.refusal != "" {
				if why := started.Error.Message; !strings.Contains(why, c.refusal) || !strings.Contains(info.Why, c.refusal) || info.Level != "" {
					t.Errorf("process/start: %q; server/info: %+v; want refusals that name %s", why, info, c.refusal)
				}
				return
			}
			if started.Error.Message != "" || info.Level != "oldProc" || info.Why != "" {
				t.Fatalf("process/start: %q; server/info: %+v; want the level oldProc", started.Error.Message, info)
			}
			if exited := s.await("process/exited"); exited.Params.ExitCode != 0 {
				t.Errorf("the program exited with %d", exited.Params.ExitCode)
			}
			if level := s.call("process/info", `{"processId":"p"}`).Result.SandboxLevel; level != "oldProc" {
				t.Errorf("process/info: level %q, want oldProc", level)
			}
		})
	}
}

// server is a server that reads and writes lines of JSON.
type server struct {
	t     *testing.T
	in    io.Writer
	out   *json.Decoder
	calls int
}

type message struct {
	ID     int
	Method string
	Params struct{ ExitCode int }
	Result struct {
		SandboxLevel string
		Sandbox      sandboxInfo
	}
	Error struct{ Message string }
}

// sandboxInfo is the sandbox of server/info. In process/info, sandbox is a text.
type sandboxInfo struct{ Level, Why string }

func (s *sandboxInfo) UnmarshalJSON(text []byte) error {
	type members sandboxInfo
	if text[0] == '"' {
		return nil
	}
	return json.Unmarshal(text, (*members)(s))
}

// serve starts a server, which ends with the test.
func serve(t *testing.T, cmd *exec.Cmd) *server {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	dead := time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() })
	t.Cleanup(func() {
		in.Close()
		io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("the server: %v\n%s", err, &log)
		}
		dead.Stop()
	})
	return &server{t: t, in: in, out: json.NewDecoder(out)}
}

// call sends a request and returns the answer.
func (s *server) call(method, params string) message {
	s.t.Helper()
	s.calls++
	fmt.Fprintf(s.in, `{"id":%d,"method":%q,"params":%s}`+"\n", s.calls, method, strings.ReplaceAll(params, "\n", " "))
	if method == "initialize" {
		fmt.Fprintln(s.in, `{"method":"initialized","params":{}}`)
	}
	return s.awaits(func(m message) bool { return m.ID == s.calls })
}

// await returns the next notification with this method.
func (s *server) await(method string) message {
	s.t.Helper()
	return s.awaits(func(m message) bool { return m.Method == method })
}

func (s *server) awaits(wanted func(message) bool) message {
	s.t.Helper()
	for {
		var m message
		if err := s.out.Decode(&m); err != nil {
			s.t.Fatalf("the server answers no more: %v", err)
		}
		if wanted(m) {
			return m
		}
	}
}
