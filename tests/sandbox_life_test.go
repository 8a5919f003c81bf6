package tests

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/needs"
)

// TestSandboxLife: what a server does for a program, it does for a confined program, too.
func TestSandboxLife(t *testing.T) {
	t.Parallel()
	asOrdinary(t, testSandboxLife)
}

func testSandboxLife(t *testing.T, uid int) {
	w := startWarden(t, uid)
	for _, row := range lifeRows {
		t.Run(row.name, func(t *testing.T) {
			y := w.yard(t)
			row.test(y)
			y.c.call("session/close", obj{})
			y.check()
		})
	}
}

var lifeRows = []struct {
	name string
	test func(y *yard)
}{
	{"resume over a cut", func(y *yard) {
		p := y.start(`while read x; do echo "got $x"; echo x 2>/dev/null >$O/x || echo refused; done; exit 4`, obj{"pipeStdin": true})
		p.write("1\n")
		p.awaitOutput("stdout", "got 1\nrefused\n")
		tty := y.start(`stty -echo; echo on; read x; echo "got $x"`, obj{"tty": true})
		tty.awaitOutput("pty", "on")
		for i := 2; i < 5; i++ {
			y.c.cutRST()
			y.c = y.warden.in(y.t).session(obj{"resumeSessionId": y.c.sessionID, "resumeFrom": obj{p.id: 0, tty.id: 0}})
			p, tty = y.c.process(p.id), y.c.process(tty.id)
			p.write(fmt.Sprintln(i))
			p.awaitOutput("stdout", fmt.Sprintf("got %d\nrefused\n", i))
		}
		y.c.call("process/closeStdin", obj{"processId": p.id})
		y.end(p).wantCode(4, false)
		tty.write("typed\n")
		if r := y.end(tty); !strings.Contains(r.out, "got typed") {
			y.t.Errorf("on the terminal: %q", r.out)
		}
	}},
	{"much input and output", func(y *yard) {
		data := bytes.Repeat([]byte("0123456789abcdef"), 3<<16) // 3 MiB
		p := y.start(`tee copy | cat`, obj{"pipeStdin": true})
		for part := range slices.Chunk(data, 128<<10) {
			p.write(string(part))
		}
		y.c.call("process/closeStdin", obj{"processId": p.id})
		r := y.end(p)
		if r.out != string(data) {
			y.t.Errorf("%d bytes came back of %d", len(r.out), len(data))
		}
		if got, err := os.ReadFile(y.w + "/copy"); !bytes.Equal(got, data) {
			y.t.Errorf("the file has %d bytes of %d, %v", len(got), len(data), err)
		}
	}},
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
	{"limits", func(y *yard) {
		limits := obj{"nofile": 50, "nice": 17, "oomScoreAdj": 500, "coreBytes": 0, "fileSizeBytes": 1 << 20, "cpuSeconds": 100, "addressSpaceBytes": 1 << 30}
		r := y.run(`ulimit -n; ulimit -Hn; cut -d ' ' -f 19 /proc/self/stat; cat /proc/self/oom_score_adj; ulimit -c; ulimit -t; ulimit -v; umask`, obj{"limits": limits, "umask": "027"})
		r.wantOut("50\n50\n17\n500\n0\n100\n1048576\n0027\n")
		if r = y.run(`head -c 2000000 /dev/zero >big`, obj{"limits": limits}); r.code == 0 {
			y.t.Error("a file may be larger than its limit")
		}
		if r = y.run(`while :; do :; done`, obj{"limits": obj{"cpuSeconds": 1}}); r.signal != "SIGXCPU" && r.signal != "SIGKILL" {
			y.t.Errorf("beyond cpuSeconds: %d %q", r.code, r.signal)
		}
		if y.warden.uid != 0 { // root is exempt
			r = y.run(`for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 1000 & done; echo all`, obj{"limits": obj{"processes": 12}})
			if r.out == "all\n" && r.errors == "" {
				y.t.Error("a user may have more processes than its limit")
			}
		}
	}},
	{"cgroup", func(y *yard) {
		contained := y.c.call("server/info", nil)["containment"] == "cgroup"
		p := y.start(`echo up; exec sleep 1000`, nil)
		p.awaitOutput("stdout", "up\n")
		controllers := ""
		if contained {
			// "0::/…" is the directory of the process in cgroup v2.
			leaf := map[int]string{}
			for _, pid := range append(childrenOf(p.pid()), p.pid()) {
				text, err := os.ReadFile(inProc(pid, "cgroup"))
				if err != nil {
					y.t.Fatal(err)
				}
				_, rest, _ := strings.Cut("\n"+string(text), "\n0::")
				leaf[pid], _, _ = strings.Cut(rest, "\n")
			}
			var dirs []string // the leaves of the server
			for _, dir := range cgroupsOf(y.t, y.warden.cmd.Process.Pid) {
				leaves, err := filepath.Glob(dir + "/*/cgroup.procs")
				if err != nil {
					y.t.Fatal(err)
				}
				for _, file := range leaves {
					dirs = append(dirs, filepath.Dir(file))
				}
			}
			i := slices.IndexFunc(dirs, func(dir string) bool { return strings.HasSuffix(dir, leaf[p.pid()]) })
			if i < 0 || leaf[p.pid()] == "" || len(leaf) < 2 {
				y.t.Fatalf("the jail and its program are in %v, and the server has the leaves %q", leaf, dirs)
			}
			for pid, of := range leaf {
				if of != leaf[p.pid()] {
					y.t.Errorf("process %d is in the cgroup %s, and its jail in %s", pid, of, leaf[p.pid()])
				}
			}
			procs, err := os.ReadFile(dirs[i] + "/cgroup.procs")
			if n := len(strings.Fields(string(procs))); err != nil || n != len(leaf) {
				y.t.Errorf("the leaf has %d processes, want the %d of the sandbox; %v", n, len(leaf), err)
			}
			text, _ := os.ReadFile(dirs[i] + "/cgroup.controllers")
			controllers = " " + strings.TrimSpace(string(text)) + " "
		}
		y.c.call("process/terminate", obj{"processId": p.id})
		y.end(p)
		for _, limit := range []struct {
			controller, name, script string
			limits                   obj
		}{
			{"pids", "pids", `for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 1000 & done; echo all`, obj{"pids": 20}},
			{"memory", "memoryBytes", `x=x; while :; do x=$x$x; done`, obj{"memoryBytes": 32 << 20}},
		} {
			id := "limited by " + limit.name
			answer := y.c.reply(y.c.request("process/start", y.params(id, limit.script, obj{"limits": limit.limits})))
			if !strings.Contains(controllers, " "+limit.controller+" ") {
				text := fmt.Sprint(errorOf(answer)["message"])
				if num(errorOf(answer)["code"]) != -32603 || !strings.Contains(text, "limits."+limit.name+" needs the "+limit.controller+" controller of cgroup v2") {
					y.t.Errorf("%s without its controller (there are%s): %s", limit.name, controllers, jsonText(answer))
				}
				y.check()
				continue
			}
			if errorOf(answer) != nil {
				y.t.Errorf("%s: %s", limit.name, jsonText(answer))
				continue
			}
			switch r := y.end(y.c.process(id)); limit.name {
			case "pids":
				if r.out == "all\n" && r.errors == "" {
					y.t.Error("a tree may have more processes than its limit")
				}
			case "memoryBytes": // the kernel kills the program, or its jail
				if end := y.c.process(id).awaitExit(); r.signal != "SIGKILL" || end["oomKilled"] != true {
					y.t.Errorf("beyond memoryBytes: %s", jsonText(end))
				}
			}
			y.check()
		}
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
	{"timeout", func(y *yard) {
		p := y.start(`echo up; sleep 1000 & setsid sleep 1000`, obj{"timeoutMs": 300})
		p.awaitClosed()
		if got := statusOf(p.awaitExit()); got != "143 SIGTERM timed out" {
			y.t.Error(got)
		}
		for ms := 300; ; ms *= 2 { // a slow machine needs longer to set the trap
			p = y.start(`trap '' TERM; echo up; while :; do sleep 1000; done`, obj{"timeoutMs": ms, "killGraceMs": 100})
			_, out := p.awaitClosed()
			if out == "" && ms < 30_000 {
				continue
			}
			if got := p.awaitExit(); got["timedOut"] != true || got["signal"] != "SIGKILL" {
				y.t.Errorf("with TERM ignored: %s", jsonText(got))
			}
			break
		}
	}},
	{"signals", func(y *yard) {
		for signal, script := range map[string]string{"hangup": "HUP", "interrupt": "INT", "quit": "QUIT", "terminate": "TERM", "usr1": "USR1", "usr2": "USR2"} {
			p := y.start(`trap 'echo got; exit 5' `+script+`; echo set; while :; do sleep 0.05; done`, nil)
			p.awaitOutput("stdout", "set\n")
			if answer := y.c.reply(y.c.request("process/signal", obj{"processId": p.id, "signal": signal})); errorOf(answer) != nil {
				y.t.Errorf("signal %s: %s", signal, jsonText(errorOf(answer)))
				y.c.call("process/terminate", obj{"processId": p.id})
				y.end(p)
				continue
			}
			if r := y.end(p); r.code != 5 || r.out != "set\ngot\n" {
				y.t.Errorf("signal %s: exit code %d, %q", signal, r.code, r.out)
			}
		}
		p := y.start(`echo up; i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done`, nil)
		p.awaitOutput("stdout", "3\n")
		y.c.call("process/signal", obj{"processId": p.id, "signal": "stop"})
		eventually(y.t, "the program is stopped", func() bool { return stoppedTree(p.pid()) })
		y.c.call("process/signal", obj{"processId": p.id, "signal": "continue"})
		last := strings.Count(p.outputSoFar("stdout"), "\n")
		p.awaitOutput("stdout", fmt.Sprintf("\n%d\n", last+2))
		y.c.call("process/signal", obj{"processId": p.id, "signal": "kill"})
		if r := y.end(p); r.code != 137 || r.signal != "SIGKILL" {
			y.t.Errorf("after kill: %d %q", r.code, r.signal)
		}
		p = y.start(`trap '' TERM HUP; echo up; setsid sleep 1000 & sleep 1000; sleep 1000`, nil)
		p.awaitOutput("stdout", "up\n")
		y.c.call("process/terminate", obj{"processId": p.id, "tree": true})
		y.end(p)
	}},
	{"second viewer", func(y *yard) {
		p := y.start(`echo up; read x; echo "got $x"`, obj{"tty": true, "size": obj{"rows": 30, "cols": 90}})
		p.awaitOutput("pty", "up")
		viewer := y.warden.in(y.t).observe(y.c.sessionID, obj{"resumeFrom": obj{p.id: 0}})
		viewer.process(p.id).awaitOutput("pty", "up")
		p.write("it\n")
		viewer.process(p.id).awaitOutput("pty", "got it")
		y.end(p).wantCode(0, false)
		viewer.process(p.id).awaitClosed()
		y.run(`stty size`, obj{"tty": true, "size": obj{"rows": 31, "cols": 91}}).wantOut("31 91\r\n")
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
	{"snapshot of a shell", func(y *yard) {
		home := y.warden.mkdir(y.t, y.w, "home")
		y.file(home+"/.bashrc", "greet() { echo hi; echo x >$O/sec; }\nprintf x >>$HOME/captures\necho x >$O/sec\n")
		snapshot := obj{"argv": []string{"/bin/bash", "-lc", "greet; exit 6"}, "env": obj{"HOME": home}, "shellSnapshot": obj{"scopeId": "s", "shell": obj{"name": "bash", "path": "/bin/bash"}}}
		for range 2 {
			r := y.run("", snapshot)
			r.wantOut("hi\n")
			r.wantCode(6, true)
		}
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
		depth := workspace("restricted", globEntry("**/.env"))
		depth["file_system"].(obj)["glob_scan_max_depth"] = 1
		y.run(`cat .env; cat a/.env`, obj{"permissions": depth}).wantOut("hidden\n")
	}},
	{"no workspace roots", func(y *yard) {
		sandbox := sandboxOf(workspace("restricted"), y.w)
		sandbox["workspaceRoots"] = []any{}
		y.run(`echo x >new; cat f`, obj{"sandbox": sandbox}).wantOut("file\n")
		sandbox = sandboxOf(workspace("restricted"), y.o)
		sandbox["policyContext"] = obj{"cwd": fileURI(y.w), "workspaceRoots": []any{fileURI(y.w)}}
		r := y.run(`echo x >new; cat new; echo x >$O/sec`, obj{"sandbox": sandbox})
		r.wantOut("x\n")
		r.wantErrors(erofs)
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
	{"denied or not", func(y *yard) {
		for script, want := range map[string]bool{
			`echo "Permission denied" >&2; exit 1`:                         true,
			`echo "PERMISSION DENIED"; exit 1`:                             true,
			`echo "operation not permitted"; exit 127`:                     true,
			`printf "read-only fi"; sleep 0.1; printf "le system"; exit 1`: true,
			`echo seccomp; exit 2`:                                         true,
			`echo Sandbox; exit 126`:                                       true,
			`echo failed to write file; exit 3`:                            true,
			`kill -SYS $$`:                                                 true,
			`exit 159`:                                                     true,
			`echo "Permission denied"; exit 0`:                             false,
			`exit 1`:                                                       false,
			`exit 127`:                                                     false,
			`echo Network is unreachable; exit 1`:                          false,
			`echo permission; echo denied; exit 1`:                         false,
			`head -c 200000 /dev/zero; echo landlock; head -c 200000 /dev/zero; exit 1`: true,
		} {
			r := y.run(script, nil)
			if r.denied != want {
				y.t.Errorf("%s: sandboxDenied is %v, want %v", script, r.denied, want)
			}
			if result := y.c.call("process/read", obj{"processId": nth("sandboxed", y.starts), "afterSeq": nil, "maxBytes": nil, "waitMs": 0}); result["sandboxDenied"] != want {
				y.t.Errorf("%s: in process/read sandboxDenied is %v, want %v", script, result["sandboxDenied"], want)
			}
		}
		y.run(`echo "Permission denied"; exit 1`, obj{"tty": true}).wantCode(1, true)
		y.run(`printf "land"; printf "lock" >&2; exit 1`, obj{"tty": true}).wantCode(1, true) // one pty for both streams
		p := y.c.start("plain", obj{"argv": sh(`echo "Permission denied"; exit 1`)})
		y.end(p).wantCode(1, false)
	}},
	{"two servers", func(y *yard) {
		other := &warden{uid: y.warden.uid, dir: y.warden.dir}
		other.serve(y.t, nil)
		second := *y
		second.warden, second.c = other, other.in(y.t).session(nil)
		a := y.start(`echo up; read x; mkdir .codex`, obj{"pipeStdin": true})
		a.awaitOutput("stdout", "up\n")
		second.run(`mkdir .codex`, nil).wantErrors(exist)
		b := second.start(`echo up; read x; mkdir .codex .agents .aws`, obj{"pipeStdin": true})
		b.awaitOutput("stdout", "up\n")
		a.write("\n")
		y.end(a).wantErrors(exist)
		b.write("\n")
		second.end(b).wantErrors(exist, exist, exist)
		b = second.start(`echo up; sleep 1000`, nil)
		b.awaitOutput("stdout", "up\n")
		y.run(`mkdir .codex`, nil).wantErrors(exist)
		other.stop()
	}},
	{"replaced while it runs", func(y *yard) {
		// What others do with the workspace is theirs: the program stays where it is, and nothing of theirs is removed.
		p := y.start(`echo up; read x; echo x >a/new; echo $?`, obj{"pipeStdin": true})
		p.awaitOutput("stdout", "up\n")
		if err := os.WriteFile(y.w+"/.codex/theirs", []byte("x"), 0o600); err != nil && !os.IsPermission(err) {
			y.t.Fatal(err)
		}
		p.write("\n")
		y.end(p).wantOut("up\n0\n")
		eventually(y.t, "the other's file stays", func() bool {
			entries, err := os.ReadDir(y.w + "/.codex")
			return err == nil && len(entries) == 1
		})
		if err := os.RemoveAll(y.w + "/.codex"); err != nil {
			y.t.Fatal(err)
		}
	}},
	{"command/exec", func(y *yard) {
		answer := y.c.reply(y.c.request("command/exec", obj{"command": sh(`echo x >` + y.o + `/x`), "cwd": y.w, "sandboxPolicy": obj{"type": "readOnly"}}))
		if result := resultOf(answer); result == nil || num(result["exitCode"]) != 2 || !strings.Contains(fmt.Sprint(result["stderr"]), erofs) {
			y.t.Errorf("readOnly: %s", jsonText(answer))
		}
		write := obj{"type": "workspaceWrite", "writableRoots": []string{y.w}, "networkAccess": false, "excludeTmpdirEnvVar": true, "excludeSlashTmp": true}
		answer = y.c.reply(y.c.request("command/exec", obj{"command": sh(`echo x >new && cat new; echo x >` + y.o + `/x`), "cwd": y.w, "sandboxPolicy": write}))
		if result := resultOf(answer); result == nil || result["stdout"] != "x\n" || !strings.Contains(fmt.Sprint(result["stderr"]), erofs) {
			y.t.Errorf("workspaceWrite: %s", jsonText(answer))
		}
	}},
}

// stoppedTree reports whether a descendant of a process is stopped. A shell does not stop in the middle of vfork(2): then its
// child does.
func stoppedTree(pid int) bool {
	for _, child := range childrenOf(pid) {
		if stat, _ := os.ReadFile(inProc(child, "stat")); bytes.Contains(stat, []byte(") T ")) || stoppedTree(child) {
			return true
		}
	}
	return false
}

// TestSandboxOnTmpfs: a workspace may be a mount itself. The server has a mount namespace of its own.
func TestSandboxOnTmpfs(t *testing.T) {
	needs.Mount(t)
	t.Parallel()
	eachUser(t, func(t *testing.T, uid int) {
		w := newWarden(t, uid)
		y := w.yard(t)
		y.prepared()
		startMounted(t, w, `mount -t tmpfs -o mode=777 none "$0/w" && mkdir -m 777 "$0/w/.git"`, filepath.Dir(y.w))
		y.c = w.in(t).session(nil)
		y.run(`echo x >new; cat new; mkdir .codex; echo x >.git/x; mv .git g`, nil).wantErrors(exist, erofs, ebusy)
		y.run(`cat new; ls -A`, nil).wantOut("x\n.agents\n.aws\n.codex\n.git\nnew\n")
		p := y.c.start("outside", obj{"argv": sh("ls -A"), "cwd": fileURI(y.w)})
		if _, out := p.awaitClosed(); out != ".git\nnew\n" {
			t.Errorf("without a sandbox the workspace has %q", out)
		}
		y.c.call("session/close", obj{})
		y.check()
	})
}

// TestSandboxShutdown: the end of a server ends its confined programs, after a grace.
func TestSandboxShutdown(t *testing.T) {
	t.Parallel()
	eachUser(t, func(t *testing.T, uid int) {
		w := startWarden(t, uid)
		y := w.yard(t)
		token := newToken(t)
		y.start(`echo up; setsid sleep `+token+` & sleep `+token, nil).awaitOutput("stdout", "up\n")
		y.start(`echo up; exec sleep `+token, obj{"tty": true}).awaitOutput("pty", "up")
		w.stop()
		wantNoKin(t, "after the end of the server", token)
		w.server = nil
		y.check()

		w.serve(t, nil, "--kill-grace", "1m")
		y = w.yard(t)
		p := y.start(`trap 'echo x >saved; exit 0' TERM; echo up; while :; do sleep 0.05; done`, nil)
		p.awaitOutput("stdout", "up\n")
		w.stop()
		if _, err := os.Stat(y.w + "/saved"); err != nil {
			t.Errorf("a program had no time to save its work: %v", err)
		}
		w.server = nil
		y.check()
	})
}
