package protocol

import "fmt"

// maxRequestID bounds a RequestID, in bytes.
const maxRequestID = 1 << 10

// Repeatable is embedded in the params of requests which change something and which a client may send
// again.
type Repeatable struct {
	// RequestID makes a request repeatable. A second request with the same id and method, for the
	// same process or session, gets the answer of the first, and does nothing. At most 1,024 bytes;
	// empty means none.
	RequestID string `json:"requestId,omitempty"`
}

// Validate refuses an id too long to remember.
func (r Repeatable) Validate() error {
	if n := len(r.RequestID); n > maxRequestID {
		return within("requestId", fmt.Errorf("%d bytes, the limit is %d", n, maxRequestID))
	}
	return nil
}

// Repeats returns the RequestID.
func (r Repeatable) Repeats() string { return r.RequestID }

// OfRun is embedded in the params of requests for a certain run.
type OfRun struct {
	// Run is the only run for which the request is meant, from 1. If the process is at another run,
	// nothing is done and the result is an OtherRun. 0 means: any run.
	Run uint64 `json:"run,omitempty"`
}

// ForRun returns the Run.
func (r OfRun) ForRun() uint64 { return r.Run }

// OtherRun is the result of a request for a run other than the current run. Nothing was done.
type OtherRun struct {
	Applied bool `json:"applied"` // always false
	Run     int  `json:"run"`     // the current run
}
