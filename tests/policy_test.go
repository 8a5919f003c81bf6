package tests

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/hunt"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// policyFile is the file of --policy-file.
type policyFile struct {
	t    testing.TB
	path string
}

func newPolicy(t testing.TB, text string) policyFile {
	p := policyFile{t, filepath.Join(t.TempDir(), "policy")}
	p.write(text)
	return p
}

// write replaces the file at once, as editors do.
func (p policyFile) write(text string) {
	if err := os.WriteFile(p.path+".new", []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(p.path+".new", p.path); err != nil {
		p.t.Fatal(err)
	}
}

// realDir returns a new directory by a path without links.
func realDir(t testing.TB) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// wantRefusal calls a method that the policy refuses.
func wantRefusal(t testing.TB, c *conn, method string, params obj, text string) {
	t.Helper()
	if code, got := c.callError(method, params); code != -32602 && code != -32600 || !strings.Contains(got, text) {
		t.Errorf("%s %v: %d %s, want %q", method, params, code, got, text)
	}
}

func noProgram(name string) string {
	return fmt.Sprintf("program %q is not allowed by the policy of this server (run)", name)
}

// linkTo makes a link, and returns its name.
func linkTo(t testing.TB, target, name string) string {
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
	return name
}

// appClient returns a connection that speaks the wire of the app-server.
func appClient(t testing.TB, s *server) *conn {
	c := s.in(t).dial()
	c.call("initialize", obj{"clientInfo": obj{"name": "n", "version": "1"}, "capabilities": obj{"experimentalApi": true}})
	return c
}

// TestPolicyOfPrograms: every way to start a program obeys the policy, and no other name of a program helps.
func TestPolicyOfPrograms(t *testing.T) {
	t.Parallel()
	dir := realDir(t)
	script := filepath.Join(dir, "script")
	if err := writeProgram(script, []byte("#!/bin/sh\necho hi\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	toID, toTrue := linkTo(t, "/usr/bin/id", filepath.Join(dir, "to-id")), linkTo(t, "/usr/bin/true", filepath.Join(dir, "to-true"))
	linkTo(t, "/usr/bin/id", filepath.Join(dir, "true"))
	policy := newPolicy(t, "* cwd /\n* run /bin/true "+script+"\n* run /usr/bin/c?t")
	s := startServer(t, "--policy-file", policy.path)
	env := obj{"PATH": dir + ":/usr/bin"}

	t.Run("names of programs", func(t *testing.T) {
		c := s.in(t).session(nil)
		for argv0, cwd := range map[string]string{
			"/usr/bin/true": "/", "/bin/true": "/", "true": "/", toTrue: "/", "./to-true": dir, "to-true": dir,
			"../" + filepath.Base(dir) + "/to-true": dir, script: "/", "/usr/bin/cut": "/", "/usr/bin/../bin/true": "/",
		} {
			params := obj{"argv": []string{argv0}, "cwd": "file://" + cwd, "env": env}
			if argv0 == "true" {
				params["env"] = obj{"PATH": "/usr/bin"}
			}
			c.start("named "+argv0, params).awaitClosed()
		}
		for argv0, cwd := range map[string]string{
			"/usr/bin/id": "/", "id": "/", toID: "/", "./to-id": dir, "to-id": "/", "true": "/" /* a link to id */, "usr/bin/id": "/",
			"/usr/bin/../bin/id": "/", "/proc/self/root/usr/bin/id": "/", "/proc/self/exe": "/", "/proc/self/cwd/usr/bin/id": "/",
			"/bin/sh": "/", "/usr/bin/cat2": "/", "no-such-program": "/", "/no/such": "/", "/usr/bin/no-such-program": "/", "/root": "/",
		} {
			wantRefusal(t, c, "process/start", startParams("q", obj{"argv": []string{argv0}, "cwd": "file://" + cwd, "env": env}), noProgram(argv0))
		}
		// arg0 is what the program sees, and decides nothing.
		wantRefusal(t, c, "process/start", startParams("q", obj{"argv": []string{"/usr/bin/id"}, "arg0": "/usr/bin/true"}), noProgram("/usr/bin/id"))
		// A missing program that the policy names may be told.
		if code, text := c.callError("process/start", startParams("q", obj{"argv": []string{"/usr/bin/c\u00e9t"}})); !strings.Contains(text, "no such program") {
			t.Error(code, text)
		}
	})
	t.Run("ways to start", func(t *testing.T) {
		c := s.in(t).session(nil)
		wantStartsKnown(t)
		const id = "/usr/bin/id"
		c.call("group/start", obj{"groupId": "g", "processes": []any{startParams("member", obj{"argv": []string{id}})}})
		if exited := c.process("member").awaitExit(); !strings.Contains(fmt.Sprint(exited["reason"]), "it could not be started: ") || !strings.Contains(fmt.Sprint(exited["reason"]), "policy") {
			t.Errorf("%v, want a refused start", exited)
		}
		wantRefusal(t, c, "command/exec", obj{"command": []string{id}, "cwd": "/"}, noProgram(id))
		wantRefusal(t, c, "command/exec", obj{"argv": []string{id}, "cwd": "/", "env": obj{}, "tty": false, "sessionId": "x"}, noProgram(id))
		app := appClient(t, s)
		wantRefusal(t, app, "process/spawn", obj{"command": []string{id}, "cwd": "/", "processHandle": "h"}, noProgram(id))
		wantRefusal(t, app, "command/exec", obj{"command": []string{id}, "cwd": "/"}, noProgram(id))
		if answer := app.call("command/exec", obj{"command": []string{"/usr/bin/cat", "/dev/null"}, "cwd": "/"}); num(answer["exitCode"]) != 0 {
			t.Error(answer)
		}
		// A probe.
		p := c.start("probed", obj{"argv": []string{"/usr/bin/cat"}, "pipeStdin": true,
			"liveness": obj{"probe": obj{"argv": []string{id}, "everyMs": 1, "failures": 2}}})
		if exited := p.awaitExit(); !strings.Contains(fmt.Sprint(exited["reason"]), noProgram(id)) {
			t.Errorf("%v, want a failed probe", exited)
		}
		// A shell is refused, and so is the capture of its state.
		home := snapshotHome(t, "")
		wantRefusal(t, c, "process/start", startParams("q", fromSnapshot(home, "true")), noProgram("/bin/bash"))
		if _, err := os.Stat(filepath.Join(home, "captures")); err == nil {
			t.Error("a shell has run")
		}
	})
	t.Run("restart", func(t *testing.T) {
		c := s.in(t).session(obj{"capabilities": obj{"restarted": true}})
		p := c.start("again", obj{"argv": []string{"/usr/bin/cat"}, "pipeStdin": true, "restart": obj{"policy": "permanent", "backoff": obj{"initialMs": 1, "maxMs": 1, "factor": 1}}})
		policy.write("* cwd /\n* run /usr/bin/true")
		c.call("process/restart", obj{"processId": "again"})
		p.awaitClosed()
		policy.write("* cwd /")
		wantRefusal(t, c, "process/start", startParams("q", obj{"argv": []string{"/usr/bin/true"}}), noProgram("/usr/bin/true"))
		policy.write("* cwd /\n* run /** \n* never-run /bin/id")
		wantRefusal(t, c, "process/start", startParams("q", obj{"argv": []string{toID}}), noProgram(toID))
		c.start("p", obj{"argv": []string{"/usr/bin/true"}}).awaitClosed()
	})
}

// TestPolicyOfProgramsAgainstSwaps: whatever a link becomes after the look, no other program runs.
func TestPolicyOfProgramsAgainstSwaps(t *testing.T) {
	t.Parallel()
	dir := realDir(t)
	link := linkTo(t, "/usr/bin/true", filepath.Join(dir, "link"))
	c := startServer(t, "--policy-file", newPolicy(t, "* cwd /\n* run /usr/bin/true").path).session(nil)
	swapping(t, link, "/usr/bin/true", "/usr/bin/id")
	ran, refused := 0, 0
	for i := 0; i < 2000 && (i < 100 || ran == 0 || refused == 0); i++ {
		answer := c.reply(c.request("process/start", startParams(fmt.Sprint(i), obj{"argv": []string{link}})))
		if answer["error"] != nil {
			refused++
			continue
		}
		ran++
		if _, out := c.process(fmt.Sprint(i)).awaitClosed(); out != "" {
			t.Fatalf("id has run: %s", out)
		}
	}
	if ran == 0 || refused == 0 {
		t.Errorf("%d starts, %d refused: the swaps did not meet the looks", ran, refused)
	}
}

// swapping lets a link lead to one target and to the other, in turns, until the test ends.
func swapping(t testing.TB, link string, targets ...string) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			os.Symlink(targets[i%len(targets)], link+".new")
			os.Rename(link+".new", link)
		}
	})
	t.Cleanup(func() { close(stop); wg.Wait() })
}

