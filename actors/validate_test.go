package actors_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/internal/share"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A mistake is a request of a host with a wrong field, and parts of the error that it gets.
type mistake struct {
	field  string // the path of the field on the wire, with further words if a field can be wrong in several ways
	params any
	want   []string // the value, and what is allowed
}

// of returns the mistake of a field in params of the type P.
func of[P any](right P, field string, spoil func(*P), want ...string) mistake {
	spoil(&right)
	return mistake{field, right, want}
}

// program returns right params for the start of a program.
func program(id string) protocol.ProcessStartParams {
	return protocol.ProcessStartParams{ProcessID: id, Argv: []string{"cat"}, PipeStdin: true, Cwd: "file:///", Env: map[string]string{"PATH": "/usr/bin:/bin"}}
}

var (
	long     = strings.Repeat("x", 1025)
	tooLong  = []string{"1025 bytes", "the limit is 1024"}
	variants = map[string][]string{
		"signal":   {"`SIGFOO`", "`terminate`"},
		"policy":   {"`permanant`", "`permanent`"},
		"strategy": {"`one_for_noone`", "`one_for_one`"},
	}
)

// mistakesOfStarts has a mistake for each field of process/start.
func mistakesOfStarts() (all []mistake) {
	type start = protocol.ProcessStartParams
	add := func(field string, spoil func(*start), want ...string) {
		all = append(all, of(program(fmt.Sprint("new ", len(all))), field, spoil, want...))
	}
	add("processId", func(p *start) { p.ProcessID = long }, tooLong...)
	add("processId not UTF-8", func(p *start) { p.ProcessID = "caf\xe9" }, `"caf\xe9"`, "UTF-8")
	add("argv", func(p *start) { p.Argv = nil }, "argv must not be empty")
	add("login", func(p *start) { p.Login, p.EnvPolicy = true, &protocol.EnvPolicy{Inherit: "all"} }, "leave out envPolicy")
	add("argv with NUL", func(p *start) { p.Argv = []string{"a\x00b"} }, "NUL")
	add("cwd", func(p *start) { p.Cwd = "tmp" }, `"tmp"`, "file:///tmp")
	add("cwd of another user", func(p *start) { p.Cwd = "~root" }, `"~root"`, "file:")
	add("cwd in the home with NUL", func(p *start) { p.Cwd = "~/a\x00b" }, "NUL")
	add("env", func(p *start) { p.Env = map[string]string{"A": "b\x00c"} }, "NUL")
	add("arg0", func(p *start) { p.Arg0 = new("a\x00b") }, "NUL")
	policy := func(change func(*protocol.EnvPolicy)) func(*start) {
		return func(p *start) {
			p.EnvPolicy = &protocol.EnvPolicy{Inherit: "none"}
			change(p.EnvPolicy)
		}
	}
	add("envPolicy.inherit", policy(func(p *protocol.EnvPolicy) { p.Inherit = "some" }), "`some`", "`core`")
	add("envPolicy.exclude", policy(func(p *protocol.EnvPolicy) { p.Exclude = make([]string, 257) }), "257", "256")
	add("envPolicy.includeOnly", policy(func(p *protocol.EnvPolicy) { p.IncludeOnly = []string{long} }), "1025", "1024")
	add("envPolicy.set", policy(func(p *protocol.EnvPolicy) {
		p.Set = make(map[string]string)
		for i := range 10_001 {
			p.Set[fmt.Sprint(i)] = ""
		}
	}), "10001", "10000")
	add("size.rows", func(p *start) { p.TTY, p.Size = true, &protocol.Size{Cols: 80} }, "found 0 and 80", "positive", "size")
	add("size.cols", func(p *start) { p.TTY, p.Size = true, &protocol.Size{Rows: 24} }, "found 24 and 0", "positive", "size")
	add("size without tty", func(p *start) { p.Size = &protocol.Size{Rows: 24, Cols: 80} }, "size", "tty true")
	add("retention.bytes", func(p *start) { p.Retention = &protocol.Retention{Bytes: new(uint64(0))} }, "0", "positive", "retention.bytes")
	add("retention.bytes below the minimum", func(p *start) { p.Retention = &protocol.Retention{Bytes: new(uint64(1))} }, "retention.bytes is 1", "allows 4096")
	add("retention.onFull", func(p *start) { p.Retention = &protocol.Retention{OnFull: "drop"} }, "`drop`", "`evict`", "retention.onFull")
	add("retention.spoolBytes", func(p *start) { p.Retention = &protocol.Retention{SpoolBytes: new(uint64(1))} }, "retention.spoolBytes", "onFull spool")
	add("retention.holdMs", func(p *start) { p.Retention = &protocol.Retention{HoldMs: new(uint64(60_001))} }, "60001", "1 to 60000", "retention.holdMs")
	add("timeoutMs", func(p *start) { p.TimeoutMs = new(uint64(3_600_001)) }, "timeoutMs is 3600001", "1 to 3600000")
	add("stopSignal", func(p *start) { p.StopSignal = "SIGFOO" }, append(variants["signal"], "stopSignal")...)
	add("killGraceMs", func(p *start) { p.KillGraceMs = new(uint64(3_600_001)) }, "killGraceMs is 3600001", "3600000")
	limit := func(field, value, allowed string, change func(*protocol.ProcessLimits)) {
		add("limits."+field, func(p *start) {
			p.Limits = new(protocol.ProcessLimits)
			change(p.Limits)
		}, "limits."+field, value, allowed)
	}
	const huge = uint64(math.MaxInt64 + 1)
	limit("nofile", "9223372036854775808", "0 to ", func(l *protocol.ProcessLimits) { l.NoFile = new(huge) })
	limit("cpuSeconds", "0", "1 to ", func(l *protocol.ProcessLimits) { l.CPUSeconds = new(uint64(0)) })
	limit("addressSpaceBytes", "9223372036854775808", "0 to ", func(l *protocol.ProcessLimits) { l.AddressSpaceBytes = new(huge) })
	limit("processes", "9223372036854775808", "0 to ", func(l *protocol.ProcessLimits) { l.Processes = new(huge) })
	limit("coreBytes", "9223372036854775808", "0 to ", func(l *protocol.ProcessLimits) { l.CoreBytes = new(huge) })
	limit("fileSizeBytes", "9223372036854775808", "0 to ", func(l *protocol.ProcessLimits) { l.FileSizeBytes = new(huge) })
	limit("nice", "20", "-20 to 19", func(l *protocol.ProcessLimits) { l.Nice = new(20) })
	limit("oomScoreAdj", "1001", "-1000 to 1000", func(l *protocol.ProcessLimits) { l.OOMScoreAdj = new(1001) })
	limit("memoryBytes", "0", "1 to ", func(l *protocol.ProcessLimits) { l.MemoryBytes = new(uint64(0)) })
	limit("pids", "0", "1 to 4194304", func(l *protocol.ProcessLimits) { l.PIDs = new(uint64(0)) })
	limit("cpus", "NaN", "f64", func(l *protocol.ProcessLimits) { l.CPUs = new(math.NaN()) })
	add("user", func(p *start) { p.User = "root" }, `"root"`, "leave user out")
	add("umask", func(p *start) { p.Umask = "9" }, `"9"`, "octal")
	restart := func(field string, change func(*protocol.Restart), want ...string) {
		add("restart."+field, func(p *start) {
			p.Restart = &protocol.Restart{Policy: protocol.RestartPermanent}
			change(p.Restart)
		}, append(want, "restart."+field)...)
	}
	restart("policy", func(r *protocol.Restart) { r.Policy = "permanant" }, variants["policy"]...)
	restart("backoff.factor", func(r *protocol.Restart) { r.Backoff = &protocol.Backoff{Factor: math.Inf(1)} }, "+Inf", "f64")
	restart("backoff.jitter", func(r *protocol.Restart) { r.Backoff = &protocol.Backoff{Jitter: new(1.5)} }, "1.5", "0 to 1")
	restart("backoff.jitter", func(r *protocol.Restart) { r.Backoff = &protocol.Backoff{Jitter: new(math.NaN())} }, "NaN", "f64")
	restart("intensity.restarts", func(r *protocol.Restart) { r.Intensity = &protocol.Intensity{Restarts: new(uint64(1001))} }, "1001", "1000")
	add("restart.giveUp.exitCodes", func(p *start) {
		p.Restart = &protocol.Restart{Policy: protocol.RestartPermanent, GiveUp: &protocol.GiveUp{ExitCodes: make([]int, 257)}}
	}, "restart.giveUp", "257", "256")
	restart("giveUp.signals", func(r *protocol.Restart) { r.GiveUp = &protocol.GiveUp{Signals: []string{"SIGFOO"}} }, `"SIGFOO"`, "SIGSEGV")
	restart("giveUp.count", func(r *protocol.Restart) { r.GiveUp = &protocol.GiveUp{Count: 1001} }, "1001", "1000")
	ready := func(field string, r protocol.Ready, want ...string) {
		add("ready."+field, func(p *start) { p.Ready = &r }, append(want, "ready")...)
	}
	ready("without a condition", protocol.Ready{}, "found 0", "one of line, tcp")
	ready("line", protocol.Ready{Line: "("}, "missing closing )", "`(`", "ready.line")
	ready("stream", protocol.Ready{Line: "up", Stream: 7}, "stream 7", "`stdout`", "ready.stream")
	ready("stream without line", protocol.Ready{Exit: true, Stream: protocol.Stdout}, "stream is for line")
	ready("stream that is merged", protocol.Ready{Line: "up", Stream: protocol.PTY}, "pty", "tty")
	ready("tcp", protocol.Ready{TCP: "8080"}, `"8080"`, "host:port")
	ready("unix", protocol.Ready{Unix: "/run/x"}, `"/run/x"`, "file:///tmp")
	ready("file", protocol.Ready{File: "/run/x"}, `"/run/x"`, "file:///tmp")
	ready("probe.argv", protocol.Ready{Probe: &protocol.Probe{}}, "one of argv, not empty, and http", "ready.probe")
	ready("probe.http", protocol.Ready{Probe: &protocol.Probe{HTTP: "ftp://x/"}}, `"ftp://x/"`, "http or https", "ready.probe.http")
	add("ready.exit", func(p *start) {
		p.Ready, p.Restart = &protocol.Ready{Exit: true}, &protocol.Restart{Policy: protocol.RestartPermanent}
	}, "permanent", "transient")
	add("liveness", func(p *start) { p.Liveness = new(protocol.Liveness) }, "silenceMs or probe", "liveness")
	add("liveness.probe", func(p *start) { p.Liveness = &protocol.Liveness{Probe: new(protocol.Probe)} }, "one of argv, not empty, and http", "liveness.probe")
	add("dependsOn", func(p *start) { p.DependsOn = []string{"db"} }, "dependsOn", "group/start")
	add("label", func(p *start) { p.Label = "web" }, "label", "group/start")
	add("startToken", func(p *start) { p.StartToken = long }, tooLong...)
	add("sandbox", func(p *start) {
		p.Sandbox = json.RawMessage(`{"permissions":{"type":"lax"},"windowsSandboxLevel":"disabled"}`)
	}, "`lax`", "`managed`", "sandbox.permissions.type")
	add("sandbox not JSON", func(p *start) { p.Sandbox = json.RawMessage(`{"permissions":`) }, "EOF", "sandbox")
	add("enforceManagedNetwork", func(p *start) { p.EnforceManagedNetwork = true }, "enforceManagedNetwork", "leave it out")
	add("managedNetwork", func(p *start) { p.ManagedNetwork = json.RawMessage(`{}`) }, "managedNetwork", "leave it out")
	add("networkProxy", func(p *start) { p.NetworkProxy = json.RawMessage(`{}`) }, "networkProxy", "leave it out")
	add("sandboxPolicy", func(p *start) { p.SandboxPolicy = json.RawMessage(`{}`) }, "sandboxPolicy", "use `sandbox`")
	add("permissionProfile", func(p *start) { p.PermissionProfile = json.RawMessage(`{}`) }, "permissionProfile", "use `sandbox`")
	add("shellSnapshot.scopeId", func(p *start) { p.ShellSnapshot = new(protocol.ShellSnapshot) }, "scope must be non-empty and at most 256 bytes", "shellSnapshot")
	add("shellSnapshot.shell", func(p *start) {
		p.Argv, p.ShellSnapshot = []string{"/bin/fish", "-lc", "ls"}, &protocol.ShellSnapshot{ScopeID: "s", Shell: protocol.Shell{Name: "fish", Path: "/bin/fish"}}
	}, "`fish`")
	add("metadata.threadId", func(p *start) { p.Metadata = &protocol.Metadata{ThreadID: new("one")} }, `"one"`, "UUID", "metadata.threadId")
	return all
}

