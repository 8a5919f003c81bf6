package actors_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// A write larger than the queue is held as part of its request: when the connection is cut
// half-way, what the queue has not taken goes with it. Repeated, the write goes on where it was.
func TestLargeWriteIsTakenInParts(t *testing.T) {
	const size, cuts = 14 << 20, 2 // more than the admission has room for
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i*7 + i>>8)
	}
	troupe := start(t, actors.Config{KillGrace: -1})
	write := fmt.Appendf(nil, `{"id":"write","method":"process/write","params":{"processId":"a","writeId":"w","chunk":"%s"}}`, base64.StdEncoding.EncodeToString(data))

	s := newStiff(t, troupe)
	session := s.open("")
	s.start("a", `,"pipeStdin":true,"retention":{"bytes":65536,"onFull":"block"}`, "cat")
	var got []byte
	var seq uint64
	until := func(id string) (m message) { // the answer to id; meanwhile takes output
		for string(m.ID) != id {
			if m = s.read(); m.Method == protocol.NotifyOutput {
				got, seq = append(got, m.Params.Chunk...), m.Params.Seq
			}
		}
		return m
	}
	before := inUse()
	for range cuts {
		go s.conn.WriteMessage(write, false)
		info := newStiff(t, troupe)
		info.open(`,"resumeSessionId":"` + session + `","role":"observer"`)
		waitFor(t, "the write to be taken in part", func() bool {
			info.send(`{"id":"info","method":"process/info","params":{"processId":"a"}}`)
			var result protocol.ProcessInfoResult
			if err := json.Unmarshal(info.answer(`"info"`).Result, &result); err != nil {
				t.Fatal(err)
			}
			return result.PendingWrites == 1
		})
		s.send(`{"id":"behind","method":"session/info"}`) // is answered although the write is not
		until(`"behind"`)
		s.conn.Close(transport.CloseNormal, "")
		info.conn.Close(transport.CloseNormal, "")
		waitFor(t, "the memory of the write", func() bool { return inUse()-before < 2<<20 })
		s = newStiff(t, troupe)
		s.open(`,"resumeSessionId":"` + session + `","takeover":true,"resumeFrom":{"a":` + fmt.Sprint(seq) + `}`)
	}

	go s.conn.WriteMessage(write, false)
	if m := until(`"write"`); !bytes.Contains(m.Result, []byte("accepted")) {
		t.Fatalf("the write: %s %v", m.Result, m.Error)
	}
	for len(got) < size {
		s.send(`{"id":"more","method":"session/info"}`)
		until(`"more"`)
	}
	if !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back, not the %d that were written", len(got), len(data))
	}
}
