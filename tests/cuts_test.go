package tests

import (
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/internal/stream"
	"github.com/gorilla/websocket"
	"golang.org/x/sys/unix"
)

// seedFlag repeats the random choices of an earlier run. The machine's own timing cannot be repeated.
var seedFlag = flag.Uint64("seed", 0, "of the random moments at which connections break; 0 takes a new one")

// programVar makes the test binary run as a program of package stream.
const programVar = "TROUPE_TESTS_PROGRAM"

func init() {
	if os.Getenv(programVar) != "" {
		stream.Main(os.Args[1:])
	}
}

// streamProgram returns the parameters of a start for a program of package stream.
func streamProgram(t testing.TB, more obj, args ...string) obj {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	params := obj{
		"argv":      append([]string{exe}, args...),
		"env":       obj{programVar: "1", raceVar: raceOptions},
		"pipeStdin": true,
	}
	maps.Copy(params, more)
	return params
}

// random is the test's source of choices; its seed is in the log of a failure.
func random(t testing.TB) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// scaled returns n, or a tenth of n with -short.
func scaled(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

// --- a breaking connection ---

// breakage is how a connection breaks.
type breakage int

const (
	reset     breakage = iota // RST: bytes in flight are lost, and both ends know
	finish                    // FIN without a Close frame, and the client reads no more
	vanish                    // silence: the other side believes the connection is alive
	glut                      // RST, after unread bytes have filled the kernel's buffer
	breakages                 // number of breakages
)

// brittle is the client's end of a TCP connection. The connection breaks after a number of bytes, at
// any place in a message.
type brittle struct {
	*net.TCPConn
	how      breakage
	down, up atomic.Int64 // bytes left until the break
	rate     int          // bytes a second that reading takes; 0: no limit. Set before dialOver

	mu     sync.Mutex
	held   chan struct{} // not nil: reading waits until held is closed
	broken chan struct{}
	once   sync.Once
}

var errBroken = errors.New("the connection broke")

// firm returns a brittle connection that breaks only when the test calls snap.
func firm() *brittle { return brittleAfter(reset, math.MaxInt64, math.MaxInt64) }

func brittleAfter(how breakage, down, up int64) *brittle {
	b := &brittle{how: how, broken: make(chan struct{})}
	b.down.Store(down)
	b.up.Store(up)
	return b
}

func (b *brittle) Read(p []byte) (int, error) {
	b.mu.Lock()
	held := b.held
	b.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-b.broken:
		}
	}
	if b.rate > 0 {
		p = p[:min(len(p), 16<<10)]
	}
	n, err := b.carry(&b.down, p, b.TCPConn.Read)
	if b.rate > 0 {
		time.Sleep(time.Duration(n) * time.Second / time.Duration(b.rate))
	}
	return n, err
}

func (b *brittle) Write(p []byte) (int, error) {
	n, err := b.carry(&b.up, p, b.TCPConn.Write)
	if err == nil && n < len(p) {
		err = errBroken
	}
	return n, err
}

func (b *brittle) carry(left *atomic.Int64, p []byte, carry func([]byte) (int, error)) (int, error) {
	select {
	case <-b.broken:
		return 0, errBroken
	default:
	}
	n, err := carry(p[:min(int64(len(p)), left.Load())])
	if left.Add(-int64(n)) <= 0 {
		b.snap()
	}
	return n, err
}

// snap breaks the connection. Any goroutine may call snap any number of times.
func (b *brittle) snap() {
	b.once.Do(func() {
		switch b.how {
		case glut:
			b.hold()
			for range 25 {
				if b.unread() > 256<<10 {
					break
				}
				time.Sleep(2 * time.Millisecond)
			}
			fallthrough
		case reset:
			b.SetLinger(0)
			b.TCPConn.Close()
		case finish:
			b.CloseWrite()
		case vanish:
		}
		close(b.broken)
		b.SetDeadline(time.Unix(1, 0)) // blocked calls return
	})
}

// unread returns how many bytes have arrived and wait in the kernel.
func (b *brittle) unread() (n int) {
	raw, err := b.SyscallConn()
	if err != nil {
		return 0
	}
	raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.SIOCINQ) })
	return n
}

// hold stops reading; release goes on.
func (b *brittle) hold() {
	b.mu.Lock()
	b.held = make(chan struct{})
	b.mu.Unlock()
}

func (b *brittle) release() {
	b.mu.Lock()
	close(b.held)
	b.held = nil
	b.mu.Unlock()
}

