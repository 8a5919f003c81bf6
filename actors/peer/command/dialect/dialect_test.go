package dialect_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/peer/command/dialect"
	"github.com/b6f6fdd7/troupe/protocol"
)

func translator() *dialect.Translator {
	return &dialect.Translator{
		Cwd:        "file:///srv",
		Env:        func() map[string]string { return map[string]string{"HOME": "/root", "LANG": "C"} },
		MaxMessage: 64 << 20,
	}
}

// start decodes the params of a start, and translates them.
func start[T any](t *testing.T, tr *dialect.Translator, params string) (*dialect.Spec, *protocol.Error) {
	t.Helper()
	r, ok, err := tr.Request(decode[T](t, params))
	if !ok || (r.Start == nil) != (err != nil) {
		t.Fatalf("%s: %+v, %v, %v", params, r, ok, err)
	}
	return r.Start, err
}

func decode[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := protocol.JSON.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// shown is what a test compares of a Spec.
func shown(t *testing.T, s *dialect.Spec) string {
	timeout := "none"
	if s.Params.TimeoutMs != nil {
		timeout = fmt.Sprint(*s.Params.TimeoutMs)
	}
	return fmt.Sprintf("%s %q unnamed=%v %v in %s env=%s tty=%v pipe=%v size=%s timeout=%s stdin=%v stream=%v limit=%d", s.Dialect.API(), s.Name, s.Unnamed,
		s.Params.Argv, s.Params.Cwd, text(t, s.Params.Env), s.Params.TTY, s.Params.PipeStdin, text(t, s.Params.Size), timeout, s.Stdin, s.Stream, s.Limit)
}

func TestExec(t *testing.T) {
	const rest = ` env={"HOME":"/root","LANG":"C"}`
	const pipe = " tty=false pipe=false size=null"
	for params, want := range map[string]string{
		`{"command":["a","b"]}`:                                                                             `"" unnamed=true [a b] in file:///srv` + rest + pipe + ` timeout=10000 stdin=false stream=false limit=1048576`,
		`{"command":["a"],"processId":"n","cwd":"sub"}`:                                                     `"n" unnamed=false [a] in file:///srv/sub` + rest + pipe + ` timeout=10000 stdin=false stream=false limit=1048576`,
		`{"command":["a"],"cwd":"/x","disableOutputCap":true}`:                                              `"" unnamed=true [a] in file:///x` + rest + pipe + fmt.Sprintf(` timeout=10000 stdin=false stream=false limit=%d`, 1<<62),
		`{"command":["a"],"timeoutMs":0,"outputBytesCap":0}`:                                                `"" unnamed=true [a] in file:///srv` + rest + pipe + ` timeout=1 stdin=false stream=false limit=0`,
		`{"command":["a"],"disableTimeout":true,"outputBytesCap":9}`:                                        `"" unnamed=true [a] in file:///srv` + rest + pipe + ` timeout=none stdin=false stream=false limit=9`,
		`{"command":["a"],"env":{"HOME":null,"A":"b"}}`:                                                     `"" unnamed=true [a] in file:///srv env={"A":"b","LANG":"C"}` + pipe + ` timeout=10000 stdin=false stream=false limit=1048576`,
		`{"command":["a"],"processId":"","streamStdin":true}`:                                               `"" unnamed=false [a] in file:///srv` + rest + ` tty=false pipe=true size=null timeout=10000 stdin=true stream=false limit=1048576`,
		`{"command":["a"],"processId":"n","streamStdoutStderr":true,"outputBytesCap":18446744073709551615}`: fmt.Sprintf(`"n" unnamed=false [a] in file:///srv`+rest+pipe+` timeout=10000 stdin=false stream=true limit=%d`, math.MaxInt64),
		`{"command":["a"],"processId":"n","tty":true,"size":{"rows":1,"cols":2},"disableOutputCap":true}`:   fmt.Sprintf(`"n" unnamed=false [a] in file:///srv`+rest+` tty=true pipe=false size={"rows":1,"cols":2} timeout=10000 stdin=true stream=true limit=%d`, 1<<62),
	} {
		s, err := start[protocol.CommandExecParams](t, translator(), params)
		if err != nil {
			t.Errorf("%s: %v", params, err)
		} else if got := shown(t, s); got != "command/exec "+want {
			t.Errorf("%s:\n%s, want\n%s", params, got, "command/exec "+want)
		}
	}
}

func TestSpawn(t *testing.T) {
	const begin = `"h" unnamed=false [a] in file:///x env={"HOME":"/root","LANG":"C"}`
	const pipe = " tty=false pipe=false size=null"
	for params, want := range map[string]string{
		``:                           pipe + ` timeout=10000 stdin=false stream=false limit=1048576`,
		`,"timeoutMs":null`:          pipe + ` timeout=none stdin=false stream=false limit=1048576`,
		`,"timeoutMs":0`:             pipe + ` timeout=1 stdin=false stream=false limit=1048576`,
		`,"timeoutMs":7`:             pipe + ` timeout=7 stdin=false stream=false limit=1048576`,
		`,"outputBytesCap":null`:     pipe + fmt.Sprintf(` timeout=10000 stdin=false stream=false limit=%d`, 1<<62),
		`,"outputBytesCap":3`:        pipe + ` timeout=10000 stdin=false stream=false limit=3`,
		`,"streamStdin":true`:        ` tty=false pipe=true size=null timeout=10000 stdin=true stream=false limit=1048576`,
		`,"streamStdoutStderr":true`: pipe + ` timeout=10000 stdin=false stream=true limit=1048576`,
		`,"tty":true,"outputBytesCap":null,"size":{"rows":1,"cols":2}`: fmt.Sprintf(` tty=true pipe=false size={"rows":1,"cols":2} timeout=10000 stdin=true stream=true limit=%d`, 1<<62),
	} {
		s, err := start[protocol.ProcessSpawnParams](t, translator(), `{"command":["a"],"processHandle":"h","cwd":"/x"`+params+`}`)
		if err != nil {
			t.Errorf("%s: %v", params, err)
		} else if got := shown(t, s); got != "process/spawn "+begin+want {
			t.Errorf("%s:\n%s, want\n%s", params, got, "process/spawn "+begin+want)
		}
	}
}

// The first wire counts its sessions, and counts no request that it refuses.
func TestFirst(t *testing.T) {
	tr := translator()
	for _, row := range []struct{ params, want string }{
		{`"argv":["a"],"tty":false`, `"session-1" unnamed=false [a] in file:///x env={"A":"b"} tty=false pipe=false size=null timeout=none stdin=false stream=true limit=4611686018427387904`},
		{`"argv":[],"tty":false`, ""},
		{`"argv":["a"],"tty":true`, `"session-2" unnamed=false [a] in file:///x env={"A":"b"} tty=true pipe=false size=null timeout=none stdin=true stream=true limit=4611686018427387904`},
	} {
		s, err := start[protocol.FirstExecParams](t, tr, `{"cwd":"/x","env":{"A":"b"},`+row.params+`}`)
		if got := ""; err == nil {
			if got = shown(t, s); got != "command/exec with argv "+row.want {
				t.Errorf("%s:\n%s, want\n%s", row.params, got, row.want)
			}
		} else if row.want != "" {
			t.Errorf("%s: %v", row.params, err)
		}
	}
}

// The room for both streams fits one message, on a connection with small messages, too.
func TestMostFitsOneMessage(t *testing.T) {
	tr := translator()
	tr.MaxMessage = 8 << 20
	name := strings.Repeat("\x01", 1024)
	params, err := json.Marshal(map[string]any{"command": []string{"a"}, "processHandle": name, "cwd": "/", "outputBytesCap": nil})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := start[protocol.ProcessSpawnParams](t, tr, string(params))
	if s.Most < 4_000_000 || s.Limit != 1<<62 {
		t.Errorf("room for %d bytes of each stream, limit %d", s.Most, s.Limit)
	}
	full := strings.Repeat("x", int(s.Most)-len(`""`))
	method, body := s.Dialect.Ended(name, dialect.End{Output: [2]string{full, full}})
	if b, err := protocol.JSON.AppendNotification(nil, method, body); err != nil || int64(len(b)) > tr.MaxMessage {
		t.Errorf("the end has %d bytes (%v), a message may have %d", len(b), err, tr.MaxMessage)
	}
	s, _ = start[protocol.CommandExecParams](t, tr, `{"command":["a"],"processId":"n","streamStdoutStderr":true,"disableOutputCap":true}`)
	if s.Most != 0 || s.Limit != 1<<62 {
		t.Errorf("streamed: room for %d bytes, limit %d", s.Most, s.Limit)
	}
}

func TestRefusals(t *testing.T) {
	long := strings.Repeat("n", 1025)
	refused := func(what string, err *protocol.Error, want string) {
		t.Helper()
		if err == nil || fmt.Sprintf("%d %s", err.Code, err.Message) != want {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
	}
	for _, row := range []struct{ params, want string }{
		{`"command":[]`, "-32600 command must not be empty"},
		{`"command":["a"],"tty":true`, "-32600 command/exec tty or streaming requires a client-supplied processId"},
		{`"command":["a"],"streamStdin":true`, "-32600 command/exec tty or streaming requires a client-supplied processId"},
		{`"command":["a"],"streamStdoutStderr":true`, "-32600 command/exec tty or streaming requires a client-supplied processId"},
		{`"command":["a"],"outputBytesCap":1,"disableOutputCap":true`, "-32602 command/exec cannot set both outputBytesCap and disableOutputCap"},
		{`"command":["a"],"timeoutMs":1,"disableTimeout":true`, "-32602 command/exec cannot set both timeoutMs and disableTimeout"},
		{`"command":["a"],"timeoutMs":-1`, "-32602 command/exec timeoutMs must be non-negative, got -1"},
		{`"command":["a"],"processId":"` + long + `"`, "-32602 processId has 1025 bytes, the limit is 1024"},
		{`"command":["a"],"size":{"rows":1,"cols":1}`, "-32602 command/exec size requires tty: true"},
		{`"command":["a"],"processId":"n","tty":true,"size":{"rows":0,"cols":1}`, "-32602 command/exec size rows and cols must be greater than 0"},
	} {
		_, err := start[protocol.CommandExecParams](t, translator(), "{"+row.params+"}")
		refused(row.params, err, row.want)
	}
	for _, row := range []struct{ params, want string }{
		{`"command":[],"processHandle":"h","cwd":"/"`, "-32600 command must not be empty"},
		{`"command":["a"],"processHandle":"","cwd":"/"`, "-32600 processHandle must not be empty"},
		{`"command":["a"],"processHandle":"h","cwd":"x"`, "-32600 Invalid request: AbsolutePathBuf deserialized without a base path"},
		{`"command":["a"],"processHandle":"` + long + `","cwd":"/"`, "-32602 processHandle has 1025 bytes, the limit is 1024"},
		{`"command":["a"],"processHandle":"h","cwd":"/","size":{"rows":1,"cols":1}`, "-32602 process/spawn size requires tty: true"},
		{`"command":["a"],"processHandle":"h","cwd":"/","tty":true,"size":{"rows":1,"cols":0}`, "-32602 process size rows and cols must be greater than 0"},
		{`"command":["a"],"processHandle":"h","cwd":"/","timeoutMs":-1`, "-32602 process/spawn timeoutMs must be non-negative, got -1"},
		{`"command":["a"],"processHandle":"h","cwd":"/","outputBytesCap":-1`, "-32602 process/spawn outputBytesCap must be non-negative, got -1"},
	} {
		_, err := start[protocol.ProcessSpawnParams](t, translator(), "{"+row.params+"}")
		refused(row.params, err, row.want)
	}
	_, err := start[protocol.FirstExecParams](t, translator(), `{"argv":["a"],"cwd":"tmp","env":{},"tty":false}`)
	refused("first", err, `-32602 cwd is "tmp", which is not an absolute path`)
}

// Each call reaches its API under its name, or is refused.
func TestCalls(t *testing.T) {
	data := []byte("x")
	for _, row := range []struct {
		params any
		want   string
	}{
		{protocol.ProcessWriteStdinParams{ProcessHandle: "h", DeltaBase64: &data, CloseStdin: true}, `process/spawn h: write "x" close=true`},
		{protocol.ProcessWriteStdinParams{ProcessHandle: "h", CloseStdin: true}, `process/spawn h: close=true`},
		{protocol.ProcessWriteStdinParams{ProcessHandle: "h"}, "process/writeStdin requires deltaBase64 or closeStdin"},
		{protocol.ProcessResizePtyParams{ProcessHandle: "h", Size: protocol.TerminalSize{Rows: 1, Cols: 2}}, `process/spawn h: resize {1 2} close=false`},
		{protocol.ProcessResizePtyParams{ProcessHandle: "h", Size: protocol.TerminalSize{Cols: 2}}, "process size rows and cols must be greater than 0"},
		{protocol.ProcessKillParams{ProcessHandle: "h"}, `process/spawn h: kill close=false`},
		{protocol.CommandExecWriteParams{ProcessID: "n", DeltaBase64: &data}, `command/exec n: write "x" close=false`},
		{protocol.CommandExecWriteParams{ProcessID: "n"}, "command/exec/write requires deltaBase64 or closeStdin"},
		{protocol.CommandExecResizeParams{ProcessID: "n", Size: protocol.TerminalSize{Rows: 1}}, "command/exec size rows and cols must be greater than 0"},
		{protocol.CommandExecTerminateParams{ProcessID: "n"}, `command/exec n: kill close=false`},
		{protocol.FirstExecWriteParams{SessionID: "session-1", Chunk: data}, `command/exec with argv session-1: write "x" close=false`},
		{protocol.FirstExecTerminateParams{SessionID: "session-1"}, `command/exec with argv session-1: kill close=false`},
	} {
		r, ok, err := translator().Request(row.params)
		got := ""
		if err != nil {
			got = err.Message
		} else if ok {
			got = r.Dialect.API() + " " + r.Name + ":"
			if r.Call.Write != nil {
				got += fmt.Sprintf(" write %q", *r.Call.Write)
			}
			if r.Call.Resize != nil {
				got += fmt.Sprintf(" resize %v", *r.Call.Resize)
			}
			if r.Call.Kill {
				got += " kill"
			}
			got += fmt.Sprintf(" close=%v", r.Call.CloseStdin)
		}
		if got != row.want || r.Start != nil {
			t.Errorf("%+v: %s, want %s", row.params, got, row.want)
		}
	}
	if _, ok, err := translator().Request(protocol.ProcessWriteParams{}); ok || err != nil {
		t.Errorf("process/write: %v, %v", ok, err)
	}
}

// spec is a program of each API.
func specs(t *testing.T, more string) []*dialect.Spec {
	t.Helper()
	s, err := start[protocol.ProcessSpawnParams](t, translator(), `{"command":["a"],"processHandle":"h","cwd":"/"`+more+`}`)
	e, err2 := start[protocol.CommandExecParams](t, translator(), `{"command":["a"],"processId":"n"`+more+`}`)
	f, err3 := start[protocol.FirstExecParams](t, translator(), `{"argv":["a"],"cwd":"/","env":{},"tty":`+fmt.Sprint(strings.Contains(more, "tty"))+`}`)
	if err != nil || err2 != nil || err3 != nil {
		t.Fatal(err, err2, err3)
	}
	return []*dialect.Spec{s, e, f}
}

func TestRefuses(t *testing.T) {
	data := []byte("x")
	const noTerminal = "failed to resize PTY: process is not attached to a PTY"
	for i, noStdin := range []string{"stdin streaming is not enabled for this process", "stdin streaming is not enabled for this command/exec", "stdin is closed for session session-1"} {
		plain, tty := specs(t, "")[i], specs(t, `,"tty":true`)[i]
		for _, row := range []struct {
			name   string
			spec   *dialect.Spec
			call   dialect.Call
			closed bool
			want   string
		}{
			{"a write without stdin", plain, dialect.Call{Write: &data}, false, noStdin},
			{"an end of no stdin", plain, dialect.Call{CloseStdin: true}, false, noStdin},
			{"a write", tty, dialect.Call{Write: &data, CloseStdin: true}, false, ""},
			{"a write after the end", tty, dialect.Call{Write: &data}, true, "stdin is already closed"},
			{"a second end", tty, dialect.Call{CloseStdin: true}, true, ""},
			{"a resize of no terminal", plain, dialect.Call{Resize: &protocol.Size{}}, false, noTerminal},
			{"a resize", tty, dialect.Call{Resize: &protocol.Size{}}, false, ""},
			{"a kill", plain, dialect.Call{Kill: true}, true, ""},
		} {
			err := row.spec.Refuses(row.call, row.closed)
			if got := ""; err != nil {
				if got = err.Message; got != row.want || err.Code != protocol.CodeInvalidRequest {
					t.Errorf("%s, %s: %v, want %q", row.spec.Dialect.API(), row.name, err, row.want)
				}
			} else if row.want != "" {
				t.Errorf("%s, %s: accepted", row.spec.Dialect.API(), row.name)
			}
		}
	}
}

func TestNotStarted(t *testing.T) {
	lost := protocol.Errorf(protocol.KindLimit, protocol.CodeInternal, "no room")
	for i, begin := range []string{"failed to spawn process: ", "failed to spawn command: ", ""} {
		s := specs(t, "")[i]
		for cause, want := range map[error]string{
			fmt.Errorf("%w is %w", child.ErrDir, syscall.ENOTDIR): "Not a directory (os error 20)",

			child.ErrNoProgram:  "No such file or directory (os error 2)",
			child.ErrDir:        "No such file or directory (os error 2)",
			child.ErrPermission: "Permission denied (os error 13)",
			child.ErrExecFormat: "Exec format error (os error 8)",
		} {
			err := s.NotStarted(protocol.Errorf(protocol.KindLimit, protocol.CodeInternal, "why").Because(fmt.Errorf("start: %w", cause)))
			if want = begin + want; err.Message != want || err.Code != protocol.CodeInternal || err.Advice() != "why" {
				t.Errorf("%s: %v: %v, want %q", s.Dialect.API(), cause, err, want)
			}
		}
		if err := s.NotStarted(lost); err != lost {
			t.Errorf("%s: %v", s.Dialect.API(), err)
		}
	}
}

// What each API says, as JSON.
func TestWords(t *testing.T) {
	end := dialect.End{Code: 3, DrainTimedOut: true, Output: [2]string{"o", "e"}, CapReached: [2]bool{true, false}}
	kill, write := dialect.Call{Kill: true}, dialect.Call{}
	say := func(v any, err *protocol.Error) string {
		if err != nil {
			return fmt.Sprintf("%d %s", err.Code, err.Message)
		}
		return text(t, v)
	}
	note := func(method string, body any) string { return method + " " + text(t, body) }
	for i, want := range [][]string{
		{
			`{}`, `process/outputDelta {"processHandle":"h","stream":"stderr","deltaBase64":"eA==","capReached":true}`,
			`process/exited {"processHandle":"h","exitCode":3,"outputDrainTimedOut":true,"stdout":"o","stdoutCapReached":true,"stderr":"e","stderrCapReached":false}`,
			`{}`, `{}`, `-32600 no active process for process handle "h"`, `-32600 no active process for process handle "h"`,
			`-32600 no active process for process handle "h"`, `-32600 no active process for process handle "h"`, `-32600 duplicate active process handle: "h"`,
		},
		{
			`null`, `command/exec/outputDelta {"processId":"n","stream":"stderr","deltaBase64":"eA==","capReached":true}`,
			` {"exitCode":3,"stdout":"o","stderr":"e"}`,
			`{}`, `{}`, `-32600 no active command/exec for process id "n"`, `-32600 no active command/exec for process id "n"`,
			`-32600 command/exec "n" is no longer running`, `-32600 command/exec "n" is no longer running`, `-32600 duplicate active command/exec process id: "n"`,
		},
		{
			`{"sessionId":"session-1"}`, `command/exec/outputDelta {"sessionId":"session-1","stream":"stderr","chunk":"eA=="}`,
			`command/exec/exited {"sessionId":"session-1","exitCode":3}`,
			`{"accepted":true}`, `{"running":true}`, `-32600 unknown session id session-1`, `{"running":false}`,
			`-32600 stdin is closed for session session-1`, `{"running":false}`, `-32603 session id session-1 is in use`,
		},
	} {
		s := specs(t, "")[i]
		d, name := s.Dialect, s.Name
		got := []string{
			text(t, d.Started(name)), note(d.Delta(name, protocol.Stderr, []byte("x"), true)), note(d.Ended(name, end)),
			text(t, d.Called(write)), text(t, d.Called(kill)), say(d.Unknown(name, write)), say(d.Unknown(name, kill)),
			say(d.Over(name, write)), say(d.Over(name, kill)), say(nil, d.Duplicate(name)),
		}
		for j := range got {
			if got[j] != want[j] {
				t.Errorf("%s: %s, want %s", d.API(), got[j], want[j])
			}
		}
	}
}
