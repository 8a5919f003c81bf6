package actors

import (
	"strings"

	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
)

// inbound is one decoded frame, from the reader to its connection.
type inbound struct {
	kind   protocol.Kind // 0 when the frame could not be decoded
	id     protocol.ID
	method string
	params any             // as a value of the protocol's type; nil if the method has none here
	err    *protocol.Error // the frame or its params are wrong
	weight int             // what it holds of the admission
}

// Params of methods that have none.
type (
	environmentInfoRequest   struct{}
	environmentStatusRequest struct{}
	listRequest              struct{}
	serverInfoRequest        struct{}
)

// methods decode the params of the requests that we answer, and of the
// notifications that we understand.
var methods = map[string]func(protocol.Codec, []byte) (any, *protocol.Error){
	protocol.MethodInitialize:        initializeParams,
	protocol.MethodInitialized:       ignoring[struct{}],
	protocol.MethodEnvironmentInfo:   none[environmentInfoRequest],
	protocol.MethodEnvironmentStatus: ignoring[environmentStatusRequest],
	protocol.MethodFsReadFile:        params[protocol.FsReadFileParams],
	protocol.MethodFsOpen:            params[protocol.FsOpenParams],
	protocol.MethodFsReadBlock:       params[protocol.FsReadBlockParams],
	protocol.MethodFsWriteBlock:      params[protocol.FsWriteBlockParams],
	protocol.MethodFsClose:           params[protocol.FsCloseParams],
	protocol.MethodFsWriteFile:       writeFileParams,
	protocol.MethodFsCreateDirectory: params[protocol.FsCreateDirectoryParams],
	protocol.MethodFsGetMetadata:     params[protocol.FsGetMetadataParams],
	protocol.MethodFsCanonicalize:    params[protocol.FsCanonicalizeParams],
	protocol.MethodFsReadDirectory:   params[protocol.FsReadDirectoryParams],
	protocol.MethodFsWalk:            params[protocol.FsWalkParams],
	protocol.MethodFsRemove:          params[protocol.FsRemoveParams],
	protocol.MethodFsCopy:            params[protocol.FsCopyParams],
	protocol.MethodFsWatchMissing:    params[protocol.FsWatchMissingParams],
	protocol.MethodHTTPRequest:       params[protocol.HTTPRequestParams],
	protocol.MethodProcessStart:      startParams,
	protocol.MethodProcessRead:       params[protocol.ProcessReadParams],
	protocol.MethodProcessWrite:      params[protocol.ProcessWriteParams],
	protocol.MethodProcessCloseStdin: params[protocol.ProcessCloseStdinParams],
	protocol.MethodProcessResize:     params[protocol.ProcessResizeParams],
	protocol.MethodProcessSignal:     params[protocol.ProcessSignalParams],
	protocol.MethodProcessTerminate:  params[protocol.ProcessTerminateParams],
	protocol.MethodProcessWait:       params[protocol.ProcessWaitParams],
	protocol.MethodProcessRestart:    params[protocol.ProcessRestartParams],
	protocol.MethodProcessSetRestart: params[protocol.ProcessSetRestartParams],
	protocol.MethodProcessInfo:       params[protocol.ProcessInfoParams],
	protocol.MethodProcessList:       ignoring[listRequest],
	protocol.MethodProcessSpawn:      params[protocol.ProcessSpawnParams],
	protocol.MethodProcessWriteStdin: params[protocol.ProcessWriteStdinParams],
	protocol.MethodProcessResizePty:  params[protocol.ProcessResizePtyParams],
	protocol.MethodProcessKill:       params[protocol.ProcessKillParams],

	protocol.MethodCommandExec:          firstWith[protocol.FirstExecParams, protocol.CommandExecParams]("argv"),
	protocol.MethodCommandExecWrite:     firstWith[protocol.FirstExecWriteParams, protocol.CommandExecWriteParams]("sessionId"),
	protocol.MethodCommandExecResize:    params[protocol.CommandExecResizeParams],
	protocol.MethodCommandExecTerminate: firstWith[protocol.FirstExecTerminateParams, protocol.CommandExecTerminateParams]("sessionId"),

	protocol.MethodGroupStart:   groupParams,
	protocol.MethodGroupStop:    params[protocol.GroupStopParams],
	protocol.MethodGroupList:    ignoring[message.GroupListRequest],
	protocol.MethodServerInfo:   ignoring[serverInfoRequest],
	protocol.MethodSessionInfo:  ignoring[message.SessionInfoRequest],
	protocol.MethodSessionClose: optional[protocol.SessionCloseParams],
	protocol.MethodSessionAck:   params[protocol.SessionAckParams],
}

