package tests

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// commands is a program that evaluates each line of its stdin, and then prints "done".
const commands = `exec 2>&1; while read -r line; do eval "$line"; echo done; done`

// A commanded is a program that runs commands, over the deaths of its server.
type commanded struct {
	h    *held
	c    *conn
	p    *proc
	asks int
}

// says has the program evaluate a line, and returns what the program prints.
func (c *commanded) says(line string) (text string) {
	c.h.t.Helper()
	c.asks++
	c.p.write(fmt.Sprintf("echo ask %d; %s\n", c.asks, line))
	c.c.awaitFact("the answer to "+line, func() (done bool) {
		_, text, _ = strings.Cut(string(c.p.join("stdout")), fmt.Sprintf("ask %d\n", c.asks))
		text, _, done = strings.Cut(text, "done\n")
		return done
	})
	return text
}

// killed kills the server, and resumes the session at the next.
func (c *commanded) killed() {
	c.h.t.Helper()
	seq := c.p.lastSeq()
	c.h.kill()
	<-c.c.done
	c.c = c.h.session(obj{"resumeSessionId": c.c.sessionID, "resumeFrom": obj{c.p.id: seq}, "capabilities": knowing["capabilities"]})
	c.p = c.c.process(c.p.id)
}

// heldWarden starts a warden whose server has a holder.
func heldWarden(t *testing.T, uid int, args ...string) (*warden, *held) {
	t.Helper()
	w := startWarden(t, uid, args...)
	h := &held{w.server, 0}
	h.stderr.await(factTimeout, func() bool { return strings.Contains(string(h.stderr.data), "msg=ready") })
	return w, h
}

// TestSandboxOfKilledServer: a confined program stays confined, and so is a program that the next server starts. The exit says that the sandbox has
// denied something, even if that was before the kill.
func TestSandboxOfKilledServer(t *testing.T) {
	t.Parallel()
	eachUser(t, func(t *testing.T, uid int) {
		w, h := heldWarden(t, uid)
		y := w.yard(t)
		c := &commanded{h: h, c: y.c, p: y.start(commands, obj{"pipeStdin": true})}
		dial := `bash -c ': </dev/tcp/127.0.0.1/` + h.url[strings.LastIndexByte(h.url, ':')+1:] + `' || echo no network`
		confined := func(when string) {
			t.Helper()
			for line, want := range map[string]string{
				`(: >$O/x)`:                  erofs,
				`(: >.git/config)`:           erofs,
				`mkdir .codex`:               "annot create directory",
				`kill -0 $HOSTPID`:           "o such process",
				dial:                         "no network",
				`(: >$W/mine) && echo wrote`: "wrote",
			} {
				if got := c.says(line); !strings.Contains(got, want) {
					t.Errorf("%s, %s says %q, want %q", when, line, got, want)
				}
			}
		}
		confined("before the kills")
		for range 2 {
			c.killed()
			y.c = c.c
			confined("after a kill")
			y.run(`(: >$O/x) 2>/dev/null || echo refused; (: >$W/mine) && echo wrote`, nil).wantOut("refused\nwrote\n")
		}
		c.p.write("exit 3\n")
		y.end(c.p).wantCode(3, true)
		y.c.call("session/close", obj{})
		h.stop()
		y.warden.server = nil // its children are those of the holder
		y.check()
	})
}

// TestUsersOfKilledServer: programs of several users keep their users, and the next server starts others as the same users.
func TestUsersOfKilledServer(t *testing.T) {
	needs.Root(t)
	t.Parallel()
	h := startHolder(t, nil, "--users-file", usersFile(t, "* default @server\n* "+stranger+" nobody"))
	home := t.TempDir()
	openTo(t, home)
	if err := os.Chmod(home, 0o711); err != nil {
		t.Fatal(err)
	}
	of := func(user string) *commanded {
		c := h.session(nil)
		return &commanded{h: h, c: c, p: c.start("p", obj{"argv": sh(commands), "pipeStdin": true, "user": user, "limits": obj{"nofile": 99}})}
	}
	users := map[string]*commanded{"54321": of(stranger), "65534": of("nobody")}
	for i := range 2 {
		h.kill()
		for uid, c := range users {
			<-c.c.done
			c.c = h.session(obj{"resumeSessionId": c.c.sessionID})
			c.p = c.c.process("p")
			if got := c.says("id -u; ulimit -n; (: >" + home + "/x) || echo refused"); !strings.HasPrefix(got, uid+"\n99\n") || !strings.Contains(got, "refused") {
				t.Errorf("the program of user %s says %q", uid, got)
			}
			wantSays(t, c.c, nth("next", i), "id -u", "54321", obj{"user": stranger})
		}
		for _, c := range users {
			c.c.close()
		}
	}
}