// mistakesOfGroups has a mistake for each field of group/start, except those of process/start.
func mistakesOfGroups() (all []mistake) {
	type start = protocol.GroupStartParams
	add := func(field string, spoil func(*start), want ...string) {
		id := fmt.Sprint("group ", len(all))
		all = append(all, of(start{GroupID: id, Processes: []protocol.ProcessStartParams{program(id + "a"), program(id + "b")}}, field, spoil, want...))
	}
	add("groupId", func(p *start) { p.GroupID = long }, tooLong...)
	add("strategy", func(p *start) { p.Strategy = "one_for_noone" }, append(variants["strategy"], "strategy")...)
	add("intensity.restarts", func(p *start) { p.Intensity = &protocol.Intensity{Restarts: new(uint64(1001))} }, "1001", "1000", "intensity.restarts")
	add("intensity of an independent group", func(p *start) {
		p.Strategy, p.Intensity = protocol.Independent, new(protocol.Intensity)
	}, "intensity", "independent")
	add("processes", func(p *start) { p.Processes = nil }, "processes must not be empty")
	add("processes with a mistake", func(p *start) { p.Processes[1].StopSignal = "SIGFOO" }, append(variants["signal"], "processes[1].stopSignal")...)
	add("processes twice", func(p *start) { p.Processes[1] = p.Processes[0] }, "twice")
	add("processes of no group", func(p *start) { p.Processes[1].DependsOn = []string{"c"} }, `"c"`, "not in the group")
	add("processes with a long label", func(p *start) { p.Processes[1].Label = long }, tooLong...)
	add("processes with an intensity", func(p *start) {
		p.Processes[1].Restart = &protocol.Restart{Policy: "permanent", Intensity: new(protocol.Intensity)}
	}, "restart.intensity", "leave it out")
	add("processes with much to match", func(p *start) {
		names := 0
		for _, variable := range os.Environ() {
			names += strings.IndexByte(variable, '=') + 1
		}
		globs := slices.Repeat([]string{long[:1023]}, min(256, 100<<20/(names*1024))) // of a single process not too much
		for i := range 10 {
			p.Processes = append(p.Processes, program(fmt.Sprint("matches ", i)))
			p.Processes[len(p.Processes)-1].EnvPolicy = &protocol.EnvPolicy{Inherit: "all", Exclude: globs}
		}
	}, "envPolicy", "the limit for a message")
	add("extend", func(p *start) { p.Extend = true }, "extend", `"one_for_one"`, "independent")
	add("startToken", func(p *start) { p.StartToken = long }, tooLong...)
	return all
}

