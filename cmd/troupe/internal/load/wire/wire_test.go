package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
	"github.com/gorilla/websocket"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is for waits that end at once unless the code is broken.
const patience = time.Minute

// A fake is the server's side of a connection.
type fake struct {
	t *testing.T
	transport.Conn
	codec protocol.Codec
}

// next returns the next message of the client.
func (f *fake) next() protocol.Message {
	f.t.Helper()
	frame, err := f.ReadMessage()
	if err != nil {
		f.t.Errorf("the server reads: %v", err)
		return protocol.Message{}
	}
	m, err := f.codec.Decode(bytes.Clone(frame))
	if err != nil {
		f.t.Errorf("the server decodes: %v", err)
	}
	return m
}

func (f *fake) send(b []byte, err error) {
	f.t.Helper()
	if err == nil {
		err = f.WriteMessage(b, f.codec.Binary())
	}
	if err == nil {
		err = f.Flush()
	}
	if err != nil {
		f.t.Errorf("the server writes: %v", err)
	}
}

func (f *fake) answer(id protocol.ID, result any) {
	f.t.Helper()
	f.send(f.codec.AppendResponse(nil, id, result))
}

func (f *fake) notify(method string, params any) {
	f.t.Helper()
	f.send(f.codec.AppendNotification(nil, method, params))
}

// A listener records the events and the end of a Conn.
type listener struct {
	mu     sync.Mutex
	events []string
	ended  chan error
}

func (l *listener) event(process string, e *oracle.Event, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(at) > patience {
		process += " of another time"
	}
	l.events = append(l.events, fmt.Sprintf("%s: %s seq %d stream %d %q code %d %q run %d from %d", process, e.Kind, e.Seq, e.Stream, e.Data, e.Code, e.Signal, e.Run, e.From))
	if e.Reason != "" {
		l.events[len(l.events)-1] += " reason " + e.Reason
	}
}

// end waits for Ended.
func (l *listener) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-l.ended:
		return err
	case <-time.After(patience):
		t.Fatal("Ended was not called")
		return nil
	}
}