// dialOver connects over b.
func (s *server) dialOver(b *brittle) (*conn, error) {
	dialer := websocket.Dialer{
		HandshakeTimeout: factTimeout,
		NetDial: func(network, address string) (net.Conn, error) {
			tcp, err := net.Dial(network, address)
			if err != nil {
				return nil, err
			}
			b.TCPConn = tcp.(*net.TCPConn)
			return b, nil
		},
	}
	ws, _, err := dialer.Dial(s.url, s.header())
	if err != nil {
		return nil, err
	}
	c := &conn{t: s.t, tcp: b, packed: ws.Subprotocol() == "troupe.msgpack", next: nextOf(ws)}
	var mu sync.Mutex
	c.write = func(fin bool, opcode byte, data []byte) error {
		mu.Lock()
		defer mu.Unlock()
		_, err := b.Write(clientFrame(fin, opcode, data))
		return err
	}
	ws.SetPingHandler(func(payload string) error {
		c.sendRaw(websocket.PongMessage, []byte(payload))
		return nil
	})
	ws.SetCloseHandler(func(int, string) error { return nil })
	c.run()
	s.t.Cleanup(c.hangUp)
	return c, nil
}

// --- a resuming client ---

// resumer is a client that resumes after each break: its session, and the output received.
type resumer struct {
	t         *testing.T
	s         *server
	params    obj  // of initialize, besides the parameters of the resume
	replay    bool // resume with resumeFrom; else with process/read, as the peer does
	takeover  bool // an earlier connection has vanished, and the server believes the connection is alive
	sessionID string
	had       map[string]*had
	reads     map[string]int64 // process/read requests on the current connection
}

// had is the part of a process's events that the client has.
type had struct {
	last           int64
	exited, closed bool
	exitCode       int64
	streams        map[string]*stream.Checker
	gaps           []obj
}

func newHad() *had {
	return &had{streams: map[string]*stream.Checker{
		"stdout": stream.NewChecker(1), "stderr": stream.NewChecker(2), "pty": stream.NewChecker(1),
	}}
}

func newResumer(t *testing.T, s *server, replay bool) *resumer {
	return &resumer{t: t, s: s, replay: replay, had: map[string]*had{}}
}

// start starts a process whose stdout, or PTY, is stream 1, and whose stderr is stream 2.
func (r *resumer) start(c *conn, id string, params obj) *proc {
	r.t.Helper()
	p := c.start(id, params)
	r.had[id] = newHad()
	return p
}

// connect opens or resumes the session over b. The returned connection may have broken already. If b
// broke before the handshake was done, connect returns nil.
func (r *resumer) connect(b *brittle) *conn {
	r.t.Helper()
	takeover := r.takeover
	r.takeover = takeover || b.how == vanish
	c, err := r.s.dialOver(b)
	if err != nil {
		select {
		case <-b.broken:
			return nil
		default:
			r.t.Fatalf("dial: %v", err)
		}
	}
	c.update(func() { c.unmerged = !r.replay && r.sessionID != "" })
	params := obj{"clientName": "resumer"}
	maps.Copy(params, r.params)
	if r.sessionID != "" {
		params["resumeSessionId"] = r.sessionID
		params["takeover"] = takeover
	}
	if r.replay && r.sessionID != "" {
		from := obj{}
		for id, h := range r.had {
			from[id] = h.last
		}
		params["resumeFrom"] = from
		params["capabilities"] = obj{"gap": true}
	}
	for deadline := time.Now().Add(factTimeout); ; time.Sleep(20 * time.Millisecond) {
		id := c.request("initialize", params)
		var answer obj
		err := c.tryAwait(func() bool {
			answer = c.takeReply(id)
			return answer != nil
		})
		if err != nil {
			c.awaitEnd()
			return c
		}
		if e := errorOf(answer); e != nil {
			if num(e["code"]) == -32010 && time.Now().Before(deadline) {
				continue
			}
			r.t.Fatalf("initialize %s: %s", jsonText(params), jsonText(e))
		}
		r.sessionID = answer["result"].(obj)["sessionId"].(string)
		break
	}
	r.takeover = b.how == vanish
	c.notify("initialized", obj{})
	r.reads = map[string]int64{}
	if !r.replay {
		for id, h := range r.had {
			r.reads[id] = c.request("process/read", obj{"processId": id, "afterSeq": h.last, "maxBytes": nil, "waitMs": 0})
		}
	}
	return c
}

