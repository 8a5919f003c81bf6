package client

import (
	"context"
	"io"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// A source is a connection from which n chunks of output of the process p come.
type source struct {
	transport.Conn
	n     int
	next  protocol.OutputNotification
	frame []byte
}

func (s *source) ReadMessage() (frame []byte, err error) {
	if s.n == 0 {
		return nil, io.EOF
	}
	s.n--
	s.next.Seq++
	s.frame, err = protocol.Msgpack.AppendNotification(s.frame[:0], protocol.NotifyOutput, &s.next)
	return s.frame, err
}

// BenchmarkRead reports what the reader of a client spends on a chunk of output: with its encoding here, and its delivery to a Writer.
func BenchmarkRead(b *testing.B) {
	for name, size := range map[string]int{"100 bytes": 100, "32 KiB": 32 << 10} {
		b.Run(name, func(b *testing.B) {
			f := newFake(map[string]func(*fakeProcess){"idle": func(p *fakeProcess) { p.Read(make([]byte, 1)) }})
			f.name = "" // such a server wants no acknowledgements: the fake has not sent this output
			c, err := Dial(context.Background(), "", &Options{Dialer: f.dial})
			if err != nil {
				b.Fatal(err)
			}
			defer f.programN.Wait()
			defer c.CloseSession(context.Background())
			cmd := c.Command("idle")
			cmd.ID, cmd.Stdout = "p", io.Discard
			if err := cmd.Start(context.Background()); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.ResetTimer()
			s := &source{n: b.N, next: protocol.OutputNotification{ProcessID: "p", Stream: protocol.Stdout, Chunk: make([]byte, size)}}
			if err := c.read(link{Conn: s, wire: protocol.Msgpack}, new(pulse)); err != io.EOF {
				b.Fatal(err)
			}
			if seq := cmd.process.last; seq != uint64(b.N) {
				b.Fatalf("the client is at seq %d, want %d", seq, b.N)
			}
		})
	}
}

// BenchmarkCall reports what a request and its answer cost through a pipe.
func BenchmarkCall(b *testing.B) {
	f := newFake(nil)
	c, err := Dial(context.Background(), "", &Options{Dialer: f.dial})
	if err != nil {
		b.Fatal(err)
	}
	defer c.CloseSession(context.Background())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Processes(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
