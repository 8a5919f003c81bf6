// Package tests drives the real troupe binary from outside: with real processes, with waits for facts
// instead of sleeps, and with its own wire client. Package client is not used, because a mistake could
// then hide in both.
//
//	s := startServer(t, "--detached-ttl", "1m") // built once, stopped by SIGTERM at the end, must exit with 0
//	c := s.session(nil)                         // connected, initialize + initialized
//	p := c.start("cat", obj{"argv": []string{"/bin/cat"}, "pipeStdin": true})
//	p.write("hi\n")
//	p.awaitOutput("stdout", "hi\n")
//	c.cutRST()
//	c = s.session(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"cat": p.lastSeq()}})
//	c.process("cat").awaitOutput("stdout", "…") // the output on this connection, from its first seq on
//
// Until the test ends, every connection checks for every process: seq goes up by 1, and nothing follows
// closed. On the connection that sent the start, seq begins at 1.
//
// Many helpers wait for a fact. If the fact does not come true within factTimeout, the helper ends the
// test; so call helpers on the test's own goroutine. Helpers return decoded JSON: objects are obj,
// numbers json.Number. If packed is set on a server, its connections speak msgpack, and the tests
// notice no difference.
package tests

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/internal/holder"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/slots"
	"github.com/b6f6fdd7/troupe/tests/support/testleak"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
	"github.com/gorilla/websocket"
	"github.com/vmihailenco/msgpack/v5"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// factTimeout is how long a fact may take on a busy machine. factTimeout is a timeout, not a
// measurement: a passing test waits less.
const factTimeout = 60 * time.Second

// obj is a JSON object.
type obj = map[string]any

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == spyArg {
		spyMain(os.Args[2:])
		return
	}
	if len(os.Args) > 1 && os.Args[1] == probeArg {
		probeMain(os.Args[2:])
		return
	}
	if len(os.Args) > 2 && os.Args[1] == shopArg {
		shopMain(os.Args[2:])
		return
	}
	// Descriptors left open by the caller of the tests must not reach the servers.
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		panic(err)
	}
	// Nor must signals that a caller ignores: nohup(1) ignores SIGHUP, and a shell SIGINT and SIGQUIT for a job in the background.
	// A caught signal is not inherited.
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	slots.Widen()
	goleak.VerifyTestMain(testleak.Patient(m), goleak.Cleanup(func(code int) {
		if dir := buildDir.Load(); dir != nil {
			os.RemoveAll(*dir)
		}
		os.Exit(code)
	}))
}

// writeProgram writes a file that some process is to execute, as os.WriteFile does. A child that this process forks meanwhile has the
// file open until the child executes its own program, and the system executes no file that is open for writing: "text file busy"
// (go.dev/issue/22315). So writeProgram lets nobody fork meanwhile.
func writeProgram(path string, text []byte, mode fs.FileMode) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, text, mode)
}

// copyOfTests is a copy of this test binary that every user may execute: see spyArg and probeArg.
var copyOfTests = sync.OnceValues(func() (string, error) {
	troupe, err := troupeBinary()
	if err != nil {
		return "", err
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(self)
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(troupe), "tests")
	if err := writeProgram(path, data, 0o700); err != nil {
		return "", err
	}
	return path, os.Chmod(path, 0o755) // whatever the umask
})

// --- facts ---

// facts is state that a goroutine changes while others wait for a change.
type facts struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each update; nil until somebody waits
}

func (f *facts) update(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// await returns true as soon as ok does, or false after timeout. await calls ok under the lock.
func (f *facts) await(timeout time.Duration, ok func() bool) bool {
	deadline := time.After(timeout)
	for {
		f.mu.Lock()
		if ok() {
			f.mu.Unlock()
			return true
		}
		if f.changed == nil {
			f.changed = make(chan struct{})
		}
		changed := f.changed
		f.mu.Unlock()
		select {
		case <-changed:
		case <-deadline:
			return false
		}
	}
}

// eventually polls for a fact without notification, such as a fact in /proc. A look at all processes costs several milliseconds of
// processor time, so the pause grows.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline, pause := time.Now().Add(factTimeout), 2*time.Millisecond
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", factTimeout, what)
		}
		time.Sleep(pause)
		pause = min(2*pause, 64*time.Millisecond)
	}
}

// --- the binary ---

var buildDir atomic.Pointer[string]

// troupeBinary builds the server, with the race detector if the tests run with the race detector.
var troupeBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "troupe-tests-")
	if err != nil {
		return "", err
	}
	buildDir.Store(&dir)
	if err := os.Chmod(dir, 0o755); err != nil { // servers run as other users, too
		return "", err
	}
	args := []string{"build", "-buildvcs=false", "-o", filepath.Join(dir, "troupe")}
	if underRace() {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "github.com/b6f6fdd7/troupe/cmd/troupe")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build ./cmd/troupe: %w\n%s", err, out)
	}
	return filepath.Join(dir, "troupe"), nil
})

func underRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// noRace skips tests that only read files and run other programs, with -short: the pass with the race detector.
func noRace(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("no race to find: the test runs no code of ours")
	}
}