// connected returns a Conn to a server played by serve. The test waits for serve.
func connected(t *testing.T, encoding string, serve func(*fake)) (*Conn, *listener) {
	t.Helper()
	codec := protocol.JSON
	if encoding == protocol.Msgpack.Name() {
		codec = protocol.Msgpack
	}
	s, err := transport.Listen("ws://127.0.0.1:0", &transport.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go s.Serve(func(c transport.Conn) {
		defer close(served)
		defer c.Close(transport.CloseNormal, "")
		serve(&fake{t, c, codec})
	})
	l := &listener{ended: make(chan error, 1)}
	c, err := Dial(t.Context(), s.URL(), Options{Encoding: encoding, Event: l.event, Ended: func(err error) { l.ended <- err }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		select {
		case <-served:
		case <-time.After(patience):
			t.Error("the server still runs")
		}
		s.Close()
	})
	return c, l
}

// untilEnd reads until the client ends the connection.
func (f *fake) untilEnd() {
	for {
		if _, err := f.ReadMessage(); err != nil {
			return
		}
	}
}

func forEncodings(t *testing.T, test func(t *testing.T, encoding string)) {
	for _, codec := range []protocol.Codec{protocol.JSON, protocol.Msgpack} {
		t.Run(codec.Name(), func(t *testing.T) { test(t, codec.Name()) })
	}
}

// A whole session: initialize, a refusal, and events of every kind, repeats and holes included.
func TestSession(t *testing.T) {
	long := strings.Repeat("i", 40) // too long for a short string of msgpack
	forEncodings(t, func(t *testing.T, encoding string) {
		c, l := connected(t, encoding, func(f *fake) {
			m := f.next()
			var hello protocol.InitializeParams
			f.codec.Unmarshal(m.Payload, &hello)
			if m.Method != protocol.MethodInitialize || hello.ClientName != "load" {
				t.Errorf("the first message is %s of %q", m.Method, hello.ClientName)
			}
			f.answer(m.ID, protocol.InitializeResult{SessionID: "s"})
			if m := f.next(); m.Method != protocol.MethodInitialized || m.Kind != protocol.Notification {
				t.Errorf("after initialize came %v %s", m.Kind, m.Method)
			}
			for range 2 {
				f.notify(protocol.NotifyOutput, protocol.OutputNotification{ProcessID: "a", Seq: 1, Stream: protocol.Stdout, Chunk: []byte("one")})
			}
			f.notify(protocol.NotifyOutput, protocol.OutputNotification{ProcessID: `"\`, Seq: 7, Stream: protocol.Stderr, Chunk: []byte{}})
			f.notify(protocol.NotifyOutput, protocol.OutputNotification{ProcessID: long, Seq: 8, Stream: protocol.PTY, Chunk: []byte("x")})
			f.notify(protocol.NotifyOutput, protocol.OutputNotification{ProcessID: "", Seq: 9, Stream: protocol.PTY, Chunk: []byte("y")})
			f.notify(protocol.NotifyGap, protocol.GapNotification{ProcessID: "a", Seq: 5, FromSeq: 2, ToSeq: 5})
			f.notify(protocol.NotifyReady, protocol.ReadyNotification{ProcessID: "a", Seq: 6, Run: 1})
			f.notify(protocol.NotifyExited, protocol.ExitedNotification{ProcessID: "a", Seq: 7, ExitStatus: protocol.ExitStatus{ExitCode: 137, Signal: "KILL", Run: 1}})
			f.notify(protocol.NotifyExited, protocol.ExitedNotification{ProcessID: "a", Seq: 7, ExitStatus: protocol.ExitStatus{ExitCode: 143, TimedOut: true, Reason: "timed out"}})
			f.notify(protocol.NotifyExited, protocol.ExitedNotification{ProcessID: "a", Seq: 7, ExitStatus: protocol.ExitStatus{ExitCode: 137, OOMKilled: true}})
			f.notify(protocol.NotifyRestarted, protocol.RestartedNotification{ProcessID: "a", Seq: 8, Run: 2})
			f.notify(protocol.NotifyEvicted, protocol.EvictedNotification{ProcessID: "a", Seq: 9})
			f.notify(protocol.NotifyClosed, protocol.ClosedNotification{ProcessID: "a", Seq: 10})
			f.notify("some/other", protocol.Empty{})
			m = f.next()
			f.send(f.codec.AppendFailure(nil, m.ID, &protocol.Error{Code: protocol.CodeInvalidParams, Message: "no such process"}))
			f.untilEnd()
		})
		hello, err := c.Initialize(t.Context(), protocol.InitializeParams{ClientName: "load"})
		if err != nil || hello.SessionID != "s" {
			t.Fatalf("Initialize: %+v, %v", hello, err)
		}
		err = c.Call(t.Context(), protocol.MethodProcessTerminate, &protocol.ProcessTerminateParams{ProcessID: "a"}, nil)
		if refused, ok := errors.AsType[*protocol.Error](err); !ok || refused.Code != protocol.CodeInvalidParams {
			t.Errorf("the error of the refused request is %v", err)
		}
		c.Close()
		if err := l.end(t); err != ErrClosed {
			t.Errorf("the connection ended with %v", err)
		}
		want := []string{
			`a: output seq 1 stream 1 "one" code 0 "" run 0 from 0`,
			`a: output seq 1 stream 1 "one" code 0 "" run 0 from 0`,
			`"\: output seq 7 stream 2 "" code 0 "" run 0 from 0`,
			long + `: output seq 8 stream 3 "x" code 0 "" run 0 from 0`,
			`: output seq 9 stream 3 "y" code 0 "" run 0 from 0`,
			`a: gap seq 5 stream 0 "" code 0 "" run 0 from 2`,
			`a: ready seq 6 stream 0 "" code 0 "" run 1 from 0`,
			`a: exited seq 7 stream 0 "" code 137 "KILL" run 1 from 0`,
			`a: exited seq 7 stream 0 "" code 143 "" run 0 from 0 reason timed out`,
			`a: exited seq 7 stream 0 "" code 137 "" run 0 from 0 reason out of memory`,
			`a: restarted seq 8 stream 0 "" code 0 "" run 2 from 0`,
			`a: evicted seq 9 stream 0 "" code 0 "" run 0 from 0`,
			`a: closed seq 10 stream 0 "" code 0 "" run 0 from 0`,
		}
		if got := strings.Join(l.events, "\n"); got != strings.Join(want, "\n") {
			t.Errorf("the events are\n%s\nexpected\n%s", got, strings.Join(want, "\n"))
		}
		if err := c.Go("x", nil, func([]byte, error) { t.Error("done of a Go that failed") }); !errors.Is(err, ErrClosed) {
			t.Errorf("Go after the end: %v", err)
		}
	})
}

// Messages forbidden to the server end the connection, and every request gets the error.
func TestViolations(t *testing.T) {
	for name, serve := range map[string]func(f *fake, id protocol.ID){
		"an answer to nothing":  func(f *fake, id protocol.ID) { f.answer(protocol.IntID(77), protocol.Empty{}) },
		"an answer to a string": func(f *fake, id protocol.ID) { f.answer(protocol.StringID("1"), protocol.Empty{}) },
		"a refusal of nothing": func(f *fake, id protocol.ID) {
			f.send(f.codec.AppendFailure(nil, protocol.InvalidID, &protocol.Error{Message: "what?"}))
		},
		"a request": func(f *fake, id protocol.ID) { f.send(f.codec.AppendRequest(nil, id, "x", nil)) },
		"garbage":   func(f *fake, id protocol.ID) { f.send([]byte("{]"), nil) },
		"output without a seq": func(f *fake, id protocol.ID) {
			f.send([]byte(`{"method":"process/output","params":{"processId":"a","stream":"stdout","chunk":""}}`), nil)
		},
		"an exit without a code": func(f *fake, id protocol.ID) {
			f.send([]byte(`{"method":"process/exited","params":{"processId":"a","seq":1}}`), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, l := connected(t, "json", func(f *fake) {
				serve(f, f.next().ID)
				f.untilEnd()
			})
			err := c.Call(t.Context(), "x", nil, nil)
			if _, ok := errors.AsType[*ViolationError](err); !ok {
				t.Errorf("the request ended with %v", err)
			}
			if _, ok := errors.AsType[*ViolationError](l.end(t)); !ok {
				t.Errorf("the connection ended with %v", err)
			}
		})
	}
	t.Run("an answer of another type", func(t *testing.T) {
		c, l := connected(t, "json", func(f *fake) {
			f.answer(f.next().ID, "text")
			f.untilEnd()
		})
		_, err := c.Initialize(t.Context(), protocol.InitializeParams{})
		if _, ok := errors.AsType[*ViolationError](err); !ok {
			t.Errorf("the request ended with %v", err)
		}
		if _, ok := errors.AsType[*ViolationError](l.end(t)); !ok {
			t.Errorf("the connection ended with %v", err)
		}
	})
	t.Run("an answer again", func(t *testing.T) {
		c, l := connected(t, "json", func(f *fake) {
			id := f.next().ID
			f.answer(id, protocol.Empty{})
			f.answer(id, protocol.Empty{})
			f.untilEnd()
		})
		if err := c.Call(t.Context(), "x", nil, nil); err != nil {
			t.Errorf("the request ended with %v", err)
		}
		if err := l.end(t); !strings.Contains(err.Error(), "the request 1, which has no answer due") {
			t.Errorf("the connection ended with %v", err)
		}
	})
}

// A server that gives the session away sends session/evicted, and then closes with a code.
func TestEvicted(t *testing.T) {
	_, l := connected(t, "json", func(f *fake) {
		f.notify(protocol.NotifySessionEvicted, protocol.SessionEvictedNotification{Reason: "taken over"})
		f.Close(protocol.CloseEvicted, "")
	})
	if err, ok := errors.AsType[*EvictedError](l.end(t)); !ok || err.Reason != "taken over" {
		t.Errorf("the connection ended with %v", err)
	}
}

// The last messages before the server closed its side are read, even if a write fails meanwhile.
func TestLastWords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	server, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	reading, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	c, err := Dial(t.Context(), "unix+frames://"+path, Options{
		Encoding: protocol.JSON.Name(),
		Event: func(string, *oracle.Event, time.Time) {
			close(reading)
			<-goOn
		},
		Ended: func(err error) { ended <- err },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	conn, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct {
		method string
		params any
	}{
		{protocol.NotifyClosed, protocol.ClosedNotification{ProcessID: "p", Seq: 1}},
		{protocol.NotifySessionEvicted, protocol.SessionEvictedNotification{Reason: "over"}},
	} {
		b, err := protocol.JSON.AppendNotification(nil, m.method, m.params)
		if err == nil {
			_, err = conn.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	<-reading
	conn.Close()
	for unsent := error(nil); unsent == nil; time.Sleep(time.Millisecond) {
		c.Notify(protocol.MethodSessionAck, protocol.SessionAckParams{})
		c.mu.Lock()
		unsent = c.unsent
		c.mu.Unlock()
	}
	close(goOn)
	err = <-ended
	if evicted, ok := errors.AsType[*EvictedError](err); !ok || evicted.Reason != "over" {
		t.Errorf("the connection ended with %v", err)
	}
}

// The end of a connection without a Close frame is told as such, after the ends of the requests.
func TestCut(t *testing.T) {
	read := make(chan struct{})
	c, l := connected(t, "json", func(f *fake) {
		f.next()
		f.Close(transport.CloseGoingAway, "")
		close(read)
	})
	failed := make(chan error, 1)
	if err := c.Go("x", nil, func(_ []byte, err error) { failed <- err }); err != nil {
		t.Fatal(err)
	}
	<-read
	err := l.end(t)
	if closed, ok := errors.AsType[*transport.CloseError](err); !ok || closed.Code != transport.CloseGoingAway {
		t.Errorf("the connection ended with %v", err)
	}
	select {
	case got := <-failed:
		if got != err {
			t.Errorf("the request ended with %v, and the connection with %v", got, err)
		}
	default:
		t.Error("Ended came before the end of the request")
	}
}

// A request without an answer ends with its ctx. Its answer may come later.
func TestCallGivenUp(t *testing.T) {
	late := make(chan struct{})
	c, _ := connected(t, "json", func(f *fake) {
		first := f.next().ID
		<-late
		f.answer(first, protocol.InitializeResult{SessionID: "late"})
		f.answer(f.next().ID, protocol.Empty{})
		f.untilEnd()
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	time.AfterFunc(time.Millisecond, func() { cancel(why) })
	var result protocol.InitializeResult
	if err := c.Call(ctx, "x", nil, &result); !errors.Is(err, why) {
		t.Errorf("the request ended with %v", err)
	}
	close(late)
	if err := c.Call(t.Context(), "y", nil, nil); err != nil {
		t.Errorf("the next request ended with %v", err)
	}
	if result.SessionID != "" {
		t.Error("the late answer was stored")
	}
}

// At most MaxPending requests wait for their answers. Then Go refuses another request, and Call waits for room.
func TestMaxPending(t *testing.T) {
	release := make(chan struct{})
	c, _ := connected(t, "json", func(f *fake) {
		<-release
		for range MaxPending + 2 {
			f.answer(f.next().ID, protocol.Empty{})
		}
		f.untilEnd()
	})
	var answers sync.WaitGroup
	for range MaxPending {
		answers.Add(1)
		if err := c.Go("x", nil, func(_ []byte, err error) {
			if answers.Done(); err != nil {
				t.Error(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Go("x", nil, nil); !errors.Is(err, ErrBusy) {
		t.Fatalf("one request more: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := c.Call(ctx, "x", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a Call without room ended with %v", err)
	}
	called := make(chan error, 2)
	for range cap(called) {
		go func() { called <- c.Call(t.Context(), "x", nil, nil) }()
	}
	close(release)
	for range cap(called) {
		select {
		case err := <-called:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Fatal("a Call still waits for room")
		}
	}
	answers.Wait()
}

// The end of the connection ends every Call, also a Call waiting for room.
func TestEndWithoutRoom(t *testing.T) {
	release := make(chan struct{})
	c, l := connected(t, "json", func(f *fake) { <-release })
	for range MaxPending {
		if err := c.Go("x", nil, func([]byte, error) {}); err != nil {
			t.Fatal(err)
		}
	}
	called := make(chan error, 3)
	for range cap(called) {
		go func() { called <- c.Call(t.Context(), "x", nil, nil) }()
	}
	close(release) // the server closes the connection
	why := l.end(t)
	for range cap(called) {
		select {
		case err := <-called:
			if !errors.Is(err, why) {
				t.Errorf("a Call ended with %v, and the connection with %v", err, why)
			}
		case <-time.After(patience):
			t.Fatal("a Call still waits for room after the end of the connection")
		}
	}
}

// A server that reads nothing delays no caller. The queue for the server is bounded.
func TestServerReadsNothing(t *testing.T) {
	release := make(chan struct{})
	c, l := connected(t, "json", func(f *fake) { <-release })
	block := protocol.ProcessWriteParams{ProcessID: "a", WriteID: "1", Chunk: make([]byte, 64<<10)}
	queued := 0
	var err error
	for ; queued < MaxPending && err == nil; queued++ {
		err = c.Go(protocol.MethodProcessWrite, &block, func([]byte, error) {})
	}
	if !errors.Is(err, ErrBusy) {
		t.Errorf("after %d blocks: %v", queued, err)
	}
	c.mu.Lock()
	bytes := len(c.out.bytes)
	c.mu.Unlock()
	if most := MaxQueued + 2*len(block.Chunk); bytes > most {
		t.Errorf("%d bytes are queued, expected at most %d", bytes, most)
	}
	close(release) // the server closes the connection
	l.end(t)
}

// A caller on the reading goroutine may send requests.
func TestGoFromDone(t *testing.T) {
	const requests = 100
	c, _ := connected(t, "msgpack", func(f *fake) {
		for range requests {
			f.answer(f.next().ID, protocol.ProcessWriteResult{Status: protocol.WriteAccepted})
		}
		f.untilEnd()
	})
	all := make(chan error, 1)
	left := requests
	var done func(payload []byte, err error)
	done = func(payload []byte, err error) {
		var r protocol.ProcessWriteResult
		if err == nil {
			err = c.Unmarshal(payload, &r)
		}
		if err == nil && r.Status != protocol.WriteAccepted {
			err = fmt.Errorf("status %q", r.Status)
		}
		if left--; left == 0 || err != nil {
			all <- err
			return
		}
		if err := c.Go("x", nil, done); err != nil {
			all <- err
		}
	}
	if err := c.Go("x", nil, done); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-all:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("a request has no answer")
	}
}

func TestDialRefused(t *testing.T) {
	s, err := transport.Listen("ws://127.0.0.1:0", &transport.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := Dial(t.Context(), s.URL(), Options{Encoding: "xml"}); err == nil || !strings.Contains(err.Error(), `"xml"`) {
		t.Errorf("an unknown encoding: %v", err)
	}
}

// A server without subprotocols, such as the peer's, speaks JSON only.
func TestOnlyJSON(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := new(websocket.Upgrader).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer ws.Close()
		if _, frame, err := ws.ReadMessage(); err == nil {
			m, err := protocol.JSON.Decode(frame)
			if err != nil {
				t.Error(err)
			}
			answer, _ := protocol.JSON.AppendResponse(nil, m.ID, protocol.Empty{})
			ws.WriteMessage(websocket.TextMessage, answer)
			ws.ReadMessage()
		}
	}))
	defer server.Close()
	url := "ws" + strings.TrimPrefix(server.URL, "http")
	if _, err := Dial(t.Context(), url, Options{Encoding: "msgpack"}); err == nil || !strings.Contains(err.Error(), "does not speak msgpack") {
		t.Errorf("msgpack: %v", err)
	}
	var conn *meteredConn
	c, err := Dial(t.Context(), url, Options{Encoding: "json", Transport: &transport.DialOptions{
		NetDial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			var d net.Dialer
			c, err := d.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			conn = &meteredConn{TCPConn: c.(*net.TCPConn)}
			return conn, nil
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Call(t.Context(), "x", nil, nil); err != nil {
		t.Error(err)
	}
	if got := conn.room.Load(); got != readBuffer {
		t.Errorf("a read has room for %d bytes, expected %d: thousands of connections keep as much", got, readBuffer)
	}
}

// A meteredConn records the largest room of its reads.
type meteredConn struct {
	*net.TCPConn
	room atomic.Int64
}

func (c *meteredConn) Read(p []byte) (int, error) {
	c.room.Store(max(c.room.Load(), int64(len(p)))) // only the reading goroutine calls Read
	return c.TCPConn.Read(p)
}

// An output of any process allocates nothing.
func TestOutputAllocatesNothing(t *testing.T) {
	for _, codec := range []protocol.Codec{protocol.JSON, protocol.Msgpack} {
		events := 0
		c := &Conn{codec: codec, ids: make(map[string]string), event: func(process string, e *oracle.Event, at time.Time) {
			if process != "p0" && process != "p1" && process != "p2" || len(e.Data) != 1000 {
				t.Errorf("%q wrote %d bytes", process, len(e.Data))
			}
			events++
		}}
		var frames [3][]byte
		for i := range frames {
			var err error
			frames[i], err = codec.AppendNotification(nil, protocol.NotifyOutput, &protocol.OutputNotification{
				ProcessID: fmt.Sprintf("p%d", i), Seq: 12345, Stream: protocol.Stdout, Chunk: make([]byte, 1000),
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		now := time.Now()
		allocs := testing.AllocsPerRun(100, func() {
			for _, frame := range frames {
				m, err := codec.Decode(frame)
				if err == nil {
					err = c.notified(m, now)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		})
		if allocs > 0 || events < 300 {
			t.Errorf("%s: %v allocations for 3 outputs; %d events", codec.Name(), allocs, events)
		}
	}
}

// The number of ids in a Conn is bounded.
func TestIDsBounded(t *testing.T) {
	c := &Conn{codec: protocol.JSON, ids: make(map[string]string)}
	for i := range 3 * maxIDs {
		if id := c.known(fmt.Appendf(nil, `{"processId":"p%d","seq":1}`, i)); id != fmt.Sprintf("p%d", i) {
			t.Fatalf("p%d is known as %q", i, id)
		}
	}
	if len(c.ids) > maxIDs {
		t.Errorf("%d ids are kept, expected at most %d", len(c.ids), maxIDs)
	}
}
