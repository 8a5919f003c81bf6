package message

// CommandPrefix begins the name of a command's actor.
const CommandPrefix = "command-"

// StartCommand are the Params of the first Request from a connection to a command: start the program. The
// Params of every later Request are a dialect.Call. Like a process, a command answers each Request
// with a Reply, and each Pull with a Parcel.
type StartCommand struct{}

// Parcel is from a command to its connection, and answers a Pull. The connection passes the Parcel to its
// writer.
type Parcel struct {
	Notes []Note
	// Answer has the token of the start, and its result. Nil: the Parcel does not answer the start.
	Answer *Reply
	// Release gives back the memory of the Parcel. It is called once: when the Parcel was written, or
	// when nobody will write it. Nil: the Parcel holds nothing.
	Release  func()
	Bytes    int64  // of output
	To       uint64 // the last seq of the process in this Parcel, for an Ack
	AckEvery int64  // as in Delivery
	Last     bool   // the Parcel tells the end
}

// GiveBack implements Holder.
func (m Parcel) GiveBack() {
	if m.Release != nil {
		m.Release()
	}
}

// Note is a notification to the client.
type Note struct {
	Method string
	Params any
}
