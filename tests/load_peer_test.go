//go:build slow

package tests

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// What the peer's server knows (docs/protocol/codex.md, appendix A). Params and results have no other members.
var (
	peerParams = map[string][]string{
		"initialize": {"clientName", "resumeSessionId"},
		"process/start": {"processId", "argv", "cwd", "env", "tty", "pipeStdin", "arg0", "envPolicy", "sandbox", "enforceManagedNetwork", "managedNetwork",
			"networkProxy", "shellSnapshot", "metadata"},
		"process/read":       {"processId", "afterSeq", "maxBytes", "waitMs"},
		"process/write":      {"processId", "chunk", "writeId"},
		"process/signal":     {"processId", "signal"},
		"process/terminate":  {"processId"},
		"environment/info":   {},
		"environment/status": {},
	}
	peerResults = map[string][]string{
		"initialize":         {"sessionId", "environmentInfo"},
		"process/start":      {"processId", "sandboxType"},
		"process/read":       {"chunks", "nextSeq", "exited", "exitCode", "closed", "failure", "sandboxDenied"},
		"process/write":      {"status"},
		"process/signal":     {},
		"process/terminate":  {"running"},
		"environment/status": {"status"},
	}
	peerEvents = map[string][]string{
		"process/output": {"processId", "seq", "stream", "chunk"},
		"process/exited": {"processId", "seq", "exitCode", "sandboxDenied"},
		"process/closed": {"processId", "seq"},
	}
)

// A likeness makes a server look like the peer's: it hides what the peer does not have, speaks only JSON, sends no Close frame, and now and
// then sends exited before the last output.
type likeness struct {
	server  string
	inOrder bool // exited overtakes no output
	mu      sync.Mutex
	asked   map[string]int // requests, by method; "unknown " and the method for those that the peer does not know
	swaps   int
}

func startLikeness(t *testing.T, server string, inOrder bool) (*likeness, string) {
	l := &likeness{server: server, inOrder: inOrder, asked: make(map[string]int)}
	s := httptest.NewServer(http.HandlerFunc(l.serve))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return l, "ws" + strings.TrimPrefix(s.URL, "http")
}

// A sent is a message of the server, or with ping a Ping.
type sent struct {
	data []byte
	ping bool
}

func (l *likeness) serve(w http.ResponseWriter, r *http.Request) {
	to, _, err := (&websocket.Dialer{HandshakeTimeout: factTimeout}).Dial(l.server, nil)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	from, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
	if err != nil {
		to.Close()
		return
	}
	var mu sync.Mutex
	methods := make(map[string]string) // of the requests without an answer, by id
	write := func(data []byte) error {
		mu.Lock()
		defer mu.Unlock()
		return from.WriteMessage(websocket.TextMessage, data)
	}
	var both sync.WaitGroup
	ended := make(chan struct{})
	both.Go(func() {
		defer to.NetConn().Close()
		// A Pong acknowledges output, so it comes from the client.
		from.SetPongHandler(func(data string) error {
			return to.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(factTimeout))
		})
		for {
			kind, data, err := from.ReadMessage()
			if err != nil {
				return
			}
			data, answer, known := l.fromClient(data, &mu, methods)
			switch {
			case !known: // the peer ends the connection
				from.NetConn().Close()
				return
			case answer != nil:
				err = write(answer)
			default:
				err = to.WriteMessage(kind, data)
			}
			if err != nil {
				return
			}
		}
	})
	messages := make(chan sent)
	both.Go(func() {
		defer close(messages)
		send := func(s sent) error {
			select {
			case messages <- s:
				return nil
			case <-ended:
				return http.ErrAbortHandler
			}
		}
		to.SetPingHandler(func(data string) error { return send(sent{[]byte(data), true}) })
		for {
			_, data, err := to.ReadMessage()
			if err != nil || send(sent{data: data}) != nil {
				return
			}
		}
	})
	l.toClient(messages, func(s sent) error {
		if s.ping {
			return from.WriteControl(websocket.PingMessage, s.data, time.Now().Add(factTimeout))
		}
		mu.Lock()
		data := strip(s.data, methods)
		mu.Unlock()
		if data == nil {
			return nil
		}
		return write(data)
	})
	close(ended)
	from.NetConn().Close()
	to.NetConn().Close()
	both.Wait()
}

