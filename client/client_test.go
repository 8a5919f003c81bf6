package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testleak"
	"github.com/b6f6fdd7/troupe/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testleak.Patient(m)) }

// programs are the programs of the fake server.
var programs = map[string]func(*fakeProcess){
	// echo copies stdin to stdout, writes the count to stderr, and exits with 3.
	"echo": func(p *fakeProcess) {
		buf := make([]byte, 1000)
		for {
			n, err := p.Read(buf)
			if err != nil {
				break
			}
			p.print(protocol.Stdout, string(buf[:n]))
			p.print(protocol.Stderr, strings.Repeat(".", n))
		}
		p.exitCode = 3
	},
	// flood writes 200 chunks of 5,000 bytes.
	"flood": func(p *fakeProcess) {
		for i := range 200 {
			p.print(protocol.Stdout, floodChunk(i))
		}
	},
	"hello": func(p *fakeProcess) {
		p.print(protocol.Stdout, "hello ")
		p.print(protocol.Stderr, "world ")
		p.print(protocol.Stdout, "again")
	},
	// gap and jump lose two events in the middle; jump does not report the loss.
	"gap": func(p *fakeProcess) {
		p.print(protocol.Stdout, "before")
		p.lose(2, true)
		p.print(protocol.Stdout, "after")
	},
	"gaps": func(p *fakeProcess) {
		p.print(protocol.Stdout, "before")
		p.lose(2, true)
		p.print(protocol.Stdout, "between")
		p.lose(1, true)
		p.print(protocol.Stdout, "after")
	},
	"jump": func(p *fakeProcess) {
		p.print(protocol.Stdout, "before")
		p.lose(2, false)
		p.print(protocol.Stdout, "after")
	},
	"evicted": func(p *fakeProcess) {
		p.print(protocol.Stdout, "before")
		p.evict("its actor failed too often")
	},
	// wait ends when the server kills it or its stdin ends.
	"wait": func(p *fakeProcess) {
		p.print(protocol.Stdout, "waiting")
		io.Copy(io.Discard, p)
	},
}

func floodChunk(i int) string { return strings.Repeat(string(rune('a'+i%26)), 5000) }

func flood() string {
	var b strings.Builder
	for i := range 200 {
		b.WriteString(floodChunk(i))
	}
	return b.String()
}

// connect returns a client of the fake server.
func connect(t *testing.T, f *fake, o *Options) *Client {
	t.Helper()
	var options Options
	if o != nil {
		options = *o
	}
	if options.Dialer == nil {
		options.Dialer = f.dial
	}
	return dialFake(t, f, "", &options)
}

// dialFake is connect for a fake server with a URL.
func dialFake(t *testing.T, f *fake, url string, o *Options) *Client {
	t.Helper()
	c, err := Dial(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		f.lock(func() {
			for _, p := range f.procs {
				p.killed = true
			}
		})
		f.programN.Wait()
	})
	return c
}

