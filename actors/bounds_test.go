package actors_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// stiff is the other side of a connection. It reads only when the test says so. The pipe is synchronous:
// without a read nothing is written.
type stiff struct {
	t    *testing.T
	conn transport.Conn
}

func newStiff(t *testing.T, troupe *actors.Troupe) *stiff {
	ours, theirs := transport.Pipe("")
	troupe.Accept(theirs, theirs.About())
	t.Cleanup(func() { ours.Close(transport.CloseNormal, "") })
	return &stiff{t, ours}
}

func (s *stiff) send(format string, args ...any) {
	s.t.Helper()
	if err := s.conn.WriteMessage(fmt.Appendf(nil, format, args...), false); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stiff) read() (m message) {
	s.t.Helper()
	frame, err := s.conn.ReadMessage()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := json.Unmarshal(frame, &m); err != nil {
		s.t.Fatalf("%.200s: %v", frame, err)
	}
	return m
}

// answer reads up to the answer to id.
func (s *stiff) answer(id string) (m message) {
	s.t.Helper()
	for string(m.ID) != id {
		m = s.read()
	}
	if m.Error != nil {
		s.t.Fatalf("%s: %+v", id, *m.Error)
	}
	return m
}

// open does the handshake, with more members of the params of initialize.
func (s *stiff) open(more string) (sessionID string) {
	s.t.Helper()
	s.send(`{"id":"open","method":"initialize","params":{"clientName":"stiff"%s}}`, more)
	var result protocol.InitializeResult
	if err := json.Unmarshal(s.answer(`"open"`).Result, &result); err != nil {
		s.t.Fatal(err)
	}
	s.send(`{"method":"initialized"}`)
	return result.SessionID
}

func (s *stiff) start(id, more string, argv ...string) {
	s.t.Helper()
	args, err := json.Marshal(argv)
	if err != nil {
		s.t.Fatal(err)
	}
	s.send(`{"id":"start","method":"process/start","params":{"processId":%q,"argv":%s,"cwd":"file:///","env":{"PATH":"/usr/bin:/bin"},"tty":false%s}}`, id, args, more)
	s.answer(`"start"`)
}

// measured skips a test of how much memory something takes under the race detector, which takes memory of its own.
func measured(t *testing.T) {
	if raced() {
		t.Skip("memory is measured without the race detector")
	}
}

// sized is for a test that sends many messages of megabytes: the race detector decodes them in a minute, and finds in them what it finds
// in small ones.
func sized(t *testing.T) {
	if raced() {
		t.Skip("large messages are sent without the race detector")
	}
}

func raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// inUse returns the bytes of the heap without garbage. The collector counts garbage as live if the garbage
// was allocated while the collector marked, so inUse returns the least of three readings.
func inUse() int64 {
	least := int64(math.MaxInt64)
	runtime.GC() // moves the contents of each sync.Pool to its victims, which the next cycle frees
	for range 3 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		least = min(least, int64(m.HeapAlloc))
	}
	return least
}

