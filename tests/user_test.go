package tests

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// stranger is a user without an entry in the system's database.
const stranger = "54321:54322"

func asRoot(t testing.TB) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start programs as other users")
	}
}

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
	wantSays(t, c, "in a tree", "sh -c 'sh -c \"grep NoNewPrivs /proc/self/status | tr -d [:blank:]\"'", "NoNewPrivs:1", nil)
}

// TestNoNewPrivsGainsNothing: a set-user-ID program of root stays the user.
func TestNoNewPrivsGainsNothing(t *testing.T) {
	asRoot(t)
	dir := t.TempDir()
	openTo(t, dir)
	suid := filepath.Join(dir, "id")
	id, err := exec.LookPath("id")
	if err != nil {
		t.Skip(err)
	}
	data, err := os.ReadFile(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(suid, data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(suid, 0o4755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
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
	asRoot(t)
	s := startServer(t, "--users-file", usersFile(t, "* "+stranger+" 54321 54329:54329 nobody daemon"))
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
		wantSays(t, c, "server", "id -u", "0", nil)
	})
	t.Run("all attributes", func(t *testing.T) {
		wantSays(t, c, "attributes", "umask; ulimit -n; cut -d ' ' -f 19 /proc/self/stat; cat /proc/self/oom_score_adj; ulimit -t",
			"0027\n99\n5\n321\n100", as(obj{"umask": "27", "limits": obj{"nofile": 99, "nice": 5, "oomScoreAdj": 321, "cpuSeconds": 100}}))
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
		p := c.start("tty", as(obj{"argv": sh("stat -c '%u %a' $(tty); stty size; set -m; sleep 1000 & jobs; kill %1; echo typed >/dev/tty; read x; stty size; trap 'echo got; exit 7' INT; echo set; while :; do sleep 0.1; done"), "tty": true, "size": obj{"rows": 30, "cols": 90}}))
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
	t.Run("each other", func(t *testing.T) {
		p := c.start("other", obj{"user": "54329:54329", "argv": sh("echo up; sleep 1000"), "env": obj{"PATH": "/usr/bin:/bin", "MINE": "hidden"}})
		p.awaitOutput("stdout", "up")
		defer c.call("process/terminate", obj{"processId": "other"})
		for _, pid := range []int{p.pid(), s.cmd.Process.Pid} {
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
		if err != nil {
			t.Skip(err)
		}
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
	asRoot(t)
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
		path := usersFile(t, "* "+stranger+" no-such-user 4294967295 4294967296 0:-1 bob:0\nalice 0\n")
		c := startServer(t, "--users-file", path).session(nil)
		refused(t, c, "0", -32602, "not among the users")
		refused(t, c, "root", -32602, "not among the users")
		refused(t, c, "no-such-user", -32602, "unknown")
		refused(t, c, "4294967295", -32602, "is no number")
		refused(t, c, "4294967296", -32602, "is no number")
		refused(t, c, "0:-1", -32602, "is no number")
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
		answer := c.call("command/exec", obj{"command": []string{"/usr/bin/id", "-u"}, "cwd": "/"})
		if answer["stdout"] != "54323\n" {
			t.Errorf("command/exec runs as %v, want the default user", answer)
		}
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
		if err := os.WriteFile(path, []byte("* 54321 54329\n"), 0o644); err != nil {
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
