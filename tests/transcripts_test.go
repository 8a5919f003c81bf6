package tests

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/testroot"
	"github.com/gorilla/websocket"
)

// testdata/transcripts has recorded conversations between the peer (the Rust exec-server, 0.169.0) and
// a probe. Each line is a message: conn (0 if absent), dir (c2s, s2c, or test for an instruction to the
// replay), msg, and kind for anything except a plain text message. The recordings were edited:
//
//   - Times, upgrades, and the probe's notes about its own cuts are left out. Paths and facts of the
//     recording machine are replaced by neutral ones.
//   - Pauses between lines are gone. Some recorded programs slept to print in pieces, or to stay alive
//     for a while. They now wait for a line from the FIFO $GATE, sent by a release line. Other long
//     sleeps and waits are longer. A sleeps line waits until the program sleeps: a starting shell may lose
//     a SIGINT, and dies from it before it has run its trap. A waits line waits until the program, a shell, waits
//     for its child: a bash 5.2 with SIGINT just before sends SIGINT to itself without end, and never exits.
//   - session_resume: the resume of an attached session (1/4) stands before the cut. In the recording,
//     the resume came 0.3 ms after the cut, and the answer depended on chance. The read 2/3 starts at
//     seq 4 instead of 10, with its recorded answer shifted: each server cuts unobserved output into
//     chunks in its own way.
//   - process_write_signal_terminate: "started" of tmg comes before its terminate; exgt prints "started"
//     from the process that left the session; session/close (c36) stands last, because our server
//     implements it.
//   - closed_retention_30s has no ping; keepalive_70s covers pings.
//   - /srv stands for a directory, and http://127.0.0.1:18999 for a web server, both made by the replay
//     (func newPlaces). In the recording, the search for .git from /srv/a/b/work upwards went up to /;
//     here the search ends at /srv.
//   - cwd_env_policy and env_core_fs_handle_resume use a server with the peer's environment
//     (environments). Its PATH has the peer's directories first, and then the PATH of bareEnv.
//   - In real_client_reconnect the proxy cut the client off; here the cut is an abort. The output of
//     real_client_tty is shorter. All lists are sorted, because the peer's order is arbitrary.

// A difference is an intended difference between our answer and the peer's. A difference that no longer
// occurs also fails the test.
type difference struct {
	transcript string
	// at is the id of a request, a process, the end of a connection, or the method of a notification
	// that only the peer sends: "27", "1/27" on connection 1, "process m7", "end of 1",
	// "fs/missingChanged".
	at string
	// why names the row of Appendix A in docs/protocol/codex.md, or the method that only our server has.
	why string
	// ours is our answer. For a request, the content of "result" or "error" is enough; for a process,
	// some of exitCode, stdout, stderr, pty; for an end, the close code.
	ours string
}

const (
	whyTTYSignal  = "a tty ended by a signal reports exit code 1"
	whyTTYCwd     = "a tty with a missing cwd runs in $HOME"
	whyExited     = "a write to an exited process is `accepted`"
	whyAdded      = "no resize, no close of stdin; and other methods that only ours has"
	whySandbox    = "a managed network is refused"
	whyConcurrent = "a long poll or a full stdin holds up every later request"
	whyReordered  = "with concurrency, stdin writes are reordered"
	whyViolation  = "a protocol violation cuts the TCP connection"
	whyClose      = "a Close frame is answered with one"
	whyGoingAway  = "a server that stops says so in a Close frame"
	whyHelpers    = "an inherited PATH begins with directories of the peer's own"
)

