package transport

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/transport/auth"
)

// A message that was peeked at comes again, once, and the next message follows.
func TestPeek(t *testing.T) {
	s, accepted := serve(t, "ws://127.0.0.1:0", &ServerOptions{Relays: true})
	client := dial(t, s.URL(), nil)
	mustWrite(t, client, "first")
	mustWrite(t, client, "second")
	server := (<-accepted).(Relayable)
	if msg, err := server.Peek(10); err != nil || string(msg) != "first" {
		t.Fatalf("%q, %v", msg, err)
	}
	wantMessage(t, server, "first")
	wantMessage(t, server, "second")
	mustWrite(t, client, "a message of more than 10 bytes") // the limit was for the first one, until the caller sets another
	if _, err := server.ReadMessage(); err == nil {
		t.Error("the limit of Peek is gone")
	}
}

// HandOver returns every byte of the client, the peeked message among them. From then on only the caller writes: no ping, no pong and no Close frame
// comes between.
func TestHandOver(t *testing.T) {
	s, accepted := serve(t, "ws://127.0.0.1:0", &ServerOptions{Relays: true, PingEvery: time.Millisecond})
	p := newPeer(t, s.URL())
	sent := append(header(fin|ping, 2), "hi"...)
	sent = append(append(sent, header(fin|text, 5)...), "first"...)
	sent = append(append(sent, header(text, 3)...), "unfinished"[:3]...)
	p.Write(sent)
	server := (<-accepted).(Relayable)
	if msg, err := server.Peek(10); err != nil || string(msg) != "first" {
		t.Fatalf("%q, %v", msg, err)
	}
	stream, read := server.HandOver()
	for !bytes.Equal(read, sent) {
		more := make([]byte, 100)
		n, err := stream.Read(more)
		if read = append(read, more[:n]...); err != nil || len(read) > len(sent) {
			t.Fatalf("read %q of %q, %v", read, sent, err)
		}
	}
	// The client sees the pong and pings of before, and then what the caller writes, byte by byte.
	want := bytes.Repeat([]byte("payload of another server "), 100)
	go func() {
		for i := range want {
			stream.Write(want[i : i+1])
			if i%100 == 0 {
				time.Sleep(2 * time.Millisecond) // for a ping
			}
		}
		server.Close(CloseGoingAway, "no frame of this")
	}()
	got, err := io.ReadAll(p.in)
	if i := bytes.Index(got, want); err != nil || i < 0 || i+len(want) != len(got) {
		t.Errorf("%v: %d bytes, and those of the other server at %d", err, len(got), i)
	}
}

// A client whose connection another server serves keeps its place while it sends pongs, and gives the place up when it is silent.
func TestPlacesOfRelayed(t *testing.T) {
	now := time.Now()
	s := newVisitors(&ServerOptions{MaxConnectionsEach: 1})
	v := mustEnter(t, s, "alice", "1.1.1.1", now)
	v.waits = func() bool { return false }
	v.handOver()
	heard := now.Add(time.Minute)
	v.heard.Store(heard.UnixNano())
	wantFull(t, s, "alice", "2.2.2.2", heard.Add(DefaultPingEvery), "max-connections-each is 1 here, and alice has 1 connections: close one, or try again later")
	late := &visitor{of: s, key: "3.3.3.3"}
	if err := late.seat(auth.Identity{Name: "alice"}, heard.Add(DefaultPingEvery+askAfter+time.Second)); err != nil || late.spare == nil {
		t.Errorf("in place of a silent connection: %v, %v", err, late.spare)
	}
}
