package tests

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// This file imitates the peer's own client (exec-server wire §9) as far as the server can notice: its
// calls and their order, the order in which it publishes a process's events, how many events it can
// hold, and how it resumes. The client does not know our extensions of the wire.

const (
	maxPendingEvents = 256
	maxPendingBytes  = 1 << 20
	reconnectEvery   = 100 * time.Millisecond
)

// realClient imitates the peer's client.
type realClient struct {
	t     *testing.T
	s     *server
	work  string        // the directory of the commands
	mode  obj           // permissions of the commands; nil: full access, which is sandbox null
	roots []string      // workspace roots beside work, if there is a mode
	quit  chan struct{} // closed when the client exits

	facts                  // guards the fields below
	away     chan struct{} // the client stays away until away is closed
	late     func()        // called after a resume, before the client reads the missed events
	unsorted func()        // called after the answer with the missed events, before the client sorts them
	session  string
	link     *realLink // nil during recovery
	links    int       // number of connections so far
	failed   string    // why the client is unusable; "": the client works
	commands map[string]*command
	calls    []string // methods in the order sent
}

// realLink is a connection of a realClient.
type realLink struct {
	ws      *websocket.Conn
	answers map[int64]chan obj // by id of the request; guarded by the client's facts
	ended   chan struct{}      // closed at the end of reading
	writing chan struct{}      // holds a token
}

// command is a process as the client sees the process. The client's facts guard a command.
type command struct {
	c       *realClient
	id      string
	last    int64 // seq of the last published event
	pending map[int64]event
	output  map[string]*strings.Builder // by stream
	exit    *int64
	closed  bool
	failure string
	writes  int
	most    int // the most pending events at any time
}

type event struct {
	seq    int64
	kind   string // output, exited, closed
	stream string
	data   []byte
	exit   int64
}

var errTransport = errors.New("the transport is closed")

// newRealClient connects, and sends the requests of the real client before its first command.
func newRealClient(t *testing.T, s *server) *realClient {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(dir, "a", "work")
	if err := os.MkdirAll(work, 0o755); err != nil {
		t.Fatal(err)
	}
	return newRealClientIn(t, s, work)
}

// newRealClientIn is newRealClient with a directory for the commands.
func newRealClientIn(t *testing.T, s *server, work string) *realClient {
	t.Helper()
	c := &realClient{t: t, s: s, work: work, commands: map[string]*command{}, quit: make(chan struct{}), away: make(chan struct{})}
	close(c.away)
	t.Cleanup(c.exit)
	info, err := c.connect()
	if err != nil {
		t.Fatal(err)
	}
	if info == nil {
		info = c.call("environment/info", nil)
	}
	capable := info["capabilities"].(obj)
	var missing []string
	for dir := c.work; ; dir = filepath.Dir(dir) {
		missing = append(missing, filepath.Join(dir, ".git"))
		if dir == "/" {
			break
		}
	}
	for _, name := range []string{".agents/skills", "AGENTS.override.md", "AGENTS.md"} {
		missing = append(missing, filepath.Join(c.work, name))
	}
	var asked []chan obj
	var watched []string
	l := c.current()
	for _, path := range missing {
		asked = append(asked, c.ask(l, "fs/getMetadata", obj{"path": fileURI(path), "sandbox": nil}))
		watched = append(watched, fileURI(path))
	}
	for i, answer := range asked {
		m := c.await(l, answer)
		if filepath.Dir(missing[i]) != c.work {
			continue // a machine may have a /.git, and a sandbox of another test that may write /tmp makes /tmp/.git for a while
		}
		if _, err := os.Stat(missing[i]); err == nil {
			continue // the test has made it
		}
		if e := errorOf(m); num(e["code"]) != -32004 || e["message"] != "No such file or directory (os error 2)" {
			t.Errorf("%s: %s", missing[i], jsonText(m))
		}
	}
	if capable["fsWatchMissing"] == true {
		if result := c.call("fs/watchMissing", obj{"watchId": 1, "missing": watched, "present": nil}); result["watching"] != true {
			t.Errorf("fs/watchMissing: %s", jsonText(result))
		}
	}
	if capable["environmentConfigRead"] == true {
		paths := [][]string{{"mcp_servers"}}
		c.call("environmentConfig/read", obj{"cwd": fileURI(c.work), "configPaths": paths, "requirementsPaths": paths})
	}
	return c
}

