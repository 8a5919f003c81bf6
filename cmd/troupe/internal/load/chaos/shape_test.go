package chaos

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
)

// A fakeSocket is an end of a net.Pipe. Its deadlines use the fake time of a bubble. Its writes do not wait for the reader.
type fakeSocket struct {
	net.Conn
	sent chan []byte
}

func (s *fakeSocket) CloseWrite() error                     { return nil }
func (s *fakeSocket) SyscallConn() (syscall.RawConn, error) { return nil, errors.ErrUnsupported }
func (s *fakeSocket) Write(p []byte) (int, error) {
	s.sent <- bytes.Clone(p)
	return len(p), nil
}

// bubbled returns a link in a bubble, the bytes of its client as they reach the server, and the server's end.
func bubbled(t *testing.T, c plan.Chaos) (l *link, d *Dialer, sent chan []byte, far net.Conn) {
	near, far := net.Pipe()
	sent = make(chan []byte, 1000)
	d = &Dialer{Chaos: c, Seed: 1}
	l = newLink(d, &fakeSocket{near, sent}, 1)
	d.newest = l
	t.Cleanup(func() { l.Close(); d.Close(); far.Close() })
	return l, d, sent, far
}

// took returns how long f took in the time of a bubble.
func took(f func()) time.Duration {
	begin := time.Now()
	f()
	return time.Since(begin)
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, sent, far := bubbled(t, plan.Chaos{Delay: plan.Duration(30 * time.Millisecond)})
		if d := took(func() { l.Write([]byte("one")); l.Write([]byte("two")) }); d > 0 {
			t.Errorf("two writes took %v", d)
		}
		if d := took(func() { <-sent; <-sent }); d != 30*time.Millisecond {
			t.Errorf("they arrived after %v", d)
		}
		far.Write([]byte("answer"))
		got := make([]byte, 100)
		if d := took(func() {
			if n, err := l.Read(got); string(got[:n]) != "answer" || err != nil {
				t.Errorf("%q came, %v", got[:n], err)
			}
		}); d != 30*time.Millisecond {
			t.Errorf("the answer came after %v", d)
		}
		far.Close()
		if d := took(func() {
			if _, err := l.Read(got); err != io.EOF {
				t.Errorf("the end is %v", err)
			}
		}); d != 0 {
			t.Errorf("the end came after %v", d)
		}
	})
}

// 100 kB at 100 kB/s take a second, and a writer waits when the link's queue is full.
func TestSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, sent, far := bubbled(t, plan.Chaos{Speed: 100_000})
		begin := time.Now()
		writes := took(func() { l.Write(make([]byte, 100_000)) })
		bytes := 0
		for bytes < 100_000 {
			bytes += len(<-sent)
		}
		if d := time.Since(begin).Round(time.Millisecond); d != time.Second {
			t.Errorf("the bytes arrived after %v", d)
		}
		if queued := time.Second - writes; queued > 250*time.Millisecond {
			t.Errorf("the write took %v: the queue holds %v", writes, queued)
		}
		go far.Write(make([]byte, 50_000))
		if d := took(func() { io.ReadFull(l, make([]byte, 50_000)) }).Round(time.Millisecond); d != time.Second/2 {
			t.Errorf("the answer came after %v", d)
		}
	})
}

// A lost packet arrives 200 ms later, and delays the packets after it.
func TestLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, sent, _ := bubbled(t, plan.Chaos{Loss: 0.1})
		late := 0
		const writes = 500
		for i := range writes {
			l.Write([]byte{byte(i)})
			d := took(func() {
				if got := <-sent; !bytes.Equal(got, []byte{byte(i)}) {
					t.Fatalf("write %d arrived as %v", i, got)
				}
			})
			switch d {
			case 0:
			case lostFor:
				late++
			default:
				t.Errorf("a write arrived after %v", d)
			}
		}
		if late < writes/20 || late > writes/5 {
			t.Errorf("%d of %d writes were late, expected about a tenth", late, writes)
		}
		for i := range writes { // at once: the order stays
			l.Write([]byte{byte(i)})
		}
		for i := range writes {
			if got := <-sent; got[0] != byte(i) {
				t.Fatalf("write %d arrived as %v", i, got)
			}
		}
	})
}

// The bytes on their way are bounded in both directions, and deadlines end the wait.
func TestLaneBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, _, far := bubbled(t, plan.Chaos{Delay: plan.Duration(time.Hour)})
		l.SetDeadline(time.Now().Add(time.Second))
		var n int
		var err error
		if d := took(func() { n, err = l.Write(make([]byte, 4*maxLane)) }); d != time.Second || !errors.Is(err, os.ErrDeadlineExceeded) || n > maxLane {
			t.Errorf("a write to a full link took %d bytes, %v, and %v", n, d, err)
		}
		far.SetWriteDeadline(time.Now().Add(time.Second))
		if n, err := far.Write(make([]byte, 4*maxLane)); n > maxLane || err == nil {
			t.Errorf("the server's write took %d bytes, %v", n, err)
		}
		l.SetReadDeadline(time.Now().Add(time.Second))
		if d := took(func() { _, err = l.Read(make([]byte, 1)) }); d != time.Second || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a read took %v, %v", d, err)
		}
		time.AfterFunc(time.Second, func() { l.SetReadDeadline(past) })
		l.SetReadDeadline(time.Time{})
		if d := took(func() { _, err = l.Read(make([]byte, 1)) }); d != time.Second || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a read whose deadline changed took %v, %v", d, err)
		}
	})
}

// A stall ends after its time. A longer stall replaces a shorter stall. Deadlines hold during a stall.
func TestStallEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []plan.Chaos{{}, {Delay: 1}} {
			l, d, _, far := bubbled(t, c)
			d.Do(Act{Kind: Stall}, 3*time.Second)
			d.Do(Act{Kind: Stall}, time.Second)
			go far.Write([]byte("late"))
			l.SetReadDeadline(time.Now().Add(time.Second))
			if _, err := l.Read(make([]byte, 4)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("within the stall: %v", err)
			}
			l.SetReadDeadline(time.Time{})
			if d := took(func() { io.ReadFull(l, make([]byte, 4)) }).Round(time.Millisecond); d != 2*time.Second {
				t.Errorf("the bytes came after %v", d)
			}
		}
	})
}

// The socket of a half-open link closes after silentFor, and the client does not notice. The socket of a link cut with FIN closes after
// drainFor.
func TestEndsOfSockets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for kind, after := range map[Kind]time.Duration{HalfOpen: silentFor, FIN: drainFor} {
			l, d, _, far := bubbled(t, plan.Chaos{})
			if !d.Do(Act{Kind: kind}, 0) {
				t.Fatal("there was no connection")
			}
			if got := took(func() { far.Read(make([]byte, 1)) }); got != after {
				t.Errorf("%s: the socket ended after %v", kind, got)
			}
			synctest.Wait()
			if d.newest != nil || len(d.ends) > 0 {
				t.Errorf("%s: the dialer still knows the link", kind)
			}
			l.SetReadDeadline(time.Now().Add(time.Hour))
			if _, err := l.Read(make([]byte, 1)); kind == HalfOpen && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: the client reads %v", kind, err)
			}
		}
	})
}
