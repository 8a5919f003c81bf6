package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"
)

// A liar lies between clients and a server, and changes what the server sends.
type liar struct {
	fault string
	mu    sync.Mutex
	told  []lie
	bytes int64 // of output, until now
	next  int64 // the byte of output to tamper with
	stray *exec.Cmd
	done  bool // a fault of an event happens once
}

// A lie is where a liar has changed something, in the words of a finding.
type lie struct {
	kinds   []string // any of them names it
	process string
	offset  int64 // in the stream of the run; -1: none
	same    int64 // the place may be told so many bytes off, since the bytes there are equal
}

// aMillion is how many bytes of output pass from fault to fault.
const aMillion = 1_000_000

// startLiar begins a proxy, and returns its URL.
func startLiar(t *testing.T, server, fault string) (*liar, string) {
	l := &liar{fault: fault, next: aMillion / 2}
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
		go func() {
			defer to.Close()
			for {
				kind, data, err := from.ReadMessage()
				if err != nil {
					return
				}
				l.heard(t, data)
				if to.WriteMessage(kind, data) != nil {
					return
				}
			}
		}()
		at := map[string]int64{}
		var held [][]byte
		for {
			kind, data, err := to.ReadMessage()
			if err != nil {
				return
			}
			for _, data := range l.tell(data, at, &held) {
				if from.WriteMessage(kind, data) != nil {
					return
				}
			}
		}
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		if l.stray != nil {
			l.stray.Process.Kill()
			l.stray.Wait()
		}
	})
	return l, "ws" + strings.TrimPrefix(s.URL, "http")
}

// heard looks at what a client says. To leave something behind, the liar starts a program with the environment of one of the client's.
func (l *liar) heard(t *testing.T, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault != "leave" || l.stray != nil || !bytes.Contains(data, []byte(`"process/start"`)) {
		return
	}
	var m struct {
		Params struct{ Env map[string]string }
	}
	if json.Unmarshal(data, &m) != nil || m.Params.Env["TROUPE_LOAD"] == "" {
		return
	}
	l.stray = exec.Command("sleep", "60")
	l.stray.Env = []string{"TROUPE_LOAD=" + m.Params.Env["TROUPE_LOAD"]}
	if err := l.stray.Start(); err != nil {
		t.Error(err)
	}
	l.told = append(l.told, lie{kinds: []string{"left"}, offset: -1})
}

// tell returns what the client gets instead of a message of the server.
func (l *liar) tell(data []byte, at map[string]int64, held *[][]byte) [][]byte {
	var m struct {
		Method string         `json:"method"`
		Params map[string]any `json:"params"`
	}
	if !bytes.Contains(data, []byte(`"process/`)) || json.Unmarshal(data, &m) != nil {
		return [][]byte{data}
	}
	id, _ := m.Params["processId"].(string)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch m.Method {
	case "process/output":
		var o struct {
			Params struct{ Chunk []byte }
		}
		json.Unmarshal(data, &o)
		p := o.Params.Chunk
		begin := at[id]
		at[id] += int64(len(p))
		i := l.next - l.bytes
		l.bytes += int64(len(p))
		if i >= int64(len(p)) {
			break
		}
		if begin == 0 || i+2 > int64(len(p)) || p[i] == p[i+1] {
			l.next = l.bytes + 1 // in the next message
			break
		}
		l.next += aMillion
		lie := lie{process: id, offset: begin + i}
		switch l.fault {
		case "drop":
			lie.kinds, lie.same = []string{"missing"}, 1
			p = slices.Delete(p, int(i), int(i+1))
		case "double":
			lie.kinds, lie.same = []string{"doubled"}, 1
			p = slices.Insert(p, int(i), p[i])
		case "swap":
			lie.kinds = []string{"reordered"}
			p[i], p[i+1] = p[i+1], p[i]
		case "flip":
			lie.kinds = []string{"altered"}
			p[i] ^= 1
		default:
			return [][]byte{data}
		}
		l.told = append(l.told, lie)
		m.Params["chunk"] = p
		data, _ = json.Marshal(m)
	case "process/exited":
		if l.done || strings.HasPrefix(id, "tool") { // troupe load asks tools for the time and for what is left
			break
		}
		switch l.fault {
		case "lose exited":
			l.done = true
			l.told = append(l.told, lie{kinds: []string{"lost exit"}, process: id, offset: -1})
			return nil
		case "swap exited":
			l.done = true
			l.told = append(l.told, lie{kinds: []string{"order"}, process: id, offset: -1})
			*held = append(*held, data)
			return nil
		}
	case "process/closed":
		if len(*held) > 0 && l.told[0].process == id {
			all := append([][]byte{data}, *held...)
			*held = nil
			return all
		}
	}
	return [][]byte{data}
}

// Whatever a proxy changes between `troupe load` and a server is found, and its place is named.
func TestLoadFindsLies(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a load generator and a server of their own for some seconds")
	}
	for _, fault := range []string{"none", "drop", "double", "swap", "flip", "lose exited", "swap exited", "leave"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			l, url := startLiar(t, s.url, fault)
			dir := t.TempDir()
			profile := "flood"
			if strings.Contains(fault, "exited") || fault == "leave" {
				profile = "spawn"
			}
			load := startTroupe(t, nil, "load", "--url", url, "--encoding", "json", "--sessions", "2", "--processes", "2",
				"--profile", profile, "--duration", "2s", "--seed", "3", "--findings", dir, "--quiet")
			code := load.exitCode()
			found := findingsIn(t, filepath.Join(dir, "findings.jsonl"))
			l.mu.Lock()
			defer l.mu.Unlock()
			if want := min(1, len(l.told)); code != want {
				t.Errorf("exit code %d after %d lies, want %d\n%s", code, len(l.told), want, load.stdout)
			}
			if fault != "none" && len(l.told) == 0 {
				t.Fatalf("the proxy told no lie in %d bytes", l.bytes)
			}
			for _, lie := range l.told {
				if !slices.ContainsFunc(found, lie.is) {
					t.Errorf("%+v: found only %.3000s", lie, fmt.Sprintf("%+v", found))
				}
			}
			for _, f := range found {
				if !slices.ContainsFunc(l.told, func(lie lie) bool { return lie.is(f) || lie.offset < 0 }) {
					t.Errorf("found what is no lie: %+v; lies: %+v", f, l.told)
				}
			}
			t.Logf("%d lies in %d bytes of output, %d findings", len(l.told), l.bytes, len(found))
		})
	}
}

// A loadFinding is a part of a finding of troupe load.
type loadFinding struct {
	Kind, Session, Process, Stream, Detail string
	Offset, Bytes                          int64
}

func (l lie) is(f loadFinding) bool {
	if !slices.Contains(l.kinds, f.Kind) || l.process != "" && l.process != f.Process {
		return false
	}
	return l.offset < 0 || max(f.Offset-l.offset, l.offset-f.Offset) <= l.same
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
