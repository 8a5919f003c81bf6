// Package hunt makes batches of requests of every method, at random. The same seed gives the same batches. Tests
// reset connections in the middle of a batch, and then look for leftovers.
package hunt

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Hunt is a source of batches. One goroutine at a time may use a Hunt.
type Hunt struct {
	*rand.Rand
	// Token is a number of seconds for sleep(1). No other program has this number as an argument, and each
	// long-lived program of a batch has it.
	Token string
	// Dir is a directory to read and write in.
	Dir string
	// URL is where HTTP requests go.
	URL string

	id int // of the newest request
}

// New returns a source. Sources with the same seeds make the same batches.
func New(seed, stream uint64, token, dir, url string) *Hunt {
	return &Hunt{Rand: rand.New(rand.NewPCG(seed, stream)), Token: token, Dir: dir, URL: url}
}

type obj = map[string]any

// Methods returns the methods of all requests in batches, in order.
func Methods() []string { return slices.Sorted(maps.Keys(methods)) }

// HandshakeID is the id of the initialize in a Handshake.
const HandshakeID = "1"

// Handshake opens a session that ends soon after its connection, or resumes a session.
func (h *Hunt) Handshake(resume string) []string {
	h.id = 0
	params := obj{"clientName": "hunt", "session": obj{"detachedTtlMs": 1 + h.IntN(50)},
		"capabilities": obj{"ack": h.IntN(4) == 0, "groups": true, "gap": true, "restarted": true, "ready": true, "onlyNamed": h.IntN(4) == 0}}
	if resume != "" {
		params["resumeSessionId"], params["takeover"] = resume, h.IntN(3) > 0
		params["resumeFrom"] = obj{h.process(): h.IntN(3)}
		if h.IntN(3) == 0 {
			params["role"] = pick(h, "observer", "controller")
		}
	}
	return []string{h.request("initialize", params), `{"method":"initialized"}`}
}

// Batch returns some requests: few or many, of all methods or of a few, or starts of several programs in a row.
func (h *Hunt) Batch() (frames []string) {
	all := Methods()
	switch h.IntN(4) {
	case 0:
		h.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:1+h.IntN(4)]
	case 1:
		all = []string{protocol.MethodCommandExec, protocol.MethodProcessSpawn, pick(h, all...)}
	}
	for range 1 + h.IntN(pick(h, 10, 40, 200)) {
		method := all[h.IntN(len(all))]
		if method == protocol.MethodSessionClose && h.IntN(8) > 0 {
			method = protocol.MethodSessionInfo // or most batches end early
		}
		params := methods[method](h)
		if h.IntN(5) == 0 {
			h.confine(method, params)
		}
		switch method {
		case protocol.MethodInitialized, protocol.MethodSessionAck:
			frames = append(frames, encode(obj{"method": method, "params": params}))
		default:
			frames = append(frames, h.request(method, params))
		}
	}
	return frames
}

// Params returns params for a request of a method.
func (h *Hunt) Params(method string) any { return methods[method](h) }

func (h *Hunt) request(method string, params any) string {
	h.id++
	return encode(obj{"id": h.id, "method": method, "params": params})
}

// confine asks for a sandbox, if the method has any.
func (h *Hunt) confine(method string, params any) {
	p := params.(obj)
	switch {
	case method == protocol.MethodProcessStart, strings.HasPrefix(method, "fs/"):
		p["sandbox"] = h.sandbox()
	case method == protocol.MethodGroupStart:
		for _, member := range p["processes"].([]any) {
			member.(obj)["sandbox"] = h.sandbox()
		}
	case method == protocol.MethodCommandExec && p["command"] != nil:
		// The working directory is the workspace of this sandbox, so it must not be that of the server: the server makes places like
		// .git unwritable there, and these are seen outside.
		p["cwd"] = h.Dir
		p["sandboxPolicy"] = obj{"type": pick(h, "readOnly", "workspaceWrite", "externalSandbox", "dangerFullAccess", "unknown")}
	}
}