// absorb adds the events of c to the client's, up to the first missing event.
func (r *resumer) absorb(c *conn) {
	r.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, h := range r.had {
		p := c.procs[id]
		if p != nil { // The server may have dropped later events, because they were acknowledged before process/read.
			if err := h.live(p, true); err != nil {
				r.t.Fatalf("process %q: %v", id, err)
			}
		}
		mayMiss := false // the answer to process/read would have filled the hole
		if request, ok := r.reads[id]; ok {
			answer := c.takeReply(request)
			mayMiss = answer == nil
			if answer != nil {
				delete(r.reads, id)
				if err := h.read(answer); err != nil {
					r.t.Fatalf("process %q: process/read: %v", id, err)
				}
			}
		}
		if p != nil {
			if err := h.live(p, mayMiss); err != nil {
				r.t.Fatalf("process %q: %v", id, err)
			}
		}
	}
}

// read takes the answer to a process/read after h.last or earlier: live notifications may have come
// meanwhile.
func (h *had) read(answer obj) error {
	result := resultOf(answer)
	if result == nil {
		return fmt.Errorf("answered with %s", jsonText(answer))
	}
	exited, closed := result["exited"].(bool), result["closed"].(bool)
	// For a seq without output, the answer says only that the seq is past.
	skip := func(until int64) error {
		if h.last < until && exited && !h.exited {
			h.last, h.exited, h.exitCode = h.last+1, true, num(result["exitCode"])
		}
		if h.last < until && closed && !h.closed {
			h.last, h.closed = h.last+1, true
		}
		if h.last < until {
			return fmt.Errorf("seq %d to %d are missing", h.last+1, until)
		}
		return nil
	}
	for _, chunk := range chunksOf(result) {
		if chunk.seq <= h.last {
			continue
		}
		if err := skip(chunk.seq - 1); err != nil {
			return err
		}
		if err := h.output(chunk); err != nil {
			return err
		}
	}
	return skip(num(result["nextSeq"]) - 1)
}

// live takes the notifications of a connection. Some may repeat events up to h.last. If mayMiss, live
// stops at the first missing event; otherwise a missing event is an error.
func (h *had) live(p *proc, mayMiss bool) error {
	chunks, gaps := p.chunks, p.gaps
	for h.last < p.next-1 {
		due := h.last + 1
		for len(chunks) > 0 && chunks[0].seq < due {
			chunks = chunks[1:]
		}
		for len(gaps) > 0 && num(gaps[0]["toSeq"]) < due {
			gaps = gaps[1:]
		}
		switch {
		case len(chunks) > 0 && chunks[0].seq == due:
			if err := h.output(chunks[0]); err != nil {
				return err
			}
		case len(gaps) > 0 && num(gaps[0]["fromSeq"]) == due:
			h.gaps = append(h.gaps, gaps[0])
			if lost := num(gaps[0]["bytes"]); lost > 0 {
				h.streams["stdout"].Skip(lost) // with gaps, only stdout is written
			}
			h.last = num(gaps[0]["toSeq"])
		case p.exited != nil && num(p.exited["seq"]) == due:
			h.last, h.exited, h.exitCode = due, true, num(p.exited["exitCode"])
		case p.closed && p.next-1 == due:
			h.last, h.closed = due, true
		case mayMiss:
			return nil
		default:
			return fmt.Errorf("seq %d is missing", due)
		}
	}
	return nil
}

func (h *had) output(chunk outputChunk) error {
	if _, err := h.streams[chunk.stream].Write(chunk.data); err != nil {
		return fmt.Errorf("seq %d, %s: %w", chunk.seq, chunk.stream, err)
	}
	h.last = chunk.seq
	return nil
}

// finish waits on c until every process has closed, and expects exit code 0 and each named stream ("id
// stream") whole.
func (r *resumer) finish(c *conn, streams ...string) {
	r.t.Helper()
	for id, h := range r.had {
		if h.closed {
			continue
		}
		c.awaitFact(fmt.Sprintf("closed of process %q", id), func() bool {
			if p := c.procs[id]; p != nil && p.closed {
				return true
			}
			// A process may have closed during the break. Then only the answer to process/read shows
			// the close.
			return slices.ContainsFunc(c.replies, func(m obj) bool {
				return num(m["id"]) == r.reads[id] && resultOf(m)["closed"] == true
			})
		})
		// The server answers a process/read even without news.
		c.awaitFact("the answer to process/read", func() bool {
			request, asked := r.reads[id]
			return !asked || slices.ContainsFunc(c.replies, func(m obj) bool { return num(m["id"]) == request })
		})
	}
	r.absorb(c)
	for id, h := range r.had {
		if !h.exited || !h.closed || h.exitCode != 0 {
			r.t.Errorf("process %q: exited %v (exit code %d), closed %v", id, h.exited, h.exitCode, h.closed)
		}
	}
	for _, name := range streams {
		id, which, _ := strings.Cut(name, " ")
		check := r.had[id].streams[which]
		if err := check.End(); err != nil {
			r.t.Errorf("process %q: %v", id, err)
		}
		r.t.Logf("%s: %d bytes", name, check.Bytes())
	}
}