// bareEnv is a whole environment of a server, so the tests know every byte of the environment of its children.
var bareEnv = []string{
	"HOME=/home/user", "LANG=C.UTF-8", "PATH=/usr/local/bin:/usr/bin:/bin", "SHELL=/bin/bash",
	"SOME_TOKEN=hush", "EDITOR=ed",
}

// serverEnv is the environment of the servers and commands under test: bareEnv, and raceOptions with the race detector.
var serverEnv = func() []string {
	env := bareEnv
	if underRace() {
		env = slices.Concat(bareEnv, []string{raceVar + "=" + raceOptions})
	}
	return slices.Clip(env) // tests append to it at the same time
}()

// raceVar and raceOptions are for programs built with the race detector. Without them each of these programs sleeps 1 s
// before it ends. Races are still reported, and change the exit code to 66.
const raceVar, raceOptions = "GORACE", "atexit_sleep_ms=0"

// program is a run of the binary.
type program struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdout *tap
	stderr *tap
	exited chan struct{} // closed once the program has ended and its output was read
}

// tap keeps all bytes written to it.
type tap struct {
	facts
	data []byte
}

func (o *tap) Write(p []byte) (int, error) {
	o.update(func() { o.data = append(o.data, p...) })
	return len(p), nil
}

func (o *tap) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.data)
}

// startTroupe runs `troupe args…`. configure changes the command, and may be nil. The end of the test
// kills the program if it is still running.
func startTroupe(t testing.TB, configure func(*exec.Cmd), args ...string) *program {
	t.Helper()
	bin, err := troupeBinary()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, cmd: exec.Command(bin, args...), stdout: &tap{}, stderr: &tap{}, exited: make(chan struct{})}
	p.cmd.Env = append(serverEnv, "XDG_RUNTIME_DIR="+runtimeDir(t))
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.stderr
	p.cmd.WaitDelay = factTimeout
	if configure != nil {
		configure(p.cmd)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.exited
		if t.Failed() {
			log := p.stderr.String()
			t.Logf("troupe %s: %v; the end of its stderr:\n%s", strings.Join(args, " "), p.cmd.ProcessState, log[max(0, len(log)-8<<10):])
		}
	})
	return p
}

// runtimeDir makes a directory in which the server of any user may make its own: without XDG_RUNTIME_DIR, a server leaves
// /tmp/troupe-UID.
func runtimeDir(t testing.TB) string {
	t.Helper()
	dir := testroot.Dir(t, "")
	if err := os.Chmod(dir, 0o777|fs.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return dir
}

// exitCode waits for the end and returns the exit code, or -1 after a signal.
func (p *program) exitCode() int {
	p.t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(factTimeout):
		p.cmd.Process.Signal(syscall.SIGQUIT) // for the stacks
		select {
		case <-p.exited:
		case <-time.After(10 * time.Second):
		}
		p.t.Fatalf("%s has not ended within %v; its stderr:\n%s", p.cmd, factTimeout, p.stderr)
		return 0
	}
}

func (p *program) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatalf("signal %v: %v", sig, err)
	}
}

// rss returns the resident memory of the program in bytes.
func (p *program) rss() int64 {
	p.t.Helper()
	return procNumber(p.t, p.cmd.Process.Pid, "VmRSS:") * 1024
}

// procNumber returns the first number of a line of /proc/PID/status.
func procNumber(t testing.TB, pid int, field string) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(status), "\n"+field)
	var n int64
	if _, err := fmt.Sscan(line, &n); err != nil {
		t.Fatalf("%s of process %d: %v", field, pid, err)
	}
	return n
}

// descriptors returns how many descriptors the program has open.
func (p *program) descriptors() int {
	p.t.Helper()
	return descriptorsOf(p.t, p.cmd.Process.Pid)
}

// descriptorsOf returns how many descriptors a process has open. Only CAP_SYS_PTRACE permits listing those of a process that is not
// dumpable, as servers are. Everybody may know their number: since Linux 6.2 it is the size of the directory.
func descriptorsOf(t testing.TB, pid int) int {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 0 {
		return int(info.Size())
	}
	needs.Descriptors(t)
	fds, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

// server is a running `troupe serve`.
type server struct {
	*program
	url    string // as printed by the server: ws://127.0.0.1:43211, unix:///… or unix+frames:///…
	packed bool   // speak msgpack; set before connecting
	serves int    // the first process that has served
}

// startServer starts `troupe serve args…` and waits for its address. Without a --listen in args, the
// server listens on a free port of 127.0.0.1. At the end of the test a running server gets SIGTERM, and
// must exit with 0. A recovered panic or a data race of the server also fails the test.
func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	return startServerWith(t, nil, args...)
}