// connect opens a connection and initializes: with a new session, or with the session of the client.
func (c *realClient) connect() (info obj, err error) {
	ws, _, err := (&websocket.Dialer{HandshakeTimeout: factTimeout}).Dial(c.s.url, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTransport, err)
	}
	l := &realLink{ws: ws, answers: map[int64]chan obj{}, ended: make(chan struct{}), writing: make(chan struct{}, 1)}
	l.writing <- struct{}{}
	go c.read(l)
	params := obj{"clientName": "codex-environment", "resumeSessionId": nil}
	if id := c.sessionID(); id != "" {
		params["resumeSessionId"] = id
	}
	answer := c.await(l, c.ask(l, "initialize", params))
	result := resultOf(answer)
	if result == nil {
		ws.Close()
		e := errorOf(answer)
		if e == nil || num(e["code"]) == -32010 {
			return nil, fmt.Errorf("%w: %s", errTransport, jsonText(answer))
		}
		return nil, errors.New(e["message"].(string))
	}
	c.update(func() { c.session = result["sessionId"].(string) })
	c.notify(l, "initialized", obj{})
	if err := c.recover(l); err != nil {
		ws.Close()
		return nil, err
	}
	c.update(func() {
		select {
		case <-l.ended:
			err = errTransport
		default:
			c.link, c.links = l, c.links+1
		}
	})
	info, _ = result["environmentInfo"].(obj)
	return info, err
}

func (c *realClient) sessionID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

func (c *realClient) current() *realLink {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link
}

// recover reads the events that each live process has written meanwhile. Another goroutine reads and
// orders the live events that come at the same time.
func (c *realClient) recover(l *realLink) error {
	c.mu.Lock()
	live, late, unsorted := slices.Collect(maps.Values(c.commands)), c.late, c.unsorted
	c.mu.Unlock()
	if late != nil {
		late()
	}
	for _, p := range live {
		c.mu.Lock()
		last, over := p.last, p.closed || p.failure != ""
		c.mu.Unlock()
		if over {
			continue
		}
		answer := c.await(l, c.ask(l, "process/read", obj{"processId": p.id, "afterSeq": last, "maxBytes": nil, "waitMs": 0}))
		if answer == nil {
			return errTransport
		}
		if unsorted != nil {
			unsorted()
		}
		var err error
		if e := errorOf(answer); e != nil {
			err = errors.New(e["message"].(string))
		} else {
			chunks := chunksOf(resultOf(answer))
			c.update(func() { err = p.merge(resultOf(answer), chunks) })
		}
		if err != nil {
			c.await(l, c.ask(l, "process/terminate", obj{"processId": p.id}))
			c.update(func() { p.fail(fmt.Sprintf("failed to recover process %s: %v", p.id, err)) })
		}
	}
	return nil
}

// merge takes the answer to a process/read after p.last or earlier.
func (p *command) merge(result obj, chunks []outputChunk) error {
	target, exited, closed := num(result["nextSeq"])-1, result["exited"] == true, result["closed"] == true
	if p.failure != "" || p.closed || target <= p.last {
		return nil
	}
	known := p.exit != nil
	for _, e := range p.pending {
		known = known || e.kind == "exited" && e.seq <= target
	}
	exit := event{kind: "exited", exit: num(result["exitCode"])}
	for _, chunk := range chunks {
		if exited && !known && chunk.seq > p.last+1 { // the process ended before this output
			exit.seq, known = p.last+1, true
			p.insert(exit)
		}
		p.insert(event{seq: chunk.seq, kind: "output", stream: chunk.stream, data: chunk.data})
	}
	if closed {
		p.insert(event{seq: target, kind: "closed"})
	}
	var missing []int64
	for seq := p.last + 1; seq <= target; seq++ {
		if _, has := p.pending[seq]; !has {
			missing = append(missing, seq)
		}
	}
	switch {
	case p.failure != "":
		return errors.New(p.failure)
	case exited && !known && len(missing) == 1:
		exit.seq = missing[0]
		p.insert(exit)
	case len(missing) > 0:
		return fmt.Errorf("process events are no longer retained while recovering through sequence %d", target)
	}
	return nil
}

