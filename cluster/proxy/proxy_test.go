package proxy_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/cluster/proxy"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testleak"
	"github.com/b6f6fdd7/troupe/tests/support/testrelay"
	"github.com/b6f6fdd7/troupe/transport"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testleak.Patient(m)) }

// limit is how long a test waits for a fact before it gives up.
const limit = 60 * time.Second

func newSystem(t *testing.T) *actor.ActorSystem {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
		actor.WithDeadLetterThrottleInterval(10*time.Millisecond))
	before := actorCount(system)
	t.Cleanup(func() {
		waitFor(t, "no actor to be left", func() bool { return actorCount(system) == before })
		system.Shutdown()
	})
	return system
}

func actorCount(system *actor.ActorSystem) (n int) {
	for _, m := range system.ProcessRegistry.LocalPIDs.LocalPIDs {
		n += m.Count()
	}
	return n
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("waited in vain for %s", what)
			return
		}
	}
}

// node is another node: a troupe behind a socket, and a network for cuts.
type node struct {
	troupe *actors.Troupe
	dials  atomic.Int64
	asked  sync.Map // the sessions that were dialed for
	url    string
}

func newNode(t *testing.T, c actors.Config, pass testrelay.Pass) *node {
	t.Helper()
	c.Log = slog.New(slog.DiscardHandler)
	if c.KillGrace == 0 {
		c.KillGrace = -1
	}
	troupe, err := actors.Start(newSystem(t), c)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{troupe: troupe}
	path := filepath.Join(t.TempDir(), "s")
	server, err := transport.Listen("unix://"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(func(conn transport.Conn) { troupe.Accept(conn, conn.About()) }) }()
	t.Cleanup(func() {
		server.Close()
		<-served
		if err := troupe.Kill(); err != nil {
			t.Error(err)
		}
	})
	n.url = "unix://" + testrelay.New(t, "unix", path, pass).Addr()
	return n
}

func (n *node) dial(ctx context.Context, session string) (transport.Conn, error) {
	n.dials.Add(1)
	n.asked.Store(session, true)
	return transport.Dial(ctx, n.url, &transport.DialOptions{Subprotocols: []string{transport.SubprotocolMsgpack}})
}

// after returns a Pass that cuts each link after so many bytes to the client.
func after(n int64, hows ...testrelay.How) testrelay.Pass {
	return func(l *testrelay.Link, piece int, toClient bool) (int, testrelay.How) {
		if !toClient || int64(piece) <= n-l.ToClient {
			return piece, testrelay.Open
		}
		return int(max(n-l.ToClient, 0)), hows[l.Number%len(hows)]
	}
}

// switched is a network with cuts by hand.
type switched struct {
	cut  atomic.Bool // all links break
	down atomic.Bool // and new ones, too
}

func (s *switched) pass(_ *testrelay.Link, piece int, _ bool) (int, testrelay.How) {
	if s.down.Load() || s.cut.CompareAndSwap(true, false) {
		return 0, testrelay.FIN
	}
	return piece, testrelay.Open
}

// host is an actor of a host: the test sends and receives for it.
type host struct {
	t      *testing.T
	system *actor.ActorSystem
	root   *actor.RootContext
	pid    *actor.PID
	proxy  *actor.PID
	got    chan any
	group  atomic.Value // the last news of a group
	token  uint64
}

type (
	follow struct {
		process actors.ProcessRef
		from    actors.Subscribe
	}
	watch struct{ who *actor.PID }
)

// newHost returns a host with a proxy.
func newHost(t *testing.T, o proxy.Options) *host {
	t.Helper()
	system := newSystem(t)
	h := &host{t: t, system: system, root: system.Root, proxy: system.Root.Spawn(proxy.New(o))}
	h.join()
	own := h.proxy
	t.Cleanup(func() { stop(t, h.root, own) })
	return h
}

// another returns another host of the same proxy.
func (h *host) another() *host {
	other := &host{t: h.t, system: h.system, root: h.root, proxy: h.proxy}
	other.join()
	return other
}

