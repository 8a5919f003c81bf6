package transport

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
)

const lineBuffer = 64 << 10 // bytes

// StdioOptions may be nil, and are useful at zero.
type StdioOptions struct {
	// MaxMessage is in bytes, of a line without its end. Zero or below: DefaultMaxMessage,
	// of frames MaxFramed, which is the most there.
	MaxMessage int

	Closed func() // called once, when Close has closed both r and w; nil: nobody is
}

// piped is a Conn over a reader and a writer: what Stdio and Frames have in common.
//
// A Read of stdin cannot be ended from outside when stdin is a terminal or a file
// in blocking mode, and Close must end ReadMessage. So a goroutine reads, one line
// each time it is asked; where Close cannot end it, it ends with the input.
type piped struct {
	r      io.ReadCloser
	w      io.WriteCloser
	max    int
	name   string // in logs and errors
	closed func()

	ask chan struct{} // ReadMessage wants a message, and has done with the last
	got chan message

	err error // owned by the reader

	done      chan struct{}
	closeOnce sync.Once
	closeErr  error
}

type message struct {
	data []byte
	err  error
}

// lines is newline-delimited JSON.
type lines struct {
	piped
	out []byte // owned by the writer: a message and its newline
}

// inputEnded is an end of the input, io.EOF if it was a clean one, after which the other
// side may still read.
type inputEnded struct{ why error }

func (e inputEnded) Error() string {
	if e.why == io.EOF {
		return "transport: the input has ended"
	}
	return e.why.Error()
}
func (e inputEnded) Unwrap() error  { return e.why }
func (inputEnded) InputEnded() bool { return true }

// Stdio returns a Conn that reads and writes messages a line each, and closes both
// r and w. Blank lines are ignored. When r has ended, the error of ReadMessage has a
// method InputEnded: the other side may still read answers. Messages to write must be JSON without
// newlines; there is no binary. A line longer than the limit ends the connection.
// What w cannot interrupt, Close cannot either: a write to a stdout in blocking
// mode lasts until the parent reads or goes.
func Stdio(r io.ReadCloser, w io.WriteCloser, o *StdioOptions) Conn {
	if o == nil {
		o = &StdioOptions{}
	}
	c := &lines{piped: newPiped(r, w, orDefault(o.MaxMessage, DefaultMaxMessage), "stdio", o.Closed)}
	in := bufio.NewReaderSize(r, lineBuffer)
	go c.pump(func(long *[]byte) ([]byte, error) { return c.nextLine(in, long) })
	return c
}

func newPiped(r io.ReadCloser, w io.WriteCloser, max int, name string, closed func()) piped {
	if closed == nil {
		closed = func() {}
	}
	return piped{r: r, w: w, max: max, name: name, closed: closed,
		ask: make(chan struct{}), got: make(chan message), done: make(chan struct{})}
}

// pump calls next for each message that is asked for, with a buffer to use again.
func (c *piped) pump(next func(buf *[]byte) ([]byte, error)) {
	var buf []byte
	for {
		select {
		case <-c.ask:
		case <-c.done:
			return
		}
		if cap(buf) > keepBuffer {
			buf = nil
		}
		var m message
		m.data, m.err = next(&buf)
		select {
		case c.got <- m:
		case <-c.done:
			return
		}
	}
}

// nextLine returns the next line that is not blank, in in's buffer or, if it is
// larger, in long. Input that ends without a newline ends in a line all the same:
// JSON that was cut is not JSON, and will be found out.
func (c *lines) nextLine(in *bufio.Reader, long *[]byte) ([]byte, error) {
	for {
		*long = (*long)[:0]
		text, err := in.ReadSlice('\n')
		for err == bufio.ErrBufferFull && len(*long)+len(text) <= c.max {
			*long = append(*long, text...)
			text, err = in.ReadSlice('\n')
		}
		if len(*long) > 0 {
			*long = append(*long, text...)
			text = *long
		}
		if len(bytes.TrimSuffix(text, []byte("\n"))) > c.max {
			return nil, &LimitError{What: "line", Max: c.max}
		}
		text = bytes.TrimSpace(text)
		if len(text) > 0 && (err == nil || err == io.EOF) {
			return text, nil
		}
		if err == io.EOF {
			return nil, inputEnded{io.EOF}
		}
		if err != nil {
			return nil, fmt.Errorf("transport: read from stdio: %w", err)
		}
	}
}

func (c *piped) ReadMessage() ([]byte, error) {
	if c.err != nil {
		return nil, c.err
	}
	var m message
	select {
	case c.ask <- struct{}{}:
		select {
		case m = <-c.got:
		case <-c.done:
			m.err = errClosed
		}
	case <-c.done:
		m.err = errClosed
	}
	c.err = m.err
	return m.data, c.err
}

func (c *lines) WriteMessage(msg []byte, binary bool) error {
	if binary {
		return errors.New("transport: stdio carries lines of JSON; a binary message has no place in them")
	}
	c.out = append(append(c.out[:0], msg...), '\n') // one write: a line is never torn
	_, err := c.w.Write(c.out)
	if cap(c.out) > keepBuffer {
		c.out = nil
	}
	return c.wrote(err)
}

// wrote says what a failed write means.
func (c *piped) wrote(err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-c.done:
		return errClosed
	default:
		return fmt.Errorf("transport: write to %s: %w", c.name, err)
	}
}

func (c *piped) Close(int, string) error {
	c.closeOnce.Do(func() {
		close(c.done)
		c.closeErr = errors.Join(c.r.Close(), notClosed(c.w.Close())) // they may be one
		c.closed()
	})
	return c.closeErr
}

func (c *piped) Flush() error                { return nil }
func (c *piped) Ping([]byte) error           { return ErrNoPing }
func (c *piped) SetPongHandler(func([]byte)) {}
func (c *piped) RemoteAddr() string          { return c.name }
func (c *lines) Subprotocol() string         { return "" }