// startServerWith is startServer; configure changes the command.
func startServerWith(t testing.TB, configure func(*exec.Cmd), args ...string) *server {
	t.Helper()
	if !slices.Contains(args, "--listen") {
		args = append([]string{"--listen", "ws://127.0.0.1:0"}, args...)
	}
	s := &server{program: startTroupe(t, configure, append([]string{"serve"}, args...)...)}
	t.Cleanup(func() {
		select {
		case <-s.exited:
		default:
			s.stop()
		}
		for line := range strings.Lines(s.stderr.String()) {
			if strings.Contains(line, "panic") || strings.Contains(line, "DATA RACE") {
				t.Errorf("the server logged: %.3000s", line)
				break
			}
		}
	})
	s.url = s.firstLine()
	s.serves = cmp.Or(holder.ServerOf(s.cmd.Process.Pid), s.cmd.Process.Pid)
	return s
}

// pid returns the first process that has served. cmd is its holder, if it has one.
func (s *server) pid() int { return s.serves }

// rss returns the resident memory of the server in bytes.
func (s *server) rss() int64 { return procNumber(s.t, s.pid(), "VmRSS:") * 1024 }

// descriptors returns how many descriptors the server has open.
func (s *server) descriptors() int { return descriptorsOf(s.t, s.pid()) }

// startConfined is startServerWith for a server that gets random or recorded requests: the server and its programs change files only
// below dirs, which must exist, and in a /tmp of their own. configure may be nil.
func startConfined(t testing.TB, configure func(*exec.Cmd), dirs []string, args ...string) *server {
	t.Helper()
	return startServerWith(t, func(cmd *exec.Cmd) {
		if configure != nil {
			configure(cmd)
		}
		runtime := runtimeDir(t)
		cmd.Env = append(slices.Clip(cmd.Env), "XDG_RUNTIME_DIR="+runtime)
		testroot.Confine(t, cmd, append(slices.Clip(dirs), runtime)...)
	}, args...)
}

// firstLine waits for the first line on stdout.
func (p *program) firstLine() (line string) {
	p.t.Helper()
	go func() { // after an early end of the program, the line never comes
		<-p.exited
		p.stdout.update(func() {})
	}()
	found := false
	p.stdout.await(factTimeout, func() bool {
		line, _, found = strings.Cut(string(p.stdout.data), "\n")
		select {
		case <-p.exited:
			return true
		default:
			return found
		}
	})
	if !found {
		p.t.Fatalf("%s printed no line; its stderr:\n%s", p.cmd, p.stderr)
	}
	return line
}

// stop sends SIGTERM and wants exit code 0.
func (s *server) stop() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Fatalf("SIGTERM: %v", err)
	}
	if code := s.exitCode(); code != 0 {
		s.t.Errorf("after SIGTERM the server exited with %d, want 0; its stderr:\n%s", code, s.stderr)
	}
}

// openFiles returns how many descriptors the server has open, without those of TCP connections to the server.
func (s *server) openFiles() int {
	s.t.Helper()
	files := s.descriptors()
	_, port, found := strings.Cut(s.url, "ws://127.0.0.1:")
	n, err := strconv.ParseUint(port, 10, 16)
	if !found || err != nil {
		s.t.Fatalf("the connections of %s cannot be counted", s.url)
	}
	sockets, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		s.t.Fatal(err)
	}
	local := fmt.Sprintf("0100007F:%04X", n)
	for line := range strings.Lines(string(sockets)) {
		// A socket that no process has open has the inode 0: its connection awaits accept(2), or has been closed.
		if f := strings.Fields(line); f[1] == local && f[9] != "0" {
			files--
		}
	}
	return files
}

// in returns the server for a subtest.
func (s *server) in(t testing.TB) *server {
	p := *s.program
	p.t = t
	return &server{&p, s.url, s.packed, s.serves}
}

// dial connects without initialize.
func (s *server) dial() *conn {
	s.t.Helper()
	if path, framed := strings.CutPrefix(s.url, "unix+frames://"); framed {
		return dialFrames(s.t, path, s.packed)
	}
	c, _, err := dialWS(s.t, s.url, s.header())
	if err != nil {
		s.t.Fatalf("dial %s: %v", s.url, err)
	}
	return c
}

// header asks for msgpack if packed is set.
func (s *server) header() http.Header {
	if !s.packed {
		return nil
	}
	return http.Header{"Sec-Websocket-Protocol": {"troupe.msgpack"}}
}

// session connects and initializes; params are added to the parameters of initialize. Like every
// client, session repeats a refused resume while the server has not noticed the end of the old
// connection (-32010), unless params say takeover.
func (s *server) session(params obj) *conn {
	s.t.Helper()
	c := s.dial()
	all := obj{"clientName": "tests"}
	for k, v := range params {
		all[k] = v
	}
	for deadline := time.Now().Add(factTimeout); ; time.Sleep(5 * time.Millisecond) {
		id := c.request("initialize", all)
		answer := c.reply(id)
		if e, failed := answer["error"].(obj); failed {
			if num(e["code"]) == -32010 && time.Now().Before(deadline) {
				continue
			}
			s.t.Fatalf("initialize %v: %v", all, e)
		}
		c.sessionID = answer["result"].(obj)["sessionId"].(string)
		c.notify("initialized", obj{})
		return c
	}
}

