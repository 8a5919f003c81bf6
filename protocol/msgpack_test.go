package protocol

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

// unhex returns the bytes of s, written in hexadecimal with blanks, or as 'text'.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	var all []byte
	for i, part := range strings.Split(s, "'") {
		if i%2 == 1 {
			all = append(all, part...)
			continue
		}
		b, err := hex.DecodeString(strings.ReplaceAll(part, " ", ""))
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		all = append(all, b...)
	}
	return all
}

func TestMsgpackDecode(t *testing.T) {
	for _, c := range []struct {
		frame string
		want  Message
	}{
		{`83 a2'id' 01 a6'method' a1'm' a6'params' 81 a1'a' 91 01`, Message{Kind: Request, ID: IntID(1), Method: "m", Payload: []byte("\x81\xa1a\x91\x01")}},
		{`de0002 d90 6'method' d9 01'm' a2'id' da0000`, Message{Kind: Request, ID: StringID(""), Method: "m"}},
		{`84 a2'id' d0fb a6'method' a1'm' a6'params' c0 a5'extra' c7`, Message{}}, // an extension: refused below
		{`84 a2'id' d0fb a6'method' a1'm' a6'params' c0 a5'extra' c40100`, Message{Kind: Request, ID: IntID(-5), Method: "m", Payload: []byte{0xc0}}},
		{`82 a2'id' cf7fffffffffffffff a6'method' a1'm'`, Message{Kind: Request, ID: IntID(math.MaxInt64), Method: "m"}},
		{`82 a2'id' d38000000000000000 a6'method' a1'm'`, Message{Kind: Request, ID: IntID(math.MinInt64), Method: "m"}},
		{`82 a2'id' d2ffffffff a6'method' a1'm'`, Message{Kind: Request, ID: IntID(-1), Method: "m"}},
		{`82 a2'id' d17fff a6'method' a1'm'`, Message{Kind: Request, ID: IntID(math.MaxInt16), Method: "m"}},
		{`83 a2'id' 01 a6'method' a1'm' a5'trace' 80`, Message{Kind: Request, ID: IntID(1), Method: "m"}},
		{`81 a6'method' a1'm'`, Message{Kind: Notification, Method: "m"}},
		{`82 a2'id' a1'x' a6'result' c0`, Message{Kind: Response, ID: StringID("x"), Payload: []byte{0xc0}}},
		{`83 a2'id' 01 a6'result' 80 a5'error' c0`, Message{Kind: Response, ID: IntID(1), Payload: []byte{0x80}}},
		{`82 a5'error' 83 a4'code' d1 80a8 a7'message' a2'no' a4'data' 91 01 a2'id' ff`, Message{Kind: Failure, ID: InvalidID, Error: &Error{Code: CodeInvalidRequest, Message: "no", Data: []byte(`[1]`)}}},
	} {
		frame := unhex(t, c.frame)
		got, err := Msgpack.Decode(frame)
		if c.want.Kind == 0 {
			if err == nil {
				t.Errorf("%s: %+v", c.frame, got)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.frame, err)
		} else if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.frame, got, c.want)
		}
		if n := len(got.Payload); n > 0 && cap(got.Payload) != n {
			t.Errorf("%s: appending to the payload would write into the frame", c.frame)
		} else if n > 0 {
			at := bytes.Index(frame, got.Payload)
			frame[at] ^= 1
			if got.Payload[0] != frame[at] {
				t.Errorf("%s: the payload is a copy", c.frame)
			}
		}
	}
}

