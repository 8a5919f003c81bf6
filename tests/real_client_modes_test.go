//go:build slow

package tests

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
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
			{name: "workspace-write", permissions: func(*yard) obj { return workspace("restricted") }, writes: true, writesTemp: true},
			{name: "workspace-write with the network", permissions: func(*yard) obj { return workspace("enabled") }, writes: true, writesTemp: true, network: true},
			{name: "danger-full-access", writes: true, writesTemp: true, writesSecond: true, writesMetadata: true, network: true, writesOutside: true},
			{name: "profile", permissions: func(y *yard) obj {
				p := managed("restricted", specialEntry("read", "minimal"), specialEntry("write", "project_roots"), globEntry("codex-project-roots://**/*.key"),
					specialEntry("deny", "project_roots", "hidden"), pathEntry("deny", y.w+"/also"), pathEntry("read", "/home/somebody/of/the/client"))
				p["file_system"].(obj)["glob_scan_max_depth"] = 4
				return p
			}, writes: true, hides: true},
			{name: "workspace-write without temporary directories", permissions: func(*yard) obj {
				return managed("restricted", slices.Concat([]obj{specialEntry("read", "root"), specialEntry("write", "project_roots")}, metadata)...)
			}, writes: true, onlyFacts: true},
			{name: "workspace-write with writable roots", permissions: func(y *yard) obj {
				return workspace("restricted", pathEntry("write", y.second()), pathEntry("write", y.missing()))
			}, roots: func(y *yard) []string { return []string{y.second(), y.missing()} }, writes: true, writesTemp: true, writesSecond: true, onlyFacts: true},
			{name: "workspace-write with another directory", permissions: func(*yard) obj { return workspace("restricted") },
				roots: func(y *yard) []string { return []string{y.second()} }, writes: true, writesTemp: true, writesSecond: true, onlyFacts: true},
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
	permissions func(y *yard) obj      // nil: full access
	roots       func(y *yard) []string // workspace roots after the first; nil: none

	writes, writesMetadata, writesOutside, network bool
	writesTemp                                     bool // /tmp, and the directory in TMPDIR
	writesSecond                                   bool // the second workspace root, but not its metadata
	hides                                          bool // paths that match the profile, and everything outside that is not minimal
	onlyFacts                                      bool // run only the commands of facts
}

// second is a directory that is a workspace root in some modes. missing is such a path where nothing is.
func (y *yard) second() string  { return filepath.Join(filepath.Dir(y.w), "second") }
func (y *yard) missing() string { return filepath.Join(filepath.Dir(y.w), "missing") }

func (m *clientMode) run(t *testing.T, y *yard, port string) {
	for name, text := range map[string]string{"hidden/x": "hidden\n", "also": "hidden\n", "a/x.key": "hidden\n"} {
		y.warden.mkdir(t, filepath.Dir(filepath.Join(y.w, name)))
		y.file(filepath.Join(y.w, name), text)
	}
	y.warden.mkdir(t, y.second())
	y.warden.mkdir(t, y.second(), ".git")
	y.prepared()
	c := newRealClientIn(t, y.warden.in(t), y.w)
	if m.permissions != nil {
		c.mode = m.permissions(y)
	}
	if m.roots != nil {
		c.roots = m.roots(y)
	}
	m.facts(t, c, y, port)
	if m.onlyFacts {
		c.call("session/close", obj{})
		return
	}

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

// facts runs commands of which each needs a single permission.
func (m *clientMode) facts(t *testing.T, c *realClient, y *yard, port string) {
	t.Helper()
	// may runs a command that prints done if it succeeds.
	may := func(what, script string, allowed bool) {
		t.Helper()
		p := c.exec("if "+script+"; then echo done; else echo failed; fi 2>/dev/null", false)
		c.awaitFact("the end of "+script, func() bool { return p.closed || p.failure != "" })
		c.mu.Lock()
		got := p.text("stdout")
		c.mu.Unlock()
		if want := map[bool]string{true: "done\n", false: "failed\n"}[allowed]; got != want {
			t.Errorf("%s: %s says %q, want %q", what, script, got, want)
		}
		p.done(0, map[string]string{"stdout": got})
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
	may("temporary files", "f=$(mktemp /tmp/troupe-XXXXXX) && rm $f", m.writesTemp)
	may("TMPDIR", `[ "$TMPDIR" = "$HOME" ] && f=$(mktemp "$TMPDIR/XXXXXX") && rm "$f"`, m.writesTemp)
	may("second root", "echo x >"+y.second()+"/new", m.writesSecond)
	may("metadata of the second root", "echo x >"+y.second()+"/.git/x && rm "+y.second()+"/.git/x", m.writesOutside)
	may("missing metadata of the second root", "mkdir "+y.second()+"/.codex && rmdir "+y.second()+"/.codex", m.writesOutside)
	may("missing root", "mkdir "+y.missing()+" && rmdir "+y.missing(), m.writesOutside)
	if _, err := os.Lstat(y.missing()); err == nil {
		t.Errorf("%s is there", y.missing())
	}

	// The path is relative: the name of the directory above has the word sandbox, and would count for sandboxDenied.
	p := c.exec("echo out; echo x >../"+filepath.Base(y.o)+"/denied; exit $?", false)
	c.awaitFact("the end", func() bool { return p.closed || p.failure != "" })
	c.mu.Lock()
	if !m.writesOutside && (*p.exit != 1 || !strings.Contains(p.text("stderr"), erofs) && !m.hides) {
		t.Errorf("a write outside ended with %d: %s", *p.exit, p.text("stderr"))
	}
	c.mu.Unlock()
	// A path that the profile hides is ENOENT, which does not look like a sandbox.
	read := c.call("process/read", obj{"processId": p.id})
	if denied := !m.writesOutside && !m.hides; read["sandboxDenied"] != denied {
		t.Errorf("a write outside has sandboxDenied %v, want %v", read["sandboxDenied"], denied)
	}
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
