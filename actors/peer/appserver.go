package peer

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/b6f6fdd7/troupe/actors/connection"
	"github.com/b6f6fdd7/troupe/actors/connection/greeting"
	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
)

// appServer is the wire of the app-server. (app-server wire.)
type appServer struct{}

// client is the params of initialize.
type client struct {
	info         protocol.ClientInfo
	experimental bool
	optOut       []string
}

// Begins is for initialize: only the exec-server has clientName.
func (appServer) Begins(c protocol.Codec, params []byte) bool {
	return protocol.HasMember(c, params, "clientInfo") && !protocol.HasMember(c, params, "clientName")
}

// Greeting decodes the params of initialize.
func (appServer) Greeting(c protocol.Codec, params []byte, g *greeting.Greeting) *protocol.Error {
	var p protocol.ClientInfoParams
	if err := connection.Params(c, params, &p); err != nil {
		return err
	}
	g.ClientName, g.Token = p.ClientInfo.Name, p.Token
	g.Client = client{p.ClientInfo, p.Capabilities.ExperimentalAPI, p.Capabilities.OptOutNotificationMethods}
	return nil
}

// Check refuses guests, because the app-server has no session that guests could share, and names that no header of HTTP has.
func (c client) Check(about *identity.About) *protocol.Error {
	control := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
	switch {
	case about.Identity.Guest != nil:
		return protocol.Errorf(protocol.KindRole, protocol.CodeInvalidRequest, "the token of a share is not for clients of the app-server: send initialize with clientName")
	case strings.ContainsFunc(c.info.Name, control):
		return badClientName(c.info.Name)
	}
	return nil
}

// badClientName has no data, because clients compare the whole error with the peer's.
func badClientName(name string) *protocol.Error {
	return &protocol.Error{
		Code:    protocol.CodeInvalidRequest,
		Message: fmt.Sprintf("Invalid clientInfo.name: '%s'. Must be a valid HTTP header value.", wireerr.Clip(name)),
	}
}

func (appServer) Welcome(r connection.Request, g greeting.Greeting, result *protocol.InitializeResult) {
	c, e := g.Client.(client), r.Env()
	stateOf(r).experimental = c.experimental
	r.Refuse(c.optOut)
	result.UserAgent = e.App.UserAgent(c.info, e.Version)
	result.CodexHome = e.App.CodexHome
	result.PlatformFamily, result.PlatformOS = "unix", e.Info.PlatformOS
}

// Shows is for methods that both wires have: a plain path belongs to the app-server.
func (appServer) Shows(c protocol.Codec, params []byte) bool {
	var named struct {
		Path       string `json:"path"`
		SourcePath string `json:"sourcePath"`
	}
	err := c.Unmarshal(params, &named)
	return err == nil && filepath.IsAbs(named.Path+named.SourcePath)
}

func (appServer) Early() *protocol.Error {
	return protocol.Errorf(protocol.KindOrder, protocol.CodeInvalidRequest, "Not initialized")
}

func (appServer) Again() *protocol.Error {
	return protocol.Errorf(protocol.KindOrder, protocol.CodeInvalidRequest, "Already initialized")
}

func (appServer) Unknown(method string, known []string) *protocol.Error {
	return protocol.Errorf(protocol.KindMethod, protocol.CodeInvalidRequest, "Invalid request: unknown variant `%s`, expected one of `%s`", method, strings.Join(known, "`, `"))
}

func (appServer) Wrong(err *protocol.Error) *protocol.Error {
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

// FileError: the app-server has no codes for a missing file and a missing permission.
func (appServer) FileError(err error, e *protocol.Error) {
	_, refused := errors.AsType[*files.Refusal](err)
	if !refused && !errors.Is(err, rules.ErrRefused) && (files.Forbidden(err) || errors.Is(err, fs.ErrNotExist)) {
		e.Code = protocol.CodeInternal
	}
}

// Greetings reads initialize of the app-server's wire.
func Greetings() greeting.Dialect { return appServer{} }
