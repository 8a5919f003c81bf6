package actors

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/command/dialect"
	"github.com/b6f6fdd7/troupe/actors/connection/window"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// drainTime is how long the output of a command is awaited after its exit, while
	// others hold it open; drainQuiet is how long after the last of it that came since, where
	// the dialect says so.
	drainTime  = 2 * time.Second
	drainQuiet = 50 * time.Millisecond
	// drainChunks is the most that is taken of what is there when that is over.
	drainChunks = 256
	// maxCommandOutput is how much output the commands of a connection may hold that
	// is not passed on before they end, in bytes.
	maxCommandOutput = 64 << 20
)

type (
	// parcel is for the writer, once for each Pull.
	parcel struct {
		key      commandKey
		out      []outgoing
		bytes    int64
		to       uint64 // of the process: for an Ack
		ackEvery int64
		last     bool
		// answer has the token and the result of the start, for what out has no other way to
		// say; nil: it was answered, or is not yet to be.
		answer *message.Reply
	}
	drainDue struct{}
	quietDue struct{ chunks int }
)

// command is the actor of one program of the sister APIs, and the owner of the session
// that it runs in. It lives under its connection, and the session no longer than it.
type command struct {
	// Fixed at spawn.
	spec       *dialect.Spec
	key        commandKey // what the connection calls it
	from       string     // see Attach
	troupe     *actor.PID
	connection *actor.PID
	store      *heldOutput // of all commands of the connection

	// Owned by Receive.
	start   uint64 // token of the start
	started bool   // it was answered, or need not be
	ended   bool   // its end was told
	session *actor.PID
	process message.ProcessRef // its PID is nil before it has started
	waiting []heldCall         // for the start; bounded by the admission
	calls   map[uint64]*runningCall
	token   uint64 // of the newest Request

	pulled   bool // the connection wants the next parcel
	last     uint64
	out      [2]commandStream
	held     int64 // bytes of output
	exited   bool
	closed   bool // nothing more comes
	left     bool // nor is anything more to be told
	noMore   bool // of its stdin, the client said
	code     int
	chunks   int    // of output since the exit
	draining bool   // the time for that is over
	until    uint64 // and then it ends here; 0: not yet known
	end      *dialect.End
	drainAt  env.Alarm
	quietAt  env.Alarm
}

// heldOutput counts the output that the commands of one connection hold until they end. Any
// goroutine may use it.
type heldOutput struct {
	bytes  atomic.Int64
	memory *budget.Account // of the connection
}

// heldCopies is how often output is in memory when a command ends: as it came, as text, and as it
// is written.
const heldCopies = 3

// take counts n more bytes, if there is room for them.
func (h *heldOutput) take(n int64) bool {
	if h.bytes.Add(n) > maxCommandOutput || !h.memory.Try(int(heldCopies*n)) {
		h.bytes.Add(-n)
		return false
	}
	return true
}

func (h *heldOutput) give(n int64) {
	h.bytes.Add(-n)
	h.memory.Give(int(heldCopies * n))
}

// GiveBack is for a parcel that the connection did not live to handle.
func (m parcel) GiveBack() {
	for _, o := range m.out {
		if o.written != nil {
			o.written()
		}
	}
}

// commandStream is what there was of stdout or stderr.
type commandStream struct {
	data []byte // unless it was passed on
	n    int64
	full bool // the rest is dropped
}

type heldCall struct {
	token uint64
	call  dialect.Call
}

// runningCall is a call that the process has yet to answer.
type runningCall struct {
	token uint64 // of the connection
	call  dialect.Call
	left  int  // requests without an answer
	over  bool // one came too late

	describe bool // it is ours, and asks how far the process has come
}

func (c *command) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		c.calls = make(map[uint64]*runningCall)
	case *actor.Stopping:
		c.drainAt.Stop()
		c.quietAt.Stop()
		c.store.give(c.held)
		c.held = 0
	case *actor.Terminated:
		if c.left { // what the program had started is gone, too
			ctx.Stop(ctx.Self())
			return
		}
		c.lost(ctx, "its session has ended")

	case message.Attached:
		c.session = m.Session
		ctx.Watch(m.Session)
		ctx.Request(m.Session, message.Request{Params: c.spec.Params})
	case message.Reply:
		c.reply(ctx, m)
	case message.Delivery:
		c.delivery(ctx, m)
	case message.Resubscribe:
		c.subscribe(ctx, message.Subscribe{After: c.last, Resumed: true})
	case message.ProcessRemoved:
		c.lost(ctx, m.Reason)
	case drainDue:
		c.drained(ctx)
	case quietDue:
		if m.chunks == c.chunks {
			c.drained(ctx)
		}

	case message.Request:
		c.request(ctx, m)
	case message.Pull:
		c.pulled = true
		c.goOn(ctx)
	case message.Ack:
		ctx.Request(c.process.PID, m)
	}
}

