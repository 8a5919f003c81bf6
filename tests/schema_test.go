package tests

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/testroot"
	"github.com/google/jsonschema-go/jsonschema"
)

// schemas checks messages by docs/protocol/schema.json. What the server sends is checked strictly: it has no member that the schema
// lacks.
type schemas struct {
	methods, notifications map[string]struct {
		Params, Result []string // names of definitions
	}
	defs map[string]json.RawMessage // by name

	mu             sync.Mutex
	loose, strict  map[string]*jsonschema.Resolved // by reference; made when they are asked for
	begun, checked map[string]int                  // results and notifications, by method
}

// wireSchemas are the schemas, for all tests.
var wireSchemas = sync.OnceValue(func() *schemas {
	text, err := os.ReadFile("../docs/protocol/schema.json")
	if err != nil {
		panic(err)
	}
	s := &schemas{loose: make(map[string]*jsonschema.Resolved), strict: make(map[string]*jsonschema.Resolved), begun: make(map[string]int), checked: make(map[string]int)}
	var document struct {
		Methods       any `json:"x-methods"`
		Notifications any `json:"x-notifications"`
		Defs          any `json:"$defs"`
	}
	document.Methods, document.Notifications, document.Defs = &s.methods, &s.notifications, &s.defs
	if err := json.Unmarshal(text, &document); err != nil {
		panic(err)
	}
	return s
})

var aRef = regexp.MustCompile(`"#/\$defs/(\w+)"`)

// of returns the schema of a definition, with those that it refers to. A strict schema refuses members that it does not name.
func (s *schemas) of(ref string, strict bool) *jsonschema.Resolved {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.loose
	if strict {
		known = s.strict
	}
	if known[ref] != nil {
		return known[ref]
	}
	schema := &jsonschema.Schema{Ref: ref, Defs: make(map[string]*jsonschema.Schema)}
	var add func(ref string)
	add = func(ref string) {
		name := strings.TrimPrefix(ref, "#/$defs/")
		if schema.Defs[name] != nil {
			return
		}
		def := new(jsonschema.Schema)
		if err := json.Unmarshal(s.defs[name], def); err != nil {
			panic(fmt.Sprintf("%s: %v", ref, err))
		}
		if strict && def.Properties != nil && def.AdditionalProperties == nil {
			def.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
		}
		schema.Defs[name] = def
		for _, m := range aRef.FindAllSubmatch(s.defs[name], -1) {
			add(string(m[1]))
		}
	}
	add(ref)
	resolved, err := schema.Resolve(nil)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", ref, err))
	}
	known[ref] = resolved
	return resolved
}

// fits returns an error if a value is of none of the definitions.
func (s *schemas) fits(value json.RawMessage, refs []string, strict bool) error {
	var v any
	if err := json.Unmarshal(value, &v); err != nil {
		return err
	}
	var all []string
	for _, ref := range refs {
		err := s.of(ref, strict).Validate(v)
		if err == nil {
			return nil
		}
		all = append(all, err.Error())
	}
	return fmt.Errorf("%.300s is not of %s: %s", value, refs, strings.Join(all, "; "))
}

// params checks the params of a request that was accepted. Absent and null stand for no member.
func (s *schemas) params(method string, params json.RawMessage) error {
	if params == nil || string(params) == "null" {
		params = json.RawMessage("{}")
	}
	if err := s.fits(params, s.methods[method].Params, false); err != nil {
		return fmt.Errorf("%s was accepted: %w", method, err)
	}
	return nil
}

