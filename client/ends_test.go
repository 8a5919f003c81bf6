package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testbuf"
	"github.com/b6f6fdd7/troupe/transport"
)

// Wait returns after Close and after CloseSession, although the caller does not read the pipes, whether the
// program runs or has ended.
func TestWaitAfterCloseWithUnreadPipe(t *testing.T) {
	for _, program := range []string{"wait", "hello"} {
		for name, end := range map[string]func(*Client) error{
			"Close":        (*Client).Close,
			"CloseSession": func(c *Client) error { return c.CloseSession(context.Background()) },
		} {
			t.Run(program+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := connect(t, newFake(programs), nil)
					cmd := c.Command(program)
					stdout, _ := cmd.StdoutPipe()
					stderr, _ := cmd.StderrPipe()
					begin(t, cmd)
					synctest.Wait() // the pipe is full
					if err := end(c); err != nil {
						t.Error(err)
					}
					waited := make(chan error, 1)
					go func() { waited <- cmd.Wait(context.Background()) }()
					synctest.Wait()
					select {
					case err := <-waited:
						if !errors.Is(err, ErrClosed) {
							t.Errorf("Wait: %v", err)
						}
					default:
						t.Error("Wait hangs")
					}
					for _, pipe := range []io.Reader{stdout, stderr} {
						if _, err := io.ReadAll(pipe); !errors.Is(err, ErrClosed) {
							t.Errorf("the pipe ends with %v, as if all output had been read", err)
						}
					}
				})
			})
		}
	}
}

// After CloseSession every method returns ErrClosed, in whatever order the server says that the session has
// ended. Lost is not called.
func TestOneErrorAfterCloseSession(t *testing.T) {
	for range 50 {
		for _, evicts := range []bool{false, true} {
			f := newFake(programs)
			f.evicts = evicts
			c := connect(t, f, &Options{Lost: func(err error) { t.Errorf("lost: %v", err) }})
			cmd := c.Command("wait")
			begin(t, cmd)
			waited := make(chan error, 1)
			go func() { waited <- cmd.Wait(t.Context()) }()
			if err := c.CloseSession(t.Context()); err != nil {
				t.Errorf("CloseSession: %v", err)
			}
			for what, err := range map[string]error{
				"Wait in progress": <-waited,
				"Wait":             cmd.Wait(t.Context()),
				"Kill":             cmd.Kill(t.Context()),
				"Run":              c.Command("hello").Run(t.Context()),
			} {
				if !errors.Is(err, ErrClosed) || errors.Is(err, ErrSessionGone) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if err := c.CloseSession(t.Context()); err != nil && !errors.Is(err, ErrClosed) {
				t.Errorf("CloseSession again: %v", err)
			}
		}
	}
}

// A program that is given up after its restarts ended with its last exit.
func TestGivenUp(t *testing.T) {
	for _, code := range []int{7, 0} {
		c := connect(t, newFake(map[string]func(*fakeProcess){"fails": func(p *fakeProcess) {
			p.print(protocol.Stdout, "out")
			p.exitCode, p.gaveUp = code, "restarted too often"
		}}), nil)
		out, err := c.Command("fails").Output(t.Context())
		var exit *ExitError
		if string(out) != "out" || !errors.As(err, &exit) || exit.Status.ExitCode != code || !errors.Is(err, ErrGivenUp) ||
			errors.Is(err, ErrProcessGone) || !strings.Contains(err.Error(), "restarted too often") {
			t.Errorf("%q, %v", out, err)
		}
	}
}

// leftUnread is a connection whose server has closed its side, with a message that the client has not read yet.
type leftUnread struct {
	transport.Conn
	last   []byte
	closed chan struct{} // a write has failed
	once   sync.Once
}

func (c *leftUnread) WriteMessage(msg []byte, binary bool) error {
	if !bytes.Contains(msg, []byte(protocol.MethodEnvironmentInfo)) {
		return c.Conn.WriteMessage(msg, binary)
	}
	c.once.Do(func() { close(c.closed) })
	return fmt.Errorf("write: %w", syscall.EPIPE)
}

func (c *leftUnread) ReadMessage() ([]byte, error) {
	type read struct {
		msg []byte
		err error
	}
	came := make(chan read, 1)
	go func() {
		msg, err := c.Conn.ReadMessage()
		came <- read{msg, err}
	}()
	select {
	case r := <-came:
		return r.msg, r.err
	case <-c.closed:
	}
	time.Sleep(lastWords / 10) // of the fake clock
	select {
	case r := <-came: // an earlier message; or the client has closed the connection
		return r.msg, r.err
	default:
		return c.last, nil
	}
}

// A client whose write fails because the server has closed the connection still reads why the server did so.
func TestReasonAfterFailedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last, err := wire.AppendNotification(nil, protocol.NotifySessionEvicted, protocol.SessionEvictedNotification{Reason: "the share was revoked"})
		if err != nil {
			t.Fatal(err)
		}
		f := newFake(programs)
		c := connect(t, f, &Options{Dialer: f.through(func(conn transport.Conn) transport.Conn {
			return &leftUnread{Conn: conn, last: last, closed: make(chan struct{})}
		}), Lost: func(err error) { t.Errorf("lost: %v", err) }})
		_, err = c.Environment(t.Context())
		if evicted, ok := errors.AsType[*EvictedError](err); !ok || evicted.Reason != "the share was revoked" {
			t.Errorf("the call ends with %v", err)
		}
	})
}

