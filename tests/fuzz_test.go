package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
	"github.com/b6f6fdd7/troupe/transport"
)

// fuzzStarts are the only programs that a fuzzer may start.
var fuzzStarts = []string{
	`{"id":2,"method":"process/start","params":{"processId":"p","argv":["/bin/cat"],"cwd":"file:///tmp","env":{},"tty":false,"pipeStdin":true}}`,
	`{"id":3,"method":"process/start","params":{"processId":"q","argv":["/bin/true"],"cwd":"file:///tmp","env":{},"tty":true}}`,
}

// FuzzConnection sends any input to a server, a message a line, with a handshake and without. Every
// answer must be a message of the wire, the connection must answer on or be closed, and the next
// connection must work. The server can write only to a directory of the test, whatever an input names, also with -fuzz: see package
// testroot. With -fuzz, use -fuzzminimizetime 1x: concurrency makes runs differ, and the
// fuzzer would spend its time on shortening inputs.
func FuzzConnection(f *testing.F) {
	if !testroot.Inside(f) {
		f.Fuzz(func(*testing.T, []byte) {}) // each fuzzer must call Fuzz
		return
	}
	for _, name := range transcripts(f) {
		var input []byte
		for _, l := range readTranscript(f, name) {
			if l.Dir == "c2s" && len(l.Msg) > 0 && l.Conn == 0 {
				input = append(append(input, l.Msg...), '\n')
			}
		}
		f.Add(input)
	}
	hello := `{"id":1,"method":"initialize","params":{"clientName":"f","capabilities":{"gap":true,"ack":true},"session":{"detachedTtlMs":1}}}
{"method":"initialized"}
`
	f.Add([]byte(hello + strings.Join(fuzzStarts, "\n")))
	for _, request := range []string{
		`{"id":4,"method":"process/write","params":{"processId":"p","chunk":"aGkK","writeId":"1"}}`,
		`{"id":4,"method":"process/read","params":{"processId":"p","afterSeq":0,"maxBytes":1,"waitMs":18446744073709551615}}`,
		`{"id":4,"method":"process/closeStdin","params":{"processId":"p"}}`,
		`{"id":4,"method":"process/resize","params":{"processId":"q","size":{"rows":1,"cols":65535}}}`,
		`{"id":4,"method":"process/signal","params":{"processId":"p","signal":"kill"}}`,
		`{"id":4,"method":"process/terminate","params":{"processId":"p","graceMs":1,"tree":true}}`,
		`{"id":4,"method":"process/wait","params":{"processId":"q","timeoutMs":1}}`,
		`{"id":4,"method":"process/list","params":{}}`,
		`{"id":4,"method":"session/info","params":{}}`,
		`{"id":4,"method":"session/close","params":{}}`,
		`{"method":"session/ack","params":{"processes":{"p":18446744073709551615}}}`,
	} {
		f.Add([]byte(hello + fuzzStarts[0] + "\n" + request + "\n" + fuzzStarts[1] + "\n" + request))
	}

	troupe := serverInside(f)
	f.Fuzz(func(t *testing.T, input []byte) {
		talk(t, troupe, bytes.Split(input, []byte("\n")))
		if !talk(t, troupe, [][]byte{[]byte(`{"id":1,"method":"initialize","params":{"clientName":"next"}}`)}) {
			t.Error("the next connection was closed")
		}
	})
}

// serverInside starts a server in this program, which testroot.Inside has confined.
func serverInside(t testing.TB) *actors.Troupe {
	log := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }),
		actor.WithDeadLetterThrottleInterval(10*time.Millisecond), // lifetime of the throttle goroutine after the last dead letter
	)
	troupe, err := actors.Start(system, actors.Config{
		Log:         log,
		DetachedTTL: time.Millisecond, // nobody resumes
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := troupe.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return troupe
}

// talk sends the messages on a new connection, and then a request that the server answers at once in
// every state. talk returns true if the answer came, or false if the server closed the connection
// first.
func talk(t *testing.T, troupe *actors.Troupe, messages [][]byte) (answered bool) {
	ours, theirs := transport.Pipe("")
	troupe.Accept(theirs, theirs.About())
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for _, m := range append(messages, []byte(`{"id":"the last","method":"there is no such method"}`)) {
			if mayStart(m) && !slices.Contains(fuzzStarts, string(m)) {
				continue
			}
			if ours.WriteMessage(m, false) != nil {
				return
			}
		}
	}()
	for !answered {
		data, err := ours.ReadMessage()
		if err != nil {
			break
		}
		var m struct {
			ID     any
			Method string
			Result json.RawMessage
			Error  *struct {
				Code    int
				Message string
			}
		}
		if err := json.Unmarshal(data, &m); err != nil {
			t.Errorf("the server sent %.300q: %v", data, err)
		}
		switch {
		case m.Method != "" && m.Result == nil && m.Error == nil:
		case m.ID != nil && m.Result != nil && m.Error == nil && m.Method == "":
		case m.ID != nil && m.Result == nil && m.Error != nil && m.Error.Code != 0 && m.Error.Message != "":
		default:
			t.Errorf("the server sent what is not a message: %.300q", data)
		}
		answered = m.ID == "the last"
	}
	ours.Close(transport.CloseNormal, "")
	<-sent
	return answered
}

// mayStart reports whether a message could start a process in any spelling.
func mayStart(m []byte) bool {
	return bytes.Contains(bytes.ToLower(m), []byte("start")) || bytes.Contains(m, []byte(`\u`))
}
