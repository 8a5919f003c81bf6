package message

// CommandPrefix begins the name of a command's actor.
const CommandPrefix = "command-"

// Messages between a connection and its commands, beside those of messages.go. To its connection a
// command is much like a process, which answers each Pull with a Parcel.
type (
	// StartCommand is in the first Request of the connection. Later ones have a dialect.Call.
	StartCommand struct{}

	// Parcel is for the connection, which passes it to the writer.
	Parcel struct {
		Notes []Note
		// Answer has the token of the start, and its result. Nil: the start was answered, or will
		// be answered later.
		Answer *Reply
		// Release gives back what the Parcel holds, once it was written or nobody will write it.
		// Nil: the Parcel holds nothing.
		Release  func()
		Bytes    int64  // of output
		To       uint64 // seq of the process: for an Ack
		AckEvery int64  // as that of a Delivery
		Last     bool   // the Parcel tells the end
	}

	// Note is a notification.
	Note struct {
		Method string
		Params any
	}
)

func (m Parcel) GiveBack() {
	if m.Release != nil {
		m.Release()
	}
}
