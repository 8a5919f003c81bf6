package tests

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// The tests in this file check the replay itself. A server that plays back the recording equals the
// peer to the last byte. So the replay must find no mismatch, and must miss every declared difference.
// If any line of the recording is changed in any way, the replay must find the change.

func TestReplayAcceptsThePeer(t *testing.T) {
	for _, name := range transcripts(t) {
		for _, m := range playback(t, name, readTranscript(t, name), nil, factTimeout) {
			if !peersOwnFault(m) {
				t.Error(m)
			}
		}
	}
}

// peersOwnFault excuses a fault of the peer: in a recording, the peer reported an exit before earlier
// output. Our server refuses to start this process.
func peersOwnFault(mismatch string) bool {
	return strings.HasPrefix(mismatch, `process_start: connection 0: process "m7": `)
}

func TestReplayMissesDeclaredDifferences(t *testing.T) {
	for _, name := range transcripts(t) {
		found := playback(t, name, readTranscript(t, name), differences, factTimeout)
		for _, d := range differences {
			if d.transcript != name {
				continue
			}
			said := slices.ContainsFunc(found, func(m string) bool {
				return strings.HasPrefix(m, name+": "+d.at+": the declared difference")
			})
			if !said {
				t.Errorf("%s %s does not occur, and nobody said so", name, d.at)
			}
		}
	}
}

func TestReplaySeesEveryChange(t *testing.T) {
	if testing.Short() {
		t.Skip("many replays")
	}
	t.Parallel()
	changes := map[string]func(obj) bool{
		"code":   changeCode,
		"text":   changeText,
		"value":  changeValue,
		"member": dropMember,
		"type":   changeType,
		"seq":    changeSeq,
		"bytes":  changeBytes,
	}
	applied := map[string]int{}
	var mu sync.Mutex
	t.Run("all", func(t *testing.T) {
		for _, name := range transcripts(t) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				lines := readTranscript(t, name)
				for i, l := range lines {
					if l.Dir != "s2c" || l.Kind != "" {
						continue
					}
					for kind, change := range changes {
						m := decode(l.Msg)
						if !change(m) {
							continue
						}
						changed := slices.Clone(lines)
						changed[i].Msg = []byte(jsonText(m))
						// A short timeout makes no assertion: it can only help to find the change.
						found := playback(t, name, changed, nil, 100*time.Millisecond)
						if !slices.ContainsFunc(found, func(m string) bool { return !peersOwnFault(m) }) {
							t.Errorf("line %d, %s changed to %s: not seen", i+1, kind, changed[i].Msg)
						}
						mu.Lock()
						applied[kind]++
						mu.Unlock()
					}
				}
			})
		}
	})
	for kind := range changes {
		if applied[kind] < 10 {
			t.Errorf("%s was changed %d times only", kind, applied[kind])
		}
	}
	t.Log(applied)
}

func errorOf(m obj) obj  { e, _ := m["error"].(obj); return e }
func resultOf(m obj) obj { r, _ := m["result"].(obj); return r }
func paramsOf(m obj) obj { p, _ := m["params"].(obj); return p }

// membersOf returns the members of the result, or of the params of a notification.
func membersOf(m obj) obj {
	if result := resultOf(m); result != nil {
		return result
	}
	return paramsOf(m)
}

func changeCode(m obj) bool {
	e := errorOf(m)
	if e != nil {
		e["code"] = num(e["code"]) - 1
	}
	return e != nil
}

// changeText changes only a text on which a client may depend: other texts are free.
func changeText(m obj) bool {
	e := errorOf(m)
	if e == nil || !slices.ContainsFunc(dependable, func(d *regexp.Regexp) bool {
		return d.MatchString(e["message"].(string))
	}) {
		return false
	}
	e["message"] = "sorry: " + e["message"].(string)
	return true
}

// changeValue changes the first plain value that the replay compares.
func changeValue(m obj) bool {
	members := membersOf(m)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if isOfTheServer("", members, name) || name == "seq" || name == "chunk" {
			continue
		}
		switch v := members[name].(type) {
		case bool:
			members[name] = !v
			return true
		case string:
			members[name] = v + "x"
			return true
		case json.Number:
			members[name] = num(v) + 1
			return true
		case nil:
			members[name] = 1
			return true
		}
	}
	return false
}