func (c *command) request(ctx actor.Context, m message.Request) {
	switch call := m.Params.(type) {
	case message.StartCommand:
		c.start, c.pulled = m.Token, true
		ctx.Request(c.troupe, message.Attach{Ephemeral: true, From: c.from, Options: protocol.SessionOptions{Name: c.spec.Dialect.API()}})
	case dialect.Call:
		if c.process.PID == nil {
			c.waiting = append(c.waiting, heldCall{m.Token, call})
			return
		}
		c.call(ctx, m.Token, call)
	}
}

func (c *command) answer(ctx actor.Context, token uint64, result any, err *protocol.Error) {
	ctx.Request(c.connection, message.Reply{Token: token, Result: result, Err: err})
}

func (c *command) call(ctx actor.Context, token uint64, call dialect.Call) {
	if c.exited {
		result, err := c.spec.Dialect.Over(c.spec.Name, call)
		c.answer(ctx, token, result, err)
		return
	}
	if err := c.spec.Refuses(call, c.noMore); err != nil {
		c.answer(ctx, token, nil, err)
		return
	}
	c.noMore = c.noMore || call.CloseStdin
	var params []any
	if call.Write != nil {
		params = append(params, protocol.ProcessWriteParams{Chunk: *call.Write, WriteID: strconv.FormatUint(c.token, 36)})
	}
	if call.CloseStdin {
		params = append(params, protocol.ProcessCloseStdinParams{})
	}
	if call.Resize != nil {
		params = append(params, protocol.ProcessResizeParams{Size: *call.Resize})
	}
	if call.Kill {
		params = append(params, message.KillTreeRequest{})
	}
	r := &runningCall{token: token, call: call, left: len(params)}
	for _, p := range params {
		c.ask(ctx, p, r)
	}
}

func (c *command) ask(ctx actor.Context, params any, r *runningCall) {
	c.token++
	c.calls[c.token] = r
	ctx.Request(c.process.PID, message.Request{Token: c.token, Params: params})
}

func (c *command) reply(ctx actor.Context, m message.Reply) {
	if m.Token != 0 {
		c.callReply(ctx, m)
		return
	}
	started, ok := m.Result.(message.Started)
	if !ok {
		c.refuse(ctx, m.Err)
		return
	}
	c.process = started.Process
	c.spec.Params = protocol.ProcessStartParams{TTY: c.spec.Params.TTY} // the process has the rest
	if result := c.spec.Dialect.Started(c.spec.Name); result != nil {
		c.started = true
		c.answer(ctx, c.start, result, nil)
	}
	c.subscribe(ctx, message.Subscribe{})
	for _, h := range c.waiting {
		c.call(ctx, h.token, h.call)
	}
	c.waiting = nil
}

// refuse answers a start that has failed, and ends the command.
func (c *command) refuse(ctx actor.Context, err *protocol.Error) {
	c.answer(ctx, c.start, nil, c.spec.NotStarted(err))
	for _, h := range c.waiting {
		result, err := c.spec.Dialect.Unknown(c.spec.Name, h.call)
		c.answer(ctx, h.token, result, err)
	}
	c.started, c.ended = true, true
	ctx.Stop(ctx.Self())
}

func (c *command) callReply(ctx actor.Context, m message.Reply) {
	r := c.calls[m.Token]
	if r == nil {
		return
	}
	delete(c.calls, m.Token)
	if r.describe {
		c.until = c.last // if it could not say
		if info, ok := m.Result.(protocol.ProcessInfo); ok {
			c.until = min(info.NextSeq-1, c.last+drainChunks)
		}
		c.goOn(ctx)
		return
	}
	switch result := m.Result.(type) {
	case protocol.ProcessWriteResult:
		r.over = result.Status != protocol.WriteAccepted
	case protocol.ProcessTerminateResult:
		r.over = !result.Running
	}
	if r.left--; r.left > 0 && m.Err == nil {
		return
	}
	switch {
	case r.left < 0: // it was answered
	case m.Err != nil:
		r.left = 0
		c.answer(ctx, r.token, nil, m.Err)
	case r.over:
		result, err := c.spec.Dialect.Over(c.spec.Name, r.call)
		c.answer(ctx, r.token, result, err)
	default:
		c.answer(ctx, r.token, c.spec.Dialect.Called(r.call), nil)
	}
}

// subscribe has the process deliver.
func (c *command) subscribe(ctx actor.Context, m message.Subscribe) {
	m.Owner, m.Pull = true, deliveryBytes
	if c.spec.Stream && !c.ended && !c.pulled {
		m.Pull = 0
	}
	ctx.Request(c.process.PID, m)
}

func (c *command) delivery(ctx actor.Context, m message.Delivery) {
	if len(m.Entries) == 0 || m.Entries[0].Seq != c.last+1 {
		m.Release()
		c.subscribe(ctx, message.Subscribe{After: c.last, Resumed: true})
		return
	}
	p := parcel{ackEvery: m.AckEvery}
	for i := range m.Entries {
		e := &m.Entries[i]
		c.last = e.Seq
		switch e.Kind {
		case outlog.Output:
			c.output(ctx, &p, e)
		case outlog.Exited:
			c.exit(ctx, e.Status)
		case outlog.Closed:
			c.closed = true
		}
	}
	if p.to = c.last; len(p.out) > 0 {
		p.out = append(p.out, outgoing{written: m.Release})
		c.send(ctx, p)
	} else {
		m.Release()
		ctx.Request(c.process.PID, message.Ack{From: 0, To: p.to}) // it may overtake that of a parcel
	}
	c.goOn(ctx)
}