// modes are the two ways to get missed output, in each encoding.
var modes = []struct {
	name           string
	replay, packed bool
}{{"replay", true, false}, {"read", false, false}, {"replay/msgpack", true, true}, {"read/msgpack", false, true}}

// --- tests ---

// TestCutsOfOutput cuts connections under output. Three processes write as fast as they can: to a pipe,
// to both streams, to a PTY. The connection breaks in every way at every place, and the client gets
// each byte once.
func TestCutsOfOutput(t *testing.T) { testCutsOfOutput(t, 20) }

func testCutsOfOutput(t *testing.T, cuts int) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			rnd := random(t)
			s := startServer(t)
			s.packed = mode.packed
			r := newResumer(t, s, mode.replay)
			b := firm()
			c := r.connect(b)
			// The retention is small, so that most breaks do not hit the answer to a process/read.
			little := obj{"bytes": 64 << 10}
			r.start(c, "both", streamProgram(t, obj{"retention": little}, "source", "-1", "both"))
			r.start(c, "one", streamProgram(t, obj{"retention": little}, "source", "-1"))
			r.start(c, "pty", streamProgram(t, obj{"retention": little, "tty": true}, "source", "-1"))
			b.snap()
			c.awaitEnd()
			r.absorb(c)

			for i := range cuts {
				most := int64(400_000)
				if i%8 == 0 {
					most = 2_000 // the handshake, and little more
				}
				b := brittleAfter(breakage(i)%breakages, 1+rnd.Int64N(most), math.MaxInt64)
				if c := r.connect(b); c != nil {
					c.awaitEnd()
					r.absorb(c)
				}
			}

			c = r.connect(firm())
			for id := range r.had {
				c.call("process/closeStdin", obj{"processId": id})
			}
			r.finish(c, "both stdout", "both stderr", "one stdout", "pty pty")
		})
	}
}

// input writes stream 1 and its end to a process. Each piece is sent once, and sent again after a break
// if no answer came.
type input struct {
	id      string
	size    int64        // total number of bytes
	piece   int64        // largest write in bytes
	flight  int          // most writes without an answer
	made    int64        // bytes made into writes
	pending []inputWrite // writes without an answer, in order
	sent    int          // how many of pending were sent on the current connection
}

type inputWrite struct {
	writeID string
	data    []byte
	request int64 // on the current connection
}

// send sends as many writes as flight allows.
func (in *input) send(c *conn, sizes *rand.Rand) {
	for in.sent < in.flight && (in.sent < len(in.pending) || in.made < in.size) {
		if in.sent == len(in.pending) {
			w := inputWrite{writeID: fmt.Sprintf("%s-%d", in.id, in.made)}
			w.data = make([]byte, min(1+sizes.Int64N(in.piece), in.size-in.made))
			stream.Stream(1).Fill(w.data, in.made)
			if in.made += int64(len(w.data)); in.made == in.size {
				w.data = fmt.Appendf(w.data, ";%d", in.size)
			}
			in.pending = append(in.pending, w)
		}
		w := &in.pending[in.sent]
		w.request = c.request("process/write", obj{
			"processId": in.id, "writeId": w.writeID, "chunk": base64.StdEncoding.EncodeToString(w.data),
		})
		in.sent++
	}
}

// answered waits for the next answer to a write, and checks that the oldest write was answered. If the
// connection has ended, answered returns an error.
func (in *input) answered(c *conn) error {
	c.t.Helper()
	var answer obj
	if err := c.tryAwait(func() bool {
		i := slices.IndexFunc(c.replies, func(m obj) bool { return num(m["id"]) >= in.pending[0].request })
		if i < 0 {
			return false
		}
		answer = c.replies[i]
		c.replies = slices.Delete(c.replies, i, i+1)
		return true
	}); err != nil {
		return err
	}
	if w := in.pending[0]; num(answer["id"]) != w.request || resultOf(answer)["status"] != "accepted" {
		p := c.process(in.id)
		c.t.Fatalf("process %q: write %s, request %d, was answered with %s; its stdout: %.300q; its end: %s",
			in.id, w.writeID, w.request, jsonText(answer), p.outputSoFar("stdout"), jsonText(p.exited))
	}
	in.pending = in.pending[1:]
	in.sent--
	return nil
}

