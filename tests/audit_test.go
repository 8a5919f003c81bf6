package tests

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/hunt"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
	"golang.org/x/sys/unix"
)

// record is the file of an audit log.
type record struct {
	t     testing.TB
	path  string
	names map[string]string // of ids, in order
	read  int               // lines
}

func newRecord(t testing.TB) *record {
	return &record{t: t, path: filepath.Join(t.TempDir(), "audit.log"), names: make(map[string]string)}
}

func (r *record) text() string {
	text, err := os.ReadFile(r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

var (
	volatile  = regexp.MustCompile(`"time":"[-0-9T:.]+Z",|,"durationMs":\d+|,"remote":"127.0.0.1:\d+"|,"containment":"[a-z]+"`)
	realPIDs  = regexp.MustCompile(`"pid":[1-9]\d*`)
	theClient = regexp.MustCompile(`transport: 127.0.0.1:\d+`)
	recordIDs = regexp.MustCompile(`(c-)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
)

// want waits for the next lines, in any order. Times and addresses are left out; connections are C1, C2 and
// so on, and sessions S1, S2.
func (r *record) want(lines ...string) {
	r.t.Helper()
	var got []string
	eventually(r.t, fmt.Sprintf("%d more lines in the audit log", len(lines)), func() bool {
		all := strings.SplitAfter(r.text(), "\n")
		got = all[min(r.read, len(all)):]
		return len(got) > len(lines)
	})
	r.read += len(got) - 1
	for i, line := range got {
		line = theClient.ReplaceAllString(line, "transport: the client")
		// A server that pings just then notices the end by its write, and closes before its reader knows why.
		line = strings.Replace(line, "transport: this side closed the connection: use of closed network connection", "transport: the client ended the connection without a Close frame: unexpected EOF", 1)
		got[i] = recordIDs.ReplaceAllStringFunc(realPIDs.ReplaceAllString(volatile.ReplaceAllString(line, ""), `"pid":0`), func(id string) string {
			kind := "S"
			if id[1] == '-' {
				kind = "C"
			}
			if r.names[id] == "" {
				r.names[id] = kind
				n := 0
				for _, name := range r.names {
					if name[:1] == kind {
						n++
					}
				}
				r.names[id] = fmt.Sprint(kind, n)
			}
			return r.names[id]
		})
	}
	slices.Sort(got)
	slices.Sort(lines)
	if want := "\n" + strings.Join(lines, "\n") + "\n"; "\n"+strings.Join(got, "") != want {
		r.t.Fatalf("got\n%s\nwant%s", strings.Join(got, ""), want)
	}
}

// TestAudit: a conversation gives these lines, and no others.
func TestAudit(t *testing.T) {
	t.Parallel()
	k, r, dir := newKeyring(t), newRecord(t), t.TempDir()
	k.file("tokens", "alice token-of-alice-in-plain\nbob token-of-bob-in-plain\n")
	k.file("roles", "bob observes alice\n")
	remote := startRemote(t, func(http.ResponseWriter, *http.Request) {})
	s := startServer(t, "--auth-token-file", k.path("tokens"), "--auth-roles-file", k.path("roles"), "--audit", r.path, "--allow-http", "--closed-retention", "0")
	r.want(`{"event":"server.start","version":"devel","pid":0,"listen":"` + s.url + `","auditFull":"refuse"}`)

	if _, status, _ := dialAs(t, s.url, "Bearer planted-token", nil); status != http.StatusUnauthorized {
		t.Error(status)
	}
	r.want(`{"event":"connection.refused","reason":"invalid websocket bearer token"}`)

	alice := s.as("token-of-alice-in-plain", obj{"session": obj{"name": "work"}})
	r.want(`{"event":"connection.accepted","identity":"alice","connection":"C1","transport":"websocket"}`,
		`{"event":"session.opened","identity":"alice","connection":"C1","session":"S1","name":"work"}`)
	as := func(name, connection string) string {
		return `"identity":"` + name + `","connection":"` + connection + `","session":"S1"`
	}

	p := alice.start("p", obj{"argv": sh("cat >&2; exit 3"), "pipeStdin": true, "env": obj{"PATH": "/bin:/usr/bin", "SECRET": "planted-value"}})
	r.want(`{"event":"process.start",`+as("alice", "C1")+`,"process":"p","run":1,"argv":["/bin/sh","-c","cat >&2; exit 3"],"dir":"/tmp","variables":["PATH","SECRET"],"tty":false}`,
		`{"event":"process.started",`+as("alice", "C1")+`,"process":"p","run":1,"pid":0}`)
	p.write("planted-input")
	p.awaitOutput("stderr", "planted-input")
	alice.call("process/closeStdin", obj{"processId": "p"})
	r.want(`{"event":"request",`+as("alice", "C1")+`,"method":"process/closeStdin","process":"p"}`,
		`{"event":"process.ended",`+as("alice", "C1")+`,"process":"p","run":1,"exitCode":3}`)

	alice.callError("process/start", startParams("q", obj{"argv": []string{"no-such-program"}}))
	r.want(`{"event":"process.refused",` + as("alice", "C1") + `,"process":"q","run":1,"argv":["no-such-program"],"dir":"/tmp","reason":"no such program"}`)
	alice.callError("process/start", startParams("q", obj{"argv": []string{"x"}, "size": obj{"rows": 1, "cols": 1}}))
	r.want(`{"event":"process.refused",` + as("alice", "C1") + `,"process":"q","argv":["x"],"dir":"/tmp","reason":"size is for a terminal: set tty true, or leave it out"}`)

	alice.start("r", obj{"argv": sh("exec sleep 1000")})
	alice.call("process/signal", obj{"processId": "r", "signal": "interrupt"})
	r.want(`{"event":"process.start",`+as("alice", "C1")+`,"process":"r","run":1,"argv":["/bin/sh","-c","exec sleep 1000"],"dir":"/tmp","variables":["PATH"],"tty":false}`,
		`{"event":"process.started",`+as("alice", "C1")+`,"process":"r","run":1,"pid":0}`,
		`{"event":"request",`+as("alice", "C1")+`,"method":"process/signal","process":"r","signal":"interrupt"}`,
		`{"event":"process.ended",`+as("alice", "C1")+`,"process":"r","run":1,"exitCode":130,"signal":"SIGINT"}`)

	file, content := "file://"+dir+"/a", base64.StdEncoding.EncodeToString([]byte("planted-content"))
	alice.call("fs/writeFile", obj{"path": file, "dataBase64": content})
	alice.call("fs/readFile", obj{"path": file})
	alice.callError("fs/createDirectory", obj{"path": file + "/b", "recursive": false})
	alice.call("fs/open", obj{"handleId": "h", "path": "file://" + dir + "/c", "mode": "replace"})
	alice.call("fs/writeBlock", obj{"handleId": "h", "offset": 0, "chunk": content})
	alice.call("fs/close", obj{"handleId": "h"})
	alice.call("fs/copy", obj{"sourcePath": file, "destinationPath": "file://" + dir + "/d", "recursive": false})
	alice.call("fs/remove", obj{"path": file})
	change := func(method, more string) string {
		return `{"event":"file.change",` + as("alice", "C1") + `,"method":"` + method + `",` + strings.ReplaceAll(more, "$", dir) + `}`
	}
	r.want(change("fs/writeFile", `"path":"$/a"`), change("fs/createDirectory", `"path":"$/a/b","error":"Not a directory (os error 20)"`),
		change("fs/open", `"path":"$/c","handle":"h"`), change("fs/close", `"path":"$/c","handle":"h"`),
		change("fs/copy", `"path":"$/d","from":"$/a"`), change("fs/remove", `"path":"$/a"`))

	host := strings.TrimPrefix(remote.URL, "http://")
	alice.call("http/request", obj{"method": "GET", "url": "http://planted-user:planted-password@" + host + "/planted-path?planted-query", "requestId": "1",
		"headers": []any{obj{"name": "X-Secret", "value": "planted-header"}}})
	r.want(`{"event":"http.request",` + as("alice", "C1") + `,"method":"GET","origin":"http://` + host + `"}`)

	bob := s.as("token-of-bob-in-plain", obj{"resumeSessionId": alice.sessionID, "role": "observer"})
	bob.callError("process/start", startParams("z", obj{"argv": sh("planted-observer")}))
	r.want(`{"event":"connection.accepted","identity":"bob","connection":"C2","transport":"websocket"}`,
		`{"event":"session.observed",`+as("bob", "C2")+`,"name":"work","owner":"alice"}`,
		`{"event":"request",`+as("bob", "C2")+`,"method":"process/start","refused":"an observer changes nothing: process/start is for the session's owner and its controllers"}`)
	bob.hangUp()
	r.want(`{"event":"connection.ended",` + as("bob", "C2") + `,"reason":"transport: the client ended the connection without a Close frame: unexpected EOF"}`)
	bob = s.as("token-of-bob-in-plain", obj{"resumeSessionId": alice.sessionID})
	bob.hangUp()
	r.want(`{"event":"connection.accepted","identity":"bob","connection":"C3","transport":"websocket"}`,
		`{"event":"session.refused","identity":"bob","connection":"C3","asked":"S1","reason":"bob may observe session S1, and not own or control it: set role to observer"}`,
		`{"event":"connection.ended","identity":"bob","connection":"C3","reason":"transport: the client ended the connection without a Close frame: unexpected EOF"}`)

	second := s.as("token-of-alice-in-plain", obj{"resumeSessionId": alice.sessionID, "role": "controller"})
	r.want(`{"event":"connection.accepted","identity":"alice","connection":"C4","transport":"websocket"}`,
		`{"event":"session.controlled",`+as("alice", "C4")+`,"name":"work"}`)
	second.start("v", obj{"argv": sh("exit 0")}).awaitClosed() // an event that comes later could turn the end of the connection into a reset
	r.want(`{"event":"process.start",`+as("alice", "C4")+`,"process":"v","run":1,"argv":["/bin/sh","-c","exit 0"],"dir":"/tmp","variables":["PATH"],"tty":false}`,
		`{"event":"process.started",`+as("alice", "C4")+`,"process":"v","run":1,"pid":0}`,
		`{"event":"process.ended",`+as("alice", "C4")+`,"process":"v","run":1,"exitCode":0}`)
	second.callError("process/start", startParams("w", obj{"argv": []string{"x"}, "size": obj{"rows": 1, "cols": 1}}))
	r.want(`{"event":"process.refused",` + as("alice", "C4") + `,"process":"w","argv":["x"],"dir":"/tmp","reason":"size is for a terminal: set tty true, or leave it out"}`)
	second.hangUp()
	r.want(`{"event":"connection.ended",` + as("alice", "C4") + `,"reason":"transport: the client ended the connection without a Close frame: unexpected EOF"}`)

	again := s.as("token-of-alice-in-plain", obj{"resumeSessionId": alice.sessionID, "takeover": true})
	alice.awaitEnd()
	r.want(`{"event":"connection.accepted","identity":"alice","connection":"C5","transport":"websocket"}`,
		`{"event":"session.takenOver",`+as("alice", "C5")+`,"name":"work"}`,
		`{"event":"connection.ended",`+as("alice", "C1")+`,"reason":"taken over by another connection"}`)

	again.call("command/exec", obj{"command": []string{"/bin/sh", "-c", "exit 4"}, "processId": "x", "env": obj{"PLANTED": nil}})
	for _, part := range []string{`"event":"program.start"`, `"event":"session.opened"`, `"event":"process.start"`, `"event":"process.started"`, `"exitCode":4`, `"event":"session.ended"`} {
		eventually(t, part, func() bool {
			return strings.Contains(strings.Join(strings.Split(r.text(), "\n")[r.read:], "\n"), part)
		})
	}
	r.read = strings.Count(r.text(), "\n")

	again.start("u", obj{"argv": sh("exec sleep 1000"), "tty": true})
	again.call("session/close", nil)
	again.awaitEnd()
	r.want(`{"event":"process.start",`+as("alice", "C5")+`,"process":"u","run":1,"argv":["/bin/sh","-c","exec sleep 1000"],"dir":"/tmp","variables":["PATH","SHELL"],"tty":true}`,
		`{"event":"process.started",`+as("alice", "C5")+`,"process":"u","run":1,"pid":0}`,
		`{"event":"request",`+as("alice", "C5")+`,"method":"session/close"}`,
		`{"event":"process.ended",`+as("alice", "C5")+`,"process":"u","run":1,"exitCode":143,"signal":"SIGTERM","reason":"session closed by request"}`,
		`{"event":"session.ended","identity":"alice","session":"S1","reason":"session closed by request"}`,
		`{"event":"connection.ended",`+as("alice", "C5")+`,"reason":"session closed by request"}`)
	s.stop()
	r.want(`{"event":"server.stop"}`)

	for i, line := range strings.Split(r.text(), "\n") {
		if strings.Contains(line, "planted") {
			t.Errorf("line %d has a secret: %s", i+1, line)
		}
	}
	if info, err := os.Stat(r.path); err != nil || info.Mode() != 0o600 {
		t.Error(err, info.Mode())
	}
}

// TestAuditUsers: the record says as whom a program was to run, before it runs, and as whom a file was changed.
func TestAuditUsers(t *testing.T) {
	needs.Root(t)
	r := newRecord(t)
	s := startServer(t, "--audit", r.path, "--users-file", usersFile(t, "* default nobody\n* "+stranger+" @server 4294967295\n"))
	r.want(`{"event":"server.start","version":"devel","pid":0,"listen":"` + s.url + `","auditFull":"refuse"}`)
	c := s.session(nil)
	r.want(`{"event":"connection.accepted","connection":"C1","transport":"websocket"}`, `{"event":"session.opened","connection":"C1","session":"S1"}`)
	const who = `"connection":"C1","session":"S1","process":"`
	for i, tt := range []struct {
		params obj
		want   string
	}{
		{obj{"user": stranger, "umask": "027", "noNewPrivs": true}, `,"user":{"name":"54321:54322","uid":54321,"gid":54322},"umask":"027","noNewPrivs":true`},
		{nil, `,"user":{"name":"nobody","uid":65534,"gid":65534}`},
		{obj{"user": "@server"}, ""},
	} {
		params := obj{"argv": []string{"true"}}
		maps.Copy(params, tt.params)
		id := nth("p", i)
		c.start(id, params).awaitClosed()
		r.want(`{"event":"process.start",`+who+id+`","run":1,"argv":["true"],"dir":"/tmp","variables":["PATH"],"tty":false`+tt.want+`}`,
			`{"event":"process.started",`+who+id+`","run":1,"pid":0}`,
			`{"event":"process.ended",`+who+id+`","run":1,"exitCode":0}`)
	}
	c.callError("process/start", startParams("p", obj{"argv": []string{"true"}, "user": "root"}))
	r.want(`{"event":"process.refused",` + who + `p","run":1,"argv":["true"],"dir":"/tmp","requestedUser":"root","reason":"user \"root\" is not among the users of \"\" in this server's --users-file (names and numbers are compared as text): leave user out, or name one of yours"}`)
	c.callError("process/start", startParams("p", obj{"argv": []string{"true"}, "user": strings.Repeat("u", 257)}))
	r.want(`{"event":"process.refused",` + who + `p","argv":["true"],"dir":"/tmp","requestedUser":"` + strings.Repeat("u", 257) + `","reason":"user has 257 bytes, the limit is 256"}`)
	c.callError("process/start", startParams("p", obj{"argv": []string{"true"}, "user": "4294967295"}))
	r.want(`{"event":"process.refused",` + who + `p","run":1,"argv":["true"],"dir":"/tmp","requestedUser":"4294967295","reason":"user \"4294967295\": \"4294967295\" is not a number from 0 to 4294967294"}`)

	dir := testroot.Dir(t, "")
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	change := func(method, more, after string) {
		t.Helper()
		r.want(`{"event":"file.change","connection":"C1","session":"S1","method":"` + method + `","path":"` + more + `,"user":{"name":"nobody","uid":65534,"gid":65534}` + after + `}`)
	}
	c.call("fs/writeFile", obj{"path": "file://" + dir + "/a", "dataBase64": "YQ=="})
	change("fs/writeFile", dir+`/a"`, "")
	c.call("fs/open", obj{"handleId": "h", "path": "file://" + dir + "/b", "mode": "replace"})
	change("fs/open", dir+`/b","handle":"h"`, "")
	c.call("fs/close", obj{"handleId": "h"})
	change("fs/close", dir+`/b","handle":"h"`, "")
	c.callError("fs/writeFile", obj{"path": "file:///etc/nobody", "dataBase64": "YQ=="})
	change("fs/writeFile", `/etc/nobody"`, `,"error":"Permission denied (os error 13)"`)
}

// TestAuditFull: while the disk is full, programs start or not, as the operator wants, and everything that
// runs goes on. When there is room again, a line has the number of lost lines.
func TestAuditFull(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"refuse", "continue"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			needs.Mount(t)
			r := newRecord(t)
			dir := filepath.Dir(r.path)
			if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
			s := startServer(t, "--audit", r.path, "--audit-full", mode)
			c := s.session(nil)
			echo := c.start("echo", obj{"argv": []string{"cat"}, "pipeStdin": true})
			exec.Command("dd", "if=/dev/zero", "of="+dir+"/full", "bs=4k").Run() // until there is no room
			marker := filepath.Join(t.TempDir(), "ran")
			long := strings.Repeat("x", 8<<10) // the last block of the file may have some room
			ran := 0
			for i := range 20 {
				answer := c.reply(c.request("process/start", startParams(nth("p", i), obj{"argv": sh("echo >>" + marker + " #" + long)})))
				if e := errorOf(answer); e == nil {
					ran++
				} else if text := jsonText(e); mode == "continue" || num(e["code"]) != -32603 || !strings.Contains(text, "no space left on device") || !strings.Contains(text, "--audit-full") {
					t.Errorf("the start: %s", text)
				}
				echo.write(nth("hello", i))
				echo.awaitOutput("stdout", nth("hello", i))
			}
			if mode == "continue" != (ran == 20) || ran > 20 {
				t.Errorf("%d of 20 programs ran", ran)
			}
			eventually(t, "the programs that may run have run", func() bool {
				text, _ := os.ReadFile(marker)
				return len(text) == ran
			})
			if notes := jsonText(c.call("server/info", nil)["notes"]); !strings.Contains(notes, "audit log cannot be written") || !strings.Contains(notes, "lines are lost") {
				t.Errorf("server/info has the notes %s", notes)
			}
			if text := s.stderr.String(); !strings.Contains(text, "the audit log cannot be written") {
				t.Errorf("stderr: %s", text)
			}
			if err := os.Remove(dir + "/full"); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the number of lost lines", func() bool { return strings.Contains(r.text(), `"event":"audit.lost","lines":`) })
			c.start("later", obj{"argv": sh("exit 0")}).awaitClosed()
			eventually(t, "the end of the next program", func() bool {
				return regexp.MustCompile(`process.ended".*"process":"later"`).MatchString(r.text())
			})
			for line := range strings.Lines(r.text()) {
				if !json.Valid([]byte(line)) {
					t.Errorf("not JSON: %.300s", line)
				}
			}
			if notes := c.call("server/info", nil)["notes"]; strings.Contains(jsonText(notes), "audit") {
				t.Errorf("server/info still has the notes %s", notes)
			}
		})
	}
}

