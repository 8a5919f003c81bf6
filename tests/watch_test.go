package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
	"github.com/gorilla/websocket"
)

// cutLine dials a server, and cuts the last connection on demand.
type cutLine struct {
	mu   sync.Mutex
	url  string
	last transport.Conn
}

func (c *cutLine) dial(ctx context.Context) (transport.Conn, error) {
	conn, err := transport.Dial(ctx, c.url, &transport.DialOptions{Subprotocols: []string{transport.SubprotocolMsgpack}})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = conn
	return conn, err
}

func (c *cutLine) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != nil {
		c.last.Close(1001, "cut")
	}
}

// steady returns what session/list and a watch tell in the same words, once nothing changes any more: without times and usage.
func steady(sessions []client.WatchedSession) string {
	var all []client.WatchedSession
	for _, s := range sessions {
		s.Observers = 0
		s.List = slices.Clone(s.List)
		for i := range s.List {
			p := &s.List[i]
			p.QuietMs, p.Usage = 0, nil
			for k := range p.WaitsFor {
				p.WaitsFor[k].SinceMs = 0
			}
		}
		all = append(all, s)
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// listed returns the answer to session/list as a watch would tell it.
func listed(ctx context.Context, t *testing.T, c *client.Client) (all []client.WatchedSession) {
	list, err := c.Sessions(ctx, protocol.DetailInfo)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		is := client.WatchedSession{SessionSummary: s.SessionSummary, List: s.List}
		if s.SessionID == c.SessionID() {
			if is.Groups, err = c.Groups(ctx); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, is)
	}
	return all
}

// TestWatch: a thousand processes come and go while a client watches whose connection is cut again and again. The client sees the end of each, and in the end has what
// session/list tells.
func TestWatch(t *testing.T) {
	t.Parallel()
	const processes, each = 1000, 20
	s := startServer(t, "--max-processes", fmt.Sprint(2*processes))
	ctx, cancel := context.WithTimeout(t.Context(), 2*factTimeout)
	defer cancel()
	owner, err := client.Dial(ctx, s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer owner.CloseSession(ctx)
	line := &cutLine{url: s.url}
	viewer, err := client.Dial(ctx, "", &client.Options{Session: owner.SessionID(), Observe: true, Dialer: line.dial})
	if err != nil {
		t.Fatal(err)
	}
	defer viewer.Close()
	w, err := viewer.Watch(ctx, 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}

	member := owner.Command("sh", "-c", "exec sleep 1000")
	if err := owner.StartGroup(ctx, &client.Group{ID: "g"}, member); err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	for i := range each {
		work.Go(func() {
			for k := range processes / each {
				c := owner.Command("sh", "-c", fmt.Sprintf("echo %d; exit %d", i, k))
				c.ID = fmt.Sprintf("p-%d-%d", i, k)
				if err := c.Start(ctx); err != nil {
					t.Errorf("start %s: %v", c.ID, err)
					return
				}
				c.Wait(ctx)
			}
		})
	}
	defer work.Wait()

	ends, states := make(map[string]int), 0
	var state []client.WatchedSession
	see := func() {
		if state, err = w.Next(ctx); err != nil {
			t.Fatalf("%v, after %d states with %d ends", err, states, len(ends))
		}
		if states++; states%4 == 0 {
			line.cut()
		}
		for _, session := range state {
			for _, p := range session.List {
				if p.Status != nil {
					ends[p.ProcessID] = p.Status.ExitCode
				}
			}
		}
	}
	for len(ends) < processes {
		see()
	}
	for id, code := range ends {
		var i, k int
		if fmt.Sscanf(id, "p-%d-%d", &i, &k); code != k {
			t.Errorf("%s has ended with %d", id, code)
		}
	}
	work.Wait()
	if states < 8 {
		t.Errorf("%d states: there was hardly a cut", states)
	}
	for want := steady(listed(ctx, t, owner)); steady(state) != want; want = steady(listed(ctx, t, owner)) {
		see()
	}
	if len(state[0].Groups) != 1 || state[0].Groups[0].GroupID != "g" {
		t.Errorf("groups %+v", state[0].Groups)
	}
}

// changes are the pieces that a connection has got of its watch, and the state made of them.
type changes struct {
	sessions map[string]map[string]string // session → process → state; "" → state of the session
	whole    bool
	entries  int // processes told
}

// take merges a server/changed.
func (w *changes) take(m obj) {
	p := m["params"].(obj)
	if p["anew"] == true {
		w.sessions, w.whole = make(map[string]map[string]string), false
	}
	w.whole = w.whole || p["whole"] == true
	list := func(v any) []any { l, _ := v.([]any); return l }
	for _, id := range list(p["gone"]) {
		delete(w.sessions, id.(string))
	}
	for _, s := range list(p["sessions"]) {
		s := s.(obj)
		id := s["sessionId"].(string)
		if w.sessions[id] == nil {
			w.sessions[id] = make(map[string]string)
		}
		w.sessions[id][""] = s["state"].(string)
		for _, f := range list(s["forgotten"]) {
			delete(w.sessions[id], f.(string))
		}
		for _, q := range list(s["list"]) {
			w.entries++
			w.sessions[id][q.(obj)["processId"].(string)] = q.(obj)["state"].(string)
		}
	}
}

// changesOf returns what a connection has been told.
func changesOf(c *conn) (w changes) {
	for _, m := range c.other {
		if m["method"] == "server/changed" {
			w.take(m)
		}
	}
	return w
}

// TestWatchOfOthers: a watch shows the sessions that session/list shows, and no other, to an owner, an operator, an observer, a guest and somebody else. Who loses a
// role loses the connection.
func TestWatchOfOthers(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	k.file("four", "alice token-of-alice-in-plain\nbob token-of-bob-in-plain\ncarol token-of-carol-in-plain\nroot token-of-root-in-plain\n")
	k.file("roles", "root operator\ncarol observes alice\n")
	s := startServer(t, "--listen", "ws://127.0.0.1:0", "--auth-token-file", k.path("four"), "--auth-roles-file", k.path("roles"))
	watch := func(token string) *conn {
		c := s.as(token, obj{"session": obj{"ephemeral": true}})
		c.call("server/watch", obj{"everyMs": 200})
		return c
	}
	before := map[string]*conn{"bob": watch("token-of-bob-in-plain"), "carol": watch("token-of-carol-in-plain"), "root": watch("token-of-root-in-plain")}
	alice := s.as("token-of-alice-in-plain", obj{"session": obj{"name": "hers"}})
	other := s.as("token-of-alice-in-plain", nil)
	theirs := s.as("token-of-bob-in-plain", nil)
	_, token := alice.share(obj{"access": "read"})
	guest := s.as(token, nil)
	guest.call("server/watch", obj{})
	alice.start("p", obj{"argv": sh("cat"), "pipeStdin": true})
	other.start("q", obj{"argv": sh("cat"), "pipeStdin": true})
	theirs.start("b", obj{"argv": sh("cat"), "pipeStdin": true})
	after := map[string]*conn{"bob": watch("token-of-bob-in-plain"), "carol": watch("token-of-carol-in-plain"), "root": watch("token-of-root-in-plain"), "alice": watch("token-of-alice-in-plain")}

	sees := func(who string, c *conn, sessions ...*conn) {
		t.Helper()
		want := make(map[string]map[string]string)
		for _, of := range sessions {
			want[of.sessionID] = map[string]string{"": "attached"}
			for id := range of.procs {
				want[of.sessionID][id] = "running"
			}
		}
		c.awaitFact(fmt.Sprintf("%s sees %v", who, want), func() bool {
			got := changesOf(c)
			return got.whole && reflect.DeepEqual(got.sessions, want)
		})
	}
	for _, m := range []map[string]*conn{before, after} {
		sees("bob", m["bob"], theirs)
		sees("carol", m["carol"], alice, other)
		sees("root", m["root"], alice, other, theirs)
	}
	sees("alice", after["alice"], alice, other)
	sees("a guest", guest, alice)

	other.call("session/close", obj{})
	theirs.call("session/close", obj{})
	sees("carol", before["carol"], alice)
	sees("root", after["root"], alice)
	sees("bob", before["bob"])

	// Not even for a moment anybody has seen more.
	for c, may := range map[*conn][]*conn{before["bob"]: {theirs}, after["bob"]: {theirs}, before["carol"]: {alice, other}, after["carol"]: {alice, other}, after["alice"]: {alice, other}, guest: {alice}} {
		for _, m := range c.other {
			for _, hidden := range []*conn{alice, other, theirs} {
				if !slices.Contains(may, hidden) && strings.Contains(jsonText(m), hidden.sessionID) {
					t.Errorf("%s was told of a session of somebody else", jsonText(m))
				}
			}
		}
	}
	k.file("roles", "root operator\n")
	if code, reason := before["carol"].awaitClose(); code == 1000 {
		t.Errorf("carol may not observe any more, and is closed with %d %s", code, reason)
	}
}

// TestWatchOfSlowReader: while a client does not read, its changes become one, and the server keeps next to nothing for the client.
func TestWatchOfSlowReader(t *testing.T) {
	t.Parallel()
	const processes, rounds = 100, 40
	s := startServer(t)
	work := s.session(nil)
	for i := range processes {
		work.start(fmt.Sprint("p", i), obj{"argv": append(sh("exec cat"), strings.Repeat("x", 4000)), "pipeStdin": true})
	}
	dialer := websocket.Dialer{NetDial: func(network, address string) (net.Conn, error) {
		small := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
			return raw.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
		}}
		return small.Dial(network, address)
	}}
	ws, _, err := dialer.Dial(s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	for _, text := range []string{`{"id":1,"method":"initialize","params":{"clientName":"slow"}}`, `{"method":"initialized"}`, `{"id":2,"method":"server/watch","params":{"everyMs":200}}`} {
		if err := ws.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	var told changes
	read := func() (output int64) {
		ws.SetReadDeadline(time.Now().Add(factTimeout)) // of this message: the rounds may take long
		_, text, err := ws.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		m, err := fromJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		if m["method"] == "server/changed" {
			told.take(m)
		}
		return int64(len(text))
	}
	for !told.whole {
		read()
	}

	had, began := told.entries, time.Now()
	for i := range rounds {
		if time.Since(began) > 15*time.Second { // the server cuts a client that takes nothing for 30 s
			t.Logf("the machine is slow: %d rounds", i)
			break
		}
		var asked []int64
		for p := range processes {
			asked = append(asked, work.request("process/write", obj{"processId": fmt.Sprint("p", p), "writeId": fmt.Sprint(i), "chunk": "eHh4eAo="}))
		}
		for _, id := range asked {
			work.takeReply(id)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if held := num(work.call("server/info", obj{})["clientBytes"]); held > 1<<20 {
		t.Errorf("the server keeps %d bytes for the client", held)
	}
	work.call("process/terminate", obj{"processId": "p7"})
	var bytes int64
	for told.sessions[work.sessionID]["p7"] != "closed" {
		bytes += read()
	}
	if n := told.entries - had; n > processes*rounds/2 {
		t.Errorf("%d entries for %d changes, %d bytes", n, processes*rounds, bytes)
	}
}