// sandbox returns a sandbox: that of a mode, one that hides something or leaves files alone, or one that is wrong.
func (h *Hunt) sandbox() json.RawMessage {
	s := pick(h, protocol.ReadOnlySandbox, protocol.WorkspaceSandbox)(h.Dir)
	s.Network = h.IntN(2) == 0
	switch h.IntN(6) {
	case 0:
		s.Entries = append(s.Entries, protocol.SandboxEntry{Kind: protocol.SandboxPath, Path: h.path(), Access: protocol.SandboxDeny})
	case 1:
		s.Entries = append(s.Entries, protocol.SandboxEntry{Kind: protocol.SandboxGlob, Path: protocol.SandboxGlobInRoots + "**/c", Access: protocol.SandboxDeny})
	case 2:
		s.Restricted = false
	case 3:
		s.Entries = s.Entries[1:] // without the root
	case 4:
		return json.RawMessage(`{"permissions":{"type":"none"},"windowsSandboxLevel":"disabled"}`)
	}
	return s.JSON()
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func pick[T any](h *Hunt, of ...T) T { return of[h.IntN(len(of))] }

// Ids are few, so requests often share an id. The empty id is an id like any other.

func (h *Hunt) process() string { return pick(h, "", "p1", "p2", "p3", "m1", "m2") }
func (h *Hunt) group() string   { return pick(h, "", "g1", "g2") }
func (h *Hunt) handle() string  { return pick(h, "", "h1", "h2") }
func (h *Hunt) command() string { return fmt.Sprint("c", h.IntN(1+h.IntN(50))) }
func (h *Hunt) path() string    { return h.Dir + pick(h, "", "/a", "/b", "/sub", "/sub/c") }
func (h *Hunt) uri() string     { return "file://" + h.path() }
func (h *Hunt) bytes() string   { return base64.StdEncoding.EncodeToString(make([]byte, h.IntN(2000))) }
func (h *Hunt) size() obj       { return obj{"rows": 1 + h.IntN(50), "cols": 1 + h.IntN(100)} }

// program returns the argv of a program to start. Each long-lived program has the token.
func (h *Hunt) program() []string {
	script := func(s string) []string { return []string{"sh", "-c", s, h.Token} }
	return pick(h,
		[]string{"true"},
		[]string{"sleep", h.Token},
		[]string{"/no/such/program"},
		script(`sleep $0 & exec sleep $0`),
		script(`trap "" TERM HUP; sleep $0 & wait; sleep $0`),
		script(`setsid sleep $0 & echo up; read x; exit 3`),
		script(`head -c 300000 /dev/zero; sleep $0`),
	)
}

// start are the params of process/start, also of a member of a group.
func (h *Hunt) start(id string) obj {
	p := obj{"processId": id, "argv": h.program(), "cwd": "file:///", "env": obj{"PATH": "/usr/bin:/bin"}, "tty": h.IntN(4) == 0}
	maybe := func(name string, v any) {
		if h.IntN(5) == 0 {
			p[name] = v
		}
	}
	maybe("pipeStdin", true)
	maybe("startToken", "token of "+id)
	maybe("timeoutMs", h.IntN(100))
	maybe("killGraceMs", h.IntN(50))
	maybe("retention", obj{"bytes": 8 << 10, "onFull": pick(h, "block", "evict", "spool")})
	maybe("restart", obj{"policy": pick(h, "permanent", "transient"), "backoff": obj{"initialMs": 1}})
	maybe("ready", pick(h, obj{"line": "up"}, obj{"delayMs": 5}, obj{"file": h.uri()}))
	maybe("liveness", obj{"probe": obj{"argv": []string{"sh", "-c", "sleep 0.01", h.Token}, "everyMs": 5}})
	if h.IntN(10) == 0 {
		p["argv"] = []string{"/bin/sh", "-lc", "sleep $0", h.Token}
		p["shellSnapshot"] = obj{"scopeId": pick(h, "a", "b"), "shell": obj{"name": "sh", "path": "/bin/sh"}}
	}
	return p
}

var methods = map[string]func(h *Hunt) any{
	protocol.MethodInitialize:        func(h *Hunt) any { return obj{"clientName": "again"} },
	protocol.MethodInitialized:       func(h *Hunt) any { return obj{} },
	protocol.MethodEnvironmentInfo:   func(h *Hunt) any { return obj{} },
	protocol.MethodEnvironmentStatus: func(h *Hunt) any { return obj{} },
	protocol.MethodServerInfo:        func(h *Hunt) any { return obj{} },
	protocol.MethodClusterNodes:      func(h *Hunt) any { return obj{} },
	protocol.MethodClusterDrain:      func(h *Hunt) any { return obj{"node": h.process(), "forMs": h.IntN(3)} },
	protocol.MethodServerEvents: func(h *Hunt) any {
		return pick(h, obj{}, obj{"afterUs": 0}, obj{"waitMs": 20}, obj{"afterUs": 1 << 52, "waitMs": 20}, obj{"afterUs": 0, "last": 1 + h.IntN(300)}, obj{"instance": h.process(), "waitMs": 20})
	},
	protocol.MethodServerWatch:  func(h *Hunt) any { return pick(h, obj{}, obj{"everyMs": 0}, obj{"everyMs": 200 + h.IntN(300)}) },
	protocol.MethodSessionInfo:  func(h *Hunt) any { return obj{} },
	protocol.MethodSessionList:  func(h *Hunt) any { return pick(h, obj{}, obj{"detail": "processes"}, obj{"detail": "info"}) },
	protocol.MethodSessionClose: func(h *Hunt) any { return obj{} },
	protocol.MethodSessionShare: func(h *Hunt) any {
		return obj{"access": pick(h, "read", "type"), "expiresInMs": 1 + h.IntN(50)}
	},
	protocol.MethodSessionShares: func(h *Hunt) any { return obj{} },
	protocol.MethodSessionUpdate: func(h *Hunt) any {
		// With keepRunning true the session would live as long as its programs.
		return obj{"name": h.process(), "detachedTtlMs": 1 + h.IntN(50), "keepRunning": false, "requestId": h.process()}
	},
	protocol.MethodSessionUnshare: func(h *Hunt) any { return obj{"shareId": h.process()} },
	protocol.MethodSessionAck:     func(h *Hunt) any { return obj{"processes": obj{h.process(): h.IntN(5)}} },

	protocol.MethodProcessStart: func(h *Hunt) any { return h.start(h.process()) },
	protocol.MethodProcessRead: func(h *Hunt) any {
		return obj{"processId": h.process(), "afterSeq": h.IntN(3), "waitMs": pick(h, 0, 5, 100_000), "detail": pick(h, "times", "events")}
	},
	protocol.MethodProcessSubscribe: func(h *Hunt) any { return obj{"processId": h.process(), "afterSeq": h.IntN(3)} },
	protocol.MethodProcessWrite: func(h *Hunt) any {
		return obj{"processId": h.process(), "writeId": fmt.Sprint(h.IntN(10)), "chunk": h.bytes()}
	},
	protocol.MethodProcessCloseStdin: func(h *Hunt) any { return obj{"processId": h.process()} },
	protocol.MethodProcessSignal: func(h *Hunt) any {
		return obj{"processId": h.process(), "signal": pick(h, "interrupt", "SIGSTOP", "continue")}
	},
	protocol.MethodProcessTerminate: func(h *Hunt) any {
		return obj{"processId": h.process(), "graceMs": h.IntN(20), "tree": h.IntN(2) == 0}
	},
	protocol.MethodProcessResize: func(h *Hunt) any { return obj{"processId": h.process(), "size": h.size()} },
	protocol.MethodProcessWait:   func(h *Hunt) any { return obj{"processId": h.process(), "timeoutMs": pick(h, 0, 5, 100_000)} },
	protocol.MethodProcessInfo:   func(h *Hunt) any { return obj{"processId": h.process()} },
	protocol.MethodProcessScreen: func(h *Hunt) any {
		return obj{"processId": h.process(), "scrollback": h.IntN(3), "spans": h.IntN(2) == 0, "restore": h.IntN(2) == 0, "afterSeq": h.IntN(3), "waitFor": pick(h, "", "[a-z]"), "quietMs": h.IntN(3), "waitMs": pick(h, 0, 5, 100_000)}
	},
	protocol.MethodProcessList: func(h *Hunt) any {
		return pick(h, obj{}, obj{"processIds": []string{h.process(), h.process()}}, obj{"states": []string{"running", "closed"}}, obj{"group": h.group()})
	},
	protocol.MethodProcessRestart: func(h *Hunt) any { return obj{"processId": h.process()} },
	protocol.MethodProcessSetRestart: func(h *Hunt) any {
		return obj{"processId": h.process(), "restart": obj{"policy": "temporary"}}
	},

	protocol.MethodGroupStart: func(h *Hunt) any {
		one, two := h.start("m1"), h.start("m2")
		two["dependsOn"] = []string{"m1"}
		strategy := pick(h, "one_for_one", "one_for_all", "rest_for_one", "independent")
		return obj{"groupId": h.group(), "strategy": strategy, "extend": strategy == "independent", "processes": []any{one, two}}
	},
	protocol.MethodGroupStop: func(h *Hunt) any { return obj{"groupId": h.group()} },
	protocol.MethodGroupList: func(h *Hunt) any { return obj{} },

	protocol.MethodProcessSpawn: func(h *Hunt) any {
		return obj{"command": h.program(), "processHandle": h.command(), "cwd": "/", "tty": h.IntN(4) == 0, "streamStdin": h.IntN(2) == 0, "streamStdoutStderr": h.IntN(2) == 0}
	},
	protocol.MethodProcessWriteStdin: func(h *Hunt) any {
		return obj{"processHandle": h.command(), "deltaBase64": h.bytes(), "closeStdin": h.IntN(2) == 0}
	},
	protocol.MethodProcessResizePty: func(h *Hunt) any { return obj{"processHandle": h.command(), "size": h.size()} },
	protocol.MethodProcessKill:      func(h *Hunt) any { return obj{"processHandle": h.command()} },

	protocol.MethodCommandExec: func(h *Hunt) any {
		switch h.IntN(3) {
		case 0:
			return obj{"argv": h.program(), "cwd": "/", "sessionId": h.command()}
		case 1:
			return obj{"command": h.program()}
		}
		return obj{"command": h.program(), "processId": h.command(), "streamStdin": h.IntN(2) == 0, "streamStdoutStderr": h.IntN(2) == 0}
	},
	protocol.MethodCommandExecWrite: func(h *Hunt) any {
		if h.IntN(2) == 0 {
			return obj{"sessionId": h.command(), "chunk": h.bytes()}
		}
		return obj{"processId": h.command(), "deltaBase64": h.bytes()}
	},
	protocol.MethodCommandExecResize:    func(h *Hunt) any { return obj{"processId": h.command(), "size": h.size()} },
	protocol.MethodCommandExecTerminate: func(h *Hunt) any { return obj{pick(h, "processId", "sessionId"): h.command()} },

	protocol.MethodFsReadFile: func(h *Hunt) any { return obj{"path": h.uri()} },
	protocol.MethodFsOpen: func(h *Hunt) any {
		return obj{"handleId": h.handle(), "path": h.uri(), "mode": pick(h, "read", "replace", "update")}
	},
	protocol.MethodFsReadBlock: func(h *Hunt) any { return obj{"handleId": h.handle(), "offset": 0, "len": 100} },
	protocol.MethodFsWriteBlock: func(h *Hunt) any {
		return obj{"handleId": h.handle(), "offset": h.IntN(100), "chunk": h.bytes()}
	},
	protocol.MethodFsClose: func(h *Hunt) any { return obj{"handleId": h.handle()} },
	protocol.MethodFsWriteFile: func(h *Hunt) any {
		return obj{"path": h.uri(), "dataBase64": h.bytes(), "followSymlinks": h.IntN(2) == 0}
	},
	protocol.MethodFsCreateDirectory: func(h *Hunt) any { return obj{"path": h.uri()} },
	protocol.MethodFsGetMetadata:     func(h *Hunt) any { return obj{"path": h.uri()} },
	protocol.MethodFsCanonicalize:    func(h *Hunt) any { return obj{"path": h.uri()} },
	protocol.MethodFsReadDirectory:   func(h *Hunt) any { return obj{"path": h.uri()} },
	protocol.MethodFsWalk: func(h *Hunt) any {
		return obj{"path": h.uri(), "options": obj{"maxDepth": 3, "maxDirectories": 10, "maxEntries": 100}}
	},
	protocol.MethodFsRemove: func(h *Hunt) any { return obj{"path": "file://" + h.Dir + "/sub"} },
	protocol.MethodFsCopy: func(h *Hunt) any {
		return obj{"sourcePath": h.uri(), "destinationPath": h.uri(), "recursive": h.IntN(2) == 0}
	},
	protocol.MethodFsStat: func(h *Hunt) any { return obj{"path": h.uri(), "follow": h.IntN(2) == 0} },
	protocol.MethodFsList: func(h *Hunt) any { return obj{"path": h.uri()} },
	protocol.MethodFsRename: func(h *Hunt) any {
		return obj{"sourcePath": h.uri(), "destinationPath": "file://" + h.Dir + "/sub"}
	},
	protocol.MethodFsSymlink: func(h *Hunt) any { return obj{"path": "file://" + h.Dir + "/sub", "target": "nowhere"} },
	protocol.MethodFsSetMetadata: func(h *Hunt) any {
		return obj{"path": "file://" + h.Dir + "/sub", "mode": 0o755, "modifiedAtMs": h.IntN(1000)}
	},
	protocol.MethodFsWatchMissing: func(h *Hunt) any { return obj{"watchId": h.IntN(5), "missing": []string{h.uri()}} },

	// Only the app-server has these two.
	protocol.MethodFsWatch:   func(h *Hunt) any { return obj{"watchId": h.handle(), "path": h.Dir} },
	protocol.MethodFsUnwatch: func(h *Hunt) any { return obj{"watchId": h.handle()} },

	protocol.MethodEnvironmentConfigRead: func(h *Hunt) any {
		return obj{"cwd": h.uri(), "configPaths": [][]string{{"mcp_servers"}}, "requirementsPaths": [][]string{}}
	},
	protocol.MethodCapabilityRootsDiscover: func(h *Hunt) any {
		return obj{"roots": []obj{{"id": "r", "path": "file://" + h.Dir}, {"id": "", "path": h.uri()}}}
	},
	protocol.MethodCapabilitiesDiscover: func(h *Hunt) any { return obj{"cwd": h.uri()} },

	protocol.MethodHTTPRequest: func(h *Hunt) any {
		return obj{"method": "GET", "url": h.URL, "requestId": h.command(), "timeoutMs": pick(h, 0, 5), "streamResponse": h.IntN(2) == 0}
	},
}
