package protocol

import (
	"bytes"
	stdbase64 "encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/b6f6fdd7/troupe/tests/support/testleak"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testleak.Patient(m)) }

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		frame string
		want  Message
	}{
		{`{"id":1,"method":"m","params":{"a":[1]}}`, Message{Kind: Request, ID: IntID(1), Method: "m", Payload: []byte(`{"a":[1]}`)}},
		{` { "method" : "m" , "id" : "" } `, Message{Kind: Request, ID: StringID(""), Method: "m"}},
		{`{"jsonrpc":"1.0","id":-5,"method":"m","params":null,"trace":null,"extra":{"a":1}}`, Message{Kind: Request, ID: IntID(-5), Method: "m", Payload: []byte(`null`)}},
		{`{"id":9223372036854775807,"method":"m"}`, Message{Kind: Request, ID: IntID(1<<63 - 1), Method: "m"}},
		{`{"id":1,"method":"m","trace":{"traceparent":"00-0-0-01","tracestate":null}}`, Message{Kind: Request, ID: IntID(1), Method: "m", Trace: &TraceContext{Parent: "00-0-0-01"}}},
		{`{"id":1,"method":"m","trace":{"tracestate":"a=b","more":[{}],"traceparent":"00-\u0030-0-01"}}`, Message{Kind: Request, ID: IntID(1), Method: "m", Trace: &TraceContext{Parent: "00-0-0-01", State: "a=b"}}},
		{`{"id":1,"method":"m","trace":{"traceparent":7,"tracestate":"a=b"}}`, Message{Kind: Request, ID: IntID(1), Method: "m"}},
		{`{"id":1,"method":"m","trace":{"traceparent":"` + strings.Repeat("x", 513) + `"}}`, Message{Kind: Request, ID: IntID(1), Method: "m"}},
		{`{"method":"a\/\u00e9\ud83d\ude00\n","params":{}}`, Message{Kind: Notification, Method: "a/é😀\n", Payload: []byte(`{}`)}},
		{`{"m\u0065thod":"m"}`, Message{Kind: Notification, Method: "m"}},
		{`{"id":"x","result":null}`, Message{Kind: Response, ID: StringID("x"), Payload: []byte(`null`)}},
		{`{"id":1,"result":{},"error":{"code":1,"message":""}}`, Message{Kind: Response, ID: IntID(1), Payload: []byte(`{}`)}}, // as exec-server
		{`{"id":1,"result":{},"error":null}`, Message{Kind: Response, ID: IntID(1), Payload: []byte(`{}`)}},
		{`{"error":{"code":-32600,"message":"no","data":null},"id":-1}`, Message{Kind: Failure, ID: InvalidID, Error: &Error{Code: CodeInvalidRequest, Message: "no"}}},
		{`{"error":{"code":-32600,"message":"no","data":[1]},"id":-1}`, Message{Kind: Failure, ID: InvalidID, Error: &Error{Code: CodeInvalidRequest, Message: "no", Data: []byte(`[1]`)}}},
	} {
		got, err := JSON.Decode([]byte(c.frame))
		if err != nil {
			t.Errorf("%s: %v", c.frame, err)
		} else if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.frame, got, c.want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	deep := strings.Repeat("[", 1<<20)
	for _, c := range []struct{ frame, want string }{
		{``, "EOF while parsing a value at line 1 column 0; the text ends at byte 0, expected a value"},
		{`garbage`, "expected value at line 1 column 1; found 'g' at byte 0, expected a value"},
		{`5`, "expected a JSON-RPC object"},
		{`not json`, "expected ident at line 1 column 2; found 'n' at byte 0, expected a value"},
		{`[]`, "batches are not supported"},
		{`[{"id":26,"method":"environment/info"}]`, "batches are not supported"},
		{`{}`, "missing field `error`; a message has a method, a result or an error"},
		{`{"id":25}`, "missing field `error`; a message has a method, a result or an error"},
		{`{"result":{}}`, "missing field `id`"},
		{`{"id":null,"method":"m"}`, "invalid type: null, expected a string or a 64-bit integer, in `id`"},
		{`{"id":1.5,"method":"m"}`, "found 1.5, expected a string or a 64-bit integer, in `id`"},
		{`{"id":9223372036854775808,"method":"m"}`, "found 9223372036854775808"},
		{`{"id":[],"method":"m"}`, "invalid type: sequence"},
		{`{"id":"` + strings.Repeat("x", 1025) + `","method":"m"}`, "`id` has 1025 bytes, the limit is 1024"},
		{`{"id":1,"method":null}`, "invalid type: null, expected a string; in `method`"},
		{`{"id":1,"method":"m","trace":"bad"}`, "invalid type: string \"bad\", expected struct W3cTraceContext; in `trace`"},
		{`{"id":1,"error":{"code":"x","message":""}}`, "invalid type: string \"x\", expected i64; in `error.code`"},
		{`{"id":1,"error":{"code":1}}`, "missing field `message`; in `error`"},
		{`{"id":1,"method":"m"`, "ends at byte 20, expected `,` or `}`"},
		{`{"id":1,"method":"m"}}`, "found '}' at byte 21, expected nothing more"},
		{`{"id":1,"method":"m",}`, "expected a string"},
		{`{"id":01,"method":"m"}`, "found '1' at byte 7"},
		{`{"id":1,"method":"m","x":nul}`, "expected a value"},
		{`{"id":1,"method":"m","x":"\x"}`, "expected an escape"},
		{`{"id":1,"method":"m","x":"\u00g0"}`, "expected an escape"},
		{`{"id":1,"method":"` + "a\tb" + `"}`, "no control character"},
		{`{"id":1,"method":"m","x":"` + "0123456789\xff" + `"}`, "is not UTF-8"},
		{`{"id":1,"method":"\ud83d"}`, "hex escape"},
		{`{"id":1,"method":"\ud83dx"}`, "hex escape"},
		{`{"id":1,"method":"\ud83d\u0041"}`, "hex escape"},
		{`{"id":1,"method":"m","params":` + deep, "nested deeper than 128"},
	} {
		_, err := JSON.Decode([]byte(c.frame))
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Code != CodeInvalidRequest || !strings.Contains(withAdvice(e), c.want) {
			t.Errorf("%.60s:\n got %v\nwant … %s", c.frame, err, c.want)
		}
	}
}