// TestAuditRotated: no line is lost when the file is renamed while programs start.
func TestAuditRotated(t *testing.T) {
	t.Parallel()
	r := newRecord(t)
	s := startServer(t, "--audit", r.path, "--audit-argv=false")
	c := s.session(nil)
	const starts = 60
	for i := range starts {
		if i%20 == 10 {
			if err := os.Rename(r.path, nth(r.path+".", i)); err != nil {
				t.Fatal(err)
			}
		}
		c.start(nth("p", i), obj{"argv": []string{"/bin/sh", "-c", "true", "planted"}}).awaitClosed()
	}
	s.stop()
	files, _ := filepath.Glob(r.path + "*")
	all := ""
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all += string(text)
	}
	for _, event := range []string{"process.start", "process.started", "process.ended"} {
		if n := strings.Count(all, `"event":"`+event+`"`); n != starts {
			t.Errorf("%d lines of %s, want %d", n, event, starts)
		}
	}
	if len(files) != 4 || strings.Contains(all, "planted") || !strings.Contains(all, `"argv":["/bin/sh"]`) {
		t.Errorf("files %v; %.2000s", files, all)
	}
}

// TestAuditFlags: the server does not start with a record that it cannot write.
func TestAuditFlags(t *testing.T) {
	t.Parallel()
	cases := map[string][]string{
		"choose a file that the server may write": {"--audit", "/no/such/directory/audit.log"},
		`--audit-full "drop"`:                     {"--audit", "stderr", "--audit-full", "drop"},
		"are for --audit":                         {"--audit-full", "continue"},
	}
	if _, err := os.Stat("/run/systemd/journal/socket"); err != nil {
		cases["or start journald"] = []string{"--audit", "journald"}
	}
	if _, err := os.Stat("/dev/log"); err != nil {
		cases["or start a syslog"] = []string{"--audit", "syslog"}
	}
	for says, flags := range cases {
		p := startTroupe(t, nil, append([]string{"serve", "--listen", "stdio"}, flags...)...)
		if p.exitCode() == 0 || !strings.Contains(p.stderr.String(), says) {
			t.Errorf("%v: %s", flags, p.stderr)
		}
	}
}