// TestLimitsOfKilledServer: a program keeps its limits, also that of its time, and its exit says by which limit it has ended.
func TestLimitsOfKilledServer(t *testing.T) {
	t.Parallel()
	h := startHolder(t, nil)
	file := filepath.Join(t.TempDir(), "file")
	session := h.session(knowing)
	session.start("timed", obj{"argv": sh("trap '' TERM; while :; do sleep 1; done"), "timeoutMs": 3000, "shutdownMs": 1})
	c := &commanded{h: h, c: session, p: session.start("p", obj{"argv": sh(commands), "pipeStdin": true, "limits": obj{"fileSizeBytes": 5000, "coreBytes": 0, "nofile": 50}})}
	for range 2 {
		c.killed()
		if got := c.says("ulimit -n"); got != "50\n" {
			t.Errorf("after a kill the limit is %q", got)
		}
	}
	c.p.write("exec head -c 100000 /dev/zero >" + file + "\n")
	wantSignal(t, c.p, "SIGXFSZ")
	if info, err := os.Stat(file); err != nil || info.Size() != 5000 {
		t.Errorf("the file has %v, %v; want 5000 bytes", info, err)
	}
	if exited := c.c.process("timed").awaitExit(); exited["signal"] != "SIGKILL" || exited["timedOut"] != true {
		t.Errorf("the program with 3 s says %s", jsonText(exited))
	}
}

