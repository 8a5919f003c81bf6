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

	"github.com/gorilla/websocket"
)

// testdata/transcripts holds what the peer (the Rust exec-server, 0.169.0) and a
// probe said to each other, a message a line: conn (0 when absent), dir (c2s, s2c,
// or test: an instruction to the replay), msg, and kind where it is not a plain
// text message. What was done to the recordings:
//
//   - Times, upgrades, and what the probe saw of its own cuts are left out; paths
//     and facts of the machine they were made on are replaced by neutral ones.
//   - Pauses between lines are gone. Where a recorded program slept so that its
//     output comes in pieces, or so as to be alive for a while, it waits for a line
//     from the FIFO $GATE instead, which a release line gives; other long sleeps
//     and waits are longer. A traps line waits until the program catches SIGINT, a sleeps line until
//     it sleeps: a shell that is starting may lose a SIGINT.
//   - session_resume: the resume of an attached session (1/4) stands before the cut
//     and not 0.3 ms behind it, where the answer is a race; the read 2/3 starts at
//     seq 4 and not 10, its recorded answer shifted accordingly: how output is cut
//     into chunks while nobody looks is each server's own affair.
//   - process_write_signal_terminate: "started" of tmg is awaited before its
//     terminate; exgt prints "started" from the process that left the session;
//     session/close (c36) stands last, because ours does it.
//   - closed_retention_30s has no ping; keepalive_70s is about those.
//   - /srv stands for a directory, and http://127.0.0.1:18999 for a web server, that the
//     replay makes (func newPlaces). Whoever looked for .git from /srv/a/b/work upwards did
//     so up to / and here ends at /srv.
//   - cwd_env_policy and env_core_fs_handle_resume have a server whose environment is the
//     peer's (environments). Its PATH is serverEnv's, behind the peer's own directories.
//   - The proxy of real_client_reconnect cut the client off, which is an abort here. What
//     real_client_tty wrote is shorter, and all lists are in order: the peer's need not be.

// A difference is a place where ours answers otherwise than the peer, on purpose.
// One that no longer occurs fails the test as well.
type difference struct {
	transcript string
	// at is the id of a request, a process, the end of a connection, or the method of
	// notifications that are about no process and that ours does not send:
	// "27", "1/27" on connection 1, "process m7", "end of 1", "fs/missingChanged".
	at string
	// why names the row of Appendix A in docs/PROTOCOL.md, or the method that only this server has.
	why string
	// ours is the answer, what is in "result" or "error" being enough; of a process
	// some of exitCode, stdout, stderr, pty; of an end its close code.
	ours string
}