// insert holds an event until all earlier events are published.
func (p *command) insert(e event) {
	if p.failure != "" || p.closed || e.seq <= p.last {
		return
	}
	if _, has := p.pending[e.seq]; !has {
		p.pending[e.seq] = e
	}
	for {
		e, has := p.pending[p.last+1]
		if !has {
			break
		}
		delete(p.pending, e.seq)
		p.last++
		switch e.kind {
		case "output":
			if p.output[e.stream] == nil {
				p.output[e.stream] = &strings.Builder{}
			}
			p.output[e.stream].Write(e.data)
		case "exited":
			p.exit = &e.exit
		case "closed":
			p.closed = true
		}
	}
	bytes := 0
	for _, e := range p.pending {
		bytes += len(e.data)
	}
	p.most = max(p.most, len(p.pending))
	switch {
	case len(p.pending) > maxPendingEvents:
		p.fail(fmt.Sprintf("process event reorder buffer exceeds %d entries", maxPendingEvents))
	case bytes > maxPendingBytes:
		p.fail(fmt.Sprintf("process event reorder buffer exceeds %d bytes", maxPendingBytes))
	}
}

func (p *command) fail(why string) {
	if p.failure == "" && !p.closed {
		p.failure, p.pending = why, nil
	}
}

// read is the goroutine of a connection. At the end of the connection, read resumes or gives up.
func (c *realClient) read(l *realLink) {
	for {
		_, data, err := l.ws.ReadMessage()
		if err != nil {
			break
		}
		m, err := fromJSON(data)
		if err != nil {
			l.ws.Close()
			c.t.Errorf("no JSON: %.200q", data)
			break
		}
		c.update(func() { c.took(l, m) })
	}
	close(l.ended)
	lost := false
	c.update(func() {
		if lost = c.link == l; lost {
			c.link = nil
		}
	})
	if lost {
		c.comeBack()
	}
}

func (c *realClient) took(l *realLink, m obj) {
	if m["method"] == nil {
		if answer := l.answers[num(m["id"])]; answer != nil {
			delete(l.answers, num(m["id"]))
			answer <- m
		}
		return
	}
	params := paramsOf(m)
	id, _ := params["processId"].(string)
	p := c.commands[id]
	if p == nil {
		return
	}
	e := event{seq: num(params["seq"])}
	switch m["method"] {
	case "process/output":
		chunk := chunksOf(obj{"chunks": []any{params}})[0]
		e.kind, e.stream, e.data = "output", chunk.stream, chunk.data
	case "process/exited":
		e.kind, e.exit = "exited", num(params["exitCode"])
	case "process/closed":
		e.kind = "closed"
	default:
		return
	}
	p.insert(e)
}

// comeBack recovers the session, and gives up at the first final answer.
func (c *realClient) comeBack() {
	for deadline := time.Now().Add(factTimeout); ; time.Sleep(reconnectEvery) {
		c.mu.Lock()
		away := c.away
		c.mu.Unlock()
		select {
		case <-away:
		case <-c.quit:
			return
		}
		_, err := c.connect()
		if err == nil {
			return
		}
		if errors.Is(err, errTransport) && time.Now().Before(deadline) {
			continue
		}
		c.update(func() {
			c.failed = err.Error()
			for _, p := range c.commands {
				p.fail(c.failed)
			}
		})
		return
	}
}

// ask sends a request.
func (c *realClient) ask(l *realLink, method string, params any) chan obj {
	answer := make(chan obj, 1)
	var id int64
	c.update(func() {
		c.calls = append(c.calls, method)
		id = int64(len(c.calls))
		l.answers[id] = answer
	})
	l.send(obj{"id": id, "method": method, "params": params})
	return answer
}

func (c *realClient) notify(l *realLink, method string, params any) {
	c.update(func() { c.calls = append(c.calls, method) })
	l.send(obj{"method": method, "params": params})
}

// send sends a message. The reader notices the end of the connection, so send returns no error.
func (l *realLink) send(m obj) {
	<-l.writing
	l.ws.WriteMessage(websocket.TextMessage, []byte(jsonText(m)))
	l.writing <- struct{}{}
}

// await returns nil if the connection ended before the answer.
func (c *realClient) await(l *realLink, answer chan obj) obj {
	select {
	case m := <-answer:
		return m
	case <-l.ended:
		select {
		case m := <-answer:
			return m
		default:
			return nil
		}
	case <-time.After(factTimeout):
		c.t.Errorf("no answer within %v", factTimeout)
		return nil
	}
}

