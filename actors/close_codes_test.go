package actors_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/transport"
)

// brokenConn is a connection whose reads, or writes, fail.
type brokenConn struct {
	read   chan []byte // closed: the next read fails
	err    error       // of reads
	closed chan closeFrame
}

type closeFrame struct {
	code   int
	reason string
}

func (c *brokenConn) ReadMessage() ([]byte, error) {
	if msg, ok := <-c.read; ok {
		return msg, nil
	}
	return nil, c.err
}
func (c *brokenConn) WriteMessage([]byte, bool) error { return errors.New("took nothing for 30s") }
func (c *brokenConn) Ping([]byte) error               { return nil }
func (c *brokenConn) Flush() error                    { return nil }
func (c *brokenConn) SetPongHandler(func([]byte))     {}
func (c *brokenConn) RemoteAddr() string              { return "broken" }
func (c *brokenConn) Subprotocol() string             { return "" }
func (c *brokenConn) Close(code int, reason string) error {
	select {
	case c.closed <- closeFrame{code, reason}:
	default: // the first code counts
	}
	return nil
}

// Only a mistake of the client closes a connection with 1002: clients give up after 1002.
func TestWhatBreaksAConnectionIsNoViolation(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{KillGrace: -1})
	const initialize = `{"id":1,"method":"initialize","params":{"clientName":"c"}}`
	for _, c := range []struct {
		name string
		says []string
		err  error
		want int
	}{
		{"dead", nil, transport.ErrDead, 4002},
		{"reset", nil, syscall.ECONNRESET, 4002},
		{"left without a word", nil, io.ErrUnexpectedEOF, 4002},
		{"dead, with a session", []string{initialize}, transport.ErrDead, 4002},
		{"takes nothing", []string{initialize}, nil, 4002},
		{"violation", []string{`{"method":"initialized"}`}, nil, 1002},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := &brokenConn{read: make(chan []byte, 1), err: c.err, closed: make(chan closeFrame, 1)}
			troupe.Accept(conn, actors.About{})
			for _, msg := range c.says {
				conn.read <- []byte(msg)
			}
			if c.err != nil {
				close(conn.read)
			} else {
				defer close(conn.read)
			}
			if got := <-conn.closed; got.code != c.want || got.reason == "" {
				t.Errorf("Close %d %q, want %d and a reason", got.code, got.reason, c.want)
			}
		})
	}
}

// However often clients break the protocol, the log gets a few lines, and how many there were.
func TestViolationsDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	const n = 10_000
	var b bytes.Buffer // slog locks the buffer; the test reads it at the end
	troupe := start(t, actors.Config{Log: slog.New(slog.NewTextHandler(&b, nil)), KillGrace: -1})
	for range n {
		conn := &brokenConn{read: make(chan []byte, 1), err: transport.ErrDead, closed: make(chan closeFrame, 1)}
		troupe.Accept(conn, actors.About{})
		conn.read <- []byte(`{"method":"initialized"}`)
		if got := <-conn.closed; got.code != transport.CloseProtocolError {
			t.Fatalf("Close %d %q", got.code, got.reason)
		}
		close(conn.read)
	}
	if err := troupe.Kill(); err != nil {
		t.Error(err)
	}
	var said, counted int
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, "protocol violation") {
			said++
			if _, rest, ok := strings.Cut(line, "leftOut="); ok {
				var left int
				fmt.Sscan(rest, &left)
				counted += left - 1 // this line is none
			}
		}
	}
	if counted += said; said > 100 || counted != n {
		t.Errorf("%d lines that tell of %d violations, want a few, of %d", said, counted, n)
	}
}
