package logs

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// BenchmarkView shows chunks of the wire with lines of 75 bytes.
func BenchmarkView(b *testing.B) {
	chunk := bytes.Repeat([]byte("00000001 the quick brown fox jumps over the lazy dog and runs away from it\n"), 128<<10/75)
	v := NewView(&Printer{Out: show.Out{Writer: io.Discard}, Names: []string{"web", "worker"}}, 0)
	b.SetBytes(int64(len(chunk)))
	b.ReportAllocs()
	for b.Loop() {
		if err := v.Output(time.Time{}, protocol.Stdout, chunk[7:]); err != nil {
			b.Fatal(err)
		}
	}
}