func (h *host) join() {
	h.got = make(chan any, 100_000)
	got := h.got
	h.pid = h.root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case follow:
			actors.Follow(ctx, m.process, m.from)
		case watch:
			ctx.Watch(m.who)
		case actors.GroupChanged:
			h.group.Store(m.GroupID + " " + m.State)
		case actors.Followed:
			got <- m
			ctx.Respond(actors.FollowOn{})
		case *actor.Started, *actor.Stopping, *actor.Stopped:
		default:
			got <- m
		}
	}))
	h.t.Cleanup(func() { stop(h.t, h.root, h.pid) })
}

func stop(t *testing.T, root *actor.RootContext, pid *actor.PID) {
	t.Helper()
	for deadline := time.Now().Add(limit); root.StopFuture(pid).Wait() != nil; {
		if time.Now().After(deadline) {
			t.Errorf("%s does not stop", pid.Id)
			return
		}
	}
}

func (h *host) send(to *actor.PID, m any) { h.root.RequestWithCustomSender(to, m, h.pid) }

// take returns the next message of type T, and drops all messages before.
func take[T any](h *host) T {
	h.t.Helper()
	for deadline := time.After(limit); ; {
		select {
		case m := <-h.got:
			if v, ok := m.(T); ok {
				return v
			}
		case <-deadline:
			var zero T
			h.t.Fatalf("no %T", zero)
		}
	}
}

// attach attaches, or fails the test.
func (h *host) attach(m actors.Attach) actors.Attached {
	h.t.Helper()
	h.send(h.proxy, m)
	for deadline := time.After(limit); ; {
		select {
		case m := <-h.got:
			switch m := m.(type) {
			case actors.Attached:
				return m
			case actors.Reply:
				h.t.Fatalf("attach: %v", m.Err)
			}
		case <-deadline:
			h.t.Fatal("no answer to Attach")
		}
	}
}

// ask sends a request, and returns its answer.
func (h *host) ask(to *actor.PID, params any) actors.Reply {
	h.t.Helper()
	h.token++
	h.send(to, actors.Request{Token: h.token, Params: params})
	for {
		if r := take[actors.Reply](h); r.Token == h.token {
			return r
		}
	}
}

// result is ask for a request with the result R.
func result[R any](h *host, to *actor.PID, params any) R {
	h.t.Helper()
	r := h.ask(to, params)
	got, ok := r.Result.(R)
	if r.Err != nil || !ok {
		var want R
		h.t.Fatalf("%T is answered %#v, %v, want a %T", params, r.Result, r.Err, want)
	}
	return got
}

func program(id string, argv ...string) protocol.ProcessStartParams {
	return protocol.ProcessStartParams{ProcessID: id, Argv: argv, Cwd: "file:///", Env: map[string]string{"PATH": "/usr/bin:/bin"}}
}

func (h *host) start(session *actor.PID, p protocol.ProcessStartParams) actors.ProcessRef {
	h.t.Helper()
	return result[actors.StartResult](h, session, p).Process
}

// story is the log as a follower has seen it.
type story struct {
	output strings.Builder
	events []string
	seq    uint64
	gaps   int
	lost   bool
}

func (s *story) add(t *testing.T, gap outlog.Gap, entries []outlog.Entry) (over bool) {
	t.Helper()
	if gap.From != 0 {
		if gap.From != s.seq+1 {
			t.Errorf("a gap from %d after %d", gap.From, s.seq)
		}
		s.gaps, s.seq = s.gaps+1, gap.To
	}
	for _, e := range entries {
		if s.seq++; e.Seq != s.seq {
			t.Errorf("seq %d where %d was due", e.Seq, s.seq)
			s.seq = e.Seq
		}
		if s.output.Write(e.Data); e.Kind != outlog.Output {
			s.events = append(s.events, e.Kind.String())
		}
		over = over || e.Kind == outlog.Closed
	}
	return over
}

