package chaos

import (
	"bytes"
	"encoding/binary"
	"time"
)

// A cutting is a cut that the link makes at certain bytes of the connection.
type cutting struct {
	kind   Kind
	reset  bool
	moment moment
	calls  int    // how many reads or writes of the handshake pass before
	arg    uint64 // random bits to choose the byte
}

// A moment says at which bytes the link makes a cut.
type moment uint8

const (
	inWrite      moment = iota // within a write
	inRead                     // within the bytes of a read
	afterMessage               // after the first message of the client
	inAnswer                   // in the first bytes of the server after the first message of the client
)

// prepare gives the link a cut to make at certain bytes, and reports whether the link is open.
func (l *link) prepare(a Act) bool {
	c := &cutting{kind: a.Kind, reset: a.Arg&1 == 0, arg: a.Arg >> 8}
	switch variant := a.Arg >> 1 & 3; {
	case a.Kind == MidFrame:
	case a.Kind == Resume && variant < 2:
		c.moment = afterMessage
	case a.Kind == Resume:
		c.moment = inAnswer
	case variant == 0: // before the first byte of the handshake
		return l.cut(a.Kind, c.reset)
	case variant == 1: // in the first or second write of the handshake
		c.calls = int(a.Arg >> 3 & 1)
	default: // in the first or second read of the handshake
		c.moment, c.calls = inRead, int(a.Arg>>3&1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != open {
		return false
	}
	l.due = c
	if a.Kind == MidFrame && !l.dialer.onlyWrites {
		time.AfterFunc(injectAfter, func() { l.inject(c) })
	}
	return true
}

// inWrite returns how many of n bytes to write before the cut. Below 0 means: write all bytes and do not cut yet. begins says that the n
// bytes begin the client's first message.
func (c *cutting) inWrite(begins bool, n int) int {
	switch {
	case c.kind == Handshake && begins: // the handshake had fewer reads or writes than calls
		return 0
	case c.moment == afterMessage && begins:
		return n
	case c.moment != inWrite:
		return -1
	case c.calls > 0:
		c.calls--
		return -1
	case n < 2:
		return -1
	}
	return 1 + int(c.arg%uint64(n-1))
}

// inRead returns how many of n received bytes to pass on before the cut. Below 0 means: pass on all bytes and do not cut yet.
func (c *cutting) inRead(t *talk, n int) int {
	switch {
	case c.moment == inAnswer && t.begun:
	case c.moment != inRead:
		return -1
	case c.calls > 0:
		c.calls--
		return -1
	}
	return int(c.arg % uint64(n))
}

// inject writes half a frame and cuts the link, if the client has written nothing since prepare.
func (l *link) inject(c *cutting) {
	idle := l.writing.TryLock() // otherwise the client is within a frame
	if idle {
		defer l.writing.Unlock()
	}
	l.mu.Lock()
	if l.due != c || l.state != open {
		l.mu.Unlock()
		return
	}
	idle = idle && (l.shape == nil || l.shape.out.empty())
	half := l.talk.halfFrame()
	if idle {
		l.socket.SetWriteDeadline(time.Now().Add(injectAfter))
	}
	l.mu.Unlock()
	if idle {
		l.socket.Write(half)
	}
	l.cut(c.kind, c.reset)
}

// A talk follows the bytes of client and server until the first message of the client. Before the first message come the handshakes of
// proxies, TLS and websockets.
type talk struct {
	framed  bool // the socket may carry length-prefixed frames, which have no handshake
	speaks  language
	begun   bool // the first message of the client has begun
	ended   int  // bytes of endOfHead received so far
	secrets int  // of TLS: turns of the client with encrypted records
	turn    bool // of TLS: the client has written since the server has
	secret  bool // of TLS: this turn has an encrypted record
}

type language uint8

const (
	unknown language = iota // a proxy's, such as CONNECT or SOCKS
	inHTTP                  // the head of HTTP, and then a websocket
	inTLS
	inFrames
)

// endOfHead ends the server's part of the handshake of a websocket.
const endOfHead = "\r\n\r\n"

// writes reports whether p, the bytes of a write, begins the first message of the client.
func (t *talk) writes(p []byte) (begins bool) {
	switch {
	case t.begun:
		return false
	case t.speaks == inHTTP:
		t.begun = t.ended == len(endOfHead)
	case t.speaks == inTLS:
		// The content of TLS is encrypted, so only the order of turns is visible. The client's first turn with encrypted records has the end
		// of the TLS 1.3 handshake and the HTTP request. The client's second turn with encrypted records has the first message.
		if !t.turn {
			t.turn, t.secret = true, false
		}
		if !t.secret && hasEncrypted(p) {
			t.secret = true
			t.secrets++
		}
		t.begun = t.secrets == 2
	case bytes.HasPrefix(p, []byte("GET ")):
		t.speaks = inHTTP
	case len(p) > 1 && p[0] == tlsHandshake && p[1] == 3:
		t.speaks, t.turn = inTLS, true
	case t.framed:
		t.speaks, t.begun = inFrames, true
	}
	return t.begun
}

// reads follows p, bytes of the server.
func (t *talk) reads(p []byte) {
	if t.begun {
		return
	}
	t.turn = false
	if t.speaks != inHTTP {
		return
	}
	for _, b := range p {
		switch {
		case t.ended == len(endOfHead):
			return
		case b == endOfHead[t.ended]:
			t.ended++
		case b == endOfHead[0]:
			t.ended = 1
		default:
			t.ended = 0
		}
	}
}

// Types of records of TLS: RFC 8446 §5.1. An encrypted record has the type of application data.
const (
	tlsHandshake = 22
	tlsEncrypted = 23
	tlsHeader    = 5 // bytes: type, version, length
)

// hasEncrypted reports whether p, which holds whole TLS records, has an encrypted record.
func hasEncrypted(p []byte) bool {
	for len(p) >= tlsHeader {
		if p[0] == tlsEncrypted {
			return true
		}
		p = p[min(len(p), tlsHeader+int(binary.BigEndian.Uint16(p[3:]))):]
	}
	return false
}

// halfFrame returns the begin of a frame to the server, for between two frames.
func (t *talk) halfFrame() []byte {
	switch {
	case !t.begun:
		return nil
	case t.speaks == inTLS:
		return []byte{tlsEncrypted, 3, 3, 0x10, 0, 1, 2, 3}
	case t.speaks == inFrames:
		return []byte{0, 0x10, 0, 0, '{', '"'}
	}
	return []byte{0x81, 0x80 | 126, 0x10, 0, 1, 2, 3, 4, '{' ^ 1, '"' ^ 2} // text, masked, 4 KiB
}
