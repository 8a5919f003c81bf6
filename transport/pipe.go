package transport

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// An end is one end of a pipe.
type end struct {
	in, out chan []byte
	err     error // owned by the reader

	mine, theirs *ending
	subprotocol  string
}

// An ending records how an end was closed.
type ending struct {
	once   sync.Once
	done   chan struct{}
	code   int // fixed once done is closed
	reason string
}

// Pipe returns the two ends of a connection in memory. An empty subprotocol means JSON. The pipe is
// synchronous: WriteMessage returns when the other end has read the message.
func Pipe(subprotocol string) (a, b Conn) {
	ab, ba := make(chan []byte), make(chan []byte)
	ea, eb := &ending{done: make(chan struct{})}, &ending{done: make(chan struct{})}
	return &end{in: ba, out: ab, mine: ea, theirs: eb, subprotocol: subprotocol}, &end{in: ab, out: ba, mine: eb, theirs: ea, subprotocol: subprotocol}
}

func (e *end) ReadMessage() ([]byte, error) {
	if e.err != nil {
		return nil, e.err
	}
	select {
	case msg := <-e.in:
		return msg, nil
	case <-e.mine.done:
		e.err = errClosed
	case <-e.theirs.done:
		e.err = io.EOF
		if e.theirs.code != CloseNormal {
			e.err = &CloseError{Code: e.theirs.code, Reason: e.theirs.reason}
		}
	}
	return nil, e.err
}

func (e *end) WriteMessage(msg []byte, _ bool) error {
	// A closed end must not write. select picks any ready case, so this check comes first.
	select {
	case <-e.mine.done:
		return errClosed
	default:
	}
	select {
	case e.out <- bytes.Clone(msg): // the reader keeps the clone; the writer reuses msg
		return nil
	case <-e.mine.done:
		return errClosed
	case <-e.theirs.done:
		return errors.New("transport: write to pipe: the other end was closed")
	}
}

func (e *end) Close(code int, reason string) error {
	e.mine.once.Do(func() {
		e.mine.code, e.mine.reason = code, reason
		close(e.mine.done)
	})
	return nil
}

func (e *end) Flush() error                { return nil }
func (e *end) Ping([]byte) error           { return ErrNoPing }
func (e *end) SetPongHandler(func([]byte)) {}
func (e *end) RemoteAddr() string          { return "pipe" }
func (e *end) Subprotocol() string         { return e.subprotocol }
func (e *end) About() About                { return About{Transport: "pipe"} }