var differences = []difference{
	{"process_start", "27", whyTTYCwd, `{"error":{"code":-32603}}`},
	{"process_start", "process t3", whyAdded, `{"pty":"50 132\r\n"}`},
	{"process_start", "50", whySandbox, `{"error":{"code":-32602}}`},

	{"process_read", "process pk9", whyTTYSignal, `{"exitCode":137}`},

	{"process_write_signal_terminate", "c14", whyExited, `{"result":{"status":"stdinClosed"}}`},
	{"process_write_signal_terminate", "c15", whyExited, `{"result":{"status":"stdinClosed"}}`},
	{"process_write_signal_terminate", "c16", whyExited, `{"result":{"status":"stdinClosed"}}`},
	{"process_write_signal_terminate", "process tcc", whyTTYSignal, `{"exitCode":130}`},
	{"process_write_signal_terminate", "c23", whyAdded, `{"result":{}}`},
	{"process_write_signal_terminate", "c24", whyAdded, `{"result":{}}`},
	{"process_write_signal_terminate", "c29", whyAdded, `{"error":{"code":-32600}}`},
	{"process_write_signal_terminate", "c30", whyAdded, `{"error":{"code":-32602}}`},
	{"process_write_signal_terminate", "c33", whyAdded, `{"error":{"code":-32602}}`},
	{"process_write_signal_terminate", "c40", whyAdded, `{"error":{"code":-32602}}`},
	{"process_write_signal_terminate", "c31", whyAdded, `{"result":{}}`},
	{"process_write_signal_terminate", "c32", whyAdded, `{"result":{}}`},
	{"process_write_signal_terminate", "c34", whyAdded, `{"result":{"exited":true,"closed":true}}`},
	{"process_write_signal_terminate", "c35", whyAdded, `{"result":{"processId":"sg","state":"closed"}}`},
	{"process_write_signal_terminate", "c36", whyAdded, `{"result":{}}`},
	{"process_write_signal_terminate", "c37", whyAdded, `{"result":{}}`},
	{"process_write_signal_terminate", "process tmt", whyTTYSignal, `{"exitCode":137}`},
	{"process_write_signal_terminate", "c49", whyTTYSignal, `{"result":{"chunks":[],"nextSeq":3,"exited":true,"exitCode":137,"closed":true,"failure":null,"sandboxDenied":false}}`},
	{"process_write_signal_terminate", "process tmgt", whyTTYSignal, `{"exitCode":137}`},

	{"concurrency_1", "10", whyConcurrent, `{"result":{"chunks":[],"nextSeq":2,"exited":true,"exitCode":137,"closed":false,"failure":null,"sandboxDenied":false}}`},
	{"concurrency_1", "20", whyConcurrent, `{"result":{"chunks":[],"nextSeq":2,"exited":true,"exitCode":137,"closed":false,"failure":null,"sandboxDenied":false}}`},

	{"concurrency_8_write_reorder_x5", "process c1", whyReordered, `{"stdout":"1\n2\n3\n4\n5\n6\n"}`},
	{"concurrency_8_write_reorder_x5", "process c2", whyReordered, `{"stdout":"1\n2\n3\n4\n5\n6\n"}`},
	{"concurrency_8_write_reorder_x5", "process c3", whyReordered, `{"stdout":"1\n2\n3\n4\n5\n6\n"}`},
	{"concurrency_8_write_reorder_x5", "process c4", whyReordered, `{"stdout":"1\n2\n3\n4\n5\n6\n"}`},
	{"concurrency_8_write_reorder_x5", "process c5", whyReordered, `{"stdout":"1\n2\n3\n4\n5\n6\n"}`},
	{"concurrency_8_write_reorder_x5", "t", whyTTYCwd, `{"error":{"code":-32603}}`},

	{"closed_retention_30s", "3", whyExited, `{"result":{"status":"stdinClosed"}}`},
	{"closed_retention_30s", "5", whyExited, `{"result":{"status":"stdinClosed"}}`},

	{"session_resume", "end of 1", whyViolation, `{"code":1002}`},
	{"session_resume", "end of 2", whyViolation, `{"code":1002}`},
	{"session_resume2", "end of 1", whyClose, `{"code":1000}`},
	{"viol_bad_binary", "end of 0", whyClose, `{"code":1000}`},
	{"viol_client_error", "end of 0", whyViolation, `{"code":1002}`},
	{"viol_client_response", "end of 0", whyViolation, `{"code":1002}`},
	{"viol_initialized_first", "end of 0", whyViolation, `{"code":1002}`},
	{"viol_unknown_notif", "end of 0", whyViolation, `{"code":1002}`},
	{"sigterm_connected", "end of 0", whyGoingAway, `{"code":1001}`},

	{"fs_http_env", "82", whyAdded, `{"error":{"code":-32602}}`},

	{"misc_0169", "17", whySandbox, `{"error":{"code":-32602}}`},

	{
		"cwd_env_policy", `process {"inherit": "all", "ignoreDefaultExcludes": false, "exclude": [], "set": {}, "includeOnly": ["FOO*", "PATH"]}`,
		whyHelpers, `{"stdout":"FOO1=x\nPATH=/usr/local/bin:/usr/bin:/bin\n"}`,
	},

	{"real_client_tty", "process 38186-54a2324b-dbf9-4457-9f7f-4427d9d30da2", whyTTYSignal, `{"exitCode":130}`},
}

// dependable are error texts that a client of the peer may compare, because all of them share the code
// -32600. Our texts are equal to the letter. All other error texts are our own.
var dependable = []*regexp.Regexp{
	regexp.MustCompile(`^unknown session id `),
	regexp.MustCompile(`^unknown process id `),
	regexp.MustCompile(`^process .* already exists$`),
	regexp.MustCompile(`^client must (call initialize|send initialized) before `),
	regexp.MustCompile(`^initialize may only be sent once per connection$`),
}

// ofTheServer are members with values specific to each server: ids, facts about the environment, and
// creation times of files. Only their types are compared.
var ofTheServer = []string{
	"sessionId", "executorVersion", "providerId", "cwd", "userHomeDir", "tempDir", "capabilities",
	"prependPathDirs", "temporaryDirectories", "shell.name", "shell.path", "codexHomeDir", "hostname",
	"createdAtMs", "modifiedAtMs",
}

// isOfTheServer reports whether the member of an object at path is specific to each server.
func isOfTheServer(path string, of obj, member string) bool {
	return member == "size" && of["isDirectory"] == true || // file systems count the size of a directory differently
		slices.ContainsFunc(ofTheServer, func(own string) bool { return strings.HasSuffix(path+"."+member, "."+own) })
}

// environments has the environments of transcripts that need their own server.
var environments = map[string][]string{
	"cwd_env_policy": {
		"HOME=/home/user", "LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin", "SHELL=/bin/bash",
		"FOO1=x", "BAR=y", "MY_API_KEY=k", "MY_SECRET=s", "MY_TOKEN=t",
	},
	"env_core_fs_handle_resume": append(slices.Clip(bareEnv), "LC_ALL=C", "LC_CTYPE=C", "LOGNAME=l", "TEMP=/t1", "TMP=/t2",
		"TMPDIR=/td", "USER=u", "TERM=dumb", "TZ=UTC", "USERNAME=u", "PWD=/", "HOSTNAME=h"),
}

