package actors_test

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/actors/internal/fake"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// kindOf returns the kind of an actor.
func kindOf(pid *actor.PID) string {
	path := strings.Split(pid.Id, "/")
	last := path[len(path)-1]
	switch {
	case strings.HasPrefix(last, "p-"):
		return "process"
	case strings.HasPrefix(last, "c-"):
		return "connection"
	case strings.HasPrefix(last, "command-"):
		return "command"
	case len(path) == 3:
		return "supervisor"
	}
	return last // troupe, registry, sessions, session, connections
}

// point is a place where a fault may be injected: an actor of a kind that gets a
// message of a type, or a goroutine.
type point struct{ kind, what string }

// saboteur panics once, at one occurrence of one point, and on demand once more
// when the actor is restarted because of it. The zero saboteur only counts.
type saboteur struct {
	at         point
	nth        int // from 1
	restarting bool

	mu    sync.Mutex
	seen  map[point]int
	fired bool
}

func (s *saboteur) visit(p point) {
	s.mu.Lock()
	if s.seen == nil {
		s.seen = make(map[point]int)
	}
	s.seen[p]++
	fire := p == s.at && s.seen[p] == s.nth
	if s.fired && s.restarting && p == (point{s.at.kind, "*actor.Restarting"}) {
		s.restarting, fire = false, true
	}
	s.fired = s.fired || fire
	s.mu.Unlock()
	if fire {
		panic(fmt.Sprintf("injected at %v, occurrence %d", p, s.nth))
	}
}

func (s *saboteur) message(self *actor.PID, m any) {
	what := fake.TypeName(m)
	switch m := m.(type) {
	case string:
		what = "goroutine " + m
	case actors.Place:
		what = placed(m)
	}
	s.visit(point{kindOf(self), what})
}

// placed is the name of a place for a saboteur.
func placed(p actors.Place) string { return "at " + string(p) }

// places returns all places of places.go.
func places(t *testing.T) (all []actors.Place) {
	file, err := parser.ParseFile(token.NewFileSet(), "internal/env/places.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, actors.Place(text))
		}
		return true
	})
	return all
}

func (s *saboteur) child(name string) { s.visit(point{"child", name}) }

// resumer is a client that comes back until its work is done. It checks the output: everything comes once,
// and in order.
type resumer struct {
	t         *testing.T
	troupe    *actors.Troupe
	role      protocol.Role
	sessionID string
	peer      *peer
	mayEvict  bool // a process may be given up
	lost      int  // connections that the server has ended
	nextID    int
	answers   map[string]message
	processes map[string]*progress
}

type progress struct {
	seq     uint64
	output  strings.Builder
	code    int
	exited  bool   // the current run has
	evicted string // why the process was given up
	closed  bool
}

func newResumer(t *testing.T, troupe *actors.Troupe, role protocol.Role, sessionID string) *resumer {
	r := &resumer{t: t, troupe: troupe, role: role, sessionID: sessionID, processes: make(map[string]*progress)}
	r.attach()
	return r
}

// attach connects, does the handshake, and resumes the session if there is one.
func (r *resumer) attach() {
	if err := r.resume(); err != "" {
		r.t.Fatalf("initialize: %s", err)
	}
}

// resume does the same as attach, and returns why the server refuses; "": the server does not.
func (r *resumer) resume() (refused string) {
	for {
		r.peer = connect(r.t, r.troupe)
		r.answers = make(map[string]message)
		params := map[string]any{"clientName": "resumer", "role": r.role, "capabilities": map[string]any{"restarted": true, "ready": true, "groups": true}}
		if r.sessionID != "" {
			from := make(map[string]uint64)
			for id, p := range r.processes {
				from[id] = p.seq
			}
			params["resumeSessionId"], params["resumeFrom"], params["takeover"] = r.sessionID, from, true
		}
		m, ok := r.request("initialize", params)
		for ok && m.Error != nil && m.Error.Code == protocol.CodeInternal {
			if strings.Contains(m.Error.Message, "did not answer") {
				r.t.Errorf("initialize: %+v", m.Error)
			}
			m, ok = r.request("initialize", params)
		}
		if !ok {
			r.lost++
			r.peer.close()
			continue
		}
		if m.Error != nil {
			return m.Error.Message
		}
		var result protocol.InitializeResult
		if err := json.Unmarshal(m.Result, &result); err != nil {
			r.t.Fatal(err)
		}
		r.sessionID = result.SessionID
		r.peer.conn.WriteMessage([]byte(`{"method":"initialized"}`), false)
		return ""
	}
}