// begin starts a program.
func begin(t *testing.T, cmd *Cmd) {
	t.Helper()
	if err := cmd.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// wantExit fails unless err is an ExitError with code; for code 0, unless err is nil.
func wantExit(t *testing.T, err error, code int) {
	t.Helper()
	var exit *ExitError
	if code == 0 && err != nil || code != 0 && (!errors.As(err, &exit) || exit.Status.ExitCode != code) {
		t.Fatalf("ended with %v, want exit code %d", err, code)
	}
}

func TestOutput(t *testing.T) {
	c := connect(t, newFake(programs), nil)
	ctx := t.Context()
	out, err := c.Command("hello").Output(ctx)
	if string(out) != "hello again" || err != nil {
		t.Errorf("Output: %q, %v", out, err)
	}
	out, err = c.Command("hello").CombinedOutput(ctx)
	if string(out) != "hello world again" || err != nil {
		t.Errorf("CombinedOutput: %q, %v", out, err)
	}
	wantExit(t, c.Command("hello").Run(ctx), 0) // without readers
	var refused *protocol.Error
	if err = c.Command("nosuchbin").Run(ctx); !errors.As(err, &refused) || refused.Code != protocol.CodeInternal {
		t.Errorf("a program that is not there: %v", err)
	}
}

func TestStartParams(t *testing.T) {
	f := newFake(programs)
	c := connect(t, f, nil)
	cmd := c.Command("wait", "a", "b")
	cmd.Args[0] = "-wait"
	cmd.Dir = "/a b"
	cmd.Env = []string{"A=1", "B=x=y", "A=2"}
	cmd.TTY, cmd.Size = true, protocol.Size{Rows: 3, Cols: 5}
	cmd.ID = "id"
	cmd.Timeout, cmd.KillGrace = time.Nanosecond, 1500*time.Millisecond
	begin(t, cmd)
	plain := c.Command("wait")
	plain.Sandbox = protocol.WorkspaceSandbox()
	begin(t, plain)
	f.mu.Lock()
	got, other := f.procs["id"].params, f.procs[plain.ID].params
	f.mu.Unlock()
	if s, err := protocol.ParseSandbox(other.Sandbox); err != nil || !slices.Equal(s.WorkspaceRoots, []string{"/srv"}) || len(plain.Sandbox.WorkspaceRoots) != 0 {
		t.Errorf("sandbox %s, %v: want the workspace /srv", other.Sandbox, err)
	}
	if got.Sandbox != nil {
		t.Errorf("sandbox %s, want none", got.Sandbox)
	}
	if !slices.Equal(got.Argv, []string{"wait", "a", "b"}) || got.Arg0 == nil || *got.Arg0 != "-wait" {
		t.Errorf("argv %q arg0 %v", got.Argv, got.Arg0)
	}
	if got.Cwd != "file:///a%20b" || len(got.Env) != 2 || got.Env["A"] != "2" || got.Env["B"] != "x=y" || got.EnvPolicy != nil {
		t.Errorf("cwd %q env %v policy %v", got.Cwd, got.Env, got.EnvPolicy)
	}
	if !got.TTY || got.PipeStdin || *got.Size != cmd.Size || *got.TimeoutMs != 1 || *got.KillGraceMs != 1500 {
		t.Errorf("%+v", got)
	}
	if other.Cwd != "file:///srv" || other.EnvPolicy == nil || other.EnvPolicy.Inherit != "all" || other.Arg0 != nil || other.TimeoutMs != nil {
		t.Errorf("defaults: %+v", other)
	}

	for _, bad := range []func(*Cmd){
		func(cmd *Cmd) { cmd.Dir = "relative" },
		func(cmd *Cmd) { cmd.Env = []string{"A"} },
		func(cmd *Cmd) { cmd.Timeout = -1 },
		func(cmd *Cmd) { cmd.ID = "id" },
	} {
		cmd := c.Command("wait")
		bad(cmd)
		if err := cmd.Start(t.Context()); err == nil {
			t.Errorf("started: %+v", cmd)
		}
	}
}

// input is read in small pieces, so that many messages go both ways.
func input(n int) io.Reader {
	return iotest.HalfReader(io.LimitReader(&pattern{}, int64(n)))
}

type pattern struct{ n int }

func (p *pattern) Read(b []byte) (int, error) {
	b = b[:min(len(b), 512)]
	for i := range b {
		b[i] = byte('a' + (p.n>>8+p.n)%26)
		p.n++
	}
	return len(b), nil
}

// runEcho runs echo once and checks every byte.
func runEcho(t *testing.T, c *Client, n int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := c.Command("echo")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input(n), &out, &errs
	wantExit(t, cmd.Run(t.Context()), 3)
	want, _ := io.ReadAll(input(n))
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("stdout: %d bytes, want the %d of stdin", out.Len(), len(want))
	}
	if errs.String() != strings.Repeat(".", len(want)) {
		t.Errorf("stderr: %d bytes, want %d dots", errs.Len(), len(want))
	}
}

// A cut between any two messages, with or without the loss of the first, loses and doubles no byte of
// output or input.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	const size = 2000
	const handshake = 3 // during the handshake, a cut makes Dial fail
	total := handshake + 1
	for n := handshake + 1; n <= total; n++ {
		for _, lose := range []bool{false, true} {
			f := newFake(programs)
			k := &knife{dial: f.dial, at: func(i int) (bool, bool) { return i == n && !lose, i == n && lose }}
			c := connect(t, f, &Options{Dialer: k.Dial})
			runEcho(t, c, size)
			if len(f.procs) != 1 {
				t.Errorf("%d processes were started", len(f.procs))
			}
			c.Close()
			total = max(total, k.n)
			if t.Failed() {
				t.Fatalf("at message %d of %d, lost: %v", n, k.n, lose)
			}
		}
	}
	if total < 20 {
		t.Fatalf("only %d messages were cut at", total)
	}
}

// The client delivers an event once, even if the server sends the event twice.
func TestRepeats(t *testing.T) {
	f := newFake(programs)
	f.repeats = true
	c := connect(t, f, nil)
	cmd := c.Command("echo")
	out := newGate()
	close(out.open)
	var errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &errs
	stdin, _ := cmd.StdinPipe()
	begin(t, cmd)
	for _, s := range []string{"one", "two", "three"} {
		io.WriteString(stdin, s)
		f.await(func() bool { p := f.procs[cmd.ID]; return p.acked > 0 && p.acked == uint64(len(p.log)) })
		f.cut()
	}
	stdin.Close()
	wantExit(t, cmd.Wait(t.Context()), 3)
	if out.String() != "onetwothree" || errs.String() != "..........." {
		t.Errorf("%q and %q", out.String(), errs.String())
	}
}

// A gate is a Writer that blocks until it is opened.
type gate struct {
	bytes.Buffer
	entered chan struct{} // closed by the first Write
	open    chan struct{}
	once    sync.Once
	largest int // size of the largest Write, in bytes
}

func newGate() *gate { return &gate{entered: make(chan struct{}), open: make(chan struct{})} }