// varying are the programs whose output contains pids, times and the like.
var varying = []string{"process_start/t1", "process_start/t2"}

// unseen are reads of output that came while nobody was attached, or from a terminal. Chance decides
// how such output is cut into chunks, so only the bytes are compared.
var unseen = []string{"session_resume/2/3", "process_write_signal_terminate/c56"}

// TestTranscripts sends the recorded messages of the client, and compares our server with the peer: the
// results in shape and value, the error codes, the bytes and the end of each process, and the ends of
// connections. Only declared differences are allowed.
func TestTranscripts(t *testing.T) { testTranscripts(t, false) }

// keepalive is a transcript of two pings: half a minute.
const keepalive = "keepalive_70s"

func testTranscripts(t *testing.T, ofPings bool) {
	t.Parallel()
	root := testroot.Dir(t, "")
	start := func(t *testing.T, env []string, args ...string) *server {
		return startConfined(t, func(cmd *exec.Cmd) { cmd.Env = env }, []string{root}, args...)
	}
	shared := start(t, bareEnv, "--allow-http")
	for _, name := range transcripts(t) {
		if (name == keepalive) != ofPings {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shared.in(t)
			if name == "misc_0169" { // has a sandbox
				startWarden(t, os.Geteuid())
			}
			if env := environments[name]; env != nil {
				s = start(t, env)
			} else if name == "sigterm_connected" {
				s = start(t, serverEnv)
			}
			r := &replay{
				t: t, name: name, lines: readTranscript(t, name), places: newPlaces(t, root), root: root,
				dial: s.dial, sigterm: func() { s.signal(syscall.SIGTERM) },
				awaitSleep: awaitSleep, awaitWait: awaitWait, explain: explain, timeout: factTimeout,
			}
			r.expect(differences)
			for _, m := range r.run() {
				t.Error(m)
			}
		})
	}
}

// TestSessionExpires is session_ttl with a shorter time: the session, still resumable in the recording,
// is gone here with its process.
func TestSessionExpires(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--detached-ttl", "100ms")
	c := s.session(nil)
	pid := c.start("ttl", obj{"argv": sh("sleep 600")}).pid()
	observer := s.observe(c.sessionID, nil)
	c.cutRST()
	eventually(t, "the process of an expired session is gone", func() bool { return !alive(pid) })
	code, text := s.dial().callError("initialize", obj{"clientName": "late", "resumeSessionId": c.sessionID})
	if want := "unknown session id " + c.sessionID; code != -32600 || text != want {
		t.Errorf("resume of an expired session: %d %q, want -32600 %q", code, text, want)
	}
	if code, _ := observer.awaitClose(); code != 4001 {
		t.Errorf("the observer got Close %d, want 4001", code)
	}
	if len(observer.other) != 2 || observer.other[0]["method"] != "session/expiring" || observer.other[1]["method"] != "session/evicted" {
		t.Errorf("the observer was told %s, want session/expiring and session/evicted", jsonText(observer.other))
	}
}

// TestClosedProcessIsForgotten is closed_retention_30s with a shorter time: the process, still readable
// in the recording, is forgotten here, and its id is free.
func TestClosedProcessIsForgotten(t *testing.T) {
	t.Parallel()
	c := startServer(t, "--closed-retention", "100ms").session(nil)
	c.start("r", obj{"argv": sh("echo x")}).awaitClosed()
	eventually(t, "a closed process is forgotten", func() bool {
		answer := c.reply(c.request("process/read", obj{"processId": "r"}))
		e, failed := answer["error"].(obj)
		return failed && num(e["code"]) == -32600 && e["message"] == "unknown process id r"
	})
	if code, out := c.start("r", obj{"argv": sh("echo again; exit 3")}).awaitClosed(); code != 3 || out != "again\n" {
		t.Errorf("a new process under the id: exit code %d, stdout %q", code, out)
	}
}

// explain tells what the server and the system know of a process.
func explain(c *conn, processID string) string {
	p := c.process(processID)
	text := jsonText(c.call("process/info", obj{"processId": processID})) + "\n" + members(p.pid())
	for _, file := range []string{"syscall", "stack"} { // where the program is, if it does not end
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.pid(), file))
		text += fmt.Sprintf("\n%s: %s%v", file, state, err)
	}
	return text + fmt.Sprintf("\npty: %q", p.outputSoFar("pty"))
}

// awaitSleep waits until a program sleeps.
func awaitSleep(c *conn, processID string) {
	c.t.Helper()
	pid := c.process(processID).pid()
	eventually(c.t, processID+" sleeps", func() bool {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		for _, id := range append(strings.Fields(string(children)), fmt.Sprint(pid)) {
			if name, _ := os.ReadFile("/proc/" + id + "/comm"); string(name) == "sleep\n" {
				return true
			}
		}
		return false
	})
}

// awaitWait waits until a program waits for its child.
func awaitWait(c *conn, processID string) {
	c.t.Helper()
	pid := c.process(processID).pid()
	eventually(c.t, processID+" waits for its child", func() bool {
		call, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
		return err != nil || strings.HasPrefix(string(call), fmt.Sprint(syscall.SYS_WAIT4, " "))
	})
}

