package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// A liar lies between clients of JSON and a server, and changes what one of them sends. After a cut, the server may send an event again, and
// the client a write: the liar then changes the copy in the same way.
type liar struct {
	t     *testing.T
	fault string
	cuts  bool
	url   string

	mu       sync.Mutex
	rand     *rand.Rand
	sessions map[string]string     // the names of the sessions in the report, by id
	victims  map[[2]string]*victim // by session and process
	told     []*lie
	bytes    int64 // of output, until now
	next     int64 // the byte of output to tamper with
	exits    int   // until now
}

// A victim is a process of a client.
type victim struct {
	session, process string
	run              int
	last             int64            // the last seq
	at               map[string]int64 // the number of bytes until now, by stream
	changed          map[int64]change // events, by seq
	gaps             map[int64]bool   // events that a gap replaces, by seq
	written          int64            // bytes of stdin
	writes           map[string]*change
	lied             bool
	awaited          *lie // the next output tells of it
}

// A change is where a liar changes the data of a message. The place 0 is no change.
type change struct {
	at     int
	before byte // there
}

// A lie is a finding that must come, in the words of the report.
type lie struct {
	loadFinding
	orElse string   // a kind that names the lie, too
	also   []string // kinds of further findings about the process
}

// every is how many bytes of output pass from lie to lie.
const every = 200_000

// startLiar begins a proxy.
func startLiar(t *testing.T, server, fault string, seed uint64, cuts bool) *liar {
	l := &liar{t: t, fault: fault, cuts: cuts, next: every / 2, rand: rand.New(rand.NewPCG(seed, 1)), sessions: map[string]string{}, victims: map[[2]string]*victim{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to, _, err := (&websocket.Dialer{HandshakeTimeout: factTimeout}).Dial(server, nil)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer to.Close()
		from, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer from.Close()
		c := &lyingConn{liar: l}
		join(to, from)
		var up sync.WaitGroup
		defer up.Wait()
		defer from.Close()
		up.Go(func() {
			defer to.Close()
			pass(to, from, func(data []byte) [][]byte { return [][]byte{c.heard(data)} })
		})
		pass(from, to, c.tell)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	l.url = "ws" + strings.TrimPrefix(s.URL, "http")
	return l
}

// join makes each side answer the Pings of the other side. A Pong says what a client has received, so the liar must not answer itself.
func join(a, b *websocket.Conn) {
	for _, side := range [][2]*websocket.Conn{{a, b}, {b, a}} {
		on := func(kind int) func(string) error {
			return func(data string) error {
				side[1].WriteControl(kind, []byte(data), time.Time{}) // if it fails, so does the next read
				return nil
			}
		}
		side[0].SetPingHandler(on(websocket.PingMessage))
		side[0].SetPongHandler(on(websocket.PongMessage))
		side[0].SetCloseHandler(func(code int, text string) error {
			return side[1].WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text), time.Time{})
		})
	}
}

// pass hands on messages until either connection ends.
func pass(to, from *websocket.Conn, change func([]byte) [][]byte) {
	for {
		kind, data, err := from.ReadMessage()
		if err != nil {
			return
		}
		for _, data := range change(data) {
			if to.WriteMessage(kind, data) != nil {
				return
			}
		}
	}
}

// A lyingConn is a connection of a client through a liar.
type lyingConn struct {
	*liar
	session string // its name; "": unknown so far
	held    map[string][]byte
}

// victim returns a process of the session.
func (c *lyingConn) victim(process string) *victim {
	key := [2]string{c.session, process}
	v := c.victims[key]
	if v == nil {
		v = &victim{session: c.session, process: process, run: 1, at: map[string]int64{}, changed: map[int64]change{}, gaps: map[int64]bool{}, writes: map[string]*change{}}
		c.victims[key] = v
	}
	return v
}

// lie adds a lie about v.
func (c *lyingConn) lie(v *victim, kind string, f loadFinding, also ...string) *lie {
	f.Kind, f.Server, f.Session, f.Process, f.Run = kind, c.url, v.session, v.process, v.run
	said := &lie{loadFinding: f, also: also}
	c.told = append(c.told, said)
	return said
}

