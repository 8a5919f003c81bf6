//go:build slow

package tests

import (
	"encoding/base64"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors/peer"
	"github.com/b6f6fdd7/troupe/tests/support/hunt"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
	"github.com/gorilla/websocket"
)

// canary is a text that belongs neither in the audit log nor in the log of the server.
const canary = "cAnArY"

var canaryInBase64 = base64.StdEncoding.EncodeToString([]byte(canary))

// planted are the members of params that hold bytes, values of variables, or headers, each with a value that holds
// the canary.
var planted = map[string]func(old any) any{
	"chunk": bytesOfCanary, "dataBase64": bytesOfCanary, "deltaBase64": bytesOfCanary, "bodyBase64": bytesOfCanary,
	"env": variablesOfCanary, "set": variablesOfCanary,
	"headers":  func(any) any { return []obj{{"name": "X-Canary", "value": canary}} },
	"metadata": anyOfCanary, "sandbox": anyOfCanary, "sandboxPolicy": anyOfCanary, "managedNetwork": anyOfCanary, "networkProxy": anyOfCanary,
	"permissionProfile": anyOfCanary, "labels": anyOfCanary,
	"url": func(old any) any {
		return strings.Replace(old.(string), "://", "://"+canary+":"+canary+"@", 1) + "/" + canary + "?" + canary
	},
}

func bytesOfCanary(any) any { return canaryInBase64 }

func anyOfCanary(any) any { return obj{"X": canary} }

func variablesOfCanary(old any) any {
	all := obj{"PLANTED": canary, "PATH": "/usr/bin:/bin:/" + canary}
	if m, ok := old.(obj); ok {
		maps.Copy(m, all)
		return m
	}
	return all
}

// plant puts canaries into params; wrong plants values of wrong types. plant returns v.
func plant(v any, wrong bool) any {
	switch v := v.(type) {
	case obj:
		for name, member := range v {
			value := planted[name]
			switch {
			case value == nil:
				v[name] = plant(member, wrong)
			case wrong:
				v[name] = []any{canary + "!", obj{"X": obj{"x": canary}}, []any{canary}}[rand.IntN(3)]
			default:
				v[name] = value(member)
			}
		}
		if argv, ok := v["argv"].([]any); ok && len(argv) > 0 && v["tty"] != nil && v["shellSnapshot"] == nil && rand.IntN(2) == 0 {
			v["argv"] = sh("echo $PLANTED; echo $PLANTED >&2; cat")
			v["envPolicy"] = obj{"inherit": "all", "ignoreDefaultExcludes": false, "exclude": []any{}, "set": variablesOfCanary(nil), "includeOnly": []any{}}
			v["ready"] = obj{"line": "no such line"}
		}
		if command, ok := v["command"].([]any); ok && len(command) > 0 && !wrong {
			v["env"] = variablesOfCanary(nil)
		}
	case []any:
		for i := range v {
			v[i] = plant(v[i], wrong)
		}
	}
	return v
}

