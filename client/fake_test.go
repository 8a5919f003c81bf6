package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// A fake is an in-memory server of a single session. Its programs are Go functions. The rest follows
// the wire: a log per process with a cursor per connection, replay from resumeFrom, and writes and
// starts applied once.
type fake struct {
	programs map[string]func(*fakeProcess)
	window   uint64 // bytes of unacknowledged output per process; zero: no bound

	mu       sync.Mutex
	changed  *sync.Cond
	procs    map[string]*fakeProcess
	conn     *fakeConn // the attached connection
	hellos   []protocol.InitializeParams
	gone     bool                                        // the fake no longer knows the session
	repeats  bool                                        // a resume replays everything, ignoring resumeFrom
	checks   map[string]func(p *fakeProcess, seq uint64) // by process id: called for each ack
	refuses  string                                      // a request with this method is refused
	refused  int                                         // how many were
	poison   string                                      // a request with this method cuts the connection
	most     int64                                       // bytes of a message, as announced; zero: not announced
	busy     int                                         // how many resumes to refuse as attached elsewhere
	closed   bool                                        // session/close was called
	evicts   bool                                        // session/evicted precedes the answer to session/close
	name     string                                      // of the server; "": the server does not say its name
	acks     int
	programN sync.WaitGroup
}

// A fakeProcess is a process of the fake; fake.mu guards its fields.
type fakeProcess struct {
	f      *fake
	params protocol.ProcessStartParams

	log      []any    // notifications; seq is index + 1, except for gaps
	size     []uint64 // bytes of each notification
	acked    uint64
	stdin    bytes.Buffer
	eof      bool
	shut     bool // the program has closed its stdin
	writes   map[string]bool
	signals  []protocol.Signal
	killed   bool
	tree     bool   // whether terminate asked for the whole tree
	run      uint64 // of terminate
	exitCode int
	exitLost bool   // the server no longer has the exit
	gaveUp   string // why the server does not run the program again; "": it never wanted to
	ended    bool
}

type fakeConn struct {
	transport.Conn
	live    bool
	dead    bool
	owner   bool // of the session: only an owner acknowledges
	replies [][]byte
	cursor  map[string]uint64 // process id → seq sent
}

// wire is the codec of the fake: JSON, as every server speaks.
var wire = protocol.JSON

func newFake(programs map[string]func(*fakeProcess)) *fake {
	f := &fake{programs: programs, name: "fake", procs: make(map[string]*fakeProcess)}
	f.changed = sync.NewCond(&f.mu)
	return f
}

func (f *fake) dial(context.Context) (transport.Conn, error) {
	a, b := transport.Pipe("")
	go f.serve(&fakeConn{Conn: b, cursor: make(map[string]uint64)})
	return a, nil
}

// through is dial for a client that uses its connections by way of wrap.
func (f *fake) through(wrap func(transport.Conn) transport.Conn) func(context.Context) (transport.Conn, error) {
	return func(ctx context.Context) (transport.Conn, error) {
		conn, err := f.dial(ctx)
		return wrap(conn), err
	}
}

// A hooked connection tells a test of what the client does. A hook may be nil.
type hooked struct {
	transport.Conn
	write func(msg []byte) (lost bool) // before each message; lost: the kernel took the message, and nobody gets it
	read  func()                       // after each message
	close func()                       // before
}

func (c hooked) WriteMessage(msg []byte, binary bool) error {
	if c.write != nil && c.write(msg) {
		return nil
	}
	return c.Conn.WriteMessage(msg, binary)
}

func (c hooked) ReadMessage() ([]byte, error) {
	msg, err := c.Conn.ReadMessage()
	if c.read != nil {
		c.read()
	}
	return msg, err
}

func (c hooked) Close(code int, reason string) error {
	if c.close != nil {
		c.close()
	}
	return c.Conn.Close(code, reason)
}