// post sends a request; wait will notice the end of the connection.
func (r *resumer) post(method string, params any) (id string) {
	r.nextID++
	frame, err := json.Marshal(map[string]any{"id": r.nextID, "method": method, "params": params})
	if err != nil {
		r.t.Fatal(err)
	}
	r.peer.conn.WriteMessage(frame, false)
	return fmt.Sprint(r.nextID)
}

// wait takes messages until the answer to id, or until the end of the connection.
func (r *resumer) wait(id string) (message, bool) {
	for {
		if m, ok := r.answers[id]; ok {
			return m, true
		}
		if !r.take() {
			return message{}, false
		}
	}
}

func (r *resumer) request(method string, params any) (message, bool) {
	return r.wait(r.post(method, params))
}

// take takes a message; false: the connection has ended.
func (r *resumer) take() bool {
	m, ok := r.peer.next()
	if !ok {
		return false
	}
	if m.Method == "" {
		r.answers[string(m.ID)] = m
		return true
	}
	switch m.Method {
	case protocol.NotifyOutput, protocol.NotifyExited, protocol.NotifyClosed, protocol.NotifyRestarted, protocol.NotifyReady:
	case protocol.NotifyEvicted:
		if !r.mayEvict {
			r.t.Errorf("process %s was given up: %s", m.Params.ProcessID, m.Params.Reason)
			return true
		}
		r.processes[m.Params.ProcessID].evicted = m.Params.Reason
	default:
		return true
	}
	p := r.processes[m.Params.ProcessID]
	// A slow observer misses entries, and the end of the log of a process is lost when the process is
	// given up. Both are a gap, without a request of this client.
	mayMiss := r.role != protocol.RoleOwner || m.Method == protocol.NotifyEvicted
	if m.Params.Seq != p.seq+1 && (!mayMiss || m.Params.Seq <= p.seq) || p.closed {
		r.t.Errorf("%s %s: %s seq %d after %d, closed %t", r.role, m.Params.ProcessID, m.Method, m.Params.Seq, p.seq, p.closed)
	}
	if m.Method == protocol.NotifyRestarted && !p.exited && m.Params.Seq == p.seq+1 {
		r.t.Errorf("%s %s: a run begins, and the last one has not exited", r.role, m.Params.ProcessID)
	}
	p.seq = m.Params.Seq
	if m.Method == protocol.NotifyExited && p.exited {
		r.t.Errorf("%s %s: a run has exited twice", r.role, m.Params.ProcessID)
	}
	p.exited = m.Method == protocol.NotifyExited || p.exited && m.Method != protocol.NotifyRestarted
	switch m.Method {
	case protocol.NotifyOutput:
		p.output.Write(m.Params.Chunk)
	case protocol.NotifyExited:
		p.code = m.Params.ExitCode
	case protocol.NotifyClosed:
		p.closed = true
	}
	return true
}

// cut ends the connection. What had come is not lost: a pipe acknowledges what was
// read.
func (r *resumer) cut() {
	r.peer.conn.Close(transport.CloseNormal, "")
	for r.take() {
	}
	r.attach()
}

// leave ends the connection, until an observer sees that the session has no owner.
func (r *resumer) leave(observer *resumer) {
	r.peer.conn.Close(transport.CloseNormal, "")
	for r.take() {
	}
	for attached := true; attached; {
		var info protocol.SessionInfoResult
		if err := json.Unmarshal(observer.mustCall("session/info", protocol.Empty{}).Result, &info); err != nil {
			r.t.Fatal(err)
		}
		attached = info.Attached
	}
}

func (r *resumer) comeBack() {
	r.lost++
	r.cut()
}

// during posts a request that waits, and has do bring its answer about. If the connection ends first, during does both again.
func (r *resumer) during(method string, params any, do func()) {
	for {
		peer := r.peer
		id := r.post(method, params)
		do()
		if r.peer != peer {
			continue
		}
		m, ok := r.wait(id)
		if ok {
			if m.Error != nil {
				r.t.Errorf("%s: %+v", method, m.Error)
			}
			return
		}
		r.comeBack()
	}
}