// run writes on a new connection until every write is answered (nil) or the connection has ended.
func (in *input) run(c *conn, sizes *rand.Rand) error {
	c.t.Helper()
	in.sent = 0
	for in.made < in.size || len(in.pending) > 0 {
		in.send(c, sizes)
		if err := in.answered(c); err != nil {
			return err
		}
	}
	return nil
}

// TestCutsOfInput breaks the connection while many writes are in flight. The client sends writes
// without an answer again. The program, a slow reader or cat with its output on the same connection,
// gets each byte once, in order.
func TestCutsOfInput(t *testing.T) { testCutsOfInput(t, 400<<10) }

func testCutsOfInput(t *testing.T, size int64) {
	t.Parallel()
	cat := obj{"argv": []string{"/bin/cat"}, "pipeStdin": true, "retention": obj{"bytes": 64 << 10}}
	for _, test := range []struct {
		name    string
		replay  bool
		packed  bool
		program obj
		streams []string // streams of output
		down    int64    // most bytes to the client before a break
	}{
		{"sink", true, false, streamProgram(t, nil, "sink"), nil, 3 << 10},
		{"cat, replay", true, false, cat, []string{"p stdout"}, 300 << 10},
		{"cat, read", false, false, cat, []string{"p stdout"}, 300 << 10},
		{"cat, msgpack", true, true, cat, []string{"p stdout"}, 300 << 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			rnd := random(t)
			s := startServer(t)
			s.packed = test.packed
			r := newResumer(t, s, test.replay)
			b := firm()
			c := r.connect(b)
			r.start(c, "p", test.program)
			in := &input{id: "p", size: size, piece: 12 << 10, flight: 64}
			b.snap()
			c.awaitEnd()

			cuts := 0
			for done := false; !done; cuts++ {
				b := brittleAfter(breakage(cuts)%breakages, math.MaxInt64, 1+rnd.Int64N(96<<10))
				if cuts%2 == 0 {
					b = brittleAfter(breakage(cuts/2)%breakages, 1+rnd.Int64N(test.down), math.MaxInt64)
				}
				c := r.connect(b)
				if c == nil {
					continue
				}
				done = in.run(c, rnd) == nil
				b.snap()
				c.awaitEnd()
				r.absorb(c)
			}
			t.Logf("%d cuts", cuts)

			c = r.connect(firm())
			c.call("process/closeStdin", obj{"processId": "p"})
			r.finish(c, test.streams...)
		})
	}
}

// unacked returns how many bytes the server holds of a process because its owner has not acknowledged
// them.
func unacked(c *conn, id string) int64 {
	c.t.Helper()
	for _, info := range c.call("process/list", obj{})["processes"].([]any) {
		if info := info.(obj); info["processId"] == id {
			return num(info["unackedBytes"])
		}
	}
	return 0
}

// nearlyFull is the least number of bytes held for a process that the default retention has stopped.
const nearlyFull = 800 << 10

// observe attaches an observer with the capability gap. params are added to the parameters of
// initialize.
func (s *server) observe(sessionID string, params obj) *conn {
	s.t.Helper()
	all := obj{"resumeSessionId": sessionID, "role": "observer", "capabilities": obj{"gap": true}}
	maps.Copy(all, params)
	return s.session(all)
}

// TestAway: output and exit during an absence wait for the client.
func TestAway(t *testing.T) {
	t.Parallel()
	const size = 2 << 20
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			s.packed = mode.packed
			r := newResumer(t, s, mode.replay)
			b := firm()
			c := r.connect(b)
			witness := s.observe(r.sessionID, nil)
			much, open := behindGate(t, streamProgram(t, nil, "source", fmt.Sprint(size)), "true")
			r.start(c, "much", much)
			r.start(c, "little", streamProgram(t, nil, "source", "100000", "both"))
			b.snap()
			c.awaitEnd()
			r.absorb(c)
			open() // now: on a busy machine, the owner could have had nearly all of it before the cut
			eventually(t, "the process waits for its owner", func() bool { return unacked(witness, "much") > nearlyFull })
			witness.process("little").awaitClosed()

			r.finish(r.connect(firm()), "much stdout", "little stdout", "little stderr")
		})
	}
}