// heard returns what the server gets instead of a message of the client.
func (c *lyingConn) heard(data []byte) []byte {
	var m struct {
		Method string         `json:"method"`
		ID     any            `json:"id"`
		Params map[string]any `json:"params"`
	}
	interesting := func(method string) bool { return bytes.Contains(data, []byte(`"`+method+`"`)) }
	if !interesting("initialize") && !interesting("process/write") || json.Unmarshal(data, &m) != nil {
		return data
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m.Method {
	case "initialize":
		if id, resumes := m.Params["resumeSessionId"].(string); resumes {
			c.session = c.sessions[id]
		} else if s, ok := m.Params["session"].(obj); ok {
			c.session = s["name"].(string)
			c.session = c.session[strings.LastIndexByte(c.session, ' ')+1:]
		}
	case "process/write":
		var w struct {
			Params struct {
				ProcessID, WriteID string
				Chunk              []byte
			}
		}
		fault, ok := strings.CutSuffix(c.fault, " stdin")
		if json.Unmarshal(data, &w) != nil || !ok || c.tool() {
			break
		}
		v, p := c.victim(w.Params.ProcessID), w.Params.Chunk
		known := v.writes[w.Params.WriteID]
		if known == nil {
			known = new(change)
			if i := 1 + c.rand.IntN(max(1, len(p)-2)); v.written > 0 && !v.lied && alone(p, i) {
				*known = change{i, p[i]}
				v.lied = true
				f := loadFinding{Stream: "", Offset: v.written + int64(i), Bytes: int64(len(p) - i)}
				switch fault { // the program finds the first byte that differs, and tells of it after the block, or at the end of stdin
				case "drop":
					f.Bytes--
				case "double":
					f.Offset, f.Bytes = f.Offset+1, f.Bytes-1
				}
				v.awaited = c.lie(v, "stdin", f, "exit")
			}
			v.writes[w.Params.WriteID] = known
			v.written += int64(len(p))
		}
		if known.at == 0 {
			break
		}
		m.Params["chunk"], _ = tampered(fault, p, known.at)
		data, _ = json.Marshal(m)
	}
	return data
}

// tool reports whether the session is of the engine itself.
func (c *lyingConn) tool() bool {
	return c.session == "control" || c.session == "tools" || c.session == ""
}

// alone reports whether the byte at i is another than those beside it. Otherwise nobody could say which of them is missing.
func alone(p []byte, i int) bool {
	return i > 0 && i+1 < len(p) && p[i-1] != p[i] && p[i] != p[i+1]
}

// tampered returns p with a fault at i, and the kind of the finding in output.
func tampered(fault string, p []byte, i int) (q []byte, kind string) {
	switch q = slices.Clone(p); fault {
	case "drop":
		return slices.Delete(q, i, i+1), "missing"
	case "double":
		return slices.Insert(q, i, q[i]), "doubled"
	case "swap":
		q[i], q[i+1] = q[i+1], q[i]
		return q, "reordered"
	case "flip":
		q[i] ^= 1
		return q, "altered"
	}
	return nil, ""
}

// tell returns what the client gets instead of a message of the server.
func (c *lyingConn) tell(data []byte) [][]byte {
	var m struct {
		Method string         `json:"method"`
		Params map[string]any `json:"params"`
		Result struct{ SessionID string }
	}
	as := [][]byte{data}
	if !bytes.Contains(data, []byte(`"process/`)) && !bytes.Contains(data, []byte(`"sessionId"`)) || json.Unmarshal(data, &m) != nil {
		return as
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Result.SessionID != "" && c.sessions[m.Result.SessionID] == "" {
		c.sessions[m.Result.SessionID] = c.session
	}
	id, _ := m.Params["processId"].(string)
	if id == "" || c.tool() {
		return as
	}
	v, seq := c.victim(id), int64(m.Params["seq"].(float64))
	again := seq <= v.last
	v.last = max(v.last, seq)
	switch m.Method {
	case "process/output":
		var o struct {
			Params struct{ Chunk []byte }
		}
		json.Unmarshal(data, &o)
		p, stream := o.Params.Chunk, m.Params["stream"].(string)
		if !again {
			c.output(v, p, stream, seq)
		}
		if c.fault == "a byte more" && stream == "stdout" && len(p) > 1000 && bytes.HasSuffix(p, []byte("\n")) { // the end of a program's output
			if !again {
				c.lie(v, "foreign", loadFinding{Stream: stream, Offset: v.at[stream], Bytes: 1, Seq: seq})
			}
			m.Params["chunk"] = append(p, 3)
			data, _ = json.Marshal(m)
			return [][]byte{data}
		}
		if v.gaps[seq] {
			data, _ = json.Marshal(obj{"method": "process/gap", "params": obj{"processId": id, "seq": seq, "fromSeq": seq, "toSeq": seq, "bytes": len(p), "reason": "a lie"}})
			return [][]byte{data}
		}
		known, changed := v.changed[seq]
		if !changed {
			break
		}
		if known.at >= len(p) || p[known.at] != known.before {
			c.t.Errorf("%s of %s: the event %d came again with other bytes", id, c.session, seq)
			break
		}
		m.Params["chunk"], _ = tampered(c.fault, p, known.at)
		data, _ = json.Marshal(m)
		return [][]byte{data}
	case "process/restarted":
		if !again {
			v.run, v.at = v.run+1, map[string]int64{}
		}
	case "process/exited":
		if !again {
			c.exits++
			v.lied = c.exits%8 == 1
		}
		switch {
		case !v.lied:
		case c.fault == "lose exited":
			if !again {
				c.lie(v, "lost exit", loadFinding{Seq: seq + 1}, "seq hole")
			}
			return nil
		case c.fault == "swap exited":
			if !again {
				said := c.lie(v, "order", loadFinding{Seq: seq}, "seq hole", "seq again")
				if c.cuts { // a cut may come between closed and exited
					said.orElse = "lost exit"
				}
			}
			if c.held == nil {
				c.held = map[string][]byte{}
			}
			c.held[id] = data
			return nil
		}
	case "process/closed":
		if exited := c.held[id]; exited != nil {
			delete(c.held, id)
			return [][]byte{data, exited}
		}
	}
	return as
}

// output takes output of v, and decides whether to change it.
func (c *lyingConn) output(v *victim, p []byte, stream string, seq int64) {
	if v.awaited != nil {
		v.awaited.Seq, v.awaited = seq, nil
	}
	begin, i := v.at[stream], c.next-c.bytes
	v.at[stream] += int64(len(p))
	c.bytes += int64(len(p))
	if i >= int64(len(p)) {
		return
	}
	if bytes.IndexByte(p, '\n') >= 0 || !alone(p, int(i)) { // a hello or an end, which have bytes that nobody can predict
		c.next = c.bytes + 1 + c.rand.Int64N(100) // in the next message
		return
	}
	c.next += every
	if c.fault == "gap" && !v.gaps[seq-1] { // neighbouring gaps make a single hole
		v.gaps[seq] = true
		v.awaited = c.lie(v, "missing", loadFinding{Stream: stream, Offset: begin, Bytes: int64(len(p))}, "missing") // the gap itself is a finding, too
		return
	}
	_, kind := tampered(c.fault, p, int(i))
	if kind == "" {
		return
	}
	v.changed[seq] = change{int(i), p[i]}
	f := loadFinding{Stream: stream, Offset: begin + i, Bytes: 1, Seq: seq}
	if c.fault == "swap" {
		f.Bytes = 2
	}
	c.lie(v, kind, f)
}

// TestLoadFindsALie: a proxy alters bytes between `troupe load` and a server, or says that they were lost. All of them are found, and their places are named. Without
// the proxy's lies nothing is found.
func TestLoadFindsALie(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"none", "flip", "gap"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			loadWithLies(t, "flood", fault, 3, false)
		})
	}
}

