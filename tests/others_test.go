package tests

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/hunt"
)

var mayNameSomething = regexp.MustCompile(`(Id|ID|Ids|IDs|Handle|Token|id|processes|dependsOn|resumeFrom)$`)

// membersWithIDs returns, by method, each member of its params that may name something, as "Type.member". The source of
// package protocol says which params a method has.
func membersWithIDs(t *testing.T) map[string][]string {
	t.Helper()
	structs := make(map[string]*ast.StructType)
	comments := make(map[string]string) // by method, of its constant
	files, err := filepath.Glob("../protocol/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok {
					structs[n.Name.Name] = s
				}
			case *ast.ValueSpec:
				if strings.HasPrefix(n.Names[0].Name, "Method") && len(n.Values) == 1 {
					name, _ := strconv.Unquote(n.Values[0].(*ast.BasicLit).Value)
					comments[name] = n.Comment.Text()
				}
			}
			return true
		})
	}
	found := make(map[string][]string)
	var walk func(method, path, typeName string)
	walk = func(method, path, typeName string) {
		for _, f := range structs[typeName].Fields.List {
			inner := nameOfType(f.Type)
			switch {
			case len(f.Names) == 0: // embedded
				walk(method, path, inner)
				continue
			case f.Tag == nil:
				continue
			}
			name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
			if inner != "int64" && mayNameSomething.MatchString(name) {
				found[method] = append(found[method], path+"."+name)
			}
			if inner != typeName && structs[inner] != nil {
				walk(method, path+"."+name, inner)
			}
		}
	}
	for method, comment := range comments {
		for form := range strings.SplitSeq(comment, ";") {
			name, _, _ := strings.Cut(strings.TrimSpace(form), " ")
			if structs[name] == nil {
				if method != "environment/status" && name != "a" { // the latter in "a notification"
					t.Errorf("the comment of %s begins with %q, want the type of its params", method, name)
				}
				continue
			}
			walk(method, name, name)
		}
	}
	return found
}

// nameOfType returns the name of a type, or of its elements.
func nameOfType(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return nameOfType(e.X)
	case *ast.ArrayType:
		return nameOfType(e.Elt)
	case *ast.MapType:
		return nameOfType(e.Value)
	}
	return ""
}

// asApp is as over the app-server's wire.
func (s *server) asApp(token string) *conn {
	s.t.Helper()
	c, _, err := dialWS(s.t, s.url, http.Header{"Authorization": {"Bearer " + token}})
	if err != nil {
		s.t.Fatal(err)
	}
	c.sessionID = c.call("initialize", obj{"clientInfo": obj{"name": "tests", "version": "1"}, "capabilities": obj{"experimentalApi": true}})["sessionId"].(string)
	return c
}

