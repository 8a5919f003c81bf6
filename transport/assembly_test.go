package transport

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/internal/budget"
)

// Clients that never finish a large message hold no more than the memory shared by all messages.
// Meanwhile small messages still pass. When the clients leave, their memory comes back.
func TestUnfinishedMessagesAreBounded(t *testing.T) {
	const peers, sent, max = 20, 9 << 20, 48 << 20
	for _, framed := range []bool{false, true} {
		pool := budget.New(max)
		url := "ws://127.0.0.1:0"
		begin := header(fin|text, 16<<20)
		if framed {
			url = "unix://" + t.TempDir() + "/s"
			begin = binary.LittleEndian.AppendUint32(nil, MaxFramed)
		}
		s, accepted := serve(t, url, &ServerOptions{Framed: framed, Memory: func() Memory { return pool.Account() }})
		connect := func() (io.ReadWriteCloser, Conn) {
			if !framed {
				p := newPeer(t, s.URL())
				return p, <-accepted
			}
			p, err := net.Dial("unix", strings.TrimPrefix(url, "unix://"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { p.Close() })
			return p, <-accepted
		}
		inUse := func() int64 {
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		before := inUse()
		var hogs []io.Closer
		ended := make(chan error, peers)
		piece := make([]byte, 64<<10)
		for range peers {
			p, c := connect()
			hogs = append(hogs, p)
			go func() {
				_, err := c.ReadMessage()
				c.Close(CloseNormal, "")
				ended <- err
			}()
			go func() {
				p.Write(begin)
				for n := 0; n < min(sent, MaxFramed-1<<20); n += len(piece) {
					if _, err := p.Write(piece); err != nil {
						return
					}
				}
			}()
		}
		last := int64(-1) // a stall of this program looks like the end, too, and so at least max/2 must have come
		for deadline := time.Now().Add(patience); (last != pool.Used() || last < max/2) && time.Now().Before(deadline); time.Sleep(300 * time.Millisecond) {
			last = pool.Used()
		}
		most := int64(max + 2*16<<20) // a single message may exceed the limit
		if used, held := pool.Used(), inUse()-before; used > most || used < max/2 || held > most {
			t.Errorf("framed %v: %d peers with %d MiB each hold %d MiB, and %d MiB are taken of %d", framed, peers, sent>>20, held>>20, used>>20, max>>20)
		}
		say := func(n int) {
			p, c := connect()
			msg := []byte(strings.Repeat(" ", n))
			go func() {
				if framed {
					p.Write(binary.LittleEndian.AppendUint32(nil, uint32(n)))
					p.Write(msg)
				} else {
					p.(*peer).send(fin|text, msg)
				}
			}()
			if got, err := c.ReadMessage(); err != nil || len(got) != n {
				t.Errorf("framed %v: a message of %d bytes: %d, %v", framed, n, len(got), err)
			}
			c.Close(CloseNormal, "")
			p.Close()
		}
		say(30 << 10)
		for _, p := range hogs {
			p.Close()
		}
		for range hogs {
			if err := <-ended; err == nil {
				t.Error("an unfinished message was read")
			}
		}
		until(t, "all memory is back when all have gone", func() bool { return pool.Used() == 0 })
		say(7 << 20)
	}
}

// A message without memory ends its connection. The Close frame tells the client to try again later.
func TestNoMemory(t *testing.T) {
	pool := budget.New(1 << 20)
	hog := pool.Account()
	defer hog.Close()
	hog.Force(2 << 20)
	hog.Over() // the hog exceeds the limit, so nobody else may
	s, accepted := serve(t, "ws://127.0.0.1:0", &ServerOptions{Memory: func() Memory { return impatient{pool.Account()} }})
	p := newPeer(t, s.URL())
	c := <-accepted
	go p.send(fin|text, make([]byte, 1<<20))
	if _, err := c.ReadMessage(); !errors.Is(err, budget.ErrFull) {
		t.Errorf("%v", err)
	}
	p.wantFrame(closing, closeFrame(CloseTryLater, budget.ErrFull.Error()+": try again later"))
}

// impatient waits for no time.
type impatient struct{ *budget.Account }

func (i impatient) Take(n int, _ time.Duration) error { return i.Account.Take(n, 0) }

// Neither a byte now and then nor pongs nor frames without a byte keep an unfinished message alive.
func TestSlowMessage(t *testing.T) {
	t.Parallel()
	s, accepted := servePaced(t, "ws://127.0.0.1:0", nil, 300*time.Millisecond)
	for _, fragment := range [][]byte{nil, []byte("x"), {}} { // nil: one large frame
		p := newPeer(t, s.URL())
		c := <-accepted
		over := make(chan struct{})
		go func() {
			defer close(over)
			first := byte(text)
			if fragment == nil {
				p.Write(header(fin|text, 1<<20))
			}
			for range 3000 {
				var err error
				if fragment != nil {
					p.send(first, fragment)
					_, err = p.Write(append(header(fin|pong, 1), 'p'))
					first = cont
				} else {
					_, err = p.Write([]byte("x"))
				}
				if err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		}()
		if _, err := c.ReadMessage(); !errors.As(err, new(slowError)) {
			t.Errorf("fragment %q: %v", fragment, err)
		}
		p.wantFrame(closing, closeFrame(ClosePolicy, slowError{}.reason()))
		p.Close()
		<-over
	}
}

// Pings sent within a message always leave bytes waiting, and must not keep the message alive. Bytes
// that waited because this side slept are read.
func TestFloodWithinMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer, conn := net.Pipe()
		defer peer.Close()
		go func() {
			for {
				if _, err := peer.Write([]byte("x")); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		l := link{deadAfter: DefaultDeadAfter, waiting: func() bool { return true }}
		for range 3 {
			l.expect(paceTime)
			time.Sleep(time.Minute)
			if n, err := l.read(conn, make([]byte, 10)); n == 0 || err != nil {
				t.Fatalf("after a sleep: %d bytes, %v", n, err)
			}
		}
		begin := time.Now()
		var err error
		for err == nil && time.Since(begin) < time.Minute {
			_, err = l.read(conn, make([]byte, 10))
		}
		if _, slow := errors.AsType[slowError](err); !slow {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		conn.Close()
		time.Sleep(time.Second) // time for the sender to notice
	})
}

// Frames have the same pace as websockets: 1 Mbit/s is enough for the largest frame. A part of a header
// does not extend the time, nor does a part of a message.
func TestSlowFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pair := func() (net.Conn, Conn) {
			peer, conn := net.Pipe()
			c := socketFrames(conn, SubprotocolJSON, settings{})
			t.Cleanup(func() {
				c.Close(CloseNormal, "")
				peer.Close()
			})
			return peer, c
		}
		send := func(to net.Conn, msg []byte, every time.Duration, n int) {
			for len(msg) > 0 {
				n := min(n, len(msg))
				if _, err := to.Write(msg[:n]); err != nil {
					return
				}
				msg = msg[n:]
				time.Sleep(every)
			}
		}
		whole := append(binary.LittleEndian.AppendUint32(nil, MaxFramed), make([]byte, MaxFramed)...)
		peer, c := pair()
		go send(peer, whole, time.Second, 125_000)
		if msg, err := c.ReadMessage(); err != nil || len(msg) != MaxFramed {
			t.Errorf("at 1 Mbit/s: %d bytes, %v", len(msg), err)
		}
		for name, cut := range map[string]int{"a header": 2, "a message": 2000} {
			peer, c := pair()
			begin := time.Now()
			go send(peer, whole[:cut], 0, 2000)
			if _, err := c.ReadMessage(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) > 2*paceTime {
				t.Errorf("a part of %s: %v after %v", name, err, time.Since(begin))
			}
		}
		peer, c = pair()
		begin := time.Now()
		go send(peer, whole, 5*time.Second, 1)
		if _, err := c.ReadMessage(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) > 2*paceTime {
			t.Errorf("a byte every 5 s: %v after %v", err, time.Since(begin))
		}
		peer.Close()
		time.Sleep(time.Minute) // time for the sender to notice
	})
}

