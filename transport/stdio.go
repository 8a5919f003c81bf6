package transport

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

const lineBuffer = 64 << 10 // bytes

// StdioOptions may be nil, and are useful at zero.
type StdioOptions struct {
	// MaxMessage is the largest message in bytes, without the newline of a line. Zero or below means
	// DefaultMaxMessage, or MaxFramed for Frames. Frames allows at most MaxFramed.
	MaxMessage int

	Closed func() // called once, when Close has closed both r and w; may be nil
}

// piped is the part that Stdio and Frames share: a Conn over a reader and a writer.
//
// Close must end ReadMessage, but nothing can interrupt a Read of stdin if stdin is a terminal or a
// file in blocking mode. So a separate goroutine reads a message each time ReadMessage asks. If Close
// cannot end the goroutine, it ends with the input.
type piped struct {
	r      *counted
	w      io.WriteCloser
	max    int
	name   string // for logs and errors
	closed func()

	ask chan struct{} // ReadMessage wants a message and no longer uses the previous message
	got chan message

	err error // owned by the reader

	done      chan struct{}
	closeOnce sync.Once
	closeErr  error
}

// counted counts the Reads that got bytes.
type counted struct {
	io.ReadCloser
	n atomic.Uint64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if n > 0 {
		c.n.Add(1)
	}
	return n, err
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

// An inputEnded reports the end of the input; the other side may still read output. For a clean end,
// why is io.EOF.
type inputEnded struct{ why error }

func (e inputEnded) Error() string {
	if e.why == io.EOF {
		return "transport: the input has ended"
	}
	return e.why.Error()
}
func (e inputEnded) Unwrap() error  { return e.why }
func (inputEnded) InputEnded() bool { return true }

// Stdio returns a Conn that reads and writes a message a line. Close closes both r and w. Stdio ignores
// blank lines. When r has ended, the error of ReadMessage has a method InputEnded: the other side may
// still read answers. Messages must be JSON without newlines, and cannot be binary. A line longer than
// the limit ends the connection.
//
// Close cannot end a write that w cannot interrupt: a write to a stdout in blocking mode lasts until
// the parent reads or exits.
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
	return piped{r: &counted{ReadCloser: r}, w: w, max: max, name: name, closed: closed,
		ask: make(chan struct{}), got: make(chan message), done: make(chan struct{})}
}

// pump calls next once for each message that ReadMessage asks for. buf is reused from call to call.
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

// nextLine returns the next line that is not blank. The result is a part of in's buffer, or of long if
// the line came in parts. Input that ends without a newline counts as a line: the JSON decoder detects
// a truncated message. A line over the limit is refused with the first byte over the limit: the rest
// may never come.
func (c *lines) nextLine(in *bufio.Reader, long *[]byte) ([]byte, error) {
	for {
		*long = (*long)[:0]
		text, err := nextPart(in)
		for err == nil && !bytes.HasSuffix(text, []byte("\n")) && len(*long)+len(text) <= c.max {
			*long = append(*long, text...)
			text, err = nextPart(in)
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

// nextPart waits for input, and returns the part of a line that has come, with its newline if the line
// is complete. The part is valid until the next call.
func nextPart(in *bufio.Reader) ([]byte, error) {
	if _, err := in.Peek(1); err != nil {
		return nil, err
	}
	part, _ := in.Peek(in.Buffered())
	if end := bytes.IndexByte(part, '\n'); end >= 0 {
		part = part[:end+1]
	}
	in.Discard(len(part))
	return part, nil
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
		return errors.New("transport: stdio carries lines of JSON, and no binary messages")
	}
	c.out = append(append(c.out[:0], msg...), '\n') // one write, so that a line is never torn
	_, err := c.w.Write(c.out)
	if cap(c.out) > keepBuffer {
		c.out = nil
	}
	return c.wrote(err)
}

// wrote returns the error of WriteMessage for a failed write.
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
		c.closeErr = errors.Join(c.r.Close(), notClosed(c.w.Close())) // r and w may be the same file
		c.closed()
	})
	return c.closeErr
}

// Heard is webSocket.Heard.
func (c *piped) Heard() uint64 { return c.r.n.Load() }

func (c *piped) Flush() error                { return nil }
func (c *piped) Ping([]byte) error           { return ErrNoPing }
func (c *piped) SetPongHandler(func([]byte)) {}
func (c *piped) RemoteAddr() string          { return c.name }
func (c *lines) Subprotocol() string         { return "" }
func (c *lines) About() About                { return About{Transport: "lines"} }
