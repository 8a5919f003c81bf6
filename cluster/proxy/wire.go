package proxy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// wire is the connection of a session: its client, and where the notifications of each process go. Any goroutine may call its methods.
type wire struct {
	// Fixed by newSession, and client before ready is closed.
	o       *Options
	attach  message.Attach
	root    *actor.RootContext
	session *actor.PID // gets the news
	ready   chan struct{}
	client  *client.Client

	asked atomic.Int64 // requests of the host without an answer
	lost  atomic.Bool  // there was a cut

	mu        sync.Mutex
	streams   map[string]reader // by process id
	unknown   bool              // the session has been told of an unknown process
	stopped   bool
	connected bool // client is set
}

// reader is an actor with its stream.
type reader struct {
	stream *stream
	pid    *actor.PID
}

// Messages from the wire to the session.
type (
	dialed  struct{ err error }
	resumed struct{}            // to processes, too
	ended   struct{ err error } // the last message of the wire
	looks   struct{}            // ask for the processes: they may be others
)

// dial connects until ctx is done. dialed follows.
func (w *wire) dial(ctx context.Context) {
	m := w.attach
	o := &client.Options{
		Name:         "troupe-proxy",
		Session:      m.SessionID,
		Takeover:     m.Takeover && (m.Role == "" || m.Role == protocol.RoleOwner),
		Observe:      m.Role == protocol.RoleObserver,
		Control:      m.Role == protocol.RoleController,
		Times:        true,
		ReconnectFor: w.o.ReconnectFor,
		Log:          w.o.Log,
		Dialer:       w.connect,
		Initialize:   w.introduce,
		Notified:     w.notified,
		Lost:         func(error) { w.cut() },
		Resumed:      func() { w.root.Send(w.session, resumed{}) },
		Expiring: func(in time.Duration, reason string) {
			w.root.Send(w.session, message.Expiring{InMs: uint64(in.Milliseconds()), Reason: reason})
		},
		Ended: func(err error) { w.root.Send(w.session, ended{err}) },
	}
	c, err := client.Dial(ctx, "", o)
	w.mu.Lock()
	w.client, w.connected = c, err == nil
	stopped := w.stopped
	w.mu.Unlock()
	close(w.ready)
	if stopped && err == nil {
		c.Close()
	}
	w.root.Send(w.session, dialed{err})
}

// connect opens a connection to the node of the session.
func (w *wire) connect(ctx context.Context) (transport.Conn, error) {
	id := w.attach.SessionID
	if w.lost.Load() { // Dial is about to return, or has
		<-w.ready
		id = w.client.SessionID()
	}
	return w.o.Dial(ctx, id)
}

// introduce changes the initialize of the client.
func (w *wire) introduce(p *protocol.InitializeParams) {
	p.Capabilities.Groups, p.Capabilities.Changes = true, true
	if p.Role == "" {
		p.Role = w.attach.Role
	}
	if p.ResumeSessionID == nil {
		p.Session = w.attach.Options
		p.Session.Ephemeral = p.Session.Ephemeral || w.attach.Ephemeral
	}
}

// close ends the connection, and does not wait.
func (w *wire) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped = true; w.connected {
		go w.client.Close()
	}
}

// cut says: the connection is lost.
func (w *wire) cut() {
	w.lost.Store(true)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.streams {
		r.stream.cut()
	}
}

// route has the notifications of a process go to r.
func (w *wire) route(id string, r reader) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streams[id] = r
}

// unroute ends route, unless another process has the id.
func (w *wire) unroute(id string, pid *actor.PID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.streams[id].pid.Equal(pid) {
		delete(w.streams, id)
	}
}

// listed says: the session asks for the processes. If an unknown process writes from now on, the session asks again.
func (w *wire) listed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unknown = false
}

// call sends a request. done gets the answer, and must not block.
func (w *wire) call(name string, params, result any, done func(*protocol.Error)) {
	w.client.Go(name, params, result, func(err error) { done(w.refusal(err)) })
}

