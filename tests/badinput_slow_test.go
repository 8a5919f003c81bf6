//go:build slow

package tests

import (
	"bytes"
	"testing"

	"github.com/gorilla/websocket"
)

// TestBadInputCostsNoMemory: the server keeps nothing of a refused message, and allocates nothing for
// an announced frame that does not come.
func TestBadInputCostsNoMemory(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	other := newWitness(s)
	garbage := bytes.Repeat([]byte("x"), mib-100) // before initialize a message has at most 1 MiB
	round := func() {
		c := s.dial()
		c.sendRaw(websocket.TextMessage, garbage)
		c.reply(-1)
		c.sendRaw(websocket.BinaryMessage, append([]byte(`{"id":1,"method":"`), garbage...))
		c.reply(-1)
		c.announce(websocket.TextMessage, 16*mib)
		c.cutRST()
	}
	for range scaled(20) { // buffers and pools have reached their size
		round()
	}
	before := s.rss()
	for range scaled(200) {
		round()
	}
	other.echo(t)
	if grown := s.rss() - before; grown > 128*mib {
		t.Errorf("%d connections with 2 MiB of garbage each cost the server %d MiB", scaled(200), grown/mib)
	}
}
