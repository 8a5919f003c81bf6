package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// A swamp is a network that may swallow all messages, without FIN or RST.
type swamp struct {
	dial func(context.Context) (transport.Conn, error)

	mu      sync.Mutex
	lifted  *sync.Cond
	silent  bool
	pings   int  // pings of the client
	noPings bool // the transport has no pings
}

func newSwamp(f *fake) *swamp {
	s := &swamp{dial: f.dial}
	s.lifted = sync.NewCond(&s.mu)
	return s
}

func (s *swamp) Dial(ctx context.Context) (transport.Conn, error) {
	conn, err := s.dial(ctx)
	return &swampConn{Conn: conn, s: s}, err
}

func (s *swamp) set(silent bool) {
	s.mu.Lock()
	s.silent = silent
	s.mu.Unlock()
	s.lifted.Broadcast()
}

type swampConn struct {
	transport.Conn
	s      *swamp
	pong   func([]byte)
	closed atomic.Bool
}

// pass waits until the network carries messages again or c is closed.
func (c *swampConn) pass() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	for c.s.silent && !c.closed.Load() {
		c.s.lifted.Wait()
	}
}

func (c *swampConn) WriteMessage(msg []byte, binary bool) error {
	c.pass()
	return c.Conn.WriteMessage(msg, binary)
}

func (c *swampConn) ReadMessage() ([]byte, error) {
	msg, err := c.Conn.ReadMessage()
	c.pass()
	if c.closed.Load() {
		return nil, errCut
	}
	return msg, err
}

func (c *swampConn) Close(code int, reason string) error {
	c.closed.Store(true)
	c.s.lifted.Broadcast()
	return c.Conn.Close(code, reason)
}

func (c *swampConn) SetPongHandler(h func([]byte)) { c.pong = h }

func (c *swampConn) Ping(payload []byte) error {
	if c.s.noPings {
		return transport.ErrNoPing
	}
	c.s.mu.Lock()
	c.s.pings++
	c.s.mu.Unlock()
	go func() {
		c.pass()
		c.pong(payload)
	}()
	return nil
}

// An account records the callbacks of a client with their times.
type account struct {
	begin time.Time
	mu    sync.Mutex
	lines []string
}

func (a *account) add(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines = append(a.lines, fmt.Sprintf("%v ", time.Since(a.begin))+fmt.Sprintf(format, args...))
}

// restart makes the times count from now.
func (a *account) restart() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin = time.Now()
}

func (a *account) options(o Options) *Options {
	a.restart()
	o.Silent = func(d time.Duration) { a.add("silent %v", d) }
	o.Lost = func(err error) { a.add("lost, dead: %t", errors.Is(err, transport.ErrDead)) }
	o.Retrying = func(r Retry) { a.add("attempt %d", r.Attempt) }
	o.Resumed = func() { a.add("resumed") }
	return &o
}

func (a *account) want(t *testing.T, lines ...string) {
	t.Helper()
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Equal(a.lines, lines) {
		t.Errorf("got %q\nwant %q", a.lines, lines)
	}
	a.lines = nil
}

// The client tells of a silent link, then cuts the link, and resumes on another. Nothing is lost. This holds
// for transports with pings and without.
func TestSilentLink(t *testing.T) {
	for _, noPings := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(programs)
			s := newSwamp(f)
			s.noPings = noPings
			var a account
			o := a.options(Options{Dialer: s.Dial, PingEvery: time.Second, DeadAfter: 4 * time.Second})
			c := connect(t, f, o)
			cmd := c.Command("echo")
			out := newGate()
			close(out.open)
			cmd.Stdout = out
			stdin, _ := cmd.StdinPipe()
			begin(t, cmd)
			time.Sleep(time.Hour)
			a.want(t) // an idle link is not silent

			// The link recovers in time.
			a.restart()
			time.Sleep(500 * time.Millisecond)
			s.set(true)
			time.Sleep(3 * time.Second)
			s.set(false)
			time.Sleep(time.Minute)
			a.want(t, "2s silent 1s", "3s silent 2s", "4s silent 0s")

			// The link does not recover: the client resumes on a new link as soon as there is one.
			a.restart()
			time.Sleep(250 * time.Millisecond)
			s.set(true)
			go io.WriteString(stdin, "typed in the silence")
			time.Sleep(5 * time.Second)
			s.set(false)
			time.Sleep(3 * time.Second)
			synctest.Wait()
			stdin.Close()
			wantExit(t, cmd.Wait(t.Context()), 3)
			if out.String() != "typed in the silence" {
				t.Errorf("echoed %q", out.String())
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			want := []string{"1.5s silent 1s", "2.5s silent 2s", "3.5s silent 3s", "4.5s lost, dead: true", "4.5s attempt 1"}
			if n := len(a.lines); n <= len(want) || !slices.Equal(a.lines[:len(want)], want) || !strings.HasSuffix(a.lines[n-1], "resumed") {
				t.Errorf("got %q\nwant %q, and then the session is resumed", a.lines, want)
			}
			if noPings != (s.pings == 0) {
				t.Errorf("%d pings", s.pings)
			}
		})
	}
}

