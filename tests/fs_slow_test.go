//go:build slow

package tests

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/vmihailenco/msgpack/v5"
)

// TestFilesInLargeBlocks is TestFilesInBlocks with a file larger than the server's memory for a connection. The server does not grow.
func TestFilesInLargeBlocks(t *testing.T) {
	t.Parallel()
	if grown := filesInBlocks(t, 1<<20); grown > 100<<20 {
		t.Errorf("the server has grown by %d MiB", grown>>20)
	}
}

// TestLargeFile writes stripes into a sparse file of 4 GiB. Then the test reads each stripe and the
// hole before it, in blocks of 1 MiB, always with some requests in flight. Each stripe is written
// several times, so order counts. The server never needs more memory than for the blocks in flight:
// keeping all written or all read blocks would need three times the memory allowed.
func TestLargeFile(t *testing.T) {
	t.Parallel()
	const (
		atOnce         = 8
		blocks         = 4096
		stripes, every = 64, blocks / 64 // the last of every 64 blocks is a stripe
		rounds         = 4               // of writing
		near           = 4               // blocks read for each stripe
		block          = 1 << 20
	)
	path := filepath.Join(t.TempDir(), "large")
	s := startServer(t)
	c := dialBlocks(t, s)
	content := func(stripe, round int) []byte {
		chunk := bytes.Repeat([]byte{byte(1 + stripe), byte(1 + round)}, block/2)
		binary.BigEndian.PutUint64(chunk[block-8:], uint64(stripe))
		return chunk
	}
	offset := func(stripe int) int64 { return int64(stripe*every+every-1) * int64(block) }
	transfer := func(n int, ask func(i int) (method string, params obj), take func(i int, r blockResult)) {
		for i := range n + atOnce {
			if i >= atOnce {
				take(i-atOnce, c.read())
			}
			if i < n {
				c.send(ask(i))
			}
		}
	}
	nothing := func(int, blockResult) {}
	one := func(method string, params obj) {
		transfer(1, func(int) (string, obj) { return method, params }, nothing)
	}

	one("fs/open", obj{"handleId": "f", "path": fileURI(path), "mode": "replace"})
	before := s.rss()
	transfer(rounds*stripes, func(i int) (string, obj) {
		stripe, round := i%stripes, i/stripes
		return "fs/writeBlock", obj{"handleId": "f", "offset": offset(stripe), "chunk": content(stripe, round)}
	}, nothing)
	one("fs/close", obj{"handleId": "f"})
	one("fs/open", obj{"handleId": "f", "path": fileURI(path)})
	zeros := make([]byte, block)
	number := func(i int) int { return i/near*every + every - near + i%near } // the number of the i-th block to read
	transfer(stripes*near, func(i int) (string, obj) {
		return "fs/readBlock", obj{"handleId": "f", "offset": int64(number(i)) * int64(block), "len": block}
	}, func(i int, r blockResult) {
		want := zeros
		if i%near == near-1 {
			want = content(i/near, rounds-1)
		}
		if !bytes.Equal(r.Chunk, want) || r.EOF {
			t.Fatalf("block %d: %d bytes that begin with %x, eof %v", number(i), len(r.Chunk), r.Chunk[:min(len(r.Chunk), 8)], r.EOF)
		}
	})
	most := procNumber(t, s.cmd.Process.Pid, "VmHWM:") * 1024
	t.Logf("%d MiB resident before, %d MiB at most", before>>20, most>>20)
	if most-before > 80<<20 {
		t.Errorf("the server has grown by %d MiB", (most-before)>>20)
	}
}

// blockConn is a connection for large blocks. A conn would turn each block into text and keep the text.
type blockConn struct {
	t               *testing.T
	ws              *websocket.Conn
	asked, answered int64 // ids; answers come in the order asked
}

type blockResult struct {
	Chunk []byte `msgpack:"chunk"`
	EOF   bool   `msgpack:"eof"`
}

func dialBlocks(t *testing.T, s *server) *blockConn {
	t.Helper()
	dialer := websocket.Dialer{HandshakeTimeout: factTimeout, Subprotocols: []string{"troupe.msgpack"}}
	ws, _, err := dialer.Dial(s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	c := &blockConn{t: t, ws: ws}
	c.send("initialize", obj{"clientName": "tests"})
	c.read()
	c.write(obj{"method": "initialized", "params": obj{}})
	return c
}

func (c *blockConn) write(m obj) {
	c.t.Helper()
	data, err := msgpack.Marshal(m)
	if err == nil {
		err = c.ws.WriteMessage(websocket.BinaryMessage, data)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *blockConn) send(method string, params obj) {
	c.t.Helper()
	c.asked++
	c.write(obj{"id": c.asked, "method": method, "params": params})
}

// read returns the next answer; an error answer ends the test.
func (c *blockConn) read() blockResult {
	c.t.Helper()
	c.answered++
	c.ws.SetReadDeadline(time.Now().Add(factTimeout))
	_, data, err := c.ws.ReadMessage()
	if err != nil {
		c.t.Fatal(err)
	}
	var m struct {
		ID     int64       `msgpack:"id"`
		Error  obj         `msgpack:"error"`
		Result blockResult `msgpack:"result"`
	}
	if err := msgpack.Unmarshal(data, &m); err != nil || m.ID != c.answered || m.Error != nil {
		c.t.Fatalf("answer %d: id %d, error %v, %v", c.answered, m.ID, m.Error, err)
	}
	return m.Result
}
