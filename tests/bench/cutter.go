package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// A cutter passes TCP connections on to a server, and cuts them with RST: bytes in flight are lost.
type cutter struct {
	listener net.Listener
	target   string // host and port

	mu   sync.Mutex
	open []*net.TCPConn // both ends of each connection
}

func newCutter(url string) (*cutter, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &cutter{listener: l, target: strings.TrimPrefix(url, "ws://")}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", c.target)
			if err != nil {
				client.Close()
				continue
			}
			a, b := client.(*net.TCPConn), server.(*net.TCPConn)
			c.mu.Lock()
			c.open = append(c.open, a, b)
			c.mu.Unlock()
			pass := func(to, from *net.TCPConn) {
				io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 64<<10))
				to.CloseWrite()
			}
			go pass(a, b)
			go pass(b, a)
		}
	}()
	return c, nil
}

func (c *cutter) url() string { return "ws://" + c.listener.Addr().String() }

// cut cuts all connections, and reports whether there was any.
func (c *cutter) cut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		conn.SetLinger(0)
		conn.Close()
	}
	cut := len(c.open) > 0
	c.open = nil
	return cut
}

func (c *cutter) close() {
	c.listener.Close()
	c.cut()
}

// A checker checks the output of a program: every byte must come exactly once.
type checker interface {
	io.Writer
	End() error
}

// watched is an output of a program.
type watched struct {
	checker
	wrong int64 // bytes from the first wrong byte on
}

// watchedProcess is a program with checked output.
type watchedProcess struct {
	stdout, stderr *watched // stderr nil: no stderr
	seq            uint64   // the last seq received
	closed         bool
	stop           func(id string) (method string, params any) // the request that ends the program
}

// A survivor is a client whose connection is cut again and again. A survivor checks every byte of its
// programs.
type survivor struct {
	b       *bench
	cutter  *cutter
	client  *client // nil: cut
	session string

	processes map[string]*watchedProcess
	bytes     int64 // bytes received
	wrong     error // the first wrong message or byte
}

func (b *bench) newSurvivor(s *program) (*survivor, error) {
	cutter, err := newCutter(s.url)
	if err != nil {
		return nil, err
	}
	v := &survivor{b: b, cutter: cutter, processes: make(map[string]*watchedProcess)}
	if v.client, err = b.dial(cutter.url(), subJSON); err == nil {
		err = v.client.initialize(protocol.InitializeParams{})
	}
	if err != nil {
		v.close()
		return nil, err
	}
	v.session = v.client.session
	return v, nil
}

func (v *survivor) close() {
	if v.client != nil {
		v.client.close()
	}
	v.cutter.close()
}

// start starts n programs. There must be no cut meanwhile.
func (v *survivor) start(n int, program func(i int) (protocol.ProcessStartParams, *watchedProcess)) error {
	return v.client.pipeline(n, 16, func(i int) (string, any) {
		params, p := program(i)
		v.processes[params.ProcessID] = p
		return protocol.MethodProcessStart, params
	}, v.take)
}

// read reads over any number of cuts until done is true, and then long enough to notice the last cut.
func (v *survivor) read(done func() bool) error {
	var end time.Time
	for end.IsZero() || time.Now().Before(end) {
		if end.IsZero() && done() {
			end = time.Now().Add(time.Second)
		}
		m, err := v.client.next()
		if err == nil {
			err = v.take(m)
		} else {
			err = v.resume(err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// resume continues the session after a cut. The new connection may be cut, too.
func (v *survivor) resume(cause error) error {
	from := make(map[string]uint64)
	for id, p := range v.processes {
		if !p.closed {
			from[id] = p.seq
		}
	}
	for range 1000 {
		if v.b.ctx.Err() != nil {
			return v.b.ctx.Err()
		}
		v.client.close()
		c, err := v.b.dial(v.cutter.url(), subJSON)
		if err != nil {
			cause = err
			continue // v.client is closed; a second close does nothing
		}
		v.client = c
		err = c.initialize(protocol.InitializeParams{ResumeSessionID: &v.session, ResumeFrom: from, Takeover: true})
		if err == nil {
			return nil
		}
		cause = err
		if failure, ok := errors.AsType[*protocol.Error](err); ok && failure.Code != protocol.CodeAlreadyAttached {
			break
		}
	}
	return fmt.Errorf("resume: %w", cause)
}

// take checks a message. Wrong output is counted; take returns an error only for a message that makes
// no sense.
func (v *survivor) take(m message) error {
	if m.method == "" {
		return nil // the answer to a request
	}
	p := v.processes[m.process]
	if p == nil || p.closed {
		return fmt.Errorf("unexpected %s of %q", m.method, m.process)
	}
	var err error
	if m.seq != p.seq+1 {
		err = fmt.Errorf("seq %d, and %d was due", m.seq, p.seq+1)
	}
	p.seq = m.seq
	switch m.method {
	case protocol.NotifyOutput:
		v.bytes += int64(len(m.chunk))
		w := p.stdout
		if m.stream == protocol.Stderr {
			w = p.stderr
		}
		if wrong := w.take(m.chunk); err == nil {
			err = wrong
		}
	case protocol.NotifyClosed:
		p.closed = true
		for _, w := range p.outputs() {
			if wrong := w.end(); err == nil {
				err = wrong
			}
		}
	}
	if err != nil && v.wrong == nil {
		v.wrong = fmt.Errorf("process %s: %w", m.process, err)
	}
	return nil
}

func (p *watchedProcess) outputs() []*watched {
	if p.stderr == nil {
		return []*watched{p.stdout}
	}
	return []*watched{p.stdout, p.stderr}
}

func (w *watched) take(chunk []byte) error {
	if w.wrong > 0 {
		w.wrong += int64(len(chunk))
		return nil
	}
	n, err := w.Write(chunk)
	if err != nil {
		w.wrong = int64(len(chunk) - n)
	}
	return err
}

func (w *watched) end() error {
	err := w.End()
	if err != nil && w.wrong == 0 {
		w.wrong = 1
	}
	return err
}

// finish ends all programs and waits until they have closed. There must be no cut meanwhile.
func (v *survivor) finish() error {
	var ids []string
	for id := range v.processes {
		ids = append(ids, id)
	}
	err := v.client.pipeline(len(ids), 64, func(i int) (string, any) { return v.processes[ids[i]].stop(ids[i]) }, v.take)
	for _, p := range v.processes {
		for err == nil && !p.closed {
			var m message
			if m, err = v.client.next(); err == nil {
				err = v.take(m)
			}
		}
	}
	return err
}

// wrongBytes returns the number of bytes from the first wrong byte of each output on.
func (v *survivor) wrongBytes() (n int64) {
	for _, p := range v.processes {
		for _, w := range p.outputs() {
			n += w.wrong
		}
	}
	return n
}