// A frame may be 64 MiB. Refusing a frame must not cost as much memory again.
func TestDecodeRefusesCheaply(t *testing.T) {
	long := strings.Repeat("a", 1<<20)
	for _, frame := range []string{
		`"` + long + `"`,
		`[` + strings.Repeat(`1,`, 1<<19),
		`{"id":` + strings.Repeat("1", 1<<20) + `,"method":"m"}`,
		`{"trace":"` + long + `"}`,
		`{"id":1,"method":"m","params":["` + long + `","` + long,
	} {
		b := []byte(frame)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := JSON.Decode(b)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%.20s… was not refused", frame)
		} else if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 || len(err.Error()) > 512 {
			t.Errorf("%.20s… cost %d bytes and an error of %d", frame, n, len(err.Error()))
		}
	}
}

// refusals are payloads refused by both codecs, with the error in JSON.
func refusals() []refusal {
	start := func(members string) string {
		return `{"processId":"p","argv":["true"],"cwd":"file:///tmp","env":{},"tty":false` + members + `}`
	}
	return []refusal{
		{new(InitializeParams), ``, "invalid type: null, expected struct InitializeParams"},
		{new(InitializeParams), `null`, "invalid type: null, expected struct InitializeParams"},
		{new(InitializeParams), `[]`, "invalid type: sequence, expected struct InitializeParams"},
		{new(InitializeParams), `{}`, "missing field `clientName`"},
		{new(InitializeParams), `{"clientName":1}`, "invalid type: number, expected a string; found 1, in `clientName`"},
		{new(InitializeParams), `{"clientName":"","role":"admin"}`, "unknown variant `admin`, expected one of `owner`, `observer`, `typist`, `controller`; in `role`"},
		{new(InitializeParams), `{"clientName":"","role":""}`, "unknown variant ``, expected one of `owner`, `observer`, `typist`, `controller`; in `role`"},
		{new(InitializeParams), `{"clientName":"","resumeFrom":{"p":1}}`, "resumeFrom needs resumeSessionId: a new session has nothing to replay"},
		{new(InitializeParams), `{"clientName":"","resumeSessionId":"s","resumeFrom":{"p":-1}}`, "invalid number; found -1, expected u64, in `resumeFrom.p`"},
		{new(ProcessStartParams), start(`,"ready":{}`), "expected one of line, tcp, unix, file, delayMs, exit and probe, found 0 of them; in `ready`"},
		{new(ProcessStartParams), start(`,"ready":{"tcp":"x:1","exit":true}`), "expected one of line, tcp, unix, file, delayMs, exit and probe, found 2 of them; in `ready`"},
		{new(ProcessStartParams), start(`,"ready":{"line":"("}`), "error parsing regexp: missing closing ): `(`; in `ready.line`"},
		{new(ProcessStartParams), start(`,"ready":{"line":"` + strings.Repeat("x", 2000) + `"}`), "2000 bytes, the limit is 1024; in `ready.line`"},
		{new(ProcessStartParams), start(`,"ready":{"tcp":"x:1","stream":"stdout"}`), "stream is for line; in `ready`"},
		{new(ProcessStartParams), start(`,"liveness":{}`), "expected silenceMs or probe; in `liveness`"},
		{new(ProcessStartParams), start(`,"liveness":{"probe":{"argv":[]}}`), "expected one of argv, not empty, and http; in `liveness.probe`"},
		{new(GroupStartParams), `{"groupId":"g","processes":[]}`, "processes must not be empty"},
		{new(GroupStartParams), `{"groupId":"g","strategy":"all","processes":[]}`, "unknown variant `all`, expected one of `one_for_one`, `one_for_all`, `rest_for_one`, `independent`; in `strategy`"},
		{new(HTTPRequestParams), `{"method":"GET","url":"http://127.0.0.1/"}`, "missing field `requestId`"},
		{new(HTTPRequestParams), `{"method":"GET","url":"","requestId":"","redirectPolicy":"maybe"}`, "unknown variant `maybe`, expected `follow` or `stop`; in `redirectPolicy`"},
		{new(HTTPRequestParams), `{"method":"GET","url":"","requestId":"","headers":[{"name":"a"}]}`, "missing field `value`; in `headers[0]`"},
		{new(HTTPRequestParams), `{"method":"GET","url":"","requestId":"","headers":[{"name":"a","valueEnvVar":null}]}`, "missing field `value`; in `headers[0]`"},
		{new(HTTPRequestParams), `{"method":"GET","url":"","requestId":"","headers":[{"valueEnvVar":"A"}]}`, "missing field `name`; in `headers[0]`"},
		{new(NoParams), `{"x":1}`, "invalid type: map, expected unit"},
		{new(NoParams), `[]`, "invalid type: sequence, expected unit"},
		{new(Empty), `[]`, "invalid type: sequence, expected struct Empty"},
		{new(ProcessStartParams), `{"processId":"a"}`, "missing field `argv`"},
		{new(ProcessStartParams), `{"processId":"a","argv":["true"],"cwd":"","env":{}}`, "missing field `tty`"},
		{new(ProcessStartParams), `{"processId":"a","argv":["true"],"cwd":"","env":{},"tty":null}`, "invalid type: null, expected a boolean; in `tty`"},
		{new(ProcessStartParams), `{"processId":"a","argv":[],"cwd":"","env":{},"tty":true}`, "argv must not be empty"},
		{new(ProcessStartParams), `{"processId":"a","argv":[],"cwd":"~","env":{},"tty":true,"login":true,"envPolicy":{"inherit":"all","ignoreDefaultExcludes":false,"exclude":[],"set":{},"includeOnly":[]}}`,
			"login has an environment of its own: leave out envPolicy and shellSnapshot"},
		{new(ProcessStartParams), `{"argv":["a",null]}`, "invalid type: null, expected a string; in `argv[1]`"},
		{new(ProcessStartParams), `{"argv":"a"}`, "invalid type: string \"a\", expected a sequence; in `argv`"},
		{new(ProcessStartParams), `{"env":[]}`, "invalid type: sequence, expected a map; in `env`"},
		{new(ProcessStartParams), `{"env":{"X":1}}`, "invalid type: number, expected a string; found 1, in `env.X`"},
		{new(ProcessStartParams), start(`,"envPolicy":{"inherit":"all"}`), "missing field `ignoreDefaultExcludes`; in `envPolicy`"},
		{new(ProcessStartParams), start(`,"envPolicy":{"inherit":"bogus","ignoreDefaultExcludes":true,"exclude":[],"set":{},"includeOnly":[]}`), "unknown variant `bogus`, expected one of `core`, `all`, `none`; in `envPolicy.inherit`"},
		{new(ProcessStartParams), start(`,"envPolicy":{"exclude":["a",7]}`), "invalid type: number, expected a string; found 7, in `envPolicy.exclude[1]`"},
		{new(ProcessStartParams), start(`,"shellSnapshot":{}`), "missing field `scopeId`; in `shellSnapshot`"},
		{new(ProcessStartParams), start(`,"shellSnapshot":{"scopeId":"s"}`), "missing field `shell`; in `shellSnapshot`"},
		{new(ProcessStartParams), start(`,"shellSnapshot":{"scopeId":"s","shell":{"name":"sh"}}`), "missing field `path`; in `shellSnapshot.shell`"},
		{new(ProcessStartParams), start(`,"shellSnapshot":{"scopeId":"` + strings.Repeat("s", 257) + `","shell":{"name":"sh","path":""}}`), "shell snapshot scope must be non-empty and at most 256 bytes; in `shellSnapshot`"},
		{new(ProcessStartParams), start(`,"size":{"rows":0,"cols":80}`), "rows and cols must be positive, found 0 and 80; in `size`"},
		{new(ProcessStartParams), start(`,"size":{"rows":65536,"cols":80}`), "invalid number; found 65536, expected u16, in `size.rows`"},
		{new(ProcessStartParams), start(`,"retention":{"onFull":"drop"}`), "unknown variant `drop`, expected one of `block`, `evict`, `spool`; in `retention.onFull`"},
		{new(ProcessStartParams), start(`,"retention":{"bytes":0}`), "invalid number 0, expected a positive number; in `retention.bytes`"},
		{new(ProcessStartParams), start(`,"limits":{"nofile":-1}`), "invalid number; found -1, expected u64, in `limits.nofile`"},
		{new(ProcessStartParams), start(`,"limits":{"cpuSeconds":0}`), "invalid number 0, expected 1 to 9223372036854775807; in `limits.cpuSeconds`"},
		{new(ProcessStartParams), start(`,"limits":{"coreBytes":18446744073709551615}`), "invalid number 18446744073709551615, expected 0 to 9223372036854775807; in `limits.coreBytes`"},
		{new(ProcessStartParams), start(`,"limits":{"nice":20}`), "invalid number 20, expected -20 to 19; in `limits.nice`"},
		{new(ProcessStartParams), start(`,"limits":{"oomScoreAdj":-1001}`), "invalid number -1001, expected -1000 to 1000; in `limits.oomScoreAdj`"},
		{new(ProcessStartParams), start(`,"limits":{"pids":4194305}`), "invalid number 4194305, expected 1 to 4194304; in `limits.pids`"},
		{new(ProcessStartParams), start(`,"limits":{"cpus":0.001}`), "invalid number 0.001, expected 0.01 to 100000; in `limits.cpus`"},
		{new(ProcessStartParams), start(`,"metadata":{"threadId":"x"}`), "invalid UUID length: 1: \"x\", expected a UUID; in `metadata.threadId`"},
		{new(ProcessReadParams), `{"processId":"p","afterSeq":-1}`, "invalid number; found -1, expected u64, in `afterSeq`"},
		{new(ProcessReadParams), `{"processId":"p","afterSeq":1.5}`, "invalid number; found 1.5, expected u64, in `afterSeq`"},
		{new(ProcessReadParams), `{"processId":"p","afterSeq":"1"}`, "invalid type: string \"1\", expected u64; in `afterSeq`"},
		{new(ProcessReadParams), `{"processId":"p","maxBytes":true}`, "invalid type: boolean `true`, expected u64; in `maxBytes`"},
		{new(ProcessReadParams), `{"processId":"p"} x`, "trailing characters at line 1 column 19; found 'x' at byte 18, expected nothing more"},
		{new(ProcessWriteParams), `{"processId":"p","chunk":"aGkK"}`, "missing field `writeId`"},
		{new(ProcessWriteParams), `{"processId":"p","chunk":"aGkK","writeId":""}`, "writeId must not be empty"},
		{new(ProcessWriteParams), `{"processId":"p","chunk":null,"writeId":"w"}`, "invalid type: null, expected a string; in `chunk`"},
		{new(ProcessWriteParams), `{"processId":"p","chunk":"!!!","writeId":"w"}`, "Invalid symbol 33, offset 0.; expected base64 with padding, in `chunk`"},
		{new(ProcessWriteParams), `{"processId":"p","chunk":"aGk","writeId":"w"}`, "Invalid padding; expected base64 with padding, in `chunk`"},
		{new(ProcessWriteParams), `{"processId":"p","chunk":"aGl=","writeId":"w"}`, "Invalid last symbol 108, offset 2.; expected base64 with padding, in `chunk`"},
		{new(ProcessWriteParams), `{"processId":"p","chunk":"aGkK\n","writeId":"w"}`, "Invalid symbol 10, offset 4.; expected base64 with padding, in `chunk`"},
		{new(ProcessWriteParams), `{"processId":"p","chunk":"aGkK\n\n\n\n","writeId":"w"}`, "Invalid symbol 10, offset 4.; expected base64 with padding, in `chunk`"},
		{new(ProcessSignalParams), `{"processId":"p","signal":"SIGSEGV"}`, "unknown variant `SIGSEGV`, expected one of `interrupt`, `terminate`, `kill`, `hangup`, `quit`, `usr1`, `usr2`, `stop`, `continue`, `winch`, `pipe`; in `signal`"},
		{new(ProcessResizeParams), `{"processId":"p","size":null}`, "invalid type: null, expected struct Size; in `size`"},
		{new(OutputNotification), `{"processId":"p","seq":1,"stream":"tty","chunk":""}`, "unknown variant `tty`, expected one of `stdout`, `stderr`, `pty`; in `stream`"},
		{new(ExitedNotification), `{"processId":"p","seq":1}`, "missing field `exitCode`"},
	}
}

