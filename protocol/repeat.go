package protocol

import "fmt"

// maxRequestID bounds a RequestID, in bytes.
const maxRequestID = 1 << 10

// Repeatable is embedded in the params of requests that change something and may be sent again.
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