// TestEvict: an owner with an evicting retention gets a gap for the lost output.
func TestEvict(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	program := streamProgram(t, obj{"retention": obj{"bytes": 256 << 10, "onFull": "evict"}}, "source", fmt.Sprint(size))

	s := startServer(t)
	c := s.session(nil)
	witness := s.observe(c.sessionID, nil)
	gated, open := behindGate(t, program, "printf hello")
	c.start("p", gated).awaitOutput("stdout", "hello")
	c.cutRST()
	open()
	witness.process("p").awaitClosed()

	c = s.session(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"p": 1}, "capabilities": obj{"gap": true}})
	p := c.process("p")
	_, rest := p.awaitClosed()
	if len(p.gaps) != 1 {
		t.Fatalf("%d gaps, want 1", len(p.gaps))
	}
	gap, next := p.gaps[0], p.chunks[0].seq
	if num(gap["fromSeq"]) != 2 || num(gap["toSeq"]) != next-1 || num(gap["seq"]) != next-1 {
		t.Errorf("gap %s between seq 1 and %d", jsonText(gap), next)
	}
	end := fmt.Sprintf(";%d", size)
	lost := int64(size+len(end)) - int64(len(rest))
	if bytes, given := gap["bytes"]; given && num(bytes) != lost {
		t.Errorf("gap of %v bytes, want %d", bytes, lost)
	}
	if !strings.HasSuffix(rest, end) {
		t.Errorf("the output ends with %q, want %q", rest[len(rest)-20:], end)
	}
	if first := num(c.call("process/read", obj{"processId": "p"})["firstSeq"]); first != next {
		t.Errorf("firstSeq %d, want %d", first, next)
	}
	c.close()

	c = s.session(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"p": 1}})
	p = c.process("p")
	p.awaitClosed()
	if p.first != next || len(p.gaps) > 0 {
		t.Errorf("without the capability: %d gaps, then seq %d, want none and %d", len(p.gaps), p.first, next)
	}
}

// behindGate makes a program wait until open is called. A shell runs first before the wait.
func behindGate(t testing.TB, program obj, first string) (gated obj, open func()) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	gate, err := os.OpenFile(path, os.O_RDWR, 0) // open both ends: neither side waits for the other
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gate.Close() })
	gated = maps.Clone(program)
	gated["argv"] = append([]string{"/bin/sh", "-c", first + `; read x <"$0"; exec "$@"`, path}, program["argv"].([]string)...)
	return gated, func() { gate.WriteString("open\n") }
}

// TestTakeover: the connection that loses the session gets a notice and a Close frame, even in the
// middle of writes. The new connection sends writes without an answer again.
func TestTakeover(t *testing.T) {
	t.Parallel()
	rnd := random(t)
	s := startServer(t)
	r := newResumer(t, s, true)
	c := r.connect(firm())
	r.start(c, "p", streamProgram(t, nil, "sink"))
	if code, text := s.dial().callError("initialize", obj{"clientName": "other", "resumeSessionId": r.sessionID}); code != -32010 {
		t.Errorf("resume of a session that is attached: %d %s, want -32010", code, text)
	}
	in := &input{id: "p", size: 4 << 20, piece: 12 << 10, flight: 500}
	rounds := 0
	for ; in.made < in.size; rounds++ {
		in.sent = 0
		in.send(c, rnd)
		for range min(rnd.IntN(300), len(in.pending)) {
			if err := in.answered(c); err != nil {
				t.Fatal(err)
			}
		}
		in.send(c, rnd)
		r.takeover = true
		next := r.connect(firm())
		code, reason := c.awaitClose()
		r.absorb(c)
		if code != 4001 || len(c.other) != 1 || c.other[0]["method"] != "session/evicted" {
			t.Errorf("closed with code %d %q after %s, want 4001 after session/evicted", code, reason, jsonText(c.other))
		}
		c = next
	}
	t.Logf("%d times", rounds)
	if err := in.run(c, rnd); err != nil {
		t.Fatal(err)
	}
	c.call("process/closeStdin", obj{"processId": "p"})
	r.finish(c)
}