// withAdvice returns the text of an error, a semicolon and the advice.
func withAdvice(e *Error) string { return strings.TrimSuffix(e.Message+"; "+e.Advice(), "; ") }

type refusal struct {
	v             any
	payload, want string
}

func TestUnmarshalRefuses(t *testing.T) {
	for _, c := range refusals() {
		var payload []byte
		if c.payload != "" {
			payload = []byte(c.payload)
		}
		err := JSON.Unmarshal(payload, c.v)
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != CodeInvalidParams || withAdvice(e) != c.want {
			t.Errorf("%T %s:\n got %v\nwant %s", c.v, c.payload, err, c.want)
		}
	}
}

func TestUnmarshalAccepts(t *testing.T) {
	one := uint64(1)
	for _, c := range []struct {
		payload   string
		got, want any
	}{
		{``, new(NoParams), &NoParams{}},
		{` { } `, new(NoParams), &NoParams{}},
		{`null`, new(Empty), &Empty{}},
		{`{"clientName":"","bogus":{"a":[1e5]},"resumeSessionId":null,"session":null}`, new(InitializeParams), &InitializeParams{}},
		{`{"processId":"","afterSeq":null,"maxBytes":null,"waitMs":18446744073709551615}`, new(ProcessReadParams), &ProcessReadParams{WaitMs: 1<<64 - 1}},
		{`{"processId":"a","processId":"b","maxBytes":1}`, new(ProcessReadParams), &ProcessReadParams{ProcessID: "b", MaxBytes: &one}},
		{`{"processId":"p","sandboxType":"none","more":1}`, new(ProcessStartResult), &ProcessStartResult{"p", "none"}},
		// As exec-server sends it.
		{`{"processId":"min","seq":1,"exitCode":-1,"sandboxDenied":true}`, new(ExitedNotification), &ExitedNotification{ProcessID: "min", Seq: 1, ExitStatus: ExitStatus{ExitCode: -1}, SandboxDenied: true}},
		{`{"processId":"c5","seq":1,"stream":"stdout","chunk":"L3RtcAo="}`, new(OutputNotification), &OutputNotification{ProcessID: "c5", Seq: 1, Stream: Stdout, Chunk: []byte("/tmp\n")}},
		// Some encoders escape the slash.
		{`{"processId":"p","chunk":"L3RtcC\/\/","writeId":"\u0031"}`, new(ProcessWriteParams), &ProcessWriteParams{"p", []byte("/tmp/\xff"), "1"}},
	} {
		var payload []byte
		if c.payload != "" {
			payload = []byte(c.payload)
		}
		if err := JSON.Unmarshal(payload, c.got); err != nil {
			t.Errorf("%s: %v", c.payload, err)
		} else if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.payload, c.got, c.want)
		}
	}
}