func noCwd(dir string) string {
	return fmt.Sprintf("cwd %q is not allowed by the policy of this server (cwd)", dir)
}

// TestPolicyOfDirectories: programs begin in an allowed directory, also while its links change.
func TestPolicyOfDirectories(t *testing.T) {
	t.Parallel()
	dir := realDir(t)
	root, secret := filepath.Join(dir, "root"), filepath.Join(dir, "secret")
	for _, d := range []string{root + "/a/b", secret} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	linkTo(t, "a/b", root+"/inside")
	for name, target := range map[string]string{"up": "../secret", "out": secret, "magic": "/proc/self/root", "none": "../none", "loop": "loop"} {
		linkTo(t, target, root+"/"+name)
	}
	s := startServer(t, "--policy-file", newPolicy(t, "* run /**\n* cwd "+root).path)
	c := s.session(nil)
	pwd := func(cwd string) obj { return obj{"argv": []string{"/bin/pwd", "-P"}, "cwd": "file://" + cwd} }
	for cwd, want := range map[string]string{"": "", "/a": "/a", "/inside": "/a/b", "/a/../a/./b": "/a/b"} {
		if _, out := c.start("p"+cwd, pwd(root+cwd)).awaitClosed(); out != root+want+"\n" {
			t.Errorf("%q: a program begins in %q", cwd, out)
		}
	}
	if answer := c.call("command/exec", obj{"command": []string{"/bin/pwd", "-P"}, "cwd": root + "/a"}); answer["stdout"] != root+"/a\n" {
		t.Error(answer)
	}
	for _, cwd := range []string{"/", "/etc", "/no/such", secret, dir, root + "2", root + "/../secret", root + "/up", root + "/out", root + "/none", root + "/none/x", root + "/magic", root + "/up/x", "/proc/self/cwd", "/proc/self/root" + root} {
		wantRefusal(t, c, "process/start", startParams("q", pwd(cwd)), noCwd(filepath.Clean(cwd)))
		wantRefusal(t, c, "command/exec", obj{"command": []string{"/bin/pwd"}, "cwd": cwd}, noCwd(filepath.Clean(cwd)))
	}
	for cwd, want := range map[string]string{"/no": "does not exist", "/loop": "symbolic links"} {
		if _, text := c.callError("process/start", startParams("q", pwd(root+cwd))); !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %s", cwd, text, want)
		}
	}
	wantRefusal(t, c, "command/exec", obj{"command": []string{"/bin/pwd"}}, "is not allowed by the policy of this server (cwd)")

	// Starts with steps of their own between fork and exec.
	for name, more := range map[string]obj{"umask": {"umask": "22"}, "limits": {"limits": obj{"nofile": 50}}, "user": {"user": "54321"}} {
		flags := []string{"--policy-file", newPolicy(t, "* run /**\n* cwd "+root).path}
		if name == "user" {
			if os.Geteuid() != 0 {
				continue
			}
			openTo(t, root)
			flags = append(flags, "--users-file", usersFile(t, "* 54321"))
		}
		params := pwd(root + "/inside")
		maps.Copy(params, more)
		if _, out := startServer(t, flags...).session(nil).start("p", params).awaitClosed(); out != root+"/a/b\n" {
			t.Errorf("%s: a program begins in %q", name, out)
		}
	}

	swap := linkTo(t, "a", root+"/swap")
	swapping(t, swap, "a", "../secret")
	ran, refused := 0, 0
	for i := 0; i < 2000 && (i < 100 || ran == 0 || refused == 0); i++ {
		name := fmt.Sprint("s", i)
		answer := c.reply(c.request("process/start", startParams(name, pwd(swap))))
		if answer["error"] != nil {
			refused++
			continue
		}
		ran++
		if _, out := c.process(name).awaitClosed(); out != root+"/a\n" {
			t.Fatalf("a program began in %q", out)
		}
	}
	if ran == 0 || refused == 0 {
		t.Errorf("%d starts, %d refused: the swaps did not meet the looks", ran, refused)
	}
}

