package protocol

import "time"

// Codes of Close frames, for both sides (RFC 6455 §7.4.1; from 4000 on ours). For each code,
// PROTOCOL.md says how a client reacts.
const (
	CloseNormal        = 1000
	CloseGoingAway     = 1001 // the server shuts down
	CloseProtocolError = 1002 // the other side broke the protocol; a client does not reconnect
	ClosePolicy        = 1008
	CloseTooBig        = 1009
	CloseInternalError = 1011
	CloseTryLater      = 1013
	CloseEvicted       = 4001 // another client has taken the session over, or the session has ended
	CloseLost          = 4002 // the connection was dead or broke, by nobody's fault; a client resumes
)

// Default limits of a websocket connection.
const (
	MaxFrame   = 16 << 20 // bytes of payload in a frame; exec-server wire §1
	MaxMessage = 64 << 20 // bytes of a message; exec-server wire §1
	PingEvery  = 15 * time.Second
	DeadAfter  = 30 * time.Second // time without a byte from the other side
)

// MaxGreeting is the size of the largest message until initialize has succeeded, in bytes: resumeFrom may
// name 10,000 processes.
const MaxGreeting = 1 << 20