// Decoded values stay valid when the frame's buffer is reused.
func TestUnmarshalCopies(t *testing.T) {
	payload := []byte(`{"processId":"p","argv":["true"],"cwd":"c","env":{"A":"b"},"tty":false,"sandbox":{"a":1}}`)
	var p ProcessStartParams
	if err := JSON.Unmarshal(payload, &p); err != nil {
		t.Fatal(err)
	}
	clear(payload)
	want := ProcessStartParams{ProcessID: "p", Argv: []string{"true"}, Cwd: "c", Env: map[string]string{"A": "b"}, Sandbox: json.RawMessage(`{"a":1}`)}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("got %+v, want %+v", p, want)
	}
}

// A reader decodes into the same OutputNotification again and again: nothing of the previous
// notification may remain.
func TestUnmarshalOutputAgain(t *testing.T) {
	var got OutputNotification
	for _, want := range []OutputNotification{
		{"p", 1, PTY, bytes.Repeat([]byte("x"), 100), 1_800_000_000_000},
		{"q", 2, Stdout, []byte("short"), 0},
		{"", 3, Stderr, []byte{}, 0},
	} {
		payload, err := appendJSON(nil, want)
		if err != nil {
			t.Fatal(err)
		}
		if err := JSON.Unmarshal(payload, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
}

// Eight bytes at a time must find the same byte as one at a time, at every position.
func TestPlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := bytes.Repeat([]byte("aB3/"), 30)[:rapid.IntRange(0, 120).Draw(t, "len")]
		for range rapid.IntRange(0, 3).Draw(t, "odd") {
			if len(b) > 0 {
				odd := rapid.OneOf(rapid.SampledFrom([]byte("\"\\ !#\x1f\x7f\x80\xa2\xdc")), rapid.Byte())
				b[rapid.IntRange(0, len(b)-1).Draw(t, "where")] = odd.Draw(t, "what")
			}
		}
		n, ascii := plain(b)
		want := bytes.IndexFunc(b, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' })
		if want < 0 {
			want = len(b)
		}
		wantASCII := !bytes.ContainsFunc(b[:want], func(r rune) bool { return r >= utf8.RuneSelf })
		if n != want || ascii != wantASCII {
			t.Fatalf("%q: %d %v, want %d %v", b, n, ascii, want, wantASCII)
		}
	})
}