// call repeats a request until it is answered with other than an internal error.
func (r *resumer) call(method string, params any) message {
	for range 20 {
		m, ok := r.request(method, params)
		switch {
		case !ok:
			r.comeBack()
		case m.Error == nil || m.Error.Code != protocol.CodeInternal:
			return m
		}
	}
	r.t.Fatalf("%s fails again and again", method)
	return message{}
}

func (r *resumer) mustCall(method string, params any) message {
	m := r.call(method, params)
	if m.Error != nil {
		r.t.Errorf("%s: %+v", method, m.Error)
	}
	return m
}

func (r *resumer) start(id string, params protocol.ProcessStartParams) {
	r.processes[id] = new(progress)
	params.ProcessID, params.Cwd = id, "file:///"
	params.Env = map[string]string{"PATH": "/usr/bin:/bin"}
	params.StartToken = "token of " + id
	r.mustCall("process/start", params)
}

// startGroup starts a base, ready by a line, and a unit that depends on the base and fails once.
func (r *resumer) startGroup(runs string) {
	member := func(id, script string, params protocol.ProcessStartParams) protocol.ProcessStartParams {
		r.processes[id] = new(progress)
		params.ProcessID, params.Cwd = id, "file:///"
		params.Env = map[string]string{"PATH": "/usr/bin:/bin"}
		params.Argv = []string{"sh", "-c", script, runs}
		params.Restart = &protocol.Restart{Policy: "permanent", Backoff: &protocol.Backoff{InitialMs: new(uint64(1))}}
		return params
	}
	r.mustCall("group/start", protocol.GroupStartParams{GroupID: "g", StartToken: "token of g", Strategy: protocol.RestForOne, Processes: []protocol.ProcessStartParams{
		member("base", "echo up; exec sleep 1000", protocol.ProcessStartParams{Ready: &protocol.Ready{Line: "up"}}),
		member("unit", `echo >>$0; n=$(wc -l <$0); echo "unit $n"; [ $n = 2 ] && exec sleep 1000`, protocol.ProcessStartParams{DependsOn: []string{"base"}}),
	}})
}

func (r *resumer) group() (g protocol.GroupInfo) {
	var result protocol.GroupListResult
	if err := json.Unmarshal(r.mustCall("group/list", protocol.Empty{}).Result, &result); err != nil {
		r.t.Fatal(err)
	}
	if len(result.Groups) > 0 {
		g = result.Groups[0]
	}
	return g
}

func (r *resumer) write(id, writeID, text string) {
	m := r.mustCall("process/write", protocol.ProcessWriteParams{ProcessID: id, WriteID: writeID, Chunk: []byte(text)})
	if !strings.Contains(string(m.Result), "accepted") {
		r.t.Errorf("write %s: %s", writeID, m.Result)
	}
}

// until takes messages until done, over as many connections as necessary.
func (r *resumer) until(done func() bool) {
	for !done() {
		if !r.take() {
			r.comeBack()
		}
	}
}

func (r *resumer) list() []protocol.ProcessInfo {
	var result protocol.ProcessListResult
	if err := json.Unmarshal(r.mustCall("process/list", protocol.Empty{}).Result, &result); err != nil {
		r.t.Fatal(err)
	}
	return result.Processes
}

// pids are the processes of the system, by our id.
func (r *resumer) pids(pids map[string]int) {
	for _, p := range r.list() {
		pids[p.ProcessID] = p.PID
	}
}

