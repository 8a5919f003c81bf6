package transport

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// maxRecord is the largest payload of a TLS record, in bytes: RFC 8446 §5.1.
const maxRecord = 16 << 10

// ReadAtOnce is how many bytes of payload a TLSStream reads or writes with one system call.
const ReadAtOnce = 4 * maxRecord

// A TLSStream is a connection with TLS that carries several records with one system call, where tls.Conn has a call for each. While nothing comes, it
// holds no buffer but the one of tls.Conn, which has the size of the largest record so far.
type TLSStream struct {
	*tls.Conn
	below *records
	more  bool // owned by the reader: tls.Conn may have bytes, or the end, that the last Read has not returned
}

// TLSClient begins a connection with TLS on a socket.
func TLSClient(socket net.Conn, config *tls.Config) (*TLSStream, error) {
	w, err := newClientWire(socket)
	if err != nil {
		return nil, err
	}
	return newTLSStream(w.stream, config, tls.Client)
}

func newTLSStream(s stream, config *tls.Config, side func(net.Conn, *tls.Config) *tls.Conn) (*TLSStream, error) {
	raw, err := s.SyscallConn()
	if err != nil {
		return nil, err
	}
	r := &records{stream: s, raw: raw}
	return &TLSStream{Conn: side(r, config), below: r}, nil
}

// SyscallConn implements syscall.Conn, with the socket below. What the stream has read from it, and has not returned, is not seen there.
func (s *TLSStream) SyscallConn() (syscall.RawConn, error) { return s.below.raw, nil }

// Await implements Stream.
func (s *TLSStream) Await() error {
	if s.more || len(s.below.rest) > 0 {
		return nil
	}
	return s.below.fill()
}

// Read reads all records that have come and that p has room for.
func (s *TLSStream) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.below.come = true
	for err == nil && n < len(p) && len(s.below.rest) > 0 {
		var more int
		more, err = s.Conn.Read(p[n:])
		n += more
	}
	s.below.come = false
	s.more = n == len(p) || err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
	if n > 0 { // the end and errors come again; without come, the rest of a record may come
		err = nil
	}
	return n, err
}

// Write writes up to ReadAtOnce bytes with each system call.
func (s *TLSStream) Write(p []byte) (n int, err error) {
	for {
		part := p[n:min(len(p), n+ReadAtOnce)]
		if len(part) <= maxRecord {
			m, err := s.Conn.Write(part)
			return n + m, err
		}
		s.below.hold()
		_, err := s.Conn.Write(part)
		if wrong := s.below.flush(); err == nil {
			err = wrong
		}
		if err != nil {
			return n, err
		}
		if n += len(part); n == len(p) {
			return n, nil
		}
	}
}

// Close also ends a Write that waits.
func (s *TLSStream) Close() error {
	if s.below.flushing.Load() {
		return s.below.stream.Close()
	}
	return s.Conn.Close()
}

// records is a socket below tls.Conn. It reads several records at once, and hands out no byte beyond the end of a record: so whatever tls.Conn has not
// taken is in rest. It writes several records at once between hold and flush.
type records struct {
	stream
	raw syscall.RawConn

	// Owned by the reader.
	in   *[ReadAtOnce]byte // holds rest; nil: rest is empty
	rest []byte            // read, and not taken by tls.Conn
	come bool              // Read does not wait, and has only what has come
	head [5]byte           // the header of a record: RFC 8446 §5.1
	have int               // bytes of head
	left int               // bytes of the record after head

	flushing atomic.Bool
	writing  sync.Mutex // guards the fields below
	held     *[]byte    // records that wait for flush; nil: nothing is held
	failed   error      // of flush: a record may be cut off, so nothing may follow
}

var (
	recordsIn  = sync.Pool{New: func() any { return new([ReadAtOnce]byte) }}
	recordsOut = sync.Pool{New: func() any {
		held := make([]byte, 0, ReadAtOnce+2<<10) // with the heads of records, which are small at first
		return &held
	}}
)

// fill reads into rest. While nothing comes, there is no buffer.
func (r *records) fill() error {
	if err := await(r.raw); err != nil {
		return err
	}
	in := recordsIn.Get().(*[ReadAtOnce]byte)
	n, err := r.stream.Read(in[:])
	if n == 0 {
		recordsIn.Put(in)
		return err
	}
	r.in, r.rest = in, in[:n]
	return nil // an error comes again
}

// Read implements net.Conn.
func (r *records) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.come {
			return 0, os.ErrDeadlineExceeded // for tls.Conn, this is not the end
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	n := r.follow(r.rest[:min(len(p), len(r.rest))])
	copy(p, r.rest[:n])
	if r.rest = r.rest[n:]; len(r.rest) == 0 {
		recordsIn.Put(r.in)
		r.in, r.rest = nil, nil
	}
	return n, nil
}

// follow returns how many bytes of p belong to the record that tls.Conn reads.
func (r *records) follow(p []byte) int {
	for i := 0; i < len(p); {
		if r.have < len(r.head) {
			n := copy(r.head[r.have:], p[i:])
			r.have += n
			i += n
			r.left = int(r.head[3])<<8 | int(r.head[4])
			continue
		}
		n := min(r.left, len(p)-i)
		r.left -= n
		i += n
		if r.left == 0 {
			r.have = 0
			return i
		}
	}
	return len(p)
}

// hold makes Write wait for flush.
func (r *records) hold() {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.held = recordsOut.Get().(*[]byte)
}

// flush writes what is held.
func (r *records) flush() error {
	r.writing.Lock()
	defer r.writing.Unlock()
	held := r.held
	r.held = nil
	if r.failed == nil {
		r.flushing.Store(true)
		_, r.failed = r.stream.Write(*held)
		r.flushing.Store(false)
	}
	*held = (*held)[:0]
	recordsOut.Put(held)
	return r.failed
}

// Write implements net.Conn.
func (r *records) Write(p []byte) (int, error) {
	r.writing.Lock()
	defer r.writing.Unlock()
	switch {
	case r.held != nil:
		*r.held = append(*r.held, p...)
		return len(p), nil
	case r.failed != nil:
		return 0, r.failed
	}
	return r.stream.Write(p)
}