// call expects a result. If the connection ends before the answer, call repeats the request on the next
// connection.
func (c *realClient) call(method string, params any) obj {
	c.t.Helper()
	for {
		var l *realLink
		c.awaitFact("a connection for "+method, func() bool { l = c.link; return l != nil || c.failed != "" })
		if l == nil {
			c.t.Fatalf("%s: %s", method, c.failed)
		}
		m := c.await(l, c.ask(l, method, params))
		if m == nil {
			<-l.ended
			c.awaitFact("the end of a connection", func() bool { return c.link != l })
			continue
		}
		if resultOf(m) == nil {
			c.t.Fatalf("%s %s: %s", method, jsonText(params), jsonText(m))
		}
		return resultOf(m)
	}
}

func (c *realClient) awaitFact(what string, ok func() bool) {
	c.t.Helper()
	if !c.facts.await(factTimeout, ok) {
		c.t.Fatalf("not within %v: %s", factTimeout, what)
	}
}

// cut resets the connection. From then on the client is away, until back is called.
func (c *realClient) cut() (back func()) {
	c.t.Helper()
	away, l := make(chan struct{}), c.current()
	c.update(func() { c.away = away })
	l.ws.NetConn().Close()
	links := 0
	c.awaitFact("the connection is cut", func() bool { links = c.links; return c.link == nil })
	return func() {
		close(away)
		c.awaitFact("the client is back", func() bool { return c.links > links || c.failed != "" })
	}
}

// exit ends the client as the real client exits: without a Close frame.
func (c *realClient) exit() {
	close(c.quit)
	c.mu.Lock()
	l := c.link
	c.link = nil
	c.mu.Unlock()
	if l != nil {
		l.ws.Close()
		<-l.ended
	}
}

// --- commands ---

// exec starts a command as the exec tool does.
func (c *realClient) exec(script string, tty bool) *command {
	c.t.Helper()
	p := &command{c: c, pending: map[int64]event{}, output: map[string]*strings.Builder{}}
	c.update(func() {
		p.id = fmt.Sprintf("%d-aa3f76a0-bcab-4f68-82c4-02e8302576d4", 1000+len(c.commands))
		c.commands[p.id] = p
	})
	const thread = "01a1fd50-93f9-72a2-98a1-b1fe2f7a6ff4"
	env := obj{"TERM": "dumb", "PAGER": "cat", "LC_ALL": "C.UTF-8", "CODEX_CI": "1", "CODEX_THREAD_ID": thread}
	var sandbox any
	kind := "none"
	if c.mode != nil {
		confined := sandboxOf(c.mode, c.work)
		for _, root := range c.roots {
			confined["workspaceRoots"] = append(confined["workspaceRoots"].([]any), fileURI(root))
		}
		sandbox, kind = confined, "linuxSeccomp"
		if c.mode["network"] == "restricted" {
			env["CODEX_SANDBOX_NETWORK_DISABLED"] = "1"
		}
	}
	result := c.call("process/start", obj{
		"processId": p.id, "metadata": obj{"threadId": thread, "toolCallId": "call_1"},
		"argv": []string{"/bin/bash", "-lc", script}, "cwd": fileURI(c.work),
		"envPolicy": obj{
			"inherit": "all", "ignoreDefaultExcludes": true, "set": obj{}, "includeOnly": []string{},
			"exclude": []string{"CODEX_PERMISSION_PROFILE", "CODEX_VERSION"},
		},
		"env": env,
		"tty": tty, "pipeStdin": false, "arg0": nil, "sandbox": sandbox, "enforceManagedNetwork": false, "managedNetwork": nil, "networkProxy": nil,
	})
	if result["processId"] != p.id || result["sandboxType"] != kind {
		c.t.Errorf("process/start: %s", jsonText(result))
	}
	return p
}

// writeStdin types into a terminal.
func (p *command) writeStdin(text string) {
	p.c.t.Helper()
	p.writes++
	result := p.c.call("process/write", obj{
		"processId": p.id, "chunk": base64.StdEncoding.EncodeToString([]byte(text)), "writeId": strconv.Itoa(p.writes),
	})
	if result["status"] != "accepted" {
		p.c.t.Errorf("process/write: %s", jsonText(result))
	}
}

func (p *command) terminate(running bool) {
	p.c.t.Helper()
	if result := p.c.call("process/terminate", obj{"processId": p.id}); result["running"] != running {
		p.c.t.Errorf("process/terminate of %s: %s, want running %v", p.id, jsonText(result), running)
	}
}