// Answers to process/read that nobody takes hold what the window allows, and one
// answer; all of them come once they are taken.
func TestUnreadReadsAreBounded(t *testing.T) {
	const (
		kept    = 8 << 20 // by the log; the most in a single answer
		n       = 8
		allowed = 48 << 20 // the log, an answer with its encoding, and room
	)
	var asked atomic.Int64
	h := newHost(t, actors.WithFaults(actors.Config{KillGrace: -1}, func(_ *actor.PID, m any) {
		if request, ok := m.(actors.Request); ok {
			if _, read := request.Params.(protocol.ProcessReadParams); read {
				asked.Add(1)
			}
		}
	}, nil))
	s := newStiff(t, h.troupe)
	sessionID := s.open("")
	before := inUse()
	s.start("a", fmt.Sprintf(`,"retention":{"bytes":%d,"onFull":"evict"}`, kept), "cat", "/dev/zero")

	process := h.attach(t, actors.Attach{SessionID: sessionID, Role: protocol.RoleObserver}).Processes[0].PID
	describe := func() protocol.ProcessInfo {
		return h.ask(t, process, actors.DescribeRequest{}).Result.(protocol.ProcessInfo)
	}
	for i := range n { // each is answered with other 8 MiB
		then := describe().NextSeq
		waitFor(t, "a log full of what nobody has", func() bool { return describe().FirstSeq > then })
		s.send(`{"id":%d,"method":"process/read","params":{"processId":"a","afterSeq":0,"waitMs":0}}`, i)
		waitFor(t, "the read", func() bool { return asked.Load() > int64(i) })
	}
	if used := inUse() - before; used > allowed {
		t.Errorf("%d answers that nobody reads take %d MiB", n, used>>20)
	}

	s.send(`{"id":"end","method":"process/terminate","params":{"processId":"a"}}`)
	var answered [n]bool
	for left := n; left > 0; {
		frame, err := s.conn.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		for i := range answered {
			if bytes.HasPrefix(frame, fmt.Appendf(nil, `{"id":%d,"result":{"chunks":[{`, i)) && !answered[i] {
				answered[i] = true
				left--
			}
		}
	}
}

// However many process/list are asked for, two are gathered while nobody takes
// the answers.
func TestUnreadListsAreShared(t *testing.T) {
	t.Parallel()
	const n, processes = 100, 5
	var described, requests atomic.Int64
	troupe := start(t, actors.WithFaults(actors.Config{KillGrace: -1}, func(_ *actor.PID, m any) {
		if request, ok := m.(actors.Request); ok {
			switch request.Params.(type) {
			case actors.DescribeRequest:
				described.Add(1)
			case actors.SessionInfoRequest:
				requests.Add(1)
			}
		}
	}, nil))
	s := newStiff(t, troupe)
	s.open("")
	for i := range processes {
		s.start(fmt.Sprint("p", i), "", "sleep", "1000")
	}
	for i := range n {
		s.send(`{"id":%d,"method":"process/list","params":{}}`, i)
	}
	s.send(`{"id":"info","method":"session/info"}`)
	waitFor(t, "what is behind the lists", func() bool { return requests.Load() == 1 })
	for i := range n {
		var result protocol.ProcessListResult
		if err := json.Unmarshal(s.answer(fmt.Sprint(i)).Result, &result); err != nil || len(result.Processes) != processes {
			t.Fatalf("answer %d: %+v, %v", i, result, err)
		}
	}
	if got := described.Load(); got > 2*processes {
		t.Errorf("%d processes were asked %d times for %d lists", processes, got, n)
	}
}

// narrow is a transport for messages of 2 KiB at most.
type narrow struct{ transport.Conn }

func (narrow) About() actors.About { return actors.About{MaxMessage: 2 << 10} }

func (c narrow) WriteMessage(msg []byte, binary bool) error {
	if len(msg) > c.About().MaxMessage {
		return fmt.Errorf("%d bytes", len(msg))
	}
	return c.Conn.WriteMessage(msg, binary)
}

// An error fits the transport, however long the text of the client in the error.
func TestLongErrors(t *testing.T) {
	t.Parallel()
	ours, theirs := transport.Pipe("")
	start(t, actors.Config{}).Accept(narrow{theirs}, narrow{}.About())
	defer ours.Close(transport.CloseNormal, "")
	s := &stiff{t, ours}
	long := strings.Repeat("x", 1<<20)
	refused := func(method, params, want string) {
		t.Helper()
		s.send(`{"id":1,"method":%q,"params":%s}`, method, params)
		if m := s.read(); string(m.ID) != "1" || m.Error == nil || m.Error.Code != protocol.CodeInvalidRequest || !strings.Contains(m.Error.Message, want) {
			t.Errorf("%s: %+v, want an error with %q", method, m, want)
		}
	}
	refused("initialize", `{"clientName":"test","resumeSessionId":"`+long+`"}`, "unknown session id xxx")
	s.open("")
	refused("process/read", `{"processId":"`+long+`"}`, "unknown process id xxx")
	refused("session/close", `{"sessionId":"`+long+`"}`, "not for xxx")
	member := fmt.Sprintf(`{"processId":"%.1000s","argv":["true"],"cwd":"file:///","env":{},"tty":false,"dependsOn":["%.1001s"]}`, long, long)
	refused("group/start", `{"groupId":"g","processes":[`+member+`]}`, "a message on this connection at most 2048")
}

