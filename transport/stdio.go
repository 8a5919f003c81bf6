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
	MaxMessage int // bytes in a line without its end; zero or below: DefaultMaxMessage
}

// lines is a Conn of newline-delimited JSON.
//
// A Read of stdin cannot be ended from outside when stdin is a terminal or a file
// in blocking mode, and Close must end ReadMessage. So a goroutine reads, one line
// each time it is asked; where Close cannot end it, it ends with the input.
type lines struct {
	r   io.ReadCloser
	w   io.WriteCloser
	max int

	ask chan struct{} // ReadMessage wants a line, and has done with the last
	got chan line

	err error  // owned by the reader
	out []byte // owned by the writer: a message and its newline

	done      chan struct{}
	closeOnce sync.Once
	closeErr  error
}

type line struct {
	text []byte
	err  error
}

// inputEnded is an io.EOF after which the other side may still read.
type inputEnded struct{}

func (inputEnded) Error() string    { return "transport: the input has ended" }
func (inputEnded) Unwrap() error    { return io.EOF }
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
	c := &lines{
		r:    r,
		w:    w,
		max:  orDefault(o.MaxMessage, DefaultMaxMessage),
		ask:  make(chan struct{}),
		got:  make(chan line),
		done: make(chan struct{}),
	}
	go c.pump()
	return c
}

func (c *lines) pump() {
	in := bufio.NewReaderSize(c.r, lineBuffer)
	var long []byte // a line larger than in's buffer
	for {
		select {
		case <-c.ask:
		case <-c.done:
			return
		}
		if cap(long) > keepBuffer {
			long = nil
		}
		var l line
		l.text, l.err = c.nextLine(in, &long)
		select {
		case c.got <- l:
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
			return nil, inputEnded{}
		}
		if err != nil {
			return nil, fmt.Errorf("transport: read from stdio: %w", err)
		}
	}
}

func (c *lines) ReadMessage() ([]byte, error) {
	if c.err != nil {
		return nil, c.err
	}
	var l line
	select {
	case c.ask <- struct{}{}:
		select {
		case l = <-c.got:
		case <-c.done:
			l.err = errClosed
		}
	case <-c.done:
		l.err = errClosed
	}
	c.err = l.err
	return l.text, c.err
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
	if err == nil {
		return nil
	}
	select {
	case <-c.done:
		return errClosed
	default:
		return fmt.Errorf("transport: write to stdio: %w", err)
	}
}

func (c *lines) Close(int, string) error {
	c.closeOnce.Do(func() {
		close(c.done)
		c.closeErr = errors.Join(c.r.Close(), c.w.Close())
	})
	return c.closeErr
}

func (c *lines) Flush() error                { return nil }
func (c *lines) Ping([]byte) error           { return ErrNoPing }
func (c *lines) SetPongHandler(func([]byte)) {}
func (c *lines) RemoteAddr() string          { return "stdio" }
func (c *lines) Subprotocol() string         { return "" }