// mistakesOfSessions has a mistake for each field of the other requests to a session.
func mistakesOfSessions() []mistake {
	return []mistake{
		of(protocol.GroupStopParams{}, "groupId", func(p *protocol.GroupStopParams) { p.GroupID = "none" }, "unknown group id none"),
		of(protocol.GroupStopParams{}, "requestId", func(p *protocol.GroupStopParams) { p.RequestID = long }, append(tooLong, "requestId")...),
		of(protocol.SessionCloseParams{}, "sessionId", func(p *protocol.SessionCloseParams) { p.SessionID = new("another") }, "another", "session/close is for"),
		of(protocol.SessionUpdateParams{}, "name", func(p *protocol.SessionUpdateParams) { p.Name = &long }, tooLong...),
		of(protocol.SessionUpdateParams{}, "detachedTtlMs", func(p *protocol.SessionUpdateParams) { p.DetachedTTLMs = new(uint64(3_600_001)) }, "detachedTtlMs is 3600001", "1 to 3600000"),
		of(protocol.SessionUpdateParams{}, "left", func(p *protocol.SessionUpdateParams) { p.Left = &long }, tooLong...),
		of(protocol.SessionUpdateParams{}, "requestId", func(p *protocol.SessionUpdateParams) { p.RequestID = long }, append(tooLong, "requestId")...),
		of(protocol.SessionShareParams{}, "access", func(p *protocol.SessionShareParams) { p.Access = "write" }, "`write`", "`read` or `type`", "access"),
		of(protocol.SessionShareParams{Access: protocol.AccessRead}, "expiresInMs", func(p *protocol.SessionShareParams) { p.ExpiresInMs = new(uint64(0)) }, "expiresInMs is 0", "1 to 3600000"),
		of(protocol.SessionShareParams{Access: protocol.AccessRead}, "name", func(p *protocol.SessionShareParams) { p.Name = long }, tooLong...),
	}
}