// TestCanaries: values of variables, input, output, headers, URLs and contents of files are neither in the audit log
// nor in the log of the server. The canary is in every such member of every method, on both wires, in right and in
// wrong types.
func TestCanaries(t *testing.T) {
	t.Parallel()
	for _, all := range peer.Methods.Params() {
		for _, params := range all {
			wantPlanted(t, reflect.TypeOf(params))
		}
	}
	r, web, dir := newRecord(t), dawdler(t), testroot.Dir(t, "")
	s := startConfined(t, nil, []string{dir, filepath.Dir(r.path)}, "--audit", r.path, "--allow-http", "--verbose", "--closed-retention", "0")
	token := newToken(t)
	var output atomic.Int64 // notifications with the canary, which a program has printed
	seen := make(map[string]bool)
	talk := func(seed uint64, handshake []string, each func(method string) bool) {
		ws, _, err := websocket.DefaultDialer.Dial(s.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer ws.Close()
		over := make(chan struct{})
		go func() {
			defer close(over)
			for {
				_, m, err := ws.ReadMessage()
				if err != nil || strings.Contains(string(m), `"id":99999`) {
					return
				}
				if strings.Contains(string(m), canaryInBase64) && strings.Contains(string(m), `"method":"process/output"`) {
					output.Add(1)
				}
			}
		}()
		send := func(text string) { ws.WriteMessage(websocket.TextMessage, []byte(text)) } // after session/close it fails
		for _, text := range handshake {
			send(text)
		}
		if len(handshake) > 0 {
			before := output.Load()
			send(`{"id":"p","method":"process/start","params":{"processId":"printer","argv":["sh","-c","echo $PLANTED; echo $PLANTED >&2; exec cat"],"cwd":"file:///","env":{"PATH":"/usr/bin:/bin","PLANTED":"` + canary + `"},"tty":false,"pipeStdin":true}}`)
			send(`{"id":"w","method":"process/write","params":{"processId":"printer","writeId":"1","chunk":"` + canaryInBase64 + `"}}`)
			send(`{"id":"q","method":"process/start","params":{"processId":"q","argv":["no-such-program"],"cwd":"file:///","env":{"PATH":"/usr/bin:/` + canary + `"},"tty":false}}`)
			eventually(t, "the output of a program with the canary", func() bool { return output.Load() >= before+2 })
		}
		h := hunt.New(seed, 0, token, dir, web.URL)
		for range 12 {
			for i, frame := range h.Batch() {
				m, err := fromJSON([]byte(frame))
				if err != nil {
					t.Fatal(err)
				}
				method := m["method"].(string)
				if !each(method) {
					continue
				}
				seen[method] = true
				m["params"] = plant(m["params"], i%4 == 3)
				if params, ok := m["params"].(obj); ok {
					soon(method, params)
					if i%10 == 9 {
						params[slices.Sorted(maps.Keys(planted))[rand.IntN(len(planted))]] = obj{"X": canary}
					}
				}
				send(jsonText(m))
			}
		}
		send(`{"id":9999,"method":"process/write","params":{"processId":"p1","writeId":"w","chunk":"` + canaryInBase64) // no JSON
		send(`{"id":99999,"method":"server/info"}`)
		if each("session/close") {
			seen["session/close"] = true
			send(`{"id":99998,"method":"session/close","params":{"sessionId":"` + canary[:3] + `"}}`)
		}
		select {
		case <-over:
		case <-time.After(factTimeout):
			t.Fatal("the last request has no answer")
		}
	}
	most := func(method string) bool { return method != "session/close" && method != "initialize" }
	exec := []string{`{"id":0,"method":"initialize","params":{"clientName":"t"}}`, `{"method":"initialized"}`}
	app := []string{`{"id":0,"method":"initialize","params":{"clientInfo":{"name":"n","version":"1"},"capabilities":{"experimentalApi":true}}}`}
	for seed := range uint64(4) {
		talk(seed, exec, most)
		talk(seed, app, most)
	}
	talk(9, exec, func(string) bool { return true })
	talk(10, nil, func(string) bool { return true })
	for _, method := range hunt.Methods() {
		if !seen[method] {
			t.Errorf("%s was not sent", method)
		}
	}
	s.stop()
	text := r.text()
	if !strings.Contains(text, `"PLANTED"`) {
		t.Error("the record has no name of a variable: no start had the canary")
	}
	for where, text := range map[string]string{"record": text, "log": s.stderr.String()} {
		found := 0
		for line := range strings.Lines(text) {
			if strings.Contains(strings.ToLower(line), strings.ToLower(canary)) || strings.Contains(line, canaryInBase64) {
				if found++; found < 6 {
					t.Errorf("the %s has a canary: %.600s", where, line)
				}
			}
		}
	}
	names, _ := os.ReadDir(dir)
	t.Logf("%d lines of the record, %d notifications with the canary, %d files", strings.Count(text, "\n"), output.Load(), len(names))
}

// soon has no request wait for long: the server stops reading while many wait.
func soon(method string, params obj) {
	switch method {
	case "process/wait", "process/spawn", "command/exec", "http/request":
		params["timeoutMs"] = 50
	case "process/read":
		params["waitMs"] = 1
	}
}

// wantPlanted fails if params have a member that may hold a secret, and that the test does not plant.
func wantPlanted(t *testing.T, of reflect.Type) {
	var look func(of reflect.Type, name string)
	seen := make(map[reflect.Type]bool)
	look = func(of reflect.Type, name string) {
		switch of.Kind() {
		case reflect.Pointer:
			look(of.Elem(), name)
			return
		case reflect.Slice:
			if of.Elem().Kind() != reflect.Uint8 {
				look(of.Elem(), name)
				return
			}
		case reflect.Map:
			if e := of.Elem(); e.Kind() != reflect.String && !(e.Kind() == reflect.Pointer && e.Elem().Kind() == reflect.String) {
				return
			}
		case reflect.Struct:
			if seen[of] {
				return
			}
			seen[of] = true
			for i := range of.NumField() {
				if f := of.Field(i); f.IsExported() {
					tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
					look(f.Type, tag)
				}
			}
			return
		default:
			return
		}
		if planted[name] == nil {
			t.Errorf("%v has the member %q of type %v, and the test plants no canary there", of, name, of)
		}
	}
	look(of, "")
}