// If a gap covers the exit, nobody knows how the program ended: Wait must not say that all is well.
func TestExitInAGap(t *testing.T) {
	c := connect(t, newFake(map[string]func(*fakeProcess){"lost": func(p *fakeProcess) {
		p.print(protocol.Stdout, "out")
		p.exitCode, p.exitLost = 7, true
	}}), nil)
	for _, told := range []bool{false, true} {
		cmd := c.Command("lost")
		gaps := 0
		if told {
			cmd.OnGap = func(GapError) { gaps++ }
		}
		err := cmd.Run(t.Context())
		if !errors.Is(err, ErrProcessGone) || told != (gaps == 1) {
			t.Errorf("OnGap %v: %v after %d gaps", told, err, gaps)
		}
		if _, ok := errors.AsType[*GapError](err); ok == told {
			t.Errorf("OnGap %v: %v", told, err)
		}
	}
}

// closeWhileTheReaderWaits calls CloseSession of a client whose reader waits for somebody to take what came.
func closeWhileTheReaderWaits(t *testing.T, c *Client) {
	t.Helper()
	synctest.Wait()
	if !c.away.Load() {
		t.Fatal("the reader does not wait")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.CloseSession(ctx); err != nil {
		t.Errorf("CloseSession: %v", err)
	}
}

// CloseSession ends although the reader waits for a Writer that never returns, and its processes are given up.
func TestCloseSessionWhileTheReaderWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]func(*fakeProcess){"large": func(p *fakeProcess) {
			for range 100 {
				p.print(protocol.Stdout, strings.Repeat("x", 100<<10))
			}
		}})
		c := connect(t, f, nil)
		cmd := c.Command("large")
		stuck := newGate()
		cmd.Stdout = stuck
		begin(t, cmd)
		closeWhileTheReaderWaits(t, c)
		close(stuck.open)
	})
}

// CloseSession ends although the reader waits for somebody to read the body of a response.
func TestCloseSessionWithAnUnreadBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(programs)
		c := connect(t, f, nil)
		b := c.expect(t.Context(), "r", 1)
		defer b.Close()
		for i := range 10 {
			f.tell(protocol.HTTPBodyDeltaNotification{RequestID: "r", Seq: uint64(i + 1), Delta: make([]byte, 1<<20)})
		}
		closeWhileTheReaderWaits(t, c)
		if _, err := io.Copy(io.Discard, b); !errors.Is(err, ErrClosed) {
			t.Errorf("Read: %v", err)
		}
	})
}

