package tests

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSandboxLife: each run of a confined program is confined, and so is each member of a group, and each probe. What a jail does for
// its program (streams, terminal, signals, limits, ends) is tested in actors/child.
func TestSandboxLife(t *testing.T) {
	t.Parallel()
	asOrdinary(t, testSandboxLife)
}

func testSandboxLife(t *testing.T, uid int) {
	startWarden(t, uid).run(t, lifeRows)
}

var lifeRows = []sandboxRow{
	{"restart", func(y *yard) {
		y.c.close()
		y.c = y.warden.in(y.t).session(restarted)
		p := y.start(`echo $PPID; echo x >>runs; mkdir .codex 2>/dev/null || echo refused; exit 3`, obj{"restart": restart("transient", 2)})
		p.awaitClosed()
		if got := p.story(); got != "exited, restarted 2, exited, restarted 3, exited, evicted, closed" {
			y.t.Error(got)
		}
		if got := p.outputSoFar("stdout"); got != strings.Repeat("1\nrefused\n", 3) {
			y.t.Errorf("the runs say %q", got)
		}
		if text, err := os.ReadFile(y.w + "/runs"); string(text) != "x\nx\nx\n" {
			y.t.Errorf("%q, %v", text, err)
		}
	}},
	{"restart of what can be confined no more", func(y *yard) {
		y.c.close()
		y.c = y.warden.in(y.t).session(restarted)
		sub := y.warden.mkdir(y.t, y.w, "sub")
		p := y.start(`echo run >>runs; [ "$(cat runs)" = run ] || exit 4; echo up; read x; exit 3`, obj{"pipeStdin": true, "restart": restart("permanent", 2),
			"permissions": workspace("restricted", pathEntry("write", sub))})
		p.awaitOutput("stdout", "up\n")
		if err := cmp.Or(os.Rename(sub, y.w+"/other"), os.Symlink("other", sub)); err != nil {
			y.t.Fatal(err)
		}
		p.write("\n")
		p.awaitClosed()
		for _, end := range p.ends[1:] {
			if reason := fmt.Sprint(end["reason"]); num(end["exitCode"]) != 127 || !strings.Contains(reason, "crosses the symbolic link") {
				y.t.Errorf("the end of a run that was not confined: %s", jsonText(end))
			}
		}
		if len(p.ends) != 3 {
			y.t.Errorf("%d ends of runs, want 3: %s", len(p.ends), p.story())
		}
		if text, err := os.ReadFile(y.w + "/runs"); string(text) != "run\n" {
			y.t.Errorf("%q, %v", text, err)
		}
	}},
	{"group", func(y *yard) {
		y.c.close()
		y.c = y.warden.in(y.t).session(knowing)
		member := func(id, script string, more obj) obj { return y.params(id, script, more) }
		y.c.call("group/start", obj{"groupId": "g", "processes": []any{
			member("first", `echo up; echo x 2>/dev/null >$O/x || echo refused; sleep 1000`, obj{"ready": obj{"line": "^refused$"}}),
			member("second", `echo second; mkdir .codex; sleep 1000`, obj{"dependsOn": []string{"first"}, "permissions": readOnly()}),
		}})
		y.c.process("second").awaitOutput("stderr", "\n")
		y.c.call("group/stop", obj{"groupId": "g"})
		first, second := y.end(y.c.process("first")), y.end(y.c.process("second"))
		first.wantOut("up\nrefused\n")
		second.wantOut("second\n")
	}},
	{"usage", func(y *yard) {
		p := y.start(`i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; echo done; read x`, obj{"pipeStdin": true})
		p.awaitOutput("stdout", "done\n")
		info := y.c.call("process/info", obj{"processId": p.id})
		usage, _ := info["usage"].(obj)
		of := "program"
		if info["containment"] == "cgroup" {
			of = "tree"
		}
		if usage["of"] != of || num(usage["userMs"]) < 10 || num(usage["memoryBytes"]) < 100<<10 {
			y.t.Errorf("the usage of a loop is %s, and its containment is %v", jsonText(usage), info["containment"])
		}
		p.write("\n")
		y.end(p)
		if rusage, _ := p.awaitExit()["rusage"].(obj); num(rusage["userMs"]) < 10 || num(rusage["maxRssBytes"]) < 100<<10 {
			y.t.Errorf("the run has used %s", jsonText(rusage))
		}
	}},
	{"msgpack", func(y *yard) {
		y.c.close()
		s := y.warden.in(y.t)
		s.packed = true
		y.c = s.session(nil)
		r := y.run(`echo x; echo x >$O/sec`, nil)
		r.wantOut("x\n")
		r.wantErrors(erofs)
		r.wantCode(2, true)
		y.wantRefused(-32602, obj{"permissions": obj{"type": "open"}})
		e := errorOf(y.c.reply(y.c.request("fs/writeFile", obj{"path": fileURI(y.o, "x"), "dataBase64": b64("x"), "sandbox": sandboxOf(workspace("restricted"), y.w)})))
		if num(e["code"]) != -32603 {
			y.t.Errorf("fs/writeFile: %s", jsonText(e))
		}
	}},
	{"the session ends", func(y *yard) {
		token := newToken(y.t)
		for _, tty := range []bool{false, true} {
			p := y.start(`trap '' HUP TERM; echo up; setsid sleep `+token+` & sleep `+token, obj{"tty": tty})
			p.awaitOutput(map[bool]string{false: "stdout", true: "pty"}[tty], "up")
		}
		eventually(y.t, "all sleep", func() bool { return sleepers(token) == 4 })
		y.c.call("session/close", obj{})
		wantNoKin(y.t, "once session/close was answered", token)
		y.check()
		y.c = y.warden.in(y.t).session(nil)
	}},
	{"probes", func(y *yard) {
		y.c.close()
		y.c = y.warden.in(y.t).session(knowing)
		// A probe is as confined as its program: the file outside cannot be made.
		probe := obj{"probe": obj{"argv": sh(`echo x 2>/dev/null >$O/probed && exit 1; echo x >probed`), "everyMs": 20}}
		p := y.start(`sleep 1000`, obj{"ready": probe})
		y.c.awaitFact("ready", func() bool { return len(p.readies) > 0 })
		if _, err := os.Stat(y.w + "/probed"); err != nil {
			y.t.Error(err)
		}
		y.c.call("process/terminate", obj{"processId": p.id})
		y.end(p)
	}},
	{"globs", func(y *yard) {
		y.file(y.w+"/.env", "hidden\n")
		y.file(y.w+"/a/.env", "hidden\n")
		y.file(y.w+"/a/key.pem", "hidden\n")
		y.file(y.w+"/a/plain", "plain\n")
		more := obj{"permissions": workspace("restricted", globEntry("**/.env"), globEntry("codex-project-roots://**/*.pem"), globEntry(y.w+"/a/[st]"))}
		r := y.run(`cat .env a/.env a/key.pem a/s; cat a/plain; echo new >a/new.pem; cat a/new.pem; mv .env e; rm .env`, more)
		r.wantOut("plain\nnew\n")
		r.wantErrors(eacce, eacce, eacce, eacce, ebusy, ebusy)
	}},
	{"kinds of permissions", func(y *yard) {
		y.run(`echo x >$W/d; cat d`, obj{"permissions": obj{"type": "disabled"}}).wantOut("x\n")
		external := obj{"permissions": obj{"type": "external", "network": "restricted"}}
		y.run(`echo x >$W/e; cat e; grep NoNewPrivs /proc/self/status | tr -d '\t'`, external).wantOut("x\nNoNewPrivs:1\n")
		y.wantTries(external, "tcp 127.0.0.1:9: EPERM", "netlink: EPERM", "ptrace-child: EPERM")
		unrestricted := obj{"permissions": obj{"type": "managed", "network": "enabled", "file_system": obj{"type": "unrestricted"}}}
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			y.t.Fatal(err)
		}
		defer l.Close()
		y.wantTries(unrestricted, "tcp "+l.Addr().String()+": ok")
		// Files are as they are: so is a file outside.
		y.file(y.o+"/free", "")
		y.run(`echo x >$O/free; rm $O/free`, external).wantErrors("")
		y.prepared()
		delete(y.before, y.o+"/free")
		p := y.start(`setsid sleep 0.2 & echo done`, external) // as without a sandbox, descendants live on
		y.end(p).wantOut("done\n")
		y.run(`kill -9 $$`, external).wantCode(137, false)
		if code, _ := y.refused("", obj{"argv": []string{"nosuchprog"}, "permissions": external["permissions"]}); code != -32603 {
			y.t.Errorf("a missing program: %d", code)
		}
		// Nothing may be read: then no program can run.
		if code, text := y.refused("true", obj{"permissions": managed("restricted")}); code != -32603 && code != -32602 {
			y.t.Errorf("without any path: %d %s", code, text)
		}
	}},
	{"command/exec", func(y *yard) {
		dir := filepath.Dir(y.w)
		for _, test := range []struct {
			members obj
			want    string
		}{
			{nil, "inside outside "},
			{obj{"sandboxPolicy": obj{"type": "dangerFullAccess"}}, "inside outside "},
			{obj{"sandboxPolicy": obj{"type": "externalSandbox"}}, "inside outside "},
			{obj{"sandboxPolicy": obj{"type": "readOnly"}}, ""},
			{obj{"permissionProfile": ":read-only"}, ""},
			{obj{"sandboxPolicy": obj{"type": "workspaceWrite"}}, "inside "},
			{obj{"permissionProfile": ":workspace"}, "inside "},
			{obj{"sandboxPolicy": obj{"type": "workspaceWrite", "writableRoots": []string{dir}}}, "inside outside "},
		} {
			result := y.c.call("command/exec", with(obj{"command": sh(`echo x > inside; echo x > ../outside; echo end`), "cwd": y.w}, test.members))
			written := ""
			for _, path := range []string{y.w + "/inside", dir + "/outside"} {
				if os.Remove(path) == nil {
					written += filepath.Base(path) + " "
				}
			}
			if written != test.want || result["stdout"] != "end\n" {
				y.t.Errorf("%s: %q is written, want %q; %s", jsonText(test.members), written, test.want, jsonText(result))
			}
		}
	}},
	// The state of a shell is captured in the sandbox of the start, and a start with another sandbox does not get it.
	{"state of a shell", func(y *yard) {
		home := y.warden.mkdir(y.t, y.w, "home")
		y.file(home+"/.profile", "echo x > "+home+"/mark\nif [ -e "+home+"/mark ]; then export FROM=outside; else export FROM=inside; fi\n")
		for _, permissions := range []obj{readOnly(), readOnly(), {"type": "disabled"}} {
			r := y.run("", y.ofLogin(home, "echo $FROM", permissions))
			if permissions["type"] == "disabled" {
				r.wantOut("outside\n")
			} else if _, err := os.Lstat(home + "/mark"); err == nil || r.out != "inside\n" {
				y.t.Errorf("the startup files ran %q, want inside; there is a file: %v", r.out, err == nil)
			}
		}
	}},
	// The TMPDIR that startup files leave behind reaches the command, but the sandbox permits to write only to the TMPDIR of the start.
	{"TMPDIR of a shell", func(y *yard) {
		home := y.warden.mkdir(y.t, y.w, "home")
		y.file(home+"/.profile", "export TMPDIR="+y.o+"\n")
		r := y.run("", y.ofLogin(home, "echo $TMPDIR; echo x > $TMPDIR/new", workspace("restricted")))
		r.wantOut(y.o + "\n")
		r.wantErrors(erofs)
	}},
}

// ofLogin are the params of a start that wants the state of a login shell.
func (y *yard) ofLogin(home, script string, permissions obj) obj {
	return obj{
		"argv": []string{"/bin/sh", "-lc", script}, "env": obj{"HOME": home}, "permissions": permissions,
		"shellSnapshot": obj{"scopeId": "s", "shell": obj{"name": "sh", "path": "/bin/sh"}},
	}
}
