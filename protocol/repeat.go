package protocol

import (
	"fmt"
	"maps"
)

// Repeat says how a request that changes something is recognized when it is sent again,
// because a cut took its answer. (Ours.)
type Repeat string

const (
	RepeatStartToken Repeat = "startToken" // by the member of that name: answered as the first
	RepeatWriteID    Repeat = "writeId"    // the same
	RepeatRequestID  Repeat = "requestId"  // the same
	// RepeatSession: it ends its session, which cannot be resumed then.
	RepeatSession Repeat = "session"
	// RepeatConnection: what it is about ends with the connection, or is a file. It is not
	// recognized: a client must know whether it may be done twice.
	RepeatConnection Repeat = "connection"
)

// changing has every request that changes something. MethodFsOpen is not in it: that
// depends on its mode.
var changing = map[string]Repeat{
	MethodProcessStart:      RepeatStartToken,
	MethodGroupStart:        RepeatStartToken,
	MethodProcessWrite:      RepeatWriteID,
	MethodProcessCloseStdin: RepeatRequestID,
	MethodProcessResize:     RepeatRequestID,
	MethodProcessSignal:     RepeatRequestID,
	MethodProcessTerminate:  RepeatRequestID,
	MethodProcessRestart:    RepeatRequestID,
	MethodProcessSetRestart: RepeatRequestID,
	MethodGroupStop:         RepeatRequestID,
	MethodSessionClose:      RepeatSession,

	MethodFsWriteFile:       RepeatConnection,
	MethodFsCreateDirectory: RepeatConnection,
	MethodFsRemove:          RepeatConnection,
	MethodFsCopy:            RepeatConnection,
	MethodHTTPRequest:       RepeatConnection,

	MethodProcessSpawn:         RepeatConnection,
	MethodProcessWriteStdin:    RepeatConnection,
	MethodProcessResizePty:     RepeatConnection,
	MethodProcessKill:          RepeatConnection,
	MethodCommandExec:          RepeatConnection,
	MethodCommandExecWrite:     RepeatConnection,
	MethodCommandExecResize:    RepeatConnection,
	MethodCommandExecTerminate: RepeatConnection,
}

// Changing returns every request that changes something, whatever its params.
func Changing() map[string]Repeat { return maps.Clone(changing) }

// Changes reports whether a request changes something, whatever its params.
func Changes(method string) bool {
	_, ok := changing[method]
	return ok
}

// maxRequestID bounds a RequestID, in bytes.
const maxRequestID = 1 << 10

// Repeatable is embedded in the params of requests with RepeatRequestID.
type Repeatable struct {
	// RequestID makes a request repeatable: one with the same id and method, to the same
	// process or session, answers as the first did and does nothing more. At most 1,024
	// bytes; empty means none.
	RequestID string `json:"requestId,omitempty"`
}

// Validate refuses an id that is too long to be remembered.
func (r Repeatable) Validate() error {
	if n := len(r.RequestID); n > maxRequestID {
		return within("requestId", fmt.Errorf("%d bytes, the limit is %d", n, maxRequestID))
	}
	return nil
}

// Repeats returns the RequestID.
func (r Repeatable) Repeats() string { return r.RequestID }

// OfRun is embedded in the params of requests that may be meant for one run.
type OfRun struct {
	// Run is the only run that the request is for, from 1: if the process is at another,
	// nothing is done and the result is an OtherRun. 0: whichever it is at.
	Run uint64 `json:"run,omitempty"`
}

// ForRun returns the Run.
func (r OfRun) ForRun() uint64 { return r.Run }

// OtherRun is the result of a request for a run that the process is not at: nothing was
// done.
type OtherRun struct {
	Applied bool `json:"applied"` // false
	Run     int  `json:"run"`     // that it is at
}
