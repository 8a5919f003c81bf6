package oracle

import (
	"testing"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/stream"
	"github.com/b6f6fdd7/troupe/protocol"
)

// An event that comes again after a resume has no more bytes than before, even if these are the right ones.
func TestRepeatWithMore(t *testing.T) {
	s := specs["plain"]
	p := makeRun(s, 5, 2500)
	w := watchOf(t, s)
	w.output(p[:100])
	w.output(p[100:200])
	w.Event(&Event{Kind: "resumed", Seq: 1}, began)
	w.at(2, Event{Kind: "output", Stream: protocol.Stdout, Data: p[100:300]})
	w.Abandon(began)
	w.want(t, Altered)
	if f := w.found[0]; f.Offset != 200 || f.Bytes != 100 || f.Seq != 2 {
		t.Errorf("found %+v", f)
	}
}

// A program that has read as many bytes as were sent, but other ones, shows that by its digest.
func TestDigest(t *testing.T) {
	s := specs["answers"]
	key := stream.Of(s.Seed, s.Session, s.Process, 0, "").Run(5, "stdout")
	p := makeRun(s, 5, 1)[:stream.HelloSize]
	w := watchOf(t, s)
	w.output(key.AppendAnswer(p, 0, began, stream.Answer{Bytes: s.Stdout.Block, Digest: 5, Wrong: stream.NoneWrong}))
	w.Abandon(began)
	w.want(t, Stdin)
	if f := w.found[0]; f.Offset != 0 || f.Bytes != s.Stdout.Block {
		t.Errorf("found %+v", f)
	}
}