// TestPolicyOfVariables: no program gets a hidden variable, wherever it comes from.
func TestPolicyOfVariables(t *testing.T) {
	t.Parallel()
	dirtyServer := func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "HIDDEN_BY_SERVER=1") }
	s := startServerWith(t, dirtyServer, "--policy-file", newPolicy(t, "* run /**\n* cwd /\n* hide HIDDEN_* *_pass?").path)
	c := s.session(nil)
	dirty := obj{"PATH": "/usr/bin", "KEPT": "1", "HIDDEN_A": "1", "hidden_b": "1", "X_PASSW": "1"}
	policy := obj{"inherit": "all", "exclude": []string{}, "set": obj{"HIDDEN_SET": "1"}, "includeOnly": []string{}, "ignoreDefaultExcludes": true}
	check := func(what, out string) {
		t.Helper()
		if up := strings.ToUpper(out); strings.Contains(up, "HIDDEN") || strings.Contains(up, "X_PASSW") || !strings.Contains(out, "KEPT=1") {
			t.Errorf("%s has the environment\n%s", what, out)
		}
	}
	_, out := c.start("p", obj{"argv": []string{"/usr/bin/env"}, "env": dirty, "envPolicy": policy}).awaitClosed()
	check("a process", out)
	answer := c.call("command/exec", obj{"command": []string{"/usr/bin/env"}, "cwd": "/", "env": dirty})
	check("command/exec", fmt.Sprint(answer["stdout"]))
	home := snapshotHome(t, "export HIDDEN_C=1 KEPT=1")
	from := fromSnapshot(home, "true; env")
	from["argv"] = []string{"/bin/bash", "-lc", "env"}
	from["env"] = obj{"HOME": home, "PATH": "/usr/bin", "HIDDEN_A": "1"}
	probe := filepath.Join(t.TempDir(), "probe")
	c.start("probed", obj{"argv": []string{"/usr/bin/cat"}, "pipeStdin": true, "env": dirty,
		"liveness": obj{"probe": obj{"argv": append(sh(`env >"$0.new"; mv "$0.new" "$0"`), probe), "everyMs": 1}}})
	eventually(t, "the probe has run", func() bool { _, err := os.Stat(probe); return err == nil })
	env, err := os.ReadFile(probe)
	if err != nil {
		t.Fatal(err)
	}
	check("a probe", string(env))
}