// Refusing a message costs nothing in proportion to its announced lengths.
func TestMsgpackDecodeRefuses(t *testing.T) {
	request := func(params string) string { return `83 a2'id' 01 a6'method' a1'm' a6'params' ` + params }
	for _, c := range []struct{ frame, want string }{
		{``, "the message ends at byte 0, expected a value"},
		{`7b`, "expected a map: this connection speaks msgpack"},
		{`90`, "batches are not supported"},
		{`c1`, "0xc1 at byte 0 begins no value"},
		{`80`, "missing field `error`"},
		{`81 a2'id' 19`, "missing field `error`"},
		{`81 a6'result' 80`, "missing field `id`"},
		{`82 a2'id' c0 a6'method' a1'm'`, "invalid type: null, expected a string or a 64-bit integer, in `id`"},
		{`82 a2'id' cb3ff8000000000000 a6'method' a1'm'`, "found 1.5, expected a string or a 64-bit integer, in `id`"},
		{`82 a2'id' ca3f800000 a6'method' a1'm'`, "found 1.0, expected a string or a 64-bit integer, in `id`"},
		{`82 a2'id' cf8000000000000000 a6'method' a1'm'`, "found 9223372036854775808, expected a string or a 64-bit integer, in `id`"},
		{`82 a2'id' c40178 a6'method' a1'm'`, "invalid type: bytes, expected a string or a 64-bit integer, in `id`"},
		{`82 a2'id' da0401` + strings.Repeat("78", 1025) + ` a6'method' a1'm'`, "`id` has 1025 bytes, the limit is 1024"},
		{`82 a2'id' 01 a6'method' c4016d`, "invalid type: bytes, expected a string, in `method`"},
		{`83 a2'id' 01 a6'method' a1'm' a5'trace' a3'bad'`, "invalid type: string \"bad\", expected struct W3cTraceContext, in `trace`"},
		{`82 a2'id' 01 a5'error' 82 a4'code' a1'x' a7'message' a0`, "invalid type: string \"x\", expected i64, in `error.code`"},
		{`82 a2'id' 01 a5'error' 81 a4'code' 01`, "missing field `message`, in `error`"},
		{`82 a2'id' 01 a6'method'`, "the message ends at byte 12, expected a value"},
		{request(`80`) + `00`, "1 bytes follow the end at byte 22, expected nothing more"},
		{request(`81 01 01`), "the key at byte 22 is not a string, in `params`"},
		{request(`81 c40161 01`), "the key at byte 22 is not a string, in `params`"},
		{request(`91 81 c0 01`), "the key at byte 23 is not a string, in `params`"},
		{request(`91 a1 ff`), "the string at byte 23 is not UTF-8, in `params`"},
		{request(`81 a1 ff 01`), "the string at byte 23 is not UTF-8, in `params`"},
		{`82 a1'x' a1 ff a6'method' a1'm'`, "the string at byte 4 is not UTF-8"},
		{`81 a1 ff 01`, "the string at byte 2 is not UTF-8"},
		{request(`d4 00 00`), "an extension (0xd4) at byte 21"},
		{request(`91 c8 0001 00 00`), "an extension (0xc8) at byte 22"},
		{request(`cd 01`), "the message ends within the head of the value at byte 21"},
		{request(`d9`), "the message ends within the head of the value at byte 21"},

		// Wrong lengths.
		{request(`dd ffffffff 01`), "the value at byte 21 announces a length of 4294967295, but only 1 bytes follow"},
		{request(`df ffffffff a0 01`), "a length of 4294967295, but only 2 bytes follow"},
		{request(`df 00000002 a0 01 a0`), "a length of 2, but only 3 bytes follow"},
		{request(`c6 ffffffff 01`), "a length of 4294967295, but only 1 bytes follow"},
		{request(`db ffffffff 01`), "a length of 4294967295, but only 1 bytes follow"},
		{request(`dc 0003 01 01`), "a length of 3, but only 2 bytes follow"},
		{request(`a5'four'`), "a length of 5, but only 4 bytes follow"},
		{request(`92 dd 00000002 01 01`), "the message ends at byte 29"}, // the inner value takes the bytes needed by the outer value
		{`df ffffffff`, "a length of 4294967295, but only 0 bytes follow"},

		// Nesting.
		{request(strings.Repeat("91", 1<<20)), "nested deeper than 128 at byte 150"},
		{request(strings.Repeat("81 a0", 1<<19)), "nested deeper than 128"},
		{`82 a1'x' ` + strings.Repeat("91", 200) + `00`, "nested deeper than 128"},
		{request(strings.Repeat("91", maxDepth+1) + "80"), "nested deeper than 128"},
	} {
		frame := unhex(t, c.frame)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Msgpack.Decode(frame)
		runtime.ReadMemStats(&after)
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Code != CodeInvalidRequest || !strings.Contains(strings.ReplaceAll(withAdvice(e), "; ", ", "), c.want) {
			t.Errorf("%.60s:\n got %v\nwant … %s", c.frame, err, c.want)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
			t.Errorf("%.60s: cost %d bytes", c.frame, n)
		}
	}
	if _, err := Msgpack.Decode(unhex(t, request(strings.Repeat("91", maxDepth)+"80"))); err != nil {
		t.Errorf("as deep as may be: %v", err)
	}
}