// text returns the published output of a stream. The caller holds the lock.
func (p *command) text(stream string) string {
	if p.output[stream] == nil {
		return ""
	}
	return p.output[stream].String()
}

func (p *command) await(stream, text string) {
	p.c.t.Helper()
	p.c.awaitFact(fmt.Sprintf("%q on %s", text, stream), func() bool {
		return strings.Contains(p.text(stream), text) || p.closed || p.failure != ""
	})
}

// done waits for the end, and then makes the calls of the real client.
func (p *command) done(exit int64, streams map[string]string) {
	p.c.t.Helper()
	p.c.awaitFact("the end of "+p.id, func() bool { return p.closed || p.failure != "" })
	p.c.mu.Lock()
	if p.failure != "" || p.exit == nil || *p.exit != exit {
		p.c.t.Errorf("%s: failure %q, exit code %v, want %d", p.id, p.failure, p.exit, exit)
	}
	for stream := range p.output {
		if got, want := p.text(stream), streams[stream]; got != want {
			p.c.t.Errorf("%s: %s has %d bytes, want %d: %.100q, want %.100q", p.id, stream, len(got), len(want), got, want)
		}
	}
	if len(p.output) != len(streams) {
		p.c.t.Errorf("%s: %d streams, want %d", p.id, len(p.output), len(streams))
	}
	failed := p.failure != ""
	p.c.mu.Unlock()
	if !failed {
		p.terminate(false)
	}
}

// --- tests ---

// interrupts types into a terminal, interrupts the program there by ^C, and interrupts another program by a signal.
func (c *realClient) interrupts() {
	tty := c.exec("echo start; cat; echo after-cat", true)
	tty.await("pty", "start\r\n")
	tty.writeStdin("hi there\n")
	tty.await("pty", "hi there\r\nhi there\r\n")
	tty.writeStdin("\x03")
	tty.done(130, map[string]string{"pty": "start\r\nhi there\r\nhi there\r\n^C"})

	trap := c.exec("trap 'echo got-int; exit 9' INT; echo up; while :; do sleep 0.1; done", false)
	trap.await("stdout", "up\n")
	c.call("process/signal", obj{"processId": trap.id, "signal": "interrupt"})
	trap.done(9, map[string]string{"stdout": "up\ngot-int\n"})
}

// TestRealClient makes every call of the client once, without a cut. Without a cut, the client never
// calls process/read.
func TestRealClient(t *testing.T) {
	t.Parallel()
	testRealClient(t, startServer(t))
}

func testRealClient(t *testing.T, s *server) {
	c := newRealClient(t, s)

	c.exec("echo hello-from-exec; uname -s; echo err 1>&2; exit 3", false).
		done(3, map[string]string{"stdout": "hello-from-exec\nLinux\n", "stderr": "err\n"})

	c.interrupts()
	// A command runs while others run, and is terminated at the end. The shell of another command has
	// ended, but a background process holds its output open.
	background := c.exec("echo begun; sleep 600 && echo long", false)
	background.await("stdout", "begun\n")
	left := c.exec("sleep 600 & echo left", false)
	c.awaitFact("the exit of the shell", func() bool { return left.exit != nil })
	left.terminate(false)
	c.exec("pwd; ls -a", false).done(0, map[string]string{"stdout": c.work + "\n.\n..\n"})

	// apply_patch writes a new file, and then other text to the same file.
	file := fileURI(c.work, "new.txt")
	for _, text := range []string{"hello2\n", "hello3\n"} {
		for _, method := range []string{"fs/getMetadata", "fs/readFile"} {
			m := c.await(c.current(), c.ask(c.current(), method, obj{"path": file, "sandbox": nil}))
			if (num(errorOf(m)["code"]) == -32004) != (text == "hello2\n") {
				t.Errorf("%s before it holds %q: %s", method, text, jsonText(m))
			}
			if old := resultOf(m)["dataBase64"]; old != nil && old != b64("hello2\n") {
				t.Errorf("the file holds %v", old)
			}
		}
		c.call("fs/writeFile", obj{"path": file, "dataBase64": b64(text), "sandbox": nil})
		if got, err := os.ReadFile(c.work + "/new.txt"); string(got) != text {
			t.Errorf("the file holds %q (%v), want %q", got, err, text)
		}
	}

	background.terminate(true)
	background.done(137, map[string]string{"stdout": "begun\n"})
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.calls, "process/read") {
		t.Error("there was a process/read, and no cut")
	}
}

