// Package window decides when a connection may send the output of its processes, in which order,
// and when the connection asks the client how far the client has read.
//
// A Window is a pure machine without actor, clock, goroutine or I/O. The methods return actions, and
// the owner does them: passes a delivery to the writer, writes a Ping, sets a timer, sends an Ack.
//
//	Offer ─▶ waiting ─ Next: the window has room, and the stream its turn ─▶ sent ─ Pong ─▶ Ack
//
// Frames arrive in order, and every client answers each Ping with a Pong (RFC 6455 §5.5.3). So a
// Pong proves that the client has read everything before the Ping.
//
// The window is the only queue of a connection. A bound on unsent bytes in the kernel (TCP_NOTSENT_LOWAT, 128 KiB) made an echo beside a
// flood no faster, and a larger window gained no throughput.
package window

import (
	"time"

	"github.com/b6f6fdd7/troupe/internal/fifo"
)

// Pause is how long the owner waits to call Due after an Ask with Wait.
const Pause = 20 * time.Millisecond

// EntryBytes is the cost of an entry in a window beside its output, in bytes.
const EntryBytes = 100

// A Stream is the output of a process, or of a command, on a connection. The zero Stream begins at
// the first entry of its first delivery.
type Stream[T any] struct {
	// Of names the stream for the owner of the window. The machine returns Of and never reads it.
	Of T

	// Every entry after begin up to last was sent, once and in order. begin ≤ last.
	begin, last uint64
	// placed: begin and last are known. Without placed both are 0.
	placed bool
	// closed: the entry last ended the stream. Nothing is accepted until the stream begins again.
	closed bool

	// waits: delivery is accepted and not sent. Then the stream is queued, and delivery begins
	// with last+1 if the stream is numbered.
	waits    bool
	delivery Delivery
	// queued: the stream is in the queue of its window, and only once.
	queued bool
}

// A Delivery is the output in a single Offer.
type Delivery struct {
	// First and Last are the first and the last seq, gaps included. With First 0 the stream is not
	// numbered: the machine looks for no holes, and the Ack names Last.
	First, Last uint64
	Bytes       int64
	// AckEvery is the number of unasked bytes after which a Ping is due. 0: an eighth of the window.
	AckEvery int64
	Closed   bool // Last ends the stream, unless another delivery follows
}

// Last is the seq of the newest entry sent. Before the first entry, Last is the seq after which the
// stream has begun.
func (s *Stream[T]) Last() uint64 { return s.last }

// Placed reports whether Last counts.
func (s *Stream[T]) Placed() bool { return s.placed }

// Closed reports whether Last ended the stream.
func (s *Stream[T]) Closed() bool { return s.closed }

// Drop forgets the waiting delivery.
func (s *Stream[T]) Drop() { s.waits = false }

// Begin begins the stream after a seq, and forgets the waiting delivery.
func (s *Stream[T]) Begin(after uint64) {
	s.begin, s.last, s.placed, s.closed, s.waits = after, after, true, false, false
}

// BeginNow begins the stream with its next delivery, and forgets the waiting delivery.
func (s *Stream[T]) BeginNow() {
	s.begin, s.last, s.placed, s.closed, s.waits = 0, 0, false, false, false
}

// Resume forgets the waiting delivery, and returns the seq after which the stream continues: Last,
// or after if nothing has come yet. Acks still begin where the stream began.
func (s *Stream[T]) Resume(after uint64) (from uint64) {
	if s.waits = false; !s.placed {
		s.Begin(after)
	}
	return s.last
}

// mark is output sent before the Ping with this serial. Each mark of deliveries begins where the
// stream began, so the next Ack makes good a lost Ack.
type mark[T any] struct {
	serial   uint64
	stream   *Stream[T]
	from, to uint64
	bytes    int64
}

// A Window counts the output that a connection has sent and its client has not read.
type Window[T any] struct {
	size int64 // bytes; fixed

	// queue has each stream with a waiting delivery once, in the order of the Offers. A stream in
	// the queue without a waiting delivery has begun again or was taken. Next skips such a stream.
	queue fifo.Queue[*Stream[T]]
	// sent has the marks without a Pong, in the order of their serials. No mark has a serial above
	// the field serial.
	sent fifo.Queue[mark[T]]
	// unread is the sum of the bytes in sent. Before each turn unread is below size. So unread
	// exceeds size by less than one delivery, plus the bytes sent without a turn: by Take, by Next
	// with force, and in answers to process/read.
	unread int64
	// unasked is the sum of the bytes sent after the newest Ping: of the marks with the field serial.
	unasked int64
	// serial is the serial of the next Ping. The first is 1, and serials only rise.
	serial uint64
	// timed: the owner will call Due.
	timed bool
}

// New returns a Window of so many bytes.
func New[T any](size int64) Window[T] { return Window[T]{size: size, serial: 1} }

// Full reports whether nothing more may be sent until a Pong has come.
func (w *Window[T]) Full() bool { return w.unread >= w.size }

// Offer has a delivery wait for its turn. A delivery that does not continue the stream is refused. Then the owner asks
// Resume where to subscribe again. A new delivery replaces a waiting delivery, and the stream keeps its place in the queue.
func (w *Window[T]) Offer(s *Stream[T], d Delivery) bool {
	if d.First > 0 {
		if !s.placed {
			s.Begin(d.First - 1)
		}
		if d.First != s.last+1 {
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

// An Ask says how to learn whether the client has read the newest output.
type Ask struct {
	Ping uint64 // serial of a Ping to write now; 0: no Ping
	Wait bool   // the owner calls Due after Pause
}

// Next returns the stream whose delivery is sent now, and counts the delivery. Next returns false
// if nothing waits, or if the window is full. With force, a full window sends, too.
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

// Take sends the waiting delivery of a stream at once: out of turn, and also if the window is full.
// The owner calls Take when no other delivery of the stream will come. Take returns false if no
// delivery of the stream waits.
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

// Sent counts n sent bytes of a stream: the entries after from up to to. Next and Take call Sent
// for deliveries, and the owner calls Sent for answers to process/read. A Ping is due at once when
// the unasked bytes reach an eighth of the window, or reach ackEvery if ackEvery is less and not 0.
// Otherwise the Ping is due after Pause.
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

// Due returns the serial of a Ping to write now, or 0 if nothing was sent after the newest Ping.
func (w *Window[T]) Due() uint64 {
	w.timed = false
	return w.ping()
}

func (w *Window[T]) ping() uint64 {
	if m := w.sent.Last(); m == nil || m.serial != w.serial {
		return 0
	}
	return w.Last()
}

// Unread is how many bytes were sent and are not known to be read.
func (w *Window[T]) Unread() int64 { return w.unread }

// Last returns the serial of a Ping to write after the last output. Its Pong proves that the client has read everything.
func (w *Window[T]) Last() uint64 {
	w.serial++
	w.unasked = 0
	return w.serial - 1
}

// An Ack names the entries of a stream, after From up to To, that the client has read.
type Ack[T any] struct {
	Of       T
	From, To uint64
}

// Pong returns the next Ack that follows from the Pong with this serial. The owner calls Pong until
// the answer is false. A Pong includes the Pongs of all earlier Pings. A Pong without a Ping gives
// no Ack.
func (w *Window[T]) Pong(serial uint64) (a Ack[T], ok bool) {
	if m := w.sent.First(); serial >= w.serial || m == nil || m.serial > serial {
		return a, false
	}
	m, _ := w.sent.Pop()
	w.unread -= m.bytes
	return Ack[T]{m.stream.Of, m.from, m.to}, true
}
