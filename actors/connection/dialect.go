package connection

import (
	"github.com/b6f6fdd7/troupe/actors/connection/greeting"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A Dialect is a wire beside ours, for clients of another server. The methods of a dialect are rows of the table; some have a form of their
// own in the dialect.
type Dialect interface {
	greeting.Dialect
	// Forms returns the forms of methods, by name.
	Forms() map[string]Handler
	// Shows reports whether params of a method that both wires have, before initialize, are of the dialect.
	Shows(c protocol.Codec, params []byte) bool
	// Welcome completes the answer to an initialize of the dialect. Then the client waits for no initialized.
	Welcome(r Request, g greeting.Greeting, result *protocol.InitializeResult)

	// The errors of a request before initialize, of a second initialize, and of a method that the dialect does not have. known are the
	// methods that it has.
	Early() *protocol.Error
	Again() *protocol.Error
	Unknown(method string, known []string) *protocol.Error
	// FileError changes the error of a call about files that has failed with err.
	FileError(err error, e *protocol.Error)
}

// wire is the protocol that a connection speaks. The first initialize with correct params decides,
// even if the connection then refuses it for another reason: the reader decodes the messages behind
// initialize before the connection has handled initialize.
type wire int

const (
	undecided wire = iota // as ours, unless the message tells
	ours
	dialect
)

// incoming decodes the messages of a connection, in their order. Only the reader uses incoming, so
// every message after initialize is decoded in the right wire.
type incoming struct {
	table  *Table
	codec  protocol.Codec
	wire   wire
	origin string // begins the error of an unreadable frame: where the frame is from, in exec-server's words
}

// originOf returns the origin of the frames from a connection. (exec-server wire §2.)
func originOf(remote string) string {
	if remote == "stdio" {
		return "failed to parse JSON-RPC message from exec-server stdio: "
	}
	return "failed to parse websocket JSON-RPC message from exec-server websocket " + remote + ": "
}

// speaks returns the wire of a message. Before initialize, a message is of the dialect if its method is, or if its params show it.
func (i *incoming) speaks(m *Method, payload []byte) wire {
	d := i.table.dialect
	switch {
	case i.wire != undecided:
		return i.wire
	case m.Name == protocol.MethodInitialize:
		if d != nil && d.Begins(i.codec, payload) {
			return dialect
		}
		return ours
	case m.ours != "" && protocol.HasMember(i.codec, payload, m.ours):
		return undecided
	case m.ofDialect(dialect) && (m.section.OfDialect || m.decode == nil || d.Shows(i.codec, payload)):
		return dialect
	}
	return undecided
}

// in returns the handler of a method in a wire.
func (m *Method) in(w wire) *Handler {
	if w == dialect && m.form != nil {
		return m.form
	}
	return &m.Handler
}

// ofDialect reports whether a method in a wire is one that the dialect has.
func (m *Method) ofDialect(w wire) bool {
	return w == dialect && (m.form != nil || m.section.OfDialect)
}

// unknown returns the error of a method that the dialect does not have.
func (t *Table) unknown(name string) *protocol.Error {
	var known []string
	t.all(func(m *Method) {
		if m.ofDialect(dialect) {
			known = append(known, m.Name)
		}
	})
	return t.dialect.Unknown(wireerr.Clip(name), known)
}
