package connection

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/protocol"
)

// wire is the protocol that a connection speaks. The first initialize with correct params decides,
// even if the connection then refuses it for another reason: the reader decodes the messages behind
// initialize before the connection has handled initialize.
type wire int

const (
	undecided wire = iota // as execServer, unless the message tells
	execServer
	appServer
)

// incoming decodes the messages of a connection, in their order. Only the reader uses incoming, so
// every message after initialize is decoded in the right wire.
type incoming struct {
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

// speaks returns the wire of a message. Before initialize, plain paths and methods without
// an exec-server belong to the app-server, except requests of the first exec-server wire.
func (i *incoming) speaks(m *method, payload []byte) wire {
	switch {
	case i.wire != undecided:
		return i.wire
	case m.name == protocol.MethodInitialize:
		if protocol.HasMember(i.codec, payload, "clientInfo") && !protocol.HasMember(i.codec, payload, "clientName") {
			return appServer
		}
		return execServer
	case m.first != "" && protocol.HasMember(i.codec, payload, m.first):
		return undecided
	case m.section.wire == appServer || m.app.decode != nil && (m.decode == nil || hasPlainPath(i.codec, payload)):
		return appServer
	}
	return undecided
}

func hasPlainPath(codec protocol.Codec, payload []byte) bool {
	var named struct {
		Path       string `json:"path"`
		SourcePath string `json:"sourcePath"`
	}
	err := codec.Unmarshal(payload, &named)
	return err == nil && filepath.IsAbs(named.Path+named.SourcePath)
}

// in returns the handler of a method in a wire.
func (m *method) in(w wire) *handler {
	if w == appServer && m.app.handle != nil {
		return &m.app
	}
	return &m.handler
}

// ofApp reports whether a method in a wire is one that the app-server has.
func (m *method) ofApp(w wire) bool {
	return w == appServer && (m.app.handle != nil || m.section.wire == appServer)
}

// wrongInApp returns the error of wrong params in the words of the app-server.
func wrongInApp(err *protocol.Error) *protocol.Error {
	if err.Code != protocol.CodeInvalidParams {
		return err
	}
	params, _ := errors.AsType[*protocol.ParamsError](err)
	if params != nil && params.Base64 {
		return protocol.WrongParams("invalid %s: %s", params.Member, err.Message)
	}
	wrong := protocol.Errorf(err.Kind(), protocol.CodeInvalidRequest, "Invalid request: %s", err.Message)
	if params != nil && params.Member != "" {
		wrong.Advise("correct the member %s of the params", params.Member)
	}
	return wrong
}

// unknownInApp returns the error of an unknown method in the words of the app-server.
func unknownInApp(name string) *protocol.Error {
	var known []string
	for i := range table {
		for j := range table[i].methods {
			if m := &table[i].methods[j]; m.ofApp(appServer) {
				known = append(known, "`"+m.name+"`")
			}
		}
	}
	return protocol.Errorf(protocol.KindMethod, protocol.CodeInvalidRequest, "Invalid request: unknown variant `%s`, expected one of %s", wireerr.Clip(name), strings.Join(known, ", "))
}
