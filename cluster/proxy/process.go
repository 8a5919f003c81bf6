package proxy

import (
	"math"
	"reflect"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Messages to a process, and who sends them.
type (
	arrived struct{} // the wire: there is something in the stream
	joined  struct { // the answer to process/subscribe
		of   *viewer // nil: of all viewers, after a cut
		info *protocol.ProcessInfo
		err  *protocol.Error
	}
	hasRead struct { // the answer to process/read
		of     *viewer
		after  uint64
		result *protocol.ProcessReadResult
		err    *protocol.Error
	}
	// the session: the node does not have the process any more, if gone, or is out of reach
	end struct{ gone bool }
)

// process stands for a process of another node.
type process struct {
	// Fixed at spawn.
	w        *wire
	id       string
	instance string
	stream   *stream
	ackEvery int64

	// Owned by Receive.
	viewers map[message.Key]*viewer
	joins   int // process/subscribe without an answer
}

// A viewer is an actor after its Subscribe.
type viewer struct {
	// Fixed by Subscribe.
	pid  *actor.PID
	from message.Subscribe

	at      uint64 // the viewer has everything up to here
	pull    int    // bytes; 0: the viewer waits for nothing
	joined  bool   // the node has accepted the Subscribe
	reading bool   // process/read has no answer
}

func (p *process) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Stopping:
		p.w.unroute(p.id, ctx.Self())
		for _, v := range p.viewers {
			ctx.Unwatch(v.pid)
		}
	case message.Request:
		p.request(ctx, m)
	case message.Subscribe:
		if ctx.Sender() != nil && !p.refuses(ctx, m.Wrong()) {
			p.subscribe(ctx, m)
		}
	case message.Pull:
		if v := p.viewer(ctx); v != nil && !p.refuses(ctx, m.Wrong()) {
			v.pull = m.Bytes
			p.serve(ctx, v)
		}
	case message.Ack:
		if v := p.viewer(ctx); v != nil && !p.refuses(ctx, m.Wrong()) {
			p.ack(v, m)
		}
	case message.Unsubscribe:
		p.remove(ctx, ctx.Sender())
	case *actor.Terminated:
		ctx.Send(ctx.Self(), message.Gone{Who: m.Who}) // Terminated overtakes the last Ack, and Gone does not
	case message.Gone:
		p.remove(ctx, m.Who)
	case arrived:
		p.stream.looks()
		p.serveAll(ctx)
	case joined:
		p.joined(ctx, m)
	case hasRead:
		p.read(ctx, m)
	case resumed:
		p.again(ctx)
	case end:
		p.end(ctx, m.gone)
	}
}

// viewer returns the viewer who has sent a message; nil: the sender is no viewer.
func (p *process) viewer(ctx actor.Context) *viewer {
	if ctx.Sender() == nil {
		return nil
	}
	return p.viewers[message.KeyOf(ctx.Sender())]
}

// refuses answers a viewer whose message is wrong.
func (p *process) refuses(ctx actor.Context, err *protocol.Error) bool {
	if err != nil {
		ctx.Respond(message.Refused{Process: p.id, Err: err})
	}
	return err != nil
}

func (p *process) subscribe(ctx actor.Context, m message.Subscribe) {
	if m.Acked {
		p.refuses(ctx, unsupported("Acked of a Subscribe is not supported for a process of another node: name the seq in After"))
		return
	}
	v := &viewer{pid: ctx.Sender(), from: m, at: m.After, pull: m.Pull}
	if m.Now {
		v.at = p.stream.end()
	}
	p.viewers[message.KeyOf(v.pid)] = v
	p.stream.watch(true)
	ctx.Watch(v.pid)
	p.join(ctx, v, p.stream.from(v.at))
}

func (p *process) remove(ctx actor.Context, pid *actor.PID) {
	if pid == nil || p.viewers[message.KeyOf(pid)] == nil {
		return
	}
	delete(p.viewers, message.KeyOf(pid))
	ctx.Unwatch(pid)
	p.stream.watch(len(p.viewers) > 0)
	p.trim()
}

// join has the node send all entries after a seq.
func (p *process) join(ctx actor.Context, v *viewer, after uint64) {
	params := protocol.ProcessSubscribeParams{ProcessID: p.id, AfterSeq: after, OfInstance: protocol.OfInstance{Instance: p.instance}}
	for _, v := range p.viewers {
		params.Hold = params.Hold || v.from.Hold
	}
	info := new(protocol.ProcessInfo)
	stream, self, root := p.stream, ctx.Self(), p.w.root
	p.joins++
	p.w.call(protocol.MethodProcessSubscribe, params, info, func(err *protocol.Error) {
		if err == nil { // before the notifications that follow the answer
			stream.begin(after, info.NextSeq-1)
			stream.knows(info.NextSeq-1, info.State == string(protocol.StateClosed))
		}
		root.Send(self, joined{v, info, err})
	})
}

