package message

// Messages between a connection and its commands, beside those of messages.go: to the connection
// a command is much like a process.
type (
	StartCommand struct{} // in a Request

)
