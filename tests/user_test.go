package tests

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/actors/peer"
	"github.com/b6f6fdd7/troupe/tests/support/hunt"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// stranger is a user without an entry in the system's database.
const stranger = "54321:54322"

// usersFile returns the path of a file for --users-file.
func usersFile(t testing.TB, text string) string {
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// says runs a script to its end and returns the output on stdout and stderr.
func says(t testing.TB, c *conn, id, script string, params obj) string {
	t.Helper()
	all := obj{"argv": sh(script), "mergeStderr": true}
	for k, v := range params {
		all[k] = v
	}
	p := c.start(id, all)
	p.awaitClosed()
	return strings.TrimSpace(p.outputSoFar("stdout"))
}

func wantSays(t *testing.T, c *conn, id, script, want string, params obj) {
	t.Helper()
	if got := says(t, c, id, script, params); got != want {
		t.Errorf("%s: %s\nprints:\n%s\nwant:\n%s", id, script, got, want)
	}
}

// status prints the lines of /proc/self/status about ids and privileges.
const status = `grep -E '^(Uid|Gid|Groups|NoNewPrivs|CapEff|CapPrm|CapInh|CapAmb):' /proc/self/status | tr -s '\t ' ' ' | sed 's/ $//'`

// TestUmaskAndNoNewPrivs: both hold from the first instruction on, also for probes.
func TestUmaskAndNoNewPrivs(t *testing.T) {
	c := startServer(t).session(nil)
	const nnp = `grep NoNewPrivs /proc/self/status | tr -d '\t'`
	wantSays(t, c, "mask", "umask", "0027", obj{"umask": "027"})
	wantSays(t, c, "mask in a directory", "umask; pwd", "0777\n/usr", obj{"umask": "0777", "cwd": "file:///usr"})
	wantSays(t, c, "plain", nnp, "NoNewPrivs:0", nil)
	wantSays(t, c, "no privileges", nnp, "NoNewPrivs:1", obj{"noNewPrivs": true})
	wantSays(t, c, "with limits", nnp+"; umask; ulimit -n", "NoNewPrivs:1\n0077\n100", obj{"noNewPrivs": true, "umask": "77", "limits": obj{"nofile": 100}})
	for _, mask := range []string{"8", "1000", "00022", "-1", "0o22", "u=rwx"} {
		code, text := c.callError("process/start", startParams("x", obj{"argv": sh(""), "umask": mask}))
		if code != -32602 || !strings.Contains(text, "octal") {
			t.Errorf("umask %q: %d %s, want -32602", mask, code, text)
		}
	}

	c = startServer(t, "--no-new-privs").session(nil)
	wantSays(t, c, "by the server", nnp, "NoNewPrivs:1", obj{"noNewPrivs": false})
	wantSays(t, c, "in a tree", "sh -c 'sh -c \"grep NoNewPrivs /proc/self/status\"' | tr -d '\t'", "NoNewPrivs:1", nil)
}

// TestNoNewPrivsByPolicy: the policy decides for all programs of an identity, at each run.
func TestNoNewPrivsByPolicy(t *testing.T) {
	needs.Root(t)
	const nnp = `grep NoNewPrivs /proc/self/status | tr -d '\t'`
	users := usersFile(t, "* default @server\n* "+stranger)
	c := startServer(t, "--users-file", users).session(nil)
	wantSays(t, c, "without a policy", nnp, "NoNewPrivs:0", nil)
	if err := os.WriteFile(users, []byte("* default @server\n* "+stranger+" @no-new-privs"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantSays(t, c, "the server by policy", nnp, "NoNewPrivs:1", obj{"noNewPrivs": false})
	wantSays(t, c, "a user by policy", nnp, "NoNewPrivs:1", obj{"user": stranger})
	for way, run := range startWays(c) {
		if got := run(sh(nnp)); got != "NoNewPrivs:1\n" {
			t.Errorf("%s by policy: %q", way, got)
		}
	}
}

// TestNoNewPrivsGainsNothing: a set-user-ID program of root stays the user.
func TestNoNewPrivsGainsNothing(t *testing.T) {
	needs.Root(t)
	dir := t.TempDir()
	openTo(t, dir)
	suid := install(t, dir, "id", os.ModeSetuid|0o755)
	c := startServer(t, "--users-file", usersFile(t, "* "+stranger)).session(nil)
	wantSays(t, c, "gains", suid+" -u", "0", obj{"user": stranger})
	wantSays(t, c, "gains nothing", suid+" -u", "54321", obj{"user": stranger, "noNewPrivs": true})
}

// openTo lets every user reach dir.
func openTo(t testing.TB, dir string) {
	for d := dir; d != filepath.Dir(os.TempDir()) && d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUser: a program has the user's ids, groups and permissions, and nothing of the server's.
func TestUser(t *testing.T) {
	needs.Root(t)
	s := startServerWith(t, func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Groups: []uint32{4, 27, 54400}}}
	}, "--users-file", usersFile(t, "* default @server\n* "+stranger+" 54321 54329:54329 nobody daemon"))
	c := s.session(nil)
	const ids = "Uid: 54321 54321 54321 54321\nGid: 54322 54322 54322 54322\nGroups:\nCapInh: 0000000000000000\nCapPrm: 0000000000000000\nCapEff: 0000000000000000\nCapAmb: 0000000000000000\nNoNewPrivs: 0"
	as := func(more obj) obj {
		all := obj{"user": stranger}
		for k, v := range more {
			all[k] = v
		}
		return all
	}
	t.Run("ids", func(t *testing.T) {
		wantSays(t, c, "ids", status, ids, as(nil))
		wantSays(t, c, "uid alone", "id -u; id -g; id -G", "54321\n54321\n54321", obj{"user": "54321"})
		wantSays(t, c, "server", "id -u; grep Groups: /proc/self/status | tr -s '\\t ' ' ' | sed 's/ $//'", "0\nGroups: 4 27 54400", nil)
	})
	t.Run("all attributes", func(t *testing.T) {
		wantSays(t, c, "attributes", "umask; ulimit -n; cut -d ' ' -f 19 /proc/self/stat; cat /proc/self/oom_score_adj; ulimit -t",
			"0027\n99\n19\n321\n100", as(obj{"umask": "27", "limits": obj{"nofile": 99, "nice": 19, "oomScoreAdj": 321, "cpuSeconds": 100}}))
	})
	t.Run("files", func(t *testing.T) {
		secret := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(secret, []byte("hidden"), 0o600); err != nil {
			t.Fatal(err)
		}
		openTo(t, filepath.Dir(secret))
		if got := says(t, c, "secret", "cat "+secret, as(nil)); !strings.Contains(got, "Permission denied") {
			t.Errorf("a program read a file of root: %s", got)
		}
		// A path closed to the user does not tell what is there.
		closed := t.TempDir()
		openTo(t, filepath.Dir(closed))
		if err := os.Chmod(closed, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(closed, "there"), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"there", "missing"} {
			code, text := c.callError("process/start", startParams("p", as(obj{"argv": []string{filepath.Join(closed, name)}})))
			if want := fmt.Sprintf("permission denied: program %q", filepath.Join(closed, name)); code != -32603 || text != want {
				t.Errorf("%s: %d %s, want %s", name, code, text, want)
			}
			code, text = c.callError("process/start", startParams("p", as(obj{"argv": sh(""), "cwd": "file://" + filepath.Join(closed, name)})))
			if code != -32603 || !strings.HasSuffix(text, "permission denied") {
				t.Errorf("cwd %s: %d %s, want permission denied", name, code, text)
			}
		}
	})
	t.Run("streams", func(t *testing.T) {
		wantSays(t, c, "streams", "echo out >/dev/stdout; echo err >/dev/stderr; ls /proc/self/fd | wc -w", "out\nerr\n4", as(nil))
	})
	t.Run("terminal", func(t *testing.T) {
		p := c.start("tty", as(obj{"argv": sh("stat -c '%u %a' $(tty); stty size; set -m; sleep 1000 & jobs; kill %1; set +m; echo typed >/dev/tty; read x; stty size; trap 'echo got; exit 7' INT; echo set; while :; do sleep 0.1; done"), "tty": true, "size": obj{"rows": 30, "cols": 90}}))
		p.awaitOutput("pty", "typed")
		if out := p.outputSoFar("pty"); !strings.Contains(out, "54321 6") || !strings.Contains(out, "30 90") || !strings.Contains(out, "Running") {
			t.Errorf("on the terminal: %q", out)
		}
		c.call("process/resize", obj{"processId": "tty", "size": obj{"rows": 31, "cols": 91}})
		p.write("\n")
		p.awaitOutput("pty", "31 91")
		p.awaitOutput("pty", "set")
		p.write("\x03")
		if code, _ := p.awaitClosed(); code != 7 {
			t.Errorf("after ^C: exit code %d, want 7", code)
		}
	})
	t.Run("terminal opened again", func(t *testing.T) {
		dir := t.TempDir()
		openTo(t, dir)
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		owner := "54321 54322 600"
		if g, err := user.LookupGroup("tty"); err == nil {
			owner = "54321 " + g.Gid + " 620"
		}
		tty := as(obj{"tty": true, "env": obj{"PATH": "/usr/bin:/bin", "TERM": "xterm", "HOME": dir, "D": dir}})
		for name, script := range map[string]string{
			"sh":     `[ "$(stat -c '%u %g %a' $(tty))" = "` + owner + `" ] && echo typed >$(tty) && exec <>/dev/tty && [ -w $(tty) ] && echo done >$D/sh`,
			"script": `script -qec 'id -u; echo done >$D/script' /dev/null`,
			"tmux":   `exec tmux -f /dev/null -S $D/socket new-session 'tty && echo done >$D/tmux'`,
		} {
			if _, err := os.Stat("/usr/bin/" + name); err != nil {
				t.Log(err)
				continue
			}
			tty["argv"] = sh(script)
			p := c.start("open again: "+name, tty)
			p.awaitClosed()
			if text, err := os.ReadFile(filepath.Join(dir, name)); string(text) != "done\n" {
				t.Errorf("%s: %q, %v; on the terminal: %q", name, text, err, p.outputSoFar("pty"))
			}
		}
	})
	t.Run("each other", func(t *testing.T) {
		p := c.start("other", obj{"user": "54329:54329", "argv": sh("echo up; sleep 1000"), "env": obj{"PATH": "/usr/bin:/bin", "MINE": "hidden"}})
		p.awaitOutput("stdout", "up")
		defer c.call("process/terminate", obj{"processId": "other"})
		for _, pid := range []int{p.pid(), s.pid()} {
			got := says(t, c, fmt.Sprint("look ", pid), fmt.Sprintf("cat /proc/%d/environ; ls /proc/%[1]d/fd; kill -9 %[1]d", pid), as(nil))
			if strings.Contains(got, "hidden") || strings.Count(got, "ermission denied")+strings.Count(got, "not permitted") != 3 {
				t.Errorf("a program of another user sees or kills %d: %s", pid, got)
			}
		}
	})
	t.Run("tree", func(t *testing.T) {
		for _, contain := range []string{"auto", "marker", "group"} {
			c := startServer(t, "--containment", contain, "--users-file", usersFile(t, "* "+stranger)).session(nil)
			token := newToken(t)
			p := c.start("tree", as(obj{"argv": sh("(setsid /bin/sleep " + token + " &); setsid env -i /bin/sleep " + token + " & echo up; wait")}))
			p.awaitOutput("stdout", "up")
			eventually(t, "both run", func() bool { return len(kin(token)) >= 2 })
			c.call("process/terminate", obj{"processId": "tree", "tree": true})
			wantNoKin(t, "once process/terminate was answered", token)
		}
	})
	t.Run("signal", func(t *testing.T) {
		p := c.start("signal", as(obj{"argv": sh("trap 'exit 9' INT; echo up; while :; do sleep 0.1; done")}))
		p.awaitOutput("stdout", "up")
		c.call("process/signal", obj{"processId": "signal", "signal": "interrupt"})
		if code, _ := p.awaitClosed(); code != 9 {
			t.Errorf("exit code %d, want 9", code)
		}
	})
	t.Run("names", func(t *testing.T) {
		u, err := user.Lookup("nobody")
		needs.Feature(t, err)
		groups, _ := exec.Command("id", "-G", "nobody").Output()
		inherit := obj{"user": "nobody", "envPolicy": obj{"inherit": "core", "ignoreDefaultExcludes": false, "exclude": []string{}, "set": obj{"LOGNAME": "set"}, "includeOnly": []string{}}, "env": obj{}}
		wantSays(t, c, "name", "id -u; id -g; id -G", u.Uid+"\n"+u.Gid+"\n"+strings.TrimSpace(string(groups)), obj{"user": "nobody"})
		wantSays(t, c, "environment", "echo $HOME $USER $LOGNAME", u.HomeDir+" nobody set", inherit)
		wantSays(t, c, "own environment", "echo $HOME,$USER", "/mine,", obj{"user": "nobody", "env": obj{"PATH": "/usr/bin:/bin", "HOME": "/mine"}})
	})
	t.Run("environment of a number", func(t *testing.T) {
		inherit := obj{"inherit": "all", "ignoreDefaultExcludes": false, "exclude": []string{}, "set": obj{}, "includeOnly": []string{}}
		wantSays(t, c, "number", "id -u; echo $HOME,$USER,$LOGNAME", "54321\n/,,", as(obj{"envPolicy": inherit, "env": obj{}}))
	})
}

// TestUsersPolicy: only users that the file has now are accepted; everything else is refused.
func TestUsersPolicy(t *testing.T) {
	needs.Root(t)
	refused := func(t *testing.T, c *conn, name string, code int64, text string) {
		t.Helper()
		params := obj{"argv": sh("id -u")}
		if name != "" {
			params["user"] = name
		}
		got, said := c.callError("process/start", startParams("x", params))
		if got != code || !strings.Contains(said, text) {
			t.Errorf("user %q: %d %s, want %d with %q", name, got, said, code, text)
		}
	}
	t.Run("without a file", func(t *testing.T) {
		c := startServer(t).session(nil)
		refused(t, c, "0", -32602, "--users-file")
		refused(t, c, strings.Repeat("n", 257), -32602, "the limit is 256")
		wantSays(t, c, "own", "id -u", "0", nil)
	})
	t.Run("changes", func(t *testing.T) {
		path := usersFile(t, "* "+stranger+" no-such-user 4294967295 4294967296 0:-1 bob:0\nalice 0 @server\n")
		c := startServer(t, "--users-file", path).session(nil)
		refused(t, c, "0", -32602, "not among the users")
		refused(t, c, "root", -32602, "not among the users")
		refused(t, c, "@server", -32602, "not among the users")
		refused(t, c, "", -32602, "no default user")
		if code, text := c.callError("command/exec", obj{"command": []string{"/usr/bin/id"}, "cwd": "/"}); code != -32602 || !strings.Contains(text, "no default user") {
			t.Errorf("command/exec without a default user: %d %s", code, text)
		}
		refused(t, c, "no-such-user", -32602, "unknown")
		refused(t, c, "4294967295", -32602, "is not a number")
		refused(t, c, "4294967296", -32602, "is not a number")
		refused(t, c, "0:-1", -32602, "is not a number")
		refused(t, c, "bob:0", -32602, "unknown")
		wantSays(t, c, "allowed", "id -u", "54321", obj{"user": stranger})
		write := func(text string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("* default 54323\n")
		refused(t, c, stranger, -32602, "not among the users")
		wantSays(t, c, "default", "id -u", "54323", nil)
		write("* @server\n* default 54323\n")
		wantSays(t, c, "server", "id -u", "0", obj{"user": "@server"})
		write("what is this")
		write("alice\n")
		refused(t, c, "", -32603, "--users-file")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		refused(t, c, "", -32603, "--users-file")
	})
	t.Run("without the privilege", func(t *testing.T) {
		dir := t.TempDir()
		openTo(t, dir)
		path := filepath.Join(dir, "users")
		if err := os.WriteFile(path, []byte("* 54321 54329\n* default @server\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		bin, err := troupeBinary()
		if err != nil {
			t.Fatal(err)
		}
		bin = install(t, dir, bin, 0o755)
		c := startServerWith(t, func(cmd *exec.Cmd) {
			cmd.Path = bin
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
			cmd.Dir = "/"
		}, "--users-file", path).session(nil)
		refused(t, c, "54329", -32603, "lacks CAP_SETUID, CAP_SETGID, CAP_KILL, CAP_CHOWN: start the server as root")
		wantSays(t, c, "own", "id -u", "54321", nil)
		wantSays(t, c, "no privileges", "umask", "0077", obj{"umask": "77", "noNewPrivs": true})
	})
}

// TestStartsAsUsers: with a default user, each way to start a program starts it as that user.
func TestStartsAsUsers(t *testing.T) {
	needs.Root(t)
	wantStartsKnown(t)
	s := startServer(t, "--users-file", usersFile(t, "* default "+stranger))
	for way, run := range startWays(s.session(nil)) {
		if got := run(sh("echo $(id -u) $(id -g) $(id -G)")); got != "54321 54322 54322\n" {
			t.Errorf("%s runs as %q", way, got)
		}
	}
}

// startWays are the ways to start a program, by the params of their methods. Each runs a program, and returns what it prints on stdout.
func startWays(c *conn) map[string]func(argv []string) string {
	ended := func(p *proc) string {
		_, out := p.awaitClosed()
		return out
	}
	return map[string]func(argv []string) string{
		"protocol.ProcessStartParams": func(argv []string) string {
			return ended(c.start("start", obj{"argv": argv}))
		},
		"protocol.GroupStartParams": func(argv []string) string {
			c.call("group/start", groupOf("g", "one_for_one", 1, startParams("member", obj{"argv": argv})))
			return ended(c.process("member"))
		},
		"protocol.ProcessSpawnParams": func(argv []string) string {
			c.spawn("spawn", obj{"command": argv})
			return fmt.Sprint(c.spawnExited("spawn")["stdout"])
		},
		"protocol.CommandExecParams": func(argv []string) string {
			return fmt.Sprint(c.call("command/exec", obj{"command": argv, "cwd": "/"})["stdout"])
		},
		"protocol.FirstExecParams": func(argv []string) string {
			first := c.call("command/exec", obj{"argv": argv, "cwd": "/", "env": obj{"PATH": "/usr/bin:/bin"}, "tty": false})["sessionId"].(string)
			c.awaitOther("command/exec/exited", "sessionId", first)
			out, _ := c.deltas("command/exec/outputDelta", "sessionId", first, "chunk")
			return out["stdout"]
		},
	}
}

// wantStartsKnown fails the test if a method starts a program by params that are not among startWays. Tests that want something of all starts
// call it.
func wantStartsKnown(t *testing.T) {
	t.Helper()
	ways := startWays(nil)
	for method, all := range peer.Methods.Params() {
		for _, params := range all {
			if of := reflect.TypeOf(params); startsProgram(of) && ways[of.String()] == nil {
				t.Errorf("%s starts a program with %v, and is missing in startWays", method, of)
			}
		}
	}
}

// startsProgram reports whether params have the arguments of a program.
func startsProgram(of reflect.Type) bool {
	if of.Kind() != reflect.Struct {
		return false
	}
	for i := range of.NumField() {
		f := of.Field(i)
		if (f.Name == "Argv" || f.Name == "Command") && f.Type.Kind() == reflect.Slice || f.Type.Kind() == reflect.Slice && startsProgram(f.Type.Elem()) {
			return true
		}
	}
	return false
}

// TestRunsAsUsers: every run, every probe and every look of a process is that of its user, and process/info and
// process/list tell the user.
func TestRunsAsUsers(t *testing.T) {
	needs.Root(t)
	path := usersFile(t, "* default "+stranger+"\n* nobody\n")
	c := startServer(t, "--users-file", path).session(obj{"capabilities": obj{"restarted": true, "ready": true, "gap": true}})
	dir := t.TempDir()
	openTo(t, dir)
	if err := os.WriteFile(dir+"/runs", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, dir + "/runs"} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	c.start("p", obj{
		"argv":     sh("id -u >>" + dir + "/runs; [ $(wc -l <" + dir + "/runs) = 3 ] && exec sleep 1000; exit 1"),
		"restart":  obj{"policy": "permanent", "backoff": obj{"initialMs": 1}},
		"liveness": obj{"probe": obj{"argv": sh("id -u >" + dir + "/probe.new; mv " + dir + "/probe.new " + dir + "/probe"), "everyMs": 5}},
	})
	read := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(dir, name))
		return string(text)
	}
	eventually(t, "three runs and a probe", func() bool { return strings.Count(read("runs"), "\n") == 3 && read("probe") != "" })
	if read("runs") != "54321\n54321\n54321\n" || read("probe") != "54321\n" {
		t.Errorf("runs %q, probe %q", read("runs"), read("probe"))
	}
	const user = `{"gid":54322,"name":"54321:54322","uid":54321}`
	if got := jsonText(c.call("process/info", obj{"processId": "p"})["user"]); got != user {
		t.Errorf("process/info has the user %s, want %s", got, user)
	}
	if got := jsonText(c.call("process/list", obj{})["processes"].([]any)[0].(obj)["user"]); got != user {
		t.Errorf("process/list has the user %s, want %s", got, user)
	}
	// The policy changes: the probe stays with its run, and the next run has the new user.
	if err := os.WriteFile(path, []byte("* default 54399\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	os.Remove(filepath.Join(dir, "probe"))
	eventually(t, "another probe", func() bool { return read("probe") != "" })
	if got := read("probe"); got != "54321\n" {
		t.Errorf("after a change of the policy the probe runs as %q", got)
	}
	os.Remove(filepath.Join(dir, "probe")) // of another user, in a directory of everybody
	c.call("process/restart", obj{"processId": "p"})
	eventually(t, "the next run is of the new user", func() bool { return strings.HasSuffix(read("runs"), "54399\n") })
	c.call("process/terminate", obj{"processId": "p", "tree": true})

	// ready does not tell which files are there that the user cannot see.
	closed := t.TempDir()
	openTo(t, filepath.Dir(closed))
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	hidden := filepath.Join(closed, "hidden")
	if err := os.WriteFile(hidden, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{"hidden": hidden, "seen": dir + "/runs"} {
		c.start(name, obj{"argv": sh("exec sleep 1000"), "ready": obj{"file": "file://" + file, "timeoutMs": 0}})
	}
	ready := func(name string) bool { return c.call("process/info", obj{"processId": name})["ready"] == true }
	for name, path := range map[string]string{"hidden socket": closed + "/socket", "seen socket": dir + "/socket"} {
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
		c.start(name, obj{"argv": sh("exec sleep 1000"), "ready": obj{"unix": "file://" + path, "timeoutMs": 0}})
	}
	eventually(t, "a socket that the user reaches makes a process ready", func() bool { return ready("seen socket") })
	eventually(t, "a file that the user sees makes a process ready", func() bool { return ready("seen") })
	c.start("hidden too", obj{"argv": sh("exec sleep 1000"), "ready": obj{"file": "file://" + hidden, "timeoutMs": 200}})
	if code, _ := c.process("hidden too").awaitClosed(); code == 0 || ready("hidden") || ready("hidden socket") {
		t.Error("a file or socket that is closed to the user made a process ready")
	}
}

// TestSnapshotsOfUsers: the state of a shell is captured as the user of the program, and no other user gets it.
func TestSnapshotsOfUsers(t *testing.T) {
	needs.Root(t)
	c := startServer(t, "--users-file", usersFile(t, "* default "+stranger+"\n* 54329:54329 @server")).session(nil)
	home := snapshotHome(t, "id -u >>$HOME/users; export WHO=$(id -u)")
	openTo(t, home)
	if err := os.Chmod(home, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(home+"/users", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(home+"/users", 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(home+"/.bashrc", 0o644); err != nil {
		t.Fatal(err)
	}
	for i, tt := range []struct {
		more obj
		want string
	}{
		{nil, "54321 54321"}, {nil, "54321 54321"}, {obj{"user": "54329:54329"}, "54329 54329"}, {obj{"user": "@server"}, "0 0"}, {nil, "54321 54321"},
		{obj{"noNewPrivs": true}, "54321 54321"}, {obj{"umask": "022"}, "54321 54321"}, {obj{"limits": obj{"nofile": 99}}, "54321 54321"},
	} {
		params := fromSnapshot(home, "echo $WHO $(id -u)")
		for k, v := range tt.more {
			params[k] = v
		}
		p := c.start(nth("p", i), params)
		p.awaitClosed()
		if got := strings.TrimSpace(p.outputSoFar("stdout")); got != tt.want {
			t.Errorf("%v prints %q, want %q", tt.more, got, tt.want)
		}
	}
	users, _ := os.ReadFile(home + "/users")
	if got, want := string(users), "54321\n54329\n0\n54321\n54321\n54321\n"; got != want {
		t.Errorf("captures ran as %q, want %q: one for each user, mask and limit", got, want)
	}
}

// TestFilesOfUsers: each call about files is made as the default user of the identity, with every method, or is refused by name. The
// test finds the methods by their names.
func TestFilesOfUsers(t *testing.T) {
	needs.Root(t)
	dir := openDir(t)
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("hidden"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := usersFile(t, "* default "+stranger)
	r := newRecord(t)
	s := startServer(t, "--users-file", path, "--audit", r.path)
	c := s.session(nil)
	uri := "file://" + secret
	const permission, unknown, byName = "Permission denied (os error 13)", "unknown file handle `h`", "works only as this server's own user"
	methods := map[string]struct {
		params obj
		want   string
	}{
		"fs/open": {obj{"handleId": "o", "path": uri}, permission}, "fs/readBlock": {obj{"handleId": "h", "offset": 0, "len": 10}, unknown},
		"fs/writeBlock": {obj{"handleId": "h", "offset": 0, "chunk": "aGk="}, unknown}, "fs/close": {obj{"handleId": "h"}, ""},
		"fs/writeFile": {obj{"path": uri, "dataBase64": ""}, permission}, "fs/walk": {obj{"path": "file:///root", "options": obj{"maxDepth": 1, "maxDirectories": 1, "maxEntries": 1}}, ""},
		"fs/copy": {obj{"sourcePath": uri, "destinationPath": uri + "2", "recursive": false}, permission}, "fs/remove": {obj{"path": uri, "recursive": false}, permission},
		"fs/createDirectory": {obj{"path": uri + "3", "recursive": false}, permission},
		"fs/rename":          {obj{"sourcePath": uri, "destinationPath": uri + "2"}, permission}, "fs/symlink": {obj{"path": uri + "4", "target": "x"}, permission},
		"fs/setMetadata": {obj{"path": uri, "mode": 0o777}, "Operation not permitted (os error 1)"},
		"fs/readFile":    {obj{"path": uri}, permission}, "fs/getMetadata": {obj{"path": uri}, ""}, "fs/canonicalize": {obj{"path": uri}, ""}, "fs/stat": {obj{"path": uri}, ""},
		"fs/readDirectory": {obj{"path": "file:///root"}, permission}, "fs/list": {obj{"path": "file:///root"}, permission},
		"fs/watchMissing": {obj{"watchId": 1, "missing": []string{uri}}, byName}, "fs/watch": {obj{"watchId": "w", "path": secret}, byName},
		"environmentConfig/read":     {obj{"cwd": "file://" + dir, "configPaths": [][]string{{"x"}}, "requirementsPaths": [][]string{}}, byName},
		"capabilityRoots/discoverV1": {obj{"roots": []obj{{"id": "r", "path": "file://" + dir}}}, byName},
		"capabilities/discoverV2":    {obj{"cwd": "file://" + dir}, byName},
	}
	each := func(want func(method, ofUser string) (code int64, text string)) {
		t.Helper()
		for _, method := range hunt.Methods() {
			about, _, _ := strings.Cut(method, "/")
			if about != "fs" && about != "environmentConfig" && !strings.HasPrefix(about, "capabilit") || method == "fs/unwatch" { // fs/unwatch ends a watch
				continue
			}
			of, ok := methods[method]
			if !ok {
				t.Errorf("%s is missing in this test", method)
				continue
			}
			by := c
			if method == "fs/watch" {
				by = s.dial()
				by.call("initialize", obj{"clientInfo": obj{"name": "n", "version": "1"}})
			}
			wantCode, wantText := want(method, of.want)
			if wantText == "" {
				by.call(method, of.params)
			} else if code, text := by.callError(method, of.params); code != wantCode || !strings.Contains(text, wantText) {
				t.Errorf("%s: %d %s, want %d %s", method, code, text, wantCode, wantText)
			}
		}
	}
	each(func(method, ofUser string) (int64, string) {
		if ofUser == unknown {
			return -32004, unknown
		}
		return -32600, ofUser
	})
	eventually(t, "the refusal of fs/watch in the record", func() bool { return strings.Contains(r.text(), `"method":"fs/watch","refused":`) })
	if text, err := os.ReadFile(secret); string(text) != "hidden" {
		t.Errorf("the file has %q, %v", text, err)
	}
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A handle of the server's user does not outlive the permission.
	write("* default @server\n")
	if got := c.call("fs/readFile", obj{"path": uri})["dataBase64"]; got != "aGlkZGVu" {
		t.Errorf("fs/readFile as the server: %v", got)
	}
	c.call("fs/open", obj{"handleId": "server", "path": uri})
	write("* default " + stranger + " \n* @server\n")
	if code, text := c.callError("fs/readBlock", obj{"handleId": "server", "offset": 0, "len": 10}); code != -32600 || !strings.Contains(text, "was opened as this server's own user") {
		t.Errorf("fs/readBlock of a handle of the server: %d %s", code, text)
	}
	if code, text := c.callError("fs/readFile", obj{"path": uri}); code != -32600 || !strings.Contains(text, permission) {
		t.Errorf("fs/readFile of a default user, with @server beside it: %d %s", code, text)
	}
	write("* " + stranger + " @server\n")
	each(func(string, string) (int64, string) { return -32600, "its --users-file has none for" })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if code, text := c.callError("fs/readFile", obj{"path": uri}); code != -32603 {
		t.Errorf("fs/readFile without a policy: %d %s", code, text)
	}
}

// TestFileCommandsOfUsers: the commands about files work in the home of the user, and nowhere else. All that they make belongs to the
// user. The processes that make the calls end with the server.
func TestFileCommandsOfUsers(t *testing.T) {
	needs.Root(t)
	home, other, roots := openDir(t), openDir(t), openDir(t)
	for dir, uid := range map[string]int{home: 54321, other: 54329} {
		if err := errors.Join(os.Chown(dir, uid, uid), os.Chmod(dir, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(other+"/secret", []byte("hidden"), 0o644), os.Symlink("/etc/shadow", home+"/shadow"), os.Symlink(other, home+"/other")); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, "--users-file", usersFile(t, "* default 54321:54322"))
	troupe := func(args ...string) (out string, code int) {
		t.Helper()
		p := startTroupe(t, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "TROUPE_URL="+s.url) }, args...)
		code = p.exitCode()
		return p.stdout.String() + p.stderr.String(), code
	}
	ok := func(args ...string) string {
		t.Helper()
		out, code := troupe(args...)
		if code != 0 {
			t.Errorf("%v: exit code %d, %s", args, code, out)
		}
		return out
	}
	refused := func(args ...string) {
		t.Helper()
		if out, code := troupe(args...); code == 0 || !strings.Contains(out, "ermission denied") {
			t.Errorf("%v: exit code %d, %s, want permission denied", args, code, out)
		}
	}
	local := t.TempDir()
	if err := errors.Join(os.MkdirAll(local+"/tree/sub", 0o755), os.WriteFile(local+"/tree/sub/f", []byte("content\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	ok("cp", "-r", local+"/tree", ":"+home+"/tree")
	if got := ok("cat", ":"+home+"/tree/sub/f"); got != "content\n" {
		t.Errorf("cat: %q", got)
	}
	ok("cp", "-r", ":"+home+"/tree", local+"/back")
	if text, err := os.ReadFile(local + "/back/sub/f"); string(text) != "content\n" {
		t.Errorf("copied back: %q, %v", text, err)
	}
	for _, name := range []string{"tree", "tree/sub", "tree/sub/f"} {
		var st syscall.Stat_t
		if err := syscall.Lstat(filepath.Join(home, name), &st); err != nil || st.Uid != 54321 || st.Gid != 54322 {
			t.Errorf("%s belongs to %d:%d, %v", name, st.Uid, st.Gid, err)
		}
	}
	if got := ok("ls", ":"+home+"/tree"); got != "sub/\n" {
		t.Errorf("ls: %q", got)
	}
	ok("stat", ":"+home+"/tree")
	ok("rm", "-r", ":"+home+"/tree")
	if out, code := troupe("cat", ":"+home+"/none"); code == 0 || !strings.Contains(out, "o such file") {
		t.Errorf("a missing file: exit code %d, %s", code, out)
	}
	refused("cat", ":"+home+"/shadow")
	refused("cat", ":"+other+"/secret")
	refused("cat", ":"+home+"/other/secret")
	refused("cat", ":"+home+"/../"+filepath.Base(other)+"/secret")
	refused("ls", ":"+other)
	refused("stat", ":"+other+"/secret")
	refused("rm", ":"+other+"/secret")
	refused("cp", local+"/tree/sub/f", ":"+roots+"/f")
	refused("cp", local+"/tree/sub/f", ":"+other+"/new")
}

// withAccount adds a user to a copy of /etc/passwd that only the server sees, and returns the user's home.
func withAccount(t *testing.T, name string, uid int, shell string) (home string, configure func(*exec.Cmd)) {
	t.Helper()
	needs.Mount(t)
	home = openDir(t)
	if err := errors.Join(os.Chown(home, uid, uid), os.Chmod(home, 0o700)); err != nil {
		t.Fatal(err)
	}
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "passwd")
	line := fmt.Sprintf("%s:x:%d:%d::%s:%s\n", name, uid, uid, home, shell)
	if err := os.WriteFile(file, append(passwd, line...), 0o644); err != nil {
		t.Fatal(err)
	}
	return home, func(cmd *exec.Cmd) {
		script := `mount --bind "$0" /etc/passwd && exec "$@"`
		cmd.Args = append([]string{"unshare", "--mount", "sh", "-c", script, file, cmd.Path}, cmd.Args[1:]...)
		cmd.Path = needs.Program(t, "unshare")
	}
}

// TestLoginOfUsers: on a server with users, troupe run starts in the home of the user, with the environment of a login, and without a
// program starts the login shell. In directories and paths ~ is the home.
func TestLoginOfUsers(t *testing.T) {
	needs.Root(t)
	home, configure := withAccount(t, "troupe-anna", 54400, "/bin/bash")
	needs.Program(t, "/bin/bash")
	s := startServerWith(t, configure, "--users-file", usersFile(t, "* default troupe-anna\n* "+stranger))
	troupe := func(stdin string, args ...string) string {
		t.Helper()
		p := startTroupe(t, func(cmd *exec.Cmd) {
			cmd.Env = append(cmd.Env, "TROUPE_URL="+s.url)
			cmd.Stdin = strings.NewReader(stdin)
		}, args...)
		if code := p.exitCode(); code != 0 {
			t.Errorf("%v: exit code %d, %s", args, code, p.stderr.String())
		}
		return p.stdout.String()
	}
	want := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if err := errors.Join(os.Mkdir(home+"/src", 0o755), os.Chown(home+"/src", 54400, 54400), os.WriteFile(home+"/~", []byte("tilde\n"), 0o644), os.WriteFile(home+"/f", []byte("content\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	const vars = "pwd; id -un; echo $HOME,$USER,$LOGNAME,$SHELL"
	person := "troupe-anna\n" + home + ",troupe-anna,troupe-anna,/bin/bash\n"
	want(troupe("", "run", "--", "sh", "-c", vars), home+"\n"+person)
	want(troupe("", "run", "--cwd", "~", "--", "sh", "-c", vars), home+"\n"+person)
	want(troupe("", "run", "--cwd", "~/src", "--env", "USER=mine", "--", "sh", "-c", "pwd; echo $USER"), home+"/src\nmine\n")
	want(troupe("", "run", "--cwd", "/usr", "--", "sh", "-c", vars), "/usr\n"+person)
	want(troupe("", "run", "--user", stranger, "--", "sh", "-c", "pwd; id -u; echo $HOME,$USER"), "/\n54321\n/,\n")
	for _, kv := range strings.Split(troupe("", "run", "--", "env"), "\n") {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "HOME", "USER", "LOGNAME", "SHELL", "PATH", "":
		default:
			if !strings.HasPrefix(name, "LC_") && name != "LANG" {
				t.Errorf("a login has the variable %s", kv)
			}
		}
	}
	want(troupe(vars+"\nshopt -q login_shell && echo $0\n", "run"), home+"\n"+person+"-bash\n")
	want(troupe("", "cat", ":~/f"), "content\n")
	want(troupe("", "cat", ":./~"), "tilde\n")
	want(troupe("", "cat", ":f"), "content\n")
	troupe("", "cp", ":~/f", ":~/src/g")
	want(troupe("", "ls", ":~/src"), "g\n")
	troupe("", "rm", ":~/src/g")
	want(troupe("", "ls", ":~/src"), "")
	if got := troupe("", "stat", ":~"); !strings.Contains(got, home) {
		t.Errorf("stat of ~: %s", got)
	}
	c := s.session(nil)
	info := c.call("environment/info", obj{})
	want(fmt.Sprint(info["userHomeDir"], info["cwd"], info["shell"]), fmt.Sprint("file://"+home, "file://"+home, obj{"name": "bash", "path": "/bin/bash"}))

	// Without users, the shell is that of the server's user.
	s = startServer(t)
	want(troupe("id -u; pwd\n", "run"), "0\n"+homeOf(t, "0")+"\n")
	want(troupe("", "run", "--cwd", "~", "--", "pwd"), homeOf(t, "0")+"\n")
}

// TestLoginShellOfUsers: at a terminal, troupe run without a program is a login shell of the user. Its terminal is the user's and has
// the size of the person's, ^C is for the program in it, and its exit code is that of the command.
func TestLoginShellOfUsers(t *testing.T) {
	needs.Root(t)
	_, configure := withAccount(t, "troupe-anna", 54400, "/bin/bash")
	needs.Program(t, "/bin/bash")
	s := startServerWith(t, configure, "--users-file", usersFile(t, "* default troupe-anna"))
	x := startOnTerminal(t, "run", "--url", s.url)
	x.press("shopt -q login_shell && echo $0, $USER $TERM $(stat -c %u $(tty)) $(stty size)\r")
	x.await("-bash, troupe-anna xterm 54400 30 120")
	x.press("sh -c 'echo sle\"\"eps; exec sleep 1000'\r") // the shell in between is in the foreground before it writes
	x.await("sleeps")
	x.press("\x03")
	x.press("echo code $?\r")
	x.await("code 130")
	x.press("exit 7\r")
	var exit *exec.ExitError
	if err := x.cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("the end: %v, want exit status 7", err)
	}
}

func homeOf(t *testing.T, uid string) string {
	u, err := user.LookupId(uid)
	if err != nil {
		t.Fatal(err)
	}
	return u.HomeDir
}