// An ephemeral session ends with its connection, and Attach needs no other connection.
func TestAttachInAnEphemeralSession(t *testing.T) {
	f := newFake(programs)
	c := connect(t, f, &Options{Ephemeral: true})
	f.spawn("hello", "web")
	cmd := c.Attach("web", 0)
	begin(t, cmd)
	wantExit(t, cmd.Wait(t.Context()), 0)
	if n := len(f.hellos); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// If another process got the id of a process during a cut, the error says so, and does not speak of versions.
func TestResumeOfAReplacedProcess(t *testing.T) {
	f := newFake(programs)
	c := connect(t, f, nil)
	cmd := c.Command("wait")
	cmd.ID = "web"
	begin(t, cmd)
	f.await(func() bool { return f.procs["web"].acked == 1 })
	f.lock(func() {
		f.procs["web"].killed = true
		f.start(protocol.ProcessStartParams{ProcessID: "web", Argv: []string{"echo"}})
	})
	f.cut()
	if err := cmd.Wait(t.Context()); !errors.Is(err, ErrProcessGone) || strings.Contains(err.Error(), "matching versions") {
		t.Errorf("Wait: %v", err)
	}
}

// A Cmd of an instance goes on after a cut, and never in another process that got the id during a cut, however many events that has.
func TestResumeOfAnInstance(t *testing.T) {
	f := newFake(programs)
	connect(t, f, nil)
	web := func() (p *fakeProcess) {
		f.lock(func() {
			f.start(protocol.ProcessStartParams{ProcessID: "web", Argv: []string{"wait"}})
			p = f.procs["web"]
		})
		return p
	}
	first := web()
	c := connect(t, f, &Options{Session: "s1", Observe: true})
	var out testbuf.Buffer
	cmd := c.Process("web").Of(first.instance()).Attach(0)
	cmd.Stdout = &out
	begin(t, cmd)
	first.print(protocol.Stdout, "one ")
	for out.String() != "waitingone " {
		time.Sleep(time.Millisecond)
	}
	f.cut()
	first.print(protocol.Stdout, "two")
	for out.String() != "waitingone two" {
		time.Sleep(time.Millisecond)
	}
	f.lock(func() { first.killed = true })
	second := web()
	second.print(protocol.Stdout, "1")
	second.print(protocol.Stdout, "2")
	second.print(protocol.Stdout, "another")
	f.cut()
	if err := cmd.Wait(t.Context()); !errors.Is(err, ErrProcessGone) || out.String() != "waitingone two" {
		t.Errorf("Wait: %v after %q", err, out.String())
	}
	f.lock(func() {
		second.killed = true
		for _, hello := range f.hellos { // a server that sends output before the answer to process/subscribe would send that of the second
			if at, named := hello.ResumeFrom["web"]; named {
				t.Errorf("resumeFrom names the id of an instance, from %d", at)
			}
		}
	})
}

// After a gap that may cover a restart and the last exit, the exit of an earlier run is not the end of the process.
func TestExitOfTheLastRunInAGap(t *testing.T) {
	c := connect(t, newFake(map[string]func(*fakeProcess){"restarts": func(p *fakeProcess) {
		p.f.mu.Lock()
		p.append(protocol.ExitedNotification{ProcessID: p.params.ProcessID, Seq: 1, ExitStatus: protocol.ExitStatus{Run: 1}}, 0)
		p.f.mu.Unlock()
		p.exitCode, p.exitLost = 7, true
	}}), nil)
	cmd := c.Command("restarts")
	cmd.Restart = &protocol.Restart{Policy: protocol.RestartPermanent}
	cmd.OnGap = func(GapError) {}
	if err := cmd.Run(t.Context()); !errors.Is(err, ErrProcessGone) {
		t.Errorf("Run: %v", err)
	}
}

// A settling is a connection whose other side closes it after a while.
type settling struct {
	transport.Conn
	settled chan struct{}
}

func (c settling) Settled() <-chan struct{} { return c.settled }

// Close waits until the server has closed the connection, too, but not for a server that is gone.
func TestCloseSettles(t *testing.T) {
	for _, c := range []struct{ after, want time.Duration }{
		{100 * time.Millisecond, 100 * time.Millisecond},
		{time.Hour, transport.CloseWait},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(programs)
			settled := make(chan struct{})
			client := connect(t, f, &Options{Dialer: f.through(func(conn transport.Conn) transport.Conn { return settling{conn, settled} })})
			time.AfterFunc(c.after, func() { close(settled) })
			began := time.Now()
			client.Close()
			if took := time.Since(began); took != c.want {
				t.Errorf("the server closes after %v: Close took %v, want %v", c.after, took, c.want)
			}
		})
	}
}