// The same payloads are refused as in JSON, with the same words.
func TestMsgpackUnmarshalRefuses(t *testing.T) {
	refuse := func(v any, payload []byte, want string) {
		t.Helper()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := Msgpack.Unmarshal(payload, v)
		runtime.ReadMemStats(&after)
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != CodeInvalidParams || withAdvice(e) != want {
			t.Errorf("%T %x:\n got %v\nwant %s", v, payload, err, want)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
			t.Errorf("%T %.40x: cost %d bytes", v, payload, n)
		}
	}
	tried := 0
	for _, c := range refusals() {
		if strings.Contains(c.want, "in `chunk`") || strings.Contains(c.want, "nothing more") {
			continue // this case is for JSON only
		}
		var payload []byte
		if c.payload != "" {
			var b bytes.Buffer
			theirs := msgpack.NewEncoder(&b)
			theirs.SetSortMapKeys(true)
			if err := theirs.Encode(fromJSON(t, []byte(c.payload))); err != nil {
				t.Fatal(err)
			}
			payload = b.Bytes()
		}
		refuse(c.v, payload, c.want)
		tried++
	}
	if tried < 50 {
		t.Errorf("%d payloads were tried", tried)
	}

	write := `83 a9'processId' a1'p' a7'writeId' a1'w' a5'chunk' `
	read := `82 a9'processId' a1'p' a8'maxBytes' `
	for _, c := range []struct {
		v             any
		payload, want string
	}{
		{new(ProcessWriteParams), write + `a4'aGkK'`, "invalid type: string \"aGkK\", expected bytes (bin): as they are, not in base64; in `chunk`"},
		{new(ProcessWriteParams), write + `c0`, "invalid type: null, expected bytes (bin): as they are, not in base64; in `chunk`"},
		{new(ProcessWriteParams), write + `93 01 02 03`, "invalid type: sequence, expected bytes (bin): as they are, not in base64; in `chunk`"},
		{new(ProcessWriteParams), write + `c6 7fffffff 00`, "the value at byte 29 announces a length of 2147483647, but only 1 bytes follow; in `chunk`"},
		{new(ProcessWriteParams), write + `c400 00`, "1 bytes follow the end at byte 31, expected nothing more"},
		{new(OutputNotification), `84 a9'processId' a1'p' a3'seq' 01 a6'stream' 01 a5'chunk' c400`, "invalid type: number, expected a string; found 1, in `stream`"},
		{new(OutputNotification), `84 a9'processId' c40170 a3'seq' 01 a6'stream' a3'pty' a5'chunk' c400`, "invalid type: bytes, expected a string; in `processId`"},
		{new(OutputNotification), `84 a9'processId' a1'p' a3'seq' ff a6'stream' a3'pty' a5'chunk' c400`, "invalid number; found -1, expected u64, in `seq`"},
		{new(OutputNotification), `84 a9'processId' a1'p' a3'seq' ca3f800000 a6'stream' a3'pty' a5'chunk' c400`, "invalid number; found 1.0, expected u64, in `seq`"},
		{new(OutputNotification), `84 a9'processId' a1'p' a9'processId' a1'p' a6'stream' a3'pty' a5'chunk' c400`, "missing field `seq`"},
		{new(ProcessReadParams), read + `ca3f800000`, "invalid number; found 1.0, expected u64, in `maxBytes`"},
		{new(ProcessReadParams), read + `cb7ff8000000000000`, "invalid number; found NaN, expected u64, in `maxBytes`"},
		{new(ProcessReadParams), read + `ff`, "invalid number; found -1, expected u64, in `maxBytes`"},
		{new(ProcessReadParams), read + `d3ffffffffffffffff`, "invalid number; found -1, expected u64, in `maxBytes`"},
		{new(ExitedNotification), `83 a9'processId' a1'p' a3'seq' 01 a8'exitCode' cfffffffffffffffff`, "invalid number; found 18446744073709551615, expected i64, in `exitCode`"},
		{new(Size), `82 a4'rows' cd0100 a4'cols' ce00010000`, "invalid number; found 65536, expected u16, in `cols`"},
		{new(Backoff), `82 a9'initialMs' 01 a6'factor' cb7ff0000000000000`, "invalid number; found +Inf, expected f64, in `factor`"},
		{new(Backoff), `82 a9'initialMs' 01 a6'jitter' cb7ff8000000000000`, "invalid number; found NaN, expected f64, in `jitter`"},
		{new(ProcessStartParams), `81 a7'sandbox' 81 01 01`, "the key at byte 10 is not a string; in `sandbox`"},
		{new(ProcessStartParams), `81 a7'sandbox' 91 cb7ff8000000000000`, "NaN is not a number of JSON; in `sandbox`"},
		{new(ProcessStartParams), `81 a7'sandbox' ` + strings.Repeat("91", 1<<20), "nested deeper than 128 at byte 138; in `sandbox`"},
		{new(ProcessStartParams), `81 a4'argv' dd 7fffffff a0`, "the value at byte 6 announces a length of 2147483647, but only 1 bytes follow; in `argv`"},
		{new(ProcessStartParams), `81 a3'env' df 7fffffff a0 a0`, "the value at byte 5 announces a length of 2147483647, but only 2 bytes follow; in `env`"},
		{new(SessionAckParams), `df 7fffffff`, "the value at byte 0 announces a length of 2147483647, but only 0 bytes follow"},
		{new(NoParams), `81 a1'x' 01`, "invalid type: map, expected unit"},
	} {
		refuse(c.v, unhex(t, c.payload), c.want)
	}
}