// A negative PingEvery turns pings off, and a negative DeadAfter turns the cut off.
func TestSilentLinkIsKept(t *testing.T) {
	for _, o := range []Options{{PingEvery: -1}, {PingEvery: time.Second, DeadAfter: -1}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(programs)
			s := newSwamp(f)
			var a account
			o.Dialer = s.Dial
			connect(t, f, a.options(o))
			s.set(true)
			time.Sleep(time.Hour + time.Second/2)
			a.mu.Lock()
			defer a.mu.Unlock()
			if n := len(a.lines); (o.PingEvery < 0) != (n == 0) || n > 0 && !strings.HasPrefix(a.lines[n-1], "1h0m0s silent ") {
				t.Errorf("%d calls, the last %q", n, a.lines[max(0, n-1):])
			}
		})
	}
}

// A client that stops reading for a Writer that is behind does not take the server for dead.
func TestReaderIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]func(*fakeProcess){"flood": func(p *fakeProcess) {
			for range 2000 {
				p.print(protocol.Stdout, string(make([]byte, 5000)))
			}
		}})
		s := newSwamp(f)
		s.noPings = true // the reader gets the answers of the server, as it gets the pongs of a websocket
		var a account
		c := connect(t, f, a.options(Options{Dialer: s.Dial, PingEvery: time.Second, DeadAfter: 4 * time.Second}))
		cmd, g := c.Command("flood"), newGate()
		cmd.Stdout = g
		begin(t, cmd)
		time.Sleep(time.Minute)
		if !c.away.Load() {
			t.Error("the reader reads")
		}
		close(g.open)
		wantExit(t, cmd.Wait(t.Context()), 0)
		a.want(t)
	})
}

// Nor does a client whose HTTP body nobody reads.
func TestReaderIsAwayForABody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(programs)
		s := newSwamp(f)
		s.noPings = true
		var a account
		c := connect(t, f, a.options(Options{Dialer: s.Dial, PingEvery: time.Second, DeadAfter: 4 * time.Second}))
		body := c.expect(t.Context(), "r", 1)
		const pieces = 3
		for i := range pieces {
			f.tell(protocol.HTTPBodyDeltaNotification{RequestID: "r", Seq: uint64(i + 1), Delta: make([]byte, maxUnread+1), Done: i == pieces-1})
		}
		time.Sleep(time.Minute)
		if !c.away.Load() {
			t.Error("the reader reads")
		}
		if n, err := io.Copy(io.Discard, body); err != nil || n != pieces*(maxUnread+1) {
			t.Errorf("the body: %d bytes, %v", n, err)
		}
		body.Close()
		time.Sleep(time.Minute)
		a.want(t)
	})
}

// Without Pings, the client has one question at a time: while the server does not answer, no second question waits.
func TestOneQuestion(t *testing.T) {
	c := &Client{pending: make(map[protocol.ID]*call)}
	asked := func() int {
		c.askDue = true
		if err := c.askIfDue(link{Conn: &swampConn{s: &swamp{noPings: true}}}); err != nil {
			t.Error(err)
		}
		return len(c.outbound)
	}
	if first, second := asked(), asked(); first != 1 || second != 1 {
		t.Errorf("%d questions, and %d before an answer, want 1", first, second)
	}
	delete(c.pending, c.question.id) // the answer has come
	if n := asked(); n != 2 {
		t.Errorf("%d questions after an answer, want another one", n)
	}
}