func loadWithLies(t *testing.T, profile, fault string, seed uint64, cuts bool) {
	s := startServer(t)
	chaos := "none"
	if cuts {
		chaos = "fin=2/s,rst=2/s,mid-frame=1/s,handshake=1/s,resume=1/s"
	}
	var (
		l    *liar
		dir  string
		load *program
		code int
		r    loadResult
	)
	for duration := 1500 * time.Millisecond; ; duration *= 2 { // on a busy machine little happens in a short load
		l, dir = startLiar(t, s.url, fault, seed, cuts), t.TempDir()
		file := filepath.Join(dir, "result.json")
		load = startTroupe(t, nil, "load", "--url", l.url, "--encoding", "json", "--sessions", "2", "--processes", "2", "--profile", profile,
			"--duration", fmt.Sprint(duration), "--answer-within", "1m", "--chaos", chaos, "--seed", fmt.Sprint(seed), "--findings", dir, "--json", file, "--quiet")
		code, r = load.exitCode(), loadResultIn(t, file)
		l.mu.Lock()
		if duration > factTimeout || (fault == "none" || len(l.told) > 0) && (!cuts || r.Counts["cuts"] > 0) {
			break
		}
		l.mu.Unlock()
	}
	defer l.mu.Unlock()
	found := findingsIn(t, filepath.Join(dir, "findings.jsonl"))
	if want := min(1, len(l.told)); code != want {
		t.Errorf("exit code %d after %d lies, want %d\n%s", code, len(l.told), want, load.stdout)
	}
	if fault != "none" && len(l.told) == 0 {
		t.Fatalf("the proxy told no lie in %d bytes and %d exits", l.bytes, l.exits)
	}
	if (r.Counts["cuts"] > 0) != cuts || r.Counts["lost sessions"] > 0 || len(r.Problems) > 0 || int64(len(found)) != r.Counts["wrong"] {
		t.Errorf("counts %v, problems %q, with %d findings and the chaos %s", r.Counts, r.Problems, len(found), chaos)
	}
	wantLies(t, l, found)
	t.Logf("%d lies in %d bytes of output, %d findings, %d cuts", len(l.told), l.bytes, len(found), r.Counts["cuts"])
	if len(found) == 0 {
		return
	}

	// What the program did is not in the events of a finding.
	replayable := 0
	for _, f := range found {
		if f.Kind != "stdin" {
			replayable++
		}
	}
	replay := startTroupe(t, nil, "load", "--replay", filepath.Join(dir, "findings.jsonl"))
	code = replay.exitCode()
	word := "findings"
	if len(found) == 1 {
		word = "finding"
	}
	if want := fmt.Sprintf("\n%d %s, %d found again\n", len(found), word, replayable); code != 1 || !strings.HasSuffix(replay.stdout.String(), want) {
		t.Errorf("the replay: exit code %d, stdout %s; want %s", code, replay.stdout, want)
	}
}

