package client

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// web starts the program echo with the id web, and leaves.
func web(t *testing.T, f *fake) *fakeProcess {
	t.Helper()
	c := connect(t, f, nil)
	cmd := c.Command("echo")
	cmd.ID, cmd.StdinOpen = "web", true
	begin(t, cmd)
	c.Close()
	return f.procs["web"]
}

// While Start waits for the answer, another process with the same id may write. A refused Start must neither take its
// output nor acknowledge it.
func TestStartOfATakenID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(programs)
		old := web(t, f)
		c := connect(t, f, &Options{Session: "s1", Dialer: f.through(func(conn transport.Conn) transport.Conn {
			return hooked{Conn: conn, write: func(msg []byte) bool {
				if bytes.Contains(msg, []byte(protocol.MethodProcessStart)) {
					time.Sleep(time.Second) // and is read meanwhile
				}
				return false
			}}
		})})
		cmd := c.Command("hello")
		cmd.ID = "web"
		var got strings.Builder
		cmd.Stdout = &got
		started := make(chan error, 1)
		go func() { started <- cmd.Start(t.Context()) }()
		synctest.Wait()
		f.lock(func() { old.stdin.WriteString("one, ") })
		if err := <-started; !errors.Is(err, fs.ErrExist) {
			t.Errorf("Start: %v", err)
		}
		time.Sleep(time.Second)
		if got.Len() > 0 {
			t.Errorf("the refused Cmd got %q of another process", got.String())
		}
		if f.lock(func() {}); old.acked > 0 {
			t.Errorf("the client acknowledged output of another process up to %d", old.acked)
		}
		f.lock(func() { old.stdin.WriteString("two"); old.eof = true })
		again := c.Attach("web", 0)
		var all strings.Builder
		again.Stdout = &all
		begin(t, again)
		wantExit(t, again.Wait(t.Context()), 3)
		if all.String() != "one, two" {
			t.Errorf("%q", all.String())
		}
	})
}

// When the context of Start ends before a refusal comes, the process that has the id lives on.
func TestStartOfATakenIDCancelled(t *testing.T) {
	for _, group := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(programs)
			old := web(t, f)
			hold := make(chan struct{})
			c := connect(t, f, &Options{Session: "s1", Dialer: f.through(held(hold))})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			cmd := c.Command("hello")
			cmd.ID = "web"
			start := cmd.Start
			if group {
				start = func(ctx context.Context) error { return c.StartGroup(ctx, &Group{}, cmd) }
			}
			if err := start(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Start: %v", err)
			}
			close(hold)
			time.Sleep(time.Second)
			if f.lock(func() {}); old.killed {
				t.Error("the client killed a process that it has not started")
			}
			cmd = c.Command("hello")
			cmd.ID = "other"
			wantExit(t, cmd.Run(t.Context()), 0)
		})
	}
}

// An Attach after an event that the process does not have fails alone: in a resume, the server would end the connection for good.
func TestAttachBeyondTheEnd(t *testing.T) {
	f := newFake(programs)
	web(t, f)
	c := connect(t, f, &Options{Session: "s1"})
	if err := c.Attach("web", 1).Start(t.Context()); err == nil || !strings.Contains(err.Error(), "the last is 0") {
		t.Errorf("Attach: %v", err)
	}
	wantExit(t, c.Command("hello").Run(t.Context()), 0)
}

// A Writer of a process that has ended may take long. Its progress must not acknowledge events of a later process that has
// the id.
func TestAckOfAnEarlierProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(programs)
		c := connect(t, f, nil)
		first := c.Command("hello")
		first.ID = "web"
		slow := newGate()
		first.Stdout = slow
		begin(t, first)
		<-slow.entered
		synctest.Wait()
		f.lock(func() { delete(f.procs, "web") }) // the server forgets a process that its owner does not read
		second := c.Command("wait")
		second.ID = "web"
		stuck := newGate()
		second.Stdout = stuck
		begin(t, second)
		<-stuck.entered
		close(slow.open)
		wantExit(t, first.Wait(t.Context()), 0)
		time.Sleep(time.Second)
		if f.lock(func() {}); f.procs["web"].acked > 0 {
			t.Errorf("the client acknowledged up to %d, and the Writer has taken nothing", f.procs["web"].acked)
		}
		close(stuck.open)
		if err := second.Kill(t.Context()); err != nil {
			t.Error(err)
		}
		wantExit(t, second.Wait(t.Context()), 137)
	})
}