// result checks the answer to a request that succeeded, and the request.
func (s *schemas) result(method string, params, result json.RawMessage) error {
	shape, ok := s.methods[method]
	if !ok {
		return fmt.Errorf("the schema has no method %s", method)
	}
	if err := s.params(method, params); err != nil {
		return err
	}
	if err := s.fits(result, shape.Result, true); err != nil {
		return fmt.Errorf("the answer to %s: %w", method, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checked[method]++
	return nil
}

func (s *schemas) notification(method string, params json.RawMessage) error {
	shape, ok := s.notifications[method]
	if !ok {
		return fmt.Errorf("the schema has no notification %s", method)
	}
	if err := s.fits(params, shape.Params, true); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// count returns how many messages of a method have been checked.
func (s *schemas) count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.checked[method]
}

// due reports whether the next message of a method is to be checked: the first twenty are, by all tests together.
func (s *schemas) due(method string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun[method]++
	return s.begun[method] <= 20
}

// askedFor is a request of a test.
type askedFor struct {
	method string
	params json.RawMessage
}

// checkResult checks an answer and the request. The caller holds the lock.
func (c *conn) checkResult(id, result any) {
	key := jsonText(id)
	request, ok := c.asked[key]
	delete(c.asked, key)
	if s := wireSchemas(); ok && result != nil && s.due(request.method) {
		if err := s.result(request.method, request.params, json.RawMessage(jsonText(result))); err != nil {
			c.faultf("%v", err)
		}
	}
}

// checkNotification checks a notification. The caller holds the lock.
func (c *conn) checkNotification(method string, params any) {
	if s := wireSchemas(); s.due(method) {
		if err := s.notification(method, json.RawMessage(jsonText(params))); err != nil {
			c.faultf("%v", err)
		}
	}
}

// TestSchemaOfMessages has each method of the schema answered by a real server. The harness checks the messages, as in all tests.
func TestSchemaOfMessages(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "body") }))
	t.Cleanup(web.Close)
	srv, dir := startServer(t, append(newKeyring(t).flags("ws://127.0.0.1:0"), "--allow-http")...), testroot.Dir(t, "")
	uri := func(name string) string { return "file://" + dir + "/" + name }

	const token = "token-of-alice-in-plain"
	c := srv.as(token, obj{"capabilities": obj{"groups": true, "gap": true, "restarted": true, "ready": true, "ack": true}})
	c.start("p", obj{"argv": sh("cat; sleep 1000"), "pipeStdin": true, "restart": obj{"policy": "permanent"}})
	c.start("tty", obj{"argv": sh("cat"), "tty": true})
	of := func(params obj) obj {
		params["processId"] = "p"
		return params
	}
	share := c.call("session/share", obj{"access": "read", "expiresInMs": 60_000})
	for _, step := range []struct {
		method string
		params obj
	}{
		{"environment/info", obj{}}, {"environment/status", obj{}}, {"server/info", obj{}}, {"server/events", obj{"afterUs": 0}}, {"server/watch", obj{}},
		{"session/info", obj{}}, {"session/list", obj{}}, {"session/list", obj{"detail": "processes"}}, {"session/list", obj{"detail": "info"}},
		{"session/update", obj{"name": "n", "requestId": "1"}}, {"session/shares", obj{}}, {"session/unshare", obj{"shareId": share["shareId"]}},
		{"process/list", obj{}}, {"process/info", of(obj{})}, {"process/screen", obj{"processId": "tty", "spans": true, "restore": true, "waitFor": "^", "waitMs": 60_000}}, {"process/write", of(obj{"writeId": "1", "chunk": "aGkK"})},
		{"process/read", of(obj{"afterSeq": 0, "waitMs": 60_000, "detail": "events"})}, {"process/subscribe", obj{"processId": "tty", "afterSeq": 0}},
		{"process/resize", obj{"processId": "tty", "size": obj{"rows": 9, "cols": 9}}}, {"process/closeStdin", of(obj{})},
		{"process/signal", of(obj{"signal": "continue"})}, {"process/restart", of(obj{})}, {"process/setRestart", of(obj{"restart": obj{"policy": "temporary"}})},
		{"process/terminate", of(obj{})}, {"process/wait", of(obj{})},
		{"group/start", obj{"groupId": "g", "strategy": "one_for_all", "processes": []obj{startParams("m", obj{"argv": sh("sleep 1000")})}}},
		{"group/list", obj{}}, {"group/stop", obj{"groupId": "g"}},
		{"fs/createDirectory", obj{"path": uri("d")}}, {"fs/writeFile", obj{"path": uri("d/f"), "dataBase64": "aGkK"}}, {"fs/readFile", obj{"path": uri("d/f")}},
		{"fs/getMetadata", obj{"path": uri("d/f")}}, {"fs/canonicalize", obj{"path": uri("d/f")}}, {"fs/readDirectory", obj{"path": uri("d")}},
		{"fs/walk", obj{"path": uri("d"), "options": obj{"maxDepth": 3, "maxDirectories": 10, "maxEntries": 100}}},
		{"fs/stat", obj{"path": uri("d/f")}}, {"fs/list", obj{"path": uri("d")}}, {"fs/copy", obj{"sourcePath": uri("d/f"), "destinationPath": uri("g"), "recursive": false}},
		{"fs/rename", obj{"sourcePath": uri("g"), "destinationPath": uri("h")}}, {"fs/symlink", obj{"path": uri("l"), "target": "h"}},
		{"fs/setMetadata", obj{"path": uri("h"), "mode": 0o600}}, {"fs/watchMissing", obj{"watchId": 1, "missing": []string{uri("new")}}},
		{"fs/open", obj{"handleId": "x", "path": uri("new"), "mode": "replace"}}, {"fs/writeBlock", obj{"handleId": "x", "offset": 0, "chunk": "aGkK"}},
		{"fs/close", obj{"handleId": "x"}}, {"fs/open", obj{"handleId": "y", "path": uri("new")}}, {"fs/readBlock", obj{"handleId": "y", "offset": 0, "len": 3}},
		{"fs/remove", obj{"path": uri("d"), "recursive": true, "force": false}},
		{"environmentConfig/read", obj{"cwd": uri(""), "configPaths": [][]string{{"mcp_servers"}}, "requirementsPaths": [][]string{}}},
		{"capabilityRoots/discoverV1", obj{"roots": []obj{{"id": "r", "path": uri("")}}}}, {"capabilities/discoverV2", obj{"cwd": uri("")}},
		{"http/request", obj{"method": "GET", "url": web.URL, "requestId": "q", "streamResponse": true}},
	} {
		c.call(step.method, step.params)
	}
	c.notify("session/ack", obj{"processes": obj{"p": 1}})
	c.call("session/close", obj{})

	app, _, err := dialWS(t, srv.url, http.Header{"Authorization": {"Bearer " + token}})
	if err != nil {
		t.Fatal(err)
	}
	app.call("initialize", obj{"clientInfo": obj{"name": "tests", "version": "1"}, "capabilities": obj{"experimentalApi": true}})
	app.notify("initialized", obj{})
	app.call("fs/watch", obj{"watchId": "w", "path": dir})
	app.call("fs/unwatch", obj{"watchId": "w"})
	app.call("process/spawn", obj{"command": sh("cat"), "processHandle": "s", "cwd": dir, "tty": true, "streamStdin": true})
	app.call("process/writeStdin", obj{"processHandle": "s", "deltaBase64": "aGkK"})
	app.call("process/resizePty", obj{"processHandle": "s", "size": obj{"rows": 9, "cols": 9}})
	app.call("process/kill", obj{"processHandle": "s"})
	exec := app.request("command/exec", obj{"command": sh("cat"), "processId": "e", "tty": true, "streamStdin": true, "streamStdoutStderr": true})
	app.call("command/exec/write", obj{"processId": "e", "deltaBase64": "aGkK"})
	app.call("command/exec/resize", obj{"processId": "e", "size": obj{"rows": 9, "cols": 9}})
	app.call("command/exec/terminate", obj{"processId": "e"})
	app.reply(exec)

	node := startCluster(t, []string{"a"}, nil)[0].session(nil)
	node.call("cluster/nodes", obj{})
	node.call("cluster/drain", obj{"node": "a", "forMs": 600_000})

	s := wireSchemas()
	for name, shape := range s.methods {
		if shape.Result != nil && s.count(name) == 0 {
			t.Errorf("no answer to %s has been checked: call it here", name)
		}
	}
}