// TestProbesOfKilledServer: a program becomes ready although its server was killed before, and a program that is not alive any more is run again.
func TestProbesOfKilledServer(t *testing.T) {
	t.Parallel()
	h := startHolder(t, nil)
	dir := t.TempDir()
	session := h.session(knowing)
	exists := func(name string) obj {
		return obj{"argv": sh("test -e " + dir + "/" + name), "everyMs": 50, "timeoutMs": 60_000, "failures": 1}
	}
	if err := os.WriteFile(dir+"/alive", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	more := obj{"ready": obj{"probe": exists("ready")}, "liveness": obj{"probe": exists("alive")}, "restart": obj{"policy": "permanent"}, "shutdownMs": 1, "pipeStdin": true}
	member := startParams("p", obj{"argv": sh(commands)})
	for k, v := range more {
		member[k] = v
	}
	session.call("group/start", groupOf("g", "one_for_one", 2, member, startParams("after", obj{"argv": sh("echo after; exec sleep 1000"), "dependsOn": []string{"p"}})))
	c := &commanded{h: h, c: session, p: session.process("p")}
	c.says("true")
	c.killed()
	c.says("true")
	if len(c.p.readies) > 0 {
		t.Errorf("the program is ready: %v", c.p.readies)
	}
	if err := os.WriteFile(dir+"/ready", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.c.awaitFact("ready", func() bool { return len(c.p.readies) == 1 })
	c.c.process("after").awaitOutput("stdout", "after\n")
	pid := c.p.pid()
	c.killed()
	if c.p.pid() != pid {
		t.Errorf("the program runs as %d, and did as %d", c.p.pid(), pid)
	}
	if err := os.Remove(dir + "/alive"); err != nil {
		t.Fatal(err)
	}
	c.c.awaitFact("the end of the run", func() bool { return len(c.p.ends) == 1 })
	if reason := fmt.Sprint(c.p.ends[0]["reason"]); !strings.Contains(reason, "its probe failed") {
		t.Errorf("the run has ended with %s", jsonText(c.p.ends[0]))
	}
}

// TestGroupOfKilledServer: the members of a group end and start together, whenever the server is killed meanwhile, and each run is run once.
func TestGroupOfKilledServer(t *testing.T) {
	t.Parallel()
	h := startHolder(t, nil)
	dir := t.TempDir()
	c := h.session(knowing)
	member := func(id string, after ...string) obj {
		script := "echo x >>" + dir + "/" + id + "; while :; do test -e " + dir + "/end-" + id + " && rm " + dir + "/end-" + id + " && exit 1; sleep 0.01; done"
		return startParams(id, obj{"argv": sh(script), "restart": obj{"policy": "permanent", "backoff": obj{"initialMs": 1}}, "dependsOn": after, "killGraceMs": 1})
	}
	c.call("group/start", groupOf("g", "one_for_all", 100, member("a"), member("b", "a"), member("c", "b")))
	runs := func(id string) string {
		text, _ := os.ReadFile(dir + "/" + id)
		return string(text)
	}
	for i := range 4 {
		want := strings.Repeat("x\n", i+1)
		eventually(t, fmt.Sprintf("run %d of all members", i+1), func() bool { return runs("a") == want && runs("b") == want && runs("c") == want })
		if err := os.WriteFile(dir+"/end-"+[]string{"b", "a", "c"}[i%3], nil, 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
		h.kill()
		<-c.done
		c = h.session(obj{"resumeSessionId": c.sessionID, "capabilities": knowing["capabilities"]})
	}
	want := strings.Repeat("x\n", 5)
	eventually(t, "the last run of all members", func() bool { return runs("a") == want && runs("b") == want && runs("c") == want })
	eventually(t, "the group is ready", func() bool { return c.call("group/list", obj{})["groups"].([]any)[0].(obj)["state"] == "ready" })
	c.call("group/stop", obj{"groupId": "g"})
}

// TestSnapshotsOfKilledServer: commands start from the state that the last server has captured, and what the startup files have started goes on. A later
// run of a process starts from the state, too. The end of the session ends what the startup files have started.
func TestSnapshotsOfKilledServer(t *testing.T) {
	t.Parallel()
	h := startHolder(t, nil)
	token := newToken(t)
	home := snapshotHome(t, "greet() { echo hi $AGENT; }; setsid sleep "+token+" >/dev/null 2>&1 & export AGENT=$!")
	c := h.session(knowing)
	restarted := fromSnapshot(home, "greet; read x; exit 1")
	restarted["restart"], restarted["pipeStdin"] = restart("permanent", 10), true
	p := c.start("p", restarted)
	hi := p.awaitOutput("stdout", "\n")
	for i := range 2 {
		seq := p.lastSeq()
		h.kill()
		<-c.done
		c = h.session(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"p": seq}, "capabilities": knowing["capabilities"]})
		if _, out := c.start(nth("q", i), fromSnapshot(home, "greet; kill -0 $AGENT && echo lives")).awaitClosed(); out != hi+"lives\n" {
			t.Errorf("a command of the next server says %q, want %q", out, hi+"lives\n")
		}
		p = c.process("p")
		p.write("\n")
		if got := p.awaitOutput("stdout", "\n"); got != hi {
			t.Errorf("a later run says %q, want %q", got, hi)
		}
	}
	if n := captures(t, home); n != "x" {
		t.Errorf("captures: %s", n)
	}
	if n := sleepers(token); n != 1 {
		t.Errorf("%d programs of the startup files are left", n)
	}
	c.call("session/close", obj{})
	if left := describeKin(token); left != "" {
		t.Error(left)
	}
}

// TestCaptureOfKilledServer: a command whose state is being captured when the server is killed starts from a state, and a single agent of the startup files is left.
func TestCaptureOfKilledServer(t *testing.T) {
	t.Parallel()
	h := startHolder(t, nil)
	for i := range 5 {
		token := newToken(t)
		home := snapshotHome(t, "sleep 0.02; setsid sleep "+token+" >/dev/null 2>&1 & export AGENT=$!")
		c := h.session(nil)
		params := startParams("p", fromSnapshot(home, "kill -0 $AGENT && echo lives"))
		params["startToken"] = "x"
		c.request("process/start", params)
		time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
		h.kill()
		<-c.done
		c = h.session(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"p": 0}})
		c.call("process/start", params)
		if _, out := c.process("p").awaitClosed(); out != "lives\n" {
			t.Errorf("round %d: the command says %q; captures: %s", i, out, captures(t, home))
		}
		eventually(t, "a single agent is left", func() bool { return sleepers(token) == 1 })
		c.call("session/close", obj{})
		if left := describeKin(token); left != "" {
			t.Error(left)
		}
	}
}

// TestQuotasOfKilledServer: who has used a quota has used it at the next server, too.
func TestQuotasOfKilledServer(t *testing.T) {
	t.Parallel()
	h := startHolder(t, nil, "--max-processes-each", "2", "--max-starts-each", "0.001", "--max-starts-burst", "3")
	c := h.session(nil)
	sleep := obj{"argv": []string{"sleep", "1000"}}
	c.start("p", sleep)
	c.start("q", sleep)
	refused := func(want string) {
		t.Helper()
		h.kill()
		<-c.done
		c = h.session(obj{"resumeSessionId": c.sessionID})
		if code, text := c.callError("process/start", startParams("no", sleep)); code != -32600 || !strings.HasPrefix(text, want) {
			t.Errorf("%d %s, want %s", code, text, want)
		}
	}
	refused("max-processes-each is 2 here")
	c.call("process/terminate", obj{"processId": "p"})
	c.process("p").awaitClosed()
	c.start("r", obj{"argv": []string{"true"}}).awaitClosed()
	refused("max-starts-each is 0.001 a second here")
}