// TestParkedAtCut: requests still waiting at the end of their connection hold nothing up, and are not
// executed twice.
func TestParkedAtCut(t *testing.T) {
	t.Parallel()
	for how := range breakages {
		t.Run(fmt.Sprint(how), func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			r := newResumer(t, s, true)
			b := firm()
			b.how = how
			c := r.connect(b)
			gated, open := behindGate(t, obj{"argv": []string{"/bin/cat"}, "pipeStdin": true}, "true")
			r.start(c, "p", gated)
			c.request("process/read", obj{"processId": "p", "waitMs": 600_000})
			c.request("process/wait", obj{"processId": "p"})
			// This input is larger than a pipe and the server's queue.
			in := &input{id: "p", size: 2 << 20, piece: 64 << 10, flight: 1000}
			rnd := random(t)
			in.send(c, rnd)
			if err := in.answered(c); err != nil {
				t.Fatal(err)
			}
			c.call("session/info", obj{}) // the server has all writes
			b.snap()
			c.awaitEnd()
			r.absorb(c)

			c = r.connect(firm())
			again := make(chan struct{})
			go func() { // now the pipe gets room
				defer close(again)
				time.Sleep(10 * time.Millisecond)
				open()
			}()
			if err := in.run(c, rnd); err != nil {
				t.Fatal(err)
			}
			<-again
			c.call("process/closeStdin", obj{"processId": "p"})
			r.finish(c, "p stdout")
		})
	}
}

// TestLiveFromTheAnswer: output after a resume comes live, or answers a waiting read, even if nobody
// has read the earlier output.
func TestLiveFromTheAnswer(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		s := startServer(t)
		c := s.session(nil)
		witness := s.observe(c.sessionID, nil)
		second := filepath.Join(t.TempDir(), "second")
		if err := syscall.Mkfifo(second, 0o600); err != nil {
			t.Fatal(err)
		}
		gated, open := behindGate(t, obj{"argv": sh("printf one; read _ < " + second + "; printf two")}, "true")
		c.start("p", gated)
		c.cutRST()
		open()
		witness.process("p").awaitOutput("stdout", "one") // and so it is in the log
		c = s.session(obj{"resumeSessionId": c.sessionID})
		var read int64
		if waits {
			read = c.request("process/read", obj{"processId": "p", "afterSeq": 1, "waitMs": 600_000})
			c.call("process/list", obj{}) // the read is parked
		}
		if err := os.WriteFile(second, []byte("\n"), 0); err != nil {
			t.Fatal(err)
		}
		if waits {
			if chunks := chunksOf(resultOf(c.reply(read))); len(chunks) != 1 || chunks[0].seq != 2 || string(chunks[0].data) != "two" {
				t.Errorf("after seq 1 was read: %v, want two", chunks)
			}
		}
		if _, stdout := c.process("p").awaitClosed(); stdout != "two" {
			t.Errorf("live came %q, want two", stdout)
		}
	}
}

// TestParkedIsForgotten: a write not accepted before the end of its connection is executed only if the
// client sends it again.
func TestParkedIsForgotten(t *testing.T) {
	t.Parallel()
	const piece, writes = 64 << 10, 32 // more than a pipe and the server's queue take
	s := startServer(t)
	c := s.session(nil)
	gated, open := behindGate(t, obj{"argv": []string{"/usr/bin/wc", "-c"}, "pipeStdin": true}, "true")
	p := c.start("p", gated)
	var ids []int64
	for range writes {
		ids = append(ids, c.request("process/write", p.writeParams(strings.Repeat("x", piece))))
	}
	c.call("process/list", obj{}) // the process answers after the accepted writes
	accepted := 0
	c.mu.Lock()
	for _, id := range ids {
		if c.takeReply(id) != nil {
			accepted++
		}
	}
	c.mu.Unlock()
	if accepted == 0 || accepted == writes {
		t.Fatalf("%d of %d writes were accepted: this tests nothing", accepted, writes)
	}
	c.cutRST()

	c = s.session(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"p": 0}, "takeover": true})
	closing := c.request("process/closeStdin", obj{"processId": "p"})
	open()
	c.reply(closing)
	if _, stdout := c.process("p").awaitClosed(); strings.TrimSpace(stdout) != fmt.Sprint(accepted*piece) {
		t.Errorf("the program read %q bytes, want the %d that were accepted", stdout, accepted*piece)
	}
}