// With Forever the client comes back after any time, and soon after the network is back.
func TestForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(programs)
		var down atomic.Bool
		var last atomic.Int64
		c := connect(t, f, &Options{ReconnectFor: Forever, Dialer: func(ctx context.Context) (transport.Conn, error) {
			if down.Load() {
				now := time.Now().UnixNano()
				if before := last.Swap(now); before != 0 && time.Duration(now-before) > attemptTimeout+maxDelay {
					t.Errorf("no attempt for %v", time.Duration(now-before))
				}
				<-ctx.Done() // the network drops every packet
				return nil, ctx.Err()
			}
			return f.dial(ctx)
		}})
		down.Store(true)
		f.cut()
		time.Sleep(24 * time.Hour)
		down.Store(false)
		begin := time.Now()
		wantExit(t, c.Command("hello").Run(t.Context()), 0)
		if d := time.Since(begin); d > attemptTimeout+maxDelay {
			t.Errorf("back after %v", d)
		}
	})
}

// After a cut most attempts are given up soon.
func TestHangingDialIsGivenUpSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(programs)
		var dials atomic.Int32
		c := connect(t, f, &Options{Dialer: func(ctx context.Context) (transport.Conn, error) {
			if dials.Add(1) == 2 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return f.dial(ctx)
		}})
		f.cut()
		begin := time.Now()
		wantExit(t, c.Command("hello").Run(t.Context()), 0)
		if d := time.Since(begin); d > shortTimeout+maxDelay {
			t.Errorf("back after %v", d)
		}
	})
}

// stuck returns what a client may meet on its way, each as a Dialer that fails the client from the
// second connection on.
func stuck(f *fake) map[string]func(context.Context) (transport.Conn, error) {
	var dials atomic.Int32
	deaf := func(ctx context.Context) (transport.Conn, error) {
		ours, _ := transport.Pipe("") // nobody reads at the other end
		return ours, nil
	}
	then := func(second func(context.Context) (transport.Conn, error)) func(context.Context) (transport.Conn, error) {
		return func(ctx context.Context) (transport.Conn, error) {
			if dials.Add(1) == 1 {
				return f.dial(ctx)
			}
			return second(ctx)
		}
	}
	return map[string]func(context.Context) (transport.Conn, error){
		"a dial that hangs": then(func(ctx context.Context) (transport.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}),
		"a dial that hears no ctx": then(func(ctx context.Context) (transport.Conn, error) {
			time.Sleep(time.Hour)
			return nil, errors.New("no answer")
		}),
		"a dial that hears no ctx and succeeds": then(func(ctx context.Context) (transport.Conn, error) {
			time.Sleep(time.Hour)
			return deaf(ctx)
		}),
		"a handshake without an answer": then(deaf),
	}
}

// Close returns at once, and so do calls whose ctx ends, whatever the state of the link.
func TestCloseNeverBlocks(t *testing.T) {
	for name := range stuck(newFake(programs)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(programs)
				c := connect(t, f, &Options{Dialer: stuck(f)[name], ReconnectFor: Forever})
				f.cut()
				time.Sleep(time.Second)
				wantCloses(t, c)
				time.Sleep(2 * time.Hour) // time for a dial that hears no ctx
			})
		})
	}
	t.Run("a peer that does not read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(programs)
			s := newSwamp(f)
			c := connect(t, f, &Options{Dialer: s.Dial, DeadAfter: -1})
			s.set(true) // WriteMessage blocks
			wantCloses(t, c)
		})
	})
}

func wantCloses(t *testing.T, c *Client) {
	t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := c.Command("wait")
	started := make(chan error, 1)
	go func() { started <- cmd.Start(ctx) }()
	synctest.Wait()
	cancel()
	if err := <-started; !errors.Is(err, context.Canceled) {
		t.Errorf("Start: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if err := c.CloseSession(ctx); !errors.Is(err, context.Canceled) { // calls Close
		t.Errorf("CloseSession: %v", err)
	}
	c.Close()
	if d := time.Since(begin); d > 0 {
		t.Errorf("the calls took %v", d)
	}
}
