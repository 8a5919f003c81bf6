package actors

import (
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/message"
)

// Config has the options of a troupe. The zero Config is a good one.
type Config = config.Config

// Conn is a transport connection, as a troupe uses it.
type Conn = message.Conn

// Messages that an actor of the host sends to a troupe and gets from it.
type (
	Attach             = message.Attach
	Attached           = message.Attached
	ProcessRef         = message.ProcessRef
	Request            = message.Request
	Reply              = message.Reply
	Started            = message.Started
	GroupStarted       = message.GroupStarted
	SessionInfoRequest = message.SessionInfoRequest
	DescribeRequest    = message.DescribeRequest
	ProcessAdded       = message.ProcessAdded
	ProcessRemoved     = message.ProcessRemoved
	GroupListRequest   = message.GroupListRequest
	GroupChanged       = message.GroupChanged
	Evicted            = message.Evicted
	Expiring           = message.Expiring
	Subscribe          = message.Subscribe
	Pull               = message.Pull
	Delivery           = message.Delivery
	Ack                = message.Ack
	Refused            = message.Refused
	Unsubscribe        = message.Unsubscribe
	Resubscribe        = message.Resubscribe
)
