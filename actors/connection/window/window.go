// Package window decides when a connection may send the output of its processes, in which order,
// and when it asks the client how far the client has read.
//
// A Window is a pure machine: it has no actor, clock, goroutine or I/O. Its owner does what the
// machine returns: passes a delivery to the writer, writes a Ping, sets a timer, sends an Ack.
//
//	Offer ─▶ waiting ─ Next: there is room, and it is the stream's turn ─▶ sent ─ Pong ─▶ Ack
//
// Frames arrive in order, and every client answers each Ping with a Pong (RFC 6455 §5.5.3). So a
// Pong says that the client has read everything that was written before its Ping.
package window

import (
	"time"

	"github.com/b6f6fdd7/troupe/internal/fifo"
)

// Pause is how long the owner waits to call Due after an Ask with Wait.
const Pause = 20 * time.Millisecond

// EntryBytes is the cost of an entry in a window beside its output, in bytes.
const EntryBytes = 100

// A Stream is the output of one process, or of one command, on one connection. The zero Stream
// begins with its first delivery, wherever that starts.
type Stream[T any] struct {
	// Of names the stream for the owner of the window. The machine only returns it.
	Of T

	// Every entry after begin up to last was sent, once and in order. begin ≤ last.
	begin, last uint64
	// placed: begin and last are known. Without placed both are 0.
	placed bool
	// closed: the entry last ended the stream. Nothing is accepted until the stream begins again.
	closed bool

	// waits: delivery is accepted and not sent. Then the stream is queued, and delivery begins
	// with last+1 if it is numbered.
	waits    bool
	delivery Delivery
	// queued: the stream is in the queue of its window, once.
	queued bool
}

// A Delivery is what one Offer brings.
type Delivery struct {
	// First and Last are the first and the last seq, gaps included. First 0 means that the stream
	// is not numbered: no delivery has a hole, and Last is what to acknowledge.
	First, Last uint64
	Bytes       int64
	// AckEvery is after how many unasked bytes a Ping is due; 0 leaves that to the window.
	AckEvery int64
	Closed   bool // Last ends the stream
}

// Last is the seq of the last entry that was sent, or after which the stream has begun.
func (s *Stream[T]) Last() uint64 { return s.last }

// Placed reports whether Last counts.
func (s *Stream[T]) Placed() bool { return s.placed }

// Closed reports whether Last ended the stream.
func (s *Stream[T]) Closed() bool { return s.closed }

// Drop forgets the delivery that waits.
func (s *Stream[T]) Drop() { s.waits = false }

// Begin begins the stream after a seq, and forgets what waits.
func (s *Stream[T]) Begin(after uint64) {
	s.begin, s.last, s.placed, s.closed, s.waits = after, after, true, false, false
}

// BeginNow begins the stream with its next delivery, and forgets what waits.
func (s *Stream[T]) BeginNow() {
	s.begin, s.last, s.placed, s.closed, s.waits = 0, 0, false, false, false
}

// Resume forgets what waits, and returns the seq after which the stream continues: Last, or after
// if nothing has come yet. Acknowledgements still begin where the stream did. False means that the
// stream is closed and nothing continues it.
func (s *Stream[T]) Resume(after uint64) (from uint64, ok bool) {
	if s.closed {
		return 0, false
	}
	if s.waits = false; !s.placed {
		s.Begin(after)
	}
	return s.last, true
}

// mark is output that was sent before the Ping serial. It counts from where its stream began: the
// next Ack makes good one that was lost.
type mark[T any] struct {
	serial   uint64
	stream   *Stream[T]
	from, to uint64
	bytes    int64
}

// A Window is what one connection has sent and its client has not read.
type Window[T any] struct {
	size int64 // bytes; fixed

	// queue has each stream with a waiting delivery once, in the order of their Offers. A stream
	// in it without a waiting delivery has begun again or was taken, and has no turn.
	queue fifo.Queue[*Stream[T]]
	// sent has the marks that no Pong has answered. Their serials do not fall, and none is above
	// serial.
	sent fifo.Queue[mark[T]]
	// unread is the sum of the bytes in sent. It is below size before each turn, so it exceeds
	// size by less than one delivery, and by what was taken or answered without a turn.
	unread int64
	// unasked is the sum of the bytes in the marks with serial: no Ping has asked for them.
	unasked int64
	// serial is of the next Ping. It only rises, from 1.
	serial uint64
	// timed: the owner will call Due.
	timed bool
}