// Requests before a broken end of the input are answered, and the log says how the input ended.
func TestInputEndsBadly(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	in, _ := protocol.JSON.AppendRequest(nil, protocol.IntID(1), protocol.MethodInitialize, protocol.InitializeParams{ClientName: "test"})
	in = append(append(binary.LittleEndian.AppendUint32(nil, uint32(len(in))), in...), "{\"id\":2}\n"...)
	out, theirs := io.Pipe()
	troupe := start(t, actors.Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	frames := transport.Frames(io.NopCloser(bytes.NewReader(in)), theirs, nil)
	troupe.Accept(frames, frames.About())
	answer, err := io.ReadAll(out)
	if err != nil || !bytes.Contains(answer, []byte(`"sessionId"`)) {
		t.Errorf("%q, %v", answer, err)
	}
	troupe.Kill()
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "--framing lines") {
		t.Errorf("the log says %s", &log)
	}
}

func TestMaxConnections(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{MaxConnections: 2})
	first, second := connect(t, troupe), connect(t, troupe)
	sessionID := first.open("")
	second.open("")
	dial := func() error {
		s := newStiff(t, troupe)
		defer s.conn.Close(transport.CloseNormal, "")
		// Of the two that Close may be seen by, the read tells the code.
		go s.conn.WriteMessage([]byte(`{"id":1,"method":"initialize","params":{"clientName":"third"}}`), false)
		_, err := s.conn.ReadMessage()
		return err
	}
	closed, ok := errors.AsType[*transport.CloseError](dial())
	if !ok || closed.Code != 1013 || !strings.Contains(closed.Reason, "max-connections is 2") {
		t.Errorf("the third got %v, want Close 1013", closed)
	}
	if m := first.call("session/info", "{}"); m.Error != nil {
		t.Errorf("the first: %+v", m.Error)
	}
	resuming := newStiff(t, troupe) // there is always room for a client that resumes
	if id := resuming.open(`,"role":"observer","resumeSessionId":"` + sessionID + `"`); id != sessionID {
		t.Errorf("session %q, want %q", id, sessionID)
	}
	resuming.conn.Close(transport.CloseNormal, "")
	second.close()
	waitFor(t, "the place of the second to be free", func() bool { return dial() == nil })
}

// As many strangers as a transport may have take no place from a client that resumes.
func TestSilentStrangersLeaveRoomToResume(t *testing.T) {
	t.Parallel()
	const strangers = 1024
	troupe := start(t, actors.Config{MaxConnections: 1})
	owner := connect(t, troupe)
	sessionID := owner.open("")
	for range strangers {
		newStiff(t, troupe)
	}
	resuming := newStiff(t, troupe)
	if id := resuming.open(`,"role":"observer","resumeSessionId":"` + sessionID + `"`); id != sessionID {
		t.Errorf("session %q, want %q", id, sessionID)
	}
}

// However little a server is told to keep, output moves.
func TestSmallRetention(t *testing.T) {
	t.Parallel()
	p := connect(t, start(t, actors.Config{Retention: 3}))
	p.open("")
	p.start("a", "", "echo", "hello")
	if out, code := p.untilClosed("a", 0); out != "hello\n" || code != 0 {
		t.Errorf("got %q, exit code %d", out, code)
	}
}
