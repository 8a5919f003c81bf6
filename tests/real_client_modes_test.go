package tests

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRealClientModes runs the client in each of its modes: commands with and without a terminal, ^C, a trap, commands in the
// background, patches of files, and a cut.
func TestRealClientModes(t *testing.T) {
	t.Parallel()
	eachUser(t, func(t *testing.T, uid int) {
		w := startWarden(t, uid)
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		for _, mode := range []clientMode{
			{name: "read-only", permissions: func(*yard) obj { return readOnly() }},
			{name: "workspace-write", permissions: func(*yard) obj { return workspace("restricted") }, writes: true},
			{name: "workspace-write with the network", permissions: func(*yard) obj { return workspace("enabled") }, writes: true, network: true},
			{name: "danger-full-access", writes: true, writesMetadata: true, network: true, writesOutside: true},
			{name: "profile", permissions: func(y *yard) obj {
				p := managed("restricted", specialEntry("read", "minimal"), specialEntry("write", "project_roots"), globEntry("codex-project-roots://**/*.key"),
					specialEntry("deny", "project_roots", "hidden"), pathEntry("deny", y.w+"/also"), pathEntry("read", "/home/somebody/of/the/client"))
				p["file_system"].(obj)["glob_scan_max_depth"] = 4
				return p
			}, writes: true, hides: true},
		} {
			t.Run(mode.name, func(t *testing.T) {
				y := w.yard(t)
				mode.run(t, y, port)
				y.c.call("session/close", obj{})
				if !mode.writesOutside {
					y.check()
				}
			})
		}
	})
}

// clientMode is a mode of the client, and what a command may do in the mode.
type clientMode struct {
	name        string
	permissions func(y *yard) obj // nil: full access

	writes, writesMetadata, writesOutside, network bool
	hides                                          bool // paths that match the profile, and everything outside that is not minimal
}

func (m *clientMode) run(t *testing.T, y *yard, port string) {
	for name, text := range map[string]string{"hidden/x": "hidden\n", "also": "hidden\n", "a/x.key": "hidden\n"} {
		y.warden.mkdir(t, filepath.Dir(filepath.Join(y.w, name)))
		y.file(filepath.Join(y.w, name), text)
	}
	y.prepared()
	c := newRealClientIn(t, y.warden.in(t), y.w)
	if m.permissions != nil {
		c.mode = m.permissions(y)
	}
	// may runs a command that prints done if it succeeds.
	may := func(what, script string, allowed bool) {
		t.Helper()
		p := c.exec("if "+script+"; then echo done; else echo failed; fi 2>/dev/null", false)
		p.done(0, map[string]string{"stdout": map[bool]string{true: "done\n", false: "failed\n"}[allowed]})
		if t.Failed() {
			t.Fatalf("%s: %s, which is allowed: %v", what, script, allowed)
		}
	}
	may("read", "[ $(cat f) = file ]", true)
	may("write", "echo x >new", m.writes)
	may("metadata", "echo x >.git/x && rm .git/x", m.writesMetadata)
	may("missing metadata", "mkdir .codex && rmdir .codex", m.writesMetadata)
	may("outside", "echo x >"+y.o+"/new", m.writesOutside)
	may("read outside", "cat "+y.o+"/sec >/dev/null", !m.hides)
	may("hidden", "cat hidden/x a/x.key also >/dev/null", !m.hides)
	may("network", "true >/dev/tcp/127.0.0.1/"+port, m.network)
	may("discard", "echo x >/dev/null", true)

	p := c.exec("echo out; echo x >"+y.o+"/denied; exit $?", false)
	c.awaitFact("the end", func() bool { return p.closed || p.failure != "" })
	c.mu.Lock()
	if !m.writesOutside && (*p.exit != 1 || !strings.Contains(p.text("stderr"), erofs) && !m.hides) {
		t.Errorf("a write outside ended with %d: %s", *p.exit, p.text("stderr"))
	}
	c.mu.Unlock()

	c.interrupts()

	background := c.exec("echo begun; sleep 600 && echo long", false)
	background.await("stdout", "begun\n")
	left := c.exec("sleep 600 & echo left", false)
	c.awaitFact("the exit of the shell", func() bool { return left.exit != nil })
	if c.mode == nil {
		left.terminate(false) // the sleep holds the output open
	} else {
		left.done(0, map[string]string{"stdout": "left\n"})
	}

	m.patch(t, c, y)

	// A cut, while a command with a terminal and a command without one run.
	tty := c.exec("stty -echo; echo on; head -n 2; exit 4", true)
	tty.await("pty", "on\r\n")
	ticks := c.exec("for i in $(seq 30); do echo $i; sleep 0.02; done", false)
	ticks.await("stdout", "2\n")
	back := c.cut()
	written := make(chan struct{})
	go func() {
		defer close(written)
		tty.writeStdin("a\n")
	}()
	back()
	<-written
	tty.writeStdin("b\n")
	tty.done(4, map[string]string{"pty": "on\r\na\r\nb\r\n"})
	ticks.done(0, map[string]string{"stdout": numbers(1, 30)})

	background.terminate(true)
	background.done(137, map[string]string{"stdout": "begun\n"})
	c.call("session/close", obj{})
}

// patch makes the calls of a patch: of a new file, of the same file again, and of a file outside, which the client itself
// would refuse.
func (m *clientMode) patch(t *testing.T, c *realClient, y *yard) {
	t.Helper()
	var sandbox any
	if c.mode != nil {
		s := sandboxOf(c.mode, c.work)
		s["policyContext"] = obj{"cwd": fileURI(c.work), "workspaceRoots": []any{fileURI(c.work)}}
		s["userHomeDir"] = fileURI("/home/somebody")
		sandbox = s
	}
	ask := func(method string, params obj) obj {
		params["sandbox"] = sandbox
		return c.await(c.current(), c.ask(c.current(), method, params))
	}
	file := fileURI(c.work, "patched.txt")
	for i, text := range []string{"one\n", "two\n"} {
		for _, method := range []string{"fs/getMetadata", "fs/readFile"} {
			if m := ask(method, obj{"path": file}); (num(errorOf(m)["code"]) == -32004) != (i == 0) && c.mode == nil {
				t.Errorf("%s: %s", method, jsonText(m))
			}
		}
		answer := ask("fs/writeFile", obj{"path": file, "dataBase64": b64(text)})
		if !m.writes {
			if e := errorOf(answer); num(e["code"]) != -32603 || e["message"] != "Read-only file system (os error 30)" {
				t.Errorf("fs/writeFile: %s", jsonText(answer))
			}
			continue
		}
		if errorOf(answer) != nil {
			t.Errorf("fs/writeFile: %s", jsonText(answer))
		}
		if got, err := os.ReadFile(filepath.Join(c.work, "patched.txt")); string(got) != text {
			t.Errorf("the file holds %q (%v), want %q", got, err, text)
		}
	}
	if m.writesOutside {
		return
	}
	for _, path := range []string{filepath.Join(y.o, "patched.txt"), filepath.Join(c.work, ".git/config"), filepath.Join(c.work, ".codex/config.toml")} {
		if e := errorOf(ask("fs/writeFile", obj{"path": fileURI(path), "dataBase64": b64("x")})); e == nil {
			t.Errorf("fs/writeFile has written %s", path)
		} else if code := num(e["code"]); code != -32603 && code != -32004 && code != -32600 {
			t.Errorf("fs/writeFile of %s: %s", path, fmt.Sprint(e))
		}
	}
}