// toClient passes messages on. It holds an output for a moment, and if exited is next, exited overtakes the output.
func (l *likeness) toClient(messages <-chan sent, pass func(sent) error) {
	var held []sent // the output of one process, at most
	of := ""
	for {
		var soon <-chan time.Time
		if held != nil {
			soon = time.After(time.Millisecond)
		}
		var next []sent
		select {
		case m, ok := <-messages:
			if !ok {
				return
			}
			var e struct {
				Method string
				Params struct{ ProcessID string }
			}
			if !m.ping {
				json.Unmarshal(m.data, &e)
			}
			switch {
			case e.Method == "process/output" && !l.inOrder:
				next, held, of = held, []sent{m}, e.Params.ProcessID
			case e.Method == "process/exited" && held != nil && e.Params.ProcessID == of:
				next, held = append([]sent{m}, held...), nil
				l.mu.Lock()
				l.swaps++
				l.mu.Unlock()
			default:
				next, held = append(held, m), nil
			}
		case <-soon:
			next, held = held, nil
		}
		for _, m := range next {
			if pass(m) != nil {
				return
			}
		}
	}
}

// fromClient returns what the server gets instead of a message of the client, or else the answer of the peer. known false: the peer ends the
// connection.
func (l *likeness) fromClient(data []byte, mu *sync.Mutex, methods map[string]string) (to, answer []byte, known bool) {
	var m struct {
		ID     json.RawMessage            `json:"id,omitempty"`
		Method string                     `json:"method"`
		Params map[string]json.RawMessage `json:"params"`
	}
	if json.Unmarshal(data, &m) != nil {
		return nil, nil, false
	}
	if m.ID == nil {
		return data, nil, m.Method == "initialized"
	}
	refuse := func(code int, text string) ([]byte, []byte, bool) {
		answer, _ := json.Marshal(obj{"error": obj{"code": code, "message": text}, "id": m.ID})
		return nil, answer, true
	}
	has, known := peerParams[m.Method]
	l.mu.Lock()
	if l.asked[m.Method]++; !known {
		l.asked["unknown "+m.Method]++
	}
	l.mu.Unlock()
	if !known {
		return refuse(-32601, fmt.Sprintf("exec-server stub does not implement `%s` yet", m.Method))
	}
	if signal := string(m.Params["signal"]); m.Method == "process/signal" && signal != `"interrupt"` {
		return refuse(-32602, fmt.Sprintf("unknown variant `%s`, expected `interrupt`", strings.Trim(signal, `"`)))
	}
	mu.Lock()
	methods[string(m.ID)] = m.Method
	mu.Unlock()
	only(m.Params, has)
	to, _ = json.Marshal(m)
	return to, nil, true
}

// strip returns what the client gets instead of a message of the server; nil: nothing.
func strip(data []byte, methods map[string]string) []byte {
	var m map[string]json.RawMessage
	if json.Unmarshal(data, &m) != nil {
		return nil
	}
	inner := func(name string, has []string) {
		var members map[string]json.RawMessage
		if json.Unmarshal(m[name], &members) == nil {
			only(members, has)
			m[name], _ = json.Marshal(members)
		}
	}
	var event string
	if json.Unmarshal(m["method"], &event) == nil {
		has, known := peerEvents[event]
		if !known {
			return nil
		}
		inner("params", has)
	} else {
		method := methods[string(m["id"])]
		delete(methods, string(m["id"]))
		if has, known := peerResults[method]; known {
			inner("result", has)
		}
		inner("error", []string{"code", "message"})
	}
	data, _ = json.Marshal(m)
	return data
}

// only deletes all but the members that the peer has.
func only(members map[string]json.RawMessage, has []string) {
	for name := range members {
		if !slices.Contains(has, name) {
			delete(members, name)
		}
	}
}

