package tests

import (
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// This file tests the sister APIs of docs/protocol/codex.md. Their notifications are in c.other.

// deltas returns the streamed output of a program by stream, and the streams that ended with
// capReached.
func (c *conn) deltas(method, key, name, chunk string) (out map[string]string, capped map[string]bool) {
	c.t.Helper()
	out, capped = make(map[string]string), make(map[string]bool)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.other {
		params := m["params"].(obj)
		if m["method"] != method || params[key] != name {
			continue
		}
		stream := params["stream"].(string)
		data, err := base64.StdEncoding.DecodeString(params[chunk].(string))
		if err != nil || capped[stream] {
			c.t.Errorf("delta %s (%v); the cap was reached before: %v", jsonText(m), err, capped[stream])
		}
		out[stream] += string(data)
		capped[stream] = params["capReached"] == true
	}
	return out, capped
}

// awaitOther waits for a notification about a program.
func (c *conn) awaitOther(method, key, name string) (params obj) {
	c.t.Helper()
	c.awaitFact(method+" of "+name, func() bool {
		for _, m := range c.other {
			if p := m["params"].(obj); m["method"] == method && p[key] == name {
				params = p
				return true
			}
		}
		return false
	})
	return params
}

// hasOther reports whether a notification about a program has come.
func (c *conn) hasOther(method, key, name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.other, func(m obj) bool { return m["method"] == method && m["params"].(obj)[key] == name })
}

func (c *conn) spawn(handle string, params obj) {
	c.t.Helper()
	all := obj{"processHandle": handle, "cwd": "/"}
	maps.Copy(all, params)
	if result := c.call("process/spawn", all); len(result) > 0 {
		c.t.Errorf("process/spawn: %v", result)
	}
}

func (c *conn) spawnExited(handle string) obj {
	c.t.Helper()
	return c.awaitOther("process/exited", "processHandle", handle)
}

// wantAnswers makes each request and checks its answer.
func (c *conn) wantAnswers(rows []answerRow) {
	c.t.Helper()
	for _, q := range rows {
		wantAnswer(c.t, c, q.method, q.params, q.want)
	}
}

type answerRow struct {
	method string
	params obj
	want   string // see wantAnswer
}

// TestClientInfo: initialize accepts clientInfo. Without capabilities the answer has the version of the
// first wire.
func TestClientInfo(t *testing.T) {
	t.Parallel()
	c := startServer(t).dial()
	result := c.call("initialize", obj{"clientInfo": obj{"name": "n", "title": nil, "version": "1"}, "capabilities": obj{"experimentalApi": true}})
	agent, _ := result["userAgent"].(string)
	if !strings.HasPrefix(agent, "n/1 ") || result["platformFamily"] != "unix" || result["platformOs"] != "linux" || result["protocolVersion"] != "exec-server.v0" {
		t.Errorf("initialize: %v", result)
	}
	c.wantAnswers([]answerRow{
		{"command/exec", obj{"command": sh("echo hi")}, `{"exitCode":0,"stderr":"","stdout":"hi\n"}`},
		{"initialize", obj{"clientInfo": obj{}}, "-32600 Invalid request: missing field `name`"},
	})
}

