//go:build slow

package tests

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"testing"
)

// TestFilesInBlocks writes and reads a file larger than the server's memory for a connection, with many requests in flight. Each handle executes its requests
// in order, and the server does not grow.
func TestFilesInBlocks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServer(t)
	c := s.session(nil)
	const block, blocks, atOnce = 1 << 20, 128, 32
	before := s.rss()
	chunk := bytes.Repeat([]byte("0123456789abcdef"), block/16)
	sum := sha256.New()
	c.call("fs/open", obj{"handleId": "w", "path": fileURI(dir, "large"), "mode": "replace"})
	var asked []int64
	await := func(left int) (answers []obj) {
		for len(asked) > left {
			answers = append(answers, resultOf(c.reply(asked[0])))
			asked = asked[1:]
		}
		return answers
	}
	for i := range blocks {
		copy(chunk, fmt.Sprintf("%016d", i))
		sum.Write(chunk)
		asked = append(asked, c.request("fs/writeBlock", obj{"handleId": "w", "offset": i * block, "chunk": b64(string(chunk))}))
		await(atOnce)
	}
	asked = append(asked, // in the order sent: written, closed, opened, read
		c.request("fs/close", obj{"handleId": "w"}),
		c.request("fs/open", obj{"handleId": "w", "path": fileURI(dir, "large")}))
	await(0)
	got := sha256.New()
	take := func(answers []obj) {
		for _, a := range answers {
			data, err := base64.StdEncoding.DecodeString(a["chunk"].(string))
			if err != nil {
				t.Fatal(err)
			}
			got.Write(data)
		}
	}
	for i := range blocks {
		asked = append(asked, c.request("fs/readBlock", obj{"handleId": "w", "offset": i * block, "len": block}))
		take(await(atOnce))
	}
	take(await(0))
	if !bytes.Equal(got.Sum(nil), sum.Sum(nil)) {
		t.Error("what was read is not what was written")
	}
	if grown := s.rss() - before; grown > 100<<20 {
		t.Errorf("the server has grown by %d MiB", grown>>20)
	}
}