// newPlaces makes the places mentioned in recordings: /srv with its files, and a web server for some of
// the files.
func newPlaces(t testing.TB, root string) map[string]string {
	t.Helper()
	srv := testroot.Dir(t, root)
	for _, dir := range []string{"/fsd/sub", "/cwd/a b", "/cwd/é", "/a/b/work"} {
		if err := os.MkdirAll(srv+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		os.WriteFile(srv+"/fsd/a.txt", []byte("hello\n"), 0o644), os.WriteFile(srv+"/fsd/bin", []byte{0xff, 0}, 0o644),
		os.Symlink("a.txt", srv+"/fsd/lnk"), syscall.Mkfifo(srv+"/fsd/fifo", 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["Date"] = nil
		h.Set("Server", "files")
		switch r.URL.Path {
		case "/a.txt":
			h.Set("Content-Type", "text/plain")
			h.Set("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
			w.Write([]byte("hello\n"))
		case "/sub":
			h.Set("Location", "/sub/")
			h.Set("Content-Length", "0")
			w.WriteHeader(http.StatusMovedPermanently)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(web.Close)
	return map[string]string{"/srv": srv, "http://127.0.0.1:18999": web.URL}
}

// --- the replay ---

// line is a line of a transcript.
type line struct {
	Conn    int
	Dir     string          // c2s, s2c, test
	Kind    string          // c2s: "", binary, frag, ping, close, abort; s2c: "", ping, pong, end; test: release, sleeps, waits, sigterm
	Process string          // of a test line
	Msg     json.RawMessage // a string is sent unchanged
}

func transcripts(t testing.TB) (names []string) {
	t.Helper()
	files, err := filepath.Glob("testdata/transcripts/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts: ", err)
	}
	for _, file := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".jsonl"))
	}
	return names
}

func readTranscript(t testing.TB, name string) (lines []line) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata/transcripts", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for text := range bytes.Lines(data) {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatalf("%s: %v: %s", name, err, text)
		}
		lines = append(lines, l)
	}
	return lines
}

// replay sends a transcript to a server, line by line. At each line of the peer, replay waits for the
// same event of our server. So every fact on which a later line depends is true when this line is sent.
type replay struct {
	t          testing.TB
	name       string
	lines      []line
	places     map[string]string // recorded place → our place, from newPlaces; or empty
	root       string            // the parent of what the replay makes; "": the directory for temporary files
	dial       func() *conn
	sigterm    func()
	awaitSleep func(c *conn, processID string)
	awaitWait  func(c *conn, processID string)
	explain    func(c *conn, processID string) string // of a process that does not do what is awaited
	timeout    time.Duration

	declared map[string]difference // by at
	stale    map[string]bool       // declared differences not yet seen

	conns    map[int]*conn
	requests map[string]json.RawMessage // as sent, by at
	gates    map[string]*os.File        // by process
	sessions map[string]string          // recorded id → ours
	of       map[int]string             // connection → recorded session id

	recorded, ours map[processKey]*life
	notStarted     map[processKey]bool  // our server refused the start, as compared
	said           map[processOn]string // recorded output up to the current line
	pings          map[int]int          // recorded pings up to the current line, by connection
	others         map[string]int       // recorded notifications not about a process up to the current line, by method

	mismatches []string
}

// processKey names a process across the connections of its session.
type processKey struct{ session, process string }

// processOn is a process as seen on a connection.
type processOn struct {
	conn    int
	process string
}

// life is the knowledge about a process from the notifications and reads of all connections.
type life struct {
	chunks map[int64]outputChunk // by seq
	exited obj
	closed bool
}

// errStop ends a replay with nothing left to wait for.
var errStop = errors.New("stop")

func (r *replay) expect(all []difference) {
	r.declared, r.stale = map[string]difference{}, map[string]bool{}
	for _, d := range all {
		if d.transcript == r.name {
			r.declared[d.at], r.stale[d.at] = d, true
		}
	}
}

// run returns every mismatch.
func (r *replay) run() []string {
	r.conns, r.requests, r.gates = map[int]*conn{}, map[string]json.RawMessage{}, map[string]*os.File{}
	r.sessions, r.of = map[string]string{}, map[int]string{}
	r.recorded, r.ours, r.notStarted = map[processKey]*life{}, map[processKey]*life{}, map[processKey]bool{}
	r.said, r.pings = map[processOn]string{}, map[int]int{}
	defer func() {
		for _, gate := range r.gates {
			gate.Close()
		}
	}()
	complete := true
	for i, l := range r.lines {
		if r.step(l) != nil {
			r.mismatch("line %d: the replay ends here: %s", i+1, jsonText(l))
			complete = false
			break
		}
	}
	for n, c := range r.conns {
		c.hangUp()
		c.mu.Lock()
		for _, fault := range c.faults {
			r.mismatch("connection %d: %s", n, fault)
		}
		for id, p := range c.procs {
			r.learn(r.ours, r.key(n, id), p.chunks, p.exited, p.closed)
		}
		c.faults = nil // the faults were reported
		c.mu.Unlock()
	}
	if !complete {
		return r.mismatches
	}
	for key, peer := range r.recorded {
		if !r.notStarted[key] {
			r.compareLives(key, peer, r.life(r.ours, key))
		}
	}
	r.toldEnough()
	for at := range r.stale {
		r.mismatch("%s: the declared difference (%s) does not occur", at, r.declared[at].why)
	}
	return r.mismatches
}