func TestProcessSpawn(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(nil)
	const invalid = "-32600 "

	// Buffered output: both streams, text outside UTF-8, the environment.
	c.spawn("b", obj{"command": sh(`printf 'a\377\376b\342\202'; printf "$TROUPE_A $HOME" >&2; exit 3`), "env": obj{"TROUPE_A": "x", "HOME": nil}})
	if e := c.spawnExited("b"); jsonText(e) != `{"exitCode":3,"outputDrainTimedOut":false,"processHandle":"b","stderr":"x ","stderrCapReached":false,"stdout":"a`+"\ufffd\ufffdb\ufffd"+`","stdoutCapReached":false}` {
		t.Errorf("exited: %s", jsonText(e))
	}
	// The handle is free again. A cap works buffered and streamed, and does not split a character.
	c.spawn("b", obj{"command": sh(`printf abcde; printf 'ab€' >&2`), "outputBytesCap": 3})
	c.awaitFact("the second end", func() bool { return len(c.other) == 2 })
	if e := c.other[1]["params"].(obj); e["stdout"] != "abc" || e["stdoutCapReached"] != true || e["stderr"] != "ab" || e["stderrCapReached"] != true {
		t.Errorf("exited: %s", jsonText(e))
	}
	c.spawn("s", obj{"command": sh(`printf abcde; printf ab >&2`), "outputBytesCap": 3, "streamStdoutStderr": true})
	e := c.spawnExited("s")
	out, capped := c.deltas("process/outputDelta", "processHandle", "s", "deltaBase64")
	if e["stdout"] != "" || e["stderr"] != "" || out["stdout"] != "abc" || !capped["stdout"] || out["stderr"] != "ab" || capped["stderr"] {
		t.Errorf("streamed: %s, %v, %v", jsonText(e), out, capped)
	}

	// On a terminal the output is stdout, stdin is open, the size can change, and a signal ends the
	// program.
	c.spawn("tty", obj{"command": sh(`stty size; read x; stty size; echo got $x; sleep 1000`), "tty": true, "size": obj{"rows": 10, "cols": 20}, "timeoutMs": nil})
	c.awaitDelta("tty", "10 20")
	c.wantAnswers([]answerRow{
		{"process/resizePty", obj{"processHandle": "tty", "size": obj{"rows": 11, "cols": 21}}, `{}`},
		{"process/writeStdin", obj{"processHandle": "tty", "deltaBase64": b64("hi\n")}, `{}`},
	})
	c.awaitDelta("tty", "got hi")
	c.wantAnswers([]answerRow{
		{"process/spawn", obj{"command": sh("true"), "processHandle": "tty", "cwd": "/"}, invalid + `duplicate active process handle: "tty"`},
		{"process/kill", obj{"processHandle": "tty"}, `{}`},
	})
	if e := c.spawnExited("tty"); num(e["exitCode"]) != 137 || e["stdout"] != "" {
		t.Errorf("killed: %s", jsonText(e))
	}
	if out, _ := c.deltas("process/outputDelta", "processHandle", "tty", "deltaBase64"); out["stdout"] != "10 20\r\nhi\r\n11 21\r\ngot hi\r\n" || len(out) != 1 {
		t.Errorf("the terminal: %q", out)
	}

	// Stdin is streamed, and the last write ends stdin.
	c.spawn("cat", obj{"command": []string{"cat"}, "streamStdin": true})
	c.wantAnswers([]answerRow{
		{"process/resizePty", obj{"processHandle": "cat", "size": obj{"rows": 1, "cols": 1}}, invalid + "failed to resize PTY: process is not attached to a PTY"},
		{"process/writeStdin", obj{"processHandle": "cat", "deltaBase64": b64("one ")}, `{}`},
		{"process/writeStdin", obj{"processHandle": "cat", "deltaBase64": b64("two"), "closeStdin": true}, `{}`},
	})
	if e := c.spawnExited("cat"); e["stdout"] != "one two" {
		t.Errorf("cat: %s", jsonText(e))
	}

	// A timeout.
	c.spawn("slow", obj{"command": sh("sleep 1000"), "timeoutMs": 300})
	if e := c.spawnExited("slow"); num(e["exitCode"]) != 124 {
		t.Errorf("timed out: %s", jsonText(e))
	}

	c.spawn("quiet", obj{"command": sh("sleep 1000"), "timeoutMs": nil})
	c.wantAnswers([]answerRow{
		{"process/writeStdin", obj{"processHandle": "quiet", "deltaBase64": ""}, invalid + "stdin streaming is not enabled for this process"},
		{"process/writeStdin", obj{"processHandle": "nope", "closeStdin": true}, invalid + `no active process for process handle "nope"`},
		{"process/resizePty", obj{"processHandle": "cat", "size": obj{"rows": 1, "cols": 1}}, invalid + `no active process for process handle "cat"`},
		{"process/kill", obj{"processHandle": "b"}, invalid + `no active process for process handle "b"`},
		{"process/spawn", obj{"command": sh("true"), "processHandle": "x"}, "-32602 missing field `cwd`"},
		{"process/spawn", obj{"command": []string{"/no/such"}, "processHandle": "x", "cwd": "/"}, "~-32603 failed to spawn process: No such file or directory (os error 2)"},
		{"process/spawn", obj{"command": []string{"/"}, "processHandle": "x", "cwd": "/"}, "~-32603 failed to spawn process: Permission denied (os error 13)"},
	})
	c.spawn("x", obj{"command": sh("true")}) // free after a failure
	c.spawnExited("x")
	// A process of the exec-server API runs beside commands; their names do not collide.
	if code, out := c.start("quiet", obj{"argv": sh("echo beside")}).awaitClosed(); code != 0 || out != "beside\n" {
		t.Errorf("process/start beside: %d, %q", code, out)
	}
}