func dropMember(m obj) bool {
	members := membersOf(m)
	names := slices.Sorted(maps.Keys(members))
	if len(names) > 0 {
		delete(members, names[0])
	}
	return len(names) > 0
}

func changeType(m obj) bool {
	result := resultOf(m)
	names := slices.Sorted(maps.Keys(result))
	if len(names) == 0 {
		return false
	}
	if _, isList := result[names[0]].([]any); isList {
		result[names[0]] = "a list no more"
	} else {
		result[names[0]] = []any{1, 2}
	}
	return true
}

func changeSeq(m obj) bool {
	p := paramsOf(m)
	if p == nil || p["seq"] == nil || p["processId"] == "m7" { // the recorded seq is wrong already: peersOwnFault
		return false
	}
	p["seq"] = num(p["seq"]) + 1
	return true
}

// changeBytes flips a letter of the output.
func changeBytes(m obj) bool {
	p := paramsOf(m)
	text, isOutput := p["chunk"].(string)
	if !isOutput {
		return false
	}
	data, _ := base64.StdEncoding.DecodeString(text)
	i := slices.IndexFunc(data, func(b byte) bool { return b >= 'A' && b <= 'z' })
	if i < 0 {
		i = 0
	}
	data[i] ^= 1
	p["chunk"] = base64.StdEncoding.EncodeToString(data)
	return true
}

// playback replays a transcript against a server that plays back lines.
func playback(t *testing.T, name string, lines []line, declared []difference, timeout time.Duration) []string {
	t.Helper()
	recorded := readTranscript(t, name)
	upgraded := make(chan *websocket.Conn, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
		}
		upgraded <- ws
	}))
	accepted, played := make(chan *websocket.Conn, len(lines)), make(chan struct{})
	go func() {
		defer close(played)
		play(lines, accepted)
	}()
	r := &replay{
		t: t, name: name, lines: recorded,
		dial: func() *conn {
			c, _, err := dialWS(t, strings.Replace(srv.URL, "http", "ws", 1), nil)
			if err != nil {
				t.Fatal(err)
			}
			ws := <-upgraded
			ws.SetCloseHandler(func(int, string) error { return nil }) // like the peer: no answer
			accepted <- ws
			return c
		},
		sigterm:    func() {},
		awaitSleep: func(*conn, string) {},
		awaitWait:  func(*conn, string) {},
		explain:    func(*conn, string) string { return "" },
		timeout:    timeout,
	}
	r.expect(declared)
	found := r.run()
	close(accepted)
	<-played
	srv.Close()
	return found
}

// play sends the lines of the peer, each as soon as the earlier lines were sent or received, until the
// replay hangs up.
func play(lines []line, accepted <-chan *websocket.Conn) {
	conns := map[int]*websocket.Conn{}
	defer func() {
		for _, ws := range conns {
			ws.Close()
		}
		for ws := range accepted {
			ws.Close()
		}
	}()
	ended := map[int]bool{}
	for i, l := range lines {
		if l.Dir == "test" || ended[l.Conn] {
			continue
		}
		if conns[l.Conn] == nil {
			next, more := <-accepted
			if !more {
				return
			}
			conns[l.Conn] = next
		}
		ws := conns[l.Conn]
		var err error
		switch l.Dir + " " + l.Kind {
		case "c2s ping", "s2c pong": // gorilla's, while the next message is read
		case "c2s ", "c2s binary", "c2s frag", "c2s close", "c2s abort":
			_, _, err = ws.ReadMessage()
			if l.Kind == "close" || l.Kind == "abort" {
				err = nil
				ended[l.Conn] = l.Kind == "abort"
			}
		case "s2c ":
			err = ws.WriteMessage(websocket.TextMessage, l.Msg)
		case "s2c ping":
			err = ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(factTimeout))
		case "s2c end":
			ws.Close()
			ended[l.Conn] = true
		default:
			panic(fmt.Sprintf("line %d: %s", i+1, jsonText(l)))
		}
		if err != nil {
			return
		}
	}
	// The replay ends first: the server sees the connection close.
	for n, ws := range conns {
		for !ended[n] {
			_, _, err := ws.ReadMessage()
			ended[n] = err != nil
		}
	}
}