func (r *replay) mismatch(format string, args ...any) {
	r.mismatches = append(r.mismatches, fmt.Sprintf(r.name+": "+format, args...))
}

// check compares our answer with the peer's, or with the declared difference.
func (r *replay) check(at string, peer, ours any) (problem string) {
	if slices.Contains(unseen, r.name+"/"+at) {
		return unlikeUnseen(resultOf(peer.(obj)), resultOf(ours.(obj)))
	}
	problem = unlike(peer, ours, "")
	d, declared := r.declared[at]
	if !declared {
		return problem
	}
	if problem == "" {
		return "" // r.stale reports the difference at the end
	}
	delete(r.stale, at)
	if problem = unlike(decode([]byte(d.ours)), ours, ""); problem != "" {
		problem += " (difference declared: " + d.why + ")"
	}
	return problem
}

func (r *replay) step(l line) error {
	c := r.conns[l.Conn]
	if c == nil {
		c = r.dial()
		c.timeout = r.timeout
		c.lastID.Store(1 << 40) // the replay's own requests have ids away from the recorded ids
		r.conns[l.Conn] = c
	}
	switch l.Dir + " " + l.Kind {
	case "c2s ":
		r.send(c, l, websocket.TextMessage)
	case "c2s binary":
		r.send(c, l, websocket.BinaryMessage)
	case "c2s frag":
		half := len(l.Msg) / 2
		c.write(false, websocket.TextMessage, l.Msg[:half])
		c.write(true, 0, l.Msg[half:])
	case "c2s ping":
		c.sendRaw(websocket.PingMessage, unquote(l.Msg))
	case "c2s close":
		c.sendRaw(websocket.CloseMessage, binary.BigEndian.AppendUint16(nil, websocket.CloseNormalClosure))
	case "c2s abort":
		c.cutRST()
	case "s2c ping":
		r.pings[l.Conn]++
		return r.await(c, "a ping", func() bool { return c.pings >= r.pings[l.Conn] })
	case "s2c pong":
		return r.await(c, "a pong", func() bool { return slices.Contains(c.pongs, string(unquote(l.Msg))) })
	case "s2c end":
		return r.ended(c, l)
	case "s2c ":
		peer := r.translate(decode(l.Msg))
		if _, notification := peer["method"]; notification {
			if _, hasProcess := peer["params"].(obj)["processId"]; !hasProcess {
				return r.told(c, peer)
			}
			return r.notified(c, l.Conn, peer)
		}
		return r.answered(c, l.Conn, peer)
	case "test release":
		_, err := r.gates[l.Process].WriteString("\n")
		return err
	case "test sleeps":
		r.awaitSleep(c, l.Process)
	case "test waits":
		r.awaitWait(c, l.Process)
	case "test sigterm":
		r.sigterm()
	default:
		r.t.Fatalf("no such line: %s", jsonText(l))
	}
	return nil
}

// await returns a mismatch if the fact does not come true.
func (r *replay) await(c *conn, what string, ok func() bool) error {
	if err := c.tryAwait(ok); err != nil {
		r.mismatch("%s: %v", what, err)
		return errStop
	}
	return nil
}

// at names a request by its id, after the number of its connection unless the number is 0.
func at(conn int, id any) string {
	text, isString := id.(string)
	if !isString {
		text = jsonText(id)
	}
	if conn > 0 {
		text = fmt.Sprintf("%d/%s", conn, text)
	}
	return text
}

func (r *replay) send(c *conn, l line, opcode byte) {
	data := []byte(r.translated(string(l.Msg)))
	if data[0] == '"' {
		data = unquote(data)
	} else if request := decode(data); request != nil {
		if request["method"] == "process/start" {
			data = r.prepare(c, request, data)
		}
		r.requests[at(l.Conn, request["id"])] = data
	}
	c.sendRaw(opcode, data)
}

// prepare makes the gate of a process if the process waits for a gate.
func (r *replay) prepare(c *conn, request obj, data []byte) []byte {
	params := request["params"].(obj)
	id, _ := params["processId"].(string)
	c.update(func() { c.started[id] = true })
	if !bytes.Contains(data, []byte("$GATE")) {
		return data
	}
	path := filepath.Join(testroot.Dir(r.t, r.root), "gate")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		r.t.Fatal(err)
	}
	// Open the FIFO for reading and writing: neither the replay nor the program then waits in open.
	gate, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	r.gates[id] = gate
	params["env"].(obj)["GATE"] = path
	return []byte(jsonText(request))
}

// answered waits for our answer and compares it. Two kinds of requests are repeated until time brings
// the answer: a resume refused because the server has not noticed the cut, and a read whose output is
// still on its way.
func (r *replay) answered(c *conn, conn int, peer obj) error {
	at := at(conn, peer["id"])
	request := decode(r.requests[at])
	params, _ := request["params"].(obj)
	for deadline := time.Now().Add(r.timeout); ; time.Sleep(5 * time.Millisecond) {
		var ours obj
		if err := r.await(c, "the answer to "+at, func() bool {
			ours = c.takeReply(peer["id"])
			return ours != nil
		}); err != nil {
			return err
		}
		result, _ := ours["result"].(obj)
		failure, _ := ours["error"].(obj)
		if waits(params) {
			aMomentLater(peer, result)
		}
		inOrder(request["method"], result)
		problem := r.check(at, peer, ours)
		if problem != "" && peer["result"] != nil && time.Now().Before(deadline) {
			resume := request["method"] == "initialize" && num(failure["code"]) == -32010
			read := request["method"] == "process/read" && !waits(params) && result != nil && result["closed"] == false
			if resume || read {
				c.sendRaw(websocket.TextMessage, r.requests[at])
				continue
			}
		}
		if problem != "" {
			r.mismatch("%s: %s\n\t   sent %s\n\tanswer %s\n\t  peer %s", at, problem, r.requests[at], jsonText(ours), jsonText(peer))
		}
		r.file(conn, request, params, peer, ours)
		return nil
	}
}

