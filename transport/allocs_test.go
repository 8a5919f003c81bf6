//go:build !race

// With -race a sync.Pool drops a random part of its buffers.

package transport

import (
	"io"
	"testing"
)

// gorilla itself allocates 8 bytes to read a message. The numbers here include them.
func TestAllocations(t *testing.T) {
	s, accepted := serve(t, "ws://127.0.0.1:0", nil)
	p := newPeer(t, s.URL())
	server := <-accepted
	go io.Copy(io.Discard, p)
	in := append(header(fin|text, 100), make([]byte, 100)...)
	inLarge := append(header(fin|text, 176<<10), make([]byte, 176<<10)...)
	small, large := make([]byte, 100), make([]byte, 100<<10)
	for _, c := range []struct {
		name string
		max  float64
		do   func() error
	}{
		{"read", 1, func() error { p.Write(in); _, err := server.ReadMessage(); return err }},
		{"read large", 2 /* one is the goroutine */, func() error { go p.Write(inLarge); _, err := server.ReadMessage(); return err }},
		{"write small", 0, func() error { return write(server, small, false) }},
		{"write large", 0, func() error { return write(server, large, false) }},
	} {
		n := testing.AllocsPerRun(100, func() {
			if err := c.do(); err != nil {
				t.Fatal(err)
			}
		})
		if n > c.max {
			t.Errorf("%s: %v allocations, want at most %v", c.name, n, c.max)
		}
	}
}