// BenchmarkAuditedStart compares starts with and without a record.
func BenchmarkAuditedStart(b *testing.B) {
	for name, flags := range map[string][]string{"none": nil, "file": {"--audit", newRecord(b).path}} {
		b.Run(name, func(b *testing.B) {
			c := startServer(b, append(flags, "--closed-retention", "0")...).session(nil)
			for i := 0; b.Loop(); i++ {
				c.start(nth("p", i), obj{"argv": []string{"/bin/true"}}).awaitClosed()
			}
		})
	}
}

// TestAuditFlood: a client without rights repeats every method, and fails to attach. Its place in the record is bounded, and
// the record tells how much was left out. The lines of others are all there.
func TestAuditFlood(t *testing.T) {
	t.Parallel()
	k, r := newKeyring(t), newRecord(t)
	k.file("tokens", "alice token-of-alice-in-plain\neve token-of-eve-in-plain\n")
	policy := newPolicy(t, "alice run /**\nalice cwd /\n")
	s := startServer(t, "--auth-token-file", k.path("tokens"), "--policy-file", policy.path, "--audit", r.path)
	began := time.Now()
	h := hunt.New(1, 0, "7402", t.TempDir(), "http://127.0.0.1:1/")
	const times = 150
	flood := func(eve *conn, method string) {
		var last int64
		for range times {
			last = eve.request(method, h.Params(method))
		}
		eve.reply(last)
		eve.hangUp()
	}
	for _, method := range hunt.Methods() {
		switch method {
		case "initialized", "session/ack", "session/close": // notifications, and the end of the session
		case "process/start", "group/start":
			flood(s.as("token-of-eve-in-plain", knowing), method)
		default:
			flood(s.as("token-of-eve-in-plain", nil), method)
			flood(s.asApp("token-of-eve-in-plain"), method)
		}
	}
	for range times {
		s.as("token-of-eve-in-plain", obj{"resumeSessionId": "none"}).hangUp()
		dialAs(t, s.url, "Bearer wrong", nil)
	}
	alice := s.as("token-of-alice-in-plain", nil)
	alice.start("p", obj{"argv": []string{"true"}}).awaitClosed()
	alice.call("session/close", nil)
	alice.awaitEnd()
	s.stop()
	took := time.Since(began)

	of := make(map[string]int) // bytes, by identity
	var leftOut int
	var alices []string
	for line := range strings.Lines(r.text()) {
		var e struct {
			Event, Identity string
			ByEvent         map[string]int
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		switch {
		case e.Event == "process.start" && e.Identity == "eve":
			t.Errorf("the record has a start that the policy refuses: %s", line)
		case e.Event == "audit.leftOut":
			for _, n := range e.ByEvent {
				leftOut += n
			}
		case e.Identity == "alice":
			alices = append(alices, e.Event)
		}
		of[e.Identity] += len(line)
	}
	if most := 1<<20 + int(took.Seconds()*4096) + 64<<10; of["eve"] > most || of[""] > most || leftOut == 0 {
		t.Errorf("%d bytes of eve and %d of strangers in %v, want %d at most; %d lines were left out", of["eve"], of[""], took, most, leftOut)
	}
	slices.Sort(alices)
	if want := []string{"connection.accepted", "connection.ended", "process.ended", "process.start", "process.started", "request", "session.ended", "session.opened"}; !slices.Equal(alices, want) {
		t.Errorf("the record has %v of alice, want %v", alices, want)
	}
	t.Logf("%d bytes of eve in %v, and %d lines left out", of["eve"], took, leftOut)
}