func (p *process) joined(ctx actor.Context, m joined) {
	p.joins--
	v := m.of
	if v != nil && p.viewers[message.KeyOf(v.pid)] != v {
		return // v has left, or has subscribed again
	}
	if m.err != nil {
		p.failed(ctx, v, m.err)
		return
	}
	if v == nil {
		p.serveAll(ctx)
		return
	}
	last := m.info.NextSeq - 1
	if v.from.Now {
		v.at = last
	}
	if v.at > last {
		p.failed(ctx, v, protocol.WrongParams("process %s has no seq %d yet, the last is %d", p.id, v.at, last))
		return
	}
	v.joined = true
	if v.from.Owner && !v.from.Explicit && !v.from.Resumed && !v.from.Now {
		p.ack(v, message.Ack{To: v.at})
	}
	p.serve(ctx, v)
}

// failed is for a viewer whom the node has refused. Nil v: all viewers.
func (p *process) failed(ctx actor.Context, v *viewer, err *protocol.Error) {
	switch err.Kind() {
	case protocol.KindUnknownProcess: // the session asks for the list
		ctx.Send(ctx.Parent(), looks{})
	case protocol.KindEnded: // the session ends the process
	default:
		for _, other := range p.viewers {
			if v == nil || v == other {
				ctx.Request(other.pid, message.Refused{Process: p.id, Err: err})
				p.remove(ctx, other.pid)
			}
		}
	}
}

// again has the stream go on after a cut.
func (p *process) again(ctx actor.Context) {
	if at, ok := p.first(); ok && p.joins == 0 {
		p.join(ctx, nil, p.stream.from(at))
	}
	if acked := p.stream.ack(0); acked > 0 {
		p.w.client.Acknowledge(p.id, acked)
	}
}

// first returns up to where all viewers have the entries; ok is false if there is no viewer.
func (p *process) first() (at uint64, ok bool) {
	at = math.MaxUint64
	for _, v := range p.viewers {
		at = min(at, v.at)
	}
	return at, len(p.viewers) > 0
}

func (p *process) trim() {
	if at, ok := p.first(); ok {
		p.stream.trim(at)
	}
}

// ack passes on the Ack of an owner, or of a viewer with Hold. If From leaves a hole after the acknowledged entries, the Ack does not count.
func (p *process) ack(v *viewer, m message.Ack) {
	if (v.from.Owner || v.from.Hold) && m.From <= max(p.stream.ack(0), v.from.After) && m.To > p.stream.ack(0) {
		p.w.client.Acknowledge(p.id, p.stream.ack(m.To))
	}
}

func (p *process) serveAll(ctx actor.Context) {
	for _, v := range p.viewers {
		p.serve(ctx, v)
	}
}

// serve answers the Pull of v from the stream, or reads entries that the stream has dropped.
func (p *process) serve(ctx actor.Context, v *viewer) {
	if !v.joined || v.pull == 0 || v.reading {
		return
	}
	gap, entries, behind := p.stream.take(v.at, v.pull)
	switch {
	case !behind:
		p.deliver(ctx, v, gap, entries, false)
	case !p.stream.comes(v.at):
		p.fetch(ctx, v)
	}
}

// deliver sends v the entries, if there are any, and reports whether there were.
func (p *process) deliver(ctx actor.Context, v *viewer, gap outlog.Gap, entries []outlog.Entry, cut bool) bool {
	switch n := len(entries); {
	case n > 0:
		v.at = entries[n-1].Seq
	case gap.From != 0:
		v.at = gap.To
	default:
		return false
	}
	v.pull = 0
	ctx.Request(v.pid, message.Delivery{Process: p.id, Cut: cut, Gap: gap, Entries: entries, AckEvery: p.ackEvery})
	p.trim()
	return true
}

// fetch reads the next entries of v from the node.
func (p *process) fetch(ctx actor.Context, v *viewer) {
	v.reading = true
	m := hasRead{of: v, after: v.at, result: new(protocol.ProcessReadResult)}
	params := protocol.ProcessReadParams{ProcessID: p.id, AfterSeq: v.at, MaxBytes: new(uint64(v.pull)), Detail: protocol.ReadTimes, OfInstance: protocol.OfInstance{Instance: p.instance}}
	self, root := ctx.Self(), p.w.root
	p.w.call(protocol.MethodProcessRead, params, m.result, func(err *protocol.Error) {
		m.err = err
		root.Send(self, m)
	})
}

func (p *process) read(ctx actor.Context, m hasRead) {
	v := m.of
	v.reading = false
	if p.viewers[message.KeyOf(v.pid)] != v || v.pull == 0 {
		return
	}
	if m.err != nil {
		p.failed(ctx, v, m.err)
		return
	}
	gap, entries, _ := collect(itemsOf(m.result, m.after), m.after, math.MaxInt)
	p.deliver(ctx, v, gap, entries, false)
}