// scenario is the life of two sessions with three processes and an observer. With retire, it waits until the processes and the
// group that have ended are forgotten. It returns the number of connections that the server has ended.
func scenario(t *testing.T, s *saboteur, retire bool) (lost int) {
	retention := time.Minute // whoever comes back after a fault still finds the end
	if retire {
		retention = time.Second
	}
	troupe := start(t, actors.WithFaults(actors.Config{
		Retention:       16 << 10,
		Window:          32 << 10,
		ClosedRetention: retention,
		KillGrace:       -1,
	}, s.message, s.child))

	one := newResumer(t, troupe, protocol.RoleOwner, "")
	observer := newResumer(t, troupe, protocol.RoleObserver, one.sessionID)
	observer.processes["echo"], observer.processes["count"] = new(progress), new(progress) // to be resumed, even before they were seen
	two := newResumer(t, troupe, protocol.RoleOwner, "")

	one.start("echo", protocol.ProcessStartParams{Argv: []string{"cat"}, PipeStdin: true})
	one.start("count", protocol.ProcessStartParams{Argv: []string{"sh", "-c", "seq 20000; exit 3"}})
	two.start("tty", protocol.ProcessStartParams{Argv: []string{"sh", "-c", "read x; echo got $x; exec sleep 1000"}, TTY: true})
	runs := filepath.Join(t.TempDir(), "runs")
	two.start("again", protocol.ProcessStartParams{
		Argv:    []string{"sh", "-c", `echo >>$0; n=$(wc -l <$0); echo "run $n"; [ $n = 3 ]`, runs},
		Restart: &protocol.Restart{Policy: "transient", Backoff: &protocol.Backoff{InitialMs: new(uint64(1))}},
	})
	two.start("last", protocol.ProcessStartParams{Argv: []string{"sleep", "1000"}}) // until the session ends
	two.startGroup(filepath.Join(t.TempDir(), "units"))
	two.until(func() bool {
		return strings.Contains(two.processes["unit"].output.String(), "unit 2\n") && two.processes["base"].output.Len() > 0
	})
	before := make(map[string]int)
	one.pids(before)
	two.pids(before)

	one.write("echo", "w1", "first\n")
	two.mustCall("process/resize", protocol.ProcessResizeParams{ProcessID: "tty", Size: protocol.Size{Rows: 40, Cols: 100}})
	two.write("tty", "w1", "it\n")
	two.until(func() bool { return strings.Contains(two.processes["tty"].output.String(), "got it\r\n") })

	one.cut()
	one.leave(observer)
	one.attach()

	// New output answers a long poll. A poll that is repeated asks for the same output: w2 brings no more.
	one.until(func() bool { return one.processes["echo"].output.String() == "first\n" })
	poll := protocol.ProcessReadParams{ProcessID: "echo", AfterSeq: one.processes["echo"].seq, WaitMs: 1e9}
	one.during("process/read", poll, func() { one.write("echo", "w2", "second\n") })
	one.mustCall("process/signal", protocol.ProcessSignalParams{ProcessID: "echo", Signal: "continue"})

	after := make(map[string]int)
	one.pids(after)
	two.pids(after)
	for _, id := range []string{"echo", "tty", "base", "unit"} { // count may have ended
		if before[id] != after[id] || !alive(after[id]) {
			t.Errorf("%s was process %d and is %d, alive %t", id, before[id], after[id], alive(after[id]))
		}
	}

	soon := uint64(1)
	one.mustCall("process/wait", protocol.ProcessWaitParams{ProcessID: "echo", TimeoutMs: &soon})
	one.during("process/wait", protocol.ProcessWaitParams{ProcessID: "echo"}, func() { // not after: the retention may be over then
		one.mustCall("process/closeStdin", protocol.ProcessCloseStdinParams{ProcessID: "echo"})
	})
	two.mustCall("process/terminate", protocol.ProcessTerminateParams{ProcessID: "tty", Tree: true})
	two.until(func() bool { return two.processes["tty"].closed })
	for _, r := range []*resumer{one, observer} {
		r.until(func() bool {
			return r.processes["echo"].closed && r.processes["count"].closed
		})
		if got := r.processes["echo"].output.String(); got != "first\nsecond\n" {
			t.Errorf("%s: echo wrote %q", r.role, got)
		}
	}
	if got := one.processes["count"]; got.output.String() != numbers(20000) || got.code != 3 {
		t.Errorf("count wrote %d bytes, exit code %d", got.output.Len(), got.code)
	}
	if code := two.processes["tty"].code; code != 128+9 {
		t.Errorf("tty: exit code %d", code)
	}

	two.until(func() bool { return two.processes["again"].closed })
	if again := two.processes["again"]; again.output.String() != "run 1\nrun 2\nrun 3\n" || again.code != 0 {
		t.Errorf("again wrote %q, exit code %d", again.output.String(), again.code)
	}

	two.mustCall("group/stop", protocol.GroupStopParams{GroupID: "g"})
	two.until(func() bool { return two.processes["base"].closed && two.processes["unit"].closed })
	if base, unit := two.processes["base"], two.processes["unit"]; base.output.String() != "up\n" || unit.output.String() != "unit 1\nunit 2\n" {
		t.Errorf("base wrote %q, unit %q", base.output.String(), unit.output.String())
	}
	if g := two.group(); g.State != "ended" && !retire || g.Reason != "stopped by request" && g.State != "" {
		t.Errorf("the group is %+v", g)
	}

	for retire && two.group().GroupID != "" {
		time.Sleep(10 * time.Millisecond)
	}
	two.mustCall("session/info", protocol.Empty{})
	for closed := false; !closed; {
		m, ok := two.request("session/close", protocol.Empty{})
		closed = ok && m.Error == nil
		if !ok { // a fault: the answer comes before the end of the connection
			two.lost++
			two.peer.close()
			refused := two.resume()
			if closed = refused == "unknown session id "+two.sessionID; !closed && refused != "" {
				t.Fatalf("initialize: %s", refused)
			}
		}
	}
	if retire {
		for len(one.list()) > 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
	if err := troupe.Shutdown(context.Background()); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	for id, pid := range before {
		if alive(pid) {
			t.Errorf("%s: process %d is left behind", id, pid)
		}
	}
	return one.lost + two.lost + observer.lost
}

func alive(pid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	return err == nil
}

func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i+1)
	}
	return b.String()
}

