// Package jail runs a program in a sandbox. The server starts the jail, which is the server's own binary again, as
// process 1 of new namespaces. The jail makes the mounts, gives up every privilege, runs the program as process 2, waits
// for the program's end, and reports it. If the Policy leaves files as they are, the jail makes no namespaces and becomes the
// program. With Plan.Serve the jail serves files.
//
// Between server and jail is a socket (SOCK_SEQPACKET of unix(7)), descriptor 3 of the jail. The server sends one byte with
// descriptors: a memfd with the Plan and, with Serve, the socket to serve. The jail sends Reports, one a packet. While
// the jail waits for the Plan, the server gives it its ids, its cgroup, its tag, and its priority.
//
// # Where to look
//
//   - plan.go, main_linux.go: what the jail is told, and what it does, in order
//   - root_linux.go, mounts_linux.go, dev_linux.go, proc_linux.go: the view of files
//   - caps_linux.go, lock_linux.go: capabilities, and what the jail itself gives up
//   - landlock*_linux.go: writing outside the writable directories, signals to other programs, and their sockets (landlock(7))
//   - seccomp_linux*.go: the filter of system calls: the network, tracing, new namespaces, calls newer than the filter
//   - program_linux.go: the program, its end and its signals
package jail

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/b6f6fdd7/troupe/internal/fork"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
)

// Name is the argv[0] of a jail.
const Name = "troupe-jail"

// Plan is all that a jail does. The server sends it as JSON.
type Plan struct {
	Policy sandbox.Policy `json:"policy"`

	// Serve means that the jail runs no program. It serves files: see package actors/files/remote. Then the control message
	// has a second descriptor, the socket to serve, and the jail ends with that socket.
	Serve bool `json:"serve,omitempty"`
	// Complete means that the jail refuses to show the old /proc. See Report.OldProc.
	Complete bool `json:"complete,omitempty"`

	Program string   `json:"-"` // a relative path begins at Dir
	Dir     string   `json:"-"`
	Argv    []string `json:"-"`
	Env     []string `json:"-"`
	TTY     bool     `json:"tty"` // descriptor 0 is the controlling terminal
	// DirDev and DirIno identify Dir, as of stat(2). The jail refuses to start if something else is there. DirIno 0: any
	// directory will do.
	DirDev uint64 `json:"dirDev,omitempty"`
	DirIno uint64 `json:"dirIno,omitempty"`

	Umask  *uint32      `json:"umask,omitempty"`  // nil: that of the server
	User   *fork.User   `json:"user,omitempty"`   // nil: the user of the jail
	Limits []fork.Limit `json:"limits,omitempty"` // for the program alone

	oldProc bool // as Report.OldProc; enter sets it
}

// The JSON of these strings is base64, because they may have any bytes but NUL, and a string of JSON may not.
type (
	barePlan Plan
	planJSON struct {
		*barePlan
		Policy  *sandbox.Policy `json:"policy"`
		Program []byte          `json:"program"`
		Dir     []byte          `json:"dir"`
		Argv    [][]byte        `json:"argv"`
		Env     [][]byte        `json:"env"`
	}
)

// MarshalJSON keeps every byte of the strings.
func (p Plan) MarshalJSON() ([]byte, error) {
	bare := barePlan(p)
	return json.Marshal(planJSON{&bare, &p.Policy, []byte(p.Program), []byte(p.Dir), toBytes(p.Argv), toBytes(p.Env)})
}

// UnmarshalJSON decodes the result of MarshalJSON. UnmarshalJSON refuses unknown members: a server of another version may
// ask for something that this jail does not do. UnmarshalJSON also refuses a Plan without a Policy: the zero Policy leaves
// files as they are.
func (p *Plan) UnmarshalJSON(text []byte) error {
	var bare barePlan
	j := planJSON{barePlan: &bare}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&j); err != nil {
		return err
	}
	if j.Policy == nil {
		return errors.New("the plan has no policy")
	}
	*p = Plan(bare)
	p.Policy = *j.Policy
	p.Program, p.Dir, p.Argv, p.Env = string(j.Program), string(j.Dir), toStrings(j.Argv), toStrings(j.Env)
	return nil
}

func toBytes(all []string) [][]byte {
	b := make([][]byte, len(all))
	for i, s := range all {
		b[i] = []byte(s)
	}
	return b
}

func toStrings(all [][]byte) []string {
	s := make([]string, len(all))
	for i, b := range all {
		s[i] = string(b)
	}
	return s
}

// Report is what a jail tells the server. The first says that the program runs, or why it does not. The second says how
// the program ended. If the Policy leaves files as they are, the jail becomes the program, by execve(2): then the first
// Report comes just before, and the socket ends when the program runs, or a Report with a Failure follows.
type Report struct {
	// Failure is nil if all went well.
	Failure *Failure `json:"failure,omitempty"`
	// Exit is nil in the first Report.
	Exit *Exit `json:"exit,omitempty"`
	// OldProc means, in the first Report, that the sandbox has the old /proc, which is the server's, read-only. The kernel has
	// refused a new one.
	OldProc bool `json:"oldProc,omitempty"`
}

// MaxReport is how many bytes of JSON a Report has at most.
const MaxReport = 16 << 10

// Failure is why no program was started.
type Failure struct {
	Stage string `json:"stage"` // such as "mount of /home/x"; StageExec: the execution of the program
	Errno int    `json:"errno"` // 0: there is none
	Text  string `json:"text"`
}

// Error names the stage and says what is wrong.
func (f *Failure) Error() string { return f.Stage + ": " + f.Text }

// Stages of a Failure whose sandbox was right.
const (
	StageExec  = "exec"      // the program cannot be executed
	StageLimit = "setrlimit" // and the number of the limit
)

// Exit is how a program ended, and what it used, of wait4(2).
type Exit struct {
	Status   uint32 `json:"status"` // the wait status
	UserUs   int64  `json:"userUs"` // µs of CPU in the program
	SystemUs int64  `json:"systemUs"`
	MaxRSS   int64  `json:"maxRss"` // KiB
}
