package transport

import (
	"crypto/tls"
	"io"
	"os"
)

// A tlsWire is a wire of a server inside TLS. The handshake happens in the first Read or Write.
type tlsWire struct {
	*streamWire
	conn    *TLSStream // on streamWire's stream
	refused func(by RefusedBy, remote, reason string)
}

// newTLSWire calls refused for each client whose handshake fails, unless the client hung up.
func newTLSWire(w *streamWire, config *tls.Config, refused func(by RefusedBy, remote, reason string)) (*tlsWire, error) {
	conn, err := newTLSStream(w.stream, config, tls.Server)
	return &tlsWire{w, conn, refused}, err
}

func (w *tlsWire) Read(p []byte) (int, error) {
	n, err := w.read(w.conn, p)
	w.record.add(p[:n])
	if err != nil && err != io.EOF && w.refused != nil && !w.conn.ConnectionState().HandshakeComplete {
		w.refused(ByTLS, w.RemoteAddr().String(), err.Error())
		w.refused = nil
	}
	return n, err
}

func (w *tlsWire) Write(p []byte) (int, error) {
	w.writing.Lock()
	defer w.writing.Unlock()
	if w.handed {
		return 0, errClosed
	}
	return w.conn.Write(p)
}

// writev writes up to ReadAtOnce bytes of a and b. If bytes are left, the error is os.ErrDeadlineExceeded, so that each system call has a deadline of
// its own.
func (w *tlsWire) writev(a, b []byte) (int, error) {
	next := a
	if len(a) == 0 {
		next = b
	} else if room := maxRecord - len(a); room > 0 && len(b) > 0 { // a small message is one record
		next = append(a[:len(a):len(a)], b[:min(room, len(b))]...)
	}
	next = next[:min(len(next), ReadAtOnce)]
	n, err := w.conn.Write(next)
	if err == nil && n < len(a)+len(b) {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

func (w *tlsWire) below() Stream { return w.conn }

// attempts is 1: after a Write that was cut off by its deadline, tls.Conn writes nothing more.
func (w *tlsWire) attempts() int { return 1 }

func (w *tlsWire) tlsState() *tls.ConnectionState {
	s := w.conn.ConnectionState()
	return &s
}