// TestStartAcrossCut: the client repeats a start with a lost answer, with the same token. The program
// runs once, and all of its output comes.
func TestStartAcrossCut(t *testing.T) {
	const starts = 12
	t.Parallel()
	rnd := random(t)
	s := startServer(t)
	r := newResumer(t, s, true)
	r.connect(firm())
	dir := t.TempDir()
	for i := range starts {
		id := fmt.Sprint("p", i)
		params := startParams(id, streamProgram(t, nil, "source", "10000"))
		params["argv"] = append([]string{"/bin/sh", "-c", `echo run >>"$0"; exec "$@"`, filepath.Join(dir, id)}, params["argv"].([]string)...)
		params["startToken"] = "token of " + id

		r.takeover = true
		b := firm()
		b.how = breakage(i) % breakages
		c := r.connect(b)
		switch i % 3 {
		case 0:
			b.up.Store(1 + rnd.Int64N(int64(len(jsonText(params))))) // within the start
		case 1:
			b.down.Store(1 + rnd.Int64N(200)) // within the answer, or after
		}
		c.request("process/start", params)
		r.had = map[string]*had{id: newHad()}
		if i%3 < 2 {
			c.awaitEnd()
			r.absorb(c)
		} // otherwise the session is taken over during the start

		r.takeover = true
		c = r.connect(firm())
		again := c.lastID.Add(1)
		c.send(obj{"id": again, "method": "process/start", "params": params}) // sent without request: seq continues on this connection
		if answer := c.reply(again); resultOf(answer)["processId"] != id {
			t.Fatalf("start again: %s", jsonText(answer))
		}
		r.finish(c, id+" stdout")
		params["startToken"] = "another"
		if code, text := c.callError("process/start", params); code != -32600 {
			t.Errorf("start with another token: %d %s, want -32600", code, text)
		}
		if runs, err := os.ReadFile(filepath.Join(dir, id)); string(runs) != "run\n" {
			t.Errorf("%q ran %q (%v), want once", id, runs, err)
		}
	}
}

// TestAck: with the capability, only session/ack acknowledges. After a crash of the client,
// unacknowledged output is still there, even if it was read.
func TestAck(t *testing.T) { onEveryWire(t, testAck) }

func testAck(t *testing.T, s *server) {
	const size = 2 << 20
	acks := obj{"ack": true}
	c := s.session(obj{"capabilities": acks})
	p := c.start("p", streamProgram(t, nil, "source", fmt.Sprint(size)))
	c.awaitFact("most of what the server may keep", func() bool { return len(p.join("stdout")) > nearlyFull })
	eventually(t, "the process waits", func() bool { return unacked(c, "p") > nearlyFull })
	c.cutRST()

	check, acked := stream.NewChecker(1), int64(0)
	for crashes := 3; ; crashes-- {
		c = s.session(obj{"resumeSessionId": c.sessionID, "capabilities": acks, "resumeFrom": obj{"p": acked}})
		p = c.process("p")
		taken, closed := 0, false
		for want := check.Bytes() + int64(size/5); !closed && (crashes == 0 || check.Bytes() < want); {
			var chunks []outputChunk
			c.awaitFact("more output", func() bool {
				chunks, closed = p.chunks[taken:], p.closed
				return len(chunks) > 0 || closed
			})
			for _, chunk := range chunks {
				if _, err := check.Write(chunk.data); err != nil {
					t.Fatalf("seq %d after a resume from %d: %v", chunk.seq, acked, err)
				}
				acked = chunk.seq
			}
			taken += len(chunks)
			c.notify("session/ack", obj{"processes": obj{"p": acked}})
		}
		if closed {
			break
		}
		c.cutRST() // the client loses the output since its last ack
	}
	if err := check.End(); err != nil {
		t.Error(err)
	}
	for range 2000 { // many more than may be parked: these do not wait
		c.notify("session/ack", obj{"processes": obj{"p": acked}})
	}
	if first := num(c.call("process/read", obj{"processId": "p", "maxBytes": 1})["firstSeq"]); first < 2 {
		t.Errorf("firstSeq %d: nothing of %d bytes has gone, though all was acknowledged", first, size)
	}
}

// TestResumeBehindTheEnd: a client that claims a seq of the future gets an error, and may try again
// with its true seq.
func TestResumeBehindTheEnd(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(nil)
	p := c.start("p", obj{"argv": sh("echo one; read x; echo two"), "pipeStdin": true})
	p.awaitOutput("stdout", "one\n")
	c.cutRST()
	c = s.session(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"p": 2}})
	if code, reason := c.awaitClose(); code != 1002 || !strings.Contains(reason, "resumeFrom") || !strings.Contains(reason, "seq 2") {
		t.Errorf("Close %d %q, want 1002 and what is wrong with resumeFrom", code, reason)
	}
	c = s.session(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"p": 1}})
	p = c.process("p")
	p.write("\n")
	if code, stdout := p.awaitClosed(); code != 0 || stdout != "two\n" || p.first != 2 {
		t.Errorf("exit code %d, then %q from seq %d on; want two from seq 2 on", code, stdout, p.first)
	}
}
