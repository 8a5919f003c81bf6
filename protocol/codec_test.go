package protocol

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

var codecs = []Codec{JSON, Msgpack}

// encoded is v encoded on its own, as params are.
func encoded(c Codec, v any) ([]byte, error) {
	frame, err := c.AppendNotification(nil, "m", v)
	if err != nil {
		return nil, err
	}
	m, err := c.Decode(frame)
	return m.Payload, err
}

// Every message decodes to its original value: by each codec and by both in turn, by the standard library, and from the texts of other
// encoders. An independent decoder sees the same value in both encodings.
func TestEveryTypeComesBack(t *testing.T) {
	t.Parallel()
	for _, sample := range wireTypes {
		typ := reflect.TypeOf(sample)
		t.Run(typ.Name(), rapid.MakeCheck(func(t *rapid.T) {
			want := reflect.New(typ)
			fill(t, want.Elem(), false)
			decoded := func(by func([]byte, any) error, payload []byte) reflect.Value {
				t.Helper()
				got := reflect.New(typ)
				if err := by(payload, got.Interface()); err != nil {
					t.Fatalf("%q: %v", payload, err)
				}
				if !reflect.DeepEqual(got.Interface(), want.Interface()) {
					t.Fatalf("%q:\n got %+v\nwant %+v", payload, got.Elem(), want.Elem())
				}
				return got
			}
			encode := func(by func(any) ([]byte, error), v any) []byte {
				t.Helper()
				payload, err := by(v)
				if err != nil {
					t.Fatal(err)
				}
				return payload
			}
			again := want
			payloads := make(map[string][]byte)
			for _, c := range []Codec{JSON, Msgpack, JSON} {
				payload := encode(func(v any) ([]byte, error) { return encoded(c, v) }, again.Interface())
				again = decoded(c.Unmarshal, payload)
				payloads[c.Name()] = payload
			}
			decoded(json.Unmarshal, payloads["json"])
			decoded(JSON.Unmarshal, encode(json.Marshal, want.Interface()))
			plain := fromJSON(t, payloads["json"])
			decoded(Msgpack.Unmarshal, encode(msgpack.Marshal, plain))
			var theirs any
			if err := msgpack.Unmarshal(payloads["msgpack"], &theirs); err != nil {
				t.Fatalf("%x: %v", payloads["msgpack"], err)
			}
			if got, want := plainText(t, theirs), plainText(t, plain); got != want {
				t.Fatalf("in msgpack %s, in JSON %s", got, want)
			}
		}))
	}
}

// If a frame cannot be encoded, dst stays unchanged.
func TestAppendFails(t *testing.T) {
	for name, try := range map[string]func(c Codec, dst []byte) ([]byte, error){
		"request without id":  func(c Codec, dst []byte) ([]byte, error) { return c.AppendRequest(dst, ID{}, "m", nil) },
		"response without id": func(c Codec, dst []byte) ([]byte, error) { return c.AppendResponse(dst, ID{}, Empty{}) },
		"failure without id":  func(c Codec, dst []byte) ([]byte, error) { return c.AppendFailure(dst, ID{}, &Error{}) },
		"failure, bad data": func(c Codec, dst []byte) ([]byte, error) {
			return c.AppendFailure(dst, IntID(1), &Error{Data: []byte("{")})
		},
		"output of no stream": func(c Codec, dst []byte) ([]byte, error) { return c.AppendNotification(dst, "m", OutputNotification{}) },
		"chunk of no stream":  func(c Codec, dst []byte) ([]byte, error) { return c.AppendResponse(dst, IntID(1), Chunk{Stream: 4}) },
		"result of no stream": func(c Codec, dst []byte) ([]byte, error) {
			return c.AppendResponse(dst, IntID(1), ProcessReadResult{Chunks: []Chunk{{}}})
		},
		"type not of the wire":   func(c Codec, dst []byte) ([]byte, error) { return c.AppendResponse(dst, IntID(1), []any{float32(1.5)}) },
		"number that is none":    func(c Codec, dst []byte) ([]byte, error) { return c.AppendResponse(dst, IntID(1), math.NaN()) },
		"raw value that is none": func(c Codec, dst []byte) ([]byte, error) { return c.AppendNotification(dst, "m", json.RawMessage(`{`)) },
		"raw value and more": func(c Codec, dst []byte) ([]byte, error) {
			return c.AppendNotification(dst, "m", json.RawMessage(`{},"id":1`))
		},
	} {
		for _, c := range codecs {
			if got, err := try(c, []byte("before")); err == nil || string(got) != "before" {
				t.Errorf("%s: %s: %s, %v", c.Name(), name, got, err)
			}
		}
	}
	if got, err := Msgpack.AppendNotification([]byte("before"), "m", json.RawMessage(`1e999`)); err == nil || string(got) != "before" {
		t.Errorf("a number too large for msgpack: %s, %v", got, err)
	}
}

