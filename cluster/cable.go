package cluster

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/b6f6fdd7/troupe/internal/meters"
	"github.com/b6f6fdd7/troupe/transport"
)

const (
	// idleBuffer and busyBuffer are what one direction of a cable reads at once, in bytes: while nothing comes, and while something does.
	idleBuffer, busyBuffer = 512, 32 << 10
	// busyFor is how long a direction keeps its large buffer without a byte.
	busyFor = time.Second
	// lingerFor is how long a direction may go on after the other has ended. A socket that is closed with unread bytes is reset, and a reset overtakes what
	// was sent before, such as a Close frame.
	lingerFor = 5 * time.Second
)

// A cable carries the bytes of a client to the node of its session, and back. It does not look at them, so order, windows, pings and both encodings are
// those between the client and that node. It holds at most two large buffers: a side that does not read makes the other side wait.
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
	small := make([]byte, idleBuffer)
	for {
		got, err := from.Read(small)
		if got > 0 {
			n.Add(got)
			if _, err := to.Write(small[:got]); err != nil {
				return errReceiver
			}
			if err == nil {
				err = c.hurry(to, from, n)
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

var buffers = sync.Pool{New: func() any { return new([busyBuffer]byte) }}

// hurry carries bytes with a large buffer until none have come for busyFor; then it returns nil.
func (c *cable) hurry(to, from transport.Stream, n *meters.Counter) error {
	buf := buffers.Get().(*[busyBuffer]byte)
	defer buffers.Put(buf)
	var set, last time.Time
	for {
		now := time.Now()
		if now.Sub(set) > busyFor/2 {
			from.SetReadDeadline(now.Add(busyFor))
			set = now
		}
		got, err := from.Read(buf[:])
		if got > 0 {
			n.Add(got)
			last = now
			if _, err := to.Write(buf[:got]); err != nil {
				return errReceiver
			}
		}
		if err == nil {
			continue
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if now.Sub(last) < busyFor/2 {
				continue
			}
			from.SetReadDeadline(time.Time{})
			return nil
		}
		return err
	}
}
