package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// packed is a JSON text in MessagePack, with the repeated members of the text.
func packed(t interface {
	Helper()
	Fatalf(string, ...any)
}, text string) []byte {
	t.Helper()
	p := packers.Get().(*packer)
	defer packers.Put(p)
	p.b = nil
	if err := p.transcode(&scanner{b: []byte(text)}); err != nil {
		t.Fatalf("%s: %v", clip(text), err)
	}
	return p.b
}

// decodes decodes a message in both encodings, which agree.
func decodes(t *testing.T, text string) error {
	t.Helper()
	_, inJSON := JSON.Decode([]byte(text))
	_, inMsgpack := Msgpack.Decode(packed(t, text))
	if (inJSON == nil) != (inMsgpack == nil) {
		t.Fatalf("%s:\n JSON %v\n msgpack %v", clip(text), inJSON, inMsgpack)
	}
	for _, err := range []error{inJSON, inMsgpack} {
		if e, ok := err.(*Error); err != nil && (!ok || e.Code != CodeInvalidRequest) {
			t.Fatalf("%s: %v", clip(text), err)
		}
	}
	return inJSON
}

func TestRepeatedMembersAreRefused(t *testing.T) {
	var many strings.Builder // more members than fit in names.few
	for i := range 40 {
		fmt.Fprintf(&many, `"k%d":%d,`, i, i)
	}
	for text, name := range map[string]string{
		`{"id":1,"method":"m","method":"n"}`:                                                           "method",
		`{"id":1,"id":1,"method":"m"}`:                                                                 "id",
		`{"id":1,"method":"m","params":{"path":"a","path":"a"}}`:                                       "path",
		`{"id":1,"method":"m","params":{"p\u0061th":"a","path":"b"}}`:                                  "path",
		`{"id":1,"method":"m","params":[0,{"a":{"b":[{"c":1,"d":2,"c":3}]}}]}`:                         "c",
		`{"id":1,"method":"m","params":{"":1,"a":2,"":3}}`:                                             "",
		`{"id":1,"method":"m","trace":{"traceparent":"x","traceparent":"y"}}`:                          "traceparent",
		`{"id":1,"method":"m","unknown":1,"unknown":2}`:                                                "unknown",
		`{"id":1,"method":"m","unknown":{"a":1,"a":1}}`:                                                "a",
		`{"id":1,"result":{"a":1,"a":1}}`:                                                              "a",
		`{"id":1,"error":{"code":1,"message":"","code":2}}`:                                            "code",
		`{"id":1,"error":{"code":1,"message":"","data":{"a":1,"a":2}}}`:                                "a",
		`{"id":1,"method":"m","params":{` + many.String() + `"k0":0}}`:                                 "k0",
		`{"id":1,"method":"m","params":{` + many.String() + `"k39":0}}`:                                "k39",
		`{"id":1,"method":"m","params":{` + many.String() + `"x":{` + many.String() + `"y":1,"y":1}}}`: "y",
		`{` + many.String() + `"id":1,"method":"m","k20":1}`:                                           "k20",
	} {
		if err := decodes(t, text); err == nil || !strings.Contains(err.Error(), "duplicate JSON object key `"+name+"`") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{
		`{"id":1,"method":"m","params":{"id":1,"method":"m","params":{"id":1}}}`,
		`{"id":1,"method":"m","params":[{"a":1},{"a":1}]}`,
		`{"id":1,"method":"m","params":{"a":1,"A":1,"á":1}}`,
		`{"id":1,"method":"m","params":{` + many.String() + `"x":{` + many.String() + `"y":1}}}`,
	} {
		if err := decodes(t, text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The message itself, elements and members count. Names do not. The time grows with the number of members, not with its square: pairs of
// so many members would take minutes.
func TestValuesOfAMessageAreBounded(t *testing.T) {
	t.Parallel()
	const envelope = 3 // the message, id and method
	members := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"%d":0`, i)
		}
		return strings.TrimPrefix(b.String(), ",")
	}
	elements := func(n int, element string) string { return strings.TrimPrefix(strings.Repeat(","+element, n), ",") }
	for what, text := range map[string]func(more int) string{
		"elements":       func(n int) string { return `"params":[` + elements(n-1, `""`) + `]` },
		"members":        func(n int) string { return `"params":{` + members(n-1) + `}` },
		"lists":          func(n int) string { return `"params":[` + elements(n-1, `[]`) + `]` },
		"lists of lists": func(n int) string { return `"params":[` + elements((n-1)/2, `[1]`) + elements((n-1)%2, `,1`) + `]` },
		"not params":     func(n int) string { return `"unknown":[` + elements(n-1, `1`) + `]` },
		"trace":          func(n int) string { return `"trace":{` + members(n-1) + `}` },
		"both": func(n int) string {
			return `"unknown":[` + elements(1000, `1`) + `],"params":[` + elements(n-1002, `1`) + `]`
		},
	} {
		begin := time.Now()
		if err := decodes(t, `{"id":1,"method":"m",`+text(maxValues-envelope)+`}`); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if took := time.Since(begin); took > time.Minute {
			t.Errorf("%s: they took %v: are names compared in pairs?", what, took)
		}
		err := decodes(t, `{"id":1,"method":"m",`+text(maxValues-envelope+1)+`}`)
		if err == nil || !strings.Contains(err.Error(), "JSON-RPC message exceeds the limit of 262144 JSON values") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := decodes(t, `{"id":1,"result":[`+elements(maxValues+1, `1`)+`],"unknown":1}`); err != nil {
		t.Errorf("an answer: %v", err)
	}
}

// repeatedSlowly reports whether an object of a valid JSON text has a member twice.
func repeatedSlowly(t *rapid.T, text string) (repeated bool) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var value func()
	value = func() {
		token, err := d.Token()
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		seen := make(map[json.Token]bool)
		for token == json.Delim('{') && d.More() {
			name, _ := d.Token()
			repeated = repeated || seen[name]
			seen[name] = true
			value()
		}
		for token == json.Delim('[') && d.More() {
			value()
		}
		if token == json.Delim('{') || token == json.Delim('[') {
			d.Token()
		}
	}
	value()
	return repeated
}

func TestRepeatedMembersAgainstSlowOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{`a`, `b`, `\u0061`, `é`, `\u00e9`, ``, `id`, `ab`, `abc`, `\n`})
		if rapid.Bool().Draw(t, "many names") {
			name = rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(rapid.IntRange(0, 300).Draw(t, "name")) })
		}
		var value func(depth int) string
		value = func(depth int) string {
			kind := rapid.IntRange(0, 4).Draw(t, "kind")
			if depth == 0 {
				kind = min(kind, 1)
			}
			var parts []string
			for range rapid.IntRange(0, 20).Draw(t, "length") * (kind / 2) / 2 {
				part := value(depth - 1)
				if kind > 2 {
					part = `"` + name.Draw(t, "name") + `" : ` + part
				}
				parts = append(parts, part)
			}
			switch kind {
			case 0:
				return `"a"`
			case 1:
				return `1`
			case 2:
				return `[` + strings.Join(parts, `, `) + `]`
			}
			return `{` + strings.Join(parts, `,`) + `}`
		}
		text := `{"id":1,"method":"m","` + rapid.SampledFrom([]string{"params", "x"}).Draw(t, "where") + `":` + value(3) + `}`
		want := repeatedSlowly(t, text)
		for _, frame := range [][]byte{[]byte(text), packed(t, text)} {
			codec := JSON
			if !utf8.Valid(frame) || !bytes.HasPrefix(frame, []byte("{")) {
				codec = Msgpack
			}
			_, err := codec.Decode(frame)
			if got := err != nil && strings.Contains(err.Error(), "duplicate"); got != want || (err != nil) != want {
				t.Fatalf("%s %s: %v, want repeated: %v", codec.Name(), text, err, want)
			}
		}
	})
}
