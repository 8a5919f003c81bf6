package connection

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/connection/queue"
	"github.com/b6f6fdd7/troupe/actors/httpcall"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/protocol"
	"golang.org/x/sync/semaphore"
)

const (
	// maxHTTPCalls is how many requests of a connection are under way at a time: until the last byte
	// of the response was written to the client. allHTTPCalls is the same for all connections.
	maxHTTPCalls = 16
	allHTTPCalls = 1024
	// httpRoom bounds the bodies answered whole, in bytes. Small bodies do not count.
	httpRoom = 2 * httpcall.MaxBody
	// httpUploads bounds the unanswered requests, in bytes. A single request may have more.
	httpUploads = 64 << 20
)

// Messages to a connection from the goroutine of a call.
type (
	httpAnswered struct {
		call   *httpCall
		result protocol.HTTPRequestResult
		taken  int64 // of the room
		err    error
	}
	httpDelta struct {
		call  *httpCall
		delta *protocol.HTTPBodyDeltaNotification
	}
)

// httpCall is a request sent for the client.
type httpCall struct {
	in       inbound // without its params
	turn     queue.Call[*httpCall]
	stream   string // its requestId
	streamed bool   // the body is

	ctx     context.Context // until its time is over, or the connection
	cancel  context.CancelFunc
	due     func() bool       // keeps httpDue from being called
	request *httpcall.Request // nil once the call has begun
	upload  int               // bytes of the request, until the answer
	taken   int64             // of the room, until the answer is written
	memory  *budget.Account   // of the connection
	held    int               // bytes of memory for the answer; owned by the goroutine until httpAnswered
	written chan struct{}     // of a stream: has an item when the next piece may be passed on
}

// httpCalls has the HTTP requests of a connection. Each has a goroutine. The admission closes a
// connection that stays full, but a slow server is not the client's fault. So the admission counts
// only the number of these requests, and at most half of its places may wait for their turn.
type httpCalls struct {
	queue.Queue[*httpCall]                     // a call runs until its whole answer is written
	room                   *semaphore.Weighted // bytes of bodies
	uploads                int                 // bytes of requests without an answer
	ctx                    context.Context     // until the connection ends
	cancel                 context.CancelFunc
	asked                  int             // running calls without an answer
	streams                map[string]bool // by requestId: until the writer has the last piece
}

func newHTTPCalls() *httpCalls {
	ctx, cancel := context.WithCancel(context.Background())
	return &httpCalls{Queue: queue.New[*httpCall](maxHTTPCalls, 0), room: semaphore.NewWeighted(httpRoom), ctx: ctx, cancel: cancel, streams: make(map[string]bool)}
}

// end has all of them end; h may be nil.
func (h *httpCalls) end() {
	if h != nil {
		h.cancel()
	}
}

// pending is how many the client has not had all of; h may be nil.
func (h *httpCalls) pending() int {
	if h == nil {
		return 0
	}
	return h.Waiting() + h.Running()
}

// httpRequest takes a request to be sent.
func (c *connection) httpRequest(ctx actor.Context, in inbound, p protocol.HTTPRequestParams) {
	if !c.env.AllowHTTP {
		c.fail(in, protocol.Errorf(protocol.KindOff, protocol.CodeMethodNotFound, "%s is off, because its requests come from the server's network: start the server with --allow-http", in.method))
		return
	}
	if err := wireerr.BadName("requestId", p.RequestID); err != nil {
		c.fail(in, err)
		return
	}
	request, err := httpcall.NewRequest(p)
	if err != nil {
		c.fail(in, wireerr.From(err))
		return
	}
	if c.http == nil {
		c.http = newHTTPCalls()
	}
	h := c.http
	if p.StreamResponse && h.streams[p.RequestID] {
		c.fail(in, protocol.Errorf(protocol.KindExists, protocol.CodeInvalidParams, "http/request streamResponse requestId `%s` is already active", p.RequestID))
		return
	}
	if n := h.Waiting(); n >= c.env.MaxPending/2 {
		c.fail(in, protocol.Errorf(protocol.KindBusy, protocol.CodeInternal, "http/request failed: %d others of this connection wait for their turn, which is the most: try again when some are answered", n))
		return
	}
	upload := in.weight
	if h.uploads > 0 && h.uploads+upload > httpUploads {
		c.fail(in, protocol.Errorf(protocol.KindBusy, protocol.CodeInternal, "http/request failed: requests of this connection with %d bytes are without an answer, and with this one it would be more than %d: try again when some are answered", h.uploads, httpUploads))
		return
	}
	h.uploads += upload
	in.weight = c.admit.lighten(in.weight)
	in.params = nil // drop the body
	call := &httpCall{in: in, memory: c.memory, stream: p.RequestID, streamed: p.StreamResponse, request: request, upload: upload, due: func() bool { return true }}
	call.turn.Of = call
	if t := p.TimeoutMs; t == nil || *t == 0 {
		call.ctx, call.cancel = context.WithCancel(h.ctx)
	} else {
		call.ctx, call.cancel = context.WithTimeoutCause(h.ctx, protocol.FromMillis(*t), fmt.Errorf("it took more than the %d ms of timeoutMs", *t))
		call.due = context.AfterFunc(call.ctx, c.later(ctx, func(c *connection, ctx actor.Context) { c.httpDue(ctx, call) }))
	}
	if call.streamed {
		h.streams[call.stream] = true
		call.written = make(chan struct{}, 1)
		call.written <- struct{}{}
	}
	c.env.Audit.Put(audit.HTTPRequest{Who: c.who(), Method: p.Method, Origin: audit.Text(request.Origin())})
	h.Add(&call.turn)
	c.runHTTP(ctx)
}