func TestMsgpackUnmarshalAccepts(t *testing.T) {
	one := uint64(1)
	for _, c := range []struct {
		payload   string
		got, want any
	}{
		{``, new(NoParams), &NoParams{}},
		{`80`, new(NoParams), &NoParams{}},
		{`de0000`, new(NoParams), &NoParams{}},
		{`c0`, new(Empty), &Empty{}},
		{`83 aa'clientName' a0 a5'bogus' 81 a1'a' 92 cb7ff8000000000000 c40100 af'resumeSessionId' c0`, new(InitializeParams), &InitializeParams{}},
		{`83 a9'processId' a0 a8'maxBytes' c0 a6'waitMs' cfffffffffffffffff`, new(ProcessReadParams), &ProcessReadParams{WaitMs: math.MaxUint64}},
		{`83 a9'processId' a1'a' a9'processId' a1'b' a8'maxBytes' d3 0000000000000001`, new(ProcessReadParams), &ProcessReadParams{ProcessID: "b", MaxBytes: &one}},
		{`82 a9'initialMs' 01 a6'factor' 02`, new(Backoff), &Backoff{InitialMs: new(uint64(1)), Factor: 2}},
		{`82 a9'initialMs' 01 a6'factor' ca3fc00000`, new(Backoff), &Backoff{InitialMs: new(uint64(1)), Factor: 1.5}},
		{`84 a9'processId' a2'c5' a3'seq' 01 a6'stream' a6'stdout' a5'chunk' c5 0003'abc'`, new(OutputNotification), &OutputNotification{ProcessID: "c5", Seq: 1, Stream: Stdout, Chunk: []byte("abc")}},
		{`84 a9'processId' a2'c5' a3'seq' d001 a6'stream' a6'stdout' a5'chunk' c400`, new(OutputNotification), &OutputNotification{ProcessID: "c5", Seq: 1, Stream: Stdout, Chunk: []byte{}}},
		{`83 a9'processId' a1'p' a5'chunk' c400 a7'writeId' a1'w'`, new(ProcessWriteParams), &ProcessWriteParams{"p", []byte{}, "w"}},
	} {
		var payload []byte
		if c.payload != "" {
			payload = unhex(t, c.payload)
		}
		if err := Msgpack.Unmarshal(payload, c.got); err != nil {
			t.Errorf("%s: %v", c.payload, err)
		} else if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.payload, c.got, c.want)
		}
		clear(payload) // the buffer may be reused
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: what was decoded aliases it: %+v", c.payload, c.got)
		}
	}
}