// agree fails unless Unmarshal, perhaps by hand, agrees with the tables.
func agree[T any](t interface {
	Helper()
	Fatalf(string, ...any)
}, c Codec, payload []byte) {
	t.Helper()
	var byHand, byTable T
	errHand, errTable := c.Unmarshal(payload, &byHand), unmarshal(payload, c == Msgpack, &byTable)
	if (errHand == nil) != (errTable == nil) || errHand == nil && !reflect.DeepEqual(byHand, byTable) {
		t.Fatalf("%q:\nby hand  %+v, %v\nby table %+v, %v", payload, byHand, errHand, byTable, errTable)
	}
}

// fromJSON returns a JSON text as generic values, with chunks as bytes.
func fromJSON(t interface{ Fatalf(string, ...any) }, text []byte) any {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var plain func(any) any
	plain = func(v any) any {
		switch v := v.(type) {
		case json.Number:
			var n any
			if err := json.Unmarshal([]byte(v), new(int64)); err == nil {
				n, _ = v.Int64()
			} else if u := uint64(0); json.Unmarshal([]byte(v), &u) == nil {
				n = u
			} else {
				n, _ = v.Float64()
			}
			return n
		case []any:
			for i := range v {
				v[i] = plain(v[i])
			}
		case map[string]any:
			for k := range v {
				v[k] = plain(v[k])
				if s, ok := v[k].(string); ok && (k == "chunk" || k == "restore" || strings.HasSuffix(k, "Base64")) {
					if b, err := base64.StdEncoding.Strict().DecodeString(s); err == nil {
						v[k] = b
					}
				}
			}
		}
		return v
	}
	return plain(v)
}

// plainText is a generic value as text, regardless of the sizes of numbers.
func plainText(t *rapid.T, v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every exported type of the wire is one of wireTypes, or a part of one. A Sandbox crosses the wire undecoded.
func TestWireTypesAreAll(t *testing.T) {
	reached := make(map[string]bool)
	var reach func(reflect.Type)
	reach = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			reach(typ.Elem())
		case reflect.Struct:
			reached[typ.Name()] = true
			for f := range typ.Fields() {
				reach(f.Type)
			}
		}
	}
	var names []string
	for _, sample := range wireTypes {
		reach(reflect.TypeOf(sample))
		names = append(names, reflect.TypeOf(sample).Name())
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	types := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !spec.Name.IsExported() {
				return true
			}
			name := spec.Name.Name
			if _, ok := spec.Type.(*ast.StructType); !ok || name == "ID" || name == "Message" || strings.HasPrefix(name, "Sandbox") || name != "Error" && strings.HasSuffix(name, "Error") {
				return true
			}
			types++
			message := strings.HasSuffix(name, "Params") || strings.HasSuffix(name, "Result") || strings.HasSuffix(name, "Notification")
			if !reached[name] || message && !slices.Contains(names, name) {
				t.Errorf("%s is not in wireTypes", name)
			}
			return true
		})
	}
	if types < 60 {
		t.Errorf("%d types were found", types)
	}
}

func BenchmarkOutput(b *testing.B) {
	for _, c := range codecs {
		for _, size := range []int{16, 4 << 10, 128 << 10} {
			out := OutputNotification{ProcessID: "p-01", Seq: 1 << 20, Stream: Stdout, Chunk: bytes.Repeat([]byte("line of output\n"), size/15+1)[:size]}
			frame, err := c.AppendNotification(nil, NotifyOutput, &out)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/encode/%d", c.Name(), size), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(size))
				for b.Loop() {
					frame, _ = c.AppendNotification(frame[:0], NotifyOutput, &out)
				}
			})
			b.Run(fmt.Sprintf("%s/decode/%d", c.Name(), size), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(size))
				var n OutputNotification
				for b.Loop() {
					m, err := c.Decode(frame)
					if err == nil {
						err = c.Unmarshal(m.Payload, &n)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