func params[T any](c protocol.Codec, payload []byte) (any, *protocol.Error) {
	var v T
	if err := c.Unmarshal(payload, &v); err != nil {
		return nil, wireerr.From(err)
	}
	return v, nil
}

// initializeParams takes that of the app-server wire, too, which says clientInfo.
func initializeParams(c protocol.Codec, payload []byte) (any, *protocol.Error) {
	if protocol.HasMember(c, payload, "clientInfo") && !protocol.HasMember(c, payload, "clientName") {
		p, err := params[protocol.ClientInfoParams](c, payload)
		if err != nil {
			return nil, err
		}
		info := p.(protocol.ClientInfoParams).ClientInfo
		return protocol.InitializeParams{ClientName: info.Name, ClientInfo: &info}, nil
	}
	return params[protocol.InitializeParams](c, payload)
}

// firstWith are params of the first exec-server wire if they have that member.
func firstWith[First, Else any](member string) func(protocol.Codec, []byte) (any, *protocol.Error) {
	return func(c protocol.Codec, payload []byte) (any, *protocol.Error) {
		if protocol.HasMember(c, payload, member) {
			return params[First](c, payload)
		}
		return params[Else](c, payload)
	}
}

// writeFileParams has an error of its own for what is not base64. (exec-server wire §8.)
func writeFileParams(c protocol.Codec, payload []byte) (any, *protocol.Error) {
	v, err := params[protocol.FsWriteFileParams](c, payload)
	if err != nil {
		if _, what, ok := strings.Cut(err.Message, "invalid base64: "); ok {
			what, _, _ = strings.Cut(what, ", in ")
			err = protocol.Errorf(protocol.CodeInvalidRequest, "fs/writeFile requires valid base64 dataBase64: Invalid %s.", what)
		}
	}
	return v, err
}

// optional takes absent params for the zero T.
func optional[T any](c protocol.Codec, payload []byte) (any, *protocol.Error) {
	if payload == nil {
		var v T
		return v, nil
	}
	return params[T](c, payload)
}

func none[T any](c protocol.Codec, payload []byte) (any, *protocol.Error) {
	_, err := params[protocol.NoParams](c, payload)
	var v T
	return v, err
}

func ignoring[T any](protocol.Codec, []byte) (any, *protocol.Error) {
	var v T
	return v, nil
}

// codecOf is the codec that a subprotocol stands for.
func codecOf(subprotocol string) protocol.Codec {
	if subprotocol == "troupe."+protocol.Msgpack.Name() {
		return protocol.Msgpack
	}
	return protocol.JSON
}

// decode makes sense of one frame. What it returns does not alias it.
func decode(codec protocol.Codec, frame []byte) inbound {
	in := inbound{weight: max(len(frame), 1)}
	msg, err := codec.Decode(frame)
	if err != nil {
		in.id, in.err = protocol.InvalidID, wireerr.From(err)
		return in
	}
	in.kind, in.id, in.method = msg.Kind, msg.ID, msg.Method
	if f := methods[msg.Method]; f != nil && (msg.Kind == protocol.Request || msg.Kind == protocol.Notification) {
		in.params, in.err = f(codec, msg.Payload)
		in.weight = max(in.weight, footprint(in.params))
	}
	return in
}

// changes reports whether a request changes something: an observer may not.
func changes(in inbound) bool {
	if open, ok := in.params.(protocol.FsOpenParams); ok {
		return open.Mode == protocol.FsReplace
	}
	return protocol.Changes(in.method)
}

// filesystem is the family of the methods about files.
const filesystem = "filesystem"

// familyOf says what a method is one of, as the errors of the handshake name it,
// "" if it is of none; and whether we have it.
func familyOf(method string) (family string, known bool) {
	_, known = methods[method]
	switch prefix, _, _ := strings.Cut(method, "/"); {
	case prefix == "fs": // order first, as the peer: its clients ask early
		return filesystem, known
	case prefix == "http":
		return "http", known
	case !known:
		return "", false
	case prefix == "environment":
		return "environment info", known
	default:
		return "exec", known
	}
}