func (c *conn) awaitDelta(handle, text string) {
	c.t.Helper()
	c.awaitFact(text+" from "+handle, func() bool {
		all := ""
		for _, m := range c.other {
			if p := m["params"].(obj); p["processHandle"] == handle || p["processId"] == handle || p["sessionId"] == handle {
				chunk, _ := p["deltaBase64"].(string)
				if chunk == "" {
					chunk, _ = p["chunk"].(string)
				}
				data, _ := base64.StdEncoding.DecodeString(chunk)
				all += string(data)
			}
		}
		return strings.Contains(all, text)
	})
}

func TestCommandExec(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(nil)
	const invalid = "-32600 "
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir+"/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	c.wantAnswers([]answerRow{
		{"command/exec", obj{"command": sh("echo out; echo err >&2; exit 7")}, `{"exitCode":7,"stderr":"err\n","stdout":"out\n"}`},
		{"command/exec", obj{"command": sh("pwd"), "cwd": dir + "/sub"}, `{"exitCode":0,"stderr":"","stdout":"` + dir + `/sub\n"}`},
		{"command/exec", obj{"command": sh("kill -TERM $$")}, `{"exitCode":143,"stderr":"","stdout":""}`},
		{"command/exec", obj{"command": sh("sleep 1000"), "timeoutMs": 300}, `{"exitCode":124,"stderr":"","stdout":""}`},
		{"command/exec", obj{"command": sh("printf abcde"), "outputBytesCap": 3}, `{"exitCode":0,"stderr":"","stdout":"abc"}`},
		{"command/exec", obj{"command": sh("head -c 1500000 /dev/zero | tr '\\0' x | wc -c"), "disableOutputCap": true, "disableTimeout": true}, `{"exitCode":0,"stderr":"","stdout":"1500000\n"}`},
		{"command/exec", obj{"command": sh("echo $A$B"), "env": obj{"A": "a", "B": nil}}, `{"exitCode":0,"stderr":"","stdout":"a\n"}`},
		{"command/exec", obj{"command": sh("true"), "sandboxPolicy": obj{"type": "dangerFullAccess"}}, `{"exitCode":0,"stderr":"","stdout":""}`},
		{"command/exec", obj{"command": sh("true"), "permissionProfile": obj{}}, "~-32602 invalid type: map, expected a string"},
		{"command/exec", obj{}, "-32602 missing field `command`"},
		{"command/exec", obj{"command": []string{"/no/such"}}, "~-32603 failed to spawn command: No such file or directory (os error 2)"},
		{"command/exec", obj{"command": sh("true"), "cwd": "/no/such"}, "~-32603 failed to spawn command: No such file or directory (os error 2)"},
		{"command/exec/write", obj{"processId": "c1", "closeStdin": true}, invalid + `no active command/exec for process id "c1"`},
		{"command/exec/resize", obj{"processId": "c1", "size": obj{"rows": 1, "cols": 1}}, invalid + `no active command/exec for process id "c1"`},
		{"command/exec/terminate", obj{"processId": "c1"}, invalid + `no active command/exec for process id "c1"`},
	})

	// Streamed output: the answer comes after the whole output, and does not repeat the output.
	d := c.request("command/exec", obj{"command": sh(`echo up; read x; echo "got $x"; echo err >&2; cat`), "processId": "d", "streamStdin": true, "streamStdoutStderr": true})
	c.awaitDelta("d", "up\n")
	c.wantAnswers([]answerRow{
		{"command/exec", obj{"command": sh("true"), "processId": "d"}, invalid + `duplicate active command/exec process id: "d"`},
		{"command/exec/resize", obj{"processId": "d", "size": obj{"rows": 1, "cols": 1}}, invalid + "failed to resize PTY: process is not attached to a PTY"},
		{"command/exec/write", obj{"processId": "d", "deltaBase64": b64("line\n")}, `{}`},
		{"command/exec/write", obj{"processId": "d", "deltaBase64": b64("rest"), "closeStdin": true}, `{}`},
	})
	answer := c.reply(d)
	out, _ := c.deltas("command/exec/outputDelta", "processId", "d", "deltaBase64")
	if jsonText(answer["result"]) != `{"exitCode":0,"stderr":"","stdout":""}` || out["stdout"] != "up\ngot line\nrest" || out["stderr"] != "err\n" {
		t.Errorf("streamed: %s, %q", jsonText(answer), out)
	}
	n := c.request("command/exec", obj{"command": sh("sleep 1000"), "processId": "n", "disableTimeout": true})
	c.wantAnswers([]answerRow{
		{"command/exec/write", obj{"processId": "n", "deltaBase64": ""}, invalid + "stdin streaming is not enabled for this command/exec"},
		{"command/exec/terminate", obj{"processId": "n"}, `{}`},
	})
	if answer := c.reply(n); num(resultOf(answer)["exitCode"]) != 137 {
		t.Errorf("terminated: %s", jsonText(answer))
	}
	tty := c.request("command/exec", obj{"command": sh("stty size; read x; stty size"), "processId": "t", "tty": true, "size": obj{"rows": 5, "cols": 6}})
	c.awaitDelta("t", "5 6")
	c.wantAnswers([]answerRow{
		{"command/exec/resize", obj{"processId": "t", "size": obj{"rows": 7, "cols": 8}}, `{}`},
		{"command/exec/write", obj{"processId": "t", "deltaBase64": b64("\n")}, `{}`},
	})
	if answer := c.reply(tty); num(resultOf(answer)["exitCode"]) != 0 {
		t.Errorf("tty: %s", jsonText(answer))
	}
	if out, _ := c.deltas("command/exec/outputDelta", "processId", "t", "deltaBase64"); out["stdout"] != "5 6\r\n\r\n7 8\r\n" {
		t.Errorf("tty: %q", out)
	}
}