// inOrder sorts lists without an order on the wire, as the recordings are sorted.
func inOrder(method any, result obj) {
	sorted := func(list any, by string) {
		members, _ := list.([]any)
		slices.SortFunc(members, func(a, b any) int {
			return strings.Compare(fmt.Sprint(a.(obj)[by]), fmt.Sprint(b.(obj)[by]))
		})
	}
	switch method {
	case "fs/readDirectory":
		sorted(result["entries"], "fileName")
	case "http/request":
		sorted(result["headers"], "name")
	}
}

// waits reports whether a read is a long poll.
func waits(params obj) bool {
	ms, isNumber := params["waitMs"].(json.Number)
	return isNumber && ms != "0"
}

// aMomentLater allows an answer to a long poll that was woken by the exit, and written when the process
// had also closed.
func aMomentLater(peer, ours obj) {
	p, _ := peer["result"].(obj)
	if ours["closed"] == true && (p["closed"] == false) {
		ours["closed"] = false
		ours["nextSeq"] = json.Number(fmt.Sprint(num(ours["nextSeq"]) - 1))
	}
}

// file keeps the parts of an answer needed by later lines and by the comparison of lives.
func (r *replay) file(conn int, request, params, peer, ours obj) {
	theirs, _ := peer["result"].(obj)
	result, _ := ours["result"].(obj)
	id, _ := params["processId"].(string)
	switch request["method"] {
	case "initialize":
		recorded, _ := theirs["sessionId"].(string)
		id, _ := result["sessionId"].(string)
		if recorded == "" || id == "" {
			return
		}
		if back, resumed := r.recordedSession(recorded); resumed {
			recorded = back
			if r.sessions[recorded] != id {
				r.mismatch("resumed session %s and got %s", r.sessions[recorded], id)
			}
		}
		r.sessions[recorded], r.of[conn] = id, recorded
	case "process/start":
		if theirs != nil && result == nil {
			r.notStarted[r.key(conn, id)] = true
		}
	case "process/read":
		r.learn(r.recorded, r.key(conn, id), chunksOf(theirs), nil, false)
		r.learn(r.ours, r.key(conn, id), chunksOf(result), nil, false)
	}
}

// recordedSession returns the recorded id of a session, the inverse of translate.
func (r *replay) recordedSession(ours string) (string, bool) {
	for recorded, id := range r.sessions {
		if id == ours {
			return recorded, true
		}
	}
	return "", false
}

// translate puts our session ids and places where the recorded ones were.
func (r *replay) translate(m obj) obj { return decode([]byte(r.translated(jsonText(m)))) }

func (r *replay) translated(text string) string {
	for _, ids := range []map[string]string{r.sessions, r.places} {
		for recorded, ours := range ids {
			text = strings.ReplaceAll(text, recorded, ours)
		}
	}
	return text
}

// asRecorded puts the recorded places where ours are, in output.
func (r *replay) asRecorded(text string) string {
	for recorded, ours := range r.places {
		text = strings.ReplaceAll(text, ours, recorded)
	}
	return text
}

// told waits for a notification not about a process, unless our server is declared not to send it.
func (r *replay) told(c *conn, peer obj) error {
	method := peer["method"].(string)
	if r.others == nil {
		r.others = map[string]int{}
	}
	r.others[method]++
	if _, declared := r.declared[method]; declared {
		return nil
	}
	return r.await(c, "the notification "+jsonText(peer), func() bool {
		return slices.ContainsFunc(c.other, func(ours obj) bool { return unlike(peer, ours, "") == "" })
	})
}

// toldEnough checks the notifications not about a process: our server sent as many as the peer, or, if
// declared, none.
func (r *replay) toldEnough() {
	ours := map[string]int{}
	for _, c := range r.conns {
		c.mu.Lock()
		for _, m := range c.other {
			ours[m["method"].(string)]++
		}
		c.mu.Unlock()
	}
	for method, n := range r.others {
		_, declared := r.declared[method]
		switch {
		case declared && ours[method] == 0:
			delete(r.stale, method)
		case !declared && ours[method] != n:
			r.mismatch("%s came %d times, want %d", method, ours[method], n)
		}
	}
}