// --- a connection ---

// conn is a connection to a server, with everything received on it.
type conn struct {
	t         testing.TB
	sessionID string        // set by server.session
	timeout   time.Duration // factTimeout, unless a test has a reason for another
	mutePongs atomic.Bool   // count pings and do not answer

	packed bool // speak msgpack, not JSON

	tcp   net.Conn                                       // nil on stdio
	next  func() ([]byte, error)                         // only for the reading goroutine
	write func(fin bool, opcode byte, data []byte) error // for any goroutine
	done  chan struct{}                                  // closed when the reading goroutine has ended

	lastID atomic.Int64

	facts                        // guards the fields below
	asked    map[string]askedFor // requests without an answer, by id
	replies  []obj               // answers not yet taken, in order
	other    []obj               // notifications not about a process, in order
	procs    map[string]*proc    // by processId
	started  map[string]bool     // processIds started on this connection: their seq begins at 1
	unmerged bool                // the client has resumed without replay: events that it has had may come again, once
	pings    int                 // from the server
	lastPing string              // payload of the last ping
	pongs    []string            // payloads of the server's pongs
	faults   []string            // breaches of the wire's rules
	end      error               // why reading ended; a *websocket.CloseError after a Close frame
}

// dialWS connects to ws://… or unix:///… with an additional header. If the server refuses, the response
// has the reason.
func dialWS(t testing.TB, url string, header http.Header) (*conn, *http.Response, error) {
	dialer := websocket.Dialer{HandshakeTimeout: factTimeout, ReadBufferSize: 64 << 10}
	if path, unix := strings.CutPrefix(url, "unix://"); unix {
		url = "ws://unix/"
		dialer.NetDial = func(string, string) (net.Conn, error) { return net.Dial("unix", path) }
	}
	ws, resp, err := dialer.Dial(url, header)
	if err != nil {
		return nil, resp, err
	}
	c := &conn{t: t, tcp: ws.UnderlyingConn(), packed: ws.Subprotocol() == "troupe.msgpack", next: nextOf(ws)}
	// The test writes its own frames, because gorilla would fragment messages.
	var mu sync.Mutex
	c.write = func(fin bool, opcode byte, data []byte) error {
		mu.Lock()
		defer mu.Unlock()
		_, err := c.tcp.Write(clientFrame(fin, opcode, data))
		return err
	}
	ws.SetPingHandler(func(data string) error {
		c.update(func() { c.pings++; c.lastPing = data })
		if !c.mutePongs.Load() {
			c.write(true, websocket.PongMessage, []byte(data))
		}
		return nil
	})
	ws.SetPongHandler(func(data string) error {
		c.update(func() { c.pongs = append(c.pongs, data) })
		return nil
	})
	ws.SetCloseHandler(func(int, string) error { return nil })
	c.run()
	t.Cleanup(c.hangUp)
	return c, resp, nil
}

// unmute answers the newest Ping, and later Pings.
func (c *conn) unmute() {
	c.mu.Lock()
	last := c.lastPing
	c.mu.Unlock()
	c.mutePongs.Store(false)
	c.write(true, websocket.PongMessage, []byte(last))
}

// nextOf reads a websocket. Messages must be binary in msgpack, and text in JSON.
func nextOf(ws *websocket.Conn) func() ([]byte, error) {
	return func() ([]byte, error) {
		opcode, data, err := ws.ReadMessage()
		if err == nil && (opcode == websocket.BinaryMessage) != (ws.Subprotocol() == "troupe.msgpack") {
			err = fmt.Errorf("a message with opcode %d, and %q is spoken", opcode, ws.Subprotocol())
		}
		return data, err
	}
}

// dialFrames connects to a unix socket for length-prefixed frames.
func dialFrames(t testing.TB, path string, packed bool) *conn {
	t.Helper()
	socket, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c := framed(t, socket, socket, packed)
	c.tcp = socket
	t.Cleanup(c.hangUp)
	return c
}

// framed speaks length-prefixed frames over a pair of pipes.
func framed(t testing.TB, r io.Reader, w io.Writer, packed bool) *conn {
	in := bufio.NewReader(r)
	c := &conn{t: t, packed: packed, next: func() ([]byte, error) {
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return nil, err
		}
		size := binary.LittleEndian.Uint32(head[:])
		if size == 0 || size > 8<<20 {
			return nil, fmt.Errorf("the server sent a frame of %d bytes", size)
		}
		data := make([]byte, size)
		_, err := io.ReadFull(in, data)
		return data, err
	}}
	c.write = func(_ bool, _ byte, data []byte) error {
		_, err := w.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(data))), data...))
		return err
	}
	c.run()
	return c
}

// dialLines speaks newline-delimited JSON over a pair of pipes, as on stdio.
func dialLines(t testing.TB, r io.Reader, w io.Writer) *conn {
	lines := bufio.NewReader(r)
	c := &conn{t: t, next: func() ([]byte, error) { return lines.ReadBytes('\n') }}
	c.write = func(_ bool, _ byte, data []byte) error {
		_, err := w.Write(append(slices.Clip(data), '\n'))
		return err
	}
	c.run()
	return c
}