func TestFirstExec(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(nil)
	const invalid = "-32600 "
	first := func(params obj) obj {
		all := obj{"cwd": "/", "env": obj{"A": "a"}, "tty": false}
		maps.Copy(all, params)
		return all
	}
	c.wantAnswers([]answerRow{
		{"command/exec", first(obj{"argv": sh(`echo "$A$HOME"; echo err >&2; exit 4`)}), `{"sessionId":"session-1"}`},
		{"command/exec", first(obj{"argv": sh(`echo up; read x; echo "got $x"; sleep 1000`), "tty": true}), `{"sessionId":"session-2"}`},
		{"command/exec", first(obj{"argv": []string{"/bin/sleep", "1000"}}), `{"sessionId":"session-3"}`},
		{"command/exec/write", obj{"sessionId": "session-3", "chunk": ""}, invalid + "stdin is closed for session session-3"},
	})
	if e := c.awaitOther("command/exec/exited", "sessionId", "session-1"); num(e["exitCode"]) != 4 {
		t.Errorf("exited: %s", jsonText(e))
	}
	if out, _ := c.deltas("command/exec/outputDelta", "sessionId", "session-1", "chunk"); out["stdout"] != "a\n" || out["stderr"] != "err\n" {
		t.Errorf("output: %q", out)
	}
	c.awaitDelta("session-2", "up")
	c.wantAnswers([]answerRow{{"command/exec/write", obj{"sessionId": "session-2", "chunk": b64("hi\n")}, `{"accepted":true}`}})
	c.awaitDelta("session-2", "got hi")
	c.wantAnswers([]answerRow{
		{"command/exec/terminate", obj{"sessionId": "session-2"}, `{"running":true}`},
		{"command/exec/terminate", obj{"sessionId": "session-1"}, `{"running":false}`},
		{"command/exec/terminate", obj{"sessionId": "missing"}, `{"running":false}`},
		{"command/exec/write", obj{"sessionId": "missing", "chunk": ""}, invalid + "unknown session id missing"},
		{"command/exec", first(obj{"argv": []string{}}), "-32602 argv must not be empty"},
		{"command/exec", first(obj{"argv": []string{"/no/such"}}), "~-32603 No such file or directory (os error 2)"},
		{"command/exec", first(obj{"argv": sh("echo $0"), "arg0": "zero"}), `{"sessionId":"session-5"}`},
	})
	if e := c.awaitOther("command/exec/exited", "sessionId", "session-2"); num(e["exitCode"]) != 137 {
		t.Errorf("terminated: %s", jsonText(e))
	}
}