// notified waits until our server has sent as much about the process on this connection as the peer.
// The contents are compared at the end, because chunks may be cut differently.
func (r *replay) notified(c *conn, conn int, peer obj) error {
	params := peer["params"].(obj)
	id := params["processId"].(string)
	key := r.key(conn, id)
	p := c.process(id)
	var fact func() bool
	var chunks []outputChunk
	var exited obj
	closed := false
	switch peer["method"] {
	case "process/output":
		chunks = chunksOf(obj{"chunks": []any{params}})
		on := processOn{conn, id}
		r.said[on] += string(chunks[0].data)
		fact = func() bool {
			var all []byte
			for _, chunk := range p.chunks {
				all = append(all, chunk.data...)
			}
			switch {
			case p.closed || slices.Contains(varying, r.name+"/"+id):
				return true // summary compares later
			case p.first > 1: // a resumed process may begin anywhere here
				return strings.Contains(string(all), r.said[on])
			default:
				return len(r.asRecorded(string(all))) >= len(r.said[on])
			}
		}
	case "process/exited":
		exited = params
		fact = func() bool { return p.exited != nil }
	case "process/closed":
		closed = true
		fact = func() bool { return p.closed }
	}
	r.learn(r.recorded, key, chunks, exited, closed)
	if r.notStarted[key] {
		return nil
	}
	err := r.await(c, fmt.Sprintf("%s of process %q", peer["method"], id), fact)
	if err != nil && c.end == nil {
		r.t.Log(r.explain(c, id))
	}
	return err
}

func (r *replay) ended(c *conn, l line) error {
	if !c.await(r.timeout, func() bool { return c.end != nil }) {
		r.mismatch("connection %d is still open", l.Conn)
		return errStop
	}
	code := websocket.CloseAbnormalClosure
	if e, ok := errors.AsType[*websocket.CloseError](c.end); ok {
		code = e.Code
		if e.Text == "" && code > websocket.CloseGoingAway && code != websocket.CloseAbnormalClosure {
			r.mismatch("end of %d: Close %d without a reason", l.Conn, code)
		}
	}
	at := fmt.Sprintf("end of %d", l.Conn)
	if problem := r.check(at, decode(l.Msg), obj{"code": json.Number(fmt.Sprint(code))}); problem != "" {
		r.mismatch("%s: %s (%v)", at, problem, c.end)
	}
	return nil
}

// --- lives ---

func (r *replay) key(conn int, process string) processKey { return processKey{r.of[conn], process} }

func (r *replay) life(of map[processKey]*life, key processKey) *life {
	if of[key] == nil {
		of[key] = &life{chunks: map[int64]outputChunk{}}
	}
	return of[key]
}

// learn adds events to the knowledge about a process. An event with a seq stays.
func (r *replay) learn(of map[processKey]*life, key processKey, chunks []outputChunk, exited obj, closed bool) {
	known := r.life(of, key)
	for _, chunk := range chunks {
		if old, has := known.chunks[chunk.seq]; has && (old.stream != chunk.stream || !bytes.Equal(old.data, chunk.data)) {
			r.mismatch("process %s: seq %d is %s %q and %s %q", key.process, chunk.seq, old.stream, old.data, chunk.stream, chunk.data)
		}
		known.chunks[chunk.seq] = chunk
	}
	if exited != nil {
		known.exited = exited
	}
	known.closed = known.closed || closed
}

func chunksOf(result obj) (chunks []outputChunk) {
	list, _ := result["chunks"].([]any)
	for _, c := range list {
		c, _ := c.(obj)
		stream, _ := c["stream"].(string)
		text, _ := c["chunk"].(string)
		data, _ := base64.StdEncoding.DecodeString(text)
		chunks = append(chunks, outputChunk{num(c["seq"]), stream, data, nil})
	}
	return chunks
}

// summary returns how the process ended, and the output of each stream from the start up to the first
// hole.
func (r *replay) summary(process string, l *life) obj {
	s := obj{}
	for seq := int64(1); ; seq++ {
		chunk, has := l.chunks[seq]
		if !has {
			break
		}
		before, _ := s[chunk.stream].(string)
		s[chunk.stream] = before + string(chunk.data)
	}
	for stream, text := range s {
		s[stream] = r.asRecorded(text.(string))
		if slices.Contains(varying, r.name+"/"+process) {
			s[stream] = withoutNumbers(text.(string))
		}
	}
	for member, value := range l.exited {
		if member != "seq" && member != "processId" {
			s[member] = value
		}
	}
	return s
}

func (r *replay) compareLives(key processKey, peer, ours *life) {
	theirs, mine := r.summary(key.process, peer), r.summary(key.process, ours)
	at := "process " + key.process
	if d, declared := r.declared[at]; declared {
		maps.Copy(theirs, decode([]byte(d.ours)))
		delete(r.stale, at)
		if unlike(r.summary(key.process, peer), mine, "") == "" {
			r.stale[at] = true
		}
	}
	// Output still missing at the end of the recording, or never shown to a connection, is compared as
	// far as both have it.
	if !peer.closed || !ours.closed {
		for _, stream := range []string{"stdout", "stderr", "pty"} {
			a, _ := theirs[stream].(string)
			b, _ := mine[stream].(string)
			if n := min(len(a), len(b)); n > 0 {
				theirs[stream], mine[stream] = a[:n], b[:n]
			}
		}
	}
	if problem := unlike(theirs, mine, ""); problem != "" {
		r.mismatch("%s: %s\n\t ours %s\n\t peer %s", at, problem, jsonText(mine), jsonText(theirs))
	}
	for _, stream := range []string{"stdout", "stderr", "pty"} {
		if mine[stream] != nil && theirs[stream] == nil && peer.closed {
			r.mismatch("%s: %s has %q, and the peer's nothing", at, stream, mine[stream])
		}
	}
}

