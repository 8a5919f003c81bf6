package holder

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ServerName is the argv[0] and the name of the main thread of a server with a holder.
const ServerName = "troupe-server"

// ServerOf returns the pid of the server of a holder; 0: the process is no holder, or has no server at the moment, or this system has no lists of
// children in /proc.
func ServerOf(holder int) (pid int) {
	list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", holder))
	for child := range strings.FieldsSeq(string(list)) {
		if name, _ := os.ReadFile("/proc/" + child + "/comm"); string(name) == ServerName+"\n" {
			pid, _ = strconv.Atoi(child)
			return pid
		}
	}
	return 0
}

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