func (g *gate) Write(b []byte) (int, error) {
	g.once.Do(func() { close(g.entered) })
	<-g.open
	g.largest = max(g.largest, len(b))
	return g.Buffer.Write(b)
}

func TestSlowWriterStallsOnlyItself(t *testing.T) {
	t.Parallel()
	f := newFake(programs)
	f.window = 64 << 10
	c := connect(t, f, nil)
	slow, g := c.Command("flood"), newGate()
	slow.Stdout = g
	begin(t, slow)
	<-g.entered
	for range 3 {
		out, err := c.Command("flood").Output(t.Context())
		if err != nil || string(out) != flood() {
			t.Fatalf("beside a Writer that waits: %d bytes, %v", len(out), err)
		}
	}
	c.mu.Lock()
	if n := slow.process.queued; n > int(f.window)+5000 {
		t.Errorf("%d bytes are held, the window is %d", n, f.window)
	}
	c.mu.Unlock()
	f.lock(func() {
		if acked := f.procs[slow.ID].acked; acked != 0 {
			t.Errorf("seq %d was acknowledged before it was written", acked)
		}
	})
	close(g.open)
	wantExit(t, slow.Wait(t.Context()), 0)
	if g.String() != flood() || g.largest != 30000 { // a Write joined six chunks, because they were waiting
		t.Errorf("%d bytes, %d at once", g.Len(), g.largest)
	}
	// In the end the client acknowledges all output.
	p := f.procs[slow.ID]
	f.await(func() bool { return p.acked == uint64(len(p.log)) })
}

// The client makes up for a lost acknowledgement, although the process is idle.
func TestLostAck(t *testing.T) {
	f := newFake(programs)
	var lost atomic.Bool
	c := connect(t, f, &Options{Dialer: f.through(func(conn transport.Conn) transport.Conn {
		return hooked{Conn: conn, write: func(msg []byte) bool { // loses the first ack, and then the connection
			if !bytes.Contains(msg, []byte(protocol.MethodSessionAck)) || lost.Swap(true) {
				return false
			}
			conn.Close(1006, "")
			return true
		}}
	})})
	cmd := c.Command("wait")
	begin(t, cmd)
	f.await(func() bool { return f.procs[cmd.ID].acked == 1 })
	if !lost.Load() {
		t.Error("no ack was lost")
	}
}

// TestAckNeedsAName: the client acknowledges only to a server that says its name. Another server ends the connection after session/ack.
func TestAckNeedsAName(t *testing.T) {
	for _, name := range []string{"fake", ""} {
		f := newFake(programs)
		f.name = name
		c := connect(t, f, nil)
		cmd := c.Command("flood")
		if err := cmd.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.Command("hello").Run(t.Context()); err != nil { // after an acknowledgement of the flood
			t.Fatal(err)
		}
		f.lock(func() {
			if acked := f.acks > 0; acked != (name != "") {
				t.Errorf("server %q got %d acknowledgements", name, f.acks)
			}
		})
	}
}

// A flood is more output than may wait for a Writer.
const floodChunks, floodSize = 1000, 5000

// slowObserver returns an observer of a flood, with a Cmd that is not started and the gate of its output.
func slowObserver(t *testing.T, o Options) (*Client, *Cmd, *gate) {
	t.Helper()
	f := newFake(map[string]func(*fakeProcess){"flood": func(p *fakeProcess) {
		for i := range floodChunks {
			p.print(protocol.Stdout, fmt.Sprintf("%*d", floodSize, i))
		}
	}})
	cmd := connect(t, f, nil).Command("flood")
	begin(t, cmd)
	observer := connect(t, f, &o)
	return observer, observer.Attach(cmd.ID, 0), newGate()
}

// A slow observer loses output that is not the newest, gets a report of the loss, and holds up nobody.
func TestSlowObserver(t *testing.T) {
	observer, seen, g := slowObserver(t, Options{Session: "s1", Observe: true})
	var gaps []GapError
	seen.Stdout = g
	seen.OnGap = func(gap GapError) { gaps = append(gaps, gap) }
	begin(t, seen)
	p := seen.process
	<-g.entered
	for closed := false; !closed; time.Sleep(time.Millisecond) { // the reader reads on
		observer.mu.Lock()
		closed = p.closed
		if p.queued > p.maxQueued()+5000 {
			t.Errorf("%d bytes are held", p.queued)
		}
		observer.mu.Unlock()
	}
	close(g.open)
	wantExit(t, seen.Wait(t.Context()), 0)
	lost := 0
	for _, gap := range gaps {
		lost += int(gap.Bytes)
	}
	if len(gaps) != 1 || g.Len()+lost != floodChunks*floodSize {
		t.Errorf("%d bytes and %d gaps of %d, of %d", g.Len(), len(gaps), lost, floodChunks*floodSize)
	}
	if newest := fmt.Sprint(" ", floodChunks-1); !strings.HasSuffix(g.String(), newest) {
		t.Errorf("the output ends with %q, want %q", g.String()[g.Len()-10:], newest)
	}
}

