//go:build goexperiment.jsonv2

package protocol

import (
	"bytes"
	"encoding/json/v2"
	"fmt"
	"testing"
)

// The cases show which texts encoding/json/v2 accepts and refuses, for
// docs/decisions/0004-json-decoder.md:
//
//	GOEXPERIMENT=jsonv2 go test ./protocol -run JSONv2 -bench JSONv2
func TestJSONv2(t *testing.T) {
	for _, c := range []struct {
		what, text string
		taken      bool
	}{
		{"invalid UTF-8", "{\"writeId\":\"a\xff\"}", false},
		{"a name twice", `{"writeId":"a","writeId":"b"}`, false},
		{"a line break in base64", `{"chunk":"AA\nAA"}`, false},
		{"an array for an object", `[]`, false},
		{"a required member that is missing", `{}`, true},
		{"null for a required member", `{"processId":null}`, true},
		{"bits after the end of base64", `{"chunk":"AB=="}`, true},
	} {
		var v2 struct {
			ProcessID string `json:"processId"`
			WriteID   string `json:"writeId"`
			Chunk     []byte `json:"chunk"`
		}
		if err := json.Unmarshal([]byte(c.text), &v2); (err == nil) != c.taken {
			t.Errorf("json/v2: %s: %v", c.what, err)
		}
	}
	var v2 struct {
		ProcessID string `json:"processId"`
	}
	if err := json.Unmarshal([]byte(`{"PROCESSID":"a"}`), &v2); err != nil || v2.ProcessID != "" {
		t.Errorf("json/v2: a name in the wrong case: %q, %v", v2.ProcessID, err)
	}
}

func BenchmarkJSONv2(b *testing.B) {
	type output struct {
		Method string `json:"method"`
		Params struct {
			ProcessID string `json:"processId"`
			Seq       uint64 `json:"seq"`
			Stream    string `json:"stream"`
			Chunk     []byte `json:"chunk"`
		} `json:"params"`
	}
	for _, size := range []int{16, 128 << 10} {
		var theirs output
		theirs.Method, theirs.Params.ProcessID, theirs.Params.Seq, theirs.Params.Stream = NotifyOutput, "p-01", 1<<20, "stdout"
		theirs.Params.Chunk = bytes.Repeat([]byte("x"), size)
		ours := OutputNotification{ProcessID: "p-01", Seq: 1 << 20, Stream: Stdout, Chunk: theirs.Params.Chunk}
		frame, err := JSON.AppendNotification(nil, NotifyOutput, &ours)
		if err != nil {
			b.Fatal(err)
		}
		run := func(name string, f func() error) {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(size))
				for b.Loop() {
					if err := f(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		buf := make([]byte, 0, 2*len(frame))
		run("encode/v2", func() error { return json.MarshalWrite(bytes.NewBuffer(buf[:0]), &theirs) })
		run("encode/ours", func() error { _, err := JSON.AppendNotification(buf[:0], NotifyOutput, &ours); return err })
		run("decode/v2", func() error { var o output; return json.Unmarshal(frame, &o) })
		run("decode/ours", func() error {
			m, err := JSON.Decode(frame)
			if err == nil {
				err = JSON.Unmarshal(m.Payload, &ours)
			}
			return err
		})
	}
}
