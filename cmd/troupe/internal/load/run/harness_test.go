//go:build unix

package run

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/figures"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/program"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testleak"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
	"github.com/b6f6fdd7/troupe/transport"
	"go.uber.org/goleak"
)

// patience is for waits that end at once unless the code is broken.
const patience = time.Minute

// TestMain makes the test binary run as the program under load, too, and answer "version" as troupe does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == program.Command {
		os.Exit(program.Main(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "version" {
		fmt.Println("troupe v1.2.3")
		return
	}
	goleak.VerifyTestMain(testleak.Patient(m))
}

// serve runs a server in this process, and returns its URL. scheme is ws or unix+frames.
func serve(t *testing.T, scheme string) string { return serveWith(t, scheme, actors.Config{}) }

func serveWith(t *testing.T, scheme string, config actors.Config) string {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
		actor.WithDeadLetterThrottleInterval(10*time.Millisecond))
	config.Log = quiet
	troupe, err := actors.Start(system, config)
	if err != nil {
		t.Fatal(err)
	}
	listen, o := "ws://127.0.0.1:0", &transport.ServerOptions{}
	if scheme == "unix+frames" {
		dir := testroot.Dir(t, "") // short enough for a socket
		listen, o.Framed = "unix://"+dir+"/s", true
	}
	server, err := transport.Listen(listen, o)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(func(c transport.Conn) { troupe.Accept(c, c.About()) }) })
	t.Cleanup(func() {
		server.Close()
		serving.Wait()
		if err := troupe.Kill(); err != nil {
			t.Error(err)
		}
		system.Shutdown()
	})
	if scheme == "unix+frames" {
		return "unix+frames://" + listen[len("unix://"):]
	}
	return server.URL()
}

// A fakeServer says what a test wants. Its answers to initialize name the session "fake", and its other answers are empty.
type fakeServer struct {
	url      string
	conns    chan *fakeConn // with a session, in their order
	refuse   atomic.Bool    // initialize is refused
	drop     atomic.Bool    // the connection ends instead of an answer to initialize
	dropped  atomic.Int64   // how many connections drop has ended
	nameless atomic.Bool    // the next answer to initialize names no session
	mute     sync.Map       // methods without an answer
}

// A fakeConn is the server's side of a connection.
type fakeConn struct {
	transport.Conn
	mu sync.Mutex // held while writing
}

// send sends a message of JSON.
func (c *fakeConn) send(b []byte, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		err = c.WriteMessage(b, false)
	}
	if err == nil {
		err = c.Flush()
	}
	return err
}

