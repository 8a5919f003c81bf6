package transport

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"
)

// tlsStreams returns both ends of a connection after the handshake.
func tlsStreams(t *testing.T) (client, server *TLSStream) {
	t.Helper()
	pair := newTLSPair(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	config := pair.client.Clone()
	config.ServerName = "127.0.0.1"
	dialed := make(chan error, 1)
	go func() {
		raw, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			client, err = TLSClient(raw, config)
		}
		if err == nil {
			err = client.Handshake()
		}
		dialed <- err
	}()
	raw, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if server, err = newTLSStream(raw.(*net.TCPConn), pair.server, tls.Server); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(server.Handshake(), <-dialed); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func TestTLSStreamCarriesAllSizes(t *testing.T) {
	t.Parallel()
	client, server := tlsStreams(t)
	sent := make([]byte, 4<<20)
	for i := range sent {
		sent[i] = byte(rand.Uint32())
	}
	failed := make(chan error, 1)
	go func() {
		for left := sent; len(left) > 0; {
			n, err := client.Write(left[:min(len(left), 1+rand.IntN(3*ReadAtOnce))])
			if left = left[n:]; err != nil {
				failed <- err
				return
			}
		}
		failed <- client.CloseWrite()
	}()
	var got []byte
	for buf := make([]byte, 2*ReadAtOnce); ; {
		if err := server.Await(); err != nil {
			t.Fatal(err)
		}
		n, err := server.Read(buf[:1+rand.IntN(len(buf))])
		if got = append(got, buf[:n]...); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, sent) {
		t.Errorf("%d bytes came, and %d others were sent", len(got), len(sent))
	}
}

// A record that has come as a whole is not held back for one that has not.
func TestTLSStreamDoesNotWaitForTheRestOfARecord(t *testing.T) {
	t.Parallel()
	client, server := tlsStreams(t)
	client.below.hold()
	for _, text := range []string{"first", "second"} {
		if _, err := client.Conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	both := *client.below.held
	client.below.held = nil
	cut := len(both) - 3
	socket := client.below.stream
	if _, err := socket.Write(both[:cut]); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	n, err := server.Read(buf)
	if err != nil || string(buf[:n]) != "first" {
		t.Fatalf("%q, %v", buf[:n], err)
	}
	server.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if n, err := server.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%q, %v", buf[:n], err)
	}
	if server.below.in != nil {
		t.Error("a stream that waits has a buffer")
	}
	server.SetReadDeadline(time.Time{})
	if _, err := socket.Write(both[cut:]); err != nil {
		t.Fatal(err)
	}
	if n, err = server.Read(buf); err != nil || string(buf[:n]) != "second" {
		t.Fatalf("%q, %v", buf[:n], err)
	}
}

// After a write that was cut off, nothing follows.
func TestTLSStreamFailsForGood(t *testing.T) {
	t.Parallel()
	client, _ := tlsStreams(t)
	client.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := client.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) || n == 64<<20 {
		t.Fatal(n, err)
	}
	client.SetWriteDeadline(time.Time{})
	for _, size := range []int{1, 2 * maxRecord} {
		if n, err := client.Write(make([]byte, size)); err == nil || n > 0 {
			t.Error(n, err)
		}
	}
}

// The end may come together with the last bytes, and the socket stays open.
func TestTLSStreamEndsWithItsLastBytes(t *testing.T) {
	t.Parallel()
	client, server := tlsStreams(t)
	client.below.hold()
	client.Conn.Write([]byte("last"))
	client.Conn.CloseWrite()
	client.below.SetWriteDeadline(time.Time{}) // CloseWrite has let it pass
	if err := client.below.flush(); err != nil {
		t.Fatal(err)
	}
	server.SetReadDeadline(time.Now().Add(10 * time.Second))
	buf := make([]byte, 100)
	if n, err := server.Read(buf); err != nil || string(buf[:n]) != "last" {
		t.Fatalf("%q, %v", buf[:n], err)
	}
	if err := server.Await(); err != nil {
		t.Fatal(err)
	}
	if n, err := server.Read(buf); n > 0 || err != io.EOF {
		t.Fatalf("%q, %v", buf[:n], err)
	}
}