// drainTime is how long the end of a command waits after the exit, if other programs hold the output open.
const drainTime = 2 * time.Second

// drainRows are kinds of output that may come after the exit.
var drainRows = []drainRow{
	{"a late child is waited for", `(sleep 0.3; echo late) & echo first`, "first\nlate\n", false},
	{"a tail after a pause is", `(sleep 0.02; echo a; sleep 0.2; echo b) &`, "a\nb\n", false},
	{"a background child is not", `sleep 1000 & echo first`, "first\n", true},
	{"nor is one that goes on and on", `(i=0; while [ $i -lt 1000 ]; do i=$((i+1)); sleep 0.1; echo $i; done) & echo first`, "first\n", true},
}

type drainRow struct {
	name, script string
	want         string
	late         bool // the end does not wait for every holder of the output
}

// TestCommandDrain: in each API a program exits while other programs hold its output open. These
// programs live until the connection ends.
func TestCommandDrain(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for _, row := range drainRows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			eventually(t, "the late children to write within the drain", func() bool { return drains(t, s, row) })
		})
	}
}

// drains runs the script of a row in each API. It returns false if the machine may have stood still for the time of the drain, so a
// late child came too late.
func drains(t *testing.T, s *server, row drainRow) bool {
	c := s.in(t).session(nil)
	c.timeout = factTimeout + 5*time.Second
	wrong := ""
	check := func(what, out string, late any) {
		if !strings.HasPrefix(out, row.want) || !row.late && out != row.want || late != nil && late != row.late {
			wrong += fmt.Sprintf("%s: %q, drain timed out: %v; want %q, %v\n", what, out, late, row.want, row.late)
		}
	}
	begin := time.Now()
	c.spawn("buffered", obj{"command": sh(row.script)})
	c.spawn("streamed", obj{"command": sh(row.script), "streamStdoutStderr": true})
	exec := c.request("command/exec", obj{"command": sh(row.script), "processId": "e"})
	first := resultOf(c.reply(c.request("command/exec", obj{"argv": sh(row.script), "cwd": "/", "env": obj{"PATH": os.Getenv("PATH")}, "tty": false})))["sessionId"].(string)
	e := c.spawnExited("buffered")
	check("process/spawn", e["stdout"].(string), e["outputDrainTimedOut"])
	e = c.spawnExited("streamed")
	out, _ := c.deltas("process/outputDelta", "processHandle", "streamed", "deltaBase64")
	check("process/spawn, streamed", out["stdout"], e["outputDrainTimedOut"])
	check("command/exec", resultOf(c.reply(exec))["stdout"].(string), nil)
	c.awaitOther("command/exec/exited", "sessionId", first)
	out, _ = c.deltas("command/exec/outputDelta", "sessionId", first, "chunk")
	check("the first wire", out["stdout"], nil)
	if wrong != "" && !row.late && time.Since(begin) >= drainTime {
		return false
	}
	if wrong != "" {
		t.Error(wrong)
	}
	return true
}