var (
	psRow   = regexp.MustCompile(`^ *\d+ +\d+ +\d+ +\d+ +-?\d+ sh\b`)
	lsRow   = regexp.MustCompile(`^([-lrwx]+) +1 .* \d\d:\d\d `)
	ptyName = regexp.MustCompile(`/dev/pts/\d+`)
	number  = regexp.MustCompile(`\d\d+`)
	blanks  = regexp.MustCompile(` +`)
)

// withoutNumbers replaces pids, inodes and ptys by names in order of appearance: two runs agree only on
// which of these numbers are equal.
func withoutNumbers(text string) string {
	names := map[string]string{}
	var out strings.Builder
	for row := range strings.Lines(ptyName.ReplaceAllString(text, "/dev/pts/N")) {
		row = lsRow.ReplaceAllString(row, "$1 ")
		if psRow.MatchString(row) || strings.Contains(row, " -> ") {
			row = number.ReplaceAllStringFunc(row, func(n string) string {
				if names[n] == "" {
					names[n] = string(rune('A' + len(names)))
				}
				return names[n]
			})
		}
		out.WriteString(strings.TrimLeft(blanks.ReplaceAllString(row, " "), " "))
	}
	return out.String()
}

// --- comparing ---

// unlike returns a difference between our value and the peer's, or "". Our value must have every member
// of the peer's, with the same type and, unless specific to the server, the same value. Our value may
// have more members.
func unlike(peer, ours any, path string) string {
	switch peer := peer.(type) {
	case obj:
		mine, ok := ours.(obj)
		if !ok {
			return fmt.Sprintf("%s is %s, want an object", path, jsonText(ours))
		}
		if code, isError := peer["code"]; isError && strings.HasSuffix(path, ".error") {
			if num(code) != num(mine["code"]) {
				return fmt.Sprintf("%s.code is %s, want %s", path, jsonText(mine["code"]), jsonText(code))
			}
			return unlikeText(peer["message"], mine["message"])
		}
		for _, member := range slices.Sorted(maps.Keys(peer)) {
			value, has := mine[member]
			if !has {
				return fmt.Sprintf("%s.%s is missing", path, member)
			}
			if isOfTheServer(path, peer, member) {
				if fmt.Sprintf("%T", value) != fmt.Sprintf("%T", peer[member]) {
					return fmt.Sprintf("%s.%s is %s, want the type of %s", path, member, jsonText(value), jsonText(peer[member]))
				}
				continue
			}
			if problem := unlike(peer[member], value, path+"."+member); problem != "" {
				return problem
			}
		}
		return ""
	case []any:
		mine, ok := ours.([]any)
		if !ok || len(mine) != len(peer) {
			return fmt.Sprintf("%s is %s, want %s", path, jsonText(ours), jsonText(peer))
		}
		for i := range peer {
			if problem := unlike(peer[i], mine[i], fmt.Sprintf("%s[%d]", path, i)); problem != "" {
				return problem
			}
		}
		return ""
	default:
		if peer != ours {
			return fmt.Sprintf("%s is %s, want %s", path, jsonText(ours), jsonText(peer))
		}
		return ""
	}
}

// unlikeUnseen compares the results of a read by their bytes. Our result must begin at the same seq
// with the same bytes, have seqs without a hole, and name the next seq correctly. A result may be
// larger than maxBytes if a single chunk is so large, and smaller if the next chunk would not have fit.
func unlikeUnseen(peer, ours obj) string {
	theirs, mine := chunksOf(peer), chunksOf(ours)
	if len(mine) == 0 {
		return "nothing was read"
	}
	var want, got []byte
	for _, chunk := range theirs {
		want = append(want, chunk.data...)
	}
	for i, chunk := range mine {
		if chunk.seq != theirs[0].seq+int64(i) || chunk.stream != theirs[0].stream {
			return fmt.Sprintf("chunk %d is %d on %s, want %d on %s", i, chunk.seq, chunk.stream, theirs[0].seq+int64(i), theirs[0].stream)
		}
		got = append(got, chunk.data...)
	}
	if !bytes.HasPrefix(got, want) && !bytes.HasPrefix(want, got) {
		return fmt.Sprintf("read %q, want it to begin with %q, or to be the beginning of that", got, want)
	}
	rest := maps.Clone(peer)
	delete(rest, "chunks")
	rest["nextSeq"] = json.Number(fmt.Sprint(num(peer["nextSeq"]) + mine[len(mine)-1].seq - theirs[len(theirs)-1].seq))
	return unlike(rest, ours, ".result")
}

// unlikeText compares error texts. Our text must not be empty, and must equal the peer's if a client
// may depend on it.
func unlikeText(peer, ours any) string {
	theirs, _ := peer.(string)
	text, ok := ours.(string)
	if !ok || text == "" {
		return fmt.Sprintf("an error without a message: %s", jsonText(ours))
	}
	for _, d := range dependable {
		if d.MatchString(theirs) && text != theirs {
			return fmt.Sprintf("the error says %q, want %q", text, theirs)
		}
	}
	return ""
}

// decode returns nil unless data is an object.
func decode(data []byte) (m obj) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if d.Decode(&m) != nil {
		return nil
	}
	return m
}

func unquote(data json.RawMessage) []byte {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		panic(fmt.Sprintf("a string is due: %s", data))
	}
	return []byte(text)
}
