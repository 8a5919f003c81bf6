package actors_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/transport"
)

// script is a connection whose input is a few messages, and then ends.
type script struct {
	transport.Conn // for all other methods

	in      []string
	started chan struct{} // closed once request 2 is answered
	mu      sync.Mutex
	out     []string
	closed  chan int // the first code
	once    sync.Once
}

type ended struct{}

func (ended) Error() string    { return "the input has ended" }
func (ended) Unwrap() error    { return io.EOF }
func (ended) InputEnded() bool { return true }

func (s *script) ReadMessage() ([]byte, error) {
	if len(s.in) == 0 {
		return nil, ended{}
	}
	m := s.in[0]
	s.in = s.in[1:]
	if !strings.Contains(m, "initialize") && !strings.Contains(m, "process/start") {
		<-s.started // process/list has only started processes
	}
	return []byte(m), nil
}

func (s *script) WriteMessage(m []byte, _ bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = append(s.out, string(m))
	if bytes.HasPrefix(m, []byte(`{"id":2,`)) {
		close(s.started)
	}
	return nil
}

func (s *script) Flush() error { return nil }

func (s *script) Close(code int, _ string) error {
	s.once.Do(func() { s.closed <- code })
	return nil
}

func (s *script) Ping([]byte) error           { return transport.ErrNoPing }
func (s *script) SetPongHandler(func([]byte)) {}
func (s *script) RemoteAddr() string          { return "script" }
func (s *script) Subprotocol() string         { return "" }

// The server closes a connection whose input has ended as soon as the last request was answered, before the
// time for this is over. Any request may be the last.
func TestInputEnds(t *testing.T) {
	for _, last := range []string{
		`"method":"environment/status"`,
		`"method":"session/info"`,
		`"method":"process/wait","params":{"processId":"a","timeoutMs":100}`,
		`"method":"process/read","params":{"processId":"a","waitMs":100}`,
		`"method":"process/list"`,
		`"method":"process/list"},{"id":4,"method":"process/list"`,
	} {
		t.Run(last, func(t *testing.T) {
			t.Parallel()
			troupe := start(t, actors.Config{KillGrace: -1})
			s := &script{started: make(chan struct{}), closed: make(chan int, 1), in: []string{
				`{"id":1,"method":"initialize","params":{"clientName":"test"}}`,
				`{"method":"initialized"}`,
				`{"id":2,"method":"process/start","params":{"processId":"a","argv":["sleep","1000"],"cwd":"file:///","env":{"PATH":"/usr/bin:/bin"},"tty":false}}`,
			}}
			n := 2
			for i, m := range strings.Split(last, `},{"id":4,`) {
				s.in = append(s.in, fmt.Sprintf(`{"id":%d,%s}`, i+3, m))
				n++
			}
			troupe.Accept(s, actors.About{})
			if code := <-s.closed; code != transport.CloseNormal {
				t.Errorf("closed with code %d, want 1000", code)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			for id := 1; id <= n; id++ {
				found := 0
				for _, m := range s.out {
					if strings.HasPrefix(m, fmt.Sprintf(`{"id":%d,"result":`, id)) {
						found++
					}
				}
				if found != 1 {
					t.Errorf("%d answers to %d in %s", found, id, s.out)
				}
			}
		})
	}
}

// An owner that comes back with all that there was, while the process is being
// forgotten, has done nothing wrong.
func TestResumeWhileForgotten(t *testing.T) {
	t.Parallel()
	for retention := 500 * time.Millisecond; !resumeWhileForgotten(t, retention); retention *= 4 {
		t.Logf("%v is too short here", retention)
	}
}

// resumeWhileForgotten returns false if the retention was over before the client had all output.
func resumeWhileForgotten(t *testing.T, retention time.Duration) bool {
	var retire, forget sync.Once
	var had, early atomic.Bool
	attached, retired, subscribed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	subscribes := 0 // of a single process: its actor counts
	troupe := start(t, actors.WithFaults(actors.Config{ClosedRetention: retention, KillGrace: -1}, func(self *actor.PID, m any) {
		switch kindOf(self) + " " + fake.TypeName(m) {
		case "process request":
			had.Store(true)
		case "process wakeDue":
			if !had.Load() {
				early.Store(true)
			} else if !early.Load() {
				retire.Do(func() { <-attached })
			}
		case "session processRetired":
			if early.Load() {
				return
			}
			forget.Do(func() { close(retired); <-subscribed })
		case "process subscribe":
			if subscribes++; subscribes == 2 {
				defer close(subscribed)
			}
		}
	}, nil))
	first := connect(t, troupe)
	id := first.open("")
	first.start("a", "", "echo", "hello")
	first.untilClosed("a", 0)
	first.call("process/read", `{"processId":"a","afterSeq":3,"waitMs":0}`) // the client has all output
	if early.Load() {
		return false
	}
	first.close()
	s := newStiff(t, troupe)
	s.send(`{"id":1,"method":"initialize","params":{"clientName":"test","resumeSessionId":%q,"takeover":true,"resumeFrom":{"a":3}}}`, id)
	s.answer("1")
	close(attached)
	<-retired
	s.send(`{"method":"initialized"}`)
	s.send(`{"id":2,"method":"session/info"}`)
	s.answer("2")
	return true
}

// A program has ended, and its output waits for its owner: whoever asks hears of the end at once. With the output comes the exit.
func TestEndBeforeItsOutputIsRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, end, status string }{
		"by itself": {"read line; head -c 70000 /dev/zero; exit 3", "", `"status":{"exitCode":3,`},
		"killed":    {"read line; head -c 1000000 /dev/zero", `{"processId":"a","tree":true}`, `"signal":"SIGKILL","reason":"terminated by request"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			troupe := start(t, actors.Config{})
			owner := connect(t, troupe)
			id := owner.open("")
			owner.start("a", `,"pipeStdin":true,"retention":{"bytes":16384,"onFull":"block"}`, "sh", "-c", c.script)
			owner.close()
			other := controller(t, troupe, id, "")
			other.call("process/write", `{"processId":"a","chunk":"Cg==","writeId":"1"}`)
			info := func() string { return string(other.call("process/info", `{"processId":"a"}`).Result) }
			waitFor(t, "the output waits for its owner", func() bool { return strings.Contains(info(), `"for":"owner"`) })
			other.send(`{"id":"wait","method":"process/wait","params":{"processId":"a"}}`)
			if c.end != "" {
				other.send(`{"id":"end","method":"process/terminate","params":` + c.end + `}`)
			}
			if m := other.answer(`"wait"`); !strings.Contains(string(m.Result), `{"exited":true,"closed":false,`) || !strings.Contains(string(m.Result), c.status) {
				t.Errorf("process/wait: %s, want %s", m.Result, c.status)
			}
			if got := info(); !strings.Contains(got, `"state":"draining"`) || !strings.Contains(got, c.status) || strings.Contains(got, `"pid":`) {
				t.Errorf("process/info: %s", got)
			}
			if m := other.call("process/terminate", `{"processId":"a"}`); string(m.Result) != `{"running":false}` {
				t.Errorf("process/terminate: %s", m.Result)
			}
			again := connect(t, troupe)
			again.open(fmt.Sprintf(`,"resumeSessionId":%q,"takeover":true,"resumeFrom":{"a":0}`, id))
			if out, code := again.untilClosed("a", 0); code != 3 && c.end == "" || code != 137 && c.end != "" || len(out) < 16384 {
				t.Errorf("%d bytes, exit code %d", len(out), code)
			}
		})
	}
}