// A sleep of this side ends neither an unfinished frame nor a slow write.
func TestFramesAfterSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer, conn := net.Pipe()
		c := socketFrames(conn, "", settings{})
		defer peer.Close()
		defer c.Close(CloseNormal, "")
		c.waiting = func() bool { return true }
		go func() {
			peer.Write([]byte{1, 0, 0, 0, '{', 4, 0})
			time.Sleep(3 * paceTime / 2) // a sleep longer than the pace
			peer.Write([]byte{0, 0, '{', '}', ' ', ' '})
		}()
		for _, want := range []string{"{", "{}  "} {
			if msg, err := c.ReadMessage(); err != nil || string(msg) != want {
				t.Fatalf("%q, %v, want %q", msg, err, want)
			}
		}
		go func() {
			for range 4 + 6 {
				time.Sleep(DefaultWriteTimeout / 3)
				peer.Read(make([]byte, 1))
			}
		}()
		if err := c.WriteMessage([]byte("[1, 2]"), false); err != nil {
			t.Errorf("a byte each %v was taken: %v", DefaultWriteTimeout/3, err)
		}
		begin := time.Now()
		if err := c.WriteMessage([]byte("[1, 2]"), false); err == nil || time.Since(begin) > 2*DefaultWriteTimeout {
			t.Errorf("nothing was taken for %v: %v", time.Since(begin), err)
		}
	})
}

