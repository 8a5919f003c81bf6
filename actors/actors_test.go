package actors_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/slots"
	"github.com/b6f6fdd7/troupe/tests/support/testleak"
	"github.com/b6f6fdd7/troupe/transport"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	slots.Widen()
	goleak.VerifyTestMain(testleak.Patient(m))
}

// limit is how long a test waits for a fact before it gives up.
const limit = 60 * time.Second

// testLog writes to the test's log until the test is over.
type testLog struct {
	mu sync.Mutex
	t  *testing.T
}

func (l *testLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.t != nil {
		l.t.Logf("%s", b)
	}
	return len(b), nil
}

func newLog(t *testing.T) *slog.Logger {
	l := &testLog{t: t}
	t.Cleanup(func() {
		l.mu.Lock()
		l.t = nil
		l.mu.Unlock()
	})
	return slog.New(slog.NewTextHandler(l, nil))
}

// actorCount is how many actors (and futures) the registry of system holds.
func actorCount(system *actor.ActorSystem) (n int) {
	for _, m := range system.ProcessRegistry.LocalPIDs.LocalPIDs {
		n += m.Count()
	}
	return n
}

// start returns a running troupe. At the end of the test it is shut down, and
// must have left nothing: no process, no actor.
func start(t *testing.T, config actors.Config) *actors.Troupe {
	t.Helper()
	if config.Log == nil {
		config.Log = newLog(t)
	}
	quiet := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
		actor.WithDeadLetterThrottleInterval(10*time.Millisecond)) // its goroutine lives as long
	before := actorCount(system)
	troupe, err := actors.Start(system, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := troupe.Kill(); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		for deadline := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
			left := actorCount(system) - before
			if left == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Errorf("%d actors are left", left)
				break
			}
		}
		system.Shutdown()
	})
	return troupe
}