// mistakesOfProcesses has a mistake for each field of the requests to a process, which is on pipes and not run again.
func mistakesOfProcesses() (all []mistake) {
	other, earlier := []string{`"b"`, "this actor is process a"}, protocol.OfInstance{Instance: "earlier"}
	restart := protocol.ProcessSetRestartParams{Restart: protocol.Restart{Policy: protocol.RestartPermanent}}
	all = append(all,
		mistake{"processId", protocol.ProcessReadParams{ProcessID: "b"}, other},
		mistake{"detail", protocol.ProcessReadParams{Detail: "all"}, []string{"`all`", "`times` or `events`", "detail"}},
		mistake{"instance", protocol.ProcessReadParams{OfInstance: earlier}, []string{"instance earlier", "another process has the id"}},
		mistake{"processId", protocol.ProcessSubscribeParams{ProcessID: "b"}, other},
		mistake{"afterSeq", protocol.ProcessSubscribeParams{AfterSeq: 1 << 40}, []string{"no seq 1099511627776 yet", "the last is"}},
		mistake{"processId", protocol.ProcessWriteParams{ProcessID: "b", WriteID: "w"}, other},
		mistake{"writeId", protocol.ProcessWriteParams{}, []string{"writeId must not be empty"}},
		mistake{"processId", protocol.ProcessCloseStdinParams{ProcessID: "b"}, other},
		mistake{"processId", protocol.ProcessResizeParams{ProcessID: "b", Size: protocol.Size{Rows: 1, Cols: 1}}, other},
		mistake{"size.rows", protocol.ProcessResizeParams{Size: protocol.Size{Cols: 80}}, []string{"found 0 and 80", "positive"}},
		mistake{"size.cols", protocol.ProcessResizeParams{Size: protocol.Size{Rows: 24}}, []string{"found 24 and 0", "positive"}},
		mistake{"processId", protocol.ProcessSignalParams{ProcessID: "b", Signal: protocol.SignalHangup}, other},
		mistake{"signal", protocol.ProcessSignalParams{Signal: "SIGFOO"}, append(variants["signal"], "signal")},
		mistake{"signal", protocol.ProcessSignalParams{}, []string{"``", "`terminate`", "signal"}},
		mistake{"processId", protocol.ProcessTerminateParams{ProcessID: "b"}, other},
		mistake{"graceMs", protocol.ProcessTerminateParams{GraceMs: new(uint64(3_600_001))}, []string{"graceMs is 3600001", "3600000"}},
		mistake{"processId", protocol.ProcessWaitParams{ProcessID: "b"}, other},
		mistake{"instance", protocol.ProcessSubscribeParams{OfInstance: earlier}, []string{"instance earlier", "another process has the id"}},
		mistake{"instance", protocol.ProcessWaitParams{OfInstance: earlier}, []string{"instance earlier", "another process has the id"}},
		mistake{"processId", protocol.ProcessRestartParams{ProcessID: "b"}, other},
		mistake{"processId", protocol.ProcessInfoParams{ProcessID: "b"}, other},
		mistake{"processId", protocol.ProcessScreenParams{ProcessID: "b"}, other},
		mistake{"instance", protocol.ProcessScreenParams{OfInstance: earlier}, []string{"instance earlier", "another process has the id"}},
		mistake{"waitFor", protocol.ProcessScreenParams{WaitFor: "("}, []string{"missing closing )", "waitFor"}},
		of(restart, "processId", func(p *protocol.ProcessSetRestartParams) { p.ProcessID = "b" }, other...),
		of(restart, "restart.policy", func(p *protocol.ProcessSetRestartParams) { p.Restart.Policy = "permanant" }, append(variants["policy"], "restart.policy")...),
	)
	repeated := protocol.Repeatable{RequestID: long}
	for _, params := range []any{
		protocol.ProcessCloseStdinParams{Repeatable: repeated}, protocol.ProcessRestartParams{Repeatable: repeated},
		protocol.ProcessResizeParams{Size: protocol.Size{Rows: 1, Cols: 1}, Repeatable: repeated}, protocol.ProcessSignalParams{Signal: protocol.SignalHangup, Repeatable: repeated},
		protocol.ProcessTerminateParams{Repeatable: repeated}, protocol.ProcessSetRestartParams{Restart: restart.Restart, Repeatable: repeated},
	} {
		all = append(all, mistake{"requestId", params, append(tooLong, "requestId")})
	}
	return all
}

