package oracle

import (
	"fmt"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/stream"
)

// answered checks an answer about stdin.
func (c *Checker) answered(r *reader, n int64, a stream.Answer) {
	s := &c.answers
	if c.o.Answer != nil {
		c.o.Answer(a.Bytes, a.End, c.now)
	}
	if s.wrong {
		return
	}
	wrong := func(at, n int64, detail string) {
		s.wrong = true
		r.seenNow()
		c.report(Finding{Kind: Stdin, Run: r.run, Offset: at, Bytes: n, Detail: detail}, r.since)
	}
	block := c.spec.Stdout.Block
	switch {
	case a.Wrong != stream.NoneWrong:
		wrong(a.Wrong, a.Bytes-a.Wrong, "the program read another byte than the one that was sent")
		return
	case s.end || a.Bytes < s.bytes:
		wrong(s.bytes, 0, fmt.Sprintf("an answer about %d bytes came after one about %d", a.Bytes, s.bytes))
		return
	case block > 0 && !a.End && a.Bytes != (n+1)*block:
		wrong(s.bytes, 0, fmt.Sprintf("answer %d is about %d bytes, want %d", n+1, a.Bytes, (n+1)*block))
		return
	case a.Bytes-s.bytes > 1<<30:
		wrong(s.bytes, a.Bytes-s.bytes, fmt.Sprintf("an answer is about %d bytes, and the one before about %d", a.Bytes, s.bytes))
		return
	}
	key := c.base.Run(0, "stdin")
	var p [4096]byte
	at := s.bytes
	for s.bytes < a.Bytes {
		q := p[:min(int64(len(p)), a.Bytes-s.bytes)]
		key.Fill(q, s.bytes)
		s.digest = s.digest.Add(q)
		s.bytes += int64(len(q))
	}
	s.end = a.End
	if s.digest != a.Digest {
		wrong(at, a.Bytes-at, fmt.Sprintf("the digest of the bytes that the program read is %016x, want %016x", uint64(a.Digest), uint64(s.digest)))
	}
}