const (
	whyTTYSignal  = "a tty ended by a signal reports exit code 1"
	whyTTYCwd     = "a tty with a missing cwd runs in $HOME"
	whyExited     = "a write to an exited process is `accepted`"
	whyAdded      = "no resize, no close of stdin; and other methods that only ours has"
	whySandbox    = "a sandbox or a managed network that cannot be enforced is refused"
	whyConcurrent = "a long poll or a full stdin holds up every later request"
	whyReordered  = "with concurrency, stdin writes are reordered"
	whyViolation  = "a protocol violation cuts the TCP connection"
	whyClose      = "a Close frame is answered with one"
	whyGoingAway  = "a server that stops says so in a Close frame"
	whyHelpers    = "an inherited PATH begins with directories of the peer's own"
	whyCapability = "`environmentConfig/*`, `capabilityRoots/*`, `capabilities/*`"
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
	{"process_write_signal_terminate", "c29", whyAdded, `{"error":{"code":-32600}}`},
	{"process_write_signal_terminate", "c30", whyAdded, `{"error":{"code":-32602}}`},
	{"process_write_signal_terminate", "c33", whyAdded, `{"error":{"code":-32602}}`},
	{"process_write_signal_terminate", "c40", whyAdded, `{"error":{"code":-32602}}`},
	{"process_write_signal_terminate", "c31", whyAdded, `{"result":{}}`},
	{"process_write_signal_terminate", "c32", whyAdded, `{"result":{}}`},
	{"process_write_signal_terminate", "c34", whyAdded, `{"result":{"exited":true,"closed":true}}`},
	{"process_write_signal_terminate", "c35", whyAdded, `{"result":{"processId":"sg","state":"closed"}}`},
	{"process_write_signal_terminate", "c36", whyAdded, `{"result":{}}`},
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

	{"fs_http_env", "66", whyCapability, `{"error":{"code":-32601}}`},
	{"fs_http_env", "67", whyCapability, `{"error":{"code":-32601}}`},
	{"fs_http_env", "68", whyCapability, `{"error":{"code":-32601}}`},
	{"fs_http_env", "70", whyCapability, `{"error":{"code":-32601}}`},

	{"misc_0169", "8", whyCapability, `{"error":{"code":-32601}}`},
	{"misc_0169", "9", whyCapability, `{"error":{"code":-32601}}`},
	{"misc_0169", "10", whyCapability, `{"error":{"code":-32601}}`},
	{"misc_0169", "15", whySandbox, `{"error":{"code":-32602}}`},
	{"misc_0169", "17", whySandbox, `{"error":{"code":-32602}}`},

	{
		"cwd_env_policy", `process {"inherit": "all", "ignoreDefaultExcludes": false, "exclude": [], "set": {}, "includeOnly": ["FOO*", "PATH"]}`,
		whyHelpers, `{"stdout":"FOO1=x\nPATH=/usr/local/bin:/usr/bin:/bin\n"}`,
	},

	{"real_client_basic_exec", "11", whyCapability, `{"error":{"code":-32601}}`},
	{"real_client_environments_toml_auth", "10", whyCapability, `{"error":{"code":-32601}}`},
	{"real_client_reconnect", "10", whyCapability, `{"error":{"code":-32601}}`},
	{"real_client_signal", "10", whyCapability, `{"error":{"code":-32601}}`},
	{"real_client_tty", "10", whyCapability, `{"error":{"code":-32601}}`},
	{"real_client_tty", "process 38186-54a2324b-dbf9-4457-9f7f-4427d9d30da2", whyTTYSignal, `{"exitCode":130}`},
}

// dependable are the error texts that a client of the peer may tell errors by,
// since they share the code -32600: ours are the same to the letter. All other
// texts are ours.
var dependable = []*regexp.Regexp{
	regexp.MustCompile(`^unknown session id `),
	regexp.MustCompile(`^unknown process id `),
	regexp.MustCompile(`^process .* already exists$`),
	regexp.MustCompile(`^client must (call initialize|send initialized) before `),
	regexp.MustCompile(`^initialize may only be sent once per connection$`),
}

// ofTheServer are members whose values are each server's own: ids, what it says about
// its environment, and when a file was made. Only their types are compared.
var ofTheServer = []string{
	"sessionId", "executorVersion", "providerId", "cwd", "userHomeDir", "tempDir", "capabilities",
	"prependPathDirs", "temporaryDirectories", "shell.name", "shell.path",
	"createdAtMs", "modifiedAtMs",
}

// isOfTheServer is about the member of an object at path.
func isOfTheServer(path string, of obj, member string) bool {
	return member == "size" && of["isDirectory"] == true || // how a file system counts
		slices.ContainsFunc(ofTheServer, func(own string) bool { return strings.HasSuffix(path+"."+member, "."+own) })
}

// environments are those of the servers that transcripts need one of their own for.
var environments = map[string][]string{
	"cwd_env_policy": {
		"HOME=/home/user", "LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin", "SHELL=/bin/bash",
		"FOO1=x", "BAR=y", "MY_API_KEY=k", "MY_SECRET=s", "MY_TOKEN=t",
	},
	"env_core_fs_handle_resume": append(slices.Clip(serverEnv), "LC_ALL=C", "LC_CTYPE=C", "LOGNAME=l", "TEMP=/t1", "TMP=/t2",
		"TMPDIR=/td", "USER=u", "TERM=dumb", "TZ=UTC", "USERNAME=u", "PWD=/", "HOSTNAME=h"),
}