// The exact bytes of each frame: clients of exec-server read these bytes.
func TestAppend(t *testing.T) {
	code := 7
	frame := func(b []byte, err error) string {
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	for _, c := range []struct{ got, want string }{
		{frame(JSON.AppendRequest(nil, IntID(1), "m", nil)), `{"id":1,"method":"m"}`},
		{frame(JSON.AppendRequest(nil, StringID("\""), "m", Empty{})), `{"id":"\"","method":"m","params":{}}`},
		{frame(JSON.AppendRequest(nil, IntID(1), MethodEnvironmentInfo, NoParams{})), `{"id":1,"method":"environment/info","params":{}}`},
		{frame(JSON.AppendResponse(nil, IntID(-1), ProcessStartResult{"<p&\x01>", "none"})), `{"id":-1,"result":{"processId":"\u003cp\u0026\u0001\u003e","sandboxType":"none"}}`},
		{frame(JSON.AppendFailure(nil, InvalidID, &Error{Code: CodeInvalidRequest, Message: "no"})), `{"error":{"code":-32600,"message":"no"},"id":-1}`},
		{frame(JSON.AppendFailure(nil, InvalidID, Errorf(KindOrder, CodeInvalidRequest, "%s", "no").Advise("say %q", "é"))), `{"error":{"code":-32600,"message":"no","data":{"kind":"order","advice":"say \"é\""}},"id":-1}`},
		{frame(JSON.AppendNotification(nil, NotifyHTTPBodyDelta, &HTTPBodyDeltaNotification{"q2", 1, []byte("hello\n"), false, nil})), `{"method":"http/request/bodyDelta","params":{"requestId":"q2","seq":1,"deltaBase64":"aGVsbG8K","done":false,"error":null}}`},
		{frame(JSON.AppendNotification(nil, NotifyOutput, OutputNotification{ProcessID: "c5", Seq: 1, Stream: Stdout, Chunk: []byte("/tmp\n")})), `{"method":"process/output","params":{"processId":"c5","seq":1,"stream":"stdout","chunk":"L3RtcAo="}}`},
		{frame(JSON.AppendNotification(nil, NotifyExited, ExitedNotification{ProcessID: "p", Seq: 1})), `{"method":"process/exited","params":{"processId":"p","seq":1,"exitCode":0,"sandboxDenied":false}}`},
		{frame(JSON.AppendNotification(nil, NotifyExited, ExitedNotification{"p", 1, ExitStatus{137, "SIGKILL", true, true, true, "timeout", 2, Rusage{1, 2, 3}}, false})),
			`{"method":"process/exited","params":{"processId":"p","seq":1,"exitCode":137,"sandboxDenied":false,"signal":"SIGKILL","coreDumped":true,"timedOut":true,"oomKilled":true,"reason":"timeout","run":2,"rusage":{"userMs":1,"systemMs":2,"maxRssBytes":3}}}`},
		{frame(JSON.AppendResponse(nil, IntID(1), ProcessReadResult{NextSeq: 5})), `{"id":1,"result":{"chunks":[],"nextSeq":5,"exited":false,"exitCode":null,"closed":false,"failure":null,"sandboxDenied":false,"firstSeq":0}}`},
		{frame(JSON.AppendResponse(nil, IntID(1), &ProcessReadResult{Failure: new("x"), Closed: true})), `{"id":1,"result":{"chunks":[],"nextSeq":0,"exited":false,"exitCode":null,"closed":true,"failure":"x","sandboxDenied":false,"firstSeq":0}}`},
		{frame(JSON.AppendResponse(nil, IntID(1), &ProcessReadResult{Chunks: []Chunk{{1, PTY, nil}, {2, Stderr, []byte("a")}}, ExitCode: &code})), `{"id":1,"result":{"chunks":[{"seq":1,"stream":"pty","chunk":""},{"seq":2,"stream":"stderr","chunk":"YQ=="}],"nextSeq":0,"exited":false,"exitCode":7,"closed":false,"failure":null,"sandboxDenied":false,"firstSeq":0}}`},
	} {
		if c.got != c.want {
			t.Errorf(" got %s\nwant %s", c.got, c.want)
		}
	}
}

// wireTypes are all types marshalled on their own.
var wireTypes = []any{
	Error{}, Empty{}, NoParams{},
	InitializeParams{}, InitializeResult{}, EnvironmentInfo{}, EnvironmentStatusResult{},
	ClusterNodesResult{}, ClusterNode{}, ClusterDrainParams{}, Placement{},
	SessionInfoResult{}, SessionListParams{}, SessionListResult{}, SessionSummary{}, SessionProcessesResult{}, SessionProcesses{}, SessionDetailsResult{}, SessionDetails{}, ServerInfoResult{}, AboutServer{}, HolderInfo{}, Replacement{}, HolderProcess{}, RefusedUpgrade{}, ServerEventsParams{}, ServerEventsResult{}, ServerEvent{}, ServerWatchParams{}, ServerChangedNotification{}, SessionChange{}, SessionCloseParams{}, SessionUpdateParams{}, SessionAckParams{}, SessionShareParams{}, SessionShareResult{}, SessionSharesResult{}, ShareInfo{}, SessionUnshareParams{}, SessionUnshareResult{}, SessionChangedNotification{}, SessionEvictedNotification{}, SessionExpiringNotification{},
	ProcessStartParams{}, ProcessStartResult{}, ProcessReadParams{}, ProcessReadResult{}, ReadEvent{}, ProcessSubscribeParams{},
	ProcessWriteParams{}, ProcessWriteResult{}, ProcessCloseStdinParams{}, ProcessResizeParams{}, ProcessSignalParams{},
	ProcessTerminateParams{}, ProcessTerminateResult{}, OtherRun{}, ProcessWaitParams{}, ProcessRestartParams{}, ProcessSetRestartParams{}, RestartedNotification{}, ReadyNotification{}, ProcessWaitResult{}, ProcessListParams{}, ProcessListResult{}, ProcessInfoParams{}, ProcessInfoResult{}, ProcessScreenParams{}, ProcessScreenResult{},
	OutputNotification{}, ExitedNotification{}, ClosedNotification{}, GapNotification{}, EvictedNotification{},
	GroupStartParams{}, GroupStartResult{}, GroupStopParams{}, GroupListResult{}, GroupChangedNotification{},
	FsReadFileParams{}, FsReadFileResult{}, FsOpenParams{}, FsOpenResult{}, FsReadBlockParams{}, FsReadBlockResult{}, FsWriteBlockParams{}, FsCloseParams{},
	FsWriteFileParams{}, FsCreateDirectoryParams{}, FsGetMetadataParams{}, FsGetMetadataResult{}, FsCanonicalizeParams{}, FsCanonicalizeResult{},
	FsReadDirectoryParams{}, FsReadDirectoryResult{}, FsWalkParams{}, FsWalkResult{}, FsRemoveParams{}, FsCopyParams{},
	HTTPRequestParams{}, HTTPRequestResult{}, HTTPBodyDeltaNotification{},
	ClientInfoParams{}, AppCapabilities{}, FsAppMetadataResult{}, ProcessSpawnParams{}, ProcessWriteStdinParams{}, ProcessResizePtyParams{}, ProcessKillParams{}, ProcessOutputDeltaNotification{}, SpawnExitedNotification{},
	CommandExecParams{}, CommandExecResult{}, CommandExecWriteParams{}, CommandExecResizeParams{}, CommandExecTerminateParams{}, CommandExecOutputDeltaNotification{},
	FirstExecParams{}, FirstExecResult{}, FirstExecWriteParams{}, FirstExecWriteResult{}, FirstExecTerminateParams{}, FirstExecTerminateResult{}, FirstExecOutputDeltaNotification{}, FirstExecExitedNotification{},
	FsStatParams{}, FsEntry{}, FsListParams{}, FsListResult{}, FsRenameParams{}, FsSymlinkParams{}, FsSetMetadataParams{},
	FsWatchMissingParams{}, FsWatchMissingResult{}, FsMissingChangedNotification{},
	FsWatchParams{}, FsWatchResult{}, FsUnwatchParams{}, FsChangedNotification{},
	EnvironmentConfigReadParams{}, EnvironmentConfigReadResult{}, CapabilityRootsDiscoverParams{}, CapabilityRootsDiscoverResult{}, CapabilitiesDiscoverParams{}, CapabilitiesDiscoverResult{},
}

func TestFsPaths(t *testing.T) {
	for present, want := range map[string]FsPaths{`null`: nil, `"file:///a"`: {"file:///a"}, `[]`: {}, `["a","b"]`: {"a", "b"}} {
		var p FsWatchMissingParams
		if err := JSON.Unmarshal([]byte(`{"watchId":1,"missing":[],"present":`+present+`}`), &p); err != nil || !reflect.DeepEqual(p.Present, want) {
			t.Errorf("%s: %#v, %v; want %#v", present, p.Present, err, want)
		}
	}
}

// fill sets v to a random value allowed by the rules of its type. An empty value is nil if its
// member is left out when empty, and never nil otherwise.
func fill(t *rapid.T, v reflect.Value, omitted bool) {
	switch p := v.Addr().Interface().(type) {
	case *Stream:
		*p = rapid.SampledFrom([]Stream{Stdout, Stderr, PTY}).Draw(t, "stream")
		return
	case *Signal:
		*p = rapid.SampledFrom([]Signal{SignalInterrupt, SignalKill, SignalWinch}).Draw(t, "signal")
		return
	case *Role:
		*p = rapid.SampledFrom([]Role{RoleOwner, RoleObserver, RoleTypist, RoleController}).Draw(t, "role")
		if omitted && rapid.Bool().Draw(t, "no role") {
			*p = ""
		}
		return
	case *Detail:
		*p = rapid.SampledFrom([]Detail{DetailProcesses, DetailInfo}).Draw(t, "detail")
		if omitted && rapid.Bool().Draw(t, "no detail") {
			*p = ""
		}
		return
	case *State:
		*p = rapid.SampledFrom([]State{StateStarting, StateRunning, StateRestarting, StateWaiting, StateExited, StateClosed}).Draw(t, "state")
		return
	case *Access:
		*p = rapid.SampledFrom([]Access{AccessRead, AccessType}).Draw(t, "access")
		return
	case *ReadDetail:
		*p = rapid.SampledFrom([]ReadDetail{"", ReadTimes, ReadEvents}).Draw(t, "detail")
		return
	case *OnFull:
		*p = rapid.SampledFrom([]OnFull{"", OnFullBlock, OnFullEvict, OnFullSpool}).Draw(t, "onFull")
		return
	case *FsMode:
		*p = rapid.SampledFrom([]FsMode{"", FsRead, FsReplace, FsUpdate}).Draw(t, "mode")
		return
	case *HTTPRedirectPolicy:
		*p = rapid.SampledFrom([]HTTPRedirectPolicy{"", HTTPFollow, HTTPStop}).Draw(t, "redirectPolicy")
		return
	case *WaitFor:
		*p = rapid.SampledFrom([]WaitFor{WaitOwner, WaitItself}).Draw(t, "for")
		return
	case *GroupStrategy:
		*p = rapid.SampledFrom([]GroupStrategy{OneForOne, OneForAll, RestForOne}).Draw(t, "strategy")
		return
	case *Limit:
		*p = rapid.SampledFrom([]Limit{{}, {Given: true, None: true}, {Given: true}, {Given: true, Value: -1}}).Draw(t, "limit")
		return
	case *json.RawMessage:
		*p = rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`{"a":[1,null,"\n"]}`)}).Draw(t, "raw")
		return
	case *[]byte:
		if *p = rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"); omitted && len(*p) == 0 {
			*p = nil
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for f, value := range v.Fields() {
			if !f.IsExported() {
				continue
			}
			fill(t, value, strings.Contains(f.Tag.Get("json"), ",omit"))
		}
		switch p := v.Addr().Interface().(type) {
		case *InitializeParams:
			if p.ResumeSessionID == nil {
				p.ResumeFrom = nil
			}
		case *ProcessStartParams:
			p.Umask = rapid.SampledFrom([]string{"", "022", "0777"}).Draw(t, "umask")
			p.Argv = append(p.Argv, "argument")
			if p.Snapshots() {
				p.ShellSnapshot.Shell.Name = "sh"
			}
			p.Login = p.Login && p.EnvPolicy == nil && p.ShellSnapshot == nil
		case *ProcessWriteParams:
			p.WriteID += "w"
		case *ProcessScreenParams:
			p.WaitFor = rapid.SampledFrom([]string{"", "^up$"}).Draw(t, "waitFor")
		case *Restart:
			p.Policy = rapid.SampledFrom([]string{"temporary", "transient", "permanent"}).Draw(t, "policy")
		case *Ready:
			*p = rapid.SampledFrom([]Ready{{Line: "^up$", Stream: Stdout}, {TCP: "[::1]:1"}, {Unix: "x"}, {File: "y"}, {DelayMs: new(uint64)}, {Exit: true, TimeoutMs: p.TimeoutMs}, {Probe: &Probe{Argv: []string{"a"}}}}).Draw(t, "ready")
		case *Liveness:
			p.SilenceMs = max(p.SilenceMs, 1)
		case *Probe:
			if *p = (Probe{Argv: append(p.Argv, "argument"), EveryMs: p.EveryMs}); p.EveryMs%2 == 0 {
				p.Argv, p.HTTP = nil, "http://[::1]:80/x"
			}
		case *GroupStartParams:
			p.Processes = append(p.Processes, ProcessStartParams{Argv: []string{"a"}, Env: map[string]string{}})
		case *ProcessLimits:
			*p = rapid.SampledFrom([]ProcessLimits{{}, {NoFile: new(uint64)}, {CPUSeconds: new(uint64(math.MaxInt64)), Nice: new(-20), OOMScoreAdj: new(1000)}, {PIDs: new(uint64(1)), CPUs: new(0.01)}}).Draw(t, "limits")
		case *EnvPolicy:
			p.Inherit = rapid.SampledFrom([]string{"core", "all", "none"}).Draw(t, "inherit")
		case *ShellSnapshot:
			p.ScopeID = "s" + strings.Repeat("é", len(p.ScopeID)%100)
		case *Size:
			p.Rows, p.Cols = max(p.Rows, 1), max(p.Cols, 1)
		case *Metadata:
			if p.ThreadID != nil {
				*p.ThreadID = "01a1fd50-93f9-72a2-98a1-b1fe2f7a6ff4"
			}
		case *HTTPRequestHeader:
			if p.ValueEnvVar == nil && p.Value == nil {
				p.Value = new("")
			}
		case *Retention:
			if p.Bytes != nil {
				*p.Bytes = max(*p.Bytes, 1)
			}
			if p.HoldMs != nil {
				*p.HoldMs = *p.HoldMs%MaxHoldMs + 1
			}
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "present") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem(), false)
		}
	case reflect.Slice:
		n := rapid.IntRange(0, 3).Draw(t, "len")
		if n > 0 || !omitted {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range n {
			fill(t, v.Index(i), false)
		}
	case reflect.Map:
		n := rapid.IntRange(0, 3).Draw(t, "len")
		if n > 0 || !omitted {
			v.Set(reflect.MakeMap(v.Type()))
		}
		for range n {
			elem := reflect.New(v.Type().Elem()).Elem()
			fill(t, elem, false)
			v.SetMapIndex(reflect.ValueOf(rapid.String().Draw(t, "key")), elem)
		}
	case reflect.String:
		v.SetString(rapid.String().Draw(t, "string"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int"))
	case reflect.Uint16:
		v.SetUint(uint64(rapid.Uint16().Draw(t, "uint16")))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, "float") + 0) // -0 has no text of its own in JSON
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "uint64"))
	default:
		t.Fatalf("%s is not a type of the wire", v.Type())
	}
}

func TestMessagesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := IntID(rapid.Int64().Draw(t, "number"))
		if rapid.Bool().Draw(t, "string id") {
			id = StringID(rapid.String().Draw(t, "string"))
		}
		body := []byte(`{"a":[1,"b",null]}`)
		sayOf(t, Message{Kind: Request, ID: id, Method: rapid.String().Draw(t, "method"), Payload: body})
		sayOf(t, Message{Kind: Request, ID: id, Method: "m"})
		sayOf(t, Message{Kind: Response, ID: id, Payload: body})
		sayOf(t, Message{Kind: Failure, ID: id, Error: &Error{Code: rapid.Int().Draw(t, "code"), Message: rapid.String().Draw(t, "text")}})
		sayOf(t, Message{Kind: Failure, ID: id, Error: Errorf(KindOrder, 1, "no").Advise("%s", rapid.String().Draw(t, "advice"))})
		sayOf(t, Message{Kind: Notification, Method: rapid.String().Draw(t, "method"), Payload: body})

		b, err := json.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		var back ID
		if err := json.Unmarshal(b, &back); err != nil || back != id {
			t.Fatalf("%s came back as %s, %v", id, back, err)
		}
	})
}

// sayOf encodes m, and fails unless the result decodes to m.
func sayOf(t interface {
	Helper()
	Fatalf(string, ...any)
}, m Message) {
	t.Helper()
	var params any
	if m.Payload != nil {
		params = json.RawMessage(m.Payload)
	}
	var frame []byte
	var err error
	switch m.Kind {
	case Request:
		frame, err = JSON.AppendRequest(nil, m.ID, m.Method, params)
	case Response:
		frame, err = JSON.AppendResponse(nil, m.ID, params)
	case Failure:
		frame, err = JSON.AppendFailure(nil, m.ID, m.Error)
	case Notification:
		frame, err = JSON.AppendNotification(nil, m.Method, params)
	}
	if err != nil {
		t.Fatalf("%+v: %v", m, err)
	}
	if got, err := JSON.Decode(frame); err != nil || !reflect.DeepEqual(got, m) {
		t.Fatalf("%s:\n got %+v, %v\nwant %+v", frame, got, err, m)
	}
}