// ask sends a request of a host. done gets the Reply, and must not block.
func (w *wire) ask(m message.Request, how method, params any, done func(message.Reply)) {
	most := int64(w.client.Limits().MaxPendingRequests) * 7 / 8
	if w.asked.Add(1) > most && most > 0 {
		w.asked.Add(-1)
		done(message.Reply{Token: m.Token, Err: protocol.Errorf(protocol.KindBusy, protocol.CodeInvalidRequest, "%d requests wait for their answers: a connection to this node may have no more", most)})
		return
	}
	how = how.mayFind(params)
	if how.empty {
		params = protocol.Empty{}
	}
	result := how.result()
	w.call(how.name, params, result, func(err *protocol.Error) {
		w.asked.Add(-1)
		reply := message.Reply{Token: m.Token, Err: err}
		if err == nil {
			reply.Result = how.reply(result)
		}
		done(reply)
	})
}

// refusal returns the error of the wire in err: nil if err is nil.
func (w *wire) refusal(err error) *protocol.Error {
	if err == nil {
		return nil
	}
	if refused, ok := errors.AsType[*protocol.Error](err); ok {
		return refused
	}
	return protocol.Errorf(protocol.KindEnded, protocol.CodeInvalidRequest, "the session is out of reach: %v", err)
}

// notified takes a notification. The goroutine that reads the connection calls it.
func (w *wire) notified(name string, decode func(any) error) error {
	switch name {
	case protocol.NotifyOutput:
		return take(decode, func(n *protocol.OutputNotification) {
			w.push(n.ProcessID, entry(outlog.Entry{Seq: n.Seq, AtMs: int64(min(n.AtMs, math.MaxInt64)), Kind: outlog.Output, Stream: n.Stream, Data: n.Chunk}))
		})
	case protocol.NotifyExited:
		return take(decode, func(n *protocol.ExitedNotification) {
			w.push(n.ProcessID, now(outlog.Entry{Seq: n.Seq, Kind: outlog.Exited, Status: &n.ExitStatus, Denied: n.SandboxDenied}))
		})
	case protocol.NotifyRestarted:
		return take(decode, func(n *protocol.RestartedNotification) {
			w.push(n.ProcessID, now(outlog.Entry{Seq: n.Seq, Kind: outlog.Restarted, Restart: &outlog.Restart{Run: n.Run, Reason: n.Reason, Delay: protocol.FromMillis(n.DelayMs), StdinLost: n.StdinLostBytes}}))
		})
	case protocol.NotifyReady:
		return take(decode, func(n *protocol.ReadyNotification) {
			w.push(n.ProcessID, now(outlog.Entry{Seq: n.Seq, Kind: outlog.Ready, Restart: &outlog.Restart{Run: n.Run}}))
		})
	case protocol.NotifyEvicted:
		return take(decode, func(n *protocol.EvictedNotification) {
			w.push(n.ProcessID, now(outlog.Entry{Seq: n.Seq, Kind: outlog.Evicted, Restart: &outlog.Restart{Reason: n.Reason}}))
		})
	case protocol.NotifyClosed:
		return take(decode, func(n *protocol.ClosedNotification) {
			w.push(n.ProcessID, now(outlog.Entry{Seq: n.Seq, Kind: outlog.Closed}))
		})
	case protocol.NotifyGap:
		return take(decode, func(n *protocol.GapNotification) {
			w.push(n.ProcessID, item{gap: outlog.Gap{From: n.FromSeq, To: n.ToSeq, Bytes: n.Bytes}})
		})
	case protocol.NotifySessionChanged:
		w.root.Send(w.session, looks{})
	case protocol.NotifyGroupChanged:
		return take(decode, func(n *protocol.GroupChangedNotification) {
			w.root.Send(w.session, message.GroupChanged{GroupChangedNotification: *n})
		})
	}
	return nil
}

func entry(e outlog.Entry) item { return item{entry: e} }

// now is entry for an event: its notification has no time.
func now(e outlog.Entry) item {
	e.AtMs = time.Now().UnixMilli()
	return entry(e)
}

// take decodes the params of a notification.
func take[N any](decode func(any) error, do func(*N)) error {
	n := new(N)
	if err := decode(n); err != nil {
		return fmt.Errorf("params: %w", err)
	}
	do(n)
	return nil
}

func (w *wire) push(id string, i item) {
	w.mu.Lock()
	r, ok := w.streams[id]
	tell := !ok && !w.unknown
	w.unknown = w.unknown || !ok
	w.mu.Unlock()
	switch {
	case tell:
		w.root.Send(w.session, looks{})
	case ok && r.stream.push(i):
		w.root.Send(r.pid, arrived{})
	}
}
