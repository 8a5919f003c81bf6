package client

import (
	"context"
	"errors"

	"github.com/b6f6fdd7/troupe/protocol"
)

// This file has what concerns a session as a whole: the role in it, its options, and the list of sessions.

// check returns an error for options that contradict each other.
func (o *Options) check() error {
	switch {
	case o.Observe && o.Control:
		return errors.New("client: Observe and Control are both set: a connection has one role, choose one")
	case o.Observe && o.Session == "":
		return errors.New("client: Observe without Session: set the id of the session to observe")
	case o.Control && o.Session == "":
		return errors.New("client: Control without Session: set the id of the session to control")
	case o.Control && o.Takeover:
		return errors.New("client: Control and Takeover are both set: a controller joins beside the owner, leave Takeover out")
	}
	return nil
}

// role returns the role for initialize; "": the owner, or whatever a share allows.
func (o *Options) role() protocol.Role {
	switch {
	case o.Observe:
		return protocol.RoleObserver
	case o.Control:
		return protocol.RoleController
	}
	return ""
}

// beside reports whether the client attaches beside the owner. The server keeps no output for such a client.
func (o *Options) beside() bool { return o.Observe || o.Control }

// Sessions lists the sessions of this identity, and others that it may observe, the oldest first. One request
// is enough for all of them: with protocol.DetailProcesses each has its processes, and with
// protocol.DetailInfo also their usage, viewers, and why they are quiet. With "" List is nil. With
// DetailProcesses only the members of ProcessInfo are set.
func (c *Client) Sessions(ctx context.Context, detail protocol.Detail) ([]protocol.SessionDetails, error) {
	var list protocol.SessionDetailsResult // the other results have fewer members
	err := c.call(ctx, protocol.MethodSessionList, protocol.SessionListParams{Detail: detail}, &list)
	return list.Sessions, err
}