// gate makes a FIFO for the client's commands: a command reads a line from the FIFO.
func (c *realClient) gate(t *testing.T) (path string, open func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	gate, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gate.Close() })
	return path, func() { gate.WriteString("\n") }
}

// numbers returns the output of seq(1).
func numbers(first, last int) string {
	var text strings.Builder
	for i := first; i <= last; i++ {
		fmt.Fprintln(&text, i)
	}
	return text.String()
}

// TestRealClientIsCutOff cuts twice while a command writes lines, with lines before and after each cut.
// The client repeats a write without an answer.
func TestRealClientIsCutOff(t *testing.T) {
	t.Parallel()
	testRealClientIsCutOff(t, startServer(t))
}

func testRealClientIsCutOff(t *testing.T, s *server) {
	c := newRealClient(t, s)
	gate, open := c.gate(t)
	p := c.exec("for i in $(seq 60); do echo $i; read _ <"+gate+"; done", false)
	tty := c.exec("stty -echo; echo on; head -n 3; exit 4", true)
	tty.await("pty", "on\r\n")
	tty.writeStdin("a\n")
	until := func(n int) {
		for i := p.lines() + 1; i <= n; i++ {
			open()
			p.await("stdout", fmt.Sprintf("%d\n", i))
		}
	}
	p.await("stdout", "1\n")
	for _, at := range []int{20, 40} {
		until(at)
		back := c.cut()
		for range 5 {
			open()
		}
		written := make(chan struct{})
		go func() {
			defer close(written)
			tty.writeStdin(fmt.Sprintf("%d\n", at))
		}()
		back()
		<-written
		p.await("stdout", fmt.Sprintf("%d\n", at+5))
	}
	until(60)
	open()
	p.done(0, map[string]string{"stdout": numbers(1, 60)})
	tty.done(4, map[string]string{"pty": "on\r\na\r\n20\r\n40\r\n"})
}

// lines returns the number of lines received.
func (p *command) lines() int {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return strings.Count(p.text("stdout"), "\n")
}

// backUntil ends the absence of the client. The client then stops in a hook of recover, until goOn is called.
func (c *realClient) backUntil(hook *func()) (goOn func()) {
	c.t.Helper()
	reached, held := false, make(chan struct{})
	c.update(func() {
		*hook = func() {
			c.update(func() { reached = true })
			select {
			case <-held:
			case <-c.quit:
			}
		}
	})
	close(c.away)
	c.awaitFact("the client recovers", func() bool { return reached })
	return func() { close(held) }
}

// TestRealClientReadsLate: a command misses a line in a cut. After the resume and before the client
// reads the missed line, the command writes more lines than the client can hold.
func TestRealClientReadsLate(t *testing.T) {
	t.Parallel()
	late(t, func(c *realClient) *func() { return &c.late }, func(*command, int) {})
}

// TestRealClientSortsLate: a client has read the missed line, and the task of the client that puts the line in its place waits
// for as long as the command writes more lines than the client can hold. The client gets all lines meanwhile.
func TestRealClientSortsLate(t *testing.T) {
	t.Parallel()
	late(t, func(c *realClient) *func() { return &c.unsorted }, func(p *command, last int) { p.await("stdout", fmt.Sprintf("%d\n", last)) })
}

// late has a command miss a line in a cut, and write more lines than the client can hold while the client is in a hook of recover.
// Then late calls written with the last line, before the client goes on.
func late(t *testing.T, hook func(*realClient) *func(), written func(p *command, last int)) {
	const last = maxPendingEvents + 100
	s := startServer(t)
	c := newRealClient(t, s)
	gate, open := c.gate(t)
	p := c.exec(fmt.Sprintf("for i in $(seq %d); do echo $i; read _ <%s; done", last, gate), false)
	p.await("stdout", "1\n")
	witness := s.observe(c.sessionID(), nil)
	c.cut()
	open()
	seen := witness.process(p.id)
	seen.awaitOutput("stdout", "2\n")
	goOn := c.backUntil(hook(c))
	for i := 3; i <= last; i++ {
		open()
		seen.awaitOutput("stdout", fmt.Sprintf("%d\n", i))
	}
	written(p, last)
	goOn()
	open()
	p.done(0, map[string]string{"stdout": numbers(1, last)})
	t.Logf("%d events were pending", p.most)
}