// varying are the programs whose output has pids, times and the like in it.
var varying = []string{"process_start/t1", "process_start/t2"}

// unseen are the reads of output that nobody was attached for when it came, or that a
// terminal passes on in pieces. How it is cut into chunks is chance: the bytes are
// compared.
var unseen = []string{"session_resume/2/3", "process_write_signal_terminate/c56"}

// TestTranscripts sends what the recorded client sent, and wants from ours what
// the peer answered: the same results in shape and value, the same error codes,
// of each process the same bytes and the same end, the same end of connections,
// but for the differences declared.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	shared := startServer(t, "--allow-http")
	t.Run("all", func(t *testing.T) { // so that the server outlives the parallel ones
		for _, name := range transcripts(t) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := shared.in(t)
				if env := environments[name]; env != nil {
					s = startServerWith(t, func(cmd *exec.Cmd) { cmd.Env = env })
				} else if name == "sigterm_connected" {
					s = startServer(t)
				}
				r := &replay{
					t: t, name: name, lines: readTranscript(t, name), places: newPlaces(t),
					dial: s.dial, sigterm: func() { s.signal(syscall.SIGTERM) },
					awaitProgram: awaitProgram, timeout: factTimeout,
				}
				r.expect(differences)
				for _, m := range r.run() {
					t.Error(m)
				}
			})
		}
	})
}

// TestSessionExpires is session_ttl with its time scaled: the same session,
// resumable there, is gone here, and its process with it.
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

// TestClosedProcessIsForgotten is closed_retention_30s with its time scaled: the
// process, readable there, is forgotten here, and its id free.
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

// awaitProgram waits until a program traps SIGINT, or sleeps.
func awaitProgram(c *conn, processID, does string) {
	c.t.Helper()
	pid := c.process(processID).pid()
	eventually(c.t, fmt.Sprintf("%s %s", processID, does), func() bool {
		if does == "sleeps" {
			children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
			for _, id := range append(strings.Fields(string(children)), fmt.Sprint(pid)) {
				if name, _ := os.ReadFile("/proc/" + id + "/comm"); string(name) == "sleep\n" {
					return true
				}
			}
			return false
		}
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, line, _ := strings.Cut(string(status), "\nSigCgt:")
		var caught uint64
		fmt.Sscanf(line, "%x", &caught)
		return caught&(1<<(syscall.SIGINT-1)) != 0
	})
}

// newPlaces makes what recordings tell of beside the server: /srv with its files, and a
// web server that serves some of them.
func newPlaces(t testing.TB) map[string]string {
	t.Helper()
	srv, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
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

// line is one line of a transcript.
type line struct {
	Conn    int
	Dir     string          // c2s, s2c, test
	Kind    string          // c2s: "", binary, frag, ping, close, abort; s2c: "", ping, pong, end; test: release, traps, sleeps, sigterm
	Process string          // of a test line
	Msg     json.RawMessage // a string is sent as it is
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

// replay is one transcript sent to a server. It goes through the lines in order;
// at each line of the peer it waits for the same of ours. All facts that a later
// line depends on are therefore there when it is sent.
type replay struct {
	t            testing.TB
	name         string
	lines        []line
	places       map[string]string // as recorded → ours; those of newPlaces, or none
	dial         func() *conn
	sigterm      func()
	awaitProgram func(c *conn, processID, does string)
	timeout      time.Duration

	declared map[string]difference // by at
	stale    map[string]bool       // declared, and not yet seen

	conns    map[int]*conn
	requests map[string]json.RawMessage // as sent, by at
	gates    map[string]*os.File        // by process
	sessions map[string]string          // recorded id → ours
	of       map[int]string             // connection → recorded session id

	recorded, ours map[processKey]*life
	notStarted     map[processKey]bool  // ours refused; that was compared
	said           map[processOn]string // output recorded so far
	pings          map[int]int          // recorded so far, by connection
	others         map[string]int       // recorded so far, by method: notifications about no process

	mismatches []string
}

// processKey names a process across the connections of its session.
type processKey struct{ session, process string }

// processOn is a process as one connection saw it.
type processOn struct {
	conn    int
	process string
}

// life is what became known of a process on all connections, by notifications and reads.
type life struct {
	chunks map[int64]outputChunk // by seq
	exited obj
	closed bool
}

// errStop ends a replay that has nothing left to wait for.
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
		c.faults = nil // they were said
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

// check compares ours with the peer's answer, or with the one declared.
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
		return "" // stale, said at the end
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
		c.lastID.Store(1 << 40) // our own requests, away from the recorded ids
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
	case "test traps", "test sleeps":
		r.awaitProgram(c, l.Process, l.Kind)
	case "test sigterm":
		r.sigterm()
	default:
		r.t.Fatalf("no such line: %s", jsonText(l))
	}
	return nil
}