// A value kept undecoded becomes JSON, whatever its kind.
func TestMsgpackRaw(t *testing.T) {
	for _, c := range []struct{ packed, text string }{
		{`81 a1'a' 93 c0 c3 c2`, `{"a":[null,true,false]}`},
		{`92 ff cfffffffffffffffff`, `[-1,18446744073709551615]`},
		{`92 cb3ff0000000000000 cb3ff8000000000000`, `[1.0,1.5]`},
		{`91 cb444b1ae4d6e2ef50`, `[1e+21]`},
		{`82 a0 80 a2'é' 90`, `{"":{},"é":[]}`},
		{`91 a2'"` + "\n'", `["\"\n"]`},
	} {
		packed := unhex(t, c.packed)
		u := unpacker{b: packed}
		raw, err := u.rawJSON()
		if err == nil {
			err = u.end()
		}
		if err != nil || string(raw) != c.text {
			t.Errorf("%s: %s, %v; want %s", c.packed, raw, err, c.text)
		}
		back, err := encoded(Msgpack, json.RawMessage(c.text))
		again := unpacker{b: back}
		if raw, err2 := again.rawJSON(); err != nil || err2 != nil || string(raw) != c.text {
			t.Errorf("%s is packed as %x, %v, which is %s, %v", c.text, back, err, raw, err2)
		}
	}
	u := unpacker{b: unhex(t, `c4 02'hi'`)}
	if raw, err := u.rawJSON(); string(raw) != `"aGk="` || err != nil {
		t.Errorf("bytes: %s, %v", raw, err)
	}
}

// The exact bytes of each frame: clients in other languages read these bytes.
func TestMsgpackAppend(t *testing.T) {
	frame := func(b []byte, err error) []byte {
		if err != nil {
			t.Error(err)
		}
		return b
	}
	for _, c := range []struct {
		got  []byte
		want string
	}{
		{frame(Msgpack.AppendRequest(nil, IntID(1), "m", nil)), `82 a2'id' 01 a6'method' a1'm'`},
		{frame(Msgpack.AppendRequest(nil, StringID("x"), "m", Empty{})), `83 a2'id' a1'x' a6'method' a1'm' a6'params' 80`},
		{frame(Msgpack.AppendResponse(nil, IntID(-1), ProcessStartResult{"p", "none"})), `82 a2'id' ff a6'result' 82 a9'processId' a1'p' ab'sandboxType' a4'none'`},
		{frame(Msgpack.AppendFailure(nil, InvalidID, &Error{Code: CodeInvalidRequest, Message: "no"})), `82 a5'error' 82 a4'code' d180a8 a7'message' a2'no' a2'id' ff`},
		{frame(Msgpack.AppendFailure(nil, InvalidID, Errorf(KindOrder, CodeInvalidRequest, "%s", "no").Advise("so"))), `82 a5'error' 83 a4'code' d180a8 a7'message' a2'no' a4'data' df00000002 a4'kind' a5'order' a6'advice' a2'so' a2'id' ff`},
		{frame(Msgpack.AppendNotification(nil, NotifyOutput, OutputNotification{ProcessID: "c5", Seq: 300, Stream: Stdout, Chunk: []byte("/tmp\n")})),
			`82 a6'method' ae'process/output' a6'params' 84 a9'processId' a2'c5' a3'seq' cd012c a6'stream' a6'stdout' a5'chunk' c405'/tmp' 0a`},
		{frame(Msgpack.AppendNotification(nil, NotifyExited, ExitedNotification{ProcessID: "p", Seq: 1})),
			`82 a6'method' ae'process/exited' a6'params' 84 a9'processId' a1'p' a3'seq' 01 a8'exitCode' 00 ad'sandboxDenied' c2`},
		{frame(Msgpack.AppendResponse(nil, IntID(1), ProcessReadResult{NextSeq: 5, Chunks: []Chunk{{1, PTY, nil}}})),
			`82 a2'id' 01 a6'result' 88 a6'chunks' 91 83 a3'seq' 01 a6'stream' a3'pty' a5'chunk' c400 a7'nextSeq' 05 a6'exited' c2 a8'exitCode' c0 a6'closed' c2 a7'failure' c0 ad'sandboxDenied' c2 a8'firstSeq' 00`},
		{frame(Msgpack.AppendResponse(nil, IntID(1), Error{Code: -1, Message: "a\xff\xffb"})), `82 a2'id' 01 a6'result' 82 a4'code' ff a7'message' a8'a' efbfbd efbfbd'b'`}, // as in JSON
	} {
		if want := unhex(t, c.want); !bytes.Equal(c.got, want) {
			t.Errorf("%s:\n got %q\nwant %q", c.want, c.got, want)
		}
	}
}