// TestFaults injects a panic at an eighth of the points that the scenario comes by, one at a time. TestFaultsEverywhere has the others.
func TestFaults(t *testing.T) {
	t.Parallel()
	faults(t, func(eighth uint32) bool { return eighth == 2 })
}

// faults injects panics at the points in the chosen eighths, from 0 to 7. A point is always in the same eighth.
func faults(t *testing.T, chosen func(eighth uint32) bool) {
	var clean, retiring saboteur
	if !t.Run("clean", func(t *testing.T) {
		if lost := scenario(t, &clean, false) + scenario(t, &retiring, true); lost > 0 {
			t.Errorf("%d connections were lost without a fault", lost)
		}
	}) {
		return
	}
	// A process that is killed may be retired before its actor stops: some points come for sure only without retire.
	retires := func(at point) bool { return clean.seen[at] == 0 || at.what == "processRemoved" }
	seen := maps.Clone(clean.seen)
	for at, n := range retiring.seen {
		if retires(at) {
			seen[at] = n
		}
	}
	for _, p := range places(t) {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(seen)), func(at point) bool { return at.what == placed(p) }) {
			t.Errorf("the scenario does not come by the place %q: let it, or remove the place", p)
		}
	}
	points := slices.SortedFunc(maps.Keys(seen), func(a, b point) int {
		return strings.Compare(a.kind+a.what, b.kind+b.what)
	})
	for _, at := range points {
		if !chosen(crc32.ChecksumIEEE([]byte(at.kind+at.what)) % 8) {
			continue
		}
		saboteurs := []*saboteur{{at: at, nth: 1}}
		if n := seen[at]; n > 1 {
			saboteurs = append(saboteurs, &saboteur{at: at, nth: n/2 + 1, restarting: true})
		}
		for _, s := range saboteurs {
			t.Run(fmt.Sprintf("%s/%s/%d", at.kind, at.what, s.nth), func(t *testing.T) {
				t.Parallel()
				if lost := scenario(t, s, retires(at)); lost > 1 {
					t.Errorf("%d connections were lost by one fault", lost)
				}
			})
		}
	}
}