// output passes a piece of output on, or keeps it for the end.
func (c *command) output(ctx actor.Context, p *parcel, e *outlog.Entry) {
	if c.exited && !c.ended {
		if c.chunks++; c.spec.Quiet {
			c.quietAt.Set(ctx, drainQuiet, quietDue{c.chunks})
		}
	}
	stream := protocol.Stdout
	if e.Stream == protocol.Stderr {
		stream = protocol.Stderr
	}
	out := &c.out[stream-protocol.Stdout]
	if out.full || c.ended {
		return
	}
	data := e.Data
	if left := c.spec.Limit - out.n; int64(len(data)) >= left {
		data, out.full = data[:left], true
	}
	out.n += int64(len(data))
	if c.spec.Stream {
		method, params := c.spec.Dialect.Delta(c.spec.Name, stream, data, out.full)
		p.out = append(p.out, outgoing{method: method, body: params})
		p.bytes += window.EntryBytes + int64(len(data))
		return
	}
	if !c.store.take(int64(len(data))) {
		out.full = true
		return
	}
	c.held += int64(len(data))
	out.data = append(out.data, data...)
}

func (c *command) exit(ctx actor.Context, status *protocol.ExitStatus) {
	c.exited, c.code = true, status.ExitCode
	if status.TimedOut {
		c.code = dialect.TimedOutCode
	}
	c.drainAt.Set(ctx, drainTime, drainDue{})
}

// drained stops waiting for descendants that hold the output open. Output that is queued is still
// delivered.
func (c *command) drained(ctx actor.Context) {
	if !c.draining && !c.ended {
		c.draining = true
		c.ask(ctx, message.DescribeRequest{}, &runningCall{describe: true})
	}
}

// goOn does what can be done now.
func (c *command) goOn(ctx actor.Context) {
	if c.end == nil && (c.closed || c.until > 0 && c.last >= c.until) {
		c.finish()
	}
	if c.end != nil && c.pulled && !c.ended {
		c.tellEnd(ctx)
	}
	switch {
	case c.closed && c.ended:
		c.leave(ctx)
	case c.closed, c.spec.Stream && !c.ended && !c.pulled:
	default: // once its end was told, its output is read and dropped
		ctx.Request(c.process.PID, message.Pull{Bytes: deliveryBytes})
	}
}

// leave waits for what the program has started and left behind: it may go on until the connection
// ends, which ends this actor and so the session.
func (c *command) leave(ctx actor.Context) {
	if !c.left {
		c.left = true
		ctx.Request(c.process.PID, message.Ack{From: 0, To: c.last})
		ctx.Request(c.process.PID, message.Unsubscribe{})
		ctx.Watch(c.process.PID)
	}
}

// finish makes the end of what there is.
func (c *command) finish() {
	c.end = &dialect.End{Code: c.code, DrainTimedOut: !c.closed}
	for i := range c.out {
		out := &c.out[i]
		c.end.Output[i], c.end.CapReached[i] = text(out.data, out.full), out.full
		out.data = nil
	}
}

func (c *command) tellEnd(ctx actor.Context) {
	p := parcel{to: c.last, last: true, bytes: int64(window.EntryBytes + len(c.end.Output[0]) + len(c.end.Output[1]))}
	method, body := c.spec.Dialect.Ended(c.spec.Name, *c.end)
	if method != "" {
		p.out = []outgoing{{method: method, body: body}}
	} else {
		p.answer = &message.Reply{Token: c.start, Result: body}
	}
	c.ended, c.end.Output = true, [2]string{}
	c.drainAt.Stop()
	c.quietAt.Stop()
	if held, store := c.held, c.store; held > 0 {
		p.out = append(p.out, outgoing{written: func() { store.give(held) }})
		c.held = 0
	}
	c.send(ctx, p)
}

func (c *command) send(ctx actor.Context, p parcel) {
	c.pulled, p.key = false, c.key
	ctx.Request(c.connection, p)
}

// lost ends a command whose process is out of reach.
func (c *command) lost(ctx actor.Context, why string) {
	err := protocol.Errorf(protocol.CodeInternal, "the command was lost: %s", why)
	switch {
	case c.ended || c.end != nil:
	case !c.started:
		c.refuse(ctx, err)
		return
	default:
		if c.finish(); !c.exited {
			c.end.Code = dialect.LostCode
		}
	}
	c.closed = true
	c.goOn(ctx)
}

// text is b with U+FFFD for what is not UTF-8, as Unicode recommends: one for each part that could
// have begun a character. What was cut off in a character ends before it.
func text(b []byte, cut bool) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var s strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			if cut && !utf8.FullRune(b) {
				break
			}
			for n < len(b) && !utf8.FullRune(b[:n+1]) {
				n++
			}
		}
		s.WriteRune(r)
		b = b[n:]
	}
	return s.String()
}