// TestPolicyOfIdentities: each identity has its own rule, restarts of the server read the file, and a file
// that is wrong at the start is refused.
func TestPolicyOfIdentities(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	policy := newPolicy(t, "alice run /usr/bin/true\nalice cwd /tmp\n")
	r := newRecord(t)
	s := startServer(t, "--policy-file", policy.path, "--auth-token-file", k.path("tokens"), "--audit", r.path)
	alice, bob := s.as("token-of-alice-in-plain", nil), s.as("token-of-bob-which-is-stored-as-a-hash", nil)
	alice.start("p", obj{"argv": []string{"/usr/bin/true"}}).awaitClosed()
	wantRefusal(t, alice, "process/start", startParams("q", obj{"argv": []string{"/usr/bin/id", "planted-argument"}}), noProgram("/usr/bin/id"))
	wantRefusal(t, bob, "process/start", startParams("q", obj{"argv": []string{"/usr/bin/true"}}), noCwd("/tmp"))
	policy.write("alice run /usr/bin/true\nalice cwd /tmp\n* run /usr/bin/id\n* cwd /tmp\n")
	bob.start("p", obj{"argv": []string{"/usr/bin/id"}}).awaitClosed()
	wantRefusal(t, alice, "process/start", startParams("q", obj{"argv": []string{"/usr/bin/id"}}), noProgram("/usr/bin/id"))
	policy.write("alice run /usr/bin/id\nalice boom")
	wantRefusal(t, alice, "process/start", startParams("q", obj{"argv": []string{"/usr/bin/id"}}), noProgram("/usr/bin/id"))
	if err := os.Remove(policy.path); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, alice, "process/start", startParams("q", obj{"argv": []string{"/usr/bin/id"}}), noProgram("/usr/bin/id"))
	eventually(t, "refusals are on record", func() bool {
		return strings.Count(r.text(), `"event":"process.refused"`) == 5 && strings.Count(r.text(), `"reason":"not allowed by the policy (run)"`) == 4 && strings.Contains(r.text(), `"reason":"not allowed by the policy (cwd)"`)
	})
	eventually(t, "the log of the server says that the policy is wrong", func() bool {
		out := s.stderr.String()
		return strings.Count(out, "the last right one stays in use") == 2 && strings.Contains(out, "line 2: want IDENTITY WORD VALUE")
	})

	for text, want := range map[string]string{
		"alice runs /x": "policy: line 1: runs /x: unknown word",
		"alice run x":   "policy: line 1: run x: write an absolute path",
	} {
		policy.write(text)
		p := startTroupe(t, nil, "serve", "--listen", "ws://127.0.0.1:0", "--policy-file", policy.path)
		if code := p.exitCode(); code != 1 || !strings.Contains(p.stderr.String(), "--policy-file: ") || !strings.Contains(p.stderr.String(), want) {
			t.Errorf("%q: exit code %d, %s", text, code, p.stderr.String())
		}
	}
}