// With HoldBack a slow observer loses nothing that the server holds, and the client holds little.
func TestHoldBack(t *testing.T) {
	observer, seen, g := slowObserver(t, Options{Session: "s1", Observe: true, HoldBack: true})
	seen.Stdout = g
	begin(t, seen)
	p := seen.process
	<-g.entered
	for over := false; !over; time.Sleep(time.Millisecond) { // until the client holds what it may
		observer.mu.Lock()
		over = p.closed || p.queued > p.maxQueued()
		if p.closed || p.queued > p.maxQueued()+floodSize {
			t.Errorf("%d bytes are held", p.queued)
		}
		observer.mu.Unlock()
	}
	close(g.open)
	wantExit(t, seen.Wait(t.Context()), 0)
	if g.Len() != floodChunks*floodSize {
		t.Errorf("%d bytes, want %d", g.Len(), floodChunks*floodSize)
	}
}

// A blocked stream does not hold up the other stream. Events after the first undelivered byte of the
// blocked stream stay unacknowledged.
func TestStreamsApart(t *testing.T) {
	for _, blocked := range []protocol.Stream{protocol.Stdout, protocol.Stderr} {
		c := connect(t, newFake(programs), nil)
		cmd, g := c.Command("echo"), newGate()
		cmd.Stdin = strings.NewReader("abc")
		want := map[protocol.Stream]string{protocol.Stdout: "abc", protocol.Stderr: "..."}
		var pipe io.Reader
		var other protocol.Stream
		var first uint64 // the events before the blocked stream has one
		if blocked == protocol.Stdout {
			cmd.Stdout, other = g, protocol.Stderr
			pipe, _ = cmd.StderrPipe()
		} else {
			cmd.Stderr, other, first = g, protocol.Stdout, 1
			pipe, _ = cmd.StdoutPipe()
		}
		begin(t, cmd)
		free := make([]byte, 3)
		if _, err := io.ReadFull(pipe, free); string(free) != want[other] || err != nil {
			t.Errorf("%s: %q, %v", other, free, err)
		}
		if cmd.Seq() > first {
			t.Errorf("seq %d is delivered, and %s has nothing yet", cmd.Seq(), blocked)
		}
		close(g.open)
		if _, err := io.Copy(io.Discard, pipe); err != nil {
			t.Error(err)
		}
		wantExit(t, cmd.Wait(t.Context()), 3)
		if g.String() != want[blocked] || cmd.Seq() != 4 {
			t.Errorf("%s %q, seq %d", blocked, g.String(), cmd.Seq())
		}
	}
}

func TestWriterFails(t *testing.T) {
	c := connect(t, newFake(programs), nil)
	cmd := c.Command("flood")
	stdout, _ := cmd.StdoutPipe()
	begin(t, cmd)
	stdout.Close()
	if err := cmd.Wait(t.Context()); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Wait: %v", err)
	}
}

// A program whose output nobody reads gets SIGPIPE, once and not before it writes. A terminal and a process
// of another client do not.
func TestSIGPIPE(t *testing.T) {
	for name, want := range map[string][]protocol.Signal{"pipe": {protocol.SignalPipe}, "silent": nil, "terminal": nil, "attached": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(map[string]func(*fakeProcess){"program": func(p *fakeProcess) {
					for range 3 {
						if name != "silent" {
							p.print(protocol.Stdout, "line")
						}
						time.Sleep(time.Second)
					}
					io.Copy(io.Discard, p)
				}})
				c := connect(t, f, nil)
				cmd := c.Command("program")
				cmd.TTY = name == "terminal"
				if name != "attached" {
					stdout, _ := cmd.StdoutPipe()
					stdout.Close()
				}
				begin(t, cmd)
				if name == "attached" {
					c.Close()
					c = connect(t, f, &Options{Session: "s1"})
					again := c.Attach(cmd.ID, 0)
					stdout, _ := again.StdoutPipe()
					stdout.Close()
					begin(t, again)
				}
				time.Sleep(time.Minute)
				f.lock(func() {
					if got := f.procs[cmd.ID].signals; !slices.Equal(got, want) {
						t.Errorf("signals %v, want %v", got, want)
					}
				})
			})
		})
	}
}

// SIGPIPE is for the run whose output the Writer refused, and not for the next run, which has written nothing.
func TestSIGPIPEIsForTheRunThatWrote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]func(*fakeProcess){"program": func(p *fakeProcess) {
			p.print(protocol.Stdout, "line")
			p.f.lock(func() {
				p.append(protocol.RestartedNotification{ProcessID: p.params.ProcessID, Seq: 2, Run: 2}, 0)
			})
			time.Sleep(time.Minute)
			if n := len(p.signals); n > 0 {
				t.Errorf("run 2 got %v before it wrote", p.signals)
			}
			p.print(protocol.Stdout, "line")
			io.Copy(io.Discard, p)
		}})
		cmd := connect(t, f, nil).Command("program")
		stdout, _ := cmd.StdoutPipe()
		begin(t, cmd)
		time.Sleep(time.Second)
		stdout.Close() // the Writer of run 1 fails now
		time.Sleep(2 * time.Minute)
		f.lock(func() {
			if got := f.procs[cmd.ID].signals; !slices.Equal(got, []protocol.Signal{protocol.SignalPipe}) {
				t.Errorf("signals %v, want one for run 2 when it has written", got)
			}
		})
	})
}

