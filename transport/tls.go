package transport

import (
	"crypto/tls"
	"io"
	"os"
)

// maxRecord is the largest payload of a TLS record, in bytes: RFC 8446 §5.1.
const maxRecord = 16 << 10

// A tlsWire is a wire of a server inside TLS. The handshake happens in the first Read or Write.
type tlsWire struct {
	*streamWire
	conn    *tls.Conn // on streamWire's stream
	refused func(by RefusedBy, remote, reason string)
}

// newTLSWire calls refused for each client whose handshake fails, unless the client hung up.
func newTLSWire(w *streamWire, config *tls.Config, refused func(by RefusedBy, remote, reason string)) *tlsWire {
	return &tlsWire{w, tls.Server(w.stream, config), refused}
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

// writev writes one record with the beginning of a and b. If bytes are left, the error is
// os.ErrDeadlineExceeded, so that each record has a deadline of its own.
func (w *tlsWire) writev(a, b []byte) (int, error) {
	record := a
	if len(record) == 0 {
		record = b
	} else if room := maxRecord - len(a); room > 0 && len(b) > 0 {
		record = append(a[:len(a):len(a)], b[:min(room, len(b))]...)
	}
	record = record[:min(len(record), maxRecord)]
	n, err := w.conn.Write(record)
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
