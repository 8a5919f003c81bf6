package stream

import (
	"bytes"
	"testing"
	"time"
)

var noon = time.UnixMicro(1795275525604123)

func TestLine(t *testing.T) {
	line := Key(7).AppendLine(nil, 42, noon, []byte("body"))
	if len(line) != LineExtra+4 {
		t.Errorf("the line has %d bytes, want %d", len(line), LineExtra+4)
	}
	n, at, body, ok := Key(7).ParseLine(line)
	if n != 42 || !at.Equal(noon) || string(body) != "body" || !ok {
		t.Errorf("parsed %d, %v, %q, %v", n, at, body, ok)
	}
	if _, _, _, ok := Key(8).ParseLine(line); ok {
		t.Error("the line of another key is accepted")
	}
	for i := range line {
		for _, flip := range []byte{1, 0x20, 0x80} {
			bad := bytes.Clone(line)
			bad[i] ^= flip
			if _, _, _, ok := Key(7).ParseLine(bad); ok && !bytes.EqualFold(bad, line) { // the check sum in upper case is as right
				t.Errorf("%q is accepted", bad)
			}
		}
		if _, _, _, ok := Key(7).ParseLine(line[:i]); ok {
			t.Errorf("%q is accepted", line[:i])
		}
	}
}

func TestHelloAndEnd(t *testing.T) {
	hello := Key(7).AppendHello(nil, 1<<63+5, 12345, noon)
	run, pid, at, ok := Key(7).ParseHello(hello)
	if len(hello) != HelloSize || run != 1<<63+5 || pid != 12345 || !at.Equal(noon) || !ok {
		t.Errorf("%q: parsed %d, %d, %v, %v", hello, run, pid, at, ok)
	}
	end := Key(7).AppendEnd(nil, 1<<62, noon)
	n, at, ok := Key(7).ParseEnd(end)
	if len(end) != EndSize || n != 1<<62 || !at.Equal(noon) || !ok {
		t.Errorf("%q: parsed %d, %v, %v", end, n, at, ok)
	}
	if _, _, _, ok := Key(7).ParseHello(end); ok {
		t.Error("an end is accepted as a hello")
	}
	if _, _, ok := Key(7).ParseEnd(append([]byte("\n"), hello[:EndSize-1]...)); ok {
		t.Error("a part of a hello is accepted as an end")
	}
}
