package actors

import (
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/message"
)

// Config has the options of a troupe, which package actors/config documents. The zero Config is a good
// one.
type Config = config.Config

// Conn is a transport connection as the troupe uses it. The types of package transport are Conns.
// Package actors/message documents the methods.
type Conn = message.Conn

// The messages that an actor of the host exchanges with a troupe. Package actors/message documents their
// fields.
type (
	// Identity is who a client is, for Attach. The zero Identity is every client of a host that asks for no credential.
	Identity = message.Identity
	// Guest is for Identity: whoever has the token of a share.
	Guest = message.Guest

	// Attach goes to Troupe.PID: the sender becomes owner or observer of a session. Attached answers,
	// or a Reply with an error.
	Attach = message.Attach
	// Attached comes from a session: the receiver is attached. It names the actor of the session,
	// for Requests, and all processes.
	Attached = message.Attached
	// Request goes to a session or to a process: a call of the wire. Reply answers.
	Request = message.Request
	// Reply answers a Request, and an Attach that has failed.
	Reply = message.Reply
	// StartResult is the Result of a Reply to protocol.ProcessStartParams.
	StartResult = message.StartResult
	// GroupStarted is the Result of a Reply to protocol.GroupStartParams.
	GroupStarted = message.GroupStarted
	// ProcessRef names a process: by the client's id, and by its actor.
	ProcessRef = message.ProcessRef

	// SessionInfoRequest is for Request.Params: a session answers with protocol.SessionInfoResult.
	SessionInfoRequest = message.SessionInfoRequest
	// GroupListRequest is for Request.Params: a session answers with protocol.GroupListResult.
	GroupListRequest = message.GroupListRequest
	// DescribeRequest is for Request.Params: a process answers with protocol.ProcessInfo.
	DescribeRequest = message.DescribeRequest

	// ProcessStarting comes from a session: somebody else starts a process. ProcessAdded or ProcessRemoved follows.
	ProcessStarting = message.ProcessStarting
	// ProcessAdded comes from a session: somebody else has started a process.
	ProcessAdded = message.ProcessAdded
	// ProcessRemoved comes from a session: a process does not answer any more.
	ProcessRemoved = message.ProcessRemoved
	// GroupChanged comes from a session: a group has another state.
	GroupChanged = message.GroupChanged
	// Evicted comes from a session: the receiver is not attached any more.
	Evicted = message.Evicted
	// Expiring comes from a session: the session is about to end.
	Expiring = message.Expiring

	// Subscribe goes to a process: the sender becomes a viewer of the log, or moves its cursor.
	Subscribe = message.Subscribe
	// Pull goes to a process: send a viewer the next Delivery.
	Pull = message.Pull
	// Delivery comes from a process and answers a Pull: entries of the log.
	Delivery = message.Delivery
	// Ack goes to a process: the owner keeps these entries from now on, and the log need not.
	Ack = message.Ack
	// Refused comes from a process: a Subscribe starts after the end of the log.
	Refused = message.Refused
	// Unsubscribe goes to a process: the sender is no viewer any more.
	Unsubscribe = message.Unsubscribe
	// Resubscribe comes from a process whose actor was restarted: Subscribe again.
	Resubscribe = message.Resubscribe
)