// `troupe load` works with a server that has none of our extensions: nothing is wrong in any profile, with cuts, and the report lists what
// docs/LOADTEST.md says.
func TestLoadOnAPeer(t *testing.T) {
	s := startServer(t)
	l, url := startLikeness(t, s.url, false)
	_, inOrder := startLikeness(t, s.url, true)
	var mu sync.Mutex
	leftOut := make(map[string]bool)
	cut := []string{"--chaos", "fin=1.5/s,rst=1.5/s,mid-frame=1/s"}
	t.Run("runs", func(t *testing.T) {
		for name, args := range map[string][]string{
			"spawn":   append(cut, "--profile", "spawn", "--rate", "20", "--may-miss", "100%"), // how fast the machine is matters here to nobody
			"lines":   append(cut, "--profile", "lines"),
			"flood":   append(cut, "--profile", "flood"),
			"echo":    append(cut, "--profile", "echo"),
			"idle":    append(cut, "--profile", "idle"),
			"restart": append(cut, "--profile", "restart"),
			"upload":  append(cut, "--profile", "upload"),
			"viewers": append(cut, "--profile", "viewers"),
			"attach":  append(cut, "--profile", "attach"),
			"acts":    {"--profile", "lines,echo", "--chaos", "takeover=4/s,freeze=4/s,kill=2/s,stall=2/s,stall-for=100ms"},
			"command": {"--", "sh", "-c", "echo {n}; sleep 0.5"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				file := filepath.Join(t.TempDir(), "result.json")
				url := url
				if name == "command" { // the client of commands does not sort
					url = inOrder
				}
				flags := []string{"load", "--url", url, "--sessions", "2", "--processes", "2", "--seed", "4", "--quiet", "--json", file}
				if name != "command" {
					flags = append(flags, "--encoding", "json", "--duration", "1s")
				}
				load := startTroupe(t, nil, append(flags, args...)...)
				code, r := load.exitCode(), loadResultIn(t, file)
				if code != 0 || r.Counts["wrong"] > 0 || len(r.Errors) > 0 || r.Counts["starts"] < 4 || name != "command" && r.Counts["checked bytes"]+r.Counts["stdin bytes"] == 0 {
					t.Errorf("exit code %d, errors %v:\n%s", code, r.Errors, load.stdout)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, line := range r.LeftOut {
					leftOut[strings.ReplaceAll(line, url, "URL")] = true
				}
				t.Logf("%d cuts, %d resumes", r.Counts["cuts"], r.Counts["resumes"])
			})
		}
	})
	documented := leftOutDocumented(t)
	for line := range leftOut {
		if !slices.ContainsFunc(documented, func(begin string) bool { return strings.HasPrefix(line, begin) }) {
			t.Errorf("docs/LOADTEST.md does not have what was left out: %s", line)
		}
	}
	for _, begin := range documented {
		found := false
		for line := range leftOut {
			found = found || strings.HasPrefix(line, begin)
		}
		if !found {
			t.Errorf("no run left out what docs/LOADTEST.md says: %s", begin)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for method, n := range l.asked {
		if strings.HasPrefix(method, "unknown ") {
			t.Errorf("%d requests: %s", n, method)
		}
	}
	if l.asked["process/read"] == 0 || l.swaps == 0 {
		t.Errorf("no output was read after a cut, or exited never overtook output: %v, %d", l.asked, l.swaps)
	}
	t.Logf("requests %v, %d times exited before output", l.asked, l.swaps)
}

// leftOutDocumented returns the begins of the lines of a report, from the table of docs/LOADTEST.md.
func leftOutDocumented(t *testing.T) (begins []string) {
	text, err := os.ReadFile("../docs/LOADTEST.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "\n| left out | instead | in the report |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	if !ok {
		t.Fatal("docs/LOADTEST.md has no table of what is left out")
	}
	line := regexp.MustCompile("\\| `([^`]+) …` \\|$")
	for row := range strings.Lines(table) {
		if m := line.FindStringSubmatch(strings.TrimSpace(row)); m != nil {
			begins = append(begins, m[1])
		}
	}
	return begins
}