// TestEndsWithKilledServer: what belongs to a connection ends with the server, at once and as a whole: programs of the sister APIs and of an ephemeral
// session with their trees, open files, watches and requests that wait. The next server knows none of their names, and the client may use each again.
func TestEndsWithKilledServer(t *testing.T) {
	t.Parallel()
	h := startHolder(t, nil)
	token, dir := newToken(t), t.TempDir()
	c, ephemeral := h.session(nil), h.session(obj{"session": obj{"ephemeral": true}})
	script := sh("setsid sh -c 'trap \"\" TERM HUP INT; sleep " + token + "' & sleep " + token)
	c.spawn("s", obj{"command": script, "timeoutMs": nil})
	c.request("command/exec", obj{"command": script, "disableTimeout": true, "processId": "e"})
	c.call("command/exec", obj{"argv": script, "cwd": "/", "env": obj{"PATH": os.Getenv("PATH")}, "tty": false})
	ephemeral.start("p", obj{"argv": script})
	eventually(t, "the programs run", func() bool { return sleepers(token) == 8 })
	replace := obj{"handleId": "w", "path": fileURI(dir, "a"), "mode": "replace"}
	watch := obj{"watchId": 1, "missing": []string{fileURI(dir, "none")}}
	c.call("fs/open", replace)
	c.call("fs/writeBlock", obj{"handleId": "w", "offset": 0, "chunk": b64("half")})
	c.call("fs/watchMissing", watch)
	waits := c.request("server/events", obj{"waitMs": 600_000})
	h.kill()
	<-c.done
	<-ephemeral.done
	if answer := c.takeReply(waits); answer != nil {
		t.Errorf("server/events has the answer %s", jsonText(answer))
	}
	eventually(t, "the programs have ended", func() bool { return len(kin(token)) == 0 })

	next := h.dial()
	if code, text := next.callError("initialize", obj{"clientName": "tests", "resumeSessionId": ephemeral.sessionID}); code != -32600 || text != "unknown session id "+ephemeral.sessionID {
		t.Errorf("the ephemeral session: %d %s", code, text)
	}
	c = h.session(obj{"resumeSessionId": c.sessionID})
	for method, row := range map[string]struct {
		params obj
		want   string
	}{
		"fs/writeBlock":          {obj{"handleId": "w", "offset": 0, "chunk": b64("x")}, "unknown file handle `w`"},
		"fs/readBlock":           {obj{"handleId": "w", "offset": 0, "len": 1}, "unknown file handle `w`"},
		"process/writeStdin":     {obj{"processHandle": "s", "deltaBase64": b64("x")}, `no active process for process handle "s"`},
		"process/kill":           {obj{"processHandle": "s"}, `no active process for process handle "s"`},
		"command/exec/write":     {obj{"processId": "e", "deltaBase64": b64("x")}, `no active command/exec for process id "e"`},
		"command/exec/terminate": {obj{"processId": "e"}, `no active command/exec for process id "e"`},
	} {
		if _, text := c.callError(method, row.params); text != row.want {
			t.Errorf("%s: %q, want %q", method, text, row.want)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("a file that was half replaced has left %v, %v", entries, err)
	}
	c.call("fs/open", replace)
	c.spawn("s", obj{"command": []string{"true"}})
	c.call("fs/watchMissing", watch)
	if err := os.WriteFile(dir+"/none", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.awaitTold(1, "a file came")
}

// TestSharesOfKilledServer: a guest comes back with its token, and may do as much as before; a share that was ended stays so.
func TestSharesOfKilledServer(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	h := startHolder(t, nil, k.flags("ws://127.0.0.1:0")...)
	alice := h.as("token-of-alice-in-plain", nil)
	alice.start("p", obj{"argv": sh("while read x; do echo got $x; done"), "pipeStdin": true})
	_, reads := alice.share(obj{"access": "read"})
	_, types := alice.share(obj{"access": "type"})
	ended, over := alice.share(obj{"access": "read"})
	alice.call("session/unshare", obj{"shareId": ended})
	for i := range 2 {
		h.kill()
		typist, reader := h.as(types, nil), h.as(reads, nil)
		line := fmt.Sprint("line ", i, "\n")
		typist.process("p").write(line)
		reader.process("p").awaitOutput("stdout", "got "+line)
		if code, text := reader.callError("process/write", reader.process("p").writeParams("no\n")); code != -32011 {
			t.Errorf("a guest who may only watch wrote: %d %s", code, text)
		}
		if _, status, body := dialAs(t, h.url, "Bearer "+over, nil); status != 401 {
			t.Errorf("a share that was ended: %d %s", status, body)
		}
	}
}
