// Package oracle checks the events of a process: each byte, each seq, and the order. Package oracle knows nothing of connections: the reader
// of a connection hands the events to a Checker.
package oracle

import (
	"cmp"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// A Kind is the kind of a fault.
type Kind string

const (
	Missing   Kind = "missing"   // bytes of the stream never arrived
	Doubled   Kind = "doubled"   // bytes arrived again
	Reordered Kind = "reordered" // bytes arrived after later bytes
	Altered   Kind = "altered"   // bytes arrived with other values
	Foreign   Kind = "foreign"   // bytes without a place in the stream
	SeqHole   Kind = "seq hole"  // a seq was left out
	SeqAgain  Kind = "seq again" // a seq came twice or went back
	Order     Kind = "order"     // events in a wrong order: closed before exited, output after closed, a second exited
	Exit      Kind = "exit"      // another exit code or signal than the program's
	LostExit  Kind = "lost exit" // exited or closed never came
	Stdin     Kind = "stdin"     // the program read other bytes than the server accepted
	Left      Kind = "left"      // something of the process is still there after its end
	Answer    Kind = "answer"    // the server gave a forbidden answer
)

// A Finding is a fault and its place.
type Finding struct {
	Kind    Kind            `json:"kind"`
	Server  string          `json:"server,omitempty"`
	Session string          `json:"session"`
	Process string          `json:"process"`
	Run     int             `json:"run"`
	Stream  protocol.Stream `json:"stream,omitempty"`
	Offset  int64           `json:"offset"`           // in the stream of the run, in bytes
	Bytes   int64           `json:"bytes,omitempty"`  // how many bytes are wrong
	Seq     uint64          `json:"seq"`              // of the event that showed the fault
	At      time.Duration   `json:"at"`               // since the begin of the load run, in nanoseconds
	Want    string          `json:"want,omitempty"`   // quoted, at most 64 bytes
	Got     string          `json:"got,omitempty"`    // quoted, at most 64 bytes
	Detail  string          `json:"detail,omitempty"` // a sentence for people
	Cuts    int             `json:"cuts"`             // of the session's connections before the finding
	Spec    *Spec           `json:"spec,omitempty"`   // the expected behaviour of the process
	Replay  []Event         `json:"replay,omitempty"` // the events that show the finding, for Replay
	File    string          `json:"file,omitempty"`   // in a result that was merged: the file of the run's result
}

// An Event is an event of a process, as received by a client.
type Event struct {
	Kind   string          `json:"kind"` // output, exited, closed, restarted, resumed; gap, ready, evicted if asked for
	Seq    uint64          `json:"seq"`
	Stream protocol.Stream `json:"stream,omitempty"`
	Data   []byte          `json:"data,omitempty"`
	Code   int             `json:"code,omitempty"`
	Signal string          `json:"signal,omitempty"`
	Run    int             `json:"run,omitempty"`
	Reason string          `json:"reason,omitempty"` // of exited: why the server ended the run, or that the kernel did for want of memory
	From   uint64          `json:"from,omitempty"`   // of gap: the first dropped seq; Seq is the last dropped seq
	Bytes  uint64          `json:"bytes,omitempty"`  // of gap: how much output was dropped; 0: unknown

	// Only in the replay of a finding, in an event "begin": the state at the begin of the check.
	Offset int64  `json:"offset,omitempty"` // of the next byte of Stream in the run
	Number uint64 `json:"number,omitempty"` // the number of the run, chosen by the run
	State  string `json:"state,omitempty"`  // exited or closed, if such an event came before; see closedAlone
}

// first is the first seq that the event stands for: a gap stands for several.
func (e *Event) first() uint64 { return cmp.Or(e.From, e.Seq) }