// clientFrame returns a masked websocket frame (RFC 6455 §5.2).
func clientFrame(fin bool, opcode byte, data []byte) []byte {
	mask := rand.Uint32()
	frame := slices.Grow(frameHeader(fin, opcode, len(data), mask), len(data))
	key := binary.BigEndian.AppendUint32(nil, mask)
	for i, b := range data {
		frame = append(frame, b^key[i&3])
	}
	return frame
}

// frameHeader returns the header of a frame with n bytes.
func frameHeader(fin bool, opcode byte, n int, mask uint32) []byte {
	if fin {
		opcode |= 0x80
	}
	header := []byte{opcode}
	switch {
	case n < 126:
		header = append(header, 0x80|byte(n))
	case n < 1<<16:
		header = binary.BigEndian.AppendUint16(append(header, 0x80|126), uint16(n))
	default:
		header = binary.BigEndian.AppendUint64(append(header, 0x80|127), uint64(n))
	}
	return binary.BigEndian.AppendUint32(header, mask)
}

func (c *conn) run() {
	t := c.t // a test may hand the connection on to its subtests
	c.timeout = factTimeout
	c.done = make(chan struct{})
	c.procs, c.started, c.asked = map[string]*proc{}, map[string]bool{}, map[string]askedFor{}
	go func() {
		defer close(c.done)
		for {
			data, err := c.next()
			if err != nil {
				c.update(func() { c.end = err })
				return
			}
			c.update(func() { c.took(data) })
		}
	}()
	t.Cleanup(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, fault := range c.faults {
			t.Error(fault)
		}
	})
}

// took files a message. The caller holds the lock.
func (c *conn) took(data []byte) {
	decode := fromJSON
	if c.packed {
		decode = fromMsgpack
	}
	m, err := decode(data)
	if err != nil {
		c.faultf("the server sent what is not a message (%v): %.200q", err, data)
		return
	}
	_, isResult := m["result"]
	_, isError := m["error"]
	method, isNotification := m["method"].(string)
	if _, has := m["jsonrpc"]; has || (isResult || isError) == isNotification || isResult && isError {
		c.faultf("neither response nor notification: %.200s", data)
		return
	}
	if !isNotification {
		c.checkResult(m["id"], m["result"])
		c.replies = append(c.replies, m)
		return
	}
	c.checkNotification(method, m["params"])
	params, _ := m["params"].(obj)
	id, hasID := params["processId"].(string)
	if !hasID || strings.HasPrefix(method, "command/") {
		c.other = append(c.other, m)
		return
	}
	p := c.proc(id)
	seq := num(params["seq"])
	if p.closed && seq == 1 { // the id was free again, and a new process has the id
		delete(c.procs, id)
		p = c.proc(id)
	}
	from := seq
	if method == "process/gap" {
		from = num(params["fromSeq"])
	}
	if c.unmerged && from < p.next && (p.again == 0 || p.again == from) {
		p.again = seq + 1
		return
	}
	switch {
	case p.closed && (method == "process/restarted" || method == "process/evicted"): // with afterEnd
		p.closed, p.evicted = false, nil
	case p.closed:
		c.faultf("process %q: after closed came %s", id, data)
	case p.next == 0 && c.started[id] && from != 1:
		c.faultf("process %q: began with seq %d, want 1: %.200s", id, from, data)
	case p.next != 0 && from > p.next && method == "process/evicted": // a gap; this client did not announce the capability
	case p.next != 0 && from != p.next:
		c.faultf("process %q: seq %d where %d was due: %.200s", id, from, p.next, data)
	}
	if p.next == 0 {
		p.first = from
	}
	p.next = seq + 1
	switch method {
	case "process/output":
		stream, _ := params["stream"].(string)
		text, _ := params["chunk"].(string)
		chunk, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(chunk) == 0 && p.exited == nil || !slices.Contains([]string{"stdout", "stderr", "pty"}, stream) {
			c.faultf("process %q: bad output (%v): %.200s", id, err, data)
		}
		p.chunks = append(p.chunks, outputChunk{seq, stream, chunk, params["atMs"]})
	case "process/exited":
		if p.exited != nil {
			c.faultf("process %q: exited twice: %s", id, data)
		}
		p.exited = params
		p.ends = append(p.ends, params)
	case "process/restarted":
		if p.exited == nil && p.first == 1 {
			c.faultf("process %q: restarted and never exited: %s", id, data)
		}
		p.exited = nil
		p.restarts = append(p.restarts, params)
	case "process/ready":
		p.readies = append(p.readies, params)
	case "process/evicted":
		p.evicted = params
	case "process/closed":
		if p.exited == nil && p.evicted == nil && p.first == 1 && len(p.gaps) == 0 { // a gap may have replaced the exited event
			c.faultf("process %q: closed and never exited", id)
		}
		p.closed = true
	case "process/gap":
		p.gaps = append(p.gaps, params)
	}
}