// whole follows a process to its end.
func (h *host) whole(p actors.ProcessRef, from actors.Subscribe) *story {
	h.t.Helper()
	h.root.Send(h.pid, follow{p, from})
	s := &story{seq: from.After}
	h.rest(s)
	return s
}

// rest takes everything until the end.
func (h *host) rest(s *story) {
	h.t.Helper()
	for over := false; !over; {
		f := take[actors.Followed](h)
		s.lost = f.Lost
		over = s.add(h.t, f.Gap, f.Entries) || f.Lost
	}
}

// numbers returns what seq(1) prints.
func numbers(n int, end string) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		b.WriteString(strconv.Itoa(i))
		b.WriteString(end)
	}
	return b.String()
}

// A host gets every byte of a program on another node once and in order, however often the link breaks.
func TestFollowOverCuts(t *testing.T) {
	t.Parallel()
	const lines = 50_000
	for _, test := range []struct {
		name, end string
		change    func(*protocol.ProcessStartParams)
	}{
		{"pipes", "\n", func(*protocol.ProcessStartParams) {}},
		{"PTY", "\r\n", func(p *protocol.ProcessStartParams) { p.TTY = true }},
		{"little retention", "\n", func(p *protocol.ProcessStartParams) { p.Retention = &protocol.Retention{Bytes: new(uint64(16 << 10))} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, actors.Config{}, after(50_000, testrelay.FIN, testrelay.RST))
			h := newHost(t, proxy.Options{Dial: n.dial})
			a := h.attach(actors.Attach{Options: protocol.SessionOptions{MaxChunkBytes: new(uint64(16 << 10))}}) // a link carries more
			p := program("p", "seq", strconv.Itoa(lines))
			test.change(&p)
			s := h.whole(h.start(a.Session, p), actors.Subscribe{Owner: true})
			if got, want := s.output.String(), numbers(lines, test.end); got != want {
				t.Errorf("%d bytes of output, want %d: they differ after %d", len(got), len(want), common(got, want))
			}
			if got := fmt.Sprint(s.events, s.gaps, s.lost); got != "[exited closed] 0 false" {
				t.Errorf("%s", got)
			}
			if cuts := n.dials.Load() - 1; cuts < 3 {
				t.Errorf("%d cuts, want more", cuts)
			}
			if _, ok := n.asked.Load(a.SessionID); !ok {
				t.Errorf("no dial after a cut was for the session")
			}
		})
	}
}

