package holder

import (
	"syscall"
	"time"
)

// Replaced is Server.Last of a server that follows one that an upgrade has replaced.
const Replaced = "replaced by the binary on disk"

// End is how a program has ended. The zero End means: the program has not ended.
type End struct {
	Ended        bool
	Status       syscall.WaitStatus
	User, System int64 // CPU time, in nanoseconds
	MaxRSS       int64 // in bytes
}

// Found has everything kept under an id.
type Found struct {
	ID    string
	PID   int            // 0: no program was born
	End   End            // zero: the program was not reaped
	Note  string         // the server's own
	Files map[string]int // descriptors by name, closed on exec; they belong to the server
}

// Refusal says that the holder did not replace the present server, although it got SIGHUP. The zero Refusal: there was none.
type Refusal struct {
	At  time.Time
	Why string // "": SIGHUP asks this holder for nothing, because the holder has a terminal, or runs under nohup
}