// Close ends a wait for memory.
func TestCloseEndsWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := budget.New(1 << 20)
		hog := pool.Account()
		hog.Force(2 << 20)
		hog.Over() // the hog exceeds the limit, so nobody else may
		peer, conn := net.Pipe()
		account := pool.Account()
		c := socketFrames(conn, SubprotocolJSON, settings{memory: func() Memory { return account }})
		go peer.Write(append(binary.LittleEndian.AppendUint32(nil, 1<<20), make([]byte, 1<<20)...))
		go c.ReadMessage()
		time.Sleep(time.Second)
		c.Close(CloseNormal, "")
		synctest.Wait()
		select {
		case <-account.Done():
		default:
			t.Error("the pump of a connection that was closed waits for memory")
		}
		peer.Close()
		hog.Close()
	})
}

// Between two messages a connection keeps a small buffer, smaller if memory is bounded, and takes none of the memory.
func TestKeptBuffer(t *testing.T) {
	pool := budget.New(1 << 20)
	for keep, memory := range map[int]Memory{keepBuffer: nil, keepBounded: pool.Account()} {
		a := assembly{memory: memory}
		for _, size := range []int{keep, 2 * keep} {
			for a.begin(); cap(a.buf) < size; {
				if _, err := a.grow(size); err != nil {
					t.Fatal(err)
				}
			}
			if a.begin(); cap(a.buf) > 0 != (size == keep) || pool.Used() > 0 {
				t.Errorf("after a message of %d KiB the buffer has %d KiB, and %d bytes are taken; %d KiB may be kept", size>>10, cap(a.buf)>>10, pool.Used(), keep>>10)
			}
		}
	}
}

// SetMaxMessage limits a client's messages until its handshake is done.
func TestSetMaxMessage(t *testing.T) {
	s, accepted := serve(t, "ws://127.0.0.1:0", nil)
	p := newPeer(t, s.URL())
	c := (<-accepted).(*webSocket)
	c.SetMaxMessage(1000)
	go p.send(fin|text, []byte(strings.Repeat("a", 1000)))
	wantMessage(t, c, strings.Repeat("a", 1000))
	c.SetMaxMessage(0)
	go p.send(fin|text, []byte(strings.Repeat("b", 1001)))
	wantMessage(t, c, strings.Repeat("b", 1001))
	c.SetMaxMessage(1000)
	go p.send(fin|text, []byte(strings.Repeat("c", 1001)))
	if _, err := c.ReadMessage(); !errors.As(err, new(*LimitError)) {
		t.Errorf("%v", err)
	}
	p.wantFrame(closing, closeFrame(CloseTooBig, "message over the limit of 1000 bytes"))
}