// Members in any order, doubled, missing, unknown, of the wrong type.
func TestMsgpackUnmarshalByHandAgreesWithTables(t *testing.T) {
	keys := rapid.SampledFrom([]string{"processId", "chunk", "writeId", "seq", "stream", "other"})
	values := rapid.SampledFrom([]any{"p", "", "pty", "stdout", []byte("hi"), []byte{}, 1, -1, 1.5, float32(1), uint64(math.MaxUint64), nil, true, []any{"a"}, map[string]any{}})
	plausible := map[string]any{"processId": "p", "chunk": []byte("hi\n"), "writeId": "w", "seq": 1, "stream": "pty"}
	member := rapid.Custom(func(t *rapid.T) string {
		key := keys.Draw(t, "key")
		value, ok := plausible[key]
		if !ok || rapid.IntRange(0, 3).Draw(t, "odd") == 0 {
			value = values.Draw(t, "value")
		}
		k, _ := msgpack.Marshal(key)
		v, _ := msgpack.Marshal(value)
		return string(k) + string(v)
	})
	distinct := func(s string) string { return s[:4] }
	rapid.Check(t, func(t *rapid.T) {
		members := rapid.OneOf(rapid.SliceOfN(member, 3, 5), rapid.SliceOfNDistinct(member, 3, 4, distinct)).Draw(t, "members")
		payload := append([]byte{0x80 | byte(len(members))}, strings.Join(members, "")...)
		agree[ProcessWriteParams](t, Msgpack, payload)
		agree[OutputNotification](t, Msgpack, payload)
	})
}

func FuzzMsgpackDecode(f *testing.F) {
	for _, s := range []string{
		`83 a2'id' 01 a6'method' ac'process/read' a6'params' 81 a9'processId' a1'x'`,
		`82 a2'id' a2'é' a6'result' 81 a6'chunks' 90`,
		`82 a5'error' 82 a4'code' d1 80a8 a7'message' a2'no' a2'id' ff`,
		`82 a6'method' ae'process/output' a6'params' 84 a9'processId' a1'p' a3'seq' 01 a6'stream' a3'pty' a5'chunk' c402'hi'`,
		`83 a5'trace' 81 a1'x' c0 a6'method' a1'm' a1'x' 91 cb7ff8000000000000`,
		`90`, `81 a2'id' cb3ff8000000000000`, `dd ffffffff 01`, `df00000001a0a1ff`, `d40000`, `c1`,
	} {
		f.Add(unhex(f, s))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		// The unpacker accepts the same messages as the library, except for values foreign to this
		// wire.
		u := unpacker{b: frame}
		_, err := u.raw()
		if err == nil {
			err = u.end()
		}
		if len(frame) < maxDepth {
			in := bytes.NewReader(frame)
			theirs := msgpack.NewDecoder(in).Skip()
			if err == nil && (theirs != nil || in.Len() > 0) {
				t.Fatalf("%x was accepted, but %v, and %d bytes are left", frame, theirs, in.Len())
			}
			ours := err != nil && (strings.Contains(err.Error(), "UTF-8") || strings.Contains(err.Error(), "is not a string") || strings.Contains(err.Error(), "an extension") || strings.Contains(err.Error(), "only"))
			if err != nil && !ours && theirs == nil && in.Len() == 0 {
				t.Fatalf("%x was refused: %v", frame, err)
			}
		}

		var m Message
		if n := testing.AllocsPerRun(1, func() { m, err = Msgpack.Decode(frame) }); n > 64 {
			t.Fatalf("%x: %v allocations", frame, n)
		}
		if err != nil {
			if e, ok := errors.AsType[*Error](err); !ok || e.Code != CodeInvalidRequest || len(e.Message) > 1024 {
				t.Fatalf("%x: %v", frame, err)
			}
			return
		}
		agree[ProcessWriteParams](t, Msgpack, m.Payload)
		agree[OutputNotification](t, Msgpack, m.Payload)
		for _, sample := range wireTypes {
			v := reflect.New(reflect.TypeOf(sample))
			if Msgpack.Unmarshal(m.Payload, v.Interface()) != nil {
				continue
			}
			// Over JSON and back, the value stays the same.
			for _, c := range []Codec{Msgpack, JSON} {
				b, err := encoded(c, v.Interface())
				if err != nil {
					t.Fatalf("%x as %T: %v", m.Payload, sample, err)
				}
				again := reflect.New(v.Type().Elem())
				if err := c.Unmarshal(b, again.Interface()); err != nil {
					t.Fatalf("%x as %T became %q: %v", m.Payload, sample, b, err)
				}
				if got, err := encoded(c, again.Interface()); err != nil || !bytes.Equal(b, got) {
					t.Fatalf("%x as %T became %q and then %q, %v", m.Payload, sample, b, got, err)
				}
				v = again
			}
		}
	})
}