func TestStdinFails(t *testing.T) {
	c := connect(t, newFake(programs), nil)
	cmd := c.Command("wait")
	cmd.Stdin = io.MultiReader(strings.NewReader("some"), iotest.ErrReader(iotest.ErrTimeout))
	if err := cmd.Run(t.Context()); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("Wait: %v", err)
	}
}

func TestGap(t *testing.T) {
	c := connect(t, newFake(programs), nil)
	out, err := c.Command("gap").Output(t.Context())
	var gap *GapError
	if string(out) != "beforeafter" || !errors.As(err, &gap) || gap.FromSeq != 2 || gap.ToSeq != 3 || gap.Bytes != 7 {
		t.Errorf("Output: %q, %v", out, err)
	}

	cmd := c.Command("gap")
	var b strings.Builder
	cmd.Stdout = &b
	cmd.OnGap = func(g GapError) { fmt.Fprintf(&b, "[%d-%d %s]", g.FromSeq, g.ToSeq, g.Reason) }
	wantExit(t, cmd.Run(t.Context()), 0)
	if b.String() != "before[2-3 evicted]after" {
		t.Errorf("%q", b.String())
	}

	out, err = c.Command("gaps").Output(t.Context())
	if !errors.As(err, &gap) || *gap != (GapError{gap.ProcessID, 2, 5, 14, "evicted", 2}) || !strings.Contains(gap.Error(), "in 2 places between 2 and 5 (14 bytes in all)") {
		t.Errorf("Output: %q, %v", out, err)
	}

	out, err = c.Command("jump").Output(t.Context())
	if string(out) != "before" || err == nil || errors.As(err, new(*ExitError)) {
		t.Errorf("an unreported loss: %q, %v", out, err)
	}
}

func TestProcessEvicted(t *testing.T) {
	c := connect(t, newFake(programs), nil)
	out, err := c.Command("evicted").Output(t.Context())
	if string(out) != "before" || !errors.Is(err, ErrProcessGone) || !strings.Contains(err.Error(), "failed too often") {
		t.Errorf("%q, %v", out, err)
	}
}

// cut ends the connection as a broken network would.
func (f *fake) cut() { f.lock(func() { f.conn.Close(1006, "cut") }) }

func TestSessionGone(t *testing.T) {
	f := newFake(programs)
	c := connect(t, f, nil)
	cmd := c.Command("wait")
	stdout, _ := cmd.StdoutPipe()
	begin(t, cmd)
	f.lock(func() { f.gone = true })
	f.cut()
	out, err := io.ReadAll(stdout)
	if !errors.Is(err, ErrSessionGone) || len(out) > 0 && string(out) != "waiting" {
		t.Errorf("stdout: %q, %v: a cut stream was taken for a finished one", out, err)
	}
	if err := cmd.Wait(t.Context()); !errors.Is(err, ErrSessionGone) {
		t.Errorf("Wait: %v", err)
	}
	if err := c.Command("hello").Run(t.Context()); !errors.Is(err, ErrSessionGone) {
		t.Errorf("Run: %v", err)
	}
	if err := c.CloseSession(t.Context()); err != nil {
		t.Errorf("CloseSession: %v", err)
	}
}

func TestEvicted(t *testing.T) {
	f := newFake(programs)
	c := connect(t, f, nil)
	cmd := c.Command("wait")
	begin(t, cmd)
	f.tell(protocol.SessionEvictedNotification{Reason: "taken over"})
	err := cmd.Wait(t.Context())
	var evicted *EvictedError
	if !errors.As(err, &evicted) || evicted.Reason != "taken over" || !errors.Is(err, ErrSessionGone) {
		t.Errorf("Wait: %v", err)
	}
	c.Close()
	if len(f.hellos) != 1 {
		t.Errorf("it came back: %d connections", len(f.hellos))
	}
}

// The client reacts to the close code as PROTOCOL.md, "Close codes", says.
func TestCloseCodes(t *testing.T) {
	for code, gone := range map[int]bool{1001: false, 1008: false, 1009: false, 1011: false, 1013: false, 4002: false, 1002: true, 4001: true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(programs)
			c := connect(t, f, nil)
			cmd := c.Command("wait")
			begin(t, cmd)
			f.lock(func() { f.conn.Close(code, "because") })
			time.Sleep(time.Second)
			synctest.Wait()
			if again := len(f.hellos) - 1; gone != (again == 0) || !gone && again != 1 {
				t.Errorf("Close %d: came back %d times", code, again)
			}
			if !gone {
				if err := cmd.Kill(t.Context()); err != nil {
					t.Errorf("Close %d: Kill: %v", code, err)
				}
			}
			err := cmd.Wait(t.Context())
			if gone && (err == nil || !strings.Contains(err.Error(), "because")) || errors.Is(err, ErrSessionGone) != (code == 4001) {
				t.Errorf("Close %d: %v", code, err)
			}
			c.Close()
		})
	}
}