// Encoding by hand and encoding with tables give the same bytes.
func TestAppendAgreesWithTables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var n OutputNotification
		var r ProcessReadResult
		fill(t, reflect.ValueOf(&n).Elem(), false)
		fill(t, reflect.ValueOf(&r).Elem(), false)
		for _, packed := range []bool{false, true} {
			for _, v := range []any{n, r} {
				hand, table := sinkOf([]byte("x"), packed), sinkOf([]byte("x"), packed)
				byHand, err := hand.end(nil, hand.body(v))
				byTable, err2 := table.end(nil, table.value(reflect.ValueOf(v)))
				if err != nil || err2 != nil || !bytes.Equal(byHand, byTable) {
					t.Fatalf("by hand %q, %v, by table %q, %v", byHand, err, byTable, err2)
				}
			}
		}
	})
}

// Members in any order, doubled, missing, unknown, escaped, of the wrong type.
func TestUnmarshalByHandAgreesWithTables(t *testing.T) {
	keys := rapid.SampledFrom([]string{"processId", "chunk", "writeId", "seq", "stream", "other", `\u0073eq`})
	values := rapid.SampledFrom([]string{`"p"`, `""`, `"aGkK"`, `"aGk="`, `"aGk"`, `"aGkK\n"`, `"L3RtcC\/\/"`, `"é"`, `"pty"`, `"stdout"`, `"st\u0064out"`, `1`, `0`, `-1`, `1.5`, `18446744073709551615`, `18446744073709551616`, `null`, `{}`, `["a"]`})
	plausible := map[string]string{"processId": `"p"`, "chunk": `"aGkK"`, "writeId": `"w"`, "seq": `1`, "stream": `"pty"`}
	member := rapid.Custom(func(t *rapid.T) string {
		key := keys.Draw(t, "key")
		value, ok := plausible[key]
		if !ok || rapid.IntRange(0, 3).Draw(t, "odd") == 0 {
			value = values.Draw(t, "value")
		}
		return fmt.Sprintf(`"%s" :%s`, key, value)
	})
	distinct := func(s string) string { return s[:4] }
	rapid.Check(t, func(t *rapid.T) {
		members := rapid.OneOf(rapid.SliceOfN(member, 3, 5), rapid.SliceOfNDistinct(member, 3, 4, distinct)).Draw(t, "members")
		payload := "{" + strings.Join(members, ",") + "}"
		agree[ProcessWriteParams](t, JSON, []byte(payload))
		agree[OutputNotification](t, JSON, []byte(payload))
	})
}