// wantLies wants exactly the findings that the lies bring about. The caller holds l.mu.
func wantLies(t *testing.T, l *liar, found []loadFinding) {
	t.Helper()
	for _, said := range l.told {
		if !slices.ContainsFunc(found, said.is) {
			t.Errorf("%+v: found only %.3000s", said, fmt.Sprintf("%+v", found))
		}
	}
	for _, f := range found {
		if !slices.ContainsFunc(l.told, func(said *lie) bool { return said.is(f) || said.explains(f) }) {
			t.Errorf("found what is not a lie: %+v", f)
		}
	}
}

// A loadFinding is a part of a finding of troupe load.
type loadFinding struct {
	Kind, Server, Session, Process, Stream, Detail string
	Run                                            int
	Offset, Bytes, Seq                             int64
}

// is reports whether f is the finding about the lie.
func (l *lie) is(f loadFinding) bool {
	want := l.loadFinding
	want.Detail = f.Detail
	if f.Kind == l.orElse {
		want.Kind, want.Seq = f.Kind, f.Seq
	}
	return f == want
}

// explains reports whether f is a further finding that the lie brings about.
func (l *lie) explains(f loadFinding) bool {
	return slices.Contains(l.also, f.Kind) && f.Server == l.Server && f.Session == l.Session && f.Process == l.Process && f.Run == l.Run
}

func findingsIn(t *testing.T, file string) (all []loadFinding) {
	data, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var f loadFinding
		if err := json.Unmarshal(line, &f); err != nil {
			t.Fatalf("%v in %.300s", err, line)
		}
		all = append(all, f)
	}
	return all
}

// A loadResult is a part of the JSON of troupe load.
type loadResult struct {
	Counts, Errors           map[string]int64
	Problems, Notes, LeftOut []string
	Servers                  []struct{ URL string }
	Plan                     struct{ Program string }
	SLOs                     []struct {
		SLO string
		Met bool
	}
	Latency map[string]struct {
		Count   int64
		Buckets [][2]int64
	}
}

func loadResultIn(t *testing.T, file string) (r loadResult) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		t.Error(err)
	}
	return r
}