func TestProcessGone(t *testing.T) {
	f := newFake(programs)
	c := connect(t, f, nil)
	cmd := c.Command("wait")
	begin(t, cmd)
	f.lock(func() { f.procs[cmd.ID].killed = true; delete(f.procs, cmd.ID) })
	f.cut()
	if err := cmd.Wait(t.Context()); !errors.Is(err, ErrProcessGone) {
		t.Errorf("Wait: %v", err)
	}
	next := c.Command("hello") // the id is free again, and counts from 1
	next.ID = cmd.ID
	wantExit(t, next.Run(t.Context()), 0)
}

// The test runs in a bubble, so the waits cost nothing and can be counted.
func TestReconnect(t *testing.T) {
	run := func(name string, o Options, test func(t *testing.T, f *fake, c *Client, down *atomic.Bool, dials *atomic.Int32)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(programs)
				var down atomic.Bool
				var dials atomic.Int32
				o.Dialer = func(ctx context.Context) (transport.Conn, error) {
					dials.Add(1)
					if down.Load() {
						return nil, errors.New("no route to host")
					}
					return f.dial(ctx)
				}
				test(t, f, connect(t, f, &o), &down, &dials)
			})
		})
	}
	run("gives up", Options{}, func(t *testing.T, f *fake, c *Client, down *atomic.Bool, dials *atomic.Int32) {
		cmd := c.Command("wait")
		begin(t, cmd)
		synctest.Wait()
		down.Store(true)
		begin := time.Now()
		f.cut()
		err := cmd.Wait(t.Context())
		if took := time.Since(begin); took < 45*time.Second || took > 48*time.Second {
			t.Errorf("gave up after %v: %v", took, err)
		}
		if err == nil || !strings.Contains(err.Error(), "no route to host") {
			t.Errorf("Wait: %v", err)
		}
		if dials.Load() < 20 || dials.Load() > 60 {
			t.Errorf("%d attempts in 45 s", dials.Load())
		}
	})
	run("comes back", Options{}, func(t *testing.T, f *fake, c *Client, down *atomic.Bool, dials *atomic.Int32) {
		cmd := c.Command("wait")
		begin(t, cmd)
		synctest.Wait()
		down.Store(true)
		f.cut()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		down.Store(false)
		if err := cmd.Kill(t.Context()); err != nil { // Kill waits for the connection
			t.Error(err)
		}
		wantExit(t, cmd.Wait(t.Context()), 137)
		if again := f.hellos[len(f.hellos)-1]; *again.ResumeSessionID != "s1" || !again.Takeover {
			t.Errorf("resumed with %+v", again)
		}
	})
	run("never", Options{ReconnectFor: -1}, func(t *testing.T, f *fake, c *Client, down *atomic.Bool, dials *atomic.Int32) {
		cmd := c.Command("wait")
		begin(t, cmd)
		f.cut()
		if err := cmd.Wait(t.Context()); err == nil || dials.Load() != 1 {
			t.Errorf("Wait: %v after %d dials", err, dials.Load())
		}
	})
	run("attached elsewhere", Options{}, func(t *testing.T, f *fake, c *Client, down *atomic.Bool, dials *atomic.Int32) {
		f.lock(func() { f.busy = 3 })
		f.cut()
		out, err := c.Command("hello").Output(t.Context())
		if string(out) != "hello again" || err != nil || len(f.hellos) != 5 {
			t.Errorf("%q, %v, %d connections", out, err, len(f.hellos))
		}
	})
	// A client gives up on a server that cuts the connection after every request.
	run("no progress", Options{}, func(t *testing.T, f *fake, c *Client, down *atomic.Bool, dials *atomic.Int32) {
		f.lock(func() { f.poison = protocol.MethodProcessStart })
		err := c.Command("hello").Run(t.Context())
		if err == nil || dials.Load() > 100 {
			t.Errorf("%v after %d dials", err, dials.Load())
		}
	})
}

func TestStartCancelled(t *testing.T) {
	f := newFake(programs)
	ctx, cancel := context.WithCancel(t.Context())
	// The client hears only the handshake until ctx is done.
	hold := make(chan struct{})
	c := connect(t, f, &Options{Dialer: f.through(held(hold))})
	cmd := c.Command("wait")
	go func() {
		f.await(func() bool { return len(f.procs) == 1 })
		cancel()
	}()
	if err := cmd.Start(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Start: %v", err)
	}
	close(hold)
	p := f.procs[cmd.ID]
	f.await(func() bool { return p.ended && p.killed && p.acked == uint64(len(p.log)) })
}

