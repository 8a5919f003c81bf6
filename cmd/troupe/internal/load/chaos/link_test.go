package chaos

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
)

// patience is for waits that end at once unless the code is broken.
const patience = time.Minute

// A heard collects the cuts reported by a Dialer.
type heard struct {
	mu   sync.Mutex
	cuts []Kind
}

func (h *heard) cut(k Kind) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cuts = append(h.cuts, k)
}

func (h *heard) want(t *testing.T, cuts ...Kind) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.cuts, cuts) {
		t.Errorf("OnCut heard %v, expected %v", h.cuts, cuts)
	}
}

// pair returns a link and the server's end of its connection.
func pair(t *testing.T, network string, c plan.Chaos) (d *Dialer, h *heard, near, far net.Conn) {
	t.Helper()
	addr := "127.0.0.1:0"
	if network == "unix" {
		addr = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h = &heard{}
	d = &Dialer{Chaos: c, Seed: 1, OnCut: h.cut}
	if near, err = d.NetDial(t.Context(), network, l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		near.Close()
		far.Close()
		d.Close()
	})
	for _, c := range []net.Conn{near, far} {
		c.SetDeadline(time.Now().Add(patience))
	}
	return d, h, near, far
}

func forLinks(t *testing.T, test func(t *testing.T, network string, c plan.Chaos)) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) { test(t, network, plan.Chaos{}) })
		t.Run(network+" with delay", func(t *testing.T) { test(t, network, plan.Chaos{Delay: plan.Duration(time.Millisecond)}) })
	}
}

// says writes to one end, and reads the same from the other.
func says(t *testing.T, from, to net.Conn, what string) {
	t.Helper()
	if _, err := from.Write([]byte(what)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(what))
	if _, err := io.ReadFull(to, got); err != nil || string(got) != what {
		t.Fatalf("read %q, %v", got, err)
	}
}

// A link passes all bytes in their order, both ways at once, and then the end.
func TestPasses(t *testing.T) {
	forLinks(t, func(t *testing.T, network string, c plan.Chaos) {
		_, h, near, far := pair(t, network, c)
		const size = 3 << 20
		block := make([]byte, size)
		for i := range block {
			block[i] = byte(i * i >> 8)
		}
		var both sync.WaitGroup
		for _, c := range []net.Conn{near, far} {
			both.Go(func() {
				if n, err := c.Write(block); n != size || err != nil {
					t.Errorf("%d bytes written, %v", n, err)
				}
				c.(interface{ CloseWrite() error }).CloseWrite()
			})
			both.Go(func() {
				got, err := io.ReadAll(c)
				if err != nil || !bytes.Equal(got, block) {
					t.Errorf("%d bytes read, %v", len(got), err)
				}
			})
		}
		both.Wait()
		h.want(t)
	})
}

func TestFIN(t *testing.T) {
	forLinks(t, func(t *testing.T, network string, c plan.Chaos) {
		d, h, near, far := pair(t, network, c)
		says(t, near, far, "hello")
		read := make(chan error, 1)
		go func() {
			_, err := near.Read(make([]byte, 1))
			read <- err
		}()
		time.Sleep(time.Millisecond) // so that most times the read is under way
		if !d.Do(Act{Kind: FIN}, 0) {
			t.Fatal("there was no connection")
		}
		if err := <-read; err != io.EOF {
			t.Errorf("the read under way: %v", err)
		}
		if _, err := near.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("a write: %v", err)
		}
		if d.Do(Act{Kind: RST}, 0) {
			t.Error("the connection was cut twice")
		}
		near.Close()
		if rest, err := io.ReadAll(far); err != nil || len(rest) > 0 {
			t.Errorf("the server reads %q, %v", rest, err)
		}
		// The server writes until it sees the end; its late bytes must cause no RST.
		for range 3 {
			if _, err := far.Write(make([]byte, 64<<10)); err != nil {
				t.Errorf("the server writes: %v", err)
			}
		}
		h.want(t, FIN)
	})
}

func TestRST(t *testing.T) {
	forLinks(t, func(t *testing.T, network string, c plan.Chaos) {
		d, h, near, far := pair(t, network, c)
		says(t, far, near, "hello")
		if !d.Do(Act{Kind: RST}, 0) {
			t.Fatal("there was no connection")
		}
		if d.Do(Act{Kind: FIN}, 0) {
			t.Error("the connection was cut twice")
		}
		for range 2 {
			if _, err := near.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("a read: %v", err)
			}
		}
		if _, err := near.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a write: %v", err)
		}
		_, err := far.Read(make([]byte, 1))
		if network == "tcp" && !errors.Is(err, syscall.ECONNRESET) || err == nil {
			t.Errorf("the server reads: %v", err)
		}
		h.want(t, RST)
	})
}

// A half-open link passes nothing in either direction, and neither side notices.
func TestHalfOpen(t *testing.T) {
	forLinks(t, func(t *testing.T, network string, c plan.Chaos) {
		d, h, near, far := pair(t, network, c)
		says(t, near, far, "hello")
		if !d.Do(Act{Kind: HalfOpen}, 0) || d.Do(Act{Kind: HalfOpen}, 0) {
			t.Fatal("the connection went silent never, or twice")
		}
		if n, err := near.Write([]byte("lost")); n != 4 || err != nil {
			t.Errorf("a write: %d, %v", n, err)
		}
		if _, err := far.Write([]byte("lost")); err != nil {
			t.Errorf("the server writes: %v", err)
		}
		soon := func(c net.Conn) error {
			c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			_, err := c.Read(make([]byte, 1))
			return err
		}
		for range 2 {
			if err := soon(near); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a read: %v", err)
			}
		}
		near.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
		if n, err := near.Write(make([]byte, 2*silentBytes)); n > silentBytes || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a large write: %d, %v", n, err)
		}
		if err := near.Close(); err != nil {
			t.Error(err)
		}
		if err := soon(near); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a read after Close: %v", err)
		}
		if err := soon(far); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the server reads: %v", err)
		}
		d.Close()
		far.SetReadDeadline(time.Now().Add(patience))
		if n, err := far.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after Close of the Dialer the server reads: %d, %v", n, err)
		}
		h.want(t, HalfOpen)
	})
}