// awaitDeltas waits for size bytes of streamed output from all commands.
func (c *conn) awaitDeltas(size int) {
	c.t.Helper()
	c.awaitFact("all output", func() bool {
		n := 0
		for _, m := range c.other {
			delta, _ := m["params"].(obj)["deltaBase64"].(string)
			n += base64.StdEncoding.DecodedLen(len(delta))
		}
		return n >= size
	})
}

// atOnce returns a script that writes size bytes in a single write. Each message costs 100 bytes of the
// window besides its output, so many small messages would not fit into a window of the same size.
func atOnce(size int) string {
	return fmt.Sprintf("dd if=/dev/zero bs=%d count=1 2>/dev/null", size)
}

// TestCommandDraining: a command has exited and its output is still awaited. Control calls get their
// answers at once.
func TestCommandDraining(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(nil)
	const over = `-32600 command/exec "proc-13" is no longer running`
	eventually(t, "all three within the drain", func() bool { // if the machine stands still for 2 s, the drain is over
		exec := c.request("command/exec", obj{"command": sh(`sleep 1000 &`), "processId": "proc-13", "streamStdin": true})
		answered := func(method string, params obj) string {
			params["processId"] = "proc-13"
			_, text := c.callError(method, params)
			return "-32600 " + text
		}
		var first string
		for answer := obj(nil); errorOf(answer) == nil; {
			answer = c.reply(c.request("command/exec/write", obj{"processId": "proc-13", "deltaBase64": ""}))
			if e := errorOf(answer); e != nil {
				first = fmt.Sprintf("%d %s", num(e["code"]), e["message"])
			}
		}
		all := first == over && answered("command/exec/terminate", obj{}) == over &&
			answered("command/exec/resize", obj{"size": obj{"rows": 1, "cols": 1}}) == over && c.takeReply(exec) == nil
		if answer := c.reply(exec); num(resultOf(answer)["exitCode"]) != 0 {
			t.Errorf("answer: %s", jsonText(answer))
		}
		return all
	})
	c.wantAnswers([]answerRow{{"command/exec/terminate", obj{"processId": "proc-13"}, `-32600 no active command/exec for process id "proc-13"`}})
}

// TestCommandsDieWithTheirConnection: every started program ends with the connection, with its
// background programs, however its end was reported.
func TestCommandsDieWithTheirConnection(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(nil)
	dir := t.TempDir()
	script := func(name string) []string {
		return sh(`setsid sh -c 'trap "" TERM HUP INT; echo $$ > ` + dir + "/" + name + `.new; mv ` + dir + "/" + name + ".new " + dir + "/" + name + `; exec sleep 1000' & ` + map[bool]string{true: "exit 0", false: "wait"}[strings.HasPrefix(name, "gone")])
	}
	for _, name := range []string{"runs", "gone"} {
		c.spawn("s"+name, obj{"command": script(name + "-spawn"), "timeoutMs": nil})
		c.request("command/exec", obj{"command": script(name + "-exec"), "disableTimeout": true})
		c.call("command/exec", obj{"argv": script(name + "-first"), "cwd": "/", "env": obj{"PATH": os.Getenv("PATH")}, "tty": false})
	}
	var pids []int
	for _, name := range []string{"runs", "gone"} {
		for _, api := range []string{"spawn", "exec", "first"} {
			eventually(t, name+" of "+api, func() bool { _, err := os.Stat(dir + "/" + name + "-" + api); return err == nil })
			var pid int
			text, _ := os.ReadFile(dir + "/" + name + "-" + api)
			fmt.Sscan(string(text), &pid)
			if !alive(pid) {
				t.Fatalf("%s of %s does not run", name, api)
			}
			pids = append(pids, pid)
		}
	}
	c.awaitOther("process/exited", "processHandle", "sgone")
	c.cutRST()
	for _, pid := range pids {
		eventually(t, fmt.Sprint("the end of ", pid), func() bool { return !alive(pid) })
	}
	other := s.session(nil)
	eventually(t, "the sessions to be gone", func() bool {
		return num(other.call("server/info", obj{})["sessions"]) == 2 // the session of c, and the asking session
	})
}