// The vector code must agree with the standard library: for every length around its blocks, every
// alignment, any surrounding bytes, and, in decoding, every byte.
func TestBase64(t *testing.T) {
	strict := stdbase64.StdEncoding.Strict()
	data := make([]byte, 300)
	for i := range data {
		data[i] = byte(i * 7)
	}
	for n := range 200 {
		for align := range 33 {
			p := data[align : align+n]
			got := appendBase64(append(make([]byte, 0, 8), data[:align]...), p)[align:]
			if want := `"` + strict.EncodeToString(p) + `"`; string(got) != want {
				t.Fatalf("%d bytes at %d: encoded %s, want %s", n, align, got, want)
			}
			// The destination is exactly as long as necessary.
			src := got[1 : len(got)-1]
			if back, err := decodeBase64(nil, src); err != nil || !bytes.Equal(back, p) {
				t.Fatalf("%d bytes at %d: decoded %x, %v", n, align, back, err)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(strict.EncodeToString(rapid.SliceOfN(rapid.Byte(), 0, 120).Draw(t, "data")))
		if len(text) > 0 && rapid.Bool().Draw(t, "damage") {
			text[rapid.IntRange(0, len(text)-1).Draw(t, "where")] = rapid.Byte().Draw(t, "what")
		}
		want, wantErr := strict.DecodeString(string(text))
		if bytes.ContainsAny(text, "\r\n") {
			wantErr = errors.New("line break")
		}
		got, err := decodeBase64(nil, text)
		if (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want) {
			t.Fatalf("%q: %x, %v; want %x, %v", text, got, err, want, wantErr)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"id":1,"method":"process/read","params":{"processId":"x"}}`,
		`{"id":"a\u00e9","result":{"chunks":[]}}`,
		`{"error":{"code":-32600,"message":"no"},"id":-1}`,
		`{"method":"process/output","params":{"processId":"p","seq":1,"stream":"pty","chunk":"aGkK"}}`,
		`{"trace":{"traceparent":"x"},"method":"initialized","jsonrpc":"2.0"}`,
		`[{}]`, `{"id":1.5e+7}`, `{"a":"\ud83d"}`, "{\"a\":\"\xff\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		// The scanner accepts the same texts as the standard library, except for broken characters
		// and depth.
		s := scanner{b: frame}
		_, err := s.raw()
		if err == nil {
			err = s.end()
		}
		if valid := json.Valid(frame); err == nil && !valid {
			t.Fatalf("%q is not JSON and was accepted", frame)
		} else if err != nil && valid && utf8.Valid(frame) && len(frame) < maxDepth && !bytes.Contains(frame, []byte(`\u`)) {
			t.Fatalf("%q is JSON and was refused: %v", frame, err)
		}

		var m Message
		if n := testing.AllocsPerRun(1, func() { m, err = JSON.Decode(frame) }); n > 64 {
			t.Fatalf("%q: %v allocations", frame, n)
		}
		if err != nil {
			if e, ok := errors.AsType[*Error](err); !ok || e.Code != CodeInvalidRequest || len(e.Message) > 1024 {
				t.Fatalf("%q: %v", frame, err)
			}
			return
		}
		m.Trace = nil // no codec writes it
		sayOf(t, m)
		for _, sample := range wireTypes {
			v := reflect.New(reflect.TypeOf(sample))
			if JSON.Unmarshal(m.Payload, v.Interface()) != nil {
				continue
			}
			b, err := appendJSON(nil, v.Interface())
			if err != nil {
				t.Fatalf("%q as %T: %v", m.Payload, sample, err)
			}
			again := reflect.New(v.Type().Elem())
			if err := JSON.Unmarshal(b, again.Interface()); err != nil {
				t.Fatalf("%q as %T became %q: %v", m.Payload, sample, b, err)
			}
			if c, err := appendJSON(nil, again.Interface()); err != nil || !bytes.Equal(b, c) {
				t.Fatalf("%q as %T became %q and then %q, %v", m.Payload, sample, b, c, err)
			}
		}
	})
}

func FuzzWriteParams(f *testing.F) {
	f.Add([]byte(`{"processId":"p","chunk":"aGkK","writeId":"w"}`))
	f.Add([]byte(`{"processId":"p","chunk":"!","chunk":"aGkK","writeId":"w"}`))
	f.Add([]byte(`{"processId":"p","seq":1,"stream":"tty","stream":"pty","chunk":"aGkK"}`))
	f.Add([]byte(`{"writeId":"\u0031","chunk":"aGk=","processId":"", "x":[1]}`))
	f.Add([]byte(`{"processId":"p","seq":1,"stream":"pty","chunk":"` + strings.Repeat("aGkK", 20) + `"}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		agree[ProcessWriteParams](t, JSON, payload)
		agree[OutputNotification](t, JSON, payload)
	})
}

// FitString cuts between two characters, and counts the bytes that JSON makes of a string.
func TestFitString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOf(rapid.RuneFrom([]rune("a\"\\\b\f\n\r\t\x00\x1f<>&\u007f\u2028\u2029\ufffdé\U0001f600"))).Draw(t, "text") + rapid.SampledFrom([]string{"", "\xff", "\xe2\x82"}).Draw(t, "end")
		most := rapid.IntRange(2, 60).Draw(t, "most")
		fits, size := FitString(s, most)
		escaped := func(s string) int {
			b, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			return len(b)
		}
		if got := escaped(fits); got != size || size > most || len(appendString(nil, fits)) > size || !strings.HasPrefix(s, fits) {
			t.Fatalf("%q: %q with %d bytes, want %d, at most %d", s, fits, size, got, most)
		}
		if rest := s[len(fits):]; rest != "" {
			_, n := utf8.DecodeRuneInString(rest)
			if more := escaped(s[:len(fits)+n]); more <= most {
				t.Fatalf("%q: %q has %d bytes of %d, and one more character makes %d", s, fits, size, most, more)
			}
		}
	})
}