// itemsOf returns the items in the answer to a process/read after a seq. A hole is a gap.
func itemsOf(r *protocol.ProcessReadResult, after uint64) (items []item) {
	next := after + 1
	add := func(i item) {
		if seq := i.first(); seq > next {
			items = append(items, item{gap: outlog.Gap{From: next, To: seq - 1}})
		}
		items, next = append(items, i), i.end()+1
	}
	chunks, events := r.Chunks, r.Events
	for len(chunks)+len(events) > 0 {
		if len(events) == 0 || len(chunks) > 0 && chunks[0].Seq < events[0].Seq {
			e := outlog.Entry{Seq: chunks[0].Seq, Kind: outlog.Output, Stream: chunks[0].Stream, Data: chunks[0].Chunk}
			if i := len(r.Chunks) - len(chunks); i < len(r.TimesMs) {
				e.AtMs = r.TimesMs[i]
			}
			add(entry(e))
			chunks = chunks[1:]
			continue
		}
		add(entry(eventOf(r, &events[0])))
		events = events[1:]
	}
	if r.NextSeq > next {
		items = append(items, item{gap: outlog.Gap{From: next, To: r.NextSeq - 1}})
	}
	return items
}

func eventOf(r *protocol.ProcessReadResult, e *protocol.ReadEvent) outlog.Entry {
	entry := outlog.Entry{Seq: e.Seq, AtMs: e.AtMs, Status: e.Status}
	switch e.Kind {
	case protocol.EventExited:
		entry.Kind, entry.Denied = outlog.Exited, r.SandboxDenied
		if entry.Status != nil && entry.Status.Run == 0 {
			entry.Status.Run = e.Run
		}
	case protocol.EventRestarted:
		entry.Kind, entry.Restart = outlog.Restarted, &outlog.Restart{Run: e.Run, Reason: e.Reason}
	case protocol.EventReady:
		entry.Kind, entry.Restart = outlog.Ready, &outlog.Restart{Run: e.Run}
	case protocol.EventEvicted:
		entry.Kind, entry.Restart = outlog.Evicted, &outlog.Restart{Reason: e.Reason}
	case protocol.EventClosed:
		entry.Kind = outlog.Closed
	}
	return entry
}

// end sends each viewer the rest of the stream, with or without a Pull, and stops.
func (p *process) end(ctx actor.Context, gone bool) {
	for _, v := range p.viewers {
		if !v.joined {
			continue
		}
		for more := true; more; {
			gap, entries := p.stream.rest(v.at, 128<<10, gone)
			more = p.deliver(ctx, v, gap, entries, true)
		}
	}
	ctx.Poison(ctx.Self())
}

func (p *process) request(ctx actor.Context, m message.Request) {
	sender := ctx.Sender()
	if sender == nil {
		return
	}
	if m.Guest != "" {
		ctx.Respond(m.Failed(unsupported("Guest is %q: what a guest asks goes over the connection of the guest", m.Guest)))
		return
	}
	if err := m.Wrong(); err != nil {
		ctx.Respond(m.Failed(err))
		return
	}
	if about, ok := m.Params.(protocol.AboutProcess); ok && about.Process() != "" && about.Process() != p.id {
		ctx.Respond(m.Failed(protocol.WrongParams("processId is %q, and this actor is process %s: send the request to ProcessRef.PID of that process, or leave ProcessID empty", about.Process(), p.id)))
		return
	}
	how, ok := ofProcess[reflect.TypeOf(m.Params)]
	params := m.Params
	var then func(*message.Reply)
	switch asked := m.Params.(type) {
	case message.InspectRequest:
		how, params, ok = ofProcess[reflect.TypeFor[protocol.ProcessInfoParams]()], protocol.ProcessInfoParams{}, true
	case message.DescribeRequest:
		how, params, ok = described, protocol.ProcessInfoParams{}, true
	case protocol.ProcessSubscribeParams: // as at a troupe, only Subscribe moves a cursor
		how, params, ok = described, protocol.ProcessInfoParams{}, true
		then = func(r *message.Reply) {
			if info, _ := r.Result.(protocol.ProcessInfo); r.Err == nil && asked.AfterSeq >= info.NextSeq {
				r.Result, r.Err = nil, protocol.WrongParams("process %s has no seq %d yet, the last is %d", p.id, asked.AfterSeq, info.NextSeq-1)
			}
		}
	case protocol.ProcessReadParams:
		if v := p.viewer(ctx); v != nil && v.from.Owner && !v.from.Explicit {
			p.ack(v, message.Ack{To: min(asked.AfterSeq, p.stream.end())})
		}
		then = func(r *message.Reply) {
			if result, ok := r.Result.(protocol.ProcessReadResult); ok {
				r.From, r.To = asked.AfterSeq, max(result.NextSeq, 1)-1
			}
		}
	}
	if !ok {
		ctx.Respond(m.Failed(unsupported("a process of another node does not answer %T", m.Params)))
		return
	}
	session, root := ctx.Parent(), p.w.root
	p.w.ask(m, how, filled(params, p.id), func(r message.Reply) {
		if then != nil {
			then(&r)
		}
		if r.Err != nil && r.Err.Kind() == protocol.KindUnknownProcess {
			root.Send(session, looks{})
		}
		root.Send(sender, r)
	})
}

// described is process/info for who asks for less.
var described = method{
	name:   protocol.MethodProcessInfo,
	result: func() any { return new(protocol.ProcessInfoResult) },
	reply:  func(r any) any { return r.(*protocol.ProcessInfoResult).ProcessInfo },
}