// Run waits for the Writer. The test runs in a bubble, where a wait is visible.
func TestRunCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(programs)
		c := connect(t, f, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cmd := c.Command("wait")
		out := newGate()
		cmd.Stdout = out
		ran := make(chan error, 1)
		go func() { ran <- cmd.Run(ctx) }()
		<-out.entered
		cancel()
		p := f.procs[cmd.ID]
		f.await(func() bool { return p.ended && p.killed })
		synctest.Wait()
		select {
		case err := <-ran:
			t.Errorf("Run returned while its Writer was writing: %v", err)
		default:
		}
		close(out.open)
		if err := <-ran; !errors.Is(err, context.Canceled) || out.String() != "waiting" {
			t.Errorf("Run: %v with %q", err, out.String())
		}
		if !p.tree {
			t.Error("what the process had started was not killed with it")
		}
		wantExit(t, c.Command("hello").Run(t.Context()), 0) // the client is still usable
	})
}

func TestRequests(t *testing.T) {
	f := newFake(programs)
	c := connect(t, f, nil)
	cmd := c.Command("wait")
	ctx := t.Context()
	if err := cmd.Signal(ctx, protocol.SignalInterrupt); err == nil {
		t.Error("a signal before Start")
	}
	if err := cmd.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if _, ok := cmd.Status(); ok {
		t.Error("it has a status and runs")
	}
	if err := cmd.Signal(ctx, protocol.SignalInterrupt); err != nil {
		t.Error(err)
	}
	f.lock(func() {
		if got := f.procs[cmd.ID].signals; !slices.Equal(got, []protocol.Signal{protocol.SignalInterrupt}) {
			t.Errorf("signals %v", got)
		}
	})
	list, err := c.Processes(ctx)
	if err != nil || len(list) != 1 || list[0].ProcessID != cmd.ID {
		t.Errorf("Processes: %+v, %v", list, err)
	}
	if err := cmd.Resize(ctx, protocol.Size{Rows: 1, Cols: 1}); err == nil {
		t.Error("the fake server has no resize, and no error came")
	}
	expired, cancel := context.WithCancel(ctx)
	cancel()
	if err := cmd.Wait(expired); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v", err)
	}
	if err := cmd.Kill(ctx); err != nil {
		t.Error(err)
	}
	wantExit(t, cmd.Wait(ctx), 137)
	if st, ok := cmd.Status(); !ok || st.Signal != "SIGKILL" {
		t.Errorf("Status: %+v, %v", st, ok)
	}
}

// A request too large for the server fails alone, and costs no connection.
func TestRequestTooLong(t *testing.T) {
	f := newFake(programs)
	f.most = 4 << 10
	c := connect(t, f, &Options{Lost: func(err error) { t.Errorf("lost: %v", err) }})
	cmd := c.Command("wait", strings.Repeat("x", 5000))
	if err := cmd.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "process/start: the request has 5") || !strings.Contains(err.Error(), "at most 4096") {
		t.Errorf("Start: %v", err)
	}
	if _, err := c.Processes(t.Context()); err != nil {
		t.Errorf("Processes: %v", err)
	}
}

func TestAttach(t *testing.T) {
	f := newFake(programs)
	first := connect(t, f, nil)
	cmd := first.Command("echo")
	out := newGate()
	close(out.open)
	cmd.Stdout = out
	stdin, _ := cmd.StdinPipe()
	begin(t, cmd)
	io.WriteString(stdin, "one")
	f.await(func() bool { return len(f.procs[cmd.ID].log) == 2 })
	<-out.entered
	first.Close()
	seq := cmd.Seq()

	second := connect(t, f, &Options{Session: first.SessionID()})
	if err := second.Attach("other", 0).Start(t.Context()); !errors.Is(err, ErrProcessGone) {
		t.Errorf("of a process that is not there: %v", err)
	}
	for _, after := range []uint64{0, 2} {
		again := second.Attach(cmd.ID, after)
		var got strings.Builder
		again.Stdout = &got
		again.Stdin = strings.NewReader("two")
		want := "onetwo"
		if after == 2 { // by now the process has ended
			want, again.Stdin = "two", nil
		}
		begin(t, again)
		wantExit(t, again.Wait(t.Context()), 3)
		if got.String() != want {
			t.Errorf("after %d (first client: %d): %q, want %q", after, seq, got.String(), want)
		}
	}
	// The client learns of the end although there is nothing left to replay.
	wantExit(t, func() error {
		cmd := second.Attach(cmd.ID, 6)
		if err := cmd.Start(t.Context()); err != nil {
			return err
		}
		return cmd.Wait(t.Context())
	}(), 3)
}