// TestCommandsAreAnswered: every request to a program that is about to end gets an answer.
func TestCommandsAreAnswered(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(nil)
	var ids []int64
	for i := range 100 {
		name := fmt.Sprint(i)
		ids = append(ids, c.request("process/spawn", obj{"command": []string{"/bin/true"}, "processHandle": name, "cwd": "/", "streamStdin": true}))
		ids = append(ids, c.request("command/exec", obj{"command": []string{"/bin/true"}, "processId": name, "streamStdin": true}))
		for range 3 {
			ids = append(ids,
				c.request("process/writeStdin", obj{"processHandle": name, "deltaBase64": b64("x"), "closeStdin": true}),
				c.request("command/exec/write", obj{"processId": name, "deltaBase64": b64("x"), "closeStdin": true}),
				c.request("process/kill", obj{"processHandle": name}),
				c.request("command/exec/terminate", obj{"processId": name}))
		}
		if i%20 == 0 {
			for _, id := range ids {
				c.reply(id)
			}
			ids = nil
		}
	}
	for _, id := range ids {
		c.reply(id)
	}
}

// TestCommandFlood: a client that does not acknowledge gets no more output than the window, and still
// gets its answers. A client that acknowledges gets everything.
func TestCommandFlood(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	const size = 4 << 20 // many times the window
	flood := obj{"command": sh(fmt.Sprintf("head -c %d /dev/zero", size)), "streamStdoutStderr": true, "outputBytesCap": nil, "timeoutMs": nil}

	mute := s.session(nil)
	mute.mutePongs.Store(true)
	mute.spawn("flood", flood)
	mute.awaitFact("the window to be full", func() bool { return len(mute.other) > 0 && mute.pings > 2 })
	mute.start("beside", obj{"argv": sh("exit 0")})
	out, _ := mute.deltas("process/outputDelta", "processHandle", "flood", "deltaBase64")
	if n := len(out["stdout"]); n == 0 || n > 1<<20 {
		t.Errorf("%d bytes were sent to who acknowledges none", n)
	}
	if e := mute.call("process/kill", obj{"processHandle": "flood"}); len(e) > 0 {
		t.Error(e)
	}
	mute.cutRST() // otherwise the server's end waits for it to read

	c := s.session(nil)
	c.spawn("flood", flood)
	if e := c.spawnExited("flood"); num(e["exitCode"]) != 0 {
		t.Errorf("exited: %s", jsonText(e))
	}
	if out, _ := c.deltas("process/outputDelta", "processHandle", "flood", "deltaBase64"); len(out["stdout"]) != size {
		t.Errorf("%d bytes came of %d", len(out["stdout"]), size)
	}
	flood["processId"], flood["outputBytesCap"], flood["disableTimeout"] = "e", size, true
	answer := c.reply(c.request("command/exec", flood)) // not before its output
	if out, capped := c.deltas("command/exec/outputDelta", "processId", "e", "deltaBase64"); errorOf(answer) != nil || len(out["stdout"]) != size || !capped["stdout"] {
		t.Errorf("%d bytes came of %d before %s", len(out["stdout"]), size, jsonText(answer))
	}
}