// common returns how many bytes at the beginning are the same.
func common(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// A host follows programs of another client, in each role.
func TestFollowOfAnother(t *testing.T) {
	t.Parallel()
	n := newNode(t, actors.Config{}, nil)
	owner := newHost(t, proxy.Options{Dial: n.dial})
	a := owner.attach(actors.Attach{})
	owner.start(a.Session, program("before", "sh", "-c", "echo before; exit 3"))
	for _, role := range []protocol.Role{protocol.RoleObserver, protocol.RoleController} {
		h := newHost(t, proxy.Options{Dial: n.dial, LookEvery: time.Hour})
		there := h.attach(actors.Attach{SessionID: a.SessionID, Role: role})
		if there.Role != role || there.SessionID != a.SessionID || len(there.Processes) == 0 || there.Processes[0].ID == "" {
			t.Fatalf("attached %+v", there)
		}
		for _, p := range there.Processes {
			if p.ID == "before" {
				if s := h.whole(p, actors.Subscribe{}); s.output.String() != "before\n" || s.lost {
					t.Errorf("%s: %q %v", role, s.output.String(), s.events)
				}
			}
		}
		id := "during " + string(role)
		owner.start(a.Session, program(id, "echo", id))
		added := take[actors.ProcessAdded](h)
		if added.Process.ID != id {
			t.Errorf("%s: %s was added", role, added.Process.ID)
		}
		if s := h.whole(added.Process, actors.Subscribe{}); s.output.String() != id+"\n" {
			t.Errorf("%s: %q %v", role, s.output.String(), s.events)
		}
		reply := h.ask(there.Session, program("by "+string(role), "true"))
		if denied := reply.Err != nil && reply.Err.Kind() == protocol.KindRole; denied != (role == protocol.RoleObserver) {
			t.Errorf("%s: a start is answered %v", role, reply.Err)
		}
	}
}

// The writes of a host reach the program once and in order, however often the link breaks.
func TestWritesOverCuts(t *testing.T) {
	t.Parallel()
	n := newNode(t, actors.Config{}, after(20_000, testrelay.FIN))
	h := newHost(t, proxy.Options{Dial: n.dial})
	a := h.attach(actors.Attach{})
	p := program("cat", "cat")
	p.PipeStdin = true
	cat := h.start(a.Session, p)
	const lines = 3000
	for i := 1; i <= lines; i++ {
		h.send(cat.PID, actors.Request{Params: protocol.ProcessWriteParams{Chunk: []byte(strconv.Itoa(i) + "\n"), WriteID: strconv.Itoa(i)}})
		if i%500 == 0 { // the connection may have no more requests without an answer
			for range 500 {
				if r := take[actors.Reply](h); r.Err != nil || r.Result.(protocol.ProcessWriteResult).Status != protocol.WriteAccepted {
					t.Fatal(r)
				}
			}
		}
	}
	h.send(cat.PID, actors.Request{Params: protocol.ProcessCloseStdinParams{}})
	if s := h.whole(cat, actors.Subscribe{Owner: true}); s.output.String() != numbers(lines, "\n") {
		t.Errorf("%d bytes, want %d", s.output.Len(), len(numbers(lines, "\n")))
	}
	if n.dials.Load() < 3 {
		t.Errorf("%d dials, want more", n.dials.Load())
	}
}

// A host without a Pull costs a bounded buffer, and the program waits for the host: afterwards everything comes.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	n := newNode(t, actors.Config{Retention: 128 << 10}, nil)
	h := newHost(t, proxy.Options{Dial: n.dial, Buffer: 16 << 10})
	a := h.attach(actors.Attach{})
	const lines = 200_000
	p := h.start(a.Session, program("p", "seq", strconv.Itoa(lines)))
	h.send(p.PID, actors.Subscribe{Owner: true, Explicit: true})
	var s story
	other := h.another()
	const looks = 20
	for waits := 0; waits < looks; { // whoever has everything and acknowledges nothing
		h.send(p.PID, actors.Pull{Bytes: 4 << 10})
		info := result[protocol.ProcessInfoResult](other, p.PID, protocol.ProcessInfoParams{})
		if info.Status != nil {
			t.Fatal("the program did not wait for its owner")
		}
		for more := true; more; {
			select {
			case m := <-h.got:
				if d, ok := m.(actors.Delivery); ok {
					s.add(t, d.Gap, d.Entries)
				}
			default:
				more = false
			}
		}
		for _, w := range info.WaitsFor {
			if w.For == "owner" && s.seq+1 == info.NextSeq {
				waits++
			}
		}
	}
	h.send(p.PID, actors.Ack{To: s.seq})
	for over := false; !over; {
		h.send(p.PID, actors.Pull{Bytes: 32 << 10})
		d := take[actors.Delivery](h)
		over = s.add(t, d.Gap, d.Entries)
		h.send(p.PID, actors.Ack{To: s.seq})
	}
	if s.output.String() != numbers(lines, "\n") || s.gaps > 0 {
		t.Errorf("%d bytes, %d gaps, want %d", s.output.Len(), s.gaps, len(numbers(lines, "\n")))
	}
}