// New returns a Window of so many bytes.
func New[T any](size int64) Window[T] { return Window[T]{size: size, serial: 1} }

// Full reports whether nothing more may be sent until a Pong has come.
func (w *Window[T]) Full() bool { return w.unread >= w.size }

// Offer has a delivery wait for its turn. It refuses a delivery that does not continue the stream,
// and one after its end: then the owner subscribes again, from where Resume says. A delivery that
// still waits is replaced, and the stream keeps its place.
func (w *Window[T]) Offer(s *Stream[T], d Delivery) bool {
	if d.First > 0 {
		if !s.placed {
			s.Begin(d.First - 1)
		}
		if s.closed || d.First != s.last+1 {
			return false
		}
	}
	s.waits, s.delivery = true, d
	if !s.queued {
		s.queued = true
		w.queue.Push(s)
	}
	return true
}

// An Ask says how to learn what the client has read, after what was just sent.
type Ask struct {
	Ping uint64 // serial of a Ping that is due now; 0: none
	Wait bool   // the owner calls Due after Pause
}

// Next returns the stream whose delivery is sent now, and counts the delivery. False means that
// nothing waits, or that the window is full. With force, a full window sends too.
func (w *Window[T]) Next(force bool) (of T, ask Ask, ok bool) {
	for force || !w.Full() {
		s, some := w.queue.Pop()
		if !some {
			break
		}
		s.queued = false
		if s.waits {
			return s.Of, w.send(s), true
		}
	}
	return of, ask, false
}

// Take is Next for one stream, out of turn and whether or not the window is full: no more will
// come of the stream. False means that nothing of it waits.
func (w *Window[T]) Take(s *Stream[T]) (ask Ask, ok bool) {
	if !s.waits {
		return ask, false
	}
	return w.send(s), true
}

func (w *Window[T]) send(s *Stream[T]) Ask {
	d := &s.delivery
	s.waits = false
	s.last, s.closed = max(s.last, d.Last), d.Closed
	return w.Sent(s, s.begin, s.last, d.Bytes, d.AckEvery)
}

// Sent counts n bytes of a stream that were sent: the entries after from up to to. Next and Take
// have called it; others call it for an answer to process/read. A Ping is due at once when an
// eighth of the window, or ackEvery bytes if that is less and not 0, have not been asked for. Else
// the Ping is due after Pause.
func (w *Window[T]) Sent(s *Stream[T], from, to uint64, n, ackEvery int64) (ask Ask) {
	w.unread += n
	w.unasked += n
	if m := w.sent.Last(); m != nil && m.serial == w.serial && m.stream == s && m.from == from {
		m.to = max(m.to, to)
		m.bytes += n
	} else {
		w.sent.Push(mark[T]{w.serial, s, from, to, n})
	}
	most := w.size / 8
	if ackEvery > 0 {
		most = min(most, ackEvery)
	}
	switch {
	case w.unasked >= most:
		ask.Ping = w.ping()
	case !w.timed:
		w.timed, ask.Wait = true, true
	}
	return ask
}

// Due returns the serial of a Ping to write now; 0 means that every byte was asked for.
func (w *Window[T]) Due() uint64 {
	w.timed = false
	return w.ping()
}

func (w *Window[T]) ping() uint64 {
	if m := w.sent.Last(); m == nil || m.serial != w.serial {
		return 0
	}
	w.serial++
	w.unasked = 0
	return w.serial - 1
}

// An Ack says that the client has read the entries of a stream after From up to To.
type Ack[T any] struct {
	Of       T
	From, To uint64
}

// Pong returns the next Ack that the Pong serial gives; false means that there is no more. The
// owner calls it until then, and a Pong includes all before it. A Pong that was not asked for
// gives nothing.
func (w *Window[T]) Pong(serial uint64) (a Ack[T], ok bool) {
	if m := w.sent.First(); serial >= w.serial || m == nil || m.serial > serial {
		return a, false
	}
	m, _ := w.sent.Pop()
	w.unread -= m.bytes
	return Ack[T]{m.stream.Of, m.from, m.to}, true
}
