package rpc

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
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testleak"
	"github.com/b6f6fdd7/troupe/transport"
	"github.com/gorilla/websocket"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testleak.Patient(m)) }

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

// A listener records the notifications and the end of a Client.
type listener struct {
	notes []string
	ended chan error
}

func (l *listener) notified(m protocol.Message, at time.Time) error {
	if time.Since(at) > patience {
		return errors.New("it came at another time")
	}
	if l.notes = append(l.notes, m.Method); m.Method == "some/nonsense" {
		return errors.New("nonsense")
	}
	return nil
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
func connected(t *testing.T, encoding string, serve func(*fake)) (*Client, *listener) {
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
	conn, err := Dial(t.Context(), s.URL(), encoding, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(conn, Handlers{Notified: l.notified, Ended: func(err error) { l.ended <- err }})
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

// A whole session: initialize, a refusal, and notifications as they come, repeats included.
func TestSession(t *testing.T) {
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
				f.notify(protocol.NotifyClosed, protocol.ClosedNotification{ProcessID: "a", Seq: 10})
			}
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
		if got := strings.Join(l.notes, ", "); got != "process/closed, process/closed, some/other" {
			t.Errorf("the notifications are %s", got)
		}
		if err := c.Go("x", nil, func([]byte, error) { t.Error("done of a Go that failed") }); !errors.Is(err, ErrClosed) {
			t.Errorf("Go after the end: %v", err)
		}
	})
}

// A Conn in a single goroutine: a request, a notification, and what the server sends in their order.
func TestConn(t *testing.T) {
	forEncodings(t, func(t *testing.T, encoding string) {
		s, err := transport.Listen("ws://127.0.0.1:0", &transport.ServerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		codec := protocol.JSON
		if encoding == protocol.Msgpack.Name() {
			codec = protocol.Msgpack
		}
		served := make(chan struct{})
		go s.Serve(func(conn transport.Conn) {
			defer close(served)
			defer conn.Close(transport.CloseNormal, "")
			f := &fake{t, conn, codec}
			m := f.next()
			f.notify("some/note", protocol.Empty{})
			f.answer(m.ID, protocol.Empty{})
			if m := f.next(); m.Method != protocol.MethodInitialized {
				t.Errorf("after the request came %s", m.Method)
			}
		})
		c, err := Dial(t.Context(), s.URL(), encoding, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(transport.CloseNormal, "")
		id, err := c.Request("x", nil)
		if err == nil {
			err = c.Notify(protocol.MethodInitialized, protocol.Empty{})
		}
		if err == nil {
			err = c.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
		if m, err := c.Next(); err != nil || m.Method != "some/note" {
			t.Errorf("first came %s, %v", m.Method, err)
		}
		if m, err := c.Next(); err != nil || m.ID != id || m.Kind != protocol.Response {
			t.Errorf("then came %v of %v, %v", m.Kind, m.ID, err)
		}
		<-served
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
		"a notification that the caller cannot read": func(f *fake, id protocol.ID) { f.notify("some/nonsense", nil) },
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
	raw, err := Dial(t.Context(), "unix+frames://"+path, protocol.JSON.Name(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(raw, Handlers{
		Notified: func(protocol.Message, time.Time) error {
			close(reading)
			<-goOn
			return nil
		},
		Ended: func(err error) { ended <- err },
	})
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
	for lost := error(nil); lost == nil; time.Sleep(time.Millisecond) {
		c.Notify(protocol.MethodSessionAck, protocol.SessionAckParams{})
		c.mu.Lock()
		lost = c.lost
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

// A server that reads nothing delays no caller. The queue for the server is bounded.
func TestServerReadsNothing(t *testing.T) {
	release := make(chan struct{})
	c, l := connected(t, "json", func(f *fake) { <-release })
	block := protocol.ProcessWriteParams{ProcessID: "a", WriteID: "1", Chunk: make([]byte, 64<<10)}
	queued := 0
	var err error
	for ; queued < 4096 && err == nil; queued++ {
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
	if _, err := Dial(t.Context(), s.URL(), "xml", nil); !errors.Is(err, ErrEncoding) || !strings.Contains(err.Error(), `"xml"`) {
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
	if _, err := Dial(t.Context(), url, "msgpack", nil); !errors.Is(err, ErrEncoding) || !strings.Contains(err.Error(), "does not speak msgpack") {
		t.Errorf("msgpack: %v", err)
	}
	conn, err := Dial(t.Context(), url, "json", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(conn, Handlers{})
	defer c.Close()
	if err := c.Call(t.Context(), "x", nil, nil); err != nil {
		t.Error(err)
	}
}
