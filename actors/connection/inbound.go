package connection

import (
	"cmp"
	"errors"
	"time"

	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/internal/meters"
	"github.com/b6f6fdd7/troupe/protocol"
)

// inbound is a decoded frame, from the reader to its connection.
type inbound struct {
	kind protocol.Kind // 0 when the frame could not be decoded
	asked
	method string
	params any             // as a value of the protocol's type; nil if the method has none here
	err    *protocol.Error // the frame or its params are wrong
	entry  *Method         // of a request or notification; nil when the frame could not be decoded
	wire   wire            // that the message speaks
	trace  *protocol.TraceContext
}

// asked is what an answer needs of its request.
type asked struct {
	id     protocol.ID
	weight int         // in the admission; 0: no request
	span   meters.Span // from the request until its answer is written; zero: not measured
}

// Params decodes params of type P.
func Params[P any](c protocol.Codec, payload []byte, p *P) *protocol.Error {
	if err := c.Unmarshal(payload, p); err != nil {
		return wireerr.From(err)
	}
	return nil
}

// WriteFileParams decodes the params of fs/writeFile, with a special error for wrong base64.
// (exec-server wire §8.)
func WriteFileParams(c protocol.Codec, payload []byte, p *protocol.FsWriteFileParams) *protocol.Error {
	err := Params(c, payload, p)
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*protocol.ParamsError](err); ok && wrong.Base64 {
		return protocol.Errorf(protocol.KindParams, protocol.CodeInvalidRequest, "fs/writeFile requires valid base64 dataBase64: %s", err.Message)
	}
	return err
}

// optional decodes params. Absent params are the zero P.
func optional[P any](c protocol.Codec, payload []byte, p *P) *protocol.Error {
	if payload == nil {
		return nil
	}
	return Params(c, payload, p)
}

// ignored leaves the zero P, whatever the params are.
func ignored[P any](protocol.Codec, []byte, *P) *protocol.Error { return nil }

// decode decodes a frame. The result does not alias the frame.
func (i *incoming) decode(frame []byte) inbound {
	in := inbound{asked: asked{weight: max(len(frame), 1)}, wire: i.wire}
	msg, err := i.codec.Decode(frame)
	if err != nil {
		in.id, in.err = protocol.InvalidID, wireerr.From(err)
		in.err.Message = i.origin + in.err.Message
		return in
	}
	in.kind, in.id, in.method = msg.Kind, msg.ID, msg.Method
	if msg.Kind != protocol.Request && msg.Kind != protocol.Notification {
		return in
	}
	in.entry = i.table.method(msg.Method)
	in.wire = i.speaks(in.entry, msg.Payload)
	if h := in.entry.in(in.wire); h.decode != nil {
		in.params, in.err = h.decode(i.codec, msg.Payload)
		in.weight = max(in.weight, footprint(in.params))
	} else if in.wire == dialect && msg.Kind == protocol.Request {
		in.err = i.table.unknown(msg.Method)
	}
	if in.err != nil && in.entry.ofDialect(in.wire) {
		in.err = i.table.dialect.Wrong(in.err)
	}
	if in.trace = msg.Trace; in.trace != nil {
		in.params = traced(in.params, in.trace)
	}
	if in.err == nil && i.wire == undecided && msg.Method == protocol.MethodInitialize {
		i.wire = in.wire
	}
	return in
}

// traced returns the params of a start that belongs to the trace of its message, unless the params name another one. Other params are returned as they are.
func traced(params any, t *protocol.TraceContext) any {
	switch p := params.(type) {
	case protocol.ProcessStartParams:
		p.Trace = cmp.Or(p.Trace, t)
		return p
	case protocol.GroupStartParams:
		for i := range p.Processes {
			p.Processes[i].Trace = cmp.Or(p.Processes[i].Trace, t)
		}
	}
	return params
}

// count counts a frame read at a time, and begins the span of a request whose time is measured: other requests may wait for a program.
func (in *inbound) count(m *meters.Meters, bytes int, read time.Time) {
	m.Received.Add(bytes)
	switch {
	case in.entry == nil:
		m.Requests.Add("unreadable", 1)
		return
	case in.entry.Name == "":
		m.Requests.Add("unknown", 1)
		return
	}
	m.Requests.Add(in.entry.Name, 1)
	switch {
	case in.kind == protocol.Notification:
	case in.entry.Name == protocol.MethodProcessStart, in.entry.Name == protocol.MethodGroupStart:
		in.span = m.Start.Since(read)
	case in.entry.Name == protocol.MethodProcessWrite:
		in.span = m.Write.Since(read)
	case in.entry.section.About == "file":
		in.span = m.Files.Since(read)
	}
}