// Two viewers of a process have cursors of their own.
func TestTwoViewers(t *testing.T) {
	t.Parallel()
	n := newNode(t, actors.Config{}, nil)
	h := newHost(t, proxy.Options{Dial: n.dial, Buffer: 8 << 10})
	a := h.attach(actors.Attach{})
	const lines = 30_000
	p := h.start(a.Session, program("p", "seq", strconv.Itoa(lines)))
	slow := h.another()
	slow.send(p.PID, actors.Subscribe{})
	if s := h.whole(p, actors.Subscribe{}); s.output.String() != numbers(lines, "\n") {
		t.Errorf("the fast viewer: %d bytes", s.output.Len())
	}
	var s story
	for over := false; !over; {
		slow.send(p.PID, actors.Pull{Bytes: 1000})
		d := take[actors.Delivery](slow)
		over = s.add(t, d.Gap, d.Entries)
	}
	if s.output.String() != numbers(lines, "\n") || s.gaps > 0 {
		t.Errorf("the slow viewer: %d bytes, %d gaps", s.output.Len(), s.gaps)
	}
}

// Whoever watches a session or a process hears of its end, and gets all output before.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		end  func(h *host, a actors.Attached, n *node, net *switched)
		want func(actors.Evicted) bool
		lost bool // the end of the program is not seen
	}{
		{"closed by the host", func(h *host, a actors.Attached, _ *node, _ *switched) {
			h.send(a.Session, actors.Request{Params: protocol.SessionCloseParams{}})
		}, func(e actors.Evicted) bool { return e.Over && e.Reason == message.ReasonClosed }, false},
		{"closed by another", func(h *host, a actors.Attached, _ *node, _ *switched) {
			other := h.another()
			there := other.attach(actors.Attach{SessionID: a.SessionID, Role: protocol.RoleController})
			other.send(there.Session, actors.Request{Params: protocol.SessionCloseParams{}})
		}, func(e actors.Evicted) bool { return e.Over && e.Reason == message.ReasonClosed }, false},
		{"taken over", func(h *host, a actors.Attached, _ *node, _ *switched) {
			h.another().attach(actors.Attach{SessionID: a.SessionID, Takeover: true})
		}, func(e actors.Evicted) bool { return !e.Over && strings.Contains(e.Reason, "taken over") }, true},
		{"the node is out of reach", func(h *host, a actors.Attached, _ *node, net *switched) {
			net.down.Store(true)
			h.send(a.Session, actors.Request{Params: actors.SessionInfoRequest{}})
		}, func(e actors.Evicted) bool { return !e.Over }, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			net := new(switched)
			n := newNode(t, actors.Config{}, net.pass)
			h := newHost(t, proxy.Options{Dial: n.dial, ReconnectFor: 50 * time.Millisecond})
			a := h.attach(actors.Attach{})
			p := h.start(a.Session, program("p", "sh", "-c", "echo ready; exec sleep 1000"))
			watcher := h.another()
			watcher.root.Send(watcher.pid, watch{a.Session})
			watcher.root.Send(watcher.pid, watch{p.PID})
			viewer := h.another()
			viewer.root.Send(viewer.pid, follow{p, actors.Subscribe{}})
			first := take[actors.Followed](viewer)
			s := new(story)
			s.add(t, first.Gap, first.Entries)
			test.end(h, a, n, net)
			if e := take[actors.Evicted](h); !test.want(e) {
				t.Errorf("%+v", e)
			}
			viewer.rest(s)
			if s.output.String() != "ready\n" || s.lost != test.lost || s.gaps > 0 {
				t.Errorf("the viewer: %q %v lost %t, gaps %d", s.output.String(), s.events, s.lost, s.gaps)
			}
			ended := map[string]bool{take[*actor.Terminated](watcher).Who.Id: true, take[*actor.Terminated](watcher).Who.Id: true}
			if !ended[a.Session.Id] || !ended[p.PID.Id] {
				t.Errorf("%v has ended, want %s and %s", ended, a.Session.Id, p.PID.Id)
			}
			if r := h.ask(a.Session, actors.SessionInfoRequest{}); r.Err == nil || r.Err.Kind() != protocol.KindEnded {
				t.Errorf("a request to the session is answered %v", r)
			}
			if r := h.ask(p.PID, actors.DescribeRequest{}); r.Err == nil || r.Err.Kind() != protocol.KindUnknownProcess {
				t.Errorf("a request to the process is answered %v", r)
			}
		})
	}
}