// What a client may not send, a host may not send either: each mistake is answered with the value and what is allowed.
func TestRequestsOfAHostAreChecked(t *testing.T) {
	t.Parallel()
	h := newHost(t, actors.Config{KillGrace: -1, MaxRunTime: time.Hour, MaxDetachedTTL: time.Hour, IdleTimeout: time.Hour, MaxAge: time.Hour, Shares: share.NewBook(time.Hour)})
	session := h.attach(t, actors.Attach{})
	started := h.ask(t, session.Session, program("a"))
	if started.Err != nil {
		t.Fatal(started.Err)
	}
	process := started.Result.(actors.StartResult).Process
	for to, rows := range map[*actor.PID][]mistake{
		session.Session: append(append(mistakesOfStarts(), mistakesOfGroups()...), mistakesOfSessions()...),
		process.PID:     mistakesOfProcesses(),
	} {
		for _, row := range rows {
			wantRefused(t, fmt.Sprintf("%T %s", row.params, row.field), h.ask(t, to, row.params), row.want)
		}
	}
	if r := h.ask(t, process.PID, actors.DescribeRequest{}); r.Err != nil || r.Result.(protocol.ProcessInfo).State != string(protocol.StateRunning) {
		t.Errorf("the process: %+v, %v", r.Result, r.Err)
	}
	if r := h.ask(t, session.Session, actors.SessionInfoRequest{}); r.Err != nil || r.Result.(protocol.SessionInfoResult).Processes != 1 {
		t.Errorf("the session: %+v, %v", r.Result, r.Err)
	}
}