// TestFloodOfFaults has actors fail over every message of one kind: they are given
// up after a bounded number of restarts, or restarted ever more slowly, and what
// is beside them goes on.
func TestFloodOfFaults(t *testing.T) {
	t.Parallel()
	for _, at := range []point{
		{"process", "factsReady"},
		{"process", "request"},
		{"process", "subscribe"},
		{"session", "request"},
		{"connection", "inbound"},
		{"registry", "attach"},
	} {
		t.Run(at.kind+"/"+at.what, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			seen := make(map[point]int)
			armed := false
			troupe := start(t, actors.WithFaults(actors.Config{KillGrace: -1}, func(self *actor.PID, m any) {
				mu.Lock()
				p := point{kindOf(self), fake.TypeName(m)}
				if armed {
					seen[p]++
				}
				fire := armed && p == at
				mu.Unlock()
				if fire {
					panic("injected")
				}
			}, nil))
			count := func(p point) int {
				mu.Lock()
				defer mu.Unlock()
				return seen[p]
			}
			arm := func(on bool) {
				mu.Lock()
				defer mu.Unlock()
				armed = on
			}

			bystander := connect(t, troupe)
			sessionID := bystander.open("")
			bystander.start("b", `,"pipeStdin":true`, "cat")
			if at.kind == "session" || at.kind == "process" {
				sessionID = "" // another session fails
			}
			victim := connect(t, troupe)
			if sessionID == "" {
				victim.open("")
				victim.start("v", `,"pipeStdin":true`, "cat")
			}
			pids := make(map[string]int)
			if at.kind == "process" {
				var result protocol.ProcessListResult
				if err := json.Unmarshal(victim.call("process/list", "{}").Result, &result); err != nil {
					t.Fatal(err)
				}
				pids["v"] = result.Processes[0].PID
			}
			arm(true)
			for i := range 12 {
				switch at.what {
				case "subscribe": // one for each process
					victim.send(fmt.Sprintf(`{"id":"%d","method":"process/start","params":{"processId":"v%d","argv":["cat"],"cwd":"file:///","env":{"PATH":"/bin:/usr/bin"},"tty":false,"pipeStdin":true}}`, i, i))
				case "factsReady": // below: a write after each other
				case "request":
					if at.kind == "session" {
						victim.send(fmt.Sprintf(`{"id":"%d","method":"session/info"}`, i))
					} else {
						victim.send(fmt.Sprintf(`{"id":"%d","method":"process/wait","params":{"processId":"v","timeoutMs":0}}`, i))
					}
				default: // registry: each is answered; connection: each costs a connection
					p := connect(t, troupe)
					p.send(`{"id":1,"method":"initialize","params":{"clientName":"flood"}}`)
					if m, ok := p.next(); ok && (m.Error == nil || m.Error.Code != protocol.CodeInternal) {
						t.Errorf("answered with %+v", m)
					}
				}
			}
			if at.kind == "process" && at.what != "subscribe" {
				for n := 0; ; n++ {
					if at.what == "factsReady" {
						victim.send(fmt.Sprintf(`{"id":%d,"method":"process/write","params":{"processId":"v","writeId":"%d","chunk":"YQo="}}`, n, n))
					}
					m, ok := victim.next()
					if !ok {
						t.Fatal("the connection ended before the process was given up")
					}
					if m.Method == protocol.NotifyEvicted {
						break
					}
				}
				waitFor(t, "the process that was given up to be gone", func() bool { return !alive(pids["v"]) })
			}
			if at.kind == "session" {
				for _, ok := victim.next(); ok; _, ok = victim.next() {
				}
			}
			arm(false)
			// A bound with room: six failures and their second tries, for each actor.
			if n := count(point{at.kind, "*actor.Restarting"}); n > 12*6 {
				t.Errorf("%d restarts", n)
			}
			m := bystander.call("process/write", `{"processId":"b","writeId":"w","chunk":"YQo="}`)
			if !strings.Contains(string(m.Result), "accepted") {
				t.Errorf("the bystander's write: %+v", m)
			}
			connect(t, troupe).open("") // and new ones are let in
		})
	}
}

// A process whose actor fails again and again before it could say that it has started is given
// up: its start is answered, its id is free, and no program is left.
func TestStartGivenUp(t *testing.T) {
	t.Parallel()
	var armed atomic.Bool
	armed.Store(true)
	token := fmt.Sprintf("100000.%d", os.Getpid())
	troupe := start(t, actors.WithFaults(actors.Config{KillGrace: -1}, func(self *actor.PID, m any) {
		switch m.(type) {
		case *actor.Started, *actor.Stopping: // its last word is not to be had, either
			if kindOf(self) == "process" && armed.Load() {
				panic("injected")
			}
		}
	}, nil))
	p := connect(t, troupe)
	p.open("")
	start := func() message {
		return p.call("process/start", fmt.Sprintf(`{"processId":"a","argv":["sleep",%q],"cwd":"file:///","env":{"PATH":"/usr/bin:/bin"},"tty":false}`, token))
	}
	if m := start(); m.Error == nil || m.Error.Code != protocol.CodeInternal {
		t.Errorf("the start was answered with %+v", m)
	}
	waitFor(t, "the program to be gone", func() bool { return len(withArgument(token)) == 0 })
	armed.Store(false)
	if m := start(); m.Error != nil {
		t.Errorf("the next start of that id: %+v", *m.Error)
	}
}
