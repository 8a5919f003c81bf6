package connection

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/internal/fifo"
	"github.com/b6f6fdd7/troupe/internal/meters"
	"github.com/b6f6fdd7/troupe/protocol"
)

// writer has the two queues of a connection, and writes them. The writer has a goroutine only while
// there is something to write. Answers and notifications go before output. The admission bounds
// the answers, because a request holds its place until its answer is written. The window bounds
// the output.
type writer struct {
	conn    message.Conn
	codec   protocol.Codec // of the client; set before anything is sent
	admit   *admission
	caps    protocol.Capabilities // of the client; set before output is sent
	refused []string              // notifications that the client does not want; set before output is sent
	meters  *meters.Meters
	ponged  func(uint64) // called instead of a Ping, for a transport without pings
	most    int          // bytes of a message at most; 0: not bounded here
	pinging bool         // of the goroutine: the transport has pings
	pinged  atomic.Int64 // when the last Ping was written, in nanoseconds since the Unix epoch
	begin   func()       // has work run on a goroutine
	failed  func(error)  // the transport has; called once, by the goroutine

	mu      sync.Mutex
	first   fifo.Queue[outgoing] // answers, notifications
	second  fifo.Queue[outgoing] // deliveries, pings, notifications of commands and of HTTP streams
	end     *closeFrame
	ended   bool // nothing more is written
	working bool // the goroutine is there, or has ended for good
}

// outgoing is a thing to write: an answer, a notification, a delivery or a ping. Or outgoing has a
// function to call when everything before has been written.
type outgoing struct {
	asked                    // of an answer
	err      *protocol.Error // of an answer: the failure
	method   string          // of a notification
	body     any             // result or params
	held     int             // of the connection's memory, until written
	delivery *message.Delivery
	ping     uint64 // serial; 0: no ping
	written  func() // may not block
	release  func() // gives back memory; called when everything before has been written or will never be. May not block
}

type closeFrame struct {
	code   int
	reason string
}

func newWriter(conn message.Conn, admit *admission, m *meters.Meters, ponged func(uint64)) *writer {
	return &writer{conn: conn, admit: admit, meters: m, ponged: ponged, pinging: true}
}

// optOut keeps notifications from the client, from now on.
func (w *writer) optOut(methods []string) {
	for known := range protocol.Notifications { // the list of the client may be long
		if slices.Contains(methods, known) && w.wanted(known) {
			w.refused = append(w.refused, known)
		}
	}
}

func (w *writer) wanted(method string) bool { return !slices.Contains(w.refused, method) }

func (w *writer) control(o outgoing) { w.change(func() { w.first.Push(o) }) }

func (w *writer) output(o outgoing) { w.change(func() { w.second.Push(o) }) }

// change calls f, which changes the queues, and makes sure that a goroutine writes them.
func (w *writer) change(f func()) {
	w.mu.Lock()
	f()
	begin := !w.working && !w.ended
	w.working = w.working || begin
	w.mu.Unlock()
	if begin {
		w.begin()
	}
}

// close ends the connection once both queues have been written.
func (w *writer) close(code int, reason string) {
	w.change(func() {
		if w.end == nil {
			w.end = &closeFrame{code, reason}
		}
	})
}

// stop ends the goroutine and drops both queues.
func (w *writer) stop() {
	w.mu.Lock()
	w.ended = true
	for o, ok := w.second.Pop(); ok; o, ok = w.second.Pop() {
		switch {
		case o.delivery != nil:
			o.delivery.Release()
		case o.release != nil:
			o.release()
		}
	}
	w.first = fifo.Queue[outgoing]{}
	w.mu.Unlock()
}

// next takes the next thing to write, if there is any.
func (w *writer) next() (o outgoing, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o, ok = w.first.Pop(); !ok {
		o, ok = w.second.Pop()
	}
	return o, ok
}

// rest reports whether nothing is queued, and whether the writer is over. After over, the writer
// writes nothing more, and closes the connection with end if end is not nil.
func (w *writer) rest() (end *closeFrame, over, nothing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	nothing = w.first.Len()+w.second.Len() == 0
	over = w.ended || nothing && w.end != nil
	w.working = over || !nothing
	return w.end, over, nothing
}

// encodings are buffers for encoding. An idle connection has no such buffer.
var encodings = sync.Pool{New: func() any { return new([]byte) }}

// keepEncoding is the size of the largest buffer kept, in bytes. A delivery fits.
const keepEncoding = 256 << 10

// work writes until both queues are empty. Nobody calls work again after stop, close or an error.
func (w *writer) work() {
	for {
		end, over, nothing := w.rest()
		switch {
		case over:
			if end != nil {
				w.conn.Close(end.code, end.reason)
			}
			return
		case nothing:
			return
		}
		if err := w.drain(); err != nil {
			w.failed(err)
			return
		}
	}
}

// drain writes both queues until they are empty.
func (w *writer) drain() (err error) {
	buf := encodings.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= keepEncoding {
			encodings.Put(buf)
		}
	}()
	var read time.Time // of the first output whose time is measured
	for o, ok := w.next(); ok; o, ok = w.next() {
		if o.delivery != nil && read.IsZero() {
			read = o.delivery.At
		}
		if *buf, err = w.write((*buf)[:0], &o); err != nil {
			return err
		}
		o.span.End()
		if o.weight > 0 {
			w.admit.release(o.weight)
		}
		w.admit.memory.Give(o.held)
	}
	if err = w.conn.Flush(); err == nil {
		w.meters.Delivery.Since(read).End()
	}
	return err
}