// listen listens on a unix socket until the test ends. The path of a socket is short, so listen goes by a
// descriptor of its directory.
func listen(t testing.TB, path string) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
}

// TestPolicyOfReadiness: the server looks for readiness only at paths that the policy lets the client read.
func TestPolicyOfReadiness(t *testing.T) {
	t.Parallel()
	dir := realDir(t)
	if err := os.Mkdir(dir+"/root", 0o755); err != nil {
		t.Fatal(err)
	}
	linkTo(t, "../secret", dir+"/root/out")
	if err := errors.Join(os.Mkdir(dir+"/secret", 0o700), os.WriteFile(dir+"/secret/file", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	listen(t, dir+"/secret/socket")
	c := startServer(t, "--policy-file", newPolicy(t, "* run /**\n* cwd /\n* read "+dir+"/root").path).session(obj{"capabilities": obj{"ready": true}})
	for _, kind := range []string{"file", "unix"} {
		for _, path := range []string{"/secret", "/none", "/root2"} {
			wantRefusal(t, c, "process/start", startParams("q", obj{"argv": []string{"/usr/bin/true"}, "ready": obj{kind: "file://" + dir + path}}),
				fmt.Sprintf("path %q is not allowed by the policy of this server (read)", dir+path))
		}
	}
	for name, ready := range map[string]obj{"file": {"file": "file://" + dir + "/root/up"}, "socket": {"unix": "file://" + dir + "/root/socket"}} {
		p := c.start(name, obj{"argv": []string{"/usr/bin/cat"}, "pipeStdin": true, "ready": ready})
		if name == "file" {
			linkTo(t, "none", dir+"/root/up")
		} else {
			listen(t, dir+"/root/socket")
		}
		c.awaitFact(name+" is ready", func() bool { return len(p.readies) == 1 })
	}
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: dir + "/root/stale"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	for name, ready := range map[string]obj{
		"file outside":              {"file": "file://" + dir + "/root/out/file"},
		"socket outside":            {"unix": "file://" + dir + "/root/out/socket"},
		"socket without a listener": {"unix": "file://" + dir + "/root/stale"},
	} {
		ready["timeoutMs"] = 300
		p := c.start(name, obj{"argv": []string{"/usr/bin/cat"}, "pipeStdin": true, "ready": ready})
		if exited := p.awaitExit(); exited["reason"] != "not ready after 300ms" {
			t.Errorf("%s: %v", name, exited)
		}
	}
}

// BenchmarkStartUnderPolicy compares starts without a policy, under a rule of programs, and in a directory of
// the policy.
func BenchmarkStartUnderPolicy(b *testing.B) {
	for name, flags := range map[string][]string{
		"none":    nil,
		"program": {"--policy-file", newPolicy(b, "* run /usr/bin/true\n* cwd /").path},
		"cwd":     {"--policy-file", newPolicy(b, "* run /usr/bin/true\n* cwd /tmp").path},
	} {
		b.Run(name, func(b *testing.B) {
			c := startServer(b, append(flags, "--closed-retention", "0")...).session(nil)
			for i := 0; b.Loop(); i++ {
				c.start(nth("p", i), obj{"argv": []string{"/usr/bin/true"}}).awaitClosed()
			}
		})
	}
}

// fileCallsAt are the params of each method about files, with a path where the method has one. Methods of the
// app-server take paths, the others URIs.
var fileCallsAt = map[string]func(path string) obj{
	"fs/readFile":        func(p string) obj { return obj{"path": p} },
	"fs/open":            func(p string) obj { return obj{"handleId": "h", "path": p} },
	"fs/writeFile":       func(p string) obj { return obj{"path": p, "dataBase64": "aGk="} },
	"fs/createDirectory": func(p string) obj { return obj{"path": p + "/new", "recursive": true} },
	"fs/getMetadata":     func(p string) obj { return obj{"path": p} },
	"fs/canonicalize":    func(p string) obj { return obj{"path": p} },
	"fs/readDirectory":   func(p string) obj { return obj{"path": p} },
	"fs/walk": func(p string) obj {
		return obj{"path": p, "options": obj{"maxDepth": 1, "maxDirectories": 1, "maxEntries": 1, "followDirectorySymlinks": true}}
	},
	"fs/remove": func(p string) obj { return obj{"path": p + "/new", "recursive": false, "force": false} },
	"fs/copy": func(p string) obj {
		return obj{"sourcePath": p + "/x", "destinationPath": p + "/y", "recursive": false}
	},
	"fs/stat":         func(p string) obj { return obj{"path": p, "follow": true} },
	"fs/list":         func(p string) obj { return obj{"path": p} },
	"fs/rename":       func(p string) obj { return obj{"sourcePath": p + "/x", "destinationPath": p + "/y"} },
	"fs/symlink":      func(p string) obj { return obj{"path": p + "/new", "target": "x"} },
	"fs/setMetadata":  func(p string) obj { return obj{"path": p, "mode": 0} },
	"fs/watchMissing": func(p string) obj { return obj{"watchId": 1, "missing": []string{p}, "present": []string{}} },
	"fs/watch":        func(p string) obj { return obj{"watchId": "w", "path": p} },
	"environmentConfig/read": func(p string) obj {
		return obj{"cwd": p, "configPaths": [][]string{{"x"}}, "requirementsPaths": [][]string{}}
	},
	"capabilityRoots/discoverV1": func(p string) obj { return obj{"roots": []obj{{"id": "r", "path": p}}} },
	"capabilities/discoverV2":    func(p string) obj { return obj{"cwd": p} },
}

// onAppServer are the methods about files that the app-server has.
var onAppServer = []string{"fs/readFile", "fs/writeFile", "fs/createDirectory", "fs/getMetadata", "fs/readDirectory", "fs/remove", "fs/copy", "fs/watch"}

// TestPolicyOfFiles: every method about files obeys the policy, on both wires. What a client learns is the same
// whether there is a file or not.
func TestPolicyOfFiles(t *testing.T) {
	t.Parallel()
	dir := realDir(t)
	for _, d := range []string{"root/d", "outside/d", "doc"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"outside/file", "outside/x", "root/d/file", "doc/file"} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte("planted"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"up": "../outside", "abs": dir + "/outside", "none": "../none", "absnone": "/none", "magic": "/proc/self/root" + dir + "/outside"} {
		linkTo(t, target, dir+"/root/"+name)
	}
	policy := newPolicy(t, "* write "+dir+"/root\n* read "+dir+"/doc\n")
	r := newRecord(t)
	s := startServer(t, "--policy-file", policy.path, "--audit", r.path)
	c, app := s.session(nil), appClient(t, s)

	// Every other method has nothing to do with files of a path, or starts programs (TestPolicyOfPrograms), or is
	// about an open file.
	others := map[string]bool{"fs/readBlock": true, "fs/writeBlock": true, "fs/close": true, "fs/unwatch": true}
	for _, method := range hunt.Methods() {
		about, _, _ := strings.Cut(method, "/")
		switch {
		case fileCallsAt[method] != nil || others[method]:
		case slices.Contains([]string{"initialize", "initialized", "session", "server", "cluster", "process", "group", "command", "http", "environment"}, about):
		default:
			t.Errorf("%s is missing in this test: does it read files?", method)
		}
	}

	outside := []string{"/etc/passwd", "/no/such", dir + "/outside", dir + "/outside/file", dir + "/none", dir, "/", dir + "/root/../outside/file", dir + "/root2", "/proc/self/root" + dir + "/root/d/file",
		dir + "/root/up/file", dir + "/root/up/none", dir + "/root/abs/file", dir + "/root/none/file", dir + "/root/absnone/file", dir + "/root/magic/file", dir + "/root/up/d", dir + "/root/abs/none/none"}
	refused := func(c *conn, method string, path, shown string, uri bool) {
		t.Helper()
		if uri {
			path = "file://" + path
		}
		code, text := c.callError(method, fileCallsAt[method](path))
		if code != -32600 || !strings.Contains(text, " is not allowed by the policy of this server (") || strings.Contains(text, "planted") {
			t.Errorf("%s of %s: %d %s, want a refusal", method, path, code, text)
		}
		if !strings.HasPrefix(method, "fs/") {
			return
		}
		if want := "path \"" + filepath.Clean(shown); !strings.Contains(text, want) {
			t.Errorf("%s of %s: %s, want %s", method, path, text, want)
		}
	}
	for method := range fileCallsAt {
		for _, path := range outside {
			if method != "fs/watch" {
				refused(c, method, path, path, true)
			}
			if slices.Contains(onAppServer, method) {
				refused(app, method, path, path, false)
			}
		}
	}
	// The exec-server's rule about links changes nothing.
	for _, path := range outside {
		wantRefusalOrLink := func(method string) {
			params := fileCallsAt[method]("file://" + path)
			params["followSymlinks"] = false
			if code, text := c.callError(method, params); !strings.Contains(text, "not allowed by the policy") && !strings.Contains(text, "Not a directory") {
				t.Errorf("%s of %s without links: %d %s", method, path, code, text)
			}
		}
		for _, method := range []string{"fs/readFile", "fs/writeFile", "fs/getMetadata", "fs/remove"} {
			wantRefusalOrLink(method)
		}
	}
	for _, path := range []string{dir + "/root/%2e%2e/outside/file", dir + "/root/..%2Foutside/file", dir + "/root/d/%2e%2e%2f%2e%2e/outside/file",
		dir + `/root\..\outside\file`, "/proc/self/fd/0", "/proc/self/environ", "/proc/self/cwd/x", "/dev/fd/0", dir + "/root/%00/../../outside/file"} {
		for _, uri := range []string{"file://" + path, "file://localhost" + path, "file:" + path, "FILE:///" + path} {
			if code, text := c.callError("fs/readFile", obj{"path": uri}); strings.Contains(text, "planted") || !strings.Contains(text, "not allowed by the policy") && !strings.Contains(text, "invalid") && !strings.Contains(text, "NUL") {
				t.Errorf("%s: %d %s, want a refusal", uri, code, text)
			}
		}
	}
	// Both ends of a copy count, and reading does not allow to change.
	for _, ends := range [][2]string{{"/doc/file", "/doc/new"}, {"/outside/file", "/root/new"}, {"/root/d/file", "/outside/new"}, {"/root/up/file", "/root/new"}, {"/root/d/file", "/root/up/new"}} {
		wantRefusal(t, c, "fs/copy", obj{"sourcePath": "file://" + dir + ends[0], "destinationPath": "file://" + dir + ends[1], "recursive": false}, "not allowed by the policy")
		wantRefusal(t, app, "fs/copy", obj{"sourcePath": dir + ends[0], "destinationPath": dir + ends[1]}, "not allowed by the policy")
	}
	for _, method := range []string{"fs/writeFile", "fs/createDirectory", "fs/remove", "fs/rename", "fs/symlink", "fs/setMetadata"} {
		refused(c, method, dir+"/doc/file", dir+"/doc/file", true)
	}
	wantRefusal(t, c, "fs/open", obj{"handleId": "h", "path": "file://" + dir + "/doc/file", "mode": "replace"}, "(write)")
	for _, mode := range []string{"replace", "update"} {
		wantRefusal(t, c, "fs/open", obj{"handleId": "h", "path": "file://" + dir + "/root/up/file", "mode": mode}, "(write)")
	}
	for _, ends := range [][2]string{{"/root/d/file", "/outside/new"}, {"/outside/file", "/root/new"}, {"/root/up/file", "/root/new"}, {"/root/d/file", "/root/up/new"}, {"/doc/file", "/root/new"}} {
		wantRefusal(t, c, "fs/rename", obj{"sourcePath": "file://" + dir + ends[0], "destinationPath": "file://" + dir + ends[1]}, "not allowed by the policy")
	}

	// Inside everything works.
	c.call("fs/copy", obj{"sourcePath": "file://" + dir + "/doc/file", "destinationPath": "file://" + dir + "/root/copied", "recursive": false})
	c.call("fs/open", obj{"handleId": "w", "path": "file://" + dir + "/root/blocks", "mode": "replace"})
	c.call("fs/writeBlock", obj{"handleId": "w", "offset": 0, "chunk": "aGk="})
	c.call("fs/close", obj{"handleId": "w"})
	app.call("fs/writeFile", obj{"path": dir + "/root/new", "dataBase64": "aGk="})
	for _, name := range []string{"/root/copied", "/root/blocks", "/root/new", "/doc/file"} {
		c.call("fs/readFile", obj{"path": "file://" + dir + name})
		app.call("fs/readFile", obj{"path": dir + name})
	}
	app.call("fs/watch", obj{"watchId": "in", "path": dir + "/root/d/watched"})
	c.call("fs/watchMissing", obj{"watchId": 7, "missing": []string{"file://" + dir + "/root/d/watched"}})
	c.call("fs/writeFile", obj{"path": "file://" + dir + "/root/d/watched", "dataBase64": ""})
	app.awaitOther("fs/changed", "watchId", "in")
	c.awaitFact("fs/watchMissing tells", func() bool { return strings.Contains(jsonText(c.other), `"watchId":7`) })
	c.call("fs/remove", obj{"path": "file://" + dir + "/root/up"}) // the link, not its target
	if names, err := filepath.Glob(dir + "/outside/*"); err != nil || len(names) != 3 {
		t.Errorf("outside there is %q, %v", names, err)
	}
	eventually(t, "refusals are on record", func() bool {
		return strings.Contains(r.text(), `"method":"fs/readFile","refused":"not allowed by the policy"`) &&
			strings.Contains(r.text(), `"event":"file.change"`) && strings.Contains(r.text(), `"error":"not allowed by the policy"`)
	})

	// A client that may read everything may call the methods that read files wherever they are.
	policy.write("* read /\n* write " + dir + "/root")
	c.call("fs/readFile", obj{"path": "file://" + dir + "/root/abs/file"})
	for _, method := range []string{"environmentConfig/read", "capabilityRoots/discoverV1", "capabilities/discoverV2", "fs/watchMissing"} {
		c.call(method, fileCallsAt[method]("file://"+dir))
	}
	wantRefusal(t, c, "fs/writeFile", obj{"path": "file://" + dir + "/root/abs/file", "dataBase64": "aGk="}, "(write)")
}

// TestPolicyOfUsers: the policy binds programs of other users, who can see neither its file nor its links.
func TestPolicyOfUsers(t *testing.T) {
	t.Parallel()
	needs.Root(t)
	closed := realDir(t)
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	toID, toTrue := linkTo(t, "/usr/bin/id", closed+"/id"), linkTo(t, "/usr/bin/true", closed+"/true")
	for name, lines := range map[string]string{"run": "* run " + toTrue, "never-run": "* run /**\n* never-run " + toID} {
		c := startServer(t, "--policy-file", newPolicy(t, lines+"\n* cwd /").path, "--users-file", usersFile(t, "* default "+stranger)).session(nil)
		wantRefusal(t, c, "process/start", startParams("q", obj{"argv": []string{"/usr/bin/id"}}), noProgram("/usr/bin/id"))
		if code, _ := c.start(name, obj{"argv": []string{"/usr/bin/true"}}).awaitClosed(); code != 0 {
			t.Errorf("%s: exit code %d", name, code)
		}
	}
}