// If a cut loses the last acknowledgement of a process that has closed, the client sends it again: the server keeps a closed
// process until its owner has it.
func TestLostAckOfAClosedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(programs)
		var lost atomic.Bool
		lost.Store(true)
		c := connect(t, f, &Options{Dialer: f.through(func(conn transport.Conn) transport.Conn {
			return hooked{Conn: conn, write: func(msg []byte) bool { return lost.Load() && bytes.Contains(msg, []byte(protocol.MethodSessionAck)) }}
		})})
		cmd := c.Command("hello")
		if err := cmd.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for range 2 { // the second cut finds the acknowledgement lost once more
			f.cut()
			time.Sleep(time.Second)
		}
		lost.Store(false)
		f.cut()
		time.Sleep(time.Second)
		p := f.procs[cmd.ID]
		if f.lock(func() {}); p.acked != uint64(len(p.log)) {
			t.Errorf("acknowledged up to %d of %d", p.acked, len(p.log))
		}
		if _, err := c.Processes(t.Context()); err != nil { // its answer shows that the server has the acknowledgement
			t.Error(err)
		}
		if n := len(c.lastAcks); n > 0 {
			t.Errorf("%d acknowledgements are kept", n)
		}
	})
}

// A cut before the answer to an Attach leaves the seq out of the resume: the process may not have it.
func TestCutDuringAttach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(programs)
		web(t, f)
		c := connect(t, f, &Options{Session: "s1"})
		f.lock(func() { f.poison = protocol.MethodProcessSubscribe })
		attached := make(chan error, 1)
		go func() { attached <- c.Attach("web", 5).Start(t.Context()) }()
		time.Sleep(time.Second)
		f.lock(func() { f.poison = "" })
		if err := <-attached; err == nil || !strings.Contains(err.Error(), "the last is 0") {
			t.Errorf("Attach: %v", err)
		}
		wantExit(t, c.Command("hello").Run(t.Context()), 0)
	})
}

// A start that the client has not sent when the context of Start ends is not sent.
func TestUnsentStartIsTakenBack(t *testing.T) {
	f := newFake(programs)
	stopped, open, wrote := make(chan struct{}), make(chan struct{}), new(bytes.Buffer)
	c := connect(t, f, &Options{Dialer: f.through(records(wrote, func(msg []byte) {
		if bytes.Contains(msg, []byte(protocol.MethodSessionList)) {
			close(stopped)
			<-open
		}
	}))})
	listed := make(chan error, 1)
	go func() {
		_, err := c.Sessions(t.Context(), "")
		listed <- err
	}()
	<-stopped
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Command("hello").Start(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Start: %v", err)
	}
	close(open)
	<-listed
	wantExit(t, c.Command("hello").Run(t.Context()), 0) // whatever was to be sent before was sent
	if n := strings.Count(wrote.String(), protocol.MethodProcessStart); n != 1 {
		t.Errorf("%d starts are sent, want 1", n)
	}
}

// An answer counts only for a call that the client has sent.
func TestAnswerOfAnUnsentCall(t *testing.T) {
	c := connect(t, newFake(programs), nil)
	answered := 0
	k := &call{method: protocol.MethodSessionList, done: func() { answered++ }}
	c.mu.Lock()
	c.nextID++
	k.n, k.id = c.nextID, protocol.IntID(c.nextID)
	c.pending[k.id] = k // waits for its turn
	c.mu.Unlock()
	answer := protocol.Message{Kind: protocol.Response, ID: k.id}
	if c.answered(wire, answer); answered != 0 {
		t.Error("a call is answered before it is sent")
	}
	k.sent = true
	if c.answered(wire, answer); answered != 1 {
		t.Errorf("a call that was sent has %d answers", answered)
	}
}

// After a cut, the client sends a call without an answer again, but none that concerned the old connection alone.
func TestCallsOfALostConnection(t *testing.T) {
	f := newFake(programs)
	wrote := new(bytes.Buffer)
	c := connect(t, f, &Options{Dialer: f.through(records(wrote, func([]byte) {}))})
	answered := make(chan *call, 2)
	c.mu.Lock()
	for _, once := range []bool{true, false} {
		k := &call{method: protocol.MethodSessionList, params: protocol.Empty{}, once: once, sent: true}
		k.done = func() { answered <- k }
		c.nextID++
		k.n, k.id = c.nextID, protocol.IntID(c.nextID)
		c.pending[k.id] = k
	}
	c.mu.Unlock()
	f.lock(func() { f.conn.Close(1006, "cut by the test") })
	if k := <-answered; k.once {
		t.Error("a call of the old connection is answered on the new")
	}
	if n := strings.Count(wrote.String(), protocol.MethodSessionList); n != 1 {
		t.Errorf("%d calls are sent again, want 1", n)
	}
}