// failure counts an answer that says what was wrong.
func (w *writer) failure(err *protocol.Error) {
	w.meters.Failures.Add(string(err.Kind()), 1)
	if limit, _, _ := err.Limit(); limit != "" {
		w.meters.Limits.Add(limit, 1)
	}
}

// send writes a message.
func (w *writer) send(message []byte) error {
	w.meters.Sent.Add(len(message))
	return w.conn.WriteMessage(message, w.codec.Binary())
}

func (w *writer) write(buf []byte, o *outgoing) ([]byte, error) {
	var err error
	switch {
	case o.delivery != nil:
		buf, err = w.deliver(buf, o.delivery)
		o.delivery.Release()
		return buf, err
	case o.written != nil:
		o.written()
		return buf, nil
	case o.release != nil:
		o.release()
		return buf, nil
	case o.ping != 0:
		return buf, w.ping(o.ping)
	case o.method != "" && !w.wanted(o.method):
		return buf, nil
	case o.method != "":
		buf, err = w.codec.AppendNotification(buf, o.method, o.body)
	case o.err != nil:
		w.failure(o.err)
		buf, err = w.codec.AppendFailure(buf, o.id, o.err)
	default:
		buf, err = w.codec.AppendResponse(buf, o.id, o.body)
	}
	if n := len(buf); err == nil && o.method == "" && w.most > 0 && n > w.most {
		buf, err = w.codec.AppendFailure(buf[:0], o.id, protocol.Errorf(protocol.KindTooLarge, protocol.CodeInvalidRequest, "the answer has %d bytes, and a message on this connection at most %d: ask for less, or over a websocket", n, w.most))
	}
	if err != nil {
		return buf, err
	}
	return buf, w.send(buf)
}

func (w *writer) ping(serial uint64) error {
	if w.pinging {
		w.pinged.Store(time.Now().UnixNano())
		err := w.conn.Ping(binary.BigEndian.AppendUint64(nil, serial))
		if !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
		w.pinging = false
	}
	w.ponged(serial)
	return nil
}

// lost tells the client of output that the disk does not give back. lost does not cut the connection,
// because a resumed client would come to the same place again.
func (w *writer) lost(send func(string, any) error, process string, e *outlog.Entry, why error) error {
	if !w.caps.Gap {
		return nil // its seq is left out
	}
	return send(protocol.NotifyGap, &protocol.GapNotification{ProcessID: process, Seq: e.Seq, FromSeq: e.Seq, ToSeq: e.Seq, Bytes: uint64(e.Len()), Reason: why.Error()})
}

// deliver writes a message for each entry.
func (w *writer) deliver(buf []byte, d *message.Delivery) (_ []byte, err error) {
	send := func(method string, params any) error {
		if !w.wanted(method) {
			return nil
		}
		if buf, err = w.codec.AppendNotification(buf[:0], method, params); err != nil {
			return err
		}
		return w.send(buf)
	}
	if d.Gap.From != 0 {
		w.meters.Gaps.Add(1)
		w.meters.Missing.Add(int(d.Gap.Bytes))
	}
	if d.Gap.From != 0 && w.caps.Gap {
		gap := protocol.GapNotification{ProcessID: d.Process, Seq: d.Gap.To, FromSeq: d.Gap.From, ToSeq: d.Gap.To, Bytes: d.Gap.Bytes, Reason: "dropped from the retained output"}
		if d.Cut {
			gap.Reason = "read too slowly before the end of the session"
		}
		if err := send(protocol.NotifyGap, &gap); err != nil {
			return buf, err
		}
	}
	var output protocol.OutputNotification
	var disk []byte // buffer for the output of an entry in the spool
	for i := range d.Entries {
		e := &d.Entries[i]
		switch e.Kind {
		case outlog.Output:
			output = protocol.OutputNotification{ProcessID: d.Process, Seq: e.Seq, Stream: e.Stream, Chunk: e.Data}
			if w.caps.Times {
				output.AtMs = uint64(max(e.AtMs, 0))
			}
			if e.Spooled != nil {
				if err = w.conn.Flush(); err != nil { // the disk may be slow
					return buf, err
				}
				if disk, err = e.Spooled.Read(disk[:0]); err != nil {
					if err = w.lost(send, d.Process, e, err); err != nil {
						return buf, err
					}
					continue
				}
				output.Chunk = disk
			}
			err = send(protocol.NotifyOutput, &output)
		case outlog.Exited:
			err = send(protocol.NotifyExited, &protocol.ExitedNotification{ProcessID: d.Process, Seq: e.Seq, ExitStatus: *e.Status, SandboxDenied: e.Denied})
		case outlog.Restarted:
			if r := e.Restart; w.caps.Restarted {
				err = send(protocol.NotifyRestarted, &protocol.RestartedNotification{
					ProcessID: d.Process, Seq: e.Seq, Run: r.Run, Reason: r.Reason, DelayMs: env.Milliseconds(r.Delay), StdinLostBytes: r.StdinLost})
			}
		case outlog.Ready:
			if w.caps.Ready {
				err = send(protocol.NotifyReady, &protocol.ReadyNotification{ProcessID: d.Process, Seq: e.Seq, Run: e.Restart.Run})
			}
		case outlog.Evicted:
			err = send(protocol.NotifyEvicted, &protocol.EvictedNotification{ProcessID: d.Process, Seq: e.Seq, Reason: e.Restart.Reason})
		case outlog.Closed:
			err = send(protocol.NotifyClosed, &protocol.ClosedNotification{ProcessID: d.Process, Seq: e.Seq})
		}
		if err != nil {
			return buf, err
		}
	}
	return buf, nil
}