// await is a mismatch when the fact does not come true.
func (r *replay) await(c *conn, what string, ok func() bool) error {
	if err := c.tryAwait(ok); err != nil {
		r.mismatch("%s: %v", what, err)
		return errStop
	}
	return nil
}

// at names a request: its id, after the number of its connection unless that is 0.
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

// prepare makes the gate of a process that waits for one.
func (r *replay) prepare(c *conn, request obj, data []byte) []byte {
	params := request["params"].(obj)
	id, _ := params["processId"].(string)
	c.update(func() { c.started[id] = true })
	if !bytes.Contains(data, []byte("$GATE")) {
		return data
	}
	path := filepath.Join(r.t.TempDir(), "gate")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		r.t.Fatal(err)
	}
	// Open at both ends: neither we nor the program wait in open.
	gate, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	r.gates[id] = gate
	params["env"].(obj)["GATE"] = path
	return []byte(jsonText(request))
}

// answered waits for our answer and compares it. What only time can bring about
// is asked for again: a resume that is refused as long as the server has not
// noticed the cut, and a read of what is still on its way.
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

// inOrder sorts what is in no order on the wire, as recordings are.
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

// waits tells whether a read is a long poll.
func waits(params obj) bool {
	ms, isNumber := params["waitMs"].(json.Number)
	return isNumber && ms != "0"
}

// aMomentLater allows for an answer to a long poll that was woken by the exit and
// written when the process had closed too.
func aMomentLater(peer, ours obj) {
	p, _ := peer["result"].(obj)
	if ours["closed"] == true && (p["closed"] == false) {
		ours["closed"] = false
		ours["nextSeq"] = json.Number(fmt.Sprint(num(ours["nextSeq"]) - 1))
	}
}

// file keeps what later lines and the comparison of lives need of an answer.
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

// recordedSession maps a session id back; translate has put ours in its place.
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

// told waits for a notification that is about no process, unless ours is known not to
// send it.
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

// toldEnough: ours has told as often of what is about no process as the peer, or, if that
// is declared, not at all.
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

// notified waits until ours has told on this connection as much of the process as
// the peer had. What it told is compared at the end: chunks may be cut otherwise.
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
				return true // compared when all is there
			case p.first > 1: // a resumed one; where it begins here is chance
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
	return r.await(c, fmt.Sprintf("%s of process %q", peer["method"], id), fact)
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

// learn adds to what is known of a process. What has a seq has it for ever.
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
		chunks = append(chunks, outputChunk{num(c["seq"]), stream, data})
	}
	return chunks
}

// summary is the output per stream as far as it is known without a hole from the
// start, and how the process ended.
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
	// What was still to come when the recording ended, or was not shown to anybody,
	// is compared as far as both have it.
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

// withoutNumbers names pids, inodes and ptys in the order they appear: that they
// are equal or not is all that two runs share.
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

// unlike says where ours is not as the peer's: every member of theirs must be in
// ours, with the same type and, unless it is the server's own, the same value. Ours
// may have more. "" when alike.
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

// unlikeUnseen compares the results of a read by their bytes: ours must begin at the
// same seq and with the same bytes, be cut by seqs without a hole, and say where to
// go on. More than maxBytes is right where one chunk is that large, and less where
// the next would not have fitted.
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

// unlikeText compares error texts: ours says something, and the same where a
// client may depend on it.
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

// decode is nil for what is no object.
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
