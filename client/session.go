package client

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	case o.Session != "" && (o.Ephemeral || o.KeepRunning || o.SessionName != "" || o.Placement != nil):
		return errors.New("client: SessionName, Ephemeral, KeepRunning and Placement are for a new session: leave Session out, or change it with UpdateSession")
	case o.Ephemeral && (o.KeepRunning || o.DetachedTTL != 0):
		return errors.New("client: Ephemeral contradicts KeepRunning and DetachedTTL: an ephemeral session ends with its connection")
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

// newSession returns the options of a new session for initialize.
func (o *Options) newSession() protocol.SessionOptions {
	p := protocol.SessionOptions{Name: o.SessionName, KeepRunning: o.KeepRunning, Ephemeral: o.Ephemeral}
	if o.DetachedTTL != 0 {
		p.DetachedTTLMs = new(millis(o.DetachedTTL)) // a negative TTL becomes 0, for forever
	}
	return p
}

// SessionUpdate says what UpdateSession changes. A nil member stays as it is.
type SessionUpdate struct {
	Name        *string
	DetachedTTL *time.Duration // negative: forever, if the server allows this; otherwise 1 ms or more
	KeepRunning *bool
	Left        *string // how this client is about to leave, for whoever comes next; at most 1,024 bytes
}

// UpdateSession changes the session of this client. Observers and guests may not.
func (c *Client) UpdateSession(ctx context.Context, u SessionUpdate) error {
	params := protocol.SessionUpdateParams{Name: u.Name, KeepRunning: u.KeepRunning, Left: u.Left, Repeatable: repeatable()}
	if u.DetachedTTL != nil {
		if *u.DetachedTTL == 0 {
			return fmt.Errorf("client: SessionUpdate.DetachedTTL is %v: choose 1 ms or more, or a negative time for forever", *u.DetachedTTL)
		}
		params.DetachedTTLMs = new(millis(*u.DetachedTTL))
	}
	return c.call(ctx, protocol.MethodSessionUpdate, params, nil)
}

// beside reports whether the client attaches beside the owner. The server keeps no output for such a client.
func (o *Options) beside() bool { return o.Observe || o.Control }

// Sessions lists the sessions of this identity, and others that it may observe, the oldest first. One request
// is enough for all of them: with protocol.DetailProcesses each has its processes, and with
// protocol.DetailInfo also their usage, viewers, and why they are quiet. With "" List is nil. With
// DetailProcesses only the members of ProcessInfo are set.
func (c *Client) Sessions(ctx context.Context, detail protocol.Detail) ([]protocol.SessionDetails, error) {
	list, err := c.SessionList(ctx, protocol.SessionListParams{Detail: detail})
	return list.Sessions, err
}

// SessionList is Sessions with all that session/list takes and tells.
func (c *Client) SessionList(ctx context.Context, params protocol.SessionListParams) (protocol.SessionDetailsResult, error) {
	return ask[protocol.SessionDetailsResult](ctx, c, protocol.MethodSessionList, params) // the other results have fewer members
}
