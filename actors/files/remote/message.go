// Package remote makes the calls about files of a client in a sandbox, or as another user than the server's. The server has a
// Pool of jails: processes with the view of the filesystem of a policy, and with the user of the client, see package
// jail. A Client passes each files.Call to one jail, as JSON, and the jail makes the call with files.Do. So the kernel
// decides what a call may do, and no code of the server repeats the policy.
//
// Server and jail exchange packets over a socket, each a JSON object of at most maxPacket bytes. A larger result comes as
// a file in memory. A jail of the server's user sends an open file as a descriptor, and the server reads and writes that. A
// jail of another user holds the file open, and reads and writes it itself. Otherwise the server, perhaps root, would write
// beyond the quota of the user, keep set-group-ID bits although writes of the user clear them, and read files of /proc as root.
package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// Workers is how many calls a jail makes at a time. The Client sends no more.
	Workers = 16
	// maxPacket bounds a packet, in bytes. The kernel's default buffer of a socket takes several.
	maxPacket = 48 << 10
	// maxChunk bounds the bytes of an opRead or opWrite.
	maxChunk = protocol.FsMaxBlock
	// maxResult bounds the memory that a call takes in the jail, and its result, in bytes as JSON. The results of package
	// files are smaller. A connection has one call with a large result at a time.
	maxResult = 32 << 20
	// maxKept is how many files a jail may keep: new files that wait for their places, and held ones.
	maxKept = 256
	// idleTime is how long a jail waits for another call.
	idleTime = 30 * time.Second
)

// ErrEnded means: the jail ended before it answered. The next call starts another jail.
var ErrEnded = errors.New("the process that serves files has ended before its answer: try again")

type op uint8

const (
	opCall   op = iota + 1 // a files.Call
	opCommit               // of a kept file
	opAbort                // of a kept file
	opRead                 // of a held file
	opWrite                // to a held file: the bytes of the file in memory that comes with the packet
	opCancel               // of the call with the same ID; is not answered
)

// request is a packet to the jail.
type request struct {
	ID     uint64      `json:"id"`
	Op     op          `json:"op"`
	Call   *files.Call `json:"call,omitempty"` // of opCall
	Kept   uint64      `json:"kept,omitempty"` // of opCommit, opAbort, opRead and opWrite
	Offset int64       `json:"offset,omitempty"`
	Len    int         `json:"len,omitempty"` // of opRead and opWrite, in bytes
}

// check refuses paths and targets longer than the kernel takes, so every request fits into a packet. Before a jail looks at a path,
// check visits the path.
func check(c files.Call) error {
	for _, p := range []files.Place{c.At, c.From} {
		if len(p.Path) > files.MaxPath {
			return syscall.ENAMETOOLONG
		}
		if p.Visit == nil {
			continue
		}
		if err := p.Visit(p.Path, true); err != nil {
			return err
		}
	}
	if len(c.Target) > files.MaxPath {
		return syscall.ENAMETOOLONG
	}
	return nil
}

// answer is a packet of the jail.
type answer struct {
	ID     uint64          `json:"id"`
	Err    *files.Packed   `json:"err,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	// InFile means: the descriptor with the packet is a file in memory with the Result.
	InFile bool `json:"inFile,omitempty"`
	// Kept names the file that the jail keeps for opCommit or opAbort; 0: the jail keeps none.
	Kept uint64 `json:"kept,omitempty"`
	// Held means: the jail also holds the file open, for opRead and opWrite. Otherwise the descriptor of the file comes with
	// the packet.
	Held bool  `json:"held,omitempty"`
	Size int64 `json:"size,omitempty"` // as of files.Result
}

func encode(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err == nil && len(data) > maxPacket {
		err = fmt.Errorf("a packet of %d bytes: the most are %d", len(data), maxPacket)
	}
	return data, err
}