// peer is the other side of a connection, at the level of the wire.
type peer struct {
	t    *testing.T
	conn transport.Conn
	id   int
	in   chan message
	end  error // of the connection; set before in is closed
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		ProcessID string `json:"processId"`
		Seq       uint64 `json:"seq"`
		Stream    string `json:"stream"`
		Chunk     []byte `json:"chunk"`
		ExitCode  int    `json:"exitCode"`
		Signal    string `json:"signal"`
		Reason    string `json:"reason"`
		Bytes     int    `json:"bytes"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func connect(t *testing.T, troupe *actors.Troupe) *peer {
	return connectAs(t, troupe, identity.Identity{})
}

// connectAs connects a client of an identity; the zero Identity is a client whom nobody has asked.
func connectAs(t *testing.T, troupe *actors.Troupe, id identity.Identity) *peer {
	ours, theirs := transport.Pipe("")
	troupe.Accept(theirs, actors.About{Identity: id})
	return reads(t, ours, 1000)
}

// reads returns the client of a connection, which reads so many messages before the test takes them.
func reads(t *testing.T, ours transport.Conn, ahead int) *peer {
	p := &peer{t: t, conn: ours, in: make(chan message, ahead)}
	go func() {
		defer close(p.in)
		for {
			frame, err := ours.ReadMessage()
			if err != nil {
				p.end = err
				return
			}
			var m message
			if err := json.Unmarshal(frame, &m); err != nil {
				t.Errorf("%s: %v", frame, err)
			}
			p.in <- m
		}
	}()
	t.Cleanup(p.close)
	return p
}

func (p *peer) close() {
	p.conn.Close(transport.CloseNormal, "")
	for range p.in {
	}
}

func (p *peer) send(text string) {
	if err := p.conn.WriteMessage([]byte(text), false); err != nil {
		p.t.Errorf("send %s: %v", text, err)
	}
}

// next returns the next message; false: the connection has ended.
func (p *peer) next() (message, bool) {
	p.t.Helper()
	select {
	case m, ok := <-p.in:
		return m, ok
	case <-time.After(limit):
		p.t.Fatal("no message")
		return message{}, false
	}
}

// call sends a request and returns its answer. Messages before the answer are dropped.
func (p *peer) call(method, params string) message {
	p.t.Helper()
	p.id++
	p.send(fmt.Sprintf(`{"id":%d,"method":%q,"params":%s}`, p.id, method, params))
	return p.answer(fmt.Sprint(p.id))
}

func (p *peer) answer(id string) message {
	p.t.Helper()
	for {
		m, ok := p.next()
		if !ok {
			p.t.Fatalf("the connection ended before the answer %s", id)
		}
		if string(m.ID) == id {
			return m
		}
	}
}

// open does the handshake, with more members of the params of initialize.
func (p *peer) open(more string) (sessionID string) {
	p.t.Helper()
	m := p.call("initialize", `{"clientName":"test"`+more+`}`)
	if m.Error != nil {
		p.t.Fatalf("initialize: %+v", m.Error)
	}
	var result struct{ SessionID string }
	if err := json.Unmarshal(m.Result, &result); err != nil {
		p.t.Fatal(err)
	}
	p.send(`{"method":"initialized"}`)
	return result.SessionID
}

func (p *peer) start(id, more string, argv ...string) {
	p.t.Helper()
	args, _ := json.Marshal(argv)
	m := p.call("process/start", fmt.Sprintf(`{"processId":%q,"argv":%s,"cwd":"file:///","env":{"PATH":"/usr/bin:/bin"},"tty":false%s}`, id, args, more))
	if m.Error != nil {
		p.t.Fatalf("start %s: %+v", id, m.Error)
	}
}

// untilClosed gathers the output of a process up to its end, and checks the seq.
func (p *peer) untilClosed(id string, after uint64) (output string, code int) {
	p.t.Helper()
	for {
		m, ok := p.next()
		if !ok {
			p.t.Fatalf("the connection ended before %s closed", id)
		}
		if m.Params.ProcessID != id {
			continue
		}
		if m.Params.Seq != after+1 {
			p.t.Fatalf("%s: seq %d after %d", id, m.Params.Seq, after)
		}
		after++
		switch m.Method {
		case "process/output":
			output += string(m.Params.Chunk)
		case "process/exited":
			code = m.Params.ExitCode
		case "process/closed":
			return output, code
		}
	}
}

func TestRunsAProgram(t *testing.T) {
	t.Parallel()
	p := connect(t, start(t, actors.Config{}))
	p.open("")
	p.start("a", "", "sh", "-c", "echo out; exit 3")
	if out, code := p.untilClosed("a", 0); out != "out\n" || code != 3 {
		t.Errorf("got %q, exit code %d", out, code)
	}
}

// A session closes while a process is being started: the process ends with the session.
func TestCloseWhileStarting(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{})
	for range 20 {
		p := connect(t, troupe)
		p.open("")
		p.send(`{"id":"start","method":"process/start","params":{"processId":"a","argv":["sleep","1000"],"cwd":"file:///","env":{"PATH":"/usr/bin:/bin"},"tty":false}}`)
		if m := p.call("session/close", "{}"); m.Error != nil {
			t.Errorf("close: %+v", m.Error)
		}
	}
}

// A request after a start, sent before the answer of the start, waits for the start.
func TestRequestsBehindTheStart(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{})
	for range 20 {
		p := connect(t, troupe)
		p.open("")
		p.send(`{"id":"start","method":"process/start","params":{"processId":"a","argv":["cat"],"cwd":"file:///","env":{"PATH":"/usr/bin:/bin"},"tty":false,"pipeStdin":true}}`)
		p.send(`{"id":"write","method":"process/write","params":{"processId":"a","writeId":"w","chunk":"aGkK"}}`)
		p.send(`{"id":"end","method":"process/closeStdin","params":{"processId":"a"}}`)
		if m := p.answer(`"write"`); !strings.Contains(string(m.Result), "accepted") {
			t.Fatalf("write: %+v", m)
		}
		if m := p.answer(`"end"`); m.Error != nil {
			t.Fatalf("closeStdin: %+v", m.Error)
		}
	}
}

// A client is refused with a reason.
func TestConfiguredLimits(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{MaxSessions: 1, MaxProcesses: 1, Retention: 8 << 10, MaxRetention: 16 << 10, MaxDetachedTTL: time.Minute})
	p := connect(t, troupe)
	refused := func(p *peer, method, params string, code int) {
		t.Helper()
		if m := p.call(method, params); m.Error == nil || m.Error.Code != code {
			t.Errorf("%s %s: %+v, want error %d", method, params, m, code)
		}
	}
	for _, ttl := range []string{"60001", "0"} {
		refused(p, "initialize", `{"clientName":"test","session":{"detachedTtlMs":`+ttl+`}}`, protocol.CodeInvalidParams)
	}
	p.open(`,"session":{"detachedTtlMs":60000}`)
	refused(connect(t, troupe), "initialize", `{"clientName":"test"}`, protocol.CodeInvalidRequest)

	with := func(id, more string) string {
		return fmt.Sprintf(`{"processId":%q,"argv":["true"],"cwd":"file:///","env":{"PATH":"/usr/bin:/bin"},"tty":false%s}`, id, more)
	}
	for _, bytes := range []string{"4095", "16385"} {
		refused(p, "process/start", with("a", `,"retention":{"bytes":`+bytes+`,"onFull":"block"}`), protocol.CodeInvalidParams)
	}
	p.start("a", `,"retention":{"bytes":16384,"onFull":"block"}`, "true")
	refused(p, "process/start", with("b", ""), protocol.CodeInvalidRequest)
}

func TestEnvPolicyIsBounded(t *testing.T) {
	t.Parallel()
	p := connect(t, start(t, actors.Config{}))
	p.open("")
	globs := func(n int) string { return strings.Repeat(`"B*",`, n) + `"A*"` }
	names := func(n int) string {
		var all strings.Builder
		for i := range n {
			fmt.Fprintf(&all, `"N%d":"",`, i)
		}
		return all.String() + `"A":""`
	}
	try := func(exclude, only, set string) message {
		return p.call("process/start", fmt.Sprintf(`{"processId":"p","argv":["/bin/true"],"cwd":"file:///","env":{},"tty":false,
			"envPolicy":{"inherit":"none","ignoreDefaultExcludes":false,"exclude":[%s],"includeOnly":[%s],"set":{%s}}}`, exclude, only, set))
	}
	for want, m := range map[string]message{
		"envPolicy.exclude has 257 entries, the limit is 256":     try(globs(256), "", ""),
		"envPolicy.includeOnly has 257 entries, the limit is 256": try("", globs(256), ""),
		"envPolicy.set has 10001 entries, the limit is 10000":     try("", "", names(10_000)),
	} {
		if m.Error == nil || m.Error.Code != protocol.CodeInvalidParams || !strings.Contains(m.Error.Message, want) {
			t.Errorf("%+v, want %s", m, want)
		}
	}
	if m := try(globs(255), globs(255), names(9_999)); m.Error != nil {
		t.Errorf("as much as may be: %+v", m.Error)
	}
}

// What is kept of a start for as long as its process is not what the client made long.
func TestKeptOfAStart(t *testing.T) {
	t.Parallel()
	p := connect(t, start(t, actors.Config{}))
	p.open("")
	with := func(id, cwd, more string) string {
		return fmt.Sprintf(`{"processId":%q,"argv":["true"],"cwd":"file:///%s","env":{"PATH":"/usr/bin:/bin"},"tty":false%s}`, id, cwd, more)
	}
	if m := p.call("process/start", with("tcp", "", `,"ready":{"tcp":"`+strings.Repeat("x", 1023)+`:1"}`)); m.Error == nil || !strings.Contains(m.Error.Message, "ready.tcp has 1025 bytes") {
		t.Errorf("ready.tcp of 1025 bytes: %+v", m)
	}
	if m := p.call("process/start", with("long", strings.Repeat("/./", 4000)+"usr", "")); m.Error != nil {
		t.Fatal(m.Error)
	}
	if m := p.call("process/list", "{}"); !strings.Contains(string(m.Result), `"cwd":"file:///usr"`) {
		t.Errorf("it is listed as %s", m.Result)
	}
}

// A slow owner loses nothing when the actor of its process fails.
func TestFaultBehindASlowOwner(t *testing.T) {
	t.Parallel()
	const size = 400_000
	var armed atomic.Bool
	troupe := start(t, actors.WithFaults(actors.Config{Window: 64 << 10}, func(self *actor.PID, m any) {
		if _, ok := m.(actors.Request); ok && kindOf(self) == "process" && armed.CompareAndSwap(true, false) {
			panic("injected")
		}
	}, nil))
	owner := &peer{t: t, in: make(chan message)} // only the test reads, and the pipe is synchronous
	ours, theirs := transport.Pipe("")
	troupe.Accept(theirs, theirs.About())
	owner.conn = ours
	defer ours.Close(transport.CloseNormal, "")
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		defer close(owner.in)
		for {
			frame, err := ours.ReadMessage()
			if err != nil {
				return
			}
			var m message
			if err := json.Unmarshal(frame, &m); err != nil {
				t.Error(err)
			}
			select {
			case owner.in <- m:
			case <-ended:
			}
		}
	}()
	id := owner.open("")
	owner.start("a", "", "head", "-c", fmt.Sprint(size), "/dev/zero")
	other := connect(t, troupe)
	other.open(fmt.Sprintf(`,"resumeSessionId":%q,"role":"observer"`, id))
	other.call("process/wait", `{"processId":"a"}`)
	armed.Store(true)
	for other.call("process/wait", `{"processId":"a"}`).Error == nil {
	}
	if m := other.call("process/wait", `{"processId":"a"}`); m.Error != nil { // the actor is back
		t.Errorf("%+v", m.Error)
	}
	if output, _ := owner.untilClosed("a", 0); len(output) != size {
		t.Errorf("got %d bytes of %d", len(output), size)
	}
}
