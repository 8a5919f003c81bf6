package protocol

import "time"

// Codes of Close frames, of both sides (RFC 6455 §7.4.1; from 4000 on ours). PROTOCOL.md says what
// a client does after each.
const (
	CloseNormal        = 1000
	CloseGoingAway     = 1001 // the server shuts down
	CloseProtocolError = 1002 // the other side broke the protocol, and nothing else: clients give up on it
	ClosePolicy        = 1008
	CloseTooBig        = 1009
	CloseInternalError = 1011
	CloseTryLater      = 1013
	CloseEvicted       = 4001 // another client has taken the session over, or the session has ended
	CloseLost          = 4002 // the connection was dead or broke, and nobody is to blame: the client resumes
)

// Limits of a websocket connection, unless the server is told others.
const (
	MaxFrame   = 16 << 20 // bytes of payload in one frame; exec-server wire §1
	MaxMessage = 64 << 20 // bytes of one message; exec-server wire §1
	PingEvery  = 15 * time.Second
	DeadAfter  = 30 * time.Second // without a byte from the other side
)
