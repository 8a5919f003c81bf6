package cluster

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/b6f6fdd7/troupe/internal/meters"
	"github.com/b6f6fdd7/troupe/transport"
)

const (
	// lingerFor is how long a direction may go on after the other has ended. A socket that is closed with unread bytes is reset, and a reset overtakes what
	// was sent before, such as a Close frame.
	lingerFor = 5 * time.Second
)

// A cable carries the bytes of a client to the node of its session, and back. It does not look at them, so order, windows, pings and both encodings are
// those between the client and that node. A side that does not read makes the other side wait. A direction has a buffer only while bytes come.
type cable struct {
	client, node transport.Stream
	ended        atomic.Int32 // directions
	up, down     *meters.Counter
	still        func() error // says why the node may have no client any more; nil: it may
}

// run carries bytes until both directions have ended.
func (c *cable) run() {
	var other sync.WaitGroup
	other.Go(func() { c.carry(c.client, c.node, c.down) })
	c.carry(c.node, c.client, c.up)
	other.Wait()
	c.cut()
}

// cut ends the cable. Any goroutine may call cut.
func (c *cable) cut() {
	c.client.Close()
	c.node.Close()
}

// carry carries bytes one way until the sender has ended, and ends the receiver's input then. n counts them.
func (c *cable) carry(to, from transport.Stream, n *meters.Counter) {
	err := c.copy(to, from, n)
	if c.ended.Add(1) == 2 {
		c.cut()
		return
	}
	time.AfterFunc(lingerFor, c.cut)
	to.CloseWrite()
	if err == errReceiver { // which may still have something to say, and has to hear that the sender goes on
		io.Copy(io.Discard, from)
	}
}

// errReceiver means: the other side takes no more bytes.
var errReceiver = errors.New("the receiver has gone")

// copy returns at the end of from.
func (c *cable) copy(to, from transport.Stream, n *meters.Counter) error {
	for {
		err := from.Await()
		if err == nil {
			err = c.pass(to, from, n)
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

var buffers = sync.Pool{New: func() any { return new([transport.ReadAtOnce]byte) }}

// pass carries what has come.
func (c *cable) pass(to, from transport.Stream, n *meters.Counter) error {
	buf := buffers.Get().(*[transport.ReadAtOnce]byte)
	defer buffers.Put(buf)
	got, err := from.Read(buf[:])
	if got > 0 {
		n.Add(got)
		if _, err := to.Write(buf[:got]); err != nil {
			return errReceiver
		}
	}
	return err
}