// held makes a connection deliver the first message, and the others when hold is closed.
func held(hold chan struct{}) func(transport.Conn) transport.Conn {
	return func(conn transport.Conn) transport.Conn {
		reads := 0
		return hooked{Conn: conn, read: func() {
			if reads++; reads > 1 {
				<-hold
			}
		}}
	}
}

// records writes what the client writes to a buffer, a message a line, and calls then before a message passes.
func records(wrote *bytes.Buffer, then func(msg []byte)) func(transport.Conn) transport.Conn {
	return func(conn transport.Conn) transport.Conn {
		return hooked{Conn: conn, write: func(msg []byte) bool {
			wrote.Write(append(msg, '\n'))
			then(msg)
			return false
		}}
	}
}

func (f *fake) serve(conn *fakeConn) {
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		f.send(conn)
	}()
	for {
		frame, err := conn.ReadMessage()
		if err != nil {
			break
		}
		m, err := wire.Decode(frame)
		if err != nil {
			panic(err)
		}
		f.mu.Lock()
		if m.Kind == protocol.Request {
			result, failure := f.handle(conn, m)
			var reply []byte
			if failure != nil {
				reply, err = wire.AppendFailure(nil, m.ID, failure)
			} else {
				reply, err = wire.AppendResponse(nil, m.ID, result)
			}
			if err != nil {
				panic(err)
			}
			conn.replies = append(conn.replies, reply)
		} else {
			f.notified(conn, m)
		}
		f.changed.Broadcast()
		f.mu.Unlock()
	}
	f.mu.Lock()
	conn.dead = true
	f.changed.Broadcast()
	f.mu.Unlock()
	conn.Close(1000, "")
	<-sent
}

// send writes replies first, then output round robin.
func (f *fake) send(conn *fakeConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !conn.dead {
		var frames [][]byte
		frames, conn.replies = conn.replies, nil
		if len(frames) == 0 && conn.live && f.conn == conn {
			frames = f.next(conn)
		}
		if len(frames) == 0 {
			f.changed.Wait()
			continue
		}
		last := f.closed // the server closes the connection after its answer to session/close
		f.mu.Unlock()
		for _, frame := range frames {
			if conn.WriteMessage(frame, false) != nil {
				break
			}
		}
		conn.Flush()
		if last {
			conn.Close(transport.CloseNormal, "session closed by request")
		}
		f.mu.Lock()
	}
}

// next takes an event of each process whose window has room.
func (f *fake) next(conn *fakeConn) (frames [][]byte) {
	for _, id := range slices.Sorted(maps.Keys(f.procs)) {
		p := f.procs[id]
		at, named := conn.cursor[id]
		for at < uint64(len(p.log)) && p.log[at] == nil {
			at++
		}
		if !named || at >= uint64(len(p.log)) {
			continue
		}
		unacked := uint64(0)
		for seq := p.acked; seq < at; seq++ {
			unacked += p.size[seq]
		}
		if f.window > 0 && unacked >= f.window {
			continue
		}
		conn.cursor[id] = at + 1
		frames = append(frames, notification(p.log[at]))
	}
	return frames
}

func notification(n any) []byte {
	var method string
	switch n.(type) {
	case protocol.OutputNotification:
		method = protocol.NotifyOutput
	case protocol.ExitedNotification:
		method = protocol.NotifyExited
	case protocol.ClosedNotification:
		method = protocol.NotifyClosed
	case protocol.GapNotification:
		method = protocol.NotifyGap
	case protocol.EvictedNotification:
		method = protocol.NotifyEvicted
	case protocol.RestartedNotification:
		method = protocol.NotifyRestarted
	case protocol.HTTPBodyDeltaNotification:
		method = protocol.NotifyHTTPBodyDelta
	case protocol.SessionEvictedNotification:
		method = protocol.NotifySessionEvicted
	}
	frame, err := wire.AppendNotification(nil, method, n)
	if err != nil {
		panic(err)
	}
	return frame
}

