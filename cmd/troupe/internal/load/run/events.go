//go:build unix

package run

import (
	"cmp"
	"context"
	"net"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/chaos"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/internal/rpc"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// readBuffer is the read buffer of a connection. It is small because a load has thousands of connections. Larger reads bypass the
	// buffer.
	readBuffer = 16 << 10

	// A larger buffer is not kept for reuse.
	keptBuffer = 256 << 10
)

// A take gets the events of processes in their order, on the reading goroutine of a connection. The event and its Data are valid until take
// returns. Every server sends output, exited and closed. Our server also sends evicted, and restarted, gap and ready if InitializeParams ask for
// them.
type take func(process string, e *oracle.Event, at time.Time)

// dialEvents opens a connection that hides nothing: repeated events, holes and ends reach the caller unchanged. dial opens its socket. ended is
// called once, after the last call of take.
func (e *engine) dialEvents(ctx context.Context, server string, dial netDial, t take, ended func(error)) (*rpc.Client, error) {
	o, err := e.transport(server)
	if err != nil {
		return nil, err
	}
	var socket net.Conn
	o.ReadBuffer = readBuffer
	o.NetDial = func(ctx context.Context, network, addr string) (c net.Conn, err error) {
		socket, err = dial(ctx, network, addr)
		return socket, err
	}
	conn, err := rpc.Dial(ctx, server, e.plan.Encoding, o)
	if err != nil {
		return nil, err
	}
	chaos.Greets(socket)
	return rpc.NewClient(conn, rpc.Handlers{Notified: (&events{codec: conn.Codec, take: t}).notified, Ended: ended}), nil
}

// netDial is as in transport.DialOptions.
type netDial = func(ctx context.Context, network, addr string) (net.Conn, error)

// events makes events of notifications. The reading goroutine of a connection owns it.
type events struct {
	codec  protocol.Codec
	take   take
	output protocol.OutputNotification
	e      oracle.Event
}

// notified hands an event of a process to take. Other notifications are ignored.
func (v *events) notified(m protocol.Message, at time.Time) error {
	var (
		e       = &v.e
		process string
		err     error
	)
	*e = oracle.Event{}
	switch m.Method {
	case protocol.NotifyOutput:
		o := &v.output // with the id of the last output: of the same process, it allocates nothing
		err = v.codec.Unmarshal(m.Payload, o)
		process = o.ProcessID
		e.Kind, e.Seq, e.Stream, e.Data = "output", o.Seq, o.Stream, o.Chunk
	case protocol.NotifyExited:
		var n protocol.ExitedNotification
		err = v.codec.Unmarshal(m.Payload, &n)
		process = n.ProcessID
		e.Kind, e.Seq, e.Code, e.Signal, e.Run, e.Reason = "exited", n.Seq, n.ExitCode, n.Signal, n.Run, n.Reason
		if n.OOMKilled {
			e.Reason = cmp.Or(e.Reason, "out of memory")
		}
	case protocol.NotifyClosed:
		var n protocol.ClosedNotification
		err = v.codec.Unmarshal(m.Payload, &n)
		process = n.ProcessID
		e.Kind, e.Seq = "closed", n.Seq
	case protocol.NotifyRestarted:
		var n protocol.RestartedNotification
		err = v.codec.Unmarshal(m.Payload, &n)
		process = n.ProcessID
		e.Kind, e.Seq, e.Run = "restarted", n.Seq, n.Run
	case protocol.NotifyReady:
		var n protocol.ReadyNotification
		err = v.codec.Unmarshal(m.Payload, &n)
		process = n.ProcessID
		e.Kind, e.Seq, e.Run = "ready", n.Seq, n.Run
	case protocol.NotifyGap:
		var n protocol.GapNotification
		err = v.codec.Unmarshal(m.Payload, &n)
		process = n.ProcessID
		e.Kind, e.From, e.Seq, e.Bytes = "gap", n.FromSeq, n.ToSeq, n.Bytes
	case protocol.NotifyEvicted:
		var n protocol.EvictedNotification
		err = v.codec.Unmarshal(m.Payload, &n)
		process = n.ProcessID
		e.Kind, e.Seq = "evicted", n.Seq
	default:
		return nil
	}
	if err != nil {
		return err
	}
	v.take(process, e, at)
	if cap(v.output.Chunk) > keptBuffer {
		v.output.Chunk = nil
	}
	return nil
}