// TestSessionsOfOthers: for each method, and each member of its params that names something, a name of somebody else
// gives the same answer as a name that nobody has. Both wires.
func TestSessionsOfOthers(t *testing.T) {
	t.Parallel()
	const alices, mallorys = "token-of-alice-in-plain", "new-token-of-carol"
	k := newKeyring(t)
	s := startServer(t, append(k.flags("ws://127.0.0.1:0"), "--allow-http")...)
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := obj{"PATH": "/usr/bin:/bin"}
	start := func(id string, more obj) obj {
		params := obj{"processId": id, "argv": []string{"true"}, "cwd": "file:///", "env": env, "tty": false}
		maps.Copy(params, more)
		return params
	}
	group := func(id string, more obj, members ...any) obj {
		params := obj{"groupId": id, "strategy": "one_for_one", "processes": members}
		maps.Copy(params, more)
		return params
	}

	// Alice has something of each kind, on both wires, with the name theirs.
	alice, app := s.as(alices, nil), s.asApp(alices)
	p := alice.start("theirs", obj{"argv": []string{"cat"}, "pipeStdin": true, "startToken": "theirs", "restart": obj{"policy": "temporary"}})
	alice.call("group/start", group("theirs", obj{"startToken": "theirs-too"}, start("m1", obj{"argv": []string{"sleep", "1000"}})))
	alice.call("process/setRestart", obj{"processId": "theirs", "restart": obj{"policy": "temporary"}, "requestId": "theirs"})
	alice.call("process/write", obj{"processId": "theirs", "writeId": "theirs", "chunk": ""})
	alice.call("command/exec", obj{"argv": []string{"sleep", "1000"}, "cwd": "/", "env": env, "tty": true})
	for _, c := range []*conn{alice, app} {
		c.call("process/spawn", obj{"command": []string{"sleep", "1000"}, "processHandle": "theirs", "cwd": "/", "timeoutMs": 1_000_000})
		c.request("command/exec", obj{"command": []string{"sleep", "1000"}, "processId": "theirs", "streamStdin": true, "timeoutMs": 1_000_000})
		c.call("fs/open", obj{"handleId": "theirs", "path": "file://" + file, "mode": "replace"})
	}
	app.call("fs/watch", obj{"watchId": "theirs", "path": dir})
	share, shareToken := alice.share(obj{"access": "type"})
	alice.request("fs/watchMissing", obj{"watchId": 77, "paths": []string{"file://" + dir + "/missing"}})

	// A call has params with a name. mine is a running process of mallory.
	type call struct {
		params func(id string) obj
		theirs any // nil: theirs
	}
	by := func(member string, more obj) call {
		return call{params: func(id string) obj {
			params := obj{member: id}
			maps.Copy(params, more)
			return params
		}}
	}
	mine := func(member string, more obj) call {
		more["processId"] = "mine"
		return by(member, more)
	}
	ofSession := func(c call) call { c.theirs = alice.sessionID; return c }
	size := obj{"size": obj{"rows": 24, "cols": 80}}
	policy := obj{"restart": obj{"policy": "temporary"}}
	calls := map[string]call{
		"process/start ProcessStartParams.processId":             {params: func(id string) obj { return start(id, nil) }},
		"process/start ProcessStartParams.startToken":            {params: func(id string) obj { return start("new", obj{"startToken": id}) }},
		"process/start ProcessStartParams.dependsOn":             {params: func(id string) obj { return start("new", obj{"dependsOn": []string{id}}) }},
		"process/start ProcessStartParams.shellSnapshot.scopeId": {params: func(id string) obj { return start("new", obj{"shellSnapshot": obj{"scopeId": id}}) }},
		"process/read ProcessReadParams.processId":               by("processId", nil),
		"process/write ProcessWriteParams.processId":             by("processId", obj{"writeId": "1", "chunk": "aGk="}),
		"process/write ProcessWriteParams.writeId":               mine("writeId", obj{"chunk": "aGk="}),
		"process/signal ProcessSignalParams.processId":           by("processId", obj{"signal": "interrupt"}),
		"process/signal ProcessSignalParams.requestId":           mine("requestId", obj{"signal": "interrupt"}),
		"process/terminate ProcessTerminateParams.processId":     by("processId", obj{"tree": true}),
		"process/terminate ProcessTerminateParams.requestId":     mine("requestId", obj{"tree": true}),
		"process/closeStdin ProcessCloseStdinParams.processId":   by("processId", nil),
		"process/closeStdin ProcessCloseStdinParams.requestId":   mine("requestId", obj{}),
		"process/resize ProcessResizeParams.processId":           by("processId", size),
		"process/resize ProcessResizeParams.requestId":           mine("requestId", maps.Clone(size)),
		"process/wait ProcessWaitParams.processId":               by("processId", obj{"timeoutMs": 1}),
		"process/restart ProcessRestartParams.processId":         by("processId", nil),
		"process/restart ProcessRestartParams.requestId":         mine("requestId", obj{}),
		"process/setRestart ProcessSetRestartParams.processId":   by("processId", policy),
		"process/setRestart ProcessSetRestartParams.requestId":   mine("requestId", maps.Clone(policy)),
		"process/subscribe ProcessSubscribeParams.processId":     by("processId", nil),
		"process/info ProcessInfoParams.processId":               by("processId", nil),
		"process/screen ProcessScreenParams.processId":           by("processId", nil),
		"process/list ProcessListParams.processIds":              {params: func(id string) obj { return obj{"processIds": []string{id}} }},

		"group/start GroupStartParams.groupId":                         {params: func(id string) obj { return group(id, nil, start("new", nil)) }},
		"group/start GroupStartParams.startToken":                      {params: func(id string) obj { return group("new", obj{"startToken": id}, start("new", nil)) }, theirs: "theirs-too"},
		"group/start GroupStartParams.processes.processId":             {params: func(id string) obj { return group("new", nil, start(id, nil)) }},
		"group/start GroupStartParams.processes.startToken":            {params: func(id string) obj { return group("new", nil, start("new", obj{"startToken": id})) }},
		"group/start GroupStartParams.processes.dependsOn":             {params: func(id string) obj { return group("new", nil, start("new", obj{"dependsOn": []string{id}})) }},
		"group/start GroupStartParams.processes.shellSnapshot.scopeId": {params: func(id string) obj { return group("new", nil, start("new", obj{"shellSnapshot": obj{"scopeId": id}})) }},
		"group/stop GroupStopParams.groupId":                           by("groupId", nil),
		"group/stop GroupStopParams.requestId":                         by("requestId", obj{"groupId": "mine"}),
		"session/update SessionUpdateParams.requestId":                 by("requestId", nil),
		"session/close SessionCloseParams.sessionId":                   ofSession(by("sessionId", nil)),
		"session/unshare SessionUnshareParams.shareId":                 {params: by("shareId", nil).params, theirs: share},
		"fs/open FsOpenParams.handleId":                                by("handleId", obj{"path": "file://" + file}),
		"fs/readBlock FsReadBlockParams.handleId":                      by("handleId", obj{"offset": 0, "len": 10}),
		"fs/writeBlock FsWriteBlockParams.handleId":                    by("handleId", obj{"offset": 0, "chunk": "aGk="}),
		"fs/close FsCloseParams.handleId":                              by("handleId", nil),
		"fs/watch FsWatchParams.watchId":                               by("watchId", obj{"path": dir}),
		"fs/unwatch FsUnwatchParams.watchId":                           by("watchId", nil),
		"fs/watchMissing FsWatchMissingParams.watchId":                 {params: func(id string) obj { return obj{"watchId": json.Number(id), "paths": []string{"file://" + file}} }, theirs: "77"},
		"http/request HTTPRequestParams.requestId":                     by("requestId", obj{"method": "GET", "url": "http://127.0.0.1:1/"}),
		"process/spawn ProcessSpawnParams.processHandle":               by("processHandle", obj{"command": []string{"true"}, "cwd": "/"}),
		"process/writeStdin ProcessWriteStdinParams.processHandle":     by("processHandle", obj{"deltaBase64": "aGk="}),
		"process/resizePty ProcessResizePtyParams.processHandle":       by("processHandle", size),
		"process/kill ProcessKillParams.processHandle":                 by("processHandle", nil),
		"command/exec CommandExecParams.processId":                     by("processId", obj{"command": []string{"true"}}),
		"command/exec/write CommandExecWriteParams.processId":          by("processId", obj{"deltaBase64": "aGk="}),
		"command/exec/write FirstExecWriteParams.sessionId":            {params: by("sessionId", obj{"chunk": "aGk="}).params, theirs: "session-1"},
		"command/exec/resize CommandExecResizeParams.processId":        by("processId", size),
		"command/exec/terminate CommandExecTerminateParams.processId":  by("processId", nil),
		"command/exec/terminate FirstExecTerminateParams.sessionId":    {params: by("sessionId", nil).params, theirs: "session-1"},
	}
	// These members are not called here, and why.
	others := map[string]string{
		"initialize InitializeParams.resumeSessionId":                       "below",
		"initialize InitializeParams.resumeFrom":                            "below",
		"initialize InitializeParams.token":                                 "a credential",
		"session/ack SessionAckParams.processes":                            "below",
		"group/start GroupStartParams.processes":                            "its members are called",
		"capabilityRoots/discoverV1 CapabilityRootsDiscoverParams.roots.id": "the answer repeats it, and nothing keeps it",
	}
	others["process/start ProcessStartParams.limits.processes"] = "a number"
	others["group/start GroupStartParams.processes.limits.processes"] = "a number"
	for _, label := range []string{"threadId", "toolCallId"} {
		others["process/start ProcessStartParams.metadata."+label] = "a label of the client"
		others["group/start GroupStartParams.processes.metadata."+label] = "a label of the client"
	}
	// The params of these methods name nothing that belongs to anybody: paths belong to the machine.
	nothing := []string{"initialized", "environment/info", "environment/status", "server/info", "server/events", "server/watch", "cluster/nodes", "cluster/drain", "session/info", "session/list", "session/share", "session/shares", "group/list",
		"environmentConfig/read", "capabilities/discoverV2", "fs/readFile", "fs/writeFile", "fs/createDirectory", "fs/getMetadata", "fs/canonicalize", "fs/readDirectory", "fs/walk", "fs/remove", "fs/copy", "fs/stat", "fs/list", "fs/rename", "fs/symlink", "fs/setMetadata"}

	members := membersWithIDs(t)
	for _, method := range hunt.Methods() {
		if len(members[method]) == 0 && !slices.Contains(nothing, method) {
			t.Errorf("%s is missing in this test: do its params name something?", method)
		}
		for _, member := range members[method] {
			_, called := calls[method+" "+member]
			if _, named := others[method+" "+member]; !called && !named {
				t.Errorf("%s %s is missing in this test", method, member)
			}
		}
	}
	for name := range calls {
		method, member, _ := strings.Cut(name, " ")
		if !slices.Contains(members[method], member) {
			t.Errorf("%s is in this test, and not in package protocol", name)
		}
	}

	wires := map[string]func() *conn{
		"exec-server": func() *conn { return s.as(mallorys, knowing) }, // its program may be restarted
		"app-server":  func() *conn { return s.asApp(mallorys) },
	}
	for wire, dial := range wires {
		for name, c := range calls {
			t.Run(wire+"/"+name, func(t *testing.T) {
				theirs := "theirs"
				if c.theirs != nil {
					theirs = fmt.Sprint(c.theirs)
				}
				method, _, _ := strings.Cut(name, " ")
				answer := func(id string) string {
					mallory := dial()
					defer mallory.hangUp()
					if strings.Contains(jsonText(c.params(id)), `"mine"`) {
						mallory.start("mine", obj{"argv": []string{"cat"}, "pipeStdin": true, "restart": obj{"policy": "temporary"}})
						mallory.call("group/start", group("mine", nil, start("member", obj{"argv": []string{"sleep", "1000"}})))
					}
					answer := mallory.reply(mallory.request(method, c.params(id)))
					delete(answer, "id")
					mallory.request("session/close", obj{})
					return strings.NewReplacer(id, "ID", mallory.sessionID, "OWN").Replace(jsonText(answer))
				}
				unknown := strings.Repeat("z", len(theirs))
				if theirs == "77" {
					unknown = "78"
				}
				if got, want := answer(theirs), answer(unknown); got != want {
					t.Errorf("of %s: %s, of %s: %s", theirs, got, unknown, want)
				}
			})
		}
		t.Run(wire+"/lists", func(t *testing.T) {
			mallory := dial()
			for _, method := range nothing {
				if method == "initialized" || strings.HasPrefix(method, "fs/") || strings.HasPrefix(method, "cap") || strings.HasPrefix(method, "environmentC") {
					continue
				}
				answer := jsonText(mallory.reply(mallory.request(method, obj{"afterUs": 0}))) // of server/events: all of them
				for _, name := range []string{"theirs", alice.sessionID, app.sessionID, "alice"} {
					if name == "theirs" && method == "server/events" {
						continue // she has had such processes herself
					}
					if strings.Contains(answer, name) {
						t.Errorf("%s tells of %s: %s", method, name, answer)
					}
				}
			}
		})
	}

	unknown := "00000000-0000-4000-8000-000000000000"
	for _, more := range []obj{nil, {"takeover": true}, {"role": "observer"}, {"resumeFrom": obj{"theirs": 0}}, {"takeover": true, "resumeFrom": obj{"theirs": 0}}} {
		for _, of := range []string{alice.sessionID, app.sessionID} {
			answer := func(id string) string {
				c, _, err := dialWS(t, s.url, http.Header{"Authorization": {"Bearer " + mallorys}})
				if err != nil {
					t.Fatal(err)
				}
				params := obj{"clientName": "tests", "resumeSessionId": id}
				maps.Copy(params, more)
				m := c.reply(c.request("initialize", params))
				delete(m, "id")
				return strings.ReplaceAll(jsonText(m), id, "ID")
			}
			if got, want := answer(of), answer(unknown); got != want || !strings.Contains(got, "unknown session id ID") {
				t.Errorf("initialize %v: %s, of an unknown session: %s", more, got, want)
			}
		}
	}
	// session/ack has no answer: the connection goes on, and Alice gets her output again below.
	for _, capabilities := range []obj{{}, {"ack": true}} {
		mallory := s.as(mallorys, obj{"capabilities": capabilities})
		for _, id := range []string{"theirs", "unknown"} {
			mallory.notify("session/ack", obj{"processes": obj{id: 1 << 40}})
			mallory.call("server/info", obj{})
		}
	}

	// Nothing has happened to the session, and it comes back to its owner.
	p.write("still here\n")
	p.awaitOutput("stdout", "still here\n")
	states := map[string]bool{}
	for _, process := range alice.call("process/list", obj{})["processes"].([]any) {
		states[fmt.Sprint(process.(obj)["processId"], " ", process.(obj)["state"])] = true
	}
	if got := slices.Sorted(maps.Keys(states)); !slices.Equal(got, []string{"m1 running", "theirs running"}) {
		t.Errorf("processes of the owner: %v", got)
	}
	for _, c := range []*conn{alice, app} {
		c.call("fs/close", obj{"handleId": "theirs"})
		c.call("process/kill", obj{"processHandle": "theirs"})
		c.call("command/exec/terminate", obj{"processId": "theirs"})
	}
	s.as(shareToken, nil).call("session/info", obj{})
	again := s.as(alices, obj{"resumeSessionId": alice.sessionID, "takeover": true, "resumeFrom": obj{"theirs": 0}})
	again.process("theirs").awaitOutput("stdout", "still here\n")
}