// TestSchemaOfRecordings: each request of the real client that the real server answered with a result fits the schema.
func TestSchemaOfRecordings(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, name := range transcripts(t) {
		requests := make(map[string]askedFor)
		for _, l := range readTranscript(t, name) {
			var m struct {
				ID             json.RawMessage
				Method         string
				Params, Result json.RawMessage
			}
			if l.Dir == "test" || json.Unmarshal(l.Msg, &m) != nil || m.ID == nil {
				continue
			}
			key := fmt.Sprint(l.Conn, " ", string(m.ID))
			if l.Dir == "c2s" {
				requests[key] = askedFor{m.Method, m.Params}
				continue
			}
			request := requests[key]
			if _, ours := wireSchemas().methods[request.method]; m.Result == nil || !ours {
				continue
			}
			checked++
			if err := wireSchemas().params(request.method, request.params); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if checked < 200 {
		t.Errorf("only %d requests were checked", checked)
	}
}

// TestSchemaRefuses: a result with a member that the schema lacks, without a member that it has, or with a wrong type is found.
func TestSchemaRefuses(t *testing.T) {
	s := wireSchemas()
	for result, ok := range map[string]bool{
		`{"running":true}`: true, `{"running":1}`: false, `{}`: false, `{"running":true,"more":1}`: false,
	} {
		if err := s.fits(json.RawMessage(result), s.methods["process/terminate"].Result, true); (err == nil) != ok {
			t.Errorf("%s: %v", result, err)
		}
	}
}