// serveFake runs a fakeServer. Its clients use JSON.
func serveFake(t *testing.T) *fakeServer {
	t.Helper()
	listener, err := transport.Listen("ws://127.0.0.1:0", &transport.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeServer{url: listener.URL(), conns: make(chan *fakeConn, 100)}
	var serving sync.WaitGroup
	serving.Go(func() { listener.Serve(func(c transport.Conn) { f.serve(&fakeConn{Conn: c}) }) })
	t.Cleanup(func() {
		listener.Close()
		serving.Wait()
	})
	return f
}

func (f *fakeServer) serve(c *fakeConn) {
	defer c.Close(transport.CloseNormal, "")
	for {
		frame, err := c.ReadMessage()
		if err != nil {
			return
		}
		m, err := protocol.JSON.Decode(frame)
		switch {
		case err != nil:
			return
		case m.Kind != protocol.Request:
			continue
		case f.isMute(m.Method):
			continue
		case m.Method != protocol.MethodInitialize:
			err = c.send(protocol.JSON.AppendResponse(nil, m.ID, protocol.Empty{}))
		case f.drop.Load():
			f.dropped.Add(1)
			return
		case f.nameless.CompareAndSwap(true, false):
			err = c.send(protocol.JSON.AppendResponse(nil, m.ID, protocol.InitializeResult{}))
		case f.refuse.Load():
			err = c.send(protocol.JSON.AppendFailure(nil, m.ID, &protocol.Error{Code: protocol.CodeInternal, Message: "not now"}))
		default:
			err = c.send(protocol.JSON.AppendResponse(nil, m.ID, protocol.InitializeResult{SessionID: "fake", Server: protocol.ServerInfo{Name: "troupe"}}))
			f.conns <- c
		}
		if err != nil {
			return
		}
	}
}

func (f *fakeServer) isMute(method string) bool {
	_, mute := f.mute.Load(method)
	return mute
}

// next returns the next connection with a session.
func (f *fakeServer) next(t *testing.T) *fakeConn {
	t.Helper()
	select {
	case c := <-f.conns:
		return c
	case <-time.After(patience):
		t.Fatal("no session in time")
		return nil
	}
}

// openFake opens a session on a fakeServer.
func openFake(t *testing.T, f *fakeServer) (*engine, *session, *fakeConn) {
	t.Helper()
	p := testPlan(f.url, time.Second, plan.Part{Profile: plan.Idle, Weight: 1})
	p.Encoding = "json"
	e := newTestEngine(t, p)
	return e, openSession(t, e, f.url), f.next(t)
}

// testPlan returns a plan with a single phase.
func testPlan(url string, d time.Duration, parts ...plan.Part) plan.Plan {
	return plan.Plan{
		Servers: []string{url}, Encoding: "msgpack", Sessions: 2, Processes: 2, Seed: 7,
		Phases: []plan.Phase{{Duration: plan.Duration(d), Mix: parts}},
	}
}

// newTestEngine returns an engine without sessions. The test waits for the sessions of the engine.
func newTestEngine(t *testing.T, p plan.Plan) *engine {
	t.Helper()
	rec, err := figures.New(p, "")
	if err != nil {
		t.Fatal(err)
	}
	e, err := newEngine(&p, Access{}, rec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.stop(errDone)
		e.living.Wait()
		rec.Close()
	})
	return e
}

// openSession opens a session.
func openSession(t *testing.T, e *engine, url string) *session {
	t.Helper()
	s := e.newSession(sessionOptions{name: "s0", server: url, seed: 1})
	select {
	case <-s.opened:
	case <-s.ctx.Done():
		t.Fatalf("no session: %v", s.ctx.Err())
	case <-time.After(patience):
		t.Fatal("no session in time")
	}
	return s
}

// wantNoSessions fails the test if the server has other sessions than the one that looks.
func wantNoSessions(t *testing.T, e *engine, url string) {
	t.Helper()
	c, err := e.open(t.Context(), sessionOptions{name: "look", server: url, control: true})
	if err != nil {
		t.Fatal(err)
	}
	var list protocol.SessionListResult
	if err := c.Call(t.Context(), protocol.MethodSessionList, protocol.SessionListParams{}, &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Sessions) != 1 {
		t.Errorf("the server has the sessions %+v", list.Sessions)
	}
}

// await waits until done is true.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("waited in vain for %s", what)
			return
		}
	}
}

// A log has the events of a process as they came.
type log struct {
	mu     sync.Mutex
	out    []byte
	next   uint64 // the due seq
	again  uint64 // repeats up to this seq are right
	wrong  []string
	closed bool
}

func newLog() *log { return &log{next: 1} }

func (l *log) event(e *oracle.Event, _ time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Kind == "resumed" {
		l.next = e.Seq + 1
		return
	}
	if e.Seq != l.next {
		l.wrong = append(l.wrong, fmt.Sprintf("%s %d, %d was due", e.Kind, e.Seq, l.next))
	}
	l.next = e.Seq + 1
	if e.Seq <= l.again {
		return
	}
	l.again = e.Seq
	if e.Kind == "output" {
		l.out = append(l.out, e.Data...)
	}
	l.closed = l.closed || e.Kind == "closed"
}

func (l *log) has(n int) func() bool {
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.out) >= n
	}
}

func (l *log) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}
