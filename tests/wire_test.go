package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/segmentio/asm/base64"
)

// wire is a client of a single goroutine. A wire reads only when told to, keeps nothing, and reuses its
// buffers. So a wire can stall, and can be fast.
type wire struct {
	t     testing.TB
	ws    *websocket.Conn
	buf   bytes.Buffer
	chunk []byte
	id    int

	sessionID string
}

// frame is a message. Its bytes are valid until the next message.
type frame struct {
	id      int    // of an answer, 0 for a notification
	failed  bool   // the answer is an error
	method  string // of a notification
	process string // of a notification about a process
	chunk   []byte // of process/output, decoded
	raw     []byte
}

// wire connects and opens or resumes a session.
func (s *server) wire(t testing.TB, params obj) *wire {
	t.Helper()
	dialer := websocket.Dialer{HandshakeTimeout: factTimeout, ReadBufferSize: 256 << 10}
	ws, _, err := dialer.Dial(s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	w := &wire{t: t, ws: ws}
	all := obj{"clientName": "tests"}
	for k, v := range params {
		all[k] = v
	}
	answer := w.answer(w.request("initialize", all))
	var m struct{ Result struct{ SessionID string } }
	if err := json.Unmarshal(answer.raw, &m); err != nil || answer.failed {
		t.Fatalf("initialize: %s", answer.raw)
	}
	w.sessionID = m.Result.SessionID
	w.send(obj{"method": "initialized", "params": obj{}})
	return w
}

func (w *wire) send(v any) {
	w.t.Helper()
	data, err := json.Marshal(v)
	if err == nil {
		err = w.ws.WriteMessage(websocket.TextMessage, data)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *wire) request(method string, params obj) (id int) {
	w.t.Helper()
	w.id++
	w.send(obj{"id": w.id, "method": method, "params": params})
	return w.id
}

// next reads a message within factTimeout.
func (w *wire) next() frame {
	w.t.Helper()
	w.ws.SetReadDeadline(time.Now().Add(factTimeout))
	_, r, err := w.ws.NextReader()
	if err == nil {
		w.buf.Reset()
		_, err = w.buf.ReadFrom(r)
	}
	if err != nil {
		w.t.Fatalf("read: %v", err)
	}
	f, err := w.parse(w.buf.Bytes())
	if err != nil {
		w.t.Fatalf("%v: %.200s", err, w.buf.Bytes())
	}
	return f
}

// These expressions expect members in the order in which the server writes them. The harness's client
// parses JSON fully.
var (
	outputHead = []byte(`{"method":"process/output","params":{"processId":"`)
	chunkHead  = []byte(`,"chunk":"`)
)

func (w *wire) parse(raw []byte) (f frame, err error) {
	f.raw = raw
	rest, isOutput := bytes.CutPrefix(raw, outputHead)
	if !isOutput {
		var m struct {
			ID     int
			Error  *json.RawMessage
			Method string
			Params struct{ ProcessID string }
		}
		err = json.Unmarshal(raw, &m)
		f.id, f.failed, f.method, f.process = m.ID, m.Error != nil, m.Method, m.Params.ProcessID
		return f, err
	}
	id, _, _ := bytes.Cut(rest, []byte(`"`))
	at := bytes.Index(rest, chunkHead)
	text, ended := bytes.CutSuffix(rest, []byte(`"}}`))
	if at < 0 || !ended {
		return f, fmt.Errorf("unexpected shape of output")
	}
	text = text[at+len(chunkHead):]
	if n := base64.StdEncoding.DecodedLen(len(text)); cap(w.chunk) < n {
		w.chunk = make([]byte, n)
	}
	n, err := base64.StdEncoding.Decode(w.chunk[:cap(w.chunk)], text)
	f.method, f.process, f.chunk = "process/output", string(id), w.chunk[:n]
	return f, err
}

// until reads messages until ok accepts a message.
func (w *wire) until(ok func(frame) bool) frame {
	w.t.Helper()
	for {
		if f := w.next(); ok(f) {
			return f
		}
	}
}

func (w *wire) answer(id int) frame {
	w.t.Helper()
	return w.until(func(f frame) bool { return f.id == id })
}

// call expects a result.
func (w *wire) call(method string, params obj) frame {
	w.t.Helper()
	answer := w.answer(w.request(method, params))
	if answer.failed {
		w.t.Fatalf("%s: %s", method, answer.raw)
	}
	return answer
}

func (w *wire) start(id string, params obj) {
	w.t.Helper()
	w.call("process/start", startParams(id, params))
}

func (w *wire) writeParams(id string, data []byte) obj {
	w.id++
	return obj{"processId": id, "chunk": base64.StdEncoding.EncodeToString(data), "writeId": "w" + strconv.Itoa(w.id)}
}