func (c *conn) faultf(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

// proc returns the entry of a process, and makes the entry if necessary. The caller holds the lock.
func (c *conn) proc(id string) *proc {
	p := c.procs[id]
	if p == nil {
		p = &proc{c: c, id: id}
		c.procs[id] = p
	}
	return p
}

// awaitFact ends the test if the fact does not come true. ok may read all fields guarded by c.facts.
// After the end of the connection, no fact about the connection can come true any more.
func (c *conn) awaitFact(what string, ok func() bool) {
	c.t.Helper()
	if err := c.tryAwait(ok); err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}

func (c *conn) tryAwait(ok func() bool) (err error) {
	came := c.await(c.timeout, func() bool {
		switch {
		case ok():
			return true
		case c.end != nil:
			err = fmt.Errorf("the connection has ended: %w", c.end)
			return true
		}
		return false
	})
	if !came {
		err = fmt.Errorf("not within %v", c.timeout)
	}
	return err
}

// --- requests ---

// send sends any value as a message. send does not fail on an ended connection: the test fails later,
// when the answer does not come.
func (c *conn) send(v any) {
	c.t.Helper()
	data, err := json.Marshal(v)
	opcode := byte(websocket.TextMessage)
	if err == nil && c.packed {
		data, err = toMsgpack(data)
		opcode = websocket.BinaryMessage
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.sendRaw(opcode, data)
}

// sendRaw sends a message in a single frame, with any opcode and payload.
func (c *conn) sendRaw(opcode byte, data []byte) error { return c.write(true, opcode, data) }

func (c *conn) notify(method string, params any) {
	c.t.Helper()
	c.send(obj{"method": method, "params": params})
}

// request sends a request and returns its id at once, so that requests can be pipelined. reply takes
// the answer.
func (c *conn) request(method string, params any) (id int64) {
	c.t.Helper()
	id = c.lastID.Add(1)
	if p, isObj := params.(obj); isObj && method == "process/start" {
		if name, isString := p["processId"].(string); isString {
			c.update(func() { c.started[name] = true })
		}
	}
	c.update(func() { c.asked[jsonText(id)] = askedFor{method, json.RawMessage(jsonText(params))} })
	c.send(obj{"id": id, "method": method, "params": params})
	return id
}

// reply waits for the answer to id and takes the answer: an object with "result" or "error".
func (c *conn) reply(id any) obj {
	c.t.Helper()
	var answer obj
	c.awaitFact(fmt.Sprintf("the answer to request %v", id), func() bool {
		answer = c.takeReply(id)
		return answer != nil
	})
	return answer
}

// takeReply takes the oldest answer to id, or returns nil. The caller holds the lock.
func (c *conn) takeReply(id any) obj {
	i := slices.IndexFunc(c.replies, func(m obj) bool { return jsonText(m["id"]) == jsonText(id) })
	if i < 0 {
		return nil
	}
	answer := c.replies[i]
	c.replies = slices.Delete(c.replies, i, i+1)
	return answer
}

// call returns the result; an error answer ends the test.
func (c *conn) call(method string, params any) obj {
	c.t.Helper()
	answer := c.reply(c.request(method, params))
	result, ok := answer["result"].(obj)
	if !ok {
		c.t.Fatalf("%s %s: %s", method, jsonText(params), jsonText(answer))
	}
	return result
}

// callError expects an error, and returns its code and text.
func (c *conn) callError(method string, params any) (code int64, text string) {
	c.t.Helper()
	answer := c.reply(c.request(method, params))
	e, ok := answer["error"].(obj)
	if !ok {
		c.t.Fatalf("%s %s was answered with %s, want an error", method, jsonText(params), jsonText(answer))
	}
	text, _ = e["message"].(string)
	return num(e["code"]), text
}

// wantAnswer makes a request and compares the answer with expected: a result as JSON, or a code and a
// message. If expected starts with ~, only the beginning of the answer is compared.
func wantAnswer(t testing.TB, c *conn, method string, params any, expected string) {
	t.Helper()
	answer := c.reply(c.request(method, params))
	want, part := strings.CutPrefix(expected, "~")
	var ok bool
	if e := errorOf(answer); e != nil {
		got := fmt.Sprintf("%d %s", num(e["code"]), e["message"])
		ok = got == want || part && strings.HasPrefix(got, want)
	} else if result := (obj{}); json.Unmarshal([]byte(want), &result) == nil {
		got := maps.Clone(resultOf(answer))
		maps.DeleteFunc(got, func(k string, _ any) bool { _, wanted := result[k]; return part && !wanted })
		ok = jsonText(got) == jsonText(result)
	}
	if !ok {
		t.Errorf("%s %.300s: %.300s\nwant %s", method, jsonText(params), jsonText(answer), expected)
	}
}

// --- the end of a connection ---

// awaitEnd waits until the server has ended the connection, and returns the *websocket.CloseError of
// its Close frame (1006: there was none), or an I/O error.
func (c *conn) awaitEnd() error {
	c.t.Helper()
	if !c.await(c.timeout, func() bool { return c.end != nil }) {
		c.t.Fatalf("the connection is still open after %v", c.timeout)
	}
	return c.end
}

// awaitClose expects a Close frame of the server, and returns its code and reason.
func (c *conn) awaitClose() (code int, reason string) {
	c.t.Helper()
	err := c.awaitEnd()
	closed, ok := errors.AsType[*websocket.CloseError](err)
	if !ok || closed.Code == websocket.CloseAbnormalClosure {
		c.t.Fatalf("the connection ended without a Close frame: %v", err)
	}
	return closed.Code, closed.Text
}

// cutRST ends the TCP connection with a reset: unread bytes are lost on both sides.
func (c *conn) cutRST() {
	if tcp, ok := c.tcp.(*net.TCPConn); ok { // a unix socket can only be closed
		tcp.SetLinger(0)
	}
	c.hangUp()
}

// cutFIN ends the TCP connection in order but without a Close frame.
func (c *conn) cutFIN() { c.hangUp() }

// close ends the connection as a polite client does: with a Close frame, the server's answer, and then
// the end of TCP.
func (c *conn) close() {
	c.t.Helper()
	c.sendRaw(websocket.CloseMessage, binary.BigEndian.AppendUint16(nil, websocket.CloseNormalClosure))
	c.awaitEnd()
	c.hangUp()
}

func (c *conn) hangUp() {
	c.tcp.Close()
	<-c.done
}

// --- a process, as seen on a connection ---

type outputChunk struct {
	seq    int64
	stream string
	data   []byte
	atMs   any // nil without the capability times
}

// proc has the events of a process on a connection. The facts of the connection guard the fields; the
// methods take the lock.
type proc struct {
	c        *conn
	id       string
	first    int64 // the first seq seen here; 0: none yet
	next     int64 // the next seq
	again    int64 // the next seq of those that come again (PROTOCOL 10.2); 0: none came
	chunks   []outputChunk
	joined   map[string][]byte // by stream, the data of the first nJoined chunks
	nJoined  int
	gaps     []obj
	exited   obj   // params of process/exited of the current run
	ends     []obj // of every run
	restarts []obj // params of process/restarted
	readies  []obj // params of process/ready
	evicted  obj   // params of process/evicted
	closed   bool
}

// start starts a process and returns when the server has answered. params override the defaults: cwd
// file:///tmp, env with a PATH, no tty. If a closed process had the same id, its earlier view stays
// separate.
func (c *conn) start(id string, params obj) *proc {
	c.t.Helper()
	c.update(func() {
		if p := c.procs[id]; p != nil && p.closed {
			delete(c.procs, id)
		}
	})
	c.call("process/start", startParams(id, params))
	return c.process(id)
}

func startParams(id string, params obj) obj {
	all := obj{"processId": id, "cwd": "file:///tmp", "env": obj{"PATH": "/usr/bin:/bin"}, "tty": false}
	for k, v := range params {
		all[k] = v
	}
	return all
}

// sh returns the argv for a shell script.
func sh(script string) []string { return []string{"/bin/sh", "-c", script} }

// process returns the view of a process that may have been started on another connection.
func (c *conn) process(id string) *proc {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proc(id)
}

// write writes to stdin and expects accepted.
func (p *proc) write(data string) {
	p.c.t.Helper()
	result := p.c.call("process/write", p.writeParams(data))
	if result["status"] != "accepted" {
		p.c.t.Fatalf("write to %q: %v, want accepted", p.id, result)
	}
}

// writeParams returns the parameters of process/write with a new writeId.
func (p *proc) writeParams(data string) obj {
	return obj{
		"processId": p.id,
		"chunk":     base64.StdEncoding.EncodeToString([]byte(data)),
		"writeId":   fmt.Sprintf("w%d-%x", p.c.lastID.Load(), rand.Uint64()),
	}
}

// outputSoFar returns the output received on the stream.
func (p *proc) outputSoFar(stream string) string {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return p.output(stream)
}

// output returns the output received on the stream. The caller holds the lock.
func (p *proc) output(stream string) string { return string(p.join(stream)) }

// join is output without a copy. join copies each chunk once, because a test may look after every chunk
// of many MiB. A later chunk does not change the returned bytes. The caller holds the lock.
func (p *proc) join(stream string) []byte {
	if p.joined == nil {
		p.joined = make(map[string][]byte)
	}
	for _, chunk := range p.chunks[p.nJoined:] {
		p.joined[chunk.stream] = append(p.joined[chunk.stream], chunk.data...)
	}
	p.nJoined = len(p.chunks)
	return p.joined[stream]
}

// awaitOutput waits until the stream contains text, and returns the whole output.
func (p *proc) awaitOutput(stream, text string) (all string) {
	p.c.t.Helper()
	searched := 0 // text does not begin in these bytes
	p.c.awaitFact(fmt.Sprintf("%q on %s of process %q", text, stream, p.id), func() bool {
		got := p.join(stream)
		if !bytes.Contains(got[searched:], []byte(text)) {
			searched = max(0, len(got)-len(text)+1)
			return false
		}
		all = string(got)
		return true
	})
	return all
}

// awaitExit waits for process/exited and returns its params.
func (p *proc) awaitExit() (exited obj) {
	p.c.t.Helper()
	p.c.awaitFact(fmt.Sprintf("exited of process %q", p.id), func() bool {
		exited = p.exited
		return exited != nil
	})
	return exited
}

// awaitClosed waits for process/closed and returns the exit code and the whole stdout.
func (p *proc) awaitClosed() (exitCode int64, stdout string) {
	p.c.t.Helper()
	p.c.awaitFact(fmt.Sprintf("closed of process %q", p.id), func() bool {
		if p.closed {
			exitCode, stdout = num(p.exited["exitCode"]), p.output("stdout")
		}
		return p.closed
	})
	return exitCode, stdout
}

// lastSeq returns the last seq on this connection, or 0.
func (p *proc) lastSeq() int64 {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return max(p.next-1, 0)
}

// pid asks the server (process/list) for the OS process id.
func (p *proc) pid() int {
	p.c.t.Helper()
	for _, info := range p.c.call("process/list", obj{})["processes"].([]any) {
		if info := info.(obj); info["processId"] == p.id {
			return int(num(info["pid"]))
		}
	}
	p.c.t.Fatalf("process/list does not name %q", p.id)
	return 0
}

// ownAddress returns a free address for a listener. Its IP address is random, because another test could take a free port of 127.0.0.1.
func ownAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// members describes the processes of a POSIX session (setsid(2)): their states, and what they wait for.
func members(session int) string {
	out, err := exec.Command("ps", "-o", "pid,ppid,pgid,tpgid,stat,time,wchan:24,pending,blocked,ignored,caught,args", "-s", fmt.Sprint(session)).CombinedOutput()
	return fmt.Sprintf("%s%v", out, err)
}

// alive reports whether an OS process exists and is no zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	state := stat[bytes.LastIndexByte(stat, ')')+2]
	return state != 'Z' && state != 'X'
}

// --- JSON ---

// num returns a JSON number as an integer, or -1<<63 for another value.
func num(v any) int64 {
	if n, ok := v.(json.Number); ok {
		if i, err := n.Int64(); err == nil {
			return i
		}
	}
	return -1 << 63
}

func fromJSON(data []byte) (m obj, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err = d.Decode(&m)
	return m, err
}

// isBytes reports whether a member is base64 in JSON, and bytes in msgpack.
func isBytes(name string) bool { return name == "chunk" || strings.HasSuffix(name, "Base64") }

// toMsgpack packs a JSON text, with its chunks as bytes.
func toMsgpack(text []byte) ([]byte, error) {
	m, err := fromJSON(text)
	if err != nil {
		return nil, err
	}
	var pack func(name string, v any) (any, error)
	pack = func(name string, v any) (_ any, err error) {
		switch v := v.(type) {
		case json.Number:
			var n any = new(int64)
			if strings.ContainsAny(string(v), ".eE") {
				n = new(float64)
			} else if _, err := v.Int64(); err != nil {
				n = new(uint64)
			}
			return n, json.Unmarshal([]byte(v), n)
		case string:
			if isBytes(name) {
				return base64.StdEncoding.DecodeString(v)
			}
		case []any:
			for i := range v {
				if v[i], err = pack("", v[i]); err != nil {
					return nil, err
				}
			}
		case obj:
			for k := range v {
				if v[k], err = pack(k, v[k]); err != nil {
					return nil, err
				}
			}
		}
		return v, nil
	}
	packed, err := pack("", m)
	if err != nil {
		return nil, err
	}
	return msgpack.Marshal(packed)
}

// fromMsgpack unpacks a message into the same values as JSON. Only chunks are bytes.
func fromMsgpack(data []byte) (obj, error) {
	in := bytes.NewReader(data)
	packed, err := msgpack.NewDecoder(in).DecodeInterface()
	if err == nil && in.Len() > 0 {
		err = fmt.Errorf("%d bytes follow the message", in.Len())
	}
	if err != nil {
		return nil, err
	}
	var unpack func(name string, v any) any
	unpack = func(name string, v any) any {
		switch v := v.(type) {
		case []byte:
			if isBytes(name) {
				return base64.StdEncoding.EncodeToString(v)
			}
			err = fmt.Errorf("%s is bytes", name)
		case string:
			if isBytes(name) {
				err = fmt.Errorf("%s is text", name)
			}
		case int8, int16, int32, int64, uint8, uint16, uint32, uint64, float64:
			return json.Number(fmt.Sprint(v))
		case []any:
			for i := range v {
				v[i] = unpack("", v[i])
			}
		case obj:
			for k := range v {
				v[k] = unpack(k, v[k])
			}
		}
		return v
	}
	m, ok := unpack("", packed).(obj)
	if err == nil && !ok {
		err = errors.New("it is not a map")
	}
	return m, err
}

func jsonText(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%v", v)
	}
	return string(data)
}