// The table of mistakes has every field that can be wrong.
func TestEveryFieldCanBeWrong(t *testing.T) {
	t.Parallel()
	// Of these fields every value of their type is right, or the answer to a wrong value is a result.
	free := map[string]string{
		"ProcessStartParams": "tty pipeStdin envPolicy.ignoreDefaultExcludes mergeStderr noNewPrivs restart.backoff.initialMs restart.backoff.maxMs restart.intensity.periodMs " +
			"restart.giveUp.periodMs restart.afterEnd ready.delayMs ready.timeoutMs ready.probe.delayMs ready.probe.everyMs ready.probe.timeoutMs ready.probe.failures liveness.silenceMs metadata.toolCallId trace traceEnv screen.scrollback screen.ifRoom",
		"GroupStartParams":        "intensity.periodMs",
		"SessionUpdateParams":     "keepRunning",
		"SessionUnshareParams":    "shareId",
		"ProcessReadParams":       "afterSeq maxBytes waitMs",
		"ProcessWriteParams":      "chunk",
		"ProcessWaitParams":       "timeoutMs",
		"ProcessScreenParams":     "scrollback spans restore afterSeq quietMs waitMs",
		"ProcessTerminateParams":  "tree run",
		"ProcessSubscribeParams":  "hold",
		"ProcessCloseStdinParams": "run",
		"ProcessResizeParams":     "run",
		"ProcessSignalParams":     "run",
		"ProcessRestartParams":    "run",
	}
	wrong := make(map[string]bool)
	for _, rows := range [][]mistake{mistakesOfStarts(), mistakesOfGroups(), mistakesOfSessions(), mistakesOfProcesses()} {
		for _, row := range rows {
			field, _, _ := strings.Cut(row.field, " ")
			wrong[reflect.TypeOf(row.params).Name()+" "+field] = true
		}
	}
	known := func(params, field string) bool {
		for at := field; ; at = at[:strings.LastIndexByte(at, '.')] { // a mistake in a part is one in the whole
			if wrong[params+" "+at] || strings.Contains(" "+free[params]+" ", " "+at+" ") {
				return true
			}
			if !strings.Contains(at, ".") {
				return false
			}
		}
	}
	fields := 0
	for params := range requests() {
		for field := range fieldsOf(params, "") {
			name := params.Name()
			if strings.HasPrefix(field, "restart.") {
				name = "ProcessStartParams" // has the same type
			}
			if fields++; !known(name, field) {
				t.Errorf("%s: no mistake is made in %s", params, field)
			}
		}
	}
	if fields < 100 {
		t.Errorf("the requests have %d fields: this tests little", fields)
	}
}