// A write that is under way when its link becomes half-open is swallowed whole, however large. Later writes wait.
func TestHalfOpenDuringWrite(t *testing.T) {
	d, _, near, _ := pair(t, "tcp", plan.Chaos{})
	d.Do(Act{Kind: HalfOpen}, 0)
	if n, err := near.(*link).put(make([]byte, silentBytes+1)); n != silentBytes+1 || err != nil { // as Write does after it has looked at the state
		t.Errorf("the write under way: %d, %v", n, err)
	}
	near.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	if n, err := near.Write([]byte("lost")); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the next write: %d, %v", n, err)
	}
}

// Reads waiting on a half-open link end when the link is closed.
func TestHalfOpenClose(t *testing.T) {
	d, _, near, _ := pair(t, "tcp", plan.Chaos{})
	read := make(chan error, 1)
	go func() {
		_, err := near.Read(make([]byte, 1))
		read <- err
	}()
	time.Sleep(time.Millisecond) // so that most times the read is under way
	d.Do(Act{Kind: HalfOpen}, 0)
	near.Close()
	select {
	case err := <-read:
		if !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("the read still waits")
	}
}

// A stalled client reads nothing, loses nothing, and may still write.
func TestStall(t *testing.T) {
	forLinks(t, func(t *testing.T, network string, c plan.Chaos) {
		d, h, near, far := pair(t, network, c)
		says(t, near, far, "hello")
		const stall, lines = 50 * time.Millisecond, "lines that wait"
		type outcome struct {
			got string
			at  time.Time
			err error
		}
		read := make(chan outcome, 1)
		go func() { // one read is under way, most times, when the stall begins
			got := make([]byte, len(lines))
			_, err := io.ReadFull(near, got)
			read <- outcome{string(got), time.Now(), err}
		}()
		time.Sleep(time.Millisecond)
		begin := time.Now()
		if !d.Do(Act{Kind: Stall}, stall) {
			t.Fatal("there was no connection")
		}
		says(t, near, far, "I am alive")
		if _, err := far.Write([]byte(lines)); err != nil {
			t.Fatal(err)
		}
		o := <-read
		if o.err != nil || o.got != lines || o.at.Sub(begin) < stall {
			t.Errorf("%q came after %v, %v", o.got, o.at.Sub(begin), o.err)
		}
		h.want(t)
	})
}

// A frame is cut in its middle, with FIN or RST by the chance of the Act.
func TestMidFrame(t *testing.T) {
	forLinks(t, func(t *testing.T, network string, c plan.Chaos) {
		for arg := range uint64(20) {
			d, h, near, far := pair(t, network, c)
			a := Act{Kind: MidFrame, Arg: arg&1 | arg<<8}
			if !d.Do(a, 0) {
				t.Fatal("there was no connection")
			}
			if d.Do(a, 0) {
				t.Fatal("a connection was to be cut twice")
			}
			const frame = "a frame of bytes"
			near.Write([]byte(frame))
			got, err := io.ReadAll(far)
			if arg&1 == 1 && (err != nil || len(got) != 1+int(arg)%(len(frame)-1)) {
				t.Errorf("arg %d: the server reads %d of %d bytes, %v", arg, len(got), len(frame), err)
			}
			if string(got) != frame[:len(got)] || len(got) == len(frame) {
				t.Errorf("arg %d: the server reads %q", arg, got)
			}
			if reset := errors.Is(err, syscall.ECONNRESET); network == "tcp" && reset != (arg&1 == 0) {
				t.Errorf("arg %d: the server reads the end %v", arg, err)
			}
			h.want(t, MidFrame)
			near.Close()
			far.Close()
		}
	})
}

// Do says when there is no connection.
func TestNoConnection(t *testing.T) {
	d := &Dialer{}
	defer d.Close()
	for _, k := range []Kind{FIN, RST, HalfOpen, MidFrame, Handshake, Resume, Stall, Kill} {
		if d.Do(Act{Kind: k}, time.Hour) {
			t.Errorf("%s of no connection", k)
		}
	}
	if d.next != nil {
		t.Error("the next connection is cut, though there was no connection to cut")
	}
	d, h, near, _ := pair(t, "tcp", plan.Chaos{})
	near.Close()
	for _, k := range []Kind{FIN, RST, HalfOpen, MidFrame, Handshake, Resume, Stall, Kill} {
		if d.Do(Act{Kind: k}, time.Hour) {
			t.Errorf("%s of a closed connection", k)
		}
	}
	h.want(t)
}

func TestDialerClosed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := &Dialer{}
	d.Close()
	if _, err := d.NetDial(context.Background(), "tcp", l.Addr().String()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a connection of a closed Dialer: %v", err)
	}
}

// After Close no timer holds the links that the Dialer has cut.
func TestCloseStopsTimers(t *testing.T) {
	d, _, near, _ := pair(t, "tcp", plan.Chaos{})
	if !d.Do(Act{Kind: HalfOpen}, 0) {
		t.Fatal("there was no connection")
	}
	d.mu.Lock()
	timer := d.ends[near.(*link)]
	d.mu.Unlock()
	if timer == nil {
		t.Fatal("nothing ends the link")
	}
	d.Close()
	if timer.Stop() {
		t.Error("a timer still waits for the end of a link")
	}
}