// Attach ignores what the connection before the resume still brings: it has begun in the middle of the stream.
func TestAttachDuringOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(programs)
		first := connect(t, f, nil)
		program := first.Command("echo")
		stdin, _ := program.StdinPipe()
		begin(t, program)
		first.Close()

		second := connect(t, f, &Options{Session: first.SessionID(), Dialer: f.through(func(conn transport.Conn) transport.Conn {
			return hooked{Conn: conn, close: func() { time.Sleep(time.Second) }} // and is read meanwhile
		})})
		write := func(text string) {
			if err := second.Process(program.ID).Write(t.Context(), []byte(text)); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		write("one, ")
		again := second.Attach(program.ID, 0)
		var got strings.Builder
		again.Stdout = &got
		begin(t, again)
		write("two, ")
		time.Sleep(2 * time.Second)
		write("three")
		stdin.Close()
		if err := second.Process(program.ID).CloseStdin(t.Context()); err != nil {
			t.Error(err)
		}
		wantExit(t, again.Wait(t.Context()), 3)
		if got.String() != "one, two, three" {
			t.Errorf("%q", got.String())
		}
	})
}

func TestDialErrors(t *testing.T) {
	f := newFake(programs)
	dial := func(o Options) error {
		o.Dialer = f.dial
		c, err := Dial(t.Context(), "", &o)
		if err == nil {
			c.Close()
		}
		return err
	}
	if err := dial(Options{Session: "other"}); !errors.Is(err, ErrSessionGone) {
		t.Errorf("unknown session: %v", err)
	}
	f.lock(func() { f.busy = 1 })
	if err := dial(Options{Session: "s1"}); !errors.Is(err, ErrAttached) || !strings.Contains(err.Error(), "Takeover") || f.busy > 0 {
		t.Errorf("attached elsewhere: %v", err)
	}
	f.lock(func() { f.busy = 3 })
	if err := dial(Options{Session: "s1", WaitForOwner: Forever}); err != nil {
		t.Errorf("attached elsewhere for a moment: %v", err)
	}
	f.lock(func() { f.busy = 1000 })
	if err := dial(Options{Session: "s1", WaitForOwner: time.Second}); !errors.Is(err, ErrAttached) || f.busy > 998 {
		t.Errorf("attached elsewhere for long: %v", err)
	}
	f.lock(func() { f.busy = 0 })
	if err := dial(Options{Observe: true}); err == nil {
		t.Error("observes no session")
	}
	ttl := 1500 * time.Millisecond
	if err := dial(Options{DetachedTTL: ttl, Name: "me"}); err != nil {
		t.Error(err)
	}
	if got := f.hellos[len(f.hellos)-1]; got.ClientName != "me" || *got.Session.DetachedTTLMs != 1500 || !got.Capabilities.Ack || !got.Capabilities.Gap {
		t.Errorf("%+v", got)
	}
}

// Dial outlasts servers that die before they answer, and gives up in the end. A server that says why it closes is not asked again.
func TestServerDiesDuringDial(t *testing.T) {
	for name, c := range map[string]struct {
		cuts, dials int
		close       int // CloseNormal: as without a Close frame
		status      int // of a proxy, which opens no connection; 0: there is none
		ok          bool
	}{
		"twice":          {cuts: 2, dials: 3, close: transport.CloseNormal, ok: true},
		"for good":       {cuts: 100, dials: 1 + firstCuts, close: transport.CloseNormal},
		"with words":     {cuts: 100, dials: 1, close: transport.CloseGoingAway},
		"behind a proxy": {cuts: 2, dials: 3, status: 502, ok: true},
		"a full proxy":   {cuts: 100, dials: 1, status: 503},
	} {
		t.Run(name, func(t *testing.T) {
			f, dials := newFake(programs), 0
			o := Options{ReconnectFor: -1}
			o.Dialer = func(ctx context.Context) (transport.Conn, error) {
				if dials++; dials > c.cuts {
					return f.dial(ctx)
				}
				if c.status != 0 {
					return nil, &transport.RefusedError{Status: c.status}
				}
				a, b := transport.Pipe("")
				go func() {
					b.ReadMessage()
					b.Close(c.close, "")
				}()
				return a, nil
			}
			cl, err := Dial(t.Context(), "", &o)
			if err == nil {
				cl.Close()
			}
			if (err == nil) != c.ok || dials != c.dials {
				t.Errorf("%d dials, %v; want %d, success %v", dials, err, c.dials, c.ok)
			}
		})
	}
}

func TestClose(t *testing.T) {
	f := newFake(programs)
	c := connect(t, f, nil)
	cmd := c.Command("wait")
	stdin, _ := cmd.StdinPipe()
	begin(t, cmd)
	c.Close()
	c.Close()
	if err := cmd.Wait(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Wait: %v", err)
	}
	if _, err := stdin.Write([]byte("x")); !errors.Is(err, ErrClosed) {
		t.Errorf("Write: %v", err)
	}
	if err := cmd.Kill(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Kill: %v", err)
	}
}

func TestCloseSession(t *testing.T) {
	f := newFake(programs)
	c := connect(t, f, nil)
	if err := c.Command("wait").Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseSession(t.Context()); err != nil || !f.closed {
		t.Errorf("CloseSession: %v", err)
	}
}