func (f *fake) notified(conn *fakeConn, m protocol.Message) {
	switch m.Method {
	case protocol.MethodInitialized:
		for id, seq := range conn.cursor {
			if p := f.procs[id]; p != nil && seq > uint64(len(p.log)) {
				conn.Close(transport.CloseProtocolError, fmt.Sprintf("resumeFrom: process %s has no seq %d yet", id, seq))
			}
		}
		conn.live = true
	case protocol.MethodSessionAck:
		var a protocol.SessionAckParams
		must(wire.Unmarshal(m.Payload, &a))
		f.acks++
		for id, seq := range a.Processes {
			if p := f.procs[id]; p != nil && conn.owner { // an observer may mean an earlier process of this name
				if seq > uint64(len(p.log)) {
					panic("ack of what was never sent")
				}
				if check := f.checks[id]; check != nil {
					check(p, seq)
				}
				p.acked = max(p.acked, seq)
			}
		}
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (f *fake) handle(conn *fakeConn, m protocol.Message) (any, *protocol.Error) {
	params := func(v any) { must(wire.Unmarshal(m.Payload, v)) }
	if m.Method != protocol.MethodInitialize && !conn.live {
		return nil, protocol.Errorf(protocol.KindOrder, protocol.CodeInvalidRequest, "%s before initialized", m.Method)
	}
	switch m.Method {
	case f.refuses:
		f.refused++
		return nil, protocol.Errorf(protocol.KindPolicy, protocol.CodeInvalidRequest, "%s is not allowed here", m.Method)
	case f.poison:
		conn.Close(1006, "poison")
		return protocol.Empty{}, nil
	case protocol.MethodInitialize:
		var p protocol.InitializeParams
		params(&p)
		f.hellos = append(f.hellos, p)
		if p.ResumeSessionID != nil {
			if f.gone || *p.ResumeSessionID != "s1" {
				return nil, protocol.Errorf(protocol.KindUnknownSession, protocol.CodeInvalidRequest, "unknown session id %s", *p.ResumeSessionID)
			}
			if f.busy > 0 {
				f.busy--
				return nil, protocol.Errorf(protocol.KindAttached, protocol.CodeAlreadyAttached, "session s1 is already attached to another connection")
			}
		}
		conn.owner = p.Role == ""
		if conn.owner { // an owner gets processes that it does not name, too
			for id, proc := range f.procs {
				conn.cursor[id] = proc.acked
			}
		}
		for id, seq := range p.ResumeFrom {
			if f.repeats {
				seq = 0
			}
			conn.cursor[id] = seq
		}
		f.conn = conn
		return protocol.InitializeResult{
			SessionID:       "s1",
			Limits:          protocol.Limits{RetentionBytes: int64(f.window), MaxMessageBytes: f.most},
			Server:          protocol.ServerInfo{Name: f.name, Version: "1"},
			EnvironmentInfo: &protocol.EnvironmentInfo{Cwd: "file:///srv", PrependPathDirs: []string{}, TemporaryDirectories: []string{}, Capabilities: map[string]bool{}},
		}, nil
	case protocol.MethodProcessStart:
		var p protocol.ProcessStartParams
		params(&p)
		if old := f.procs[p.ProcessID]; old != nil {
			if p.StartToken == "" || old.params.StartToken != p.StartToken {
				return nil, protocol.Errorf(protocol.KindExists, protocol.CodeInvalidRequest, "process %s already exists", p.ProcessID)
			}
			return protocol.ProcessStartResult{ProcessID: p.ProcessID}, nil
		}
		program := f.programs[p.Argv[0]]
		if program == nil {
			return nil, protocol.Errorf(protocol.KindNoProgram, protocol.CodeInternal, "no such program %q", p.Argv[0])
		}
		f.start(p)
		return protocol.ProcessStartResult{ProcessID: p.ProcessID, SandboxType: "none"}, nil
	case protocol.MethodProcessWrite:
		var w protocol.ProcessWriteParams
		params(&w)
		p := f.procs[w.ProcessID]
		switch {
		case p == nil:
			return protocol.ProcessWriteResult{Status: protocol.WriteUnknownProcess}, nil
		case p.ended, p.shut:
			return protocol.ProcessWriteResult{Status: protocol.WriteStdinClosed}, nil
		case !p.writes[w.WriteID]:
			if p.eof {
				panic("write after closeStdin")
			}
			p.writes[w.WriteID] = true
			p.stdin.Write(w.Chunk)
		}
		return protocol.ProcessWriteResult{Status: protocol.WriteAccepted}, nil
	case protocol.MethodProcessCloseStdin:
		var w protocol.ProcessCloseStdinParams
		params(&w)
		f.procs[w.ProcessID].eof = true
		return protocol.Empty{}, nil
	case protocol.MethodProcessSignal:
		var s protocol.ProcessSignalParams
		params(&s)
		f.procs[s.ProcessID].signals = append(f.procs[s.ProcessID].signals, s.Signal)
		return protocol.Empty{}, nil
	case protocol.MethodProcessTerminate:
		var t protocol.ProcessTerminateParams
		params(&t)
		p := f.procs[t.ProcessID]
		if p != nil && !p.ended {
			p.killed, p.tree, p.run = true, t.Tree, t.Run
		}
		return protocol.ProcessTerminateResult{Running: p != nil && !p.ended}, nil
	case protocol.MethodProcessSubscribe:
		var s protocol.ProcessSubscribeParams
		params(&s)
		switch p := f.procs[s.ProcessID]; {
		case p == nil || s.Instance != "" && s.Instance != p.instance():
			return nil, protocol.Errorf(protocol.KindUnknownProcess, protocol.CodeInvalidRequest, "unknown process id %s", s.ProcessID)
		case s.AfterSeq > uint64(len(p.log)):
			return nil, protocol.WrongParams("process %s has no seq %d yet, the last is %d", s.ProcessID, s.AfterSeq, len(p.log))
		default:
			conn.cursor[s.ProcessID] = s.AfterSeq
			return p.info(), nil
		}
	case protocol.MethodProcessList:
		list := []protocol.ProcessInfo{}
		for _, p := range f.procs {
			list = append(list, p.info())
		}
		return protocol.ProcessListResult{Processes: list}, nil
	case protocol.MethodSessionClose:
		f.closed, f.gone = true, true
		for _, p := range f.procs {
			p.killed = true
		}
		if f.evicts {
			conn.replies = append(conn.replies, notification(protocol.SessionEvictedNotification{Reason: "session closed by request"}))
		}
		return protocol.Empty{}, nil
	}
	return nil, protocol.Errorf(protocol.KindMethod, protocol.CodeMethodNotFound, "%s", m.Method)
}

// start starts a program, and shows it to the attached connection. f.mu is held.
func (f *fake) start(params protocol.ProcessStartParams) {
	p := &fakeProcess{f: f, params: params, writes: make(map[string]bool)}
	f.procs[params.ProcessID] = p
	f.conn.cursor[params.ProcessID] = 0
	program := f.programs[params.Argv[0]]
	f.programN.Go(func() {
		program(p)
		p.exit()
	})
}

// spawn starts a program for another client.
func (f *fake) spawn(program, id string) {
	f.lock(func() { f.start(protocol.ProcessStartParams{ProcessID: id, Argv: []string{program}}) })
}

// lock runs do with f.mu held, and then wakes everybody who waits.
func (f *fake) lock(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	f.changed.Broadcast()
}

// await waits until is returns true.
func (f *fake) await(is func() bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !is() {
		f.changed.Wait()
	}
}

// tell sends a notification about the session itself.
func (f *fake) tell(n any) {
	f.lock(func() { f.conn.replies = append(f.conn.replies, notification(n)) })
}

// instance is another for each process.
func (p *fakeProcess) instance() string { return fmt.Sprintf("%p", p) }

func (p *fakeProcess) info() protocol.ProcessInfo {
	info := protocol.ProcessInfo{ProcessID: p.params.ProcessID, State: "running", Argv: p.params.Argv, NextSeq: uint64(len(p.log)) + 1}
	if p.ended {
		info.State = "closed"
		info.Status = &protocol.ExitStatus{ExitCode: p.exitCode}
	}
	return info
}

// The methods below are for programs. A killed program reads the end of its stdin.

func (p *fakeProcess) append(n any, size int) {
	p.log = append(p.log, n)
	p.size = append(p.size, uint64(size))
	p.f.changed.Broadcast()
}

func (p *fakeProcess) print(s protocol.Stream, data string) {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	seq := uint64(len(p.log)) + 1
	p.append(protocol.OutputNotification{ProcessID: p.params.ProcessID, Seq: seq, Stream: s, Chunk: []byte(data)}, len(data))
}

// lose drops n events, and reports a gap if report is true.
func (p *fakeProcess) lose(n int, report bool) {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	from := uint64(len(p.log)) + 1
	for range n - 1 {
		p.append(nil, 0)
	}
	to := uint64(len(p.log)) + 1
	if !report {
		p.append(nil, 0)
		return
	}
	p.append(protocol.GapNotification{ProcessID: p.params.ProcessID, Seq: to, FromSeq: from, ToSeq: to, Bytes: 7, Reason: "evicted"}, 0)
}

// evict makes the server give the process up.
func (p *fakeProcess) evict(reason string) {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	p.append(protocol.EvictedNotification{ProcessID: p.params.ProcessID, Seq: uint64(len(p.log)) + 1, Reason: reason}, 0)
}

func (p *fakeProcess) Read(b []byte) (int, error) {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	for p.stdin.Len() == 0 {
		if p.eof || p.killed {
			return 0, io.EOF
		}
		p.f.changed.Wait()
	}
	return p.stdin.Read(b)
}

// exit does the work of the end of a program.
func (p *fakeProcess) exit() {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	id, seq := p.params.ProcessID, uint64(len(p.log))
	status := protocol.ExitStatus{ExitCode: p.exitCode}
	if p.killed {
		status = protocol.ExitStatus{ExitCode: 137, Signal: "SIGKILL"}
	}
	if p.exitLost {
		p.append(protocol.GapNotification{ProcessID: id, Seq: seq + 1, FromSeq: seq + 1, ToSeq: seq + 1, Reason: "too slow"}, 0)
	} else {
		p.append(protocol.ExitedNotification{ProcessID: id, Seq: seq + 1, ExitStatus: status}, 0)
	}
	if p.gaveUp != "" {
		seq++
		p.append(protocol.EvictedNotification{ProcessID: id, Seq: seq + 1, Reason: p.gaveUp}, 0)
	}
	p.append(protocol.ClosedNotification{ProcessID: id, Seq: seq + 2}, 0)
	p.ended = true
}

var errCut = errors.New("cut by the test")

// A knife cuts connections between messages. A knife counts the messages of all connections, in both
// directions.
type knife struct {
	dial func(context.Context) (transport.Conn, error)
	at   func(n int) (cut, lose bool) // whether to cut after message n, and whether to lose message n

	mu sync.Mutex
	n  int
}

type cutConn struct {
	transport.Conn
	k *knife
}

func (k *knife) Dial(ctx context.Context) (transport.Conn, error) {
	conn, err := k.dial(ctx)
	return &cutConn{conn, k}, err
}

func (k *knife) next() (cut, lose bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n++
	return k.at(k.n)
}

func (c *cutConn) WriteMessage(msg []byte, binary bool) error {
	cut, lose := c.k.next()
	if lose {
		c.Close(1006, "")
		return nil // the kernel took the message
	}
	err := c.Conn.WriteMessage(msg, binary)
	if cut {
		c.Close(1006, "")
	}
	return err
}

func (c *cutConn) ReadMessage() ([]byte, error) {
	msg, err := c.Conn.ReadMessage()
	if err != nil {
		return nil, err
	}
	cut, lose := c.k.next()
	if cut || lose {
		c.Close(1006, "")
	}
	if lose {
		return nil, errCut
	}
	return msg, nil
}