// When a host stops, the session is detached, and goes on for the next host.
func TestHostStops(t *testing.T) {
	t.Parallel()
	n := newNode(t, actors.Config{}, nil)
	h := newHost(t, proxy.Options{Dial: n.dial})
	first := h.another()
	a := first.attach(actors.Attach{})
	p := program("cat", "cat")
	p.PipeStdin = true
	cat := first.start(a.Session, p)
	result[protocol.ProcessWriteResult](first, cat.PID, protocol.ProcessWriteParams{Chunk: []byte("hello\n"), WriteID: "1"})
	stop(t, first.root, first.pid)
	h.root.Send(h.pid, watch{a.Session})
	take[*actor.Terminated](h)
	var b actors.Attached
	waitFor(t, "the node to notice", func() bool {
		h.send(h.proxy, actors.Attach{SessionID: a.SessionID})
		for {
			switch m := (<-h.got).(type) {
			case actors.Attached:
				b = m
				return true
			case actors.Reply:
				if m.Err.Kind() != protocol.KindAttached {
					t.Fatal(m.Err)
				}
				return false
			}
		}
	})
	if len(b.Processes) != 1 || b.Processes[0].ID != "cat" {
		t.Fatalf("%+v", b)
	}
	result[protocol.Empty](h, b.Processes[0].PID, protocol.ProcessCloseStdinParams{})
	if s := h.whole(b.Processes[0], actors.Subscribe{Owner: true}); s.output.String() != "hello\n" {
		t.Errorf("%q", s.output.String())
	}
}

// An Ack that a cut has swallowed reaches the node afterwards.
func TestAckOverCut(t *testing.T) {
	t.Parallel()
	net := new(switched)
	n := newNode(t, actors.Config{}, net.pass)
	h := newHost(t, proxy.Options{Dial: n.dial, LookEvery: time.Hour})
	a := h.attach(actors.Attach{})
	p := h.start(a.Session, program("p", "echo", "hello"))
	h.send(p.PID, actors.Subscribe{Owner: true, Explicit: true})
	var s story
	for over := false; !over; {
		h.send(p.PID, actors.Pull{Bytes: 1000})
		d := take[actors.Delivery](h)
		over = s.add(t, d.Gap, d.Entries)
	}
	net.cut.Store(true)
	h.send(p.PID, actors.Ack{To: s.seq})
	waitFor(t, "the node to have the Ack", func() bool {
		return result[protocol.ProcessInfoResult](h, p.PID, protocol.ProcessInfoParams{}).Unacked == 0
	})
	if n.dials.Load() != 2 {
		t.Errorf("%d dials, want 2", n.dials.Load())
	}
}

// At the end of a session, a viewer gets everything that has come, whether it pulls or not.
func TestEndWithoutPull(t *testing.T) {
	t.Parallel()
	n := newNode(t, actors.Config{}, nil)
	h := newHost(t, proxy.Options{Dial: n.dial})
	a := h.attach(actors.Attach{})
	p := h.start(a.Session, program("p", "sh", "-c", "seq 100000; exec sleep 1000"))
	h.send(p.PID, actors.Subscribe{})
	other := h.another()
	waitFor(t, "all output", func() bool {
		return result[protocol.ProcessInfoResult](other, p.PID, protocol.ProcessInfoParams{}).OutputBytes == uint64(len(numbers(100_000, "\n")))
	})
	h.send(a.Session, actors.Request{Params: protocol.SessionCloseParams{}})
	var s story
	for over := false; !over; {
		d := take[actors.Delivery](h)
		over = s.add(t, d.Gap, d.Entries)
		if !d.Cut {
			t.Error("a Delivery without a Pull, and without Cut")
		}
	}
	if s.output.String() != numbers(100_000, "\n") || s.gaps > 0 {
		t.Errorf("%d bytes, %d gaps", s.output.Len(), s.gaps)
	}
}