// requests returns the types of package protocol that a session or process takes.
func requests() map[reflect.Type]bool {
	types := make(map[reflect.Type]bool)
	for method, params := range actors.Methods.Params() {
		switch kind, _, _ := strings.Cut(method, "/"); kind {
		case "process", "group", "session":
			for _, p := range params {
				types[reflect.TypeOf(p)] = true
			}
		}
	}
	maps.DeleteFunc(types, func(params reflect.Type, _ bool) bool {
		switch reflect.Zero(params).Interface().(type) {
		case protocol.ProcessSpawnParams, protocol.ProcessWriteStdinParams, protocol.ProcessResizePtyParams, protocol.ProcessKillParams, // of commands
			protocol.SessionListParams, protocol.SessionAckParams, protocol.ProcessListParams: // of connections
			return true
		}
		return params.PkgPath() != reflect.TypeFor[protocol.ProcessStartParams]().PkgPath()
	})
	return types
}

// fieldsOf returns the paths of the fields of a type on the wire that have no fields themselves. A process of a group is such a field.
func fieldsOf(params reflect.Type, path string) map[string]bool {
	all := make(map[string]bool)
	for _, f := range reflect.VisibleFields(params) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" {
			continue
		}
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() != reflect.Struct {
			all[path+name] = true
			continue
		}
		maps.Copy(all, fieldsOf(inner, path+name+"."))
	}
	return all
}

// An Attach of a host is checked like the initialize of a client.
func TestAttachOfAHostIsChecked(t *testing.T) {
	t.Parallel()
	h := newHost(t, actors.Config{KillGrace: -1, MaxDetachedTTL: time.Hour, IdleTimeout: time.Hour, MaxAge: time.Hour})
	is := h.attach(t, actors.Attach{})
	hour := new(uint64(3_600_001))
	for _, row := range []struct {
		m    actors.Attach
		want []string
	}{
		{actors.Attach{Role: "ownr"}, []string{"`ownr`", "`owner`", "role"}},
		{actors.Attach{Role: "ownr", SessionID: is.SessionID}, []string{"`ownr`", "`owner`", "role"}},
		{actors.Attach{Role: protocol.RoleObserver}, []string{"role observer", "an existing session"}},
		{actors.Attach{Role: protocol.RoleTypist, SessionID: is.SessionID}, []string{"role typist", "owner, observer or controller"}},
		{actors.Attach{SessionID: "none"}, []string{"unknown session id none"}},
		{actors.Attach{Options: protocol.SessionOptions{Name: long}}, tooLong},
		{actors.Attach{Options: protocol.SessionOptions{Name: "caf\xe9"}}, []string{`"caf\xe9"`, "UTF-8"}},
		{actors.Attach{Options: protocol.SessionOptions{DetachedTTLMs: hour}}, []string{"session.detachedTtlMs is 3600001", "1 to 3600000"}},
		{actors.Attach{Options: protocol.SessionOptions{IdleMs: hour}}, []string{"session.idleMs is 3600001", "1 to 3600000"}},
		{actors.Attach{Options: protocol.SessionOptions{MaxAgeMs: hour}}, []string{"session.maxAgeMs is 3600001", "1 to 3600000"}},
		{actors.Attach{Options: protocol.SessionOptions{Ephemeral: true, KeepRunning: true}}, []string{"ephemeral", "leave detachedTtlMs and keepRunning out"}},
		{actors.Attach{Ephemeral: true, Options: protocol.SessionOptions{DetachedTTLMs: new(uint64(1000))}}, []string{"ephemeral", "leave detachedTtlMs and keepRunning out"}},
		{actors.Attach{OpenToken: long}, tooLong},
		{actors.Attach{OpenToken: "t", SessionID: is.SessionID}, []string{`"t"`, is.SessionID, "one of them"}},
		{actors.Attach{From: "bob", Identity: identity.Identity{Name: "alice"}}, []string{`"bob"`, `"alice"`, "leave From empty"}},
	} {
		for _, to := range []*actor.PID{h.troupe.PID(), is.Session} {
			if to == is.Session && row.m.SessionID != is.SessionID {
				continue
			}
			h.root.RequestWithCustomSender(to, row.m, h.self)
			wantRefused(t, fmt.Sprintf("%+v to %s", row.m, to.Id), take[actors.Reply](t, h.mailbox), row.want)
		}
	}
}