// runHTTP begins all calls that may begin, in the order of their requests.
func (c *connection) runHTTP(ctx actor.Context) {
	self, root, h, client := ctx.Self(), ctx.ActorSystem().Root, c.http, c.env.HTTPClient
	for next, ok := h.Next(); ok; next, ok = h.Next() {
		call := next.Of
		h.Begin(next)
		h.asked++
		call.due()
		request, room := call.request, h.room
		call.request = nil
		if c.env.Counts.HTTPCalls.Add(1) > allHTTPCalls {
			c.env.Counts.HTTPCalls.Add(-1)
			ctx.Send(self, httpAnswered{call: call, err: fmt.Errorf("%d requests are under way, which is the most: try again later", allHTTPCalls)})
			continue
		}
		c.env.Run(root, self, "http", func() {
			defer c.env.Counts.HTTPCalls.Add(-1)
			call.make(client, request, room, func(m any) { root.Send(self, m) })
		})
	}
}

// make sends the request, and tells the answer.
func (call *httpCall) make(client *httpcall.Client, request *httpcall.Request, room *semaphore.Weighted, tell func(any)) {
	answer := httpAnswered{call: call}
	response, err := client.Do(call.ctx, request)
	if err != nil {
		answer.err = err
		tell(answer)
		return
	}
	defer response.Close()
	answer.result.Status, answer.result.Headers = response.Status, response.Headers
	if call.streamed {
		tell(answer)
		call.pass(response, tell)
		return
	}
	answer.result.Body, answer.taken, answer.err = response.Whole(bodyRoom{room, call})
	tell(answer)
}

// bodyRoom lends the body of a call the room of its connection, and memory.
type bodyRoom struct {
	*semaphore.Weighted
	call *httpCall
}

func (r bodyRoom) Hold(n int) error {
	if err := r.call.memory.Take(encoded(n), holdTime); err != nil {
		return tryLater(err)
	}
	r.call.held += encoded(n)
	return nil
}

// pass passes the body on in pieces, each once the previous piece has been written. So the writer has
// a piece, and pass has another.
func (call *httpCall) pass(body io.Reader, tell func(any)) {
	var buffers [2][httpcall.ChunkBytes]byte
	for seq := uint64(1); ; {
		buf := buffers[seq%2][:]
		n, err := body.Read(buf)
		if n > 0 {
			select {
			case <-call.written:
			case <-call.ctx.Done():
				n, err = 0, context.Cause(call.ctx)
			}
		}
		if n > 0 {
			tell(httpDelta{call, &protocol.HTTPBodyDeltaNotification{RequestID: call.stream, Seq: seq, Delta: buf[:n]}})
			seq++
		}
		if err != nil {
			last := &protocol.HTTPBodyDeltaNotification{RequestID: call.stream, Seq: seq, Done: true}
			if err != io.EOF {
				why := err.Error()
				last.Error = &why
			}
			tell(httpDelta{call, last})
			return
		}
	}
}

func (c *connection) httpAnswered(ctx actor.Context, m httpAnswered) {
	if c.stage == evicted {
		return
	}
	c.http.uploads -= m.call.upload
	c.admit.lightened(m.call.upload)
	c.http.asked--
	c.finished++
	in := m.call.in
	switch m.call.taken = m.taken; {
	case m.err != nil:
		c.fail(in, httpError(m.err))
	case m.call.streamed: // after the last piece of an earlier stream of the same name
		c.answerInTurn(pending{asked: in.asked}, m.result, nil)
		return
	default:
		c.respond(in, m.result)
	}
	c.writer.control(c.httpOver(ctx, m.call))
}

// httpDelta passes a piece of a body on, through the queue of output, so that answers go first.
func (c *connection) httpDelta(ctx actor.Context, m httpDelta) {
	if c.stage == evicted { // the writer must come to an end; without an answer the call sends no other piece
		return
	}
	c.writer.output(outgoing{method: protocol.NotifyHTTPBodyDelta, body: m.delta})
	if m.delta.Done {
		c.writer.output(c.httpOver(ctx, m.call))
		return
	}
	written := m.call.written
	c.writer.output(outgoing{written: func() { written <- struct{}{} }})
}

// httpOver ends a call after its last piece. The caller queues the returned outgoing after the last piece.
func (c *connection) httpOver(ctx actor.Context, call *httpCall) outgoing {
	call.cancel()
	if call.streamed {
		delete(c.http.streams, call.stream)
	}
	return outgoing{written: c.later(ctx, func(c *connection, ctx actor.Context) {
		c.http.room.Release(call.taken)
		c.memory.Give(call.held)
		c.http.Done(&call.turn, 0)
		c.runHTTP(ctx)
		c.mayClose(ctx)
	})}
}

// httpDue answers a request that got no turn in time. A request that has begun tells its own end.
func (c *connection) httpDue(ctx actor.Context, call *httpCall) {
	if c.http.Waits(&call.turn) {
		c.http.Begin(&call.turn) // until the answer is written
		c.http.asked++
		c.httpAnswered(ctx, httpAnswered{call: call, err: fmt.Errorf("%w, and %d others of this connection were before it", context.Cause(call.ctx), maxHTTPCalls)})
	}
}

// httpError translates err for the wire. (exec-server wire §8.)
func httpError(err error) *protocol.Error {
	kind, code := protocol.KindHTTP, protocol.CodeInternal
	if e, ok := errors.AsType[*httpcall.BodyError](err); ok {
		return protocol.Errorf(kind, code, "failed to read http/request response body: %v", e.Unwrap())
	}
	if errors.Is(err, httpcall.ErrTooLarge) {
		kind, code = protocol.KindTooLarge, protocol.CodeInvalidRequest
	}
	return protocol.Errorf(kind, code, "http/request failed: %v", err)
}
