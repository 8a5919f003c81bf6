package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// A link carries the messages of a peer: a websocket, or length-prefixed frames.
type link interface {
	ReadMessage() (kind int, data []byte, err error)
	WriteMessage(kind int, data []byte) error
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	Close() error
}

// framed is a link of length-prefixed frames.
type framed struct{ net.Conn }

func (f framed) ReadMessage() (int, []byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > 8*mib {
		return 0, nil, fmt.Errorf("a frame of %d bytes", n)
	}
	data := make([]byte, n)
	_, err := io.ReadFull(f, data)
	return 0, data, err
}

func (f framed) WriteMessage(_ int, data []byte) error {
	_, err := f.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(data))), data...))
	return err
}

// framed reports whether the server speaks frames instead of websockets.
func (s *server) framed() bool { return strings.HasPrefix(s.url, "unix+frames:") }

func (t *target) dialFrames(ctx context.Context, p *peer) (err error) {
	p.tcp, err = t.connect(ctx, "")
	p.raw, p.ws = p.tcp, framed{p.tcp}
	return err
}