// A viewer hears of its mistakes, too.
func TestMistakesOfAViewer(t *testing.T) {
	t.Parallel()
	h := newHost(t, actors.Config{KillGrace: -1})
	session := h.attach(t, actors.Attach{})
	process := h.ask(t, session.Session, program("a")).Result.(actors.StartResult).Process.PID
	for _, row := range []struct {
		m    any
		want []string
	}{
		{actors.Subscribe{After: 7}, []string{"no seq 7", "the last is 0"}},
		{actors.Subscribe{Role: "ownr"}, []string{"`ownr`", "`owner`"}},
		{actors.Subscribe{Pull: -1}, []string{"-1", "Pull"}},
		{actors.Subscribe{Now: true, Acked: true}, []string{"Now and Acked"}},
		{actors.Pull{}, []string{"0", "at least 1"}},
		{actors.Pull{Bytes: -1}, []string{"-1", "at least 1"}},
		{actors.Ack{From: 7, To: 3}, []string{"7", "3"}},
	} {
		h.root.RequestWithCustomSender(process, row.m, h.self)
		refused := take[actors.Refused](t, h.mailbox)
		if refused.Process != "a" {
			t.Errorf("%#v: of process %q", row.m, refused.Process)
		}
		wantRefused(t, fmt.Sprintf("%#v", row.m), actors.Reply{Err: refused.Err}, row.want)
	}
	if info := h.ask(t, process, protocol.ProcessInfoParams{}).Result.(protocol.ProcessInfoResult); len(info.Viewers) > 0 {
		t.Errorf("after mistakes only there are viewers: %+v", info.Viewers)
	}
}

// A host is an actor of a host with a troupe.
type host struct {
	root    *actor.RootContext
	troupe  *actors.Troupe
	mailbox mailbox
	self    *actor.PID
	token   uint64
}

func newHost(t *testing.T, config actors.Config) *host {
	t.Helper()
	system := newSystem(t)
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	troupe, err := actors.Start(system, config)
	if err != nil {
		t.Fatal(err)
	}
	h := &host{root: system.Root, troupe: troupe}
	t.Cleanup(func() {
		if err := troupe.Kill(); err != nil {
			t.Error(err)
		}
	})
	return h.other(t)
}

// other returns another actor of the host.
func (h *host) other(t *testing.T) *host {
	o := &host{root: h.root, troupe: h.troupe, mailbox: make(mailbox, 100)}
	o.self = h.root.Spawn(actor.PropsFromProducer(func() actor.Actor { return o.mailbox }))
	t.Cleanup(func() { h.root.Stop(o.self) })
	return o
}

func (h *host) attach(t *testing.T, m actors.Attach) actors.Attached {
	t.Helper()
	h.root.RequestWithCustomSender(h.troupe.PID(), m, h.self)
	return take[actors.Attached](t, h.mailbox)
}

// ask returns the answer to a request.
func (h *host) ask(t *testing.T, to *actor.PID, params any) actors.Reply {
	t.Helper()
	h.token++
	h.root.RequestWithCustomSender(to, actors.Request{Token: h.token, Params: params}, h.self)
	for deadline := time.After(limit); ; {
		select {
		case m := <-h.mailbox:
			if reply, ok := m.(actors.Reply); ok && reply.Token == h.token {
				return reply
			}
		case <-deadline:
			t.Errorf("no answer to %T", params)
			return actors.Reply{}
		}
	}
}

func wantRefused(t *testing.T, what string, r actors.Reply, want []string) {
	t.Helper()
	if r.Err == nil {
		t.Errorf("%s: accepted: %+v", what, r.Result)
		return
	}
	for _, part := range want {
		if !strings.Contains(r.Err.Message+" "+r.Err.Advice(), part) {
			t.Errorf("%s: %v, without %q", what, r.Err, part)
		}
	}
	if r.Err.Kind() == protocol.KindInternal {
		t.Errorf("%s: %v is for failures of the server", what, r.Err)
	}
}
