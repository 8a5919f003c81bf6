//go:build !race

// With -race a sync.Pool drops items at random.

package protocol

import (
	"bytes"
	"testing"
)

// Frequent messages cost no allocation, except for the process's own input.
func TestHotPathsDoNotAllocate(t *testing.T) {
	out := OutputNotification{ProcessID: "p", Seq: 7, Stream: PTY, Chunk: bytes.Repeat([]byte("x"), 4096)}
	read := ProcessReadResult{Chunks: []Chunk{{1, Stdout, out.Chunk}, {2, Stderr, out.Chunk}}, NextSeq: 3, ExitCode: new(7)}
	for _, c := range codecs {
		frame, err := c.AppendNotification(nil, NotifyOutput, &out)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.AppendResponse(nil, IntID(1), &read)
		if err != nil {
			t.Fatal(err)
		}
		write, err := c.AppendRequest(nil, IntID(1), MethodProcessWrite, ProcessWriteParams{"p", out.Chunk, "w1"})
		if err != nil {
			t.Fatal(err)
		}
		var back OutputNotification
		var params ProcessWriteParams
		for _, hot := range []struct {
			what        string
			allocations float64
			f           func()
		}{
			{"encode output", 0, func() { frame, err = c.AppendNotification(frame[:0], NotifyOutput, &out) }},
			{"decode output", 0, func() {
				m, _ := c.Decode(frame)
				err = c.Unmarshal(m.Payload, &back)
			}},
			{"encode a read", 0, func() { answer, err = c.AppendResponse(answer[:0], IntID(1), &read) }},
			{"decode a write", 4, func() { // the params, and their contents
				m, _ := c.Decode(write)
				params = ProcessWriteParams{}
				p := new(ProcessWriteParams)
				err = c.Unmarshal(m.Payload, p)
				params = *p
			}},
		} {
			if n := testing.AllocsPerRun(100, hot.f); n > hot.allocations || err != nil {
				t.Errorf("%s: %s: %v allocations, %v", c.Name(), hot.what, n, err)
			}
		}
		if params.WriteID != "w1" || back.Seq != 7 {
			t.Errorf("%s: %+v, %+v", c.Name(), params, back)
		}
	}
}