// BenchmarkNamesOfOthers compares the time of the answer for a name of somebody else with the time for a name that nobody
// has: the medians, and their ratio.
func BenchmarkNamesOfOthers(b *testing.B) {
	const unknown = "00000000-0000-4000-8000-000000000000"
	k := newKeyring(b)
	s := startServer(b, k.flags("ws://127.0.0.1:0")...)
	alice := s.as("token-of-alice-in-plain", nil)
	alice.start(alice.sessionID, obj{"argv": []string{"sleep", "1000"}})
	stranger := s.as("new-token-of-carol", obj{"resumeSessionId": unknown}) // without a session
	mallory := s.as("new-token-of-carol", nil)
	for _, c := range []struct {
		client *conn
		method string
		params func(id string) obj
	}{
		{stranger, "initialize", func(id string) obj { return obj{"clientName": "b", "resumeSessionId": id} }},
		{stranger, "initialize", func(id string) obj { return obj{"clientName": "b", "resumeSessionId": id, "role": "observer"} }},
		{stranger, "initialize", func(id string) obj { return obj{"clientName": "b", "resumeSessionId": id, "takeover": true} }},
		{mallory, "session/close", func(id string) obj { return obj{"sessionId": id} }},
		{mallory, "process/read", func(id string) obj { return obj{"processId": id} }},
		{mallory, "process/signal", func(id string) obj { return obj{"processId": id, "signal": "interrupt"} }},
	} {
		b.Run(fmt.Sprint(c.method, " ", len(c.params(""))), func(b *testing.B) {
			var took [2][]time.Duration
			for b.Loop() {
				for i, id := range []string{alice.sessionID, unknown} {
					begun := time.Now()
					c.client.reply(c.client.request(c.method, c.params(id)))
					took[i] = append(took[i], time.Since(begun))
				}
			}
			var medians [2]time.Duration
			for i := range took {
				slices.Sort(took[i])
				medians[i] = took[i][len(took[i])/2]
			}
			b.ReportMetric(float64(medians[0].Nanoseconds()), "ns/theirs")
			b.ReportMetric(float64(medians[1].Nanoseconds()), "ns/unknown")
			b.ReportMetric(float64(medians[0])/float64(medians[1]), "ratio")
		})
	}
}
